/** Any text arrives as it was, by lines that the strict reader of the suite lets pass, whether it is encoded whole or in slices. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as fc from "fast-check"
import { readWire } from "../../conformance/MimeWire.ts"
import { base64Lines, encodeText } from "./BodyEncoding.ts"

const sliceLength = 32 * 1024

const chunksOf = (text: string) => {
  const { body } = encodeText(text)
  return typeof body === "string" ? Effect.succeed([Buffer.from(body)]) : Effect.map(Stream.runCollect(Stream.chunks(body)), (chunks) => chunks.map((bytes) => Buffer.concat(bytes)))
}

const wireOf = Effect.fnUntraced(function* (text: string) {
  const { encoding, endsLine } = encodeText(text)
  const body = Buffer.concat(yield* chunksOf(text))
  const head = `Content-Type: text/plain\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body, Buffer.from(endsLine ? "" : "\r\n")])
})

const canonical = (text: string): string => text.toWellFormed().replace(/\r\n|\r|\n/g, "\r\n")

const assertArrives = Effect.fnUntraced(function* (text: string) {
  const { encoding, endsLine } = encodeText(text)
  const wire = yield* wireOf(text)

  const line = encoding === "base64" || endsLine ? "" : "\r\n"
  assert.isTrue(readWire(wire).body.toString() === canonical(text) + line, "the text differs")
  // What some change on the way.
  if (encoding === "quoted-printable") assert.notMatch(wire.toString("latin1"), /\n(?:\.|From )/)
})

const pieces = [
  ..."\n \r \r\n \n\n \t = . .. From F Fro é ж € 😀 \ud83e \udc00 \u0000 \u007f \u2028 word".split(" "),
  " ",
  "  ",
  "\r\r\n",
  "\ud83e😀",
  "From here",
  "\nFrom here",
  "\n.",
  "x".repeat(73),
  "x".repeat(74),
  "x".repeat(75),
  "x".repeat(76),
  "x".repeat(77),
  "x".repeat(200),
  "many words and ".repeat(10)
]
const made = fc.array(fc.constantFrom(...pieces), { maxLength: 20, size: "max" }).map((parts) => parts.join(""))

describe("a text", () => {
  it("arrives as it was, whatever is in it", () =>
    fc.assert(fc.asyncProperty(fc.oneof(made, fc.string({ unit: "binary", maxLength: 200, size: "max" })), (text) => Effect.runPromise(assertArrives(text))), {
      numRuns: 1_000,
      seed: 2045
    })
  )

  it.effect("arrives as it was when whatever is in it is cut in two", () =>
    Effect.gen(function* () {
      for (const piece of pieces) {
        for (const filling of ["fill ", "ж"]) {
          const before = filling.repeat(sliceLength).slice(0, sliceLength)
          for (let back = 0; back <= Math.min(piece.length, 80); back += back < 5 ? 1 : 37) {
            yield* assertArrives(`${before.slice(back)}${piece}${piece} and on`)
          }
        }
      }
    })
  )

  it.effect("arrives as it was when it is cut behind a line that is full", () =>
    Effect.forEach(["x".repeat(76), `${"x".repeat(73)}=`, `${"x".repeat(75)} `], (line) =>
      assertArrives(`${"\n".repeat(sliceLength - line.length)}${line}and on`)
    )
  )

  it.effect("arrives as it was when all characters of a slice are escaped, and of three bytes each", () =>
    assertArrives(`${"x".repeat(sliceLength * 20)}${"€".repeat(sliceLength)}`)
  )

  it.effect("has no more than a slice of it in memory, though it is one line", () =>
    Effect.gen(function* () {
      for (const text of ["x".repeat(5_000_000), `${"x".repeat(5_000_000)}${"=".repeat(sliceLength * 3)}`, "ж".repeat(2_000_000)]) {
        const chunks = yield* chunksOf(text)

        assert.isAbove(chunks.length, 60)
        assert.isAtMost(Math.max(...chunks.map(({ length }) => length)), sliceLength * 4)
        yield* assertArrives(text)
      }
    })
  )

  it("is quoted-printable, or base64 where that is shorter, at any length", () => {
    for (const times of [1, 10_000]) {
      for (const [text, encoding] of [
        ["plain\n", "quoted-printable"],
        ["Viele Grüße aus Kraków, und bis bald\n", "quoted-printable"],
        ["Привет\n", "base64"],
        ["just=a", "quoted-printable"],
        ["less=".repeat(20), "base64"],
        ["αβγδεζη", "base64"]
      ] as const) {
        assert.strictEqual(encodeText(text.repeat(times)).encoding, encoding)
      }
    }
  })

  it("says whether it ends with a line end, at any length: the last line of base64 has none", () => {
    for (const filling of ["x", "ж"]) {
      for (const length of [0, 1, 10, sliceLength + 10]) {
        for (const end of ["", "\n", "\r\n", "\r", "\n ", "."]) {
          const text = `${filling.repeat(length)}${end}`

          const { encoding, endsLine } = encodeText(text)

          assert.strictEqual(endsLine, encoding === "quoted-printable" && (text === "" || /[\r\n]$/.test(text)), JSON.stringify(text.slice(-20)))
        }
      }
    }
  })

  it("is broken into lines behind words, and never within a character", () => {
    const { body } = encodeText(`${"weave ".repeat(20)}\n${"x".repeat(72)}ж${"x".repeat(74)}`)

    assert.strictEqual(
      body,
      `${"weave ".repeat(12)}=\r\n${"weave ".repeat(7)}weave=20\r\n${"x".repeat(72)}=\r\n=D0=B6${"x".repeat(69)}=\r\n${"x".repeat(5)}`
    )
  })
})

/** By Node, and cut. */
const linesOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64").replace(/.{76}(?=.)/g, "$&\r\n")

describe("base64", () => {
  it.effect("has the same lines however the bytes are cut", () =>
    Effect.gen(function* () {
      for (let length = 0; length < 200; length++) {
        const bytes = Buffer.from(Array.from({ length }, (_, index) => (index * 7) & 255))
        for (const size of [1, 19, 56, 57, 58, 200]) {
          const cut = Array.from({ length: Math.ceil(length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))
          const lines = Buffer.concat([...(yield* Stream.runCollect(base64Lines(Stream.fromIterable(cut))))]).toString()

          assert.strictEqual(lines, linesOf(bytes))
        }
      }
    })
  )

  it.effect("has the digits of any twelve bits, and of bytes that are no Buffer", () =>
    Effect.gen(function* () {
      const bits = Array.from({ length: 4_096 }, (_, bits) => bits.toString(16).padStart(3, "0")).join("")
      const bytes = Uint8Array.from(Buffer.from(`${bits}ff`, "hex"))

      const lines = yield* Stream.mkUint8Array(base64Lines(Stream.make(bytes)))

      assert.strictEqual(Buffer.from(lines).toString(), linesOf(bytes))
    })
  )
})
