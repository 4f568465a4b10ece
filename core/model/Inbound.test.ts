import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Attachment from "./Attachment.ts"
import * as Events from "./Event.ts"
import type { EventId, MessageId } from "./Ids.ts"
import * as Inbound from "./Inbound.ts"
import * as Limits from "./Limits.ts"
import { utf8Length } from "./Message.ts"
import type { MimePart } from "./MimePart.ts"
import * as MessageView from "./MessageView.ts"
import type { Head, ParsedMessage } from "./ParsedMessage.ts"

const head: Head = {
  headers: [{ name: "Subject", value: "Note G" }],
  from: { address: "charles@example.org", name: "Charles" },
  replyTo: [],
  to: [{ address: "ada@example.com", name: "Ada" }],
  cc: [],
  subject: "Note G",
  date: 0,
  messageId: "<1@example.org>",
  inReplyTo: null,
  references: [],
  defects: ["bare_line_ends"]
}

const leaf = (partId: string, mediaType = "text/plain"): MimePart => ({
  partId,
  mediaType,
  charset: null,
  disposition: null,
  contentId: null,
  filename: null,
  sizeBytes: 1,
  attachmentId: null,
  parts: []
})

const parsed: ParsedMessage = {
  ...head,
  text: "The engine weaves",
  html: null,
  structure: { ...leaf("", "multipart/mixed"), parts: [leaf("1"), leaf("2")] },
  attachments: []
}

const mailbox = Fixtures.mailbox(Fixtures.mailDomain(Fixtures.realm().tenantId))

const taken = (over: Partial<Inbound.Taken> = {}) =>
  Inbound.take({
    peer: { remoteAddress: "192.0.2.1", helo: "mx.example.org", protocol: "ESMTP" },
    returnPath: null,
    recipient: mailbox.address,
    receivedAt: 5,
    authentication: null,
    id: Fixtures.freshId<MessageId>(),
    requestId: "r-1",
    environment: "production",
    mailbox,
    folder: "inbox",
    blob: { sha256: "a".repeat(64), sizeBytes: 17 },
    head,
    ...over
  })

const unparsed = (over?: Partial<Inbound.Taken>) => {
  const { message } = taken(over)
  assert.isTrue(Inbound.isUnparsed(message))
  return message as Inbound.InboundMessage // as asserted
}

const received = (message: Parameters<typeof Inbound.receivedFields>[0]) =>
  Events.ofMessage(message, 1, "message.received", Fixtures.freshId<EventId>(), 0, Inbound.receivedFields(message))

/** Far beyond what anybody would write. */
const monstrous: Head = {
  ...head,
  from: { address: "x".repeat(10_000), name: "😀".repeat(10_000) },
  to: Array.from({ length: 5_000 }, (_, index) => ({ address: `${"y".repeat(300)}${index}@example.com`, name: "" })),
  subject: "s".repeat(250_000),
  messageId: `<${"m".repeat(100_000)}@x>`,
  references: Array.from({ length: 5_000 }, (_, index) => `<${index}@x>`)
}

describe("an inbound message", () => {
  it("is due to be parsed as soon as it is taken, and shows its head until then", () => {
    const { message, content } = taken()

    assert.deepStrictEqual([message.status, message.reception?.nextParseAt, message.eventSequence], ["received", 5, 0])
    assert.deepStrictEqual([message.subject, message.from, message.reception?.to], ["Note G", head.from, head.to])
    assert.deepStrictEqual([content.headers, content.text, content.mime.sizeBytes], [head.headers, null, 17])
  })

  it("keeps its row bounded, whatever the header holds, and its event within its size", () => {
    const { message } = taken({ head: monstrous })

    assert.isBelow(utf8Length(JSON.stringify({ ...message, createdAt: 0 })), 200_000)
    assert.deepStrictEqual(message.references.at(-1), "<4999@x>")
    assert.isTrue(message.from.name.isWellFormed())
    const { data } = received({ ...message, reception: message.reception! })
    assert.isAtMost(utf8Length(JSON.stringify(data)), Limits.eventDataBytesMax)
    assert.isTrue(Schema.is(Events.data["message.received"])(data))
  })

  it("announces many files within the size of an event", () => {
    const attachmentIds = Array.from({ length: 1_000 }, () => Fixtures.freshId<never>())
    const { message } = taken()
    const { data } = received({ ...message, attachmentIds, reception: message.reception! })

    assert.isAtMost(utf8Length(JSON.stringify(data)), Limits.eventDataBytesMax)
    assert.isTrue(data.truncated)
  })

  it("is one version and one event on when it is parsed, and never due again", () => {
    const before = unparsed()
    const { message, content } = Inbound.parse(before, parsed, [], 9)

    assert.deepStrictEqual([message.version, message.eventSequence, message.updatedAt], [2, 1, 9])
    assert.isFalse(Inbound.isUnparsed(message))
    assert.deepStrictEqual([message.snippet, content.text, content.mime], ["The engine weaves", "The engine weaves", parsed.structure])
  })

  it("has its files named, typed and placed in its tree", () => {
    const part = { partId: "2", filename: "../a/notes\u202e.txt", mediaType: "message/rfc822", parameters: [], disposition: null, contentId: null, bytes: new Uint8Array() }
    const id = Fixtures.freshId<never>()
    const { message, content, attachments } = Inbound.parse(unparsed(), parsed, [{ id, blob: { sha256: "b".repeat(64), sizeBytes: 0 }, part }], 9)

    assert.deepStrictEqual(message.attachmentIds, [id])
    assert.deepStrictEqual(content.mime.parts.map(({ attachmentId }) => attachmentId), [null, id])
    const [file] = attachments
    assert.deepStrictEqual(
      [file?.filename, file?.mediaType, file?.disposition, file?.scanState, file?.nextScanAt, file?.messageId, file?.expiresAt],
      ["notes.txt", "message/rfc822", "attachment", "pending", 9, message.id, null]
    )
  })

  it("has the parameters of a file's type, so that an invitation stays one when it is sent on", () => {
    const part = { partId: "2", filename: "invite.ics", mediaType: "text/calendar", parameters: ["method=REQUEST"], disposition: null, contentId: null, bytes: new Uint8Array() }
    const { attachments } = Inbound.parse(unparsed(), parsed, [{ id: Fixtures.freshId(), blob: { sha256: "b".repeat(64), sizeBytes: 0 }, part }], 9)

    assert.deepStrictEqual(attachments.map(({ mediaType }) => mediaType), ["text/calendar; method=REQUEST"])
  })

  it("is announced by what its header and its reception say", () => {
    const authentication = { spf: "softfail", dkim: "none", dmarc: "pass", arc: "fail", dmarcPolicy: "reject" } as const
    const { message } = Inbound.parse(unparsed({ authentication, folder: "spam" }), { ...parsed, subject: "Note A", messageId: "<2@example.org>" }, [], 9)

    assert.deepStrictEqual(Inbound.receivedFields({ ...message, reception: message.reception! }), {
      internetMessageId: "<2@example.org>",
      from: "charles@example.org",
      to: ["ada@example.com"],
      subject: "Note A",
      receivedAt: "1970-01-01T00:00:00.005Z",
      folder: "spam",
      attachments: [],
      authentication: { spf: "softfail", dkim: "none", dmarc: "pass" },
      sizeBytes: 17
    })
    assert.strictEqual(message.createdAt, 5_000n)
  })

  it("keeps who it is from and to as its parse finds them, and how it came", () => {
    const before = unparsed({ returnPath: "charles@example.org" })
    const eve = { address: "eve@example.org", name: "" }
    const { message } = Inbound.parse(before, { ...parsed, to: [eve], cc: [eve], replyTo: [eve], text: null, html: "<p>In a hurry</p>" }, [], 9)

    assert.deepStrictEqual(message.reception, { ...before.reception, to: [eve], cc: [eve], nextParseAt: null })
    assert.deepStrictEqual([message.reception?.returnPath, message.replyTo, message.snippet], ["charles@example.org", [eve], "In a hurry"])
  })

  it("keeps no field longer than a row may hold it, and no half of a character", () => {
    const many = Array.from({ length: Limits.mentionedMax + 1 }, () => ({ address: "a".repeat(10_000), name: "" }))
    const long = "x".repeat(Limits.subjectLengthMax + 1)
    const { message } = taken({ head: { ...head, cc: many, replyTo: many, inReplyTo: long, references: [long], subject: "a\ud83d".repeat(Limits.subjectLengthMax) } })

    for (const list of [message.reception?.cc, message.replyTo]) {
      assert.lengthOf(list!, Limits.mentionedMax)
      assert.lengthOf(list![0]!.address, Limits.mentionedAddressLengthMax)
    }
    for (const text of [message.inReplyTo, ...message.references, message.subject]) assert.lengthOf(text!, Limits.subjectLengthMax)
    assert.isTrue(message.subject.isWellFormed())
  })

  it("has files in parts of parts placed, numbered from 1, and their Content-IDs bounded", () => {
    const part = { partId: "1.1", filename: null, mediaType: "text/plain", parameters: [], disposition: null, contentId: "c".repeat(10_000), bytes: new Uint8Array() }
    const id = Fixtures.freshId<never>()
    const structure = { ...leaf("", "multipart/mixed"), parts: [{ ...leaf("1", "multipart/mixed"), parts: [leaf("1.1")] }] }
    const stored = [{ id, blob: { sha256: "b".repeat(64), sizeBytes: 0 }, part }]
    const { content, attachments } = Inbound.parse(unparsed(), { ...parsed, structure }, stored, 9)

    assert.strictEqual(content.mime.parts[0]?.parts[0]?.attachmentId, id)
    assert.deepStrictEqual([attachments[0]?.filename, attachments[0]?.contentId?.length], ["attachment-1", Limits.subjectLengthMax])
  })

  it("says each defect once, and that its text was too long", () => {
    const { message, content } = Inbound.parse(unparsed(), { ...parsed, defects: ["bare_line_ends", "bare_line_ends"], text: "a".repeat(Limits.textLengthMax + 1) }, [], 9)

    assert.lengthOf(content.text!, Limits.textLengthMax)
    assert.deepStrictEqual(message.reception?.defects, ["bare_line_ends", "too_long"])
  })

  it("keeps as much of a long text as a message may have, and says that there was more", () => {
    const { message, content } = Inbound.parse(unparsed(), { ...parsed, html: "<p>".repeat(1_000_000) }, [], 9)

    assert.lengthOf(content.html!, Limits.htmlLengthMax)
    assert.deepStrictEqual(message.reception?.defects, ["bare_line_ends", "too_long"])
  })

  it("is not too long where it has as many characters as may be, of which each is two code units", () => {
    const text = "\u{1f600}".repeat(Limits.textLengthMax)

    const { message, content } = Inbound.parse(unparsed(), { ...parsed, text, html: null }, [], 9)

    assert.strictEqual(content.text, text)
    assert.deepStrictEqual(message.reception?.defects, ["bare_line_ends"])
  })

  it("that cannot be parsed shows its head, and a defect", () => {
    const message = Inbound.park(unparsed(), 9)

    assert.strictEqual(message.updatedAt, 9)
    assert.isFalse(Inbound.isUnparsed(message))
    assert.deepStrictEqual(message.reception?.defects, ["bare_line_ends", "unparsed"])
    assert.deepStrictEqual([message.version, message.eventSequence], [2, 1])
  })

  it("without a sender or a Message-ID has empty ones, and neither its event nor its detail shows any", () => {
    const { message, content } = taken({ head: { ...head, from: null, messageId: null } })

    assert.deepStrictEqual([message.from, message.internetMessageId], [{ address: "", name: "" }, ""])
    assert.isNull(Inbound.receivedFields({ ...message, reception: message.reception! }).internetMessageId)
    assert.isNull(MessageView.detail(message, content, []).internetMessageId)
  })
})

describe("the name of a received file", () => {
  it("is the sender's, where that is a name, and made fit where it can be", () => {
    for (const [given, expected] of [
      ["notes.txt", "notes.txt"],
      ["C:\\Users\\ada\\notes.txt", "notes.txt"],
      ["/etc/passwd", "passwd"],
      ["a\r\nb\u0000.txt", "ab.txt"],
      ["gpj\u202e.exe", "gpj.exe"],
      ["=?utf-8?q?x?=", "=_utf-8?q?x?="],
      ["e\u0301.txt", "\u00e9.txt"],
      ["..", "attachment-3"],
      ["", "attachment-3"],
      [" ", "attachment-3"],
      [null, "attachment-3"],
      ["a/", "attachment-3"]
    ] as const) {
      const name = Attachment.receivedName(given, 3)
      assert.strictEqual(name, expected, JSON.stringify(given))
      assert.isTrue(Schema.is(Attachment.Filename)(name), name)
    }
  })

  it("is cut before its extension, at whole characters", () => {
    const name = Attachment.receivedName(`${"😀".repeat(400)}.pdf`, 1)

    assert.lengthOf(Array.from(name), 255)
    assert.isTrue(name.endsWith("😀.pdf"))
    assert.isTrue(Schema.is(Attachment.Filename)(name))
  })
})
