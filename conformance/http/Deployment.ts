/**
 * A deployment as its clients see it: requests over `fetch`, and a record of
 * what was answered. It keeps to the deployment's limits: after a 429 it waits
 * as it is told, and says so. No credential is in what it records.
 */
import { Clock, Context, Data, Deferred, Duration, Effect, Option, Random, Redacted, Schema } from "effect"

/** A webhook receiver that the suite may steer; the command line brings one, for a suite listens nowhere. */
export interface Receiver {
  /** A URL that leads to the receiver, whatever the path. */
  readonly urlOf: (path: string) => string
  /** From now on, what requests to a path are answered with. */
  readonly answer: (path: string, answer: (body: string) => ReceiverAnswer) => void
  /** The requests to a path so far, oldest first. */
  readonly received: (path: string) => ReadonlyArray<ReceivedRequest>
  /** Whether somebody named it; if nobody did, a deployment may not reach it. */
  readonly isGiven: boolean
}

export interface ReceiverAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** How long it takes. */
  readonly afterMillis?: number
}

export interface ReceivedRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** What there is to prove, and with what. */
export interface Target {
  /** Without a slash at its end. */
  readonly baseUrl: string
  /** Of all scopes. */
  readonly key: Redacted.Redacted<string>
  /** Of another tenant, environment or application. */
  readonly otherKey: Redacted.Redacted<string> | null
  /** Lacks messages:send. */
  readonly narrowKey: Redacted.Redacted<string> | null
  readonly receiver: Receiver | null
  /** Reads the published document; without it, the document has to be JSON. */
  readonly parseYaml: ((text: string) => unknown) | null
  /** Whether the suite may use up the key's requests of a minute. */
  readonly mayExhaustLimits: boolean
  /** Instead of the platform's. */
  readonly fetch?: typeof globalThis.fetch
}

export interface Request {
  readonly method: string
  readonly path: string
  /** Whose key; `null`: none; default: `key`. */
  readonly as?: "key" | "otherKey" | "narrowKey" | null
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is, as application/json unless the headers say otherwise. */
  readonly body?: string
  /** Whether a 429 is the answer, or a reason to wait and ask again. */
  readonly takes429?: boolean
  readonly timeout?: Duration.Input
}

/** A request and its answer, fit to be shown. */
export interface Exchange {
  readonly request: string
  readonly response: string
}

export interface Reply {
  readonly request: Request
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body, parsed; undefined if it is not JSON. */
  readonly json: unknown
  readonly exchange: Exchange
}

/** The deployment did not answer. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly message: string }> {}

/** The deployment asks for a longer wait than a run is worth. */
export class Exhausted
  extends Data.TaggedError("Exhausted")<{ readonly message: string; readonly exchange: Exchange }> {}

/** The deployment says that the key lacks scopes, and the suite wants one of all scopes. */
export class ScopesMissing extends Data.TaggedError("ScopesMissing")<{ readonly scopes: ReadonlyArray<string> }> {}

export interface Shape {
  readonly target: Target
  readonly environment: "sandbox" | "production"
  readonly call: (request: Request) => Effect.Effect<Reply, NoAnswer | Exhausted>
  /** Fails with the first answer that refuses the key for a scope; else it lasts for ever. */
  readonly untilScopesMissing: Effect.Effect<never, ScopesMissing>
  /** All answers so far. */
  readonly replies: ReadonlyArray<Reply>
  /** Milliseconds spent on waiting for the deployment's limits. */
  readonly pacedMillis: () => number
  /** Whether it is waiting for them now. */
  readonly isWaiting: () => boolean
  /** A text without credentials. */
  readonly scrub: (text: string) => string
  /** What the run leaves behind that does not go by itself, for the report. */
  readonly leave: (what: string) => void
  readonly left: ReadonlyArray<string>
}

export class Deployment extends Context.Service<Deployment, Shape>()("mailroom/conformance/http/Deployment") {}

/** Told while a run lasts. */
export type Waiting = (wait: { readonly seconds: number; readonly scope: string }) => Effect.Effect<void>

/** Characters of a body that are shown. */
const shownMax = 2_000
/** Seconds; a minute's window, and what a clock may be off. */
const waitMax = 130
const waitsMax = 10

export const make = (target: Target, waiting: Waiting): Shape => {
  const replies: Array<Reply> = []
  const left: Array<string> = []
  const fetch = target.fetch ?? globalThis.fetch
  const scrub = scrubber(target)
  const scopesMissing = Deferred.makeUnsafe<never, ScopesMissing>()
  let pacedMillis = 0
  let waitingNow = 0

  const once = Effect.fnUntraced(function* (request: Request) {
    const { method, path, json, as = "key" } = request
    const body = json === undefined ? request.body : JSON.stringify(json)
    const key = as === null ? null : target[as]
    if (as !== null && key === null) return yield* Effect.die(new Error(`there is no ${as}`))
    const headers: Record<string, string> = {
      accept: "application/json",
      "user-agent": "mailroom-conformance/1",
      ...(key === null ? {} : { authorization: `Bearer ${Redacted.value(key)}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...request.headers
    }
    const answered = yield* Effect.tryPromise({
      try: async (signal) => {
        const response = await fetch(`${target.baseUrl}${path}`, {
          method,
          headers,
          signal,
          redirect: "manual",
          ...(body === undefined ? {} : { body })
        })
        return { status: response.status, headers: Object.fromEntries(response.headers), text: await response.text() }
      },
      catch: (cause) => new NoAnswer({ message: `${method} ${path}: ${reasonOf(cause)}` })
    }).pipe(
      Effect.timeoutOrElse({
        duration: request.timeout ?? "30 seconds",
        orElse: () => Effect.fail(new NoAnswer({ message: `${method} ${path}: no answer in time` }))
      })
    )
    const shown = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    const reply: Reply = {
      request,
      ...answered,
      json: parsed(answered.text),
      exchange: {
        request: scrub([`${method} ${target.baseUrl}${path}`, ...shown, "", cut(body ?? "")].join("\n").trimEnd()),
        response: scrub(
          [
            String(answered.status),
            ...Object.entries(answered.headers).map(([name, value]) => `${name}: ${value}`),
            "",
            cut(answered.text)
          ].join("\n").trimEnd()
        )
      }
    }
    replies.push(reply)
    // The others may lack what they like.
    const refused = as === "key" && reply.status === 403 ? Option.getOrNull(scopesRefused(reply.json)) : null
    if (refused !== null) yield* Deferred.fail(scopesMissing, new ScopesMissing({ scopes: refused.details.missing }))
    return reply
  })

  const call = Effect.fnUntraced(function* (request: Request) {
    for (let waits = 0;; waits++) {
      const reply = yield* once(request)
      if (reply.status !== 429 || request.takes429 === true || codeOf(reply) !== "rate_limited") return reply
      const seconds = Number(reply.headers["retry-after"])
      const scope = scopeOf(reply)
      if (!Number.isInteger(seconds) || seconds < 0) return reply // breaks the law, which is for a check to say
      if (seconds > waitMax || waits === waitsMax) {
        return yield* new Exhausted({
          message: `the deployment asks to wait ${seconds} s (${scope}), and the run ends sooner`,
          exchange: reply.exchange
        })
      }
      yield* waiting({ seconds, scope })
      const wait = seconds * 1_000 + (yield* Random.nextIntBetween(50, 500))
      const before = yield* Clock.currentTimeMillis
      waitingNow += 1
      yield* Effect.ensuring(Effect.sleep(wait), Effect.sync(() => (waitingNow -= 1)))
      pacedMillis += (yield* Clock.currentTimeMillis) - before
    }
  })

  return {
    target,
    environment: Redacted.value(target.key).startsWith("svc_live_") ? "production" : "sandbox",
    call,
    untilScopesMissing: Deferred.await(scopesMissing),
    replies,
    scrub,
    pacedMillis: () => pacedMillis,
    isWaiting: () => waitingNow > 0,
    leave: (what) => void (left.includes(what) || left.push(what)),
    left
  }
}

const scopesRefused = Schema.decodeUnknownOption(
  Schema.Struct({
    code: Schema.Literal("insufficient_scope"),
    details: Schema.Struct({ missing: Schema.Array(Schema.String) })
  })
)

/** Takes the credentials out of a text, and whatever looks like one. */
const scrubber = ({ key, otherKey, narrowKey }: Target) => {
  const known = [key, otherKey, narrowKey].flatMap((one) => (one === null ? [] : [Redacted.value(one)]))
  const alike = (prefix: string) => new RegExp(`${prefix}[A-Za-z0-9_-]{6,}`, "g")
  return (text: string): string =>
    known
      .reduce((rest, secret) => rest.replaceAll(secret, `${secret.slice(0, "svc_test_".length)}…`), text)
      .replace(alike("svc_test_"), "svc_test_…")
      .replace(alike("svc_live_"), "svc_live_…")
      .replace(alike("whsec_"), "whsec_…")
      .replace(/^(authorization: (?:bearer|basic) )(?!svc_)\S.*$/gim, "$1…")
      // It is shown on terminals.
      .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\u00b7")
}

const cut = (
  text: string
): string => (text.length > shownMax ? `${text.slice(0, shownMax)}… (${text.length} characters)` : text)

/** A text as JSON; undefined if it is none. */
export const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name) ?
    (value as Readonly<Record<string, unknown>>)[name] // it has it
     :
    undefined

/** A stable code, where an answer has one. */
export const codeOf = ({ json }: Reply): unknown => member(json, "code")

const scopeOf = ({ json }: Reply): string => String(member(member(json, "details"), "scope") ?? "unknown")

/** The innermost cause says what happened; `fetch` itself says only that it failed. */
const reasonOf = (cause: unknown): string => {
  for (let depth = 0; depth < 5 && cause instanceof Error && cause.cause !== undefined; depth++) cause = cause.cause
  if (!(cause instanceof Error)) return String(cause)
  // Ports of other protocols, which the Fetch standard blocks ("port blocking"): no code tells of them.
  if (cause.message === "bad port") {
    return "this port belongs to another protocol, and no client that keeps to the Fetch standard calls it; " +
      "have the deployment listen on another one, such as 3025"
  }
  return "code" in cause && typeof cause.code === "string" && !cause.message.includes(cause.code) ?
    `${cause.code} ${cause.message}`.trim() :
    cause.message
}
