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

export interface Header {
  /** What goes on of a piece. */
  readonly read: (piece: Uint8Array) => ReadonlyArray<Uint8Array>
  /** What is left when there are no more pieces. */
  readonly end: () => ReadonlyArray<Uint8Array>
  /** The header is longer than what is looked at: only its beginning went on, and no body. */
  readonly isCut: () => boolean
}

/** For one message with CRLF line ends. */
export const make = (): Header => {
  let held: Buffer | null = Buffer.alloc(0)
  let isCut = false
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
      if (held.length <= sizeBytesMax) return []
      isCut = true
      const through = [bounded(held.subarray(0, held.lastIndexOf("\r\n", sizeBytesMax) + 2))]
      held = null
      return through
    },
    end: () => (held === null ? [] : [bounded(held)]),
    isCut: () => isCut
  }
}

/** Without what is too much. */
const bounded = (header: Buffer): Uint8Array => {
  let signatures = 0
  const fields = header.toString("latin1").match(/[^\r\n][^\n]*(?:\n[ \t][^\n]*)*(?:\n|$)|\r?\n/g) ?? []
  const kept = fields.filter((field) => {
    const [, name = ""] = /^([!-9;-~]+)[ \t]*:/.exec(field) ?? []
    const isRead = /^(from|return-path|received|content-type|dkim-signature|arc-.*)$/i.test(name)
    if (/^dkim-signature$/i.test(name)) signatures += 1
    const isTooMuch = /^dkim-signature$/i.test(name) && signatures > signaturesMax
    return !isTooMuch && !(isRead && field.length > fieldSizeMax) && field.split("\n").length <= fieldLinesMax
  })
  return kept.length === fields.length ? header : Buffer.from(kept.join(""), "latin1")
}
