/**
 * The part of the Mime suite about what a message's header and tree mean: who
 * it is from and to, its place in a thread, where each part stands, and what is
 * said to be wrong with it.
 */
import { Effect, Stream } from "effect"
import assert from "node:assert/strict"
import * as Limits from "../core/model/Limits.ts"
import type { MimePart } from "../core/model/MimePart.ts"
import type { Head, Mentioned, ParsedMessage } from "../core/model/ParsedMessage.ts"
import { Mime } from "../core/ports/Mime.ts"
import type { Check } from "./Suite.ts"

const raw = (text: string): Uint8Array => Buffer.from(text.replaceAll("\n", "\r\n"), "latin1")

/** A header with nothing wrong in it, and what is to be shown. */
const proper = "From: ada@example.com\nDate: Mon, 7 Apr 2025 09:00:00 +0000\n"

const party = (address: string, name = ""): Mentioned => ({ address, name })

interface Case {
  readonly claim: string
  readonly text: string
  readonly head?: Partial<Head>
  /** The parts, as `partId type size`. */
  readonly parts?: ReadonlyArray<string>
  readonly defects: ReadonlyArray<string>
}

const headCases: ReadonlyArray<Case> = [
  {
    claim: "says nothing is wrong where nothing is, and what the header says",
    text:
      "From: Ada Lovelace <ada@example.com>, Bob <bob@example.com>\nReply-To: list@example.org\nTo: c@example.net, \"D, E\" <d@example.net>\nCc: =?utf-8?Q?J=C3=B6rg?= <j@example.net>\n" +
      "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\nDate: Mon, 7 Apr 2025 11:00:00 +0200\nMessage-ID: <m@example.com>\nIn-Reply-To: <l@example.com>\nReferences: <k@example.com>\n <l@example.com>\n\nx",
    head: {
      from: party("ada@example.com", "Ada Lovelace"),
      replyTo: [party("list@example.org")],
      to: [party("c@example.net"), party("d@example.net", "D, E")],
      cc: [party("j@example.net", "Jörg")],
      subject: "Grüße",
      date: 1_744_016_400_000,
      messageId: "<m@example.com>",
      inReplyTo: "<l@example.com>",
      references: ["<k@example.com>", "<l@example.com>"]
    },
    defects: []
  },
  {
    claim: "finds nothing in a header that says nothing",
    text: "X: 1\n\nx",
    head: { from: null, replyTo: [], to: [], cc: [], subject: "", date: null, messageId: null, inReplyTo: null, references: [] },
    defects: ["missing_from", "missing_date"]
  },
  {
    claim: "finds the members of groups",
    text: `${proper}To: friends: a@example.com, B <b@example.com>;, c@example.com\nCc: nobody:;\n\nx`,
    head: { to: [party("a@example.com"), party("b@example.com", "B"), party("c@example.com")], cc: [] },
    defects: []
  },
  {
    claim: "finds no address in an encoded word, nor in a name",
    text: `${proper}To: =?utf-8?Q?x=40example.com?= <a@example.com>, "y@example.com" <b@example.com>, =?utf-8?Q?z=40example.com?=\n\nx`,
    head: { to: [party("a@example.com", "x@example.com"), party("b@example.com", "y@example.com")] },
    defects: ["bad_address"]
  },
  { claim: "says that a date is none", text: "From: a@example.com\nDate: yesterday\n\nx", head: { date: null }, defects: ["bad_date"] },
  { claim: "says that a field stands twice, and goes by the first", text: `${proper}Subject: one\nSubject: two\n\nx`, head: { subject: "one" }, defects: ["duplicate_header"] },
  { claim: "reads past a line that is no field", text: `${proper}what is this\nSubject: s\n\nx`, head: { subject: "s" }, defects: ["malformed_header"] }
]

const treeCases: ReadonlyArray<Case> = [
  { claim: "numbers a single part", text: `${proper}\nbody`, parts: ["1 text/plain 4"], defects: [] },
  {
    claim: "numbers parts as IMAP does",
    text:
      `${proper}Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: multipart/alternative; boundary=b\n\n--b\n\none\n--b\nContent-Type: text/html\n\n<p>\n--b--\n` +
      "--a\nContent-Type: a/b\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n--a--\n",
    parts: [" multipart/mixed 0", "1 multipart/alternative 0", "1.1 text/plain 3", "1.2 text/html 3", "2 a/b 5"],
    defects: []
  },
  { claim: "says that a multipart does not end", text: `${proper}Content-Type: multipart/mixed; boundary=a\n\n--a\n\none\n`, defects: ["unclosed_multipart"] },
  { claim: "says that a multipart has no boundary", text: `${proper}Content-Type: multipart/mixed\n\nx`, defects: ["missing_boundary"] },
  { claim: "says that a charset is unknown", text: `${proper}Content-Type: text/plain; charset=x-nobody\n\nx`, defects: ["unknown_charset"] },
  { claim: "says that characters are in no charset", text: `${proper}Content-Type: text/plain; charset=utf-8\n\n\xff`, defects: ["bad_charset"] },
  { claim: "says that an encoding is unknown", text: `${proper}Content-Transfer-Encoding: x-nobody\n\nx`, defects: ["unknown_encoding"] },
  { claim: "says that base64 is none", text: `${proper}Content-Transfer-Encoding: base64\n\n*aGk=`, defects: ["bad_base64"] },
  { claim: "says that quoted-printable is none", text: `${proper}Content-Transfer-Encoding: quoted-printable\n\n=ZZ`, defects: ["bad_quoted_printable"] },
  { claim: "says that uuencode is none", text: `${proper}Content-Transfer-Encoding: x-uuencode\n\nx`, defects: ["bad_uuencode"] },
  { claim: "says that a type is none", text: `${proper}Content-Type: text\n\nx`, parts: ["1 text/plain 1"], defects: ["bad_media_type"] }
]

const listed = (part: MimePart): ReadonlyArray<string> => [`${part.partId} ${part.mediaType} ${part.sizeBytes}`, ...part.parts.flatMap(listed)]

const understands = ({ claim, text, head, parts, defects }: Case): Check<Mime> => ({
  title: claim,
  check: Effect.gen(function* () {
    const mime = yield* Mime

    const parsed = yield* mime.parse(Stream.make(raw(text)))
    const { defects: headDefects, ...ofHead } = yield* mime.readHead(raw(text))

    assert.deepEqual(parsed.defects, defects)
    if (head !== undefined) assert.deepEqual({ ...parsed, ...head }, parsed)
    if (parts !== undefined) assert.deepEqual(listed(parsed.structure), parts)
    assert.deepEqual(ofHead, headIn(parsed))
    assert.deepEqual(headDefects.filter((word) => !parsed.defects.includes(word)), [])
  })
})

const headIn = (parsed: ParsedMessage): Omit<Head, "defects"> => {
  const { headers, from, replyTo, to, cc, subject, date, messageId, inReplyTo, references } = parsed
  return { headers, from, replyTo, to, cc, subject, date, messageId, inReplyTo, references }
}

const making: Check<Mime> = {
  title: "makes a text of HTML where the sender gave none, and else leaves both as they are",
  check: Effect.gen(function* () {
    const mime = yield* Mime
    const html = "Content-Type: text/html\n\n<p>one<br>two</p><script>three</script>"

    const alone = yield* mime.parse(Stream.make(raw(html)))
    const beside = yield* mime.parse(Stream.make(raw(`Content-Type: multipart/alternative; boundary=b\n\n--b\n\nplain\n--b\n${html}\n--b--\n`)))

    assert.deepEqual([alone.text?.split(/\s+/), beside.text], [["one", "two"], "plain"])
    assert.equal(beside.html, alone.html)
  })
}

const opening: Check<Mime> = {
  title: "keeps whole, and byte for byte, what is signed, encrypted, or a message",
  check: Effect.gen(function* () {
    const mime = yield* Mime
    const whole = "Content-Type: text/plain\r\n\r\n--not a boundary\r\n \t\r\n=3D"
    const types = ["message/rfc822", "application/pkcs7-mime", "application/pgp-encrypted", "application/ms-tnef", "text/calendar", "message/delivery-status"]

    for (const type of types) {
      const bytes = Buffer.from(`Content-Type: ${type}\r\n\r\n${whole}`)
      const { text, html, attachments, structure } = yield* mime.parse(Stream.make(bytes))

      assert.deepEqual([text, html, structure.mediaType, structure.sizeBytes], [null, null, type, whole.length])
      assert.deepEqual(attachments.map(({ partId, bytes }) => [partId, Buffer.from(bytes).toString()]), [["1", whole]])
    }
  })
}

const overflowing: Check<Mime> = {
  title: "has a text as a file as well that is longer than a message may show, and one behind it that has no room",
  check: Effect.gen(function* () {
    const mime = yield* Mime
    const [most, mostOfHtml] = [Limits.textLengthMax, Limits.htmlLengthMax]
    const cases: ReadonlyArray<readonly [what: string, subtype: "plain" | "html", parts: ReadonlyArray<string>, files: ReadonlyArray<string>]> = [
      ["as much as may be, in two parts", "plain", ["a".repeat(most - 4), "end"], []],
      ["as many characters as may be, of four bytes", "plain", ["\u{1f9ee}".repeat(most)], []],
      ["a character more", "plain", ["a".repeat(most + 1)], ["1"]],
      ["twice as much, and a part behind it", "plain", ["a".repeat(2 * most), "end"], ["1", "2"]],
      ["two parts that are too much together", "plain", ["a".repeat(most - 4), "end more"], ["2"]],
      ["a page with a character more", "html", ["a".repeat(mostOfHtml + 1)], ["1"]]
    ]
    for (const [what, subtype, parts, files] of cases) {
      const type = `Content-Type: text/${subtype}; charset=utf-8\n\n`
      const body = parts.length === 1 ? `${type}${parts[0]}` : `Content-Type: multipart/mixed; boundary=b\n\n${parts.map((part) => `--b\n${type}${part}\n`).join("")}--b--\n`

      const { text, html, attachments, defects } = yield* mime.parse(Stream.make(Buffer.from(`${proper}${body}`)))

      assert.deepEqual(attachments.map(({ partId }) => partId), files, what)
      assert.ok(attachments.every(({ partId, bytes }) => Buffer.from(bytes).toString() === parts[Number(partId) - 1]), `${what}: the file is not whole`)
      assert.equal(defects.includes("too_long"), files.length > 0, what)
      const shown = (subtype === "plain" ? text : html) ?? ""
      const longest = parts.join("\n")
      assert.ok(longest.startsWith(shown), `${what}: what is shown is not how it begins`)
      if (files.length === 0) assert.equal(shown.length, longest.length, what)
      else assert.ok(Array.from(shown).length >= (subtype === "plain" ? most : mostOfHtml) - 4, `${what}: ${shown.length} are shown`)
    }
  })
}

export const understanding: ReadonlyArray<Check<Mime>> = [...[...headCases, ...treeCases].map(understands), making, opening, overflowing]
