/**
 * Limits that all processes on one Redis server share, exact over all of them:
 * a call's guards are judged and counted in one script.
 *
 * The minute is measured by each process's monotonic clock, set by the server's
 * when the process starts, and again when its machine was suspended, in which
 * that clock stands still. So neither a wall clock that jumps nor one that is
 * off shortens it; a server whose clock is set by so much between the starts of
 * two processes makes their minutes overlap by as much. The day is that of
 * Effect's Clock.
 *
 * A minute's counter costs about 100 bytes and 10 for each request in it, for
 * five minutes; a day's about 100, for two days. A server that is short of
 * memory must not evict them: `maxmemory-policy noeviction`.
 */
import { Clock, Effect, Layer, Semaphore } from "effect"
import type { Guard, Standing, Taken } from "../../core/model/RateLimit.ts"
import { untilNextDay } from "../../core/model/Timestamp.ts"
import { RateLimiter, RateLimiterUnavailable } from "../../core/ports/RateLimiter.ts"
import * as LimiterScript from "./LimiterScript.ts"
import { RedisClient, understood, type RedisUnavailable } from "./RedisClient.ts"

const day = 86_400_000

interface Measured {
  /** The time that processes agree on, less this process's monotonic clock; in nanoseconds. */
  readonly origin: bigint
  /** `RedisClient.clockLead`, as it was then. */
  readonly lead: bigint
}

/** Nanoseconds; adjusting a clock moves it by less. */
const shiftMax = 1_000_000_000n

const isNear = (one: bigint, other: bigint): boolean => (one > other ? one - other : other - one) <= shiftMax

export const make = Effect.gen(function* () {
  const redis = yield* RedisClient
  /** Null until the server has answered. */
  let measured: Measured | null = null
  /** What holds still: the machine was not suspended since, nor was its wall clock set. */
  const sound = () => (measured !== null && isNear(measured.lead, redis.clockLead()) ? measured : null)
  const oneAtATime = Semaphore.makeUnsafe(1)

  const measure = oneAtATime.withPermits(1)(
    Effect.gen(function* () {
      const known = sound()
      if (known !== null) return known
      const lead = redis.clockLead()
      const offset = yield* redis.clockOffset
      const clock = yield* Clock.Clock
      const origin = BigInt(Math.round((clock.currentTimeMillisUnsafe() + offset) * 1e6)) - clock.monotonicTimeNanosUnsafe()
      // Where the wall clock was set it has not, and what was measured before is as good.
      measured = { origin: measured !== null && isNear(measured.origin, origin) ? measured.origin : origin, lead }
      return measured
    })
  )
  yield* Effect.ignore(measure)

  const take = Effect.fnUntraced(function* (guards: ReadonlyArray<Guard>): Effect.fn.Return<Taken, RedisUnavailable> {
    if (guards.length === 0) return { refusedBy: null, standings: [] }
    const { origin } = sound() ?? (yield* measure)
    const clock = yield* Clock.Clock
    const steady = Number((origin + clock.monotonicTimeNanosUnsafe()) / 1000n)
    const now = clock.currentTimeMillisUnsafe()
    const today = Math.floor(now / day)
    const names = guards.flatMap(({ scope, bucket, limit, window }) => [window, `${scope} ${bucket}`, limit])
    const asked = redis.run(LimiterScript.take, [steady, today, untilNextDay(now), ...names])
    const [refusing, ...figures] = yield* understood(asked, (answer) => figuresOf(answer, guards.length))
    const standings = guards.map(
      (guard, index): Standing => ({ guard, remaining: figures[2 * index]!, resetMs: figures[2 * index + 1]! })
    )
    return { refusedBy: standings[refusing - 1] ?? null, standings }
  })

  return RateLimiter.of({ take: (guards) => Effect.mapError(take(guards), (cause) => new RateLimiterUnavailable({ cause })) })
})

/** As the script says: which guard refuses, or 0, and two figures for each. What is less would open the gate. */
const figuresOf = (answer: unknown, guards: number): [number, ...Array<number>] | null => {
  const figures: ReadonlyArray<unknown> = Array.isArray(answer) ? answer : []
  const [refusing, ...rest] = figures.filter((figure) => typeof figure === "number" && Number.isSafeInteger(figure) && figure >= 0) as ReadonlyArray<number> // by this
  return refusing !== undefined && refusing <= guards && figures.length === 1 + 2 * guards && rest.length === 2 * guards ? [refusing, ...rest] : null
}

export const layer: Layer.Layer<RateLimiter, never, RedisClient> = Layer.effect(RateLimiter, make)
