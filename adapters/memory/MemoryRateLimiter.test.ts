import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { Guard } from "../../core/model/RateLimit.ts"
import { RateLimiter } from "../../core/ports/RateLimiter.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"

const ip = (bucket: string): Guard => ({ scope: "ip", bucket, limit: 2, window: "minute" })

layer(MemoryRateLimiter.layer)("MemoryRateLimiter", (it) => {
  it.effect("does not prolong a minute when the wall clock steps back", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimiter
      yield* TestClock.setTime(3_600_000)
      yield* limiter.take([ip("a")])
      yield* limiter.take([ip("a")])
      yield* TestClock.setTime(0)

      yield* TestClock.adjust(59_999)
      assert.strictEqual((yield* limiter.take([ip("a")])).refusedBy?.resetMs, 1)
      yield* TestClock.adjust(1)
      assert.isNull((yield* limiter.take([ip("a")])).refusedBy)
    })
  )

  it.effect("does not round a minute down to less than 60 seconds", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimiter
      const clock = yield* Clock.Clock
      const at = (nanos: bigint) =>
        Effect.provideService(limiter.take([{ ...ip("b"), limit: 1 }]), Clock.Clock, { ...clock, monotonicTimeNanosUnsafe: () => nanos })
      const start = 1_000_000_900_000n
      assert.isNull((yield* at(start)).refusedBy)

      assert.strictEqual((yield* at(start + 59_999_500_000n)).refusedBy?.resetMs, 1)
      assert.isNull((yield* at(start + 60_000_000_000n)).refusedBy)
    })
  )
})
