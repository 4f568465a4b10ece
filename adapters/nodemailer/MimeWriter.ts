/**
 * Writes a message, one part after the other as they are pulled: the fields of
 * `Content.headers`, the tree of `Content.mime`, and nothing else. nodemailer
 * lends its encoders; its composer is left out, since it adds fields and random
 * boundaries, guesses types and encodings from the bytes, reads addresses out
 * of strings, and can open files and URLs. No code here can.
 *
 * CRLF, LF and CR in a text all are line ends and become CRLF; a message that
 * is a single text ends with one.
 */
import { Effect, Stream } from "effect"
import { encode as encodeBase64, wrap as wrapBase64 } from "nodemailer/lib/base64"
import { buildHeaderValue, encodeWord, foldLines, quoteString } from "nodemailer/lib/mime-funcs"
import { encode as encodeQuotedPrintable, wrap as wrapQuotedPrintable } from "nodemailer/lib/qp"
import type { Attachment } from "../../core/model/Attachment.ts"
import type { Content, Header, Message, MimePart } from "../../core/model/Message.ts"
import { MimeFailed } from "../../core/ports/Mime.ts"
import { isAddressField, isPlainAddress, isStructuredField, oneLine } from "./HeaderField.ts"

interface Source<E> {
  readonly attachment: Attachment
  readonly bytes: Stream.Stream<Uint8Array, E>
}

/** The bytes of a message; they fail before the first one if anything but a source is at fault. */
export const write = <E>(
  message: Message,
  content: Content,
  sources: ReadonlyArray<Source<E>>
): Stream.Stream<Uint8Array, E | MimeFailed> =>
  Stream.unwrap(
    Effect.try({
      try: () => Stream.flatMap(Stream.fromIterable(arrange(message, content, sources)), bytesOf),
      catch: (cause) => new MimeFailed({ cause })
    })
  )

// The tree

/** A piece of the message, in the order of the wire. */
type Piece<E> = string | Stream.Stream<Uint8Array, E>

const bytesOf = <E>(piece: Piece<E>): Stream.Stream<Uint8Array, E> =>
  typeof piece === "string" ? Stream.make(Buffer.from(piece)) : piece

const arrange = <E>(message: Message, content: Content, sources: ReadonlyArray<Source<E>>): ReadonlyArray<Piece<E>> => {
  const unwritten = new Map(sources.map(({ attachment, bytes }) => [attachment.id, bytes]))

  const entity = (part: MimePart, fields: ReadonlyArray<string>): ReadonlyArray<Piece<E>> => {
    const { head, body } = part.parts.length > 0 ? multipart(part) : part.attachmentId === null ? text(part) : file(part)
    return [[...fields, ...head, "", ""].join("\r\n"), ...body]
  }

  const multipart = (part: MimePart) => {
    // "=_" stands in no quoted-printable and in no base64, so no body can hold the boundary.
    const boundary = `=_${part.partId === "" ? "0" : part.partId}_${message.id}`
    const children = part.parts.flatMap((child, index) => [
      `${index === 0 ? "" : "\r\n"}--${boundary}\r\n`,
      ...entity(child, [])
    ])
    return {
      head: [field("Content-Type", `${mediaType(part)}; boundary="${boundary}"`)],
      body: [...children, `\r\n--${boundary}--\r\n`]
    }
  }

  const text = (part: MimePart) => {
    const given = part.mediaType === "text/html" ? content.html : part.mediaType === "text/plain" ? content.text : null
    if (given === null) throw new Error(`there is no body for the part ${part.mediaType}`)
    const { encoding, body, endsLine } = encodeText(given)
    return {
      head: [field("Content-Type", `${mediaType(part)}; charset=utf-8`), field("Content-Transfer-Encoding", encoding)],
      body: part === content.mime && !endsLine ? [body, "\r\n"] : [body]
    }
  }

  const file = (part: MimePart) => {
    const bytes = unwritten.get(part.attachmentId!) // text() has those without
    if (bytes === undefined) throw new Error(`attachment ${part.attachmentId} is not there, or is there twice`)
    unwritten.delete(part.attachmentId!)
    return { head: fileHead(part), body: [base64Lines(bytes)] }
  }

  const pieces = entity(content.mime, content.headers.flatMap(headerField))
  if (unwritten.size > 0) throw new Error(`attachment ${unwritten.keys().next().value} has no part`)
  return pieces
}

/** Base64 for a message/rfc822 too, against RFC 2046: its lines are not ours to know, and readers decode it. */
const fileHead = (part: MimePart): ReadonlyArray<string> => [
  field("Content-Type", mediaType(part)),
  field("Content-Transfer-Encoding", "base64"),
  ...(part.disposition === null ? [] : [field("Content-Disposition", disposition(part.disposition, part.filename))]),
  ...(part.contentId === null ? [] : [field("Content-ID", `<${contentId(part.contentId)}>`)])
]

const disposition = (value: string, name: string | null): string => {
  const filename = oneLine(name ?? "")
  return buildHeaderValue({ value, params: filename === "" ? {} : { filename } })
}

const mediaType = ({ mediaType, parts }: MimePart): string => {
  if (!/^[\w!#$%&'*+.^`{|}~-]+\/[\w!#$%&'*+.^`{|}~-]+$/.test(mediaType)) throw new Error("a media type is type/subtype")
  // A leaf of that name would be taken apart by whoever reads it.
  if (/^multipart\//i.test(mediaType) !== parts.length > 0) throw new Error(`${mediaType} is not the type of this part`)
  return mediaType
}

const contentId = (id: string): string => {
  if (!/^[!-;=?-~]{1,900}$/.test(id)) throw new Error("a content id is printable ASCII without spaces and angle brackets")
  return id
}

// Bodies

/** Characters of a text that are encoded at a time, and the rest of the line they end in. */
const sliceLength = 32 * 1024

/** Quoted-printable, or base64 where that is shorter. */
const encodeText = (given: string) => {
  const text = given.toWellFormed().replace(/\r\n|\r|\n/g, "\r\n")
  const bytes = Buffer.from(text)
  const escapes = bytes.reduce((count, byte) => (byte > 126 || byte === 61 || byte < 9 ? count + 1 : count), 0)
  if (escapes * 6 > bytes.length) return { encoding: "base64", body: base64Lines(Stream.make(bytes)), endsLine: false }
  const body = Stream.fromIterable(slices(text), { chunkSize: 1 }).pipe(
    Stream.map((slice) => Buffer.from(wrapQuotedPrintable(encodeQuotedPrintable(slice), 76)))
  )
  return { encoding: "quoted-printable", body, endsLine: text === "" || text.endsWith("\n") }
}

function* slices(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = text.indexOf("\n", start + sliceLength) + 1 || text.length
    yield text.slice(start, end)
    start = end
  }
}

/** Bytes of a full base64 line of 76 characters. */
const lineBytes = 57

/** Whole lines as soon as they are known not to be the last; the last one without a line end, however the bytes were cut. */
const base64Lines = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  Stream.mapAccum(
    bytes,
    () => Buffer.alloc(0),
    (held: Buffer, chunk) => {
      const all = Buffer.concat([held, chunk])
      const whole = Math.max(0, Math.ceil(all.length / lineBytes) - 1) * lineBytes
      return [all.subarray(whole), whole === 0 ? [] : [Buffer.from(`${base64(all.subarray(0, whole))}\r\n`)]]
    },
    { onHalt: (held) => (held.length === 0 ? [] : [Buffer.from(base64(held))]) }
  )

const base64 = (bytes: Buffer): string => wrapBase64(encodeBase64(bytes), 76)

// Header fields

const headerField = ({ name, value }: Header): ReadonlyArray<string> => {
  if (!/^[!-9;-~]{1,60}$/.test(name)) throw new Error("a header field's name is printable ASCII without a colon")
  if (/^(?:.*bcc|content-.*)$/i.test(name)) throw new Error(`${name} is no header field of the message`)
  if (value === "") return []
  if (isAddressField(name)) return [field(name, parties(value).map(writeParty).join(", "))]
  if (!isStructuredField(name)) return [field(name, writeText(oneLine(value)))]
  if (!/^[!-~]{1,900}(?: [!-~]{1,900})*$/.test(value)) throw new Error(`${name} cannot be written in ASCII`)
  return [field(name, value)]
}

const field = (name: string, value: string): string => foldLines(`${name}: ${value}`, 76)

/** Text that needs no encoding: words that fit on a line, one space between them, nothing that looks like an encoded word. */
const isPlain = (text: string): boolean => /^[!-~]{1,60}(?: [!-~]{1,60})*$/.test(text) && !text.includes("=?")

const writeText = (text: string): string => {
  if (isPlain(text)) return text
  const [q, b] = [encodeWord(text, "Q", 52), encodeWord(text, "B", 52)]
  return q.length <= b.length ? q : b
}

interface Party {
  readonly name: string
  readonly address: string
}

const writeParty = ({ name, address }: Party): string =>
  name === "" ? address : `${isPlain(name) ? quoteString(name) : writeText(name)} <${address}>`

/** The core's own spelling of an address list, and no other: `"name" <local@domain>, local@domain`. */
const partyPattern = /(?:"((?:[^"\\]|\\[^])*)" <([^<>]+)>|([^"<>,]+))(?:, |$)/y

const parties = (value: string): ReadonlyArray<Party> => {
  const found: Array<Party> = []
  partyPattern.lastIndex = 0
  while (partyPattern.lastIndex < value.length) {
    const match = partyPattern.exec(value)
    if (match === null) throw new Error("an address list is written as the core writes it")
    const address = match[2] ?? match[3]!
    if (!isPlainAddress(address)) throw new Error("an address is a dot-atom at a domain in A-labels")
    // Some readers would decode it, and reach somebody else.
    if (/=\?.*\?=/.test(address)) throw new Error("an address looks like an encoded word")
    found.push({ name: oneLine((match[1] ?? "").replace(/\\([^])/g, "$1")), address })
  }
  return found
}
