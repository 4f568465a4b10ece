/** Messages to build, from the plainest to the oddest that the core lets through, each made anew with fresh ids. */
import type { Attachment } from "../core/model/Attachment.ts"
import type { Content, Message } from "../core/model/Message.ts"
import * as Recipients from "../core/model/Recipient.ts"
import * as Fixtures from "./fixtures.ts"

export interface File {
  readonly attachment: Attachment
  readonly bytes: Uint8Array
}

export interface Draft {
  readonly message: Message
  readonly content: Content
  readonly files: ReadonlyArray<File>
}

const realm = Fixtures.realm()

export const file = (bytes: Uint8Array, over: Partial<Attachment> = {}): File => ({
  attachment: Fixtures.attachment(realm, { blob: { sha256: "0".repeat(64), sizeBytes: bytes.length }, ...over }),
  bytes
})

export const draft = (
  message: Partial<Message>,
  bodies: { readonly text?: string; readonly html?: string } = { text: "The engine weaves" },
  files: ReadonlyArray<File> = []
): Draft => {
  const made = Fixtures.message(realm, message)
  return { message: made, files, content: Fixtures.content(made, bodies, files.map(({ attachment }) => attachment)) }
}

const recipients = (counts: Readonly<Record<Recipients.Role, number>>) =>
  (["to", "cc", "bcc"] as const).flatMap((role) =>
    Array.from({ length: counts[role] }, (_, index) => Recipients.make(Fixtures.address(`${role}${index}`), role, 0))
  )

/** Bytes that hold every value, at every place within a line of base64. */
export const binary = (length: number): Uint8Array => Uint8Array.from({ length }, (_, index) => (index * 7 + (index >> 8)) & 255)

export const from = (name: string) => ({ address: Fixtures.address(), name })

export const drafts: ReadonlyArray<readonly [what: string, make: () => Draft]> = [
  ["a text", () => draft({})],
  ["an HTML body alone", () => draft({}, { html: "<p>The <b>engine</b> weaves</p>" })],
  ["a text and its HTML", () => draft({}, { text: "weaves", html: "<p>weaves</p>" })],
  ["an empty text", () => draft({}, { text: "" })],
  ["an empty text and empty HTML", () => draft({}, { text: "", html: "" })],
  ["a text and an attachment", () => draft({}, { text: "see there" }, [file(binary(1000))])],
  [
    "a text, its HTML and attachments",
    () => draft({}, { text: "see", html: "<i>see</i>" }, [file(binary(300)), file(binary(5), { filename: "b.bin" })])
  ],
  [
    "an attachment of no bytes",
    () => draft({}, { text: "" }, [file(new Uint8Array(), { mediaType: "application/octet-stream" })])
  ],
  ...[1, 2, 3, 56, 57, 58, 113, 114, 115, 65_536].map(
    (length) => [`an attachment of ${length} bytes`, () => draft({}, { html: "<br>" }, [file(binary(length))])] as const
  ),
  [
    "20 attachments",
    () => {
      const files = Array.from({ length: 20 }, (_, index) => file(binary(index), { filename: `${index}.bin` }))
      return draft({}, { text: "many" }, files)
    }
  ],
  [
    "an inline image",
    () => draft({}, { html: "<img src=\"cid:logo@example.com\">" }, [
      file(binary(99), { filename: "logo.png", mediaType: "image/png", disposition: "inline", contentId: "logo@example.com" })
    ])
  ],
  [
    "an inline text file",
    () => draft({}, { text: "body" }, [file(Buffer.from("file\n"), { disposition: "inline", mediaType: "text/plain" })])
  ],
  [
    "a message as an attachment",
    () => {
      const inner = Buffer.from("Subject: inner\r\n\r\ninner text\r\n")
      return draft({}, { text: "fwd" }, [file(inner, { filename: "a.eml", mediaType: "message/rfc822" })])
    }
  ],
  [
    "a calendar with parameters as an attachment",
    () => {
      const event = Buffer.from("BEGIN:VCALENDAR\r\nEND:VCALENDAR")
      return draft({}, { text: "come" }, [file(event, { filename: "a.ics", mediaType: `text/calendar; method=REQUEST; component="VEVENT, ${"and more, ".repeat(6)}"` })])
    }
  ],
  ["an empty subject", () => draft({ subject: "" })],
  ["a subject in other letters", () => draft({ subject: "Grüße aus Kraków, Привет, こんにちは" })],
  ["a subject of 998 characters without a space", () => draft({ subject: "s".repeat(998) })],
  ["a subject of 998 emoji", () => draft({ subject: "🧵".repeat(998) })],
  ["a subject of joined emoji", () => draft({ subject: `${"👩‍👩‍👧‍👦".repeat(30)} e\u0301` })],
  ["a subject from right to left", () => draft({ subject: "שלום עולם \u202bمرحبا\u202c" })],
  ["a subject of many words", () => draft({ subject: "word ".repeat(190).trim() })],
  ["a subject with inner spaces", () => draft({ subject: "two  and   three    spaces" })],
  ["a subject that names a field", () => draft({ subject: "Re: Bcc: x@example.com" })],
  ["a subject with an encoded word in plain sight", () => draft({ subject: "=?utf-8?Q?not_decoded?= =?utf-8?B?DQo=?=" })],
  [
    "a subject with signs that mean something elsewhere",
    () => draft({ subject: "\"quoted\" <a@example.com>, (comment); = ? _ =20 \\ %0A" })
  ],
  ["a sender without a name", () => draft({ from: from("") })],
  ["a sender's name in other letters", () => draft({ from: from("Ада Лавлейс (Ада)") })],
  [
    "a sender's name with specials",
    () => draft({ from: from("Lovelace, Ada <ada@evil.example> \"Countess\" \\ (x); y: z@w") })
  ],
  ["a sender's name that looks encoded", () => draft({ from: from("=?utf-8?Q?x?= <other@example.com>") })],
  [
    "a sender's name that looks encoded, in other letters",
    () => draft({ from: from("é =?utf-8?B?eEBleGFtcGxlLmNvbQ==?=") })
  ],
  ["a sender's long name", () => draft({ from: from(`${"Ada ".repeat(60)}Lovelace`) })],
  ["a sender's long name without a space", () => draft({ from: from("a".repeat(900)) })],
  ["50 recipients", () => draft({ recipients: recipients({ to: 50, cc: 50, bcc: 50 }) })],
  [
    "an address of 254 characters",
    () => {
      const domain = `${"d".repeat(60)}.${"d".repeat(60)}.${"d".repeat(59)}.example`
      return draft({ recipients: [Recipients.make(Fixtures.address("l".repeat(64), domain), "to", 0)] })
    }
  ],
  [
    "an odd but plain address",
    () => draft({ recipients: [Recipients.make(Fixtures.address("!#$%&'*+-/=?^_`{|}~.x", "xn--bcher-kva.example"), "to", 0)] })
  ],
  ["a long line", () => draft({}, { text: "x".repeat(5_000), html: `<p>${"long ".repeat(3_000)}</p>` })],
  ["a long line in other letters", () => draft({}, { text: "ж".repeat(5_000), html: "é = ".repeat(2_000) })],
  ["a line of 200,000 characters", () => draft({}, { text: "words woven with a 🧵 and ".repeat(8_000) })],
  ["dots at line starts", () => draft({}, { text: ".\r\n..\r\n.dot\r\n\r\n.\r\nQUIT\r\n" })],
  [
    "lines that look like a boundary or a header",
    () => draft({}, { text: "--\r\n--=_0_x--\r\nFrom: x\r\n\r\nFrom x\r\n", html: "--=_1\n\n--=_0" })
  ],
  [
    "all kinds of line ends",
    () => draft({}, { text: "crlf\r\nlf\ncr\rlfcr\n\rtwo\r\rthree\n\n\nend", html: "a\rb\nc\r\n" })
  ],
  ["white space at line ends", () => draft({}, { text: "space \ntab\t\nboth \t \n \n\t\nend " })],
  [
    "control characters in a body",
    () => draft({}, { text: "nul \u0000 bell \u0007 escape \u001b next \u0085 line \u2028 paragraph \u2029 bom \ufeff" })
  ],
  ["half a surrogate pair", () => draft({ subject: "half \ud83e", from: from("\udc00 half") }, { text: "half \ud83e" })],
  [
    "a body of a megabyte",
    () => draft({}, { text: "A line of some length, as people write.\n".repeat(25_000), html: "<td>ячейка</td>\r\n".repeat(20_000) })
  ],
  ["signs of quoted-printable", () => draft({}, { text: "a=b=3D==\r\n=\r\n=20\r\n" })]
]
