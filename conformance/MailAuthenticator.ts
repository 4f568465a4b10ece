/**
 * What every MailAuthenticator does. It needs cases: messages, and what is
 * true of each in the DNS that the adapter asks.
 */
import assert from "node:assert/strict"
import { Data, Deferred, Effect, Fiber, Result, Stream } from "effect"
import type { Examined, Peer } from "../core/model/Reception.ts"
import { MailAuthenticator } from "../core/ports/MailAuthenticator.ts"
import type { Suite } from "./Suite.ts"

export interface Case {
  /** A claim: what is found of what. */
  readonly title: string
  readonly peer: Peer
  readonly returnPath: string | null
  readonly message: Uint8Array
  /** What of it is looked at. */
  readonly expected: Partial<Examined>
}

class Broken extends Data.TaggedError("Broken")<{}> {}

const inPieces = (bytes: Uint8Array, sizeBytes: number): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / sizeBytes) }, (_, index) => bytes.slice(index * sizeBytes, (index + 1) * sizeBytes))

/** RFC 8601, 2.7. */
const words: ReadonlySet<string> = new Set(["none", "pass", "fail", "softfail", "policy", "neutral", "temperror", "permerror"])

const authenticate = <E>({ peer, returnPath }: Case, bytes: Stream.Stream<Uint8Array, E>) =>
  MailAuthenticator.use((authenticator) => authenticator.authenticate({ peer, returnPath, bytes }))

const find = (one: Case, pieceSizeBytes = 65_536) => authenticate(one, Stream.fromIterable(inPieces(one.message, pieceSizeBytes)))

const assertFound = (found: Examined, { title, expected }: Case) =>
  assert.deepEqual(Object.fromEntries(Object.keys(expected).map((key) => [key, found[key as keyof Examined]])), expected, title) // its keys

/** At least two cases that differ. */
export const suite = (options: { readonly cases: ReadonlyArray<Case> }): Suite<MailAuthenticator> => {
  const { cases } = options
  const [first, second] = cases
  assert.ok(first !== undefined && second !== undefined)
  return {
    name: "MailAuthenticator",
    checks: [
      ...cases.map((one) => ({ title: one.title, check: Effect.map(find(one), (found) => assertFound(found, one)) })),
      {
        title: "answers in the words of RFC 8601",
        check: Effect.gen(function* () {
          for (const one of cases) {
            const { spf, dkim, dmarc, arc, dmarcPolicy, author } = yield* find(one)
            for (const word of [spf, dkim, dmarc, arc]) assert.ok(words.has(word), word)
            assert.ok(dmarcPolicy === null || ["none", "quarantine", "reject"].includes(dmarcPolicy))
            assert.ok(author === null || /^[a-z0-9._-]+$/.test(author))
          }
        })
      },
      {
        title: "finds the same however the bytes are cut",
        check: Effect.gen(function* () {
          for (const pieceSizeBytes of [1, 3, 100]) {
            for (const one of [first, second]) assertFound(yield* find(one, pieceSizeBytes), one)
          }
        })
      },
      {
        title: "answers each of those who ask at the same time for its own",
        check: Effect.gen(function* () {
          const found = yield* Effect.all([...cases, ...cases].map((one) => Effect.map(find(one), (answer) => [answer, one] as const)), {
            concurrency: "unbounded"
          })
          for (const [answer, one] of found) assertFound(answer, one)
        })
      },
      {
        title: "fails as the bytes fail",
        check: Effect.gen(function* () {
          const broken = Stream.concat(Stream.make(first.message.subarray(0, 20)), Stream.fail(new Broken()))
          const outcome = yield* Effect.result(authenticate(first, broken))
          assert.ok(Result.isFailure(outcome))
          assert.ok(outcome.failure instanceof Broken)
          assertFound(yield* find(first), first)
        })
      },
      {
        title: "lets go of the bytes when nobody waits for its answer any more",
        check: Effect.gen(function* () {
          const isWaiting = yield* Deferred.make<void>()
          let isReleased = false
          const halting = Stream.concat(
            Stream.make(first.message.subarray(0, 20)),
            Stream.drain(Stream.fromEffect(Effect.andThen(Deferred.succeed(isWaiting, undefined), Effect.never)))
          ).pipe(Stream.ensuring(Effect.sync(() => (isReleased = true))))
          const asking = yield* Effect.forkChild(authenticate(first, halting))
          yield* Deferred.await(isWaiting)
          yield* Fiber.interrupt(asking)
          assert.equal(isReleased, true)
        })
      },
      {
        title: "has an answer for what is no message",
        check: Effect.gen(function* () {
          for (const text of ["", "\r\n", "x", "\r\n\r\n", ": \r\n", "From: \r\n\r\n", "\0\0\0", "From: a@b\r\nFrom: c@d\r\n\r\nx"]) {
            const { dkim } = yield* find({ ...first, message: new TextEncoder().encode(text) })
            assert.ok(words.has(dkim) && dkim !== "pass")
          }
        })
      }
    ]
  }
}
