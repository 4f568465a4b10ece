/**
 * What every RateLimiter does. Each check has buckets of its own. Minutes pass
 * with the Clock's monotonic time, days with its wall time; the virtual clock
 * moves both.
 */
import assert from "node:assert/strict"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { Guard } from "../core/model/RateLimit.ts"
import { RateLimiter } from "../core/ports/RateLimiter.ts"
import { freshId } from "./fixtures.ts"
import type { Suite } from "./Suite.ts"

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

const perMinute = (limit: number, over: Partial<Guard> = {}): Guard => ({
  scope: "key",
  bucket: freshId<string>(),
  limit,
  window: "minute",
  ...over
})

const perDay = (limit: number, over: Partial<Guard> = {}): Guard => perMinute(limit, { scope: "tenant_day", window: "day", ...over })

const take = (...guards: ReadonlyArray<Guard>) => RateLimiter.use((limiter) => limiter.take(guards))

const isAccepted = (...guards: ReadonlyArray<Guard>) => Effect.map(take(...guards), ({ refusedBy }) => refusedBy === null)

/** How many of so many requests in a row are accepted. */
const accepted = Effect.fnUntraced(function* (count: number, ...guards: ReadonlyArray<Guard>) {
  let sum = 0
  for (let request = 0; request < count; request++) if (yield* isAccepted(...guards)) sum += 1
  return sum
})

const refusal = Effect.fnUntraced(function* (...guards: ReadonlyArray<Guard>) {
  const { refusedBy } = yield* take(...guards)
  assert.ok(refusedBy !== null, "the request is accepted")
  assert.equal(refusedBy.remaining, 0)
  assert.ok(refusedBy.resetMs >= 1, `a refused client is to wait ${refusedBy.resetMs} ms`)
  return refusedBy
})

const untilMidnight = Effect.map(Clock.currentTimeMillis, (now) => day - (((now % day) + day) % day))

const goToMidnight = (before: number) =>
  Effect.flatMap(untilMidnight, (left) => TestClock.adjust(left > before ? left - before : left - before + day))

/** Runs with a wall clock that is off by so much; the monotonic one is left alone. */
const offBy = (shift: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Clock.clockWith((clock) => {
    const wall = () => clock.currentTimeMillisUnsafe() + shift
    const wallNanos = () => clock.currentTimeNanosUnsafe() + BigInt(shift) * 1_000_000n
    return Effect.provideService(effect, Clock.Clock, {
      currentTimeMillisUnsafe: wall,
      currentTimeMillis: Effect.sync(wall),
      currentTimeNanosUnsafe: wallNanos,
      currentTimeNanos: Effect.sync(wallNanos),
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: clock.monotonicTimeNanos,
      sleep: (duration) => clock.sleep(duration)
    })
  })

/** What every RateLimiter does in one process. What several have in common, if anything, its own tests must show. */
export const suite: Suite<RateLimiter> = {
  name: "RateLimiter",
  checks: [
    {
      title: "accepts as many as the limit in a minute, and says how many remain",
      check: Effect.gen(function* () {
        const guard = perMinute(3)
        const remaining: Array<number | undefined> = []
        for (let request = 0; request < 3; request++) {
          const taken = yield* take(guard)
          assert.equal(taken.refusedBy, null)
          assert.deepEqual(taken.standings.map((standing) => standing.guard), [guard])
          remaining.push(taken.standings[0]?.remaining)
        }

        assert.deepEqual(remaining, [2, 1, 0])
        assert.deepEqual((yield* refusal(guard)).guard, guard)
      })
    },
    {
      title: "accepts a refused client that waits as long as it was told, and not a millisecond before",
      check: Effect.gen(function* () {
        const guard = perMinute(2)
        yield* isAccepted(guard)
        yield* TestClock.adjust(20_000)
        yield* isAccepted(guard)
        yield* TestClock.adjust(15_000)
        assert.equal((yield* refusal(guard)).resetMs, 25_000)

        yield* TestClock.adjust(24_999)
        assert.equal((yield* refusal(guard)).resetMs, 1)
        yield* TestClock.adjust(1)

        assert.ok(yield* isAccepted(guard))
        assert.equal((yield* refusal(guard)).resetMs, 20_000)
      })
    },
    {
      title: "says when a counter is at its start again",
      check: Effect.gen(function* () {
        const guard = perMinute(5)
        yield* isAccepted(guard)
        yield* TestClock.adjust(10_000)
        const [standing] = (yield* take(guard)).standings
        assert.equal(standing?.remaining, 3)
        assert.equal(standing?.resetMs, minute)

        yield* TestClock.adjust(minute)

        assert.equal((yield* take(guard)).standings[0]?.remaining, 4)
      })
    },
    {
      title: "lets no burst through at the turn of a calendar minute",
      check: Effect.gen(function* () {
        yield* goToMidnight(minute / 2)
        const guard = perMinute(10)
        assert.equal(yield* accepted(12, guard), 10)

        yield* TestClock.adjust(minute / 2)
        assert.equal(yield* accepted(3, guard), 0)
        yield* TestClock.adjust(minute / 2 - 1)
        assert.equal(yield* accepted(3, guard), 0)
        yield* TestClock.adjust(1)
        assert.equal(yield* accepted(12, guard), 10)
      })
    },
    {
      title: "gives back each place a minute after it was taken",
      check: Effect.gen(function* () {
        const guard = perMinute(10)
        assert.equal(yield* accepted(5, guard), 5)
        yield* TestClock.adjust(minute / 2)
        assert.equal(yield* accepted(20, guard), 5)
        yield* TestClock.adjust(minute / 2)
        assert.equal(yield* accepted(20, guard), 5)
        yield* TestClock.adjust(minute / 2)
        assert.equal(yield* accepted(20, guard), 5)
      })
    },
    {
      title: "never refuses a client that stays within the limit",
      check: Effect.gen(function* () {
        const guard = perMinute(6)
        for (let request = 0; request < 30; request++) {
          assert.ok(yield* isAccepted(guard))
          yield* TestClock.adjust(minute / 6)
        }
      })
    },
    {
      title: "refuses exactly when the limit was accepted in the last 60 seconds, whenever requests come",
      check: Effect.gen(function* () {
        const guard = perMinute(7)
        const times: Array<number> = []
        let chance = 20_261_201
        for (let request = 0; request < 300; request++) {
          chance = (chance * 1_103_515_245 + 12_345) % 2_147_483_648
          // Bursts, pauses, and steps that end exactly at a window's edge.
          yield* TestClock.adjust([0, 1, 1_000, chance % 9_000, chance % 30_000, 10_000, 20_000][chance % 7]!)
          const now = yield* Clock.currentTimeMillis
          const held = times.filter((time) => time > now - minute).length
          const isTaken = yield* isAccepted(guard)
          assert.equal(isTaken, held < 7)
          if (isTaken) times.push(now)
        }

        assert.ok(times.length > 50 && times.length < 280)
      })
    },
    {
      title: "counts equal scope and bucket as one, and others apart",
      check: Effect.gen(function* () {
        const guard = perMinute(1)
        assert.ok(yield* isAccepted(guard))

        assert.ok(yield* isAccepted({ ...guard, scope: "ip" }))
        assert.ok(yield* isAccepted({ ...guard, bucket: freshId<string>() }))
        assert.ok(!(yield* isAccepted({ ...guard })))
      })
    },
    {
      title: "keeps buckets apart that differ in little: in case, in one sign, in a blank",
      check: Effect.gen(function* () {
        const name = `${freshId<string>()}:`.repeat(4)
        const buckets = [`${name}a`, `${name}A`, `${name}aa`, `${name}a `, ` ${name}a`, name]
        for (const bucket of buckets) assert.equal(yield* accepted(2, perMinute(1, { bucket })), 1, JSON.stringify(bucket))
        for (const bucket of buckets) assert.equal(yield* accepted(2, perDay(1, { bucket })), 1, JSON.stringify(bucket))
      })
    },
    {
      title: "lets the minute of each guard pass, wherever it stands in a call",
      check: Effect.gen(function* () {
        const [wide, narrow, daily] = [perMinute(3), perMinute(2), perDay(100)]
        for (const guards of [[wide, daily, narrow], [narrow, wide, daily], [daily, narrow, wide]]) {
          assert.equal(yield* accepted(3, ...guards), 2)
          yield* TestClock.adjust(minute)
        }
      })
    },
    {
      title: "takes all guards or none",
      check: Effect.gen(function* () {
        const free = perMinute(5)
        const daily = perDay(5)
        const full = perMinute(1)
        assert.ok(yield* isAccepted(full))

        for (const guards of [[free, daily, full], [full, free, daily], [free, full, daily]]) {
          assert.deepEqual((yield* refusal(...guards)).guard, full)
        }

        const [minutely, dayly] = (yield* take(free, daily)).standings
        assert.deepEqual([minutely?.remaining, dayly?.remaining], [4, 4])
      })
    },
    {
      title: "counts a refused request nowhere, not even where it was refused",
      check: Effect.gen(function* () {
        const guard = perMinute(1)
        yield* isAccepted(guard)
        for (let tries = 0; tries < 5; tries++) {
          yield* TestClock.adjust(10_000)
          yield* refusal(guard)
        }

        yield* TestClock.adjust(10_000)

        assert.ok(yield* isAccepted(guard))
      })
    },
    {
      title: "names the first guard, in the order given, that refuses, and where every guard stands",
      check: Effect.gen(function* () {
        const free = perMinute(5)
        const first = perMinute(1)
        const second = perDay(1)
        yield* isAccepted(free)
        yield* isAccepted(first, second)
        yield* TestClock.adjust(10_000)

        const taken = yield* take(free, first, second)
        const turned = yield* take(second, free, first)

        assert.deepEqual(taken.refusedBy?.guard, first)
        assert.deepEqual(turned.refusedBy?.guard, second)
        assert.deepEqual(taken.standings.map(({ guard }) => guard), [free, first, second])
        assert.deepEqual(turned.standings.map(({ guard }) => guard), [second, free, first])
        assert.deepEqual(taken.standings.map(({ remaining }) => remaining), [4, 0, 0])
        assert.deepEqual(turned.standings.map(({ remaining }) => remaining), [0, 4, 0])
        const midnight = yield* untilMidnight
        assert.deepEqual(taken.standings.map(({ resetMs }) => resetMs), [50_000, 50_000, midnight])
      })
    },
    {
      title: "tells where each guard of a refused request stands: when it would accept again, or what it has left",
      check: Effect.gen(function* () {
        const full = perMinute(2)
        const daily = perDay(5)
        for (let request = 0; request < 2; request++) {
          yield* isAccepted(full, daily)
          yield* TestClock.adjust(10_000)
        }

        const { refusedBy, standings } = yield* take(full, daily)

        assert.deepEqual(refusedBy, standings[0])
        const midnight = yield* untilMidnight
        assert.deepEqual(standings, [
          { guard: full, remaining: 0, resetMs: 40_000 },
          { guard: daily, remaining: 3, resetMs: midnight }
        ])
      })
    },
    {
      title: "accepts a request without guards",
      check: Effect.gen(function* () {
        assert.deepEqual(yield* take(), { refusedBy: null, standings: [] })
      })
    },
    {
      title: "refuses everything under a limit of nothing",
      check: Effect.gen(function* () {
        yield* refusal(perMinute(0))
        yield* refusal(perDay(0))
      })
    },
    {
      title: "obeys a limit that was raised or lowered",
      check: Effect.gen(function* () {
        for (const guard of [perMinute(3), perDay(3)]) {
          assert.equal(yield* accepted(5, guard), 3)
          assert.equal(yield* accepted(5, { ...guard, limit: 5 }), 2)
          yield* refusal({ ...guard, limit: 2 })
          assert.equal((yield* take({ ...guard, limit: 10 })).standings[0]?.remaining, 4)
        }
      })
    },
    {
      title: "tells the wait under a lowered limit",
      check: Effect.gen(function* () {
        const guard = perMinute(3)
        for (let request = 0; request < 3; request++) {
          yield* isAccepted(guard)
          yield* TestClock.adjust(10_000)
        }

        assert.equal((yield* refusal({ ...guard, limit: 1 })).resetMs, 50_000)
        yield* TestClock.adjust(50_000)
        assert.ok(yield* isAccepted({ ...guard, limit: 1 }))
      })
    },
    {
      title: "counts a day from midnight to midnight, UTC",
      check: Effect.gen(function* () {
        yield* goToMidnight(hour)
        const guard = perDay(3)
        const [standing] = (yield* take(guard)).standings
        assert.deepEqual([standing?.remaining, standing?.resetMs], [2, hour])
        yield* TestClock.adjust(hour - 1)
        assert.equal(yield* accepted(5, guard), 2)
        assert.equal((yield* refusal(guard)).resetMs, 1)

        yield* TestClock.adjust(1)
        assert.equal(yield* accepted(5, guard), 3)
        assert.equal((yield* refusal(guard)).resetMs, day)
        yield* TestClock.adjust(day - 1)
        yield* refusal(guard)
        yield* TestClock.adjust(1)
        assert.ok(yield* isAccepted(guard))
      })
    },
    {
      title: "accepts no more than the limit of concurrent requests",
      check: Effect.gen(function* () {
        for (const guard of [perMinute(20), perDay(20)]) {
          const other = perMinute(1_000)
          const taken = yield* Effect.all(Array.from({ length: 60 }, () => isAccepted(other, guard)), { concurrency: "unbounded" })

          assert.equal(taken.filter(Boolean).length, 20)
          assert.equal((yield* take(other)).standings[0]?.remaining, 979)
        }
      })
    },
    {
      title: "does not shorten a minute when the wall clock jumps ahead",
      check: Effect.gen(function* () {
        const guard = perMinute(2)
        assert.equal(yield* accepted(2, guard), 2)

        assert.equal(yield* offBy(hour)(accepted(1, guard)), 0)
        assert.equal(yield* accepted(1, guard), 0)
        yield* TestClock.adjust(minute - 1)
        assert.equal(yield* offBy(hour)(accepted(1, guard)), 0)
        assert.equal(yield* offBy(-hour)(accepted(1, guard)), 0)
      })
    },
    {
      title: "does not shorten a minute when the wall clock steps back",
      check: Effect.gen(function* () {
        const guard = perMinute(2)
        assert.equal(yield* offBy(hour)(accepted(1, guard)), 1)
        yield* TestClock.adjust(minute / 2)
        assert.equal(yield* accepted(1, guard), 1)

        yield* TestClock.adjust(minute / 2 - 1)
        assert.equal(yield* accepted(1, guard), 0)
        assert.equal(yield* offBy(hour)(accepted(1, guard)), 0)
      })
    },
    {
      title: "judges the day by the wall clock",
      check: Effect.gen(function* () {
        yield* goToMidnight(hour)
        const guard = perDay(1)
        assert.ok(yield* isAccepted(guard))

        yield* refusal(guard)
        assert.ok(yield* offBy(hour)(isAccepted(guard)), "the next day has begun for this clock, and its count has not")
        yield* refusal(guard)
      })
    }
  ]
}
