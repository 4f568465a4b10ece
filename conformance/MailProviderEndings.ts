/**
 * What a MailProvider does when the other end does not take the message: it
 * refuses or defers it, gives no answer, or loses it. For providers that are
 * no mail servers; against those that are, `MailProviderHostile.ts` says more.
 */
import assert from "node:assert/strict"
import { Effect, Fiber, Option, Result } from "effect"
import { TestClock } from "effect/testing"
import * as Replies from "../core/model/Reply.ts"
import type { MailProvider, SubmitRequest } from "../core/ports/MailProvider.ts"
import type { Check } from "./Suite.ts"

/**
 * How a call ends. `refused`: the message is at fault, for good. `deferred`: the account or its rate is, or the provider
 * has no time. `lost`: it is taken, and the connection ends without an answer. `hanging`: it is never answered.
 */
export type Ending = "refused" | "deferred" | "lost" | "hanging"

/** A server of the author's, in the place of the provider's own. */
export interface Server<R> {
  /** How the next call ends; later ones are taken. */
  readonly next: (ending: Ending) => Effect.Effect<void, unknown, R>
  /** Calls so far, however they ended. */
  readonly calls: Effect.Effect<number, unknown, R>
  /** Calls whose connection is open and that have no answer yet. */
  readonly waiting: Effect.Effect<number, unknown, R>
}

interface Subject<R, R2> {
  readonly provider: Effect.Effect<MailProvider, unknown, R>
  readonly server: Server<R2>
  /** A message to one recipient. */
  readonly mail: () => SubmitRequest
}

/** What the core makes of a submission. */
const endOf = (provider: MailProvider, request: SubmitRequest) =>
  Effect.map(Effect.result(provider.submit(request)), (outcome) => {
    if (Result.isSuccess(outcome)) return outcome.success.replies.map(({ reply }) => Replies.classify(reply)).join()
    return outcome.failure._tag === "SubmissionRefused" ? Replies.classify(outcome.failure.reply) : outcome.failure._tag
  })

/** Of real time, for the server is a real one. */
const within = <R>(self: Effect.Effect<number, unknown, R>, wanted: number, otherwise: string) =>
  Effect.gen(function* () {
    const settled = yield* Effect.repeat(Effect.andThen(Effect.yieldNow, self), { until: (count) => count === wanted }).pipe(
      Effect.timeoutOption("5 seconds"),
      TestClock.withLive
    )
    assert.ok(Option.isSome(settled), otherwise)
  })

export const endings = <R, R2>({ provider, server, mail }: Subject<R, R2>): ReadonlyArray<Check<R | R2>> => {
  const answered = (ending: Ending, ends: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const one = yield* provider
      const before = yield* server.calls
      yield* server.next(ending)

      const end = yield* endOf(one, mail())

      assert.ok(ends.includes(end), `it ends as ${end}, and not as ${ends.join(" or ")}`)
      assert.equal((yield* server.calls) - before, 1, "it was asked once")
      assert.equal(yield* endOf(one, mail()), "accepted")
    })

  return [
    {
      title: "reports a message that is refused for good as permanent, after one call",
      check: answered("refused", ["permanent"])
    },
    {
      title: "reports a message that is deferred as transient, after one call",
      check: answered("deferred", ["transient", "MailProviderUnavailable"])
    },
    {
      title: "does not know what became of a message that gets no answer, and does not submit it again",
      check: answered("lost", ["MailProviderUnavailable"])
    },
    {
      title: "ends at once when it is interrupted while it waits for an answer, and hangs up",
      check: Effect.gen(function* () {
        const one = yield* provider
        yield* server.next("hanging")
        const submitting = yield* Effect.forkDetach(one.submit(mail())) // it may be one that does not end
        yield* within(server.waiting, 1, "the call does not come in")

        const ended = yield* TestClock.withLive(Effect.timeoutOption(Fiber.interrupt(submitting), "5 seconds"))

        assert.ok(Option.isSome(ended), "it goes on")
        yield* within(server.waiting, 0, "the connection stays open")
        assert.equal(yield* endOf(one, mail()), "accepted")
      })
    }
  ]
}
