import { assert, describe, it, vi } from "@effect/vitest"
import { platform } from "./Platform.ts"

describe("The machine's own", () => {
  it("time is in milliseconds, and a timer calls back once after so many, unless that is prevented", () => {
    const start = 1_796_117_400_123
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: start })
    try {
      const calls: Array<readonly [timer: number, moment: number]> = []
      const note = (timer: number) => () => void calls.push([timer, platform.now()])

      platform.after(30_000, note(1))
      const prevent = platform.after(20_000, note(2))
      platform.after(250, note(3))
      prevent()
      const held = vi.getTimerCount() // each would keep the process from its end
      vi.advanceTimersByTime(60_000)

      assert.strictEqual(held, 2)
      assert.deepStrictEqual(calls, [[3, start + 250], [1, start + 30_000]])
    } finally {
      vi.useRealTimers()
    }
  })

  it("chance is from 0 up to, but not including, 1", () => {
    let drawn = 0
    const draw = vi.spyOn(crypto, "getRandomValues").mockImplementation((numbers) => {
      if (numbers instanceof Uint32Array) numbers[0] = drawn
      return numbers
    })
    try {
      const chance = [0, 2 ** 30, 2 ** 32 - 1].map((number) => {
        drawn = number
        return platform.random()
      })

      assert.deepStrictEqual(chance, [0, 0.25, 1 - 2 ** -32])
    } finally {
      draw.mockRestore()
    }
  })
})
