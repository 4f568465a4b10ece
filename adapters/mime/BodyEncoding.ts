/**
 * Bodies as 7-bit lines (RFC 2045, 6.7 and 6.8): quoted-printable for texts,
 * base64 for whatever else. CRLF, LF and CR in a text all are line ends and
 * become CRLF. The bytes of a text depend on nothing but the text.
 */
import { Stream } from "effect"

/** A text on its way: as a whole where it is short, slice by slice where it is not. */
export interface EncodedText {
  readonly encoding: "quoted-printable" | "base64"
  readonly body: string | Stream.Stream<Uint8Array>
  /** Whether it ends with a line end, or is empty. */
  readonly endsLine: boolean
}

/** Characters of a text that are encoded at a time. */
const sliceLength = 32 * 1024

/** Quoted-printable, or base64 where that is shorter. */
export const encodeText = (text: string): EncodedText => {
  const endsLine = text === "" || text.endsWith("\n") || text.endsWith("\r")
  if (text.length > sliceLength) return encodeLongText(text, endsLine)
  const bytes = Buffer.from(text) // half a surrogate pair becomes U+FFFD
  const body = quotedPrintable(bytes, false, escapesMax(bytes.length))
  return body === null
    ? { encoding: "base64", body: base64(Buffer.from(lineEnds(text)), true).toString("latin1"), endsLine: false }
    : { encoding: "quoted-printable", body, endsLine }
}

/** Read twice, so that no more than a slice of it is ever held in another form. */
const encodeLongText = (text: string, endsLine: boolean): EncodedText => {
  let length = 0
  let escapes = 0
  for (const slice of slices(text)) {
    const bytes = Buffer.from(slice)
    length += bytes.length
    escapes += escapesOf(bytes)
  }
  return escapes > escapesMax(length)
    ? { encoding: "base64", body: base64Lines(lazily(() => canonicalSlices(text))), endsLine: false }
    : { encoding: "quoted-printable", body: lazily(() => quotedPrintableSlices(text)), endsLine }
}

/** Anew for each run of the stream, a slice at a time. */
const lazily = (make: () => Iterable<Uint8Array>): Stream.Stream<Uint8Array> =>
  Stream.suspend(() => Stream.fromIterable(make(), { chunkSize: 1 }))

const lineEnds = (text: string): string =>
  text.includes("\r") ? text.replace(/\r\n|\r|\n/g, "\r\n") : text.replaceAll("\n", "\r\n")

function* slices(text: string): Generator<string> {
  for (let start = 0, end = 0; start < text.length; start = end) {
    end = sliceEnd(text, start)
    yield text.slice(start, end)
  }
}

/** Where a text may be cut: in no character and in no line end. */
const sliceEnd = (text: string, start: number): number => {
  const end = start + sliceLength
  if (end >= text.length) return text.length
  const [last, next] = [text.charCodeAt(end - 1), text.charCodeAt(end)]
  const isSecondHalf = (next & 0xfc00) === 0xdc00 // of a pair; one that stands alone may be on either side
  return isSecondHalf || (last === 13 && next === 10) ? end + 1 : end
}

function* canonicalSlices(text: string): Generator<Buffer> {
  for (const slice of slices(text)) yield Buffer.from(lineEnds(slice))
}

function* quotedPrintableSlices(text: string): Generator<Buffer> {
  let done = 0
  for (const slice of slices(text)) {
    done += slice.length
    yield Buffer.from(quotedPrintable(Buffer.from(slice), done < text.length, Infinity)!, "latin1") // null is for too many escapes
  }
}

// Quoted-printable

/** Columns that a byte takes: itself, or an equals sign and two digits. */
const columns = new Uint8Array(256).fill(3)
for (let byte = 32; byte < 127; byte++) columns[byte] = 1
columns[9] = 1
columns[61] = 3

const isLineEnd = (byte: number): boolean => byte === 10 || byte === 13

const hexDigits = Buffer.from("0123456789ABCDEF")

/** Of a line, with the equals sign of a soft line break. */
const columnsMax = 76
/** How far back a soft line break looks for the end of a word. */
const wordColumnsMax = 25

/** With more of them base64 is shorter: it is a third more than all bytes, an escape two more than its own. */
const escapesMax = (bytes: number): number => bytes / 6

const escapesOf = (bytes: Buffer): number => {
  let escapes = 0
  for (let at = 0; at < bytes.length; at++) if (columns[bytes[at]!] === 3 && !isLineEnd(bytes[at]!)) escapes += 1
  return escapes
}

/** A byte becomes three, and a line of 48 or more gains five; what line ends gain is less. */
const roomFor = (bytes: number): number => bytes * 3 + (bytes >> 1) + 16

/** Written over by each slice, and read before anything else can run. */
const out = Buffer.allocUnsafeSlow(roomFor((sliceLength + 1) * 3))

/**
 * The bytes of UTF-8 as quoted-printable; null if that takes more than so many
 * escapes. Where more of the text `follows`, the last line ends with a soft
 * line break unless the text has an end of one there.
 */
const quotedPrintable = (bytes: Buffer, follows: boolean, escapesMax: number): string | null => {
  const { length } = bytes
  let at = 0
  let written = 0
  let used = 0
  let escapes = 0
  for (;;) {
    if (at === length && (used === 0 || !follows)) break
    if (used === 0 && isOfTransport(bytes, at)) {
      written = escape(written, bytes[at++]!)
      used = 3
    }
    const runMax = Math.min(length, at + columnsMax - used)
    const run = at
    while (at < runMax && columns[bytes[at]!] === 1) out[written++] = bytes[at++]!
    used += at - run

    const byte = at < length ? bytes[at]! : -1
    if (at === length ? !follows : isLineEnd(byte)) {
      const last = used > 0 ? bytes[at - 1]! : 0
      const isBlank = last === 32 || last === 9 // which transport may drop
      if (!isBlank || used + 2 <= columnsMax) {
        if (isBlank) written = escape(written - 1, last)
        if (at === length) break
        at += byte === 13 && bytes[at + 1] === 10 ? 2 : 1
        written = endLine(written)
        used = 0
        continue
      }
      at -= 1
      used -= 1
      written -= 1
    } else if (at < length && used + columns[byte]! <= columnsMax) {
      escapes += 1
      if (escapes > escapesMax) return null
      written = escape(written, byte)
      used += 3
      at += 1
      continue
    }

    const next = at === length && used < columnsMax ? at : softBreak(bytes, at, used)
    while (at > next) written -= columns[bytes[--at]!]!
    out[written++] = 61
    written = endLine(written)
    used = 0
  }
  return out.toString("latin1", 0, written)
}

/** Where a line of so many columns, which goes on, is better ended: behind a word, or else behind a whole character. */
const softBreak = (bytes: Buffer, at: number, used: number): number => {
  let width = used
  for (let end = at; used - width < wordColumnsMax; end--) {
    if (bytes[end - 1] === 32 && width < columnsMax) return end
    width -= columns[bytes[end - 1]!]!
  }
  width = used
  let end = at
  // Some readers decode each line by itself.
  while (width >= columnsMax || (bytes[end]! & 0xc0) === 0x80) width -= columns[bytes[--end]!]!
  return end
}

const endLine = (at: number): number => {
  out[at] = 13
  out[at + 1] = 10
  return at + 2
}

const escape = (at: number, byte: number): number => {
  out[at] = 61
  out[at + 1] = hexDigits[byte >> 4]!
  out[at + 2] = hexDigits[byte & 15]!
  return at + 3
}

/** Beginnings of a line that are changed on the way by some: a dot, and the `From ` of a mailbox file (RFC 2049, 3). */
const isOfTransport = (bytes: Buffer, at: number): boolean => {
  if (bytes[at] === 46) return true
  if (bytes[at] !== 70) return false
  // What lies behind the end is not known, and may be the rest of it.
  for (let index = 0; index < from.length && at + index < bytes.length; index++) if (bytes[at + index] !== from[index]) return false
  return true
}

const from = Buffer.from("From ")

// Base64

/** Bytes of a full line of 76 characters. */
const lineBytes = 57

/** Lines of base64, the last one without a line end, however the bytes were cut. */
export const base64Lines = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  Stream.suspend(() => {
    let isFirst = true
    const written = (bytes: Uint8Array): Buffer => {
      const lines = base64(bytes, isFirst)
      isFirst = false
      return lines
    }
    return Stream.mapAccum(
      bytes,
      () => nothing,
      // `held`: less than a line.
      (held: Uint8Array, chunk) => {
        const missing = held.length === 0 ? 0 : lineBytes - held.length
        if (chunk.length < missing) return [Buffer.concat([held, chunk]), []]
        const end = chunk.length - ((chunk.length - missing) % lineBytes)
        const lines: Array<Uint8Array> = []
        if (missing > 0) lines.push(written(Buffer.concat([held, chunk.subarray(0, missing)])))
        if (end > missing) lines.push(written(chunk.subarray(missing, end)))
        return [chunk.slice(end), lines]
      },
      { onHalt: (held) => (held.length === 0 ? [] : [written(held)]) }
    )
  })

const nothing: Uint8Array = new Uint8Array(0)

const digits = Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

/** Of twelve bits, the first digit in the lower byte. */
const digitPairs = Uint16Array.from({ length: 4_096 }, (_, bits) => digits[bits >> 6]! | (digits[bits & 63]! << 8))

/**
 * One byte or more as lines, into the bytes that go out: Node's base64 is a string without line ends, of which cutting it
 * and putting it together makes garbage twice its size. A line end goes before each but the first of a body.
 */
const base64 = (bytes: Uint8Array, isFirst: boolean): Buffer => {
  const length = Math.ceil(bytes.length / 3) * 4
  const lines = Buffer.allocUnsafe(length + 2 * (Math.ceil(length / columnsMax) - (isFirst ? 1 : 0)))
  let written = 0
  for (let at = 0; at < bytes.length; ) {
    if (at > 0 || !isFirst) {
      lines[written++] = 13
      lines[written++] = 10
    }
    const end = Math.min(at + lineBytes, bytes.length)
    for (; at + 2 < end; at += 3) {
      const first = digitPairs[(bytes[at]! << 4) | (bytes[at + 1]! >> 4)]!
      const second = digitPairs[((bytes[at + 1]! & 15) << 8) | bytes[at + 2]!]!
      lines[written++] = first
      lines[written++] = first >> 8
      lines[written++] = second
      lines[written++] = second >> 8
    }
    if (at < end) lines.write(Buffer.from(bytes.subarray(at, end)).toString("base64"), written, "latin1")
    at = end
  }
  return lines
}
