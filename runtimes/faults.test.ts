/** A short round of `npm run faults`: real processes, killed and cut off, and the rules that must hold after. */
import { assert, describe, it } from "@effect/vitest"
import { run } from "../bench/faults/Run.ts"
import { runDev } from "../bench/faults/Dev.ts"
import { short } from "../bench/faults/Plans.ts"

const minutes = 60_000

const held = ({ violations, counts }: Awaited<ReturnType<typeof run>>) => {
  assert.deepStrictEqual(violations, [])
  assert.isAbove(counts["accepted"]!, 5, "too little happened to say anything")
}

describe("after faults, every rule holds", () => {
  for (const plan of short.clusters) {
    it(`of serve and worker processes, with the queue in ${plan.queue}`, { timeout: 8 * minutes }, async () => {
      held(await run(plan, () => {}))
    })
  }

  it("of dev on its own database", { timeout: 5 * minutes }, async () => {
    held(await runDev(short.dev, () => {}))
  })
})
