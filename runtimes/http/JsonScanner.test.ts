import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { depthMax, itemsMax, JsonScanner, membersMax, nameBytesMax, type Kind } from "./JsonScanner.ts"

const bytesOf = (text: string) => new TextEncoder().encode(text)

/** Scans these bytes cut at these places, for one who takes what is plain in a text by itself, or for one who does not. */
const scan = (bytes: Uint8Array, cuts: ReadonlyArray<number> = [], isTaking = false) => {
  const members: Array<readonly [string, Kind, string]> = []
  let text = ""
  const decoder = new TextDecoder()
  const told = (run: Uint8Array) => {
    assert.strictEqual(members.at(-1)?.[1], "text", "what is told is of a text")
    text += decoder.decode(run, { stream: true })
  }
  const scanner = new JsonScanner({
    begin: (name, kind) => members.push([name, kind, ""]),
    ...(isTaking && {
      take: (bytes: Uint8Array, start: number) => {
        const isPlain = (byte: number) => byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c
        let end = start
        while (end < bytes.length && isPlain(bytes[end]!)) end += 1
        told(bytes.subarray(start, end))
        return end - start
      }
    }),
    run: (run, start, end) => told(run.subarray(start, end)),
    end: () => {
      told(new Uint8Array(0))
      const [name, kind] = members.pop()!
      members.push([name, kind, text + decoder.decode()])
      text = ""
    }
  })
  const places = [0, ...[...cuts].sort((a, b) => a - b).map((cut) => Math.min(cut, bytes.length)), bytes.length]
  for (let index = 1; index < places.length; index++) scanner.write(bytes.slice(places[index - 1]!, places[index]!))
  return { fault: scanner.end(), members }
}

const faultOf = (text: string) => {
  const { fault } = scan(bytesOf(text))
  assert.deepStrictEqual(scan(bytesOf(text), [], true).fault, fault)
  return fault
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const characters = ["\\", "\\u", "\\u00e9", "\\ud83d\\ude00", "\\n", "\\x", "é", "\u0001", "\u001f"]
const values = ["true", "false", "null", "nul", "\"a\"", "\"b\":", "{\"a\":1}", "[1,2]", "-0", "1e5", "01", "1.", ".5"]

/** Text near JSON: pieces of it in any order. */
const nearJson = fc
  .array(
    fc.constantFrom(
      ..."{}[],:\" \n\t-+.eE0123456789",
      ...characters,
      ...values
    ),
    { maxLength: 14, size: "max" }
  )
  .map((parts) => parts.join(""))

const objects = fc
  .dictionary(fc.string({ unit: "grapheme", maxLength: 5 }), fc.json({ maxDepth: 3 }), { maxKeys: 5 })
  .map((texts): Record<string, unknown> => Object.fromEntries(Object.entries(texts).map(([name, json]) => [name, JSON.parse(json)])))

const kindOf = (value: unknown): Kind => {
  if (typeof value === "string") return "text"
  if (typeof value === "number") return "number"
  return Array.isArray(value) ? "array" : isObject(value) ? "object" : "literal"
}

const cuts = fc.array(fc.nat(200), { maxLength: 6 })

describe("JsonScanner", () => {
  it("accepts what JSON.parse accepts and refuses what it refuses, wherever the chunks end", () => {
    fc.assert(
      fc.property(nearJson, cuts, (inner, cuts) => {
        for (const text of [inner, `{${inner}}`, `{"x":${inner}}`, `{"x":"${inner}"}`]) {
          const { fault } = scan(bytesOf(text), cuts)
          const value = parse(text)
          if (fault === null) assert.isTrue(isObject(value), text)
          else if (fault.code === "malformed_json" || fault.code === "empty_body") assert.isUndefined(value, text)
          else if (fault.code === "wrong_type") assert.isTrue(value !== undefined && !isObject(value), text)
          else assert.include(["duplicate_member", "invalid_text"], fault.code, text)
        }
      }),
      { numRuns: 10_000 }
    )
  }, 20_000)

  it("accepts every object that JSON.stringify writes, and tells its members and texts", () => {
    fc.assert(
      fc.property(objects, fc.nat(2), cuts, fc.boolean(), (value, space, cuts, isTaking) => {
        const text = JSON.stringify(value, null, space)
        if (text.includes("\\u0000") || /\\ud[89a-f]/i.test(text)) return
        const { fault, members } = scan(bytesOf(text), cuts, isTaking)
        assert.isNull(fault)
        assert.deepStrictEqual(members.map(([name]) => name), Object.keys(JSON.parse(text)))
        for (const [name, kind, read] of members) {
          const held = value[name]
          assert.strictEqual(kind, kindOf(held))
          if (typeof held === "string") assert.strictEqual(read, held)
        }
      }),
      { numRuns: 3_000 }
    )
  }, 20_000)

  it("resolves escapes, also of characters beyond the first plane and across chunks", () => {
    const text = String.raw`{"a":"\u00e9\ud83d\ude00\/\\\"\b\f\n\r\t","\u0061b":"x"}`
    for (let cut = 0; cut < text.length; cut++) {
      const { fault, members } = scan(bytesOf(text), [cut])

      assert.isNull(fault)
      assert.deepStrictEqual(members, [["a", "text", "é😀/\\\"\b\f\n\r\t"], ["ab", "text", "x"]])
    }
  })

  it("takes each character wherever JSON.parse takes it, and nowhere else", () => {
    const around = ["?{}", "{?}", "{}?", "{?\"a\":1}", "{\"a\"?:1}", "{\"a\":?}", "{\"a\":1?}", "{\"a\":1?\"b\":1}", "{\"a\":1?", "{\"a\":[1?}", "{\"a\":1,?}", "{\"a\":[?]}", "{\"a\":[1?]}", "{\"a\":[1,?]}"]
    const texts = ["{\"?\":1}", "{\"a\":\"?\"}", "{\"a\":\"\\?\"}", "{\"a\":\"\\u00?1\"}", "{\"a\":tru?}", "{\"a\":?ull}"]
    const numbers = ["-?", "-?1", "0?", "0?1", "1?1", "1.?", "1.5?1", "1e?", "1e?1", "1e+?", "1e5?1"].map((number) => `{"a":${number}}`)
    for (const place of [...around, ...texts, ...numbers]) {
      for (let code = 0; code < 128; code++) {
        const text = place.replace("?", () => String.fromCharCode(code))
        const isTaken = isObject(parse(text))
        assert.strictEqual(faultOf(text) === null, isTaken, text)
      }
    }
  })

  it("resolves escapes into UTF-8 of each length", () => {
    for (const point of [0x01, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff]) {
      const text = String.fromCodePoint(point)
      const escaped = text.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")

      assert.deepStrictEqual(scan(bytesOf(`{"a":"${escaped}"}`)), { fault: null, members: [["a", "text", text]] })
    }
    for (const half of ["d800", "dbff", "dc00", "dfff"]) assert.strictEqual(faultOf(`{"a":"\\u${half}"}`)?.code, "invalid_text")
  })

  const faults: ReadonlyArray<readonly [string, string, string, string]> = [
    ["an empty body", "", "", "empty_body"],
    ["white space alone", " \n", "", "empty_body"],
    ["a list", "[]", "", "wrong_type"],
    ["a text", "\"x\"", "", "wrong_type"],
    ["null", "null", "", "wrong_type"],
    ["a number", " -1.5e3", "", "wrong_type"],
    ["a list of objects", "[{\"a\":1},[\"x\"],null] ", "", "wrong_type"],
    ["a list that does not end", "[1,", "", "malformed_json"],
    ["a text that does not end", "\"x", "", "malformed_json"],
    ["a number that does not end", "1.", "", "malformed_json"],
    ["two numbers", "0 1", "", "malformed_json"],
    ["no literal", "nope", "", "malformed_json"],
    ["part of a literal", "nul", "", "malformed_json"],
    ["a form", "to=ada@example.com", "", "malformed_json"],
    ["a comment before an object", "//x\n{}", "", "malformed_json"],
    ["lists in lists", "[".repeat(100), "", "too_deep"],
    ["half a surrogate pair alone", "\"\\ud800\"", "", "invalid_text"],
    ["a member given twice in a list", "[{\"a\":1,\"a\":1}]", "/0/a", "duplicate_member"],
    ["a byte order mark", "\ufeff{}", "", "malformed_json"],
    ["an object that does not end", "{\"a\":1", "", "malformed_json"],
    ["a second value", "{} {}", "", "malformed_json"],
    ["a trailing comma", "{\"a\":1,}", "", "malformed_json"],
    ["a comment", "{/**/}", "", "malformed_json"],
    ["single quotes", "{'a':1}", "", "malformed_json"],
    ["a line break in a text", "{\"a\":\"\n\"}", "", "malformed_json"],
    ["NaN", "{\"a\":NaN}", "", "malformed_json"],
    ["a member given twice", "{\"a\":1,\"b\":{\"c\":1,\"\\u0063\":2}}", "/b/c", "duplicate_member"],
    ["NUL", "{\"a\":[1,\"x\\u0000\"]}", "/a/1", "invalid_text"],
    ["NUL in a name", "{\"a\":{\"\\u0000\":1}}", "/a", "invalid_text"],
    ["half a surrogate pair, high", "{\"a\":\"\\ud800\"}", "/a", "invalid_text"],
    ["half a surrogate pair, high, and text", "{\"a\":\"\\ud800x\"}", "/a", "invalid_text"],
    ["half a surrogate pair, high, and an escape", "{\"a\":\"\\ud800\\n\"}", "/a", "invalid_text"],
    ["half a surrogate pair, low", "{\"a\":\"\\udc00\"}", "/a", "invalid_text"],
    ["halves of a pair with text between them", "{\"a\":\"\\ud83dx\\ude00\"}", "/a", "invalid_text"],
    ["halves of a pair with an escape between them", "{\"a\":\"\\ud83d\\n\\ude00\"}", "/a", "invalid_text"],
    ["two high halves", "{\"a\":\"\\ud800\\ud800\"}", "/a", "invalid_text"]
  ]
  for (const [what, text, path, code] of faults) {
    it(`refuses ${what}`, () => {
      const fault = faultOf(text)
      assert.deepStrictEqual([fault?.path, fault?.code], [path, code])
    })
  }

  it("says of UTF-16 and of a mark before UTF-8 what it expects instead", () => {
    for (const begin of [[0xff, 0xfe], [0xfe, 0xff], [0xef, 0xbb, 0xbf]]) {
      assert.strictEqual(scan(Uint8Array.from([...begin, 0x7b, 0x7d]), []).fault?.message, "Expected UTF-8 without a byte order mark")
    }
  })

  it("names the byte that it stumbles over", () => {
    assert.strictEqual(faultOf("{\"a\":tru }")?.message, "Malformed JSON: unexpected byte 0x20 at byte 8")
    assert.strictEqual(faultOf("{\u007f}")?.message, "Malformed JSON: unexpected byte 0x7f at byte 1")
    assert.strictEqual(faultOf("{é}")?.message, "Malformed JSON: unexpected byte 0xc3 at byte 1")
    assert.strictEqual(faultOf("{\"a\" 1}")?.message, "Malformed JSON: unexpected \"1\" at byte 5")
    assert.strictEqual(scan(bytesOf("{\"a\" \u0001}"), [3]).fault?.message, "Malformed JSON: unexpected byte 0x01 at byte 5")
  })

  it("takes the deepest nesting and refuses one level more at once", () => {
    const nested = (depth: number) => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`
    assert.isNull(faultOf(nested(depthMax)))
    assert.strictEqual(faultOf(nested(depthMax + 1))?.code, "too_deep")

    const scanner = new JsonScanner()
    assert.strictEqual(scanner.write(bytesOf(`{"a":${"[".repeat(10_000)}`))?.code, "too_deep")
  })

  it("takes the longest lists, objects and names, and refuses one more", () => {
    const list = (length: number) => `{"a":[${Array.from({ length }, () => "1").join()}]}`
    const object = (length: number) => `{${Array.from({ length }, (_, index) => `"m${index}":1`).join()}}`
    const named = (length: number) => `{"${"n".repeat(length)}":1}`

    assert.isNull(faultOf(list(itemsMax)))
    assert.deepStrictEqual(faultOf(list(itemsMax + 1)), { path: "/a", code: "too_many", message: `Expected at most ${itemsMax} items` })
    const within = (text: string) => [text, `{"b":[0,${text}]}`]
    const faultsOf = (text: string) => within(text).map((one) => [faultOf(one)?.path, faultOf(one)?.code])
    for (const text of [...within(object(membersMax)), ...within(named(nameBytesMax))]) assert.isNull(faultOf(text))
    assert.deepStrictEqual(faultsOf(object(membersMax + 1)), [["", "too_many"], ["/b/1", "too_many"]])
    assert.deepStrictEqual(faultsOf(named(nameBytesMax + 1)), [["", "unknown_member"], ["/b/1", "unknown_member"]])
    assert.strictEqual(faultOf(`{"":1,"${"n".repeat(nameBytesMax + 1)}":1}`)?.code, "unknown_member")
    assert.deepStrictEqual(faultsOf(`{"${"n".repeat(nameBytesMax)}\\u006e":1}`), [["", "unknown_member"], ["/b/1", "unknown_member"]])
  })

  it("escapes names in pointers", () => {
    assert.strictEqual(faultOf("{\"a/b~c\":\"\\u0000\"}")?.path, "/a~1b~0c")
  })
})
