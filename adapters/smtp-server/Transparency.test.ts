import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Transparency from "./Transparency.ts"

/** What the decoder makes of bytes that come in these pieces. */
const decode = (pieces: ReadonlyArray<string>) => {
  const decoder = Transparency.make()
  let text = ""
  let rest: string | null = null
  for (const piece of pieces) {
    if (rest !== null) {
      rest += piece
      continue
    }
    const decoded = decoder.decode(Buffer.from(piece, "latin1"))
    text += Buffer.from(decoded.bytes).toString("latin1")
    rest = decoded.rest === null ? null : Buffer.from(decoded.rest).toString("latin1")
  }
  return { text, rest, isBare: decoder.hasBareLineEnd() }
}

/** By the whole text at once, and by another way: lines. */
const expected = (wire: string) => {
  const end = `\r\n${wire}`.indexOf("\r\n.\r\n")
  const whole = end < 0 ? wire : wire.slice(0, end)
  const text = whole.split("\r\n").map((line) => line.replace(/^\./, "")).join("\r\n")
  return { text, rest: end < 0 ? null : wire.slice(end + 3), isBare: /\r(?!\n)|(?<!\r)\n/.test(whole) }
}

const signs = fc.array(fc.constantFrom("\r", "\n", ".", "\r\n", "\r\n.", "\r\n.\r\n", "\0", "a"), { maxLength: 14, size: "max" })

describe("Transparency", () => {
  it("finds the same end, bytes and bare line ends as a reading of the whole, however it is cut", () => {
    fc.assert(
      fc.property(signs, fc.array(fc.nat(3), { maxLength: 30, size: "max" }), (made, cuts) => {
        const wire = `${made.join("")}\r\n.\r\nrest`
        const pieces: Array<string> = []
        let from = 0
        for (const cut of cuts) {
          pieces.push(wire.slice(from, from + cut))
          from += cut
        }
        pieces.push(wire.slice(from))

        const got = decode(pieces)

        const wanted = expected(wire)
        assert.strictEqual(got.rest, wanted.rest)
        assert.strictEqual(got.isBare, wanted.isBare)
        // Who has a bare line end is refused, so that what it would have been does not matter.
        if (!wanted.isBare) assert.strictEqual(got.text, wanted.text)
      }),
      { numRuns: 20_000, examples: [[[], []], [["."], [1, 1, 1]], [["\r\n.", "\r\n"], [2, 1, 1, 1]]] }
    )
  })

  it("ends where CRLF dot CRLF stands and nowhere else, of all ways to put CR, LF and NUL around a dot", () => {
    const parts = ["", "\r", "\n", "\r\n", "\n\r", "\r\r\n", "\r\n\0", "\0\r\n", "\0", " "]
    const ends = parts.flatMap((before) => parts.map((behind) => `${before}.${behind}`))

    const ending = ends.filter((end) => decode([`x${end}`]).rest !== null)

    assert.deepStrictEqual(ending, ends.filter((end) => end.includes("\r\n.\r\n")))
    assert.strictEqual(ending.length, 6)
  })

  it("gives what it was given as one piece, however many dots are no part of it", () => {
    const { bytes } = Transparency.make().decode(Buffer.from("..\r\n".repeat(1_000)))

    assert.strictEqual(Buffer.from(bytes).toString(), ".\r\n".repeat(1_000))
  })
})
