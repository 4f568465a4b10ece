/**
 * Splits a message into its parts (RFC 2046, 5.1) in one pass over its lines:
 * each line that could be a delimiter is compared with the boundaries of all
 * multiparts that are open, so that an outer one ends what an inner one left
 * open, and the depth of a tree costs nothing.
 *
 * Beyond a bound nothing is split any more: what is left is one opaque part.
 */
import type { Defects } from "./Defects.ts"
import { type Field, headBytesMax, noteRepeats, readFields, valueOf, wholeMessage } from "./HeaderReader.ts"
import { type Parameters, readParameters } from "./Parameters.ts"
import { type Encoding, unwrap } from "./TransferDecoding.ts"

export interface Part {
  readonly fields: ReadonlyArray<Field>
  /** In lower case; `text/plain` if none is given, `application/octet-stream` if it is opaque. */
  readonly mediaType: string
  readonly type: Parameters
  /** The number of the encoding that it is wrapped in. */
  readonly encoding: Encoding
  /** Of a part without parts, as it came; it is decoded in place. */
  readonly body: Buffer
  /** Null if it is no multipart, or cannot be split. */
  readonly parts: ReadonlyArray<Part> | null
  readonly isOpaque: boolean
}

/** As large hosts have it. Each part may be an attachment, with a blob, a row and a scan of its own, however few bytes it takes the sender. */
export const partsMax = 250
export const depthMax = 50
/** Bytes of header that are read of all parts together, beside the message's own. */
const partHeadBytesMax = 1024 * 1024
/** RFC 2046 allows 70, and a line has no more. */
const boundaryLengthMax = 990

export const readTree = (bytes: Buffer, defects: Defects): Part => new Tree(bytes, defects, { parts: 0, headBytes: 0 }).root()

/** A line that ends a part. */
interface Delimiter {
  /** Of the multipart whose boundary it is, from the outside. */
  readonly level: number
  readonly isClosing: boolean
  /** Where its line begins; the line end before it is part of it. */
  readonly start: number
  readonly next: number
}

interface Counts {
  parts: number
  headBytes: number
}

class Tree {
  readonly #bytes: Buffer
  readonly #defects: Defects
  readonly #counts: Counts
  /** Levels at which each boundary is open, innermost last. */
  readonly #open = new Map<string, Array<number>>()
  /** How many open boundaries begin with a byte. */
  readonly #beginnings = new Uint16Array(256)
  #level = 0

  constructor(bytes: Buffer, defects: Defects, counts: Counts) {
    this.#bytes = bytes
    this.#defects = defects
    this.#counts = counts
  }

  root(): Part {
    return this.#entity(0, 0, null).part
  }

  /** The part that begins here, and the delimiter that ends it; null at the end of all. */
  #entity(start: number, depth: number, parentType: string | null): { readonly part: Part; readonly end: Delimiter | null } {
    this.#counts.parts += 1
    if (this.#counts.parts > partsMax) return this.#rest(start)
    const { fields, bodyStart } = this.#header(start, depth === 0)
    const type = readParameters(repaired(valueOf(fields, "content-type") ?? ""))
    const mediaType = this.#mediaType(fields, type, parentType)
    const encoding = this.#encoding(fields)
    const about = { fields, mediaType, type, encoding, parts: null, isOpaque: false }
    if (mediaType.startsWith("multipart/")) {
      if (depth < depthMax) return this.#multipart(about, bodyStart, depth)
      this.#defects.add("too_deep")
      const { body, end } = this.#leaf(bodyStart)
      return { part: { ...about, mediaType: opaque, body, isOpaque: true }, end }
    }
    const { body, end } = this.#leaf(bodyStart)
    return { part: { ...about, body }, end }
  }

  #header(start: number, isRoot: boolean) {
    if (isRoot) return readFields(this.#bytes, start, wholeMessage(this.#bytes), this.#defects)
    const header = readFields(
      this.#bytes,
      start,
      {
        isDelimiter: (at) => this.#delimiterAt(at) !== null,
        endFrom: (at) => this.#next(at)?.start ?? this.#bytes.length,
        bytesMax: Math.max(0, Math.min(headBytesMax, partHeadBytesMax - this.#counts.headBytes)),
        isRoot: false
      },
      this.#defects
    )
    this.#counts.headBytes += Math.min(headBytesMax, header.bodyStart - start)
    noteRepeats(header.fields, this.#defects)
    return header
  }

  #rest(start: number) {
    this.#defects.add("too_many_parts")
    const body = this.#bytes.subarray(start)
    const part: Part = { fields: [], mediaType: opaque, type: readParameters(""), encoding: "none", body, parts: null, isOpaque: true }
    return { part, end: null }
  }

  #leaf(bodyStart: number): { readonly body: Buffer; readonly end: Delimiter | null } {
    const end = this.#next(bodyStart)
    return { body: this.#bytes.subarray(bodyStart, this.#bodyEnd(bodyStart, end)), end }
  }

  #bodyEnd(bodyStart: number, end: Delimiter | null): number {
    if (end === null) return this.#bytes.length
    const feed = end.start - 1
    return Math.max(bodyStart, this.#bytes[feed - 1] === 13 ? feed - 1 : feed)
  }

  #multipart(about: Omit<Part, "body">, bodyStart: number, depth: number): { readonly part: Part; readonly end: Delimiter | null } {
    // Transport may drop white space at the end of a line.
    const boundary = (about.type.params.get("boundary") ?? "").trimEnd()
    const isBounded = boundary !== "" && boundary.length <= boundaryLengthMax
    const parts: Array<Part> = []
    let isClosed = false
    const level = this.#level + 1
    if (isBounded) this.#begin(boundary)
    let end = this.#next(bodyStart)
    // Without a boundary of its own the level is nobody's.
    while (end?.level === level && !isClosed) {
      if (end.isClosing) {
        isClosed = true
        this.#end(boundary)
        end = this.#next(end.next)
      } else {
        const child = this.#entity(end.next, depth + 1, about.mediaType)
        parts.push(child.part)
        end = child.end
      }
    }
    if (isBounded && !isClosed) this.#end(boundary)
    const body = this.#bytes.subarray(bodyStart, this.#bodyEnd(bodyStart, end))
    if (about.encoding !== "none") this.#defects.add("encoded_multipart")
    if (parts.length > 0) {
      this.#defects.addUnless(isClosed, "unclosed_multipart")
      return { part: { ...about, encoding: "none", body: empty, parts }, end }
    }
    return { part: isClosed ? this.#without(about) : this.#unsplit(about, body, isBounded, depth), end }
  }

  #without(about: Omit<Part, "body">): Part {
    this.#defects.add("empty_multipart")
    return { ...about, encoding: "none", body: empty, parts: [] }
  }

  /** A multipart in which its boundary does not occur: empty, encoded as a whole, which it must not be, or no multipart. */
  #unsplit(about: Omit<Part, "body">, body: Buffer, isBounded: boolean, depth: number): Part {
    if (!isBounded) this.#defects.add("missing_boundary")
    else if (body.every((byte) => byte <= 32)) return this.#without(about)
    else if (about.encoding !== "none") {
      const { bytes } = unwrap(about.encoding, body)
      const decoded = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      return new Tree(decoded, this.#defects, this.#counts).#multipart({ ...about, encoding: "none" }, 0, depth).part
    } else this.#defects.add("missing_boundary")
    return { ...about, mediaType: "text/plain", body }
  }

  // Delimiters

  #begin(boundary: string): void {
    this.#level += 1
    const levels = this.#open.get(boundary)
    if (levels === undefined) this.#open.set(boundary, [this.#level])
    else levels.push(this.#level)
    this.#beginnings[boundary.charCodeAt(0) & 255]! += 1
  }

  /** Levels end from the inside. */
  #end(boundary: string): void {
    this.#level -= 1
    const levels = this.#open.get(boundary)!
    levels.pop()
    if (levels.length === 0) this.#open.delete(boundary)
    this.#beginnings[boundary.charCodeAt(0) & 255]! -= 1
  }

  /** The first delimiter at or behind the beginning of a line. */
  #next(lineStart: number): Delimiter | null {
    if (this.#level === 0) return null
    for (let at = lineStart; at < this.#bytes.length; ) {
      const found = this.#delimiterAt(at)
      if (found !== null) return found
      const behind = this.#bytes.indexOf(lineHyphens, at)
      if (behind < 0) return null
      at = behind + 1
    }
    return null
  }

  #delimiterAt(at: number): Delimiter | null {
    const bytes = this.#bytes
    if (bytes[at] !== 45 || bytes[at + 1] !== 45 || this.#beginnings[bytes[at + 2] ?? 0] === 0) return null
    const window = bytes.subarray(at + 2, at + 2 + boundaryLengthMax + 20)
    const feed = window.indexOf(10)
    if (feed < 0 && at + 2 + window.length < bytes.length) return null
    const line = (feed < 0 ? window : window.subarray(0, feed)).toString("latin1").trimEnd()
    const next = feed < 0 ? bytes.length : at + 2 + feed + 1
    const opening = this.#open.get(line)?.at(-1) ?? 0
    const closing = line.endsWith("--") ? (this.#open.get(line.slice(0, -2).trimEnd())?.at(-1) ?? 0) : 0
    const level = Math.max(opening, closing)
    return level === 0 ? null : { level, isClosing: closing > opening, start: at, next }
  }

  // What the header says of the body

  #mediaType(fields: ReadonlyArray<Field>, type: Parameters, parentType: string | null): string {
    if (valueOf(fields, "content-type") === undefined) return parentType === "multipart/digest" ? "message/rfc822" : "text/plain"
    this.#defects.addUnless(type.isProper, "bad_parameter")
    const value = type.value.toLowerCase()
    if (value.length <= 120 && /^[\w!#$%&'*+.^`{|}~-]+\/[\w!#$%&'*+.^`{|}~-]+$/.test(value)) return value
    this.#defects.add("bad_media_type")
    const isFile = type.params.has("name") || valueOf(fields, "content-disposition") !== undefined
    return isFile ? opaque : "text/plain" // RFC 2045, 5.2
  }

  #encoding(fields: ReadonlyArray<Field>): Encoding {
    const { value } = readParameters(valueOf(fields, "content-transfer-encoding") ?? "7bit")
    const name = value.toLowerCase().replace(/["'\s_.-]/g, "")
    if (name === "base64") return "base64"
    if (name === "quotedprintable") return "quoted-printable"
    if (/^x?uu(?:e(?:ncoded?)?)?$/.test(name)) return "uuencode"
    this.#defects.addUnless(/^(?:7bits?|8bits?|binary|)$/.test(name), "unknown_encoding")
    return "none"
  }
}

const opaque = "application/octet-stream"
const empty = Buffer.alloc(0)
const lineHyphens = Buffer.from("\n--")

/** Some senders leave out the first semicolon. */
const repaired = (type: string): string => type.replace(/^(\s*[\w.+-]+\/[\w.+-]+)\s+(?=[\w-]+\s*=)/, "$1; ")
