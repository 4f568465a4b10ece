/** What an operator may write, and how a list comes page by page: what all of management refuses in the same way. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { cutTo, line, NameTaken, overlapOf, pageBehind, pageOf, requireVersion, whole, type PageQuery } from "./Administration.ts"

const saysOf = (result: Result.Result<unknown, { readonly message: string }>) =>
  Result.match(result, { onSuccess: () => "taken", onFailure: ({ message }) => message })

describe("line", () => {
  const [length, control] = ["name wants 1 to 200 characters.", "name holds a control character, or half of a character."]
  for (const [what, texts, says] of [
    ["takes so many characters, whatever they are made of", ["a", "é".repeat(200), "\u{1d11e}".repeat(200), "👩‍💻 عدا"], "taken"],
    ["refuses none, blanks, and one too many", ["", " ", "\u3000", "a".repeat(201), "\u{1d11e}".repeat(201)], length],
    ["refuses what moves the cursor", ["a\0b", "a\nb", "a\u009bb", "a\u2028b", "a\u2029b"], control],
    ["refuses what turns the writing round", ["\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069"].map((one) => `a${one}b`), control],
    ["refuses half of a character", ["a\ud834", "\udd1eb"], control]
  ] as const) {
    it(what, () => {
      for (const text of texts) assert.strictEqual(saysOf(line("name", text)), says, JSON.stringify(text))
    })
  }

  it("takes an empty text where none is needed", () => {
    for (const text of ["", " "]) assert.strictEqual(saysOf(line("name", text, { minimum: 0 })), "taken")
    assert.strictEqual(saysOf(line("name", "a".repeat(201), { minimum: 0 })), "name wants 0 to 200 characters.")
  })
})

describe("whole", () => {
  it("takes both bounds, and nothing beyond them or between two numbers", () => {
    for (const value of [2, 3, 5]) assert.strictEqual(saysOf(whole("n", value, { minimum: 2, maximum: 5 })), "taken")
    for (const value of [1, 6, 2.5, Number.NaN, Infinity]) {
      assert.strictEqual(saysOf(whole("n", value, { minimum: 2, maximum: 5 })), "n wants a whole number from 2 to 5.")
    }
  })
})

it("an overlap is at most ninety days, in whole milliseconds", () => {
  const most = 90 * 86_400_000
  for (const overlap of [0, most]) assert.strictEqual(saysOf(overlapOf({ overlap })), "taken")
  assert.strictEqual(saysOf(overlapOf({ overlap: most + 1 })), "overlap is longer than 90 days.")
  for (const overlap of [-1, 0.5]) assert.strictEqual(saysOf(overlapOf({ overlap })), `overlap wants a whole number from 0 to ${most}.`)
})

describe("a page", () => {
  const list = (count: number) => Array.from({ length: count }, (_, index) => `${index}`)
  /** The number of items, the last of them, and whether there is more. */
  const shown = ({ items, hasMore }: { readonly items: ReadonlyArray<string>; readonly hasMore: boolean }) => `${items.length} to ${items.at(-1)}${hasMore ? " …" : ""}`

  for (const [query, count, says] of [
    [{}, 100, "100 to 99"],
    [{}, 101, "100 to 99 …"],
    [{ limit: 1_000 }, 1_001, "1000 to 999 …"],
    [{ limit: 2, after: "0" }, 3, "2 to 2"],
    [{ limit: 2, after: "0" }, 4, "2 to 2 …"],
    [{ limit: 2, after: "3" }, 4, "0 to undefined"]
  ] as ReadonlyArray<readonly [PageQuery, number, string]>) {
    it.effect(`of ${JSON.stringify(query)} among ${count} is ${says}, cut from the whole or read`, () =>
      Effect.gen(function* () {
        const read = (after: string | null, limit: number) => Effect.succeed(list(count).slice(after === null ? 0 : Number(after) + 1).slice(0, limit))

        assert.strictEqual(shown(yield* pageOf(list(count), query, (id) => id)), says)
        assert.strictEqual(shown(yield* pageBehind(query, Effect.succeed<string>, read)), says)
      })
    )
  }

  it("has what it was to have, though more was found", () => {
    assert.deepStrictEqual(cutTo(1, ["a", "b"]), { items: ["a"], hasMore: true })
  })
})

it.effect("a change is held to the version it was decided on, be the record's an older or a newer one", () =>
  Effect.gen(function* () {
    const record = { id: "x", version: 5 }
    yield* requireVersion("tenant", record, {})
    yield* requireVersion("tenant", record, { version: 5 })
    for (const version of [4, 6]) {
      assert.deepInclude(yield* Effect.flip(requireVersion("tenant", record, { version })), { _tag: "StaleVersion", id: "x", version: 5 })
    }
  })
)

it("a name that is taken is told in a sentence", () => {
  assert.strictEqual(new NameTaken({ what: "tenant", field: "id" }).message, "A tenant with this id exists already.")
  for (const what of ["application", "API key"]) {
    assert.strictEqual(new NameTaken({ what, field: "id" }).message, `An ${what} with this id exists already.`)
  }
})
