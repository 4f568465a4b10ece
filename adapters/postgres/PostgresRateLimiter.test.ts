import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Fiber, Latch, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { collect } from "../../conformance/Garbage.ts"
import { freshId } from "../../conformance/fixtures.ts"
import type { Guard } from "../../core/model/RateLimit.ts"
import { RateLimiter } from "../../core/ports/RateLimiter.ts"
import * as Connections from "./Connections.ts"
import * as Database from "./Database.ts"
import * as PostgresRateLimiter from "./PostgresRateLimiter.ts"
import * as TestDatabase from "./TestDatabase.ts"

const perDay = (limit: number): Guard => ({ scope: "tenant_day", bucket: freshId<string>(), limit, window: "day" })
const perMinute = (limit: number): Guard => ({ scope: "key", bucket: freshId<string>(), limit, window: "minute" })

/** Two processes on one database, as it were, and a connection beside them. */
const two = Effect.gen(function* () {
  const url = yield* TestDatabase.url()
  const database = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ url, connectionsMax: 1 }))), Database.Database)
  const process = Effect.gen(function* () {
    const scope = yield* Scope.make()
    const made = Layer.fresh(PostgresRateLimiter.layer.pipe(Layer.provide(Database.layer({ url, connectionsMax: 2 }))))
    const limiter = Context.get(yield* Layer.buildWithScope(made, scope), RateLimiter)
    yield* Effect.addFinalizer((exit) => Scope.close(scope, exit))
    return { take: (...guards: ReadonlyArray<Guard>) => limiter.take(guards), end: Scope.close(scope, Exit.void) }
  })
  const used = ({ bucket }: Guard) =>
    Effect.map(
      database.sql<{ used: bigint }>`select used from mailroom.day_count where bucket = ${bucket}`,
      ([row]) => Number(row?.used ?? 0)
    )
  return { ours: yield* process, theirs: yield* process, database, used }
})

/** One process more, on this. */
const limiterOn = (database: Database.Database["Service"]) =>
  Effect.map(
    Layer.build(Layer.fresh(PostgresRateLimiter.layer.pipe(Layer.provide(Layer.succeed(Database.Database, database))))),
    Context.get(RateLimiter)
  )

const isAccepted = <E>(taken: Effect.Effect<{ readonly refusedBy: unknown }, E>) =>
  Effect.map(taken, ({ refusedBy }) => refusedBy === null)

const times = <A, E>(count: number, one: Effect.Effect<A, E>) => Effect.forEach(Array(count).keys(), () => one)

describe("the rate limiter of several processes", () => {
  it.effect("accepts exactly the limit of a day together, however the requests are divided", () =>
    Effect.gen(function* () {
      const { ours, theirs, used } = yield* two
      for (const [limit, share] of [[1, 1], [7, 2], [100, 1], [2_000, 3], [2_000, 40]] as const) {
        const guard = perDay(limit)
        let accepted = 0
        let refusedInARow = 0
        for (let request = 0; refusedInARow < 2 * share + 2; request++) {
          const isTaken = yield* isAccepted((request % (share + 1) === 0 ? ours : theirs).take(guard))
          if (isTaken) accepted++
          refusedInARow = isTaken ? 0 : refusedInARow + 1
        }
        assert.strictEqual(accepted, limit)
        assert.strictEqual(yield* used(guard), limit)
      }
    })
  )

  it.effect("accepts no more than the limit of concurrent requests in both", () =>
    Effect.gen(function* () {
      const { ours, theirs } = yield* two
      const guard = perDay(700)

      const requests = Array.from({ length: 1_000 }, (_, index) => isAccepted((index % 2 === 0 ? ours : theirs).take(guard)))
      const taken = yield* Effect.all(requests, { concurrency: "unbounded" })

      // Whoever was refused was so while the other held what was left.
      const accepted = taken.filter(Boolean).length
      assert.isAtMost(accepted, 700)
      const rest = [...(yield* times(20, isAccepted(ours.take(guard)))), ...(yield* times(20, isAccepted(theirs.take(guard))))]
      assert.strictEqual(accepted + rest.filter(Boolean).length, 700)
    })
  )

  it.effect("asks the database once for a block of requests", () =>
    Effect.gen(function* () {
      const { ours, used } = yield* two
      const guard = perDay(100_000)
      yield* times(500, ours.take(guard))
      assert.strictEqual(yield* used(guard), 500)

      yield* ours.take(guard)

      assert.strictEqual(yield* used(guard), 1_000)
    })
  )

  it.effect("takes less at a time as the limit comes near, and leaves the rest to others", () =>
    Effect.gen(function* () {
      const { ours, theirs, used } = yield* two
      const guard = perDay(10_000)
      yield* times(9_990, theirs.take(guard))
      assert.isBelow(yield* used(guard), 9_993)

      yield* ours.take(guard)

      assert.isBelow(yield* used(guard), 9_995)
    })
  )

  it.effect("counts a request that another guard refuses in no block", () =>
    Effect.gen(function* () {
      const { ours } = yield* two
      const [daily, minutely] = [perDay(1_000), perMinute(3)]
      assert.deepStrictEqual(yield* times(6, isAccepted(ours.take(daily, minutely))), [true, true, true, false, false, false])

      assert.strictEqual((yield* ours.take(daily)).standings[0]!.remaining, 996)
    })
  )

  it.effect("gives back what it has left when it falls idle, and when it ends", () =>
    Effect.gen(function* () {
      const { ours, theirs, used } = yield* two
      const [idle, ended] = [perDay(10_000), perDay(10_000)]
      yield* times(10, ours.take(idle))
      assert.strictEqual(yield* used(idle), 100)

      yield* TestClock.adjust(2 * PostgresRateLimiter.idleAfter)
      yield* TestClock.withLive(Effect.repeat(Effect.andThen(Effect.sleep(5), used(idle)), { until: (count) => count === 10 }))
      yield* times(10, ours.take(ended))
      yield* ours.end

      assert.strictEqual(yield* used(ended), 10)
      assert.strictEqual((yield* theirs.take(ended)).standings[0]!.remaining, 9_989)
    })
  )

  it.effect("gives back to each counter, and to each day of one, what is left of its own blocks", () =>
    Effect.gen(function* () {
      const { ours, database } = yield* two
      const [first, second] = [perDay(10_000), perDay(20_000)]
      yield* TestClock.adjust(86_390_000)
      for (const [guard, count] of [[first, 10], [second, 20]] as const) yield* times(count, ours.take(guard))
      yield* TestClock.adjust("20 seconds") // it is midnight in between
      for (const [guard, count] of [[first, 30], [second, 40]] as const) yield* times(count, ours.take(guard))

      yield* ours.end

      const used = yield* database.sql<{ used: number }>`
        select used::integer from mailroom.day_count order by day, bucket = ${second.bucket}`
      assert.deepStrictEqual(used.map((row) => row.used), [10, 20, 30, 40])
    })
  )

  it.effect("holds nothing of who has not been there for a while", () =>
    Effect.gen(function* () {
      const { ours } = yield* two
      const guards = Array.from({ length: 20 }, () => perDay(10))
      for (const guard of guards) yield* ours.take(guard)
      const held = guards.splice(0).map((guard) => new WeakRef(guard))

      yield* TestClock.adjust(2 * PostgresRateLimiter.idleAfter)
      yield* TestClock.withLive(Effect.sleep("20 millis"))
      collect()

      assert.isAtMost(held.filter((one) => one.deref() !== undefined).length, 2)
    })
  )

  it.effect("takes what another has given back, within a second of being refused", () =>
    Effect.gen(function* () {
      const { ours, theirs } = yield* two
      const guard = perDay(10_000)
      yield* times(9_900, theirs.take(guard))
      const [first] = yield* times(1, isAccepted(ours.take(guard)))
      assert.isTrue(first)
      while (yield* isAccepted(theirs.take(guard))) continue
      yield* ours.end
      assert.isFalse(yield* isAccepted(theirs.take(guard)))

      yield* TestClock.adjust("1 second")

      assert.isTrue(yield* isAccepted(theirs.take(guard)))
    })
  )

  it.effect("forgets days that are over", () =>
    Effect.gen(function* () {
      const { ours, used } = yield* two
      const guard = perDay(10)
      yield* ours.take(guard)
      yield* TestClock.adjust("3 days")

      yield* ours.take(perDay(10))

      assert.strictEqual(yield* used(guard), 0)
    })
  )

  it.effect("keeps what was counted yesterday, for another's clock may be late", () =>
    Effect.gen(function* () {
      const { ours, theirs } = yield* two
      const guard = perDay(10)
      const clock = yield* Clock.Clock
      const late = Effect.provideService(Clock.Clock, { ...clock, currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - 1_000 })
      yield* TestClock.adjust(86_399_500)
      yield* times(10, theirs.take(guard))
      yield* TestClock.adjust("1 second")

      yield* ours.take(perDay(10))

      assert.isFalse(yield* isAccepted(late(ours.take(guard))))
    })
  )

  it.effect("forgets days that are over a thousand counts at a time, for a request waits for it", () =>
    Effect.gen(function* () {
      const { ours, database } = yield* two
      yield* database.sql`insert into mailroom.day_count select 'tenant_day', n::text, -3, 1, 1 from generate_series(1, 2500) n`
      const left = Effect.map(database.sql<{ left: number }>`select count(*)::integer as left from mailroom.day_count where day < 0`, ([row]) => row!.left)

      const lefts = yield* times(4, Effect.andThen(ours.take(perDay(10)), left))

      assert.deepStrictEqual(lefts, [1_500, 500, 0, 0])
    })
  )

  it.effect("goes on with the blocks it has while the database is away, then fails, and works again", () =>
    Effect.gen(function* () {
      const { ours, database } = yield* two
      const [held, fresh] = [perDay(100_000), perDay(100)]
      yield* ours.take(held)
      yield* database.sql`alter table mailroom.day_count rename to day_count_away`

      assert.isTrue(yield* isAccepted(ours.take(held)))
      assert.strictEqual((yield* Effect.flip(ours.take(fresh)))._tag, "RateLimiterUnavailable")
      yield* database.sql`alter table mailroom.day_count_away rename to day_count`
      assert.strictEqual((yield* Effect.flip(ours.take(fresh)))._tag, "RateLimiterUnavailable")
      yield* TestClock.adjust("1 second")

      assert.isTrue(yield* isAccepted(ours.take(fresh)))
    })
  )

  it.effect("has a block though no day that is over can be forgotten", () =>
    Effect.gen(function* () {
      const { database } = yield* two
      const rows: typeof database.rows = (text, parameters) =>
        text.includes("delete from") ? Effect.fail(Connections.lost("test")) : database.rows(text, parameters)
      const limiter = yield* limiterOn({ ...database, rows })

      assert.strictEqual((yield* limiter.take([perDay(10_000)])).standings[0]!.remaining, 9_999)
    })
  )

  it.effect("keeps a block that comes when whoever asked for it has hung up, for those who come next", () =>
    Effect.gen(function* () {
      const { database, used } = yield* two
      const [taken, told] = [yield* Latch.make(false), yield* Latch.make(false)]
      const rows: typeof database.rows = (text, parameters) =>
        Effect.tap(database.rows<never>(text, parameters), () => Effect.andThen(taken.open, told.await))
      const limiter = yield* limiterOn({ ...database, rows })
      const guard = perDay(10_000)
      const first = yield* Effect.forkChild(limiter.take([guard]), { startImmediately: true })
      yield* taken.await

      const left = yield* Effect.forkChild(Fiber.interrupt(first), { startImmediately: true })
      yield* told.open
      yield* Fiber.join(left)

      assert.strictEqual((yield* limiter.take([guard])).standings[0]!.remaining, 9_999)
      assert.strictEqual(yield* used(guard), 100)
    })
  )

  it.effect("waits no longer than a second for a database that does not answer", () =>
    Effect.gen(function* () {
      const { ours, database } = yield* two
      const connection = yield* database.sql.reserve
      yield* connection.execute("begin", [], undefined)
      yield* connection.execute("lock table mailroom.day_count", [], undefined)
      const before = yield* TestClock.withLive(Clock.currentTimeMillis)

      const failed = yield* Effect.forEach([1, 2, 3], () => Effect.flip(ours.take(perDay(10))), { concurrency: "unbounded" })

      assert.deepStrictEqual(failed.map(({ _tag }) => _tag), Array(3).fill("RateLimiterUnavailable"))
      assert.isBelow((yield* TestClock.withLive(Clock.currentTimeMillis)) - before, 3_000)
      yield* connection.execute("rollback", [], undefined)
    }).pipe(Effect.scoped)
  )

  it.effect("fails when its connection is ended, and works again", () =>
    Effect.gen(function* () {
      const { ours, database } = yield* two
      yield* ours.take(perDay(10))
      yield* database.sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`

      yield* Effect.exit(ours.take(perDay(10)))
      yield* TestClock.adjust("1 second")

      assert.isTrue(yield* isAccepted(ours.take(perDay(10))))
    })
  )
})
