/**
 * Limits within this process; a restart starts them anew. The minute is judged
 * by the Clock's monotonic time, so no jump of the wall clock shortens or
 * prolongs it; the day by its wall time.
 */
import { Clock, Effect, Layer } from "effect"
import { LocalLimiter } from "../../core/model/LocalLimiter.ts"
import { RateLimiter } from "../../core/ports/RateLimiter.ts"

export const layer: Layer.Layer<RateLimiter> = Layer.sync(RateLimiter, () => {
  const limiter = new LocalLimiter()
  return RateLimiter.of({
    take: (guards) =>
      Clock.clockWith((clock) =>
        Effect.sync(() => limiter.take(guards, clock.monotonicTimeNanosUnsafe(), clock.currentTimeMillisUnsafe()))
      )
  })
})
