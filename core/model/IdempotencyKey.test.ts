import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { isDeepStrictEqual } from "node:util"
import * as IdempotencyKey from "./IdempotencyKey.ts"

/** The same value with the members of every object in another order. */
const reversed = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(reversed)
    : typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).reverse().map(([name, member]) => [name, reversed(member)]))
      : value

describe("an idempotency key", () => {
  const accepts = Schema.is(IdempotencyKey.IdempotencyKey)

  for (const key of ["12345678", "order-4711/attempt 1", "k".repeat(255), "😀".repeat(8), "😀".repeat(255), "        "]) {
    it(`may be ${JSON.stringify(key.slice(0, 20))} (${Array.from(key).length})`, () => assert.isTrue(accepts(key)))
  }

  for (const key of ["", "1234567", "😀".repeat(7), "k".repeat(256), "😀".repeat(256)]) {
    it(`may not be ${JSON.stringify(key.slice(0, 20))} (${Array.from(key).length})`, () => assert.isFalse(accepts(key)))
  }

  // Either would be another text where it is kept, and so one key with what it became.
  for (const key of ["order-4711\0", "order-4711\ud83d"]) {
    it(`may not be ${JSON.stringify(key)}, of which no store keeps all`, () => assert.isFalse(accepts(key)))
  }
})

describe("the canonical text of an input", () => {
  it("does not depend on the order of members, at any depth", () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => assert.strictEqual(IdempotencyKey.canonical(reversed(value)), IdempotencyKey.canonical(value))))
  })

  it("is equal for equal inputs, and for no others", () => {
    const small = fc.jsonValue({ maxDepth: 2 })

    fc.assert(
      fc.property(small, small, (one, other) => {
        const equal = isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)))

        assert.strictEqual(IdempotencyKey.canonical(one) === IdempotencyKey.canonical(other), equal)
      }),
      { numRuns: 1_000 }
    )
  })

  const different: ReadonlyArray<readonly [what: string, one: unknown, other: unknown]> = [
    ["the order of a list", { to: ["a", "b"] }, { to: ["b", "a"] }],
    ["a number from its text", { limit: 1 }, { limit: "1" }],
    ["null from nothing", { html: null }, {}],
    ["case", { subject: "A" }, { subject: "a" }],
    ["a repeated item", { to: ["a"] }, { to: ["a", "a"] }],
    ["composed from decomposed characters", { subject: "\u00e9" }, { subject: "e\u0301" }],
    ["nesting from flatness", { a: { b: 1 } }, { "a.b": 1 }],
    ["a member named __proto__", JSON.parse("{\"__proto__\": 1}"), {}]
  ]
  for (const [what, one, other] of different) {
    it(`tells ${what}`, () => assert.notStrictEqual(IdempotencyKey.canonical(one), IdempotencyKey.canonical(other)))
  }

  it("leaves out what is undefined", () => {
    assert.strictEqual(IdempotencyKey.canonical({ b: undefined, a: 1 }), "{\"a\":1}")
  })
})
