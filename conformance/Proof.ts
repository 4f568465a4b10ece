/**
 * Proving adapters outside a test runner: which suites an author holds which
 * adapters to, and the run that tells what each broken law says. A suite's
 * adapter is made once and shared by its checks; a scenario gets a set of its
 * own, for a worker takes whatever jobs its queue holds.
 */
import { Cause, Clock, Data, Duration, Effect, Exit, Fiber, Formatter, Layer, Option, Scope } from "effect"
import { TestClock } from "effect/testing"
import { suite as breaker } from "./scenarios/breaker.ts"
import { suite as crashes } from "./scenarios/crashes.ts"
import { suite as deliveries } from "./scenarios/deliveries.ts"
import { suite as domains } from "./scenarios/domains.ts"
import { suite as fanout } from "./scenarios/fanout.ts"
import { suite as firstAttemptFaults } from "./scenarios/firstAttemptFaults.ts"
import { suite as firstAttempts } from "./scenarios/firstAttempts.ts"
import { suite as handedOver } from "./scenarios/handedOver.ts"
import { suite as handshakes } from "./scenarios/handshakes.ts"
import { suite as idempotency } from "./scenarios/idempotency.ts"
import { suite as interference } from "./scenarios/interference.ts"
import { suite as isolation } from "./scenarios/isolation.ts"
import { suite as limits } from "./scenarios/limits.ts"
import { suite as notifications } from "./scenarios/notifications.ts"
import { suite as outages } from "./scenarios/outages.ts"
import { suite as outcomes } from "./scenarios/outcomes.ts"
import { suite as polls } from "./scenarios/polls.ts"
import { suite as receiving } from "./scenarios/receiving.ts"
import { suite as recipients } from "./scenarios/recipients.ts"
import { suite as relaying } from "./scenarios/relaying.ts"
import { suite as reports } from "./scenarios/reports.ts"
import { suite as retention } from "./scenarios/retention.ts"
import { suite as removals } from "./scenarios/removals.ts"
import { suite as scans } from "./scenarios/scans.ts"
import { suite as secrets } from "./scenarios/secrets.ts"
import { suite as senders } from "./scenarios/senders.ts"
import { suite as shown } from "./scenarios/shown.ts"
import { suite as silentBlobs } from "./scenarios/silentBlobs.ts"
import { suite as slowReceivers } from "./scenarios/slowReceivers.ts"
import { suite as suppressions } from "./scenarios/suppressions.ts"
import { suite as webhookOutages } from "./scenarios/webhookOutages.ts"
import type { AdapterSet } from "./scenarios/World.ts"
import { NotApplicable, type Suite } from "./Suite.ts"

/** All scenarios that are played on a whole adapter set. */
export const scenarios: ReadonlyArray<Suite<AdapterSet>> = [
  outcomes,
  crashes,
  idempotency,
  senders,
  notifications,
  isolation,
  limits,
  shown,
  outages,
  silentBlobs,
  handedOver,
  handshakes,
  deliveries,
  secrets,
  breaker,
  slowReceivers,
  fanout,
  firstAttempts,
  firstAttemptFaults,
  domains,
  webhookOutages,
  receiving,
  recipients,
  reports,
  suppressions,
  scans,
  polls,
  interference,
  relaying,
  retention,
  removals
]

/** A check with all that it needs, but for the scope of what it holds. */
interface Ready {
  readonly title: string
  readonly check: Effect.Effect<void, unknown, Scope.Scope>
}

/** An adapter, or a set of them, and a suite that it is held to. Made by `conforms` and `plays`. */
export interface Proof {
  readonly adapter: string
  readonly suite: string
  readonly titles: ReadonlyArray<string>
  /** Makes the adapter, whose checks can be run until the scope closes. */
  readonly begin: Effect.Effect<ReadonlyArray<Ready>, unknown, Scope.Scope>
}

const titlesOf = <R>({ checks }: Suite<R>): ReadonlyArray<string> => checks.map(({ title }) => title)

/**
 * Holds an adapter to the suite of its port: it is made once, and shared by all checks. `TypeError` for what is no suite, as one
 * is that was not called with its options.
 */
export const conforms = <R, E>(adapter: string, suite: Suite<R>, layer: Layer.Layer<R, E>): Proof => {
  // From JavaScript it may be anything.
  if (!Array.isArray((suite as Partial<Suite<R>> | undefined)?.checks)) {
    const how = typeof suite === "function" ? ", and not a function: this one is called with options first, as in blobStore({ corrupt, held }), or with the layer of an adapter, as in storeAgreement(MemoryStore.layer)" : ""
    throw new TypeError(`conforms(${JSON.stringify(adapter)}, …) wants a suite${how}`)
  }
  return {
    adapter,
    suite: suite.name,
    titles: titlesOf(suite),
    // One clock for all, as for the adapter: a check goes on from where the time of the one before it ended.
    begin: Effect.map(Layer.build(Layer.provideMerge(layer, TestClock.layer())), (services) =>
      suite.checks.map(({ title, check }) => ({ title, check: Effect.provide(check, services) }))
    )
  }
}

/** Plays scenarios on a whole set of adapters, which the layer makes anew, and empty, for each of them. */
export const plays = <E>(
  set: string,
  layer: Layer.Layer<AdapterSet, E>,
  suites: ReadonlyArray<Suite<AdapterSet>> = scenarios
): ReadonlyArray<Proof> =>
  suites.map((suite) => ({
    adapter: set,
    suite: suite.name,
    titles: titlesOf(suite),
    begin: Effect.succeed(
      suite.checks.map(({ title, check }) => ({
        title,
        check: Effect.flatMap(Layer.build(Layer.provideMerge(Layer.fresh(layer), TestClock.layer())), (services) => Effect.provide(check, services))
      }))
    )
  }))

export interface ProofResult {
  readonly adapter: string
  readonly suite: string
  /** The law: the title of its check; `released` if it is none of its suite's. */
  readonly title: string
  /** `not_applicable`: it could not be judged, as in a store that has other work behind it. */
  readonly outcome: "passed" | "failed" | "not_applicable"
  /** What broke it, or kept it from being judged. */
  readonly reason: string | null
  readonly durationMs: number
}

export interface ProofReport {
  readonly passed: number
  readonly failed: number
  readonly notApplicable: number
  readonly durationMs: number
  readonly checks: ReadonlyArray<ProofResult>
}

export interface ProofOptions {
  /** Only checks whose adapter, suite or title holds one of these texts, in any case; none: all checks. */
  readonly filter: ReadonlyArray<string>
  /** For each check, for making an adapter, and for closing the scope of either, on the wall clock. */
  readonly timeout: Duration.Input
  readonly onResult: (result: ProofResult, number: number, total: number) => Effect.Effect<void>
}

/** The law of all adapters, beside those of their suites. It is told of where it is broken. */
const released = "releases what it holds when its scope closes"

/** The filter leaves no check, or there was none. */
export class NothingToProve extends Data.TaggedError("NothingToProve")<{}> {}

const isChosen = (filter: ReadonlyArray<string>, proof: Proof) => (title: string) => {
  const text = `${proof.adapter} ${proof.suite}: ${title}`.toLowerCase()
  return filter.length === 0 || filter.some((part) => text.includes(part.toLowerCase()))
}

/** A check that waits for a failure, and gets a value, fails with that value: it is shown, but not all of it if it is long. */
const shownMax = 1_000

const textOf = (error: unknown): string => {
  if (typeof error === "string") return error
  if (error instanceof Error) return error.message === "" ? error.name : error.message
  const shown = Formatter.format(error)
  return `the check did not expect ${shown.length > shownMax ? `${shown.slice(0, shownMax)} ...` : shown}`
}

/** The error and what is behind it, as far as anybody reads: it may be behind itself. */
const chainOf = (error: unknown): ReadonlyArray<unknown> => {
  const chain = [error]
  for (let last = error; last instanceof Error && last.cause !== undefined && chain.length < 5; last = last.cause) chain.push(last.cause)
  return chain
}

interface SourceLine {
  readonly file: string
  readonly line: string
}

const frame = /^\s*at (?:.*?\()?(?:async )?((?:file:\/\/)?(?:\/|[A-Za-z]:[\\/]).*?):(\d+):\d+\)?$/gm

/** Without the message, which may quote a stack, or what looks like one. */
const framesOf = ({ stack = "", message }: Error): string => {
  const begin = stack.indexOf(message)
  return begin < 0 ? stack : stack.slice(begin + message.length)
}

/** As one opens it; as it stands, if it cannot be decoded. */
const pathOf = (file: string): string => {
  if (!file.startsWith("file:")) return file
  try {
    return decodeURIComponent(new URL(file).pathname).replace(/^\/(?=[A-Za-z]:)/, "")
  } catch {
    return file
  }
}

const placesIn = (error: unknown): ReadonlyArray<SourceLine> =>
  Array.from((error instanceof Error ? framesOf(error) : "").matchAll(frame), ([, file = "", line = ""]) => ({ file: pathOf(file), line }))

/** The file of a suite, from the folder on. */
const suiteFile = /(?<=[\\/])conformance[\\/](?:http[\\/]|scenarios[\\/])?[^\\/]+$/

/** Before the step that called it. What lies in node_modules, as drivers and Effect do, tells an author nothing. */
const ownPlaceIn = (places: ReadonlyArray<SourceLine>): SourceLine | undefined => {
  const step = places.findIndex(({ file }) => suiteFile.test(file))
  return places.slice(0, step < 0 ? places.length : step).find(({ file }) => !/[\\/]node_modules[\\/]/.test(file))
}

/** Where a law broke: the line of the author's own code, as near to the first cause as there is one; and which of its steps it was. */
const placeOf = (error: unknown): string => {
  const stacks = chainOf(error).map(placesIn)
  const own = stacks.map(ownPlaceIn).findLast((place) => place !== undefined)
  const step = stacks[0]?.find(({ file }) => suiteFile.test(file))
  return [
    ...(own === undefined ? [] : [`\nat line ${own.line} of ${own.file}`]),
    ...(step === undefined ? [] : [`\nat line ${step.line} of ${suiteFile.exec(step.file)![0].replaceAll("\\", "/")}`])
  ].join("")
}

const behindIt = (cause: unknown): string => `\ncaused by ${cause instanceof Error ? cause.message || cause.name : Formatter.format(cause)}`

/** What a person wants to know of a failure: the assertion with both sides, what is behind it, and where it was. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return `${textOf(error)}${chainOf(error).slice(1).map(behindIt).join("")}${placeOf(error)}`
}

/** Runs all checks one after another, each on a virtual clock. Fails only if there is nothing to run. */
export const prove = Effect.fn("conformance.prove")(function* (proofs: ReadonlyArray<Proof>, options: ProofOptions) {
  const chosen = proofs
    .map((proof) => ({ proof, titles: proof.titles.filter(isChosen(options.filter, proof)) }))
    .filter(({ titles }) => titles.length > 0)
  let total = chosen.reduce((sum, { titles }) => sum + titles.length, 0)
  if (total === 0) return yield* new NothingToProve()
  const begin = yield* Clock.currentTimeMillis
  const results: Array<ProofResult> = []

  /** What has not ended is interrupted, and waited for as long again: what does not listen is left behind, so that there is a report. */
  const timed = Effect.fnUntraced(function* <A, E, R>(self: Effect.Effect<A, E, R>) {
    const running = yield* Effect.forkDetach(self)
    const within = <B, F>(wait: Effect.Effect<B, F>) => Effect.timeoutOption(wait, options.timeout)
    const end = yield* Effect.onInterrupt(within(Fiber.await(running)), () => within(Fiber.interrupt(running)))
    if (Option.isSome(end)) return yield* end.value
    const isOver = Option.isSome(yield* within(Fiber.interrupt(running)))
    const limit = Duration.format(Duration.fromInputUnsafe(options.timeout))
    return yield* Effect.fail(`it came to no end in ${limit}${isOver ? "" : ", nor when it was interrupted"}`)
  })

  const close = (scope: Scope.Closeable, exit: Exit.Exit<unknown, unknown>) =>
    Effect.catchCause(timed(Scope.close(scope, exit)), (cause) => Effect.fail(`its scope could not be closed: ${reasonOf(cause)}`))

  /** In a scope of its own. What broke the law goes before what kept its scope open. */
  const run = (check: Ready["check"]) =>
    Effect.acquireUseRelease(
      Scope.make(),
      (scope) => timed(Effect.provideService(check, Scope.Scope, scope)),
      (scope, exit) => (Exit.isSuccess(exit) ? close(scope, exit) : Effect.ignore(close(scope, exit)))
    )

  const ended = Effect.fnUntraced(function* ({ adapter, suite }: Proof, title: string, exit: Exit.Exit<void, unknown>, since: number) {
    const durationMs = (yield* Clock.currentTimeMillis) - since
    const of = { adapter, suite, title, durationMs }
    const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
    const result: ProofResult = Exit.isSuccess(exit)
      ? { ...of, outcome: "passed", reason: null }
      : error instanceof NotApplicable
        ? { ...of, outcome: "not_applicable", reason: error.reason }
        : { ...of, outcome: "failed", reason: reasonOf(exit.cause) }
    results.push(result)
    yield* options.onResult(result, results.length, total)
  })

  const playIn = Effect.fnUntraced(function* (scope: Scope.Scope, proof: Proof, titles: ReadonlyArray<string>) {
    const since = yield* Clock.currentTimeMillis
    const ready = yield* Effect.exit(timed(Effect.provideService(proof.begin, Scope.Scope, scope)))
    for (const title of titles) {
      const start = yield* Clock.currentTimeMillis
      const check = Exit.isFailure(ready)
        ? Effect.fail(`the adapter could not be made: ${reasonOf(ready.cause)}`)
        : ready.value.find((one) => one.title === title)!.check // a title of its own suite
      const exit = yield* Effect.exit(run(check))
      yield* ended(proof, title, exit, Exit.isFailure(ready) ? since : start)
    }
  })

  const release = Effect.fnUntraced(function* (scope: Scope.Closeable, proof: Proof) {
    const since = yield* Clock.currentTimeMillis
    const exit = yield* Effect.exit(close(scope, Exit.void))
    if (Exit.isSuccess(exit)) return
    total += 1
    yield* ended(proof, released, exit, since)
  })

  const play = (proof: Proof, titles: ReadonlyArray<string>) =>
    Effect.acquireUseRelease(Scope.make(), (scope) => playIn(scope, proof, titles), (scope) => release(scope, proof))

  for (const { proof, titles } of chosen) yield* play(proof, titles)
  const countOf = (wanted: ProofResult["outcome"]) => results.filter(({ outcome }) => outcome === wanted).length
  return {
    passed: countOf("passed"),
    failed: countOf("failed"),
    notApplicable: countOf("not_applicable"),
    durationMs: (yield* Clock.currentTimeMillis) - begin,
    checks: results
  } satisfies ProofReport
})

/** For a person: what failed, with the law that it broke, what could not be judged, and the figures. */
export const toText = ({ checks, passed, failed, notApplicable, durationMs }: ProofReport): string =>
  [
    ...checks
      .filter(({ outcome }) => outcome === "failed")
      .flatMap(({ adapter, suite, title, reason }) => [
        `FAILED  ${adapter} breaks a law of ${suite}:`,
        `        ${title}`,
        ...(reason ?? "").split("\n").map((line) => `          ${line}`.trimEnd()),
        ""
      ]),
    ...checks
      .filter(({ outcome }) => outcome === "not_applicable")
      .flatMap(({ adapter, suite, title, reason }) => [`NOT APPLICABLE  ${adapter}, ${suite}: ${title}`, `          ${reason}`, ""]),
    `${passed} passed, ${failed} failed${notApplicable > 0 ? `, ${notApplicable} not applicable` : ""}, in ${(durationMs / 1_000).toFixed(1)} s`,
    ""
  ].join("\n")
