/**
 * Reads a message, whatever somebody sent, in time linear in its bytes and in
 * little more memory than they take: the tree is split, bodies are decoded in
 * their place, and attachments are views of the message's own bytes. It needs
 * nothing but those bytes, so that it can run on any thread.
 *
 * Text comes with LF line ends, all inline texts of a message in one. A message
 * inside a message is an attachment: its text is not the text of this one.
 */
import { emptyPart, type MimePart } from "../../core/model/MimePart.ts"
import type { Head, ParsedAttachment, ParsedMessage } from "../../core/model/ParsedMessage.ts"
import { decode } from "./Charset.ts"
import { Defects, type Word } from "./Defects.ts"
import { bytesOf, oneLine } from "./HeaderField.ts"
import { headBytesMax, headOf, readFields, valueOf, wholeMessage } from "./HeaderReader.ts"
import { charsetInHtml, shownText } from "./HtmlText.ts"
import { type Part, readTree } from "./MimeTree.ts"
import { readParameters } from "./Parameters.ts"
import { type Encoding, unwrap } from "./TransferDecoding.ts"

/** Characters, as the core limits them, which a test holds them to: a worker thread starts sooner without all that `Limits` needs. */
export const lengthsMax = { text: 1_000_000, html: 2_000_000, filename: 255, mediaType: 120 }

/** Bytes of all texts of a message, and of all its HTML, that are decoded. */
const textBytesMax = 16 * 1024 * 1024
/** Characters of HTML that a text is made from. */
const shownLengthMax = 1_000_000

/** The head that a message beginning with these bytes has. */
export const readHead = (start: Uint8Array): Head => {
  const defects = new Defects()
  const bytes = withLineFeeds(withoutMark(Buffer.from(start.subarray(0, headBytesMax + 1)), defects))
  const { fields } = readFields(bytes, 0, wholeMessage(bytes), defects)
  return { ...headOf(fields, defects), defects: defects.list() }
}

/** The message; its bytes are written over. `isCut`: there were more of them. */
export const readMessage = (raw: Uint8Array, isCut: boolean): ParsedMessage => {
  const defects = new Defects()
  const bytes = withoutMark(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength), defects)
  if (isCut) defects.add("too_long")
  noteLines(bytes, defects)
  withLineFeeds(bytes)
  const tree = readTree(bytes, defects)
  const head = headOf(tree.fields, defects)
  const reading = new Reading(defects)
  const structure = reading.part(tree, "", { isBody: true })
  return { ...head, ...reading.bodies(), structure, attachments: reading.attachments, defects: defects.list() }
}

/** Bytes of the head of a message that was given up: what cost a thread its time is not to cost this one the same again. */
const unreadHeadBytesMax = 8 * 1024

/** A message that was not read but for the beginning of its head: one opaque part. */
export const unread = (bytes: Uint8Array, isCut: boolean): ParsedMessage => {
  const head = readHead(bytes.subarray(0, unreadHeadBytesMax))
  const about = { partId: "1", filename: null, mediaType: "application/octet-stream", disposition: null, contentId: null }
  return {
    ...head,
    text: null,
    html: null,
    structure: { ...about, charset: null, sizeBytes: bytes.length, attachmentId: null, parts: [] },
    attachments: [{ ...about, parameters: [], bytes }],
    defects: [...head.defects, ...(isCut ? ["too_long"] : []), "too_costly"]
  }
}

/** An editor that saved the message may have put a byte order mark before its first field. */
const withoutMark = (bytes: Buffer, defects: Defects): Buffer => {
  if (bytes[0] !== 0xef || bytes[1] !== 0xbb || bytes[2] !== 0xbf) return bytes
  defects.add("malformed_header")
  return bytes.subarray(3)
}

/** Some old systems end lines with CR alone. */
const withLineFeeds = (bytes: Buffer): Buffer => {
  if (bytes.includes(10)) return bytes
  for (let at = bytes.indexOf(13); at >= 0; at = bytes.indexOf(13, at + 1)) bytes[at] = 10
  return bytes
}

const lineLengthMax = 998

/** LF alone is how files keep lines, if it ends all of them. */
const noteLines = (bytes: Buffer, defects: Defects): void => {
  let start = 0
  let feeds = 0
  let pairs = 0
  let isBare = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte > 13) continue
    if (byte === 10) {
      const isPair = bytes[at - 1] === 13
      feeds += 1
      if (isPair) pairs += 1
      if (at - start > (isPair ? lineLengthMax + 1 : lineLengthMax)) defects.add("long_line")
      start = at + 1
    } else if (byte === 13) isBare ||= bytes[at + 1] !== 10
    else if (byte === 0) defects.add("nul")
  }
  if (bytes.length - start > lineLengthMax) defects.add("long_line")
  if (isBare || (pairs > 0 && pairs < feeds)) defects.add("bare_line_ends")
}

/** The texts of a message, or its HTML, and how much more there may be; a part that has more is a file as well. */
interface Shown {
  readonly texts: Array<string>
  bytesLeft: number
  charactersLeft: number
}

const noneShown = (lengthMax: number): Shown => ({ texts: [], bytesLeft: textBytesMax, charactersLeft: lengthMax })

/** Where a part stands. */
interface Place {
  /** Where a reader expects the text of the message rather than a file. */
  readonly isBody: boolean
}

class Reading {
  readonly attachments: Array<ParsedAttachment> = []
  readonly #defects: Defects
  readonly #text = noneShown(lengthsMax.text)
  readonly #html = noneShown(lengthsMax.html)

  constructor(defects: Defects) {
    this.#defects = defects
  }

  bodies(): Pick<ParsedMessage, "text" | "html"> {
    const html = joined(this.#html)
    const text = joined(this.#text)
    // Some senders put an empty text beside their page.
    if (html === null || (text !== null && /\S/.test(text))) return { text, html }
    return { text: shownText(html.slice(0, shownLengthMax).toWellFormed()) || text, html }
  }

  /** `path` as IMAP numbers parts; empty for the root. */
  part(part: Part, path: string, place: Place): MimePart {
    const { parts, mediaType } = part
    if (parts === null || parts.length === 0) return this.#leaf(part, path === "" ? "1" : path, place)
    const children = parts.map((child, index) =>
      this.part(child, path === "" ? String(index + 1) : `${path}.${index + 1}`, {
        isBody: place.isBody && (index === 0 || mediaType === "multipart/alternative")
      })
    )
    return { ...emptyPart, partId: path, mediaType, parts: children }
  }

  #leaf(part: Part, partId: string, place: Place): MimePart {
    if (part.parts !== null) return { ...emptyPart, partId, mediaType: part.mediaType }
    const bytes = this.#decoded(part)
    const charset = part.type.params.get("charset") ?? null
    const about = { partId, mediaType: part.mediaType, ...this.#about(part) }
    const isText = this.#isText(part, about, place)
    const isWhole = isText && this.#takeText(part, bytes, charset)
    if (!isWhole) this.attachments.push({ ...about, parameters: part.isOpaque ? [] : written(part.type.params), bytes })
    return { ...emptyPart, ...about, charset: charset === null ? null : oneLine(charset).toLowerCase() || null, sizeBytes: bytes.length }
  }

  #decoded({ encoding, body }: Part): Uint8Array {
    const { bytes, isProper } = unwrap(encoding, body)
    this.#defects.addUnless(isProper, badEncodings[encoding])
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  #about({ fields, type, isOpaque }: Part): Pick<MimePart, "disposition" | "filename" | "contentId"> {
    if (isOpaque) return { disposition: null, filename: null, contentId: null }
    const field = valueOf(fields, "content-disposition")
    const parted = field?.replace(unparted, "$1; ")
    const { value, params, isProper } = readParameters(parted ?? "")
    this.#defects.addUnless(isProper && parted === field, "bad_parameter")
    const kind = value.trim().toLowerCase()
    const contentId = oneLine(Buffer.from(bytesOf(valueOf(fields, "content-id") ?? "")).toString()).replace(/^<(.*)>$/, "$1").trim()
    return {
      disposition: field === undefined || kind === "" ? null : kind === "inline" ? "inline" : "attachment",
      filename: cleanName(params.get("filename") ?? params.get("name") ?? type.params.get("name") ?? ""),
      contentId: contentId === "" ? null : contentId
    }
  }

  /** Some senders mark the text files that they attach as inline. */
  #isText({ mediaType, fields }: Part, { disposition, filename }: Pick<MimePart, "disposition" | "filename">, { isBody }: Place): boolean {
    if (!/^text\/(?:plain|html)$/.test(mediaType) || disposition === "attachment") return false
    if (filename === null) return true
    return isBody && !/\bfilename/i.test(valueOf(fields, "content-disposition") ?? "")
  }

  /** Whether all of it is taken. */
  #takeText({ mediaType }: Part, bytes: Uint8Array, charset: string | null): boolean {
    const isHtml = mediaType === "text/html"
    const shown = isHtml ? this.#html : this.#text
    const start = bytes.length <= shown.bytesLeft ? bytes : bytes.subarray(0, bytes.subarray(0, shown.bytesLeft).lastIndexOf(10) + 1)
    shown.bytesLeft -= start.length
    const { text, problem } = decode(start, charset ?? (isHtml ? charsetInHtml(start) : null))
    if (problem !== null) this.#defects.add(problem)
    if (show(lineFeeds(text), shown) && start.length === bytes.length) return true
    this.#defects.add("too_long")
    return false
  }
}

const joined = ({ texts }: Shown): string | null => (texts.length === 0 ? null : texts.join("\n"))

/** Whether all of it is. The core cuts what is longer. */
const show = (lines: string, shown: Shown): boolean => {
  if (lines === "") return true
  const length = charactersIn(lines) + (shown.texts.length === 0 ? 0 : 1) // with the line feed before it
  if (shown.charactersLeft > 0) shown.texts.push(lines)
  shown.charactersLeft -= length
  return shown.charactersLeft >= 0
}

/** Of well-formed text. */
const charactersIn = (text: string): number => {
  let count = text.length
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xdc00) count -= 1
  return count
}

const badEncodings: Readonly<Record<Encoding, Word>> = {
  none: "unknown_encoding",
  base64: "bad_base64",
  "quoted-printable": "bad_quoted_printable",
  uuencode: "bad_uuencode"
}

/** A CR too many is no line end of its own. */
const lineFeeds = (text: string): string =>
  text.replace(/\r+\n?/g, (ends) => (ends.endsWith("\n") ? "\n" : "\n".repeat(ends.length))).toWellFormed()

/** Some senders leave out the first semicolon, and some the kind before it too. */
const unparted = /^\s*(?:([\w-]+)\s+(?=[\w*-]+\s*=)|(?=(?:file)?name[\d*]*\s*=))/i

/** Of the parameters of a file's type those that say what is in it, as they can be written again; as many as an upload can have. */
const written = (params: ReadonlyMap<string, string>): ReadonlyArray<string> => {
  let length = 0
  return [...params].flatMap(([name, value]) => {
    const isToken = /^[\w!#$%&'*+.^`{|}~-]+$/.test(value)
    const parameter = `${name}=${isToken ? value : `"${value}"`}`
    const isFit = /^[\w!#$&+.^`{|}~-]+$/.test(name) && /^[ !#-[\]-~]*$/.test(value) && !value.includes("=?")
    if (!isFit || /^(?:name|filename|boundary)$/.test(name) || length + parameter.length > lengthsMax.mediaType) return []
    length += parameter.length
    return [parameter]
  })
}

/** The name in a path, of characters that can be seen; null if nothing is left. */
const cleanName = (name: string): string | null => {
  const last = oneLine(name.replace(/^.*[/\\]/s, "").replace(/\p{Bidi_Control}/gu, ""))
  const characters = Array.from(last)
  const extension = /\.[^.]{1,20}$/.exec(last)?.[0] ?? ""
  const short = characters.length <= lengthsMax.filename ? last : characters.slice(0, lengthsMax.filename - Array.from(extension).length).join("") + extension
  return short === "" || short === "." || short === ".." ? null : short
}
