import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import { lately } from "./Lately.ts"

it.effect("A question is asked once for all who come together, and anew behind a second, also where it failed", () =>
  Effect.gen(function* () {
    let count = 0
    const ask = yield* lately(Effect.suspend(() => (++count === 2 ? Effect.fail("away") : Effect.succeed(count))))
    const answers = Effect.map(Effect.all([ask, ask, ask], { concurrency: "unbounded" }), (all) => all.map(Option.getOrNull))

    assert.deepStrictEqual(yield* answers, [1, 1, 1])
    yield* TestClock.adjust("999 millis")
    assert.deepStrictEqual(yield* answers, [1, 1, 1])
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(yield* answers, [null, null, null])
    yield* TestClock.adjust("1 seconds")
    assert.deepStrictEqual(yield* answers, [3, 3, 3])
  })
)

/** A question without an answer, which takes for ever to be called off, and how often it was asked and called off. */
const unanswered = Effect.gen(function* () {
  const times = { asked: 0, calledOff: 0 }
  const calledOff = Effect.suspend(() => {
    times.calledOff += 1
    return Effect.never
  })
  const asked = Effect.suspend(() => {
    times.asked += 1
    return Effect.never
  })
  return { times, ask: yield* lately(Effect.onInterrupt(asked, () => calledOff)) }
})

it.effect("Who asks waits for a second, and not for the end of what is called off then", () =>
  Effect.gen(function* () {
    const { times, ask } = yield* unanswered

    const asking = yield* Effect.forkChild(Effect.all([ask, ask], { concurrency: "unbounded" }))
    yield* TestClock.adjust("999 millis")
    assert.deepStrictEqual([asking.pollUnsafe(), times], [undefined, { asked: 1, calledOff: 0 }])
    yield* TestClock.adjust("1 millis")

    assert.deepStrictEqual((yield* Fiber.join(asking)).map(Option.getOrNull), [null, null])
    assert.deepStrictEqual(times, { asked: 1, calledOff: 1 })
  })
)

it.effect("A question is called off when nobody waits for it any more, and the next who comes asks his own", () =>
  Effect.gen(function* () {
    const { times, ask } = yield* unanswered
    const [first, second] = [yield* Effect.forkChild(ask), yield* Effect.forkChild(ask)]
    yield* TestClock.adjust("1 millis")

    yield* Fiber.interrupt(first)
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(times, { asked: 1, calledOff: 0 })
    yield* Fiber.interrupt(second)
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(times, { asked: 1, calledOff: 1 })
    yield* Effect.forkChild(ask)
    yield* TestClock.adjust("1 millis")
    assert.strictEqual(times.asked, 2)
  })
)
