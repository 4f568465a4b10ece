/**
 * Reads headers: the fields of a message or part, where its body begins, and
 * what the fields of a message say (RFC 5322, 3.6). No field and no line is too
 * odd to be read past; of a header that is too large only the beginning is read.
 */
import type { Head } from "../../core/model/ParsedMessage.ts"
import type { Header } from "../../core/model/MimePart.ts"
import { readAddresses, type AddressList } from "./AddressList.ts"
import { decodeRaw } from "./Charset.ts"
import { readDate } from "./DateField.ts"
import type { Defects } from "./Defects.ts"
import { decodeWords } from "./EncodedWord.ts"
import { bytesOf, isAddressField, isStructuredField, oneLine, quoted } from "./HeaderField.ts"
import { readParameters } from "./Parameters.ts"

/** Unfolded, each character of the value a byte. */
export interface Field extends Header {
  readonly key: string
}

export interface RawHeader {
  readonly fields: ReadonlyArray<Field>
  /** Behind the empty line. */
  readonly bodyStart: number
}

/** Bytes of a message's header that are read. */
export const headBytesMax = 256 * 1024
const fieldsMax = 1_000

interface Bounds {
  /** Whether a line that begins here ends the part. */
  readonly isDelimiter: (lineStart: number) => boolean
  /** Where the part ends at the latest, from here on. */
  readonly endFrom: (at: number) => number
  readonly bytesMax: number
  readonly isRoot: boolean
}

export const wholeMessage = (bytes: Buffer): Bounds => ({
  isDelimiter: () => false,
  endFrom: () => bytes.length,
  bytesMax: headBytesMax,
  isRoot: true
})

const [tab, lf, cr, space, hyphen, colon] = [9, 10, 13, 32, 45, 58]

export const readFields = (bytes: Buffer, start: number, bounds: Bounds, defects: Defects): RawHeader => {
  const fields: Array<{ key: string; name: string; value: string }> = []
  /** Lines that are no fields are passed over, once we know that fields follow. */
  let mayPass = false
  let isOpen = false
  for (let at = start; at < bytes.length; ) {
    const feed = bytes.indexOf(lf, at)
    const next = feed < 0 ? bytes.length : feed + 1
    const end = lineEnd(bytes, at, feed < 0 ? bytes.length : feed)
    if (end === at) {
      if (fields.length === 0 && bounds.isRoot) defects.add("no_header")
      return { fields, bodyStart: next }
    }
    if (bytes[at] === hyphen && bounds.isDelimiter(at)) return { fields, bodyStart: at }
    if (next - start > bounds.bytesMax) {
      defects.add("truncated_header")
      const rest = Math.max(at, start + bounds.bytesMax)
      readLine(bytes, at, Math.min(end, rest), fields, isOpen)
      return { fields, bodyStart: bodyBehind(bytes, rest, bounds.endFrom(rest)) }
    }
    if (fields.length >= fieldsMax && bytes[at] !== space && bytes[at] !== tab) {
      defects.add("too_many_headers")
      return { fields, bodyStart: bodyBehind(bytes, at, bounds.endFrom(at)) }
    }
    const line = readLine(bytes, at, end, fields, isOpen)
    isOpen = line
    if (!line && !(bounds.isRoot && at === start && isMailboxLine(bytes, at))) {
      mayPass ||= fieldsFollow(bytes, next)
      if (!mayPass) {
        defects.add(bounds.isRoot && fields.length === 0 ? "no_header" : "malformed_header")
        return { fields, bodyStart: at }
      }
      defects.add("malformed_header")
    }
    at = next
  }
  if (fields.length === 0 && bounds.isRoot) defects.add("no_header")
  return { fields, bodyStart: bytes.length }
}

/** Takes in a field, or goes on with the last one; false if the line is neither. */
const readLine = (bytes: Buffer, at: number, end: number, fields: Array<{ value: string } & Field>, isOpen: boolean): boolean => {
  if (bytes[at] === space || bytes[at] === tab) {
    if (isOpen) fields.at(-1)!.value += bytes.toString("latin1", at, end)
    return isOpen
  }
  const nameEnd = fieldNameEnd(bytes, at, end)
  if (nameEnd < 0) return false
  const name = bytes.toString("latin1", at, nameEnd)
  fields.push({ key: name.toLowerCase(), name, value: bytes.toString("latin1", bytes.indexOf(colon, nameEnd) + 1, end).replace(/^[ \t]+/, "") })
  return true
}

/** Of the line's content: a CR too many is none of it. */
const lineEnd = (bytes: Buffer, at: number, feed: number): number => {
  let end = feed
  while (end > at && bytes[end - 1] === cr) end -= 1
  return end
}

/** Behind the field's name; -1 if the line has none. White space may stand before the colon (RFC 5322, 4.5). */
const fieldNameEnd = (bytes: Buffer, at: number, end: number): number => {
  let nameEnd = at
  while (nameEnd < end && bytes[nameEnd]! > space && bytes[nameEnd]! < 127 && bytes[nameEnd] !== colon) nameEnd += 1
  let behind = nameEnd
  while (bytes[behind] === space || bytes[behind] === tab) behind += 1
  return nameEnd > at && behind < end && bytes[behind] === colon ? nameEnd : -1
}

/** As mailbox files part their messages. */
const isMailboxLine = (bytes: Buffer, at: number): boolean => /^>?From /.test(bytes.toString("latin1", at, at + 6))

/** Lines that are looked at to tell a stray line from the body of a message that lacks the empty line. */
const lookAheadMax = 50

const fieldsFollow = (bytes: Buffer, start: number): boolean => {
  let balance = 0
  let found = 0
  for (let at = start, lines = 0; at < bytes.length && lines < lookAheadMax; lines++) {
    const feed = bytes.indexOf(lf, at)
    const end = lineEnd(bytes, at, feed < 0 ? bytes.length : feed)
    if (end === at) break
    if (bytes[at] !== space && bytes[at] !== tab) {
      const isField = fieldNameEnd(bytes, at, Math.min(end, at + 200)) > 0
      balance += isField ? 1 : -1
      if (isField) found += 1
    }
    at = feed < 0 ? bytes.length : feed + 1
  }
  return found > 0 && balance >= 0
}

const emptyLines = [Buffer.from("\n\n"), Buffer.from("\n\r\n")]

/** Behind the first empty line, without a look at the lines before. */
const bodyBehind = (bytes: Buffer, from: number, end: number): number => {
  const region = bytes.subarray(from, end)
  const found = emptyLines.flatMap((line) => {
    const at = region.indexOf(line)
    return at < 0 ? [] : [from + at + line.length]
  })
  return found.length === 0 ? end : Math.min(...found)
}

// What they say

/** Of the first field of that name, each character a byte. */
export const valueOf = (fields: ReadonlyArray<Field>, key: string): string | undefined => fields.find((field) => field.key === key)?.value

/** Fields that a header has once at most (RFC 5322, 3.6; RFC 2045, 3). */
const single = new Set(
  "date from sender reply-to to cc bcc message-id in-reply-to references subject mime-version content-type content-transfer-encoding content-disposition content-id".split(
    " "
  )
)

export const noteRepeats = (fields: ReadonlyArray<Field>, defects: Defects): void => {
  const seen = new Set<string>()
  for (const { key } of fields) {
    if (single.has(key) && seen.has(key)) defects.add("duplicate_header")
    seen.add(key)
  }
}

export const headOf = (fields: ReadonlyArray<Field>, defects: Defects): Omit<Head, "defects"> => {
  noteRepeats(fields, defects)
  const charset = readParameters(valueOf(fields, "content-type") ?? "").params.get("charset") ?? null
  const lists = new Map<Field, AddressList>()
  const texts = new Map<Field, string>()
  const headers = fields.map((field): Header => {
    const { text, problem } = decodeRaw(bytesOf(field.value), charset)
    defects.addUnless(problem === null, "eight_bit_header")
    texts.set(field, text)
    if (isAddressField(field.name)) {
      const list = readAddresses(text)
      defects.addUnless(list.isProper, "bad_address")
      defects.addUnless(list.isDecoded, "bad_encoded_word")
      lists.set(field, list)
      return { name: field.name, value: spelled(list) ?? oneLine(text) }
    }
    if (isStructuredField(field.name)) return { name: field.name, value: oneLine(text) }
    const words = decodeWords(text)
    defects.addUnless(words.isProper, "bad_encoded_word")
    return { name: field.name, value: oneLine(words.text) }
  })
  const of = <A>(key: string, pick: (field: Field, index: number) => A): ReadonlyArray<A> =>
    fields.flatMap((field, index) => (field.key === key ? [pick(field, index)] : []))
  const parties = (key: string) => of(key, (field) => lists.get(field)?.parties ?? []).flat()
  const text = (key: string): string => of(key, (field) => texts.get(field)!)[0] ?? ""

  const { date, isProper } = readDate(text("date"))
  if (text("date").trim() === "") defects.add("missing_date")
  else defects.addUnless(isProper, "bad_date")
  if (text("from").trim() === "") defects.add("missing_from")
  return {
    headers,
    from: of("from", (field) => lists.get(field)?.author ?? null).find((author) => author !== null) ?? null,
    replyTo: parties("reply-to"),
    to: parties("to"),
    cc: parties("cc"),
    subject: of("subject", (_, index) => headers[index]!.value)[0] ?? "",
    date,
    messageId: idsIn(text("message-id"))[0] ?? null,
    inReplyTo: idsIn(text("in-reply-to"))[0] ?? null,
    references: idsIn(text("references"))
  }
}

/** As the core writes them, since a name that is decoded must be quoted to name nobody; null if even so it could change whom they name. */
const spelled = ({ isPlain, parties }: AddressList): string | null =>
  isPlain && parties.length > 0
    ? parties.map(({ name, address }) => (name === "" ? address : `${quoted(name)} <${address}>`)).join(", ")
    : null

/** In angle brackets, or at least like an address in them. */
const idsIn = (text: string): ReadonlyArray<string> => {
  const bracketed = [...text.matchAll(/<([^<>]*)>/g)].map(([, id]) => id!.replace(/[\s\u0000-\u001f\u007f]+/g, "")).filter((id) => id !== "")
  const tokens = text.split(/[\s,]+/).filter((token) => token !== "")
  const bare = tokens.filter((id) => tokens.length === 1 || /^[^\s"()@]+@[^\s"()@]+$/.test(id))
  const ids = bracketed.length > 0 || text.includes("<") ? bracketed : bare
  return ids.map((id) => `<${oneLine(id)}>`)
}
