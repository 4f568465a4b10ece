/**
 * The half of the Mime suite about reading what others wrote: messages as they
 * come in, well-formed or not, and messages made to do harm.
 */
import { Effect, Stream } from "effect"
import assert from "node:assert/strict"
import type { ParsedAttachment, ParsedMessage } from "../core/model/ParsedMessage.ts"
import { Mime } from "../core/ports/Mime.ts"
import type { Check } from "./Suite.ts"

/** Bytes of a message written here with LF, each character one byte. */
const raw = (text: string): Buffer => Buffer.from(text.replace(/(?<!\r)\n/g, "\r\n"), "latin1")

/** UTF-8 in such a text. */
const utf8 = (text: string): string => Buffer.from(text).toString("latin1")

interface Case {
  readonly claim: string
  readonly bytes: Buffer
  readonly headers?: ParsedMessage["headers"]
  readonly text?: string | null
  readonly html?: string | null
  readonly attachments?: ReadonlyArray<Partial<Omit<ParsedAttachment, "bytes">> & { readonly content?: string }>
}

const header = (claim: string, line: string, value: string): Case => ({
  claim,
  bytes: raw(`${line}\n\nbody\n`),
  headers: [{ name: line.slice(0, line.indexOf(":")).trim(), value }]
})

const headerCases: ReadonlyArray<Case> = [
  {
    claim: "keeps header fields in order, with repeats and their own spelling",
    bytes: raw("Received: one\nreceived: two\nX-A: 1\nSUBJECT: s\nX-A: 2\n\nbody"),
    headers: [
      { name: "Received", value: "one" },
      { name: "received", value: "two" },
      { name: "X-A", value: "1" },
      { name: "SUBJECT", value: "s" },
      { name: "X-A", value: "2" }
    ]
  },
  header("unfolds a field, keeping the white space", "Subject: one\n  two\n\tthree", "one  two three"),
  header("reads a field with white space before its colon", "Subject : s", "s"),
  header("reads a field in raw UTF-8", `Subject: ${utf8("voilà")}`, "voilà"),
  header("decodes encoded words", "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?= and =?iso-8859-1?B?/Gg=?=", "Grüße and üh"),
  header("joins encoded words that split a character", "Subject: =?utf-8?B?w4M=?= =?utf-8?Q?=C3?=\n =?utf-8?Q?=BC?=", "Ãü"),
  header("decodes no line end into a field", "Subject: =?utf-8?B?YQ0KQmNjOiB4?= =?utf-8?Q?=00=E2=80=A8?=", "a Bcc: x"),
  header("leaves structured fields undecoded", "Message-ID: <=?utf-8?Q?a?=@example.com>", "<=?utf-8?Q?a?=@example.com>"),
  header("spells addresses as the core does", "From: Ada Lovelace <ada@example.com>", "\"Ada Lovelace\" <ada@example.com>"),
  header(
    "decodes a name, and quotes it",
    "To: =?utf-8?Q?B=2C_=22x=22_=3Ce=40x.example=3E?= <b@example.com>, c@example.com",
    "\"B, \\\"x\\\" <e@x.example>\" <b@example.com>, c@example.com"
  ),
  header(
    "spells addresses without the comments beside a name",
    "From: \"Doe, John\" (c) <john@x.example>, bob@x.example (Bob)",
    "\"Doe, John\" <john@x.example>, \"Bob\" <bob@x.example>"
  ),
  header("leaves a comment where it stands in no list of addresses", "Received: from a (b [192.0.2.1]) by c", "from a (b [192.0.2.1]) by c"),
  header(
    "lets no encoded word become an address",
    "From: =?utf-8?B?WCA8ZXZpbEB4LmV4YW1wbGU+?=",
    "=?utf-8?B?WCA8ZXZpbEB4LmV4YW1wbGU+?="
  ),
  header(
    "leaves an address that readers disagree about as it came",
    "From: \"a@x.example b\"@y.example",
    "\"a@x.example b\"@y.example"
  ),
  header(
    "leaves an address that has two domains as it came",
    "From: Ada <ada@x.example@y.example>",
    "Ada <ada@x.example@y.example>"
  ),
  header("leaves a group as it came", "To: friends: a@example.com, b@example.com;", "friends: a@example.com, b@example.com;")
]

const bodyCases: ReadonlyArray<Case> = [
  { claim: "reads a message without a header", bytes: raw("\nbody"), headers: [], text: "body", html: null },
  {
    claim: "reads a message without a body",
    bytes: raw("Subject: s\n"),
    headers: [{ name: "Subject", value: "s" }],
    text: null
  },
  { claim: "reads a message without a byte", bytes: raw(""), headers: [], text: null, html: null, attachments: [] },
  {
    claim: "reads a message with bare LF line ends",
    bytes: Buffer.from("Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\nContent-Type: a/b\n\ntwo\n--b--\n"),
    text: "one",
    attachments: [{ mediaType: "a/b", content: "two" }]
  },
  {
    claim: "reads text in its charset",
    bytes: raw("Content-Type: text/plain; charset=iso-8859-1\n\n\xfcber"),
    text: "über"
  },
  { claim: "reads text in UTF-8 when nothing is said", bytes: raw(`\n${utf8("über")}`), text: "über" },
  {
    claim: "reads text whose charset nobody knows",
    bytes: raw("Content-Type: text/plain; charset=x-nobody\n\nplain"),
    text: "plain"
  },
  {
    claim: "decodes quoted-printable",
    bytes: raw("Content-Transfer-Encoding: Quoted-Printable\n\na=\nb= \t\nc=3D=C3=bc = =zz =4z =z4 end  \nnext=20\n"),
    text: "abc=ü = =zz =4z =z4 end\nnext \n"
  },
  {
    claim: "decodes base64 that is padded line by line and has strangers in it",
    bytes: raw("Content-Transfer-Encoding: base64\n\n!aG Vsb*G8=\n  d29ybGQ=\n"),
    text: "helloworld"
  },
  {
    claim: "ends base64 at its padding where a mailing list's footer stands behind it",
    bytes: raw("Content-Transfer-Encoding: base64\n\naGVsbG8=\n______\nThe list\nlist@example.com\n"),
    text: "hello"
  },
  { claim: "finds no HTML where there is none", bytes: raw("\n<b>not HTML</b>"), text: "<b>not HTML</b>", html: null }
]

const mixed = (...parts: ReadonlyArray<string>): Buffer =>
  raw(
    [
      "Content-Type: multipart/mixed; boundary=\"b\"\n\npreamble",
      ...parts.map((part) => `--b\n${part}`),
      "--b--\nepilogue\n--b\n\nnot a part\n"
    ].join("\n")
  )

const treeCases: ReadonlyArray<Case> = [
  {
    claim: "finds the text, the HTML and the attachments of a tree",
    bytes: mixed(
      "Content-Type: multipart/alternative; boundary=b1\n\n--b1\n\nplain\n--b1\nContent-Type: text/html\n\n<p>html</p>\n--b1--",
      "Content-Type: image/png\nContent-ID: <x@y>\nContent-Disposition: inline; filename=a.png\nContent-Transfer-Encoding: base64\n\naGk="
    ),
    text: "plain",
    html: "<p>html</p>",
    attachments: [{ filename: "a.png", mediaType: "image/png", disposition: "inline", contentId: "x@y", content: "hi" }]
  },
  {
    claim: "keeps an attachment's bytes as they were, whatever their encoding",
    bytes: mixed(
      "Content-Type: a/b\n\n7bit\n\nlines \n",
      "Content-Type: a/b\nContent-Transfer-Encoding: quoted-printable\n\nq=70\nline",
      "Content-Type: text/calendar\nContent-Transfer-Encoding: base64\n\nQQ0KQg==",
      "Content-Type: a/b\nContent-Transfer-Encoding: 8bit\n\n\xff\xfe",
      "Content-Type: a/b\n"
    ),
    text: null,
    attachments: [
      { content: "7bit\r\n\r\nlines \r\n" },
      { content: "qp\r\nline" },
      { content: "A\r\nB" },
      { content: "\xff\xfe" },
      { content: "" }
    ]
  },
  {
    claim: "keeps a message inside a message whole, and apart",
    bytes: mixed("\nouter", "Content-Type: message/rfc822\n\nSubject: inner\nContent-Type: text/html\n\n<b>inner</b>"),
    text: "outer",
    html: null,
    attachments: [{ mediaType: "message/rfc822", content: "Subject: inner\r\nContent-Type: text/html\r\n\r\n<b>inner</b>" }]
  },
  {
    claim: "tells a text file from the text",
    bytes: mixed(
      "\ntext",
      "Content-Disposition: attachment\n\nfile",
      "Content-Type: Text/Plain\nContent-Disposition: inline; filename=\"n.txt\"\n\nnotes"
    ),
    text: "text",
    attachments: [
      { filename: null, mediaType: "text/plain", disposition: "attachment", content: "file" },
      { filename: "n.txt", mediaType: "text/plain", disposition: "inline", content: "notes" }
    ]
  },
  {
    claim: "reads file names however they are written",
    bytes: mixed(
      "Content-Type: a/b; name=\"=?utf-8?Q?=C3=BC.txt?=\"\n",
      "Content-Type: a/b\nContent-Disposition: attachment; filename*0*=utf-8''%C3; filename*1*=%BC; filename*2=\".txt\"\n",
      "Content-Type: a/b\nContent-Disposition: FILE; filename=\"a\\\"b.txt\"\n",
      "Content-Type: a/b\nContent-Disposition: attachment; filename*=utf-8''a%0D%0Ab\n"
    ),
    attachments: [
      { filename: "ü.txt", disposition: null },
      { filename: "ü.txt" },
      { filename: "a\"b.txt", disposition: "attachment" },
      { filename: "a b" }
    ]
  },
  {
    claim: "takes no line for a delimiter that only begins like one",
    bytes: mixed("\none\n--bb\n--b-\n --b\n--b x", "\ntwo"),
    text: "one\n--bb\n--b-\n --b\n--b x\ntwo"
  },
  {
    claim: "takes a delimiter with white space behind it",
    bytes: raw("Content-Type: multipart/mixed (see; boundary=c) ; boundary=\"a b\"\n\n--a b \t\n\none\n--a b--  \n\nnothing"),
    text: "one"
  },
  {
    claim: "reads on to the end where the last delimiter is missing",
    bytes: raw("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/alternative; boundary=c\n\n--c\n\none\n--b\n\ntwo"),
    text: "one\ntwo"
  },
  {
    claim: "reads a multipart without a boundary as a text",
    bytes: raw("Content-Type: multipart/mixed\n\nwhat is this"),
    text: "what is this"
  },
  {
    claim: "takes nothing behind the last delimiter for a part",
    bytes: mixed("\none"),
    text: "one"
  },
  {
    claim: "reads a boundary written as RFC 2231 has it",
    bytes: raw("Content-Type: multipart/mixed; boundary*=utf-8''a%20b\n\n--a b\n\none\n--a b--"),
    text: "one"
  },
  {
    claim: "goes by the first of two encodings",
    bytes: raw("Content-Transfer-Encoding: base64\nContent-Transfer-Encoding: 7bit\n\naGk="),
    text: "hi"
  },
  {
    claim: "goes by the first of two types",
    bytes: raw("Content-Type: text/html\nContent-Type: text/plain\n\n<p>"),
    text: null,
    html: "<p>"
  }
]

const reads = ({ claim, bytes, ...expected }: Case): Check<Mime> => ({
  title: claim,
  check: Effect.gen(function* () {
    const mime = yield* Mime

    const parsed = yield* mime.parse(Stream.make(bytes))
    const byteByByte = yield* mime.parse(Stream.fromIterable(Array.from(bytes, (byte) => Uint8Array.of(byte))))

    assert.deepEqual(byteByByte, parsed)
    if (expected.headers !== undefined) assert.deepEqual(parsed.headers, expected.headers)
    if (expected.text !== undefined) assert.equal(parsed.text, expected.text)
    if (expected.html !== undefined) assert.equal(parsed.html, expected.html)
    if (expected.attachments === undefined) return
    assert.equal(parsed.attachments.length, expected.attachments.length)
    for (const [index, { content, ...rest }] of expected.attachments.entries()) {
      const found = parsed.attachments[index]!
      assert.deepEqual({ ...found, ...rest }, found)
      if (content !== undefined) assert.equal(Buffer.from(found.bytes).toString("latin1"), content)
    }
  })
})

const nested = (depth: number): string =>
  Array.from({ length: depth }, (_, index) => `Content-Type: multipart/mixed; boundary=b${index}\n\n--b${index}\n`).join("")

const partsOf = (count: number, part: string): string =>
  `Content-Type: multipart/mixed; boundary=b\n\n${`--b\n${part}\n`.repeat(count)}--b--\n`

const under = (boundary: string, body: string): string => `Content-Type: multipart/mixed; boundary=${boundary}\n\n${body}`

/** Messages that cost a careless reader minutes, gigabytes or its stack. */
export const bombs: ReadonlyArray<readonly [what: string, make: () => string]> = [
  ["10,000 levels", () => nested(10_000)],
  ["900 levels around 30 megabytes", () => `${nested(900)}\n${"x".repeat(30_000_000)}`],
  ["1,000 times 500 parts", () => partsOf(1_000, `Content-Type: multipart/mixed; boundary=c\n\n${"--c\n\n".repeat(500)}--c--`)],
  ["150 parts of 40,000 fields each", () => partsOf(150, "X: 1\n".repeat(40_000))],
  ["100,000 parts", () => partsOf(100_000, "\nx")],
  ["1,000,000 empty parts", () => partsOf(1_000_000, "")],
  ["10,000 quoted-printable parts", () => partsOf(10_000, "Content-Transfer-Encoding: quoted-printable\n\nx")],
  ["a boundary of a megabyte", () => under("b".repeat(1_000_000), `--${"b".repeat(1_000_000)}\n\nx`)],
  ["a body that almost repeats its boundary", () => under("b".repeat(150), `--${"b".repeat(149)}c\n`.repeat(100_000))],
  ["50,000 fields", () => `${"X: 1\n".repeat(50_000)}\nx`],
  ["40,000 fields", () => `${"X: 1\n".repeat(40_000)}\nx`],
  ["a field of 100 megabytes", () => `Subject: ${"x".repeat(100_000_000)}\n\nx`],
  ["a field of encoded words", () => `Subject: ${"=?utf-8?Q?=FF?= ".repeat(15_000)}\n\nx`],
  ["a field of beginnings of encoded words", () => `Subject: ${"=?utf-8?Q?".repeat(25_000)}\n\nx`],
  ["20,000 addresses", () => `To: ${"a@b.example, ".repeat(19_000)}\n\nx`],
  ["100,000 groups in each other", () => `To: ${"a:".repeat(100_000)}\n\nx`],
  ["250,000 angle brackets", () => `To: ${"<".repeat(250_000)}\n\nx`],
  ["125,000 open comments", () => `Content-Type: text/plain ${"(".repeat(125_000)}\n\nx`],
  ["a file name in 12,000 pieces", () => {
    const pieces = Array.from({ length: 12_000 }, (_, index) => `filename*${index}=a`)
    return `Content-Disposition: attachment; ${pieces.join(";")}\n\nx`
  }],
  ["10 megabytes of line ends", () => `\n${"\n".repeat(5_000_000)}`],
  ["10 megabytes of equals signs as quoted-printable", () => `Content-Transfer-Encoding: quoted-printable\n\n${"=".repeat(10_000_000)}`],
  ["10 megabytes of padding as base64", () => `Content-Transfer-Encoding: base64\n\n${"A=".repeat(5_000_000)}`],
  ["a file name in 100,000 pieces", () => {
    const pieces = Array.from({ length: 100_000 }, (_, index) => `filename*${index}*=%41`)
    return `Content-Disposition: attachment; ${pieces.join(";")}\n\nx`
  }],
  ["100,000 encoded words", () => `Subject: ${"=?utf-8?B?w7w=?=\n ".repeat(100_000)}\n\nx`],
  ["a megabyte of addresses", () => `To: ${"Ada <ada@example.com>, ".repeat(45_000)}\n\nx`],
  ["4 megabytes of blanks for an address", () => `To: ${" ".repeat(4_000_000)}a@b.example\n\nx`],
  ["500,000 elements in each other", () => `Content-Type: text/html\n\n${"<div>".repeat(500_000)}x`],
  ["4 megabytes of paragraphs", () => `Content-Type: text/html\n\n${"<p>text</p>".repeat(360_000)}`],
  ["4 megabytes of blanks in HTML", () => `Content-Type: text/html\n\n<pre>${" ".repeat(4_000_000)}x</pre>`],
  ["4 megabytes of entities", () => `Content-Type: text/html\n\n${"&#8364;&amp".repeat(360_000)}`],
  ["30 megabytes of text", () => `Content-Type: text/plain; charset=utf-8\n\n${"\xc3\xbc lines of text\n".repeat(1_700_000)}`],
  ["a message in itself", () => "Content-Type: message/rfc822\n\n".repeat(10_000)],
  ["a megabyte of open tags", () => partsOf(1, `Content-Type: text/html\n\n${"<a href=".repeat(125_000)}`)]
]

const surviving = bombs.map(
  ([what, make]): Check<Mime> => ({
    title: `gets to an end with ${what}`,
    check: Effect.gen(function* () {
      const mime = yield* Mime

      yield* mime.parse(Stream.make(raw(make())))
    })
  })
)

const failing: Check<Mime> = {
  title: "fails as the message's bytes fail",
  check: Effect.gen(function* () {
    const mime = yield* Mime
    const broken = { _tag: "DiskBroken" } as const

    const failed = yield* Effect.flip(mime.parse(Stream.concat(Stream.make(raw("Subject: s\n")), Stream.fail(broken))))

    assert.equal(failed, broken)
  })
}

export const reading: ReadonlyArray<Check<Mime>> = [...[...headerCases, ...bodyCases, ...treeCases].map(reads), ...surviving, failing]
