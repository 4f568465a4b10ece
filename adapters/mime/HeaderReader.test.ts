/** Where a header ends, and what its lines are, however a sender has broken it. */
import { assert, describe, it } from "@effect/vitest"
import { Defects } from "./Defects.ts"
import { headOf, readFields, wholeMessage } from "./HeaderReader.ts"

const read = (text: string, bounds: Partial<Parameters<typeof readFields>[2]> = {}) => {
  const bytes = Buffer.from(text, "latin1")
  const defects = new Defects()
  const { fields, bodyStart } = readFields(bytes, 0, { ...wholeMessage(bytes), ...bounds }, defects)
  return { fields, body: bytes.toString("latin1", bodyStart), defects }
}

type Row = readonly [what: string, text: string, fields: ReadonlyArray<readonly [name: string, value: string]>, body: string, defects: ReadonlyArray<string>]

const whole: ReadonlyArray<Row> = [
  ["nothing but a body", "\r\nbody", [], "body", ["no_header"]],
  ["white space about a colon", "A \t:  1 \n\nbody", [["A", "1 "]], "body", []],
  ["no name", ": 1\nA: 2\n\nbody", [["A", "2"]], "body", ["malformed_header"]],
  ["a stray line, and one that would go on with it", "A: 1\nstray\n on\nB: 2\n\nbody", [["A", "1"], ["B", "2"]], "body", ["malformed_header"]],
  ["stray lines, the last of which no field follows", "A: 1\none\nB: 2\ntwo\n\nbody", [["A", "1"], ["B", "2"]], "body", ["malformed_header"]],
  ["more fields behind stray lines than those", "A: 1\none\ntwo\nthree\nB: 2\nC: 3\n\nbody", [["A", "1"], ["B", "2"], ["C", "3"]], "body", ["malformed_header"]],
  ["no empty line", "A: 1\nDear all\n\nbody", [["A", "1"]], "Dear all\n\nbody", ["malformed_header"]],
  ["no empty line, and a text with a colon", "A: 1\nDear all\nsome text\nNote: more\nand more\n", [["A", "1"]], "Dear all\nsome text\nNote: more\nand more\n", ["malformed_header"]],
  ["the first line of a mailbox file", "From ada Mon Apr  7\nA: 1\n\nbody", [["A", "1"]], "body", []],
  ["such a line elsewhere", "A: 1\nFrom ada Mon Apr  7\nB: 2\n\nbody", [["A", "1"], ["B", "2"]], "body", ["malformed_header"]],
  ["as many fields as there may be, the last of two lines", `${"A: 1\n".repeat(1_000)} 2\n\nbody`, [...Array.from({ length: 999 }, () => ["A", "1"] as const), ["A", "1 2"]], "body", []]
]

const ofPart: ReadonlyArray<Row> = [
  ["the first line of a mailbox file", "From ada Mon Apr  7\nA: 1\n\nbody", [["A", "1"]], "body", ["malformed_header"]],
  ["no header", "Dear all\n", [], "Dear all\n", ["malformed_header"]]
]

const cut: ReadonlyArray<Row> = [
  ["in a field", "A: 1\r\nB: 23456789\r\n\r\nbody\n\nmore", [["A", "1"], ["B", "234"]], "body\n\nmore", ["truncated_header"]],
  ["behind a field", "A: 1\r\nB: 2\r\nC: 3\r\n\r\nbody", [["A", "1"], ["B", "2"]], "body", ["truncated_header"]],
  ["nowhere", "A: 1\r\nB: 2\r\n\r\nbody", [["A", "1"], ["B", "2"]], "body", []]
]

describe("a header is read", () => {
  const rows = [
    ...whole.map((row) => ["with", row, {}] as const),
    ...ofPart.map((row) => ["of a part with", row, { isRoot: false }] as const),
    ...cut.map((row) => ["cut", row, { bytesMax: 12 }] as const)
  ]
  for (const [how, [what, text, fields, body, words], bounds] of rows) {
    it(`${how} ${what}`, () => {
      const found = read(text, bounds)

      assert.deepStrictEqual(found.fields.map(({ name, value }) => [name, value]), fields.map(([name, value]) => [name, value]))
      assert.strictEqual(found.body, body)
      assert.deepStrictEqual(found.defects.list(), words)
    })
  }
})

describe("a head says", () => {
  const said = (text: string) => {
    const { fields, defects } = read(`From: a@b.example\n${text}\n\n`)
    return { ...headOf(fields, defects), defects: defects.list() }
  }

  it("nothing of a date that is blank", () => {
    assert.deepStrictEqual(said("Date:\n \t").defects, ["missing_date"])
    assert.deepStrictEqual(said("Date: x").defects, ["bad_date"])
  })

  it("nothing of fields that may stand twice", () => {
    assert.notInclude(said("Received: x\nReceived: y").defects, "duplicate_header")
    assert.include(said("Subject: x\nSubject: x").defects, "duplicate_header")
  })

  it("an id that lacks its brackets, and none where they are empty", () => {
    assert.strictEqual(said("Message-ID: one").messageId, "<one>")
    assert.strictEqual(said("Message-ID: <>").messageId, null)
  })

  it("what stands in a list of nobody", () => {
    assert.deepStrictEqual(said("To: ,").headers.at(-1), { name: "To", value: "," })
  })
})
