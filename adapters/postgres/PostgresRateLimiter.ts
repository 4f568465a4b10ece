/**
 * Limits that all processes on the database share, as far as days go: a process
 * takes a block of the day's limit by one statement, and counts it by itself.
 * Blocks shrink as the limit comes near, and what all processes accept together
 * is never above it. A process that dies takes its blocks with it; one that
 * falls idle, or ends, gives back what it has left.
 *
 * A minute is counted by each process alone: a statement for each request would
 * cost more than its exactness is worth.
 */
import { PgTypes } from "@effect/sql-pg"
import { Clock, Effect, Latch, Layer, Semaphore } from "effect"
import type { Millis } from "../../core/model/Ids.ts"
import { LocalLimiter } from "../../core/model/LocalLimiter.ts"
import type { Guard, Standing, Taken } from "../../core/model/RateLimit.ts"
import { untilNextDay } from "../../core/model/Timestamp.ts"
import { RateLimiter, RateLimiterUnavailable } from "../../core/ports/RateLimiter.ts"
import * as Database from "./Database.ts"
import { count, text } from "./Query.ts"
import { array, toText, type Row } from "./Rows.ts"

const dayMs: Millis = 86_400_000

/** A block is a hundredth of the limit, up to this. */
const blockMax = 500
/** What has not been asked for this long is given back. */
export const idleAfter: Millis = 30_000
/** How long a limit is believed to be exhausted: another process may give something back. */
const exhaustedPause: Millis = 1_000
/** Counts of days that are over which go with a block. */
const removedMax = 1_000
/** A request waits no longer for the database; for as long again, none waits at all. */
const patience: Millis = 1_000

/** One counter of one day, as this process knows it. */
class Day {
  readonly guard: Guard
  readonly number: number
  /** Of the blocks taken, what is not used up. */
  left = 0
  /** The sum of all blocks, of all processes, when it was last asked for. */
  taken = 0
  lookedAt: Millis | null = null
  touchedAt: Millis = 0
  readonly refilling = Semaphore.makeUnsafe(1)

  constructor(guard: Guard, number: number) {
    this.guard = guard
    this.number = number
  }

  /** How many more a limit allows. What others have taken counts as used. */
  remaining(limit: number): number {
    return Math.max(0, limit - (this.taken - this.left))
  }

  isOpen(limit: number): boolean {
    return this.left > 0 && this.remaining(limit) > 0
  }

  wantsBlock(limit: number, steady: Millis): boolean {
    if (this.left > 0 || limit <= 0) return false
    return this.taken < limit || this.lookedAt === null || steady - this.lookedAt >= exhaustedPause
  }
}

export const layer: Layer.Layer<RateLimiter, never, Database.Database> = Layer.effect(
  RateLimiter,
  Effect.gen(function* () {
    const database = yield* Database.Database
    const minutes = new LocalLimiter()
    const days = new Map<string, Day>()
    const hasDays = Latch.makeUnsafe(false)
    let awayUntil: Millis = -Infinity
    let cleanedOn = -Infinity

    const rows = (statement: string, parameters: ReadonlyArray<unknown>) =>
      database.rows<Row>(statement, parameters).pipe(
        Effect.timeout(patience),
        Database.onLiveClock,
        Effect.mapError((cause) => new RateLimiterUnavailable({ cause }))
      )

    const dayOf = (guard: Guard, now: Millis, steady: Millis): Day => {
      const number = Math.floor(now / dayMs)
      const name = `${number} ${guard.scope} ${guard.bucket}`
      const day = days.get(name) ?? new Day(guard, number)
      days.set(name, day)
      hasDays.openUnsafe()
      day.touchedAt = steady
      return day
    }

    const takeBlock = Effect.fnUntraced(function* (day: Day, limit: number) {
      const { scope, bucket } = day.guard
      const block = Math.max(1, Math.min(blockMax, Math.floor(limit / 100)))
      const [row] = yield* rows(takeStatement, [text(scope), text(bucket), PgTypes.int4(day.number), count(limit), count(block)])
      day.left += Number(row!["granted"]) // the statement gives one row
      day.taken = Number(row!["used"])
      if (day.number <= cleanedOn) return
      // Who takes a block waits for it; where there are more, the next one goes on.
      const removed = yield* Effect.orElseSucceed(rows(removeStatement, [PgTypes.int4(day.number - 2), count(removedMax)]), () => [])
      if (removed.length < removedMax) cleanedOn = day.number
    })

    /** Those who come meanwhile wait, and share the block. */
    const refill = (day: Day, limit: number) =>
      day.refilling.withPermits(1)(
        Effect.flatMap(steadyMillis, (steady): Effect.Effect<void, RateLimiterUnavailable> => {
          if (!day.wantsBlock(limit, steady)) return Effect.void
          if (steady < awayUntil) return Effect.fail(away)
          day.lookedAt = steady
          const taking = Effect.tapError(takeBlock(day, limit), () =>
            Effect.sync(() => {
              day.lookedAt = null
              awayUntil = steady + patience
            })
          )
          // Whoever asked may hang up: a block that is taken for him, and by nobody counted, would be lost for the day.
          return Effect.uninterruptible(taking)
        })
      )

    /** Mostly no day wants a block, and then nothing is waited for. */
    const take = (guards: ReadonlyArray<Guard>): Effect.Effect<Taken, RateLimiterUnavailable> =>
      Clock.clockWith((clock) => {
        const now = clock.currentTimeMillisUnsafe()
        const steadyNanos = clock.monotonicTimeNanosUnsafe()
        if (guards.every(({ window }) => window === "minute")) return Effect.succeed(minutes.take(guards, steadyNanos, now))
        const steady = toMillis(steadyNanos)
        const daily = guards.map((guard) => (guard.window === "day" ? dayOf(guard, now, steady) : null))
        const wanting = daily.findIndex((day, index) => day?.wantsBlock(guards[index]!.limit, steady))
        if (wanting === -1) return Effect.succeed(decide(guards, daily, minutes, steadyNanos, now))
        return Effect.andThen(refill(daily[wanting]!, guards[wanting]!.limit), take(guards))
      })

    /** What is not known to have been given back stays taken. */
    const giveBack = Effect.fnUntraced(function* (isOver: (day: Day) => boolean) {
      const given: Array<Day> = []
      const lefts: Array<bigint> = []
      for (const [name, day] of days) {
        if (!isOver(day)) continue
        days.delete(name)
        if (day.left === 0) continue
        given.push(day)
        lefts.push(BigInt(day.left))
        day.left = 0
      }
      if (days.size === 0) hasDays.closeUnsafe()
      if (given.length === 0) return
      yield* Effect.ignoreCause(
        rows(giveBackStatement, [
          array("text", given.map(({ guard }) => guard.scope)),
          array("text", given.map(({ guard }) => toText(guard.bucket))),
          array("integer", given.map(({ number }) => number)),
          array("bigint", lefts)
        ])
      )
    })

    const giveBackIdle = Effect.flatMap(steadyMillis, (steady) => giveBack(({ touchedAt }) => steady - touchedAt >= idleAfter))
    yield* hasDays.await.pipe(
      Effect.andThen(Effect.sleep(idleAfter)),
      Effect.andThen(giveBackIdle),
      Effect.forever,
      Effect.forkScoped
    )
    yield* Effect.addFinalizer(() => giveBack(() => true))
    return RateLimiter.of({ take })
  })
)

/** Takes all guards or none, at once. `daily` are their days, which want no block: those that are not open refuse. */
const decide = (
  guards: ReadonlyArray<Guard>,
  daily: ReadonlyArray<Day | null>,
  minutes: LocalLimiter,
  steadyNanos: bigint,
  now: Millis
): Taken => {
  const isRefusing = daily.map((day, index) => day !== null && !day.isOpen(guards[index]!.limit))
  const isRefused = isRefusing.includes(true)
  const minutely = guards.filter((_, index) => daily[index] === null)
  const inMinute = minutes.take(isRefused ? [...minutely, refusing] : minutely, steadyNanos, now)
  const isTaken = inMinute.refusedBy === null
  if (isTaken) for (const day of daily) if (day !== null) day.left -= 1

  let minute = 0
  const standings = guards.map((guard, index): Standing => {
    const day = daily[index]
    if (day === null || day === undefined) return inMinute.standings[minute++]! // in the order of the guards
    return { guard, remaining: isRefusing[index] ? 0 : day.remaining(guard.limit), resetMs: untilNextDay(now) }
  })
  const refuser = standings.findIndex(({ guard }, index) => isRefusing[index] || guard === inMinute.refusedBy?.guard)
  return { refusedBy: isTaken ? null : standings[refuser]!, standings } // somebody refuses what is not taken
}

/** Makes a local limiter say where its guards stand, and count nothing. */
const refusing: Guard = { scope: "ip", bucket: "", limit: 0, window: "day" }

const away = new RateLimiterUnavailable({ cause: new Error("the database was away just now") })

const toMillis = (nanos: bigint): Millis => Number(nanos / 1_000_000n)
const steadyMillis = Effect.map(Clock.monotonicTimeNanos, toMillis)

const takeStatement = `
  insert into mailroom.day_count as held (scope, bucket, day, used, granted) values ($1, $2, $3, least($4, $5), least($4, $5))
  on conflict (scope, bucket, day) do update set
    granted = greatest(0, least($4 - held.used, greatest(1, least($5, ($4 - held.used) / 8)))),
    used = held.used + greatest(0, least($4 - held.used, greatest(1, least($5, ($4 - held.used) / 8))))
  returning used, granted`
const giveBackStatement = `
  with held as materialized (
    select scope, bucket, day, given.unused
    from unnest($1::text[], $2::text[], $3::integer[], $4::bigint[]) given (scope, bucket, day, unused)
    join mailroom.day_count using (scope, bucket, day) order by scope, bucket, day for update of day_count
  )
  update mailroom.day_count set used = used - unused from held
  where day_count.scope = held.scope and day_count.bucket = held.bucket and day_count.day = held.day`
const removeStatement = `
  delete from mailroom.day_count where ctid = any(array(
    select ctid from mailroom.day_count where day < $1 limit $2 for update skip locked
  )) returning 1`
