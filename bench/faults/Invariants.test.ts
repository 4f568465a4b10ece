import { assert, describe, it } from "@effect/vitest"
import { unexplained } from "./Invariants.ts"
import type { Handed } from "./Witnesses.ts"

const handed = (messageId: string, at: number): Handed => ({ messageId, at, sha256: "", recipients: [] })

describe("a message that is handed over again", () => {
  const faults = [{ from: 1_000, until: 2_000 }]

  it("is explained by a fault between the two, or shortly before", () => {
    assert.deepStrictEqual(unexplained([handed("a", 900), handed("a", 1_500)], faults), [])
    assert.deepStrictEqual(unexplained([handed("a", 2_500), handed("b", 2_600), handed("a", 90_000)], faults), [])
  })

  it("is not explained where nothing had broken yet, or all was long back", () => {
    assert.lengthOf(unexplained([handed("a", 900), handed("a", 950)], faults), 1)
    assert.lengthOf(unexplained([handed("a", 50_000), handed("b", 50_000), handed("a", 50_001)], faults), 1)
  })
})
