import { assert, describe, it } from "@effect/vitest"
import { remember } from "./Remember.ts"

describe("what is remembered", () => {
  it("is as much as there is room for, without what was remembered first", () => {
    const map = new Map<string, number>()

    for (const [index, key] of ["a", "b", "c", "d"].entries()) remember(map, key, index, 3)

    assert.deepStrictEqual([...map], [["b", 1], ["c", 2], ["d", 3]])
  })

  it("is written over under the same key, and then nothing else is forgotten", () => {
    const map = new Map([["a", 0], ["b", 1]])

    remember(map, "b", 2, 2)

    assert.deepStrictEqual([...map], [["a", 0], ["b", 2]])
  })
})
