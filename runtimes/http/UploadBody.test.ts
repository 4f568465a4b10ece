import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import { vi } from "vitest"
import { Base64Decoder, Base64Encoder, decodedLengthMax, encodedLength } from "./Base64.ts"
import { UploadBody } from "./UploadBody.ts"

const bytesOf = (text: string) => new TextEncoder().encode(text)

const pieces = (bytes: Uint8Array, cuts: ReadonlyArray<number>) => {
  const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((place, index) => bytes.slice(places[index]!, place))
}

const read = (text: string | Uint8Array, cuts: ReadonlyArray<number> = []) => {
  const body = new UploadBody()
  const content: Array<Uint8Array> = []
  for (const piece of pieces(typeof text === "string" ? bytesOf(text) : text, cuts)) {
    const taken = body.write(piece)
    if ("fault" in taken) return { fault: taken.fault }
    content.push(taken.content.slice())
  }
  const ended = body.end()
  return "fault" in ended ? { fault: ended.fault } : { members: { ...ended.members }, content: Buffer.concat(content) }
}

const decode = (text: string, cuts: ReadonlyArray<number> = []): Buffer | null => {
  const decoder = new Base64Decoder()
  const decoded: Array<Uint8Array> = []
  for (const piece of pieces(bytesOf(text), cuts)) {
    const room = new Uint8Array(decodedLengthMax(piece.length))
    const length = decoder.write(piece, 0, piece.length, room, 0)
    if (length < 0) {
      assert.isFalse(decoder.isComplete())
      return null
    }
    decoded.push(room.slice(0, length))
  }
  return decoder.isComplete() ? Buffer.concat(decoded) : null
}

const orders = fc.shuffledSubarray(["mailboxId", "filename", "mediaType", "contentBase64"], { minLength: 4 })
const cuts = fc.array(fc.nat(80), { maxLength: 5 })

describe("Base64", () => {
  it("reads what it is written as, wherever the pieces end", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40, size: "max" }), cuts, (bytes, cuts) => {
        const encoder = new Base64Encoder()
        const text = Buffer.concat([...pieces(bytes, cuts).map((piece) => encoder.write(piece)), encoder.end()]).toString()

        assert.strictEqual(text, Buffer.from(bytes).toString("base64"))
        assert.strictEqual(text.length, encodedLength(bytes.length))
        assert.deepStrictEqual(decode(text, cuts), Buffer.from(bytes))
      })
    )
  })

  it("accepts a text only if encoding what it stands for gives that text again", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."ABQgw/+09=-_ \n"), maxLength: 12, size: "max" }), cuts, (text, cuts) => {
        const decoded = decode(text, cuts)
        const isCanonical = Buffer.from(text, "base64").toString("base64") === text
        assert.strictEqual(decoded !== null, isCanonical, text)
        if (decoded !== null) assert.strictEqual(decoded.toString("base64"), text)
      }),
      { numRuns: 20_000 }
    )
  })

  it("takes in each place of a group the characters that may stand there, of all there are", () => {
    for (const group of ["AAAA", "AAA=", "AA=="]) {
      for (const place of [0, 1, 2, 3]) {
        for (let code = 0; code < 128; code++) {
          const text = `${group.slice(0, place)}${String.fromCharCode(code)}${group.slice(place + 1)}`
          const isCanonical = Buffer.from(text, "base64").toString("base64") === text
          assert.deepStrictEqual(decode(text), isCanonical ? Buffer.from(text, "base64") : null, text)
        }
      }
    }
  })

  it("takes nothing more once it has met with what is no Base64", () => {
    const text = bytesOf(`AB==${"A".repeat(256)}`)
    for (const faultAt of [0, 1, 2, 3]) {
      const decoder = new Base64Decoder()
      const room = new Uint8Array(decodedLengthMax(text.length))
      assert.strictEqual(decoder.write(bytesOf("AAAA".slice(0, faultAt) + "!"), 0, faultAt + 1, room, 0), -1)

      assert.strictEqual(decoder.writePlain(text, 4, text.length, room, 0), 0)
      assert.strictEqual(decoder.write(text, 4, text.length, room, 0), -1)
      assert.isFalse(decoder.isComplete())
    }
  })

  it("encodes and decodes a part of a larger memory as what it is", () => {
    const memory = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
    const part = memory.subarray(100, 199)
    const encoded = new Base64Encoder().write(part)
    const [text, room] = [Buffer.concat([Buffer.from("!!!!"), encoded]).subarray(4), Buffer.alloc(200).subarray(50)]

    assert.strictEqual(Buffer.from(encoded).toString(), part.toString("base64"))
    assert.strictEqual(new Base64Decoder().writePlain(text, 0, text.length, room, 1), text.length)
    assert.deepStrictEqual(Buffer.from(room.subarray(0, 101)), Buffer.concat([Buffer.alloc(1), part, Buffer.alloc(1)]))
  })

  it("encodes what it was given, though the memory of it is written over meanwhile", () => {
    const [encoder, memory] = [new Base64Encoder(), Buffer.from("ab")]
    encoder.write(memory)
    memory.fill(0)

    assert.strictEqual(Buffer.from(encoder.end()).toString(), "YWI=")
  })
})

describe("UploadBody", () => {
  const fields = { mailboxId: "m", filename: `${"a".repeat(200)}.txt`, mediaType: "text/plain" }

  it("gives the content in order and keeps the other members, in any order and however it is cut", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60, size: "max" }), orders, cuts, fc.boolean(), (bytes, order, cuts, isEscaped) => {
        const all: Record<string, string> = { ...fields, contentBase64: Buffer.from(bytes).toString("base64") }
        const json = JSON.stringify(Object.fromEntries(order.map((name) => [name, all[name]])))
        const text = isEscaped ? json.replaceAll("/", "\\/") : json

        assert.deepStrictEqual(read(text, cuts), { members: { ...fields, contentBase64: "" }, content: Buffer.from(bytes) })
      }),
      { numRuns: 2_000 }
    )
  })

  it("takes long content for what it is, and nothing else for content, wherever it is cut", () => {
    const place = fc.nat(1_400)
    const stranger = fc.constantFrom("-", "_", " ", "=", "\\n", "\\/", "é", "\u0001", "\"", "A", "+")
    const changes = fc.array(fc.tuple(place, stranger), { maxLength: 2 })
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 300, maxLength: 1_000, size: "max" }), changes, fc.array(place, { maxLength: 4 }), (bytes, changes, cuts) => {
        const content = changes.reduce(
          (text, [at, put]) => text.slice(0, at) + put + text.slice(at + 1),
          Buffer.from(bytes).toString("base64")
        )
        const text = `{"contentBase64":"${content}"}`
        const given: unknown = Result.getOrNull(Result.try(() => (JSON.parse(text) as { contentBase64: string }).contentBase64))
        const meant = typeof given === "string" ? Buffer.from(given, "base64") : null
        const { content: taken, fault } = read(text, cuts)

        if (meant !== null && meant.toString("base64") === given) assert.deepStrictEqual(taken, meant)
        else assert.isDefined(fault, text)
      }),
      { numRuns: 5_000 }
    )
  })

  it("decodes no byte of escaped content twice: PHP escapes each slash, and somebody may escape everything", () => {
    const decoded = vi.spyOn(Base64Decoder.prototype, "writePlain")
    for (const unit of [`\\/${"A".repeat(127)}`, "\\/", "\\u0041"]) {
      const text = `{"contentBase64":"${unit.repeat(32)}"}`

      assert.isDefined(read(text).content)

      const looked = decoded.mock.calls.reduce((sum, [, start, end]) => sum + end - start, 0)
      decoded.mockClear()
      assert.isAtMost(looked, text.length)
    }
    decoded.mockRestore()
  })

  it("decodes whole groups of plain content without a look at each character, whatever stands around it", () => {
    const decoded = vi.spyOn(Base64Decoder.prototype, "writePlain")
    for (const size of [96, 97, 98, 1_000, 10_000]) {
      const content = Buffer.alloc(size, "mail").toString("base64")
      read(`{"filename":"a","contentBase64":"${content}","mediaType":"text/plain"}`)

      const taken = decoded.mock.results.reduce((sum, { value }) => sum + Number(value), 0)
      decoded.mockClear()
      assert.isAtLeast(taken, size % 3 === 0 ? content.length : 0)
    }
    decoded.mockRestore()
  })

  it("keeps the type of members that are no text, and members it does not know", () => {
    const known = `"mailboxId":5,"filename":null,"mediaType":["x"],"contentBase64":{"a":"AAAA"}`
    const { members } = read(`{${known},"__proto__":"p","constructor":"c"}`)

    const kept = { mailboxId: 0, filename: null, mediaType: [], contentBase64: {} }
    assert.deepStrictEqual(members, { ...kept, ["__proto__"]: "p", constructor: "c" })
  })

  it("leaves out what is missing", () => {
    assert.deepStrictEqual(read("{}").members, {})
  })

  it("decodes names and texts", () => {
    assert.deepStrictEqual(read("{\"filename\":\"\\u00e9😀\"}", [14, 20, 22]).members, { filename: "é😀" })
  })

  it("keeps a mark of byte order for a part of a text", () => {
    assert.deepStrictEqual(read("{\"filename\":\"\ufeffa.txt\"}").members, { filename: "\ufeffa.txt" })
  })

  it("cuts a text that is longer than any may be", () => {
    for (const start of ["", "e"]) {
      for (const cuts of [[], [3_000, 9_000]]) {
        assert.isAbove(String(read(`{"filename":"${start}${"é".repeat(5_000)}"}`, cuts).members?.["filename"]).length, 2_000)
      }
    }
  })

  const faults: ReadonlyArray<readonly [string, string, string, string]> = [
    ["characters beyond the alphabet", `{"contentBase64":"AA-_"}`, "/contentBase64", "invalid_value"],
    ["white space in the content", `{"contentBase64":"AAAA AAAA"}`, "/contentBase64", "invalid_value"],
    ["an escaped line break in the content", `{"contentBase64":"AAAA\\nAAAA"}`, "/contentBase64", "invalid_value"],
    ["missing padding", `{"contentBase64":"AAA"}`, "/contentBase64", "invalid_value"],
    ["padding alone", `{"contentBase64":"===="}`, "/contentBase64", "invalid_value"],
    ["more after the padding", `{"contentBase64":"AA==AAAA"}`, "/contentBase64", "invalid_value"],
    ["bits that are not used", `{"contentBase64":"AB=="}`, "/contentBase64", "invalid_value"],
    ["the content given twice", `{"contentBase64":"AAAA","contentBase64":"AAAA"}`, "/contentBase64", "duplicate_member"],
    ["malformed JSON", `{"contentBase64":"AAAA"`, "", "malformed_json"]
  ]
  for (const [what, text, path, code] of faults) {
    it(`refuses ${what}`, () => {
      const { fault } = read(text)
      assert.deepStrictEqual([fault?.path, fault?.code], [path, code])
    })
  }

  it("is told the first of its faults at once, wherever a piece ends, and ever after", () => {
    const [content, text] = [`"contentBase64":"AA-A"`, `"filename":"\u00ff"`]
    for (const [json, path, isFound] of [
      [`{${content},${text}}]`, "/contentBase64", "-"],
      [`{${text},${content}}]`, "/filename", "\""],
      [`{"contentBase64":"AAA",${text}}]`, "/contentBase64", "\""],
      [`{${content}]`, "/contentBase64", "-"]
    ] as const) {
      const bytes = Buffer.from(json, "latin1")
      const seenAt = json.indexOf(isFound, json.indexOf(":\"") + 2) + 1
      for (let cut = 0; cut <= bytes.length; cut++) {
        const body = new UploadBody()
        const told = pieces(bytes, [cut]).map((piece) => body.write(piece))
        const faults = [...told, body.end()].map((one) => ("fault" in one ? one.fault.path : null))

        assert.deepStrictEqual(faults, [cut < seenAt ? null : path, path, path], `${json} cut at ${cut}`)
      }
    }
  })

  it("refuses what goes on behind the padding, however long it is and wherever a piece ends", () => {
    for (const [start, rest] of [["AA==", 128], ["AA=", 129]] as const) {
      const text = `{"contentBase64":"${start}${"A".repeat(rest)}"}`
      const { fault } = read(text, [text.indexOf(start) + start.length])
      assert.deepStrictEqual([fault?.path, fault?.code], ["/contentBase64", "invalid_value"], start)
    }
  })

  it("refuses a file name that is not UTF-8", () => {
    const bytes = Buffer.from("{\"filename\":\"\u00ff\"}", "latin1")
    assert.deepStrictEqual(read(bytes).fault, { path: "/filename", code: "invalid_text", message: "Expected UTF-8" })
    assert.strictEqual(read(Buffer.from("{\"a/b~\":\"\u00ff\"}", "latin1")).fault?.path, "/a~1b~0")
  })
})
