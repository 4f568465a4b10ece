/**
 * A strict reader of the messages that an adapter wrote, independent of any
 * library: it takes exactly what RFC 5322, 2045 to 2047 and 2231 allow a
 * writer, and fails at the first byte that is anything else.
 */
import assert from "node:assert/strict"

export interface WirePart {
  /** Unfolded, not decoded. */
  readonly fields: ReadonlyArray<{ readonly name: string; readonly value: string }>
  readonly mediaType: string
  readonly typeParams: Readonly<Record<string, string>>
  readonly disposition: string | null
  readonly filename: string | null
  readonly contentId: string | null
  /** Decoded; empty for a multipart. */
  readonly body: Buffer
  readonly parts: ReadonlyArray<WirePart>
}

export interface WireParty {
  readonly name: string
  readonly address: string
}

/** The whole message, after its bytes have passed the law of lines. */
export const readWire = (bytes: Uint8Array): WirePart => {
  const text = Buffer.from(bytes).toString("latin1")
  assert.match(text, /^[\r\n\t\u0020-\u007e]*$/, "a byte is neither printable ASCII nor a line end")
  assert.ok(text.endsWith("\r\n"), "the message does not end with a line end")
  assert.ok(!/\r(?!\n)|(?<!\r)\n/.test(text), "a CR or LF stands alone")
  for (const line of text.split("\r\n")) assert.ok(line.length <= 998, "a line is longer than 998 octets")
  return readEntity(text)
}

const readEntity = (text: string): WirePart => {
  const end = text.startsWith("\r\n") ? 0 : text.indexOf("\r\n\r\n") + 2
  assert.ok(end !== 1, "a header does not end")
  const fields = readFields(text.slice(0, end))
  const body = text.slice(end + 2)
  const valueOf = (name: string) => {
    const values = fields.filter((field) => field.name.toLowerCase() === name).map(({ value }) => value)
    assert.ok(values.length <= 1, `${name} stands twice`)
    return values[0] ?? null
  }
  const type = readParams(valueOf("content-type") ?? "")
  const disposition = valueOf("content-disposition")
  const encoding = valueOf("content-transfer-encoding")
  const isMultipart = type.value.startsWith("multipart/")
  assert.ok(!isMultipart || encoding === null, "a multipart is encoded")
  return {
    fields,
    mediaType: type.value,
    typeParams: type.params,
    disposition: disposition === null ? null : readParams(disposition).value,
    filename: disposition === null ? null : (readParams(disposition).params["filename"] ?? null),
    contentId: valueOf("content-id")?.replace(/^<(.*)>$/, "$1") ?? null,
    body: isMultipart ? Buffer.alloc(0) : decodeBody(body, encoding),
    parts: isMultipart ? readParts(body, type.params["boundary"] ?? "") : []
  }
}

const readFields = (head: string) => {
  const lines = head.split("\r\n").slice(0, -1)
  for (const line of lines) assert.match(line, /^(?:[!-9;-~]+:|[ \t]+[!-~])/, `no header line: ${line}`)
  return head
    .replace(/\r\n(?=[ \t])/g, "")
    .split("\r\n")
    .slice(0, -1)
    .map((line) => ({ name: line.slice(0, line.indexOf(":")), value: line.slice(line.indexOf(":") + 1).trim() }))
}

const readParts = (body: string, boundary: string): ReadonlyArray<WirePart> => {
  assert.match(boundary, /^[\w'()+,\-./:=?]{1,70}$/, "no boundary as RFC 2046 has it")
  const [preamble, ...pieces] = `\r\n${body}`.split(`\r\n--${boundary}`)
  const last = pieces.pop()
  assert.equal(preamble, "", "something stands before the first part")
  assert.equal(last, "--\r\n", "something stands behind the last part, or the end is missing")
  assert.ok(pieces.length > 0, "a multipart has no parts")
  return pieces.map((piece) => {
    assert.ok(piece.startsWith("\r\n"), "a delimiter goes on")
    return readEntity(piece.slice(2))
  })
}

// Bodies

const decodeBody = (body: string, encoding: string | null): Buffer => {
  switch (encoding) {
    case "base64":
      return decodeBase64(body)
    case "quoted-printable":
      return decodeQuotedPrintable(body)
    case "7bit":
      return Buffer.from(body)
    default:
      return assert.fail(`a body is encoded as ${encoding}`)
  }
}

const decodeBase64 = (body: string): Buffer => {
  const lines = body.split("\r\n")
  if (lines.at(-1) === "") lines.pop()
  for (const [index, line] of lines.entries()) {
    assert.match(line, /^[A-Za-z0-9+/]+={0,2}$/, "a line is not base64")
    assert.ok(line.length === 76 || (index === lines.length - 1 && line.length <= 76), "a base64 line is not of 76 characters")
  }
  return Buffer.from(lines.join(""), "base64")
}

const decodeQuotedPrintable = (body: string): Buffer => {
  for (const line of body.split("\r\n")) {
    assert.ok(line.length <= 76, "a quoted-printable line is longer than 76 characters")
    assert.match(line, /^(?:[\t !-<>-~]|=[0-9A-F]{2})*=?$/, "a line is not quoted-printable")
    assert.ok(!/[ \t]$/.test(line), "a line ends with white space that transport may drop")
  }
  return unescaped(body.replace(/=\r\n/g, ""), "=")
}

// Header fields

/** Unstructured text (RFC 2047, 5 rule 1): white space between two encoded words is not part of it. */
export const decodeText = (value: string): string =>
  value.replace(/=\?utf-8\?[bq]\?[^?]*\?=(?:[ \t]+=\?utf-8\?[bq]\?[^?]*\?=)*/gi, (words) =>
    words.split(/[ \t]+/).map(decodeWord).join("")
  )

const decodeWord = (word: string): string => {
  assert.ok(word.length <= 75, "an encoded word is longer than 75 characters")
  const [, , encoding, text] = word.split("?")
  if (encoding!.toUpperCase() === "B") return wholeText(Buffer.from(text!, "base64"))
  assert.match(text!, /^(?:[\w!*+\-/]|=[0-9A-F]{2})*$/, "a Q word holds a character that a phrase may not")
  return wholeText(unescaped(text!.replaceAll("_", " "), "="))
}

/** Each encoded word holds whole characters (RFC 2047, 5). */
const wholeText = (bytes: Buffer): string => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)

/** A list of mailboxes: an address, or a quoted string or encoded words and an address in angle brackets. */
export const readParties = (value: string): ReadonlyArray<WireParty> => {
  const pattern = /(?:(?:"((?:[^"\\]|\\.)*)"|((?:=\?[^?\s]+\?[BQbq]\?[^?\s]*\?=\s*)+)) *<([^<>"\s]+)>|([^<>",\s]+))(?:, *|$)/y
  const parties: Array<WireParty> = []
  while (pattern.lastIndex < value.length) {
    const at = pattern.lastIndex
    const match = pattern.exec(value)
    assert.ok(match !== null, `no mailbox: ${value.slice(at)}`)
    const [, quoted, words, bracketed, bare] = match
    const address = bracketed ?? bare!
    assert.match(address, /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]+@[a-z0-9.-]+$/, "no address")
    parties.push({ name: words === undefined ? (quoted ?? "").replace(/\\(.)/g, "$1") : decodeText(words.trim()), address })
  }
  return parties
}

/** A value and its parameters, those of RFC 2231 put together. */
const readParams = (field: string): { readonly value: string; readonly params: Readonly<Record<string, string>> } => {
  const [value = "", ...rest] = field.split(/(?=;)/)
  assert.match(value, /^[\w!#$%&'*+.^`{|}~/-]*$/, `no value: ${value}`)
  const pieces = new Map<string, Array<Buffer>>()
  for (const match of rest.join("").matchAll(/;\s*([^=;\s]+)=(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*))/g)) {
    const [, name, quoted, token] = match
    const [, base, , encoded] = /^([^*]+)(\*\d+)?(\*)?$/.exec(name!)!
    const text = quoted === undefined ? token! : quoted.replace(/\\(.)/g, "$1")
    const bytes = encoded === undefined ? Buffer.from(text) : unescaped(text.replace(/^utf-8'[^']*'/i, ""), "%")
    pieces.set(base!, [...(pieces.get(base!) ?? []), bytes])
  }
  return { value, params: Object.fromEntries([...pieces].map(([name, found]) => [name, wholeText(Buffer.concat(found))])) }
}

/** Bytes of a text in which a sign and two hex digits stand for one. */
const unescaped = (text: string, sign: "=" | "%"): Buffer =>
  Buffer.from(
    text.replace(new RegExp(`${sign}([0-9A-F]{2})`, "g"), (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1"
  )
