import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"
import { collect } from "../conformance/Garbage.ts"
import * as Deadlines from "./Deadlines.ts"

const turn = Effect.promise(() => new Promise<void>((resolve) => void setImmediate(resolve)))

describe("Deadlines", () => {
  it.effect("hold nothing of what was cleared while one is waited for", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines.make(Duration.minutes(9))
      deadlines.set(() => undefined)
      yield* turn // somebody sleeps for it by now
      const held: Array<WeakRef<object>> = []
      const underWay: Array<Deadlines.Deadline | null> = []
      for (let count = 0; count < 1_000; count++) {
        const bytes = new Uint8Array(1_000)
        held.push(new WeakRef(bytes))
        underWay.push(deadlines.set(() => void bytes.length))
        if (underWay.length > 8) deadlines.clear(underWay.shift() ?? null)
      }
      for (const deadline of underWay.splice(0)) deadlines.clear(deadline)
      yield* turn
      collect()

      assert.isAtMost(held.filter((one) => one.deref() !== undefined).length, 10)
    })
  )

  it.effect("interrupt what is not over in time, and go on with something else once it has ended", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines.make(Duration.seconds(5))
      const told: Array<string> = []
      const say = (what: string) => Effect.sync(() => void told.push(what))
      const late = Effect.never.pipe(Effect.onInterrupt(() => Effect.andThen(Effect.sleep("1 second"), say("ended"))))
      const fiber = yield* Effect.forkChild(late.pipe(deadlines.within(() => say("late"))), { startImmediately: true })

      yield* TestClock.adjust("4999 millis")
      assert.deepStrictEqual(told, [])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(told, [])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(told, ["ended", "late"])
      yield* Fiber.join(fiber)
    })
  )

  it.effect("fall due at once where they are ended, and begin anew", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines.make(Duration.seconds(5))
      const late = Effect.forkChild(deadlines.within(() => Effect.succeed("late"))(Effect.never), { startImmediately: true })
      const [one, other] = [yield* late, yield* late]

      yield* deadlines.end
      assert.deepStrictEqual([yield* Fiber.join(one), yield* Fiber.join(other)], ["late", "late"])
      const third = yield* late
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(third.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* Fiber.join(third), "late")
    })
  )

  it.effect("leave what is over in time as it is, at once or later", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines.make(Duration.seconds(5))
      const within = deadlines.within(() => Effect.succeed("late"))
      const exits = yield* Effect.forkChild(
        Effect.all([
          Effect.exit(within(Effect.succeed("at once"))),
          Effect.exit(within(Effect.fail("failed at once"))),
          Effect.exit(within(Effect.delay(Effect.succeed("in time"), "4 seconds"))),
          Effect.exit(within(Effect.delay(Effect.fail("failed in time"), "4 seconds"))),
          Effect.exit(within(Effect.delay(Effect.succeed("too late"), "6 seconds")))
        ])
      )
      yield* TestClock.adjust("1 minute")

      assert.deepStrictEqual(yield* Fiber.join(exits), [
        Exit.succeed("at once"),
        Exit.fail("failed at once"),
        Exit.succeed("in time"),
        Exit.fail("failed in time"),
        Exit.succeed("late")
      ])
    })
  )

  it.effect("let go of what is interrupted meanwhile, and say nothing for it", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines.make(Duration.seconds(5))
      const told: Array<string> = []
      const say = (what: string) => Effect.sync(() => void told.push(what))
      const work = Effect.never.pipe(Effect.onInterrupt(() => say("ended")))
      const fiber = yield* Effect.forkChild(work.pipe(deadlines.within(() => say("late"))), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(told, ["ended"])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(told, ["ended"])
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )

  it.effect("give what is under way a moment after the process stood still, for what came meanwhile is yet to be read", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      let stoodStill = 0n
      const stopped: Clock.Clock = Object.assign(Object.create(clock), { // all else is the clock's
        monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe() + stoodStill
      })
      const deadlines = yield* Effect.provideService(Deadlines.make(Duration.seconds(5)), Clock.Clock, stopped)
      const told: Array<string> = []
      const read = deadlines.set(() => told.push("what was answered"))
      deadlines.set(() => told.push("what was not"))
      yield* TestClock.adjust("4999 millis")
      stoodStill = Duration.toNanosUnsafe(Duration.millis(30))

      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(told, [])
      deadlines.clear(read)
      yield* TestClock.adjust("250 millis")
      assert.deepStrictEqual(told, ["what was not"])

      deadlines.set(() => told.push("what comes after that"))
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(told, ["what was not", "what comes after that"])
    })
  )

  it.effect("fall due though one before them breaks, and of that one the log is told", () =>
    Effect.gen(function* () {
      const logged: Array<unknown> = []
      const log = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
      const deadlines = yield* Effect.provide(Deadlines.make(Duration.seconds(5)), log)
      const told: Array<string> = []
      const broken = new Error("broken")
      deadlines.set(() => {
        throw broken
      })
      deadlines.set(() => told.push("the next"))
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(told, ["the next"])

      deadlines.set(() => told.push("what comes after that"))
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(told, ["the next", "what comes after that"])
      assert.deepStrictEqual(logged, [["what a deadline calls broke; the others go on", broken]])
    })
  )
})
