/**
 * Says at most once a minute what a loop, or each request, meets with for as
 * long as something is away: one outage would else fill the log.
 */
import { Clock, Duration, Effect } from "effect"

const pause = Duration.toNanosUnsafe(Duration.minutes(1))

export const make = (): ((line: Effect.Effect<void>) => Effect.Effect<void>) => {
  let saidAt: bigint | null = null
  return (line) =>
    Effect.flatMap(Clock.monotonicTimeNanos, (now) => {
      if (saidAt !== null && now - saidAt < pause) return Effect.void
      saidAt = now
      return line
    })
}
