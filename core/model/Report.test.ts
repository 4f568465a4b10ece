import { assert, describe, it } from "@effect/vitest"
import { processorTime } from "../../conformance/ProcessorTime.ts"
import { codesIn } from "./BounceReason.ts"
import type { MimePart } from "./MimePart.ts"
import type { ParsedAttachment, ParsedMessage } from "./ParsedMessage.ts"
import * as Report from "./Report.ts"

const leaf = (mediaType: string): MimePart => ({
  partId: "1", mediaType, charset: null, disposition: null, contentId: null, filename: null, sizeBytes: 0, attachmentId: null, parts: []
})

const attachment = (mediaType: string, text: string): ParsedAttachment => ({
  partId: "1.2", filename: null, mediaType, parameters: [], disposition: null, contentId: null, bytes: new TextEncoder().encode(text)
})

const daemon = { address: "MAILER-DAEMON@mx.dest.example", name: "Mail Delivery System" }

const message = (over: Partial<ParsedMessage> = {}): ParsedMessage => ({
  headers: [{ name: "From", value: "MAILER-DAEMON@mx.dest.example" }],
  from: daemon, replyTo: [], to: [{ address: "ada@our.example", name: "" }], cc: [],
  subject: "Undelivered Mail Returned to Sender", date: null, messageId: null, inReplyTo: null, references: [], defects: [],
  text: null, html: null, structure: leaf("text/plain"), attachments: [],
  ...over
})

/** A delivery report with these fields for its one recipient. */
const reporting = (fields: string) =>
  message({
    structure: leaf("multipart/report"),
    attachments: [attachment("message/delivery-status", `Reporting-MTA: dns; mx.dest.example\n\n${fields}\n`)]
  })

/** A delivery report that names nobody, with the original that went to these. */
const ofOriginal = (to: string) =>
  message({
    structure: leaf("multipart/report"),
    attachments: [
      attachment("message/delivery-status", "Reporting-MTA: dns; mx.dest.example\n\nAction: failed\nStatus: 5.1.1\n"),
      attachment("message/rfc822", `Message-ID: <one@our.example>\nTo: ${to}\n\nHello\n`)
    ]
  })

const prose = (line: string) => message({ text: `Your message could not be delivered to:\n\n<bob@dest.example>:\n${line}\n` })

describe("the fields of a report", () => {
  const addresses: ReadonlyArray<readonly [fields: string, address: string]> = [
    ["Final-Recipient: rfc822; bob@dest.example", "bob@dest.example"],
    ["Final-Recipient: rfc822;<bob@dest.example>", "bob@dest.example"],
    ["Final-Recipient: RFC822;  bob@dest.example (Bob)", "bob@dest.example"],
    ["Final-Recipient: bob@dest.example", "bob@dest.example"],
    ["final-recipient : rfc822 ; SMTP:bob@dest.example", "bob@dest.example"],
    ["Original-Recipient: rfc822;bob+2Btag@dest.example\nFinal-Recipient: rfc822;b@inner.example", "bob+tag@dest.example"],
    ["Final-Recipient: rfc822; bob+41@dest.example", "bob+41@dest.example"],
    ["Final-Recipient: rfc822; bob+3D@dest.example", "bob+3D@dest.example"],
    ["Original-Recipient: rfc822;bob+3D@dest.example\nFinal-Recipient: rfc822;bob+3D@dest.example", "bob+3D@dest.example"],
    ["Original-Recipient: rfc822;bob+3Db@dest.example\nFinal-Recipient: rfc822;bob=b@dest.example", "bob=b@dest.example"],
    ["Final-Recipient: utf-8; \\x{FC}ber@dest.example", "über@dest.example"],
    ["Final-Recipient: rfc822; \"bob b\"@dest.example", "\"bob b\"@dest.example"],
    ["Original-Recipient: rfc822; unknown\nFinal-Recipient: rfc822; bob@dest.example", "bob@dest.example"],
    ["Final-Recipient:\n rfc822;\n bob@dest.example", "bob@dest.example"],
    ["Final-Recipient: rfc822; /G=Bob/S=B/O=Org@dest.example", "/G=Bob/S=B/O=Org@dest.example"],
    ["Final-Recipient: rfc822; <'bob@dest.example>", "'bob@dest.example"],
    ["Final-Recipient: rfc822; {bob}@dest.example", "{bob}@dest.example"],
    ["Final-Recipient: rfc822; 'bob@dest.example'", "bob@dest.example"],
    ["Final-Recipient: rfc822; ='bob@dest.example' (Bob)", "bob@dest.example"]
  ]
  for (const [fields, address] of addresses) {
    it(`name ${address}: ${fields.replaceAll("\n", " | ")}`, () => {
      const { kind, recipients } = Report.read(reporting(`${fields}\nAction: failed\nStatus: 5.1.1`))

      assert.deepStrictEqual([kind, recipients.map((recipient) => recipient.address)], ["bounce", [address]])
    })
  }

  const outcomes: ReadonlyArray<readonly [fields: string, kind: Report.Report["kind"], judged: string]> = [
    ["Action: FAILED (really)\nStatus: 5.1.1 (bad mailbox)", "bounce", "failed 5.1.1 null permanent"],
    ["Status: 5.1.1", "bounce", "failed 5.1.1 null permanent"],
    ["Status: 4.4.1\nWill-Retry-Until: tomorrow", "delay", "delayed 4.4.1 null transient"],
    ["Action: delayed\nStatus: 4.2.2", "delay", "delayed 4.2.2 null transient"],
    ["Action: failed\nStatus: 4.4.7", "bounce", "failed 4.4.7 null transient"],
    ["Action: failed\nStatus: 5.4.7", "bounce", "failed 5.4.7 null transient"],
    ["Action: failed\nStatus: 5.2.2", "bounce", "failed 5.2.2 null transient"],
    ["Action: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 450 4.2.1 busy", "bounce", "failed 4.2.1 450 transient"],
    ["Action: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550-5.1.1 no\n 550 5.1.1 such user", "bounce", "failed 5.1.1 550 permanent"],
    ["Action: failed\nStatus: 5.0.0", "bounce", "failed 5.0.0 null permanent"],
    ["Action: failed\nStatus: 4.0.0\nDiagnostic-Code: X-Postfix; unknown user: \"bob\"", "bounce", "failed 4.0.0 null permanent"],
    ["Action: failed\nDiagnostic-Code: smtp; 552 mailbox full", "bounce", "failed null 552 transient"],
    ["Action: failed", "bounce", "failed null null undetermined"],
    ["Action: delivered\nStatus: 2.0.0", "delivered", "delivered 2.0.0 null undetermined"],
    ["Action: relayed\nStatus: 2.1.9", "delivered", "relayed 2.1.9 null undetermined"],
    ["Action: expanded\nStatus: 2.1.3", "delivered", "expanded 2.1.3 null undetermined"]
  ]
  for (const [fields, expected, judged] of outcomes) {
    it(`${fields.replaceAll("\n", " | ")}: ${judged}`, () => {
      const { kind, recipients } = Report.read(reporting(`Final-Recipient: rfc822; bob@dest.example\n${fields}`))

      const told = recipients.map(({ action, status, smtpCode, class: judgement }) => `${action} ${status} ${smtpCode} ${judgement}`)
      assert.deepStrictEqual([kind, told], [expected, [judged]])
    })
  }

  it("make a bounce of several recipients where one failed, and a delay where none did", () => {
    const group = (name: string, action: string) => `Final-Recipient: rfc822; ${name}@dest.example\nAction: ${action}\n`

    assert.strictEqual(Report.read(reporting([group("a", "delivered"), group("b", "delayed"), group("c", "failed")].join("\n"))).kind, "bounce")
    assert.strictEqual(Report.read(reporting([group("a", "delivered"), group("b", "delayed")].join("\n"))).kind, "delay")
  })
})

describe("a report that names nobody", () => {
  it("is about the one whom the original went to, and about nobody where it went to several", () => {
    const of = (to: string) => Report.read(ofOriginal(to), null).recipients.map(({ address }) => address)

    assert.deepStrictEqual(of("Bob <bob@dest.example>"), ["bob@dest.example"])
    assert.deepStrictEqual(of("bob@dest.example, eve@dest.example"), [])
  })
})

describe("an address that begins with a sign", () => {
  for (const sign of "!#$%&'*+-/=?^_`{|}~") {
    it(`is itself in fields, in brackets, and in complaints, and not another's: ${sign}`, () => {
      const address = `${sign}bob@dest.example`
      const told = (read: ParsedMessage) => Report.read(read, null).recipients.map((recipient) => recipient.address)
      const complaint = (field: string) =>
        message({
          structure: leaf("multipart/report"),
          attachments: [attachment("message/feedback-report", `Feedback-Type: abuse\n${field}: ${address}\n`)]
        })

      const found = [
        reporting(`Final-Recipient: rfc822; ${address}\nAction: failed\nStatus: 5.1.1`),
        message({ text: `Your message could not be delivered to:\n\n<${address}>:\n550 5.1.1 no such user\n` }),
        message({ headers: [...message().headers, { name: "X-Failed-Recipients", value: address }], text: "Your message could not be delivered.\n" }),
        ofOriginal(address),
        complaint("Original-Rcpt-To"),
        complaint("Removal-Recipient")
      ].map(told)

      // An asterisk is how a complaint hides its reader.
      const shown = sign === "*" ? [] : [address]
      assert.deepStrictEqual(found, [[address], [address], [address], [address], shown, shown])
    })
  }
})

describe("the codes in what a server said", () => {
  const lines: ReadonlyArray<readonly [said: string, smtpCode: number | null, status: string | null]> = [
    ["550 5.1.1 no such user", 550, "5.1.1"],
    ["550-5.1.1 no such user", 550, "5.1.1"],
    ["Remote host said: 550 no", 550, null],
    ["host mx.dest.example[203.0.113.9]:25 said: 452 4.2.2 full", 452, "4.2.2"],
    ["smtp;550 no", 550, null],
    ["Sorry, no mailbox here by that name. (#5.1.1)", null, "5.1.1"],
    ["#550 5.1.10 RESOLVER.ADR.RecipientNotFound #", 550, "5.1.10"],
    ["SMTP error from remote mail server after RCPT TO:<bob@dest.example>: 550 gone", 550, null],
    ["connection to 203.0.113.9 port 587 failed", null, null],
    ["connect to 203.0.113.9:587: refused", null, null],
    ["at 09:12:550 on host 5.1.1.2, queue id 4Xy550, 500 messages", null, null],
    ["MSEXCH:IMS:Dest 0 (000C05A6), version 5.5.265", null, null],
    ["tried 450 times in 2025", null, null]
  ]
  it("are looked for in the first sixteen numbers, for a megabyte of numbers would take a second", () => {
    const counts = (count: number) => "450 recipients, ".repeat(count)

    assert.strictEqual(codesIn(`${counts(15)}said: 550`).smtpCode, 550)
    assert.strictEqual(codesIn(`${counts(16)}said: 550`).smtpCode, null)
  })

  for (const [said, smtpCode, status] of lines) {
    it(`${said}: ${smtpCode} ${status}`, () => {
      const [recipient] = Report.read(prose(said)).recipients

      assert.deepStrictEqual([recipient?.address, recipient?.smtpCode, recipient?.status], ["bob@dest.example", smtpCode, status])
    })
  }
})

describe("the words of other languages", () => {
  for (const sender of ["From: ", "发件人：", "寄件者: ", "差出人: ", "Отправитель: ", "От: ", "Expéditeur : "]) {
    it(`do not make the sender one who failed: ${sender}`, () => {
      const text = `Your message could not be delivered.\n${sender}info@our.example\nbob@dest.example does not exist\n`
      assert.deepStrictEqual(Report.read(message({ text })).recipients.map(({ address }) => address), ["bob@dest.example"])
    })
  }

  for (const subject of ["Delay: Note G", "Verzögert: Note G", "Retardé : Note G", "retardé: Note G"]) {
    it(`title a delay: ${subject}`, () => {
      const text = "To: bob@dest.example\n450 4.2.0 the server is busy\n"
      assert.strictEqual(Report.read(message({ subject, text })).kind, "delay")
    })
  }
})

describe("what is no report", () => {
  const letter = prose("550 5.1.1 no such user")
  const strangers: ReadonlyArray<readonly [what: string, message: ParsedMessage]> = [
    ["from somebody", { ...letter, from: { address: "carol@dest.example", name: "Carol" }, headers: [] }],
    ["forwarded by the mail system's own account", { ...letter, subject: `Fwd: ${letter.subject}`, text: `FYI\n\n---------- Forwarded message ----------\n${letter.text}` }],
    ["written in a mail program", { ...letter, headers: [...letter.headers, { name: "User-Agent", value: "Mozilla Thunderbird" }] }],
    ["with an absence for a subject", { ...letter, subject: "Out of office: back on Monday" }],
    ["from a list", { ...letter, from: { address: "postmaster@dest.example", name: "" }, headers: [{ name: "List-Id", value: "<a.example>" }, { name: "Return-Path", value: "<l@a.example>" }] }]
  ]
  it("is a report without what makes it none", () => assert.strictEqual(Report.read(letter).kind, "bounce"))
  for (const [what, stranger] of strangers) {
    it(`is a bounce's text ${what}`, () => {
      assert.deepStrictEqual(Report.read(stranger), { kind: "none", recipients: [], originalMessageId: null })
    })
  }

  it("is told by the Return-Path of the envelope, where the message has none", () => {
    const odd = { ...letter, from: { address: "info@dest.example", name: "" }, headers: [] }

    assert.strictEqual(Report.read(odd).kind, "none")
    assert.strictEqual(Report.read(odd, "info@dest.example").kind, "none")
    assert.strictEqual(Report.read(odd, null).kind, "bounce")
  })
})

describe("hostile reports", () => {
  const long = 1_000_000
  const groups = Array.from(
    { length: 100_000 },
    (_, index) => `Final-Recipient: rfc822; bob${index}@dest.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 no\n\n`
  ).join("")
  const bounce = "Your message could not be delivered to:\n"
  const failedMany = message({
    headers: Array.from({ length: 50 }, (_, field) => ({
      name: "X-Failed-Recipients",
      value: Array.from({ length: 600 }, (_, index) => `${field}.${index}@b.example`).join(",")
    })),
    text: bounce + Array.from({ length: 1_400 }, (_, index) => `<bob${index}@dest.example>: 550 5.1.1 no`).join("\n")
  })
  const hostile: ReadonlyArray<readonly [what: string, message: ParsedMessage]> = [
    ["100,000 recipients", { ...reporting(""), attachments: [attachment("message/delivery-status", groups)] }],
    ["100,000 status parts", { ...reporting(""), attachments: Array.from({ length: 100_000 }, () => attachment("message/delivery-status", "Final-Recipient: rfc822; a@b.example\nAction: failed")) }],
    ["a line of signs", message({ text: bounce + "@".repeat(long) })],
    ["a line of addresses", message({ text: bounce + "a@b.example,".repeat(long / 12) })],
    ["lines of addresses", message({ text: bounce + "a@b.example: 550 5.1.1 no\n".repeat(long / 26) })],
    ["a line of dots", message({ text: `${bounce}<a@${".".repeat(long)}>` })],
    ["a line of quotes", message({ text: bounce + "\"@".repeat(long / 2) })],
    ["spaces", message({ text: `${bounce}<a@b.example>${" ".repeat(long)}x` })],
    ["empty lines", message({ text: bounce + "\n".repeat(long) })],
    ["a line of codes", message({ text: `${bounce}<a@b.example>: ${"550 5.1.1 ".repeat(long / 10)}` })],
    ["a line of digits", message({ text: `${bounce}<a@b.example>: ${"5".repeat(long)}` })],
    ["quotations", message({ text: bounce + "> x\n".repeat(long / 4) })],
    ["headers", message({ text: bounce + "Received: x\n".repeat(long / 12) })],
    ["brackets", message({ html: "<".repeat(long) })],
    ["entities", message({ html: "&".repeat(long) })],
    ["styles", message({ html: "<style>".repeat(long / 7) })],
    ["a subject", message({ subject: "failure notice ".repeat(long / 15) })],
    ["a folded field", reporting(`Final-Recipient: rfc822; a@b.example\nDiagnostic-Code: smtp;${"\n x".repeat(long / 3)}`)],
    ["failed recipients", message({ headers: [{ name: "X-Failed-Recipients", value: "a@b.example, ".repeat(long / 13) }] })],
    ["failed recipients, each another", failedMany]
  ]
  for (const [what, stranger] of hostile) {
    it(`are read in 200 ms of the processor: ${what}`, () => {
      assert.isBelow(processorTime(() => Report.read(stranger), 200), 200)
    })
  }

  it("name at most 1,000 recipients", () => {
    for (const report of [{ ...reporting(""), attachments: [attachment("message/delivery-status", groups)] }, failedMany]) {
      assert.lengthOf(Report.read(report).recipients, 1_000)
    }
  })
})

describe("a complaint that does not say whose it is", () => {
  const complaint = (to: string) =>
    message({
      structure: leaf("multipart/report"),
      attachments: [
        attachment("message/feedback-report", "Feedback-Type: abuse\nUser-Agent: x\nVersion: 1\n"),
        attachment("message/rfc822", `Message-ID: <one@our.example>\nTo: ${to}\n\nHello\n`)
      ]
    })
  for (const [to, expected] of [
    ["bob@dest.example", ["bob@dest.example"]],
    ["bob@dest.example, eve@other.example", []],
    ["redacted@dest.example, eve@other.example", []]
  ] as const) {
    it(`is of ${expected.length === 0 ? "nobody" : "the only reader"}: ${to}`, () => {
      const { kind, recipients } = Report.read(complaint(to))

      assert.deepStrictEqual([kind, recipients.map(({ address }) => address)], ["complaint", [...expected]])
    })
  }
})

describe("a report without measure is read in little time", () => {
  const many = (text: string) => text.repeat(Math.ceil(1_000_000 / text.length))
  const parts = (mediaType: string, text: string) => Array.from({ length: 20 }, () => attachment(mediaType, many(text)))
  const hostile: ReadonlyArray<readonly [title: string, message: ParsedMessage]> = [
    ["recipients in prose", message({ text: many("Final-Recipient: rfc822; bob@dest.example\nAction: failed\n\n") })],
    ["files of carriage returns", message({ text: "undeliverable", attachments: parts("text/plain", "\r") })],
    ["statuses of many lines", message({ structure: leaf("multipart/report"), attachments: parts("message/delivery-status", "X-Field:\n") })]
  ]
  for (const [title, one] of hostile) {
    it(title, () => {
      assert.isBelow(processorTime(() => Report.read(one, null), 500), 500)
    })
  }
})
