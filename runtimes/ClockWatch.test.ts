import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Logger } from "effect"
import { TestClock } from "effect/testing"
import { Database } from "../adapters/postgres/Database.ts"
import { ClockOffset, isClockTrusted } from "../core/ClockOffset.ts"
import * as ClockWatch from "./ClockWatch.ts"

/** A database whose clock is off by these milliseconds, answer by answer; the last one stays. Null: it is away. */
const watching = (...answers: ReadonlyArray<number | null>) =>
  Effect.gen(function* () {
    const left = [...answers]
    const lines: Array<string> = []
    const clockOffset = Effect.suspend(() => {
      const next = left.length > 1 ? left.shift()! : left[0]!
      return next === null ? Effect.fail("away") : Effect.succeed(next)
    })
    const database = Layer.succeed(Database, { clockOffset } as unknown as Database["Service"]) // all that is asked of it
    const log = Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))])
    const context = yield* Layer.build(ClockWatch.layer.pipe(Layer.provide(database), Layer.provide(log)))
    const offset = yield* Effect.provideContext(ClockOffset, context)
    return { offset, isTrusted: () => isClockTrusted(offset), lines }
  })

describe("the clock watch", () => {
  it.effect("measures at start and every ten seconds, and says when no work is taken, and when it is again", () =>
    Effect.gen(function* () {
      const { offset, isTrusted, lines } = yield* watching(-200, 6_000, 6_000, 6_000, 100)
      assert.deepStrictEqual([offset(), isTrusted()], [-200, true])

      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([offset(), isTrusted()], [6_000, false])
      yield* TestClock.adjust("10 seconds")

      assert.deepStrictEqual([offset(), isTrusted()], [100, true])
      assert.deepStrictEqual(lines, [
        "Error this process's clock is 6 s behind the database's: it takes no work until it is set right",
        "Info this process's clock agrees with the database's again"
      ])
    })
  )

  it.effect("says so once a minute for as long as it lasts", () =>
    Effect.gen(function* () {
      const { lines } = yield* watching(6_000)

      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(lines.length, 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(lines.length, 2)
    })
  )

  it.effect("sees at once that its clock was set, either way, and measures anew before it is believed again", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      let ahead = 0
      const set: Clock.Clock = Object.assign(Object.create(clock), { currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + ahead })
      const { offset, isTrusted } = yield* Effect.provideService(watching(100, 100, 100, 100, -180), Clock.Clock, set)

      for (const [by, expected] of [[4_000, -3_900], [86_400_000, -86_399_900], [-600_000, 600_100]] as const) {
        ahead = by
        assert.deepStrictEqual([offset(), isTrusted()], [expected, Math.abs(expected) <= 5_000])
      }
      ahead = 280 // set right
      assert.strictEqual(offset(), -180)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([offset(), isTrusted()], [100, true])
    })
  )

  it.effect("says which of the clocks is ahead, and what that does to mail", () =>
    Effect.gen(function* () {
      const { lines } = yield* watching(-6_000)

      assert.deepStrictEqual(lines, [
        "Error this process's clock is 6 s ahead of the database's: it takes no work until it is set right, and mail that it accepts until then is sent as much later"
      ])
    })
  )

  it.effect("does not take one slow answer for a clock that is off", () =>
    Effect.gen(function* () {
      const { offset, lines } = yield* watching(9_000, 50)

      assert.deepStrictEqual([offset(), lines], [50, []])
    })
  )

  it.effect("goes on with what it knows while the database is away", () =>
    Effect.gen(function* () {
      const { offset } = yield* watching(70, null)

      yield* TestClock.adjust("5 minutes")

      assert.strictEqual(offset(), 70)
    })
  )
})
