/** A file name that the API takes reaches the recipient as it is, whichever library the recipient's client reads it with. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import * as fc from "fast-check"
import { simpleParser } from "mailparser"
import PostalMime from "postal-mime"
import * as Fixtures from "../../conformance/fixtures.ts"
import { Filename } from "../../core/model/Attachment.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "./RfcMime.ts"

const realm = Fixtures.realm()
const message = Fixtures.message(realm)

const build = (filename: string) =>
  Effect.gen(function* () {
    const mime = yield* Mime
    const attachment = Fixtures.attachment(realm, { filename, mediaType: "application/octet-stream" })
    const content = Fixtures.content(message, { text: "" }, [attachment])
    const pieces = yield* Stream.runCollect(mime.build(message, content, [{ attachment, bytes: Stream.make(Buffer.from("x")) }]))
    return Buffer.concat([...pieces])
  }).pipe(Effect.provide(RfcMime.layer))

const assertArrives = Effect.fnUntraced(function* (filename: string) {
  const bytes = yield* build(filename)

  for (const line of bytes.toString("latin1").split("\r\n")) {
    assert.isAtMost(line.length, 78)
    assert.match(line, /^[\t\u0020-\u007e]*$/)
  }
  const ours = yield* Mime.use((mime) => mime.parse(Stream.make(bytes))).pipe(Effect.provide(RfcMime.layer))
  const postal = yield* Effect.promise(() => PostalMime.parse(bytes))
  const mailparser = yield* Effect.promise(() => simpleParser(bytes))
  for (const { attachments } of [ours, postal, mailparser]) assert.deepStrictEqual(attachments.map(({ filename }) => filename), [filename])
})

const names: Readonly<Record<string, string>> = {
  "of 255 characters in 255 bytes": "a".repeat(255),
  "of 255 characters in 1,020 bytes": "😀".repeat(255),
  "that only looks like a path when it is decoded": "..%2F..%5Cetc%2Fpasswd",
  "that only looks like a line end when it is decoded": "a%0D%0ABcc: eve@example.com",
  "of dots": "...",
  "with the marks of RFC 2231": "a*0*=utf-8''b",
  "that would end its quotes": "a\"; filename=\"evil.exe",
  "that would start a parameter": "a.txt; filename*=utf-8''evil.exe",
  "that would escape its end": "a.txt; \"",
  "like a boundary": "--",
  "in two forms of one letter": "\u00e9 e\u0301",
  "of joined characters": "👩‍👩‍👧 नमस्ते",
  "written from right to left": "שלום مرحبا.txt"
}

/** Names the API takes, and of which no reader makes anything else: an encoded word is read as what it encodes, outer blanks not at all. */
const anyName = fc
  .string({ unit: "binary", minLength: 1, maxLength: 255, size: "max" })
  .filter((name) => Schema.is(Filename)(name) && !name.includes("=?") && name.trim() === name)

describe("a file name", () => {
  for (const [what, name] of Object.entries(names)) {
    it.effect(`${what} arrives as it is`, () =>
      Effect.gen(function* () {
        assert.isTrue(Schema.is(Filename)(name))

        yield* assertArrives(name)
      })
    )
  }

  it.effect("of any other characters arrives as it is", () =>
    Effect.promise(() => fc.assert(fc.asyncProperty(anyName, (name) => Effect.runPromise(assertArrives(name))), { numRuns: 100 }))
  )

  it.effect("that the API refuses starts no field and no parameter either, were it to get this far", () =>
    Effect.gen(function* () {
      for (const name of ["a\r\nBcc: eve@example.com", "a\nX-Evil: 1", "a\r\n\r\nbody", "a\u0000b", "a\u2028b", "a\u0085b", "\ud800"]) {
        assert.isFalse(Schema.is(Filename)(name))
        const bytes = yield* build(name)
        const { headers, attachments } = yield* Effect.promise(() => simpleParser(bytes))

        assert.isFalse(headers.has("bcc") || headers.has("x-evil"))
        assert.lengthOf(attachments, 1)
        assert.notMatch(attachments[0]!.filename ?? "", /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800]/)
        assert.strictEqual(attachments[0]!.content.toString(), "x")
      }
    })
  )
})
