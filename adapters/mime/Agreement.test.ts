/**
 * Thousands of messages, the same in every run, each built twice: by this
 * adapter and by nodemailer's MailComposer. Two readers that are neither's,
 * mailparser and postal-mime, must find the same in both.
 *
 * MAILROOM_AGREEMENT_RUNS says how many, where the few of every run are not enough.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import * as fc from "fast-check"
import { simpleParser } from "mailparser"
import MailComposer from "nodemailer/lib/mail-composer"
import PostalMime, { decodeWords } from "postal-mime"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { Address } from "../../core/model/Address.ts"
import { Filename } from "../../core/model/Attachment.ts"
import type { Content } from "../../core/model/Message.ts"
import * as Recipients from "../../core/model/Recipient.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "./RfcMime.ts"

const runs = Number(process.env["MAILROOM_AGREEMENT_RUNS"] ?? 300)
const realm = Fixtures.realm()
const date = new Date(0)

// What a message may be made of

const words = [
  ..."Ada Lovelace engine Jacquard loom, weaves: patterns; \"quoted\" back\\slash (comment) <angle> a@b.example Ünïcödé für Привет мир".split(" "),
  ..."こんにちは 世界 你好 안녕하세요 שלום مرحبا नमस्ते สวัสดี Ελληνικά 👩‍👩‍👧‍👦 🧵🪡 🇫🇷 e\u0301 Z\u0351\u0343a\u0335 \u200f\u202a \u00a0 \ufeff".split(" "),
  ..."= =3D =20 _ ? ?= .. . ... -- --=_ From From: To: Bcc: % %41 & # ' ` * [x] | ~ ^ { } / 100% a=b; c*0*=utf-8''d".split(" "),
  "s".repeat(61),
  "long".repeat(90),
  "ж".repeat(120),
  "🧮".repeat(60)
]
const word = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...words) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 30, size: "max" }) },
  { weight: 1, arbitrary: fc.string({ maxLength: 30, size: "max" }) }
)
/** Text for one line of a header. */
const phrase = fc
  .array(fc.tuple(word, fc.constantFrom(" ", " ", " ", "  ", "")), { maxLength: 14, size: "max" })
  .map((pairs) => pairs.flat().join(""))
  // Neither writer takes these as they are, each in its own way; the suite has them. And both readers drop a byte order
  // mark at the start of an encoded word, which is not where both writers start one.
  .map((text) => text.replaceAll("=?", "=").replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff]/g, "").trim())

const lineEnd = fc.constantFrom("\n", "\n", "\n", "\r\n", "\r\n", "\r", "\n\n", "\r\r", "\n\r", "", " \n", "\t\n", " \t\r\n", "\n.", "\n..", "\nFrom ", "\n.\n")
const body = fc
  .array(
    fc.tuple(
      fc.oneof(
        { weight: 8, arbitrary: phrase },
        { weight: 1, arbitrary: fc.constantFrom("x".repeat(75), "x".repeat(76), "x".repeat(77), `${"x".repeat(74)} `, `${"x".repeat(75)} `, `${"x".repeat(76)}\t`) },
        { weight: 1, arbitrary: fc.constantFrom("y".repeat(5_000), "long words ".repeat(400), "ж".repeat(900), "😀 ".repeat(300)) },
        { weight: 1, arbitrary: fc.constantFrom("\ud83e", "\udc00 lone", "tail \udbff") },
        { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 120, size: "max" }) }
      ),
      lineEnd
    ),
    { maxLength: 12, size: "max" }
  )
  .map((pairs) => pairs.flat().join(""))

const local = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+/^`{|}~_-]{1,20}(\.[A-Za-z0-9+_-]{1,20}){0,2}$/).filter((text) => !text.includes("=?"))
const address = fc
  .tuple(local, fc.constantFrom("example.com", "mail.example.org", "xn--bcher-kva.example", `${"d".repeat(60)}.example`))
  .map(([name, domain]) => `${name}@${domain}` as Address) // a dot-atom at A-labels

const filename = fc
  .oneof(phrase, fc.string({ unit: "binary", minLength: 1, maxLength: 80, size: "max" }), fc.string({ minLength: 1, maxLength: 40, size: "max" }))
  .map((name) => Array.from(name).slice(0, 255).join("").trim())
  .filter((name) => Schema.is(Filename)(name) && !name.includes("=?"))

const file = fc.record({
  filename,
  mediaType: fc.constantFrom("application/octet-stream", "image/png", "application/pdf", "text/csv", "text/csv; header=present; charset=utf-8"),
  disposition: fc.constantFrom("attachment" as const, "inline" as const),
  contentId: fc.option(fc.stringMatching(/^[a-z0-9.]{1,30}@[a-z0-9.]{1,30}$/)),
  bytes: fc.uint8Array({ maxLength: 200, size: "max" })
})

type Attached = typeof file extends fc.Arbitrary<infer A> ? A : never

const sent = fc
  .record({
    from: fc.record({ name: phrase, address }),
    to: fc.array(address, { minLength: 1, maxLength: 12, size: "max" }),
    cc: fc.array(address, { maxLength: 6 }),
    replyTo: fc.array(fc.record({ name: phrase, address }), { maxLength: 4 }),
    subject: phrase,
    note: phrase,
    references: fc.array(fc.stringMatching(/^<[a-z0-9.]{1,60}@[a-z0-9.]{1,40}>$/), { maxLength: 12, size: "max" }),
    text: fc.option(body),
    html: fc.option(body),
    files: fc.oneof({ weight: 3, arbitrary: fc.constant<Array<Attached>>([]) }, { weight: 1, arbitrary: fc.array(file, { maxLength: 3 }) })
  })
  .map((made) => (made.text === null && made.html === null ? { ...made, text: "" } : made))

type Sent = typeof sent extends fc.Arbitrary<infer A> ? A : never

// The two builders

const spell = ({ name, address }: Sent["from"]): string => (name === "" ? address : `"${name.replace(/["\\]/g, "\\$&")}" <${address}>`)

const messageOf = (made: Sent) => {
  const recipients = [...made.to.map((to) => Recipients.make(to, "to", 0)), ...made.cc.map((cc) => Recipients.make(cc, "cc", 0))]
  return Fixtures.message(realm, { from: made.from, recipients, subject: made.subject })
}

const ours = (made: Sent, message: ReturnType<typeof messageOf>) => {
  const files = made.files.map(({ bytes, ...over }) => ({ attachment: Fixtures.attachment(realm, over), bytes: Stream.make(bytes) }))
  const plain = Fixtures.content(message, made, files.map(({ attachment }) => attachment))
  const content: Content = {
    ...plain,
    headers: [
      ...plain.headers,
      { name: "Reply-To", value: made.replyTo.map(spell).join(", ") },
      { name: "References", value: made.references.join(" ") },
      { name: "X-Note", value: made.note }
    ]
  }
  return Mime.use((mime) => Stream.runCollect(mime.build(message, content, files))).pipe(
    Effect.provide(RfcMime.layer),
    Effect.map((chunks) => Buffer.concat([...chunks]))
  )
}

/** Of a CR before a CRLF it makes nothing. */
const lineEnds = (text: string): string => text.replace(/\r\n|\r|\n/g, "\r\n")

const theirs = (made: Sent, message: ReturnType<typeof messageOf>) =>
  Effect.promise(() =>
    new MailComposer({
      from: made.from,
      to: made.to.map((to) => ({ name: "", address: to })),
      cc: made.cc.map((cc) => ({ name: "", address: cc })),
      replyTo: made.replyTo,
      subject: made.subject,
      messageId: message.internetMessageId,
      references: made.references,
      headers: { "X-Note": made.note },
      date,
      ...(made.text === null ? {} : { text: lineEnds(made.text) }),
      ...(made.html === null ? {} : { html: lineEnds(made.html) }),
      attachments: made.files.map(({ filename, mediaType, disposition, contentId, bytes }) => ({
        filename,
        contentType: mediaType,
        contentDisposition: disposition,
        ...(contentId === null ? {} : { cid: contentId }),
        content: Buffer.from(bytes)
      }))
    })
      .compile()
      .build()
  )

// The two readers

interface Found {
  readonly parties: ReadonlyArray<ReadonlyArray<readonly [name: string, address: string]>>
  readonly subject: string
  readonly note: string
  readonly about: unknown
  readonly text: string
  readonly html: string
  readonly files: ReadonlyArray<readonly [filename: string, content: string, about: unknown]>
}

/** How many line ends a body ends with is lost, or gained, on the way to either reader. */
const text = (found: string | false | undefined): string => lineEnds(found || "").replace(/[\r\n]+$/, "")

const withMailparser = async (bytes: Buffer): Promise<Found> => {
  const mail = await simpleParser(bytes, { skipHtmlToText: true, skipTextToHtml: true, skipTextLinks: true, skipImageLinks: true })
  const parties = (field: typeof mail.to) =>
    [field ?? []].flat().flatMap(({ value }) => value.map(({ name, address = "" }) => [name, address] as const))
  return {
    parties: [mail.from, mail.to, mail.cc, mail.replyTo, mail.bcc].map(parties),
    subject: mail.subject ?? "",
    note: decodeWords(String(mail.headers.get("x-note") ?? "")), // it decodes no field that it does not know
    about: [mail.messageId, mail.date, mail.references, [...mail.headers.keys()].filter((name) => !name.startsWith("content-")).sort()],
    text: text(mail.text),
    html: text(mail.html),
    files: mail.attachments.map(({ filename = "", content, contentType, contentDisposition, contentId }) => [
      filename,
      content.toString("base64"),
      [contentType, contentDisposition, contentId]
    ])
  }
}

const withPostal = async (bytes: Buffer): Promise<Found> => {
  const mail = await PostalMime.parse(bytes)
  const parties = (found: typeof mail.to) => (found ?? []).map(({ name, address = "" }) => [name, address] as const)
  return {
    parties: [mail.from === undefined ? [] : [mail.from], mail.to, mail.cc, mail.replyTo, mail.bcc].map(parties),
    subject: mail.subject ?? "",
    note: decodeWords(mail.headers.find(({ key }) => key === "x-note")?.value ?? ""),
    about: [mail.messageId, mail.date, mail.references, mail.headers.map(({ key }) => key).filter((name) => !name.startsWith("content-")).sort()],
    text: text(mail.text),
    html: text(mail.html),
    files: mail.attachments.map(({ filename, content, mimeType, disposition, contentId }) => [
      filename ?? "",
      Buffer.from(new Uint8Array(content as ArrayBuffer)).toString("base64"), // as it gives them unless told otherwise
      [mimeType, disposition, contentId]
    ])
  }
}

/** nodemailer folds a long line between two spaces and loses one, and puts files with a Content-ID first. */
const loosely = (found: Found) => ({
  ...found,
  parties: found.parties.map((list) => list.map(([name, address]) => [oneSpace(name), address])),
  subject: oneSpace(found.subject),
  note: oneSpace(found.note),
  files: found.files.map(([filename, ...rest]) => JSON.stringify([oneSpace(filename), ...rest])).sort()
})

const oneSpace = (text: string): string => text.replace(/ +/g, " ")

/** What was said, without the parts that each reader spells in its own way. */
const said = ({ parties, subject, note, text, html, files }: Found) => ({
  names: parties.map((list) => list.map(([name]) => name)),
  subject,
  note,
  text,
  html,
  files: files.map(([filename, content]) => [filename, content])
})

const saidBy = (made: Sent): ReturnType<typeof said> => ({
  names: [[made.from.name], made.to.map(() => ""), made.cc.map(() => ""), made.replyTo.map(({ name }) => name), []],
  subject: made.subject,
  note: made.note,
  text: text(made.text?.toWellFormed()),
  html: text(made.html?.toWellFormed()),
  files: made.files.map(({ filename, bytes }) => [filename, Buffer.from(bytes).toString("base64")])
})

const agree = Effect.fnUntraced(function* (made: Sent) {
  const message = messageOf(made)
  const [our, their] = [yield* ours(made, message), yield* theirs(made, message)]

  for (const line of our.toString("latin1").split("\r\n")) assert.match(line, /^[\t -~]{0,998}$/)
  for (const read of [withMailparser, withPostal]) {
    const [found, expected] = yield* Effect.promise(() => Promise.all([read(our), read(their)]))
    assert.deepStrictEqual(loosely(found), loosely(expected), read.name)
    assert.deepStrictEqual(said(found), saidBy(made), read.name)
  }
})

describe("two readers that know neither writer", () => {
  it(`find in ${runs} messages what they find in nodemailer's, and what was said`, { timeout: 60_000 + runs * 100 }, () =>
    fc.assert(fc.asyncProperty(sent, (made) => Effect.runPromise(agree(made))), { numRuns: runs, seed: 2047 })
  )
})
