import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Latch, Scope } from "effect"
import { TestClock } from "effect/testing"
import { insertDelivery, insertMessage, putBody, takeQuota, times } from "../../conformance/StoreLaw.ts"
import { putContent } from "../../conformance/StoreReceiving.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { Message } from "../../core/model/Message.ts"
import { jobOf, type Lease } from "../../core/ports/JobQueue.ts"
import { StoreUnavailable, type Change } from "../../core/ports/Store.ts"
import type { Call } from "./CommitBatch.ts"
import * as GroupCommit from "./GroupCommit.ts"

/** A group whose batches wait at a gate, or for what is said of each, and what they held. */
const gated = Effect.fnUntraced(function* (committers = 1, waitOf: ((batch: number) => Effect.Effect<void>) | null = null) {
  const gate = yield* Latch.make(false)
  const batches: Array<ReadonlyArray<Call>> = []
  const commit = yield* GroupCommit.make({
    commit: (calls) =>
      Effect.suspend(() => {
        const wait = waitOf?.(batches.length) ?? gate.await
        batches.push(calls)
        return Effect.as(wait, calls.map(() => Effect.succeed({ jobsOffered: false, leaseEnded: false, forgotten: calls.length, next: [] })))
      }),
    committers,
    onLiveClock: (self) => self
  })
  const beginWith = (change: Change, lease?: Lease) => Effect.forkChild(Effect.exit(commit([change], [], lease)), { startImmediately: true })
  const beginEnding = Effect.suspend(() => beginWith(takeQuota(Fixtures.realm().tenantId, 1, 1), leaseOf(Fixtures.message(Fixtures.realm()))))
  const begin = Effect.suspend(() => beginWith(takeQuota(Fixtures.realm().tenantId, 1, 1)))
  const sizes = () => batches.map((batch) => batch.length)
  /** Lets everybody get on who can. */
  const settle = Effect.forEach(times(20, (turn) => turn), () => Effect.yieldNow, { discard: true })
  return { gate, begin, beginEnding, beginWith, sizes, settle }
})

const leaseOf = (message: Message): Lease => ({ job: jobOf("submit", message, 0), token: Fixtures.freshId(), claims: 1, expiresAt: 60_000 })

const isUnavailable = (exit: Exit.Exit<unknown, unknown>) => {
  const error = Exit.findErrorOption(exit)
  return error._tag === "Some" && error.value instanceof StoreUnavailable
}

it.effect("commits those together who come while a batch is under way, and no more than a batch holds", () =>
  Effect.gen(function* () {
    const { gate, begin, sizes, settle } = yield* gated()
    yield* begin
    yield* settle

    const fibers = yield* Effect.forEach(times(300, () => 0), () => begin)
    yield* settle
    assert.deepStrictEqual(sizes(), [1])
    yield* gate.open
    const exits = yield* Effect.forEach(fibers, Fiber.join)

    assert.deepStrictEqual(sizes(), [1, 128, 128, 44])
    assert.isTrue(exits.every(Exit.isSuccess))
  })
)

it.effect("divides those who ask again and again, so that one half prepares while the other is committed", () =>
  Effect.gen(function* () {
    const batches: Array<{ readonly size: number; readonly done: () => void }> = []
    const commit = yield* GroupCommit.make({
      commit: (calls) =>
        Effect.callback((resume) => {
          const answers = calls.map(() => Effect.succeed({ jobsOffered: false, leaseEnded: false, forgotten: 0, next: [] }))
          batches.push({ size: calls.length, done: () => resume(Effect.succeed(answers)) })
        }),
      committers: 1,
      onLiveClock: (self) => self
    })
    const caller = Effect.forever(commit([takeQuota(Fixtures.realm().tenantId, 1, 1)], []))
    const settle = Effect.forEach(times(20, (turn) => turn), () => Effect.yieldNow, { discard: true })

    const fork = Effect.forkChild(caller, { startImmediately: true })
    // Two are there first, as it happens.
    const first = yield* Effect.forEach(times(2, () => 0), () => fork)
    yield* settle
    const others = yield* Effect.forEach(times(30, () => 0), () => fork)
    for (let round = 0; round < 8; round++) {
      batches[round]!.done()
      yield* settle
    }

    assert.deepStrictEqual(batches.map(({ size }) => size), [2, 16, 16, 16, 16, 16, 16, 16, 16])
    yield* Fiber.interruptAll([...first, ...others])
    batches.at(-1)!.done()
  })
)

it.effect("does not divide those who end leases", () =>
  Effect.gen(function* () {
    const { gate, beginEnding, sizes, settle } = yield* gated()
    yield* beginEnding
    yield* settle
    yield* Effect.forEach(times(30, () => 0), () => beginEnding)
    yield* gate.open
    yield* settle

    assert.deepStrictEqual(sizes(), [1, 30])
  })
)

it.effect("has the next batch on its way before the callers of the last go on", () =>
  Effect.gen(function* () {
    const { gate, begin, sizes, settle } = yield* gated()
    const first = yield* begin
    yield* settle
    const second = yield* begin
    const begun: Array<number> = []
    for (const fiber of [first, second]) fiber.addObserver(() => begun.push(sizes().length))

    yield* gate.open
    yield* Effect.forEach([first, second], Fiber.join)

    assert.deepStrictEqual(begun, [2, 2])
  })
)

const longMessage = () => {
  const message = Fixtures.message(Fixtures.realm())
  return insertMessage(message, Fixtures.content(message, { text: "x".repeat(1_000_000), html: "x".repeat(1_000_000) }))
}
const long: Readonly<Record<string, () => Change>> = {
  messages: longMessage,
  "contents of received messages": () => {
    const received = Fixtures.message(Fixtures.realm())
    return putContent(received, received.id, Fixtures.content(received, { text: "x".repeat(1_000_000), html: "x".repeat(1_000_000) }))
  },
  deliveries: () => insertDelivery(Fixtures.delivery(Fixtures.endpoint(Fixtures.realm())), "x".repeat(2_000_000)),
  "deliveries' bodies": () => putBody(Fixtures.realm(), { id: Fixtures.freshId() }, "x".repeat(2_000_000)),
  blobs: () => {
    const { tenantId } = Fixtures.realm()
    return { _tag: "PutBlob", tenantId, blob: { sha256: "1".repeat(64), sizeBytes: 2_000_000 }, bytes: new Uint8Array(2_000_000), at: 0 }
  }
}

for (const [what, make] of Object.entries(long)) {
  it.effect(`takes few callers at once whose ${what} are long`, () =>
    Effect.gen(function* () {
      const { gate, begin, beginWith, sizes, settle } = yield* gated()
      yield* begin
      yield* settle

      const fibers = yield* Effect.forEach(times(5, () => make()), (change) => beginWith(change))
      yield* gate.open
      yield* Effect.forEach(fibers, Fiber.join)

      assert.deepStrictEqual(sizes(), [1, 2, 2, 1])
    })
  )
}

it.effect("withdraws a caller that is interrupted before a batch takes it, and none that is taken", () =>
  Effect.gen(function* () {
    const { gate, begin, sizes, settle } = yield* gated()
    const taken = yield* begin
    yield* settle
    const [gone, other] = [yield* begin, yield* begin]

    yield* Fiber.interrupt(gone)
    yield* Fiber.interrupt(taken)
    yield* gate.open
    assert.isTrue(Exit.isSuccess(yield* Fiber.join(other)))

    assert.deepStrictEqual(sizes(), [1, 1])
  })
)

it.effect("answers within the deadline, and commits nothing of those that it sends away untaken", () =>
  Effect.gen(function* () {
    const { gate, begin, sizes, settle } = yield* gated()
    const taken = yield* begin
    yield* settle
    yield* TestClock.adjust("5 seconds")
    const waiting = yield* begin

    // A statement has ten seconds of its own, and says by then what became of it.
    yield* TestClock.adjust("5 seconds")
    assert.isUndefined(taken.pollUnsafe())
    yield* TestClock.adjust("1 second")
    assert.isTrue(isUnavailable(yield* Fiber.join(taken)))
    assert.isUndefined(waiting.pollUnsafe())
    yield* TestClock.adjust("5 seconds")
    assert.isTrue(isUnavailable(yield* Fiber.join(waiting)))

    yield* gate.open
    yield* settle
    assert.deepStrictEqual(sizes(), [1])
    assert.isTrue(Exit.isSuccess(yield* Fiber.join(yield* begin)))
  })
)

it.effect("helps out with another committer where one is stuck, or has too much to do", () =>
  Effect.gen(function* () {
    const { gate, begin, sizes, settle } = yield* gated(3)
    yield* begin
    yield* settle
    yield* begin
    yield* settle
    assert.deepStrictEqual(sizes(), [1])

    yield* TestClock.adjust("25 millis")
    yield* settle
    assert.deepStrictEqual(sizes(), [1, 1])

    yield* Effect.forEach(times(64, () => 0), () => begin)
    yield* settle
    assert.deepStrictEqual(sizes(), [1, 1, 64])
    yield* gate.open
  })
)

it.effect("helps out where one is stuck, also after it had nothing to do", () =>
  Effect.gen(function* () {
    const gates = yield* Effect.forEach(times(4, () => false), (isOpen) => Latch.make(isOpen))
    const { begin, sizes, settle } = yield* gated(2, (batch) => gates[batch]!.await)
    const helped: Array<number> = []
    for (const round of [0, 1]) {
      yield* settle
      yield* TestClock.adjust("1 second")
      const stuck = yield* begin
      yield* settle
      const behind = yield* begin
      yield* settle

      yield* TestClock.adjust("25 millis")
      yield* settle
      helped.push(sizes().length)
      yield* Effect.forEach(gates.slice(0, 2 * round + 2), (gate) => gate.open)
      yield* Effect.forEach([stuck, behind], Fiber.join)
    }

    assert.deepStrictEqual(helped, [2, 4])
  })
)

it.effect("helps out who came while it was seen whether the last who waited is stuck, too", () =>
  Effect.gen(function* () {
    const gates = [yield* Latch.make(false), yield* Latch.make(false), yield* Latch.make(true)]
    const { begin, sizes, settle } = yield* gated(2, (batch) => gates[batch]!.await)
    yield* begin
    yield* settle
    yield* begin
    yield* settle
    yield* TestClock.adjust("10 millis")
    yield* gates[0]!.open
    yield* settle
    const before = sizes()

    yield* begin
    yield* settle
    yield* TestClock.adjust("50 millis")
    yield* settle
    const after = sizes()
    yield* gates[1]!.open

    assert.deepStrictEqual([before, after], [[1, 1], [1, 1, 1]])
  })
)

it.effect("closes where the last who waits withdraws meanwhile", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { begin, sizes, settle } = yield* Scope.provide(gated(), scope)
    const last = yield* begin

    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
    yield* Fiber.interrupt(last)
    yield* settle

    assert.isTrue(closing.pollUnsafe() !== undefined && Exit.isSuccess(yield* Fiber.await(closing)))
    assert.deepStrictEqual(sizes(), [])
  })
)

it.effect("sees those through who are there when it closes, and takes nobody after", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { gate, begin, sizes, settle } = yield* Scope.provide(gated(), scope)
    const [one, other] = [yield* begin, yield* Effect.andThen(settle, begin)]

    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
    assert.isTrue(isUnavailable(yield* Fiber.join(yield* begin)))
    assert.isUndefined(closing.pollUnsafe())
    yield* gate.open
    yield* Fiber.join(closing)

    assert.isTrue(Exit.isSuccess(yield* Fiber.join(one)) && Exit.isSuccess(yield* Fiber.join(other)))
    assert.deepStrictEqual(sizes(), [1, 1])
  })
)

it.effect("closes behind the answers of those who are here", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { gate, begin, settle } = yield* Scope.provide(gated(), scope)
    const [one, other] = [yield* begin, yield* Effect.andThen(settle, begin)]
    const ended: Array<string> = []

    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
    for (const [name, fiber] of Object.entries({ one, other, closing })) fiber.addObserver(() => ended.push(name))
    yield* gate.open
    yield* Effect.all([Fiber.await(one), Fiber.await(other), Fiber.await(closing)])

    assert.deepStrictEqual(ended.toSorted(), ["closing", "one", "other"])
    assert.strictEqual(ended.at(-1), "closing")
  })
)

it.effect("answers whoever is here before it closes, wherever they are by then", () =>
  Effect.gen(function* () {
    for (let steps = 0; steps <= 12; steps++) {
      for (const isOpenFirst of [false, true]) {
        const scope = yield* Scope.make()
        const { gate, begin, settle } = yield* Scope.provide(gated(2), scope)
        const ended: Array<string> = []
        // As many steps before the other as before the end: it waits, is taken, or is about to be told.
        for (const name of ["one", "other"]) {
          const fiber = yield* begin
          fiber.addObserver((exit) => ended.push(Exit.isSuccess(exit) && Exit.isSuccess(exit.value) ? name : "unanswered"))
          if (isOpenFirst && name === "other") yield* gate.open
          yield* Effect.forEach(times(steps, () => 0), () => Effect.yieldNow, { discard: true })
        }

        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        closing.addObserver(() => ended.push("closing"))
        yield* settle
        yield* gate.open
        yield* Fiber.await(closing)

        assert.sameMembers(ended.slice(0, 2), ["one", "other"], `${steps} steps`)
        assert.deepStrictEqual(ended.slice(2), ["closing"])
      }
    }
  })
)

it.effect("closes behind a batch, though nobody waits for another", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { gate, begin, settle } = yield* Scope.provide(gated(), scope)
    const last = yield* begin
    yield* settle

    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
    yield* settle
    assert.isUndefined(closing.pollUnsafe())
    yield* gate.open

    assert.isTrue(Exit.isSuccess(yield* Fiber.join(last)))
    yield* Fiber.join(closing)
  })
)

it.effect("gives each of a batch its own answer", () =>
  Effect.gen(function* () {
    const sizes: Array<number> = []
    const commit = yield* GroupCommit.make({
      commit: (calls) =>
        Effect.sync(() => {
          sizes.push(calls.length)
          return calls.map(({ jobs }) => Effect.succeed({ jobsOffered: false, leaseEnded: false, forgotten: jobs.length, next: [] }))
        }),
      committers: 1,
      onLiveClock: (self) => self
    })
    const job = leaseOf(Fixtures.message(Fixtures.realm())).job

    const answers = yield* Effect.forEach([1, 2, 3], (count) => commit([], times(count, () => job)), { concurrency: "unbounded" })

    assert.deepStrictEqual(answers.map(({ forgotten }) => forgotten), [1, 2, 3])
    assert.deepStrictEqual(sizes, [3])
  })
)

it.effect("tells those of a batch that died, and goes on with the next", () =>
  Effect.gen(function* () {
    let batches = 0
    const commit = yield* GroupCommit.make({
      commit: (calls) =>
        Effect.suspend(() => {
          batches += 1
          if (batches === 1) return Effect.die("a bug")
          return Effect.succeed(calls.map(() => Effect.succeed({ jobsOffered: false, leaseEnded: false, forgotten: 0, next: [] })))
        }),
      committers: 1,
      onLiveClock: (self) => self
    })
    const ask = Effect.exit(commit([takeQuota(Fixtures.realm().tenantId, 1, 1)], []))

    const died = yield* Effect.all([ask, ask], { concurrency: "unbounded" })
    const next = yield* ask

    assert.deepStrictEqual([...died, next].map((exit) => Exit.isFailure(exit) && Cause.hasDies(exit.cause)), [true, true, false])
  })
)
