import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Deadlines from "./Deadlines.ts"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void // the flag brings it

const turn = Effect.promise(() => new Promise<void>((resolve) => void setImmediate(resolve)))

describe("Deadlines", () => {
  it.effect("hold nothing of what was cleared while one is waited for", () =>
    Effect.gen(function* () {
      const deadlines = yield* Deadlines.make(Duration.minutes(9))
      deadlines.set(() => undefined)
      yield* turn // somebody sleeps for it by now
      const held: Array<WeakRef<object>> = []
      const underWay: Array<Deadlines.Deadline | null> = []
      for (let count = 0; count < 1_000; count++) {
        const bytes = new Uint8Array(1_000)
        held.push(new WeakRef(bytes))
        underWay.push(deadlines.set(() => void bytes.length))
        if (underWay.length > 8) deadlines.clear(underWay.shift() ?? null)
      }
      for (const deadline of underWay.splice(0)) deadlines.clear(deadline)
      yield* turn
      collect()

      assert.isAtMost(held.filter((one) => one.deref() !== undefined).length, 10)
    })
  )
})
