/** Any value arrives as one line of text, by lines of at most 76 columns, and can be nothing but the value of its field. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { decodeText, readParties } from "../../conformance/MimeWire.ts"
import { oneLine } from "./HeaderField.ts"
import { field, headerField, parameter } from "./HeaderWriter.ts"

const word = fc.oneof(
  fc.constantFrom(..."Ada \"quoted\" back\\slash a@b.example <x> (y) , ; : = =? ?= =?utf-8?Q?x?= _ é ж € 😀 👩‍👩‍👧‍👦 e\u0301 שלום \r\n \n \u0000 \u2028 \ud83e".split(" ")),
  fc.constantFrom("x".repeat(60), "x".repeat(61), "x".repeat(300), "ж".repeat(50), "😀".repeat(50), " "),
  fc.string({ unit: "binary", maxLength: 40, size: "max" })
)
const text = fc.array(fc.tuple(word, fc.constantFrom(" ", " ", "  ", "", "\r\n", "\t")), { maxLength: 20, size: "max" }).map((pairs) => pairs.flat().join(""))

const assertLines = (written: string): string => {
  assert.match(written, /^[!-9;-~]+:[ -~]*\r\n(?: [!-~][ -~]*\r\n)*$/)
  for (const line of written.split("\r\n")) assert.isAtMost(line.length, 76)
  return written.slice(written.indexOf(":") + 1).replaceAll("\r\n", "").trim()
}

describe("a field", () => {
  it("of text arrives as it was, in one line", () =>
    fc.assert(
      fc.property(text, (value) => {
        const written = headerField({ name: "Subject", value })

        if (oneLine(value) === "") assert.strictEqual(written, "")
        else assert.strictEqual(decodeText(assertLines(written)), oneLine(value))
      }),
      { numRuns: 1_000, seed: 2047 }
    )
  )

  it("of addresses names whom it named", () =>
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 10 }), (names) => {
        const list = names.map((name, index) => ({ name: oneLine(name), address: `person-${index}@example.com` }))
        const value = list.map(({ name, address }) => (name === "" ? address : `"${name.replace(/["\\]/g, "\\$&")}" <${address}>`)).join(", ")

        const written = headerField({ name: "Reply-To", value })

        assert.deepStrictEqual(readParties(assertLines(written)), list)
      }),
      { numRuns: 500, seed: 5322 }
    )
  )

  it("is folded at 76 columns, and not within a name that fits on a line", () => {
    const value = Array.from({ length: 3 }, (_, index) => `"Augusta Ada King Lovelace" <ada.lovelace.${index}@mail.example.com>`).join(", ")

    assert.strictEqual(
      headerField({ name: "To", value }),
      [
        "To: \"Augusta Ada King Lovelace\" <ada.lovelace.0@mail.example.com>,",
        " \"Augusta Ada King Lovelace\" <ada.lovelace.1@mail.example.com>,",
        " \"Augusta Ada King Lovelace\" <ada.lovelace.2@mail.example.com>",
        ""
      ].join("\r\n")
    )
    assert.strictEqual(field("X", ["x".repeat(73)]), `X: ${"x".repeat(73)}\r\n`)
    assert.strictEqual(field("X", ["x".repeat(74)]), `X:\r\n ${"x".repeat(74)}\r\n`)
  })

  it("that would end a line, leave ASCII or pass 998 octets is refused, whoever made it", () => {
    for (const value of ["a\r\nBcc: eve@example.com", "a\nb", "a\rb", "a\u0000b", "a\tb", "é", "\u2028", "\u010a", "x".repeat(991)]) {
      assert.throws(() => field("X", value))
      assert.throws(() => field("X", ["x", value]))
    }
    assert.throws(() => field("X\r\nY", "x"))
  })

  it("of nobody may be blind, nor of a part's content", () => {
    for (const name of ["Bcc", "bcc", "Resent-Bcc", "Content-Type", "content-id", "", "a b", "a:b", "é", "x".repeat(61)]) {
      assert.throws(() => headerField({ name, value: "x" }))
    }
  })

  it("with white space alone is left out", () => {
    for (const value of ["", " ", "\r\n", "\u0000"]) assert.strictEqual(headerField({ name: "Subject", value }), "")
  })
})

describe("a parameter", () => {
  const written = (value: string) => field("Content-Disposition", ["attachment;", ...parameter("filename", value)]).replace("Content-Disposition: attachment;", "")

  it("is a quoted string where every reader takes it for what it is", () => {
    assert.strictEqual(written("a b (1) 100%; c='d'.txt"), " filename=\"a b (1) 100%; c='d'.txt\"\r\n")
  })

  it("is encoded where a reader could take it for something else, in whole characters", () => {
    assert.strictEqual(written("\"a\""), " filename*=utf-8''%22a%22\r\n")
    assert.strictEqual(written("a\\b"), " filename*=utf-8''a%5Cb\r\n")
    assert.strictEqual(written("=?x"), " filename*=utf-8''%3D%3Fx\r\n")
    assert.strictEqual(
      written(`${"n".repeat(50)}ж.txt`),
      `\r\n filename*0*=utf-8''${"n".repeat(50)};\r\n filename*1*=%D0%B6.txt\r\n`
    )
  })
})
