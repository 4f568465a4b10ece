/** Whatever bytes come in, they are read to an end, and what is found in them fits together. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { MimePart } from "../../core/model/MimePart.ts"
import type { ParsedMessage } from "../../core/model/ParsedMessage.ts"
import { words } from "./Defects.ts"
import { readHead, readMessage } from "./MimeReader.ts"

const folder = join(import.meta.dirname, "fixtures", "odd")
const seeds = readdirSync(folder).filter((file) => file.endsWith(".eml")).map((file) => readFileSync(join(folder, file), "latin1"))

const token = fc.constantFrom(
  "\r\n", "\r\n\r\n", "\n", "\r", "\n\n", " ", "\t", "--b", "--b--", "--", "\r\n--b\r\n", "\r\n--b--\r\n", ";", "=", "\"", "\\", "(", ")", "<", ">", ",", ":", "@", ".",
  "=?utf-8?Q?", "=?utf-8?B?", "=?iso-2022-jp?b?", "?=", "=C3", "=BC", "w7w=", "=\r\n", "%C3", "*0*=", "*=utf-8''", "filename", "name", "\x1b$B", "~{", "+AOQ-",
  "Content-Type: ", "multipart/mixed", "multipart/digest", "; boundary=b", "text/html", "text/plain", "message/rfc822", "; charset=", "utf-16", "utf-7", "gbk", "hz",
  "Content-Transfer-Encoding: ", "base64", "quoted-printable", "Content-Disposition: ", "attachment", "inline", "Content-ID: ", "From: ", "To: ", "Subject: ", "Date: ", "References: ",
  "a@b.example", "Mon, 7 Apr 2025 09:00:00 +0000", "\xc3\xbc", "\xff", "\x00", "\xef\xbb\xbf", "<p>", "<!--", "&amp;", "x".repeat(1_000)
)
const made = fc.array(fc.oneof({ weight: 5, arbitrary: token }, { weight: 1, arbitrary: fc.string({ unit: "binary-ascii" }) }), { maxLength: 60, size: "max" }).map((pieces) => pieces.join(""))
/** An odd message with pieces put in the place of others. */
const spoiled = fc
  .tuple(fc.constantFrom(...seeds), fc.array(fc.tuple(fc.nat(), fc.nat(40), token), { minLength: 1, maxLength: 6 }))
  .map(([seed, changes]) =>
    changes.reduce((text, [at, cut, piece]) => {
      const start = at % (text.length + 1)
      return text.slice(0, start) + piece + text.slice(start + cut)
    }, seed)
  )
const raw = fc.uint8Array({ maxLength: 500, size: "max" }).map((bytes) => Buffer.from(bytes).toString("latin1"))
const message = fc.oneof({ weight: 3, arbitrary: spoiled }, { weight: 2, arbitrary: made }, { weight: 1, arbitrary: raw }).map((text) => Buffer.from(text, "latin1"))

const leavesOf = (part: MimePart): ReadonlyArray<MimePart> => (part.parts.length === 0 ? [part] : part.parts.flatMap(leavesOf))

const assertNumbered = (part: MimePart, path: string): void => {
  assert.strictEqual(part.partId, part.parts.length === 0 && path === "" ? "1" : path)
  if (part.parts.length > 0) assert.deepStrictEqual([part.sizeBytes, part.attachmentId], [0, null])
  for (const [index, child] of part.parts.entries()) assertNumbered(child, path === "" ? `${index + 1}` : `${path}.${index + 1}`)
}

const assertOneLine = (parsed: ParsedMessage): void => {
  const parties = [parsed.from ?? { name: "", address: "" }, ...parsed.to, ...parsed.cc, ...parsed.replyTo]
  const lines = [
    parsed.subject,
    ...parsed.headers.flatMap(({ name, value }) => [name, value]),
    ...parties.flatMap(({ name, address }) => [name, address]),
    ...parsed.references,
    ...parsed.attachments.flatMap(({ filename, mediaType, contentId }) => [filename ?? "", mediaType, contentId ?? ""])
  ]
  for (const line of lines) {
    assert.notMatch(line, /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/)
    assert.isTrue(line.isWellFormed())
  }
}

const assertConsistent = (bytes: Buffer): void => {
  const before = Buffer.from(bytes)
  const parsed = readMessage(Uint8Array.from(bytes), false)

  assertNumbered(parsed.structure, "")
  assertOneLine(parsed)
  const leaves = new Map(leavesOf(parsed.structure).map((part) => [part.partId, part]))
  for (const { partId, bytes, parameters, ...about } of parsed.attachments) {
    const { filename, mediaType, disposition, contentId, sizeBytes } = leaves.get(partId)!
    assert.deepStrictEqual({ filename, mediaType, disposition, contentId }, about)
    assert.strictEqual(bytes.length, sizeBytes)
    assert.notMatch(filename ?? "", /[/\\]/)
    for (const parameter of parameters) assert.match(parameter, /^[!-~]+=[ -~]*$/)
  }
  assert.strictEqual(new Set(parsed.attachments.map(({ partId }) => partId)).size, parsed.attachments.length)
  const texts = [...leaves.values()].filter(({ partId, sizeBytes }) => sizeBytes > 0 && !parsed.attachments.some((found) => found.partId === partId))
  for (const { mediaType } of texts) assert.match(mediaType, /^text\/(?:plain|html)$/)
  assert.notInclude(`${parsed.text}${parsed.html}`, "\r")
  assert.isTrue(`${parsed.text}${parsed.html}`.isWellFormed())
  assert.deepStrictEqual(parsed.defects, words.filter((word) => parsed.defects.includes(word)))

  const head = readHead(bytes)
  const { text: _, html: __, structure: ___, attachments: ____, defects, ...rest } = parsed
  const { defects: headDefects, ...ofHead } = head
  assert.deepStrictEqual(ofHead, rest)
  assert.deepStrictEqual(headDefects.filter((word) => !defects.includes(word)), [])
  assert.isTrue(bytes.equals(before))
  assert.deepStrictEqual(readMessage(Uint8Array.from(bytes), false), parsed)
}

const runs = Number(process.env["MAILROOM_FUZZ_RUNS"] ?? 2_000)

describe("any bytes", () => {
  it("are read to an end, into what fits together", { timeout: 60_000 + runs * 10 }, () => {
    fc.assert(fc.property(message, assertConsistent), { numRuns: runs })
  })

  it("of every odd message, cut anywhere, are too", () => {
    for (const seed of seeds.filter(({ length }) => length < 1_500)) {
      for (let end = 0; end < seed.length; end += 7) assertConsistent(Buffer.from(seed.slice(0, end), "latin1"))
    }
  })
})
