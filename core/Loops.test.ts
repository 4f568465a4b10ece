import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"
import { CheckDomains } from "./jobs/CheckDomains.ts"
import { EventRelay } from "./jobs/EventRelay.ts"
import { Sweep } from "./jobs/Sweep.ts"
import { Worker } from "./jobs/Worker.ts"
import * as Loops from "./Loops.ts"

const nothing = Effect.succeed(0)

const withWorker = (run: (typeof Worker.Service)["run"]) =>
  Layer.provide(
    Loops.working,
    Layer.mergeAll(
      Layer.succeed(Worker, { tick: nothing, run }),
      Layer.succeed(EventRelay, { tick: nothing, ended: Effect.void }),
      Layer.mock(Sweep, { tick: nothing, retain: Effect.void }),
      Layer.mock(CheckDomains, { tick: nothing })
    )
  )

describe("the loops", () => {
  it.effect("go on with a worker that breaks over and over, and leave time between", () =>
    Effect.gen(function* () {
      let [begun, told] = [0, 0]
      const broken = Effect.suspend(() => {
        begun += 1
        return Effect.die(new Error("the queue's driver broke"))
      })
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(withWorker(() => broken), scope).pipe(
        Effect.provide(Logger.layer([Logger.make(() => void (told += 1))]))
      )

      yield* TestClock.adjust("1 minute")
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)

      assert.isAtLeast(begun, 30)
      assert.isAtMost(begun, 120)
      assert.strictEqual(told, begun)
    })
  )

  it.effect("are over as soon as the jobs are that were under way", () =>
    Effect.gen(function* () {
      const jobs = yield* Deferred.make<void>()
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(withWorker(() => Deferred.await(jobs)), scope)

      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 second")
      const early = closing.pollUnsafe()
      yield* Deferred.succeed(jobs, undefined)
      yield* TestClock.adjust("10 millis")
      const late = closing.pollUnsafe()
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(closing)

      assert.isUndefined(early)
      assert.isDefined(late)
    })
  )
})
