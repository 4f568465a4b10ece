import { assert, describe, it } from "@effect/vitest"
import * as Header from "./Header.ts"

/** What goes on of a message that comes in these pieces, and what is said of its header. */
const through = (...pieces: ReadonlyArray<string>) => {
  const header = Header.make()
  const passed = Buffer.concat([...pieces.flatMap((piece) => header.read(Buffer.from(piece, "latin1"))), ...header.end()]).toString("latin1")
  return { passed, isCut: header.isCut(), lacksAuthor: header.lacksAuthor(), isAmbiguous: header.isAmbiguous() }
}

/** What goes on of a message with these fields, and whether an author was too much to, or may be several. */
const read = (fields: string) => {
  const { passed, lacksAuthor, isAmbiguous } = through(`${fields}\r\nbody\r\n`)
  const [kept = "", body] = passed.split(/(?<=^|\r\n)\r\n/)
  return { kept, body, lacksAuthor, isAmbiguous }
}

const signature = (names: number, blanks = 1, name = "DKIM-Signature") => `${name}: v=1;${" ".repeat(blanks)}h=${":".repeat(names - 2)};\r\n` // one is the field's own

const seals = ["ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results"]

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
    ...["From", "Return-Path", "Received", "Content-Type", "DKIM-Signature", ...seals].map(
      (name) => [`that is read, ${name}, of 16 KiB`, 16 * 1_024, (size: number) => sized(name, size)] as const
    ),
    ...["DKIM-Signature", ...seals].flatMap((name) => [
      [`of a signature, ${name}, over 1,000 names`, 1_000, (names: number) => signature(names, 1, name)] as const,
      [`of a signature, ${name}, with 255 blanks in a row`, 255, (blanks: number) => signature(5, blanks, name)] as const
    ])
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

  for (const [from, isAmbiguous] of [
    ["ada@client.test", false],
    ["Ada <ada@client.test>", false],
    ["\"eve@bank.test, \\\"<eve@bank.test>\" <ada@client.test> (<eve@bank.test>)", false],
    ["<ada@client.test> <eve@bank.test>", true],
    ["Ada <ada@client.test>, Eve <eve@bank.test>", true],
    ["<ada@client.test> <>", true],
    ["<ada@client.test,eve@bank.test>", true],
    ["ada@client.test eve@bank.test", true],
    ["Ada", true],
    ["<> ada@client.test", true]
  ] as const) {
    it(`tells ${isAmbiguous ? "that an author may be read as several or none" : "of one author"} in ${from}`, () => {
      assert.strictEqual(read(`From: ${from}\r\n`).isAmbiguous, isAmbiguous)
    })
  }

  it("says the same of a message however it is cut into pieces", () => {
    const body = "\r\nFrom: eve@bank.test, ada@client.test\r\n\r\nbody\r\n"
    const [plain, several] = ["From: ada@client.test\r\nSubject: Note G\r\n", "From: ada@client.test, eve@bank.test\r\n"]
    const tooMuch = signature(5, 256)
    const messages = [
      [`${plain}${body}`, { passed: `${plain}${body}`, isAmbiguous: false }],
      [`${several}${body}`, { passed: `${several}${body}`, isAmbiguous: true }],
      [`${plain}${tooMuch}${several}${body}`, { passed: `${plain}${several}${body}`, isAmbiguous: true }],
      [`${tooMuch}${several}`, { passed: several, isAmbiguous: true }], // no blank line, and no body
      [body, { passed: body, isAmbiguous: false }],
      ["", { passed: "", isAmbiguous: false }]
    ] as const

    for (const [message, expected] of messages) {
      const whole = { ...expected, isCut: false, lacksAuthor: false }
      for (let at = 0; at <= message.length; at++) assert.deepStrictEqual(through(message.slice(0, at), message.slice(at)), whole, `at ${at}`)
      assert.deepStrictEqual(through(...message), whole)
    }
  })

  it("goes on whole with 256 KiB, and of more with the lines that are in them, and no body", () => {
    const author = "From: ada@client.test\r\n"
    const of = (size: number) => `${author}${sized("Subject", size - author.length)}`
    const said = { lacksAuthor: false, isAmbiguous: false }
    const most = 256 * 1_024
    // Its last line ends where the blank one begins.
    const [whole, more] = [`${of(most + 2)}\r\nbody\r\n`, `${of(most + 3)}\r\nbody\r\n`]

    assert.deepStrictEqual(through(whole), { ...said, passed: whole, isCut: false })
    for (let at = most - 1; at <= most + 5; at++) {
      assert.deepStrictEqual(through(whole.slice(0, at), whole.slice(at)), { ...said, passed: whole, isCut: false }, `in pieces, at ${at}`)
      assert.deepStrictEqual(through(more.slice(0, at), more.slice(at)), { ...said, passed: author, isCut: true }, `in pieces, at ${at}`)
    }
    assert.deepStrictEqual(through(of(most + 2)), { ...said, passed: of(most + 2), isCut: false }, "without a blank line")
    assert.deepStrictEqual(through(of(most)), { ...said, passed: of(most), isCut: false })
    for (const message of [more, of(most + 3), `${of(most + 3)}X: y\r\n`]) {
      assert.deepStrictEqual(through(message), { ...said, passed: author, isCut: true })
      assert.deepStrictEqual(through(message, "X: y\r\n", "\r\n", "body"), { ...said, passed: author, isCut: true })
    }
  })

  it("tells under which names its author's policy may stand, and no other's", () => {
    const names = ["_dmarc.mail.bank.test", "_dmarc.bank.test", "_DMARC.Bank.TEST", "_dmarc.test", "_dmarc.ank.test", "_dmarc.eve.test", "_dmarc.bücher.test", "_dmarc.xn--bcher-kva.test", "bank.test", "_dmarc."]
    const told = (from: string) => {
      const header = Header.make()
      header.read(Buffer.from(`${from}\r\n\r\n`))
      return names.filter((name) => header.isPolicyOf(name))
    }
    const bank = names.slice(0, 4)

    for (const from of [
      "From: ada@mail.bank.test",
      "From: Ada <ada@Mail.Bank.test.>",
      'From: "@eve.test" <ada@mail.bank.test>',
      "From: (@eve.test)\r\n <ada@mail.bank.test> (@eve.test)",
      "From: @eve.test <ada@mail.bank.test>"
    ]) {
      assert.deepStrictEqual(told(from), bank, from)
    }
    assert.deepStrictEqual(told("From: ada@bücher.test"), ["_dmarc.test", "_dmarc.xn--bcher-kva.test"])
    assert.deepStrictEqual(told("From: ada@bank.test, eve@eve.test"), ["_dmarc.bank.test", "_DMARC.Bank.TEST", "_dmarc.test", "_dmarc.eve.test"])
    assert.deepStrictEqual(told("Subject: ada@bank.test"), [])
  })
})
