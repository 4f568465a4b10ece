import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Latch, Scheduler, Scope } from "effect"
import { setImmediate } from "node:timers/promises"
import * as Batches from "./Batches.ts"

/** Batches of numbers that are answered with their doubles, while the gate is open. */
const doubling = Effect.fnUntraced(function* (keyOf: (item: number) => string = String) {
  const batches: Array<ReadonlyArray<number>> = []
  const gate = yield* Latch.make(true)
  let underWay = 0
  const call = yield* Batches.make({
    keyOf,
    run: (items: ReadonlyArray<number>) =>
      Effect.suspend(() => {
        underWay += 1
        assert.strictEqual(underWay, 1, "one batch at a time")
        batches.push(items)
        return items.includes(0) ? Effect.fail("nothing to double") : Effect.succeed(items.map((item) => 2 * item))
      }).pipe(
        Effect.tap(() => gate.await),
        Effect.tapError(() => gate.await),
        Effect.ensuring(Effect.sync(() => void (underWay -= 1)))
      )
  })
  return { batches, gate, call }
})

const turn = Effect.promise(async () => {
  for (let turns = 0; turns < 3; turns++) await setImmediate()
})

const started = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

describe("batches", () => {
  it.effect("gather the calls of one turn, and those that come while a batch is under way", () =>
    Effect.gen(function* () {
      const { batches, gate, call } = yield* doubling()
      yield* gate.close
      const first = yield* started(Effect.all([call(5), call(1)], { concurrency: "unbounded" }))
      yield* turn
      const others = yield* started(Effect.all([call(2), call(3), call(4)], { concurrency: "unbounded" }))
      yield* turn
      yield* gate.open

      assert.deepStrictEqual(yield* Fiber.join(first), [10, 2])
      assert.deepStrictEqual(yield* Fiber.join(others), [4, 6, 8])
      assert.deepStrictEqual(batches, [[5, 1], [2, 3, 4]])
    })
  )

  it.effect("hold back the second call with one key, and lose no call of many", () =>
    Effect.gen(function* () {
      const { batches, call } = yield* doubling((item) => String(item % 100))

      const items = Array.from({ length: 1_000 }, (_, index) => index + 1)
      const answers = yield* Effect.forEach(items, (item) => call(item), { concurrency: "unbounded" })

      assert.deepStrictEqual(answers, items.map((item) => 2 * item))
      for (const batch of batches) assert.strictEqual(new Set(batch.map((item) => item % 100)).size, batch.length)
    })
  )

  it.effect("hold no more calls than one statement takes", () =>
    Effect.gen(function* () {
      const { batches, call } = yield* doubling()

      yield* Effect.forEach(Array(600).keys(), (index) => call(index + 1), { concurrency: "unbounded" })

      assert.deepStrictEqual(batches.map(({ length }) => length), [256, 256, 88])
    })
  )

  it.effect("fail all calls of a batch that fails, and none of the next", () =>
    Effect.gen(function* () {
      const { gate, call } = yield* doubling()
      yield* gate.close
      yield* started(call(1))
      yield* Effect.yieldNow
      const failing = yield* started(Effect.all([Effect.flip(call(0)), Effect.flip(call(2))], { concurrency: "unbounded" }))
      yield* Effect.yieldNow
      yield* gate.open

      assert.deepStrictEqual(yield* Fiber.join(failing), ["nothing to double", "nothing to double"])
      assert.strictEqual(yield* call(3), 6)
    })
  )

  it.effect("carry out the call of who did not wait for it", () =>
    Effect.gen(function* () {
      const { batches, gate, call } = yield* doubling()
      yield* gate.close
      const first = yield* started(call(1))
      const second = yield* started(call(2))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(first)
      yield* Fiber.interrupt(second)
      yield* gate.open
      yield* call(3)

      assert.deepStrictEqual(new Set(batches.flat()), new Set([1, 2, 3]))
    })
  )

  it.effect("go on wherever a caller stands still and is interrupted", () =>
    Effect.gen(function* () {
      for (let ops = 2; ops <= 40; ops++) {
        const { call } = yield* doubling()
        // A fiber stands still after so many steps: here at each of its first ones once.
        const caller = yield* started(Effect.provideService(call(1), Scheduler.MaxOpsBeforeYield, ops))
        yield* Fiber.interrupt(caller)
        assert.strictEqual(yield* call(2), 4) // or it waits for ever
      }
    })
  )

  it.effect("interrupt who waits for one that is under way when their scope closes", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { batches, gate, call } = yield* Scope.provide(doubling(), scope)
      yield* gate.close
      const waiting = yield* started(Effect.exit(call(1)))
      yield* turn
      assert.deepStrictEqual(batches, [[1]])

      yield* Scope.close(scope, Exit.void)

      const exit = yield* Fiber.join(waiting)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    })
  )

  it.effect("interrupt who waits when their scope closes, and who comes later", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { gate, call } = yield* Scope.provide(doubling(), scope)
      yield* gate.close
      const waiting = yield* Effect.forEach([1, 2], (item) => started(Effect.exit(call(item))))
      yield* Effect.yieldNow

      yield* Scope.close(scope, Exit.void)

      const late = yield* Deferred.make<Exit.Exit<number, string>>()
      yield* started(Effect.flatMap(Effect.exit(call(3)), (exit) => Deferred.succeed(late, exit)))
      for (const exit of [...(yield* Effect.forEach(waiting, Fiber.join)), yield* Deferred.await(late)]) {
        assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      }
    })
  )
})
