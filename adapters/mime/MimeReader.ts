/**
 * Reads a message within bounds, whatever somebody sent: the tree is split and
 * decoded here, in time linear in its bytes, and postal-mime says what the
 * header of each part and the characters of each text mean. It is not given
 * whole messages: a body of many short lines would take it minutes and
 * gigabytes, and its attachments are not always byte for byte those sent.
 *
 * Text comes with LF line ends, all inline texts of a message in one. A message
 * inside a message is an attachment: its text is not the text of this one.
 */
import { Effect, Stream } from "effect"
import PostalMime, { addressParser, decodeWords } from "postal-mime"
import type { Header, MimePart } from "../../core/model/Message.ts"
import type { Head, Mentioned, ParsedAttachment, ParsedMessage } from "../../core/model/ParsedMessage.ts"
import { readDate } from "./DateField.ts"
import { isAddressField, isPlainAddress, isStructuredField, oneLine, quoted } from "./HeaderField.ts"
import { readParameters } from "./Parameters.ts"

export const read = <E>(bytes: Stream.Stream<Uint8Array, E>): Effect.Effect<ParsedMessage, E> =>
  Effect.flatMap(collect(bytes), ({ raw, isWhole }) => parse(raw, isWhole ? [] : ["too_long"]))

export const readHead = (start: Uint8Array): Effect.Effect<Head> =>
  Effect.sync(() => {
    const defects = new Set<string>()
    const raw = Buffer.from(start.buffer, start.byteOffset, Math.min(start.byteLength, headBytesMax))
    return headOf(fieldsOf(raw.subarray(0, headEndOf(raw))), defects)
  })

// The tree

/** What is behind this is not read. */
const sizeBytesMax = 64 * 1024 * 1024
const headBytesMax = 256 * 1024
const partsMax = 1_000
const depthMax = 20
/** RFC 2046 allows 70. */
const boundaryLengthMax = 200

const collect = <E>(bytes: Stream.Stream<Uint8Array, E>) => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  return bytes.pipe(
    Stream.takeUntil((chunk) => (size += chunk.length) > sizeBytesMax),
    Stream.runForEach((chunk) => Effect.sync(() => chunks.push(chunk))),
    Effect.map(() => ({ raw: Buffer.concat(chunks).subarray(0, sizeBytesMax), isWhole: size <= sizeBytesMax }))
  )
}

const parse = Effect.fnUntraced(function* (raw: Buffer, found: ReadonlyArray<string>) {
  const defects = new Set(found)
  const { fields, tree } = split(raw, defects)
  const texts: Array<string> = []
  const htmls: Array<string> = []
  const attachments: Array<ParsedAttachment> = []
  const read = Effect.fnUntraced(function* (leaf: Leaf, partId: string) {
    const { attachments: [attachment] } = yield* understand(leaf, "")
    const bytes = decodeTransfer(leaf)
    const { params } = readParameters(valueOf(leaf.fields, "content-type") ?? "")
    const part: MimePart = {
      partId,
      mediaType: oneLine(leaf.mediaType),
      charset: leaf.mediaType.startsWith("text/") ? (params.get("charset")?.toLowerCase() ?? null) : null,
      disposition: null,
      contentId: null,
      filename: null,
      sizeBytes: bytes.length,
      attachmentId: null,
      parts: []
    }
    if (attachment !== undefined) {
      const file = toAttachment(attachment, partId, leaf.mediaType, bytes)
      attachments.push(file)
      const { bytes: _, ...about } = file
      return { ...part, ...about }
    }
    const { text, html } = yield* understand(leaf, bytes.toString("base64"))
    if (text !== undefined) texts.push(lineFeeds(text))
    if (html !== undefined) htmls.push(lineFeeds(html))
    return part
  })
  const number = (entity: Entity, partId: string): Effect.Effect<MimePart> =>
    entity.parts === null
      ? read(entity, partId === "" ? "1" : partId)
      : Effect.map(
          Effect.forEach(entity.parts, (part, index) => number(part, partId === "" ? `${index + 1}` : `${partId}.${index + 1}`)),
          (parts) => ({
            partId,
            mediaType: oneLine(entity.mediaType),
            charset: null,
            disposition: null,
            contentId: null,
            filename: null,
            sizeBytes: 0,
            attachmentId: null,
            parts
          })
        )
  const structure = yield* number(tree, "")
  const parsed: ParsedMessage = {
    ...headOf(fields, defects),
    text: texts.length === 0 ? null : texts.join("\n"),
    html: htmls.length === 0 ? null : htmls.join("\n"),
    structure,
    attachments
  }
  return parsed
})

const headOf = (fields: ReadonlyArray<Header>, defects: Set<string>): Head => {
  const value = (name: string) => Buffer.from(valueOf(fields, name) ?? "", "latin1").toString()
  const listed = (name: string): ReadonlyArray<Mentioned> =>
    addressParser(value(name), { flatten: true }).flatMap(({ name, address }) =>
      address === undefined || address === "" ? [] : [{ name: oneLine(name), address: oneLine(address) }]
    )
  const ids = (name: string): ReadonlyArray<string> => value(name).match(/<[^<>\s]+>/g) ?? []
  const { date, isProper } = readDate(value("date"))
  if (!isProper) defects.add(value("date") === "" ? "missing_date" : "bad_date")
  const from = listed("from")[0] ?? null
  if (from === null) defects.add("missing_from")
  return {
    headers: fields.map(readField),
    from,
    replyTo: listed("reply-to"),
    to: listed("to"),
    cc: listed("cc"),
    subject: oneLine(decodeWords(value("subject"))),
    date,
    messageId: ids("message-id")[0] ?? null,
    inReplyTo: ids("in-reply-to")[0] ?? null,
    references: ids("references"),
    defects: [...defects]
  }
}

/** A header's fields, unfolded, each character a byte; and a body as it came. */
interface Entity {
  readonly mediaType: string
  readonly fields: ReadonlyArray<Header>
  readonly body: Buffer
  readonly parts: ReadonlyArray<Entity> | null
}

type Leaf = Pick<Entity, "fields" | "body" | "mediaType">

const split = (raw: Buffer, defects: Set<string>): { readonly fields: ReadonlyArray<Header>; readonly tree: Entity } => {
  let headBytes = 0
  let count = 0

  const visit = (bytes: Buffer, depth: number): { readonly fields: ReadonlyArray<Header>; readonly tree: Entity } => {
    count += 1
    const headEnd = headEndOf(bytes)
    const kept = Math.max(0, Math.min(headEnd, headBytesMax - headBytes))
    headBytes += headEnd
    if (kept < headEnd) defects.add("truncated_header")
    const fields = fieldsOf(bytes.subarray(0, kept))
    const body = bytes.subarray(bytes[headEnd] === 10 ? headEnd + 1 : headEnd + 2)
    const type = readParameters(valueOf(fields, "content-type") ?? "text/plain")
    const mediaType = type.value.toLowerCase()
    const boundary = type.params.get("boundary") ?? ""
    const leaf = (mediaType: string, fields: ReadonlyArray<Header>): Entity => ({ mediaType, fields, body, parts: null })
    if (!mediaType.startsWith("multipart/")) {
      return { fields, tree: leaf(mediaType, isNamedText(mediaType, fields) ? [asFile, ...fields] : fields) }
    }
    if (boundary === "" || boundary.length > boundaryLengthMax) {
      defects.add("missing_boundary")
      return { fields, tree: leaf("text/plain", [asText, ...fields]) }
    }
    const pieces = splitParts(body, boundary)
    const defect = depth >= depthMax ? "too_deep" : count + pieces.length > partsMax ? "too_many_parts" : pieces.length === 0 ? "empty_multipart" : null
    if (defect !== null) {
      defects.add(defect)
      return { fields, tree: leaf("application/octet-stream", [asFile, ...fields]) }
    }
    return { fields, tree: { mediaType, fields, body, parts: pieces.map((piece) => visit(piece, depth + 1).tree) } }
  }

  return visit(raw, 0)
}

// Of two fields with one name the first counts.
const asText: Header = { name: "Content-Type", value: "text/plain" }
const asFile: Header = { name: "Content-Type", value: "application/octet-stream" }
const asBase64: Header = { name: "Content-Transfer-Encoding", value: "base64" }

/** Some senders mark the text files that they attach as inline. */
const isNamedText = (mediaType: string, fields: ReadonlyArray<Header>): boolean =>
  /^text\/(?:plain|html)$/.test(mediaType) && readParameters(valueOf(fields, "content-disposition") ?? "").params.has("filename")

/** Where the first empty line begins; the end, if there is none. */
const headEndOf = (bytes: Buffer): number => {
  for (let start = 0; start < bytes.length; start = lineEnd(bytes, start)) {
    if (bytes[start] === 10 || (bytes[start] === 13 && bytes[start + 1] === 10)) return start
  }
  return bytes.length
}

/** Just behind the line feed that ends the line. */
const lineEnd = (bytes: Buffer, start: number): number => bytes.indexOf(10, start) + 1 || bytes.length

const fieldsOf = (head: Buffer): ReadonlyArray<Header> =>
  head
    .toString("latin1")
    .replace(/\r?\n(?=[ \t])/g, "")
    .split(/\r?\n/)
    .flatMap((line) => {
      const match = /^([!-9;-~]+)[ \t]*:[ \t]*(.*)$/s.exec(line)
      return match === null ? [] : [{ name: match[1]!, value: match[2]! }]
    })

/** Of the first field of that name. */
const valueOf = (fields: ReadonlyArray<Header>, name: string): string | undefined =>
  fields.find((field) => field.name.toLowerCase() === name)?.value

/** The line end before a delimiter is part of it (RFC 2046, 5.1.1). What stands before the first and behind the last is dropped. */
const splitParts = (body: Buffer, boundary: string): ReadonlyArray<Buffer> => {
  const delimiter = Buffer.from(`--${boundary}`, "latin1")
  const parts: Array<Buffer> = []
  let start = -1
  for (let at = body.indexOf(delimiter); at >= 0; at = body.indexOf(delimiter, at + 1)) {
    if (at > 0 && body[at - 1] !== 10) continue
    const end = lineEnd(body, at)
    const rest = /^(--)?[ \t]*\r?\n?$/.exec(body.toString("latin1", at + delimiter.length, end))
    if (rest === null) continue
    if (start >= 0) parts.push(body.subarray(start, Math.max(start, body[at - 2] === 13 ? at - 2 : at - 1)))
    start = rest[1] === undefined ? end : -1
    if (start < 0 || parts.length > partsMax) break
  }
  return start < 0 ? parts : [...parts, body.subarray(start)]
}

// Bodies

const decodeTransfer = ({ fields, body }: Leaf): Buffer => {
  const { value } = readParameters(valueOf(fields, "content-transfer-encoding") ?? "")
  const encoding = /[\w-]+/.exec(value)?.[0].toLowerCase()
  return encoding === "base64" ? decodeBase64(body) : encoding === "quoted-printable" ? decodeQuotedPrintable(body) : body
}

const sextets = new Int8Array(256).fill(-1)
for (const [value, character] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
  sextets[character.charCodeAt(0)] = value
}

/** Skips what is not base64, and begins anew behind each padding, since some senders pad every line. */
const decodeBase64 = (body: Buffer): Buffer => {
  const decoded = Buffer.alloc(Math.ceil((body.length * 3) / 4))
  let length = 0
  let bits = 0
  let held = 0
  for (const byte of body) {
    if (byte === 61) bits = 0
    const sextet = sextets[byte]!
    if (sextet < 0) continue
    held = (held << 6) | sextet
    bits += 6
    if (bits >= 8) {
      bits -= 8
      decoded[length++] = held >> bits
    }
  }
  return decoded.subarray(0, length)
}

/** An escape that is none stays as it is; white space at the end of a line was added on the way (RFC 2045, 6.7). */
const decodeQuotedPrintable = (body: Buffer): Buffer => {
  const decoded = Buffer.alloc(body.length)
  let length = 0
  /** Where white space would begin if the line ended here. */
  let ink = 0
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]!
    if (byte === 61) {
      const high = hexDigit(body[at + 1])
      const low = hexDigit(body[at + 2])
      const soft = softBreakEnd(body, at + 1)
      if (high >= 0 && low >= 0) {
        decoded[length++] = high * 16 + low
        at += 2
      } else if (soft >= 0) at = soft - 1
      else decoded[length++] = byte
      ink = length
      continue
    }
    if (byte === 10 || (byte === 13 && body[at + 1] === 10)) length = ink
    decoded[length++] = byte
    if (byte !== 32 && byte !== 9) ink = length
  }
  return decoded.subarray(0, length)
}

const hexDigit = (byte: number | undefined): number => {
  if (byte === undefined) return -1
  if (byte >= 48 && byte <= 57) return byte - 48
  const upper = byte & 0xdf
  return upper >= 65 && upper <= 70 ? upper - 55 : -1
}

/** Behind a soft line break whose `=` stands before `at`; -1 if there is none. */
const softBreakEnd = (body: Buffer, at: number): number => {
  let end = at
  while (body[end] === 32 || body[end] === 9) end += 1
  if (body[end] === 13) end += 1
  return body[end] === 10 ? end + 1 : end >= body.length ? body.length : -1
}

// What fields and characters mean

/** A part without parts, as postal-mime understands its header. */
const understand = ({ fields }: Leaf, body: string) => {
  const about = [asBase64, ...fields.filter(({ name }) => /^content-/i.test(name))]
  const head = about.map(({ name, value }) => `${name}: ${value}\r\n`).join("")
  return Effect.promise(() => PostalMime.parse(Buffer.from(`${head}\r\n${body}`, "latin1"), { forceRfc822Attachments: true }))
}

type Email = Awaited<ReturnType<typeof PostalMime.parse>>

const toAttachment = (of: Email["attachments"][number], partId: string, mediaType: string, bytes: Buffer): ParsedAttachment => ({
  partId,
  filename: oneLine(of.filename ?? "") || null,
  mediaType: oneLine(mediaType),
  disposition: of.disposition === null ? null : of.disposition === "inline" ? "inline" : "attachment",
  contentId: of.contentId === undefined ? null : oneLine(of.contentId).replace(/^<(.*)>$/, "$1"),
  bytes: new Uint8Array(bytes)
})

const lineFeeds = (text: string): string => text.replace(/\r\n?/g, "\n")

const readField = ({ name, value }: Header): Header => {
  const text = Buffer.from(value, "latin1").toString()
  return { name, value: isAddressField(name) ? readParties(text) : oneLine(isStructuredField(name) ? text : decodeWords(text)) }
}

/** As the core writes them. A list with any but plain addresses stays undecoded: decoding could change whom it names. */
const readParties = (value: string): string => {
  const found = addressParser(value)
  return found.every(({ address }) => address !== undefined && isPlainAddress(address) && value.includes(address))
    ? found.map(({ name, address }) => (name === "" ? address : `${quoted(oneLine(name))} <${address}>`)).join(", ")
    : oneLine(value)
}
