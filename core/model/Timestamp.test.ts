import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import * as fc from "fast-check"
import * as Timestamp from "./Timestamp.ts"

const micros = (text: string) => Option.getOrNull(Timestamp.toMicros(text))
const newYear = 1_767_225_600_000

describe("an instant as text", () => {
  it("shows milliseconds, or microseconds", () => {
    assert.strictEqual(Timestamp.fromMillis(newYear + 7), "2026-01-01T00:00:00.007Z")
    assert.strictEqual(Timestamp.fromMicros(BigInt(newYear) * 1000n + 7_008n), "2026-01-01T00:00:00.007008Z")
    assert.strictEqual(Timestamp.fromMicros(0n), "1970-01-01T00:00:00.000000Z")
    assert.isNull(Timestamp.fromMillisOrNull(null))
    assert.strictEqual(Timestamp.fromMillisOrNull(0), "1970-01-01T00:00:00.000Z")
  })

  it("is read back to the microsecond, and sorts as it follows in time", () => {
    const time = fc.bigInt({ min: 0n, max: 253_402_300_799_999_999n })

    fc.assert(
      fc.property(time, time, (one, other) => {
        assert.strictEqual(micros(Timestamp.fromMicros(one)), one)
        assert.strictEqual(Timestamp.fromMicros(one) < Timestamp.fromMicros(other), one < other)
      }),
      { numRuns: 500 }
    )
  })

  const readable: ReadonlyArray<readonly [text: string, at: bigint]> = [
    ["2026-01-01T00:00:00Z", 0n],
    ["2026-01-01T00:00:00.1Z", 100_000n],
    ["2026-01-01T00:00:00.000001Z", 1n],
    ["2026-01-01T00:00:00.000001999Z", 1n],
    ["2026-01-01T00:00:00.0123456789Z", 12_345n],
    ["2026-01-01t00:00:00z", 0n],
    ["2026-01-01T02:00:00+02:00", 0n],
    ["2025-12-31T19:30:00-04:30", 0n],
    ["2026-01-01T14:00:00.5+14:00", 500_000n]
  ]
  for (const [text, at] of readable) {
    it(`may be ${text}`, () => assert.strictEqual(micros(text), BigInt(newYear) * 1000n + at))
  }

  it("may be a leap day", () => assert.strictEqual(micros("2028-02-29T00:00:00Z"), 1_835_395_200_000_000n))

  const unreadable = [
    "", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01T00:00Z", "2026-01-01T00:00:00.Z",
    "+002026-01-01T00:00:00Z", "2026-1-1T00:00:00Z", " 2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z\n", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-32T00:00:00Z", "2026-02-30T00:00:00Z",
    "2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T23:60:00Z", "2026-01-01T23:59:60Z",
    "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+1:00", "2026-01-01T00:00:00GMT", "1767225600000", "２026-01-01T00:00:00Z"
  ]
  for (const text of unreadable) {
    it(`may not be ${JSON.stringify(text)}`, () => assert.isNull(micros(text)))
  }
})

describe("a mail header's date", () => {
  const rows: ReadonlyArray<readonly [at: number, text: string]> = [
    [0, "Thu, 01 Jan 1970 00:00:00 +0000"],
    [newYear + 3_661_999, "Thu, 01 Jan 2026 01:01:01 +0000"],
    [1_796_117_400_000, "Tue, 01 Dec 2026 09:30:00 +0000"],
    [1_835_395_199_000, "Mon, 28 Feb 2028 23:59:59 +0000"]
  ]
  for (const [at, text] of rows) {
    it(`is ${text}`, () => assert.strictEqual(Timestamp.toMailDate(at), text))
  }
})

describe("the UTC day", () => {
  it("begins at midnight, and ends as many seconds later as are left", () => {
    const day = 86_400_000

    assert.strictEqual(Timestamp.utcDay(newYear), "2026-01-01")
    assert.strictEqual(Timestamp.utcDay(newYear - 1), "2025-12-31")
    assert.strictEqual(Timestamp.secondsToNextDay(newYear), 86_400)
    assert.strictEqual(Timestamp.secondsToNextDay(newYear + day - 1), 1)
    assert.strictEqual(Timestamp.secondsToNextDay(newYear + day - 1_000), 1)
    assert.strictEqual(Timestamp.secondsToNextDay(newYear + day - 1_001), 2)
  })

  it("is the next one after the seconds that are left", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4_102_444_800_000 }), (at) => {
        const seconds = Timestamp.secondsToNextDay(at)

        assert.isAtLeast(seconds, 1)
        assert.notStrictEqual(Timestamp.utcDay(at + seconds * 1_000), Timestamp.utcDay(at))
        assert.strictEqual(Timestamp.utcDay(at + (seconds - 1) * 1_000), Timestamp.utcDay(at))
      })
    )
  })
})
