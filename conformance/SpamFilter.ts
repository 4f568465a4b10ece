/** What every SpamFilter does. It needs cases: messages, and what is to be said of each. */
import assert from "node:assert/strict"
import { Data, Deferred, Effect, Fiber, Result, Stream } from "effect"
import type { Peer } from "../core/model/Reception.ts"
import { SpamFilter } from "../core/ports/SpamFilter.ts"
import type { Suite } from "./Suite.ts"

export interface Case {
  /** A claim: what is said of what. */
  readonly title: string
  readonly message: Uint8Array
  readonly expected: "ham" | "spam" | "refuse" | "unavailable"
}

class Broken extends Data.TaggedError("Broken")<{}> {}

const peer: Peer = { remoteAddress: "192.0.2.1", helo: "mail.client.test", protocol: "ESMTP" }

const judge = <E>(bytes: Stream.Stream<Uint8Array, E>, returnPath: string | null = "ada@client.test", recipients: ReadonlyArray<string> = ["u@ours.test"]) =>
  SpamFilter.use((filter) => filter.judge({ peer, returnPath, recipients, bytes }))

const verdictOf = <E>(bytes: Stream.Stream<Uint8Array, E>) =>
  Effect.map(Effect.result(judge(bytes)), (outcome) => {
    if (Result.isSuccess(outcome)) return outcome.success
    const error: unknown = outcome.failure
    return typeof error === "object" && error !== null && "_tag" in error && error._tag === "SpamFilterUnavailable" ? "unavailable" : error
  })

const inPieces = (bytes: Uint8Array, sizeBytes: number): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / sizeBytes) }, (_, index) => bytes.slice(index * sizeBytes, (index + 1) * sizeBytes))

/** At least one of them is judged. */
export const suite = (options: { readonly cases: ReadonlyArray<Case> }): Suite<SpamFilter> => {
  const { cases } = options
  const judged = cases.filter(({ expected }) => expected !== "unavailable")
  const [first] = judged
  assert.ok(first !== undefined)
  return {
    name: "SpamFilter",
    checks: [
      ...cases.map(({ title, message, expected }) => ({
        title,
        check: Effect.map(verdictOf(Stream.make(message)), (verdict) => assert.equal(verdict, expected))
      })),
      {
        title: "says the same however the bytes are cut",
        check: Effect.gen(function* () {
          for (const { message, expected } of judged) {
            for (const sizeBytes of [1, 7, 1_000]) assert.equal(yield* verdictOf(Stream.fromIterable(inPieces(message, sizeBytes))), expected)
          }
        })
      },
      {
        title: "answers each of those who ask at the same time for its own",
        check: Effect.gen(function* () {
          const verdicts = yield* Effect.all([...judged, ...judged, ...judged].map(({ message }) => verdictOf(Stream.make(message))), { concurrency: "unbounded" })
          assert.deepEqual(verdicts, [...judged, ...judged, ...judged].map(({ expected }) => expected))
        })
      },
      {
        title: "judges mail without a sender, with many recipients, and with addresses of any characters",
        check: Effect.gen(function* () {
          const recipients = Array.from({ length: 100 }, (_, index) => `u${index}@ours.test`)
          assert.equal(yield* judge(Stream.make(first.message), null, recipients), first.expected)
          assert.equal(yield* judge(Stream.make(first.message), "\"é\r\nX: y\"@bücher.test", ["ü@ours.test"]), first.expected)
        })
      },
      {
        title: "fails as the bytes fail",
        check: Effect.gen(function* () {
          const outcome = yield* verdictOf(Stream.concat(Stream.make(first.message), Stream.fail(new Broken())))
          assert.ok(outcome instanceof Broken)
          assert.equal(yield* verdictOf(Stream.make(first.message)), first.expected)
        })
      },
      {
        title: "lets go of the bytes when nobody waits for its verdict any more",
        check: Effect.gen(function* () {
          const isWaiting = yield* Deferred.make<void>()
          let isReleased = false
          const halting = Stream.drain(Stream.fromEffect(Effect.andThen(Deferred.succeed(isWaiting, undefined), Effect.never))).pipe(
            Stream.ensuring(Effect.sync(() => (isReleased = true)))
          )
          const asking = yield* Effect.forkChild(judge(halting))
          yield* Deferred.await(isWaiting)
          yield* Fiber.interrupt(asking)
          assert.equal(isReleased, true)
        })
      }
    ]
  }
}
