/**
 * Characters of bytes, in whatever charset a sender names, or should have
 * named. The platform's decoder knows those of the WHATWG Encoding Standard,
 * iconv-lite some of the others, and the ones with shifts are decoded here.
 *
 * Bytes are characters whatever they are: what a name does not fit is guessed,
 * and said. Of bytes that are UTF-8 and hold more than ASCII nobody believes
 * that they are Latin-1 or ASCII.
 */
import iconv from "iconv-lite"

export interface Decoded {
  readonly text: string
  readonly problem: "unknown_charset" | "bad_charset" | null
}

/** Without a byte order mark. `label` is as written; null if there is none. */
export const decode = (bytes: Uint8Array, label: string | null): Decoded => {
  const [marked, markLength] = byteOrderMark(bytes)
  const charset = label === null ? null : charsetOf(label)
  if (marked === null) return decodeUnmarked(bytes, charset, label !== null)
  const isKnown = charset === null || charset === marked || charset.startsWith("utf-16")
  const { text, problem } = decodeAs(bytes.subarray(markLength), marked)
  return { text, problem: problem ?? (isKnown ? null : "bad_charset") }
}

const byteOrderMark = (bytes: Uint8Array): readonly [charset: string | null, length: number] =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
    ? ["utf-8", 3]
    : bytes[0] === 0xff && bytes[1] === 0xfe && (bytes[2] !== 0 || bytes[3] !== 0)
      ? ["utf-16le", 2]
      : bytes[0] === 0xfe && bytes[1] === 0xff
        ? ["utf-16be", 2]
        : [null, 0]

/** Raw octets of a header: UTF-8 (RFC 6532), or else what they most likely are. */
export const decodeRaw = (bytes: Uint8Array, likely: string | null): Decoded => {
  const text = utf8(bytes)
  if (text !== null) return { text, problem: null }
  const charset = likely === null ? null : charsetOf(likely)
  const guess = charset === null || charset === "us-ascii" || charset === "utf-8" ? null : tryDecode(bytes, charset)
  return { text: guess ?? latin(bytes), problem: "bad_charset" }
}

const decodeUnmarked = (bytes: Uint8Array, charset: string | null, isNamed: boolean): Decoded => {
  if (charset === null || charset === "us-ascii") {
    const problem = charset === null && isNamed ? "unknown_charset" : null
    const shifted = likelyJapanese(bytes)
    if (shifted !== null) return { text: shifted, problem: problem ?? "bad_charset" }
    if (isAscii(bytes)) return { text: ascii(bytes), problem }
    return { text: utf8(bytes) ?? latin(bytes), problem: problem ?? "bad_charset" }
  }
  if (charset === "windows-1252" && !isAscii(bytes)) {
    const text = utf8(bytes)
    return text === null ? { text: latin(bytes), problem: null } : { text, problem: "bad_charset" }
  }
  return decodeAs(bytes, charset)
}

const decodeAs = (bytes: Uint8Array, charset: string): Decoded => {
  const text = tryDecode(bytes, charset)
  if (text !== null) return { text, problem: null }
  if (charset !== "utf-8") {
    const asUtf8 = charset === "iso-2022-jp" && bytes.includes(escape) ? null : utf8(bytes) // it is ASCII too, and says nothing as such
    if (asUtf8 !== null) return { text: asUtf8, problem: "bad_charset" }
    const extended = charset === "euc-kr" ? iconv.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), "cp949") : null
    if (extended?.includes("\ufffd") === false) return { text: extended, problem: null }
    return { text: new TextDecoder(charset, { ignoreBOM: true }).decode(forPlatform(bytes, charset)), problem: "bad_charset" }
  }
  const loose = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
  // Not one whole character beyond ASCII: it is no damaged UTF-8, but something else.
  return { text: /[^\u0000-\u007f\ufffd]/.test(loose) ? loose : latin(bytes), problem: "bad_charset" }
}

/** Null if the bytes are not in that charset. */
const tryDecode = (bytes: Uint8Array, charset: string): string | null => {
  const shift = shifts[charset]
  if (shift !== undefined) return unshift(bytes, shift)
  if (charset === "utf-16") return tryDecode(bytes, zerosAt(bytes, 1) > zerosAt(bytes, 0) ? "utf-16le" : "utf-16be")
  if (!isOfPlatform(charset)) return iconv.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), charset).toWellFormed()
  return decodeFatally(bytes, charset)
}

const decodeFatally = (bytes: Uint8Array, charset: string): string | null => {
  try {
    return new TextDecoder(charset, { fatal: true, ignoreBOM: true }).decode(forPlatform(bytes, charset))
  } catch {
    return null
  }
}

const escape = 0x1b

/**
 * An escape right behind another is an error to the platform. Mail has them wherever two encoded words are joined, since each
 * begins and ends with one (RFC 1468). Only the last of them means anything.
 */
const forPlatform = (bytes: Uint8Array, charset: string): Uint8Array => {
  if (charset !== "iso-2022-jp") return bytes
  const kept = new Uint8Array(bytes.length)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at + 3] === escape && isShift(bytes, at)) at += 2
    else kept[length++] = bytes[at]!
  }
  return kept.subarray(0, length)
}

/** Whether an escape of this charset is here, rather than something that would be lost with it. */
const isShift = (bytes: Uint8Array, at: number): boolean => {
  if (bytes[at] !== escape) return false
  const [kind, set] = [bytes[at + 1], bytes[at + 2]]
  return kind === 0x24 ? set === 0x40 || set === 0x42 : kind === 0x28 && (set === 0x42 || set === 0x49 || set === 0x4a)
}

const utf8 = (bytes: Uint8Array): string | null => decodeFatally(bytes, "utf-8")
const latin = (bytes: Uint8Array): string => new TextDecoder("windows-1252").decode(bytes)
const ascii = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1")

const isAscii = (bytes: Uint8Array): boolean => {
  for (let at = 0; at < bytes.length; at++) if (bytes[at]! > 127) return false
  return true
}

const zerosAt = (bytes: Uint8Array, from: number): number => {
  let zeros = 0
  for (let at = from; at < Math.min(bytes.length, 1_000); at += 2) if (bytes[at] === 0) zeros += 1
  return zeros
}

/** Names */

/** Ours for a name, of the platform, of iconv-lite or of `shifts`; null if nobody knows it. */
const charsetOf = (label: string): string | null => {
  const name = label.slice(0, 60).replace(/\*.*$/s, "").replace(/["'\s]/g, "").toLowerCase()
  const known = names.get(name)
  if (known !== undefined) return known
  const [, part] = /^(?:x-?)?(?:iso)?[-_]?8859[-_]?(\d{1,2})(?:[-_][ei])?$/.exec(name) ?? []
  const [, page] = /^(?:x-)?(?:cp|ibm|dos|windows|win|ms|ansi)[-_]?(\d{3,5})$/.exec(name) ?? []
  const candidates = [name, ...(part === undefined ? [] : [`iso-8859-${part}`]), ...(page === undefined ? [] : [`windows-${page}`, `cp${page}`])]
  for (const candidate of candidates) {
    if (isOfPlatform(candidate)) return new TextDecoder(candidate).encoding
    if (iconv.encodingExists(candidate) && !/^(?:base64|hex|binary|utf7imap|ucs2|internal)/.test(candidate)) return candidate
  }
  return null
}

const names = new Map<string, string>([
  ...["us-ascii", "ascii", "ansi_x3.4-1968", "iso646-us", "646", "us", "7bit"].map((name) => [name, "us-ascii"] as const),
  ...["unicode-1-1-utf-8", "utf_8", "utf8mb4", "utf-8-sig", "cp65001", "utf-8n"].map((name) => [name, "utf-8"] as const),
  ...["utf-7", "utf7", "unicode-1-1-utf-7", "x-unicode-2-0-utf-7", "csunicode11utf7"].map((name) => [name, "utf-7"] as const),
  ...["utf-16", "utf16", "ucs-2", "ucs2", "iso-10646-ucs-2", "csunicode", "unicode"].map((name) => [name, "utf-16"] as const),
  ...["gb2312", "cp936", "ms936", "windows-936", "gb2312-80", "euc-cn", "euccn", "x-euc-cn"].map((name) => [name, "gbk"] as const),
  ...["cp949", "ms949", "windows-949", "uhc", "ks_c_5601", "x-windows-949"].map((name) => [name, "euc-kr"] as const),
  ...["cp932", "windows-932", "x-ms-cp932"].map((name) => [name, "shift_jis"] as const),
  ...["iso-2022-jp-1", "iso-2022-jp-2", "iso-2022-jp-ms", "iso-2022-jp-ext", "x-iso-2022-jp", "cp50220", "cp50221", "cp50222"].map(
    (name) => [name, "iso-2022-jp"] as const
  ),
  ...["eucjp", "ujis", "cp51932"].map((name) => [name, "euc-jp"] as const),
  ...["big5-hkscs", "big5hkscs", "x-big5-hkscs"].map((name) => [name, "big5hkscs"] as const),
  ...["cp950", "big-5", "big5-eten"].map((name) => [name, "big5"] as const),
  ...["macroman", "mac-roman", "x-macroman", "x-mac-roman"].map((name) => [name, "macintosh"] as const),
  ["x-mac-ce", "maccenteuro"],
  ["x-mac-greek", "macgreek"],
  ["x-mac-turkish", "macturkish"],
  ...["latin1", "latin-1", "iso_8859-1:1987", "l1", "western"].map((name) => [name, "windows-1252"] as const),
  ...["iso-2022-kr", "csiso2022kr"].map((name) => [name, "iso-2022-kr"] as const),
  ...["iso-2022-cn", "iso-2022-cn-ext"].map((name) => [name, "iso-2022-cn"] as const),
  ...["hz-gb-2312", "hz", "hz-gb2312"].map((name) => [name, "hz-gb-2312"] as const),
  ["koi8-ru", "koi8-u"]
])

const ofPlatform = new Map<string, boolean>()

const isOfPlatform = (name: string): boolean => {
  const known = ofPlatform.get(name)
  if (known !== undefined) return known
  const isKnown = decoderExists(name)
  if (ofPlatform.size < 1_000) ofPlatform.set(name, isKnown)
  return isKnown
}

const decoderExists = (name: string): boolean => {
  try {
    return new TextDecoder(name, { fatal: true }).fatal
  } catch {
    return false
  }
}

/** Charsets of seven bits that shift to one of eight (RFC 1557, 1843, 1922), which the platform has. */

interface Shift {
  readonly charset: string
  readonly isEscape: (bytes: Uint8Array, at: number) => number
  readonly on: ReadonlyArray<number>
  readonly off: ReadonlyArray<number>
  readonly literal: ReadonlyArray<number>
}

/** `ESC $ ) C` and the like say what is shifted to, and are nothing themselves. */
const designation = (bytes: Uint8Array, at: number): number => (bytes[at] === 0x1b && bytes[at + 1] === 0x24 ? 4 : 0)

const shifts: Readonly<Record<string, Shift>> = {
  "iso-2022-kr": { charset: "euc-kr", isEscape: designation, on: [0x0e], off: [0x0f], literal: [] },
  "iso-2022-cn": { charset: "gbk", isEscape: designation, on: [0x0e], off: [0x0f], literal: [] },
  // ~~ is a tilde, and a tilde at the end of a line goes on in the next.
  "hz-gb-2312": {
    charset: "gbk",
    isEscape: (bytes, at) => (bytes[at] === 0x7e && bytes[at + 1] === 0x0a ? 2 : 0),
    on: [0x7e, 0x7b],
    off: [0x7e, 0x7d],
    literal: [0x7e, 0x7e]
  }
}

const startsAt = (bytes: Uint8Array, at: number, sign: ReadonlyArray<number>): boolean =>
  sign.length > 0 && sign.every((byte, index) => bytes[at + index] === byte)

const unshift = (bytes: Uint8Array, { charset, isEscape, on, off, literal }: Shift): string => {
  const out = new Uint8Array(bytes.length)
  let length = 0
  let isShifted = false
  for (let at = 0; at < bytes.length; at++) {
    const escape = isEscape(bytes, at)
    if (escape > 0) at += escape - 1
    else if (startsAt(bytes, at, isShifted ? off : on)) {
      at += (isShifted ? off : on).length - 1
      isShifted = !isShifted
    } else if (!isShifted && startsAt(bytes, at, literal)) {
      out[length++] = bytes[at]!
      at += literal.length - 1
    } else {
      const byte = bytes[at]!
      // A line ends what is shifted.
      if (byte === 10) isShifted = false
      out[length++] = isShifted && byte > 0x20 ? byte | 0x80 : byte
    }
  }
  return new TextDecoder(charset).decode(out.subarray(0, length))
}

/** Japanese mail often says nothing of its escapes, or that it is ASCII. */
const likelyJapanese = (bytes: Uint8Array): string | null => {
  for (let at = bytes.indexOf(0x1b); at >= 0; at = bytes.indexOf(0x1b, at + 1)) {
    if (bytes[at + 1] === 0x24 && (bytes[at + 2] === 0x42 || bytes[at + 2] === 0x40)) return decodeFatally(bytes, "iso-2022-jp")
  }
  return null
}
