/**
 * What a MailProvider does when the other end does not take the message: it
 * refuses or defers it, takes it from some recipients only, loses its answer or
 * garbles it, or gives none. For providers that are
 * no mail servers; against those that are, `MailProviderHostile.ts` says more.
 */
import assert from "node:assert/strict"
import { Effect, Fiber, Option, Result } from "effect"
import { TestClock } from "effect/testing"
import type { Address } from "../core/model/Address.ts"
import * as Replies from "../core/model/Reply.ts"
import type { MailProvider, SubmitRequest } from "../core/ports/MailProvider.ts"
import { address } from "./fixtures.ts"
import type { Check } from "./Suite.ts"

/**
 * How a call ends. `refused`: the message is at fault, for good. `deferred`: the account or its rate is, or the provider
 * has no time. `lost`: it is taken, and the connection ends without an answer. `garbled`: it is taken, and what is answered
 * cannot be understood, such as a page of a proxy with the status of success. `hanging`: it is never answered.
 */
export type Ending = "refused" | "deferred" | "lost" | "garbled" | "hanging"

/** A server of the author's, in the place of the provider's own. */
export interface Server<R> {
  /** How the next call ends; later ones are taken. Told twice, it is of the next two. */
  readonly next: (ending: Ending) => Effect.Effect<void, unknown, R>
  /** The next call is taken, and the one behind it ends so. To be left out only where no submission takes several calls. */
  readonly behind?: (ending: Ending) => Effect.Effect<void, unknown, R>
  /** The next call is taken, but for this recipient, who is refused for good. To be left out where calls have one end for all. */
  readonly refuse?: (recipient: Address) => Effect.Effect<void, unknown, R>
  /** How many small messages it submits at a time, where it lets others wait for their turn. */
  readonly turns?: number
  /** Calls so far, however they ended. */
  readonly calls: Effect.Effect<number, unknown, R>
  /** Calls whose connection is open and that have no answer yet. */
  readonly waiting: Effect.Effect<number, unknown, R>
}

export interface Subject<R, R2> {
  readonly provider: Effect.Effect<MailProvider, unknown, R>
  readonly server: Server<R2>
  /** A message to these recipients; to one, if none are given. */
  readonly mail: (...recipients: ReadonlyArray<Address>) => SubmitRequest
}

/** What the core makes of a submission. */
export const endOf = (provider: MailProvider, request: SubmitRequest) =>
  Effect.map(Effect.result(provider.submit(request)), (outcome) => {
    if (Result.isSuccess(outcome)) return outcome.success.replies.map(({ reply }) => Replies.classify(reply)).join()
    return outcome.failure._tag === "SubmissionRefused" ? Replies.classify(outcome.failure.reply) : outcome.failure._tag
  })

export const assertEnds = (end: string, ends: ReadonlyArray<string>): void => {
  assert.ok(ends.includes(end), `it ends as ${end === "" ? "no reply at all" : end}, and not as ${ends.join(" or ")}`)
}

/** Where a provider holds on to what went wrong, the next message is what suffers. */
export const assertNextIsTaken = (end: string): void => {
  assert.equal(end, "accepted", `the next message, which the server takes, ends as ${end === "" ? "no reply at all" : end}`)
}

/** Of real time, for the server is a real one. */
export const within = <R>(self: Effect.Effect<number, unknown, R>, wanted: number, otherwise: string) =>
  Effect.gen(function* () {
    const settled = yield* Effect.repeat(Effect.andThen(Effect.yieldNow, self), { until: (count) => count === wanted }).pipe(
      Effect.timeoutOption("5 seconds"),
      TestClock.withLive
    )
    assert.ok(Option.isSome(settled), otherwise)
  })

/** As what each may end, for a message that takes one call. */
export const endsOf: Readonly<Record<Ending, ReadonlyArray<string>>> = {
  refused: ["permanent"],
  deferred: ["transient", "MailProviderUnavailable"],
  lost: ["MailProviderUnavailable"],
  garbled: ["MailProviderUnavailable"],
  hanging: ["MailProviderUnavailable"]
}

export const endings = <R, R2>({ provider, server, mail }: Subject<R, R2>): ReadonlyArray<Check<R | R2>> => {
  const answered = (ending: Ending) =>
    Effect.gen(function* () {
      const one = yield* provider
      const before = yield* server.calls
      yield* server.next(ending)

      const end = yield* endOf(one, mail())

      assertEnds(end, endsOf[ending])
      assert.equal((yield* server.calls) - before, 1, "it was asked once")
      assertNextIsTaken(yield* endOf(one, mail()))
    })

  const { refuse } = server
  const refusing: ReadonlyArray<Check<R | R2>> = refuse === undefined ? [] : [
    {
      title: "reports a recipient who is refused for good beside others who are taken, each as it is",
      check: Effect.gen(function* () {
        const one = yield* provider
        const [first, second, third] = [address("charles"), address("mary"), address("ada")]
        yield* refuse(second)

        const { replies } = yield* one.submit(mail(first, second, third))

        const ends = replies.map(({ recipient, reply }) => [recipient, Replies.classify(reply)] as const)
        assert.equal(ends.length, 3)
        assert.deepEqual(Object.fromEntries(ends), { [first]: "accepted", [second]: "permanent", [third]: "accepted" })
      })
    }
  ]

  return [
    ...refusing,
    {
      title: "reports a message that is refused for good as permanent, after one call",
      check: answered("refused")
    },
    {
      title: "reports a message that is deferred as transient, after one call",
      check: answered("deferred")
    },
    {
      title: "does not know what became of a message that gets no answer, and does not submit it again",
      check: answered("lost")
    },
    {
      title: "does not know what became of a message whose answer it cannot understand, and does not submit it again",
      check: answered("garbled")
    },
    {
      title: "gives up by a deadline of its own, on Effect's clock and before the core's ten minutes, and hangs up",
      check: Effect.gen(function* () {
        const one = yield* provider
        yield* server.next("hanging")
        const submitting = yield* Effect.forkDetach(endOf(one, mail())) // it may be one that does not end
        yield* within(server.waiting, 1, "the call does not come in")

        yield* TestClock.adjust("599 seconds")
        const ended = yield* TestClock.withLive(Effect.timeoutOption(Fiber.join(submitting), "5 seconds"))
        yield* Effect.forkDetach(Fiber.interrupt(submitting))

        assert.ok(Option.isSome(ended), "it still waits, 599 seconds later on Effect's clock")
        assertEnds(ended.value, endsOf.hanging)
        yield* within(server.waiting, 0, "the connection stays open")
        assertNextIsTaken(yield* endOf(one, mail()))
      })
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
        assertNextIsTaken(yield* endOf(one, mail()))
      })
    }
  ]
}
