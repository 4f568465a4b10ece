import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { SlidingWindow } from "./SlidingWindow.ts"

const minute = 60_000

/** What a client does next: waits this long, or just as long as it was last told to, and asks. */
const step = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 40_000 }).map((quarters) => quarters / 4) },
  { weight: 1, arbitrary: fc.constantFrom(0, 0.25, 1, minute - 0.25, minute, minute + 0.25, 20_000, 30_000) },
  { weight: 1, arbitrary: fc.constant("as told" as const) }
)

/** Asks at each step; judges each answer by all the accepted times. */
const replay = (
  limits: ReadonlyArray<number>,
  steps: ReadonlyArray<number | "as told">,
  judge: (accepted: ReadonlyArray<number>, now: number, limit: number, verdict: ReturnType<SlidingWindow["peek"]>, told: boolean) => void
): void => {
  const window = new SlidingWindow()
  const accepted: Array<number> = []
  let now = 0
  let waitMs = 0
  steps.forEach((wait, index) => {
    const limit = limits[index % limits.length]!
    now += wait === "as told" ? waitMs : wait
    const verdict = window.peek(now, limit, minute)
    judge(accepted, now, limit, verdict, wait === "as told")
    waitMs = verdict.waitMs
    if (!verdict.accepted) return
    window.push(now)
    accepted.push(now)
  })
}

const within = (times: ReadonlyArray<number>, now: number) => times.filter((time) => time > now - minute).length

describe("SlidingWindow", () => {
  it("accepts exactly as long as fewer than the limit lie in the last minute", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 200, size: "max" }), (limit, steps) => {
        replay([limit], steps, (accepted, now, _, verdict) => {
          const held = within(accepted, now)
          assert.strictEqual(verdict.accepted, held < limit)
          assert.strictEqual(verdict.remaining, Math.max(0, limit - held - 1))
        })
      }),
      { numRuns: 300 }
    )
  })

  it("tells a refused client the shortest wait after which it is accepted", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 200, size: "max" }), (limit, steps) => {
        replay([limit], steps, (accepted, now, _, verdict, told) => {
          if (told) assert.isTrue(verdict.accepted, "the client waited as long as it was told")
          if (verdict.accepted) return
          assert.isAtLeast(verdict.waitMs, 1)
          assert.isTrue(Number.isInteger(verdict.waitMs))
          assert.isBelow(within(accepted, now + verdict.waitMs), limit)
          if (verdict.waitMs > 1) assert.isAtLeast(within(accepted, now + verdict.waitMs - 1), limit)
        })
      }),
      { numRuns: 300 }
    )
  })

  it("obeys a limit that changes under way", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 2, maxLength: 5 }),
        fc.array(step, { maxLength: 100, size: "max" }),
        (limits, steps) => {
          replay(limits, steps, (accepted, now, limit, verdict) => {
            assert.strictEqual(verdict.accepted, within(accepted, now) < limit)
            if (!verdict.accepted && limit > 0) assert.isBelow(within(accepted, now + verdict.waitMs), limit)
          })
        }
      ),
      { numRuns: 300 }
    )
  })

  it("tells an accepted client when the window is empty again", () => {
    const window = new SlidingWindow()
    window.push(0)

    assert.strictEqual(window.peek(10_000, 5, minute).waitMs, minute)
    window.push(10_000)

    assert.isFalse(window.isEmpty(10_000 + minute - 1, minute))
    assert.isTrue(window.isEmpty(10_000 + minute, minute))
  })

  it("tells what is left to one who is not counted", () => {
    const window = new SlidingWindow()
    assert.deepStrictEqual(window.rest(0, 3, minute), { remaining: 3, waitMs: 0 })
    window.push(0)
    window.push(10_000)

    assert.deepStrictEqual(window.rest(20_000, 3, minute), { remaining: 1, waitMs: 50_000 })
    assert.deepStrictEqual(window.rest(20_000, 1, minute), { remaining: 0, waitMs: 50_000 })
  })

  it("refuses all under a limit of nothing, for as long as the window is", () => {
    assert.deepStrictEqual(new SlidingWindow().peek(5, 0, minute), { accepted: false, remaining: 0, waitMs: minute })
  })

  it("counts on, and holds at most twice what is in the window, or 64 times more, however long it is used", () => {
    const window = new SlidingWindow()
    for (let request = 0; request < 2_000; request++) {
      const now = request * 500
      const held = Math.min(request, 119)
      assert.strictEqual(window.peek(now, 200, minute).remaining, 200 - held - 1)
      window.push(now)

      assert.isAtMost(window.size, held + 1 + Math.max(64, held))
    }
  })

  it("is not shortened by a clock that steps back", () => {
    const window = new SlidingWindow()
    window.push(100_000)
    window.push(40_000)

    assert.strictEqual(window.peek(100_000, 1, minute).waitMs, minute)
    assert.isFalse(window.peek(100_000 + minute - 1, 1, minute).accepted)
    assert.isFalse(window.peek(100_000 + minute - 1, 2, minute).accepted)
    assert.isTrue(window.peek(100_000 + minute, 1, minute).accepted)
  })
})
