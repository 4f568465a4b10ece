import { assert, describe, it } from "@effect/vitest"
import type { Guard } from "./RateLimit.ts"
import { LocalLimiter } from "./LocalLimiter.ts"

const ip = (bucket: string, limit = 1): Guard => ({ scope: "ip", bucket, limit, window: "minute" })
const today: Guard = { scope: "tenant_day", bucket: "t", limit: 1, window: "day" }
const midnight = 86_400_000

const millis = (count: number): bigint => BigInt(count) * 1_000_000n

describe("LocalLimiter", () => {
  it("forgets 200,000 addresses within a minute of silence, and days that are over", () => {
    const limiter = new LocalLimiter()
    for (let index = 0; index < 200_000; index++) limiter.take([ip(`a${index}`)], BigInt(index) * 100_000n, 0)
    limiter.take([today], millis(20_000), 0)
    assert.strictEqual(limiter.size, 200_001)

    limiter.take([ip("later"), today], millis(140_000), 3 * midnight)

    assert.strictEqual(limiter.size, 2)
  })

  it("looks for who is idle once a minute, not with each request", () => {
    const limiter = new LocalLimiter()
    const sizeAfter = (seconds: number) => {
      limiter.take([ip(`a${seconds}`)], millis(seconds * 1_000), 0)
      return limiter.size
    }

    assert.deepStrictEqual([30, 61, 95, 120, 121].map(sizeAfter), [1, 2, 3, 4, 3])
  })

  it("forgets nobody who is still being counted", () => {
    const limiter = new LocalLimiter()
    limiter.take([ip("other", 9)], millis(70_000), 0)
    limiter.take([ip("busy")], millis(80_000), 0)
    limiter.take([ip("other", 9)], millis(130_000), 0)

    assert.strictEqual(limiter.take([ip("busy")], millis(139_999), 0).refusedBy?.resetMs, 1)
    assert.isNull(limiter.take([ip("busy")], millis(140_000), 0).refusedBy)
  })

  it("finds yesterday's counter when the clock steps back over midnight", () => {
    const limiter = new LocalLimiter()
    const midnight = 20_000 * 86_400_000
    limiter.take([today], 0n, midnight - 1)
    assert.isNull(limiter.take([today], millis(70_000), midnight).refusedBy)

    assert.isNotNull(limiter.take([today], millis(140_000), midnight - 1).refusedBy)
    assert.isNotNull(limiter.take([today], millis(210_000), midnight).refusedBy)
  })
})
