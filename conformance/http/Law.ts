/** How answers are judged, in a few words. What is found broken comes with the request and the answer. */
import { Clock, Data, Duration, Effect, Schema } from "effect"
import * as assert from "node:assert/strict"
import { codeOf, Deployment, type Exchange, type Reply, type Request } from "./Deployment.ts"

/** An answer breaks the law. */
export class Broken
  extends Data.TaggedError("Broken")<{ readonly message: string; readonly exchange: Exchange | null }> {}


const inWords = (value: unknown): string => {
  const text = value === undefined ? "nothing" : JSON.stringify(value)
  return text.length > 300 ? `${text.slice(0, 300)}…` : text
}

/** What is shown beside a claim that does not hold; null: whatever was said last. */
interface Shown {
  readonly exchange: Exchange
}

const broken = (shown: Shown | null, message: string): Broken =>
  new Broken({ message, exchange: shown?.exchange ?? null })

/** Asks the deployment. */
export const call = (request: Request) => Effect.flatMap(Deployment, (deployment) => deployment.call(request))

/** Fails with the claim if it does not hold of this answer. */
export const holds = (shown: Shown | null, claim: string, isSo: boolean): Effect.Effect<void, Broken> =>
  isSo ? Effect.void : Effect.fail(broken(shown, claim))

/** Deep equality; the claim goes before the difference. */
export const equal = (
  shown: Shown | null,
  claim: string,
  actual: unknown,
  expected: unknown
): Effect.Effect<void, Broken> =>
  Effect.try({
    try: () => assert.deepEqual(actual, expected),
    catch: () => broken(shown, `${claim}: expected ${inWords(expected)}, got ${inWords(actual)}`)
  })

export const status = (reply: Reply, expected: number): Effect.Effect<void, Broken> => {
  const code = codeOf(reply)
  return holds(
    reply,
    `expected ${expected}, got ${reply.status}${typeof code === "string" ? ` ${code}` : ""}`,
    reply.status === expected
  )
}

/** What fits a shape; nothing may be in it that the shape has no place for. */
export const fits = <S extends Schema.Codec<unknown, unknown>>(
  shown: Shown | null,
  value: unknown,
  shape: S
): Effect.Effect<S["Type"], Broken> =>
  Schema.decodeUnknownEffect(shape, { errors: "all", onExcessProperty: "error" })(value).pipe(
    Effect.mapError((error) =>
      broken(shown, `the body does not fit: ${error.message.replaceAll("\n", "; ").replace(/; +at/g, " at")}`)
    )
  )

/** The body of a success. */
export const answered = <S extends Schema.Codec<unknown, unknown>>(reply: Reply, expected: number, shape: S) =>
  Effect.andThen(status(reply, expected), fits(reply, reply.json, shape))

/** The members of an error that a check is about, however the envelope is. */
const Refusal = Schema.Struct({
  code: Schema.String,
  requestId: Schema.optionalKey(Schema.String),
  details: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
})

/** A refusal with a status and a stable code: its details. */
export const refused = Effect.fnUntraced(function* (reply: Reply, expected: number, code: string) {
  yield* status(reply, expected)
  const error = yield* Schema.decodeUnknownEffect(Refusal)(reply.json).pipe(
    Effect.mapError(() => broken(reply, `expected an error with the code ${code}, got no error envelope`))
  )
  yield* holds(reply, `expected the code ${code}, got ${error.code}`, error.code === code)
  return error.details ?? {}
})

const Issues = Schema.Struct({ issues: Schema.Array(Schema.Struct({ path: Schema.String })) })

/** `invalid_request`, whose issues point at these members (JSON Pointer), in any order. */
export const refusedInput = Effect.fnUntraced(function* (reply: Reply, ...paths: ReadonlyArray<string>) {
  const details = yield* refused(reply, 400, "invalid_request")
  const { issues } = yield* Schema.decodeUnknownEffect(Issues)(details).pipe(
    Effect.mapError(() => broken(reply, "details hold no issues, each with its path"))
  )
  yield* equal(
    reply,
    "the issues point at the fault",
    [...new Set(issues.map(({ path }) => path))].toSorted(),
    paths.toSorted()
  )
})

/** Asks with growing pauses until there is what is looked for, or the time is over; waits for limits do not count. */
export const eventually = <A, E, R>(what: string, within: Duration.Input, look: Effect.Effect<A | undefined, E, R>) =>
  Effect.gen(function* () {
    const deployment = yield* Deployment
    const elapsed = Effect.map(Clock.currentTimeMillis, (now) => now - deployment.pacedMillis())
    const end = (yield* elapsed) + Duration.toMillis(Duration.fromInputUnsafe(within))
    for (let pause = 100;; pause = Math.min(pause * 1.6, 4_000)) {
      const found = yield* look
      if (found !== undefined) return found
      const left = end - (yield* elapsed)
      if (left <= 0) {
        return yield* broken(
          deployment.replies.at(-1) ?? null,
          `${what}: not within ${Duration.format(Duration.fromInputUnsafe(within))}`
        )
      }
      yield* Effect.sleep(Math.min(pause, left))
    }
  })

/** A body without what is of the one request alone. */
export const withoutRequestId = ({ json }: Reply): unknown =>
  typeof json === "object" && json !== null ? { ...json, requestId: "" } : json
