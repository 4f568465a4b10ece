import { assert, describe, it } from "@effect/vitest"
import { readParameters } from "./Parameters.ts"

const cases: ReadonlyArray<readonly [text: string, value: string, params: Readonly<Record<string, string>>]> = [
  ["", "", {}],
  ["text/plain", "text/plain", {}],
  ["text/plain; charset=utf-8", "text/plain", { charset: "utf-8" }],
  ["Text/Plain;CHARSET = \"utf-8\" ;", "Text/Plain", { charset: "utf-8" }],
  ["a/b; x=\"semi;colon, eq=ual (no comment)\"; y=1", "a/b", { x: "semi;colon, eq=ual (no comment)", y: "1" }],
  ["a/b; x=\"back\\\\slash \\\"quoted\\\"\"", "a/b", { x: "back\\slash \"quoted\"" }],
  ["a/b; x=\"in\" behind; y=2", "a/b", { x: "in", y: "2" }],
  ["a/b; x=\"never closed; y=2", "a/b", { x: "never closed; y=2" }],
  ["a/b; flag; boundary=b", "a/b", { flag: "", boundary: "b" }],
  ["\"a/b\" c; x=y\"z; \"", "a/b", { x: "yz; " }],
  ["a/b; x=\" kept \"; y= cut ; z=\"\"", "a/b", { x: " kept ", y: "cut", z: "" }],
  ["a/b; x=1; X=2", "a/b", { x: "1" }],
  ["a/b; x=a b ; y=C:\\d", "a/b", { x: "a b", y: "C:\\d" }],
  ["a/b; x==?utf-8?Q?a?=", "a/b", { x: "=?utf-8?Q?a?=" }],
  ["a/b (so (they) say; x=0) ; (a) x (b) = (c)(d) 1 (e)", "a/b", { x: "1" }],
  ["a/b; name=copy(1).txt", "a/b", { name: "copy(1).txt" }],
  ["a/b; filename=Report (1).pdf ; x=1 (a; b) (c)", "a/b", { filename: "Report (1).pdf", x: "1" }],
  ["a/b; filename = (a) b (c ; x=1 (d)", "a/b", { filename: "(a) b (c", x: "1" }],
  ["a/b; filename*0=a (1); filename*1*=(%32) (; x (d) = 1", "a/b", { filename: "a (1)(2) (", x: "1" }],
  ["a/b; filename=\"x (1)\" (2); name=(a)\"b\"; names=c (d); nickname=e (f)", "a/b", { filename: "x (1)", name: "(a)b", names: "c", nickname: "e" }],
  ["a/b (never closed", "a/b", {}],
  ["a/b (never closed; x=1", "a/b (never closed", { x: "1" }],
  ["a/b; f*=utf-8'en'%C3%BC%zz", "a/b", { f: "\u00fc%zz" }],
  ["a/b; f*1*=%62; f*0*=utf-8''%61; f*10=%6b; f*2=c", "a/b", { f: "abc%6b" }],
  ["a/b; f=plain; f*=utf-8''encoded", "a/b", { f: "encoded" }],
  ["a/b; f*=iso-8859-1'de'%FC; f*=utf-8''x", "a/b", { f: "\u00fc" }],
  ["a/b; name*0==?utf-8?B?w7; name*1=wu?=", "a/b", { name: "\u00fc." }],
  ["a/b; name=\"=?utf-8?Q?=C3=BC.txt?=\"; x==?utf-8?Q?a?=", "a/b", { name: "\u00fc.txt", x: "=?utf-8?Q?a?=" }],
  ["a/b; name=\"C:\\dir\\x.txt\"", "a/b", { name: "C:\\dir\\x.txt" }],
  ["a/b; name=\u00c3\u00bc.txt; x=\u00fc", "a/b", { name: "\u00fc.txt", x: "\u00fc" }],
  ["a/b; f*0=no; f*1=' charset'", "a/b", { f: "no' charset'" }],
  ["a/b; *=x; *0*=y; =z", "a/b", {}],
  ["a/b; __proto__=x; constructor=y", "a/b", { ["__proto__"]: "x", constructor: "y" }]
]

describe("parameters", () => {
  for (const [text, value, params] of cases) {
    it(`are read from: ${text}`, () => {
      const read = readParameters(text)

      assert.strictEqual(read.value, value)
      assert.deepStrictEqual(read.params, new Map(Object.entries(params)))
    })
  }

  it("say whether one is twice there, lacks something or does not decode", () => {
    const isProper = (text: string) => readParameters(text).isProper

    assert.deepStrictEqual(["a/b", "a/b; x=1; y=2;", "a/b; f*=utf-8''%C3%BC", "a/b; f*1=b; f*0=a", "a/b; f=a; f*=utf-8''a"].filter((text) => !isProper(text)), [])
    assert.deepStrictEqual(
      [
        "a/b; x=1; x=1", "a/b; =x", "a/b; *=x", "a/b; f*0=a; f*2=c", "a/b; f*0=a; f*0=a", "a/b; f*1*=utf-8''b", "a/b; f*=a", "a/b; f*=utf-8''%zz", "a/b; f*=utf-8''%FF",
        "a/b; x=\u00ff", "a/b; f*0=\u00ff", "a/b; name==?utf-8?Q?a?="
      ].filter(isProper),
      []
    )
  })
})
