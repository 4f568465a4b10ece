/** Base64 with all that stands between its digits; uuencode, which no RFC defines: what POSIX says of it, and what mail does to it on the way. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { processorTime } from "../../conformance/ProcessorTime.ts"
import { decodeQ, unwrap } from "./TransferDecoding.ts"

/** As POSIX has uuencode write it. */
const uuencoded = (bytes: Uint8Array, lineEnd: string, blank: string): string => {
  const letter = (sextet: number): string => (sextet === 0 ? blank : String.fromCharCode(32 + sextet))
  const lines = Array.from({ length: Math.ceil(bytes.length / 45) }, (_, index) => {
    const line = bytes.subarray(index * 45, index * 45 + 45)
    const groups = Array.from({ length: Math.ceil(line.length / 3) }, (_, group) => {
      const [one = 0, two = 0, three = 0] = line.subarray(group * 3, group * 3 + 3)
      return [one >> 2, ((one & 3) << 4) | (two >> 4), ((two & 15) << 2) | (three >> 6), three & 63].map(letter).join("")
    })
    return letter(line.length) + groups.join("")
  })
  return ["begin 644 a file.bin", ...lines, blank, "end", ""].join(lineEnd)
}

const decoded = (text: string, encoding: "base64" | "uuencode" = "uuencode") => {
  const { bytes, isProper } = unwrap(encoding, Buffer.from(text, "latin1"))
  return { bytes: [...bytes], isProper }
}

describe("A base64 body", () => {
  const bytes = fc.uint8Array({ maxLength: 60, size: "max" })
  /** Padded, with these between its digits. */
  const piece = (inBetween: ReadonlyArray<string>) =>
    fc.tuple(bytes, fc.array(fc.tuple(fc.nat(100), fc.constantFrom(...inBetween)), { maxLength: 3 })).map(([bytes, between]) => ({
      bytes,
      isWhole: between.length === 0,
      text: between.reduce((text, [place, other]) => {
        const at = place % (text.replace(/=+$/, "").length + 1)
        return text.slice(0, at) + other + text.slice(at)
      }, Buffer.from(bytes).toString("base64"))
    }))
  const lines = fc.array(piece(["\r\n", "\n", " \r\n", "\t\t\n"]), { maxLength: 4 })

  it("decodes to the bytes that it was made from, wherever lines end in it, and anew behind each padding, of which it says so", () => {
    fc.assert(fc.property(lines, fc.constantFrom("", " ", "\r\n", "\n\n"), (made, behind) => {
      const text = made.map(({ text }) => text + (text.endsWith("=") ? behind : "\r\n")).join("")
      const isPaddedWithin = /=\s*[^=\s]/.test(text)

      assert.deepStrictEqual(decoded(text, "base64"), { bytes: made.flatMap(({ bytes }) => [...bytes]), isProper: !isPaddedWithin })
    }), { numRuns: 1_000 })
  })

  it("may have blanks anywhere", () => {
    fc.assert(fc.property(piece([" ", "\t\t", "\r\n"]), ({ bytes, text }) => {
      assert.deepStrictEqual(decoded(text, "base64"), { bytes: [...bytes], isProper: true })
    }))
  })

  it("passes by what is no base64, and says so", () => {
    fc.assert(fc.property(piece(["-", "\0", "é", "!\r\n"]), ({ bytes, isWhole, text }) => {
      assert.deepStrictEqual(decoded(text, "base64"), { bytes: [...bytes], isProper: isWhole })
    }), { numRuns: 1_000 })
  })

  it("ends at its padding where text stands behind it, and says so", () => {
    const footer = fc.constantFrom(
      "_______________________________________________\nList mailing list\nlist@lists.example\n", "Unsubscribe\n", "To unsubscribe, write to us\n", "-- \r\nAda\r\n",
      "Sent from here\n", "Sent\tfrom a phone\n", "Sent\n from here\nby me", "Best\nAda Lovelace\n", "a=b\n", "list=\nfooter==\n", "*", "Jo\u00c3\u00a3o", "YWJjZA\n", "YWJj\n-- \nYWJjZA==\n"
    )
    const padded = lines.filter((made) => made.at(-1)?.text.endsWith("=") === true)
    fc.assert(fc.property(padded, fc.constantFrom("\r\n", "\n", "\n\n", ""), footer, (made, between, footer) => {
      const text = made.map(({ text }) => text).join("\n") + between + footer

      assert.deepStrictEqual(decoded(text, "base64"), { bytes: made.flatMap(({ bytes }) => [...bytes]), isProper: false })
    }), { numRuns: 1_000 })
  })

  it("takes time in proportion to it, whatever stands behind its paddings", () => {
    for (const text of ["YQ==", "YQ==\n", "YQ= =", "YWJj".repeat(10) + "YQ=\n", "YQ==\n" + "YWJj\n".repeat(10_000)]) {
      const body = Buffer.from(text.repeat(5_000_000 / text.length))
      assert.isBelow(processorTime(() => unwrap("base64", body.subarray()), 1_000), 1_000, text.slice(0, 20))
    }
  })
})

describe("Padding of base64", () => {
  it("is as long as its last digits want it, or that is said", () => {
    const proper = (text: string) => decoded(text, "base64").isProper

    assert.deepStrictEqual(["", "YWJj", "YWI=", "YQ==", "YQ=\r\n="].filter((text) => !proper(text)), [])
    assert.deepStrictEqual(["YWJj=", "YWJj==", "YWI", "YWI==", "YQ", "YQ=", "YQ===", "Y", "Y===", "="].filter(proper), [])
  })
})

describe("A quoted-printable body", () => {
  for (const [text, expected, isProper] of [
    ["=C3=bc=3D", "\xc3\xbc=", true],
    ["a \t\r\nb \nc", "a\r\nb\nc", true],
    ["a \rb", "a \rb", true],
    ["a =20\r\n", "a  \r\n", true],
    ["a =\r\n b=\nc= \t\r\nd=\r\r\ne", "a  bcde", true],
    ["a=", "a", true],
    ["a= ", "a", true],
    ["=4G =G4 =@4 =4@ =4", "=4G =G4 =@4 =4@ =4", false],
    ["a=\rb", "a=\rb", false]
  ] as const) {
    it(`decodes, and says whether it is one: ${JSON.stringify(text)}`, () => {
      const found = unwrap("quoted-printable", Buffer.from(text, "latin1"))

      assert.deepStrictEqual([Buffer.from(found.bytes).toString("latin1"), found.isProper], [expected, isProper])
    })
  }

  it("has no broken escape where it is a word of a header, or that is said", () => {
    assert.deepStrictEqual(["a_=3d", "a=", "a=4"].map((word) => {
      const { bytes, isProper } = decodeQ(Buffer.from(word))
      return [Buffer.from(bytes).toString(), isProper]
    }), [["a =", true], ["a=", false], ["a=4", false]])
  })
})

describe("A uuencoded body", () => {
  it("decodes to the bytes that it was made from, whatever its line ends and its sign for zero", () => {
    fc.assert(fc.property(
      fc.uint8Array({ maxLength: 400, size: "max" }),
      fc.constantFrom("\n", "\r\n"),
      fc.constantFrom("`", " "),
      fc.constantFrom("", "words before it\n"),
      (bytes, lineEnd, blank, before) => {
        assert.deepStrictEqual(decoded(before + uuencoded(bytes, lineEnd, blank)), { bytes: [...bytes], isProper: true })
      }
    ))
  })

  it("decodes though blanks at the ends of its lines are lost", () => {
    const bytes = Buffer.from("a".repeat(110) + "\0".repeat(25))
    const lines = uuencoded(bytes, "\n", " ").split("\n").map((line) => line.trimEnd())

    assert.deepStrictEqual(decoded(lines.join("\n")).bytes, [...bytes])
  })

  it("is as far as it goes where its end is missing, and says so", () => {
    const text = uuencoded(Buffer.from("a".repeat(90)), "\n", "`")

    assert.deepStrictEqual(decoded(text.slice(0, text.indexOf("`"))), { bytes: [...Buffer.from("a".repeat(90))], isProper: false })
  })

  it("stays as it is without a beginning, and says so", () => {
    for (const text of ["", "x", "beginning\n", "begin 644 a", "a begin 644 a\n%:&5L;&\\\n`\nend\n"]) {
      assert.deepStrictEqual(decoded(text), { bytes: [...Buffer.from(text)], isProper: false })
    }
  })
})
