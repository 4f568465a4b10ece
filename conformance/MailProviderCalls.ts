/**
 * What a MailProvider does that makes several calls of one submission, where
 * one behind the first goes wrong, and one that lets messages wait for their
 * turn. Whoever was mailed is told so, whatever became of the others; and
 * nobody is asked any more for a process that is about to end (`isWanted`).
 */
import assert from "node:assert/strict"
import { Effect, Fiber, Option, Result } from "effect"
import { TestClock } from "effect/testing"
import type { Address } from "../core/model/Address.ts"
import { recipientsPerFieldMax } from "../core/model/Limits.ts"
import * as Replies from "../core/model/Reply.ts"
import type { SubmitRequest, SubmitResult } from "../core/ports/MailProvider.ts"
import { address } from "./fixtures.ts"
import { assertEnds, assertNextIsTaken, endOf, endsOf, within, type Ending, type Subject } from "./MailProviderEndings.ts"
import type { Check } from "./Suite.ts"

interface Calling<R, R2> extends Subject<R, R2> {
  /** To whom this message went, as the other end saw it; null where nobody can tell. */
  readonly mailed: (request: SubmitRequest) => Effect.Effect<ReadonlyArray<Address> | null, unknown, R2>
}

/** As many as a message may have: whoever takes less in a call has to make several, or to leave some for another time. */
const everybody = () => Array.from({ length: 3 * recipientsPerFieldMax }, (_, index) => address(`r${index}`, `d${index % 4}.example.org`))

const toldOf = ({ replies }: SubmitResult, wanted: ReturnType<typeof Replies.classify>): ReadonlyArray<Address> =>
  replies.filter(({ reply }) => Replies.classify(reply) === wanted).map(({ recipient }) => recipient)

/** One reply each; and whoever is said to be mailed was, and the other way about where every call's outcome is known. */
const assertToldAsItWas = (result: SubmitResult, all: ReadonlyArray<Address>, mailed: ReadonlyArray<Address> | null, isKnown: boolean): void => {
  assert.deepEqual(result.replies.map(({ recipient }) => recipient).toSorted(), all.toSorted(), "one reply for each recipient")
  if (mailed === null) return
  const accepted = toldOf(result, "accepted")
  assert.deepEqual(accepted.filter((one) => !mailed.includes(one)), [], "these are said to be mailed, and were not")
  if (isKnown) assert.deepEqual(mailed.filter((one) => !accepted.includes(one)), [], "these were mailed, and are not said to be")
}

/** How a call behind the first ends, as a law says it. */
const laterEndings: ReadonlyArray<readonly [ending: Ending, said: string]> = [
  ["refused", "is refused for good"],
  ["deferred", "is deferred"],
  ["lost", "gets no answer"],
  ["garbled", "gets an answer that cannot be understood"],
  ["hanging", "is never answered, before the core's ten minutes"]
]

export const callsAndTurns = <R, R2>({ provider, server, mail, mailed }: Calling<R, R2>): ReadonlyArray<Check<R | R2>> => {
  const { behind, turns } = server

  const afterTheFirst = (tell: (ending: Ending) => Effect.Effect<void, unknown, R2>, ending: Ending) =>
    Effect.gen(function* () {
      const one = yield* provider
      const before = yield* server.calls
      const request = mail(...everybody())
      yield* tell(ending)
      const submitting = yield* Effect.forkDetach(Effect.result(one.submit(request))) // it may be one that does not end
      if (ending === "hanging") {
        const isWaitingOrDone = Effect.map(server.waiting, (count) => Number(count > 0 || submitting.pollUnsafe() !== undefined))
        yield* within(isWaitingOrDone, 1, "it neither ends nor waits for an answer")
        yield* TestClock.adjust("599 seconds")
      }
      const ended = yield* TestClock.withLive(Effect.timeoutOption(Fiber.join(submitting), "5 seconds"))
      yield* Effect.forkDetach(Fiber.interrupt(submitting))
      assert.ok(Option.isSome(ended), "it still waits")
      const outcome = ended.value

      const made = (yield* server.calls) - before
      assert.ok(made > 0, "it makes a call")
      if (made === 1) {
        // All of it in one call, so what was told is of the next message's.
        assert.ok(Result.isSuccess(outcome), "a message that takes one call is taken")
        if (ending !== "hanging") return assertEnds(yield* endOf(one, mail()), endsOf[ending])
        return yield* Effect.forkDetach(Effect.result(one.submit(mail()))).pipe(
          Effect.tap(within(server.waiting, 1, "the call does not come in")),
          Effect.flatMap(Fiber.interrupt)
        )
      }
      assert.ok(
        Result.isSuccess(outcome),
        `a call behind the first is ${ending}, and the submission fails as a whole (${Result.isFailure(outcome) ? outcome.failure._tag : ""}): those who were mailed are not told so`
      )
      const result = outcome.success
      assert.ok(toldOf(result, "accepted").length > 0, "whom the first call mailed is told so")
      assert.ok(toldOf(result, "transient").length + toldOf(result, "permanent").length > 0, `a call was ${ending}, and nobody is told so`)
      if (ending !== "refused") assert.deepEqual(toldOf(result, "permanent"), [], `refused for good, where a call was ${ending}`)
      assertToldAsItWas(result, request.envelope.recipients, yield* mailed(request), ending === "refused" || ending === "deferred")
      assertNextIsTaken(yield* endOf(one, mail()))
    })

  const several: ReadonlyArray<Check<R | R2>> = behind === undefined ? [] : laterEndings.map(([ending, said]) => ({
    title: `tells those who were mailed so, where a later call of the submission ${said}`,
    check: afterTheFirst(behind, ending)
  }))

  const inTurn: ReadonlyArray<Check<R | R2>> = turns === undefined ? [] : [
    {
      title: "asks a message that waited whether it is wanted, once its turn has come, and submits none that is not",
      check: Effect.gen(function* () {
        const one = yield* provider
        const before = yield* server.calls
        for (let count = 0; count < turns; count++) yield* server.next("hanging")
        let isWanted = true
        const submitting = yield* Effect.forEach(Array.from({ length: turns + 10 }), () =>
          Effect.forkDetach(endOf(one, { ...mail(), isWanted: () => isWanted }))
        )
        yield* within(server.waiting, turns, `${turns} do not have their turn at once`)

        isWanted = false
        yield* TestClock.adjust("599 seconds")
        const ended = yield* TestClock.withLive(Effect.timeoutOption(Fiber.joinAll(submitting), "5 seconds"))
        yield* Effect.forkDetach(Fiber.interruptAll(submitting))

        assert.ok(Option.isSome(ended), "some still wait")
        assert.equal((yield* server.calls) - before, turns, "calls, of which so many may be made at a time")
        assert.deepEqual([...new Set(ended.value)], ["MailProviderUnavailable"])
        assertNextIsTaken(yield* endOf(one, mail()))
      })
    }
  ]

  return [
    ...several,
    ...inTurn,
    {
      title: "asks before each later call of a submission whether it is wanted, and tells those whom that would have mailed to come again",
      check: Effect.gen(function* () {
        const one = yield* provider
        for (const times of [0, 1, 2]) {
          const before = yield* server.calls
          const request = mail(...everybody())
          let asked = 0
          const outcome = yield* Effect.result(one.submit({ ...request, isWanted: () => asked++ < times }))

          const made = (yield* server.calls) - before
          assert.ok(made <= 1 + Math.min(asked, times), `${made} calls, where it was told ${Math.min(asked, times)} times that the message is wanted`)
          const went = yield* mailed(request)
          if (Result.isSuccess(outcome)) {
            assert.deepEqual(toldOf(outcome.success, "permanent"), [], "refused for good, where a call was wanted no more")
            assertToldAsItWas(outcome.success, request.envelope.recipients, went, true)
          } else {
            assert.equal(outcome.failure._tag, "MailProviderUnavailable")
            assert.deepEqual(went ?? [], [], "these were mailed, and are not said to be")
          }
        }
      })
    }
  ]
}
