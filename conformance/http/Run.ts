/**
 * A run of the suite against a deployment: one check after another, each with
 * its time, with a word about each as it ends. A run that is interrupted has a
 * report all the same.
 */
import { Cause, Clock, Data, DateTime, Duration, Effect, Exit, Layer } from "effect"
import { NotApplicable } from "../Suite.ts"
import * as Access from "./Access.ts"
import * as Attachments from "./Attachments.ts"
import * as Contract from "./Contract.ts"
import { codeOf, Deployment, type Exchange, make, NoAnswer, type Shape, type Target } from "./Deployment.ts"
import * as Events from "./Events.ts"
import * as Isolation from "./Isolation.ts"
import type { HttpCheck, HttpSuite } from "./HttpCheck.ts"
import { Broken } from "./Law.ts"
import * as Limits from "./Limits.ts"
import * as Mailboxes from "./Mailboxes.ts"
import * as Messages from "./Messages.ts"
import * as Outcomes from "./Outcomes.ts"
import * as Sending from "./Sending.ts"
import * as Traffic from "./Traffic.ts"
import * as Webhooks from "./Webhooks.ts"

/** In the order in which they run: what judges all answers comes behind them, and what uses up the limits last. */
export const suites: ReadonlyArray<HttpSuite> = [
  Access,
  Mailboxes,
  Sending,
  Messages,
  Attachments,
  Events,
  Webhooks,
  Isolation,
  Outcomes,
  Contract,
  Limits
].map(
  ({ suite }) => suite
)

export interface Result {
  readonly suite: string
  readonly title: string
  /** Where the specification says so. */
  readonly law: string
  readonly outcome: "passed" | "failed" | "not_applicable"
  /** Without the waits for the deployment's limits. */
  readonly durationMs: number
  /** Why it failed, or is not applicable. */
  readonly reason: string | null
  /** Of a failure: the request and the answer that broke the law, or the last ones before it was broken. */
  readonly exchanges: ReadonlyArray<Exchange>
}

export interface Report {
  readonly baseUrl: string
  readonly environment: "sandbox" | "production"
  readonly startedAt: string
  readonly durationMs: number
  /** Of it, spent on waiting for the deployment's limits. */
  readonly pacedMs: number
  readonly requests: number
  readonly passed: number
  readonly failed: number
  readonly notApplicable: number
  /** Checks that an interruption left out. */
  readonly notRun: number
  readonly checks: ReadonlyArray<Result>
  /** What the run leaves behind that does not go by itself. */
  readonly left: ReadonlyArray<string>
}

export type Progress =
  | {
    readonly _tag: "Started"
    readonly suite: string
    readonly title: string
    readonly number: number
    readonly total: number
  }
  | { readonly _tag: "Ended"; readonly result: Result; readonly number: number; readonly total: number }
  | { readonly _tag: "Waiting"; readonly seconds: number; readonly scope: string }

export interface Options {
  /** Only checks whose suite, title or law holds one of these texts, in any case; none: all checks. */
  readonly filter: ReadonlyArray<string>
  /** For each check, without the waits for the deployment's limits. */
  readonly timeout: Duration.Input
  readonly onProgress: (progress: Progress) => Effect.Effect<void>
  /** Given the report so far, when the run is interrupted. */
  readonly onInterrupt: (report: Report) => Effect.Effect<void>
}

/** There is nobody at the address, or no longer. */
export class Unreachable
  extends Data.TaggedError("Unreachable")<{ readonly message: string; readonly report: Report | null }> {}

/** The deployment does not take the key. */
export class KeyRefused extends Data.TaggedError("KeyRefused")<{ readonly which: "key" | "otherKey" | "narrowKey" }> {}

/** The filter leaves no check. */
export class NothingToRun extends Data.TaggedError("NothingToRun")<{}> {}

interface Chosen {
  readonly suite: string
  readonly check: HttpCheck
}

const chosen = (filter: ReadonlyArray<string>): ReadonlyArray<Chosen> =>
  suites.flatMap((suite) =>
    suite.checks
      .filter(({ title, law }) => {
        const text = `${suite.name}: ${title} (${law})`.toLowerCase()
        return filter.length === 0 || filter.some((part) => text.includes(part.toLowerCase()))
      })
      .map((check) => ({ suite: suite.name, check }))
  )

/** Runs the checks. Fails only if there is nothing to judge. */
export const run = Effect.fn("conformance.http.run")(function* (target: Target, options: Options) {
  const list = chosen(options.filter)
  if (list.length === 0) return yield* new NothingToRun()
  const deployment = make(target, (wait) => options.onProgress({ _tag: "Waiting", ...wait }))
  const startedAt = yield* Clock.currentTimeMillis
  const results: Array<Result> = []
  const report = Effect.map(Clock.currentTimeMillis, (now): Report => {
    const count = (outcome: Result["outcome"]) => results.filter((result) => result.outcome === outcome).length
    return {
      baseUrl: target.baseUrl,
      environment: deployment.environment,
      startedAt: DateTime.formatIso(DateTime.makeUnsafe(startedAt)),
      durationMs: now - startedAt,
      pacedMs: deployment.pacedMillis(),
      requests: deployment.replies.length,
      passed: count("passed"),
      failed: count("failed"),
      notApplicable: count("not_applicable"),
      notRun: list.length - results.length,
      checks: results,
      left: [...deployment.left, ...messagesOf(deployment)]
    }
  })

  const alive = Effect.forEach(
    ["key", "otherKey", "narrowKey"] as const,
    (which) => (target[which] === null ? Effect.void : admitted(deployment, which))
  )
  yield* alive.pipe(Effect.catchTag("NoAnswer", ({ message }) => new Unreachable({ message, report: null })))

  const services = Layer.effect(Traffic.Traffic, Traffic.make).pipe(
    Layer.provideMerge(Layer.succeed(Deployment, deployment))
  )
  const judge = Effect.gen(function* () {
    // What takes its time in the sandbox is under way while the others run. Whether it can be sent at all, a check says.
    const { outcomes } = yield* Traffic.Traffic
    if (list.some(({ suite }) => suite === "outcomes")) yield* Effect.ignore(outcomes)
    for (const [index, { suite, check }] of list.entries()) {
      const [number, total] = [index + 1, list.length]
      yield* options.onProgress({ _tag: "Started", suite, title: check.title, number, total })
      const { result, isUnanswered } = yield* judged(deployment, suite, check, options.timeout)
      results.push(result)
      yield* options.onProgress({ _tag: "Ended", result, number, total })
      if (!isUnanswered) continue
      // One request may have been unlucky; the next one tells.
      yield* deployment.call({ method: "GET", path: "/v1/mailboxes" }).pipe(
        Effect.catchTag("Exhausted", () => Effect.void),
        Effect.catchTag(
          "NoAnswer",
          ({ message }) => Effect.flatMap(report, (report) => new Unreachable({ message, report }))
        )
      )
    }
    return yield* report
  })
  return yield* judge.pipe(
    Effect.provide(services),
    Effect.raceFirst(deployment.untilScopesMissing),
    Effect.onInterrupt(() => Effect.flatMap(report, options.onInterrupt))
  )
})

/** What it sent; retries and replays are one message. */
const messagesOf = ({ replies }: Shape): ReadonlyArray<string> => {
  const accepted = replies.filter(({ request, status }) =>
    request.method === "POST" && request.path === "/v1/messages" && status === 202
  )
  const count = new Set(accepted.map(({ text }) => text)).size
  return count === 0 ? [] : [`${count} messages in the sandbox`]
}

const admitted = Effect.fnUntraced(function* (deployment: Shape, as: KeyRefused["which"]) {
  const reply = yield* deployment.call({ method: "GET", path: "/v1/mailboxes", as }).pipe(
    Effect.catchTag("Exhausted", ({ message }) => new NoAnswer({ message }))
  )
  if (reply.status >= 300 && reply.status < 400) {
    return yield* new Unreachable({
      message: `it redirects to ${reply.headers["location"] ?? "nowhere"}; give that address`,
      report: null
    })
  }
  if (reply.status === 401 && codeOf(reply) === "unauthorized") return yield* new KeyRefused({ which: as })
})

/** Runs one check, as long as it may take. */
const judged = Effect.fnUntraced(
  function* (deployment: Shape, suite: string, { title, law, check }: HttpCheck, timeout: Duration.Input) {
    const begun = yield* Clock.currentTimeMillis
    const pacedBefore = deployment.pacedMillis()
    const seen = deployment.replies.length
    const spent = Effect.map(Clock.currentTimeMillis, (now) => now - begun - (deployment.pacedMillis() - pacedBefore))
    const most = Duration.toMillis(Duration.fromInputUnsafe(timeout))
    const watch = Effect.gen(function* () {
      for (;;) {
        const left = most - (yield* spent)
        // A wait for the limits counts when it is over; it is not the check's.
        if (left <= 0 && deployment.isWaiting()) yield* Effect.sleep("100 millis")
        else if (left <= 0) {
          return yield* new Broken({
            message: `not judged within ${Duration.format(Duration.millis(most))}`,
            exchange: null
          })
        } else yield* Effect.sleep(left)
      }
    })
    const exit = yield* Effect.exit(Effect.raceFirst(Effect.scoped(check), watch))
    const error: unknown = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
    const last = deployment.replies.slice(seen).slice(-2).map(({ exchange }) => exchange)
    const own = error instanceof Error && "exchange" in error ? (error.exchange as Exchange | null) : null // every error of ours that has one
    const outcome = error === null ? "passed" : error instanceof NotApplicable ? "not_applicable" : "failed"
    const result: Result = {
      suite,
      title,
      law,
      outcome,
      durationMs: yield* spent,
      reason: error === null ? null : deployment.scrub(error instanceof Error ? error.message : String(error)),
      exchanges: (outcome !== "failed" ? [] : own === null ? last : [own]).map(
        ({ request, response }) => ({ request: deployment.scrub(request), response: deployment.scrub(response) })
      )
    }
    return { result, isUnanswered: error instanceof NoAnswer }
  }
)
