/** Any value arrives as one line of text, by lines of at most 76 columns, and can be nothing but the value of its field. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { decodeText, readParties, readWire } from "../../conformance/MimeWire.ts"
import { oneLine } from "./HeaderField.ts"
import { field, headerField, parameter } from "./HeaderWriter.ts"

const word = fc.oneof(
  fc.constantFrom(..."Ada \"quoted\" back\\slash a@b.example <x> (y) , ; : = =? ?= =?utf-8?Q?x?= _ ' * % *0*=utf-8''x é ж € 😀 👩‍👩‍👧‍👦 e\u0301 שלום \r\n \n \u0000 \u2028 \ud83e".split(" ")),
  fc.constantFrom("x".repeat(60), "x".repeat(61), "x".repeat(300), "ж".repeat(50), "😀".repeat(50), " "),
  fc.string({ unit: "binary", maxLength: 40, size: "max" })
)
const text = fc.array(fc.tuple(word, fc.constantFrom(" ", " ", "  ", "", "\r\n", "\t")), { maxLength: 20, size: "max" }).map((pairs) => pairs.flat().join(""))

/** Of any length about that of a line. */
const long = fc.tuple(fc.constantFrom("n ", "n", "\"", "\\", "é"), fc.nat(160)).map(([piece, length]) => piece.repeat(length).slice(0, length).trim())

const assertLines = (written: string): string => {
  assert.match(written, /^[!-9;-~]+:[ -~]*\r\n(?: [!-~][ -~]*\r\n)*$/)
  for (const line of written.split("\r\n")) assert.isAtMost(line.length, 76)
  return written.slice(written.indexOf(":") + 1).replaceAll("\r\n", "").trim()
}

describe("a field", () => {
  it("of text arrives as it was, in one line", () =>
    fc.assert(
      fc.property(fc.oneof({ weight: 3, arbitrary: text }, { weight: 1, arbitrary: long }), (value) => {
        const written = headerField({ name: "Subject", value })

        if (oneLine(value) === "") assert.strictEqual(written, "")
        else assert.strictEqual(decodeText(assertLines(written)), oneLine(value))
      }),
      { numRuns: 1_000, seed: 2047 }
    )
  )

  it("of addresses names whom it named", () =>
    fc.assert(
      fc.property(fc.array(fc.oneof({ weight: 2, arbitrary: text }, { weight: 1, arbitrary: long }), { minLength: 1, maxLength: 10 }), (names) => {
        const given = names.map((name, index) => ({ name, address: `person-${index}@example.com` }))
        const value = given.map(({ name, address }) => (name === "" ? address : `"${name.replace(/["\\]/g, "\\$&")}" <${address}>`)).join(", ")

        const written = headerField({ name: "Reply-To", value })

        assert.deepStrictEqual(readParties(assertLines(written)), given.map(({ name, address }) => ({ name: oneLine(name), address })))
      }),
      { numRuns: 500, seed: 5322 }
    )
  )

  it("of addresses is folded at 76 columns whatever the length of a name", () => {
    for (const piece of ["n nn ", "\"", "\\"]) {
      for (let length = 1; length <= 160; length++) {
        const name = piece.repeat(length).slice(0, length).trim()

        const written = headerField({ name: "To", value: `"${name.replace(/["\\]/g, "\\$&")}" <a@b.example>` })

        assert.deepStrictEqual(readParties(assertLines(written)), [{ name, address: "a@b.example" }])
      }
    }
  })

  it("of a syntax of its own arrives as it was, by lines of whole words, or is refused", () => {
    const length = fc.oneof({ weight: 2, arbitrary: fc.integer({ min: 1, max: 80 }) }, { weight: 1, arbitrary: fc.constantFrom(898, 899, 900, 901, 2_000) })
    const word = fc.oneof(
      { weight: 20, arbitrary: fc.tuple(fc.constantFrom("x", "<", ":", "~", "!"), length).map(([character, times]) => character.repeat(times)) },
      { weight: 1, arbitrary: fc.constantFrom("", "", "", "\r\n", "a\r\nBcc: eve@example.com", "\n", "\r", "\t", "\u0000", "\u007f", "é", "\u010a", "\u2028") }
    )
    const value = fc.array(word, { minLength: 1, maxLength: 8, size: "max" }).map((words) => words.join(" ")).filter((value) => value !== "")

    fc.assert(
      fc.property(fc.constantFrom("References", "Date", "List-Unsubscribe", "X".repeat(49) + "-Signature"), value, (name, value) => {
        if (!value.split(" ").every((word) => /^[!-~]{1,900}$/.test(word))) {
          assert.throws(() => headerField({ name, value }))
          return
        }
        const written = headerField({ name, value })

        assert.match(written, /^[!-9;-~]+:(?: [!-~]+)*\r\n(?: [!-~]+(?: [!-~]+)*\r\n)*$/)
        assert.strictEqual(written.replaceAll("\r\n", ""), `${name}: ${value}`)
        // What is longer is one word, which no reader allows to be broken.
        const lines = written.split("\r\n").slice(0, -1)
        for (const line of lines) assert.match(line, /^(?:.{0,76}| [!-~]{1,900})$/)
        for (const [index, line] of lines.slice(1).entries()) {
          const [, first = ""] = line.split(" ")
          assert.isAbove(lines[index]!.length + 1 + first.length, 76, "a line has room for the next word")
        }
      }),
      { numRuns: 1_000, seed: 822 }
    )
  })

  it("is of text, of addresses or of a syntax of its own by its name, in any spelling", () => {
    const addresses = ["From", "Sender", "Reply-To", "To", "Cc"]
    const own = ["In-Reply-To", "References", "MIME-Version", "Received", "Received-SPF", "Return-Path", "List-Id", "X-Google-Signature-1", "ARC-Seal", "Authentication-Results"]
    const either = (names: ReadonlyArray<string>) => [...names, ...names.map((name) => `Resent-${name}`)].flatMap((name) => [name, name.toLowerCase(), name.toUpperCase()])

    for (const name of either(addresses)) {
      assert.strictEqual(headerField({ name, value: "\"é\" <e@b.example>" }), `${name}: =?UTF-8?B?w6k=?= <e@b.example>\r\n`)
      assert.throws(() => headerField({ name, value: "no address" }))
    }
    for (const name of [...either(["Date", "Message-ID"]), ...own, ...own.map((name) => name.toLowerCase())]) {
      assert.strictEqual(headerField({ name, value: "=?x?= <y>" }), `${name}: =?x?= <y>\r\n`)
      assert.throws(() => headerField({ name, value: "é" }))
    }
    for (const name of ["Subject", "Comments", "X-From", "To-Do", "X-Date", "X-Received", "Dates", "Contents"]) {
      assert.strictEqual(headerField({ name, value: "é" }), `${name}: =?UTF-8?B?w6k=?=\r\n`)
    }
  })

  it("of addresses is refused where it is not written as the core writes it, or where an address could be read as another", () => {
    const lists = [
      ..."<a@b.example> >a@b.example x\"a@b.example a@b.example,c@d.example a@b.example;c@d.example a@b.example>,\"\" a@b.example(x) \"x\"<a@b.example>".split(" "),
      ..."a@é.example é@b.example \u00e9@b.example a@b_c.example a@b.example\u0000 @b.example a@ a a@b@c.example a\\@b.example =?x?=@b.example".split(" "),
      " a@b.example", "a@b.example ", "a @b.example", "a@b.example\r\nBcc: eve@example.com", "a@b.example,\r\n c@d.example", "a@b.example\n", "\na@b.example",
      "x <a@b.example>", "\"x\" a@b.example", "\"x <a@b.example>", "\"x\" <a@b.example> y", "\"x\" <a@b.example", "\"x\" <>", "\"x\"y\" <a@b.example>",
      "\"x\" <a@b.example\r\n>", "\"x\" <a@b.example >", `${"x".repeat(990)}@b.example`
    ]

    for (const value of lists) {
      assert.throws(() => headerField({ name: "To", value }), Error, undefined, value)
      assert.throws(() => headerField({ name: "To", value: `a@b.example, ${value}` }), Error, undefined, value)
    }
    assert.strictEqual(headerField({ name: "To", value: "\"x\" <A.b!#$%&'*+-/=?^_`{|}~9@B-1.example>" }), "To: \"x\" <A.b!#$%&'*+-/=?^_`{|}~9@B-1.example>\r\n")
  })

  it("of text is in the shorter of the two encodings, or in the one that can be read", () => {
    for (const [value, encoding] of [["é", "B"], ["aaaé", "B"], ["aaaaaaé", "Q"], ["aaaaaaaaé", "Q"], ["Viele Grüße aus Berlin und Wien", "Q"], ["Привет", "B"]] as const) {
      assert.include(headerField({ name: "Subject", value }), `=?UTF-8?${encoding}?`)
    }
  })

  it("of text has encoded words of 52 characters, of which the first stands behind the name", () => {
    const subject = (value: string) => headerField({ name: "Subject", value })

    assert.strictEqual(
      subject(`${"n".repeat(46)}é${"n".repeat(52)}`),
      `Subject: =?UTF-8?Q?${"n".repeat(46)}=C3=A9?=\r\n =?UTF-8?Q?${"n".repeat(52)}?=\r\n`
    )
    assert.strictEqual(subject("€".repeat(26)), `Subject: =?UTF-8?B?${"4oKs".repeat(13)}?=\r\n =?UTF-8?B?${"4oKs".repeat(13)}?=\r\n`)
  })

  it("is folded at 76 columns, and not within a name that fits on a line", () => {
    const to = (first: string, last: string) => headerField({ name: "To", value: `"${first} ${last}" <a@b.example>` })
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
    assert.strictEqual(to("n".repeat(40), "n".repeat(32)), `To:\r\n "${"n".repeat(40)} ${"n".repeat(32)}"\r\n <a@b.example>\r\n`)
    assert.strictEqual(to("n".repeat(40), "n".repeat(33)), `To: "${"n".repeat(40)}\r\n ${"n".repeat(33)}" <a@b.example>\r\n`)
    assert.strictEqual(field("X", ["x".repeat(73)]), `X: ${"x".repeat(73)}\r\n`)
    assert.strictEqual(field("X", ["x".repeat(74)]), `X:\r\n ${"x".repeat(74)}\r\n`)
  })

  it("that would end a line, leave ASCII or pass 998 octets is refused, whoever made it", () => {
    for (const value of ["a\r\nBcc: eve@example.com", "a\nb", "a\rb", "a\u0000b", "a\tb", "a\u007fb", "é", "\u2028", "\u010a", "x".repeat(991)]) {
      assert.throws(() => field("X", value))
      assert.throws(() => field("X", ["x", value]))
    }
    assert.throws(() => field("X\r\nY", "x"))
    assert.strictEqual(field("X", "x".repeat(990)), `X:\r\n ${"x".repeat(990)}\r\n`)
  })

  it("of nobody may be blind, nor of a part's content", () => {
    for (const name of ["Bcc", "bcc", "Resent-Bcc", "Content-Type", "content-id", "", "a b", "a:b", "é", "x".repeat(61)]) {
      assert.throws(() => headerField({ name, value: "x" }))
    }
    assert.strictEqual(headerField({ name: "x".repeat(60), value: "x" }), `${"x".repeat(60)}: x\r\n`)
  })

  it("with white space alone is left out", () => {
    for (const value of ["", " ", "\r\n", "\u0000", "\u001f\u007f", "\u0080\u009f", "\u2028 \u2029"]) assert.strictEqual(headerField({ name: "Subject", value }), "")
  })
})

describe("a parameter", () => {
  const written = (value: string) => field("Content-Disposition", ["attachment;", ...parameter("filename", value)]).replace("Content-Disposition: attachment;", "")

  it("is a quoted string where every reader takes it for what it is", () => {
    assert.strictEqual(written("a b (1) 100%; c='d'.txt"), " filename=\"a b (1) 100%; c='d'.txt\"\r\n")
    assert.strictEqual(written("x".repeat(64)), `\r\n filename="${"x".repeat(64)}"\r\n`)
  })

  it("of any text arrives as it was, in characters that RFC 2231 lets stand for themselves", () =>
    fc.assert(
      fc.property(fc.oneof({ weight: 3, arbitrary: text }, { weight: 1, arbitrary: long }), (value) => {
        const field = written(value)
        const wire = readWire(Buffer.from(`Content-Disposition: attachment;${field}Content-Transfer-Encoding: base64\r\n\r\n`))

        for (const line of `Content-Disposition: attachment;${field}`.split("\r\n")) assert.isAtMost(line.length, 76)
        assert.strictEqual(wire.filename, value.toWellFormed())
        if (field.includes("filename=\"")) return
        for (const [, encoded] of field.matchAll(/\*=(?:utf-8'')?([^;\r]*)/g)) assert.match(encoded!, /^(?:[A-Za-z0-9!#$&+.^_`{|}~-]|%[0-9A-F]{2})*$/)
      }),
      { numRuns: 1_000, seed: 2231 }
    )
  )

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
