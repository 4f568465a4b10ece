import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Schedule } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Redis } from "ioredis"
import { vi } from "vitest"
import { LocalLimiter } from "../../core/model/LocalLimiter.ts"
import type { Guard } from "../../core/model/RateLimit.ts"
import * as LimiterScript from "./LimiterScript.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisRateLimiter from "./RedisRateLimiter.ts"

const perMinute = (limit: number, bucket = "b"): Guard => ({ scope: "key", bucket, limit, window: "minute" })
const perDay = (limit: number, bucket = "b"): Guard => ({ scope: "tenant_day", bucket, limit, window: "day" })

const begin = Effect.gen(function* () {
  const server = yield* PrivateRedis.open()
  const process = Effect.gen(function* () {
    const redis = yield* RedisClient.make({ url: server.url })
    return yield* Effect.provideService(RedisRateLimiter.make, RedisClient.RedisClient, redis)
  })
  const operator = yield* PrivateRedis.operator(server)
  return { server, process, operator }
})

const hour = 3_600_000

describe("RedisRateLimiter", () => {
  it.live("accepts exactly the limit over several processes, however many ask at once", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const [one, other] = yield* Effect.all([process, process])
      for (const guard of [perMinute(37), perDay(37)]) {
        const taken = yield* Effect.all(
          Array.from({ length: 200 }, (_, index) => (index % 2 === 0 ? one : other).take([perMinute(1_000, "all"), guard])),
          { concurrency: "unbounded" }
        )

        assert.strictEqual(taken.filter(({ refusedBy }) => refusedBy === null).length, 37)
      }
      assert.strictEqual((yield* one.take([perMinute(1_000, "all")])).standings[0]?.remaining, 1_000 - 74 - 1)
    })
  )

  it.effect("answers as the limiter of one process does, whatever is asked of two", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const limiters = yield* Effect.all([process, process])
      const context = yield* Effect.context<never>()
      let runs = 0
      const guard = fc.record({
        scope: fc.constantFrom("ip" as const, "key" as const),
        bucket: fc.constantFrom("a", "b"),
        limit: fc.integer({ min: 0, max: 4 }),
        window: fc.constantFrom("minute" as const, "day" as const)
      })
      const request = fc.record({ guards: fc.array(guard, { maxLength: 3 }), asks: fc.nat(1), waits: fc.constantFrom(0, 0, 1, 20_000, 59_999, 4 * hour) })
      const property = fc.asyncProperty(fc.array(request, { maxLength: 40, size: "max" }), (requests) =>
        Effect.runPromiseWith(context)(
          Effect.gen(function* () {
            const clock = yield* Clock.Clock
            const local = new LocalLimiter()
            const run = runs++
            for (const { guards, asks, waits } of requests) {
              yield* TestClock.adjust(waits)
              const asked = guards.map((one) => ({ ...one, bucket: `${run} ${one.bucket}` }))
              const expected = local.take(asked, clock.monotonicTimeNanosUnsafe(), clock.currentTimeMillisUnsafe())

              assert.deepStrictEqual(yield* limiters[asks]!.take(asked), expected)
            }
          })
        )
      )
      yield* Effect.promise(() => fc.assert(property, { numRuns: 100 }))
    }),
    60_000
  )

  it.effect("gives back each place a minute after any process took it, to a process that starts in between too", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      yield* TestClock.adjust("10 hours")
      const one = yield* process
      assert.isNull((yield* one.take([perMinute(2)])).refusedBy)
      yield* TestClock.adjust("20 seconds")
      const other = yield* process
      assert.isNull((yield* other.take([perMinute(2)])).refusedBy)

      yield* TestClock.adjust(39_999)
      assert.deepStrictEqual([yield* one.take([perMinute(2)]), yield* other.take([perMinute(2)])].map(({ refusedBy }) => refusedBy?.resetMs), [1, 1])
      yield* TestClock.adjust(1)
      assert.isNull((yield* other.take([perMinute(2)])).refusedBy)
      assert.strictEqual((yield* one.take([perMinute(2)])).refusedBy?.resetMs, 20_000)
    })
  )

  it.live("does not shorten a minute for a process whose clock is an hour off", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const one = yield* process
      assert.isNull((yield* one.take([perMinute(2)])).refusedBy)
      for (const shift of [hour, -hour]) {
        const now = Date.now
        vi.spyOn(Date, "now").mockImplementation(() => now() + shift)
        const other = yield* process
        vi.restoreAllMocks()
        const { refusedBy, standings } = yield* other.take([perMinute(2)])
        assert.strictEqual(refusedBy === null, shift > 0)
        assert.isAbove(standings[0]!.resetMs, 55_000)
        assert.isAtMost(standings[0]!.resetMs, 60_000)
      }
      assert.isNotNull((yield* one.take([perMinute(2)])).refusedBy)
    })
  )

  it.live("shares its minutes with a machine that was suspended, whose monotonic clock stood still meanwhile", () =>
    Effect.gen(function* () {
      const { server, process } = yield* begin
      const live = yield* Clock.Clock
      let stoodStill = 0
      const late: Clock.Clock = Object.assign(Object.create(live), {
        monotonicTimeNanosUnsafe: () => live.monotonicTimeNanosUnsafe() - Duration.toNanosUnsafe(Duration.millis(stoodStill))
      })
      const one = yield* process
      const redis = yield* RedisClient.make({ url: server.url, machineClock: late })
      const other = yield* RedisRateLimiter.make.pipe(Effect.provideService(RedisClient.RedisClient, redis), Effect.provideService(Clock.Clock, late))
      const ofOther = (bucket: string) => Effect.provideService(other.take([perMinute(2, bucket)]), Clock.Clock, late)
      yield* ofOther("before")
      stoodStill = 600_000

      for (const bucket of ["ours", "theirs"]) {
        const ofOne = one.take([perMinute(2, bucket)])
        const [first, second] = bucket === "ours" ? [ofOne, ofOther(bucket)] : [ofOther(bucket), ofOne]
        assert.deepStrictEqual([yield* first, yield* first].map(({ refusedBy }) => refusedBy), [null, null])
        const { refusedBy } = yield* second
        assert.isAbove(refusedBy?.resetMs ?? 0, 50_000)
        // They measured the server's clock to some milliseconds.
        assert.isAtMost(refusedBy?.resetMs ?? 0, 60_100)
      }
    })
  )

  it.live("shares its minutes with a machine whose clock is an hour off all the time", () =>
    Effect.gen(function* () {
      const { server, process } = yield* begin
      const live = yield* Clock.Clock
      const one = yield* process
      for (const shift of [hour, -hour]) {
        const off: Clock.Clock = Object.assign(Object.create(live), { currentTimeMillisUnsafe: () => live.currentTimeMillisUnsafe() + shift })
        const redis = yield* RedisClient.make({ url: server.url, machineClock: off })
        const other = yield* RedisRateLimiter.make.pipe(Effect.provideService(RedisClient.RedisClient, redis), Effect.provideService(Clock.Clock, off))
        const guard = perMinute(1, String(shift))
        assert.isNull((yield* one.take([guard])).refusedBy)

        const { refusedBy } = yield* Effect.provideService(other.take([guard]), Clock.Clock, off)

        assert.isAbove(refusedBy?.resetMs ?? 0, 50_000)
        assert.isAtMost(refusedBy?.resetMs ?? 0, 60_100)
      }
    })
  )

  it.live("does not shorten a minute for a process that measures it a little late", () =>
    Effect.gen(function* () {
      const { server } = yield* begin
      const redis = yield* RedisClient.make({ url: server.url })
      const answered = (seconds: number) => redis.run(LimiterScript.take, [1e15 + seconds * 1e6, 1, 1, "minute", "b", 2])
      assert.deepStrictEqual(yield* answered(100), [0, 1, 60_000])
      assert.deepStrictEqual(yield* answered(90), [0, 0, 70_000])

      assert.deepStrictEqual(yield* answered(159.0005), [1, 0, 1_000])
      assert.deepStrictEqual(yield* answered(160), [0, 1, 60_000])
    })
  )

  it.live("keeps what was counted while all processes were gone, and while it was away", () =>
    Effect.gen(function* () {
      const { server, process } = yield* begin
      yield* Effect.scoped(Effect.flatMap(process, (one) => one.take([perMinute(2), perDay(2)])))
      const other = yield* process
      yield* server.freeze
      assert.strictEqual((yield* Effect.flip(other.take([perMinute(2), perDay(2)])))._tag, "RateLimiterUnavailable")
      yield* server.thaw

      const { standings } = yield* Effect.retry(other.take([perMinute(5), perDay(5)]), { schedule: Schedule.spaced("20 millis"), times: 200 })

      assert.lengthOf(standings, 2)
      // What was asked when it stood still may have been counted.
      for (const { remaining } of standings) assert.isTrue(remaining === 2 || remaining === 3)
    })
  )

  it.live("forgets each counter by itself, and keeps of a minute's no more than its limit", () =>
    Effect.gen(function* () {
      const { process, operator } = yield* begin
      const limiter = yield* process
      for (let request = 0; request < 700; request++) yield* limiter.take([perMinute(600), perMinute(1_000, "c"), perDay(1_000)])

      const keys = yield* Effect.promise(() => operator.keys("*"))
      assert.strictEqual(keys.length, 3)
      for (const key of keys) {
        assert.isTrue(key.startsWith("{mailroom}:"))
        const lifetime = yield* Effect.promise(() => operator.pttl(key))
        assert.isAbove(lifetime, key.includes("day") ? 24 * hour : 60_000)
        assert.isAtMost(lifetime, 2 * 24 * hour)
        const sizeBytes = yield* Effect.promise(() => operator.memory("USAGE", key, "SAMPLES", 0))
        assert.isBelow(Number(sizeBytes), key.includes("day") ? 150 : 200 + 12 * 600)
      }
      assert.strictEqual(yield* Effect.promise(() => operator.llen("{mailroom}:minute:key b")), 600)
    })
  )

  it.effect("asks the server once for all guards of a request", () =>
    Effect.gen(function* () {
      const { process, operator } = yield* begin
      const limiter = yield* process
      yield* limiter.take([perMinute(9)])
      const asked = vi.spyOn(Redis.prototype, "sendCommand")

      yield* limiter.take([perMinute(9), perMinute(9, "c"), perDay(9)])
      yield* limiter.take([])

      assert.strictEqual(asked.mock.calls.length, 1)
      asked.mockRestore()
      assert.include(yield* Effect.promise(() => operator.info("commandstats")), "cmdstat_evalsha")
      yield* TestClock.adjust(Duration.millis(1))
    })
  )
})
