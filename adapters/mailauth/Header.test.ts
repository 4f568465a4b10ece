import { assert, describe, it } from "@effect/vitest"
import * as Header from "./Header.ts"

/** What goes on of a message with these fields, and whether an author was too much to. */
const read = (fields: string) => {
  const header = Header.make()
  const pieces = [...header.read(Buffer.from(`${fields}\r\nbody\r\n`, "latin1")), ...header.end()]
  const [kept = "", body] = Buffer.concat(pieces).toString("latin1").split(/(?<=^|\r\n)\r\n/)
  return { kept, body, lacksAuthor: header.lacksAuthor() }
}

const signature = (names: number, blanks = 1) => `DKIM-Signature: v=1;${" ".repeat(blanks)}h=${":".repeat(names - 2)};\r\n` // one is the field's own

/** A field of so many characters. */
const sized = (name: string, size: number) => `${name}: ${"x".repeat(size - name.length - 4)}\r\n`

describe("a header", () => {
  for (const [what, most, fieldsOf] of [
    ["1,000 fields", 1_000, (count: number) => "X: y\r\n".repeat(count)],
    ["ten signatures", 10, (count: number) => signature(5).repeat(count)]
  ] as const) {
    it(`goes on with its first ${what}`, () => {
      assert.deepStrictEqual([most, most + 1].map((count) => read(fieldsOf(count)).kept), [fieldsOf(most), fieldsOf(most)])
      assert.strictEqual(read(fieldsOf(most + 1)).body, "body\r\n")
    })
  }

  for (const [what, most, fieldOf] of [
    ["of 1,999 lines", 1_999, (lines: number) => `X: y\r\n${" z\r\n".repeat(lines - 1)}`],
    ["that is read, of 16 KiB", 16 * 1_024, (size: number) => sized("Received", size)],
    ["of a signature over 1,000 names", 1_000, (names: number) => signature(names)],
    ["of a signature with 255 blanks in a row", 255, (blanks: number) => signature(5, blanks)]
  ] as const) {
    it(`goes on with a field ${what}, and without one of more`, () => {
      assert.deepStrictEqual([most, most + 1].map((count) => read(`A: b\r\n${fieldOf(count)}C: d\r\n`).kept), [`A: b\r\n${fieldOf(most)}C: d\r\n`, "A: b\r\nC: d\r\n"])
    })
  }

  it("goes on with a field of any size that nobody reads", () => {
    assert.strictEqual(read(sized("Subject", 100_000)).kept, sized("Subject", 100_000))
  })

  it("tells of an author that does not go on, for its size or behind 1,000 fields", () => {
    const others = "X: y\r\n".repeat(999)
    const author = "From: ada@example.com\r\n"

    assert.deepStrictEqual(
      [others + author, `${others}X: y\r\n${author}`, sized("From", 16 * 1_024), sized("From", 16 * 1_024 + 1)].map((fields) => read(fields).lacksAuthor),
      [false, true, false, true]
    )
  })
})
