/**
 * Lets a message through, with so much header and no more. Each signature
 * costs a hash of the whole body, a name and a verification; and what mailauth
 * reads of a field takes time by the square of its length, and of its lines.
 */

/** RFC 6376 leaves the number to us. */
const signaturesMax = 10
const sizeBytesMax = 256 * 1024
/** Of a field that is read: From, Received, Content-Type, signatures and seals. */
const fieldSizeMax = 16 * 1024
const fieldLinesMax = 2_000
/** Of a header, and names that a signature is over, each of which is looked for among all fields. */
const fieldsMax = 1_000
const namesMax = 1_000
/** In a row, of a signature or a seal: its end is looked for from each of them. */
const blanksMax = 256

export interface Header {
  /** What goes on of a piece. */
  readonly read: (piece: Uint8Array) => ReadonlyArray<Uint8Array>
  /** What is left when there are no more pieces. */
  readonly end: () => ReadonlyArray<Uint8Array>
  /** The header is longer than what is looked at: only its beginning went on, and no body. */
  readonly isCut: () => boolean
  /** An author's field was too much to go on: whoever the others name, the message may show that one. */
  readonly lacksAuthor: () => boolean
  /** An author's field names several, or may be read as if it did: who is shown may be another than who is asked about. */
  readonly isAmbiguous: () => boolean
  /** Whether the policy of an author of this message may stand under that name: it or one above it, as far as the field tells. */
  readonly isPolicyOf: (name: string) => boolean
}

/** For one message with CRLF line ends. */
export const make = (): Header => {
  let held: Buffer | null = Buffer.alloc(0)
  let isCut = false
  let lacksAuthor = false
  let isAmbiguous = false
  let authors: ReadonlyArray<string> = []
  const bounded = (header: Buffer): Uint8Array => {
    const fields = fieldsOf(header)
    const kept = withoutExcess(fields)
    lacksAuthor = fields.filter(isAuthor).length !== kept.filter(isAuthor).length
    isAmbiguous = kept.filter(isAuthor).some(namesSeveral)
    authors = kept.filter(isAuthor).flatMap(domainsOf)
    return kept.length === fields.length ? header : Buffer.from(kept.join(""), "latin1")
  }
  /** What goes on of a header without an end. */
  const ended = (header: Buffer): ReadonlyArray<Uint8Array> => {
    held = null
    isCut = header.length > sizeBytesMax + 2 // a header with a blank line may have as many before it
    return [bounded(isCut ? header.subarray(0, header.lastIndexOf("\r\n", sizeBytesMax) + 2) : header)]
  }
  return {
    read: (piece) => {
      if (isCut) return []
      if (held === null) return [piece]
      const from = Math.max(0, held.length - 3)
      held = Buffer.concat([held, piece])
      const end = held.subarray(0, 2).toString("latin1") === "\r\n" ? 0 : held.indexOf("\r\n\r\n", from)
      if (end >= 0 && end <= sizeBytesMax) {
        const through = [bounded(held.subarray(0, end === 0 ? 0 : end + 2)), held.subarray(end === 0 ? 0 : end + 2)]
        held = null
        return through
      }
      // Its blank line may begin with the last byte of those, and come in pieces.
      return held.length < sizeBytesMax + 4 ? [] : ended(held)
    },
    end: () => (held === null ? [] : ended(held)),
    isCut: () => isCut,
    lacksAuthor: () => lacksAuthor,
    isAmbiguous: () => isAmbiguous,
    isPolicyOf: (name) => {
      const [, domain] = /^_dmarc\.(.+)$/i.exec(name) ?? []
      return domain !== undefined && authors.some((author) => `.${author}`.endsWith(`.${domain.toLowerCase()}`))
    }
  }
}

/** As mailauth has them: a line that begins no field goes on with the one before, whatever it begins with. */
const fieldsOf = (header: Buffer): ReadonlyArray<string> => {
  const lines = header.toString("latin1").match(/[^\n]*\n|[^\n]+$/g) ?? []
  const starts = lines.flatMap((line, index) => (index === 0 || nameOf(`${line}${lines[index + 1] ?? ""}`) !== "" ? [index] : []))
  return starts.map((start, index) => lines.slice(start, starts[index + 1]).join(""))
}

/** The colon may stand on the next line. Empty: it is no field, so whatever the header begins with. */
const nameOf = (field: string): string => /^([!-9;-~]+)[ \t\r\n]*:/.exec(field)?.[1]?.toLowerCase() ?? ""

const isAuthor = (field: string): boolean => nameOf(field) === "from"

/** Nobody's name takes so much. */
const authorSizeMax = 4_096

/** What stands in brackets, or else all of it; what is quoted, or a comment, is not looked at. */
const addressesOf = (field: string): ReadonlyArray<string> => {
  const plain = field.slice(field.indexOf(":") + 1).replace(/"(?:[^"\\]|\\.)*"/g, "").replace(/\([^()]*\)/g, "")
  const bracketed = [...plain.matchAll(/<([^<>]*)>/g)].map(([, inner = ""]) => inner)
  return bracketed.length === 0 ? [plain] : bracketed
}

/** Not one address in one pair of brackets, nor one alone. */
const namesSeveral = (field: string): boolean => {
  if (field.length > authorSizeMax) return true
  const addresses = addressesOf(field)
  return addresses.length > 1 || addresses[0]!.split("@").length !== 2 // there is one at least
}

/** As the DNS has them. */
const domainsOf = (field: string): ReadonlyArray<string> =>
  addressesOf(field).flatMap((address) => address.split("@").slice(1).map((behind) => inAscii(Buffer.from(behind, "latin1").toString().trim().replace(/[\s,;:].*$/s, ""))))

/** Also of what is no domain of a mailbox: mailauth asks about whatever is there. */
const inAscii = (domain: string): string => URL.parse(`http://${domain}`)?.hostname.replace(/\.$/, "") ?? ""

const blanks = new RegExp(`[ \\t\\r\\n]{${blanksMax}}`)

/** Without what is too much. */
const withoutExcess = (fields: ReadonlyArray<string>): ReadonlyArray<string> => {
  let signatures = 0
  return fields.slice(0, fieldsMax).filter((field) => {
    const name = nameOf(field)
    if (name === "" || field.split("\n").length > fieldLinesMax) return false
    const isRead = /^(from|return-path|received|content-type|dkim-signature|arc-.*)$/.test(name)
    if (isRead && field.length > fieldSizeMax) return false
    if (name === "dkim-signature") signatures += 1
    if (name === "dkim-signature" && signatures > signaturesMax) return false
    const isSignature = name === "dkim-signature" || name.startsWith("arc-")
    return !isSignature || (field.split(":").length <= namesMax && !blanks.test(field))
  })
}
