/**
 * Writes header fields (RFC 5322, 2047, 2231) in printable ASCII, folded at 76
 * columns. Every field leaves by `field`, which refuses what could end a line:
 * what is written above it may be wrong about a value, and still harms nobody.
 */
import type { Header } from "../../core/model/MimePart.ts"
import { isAddressField, isPlainAddress, isStructuredField, oneLine, quoted } from "./HeaderField.ts"

/** Of a line of a header. RFC 2047 allows no more to one with an encoded word. */
const columnsMax = 76
/** RFC 5322 allows 998 octets to a line. */
const wordMax = 990

/** A field of the message itself, with its line end; nothing for an empty one. */
export const headerField = ({ name, value }: Header): string => {
  const syntax = known.get(name) ?? syntaxOf(name)
  if (value === "") return ""
  if (syntax === "addresses") return field(name, addressWords(value))
  if (syntax === "text") {
    const text = oneLine(value)
    return text === "" ? "" : field(name, isPlain(text) ? text : encodedWords(text))
  }
  if (!/^[!-~]{1,900}(?: [!-~]{1,900})*$/.test(value)) throw new Error(`${name} cannot be written in ASCII`)
  return field(name, value)
}

type Syntax = "addresses" | "text" | "its own"

const syntaxOf = (name: string): Syntax => {
  if (!/^[!-9;-~]{1,60}$/.test(name)) throw new Error("a header field's name is printable ASCII without a colon")
  if (/^(?:.*bcc|content-.*)$/i.test(name)) throw new Error(`${name} is no header field of the message`)
  return isAddressField(name) ? "addresses" : isStructuredField(name) ? "its own" : "text"
}

/** Those of nearly every message, looked at once. */
const known: ReadonlyMap<string, Syntax> = new Map(
  ["From", "To", "Cc", "Subject", "Message-ID", "Date", "MIME-Version"].map((name) => [name, syntaxOf(name)])
)

/** A field with its line end, folded between its words: those given, or what spaces part. */
export const field = (name: string, value: string | ReadonlyArray<string>): string => {
  const line = `${name}: ${typeof value === "string" ? value : value.join(" ")}`
  if (!/^[ -~]*$/.test(line)) throw new Error(`${name} would not be printable ASCII`)
  if (line.length <= columnsMax) return `${line}\r\n`
  let folded = `${name}:`
  let column = folded.length
  for (const word of typeof value === "string" ? value.split(" ") : value) {
    if (word.length > wordMax) throw new Error(`${name} would have a line that is too long`)
    const fits = column + 1 + word.length <= columnsMax
    folded += fits ? ` ${word}` : `\r\n ${word}`
    column = (fits ? column : 0) + 1 + word.length
  }
  return `${folded}\r\n`
}

// Text

/** Text that needs no encoding: words that fit on a line, one space between them, nothing that looks like an encoded word. */
const isPlain = (text: string): boolean => /^[!-~]{1,60}(?: [!-~]{1,60})*$/.test(text) && !text.includes("=?")

/** Characters of a Q word that stand for themselves, even in a phrase (RFC 2047, 5 rule 3), and the space's. */
const isBare = new Uint8Array(256)
for (const character of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/ ") isBare[character.charCodeAt(0)] = 1

/** Of what a word encodes, so that the word fits behind the name of most fields. */
const encodedMax = 52

/** Encoded words of whole characters, in the shorter of the two encodings. White space between them means nothing to a reader. */
const encodedWords = (text: string): ReadonlyArray<string> => {
  const bytes = Buffer.from(text)
  const bare = bytes.reduce((count, byte) => count + isBare[byte]!, 0)
  const isQ = bare + (bytes.length - bare) * 3 <= Math.ceil(bytes.length / 3) * 4
  const words: Array<string> = []
  let start = 0
  let end = 0
  let used = 0
  const flush = () => {
    words.push(isQ ? `=?UTF-8?Q?${encodeQ(bytes, start, end)}?=` : `=?UTF-8?B?${bytes.toString("base64", start, end)}?=`)
    start = end
    used = 0
  }
  while (end < bytes.length) {
    const next = end + characterBytes(bytes[end]!)
    const size = isQ ? (isBare[bytes[end]!] === 1 ? 1 : (next - end) * 3) : next - end
    if (used + size > (isQ ? encodedMax : (encodedMax / 4) * 3)) flush()
    used += size
    end = next
  }
  flush()
  return words
}

const encodeQ = (bytes: Buffer, start: number, end: number): string => {
  let encoded = ""
  for (let at = start; at < end; at++) {
    const byte = bytes[at]!
    encoded += byte === 32 ? "_" : isBare[byte] === 1 ? String.fromCharCode(byte) : `=${hex(byte)}`
  }
  return encoded
}

const hex = (byte: number): string => (byte < 16 ? "0" : "") + byte.toString(16).toUpperCase()

/** Of a character of UTF-8, by its first byte. */
const characterBytes = (first: number): number => (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4)

// Addresses

/** The core's own spelling of an address list, and no other: `"name" <local@domain>, local@domain`. */
const partyPattern = /(?:"((?:[^"\\]|\\[^])*)" <([^<>]+)>|([^"<>,]+))(?:, |$)/y

const addressWords = (value: string): ReadonlyArray<string> => {
  const words: Array<string> = []
  partyPattern.lastIndex = 0
  while (partyPattern.lastIndex < value.length) {
    const match = partyPattern.exec(value)
    if (match === null) throw new Error("an address list is written as the core writes it")
    const address = match[2] ?? match[3]!
    if (!isPlainAddress(address)) throw new Error("an address is a dot-atom at a domain in A-labels")
    // Some readers would decode it, and reach somebody else.
    if (/=\?.*\?=/.test(address)) throw new Error("an address looks like an encoded word")
    const name = oneLine((match[1] ?? "").replace(/\\([^])/g, "$1"))
    const comma = partyPattern.lastIndex < value.length ? "," : ""
    if (name === "") words.push(address + comma)
    else words.push(...nameWords(name), `<${address}>${comma}`)
  }
  return words
}

const nameWords = (name: string): ReadonlyArray<string> => {
  if (!isPlain(name)) return encodedWords(name)
  const whole = quoted(name)
  const words = whole.length < columnsMax ? [whole] : whole.split(" ")
  // Quotation marks and backslashes take two columns each.
  return words.every(({ length }) => length < columnsMax) ? words : encodedWords(name)
}

// Parameters

/** A parameter that may hold any text; as RFC 2231 has it where a quoted string could be misread. */
export const parameter = (name: string, value: string): ReadonlyArray<string> => {
  const whole = `${name}="${value}"`
  if (whole.length < columnsMax && /^[ -~]*$/.test(value) && !/["\\]|=\?/.test(value)) return [whole]
  const encoded = percentEncoded(value, columnsMax - `${name}*00*=utf-8'';`.length - 1)
  if (encoded.length === 1) return [`${name}*=utf-8''${encoded[0]}`]
  return encoded.map((piece, index) =>
    `${name}*${index}*=${index === 0 ? "utf-8''" : ""}${piece}${index === encoded.length - 1 ? "" : ";"}`
  )
}

/** Pieces of whole characters, none longer than `max`. */
const percentEncoded = (value: string, max: number): ReadonlyArray<string> => {
  const pieces: Array<string> = []
  let piece = ""
  for (const character of value) {
    const encoded = /^[\w.-]$/.test(character) ? character : Buffer.from(character).reduce((text, byte) => `${text}%${hex(byte)}`, "")
    if (piece.length + encoded.length > max) {
      pieces.push(piece)
      piece = ""
    }
    piece += encoded
  }
  return [...pieces, piece]
}
