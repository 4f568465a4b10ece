import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { processorTime } from "../../conformance/ProcessorTime.ts"
import { readAddresses } from "./AddressList.ts"

const cases: ReadonlyArray<readonly [text: string, parties: ReadonlyArray<readonly [address: string, name: string]>, isProper: boolean]> = [
  ["", [], true],
  [" , ,", [], true],
  ["a@b.example", [["a@b.example", ""]], true],
  ["a@b.example,c@d.example", [["a@b.example", ""], ["c@d.example", ""]], true],
  ["Ada  Lovelace\t<a@b.example>", [["a@b.example", "Ada Lovelace"]], true],
  ["\"Lovelace, \\\"Ada\\\"\" <a@b.example>", [["a@b.example", "Lovelace, \"Ada\""]], true],
  ["a@b.example (Ada (of) Lovelace)", [["a@b.example", "Ada (of) Lovelace"]], true],
  ["a . b @ c . example", [["a.b@c.example", ""]], true],
  ["\"a b\"@c.example, <\"a b\"@c.example>", [["\"a b\"@c.example", ""], ["\"a b\"@c.example", ""]], true],
  ["a@[192.0.2.1], A <a@[IPv6:2001:db8::1]>, b@[IPv6:2001:db8::1]", [["a@[192.0.2.1]", ""], ["a@[IPv6:2001:db8::1]", "A"], ["b@[IPv6:2001:db8::1]", ""]], true],
  ["<@x.example,@y.example:a@b.example>", [["a@b.example", ""]], true],
  ["G:;", [], true],
  ["G: a@b.example, B <b@b.example>; c@d.example", [["a@b.example", ""], ["b@b.example", "B"], ["c@d.example", ""]], true],
  ["jörg@bücher.example", [["jörg@bücher.example", ""]], true],
  ["=?utf-8?Q?=C3=9C?= =?utf-8?Q?_x?= <a@b.example>", [["a@b.example", "Ü x"]], true],
  ["\"=?utf-8?Q?=C3=9C?=\" <a@b.example>", [["a@b.example", "Ü"]], true],
  ["=?utf-8?Q?Lovelace,_Ada_(Countess);_of:_M=C3=BCll?= <a@b.example>", [["a@b.example", "Lovelace, Ada (Countess); of: Müll"]], false],
  ["=?utf-8?Q?Lovelace, Ada?= <a@b.example>, =?utf-8?Q?C,?= =?utf-8?Q?_D?= <c@d.example>", [["a@b.example", "Lovelace, Ada"], ["c@d.example", "C, D"]], false],
  ["=?utf-8?Q?a@b.example,?= <c@d.example>", [["c@d.example", "a@b.example,"]], false],
  ["=?utf-8?Q?A,?=", [], false],
  ["=?utf-8?Q?Ada, <a@b.example>?= <c@d.example>", [["=?utf-8?Q?Ada", ""], ["a@b.example", "?="]], false],
  ["=?utf-8?Q?a=40b.example?=", [], false],
  ["<=?utf-8?Q?a=40b.example?=>", [["=?utf-8?Q?a=40b.example?=", ""]], false],
  ["\"a@b.example\"", [], false],
  ["Ada Lovelace", [], false],
  ["postmaster", [["postmaster", ""]], false],
  ["Ada a@b.example", [["a@b.example", "Ada"]], false],
  ["Ada <a@b.example", [["a@b.example", "Ada"]], false],
  ["Ada <a@b.example, c@d.example", [["a@b.example", "Ada"], ["c@d.example", ""]], false],
  ["<<a@b.example>>", [["a@b.example", ""]], false],
  ["a@b.example; c@d.example", [["a@b.example", ""], ["c@d.example", ""]], false],
  ["a@b@c.example", [["a@b@c.example", ""]], false],
  ["Ada (never closed <a@b.example>", [["a@b.example", "Ada (never closed"]], false],
  ["\"never closed <a@b.example>", [["a@b.example", "\"never closed"]], false],
  ["Ada <>", [], false]
]

describe("a list of addresses", () => {
  for (const [text, parties, isProper] of cases) {
    it(`is read: ${text}`, () => {
      const list = readAddresses(text)

      assert.deepStrictEqual(list.parties, parties.map(([address, name]) => ({ address, name })))
      assert.strictEqual(list.isProper, isProper)
    })
  }

  /** Whom a field of authors shows. */
  const authors: ReadonlyArray<readonly [text: string, author: readonly [address: string, name: string] | null]> = [
    ["", null],
    ["Ada Lovelace", null],
    ["a@b.example, C <c@d.example>", ["a@b.example", ""]],
    ["Doe, John <a@b.example>", ["a@b.example", "Doe, John"]],
    ["Doe,John,Jr.<a@b.example>, c@d.example", ["a@b.example", "Doe, John, Jr."]],
    ["Big Wheels, Inc. <a@b.example>", ["a@b.example", "Big Wheels, Inc."]],
    ["\"Big\" Wheels (Ltd), <a@b.example>", ["a@b.example", "Big Wheels"]],
    ["=?utf-8?Q?D=C3=B6?=, =?utf-8?Q?John?= <a@b.example>", ["a@b.example", "D\u00f6, John"]],
    ["Doe, a@b.example", ["a@b.example", "Doe"]],
    ["Doe, a@b.example (John)", ["a@b.example", "Doe, John"]],
    ["Doe, John", ["Doe", ""]],
    ["Doe, John <postmaster>", ["Doe", ""]],
    ["Doe, John <postmaster>, c@d.example", ["Doe", ""]],
    ["Doe, <>, John <a@b.example>", ["a@b.example", "Doe, John"]],
    ["<postmaster>, John <a@b.example>", ["postmaster", ""]],
    ["<>, John <a@b.example>", ["a@b.example", "John"]],
    ["ceo@bank.example, John <a@b.example>", ["ceo@bank.example", ""]],
    ["ceo@bank.example Doe, John <a@b.example>", ["ceo@bank.example", "Doe"]],
    ["ceo\uff20bank.example, John <a@b.example>", ["ceo\uff20bank.example", ""]],
    ["Doe, ceo\uff20bank.example, John <a@b.example>", ["ceo\uff20bank.example", "Doe"]],
    ["Doe, John <ceo\uff20bank.example>, c@d.example", ["ceo\uff20bank.example", "Doe, John"]]
  ]
  for (const [text, author] of authors) {
    it(`shows its author: ${text}`, () => {
      const list = readAddresses(text)

      assert.deepStrictEqual(list.author, author === null ? null : { address: author[0], name: author[1] })
      if (/^(?:Doe|Big|<)/.test(text)) assert.deepStrictEqual([list.isProper, list.isPlain], [false, false])
    })
  }

  it("shows nobody as its author before whom another address stands", () => {
    const entry = fc.constantFrom("Doe", "Jane Roe", "\"J. R.\"", "a@b.example", "C <c@d.example>", "<>", "<e>", "f\uff20g.example", "\"h@i.example\"", "=?utf-8?Q?j=40k.example?=", "()", "")
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 5 }), fc.constantFrom(", ", ",", "; "), (entries, between) => {
        const { author, parties } = readAddresses(entries.join(between))
        const first = parties.findIndex(({ address }) => address.normalize("NFKC").includes("@"))

        assert.include([parties[0]?.address, parties[first]?.address], author?.address)
        if (author?.address !== parties[0]?.address) assert.isTrue(parties.slice(0, first).every(({ address }) => address === "Doe"))
      })
    )
  })

  it("is plain only where every reader finds the same", () => {
    for (const text of ["a@b.example", "Ada <a@b.example>", "a@b.example (Ada)"]) assert.isTrue(readAddresses(text).isPlain)
    for (const text of ["G: a@b.example;", "\"a b\"@c.example", "a@b@c.example", "a@[192.0.2.1]", "Ada a@b.example"]) assert.isFalse(readAddresses(text).isPlain)
  })

  it("names nobody whom decoding makes", () => {
    const word = fc.stringMatching(/^[\w@.<>, "]{0,20}$/).map((text) => `=?utf-8?B?${Buffer.from(text).toString("base64")}?=`)
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 3 }), (words) => {
        assert.deepStrictEqual(readAddresses(`${words.join(" ")} <a@b.example>`).parties.map(({ address }) => address), ["a@b.example"])
        assert.deepStrictEqual(readAddresses(words.join(" ")).parties, [])
      })
    )
  })

  it("of a megabyte takes time in proportion to it, whatever it is made of", () => {
    const made = ["a@b.example, ", "A <a@b.example>, ", "\"", "\"\\", "\"a\" ", "(", "()", "(a) ", "<", "<@", "<@,", "<(", "<\"", ">", "a . ", "@", "@[", ":", "a:", ";", ",", " ", "ä ", "=?a?q?b?= ", "=?a?q?", "\\"]
    const assertTakes = (text: string, bound: number, what: string) => assert.isBelow(processorTime(() => readAddresses(text), bound), bound, what)

    for (const piece of made) assertTakes(piece.repeat(1_000_000 / piece.length), 1_000, piece)
    for (const first of made) {
      for (const second of made) {
        const [before, behind] = [first, second].map((piece) => piece.repeat(10_000 / piece.length))
        assertTakes(`${before}${behind}`, 200, `${first}, then ${second}`)
        assertTakes(`${before}x@y ${behind}`, 200, `${first}, an address, and ${second}`)
      }
    }
  })
})
