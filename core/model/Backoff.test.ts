import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Backoff from "./Backoff.ts"

const minute = 60_000
const schedules: ReadonlyArray<readonly [name: string, schedule: ReadonlyArray<number>, minutes: ReadonlyArray<number>]> = [
  ["a submission", Backoff.submission, [1, 5, 15, 60, 240, 240, 240]],
  ["a webhook delivery", Backoff.delivery, [1, 10, 60, 360, 360]]
]

describe("the wait before another try of", () => {
  for (const [name, schedule, minutes] of schedules) {
    it(`${name} is ${minutes.join(", ")} minutes`, () => {
      assert.deepStrictEqual(minutes.map((_, index) => Backoff.delay(schedule, index + 1, 0.5) / minute), minutes)
    })

    it(`${name} lies within a fifth of its step`, () => {
      fc.assert(
        fc.property(fc.integer({ min: 1, max: 1_000 }), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (failures, random) => {
          const step = (minutes[failures - 1] ?? minutes.at(-1)!) * minute

          const delay = Backoff.delay(schedule, failures, random)

          assert.isAtLeast(delay, step * 0.8)
          assert.isAtMost(delay, step * 1.2)
          assert.isTrue(Number.isInteger(delay))
        })
      )
    })
  }

  it("a first try that is not counted yet is the first step", () => assert.strictEqual(Backoff.delay(Backoff.submission, 0, 0.5), minute))

  it("spreads over the whole span", () => {
    assert.strictEqual(Backoff.delay([minute], 1, 0), 48_000)
    assert.strictEqual(Backoff.delay([minute], 1, 1 - Number.EPSILON), 72_000)
  })
})

describe("a submission", () => {
  it("may be tried for 48 hours, and no millisecond longer", () => {
    const hours48 = 48 * 60 * minute

    assert.isTrue(Backoff.maySubmit(7, 7))
    assert.isTrue(Backoff.maySubmit(7, 7 + hours48 - 1))
    assert.isFalse(Backoff.maySubmit(7, 7 + hours48))
  })

  it("may be tried by a clock that has stepped back", () => assert.isTrue(Backoff.maySubmit(1_000_000, 0)))
})
