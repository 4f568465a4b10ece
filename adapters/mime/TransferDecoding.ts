/**
 * Takes transfer encodings off (RFC 2045, 6; RFC 2047, 4), in time linear in
 * the bytes and in the place where they stand: what comes out is never longer
 * than what went in. Whatever is not well encoded is taken as well as it can be.
 */

export interface Unwrapped {
  /** In the place of what was encoded. */
  readonly bytes: Uint8Array
  readonly isProper: boolean
}

const sextets = new Int8Array(256).fill(-1)
for (const [value, character] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
  sextets[character.charCodeAt(0)] = value
}
const padding = -2
const blank = -3
sextets[61] = padding
for (const byte of [9, 10, 13, 32]) sextets[byte] = blank

export type Encoding = "none" | "base64" | "quoted-printable" | "uuencode"

/** Takes off the encoding of that name. */
export const unwrap = (encoding: Encoding, body: Uint8Array): Unwrapped => {
  switch (encoding) {
    case "none":
      return { bytes: body, isProper: true }
    case "base64":
      return decodeBase64(body)
    case "quoted-printable":
      return decodeQuotedPrintable(body)
    case "uuencode":
      return decodeUuencode(body)
  }
}

/**
 * Skips what is not base64. Behind padding it begins anew, since some senders
 * pad every line, or ends: mailing lists put their footer there as it is.
 */
export const decodeBase64 = (body: Uint8Array): Unwrapped => {
  let length = 0
  let bits = 0
  let held = 0
  let pads = 0
  /** Of them, as the characters before them have it. */
  let padsDue = 0
  let isProper = true
  for (let at = 0; at < body.length; at++) {
    if (bits === 0 && pads === 0) {
      const end = decodeGroups(body, at, length)
      length += ((end - at) / 4) * 3
      at = end
      if (at === body.length) break
    }
    const sextet = sextets[body[at]!]!
    if (sextet >= 0) {
      if (pads > 0) {
        isProper = false // behind the padding nothing follows
        if (!isPiece(body, at)) break
      }
      pads = 0
      held = (held << 6) | sextet
      bits += 6
      if (bits >= 8) {
        bits -= 8
        body[length++] = held >> bits
      }
    } else if (sextet === padding) {
      if (pads === 0) padsDue = bits === 4 ? 2 : bits === 2 ? 1 : 0
      pads += 1
      bits = 0
    } else if (sextet !== blank) {
      isProper = false
      if (pads > 0) break
    }
  }
  return { bytes: body.subarray(0, length), isProper: isProper && bits === 0 && pads === padsDue }
}

/** Whether this is base64 up to its padding or the end: nothing else in its lines, and of a length that base64 has, as words hardly are. */
const isPiece = (body: Uint8Array, from: number): boolean => {
  let digits = 0
  for (let at = from; at < body.length; at++) {
    const sextet = sextets[body[at]!]!
    if (sextet >= 0) {
      const before = at > from ? body[at - 1] : 0
      if (before === 32 || before === 9) return false
      digits += 1
    } else if (sextet === padding) return digits % 4 > 1
    else if (sextet !== blank) return false
  }
  return digits % 4 === 0
}

/** Of four digits that follow one another, which is nearly all there is; where they end. */
const decodeGroups = (body: Uint8Array, from: number, to: number): number => {
  let at = from
  for (let length = to; at + 3 < body.length; at += 4) {
    const first = sextets[body[at]!]!
    const second = sextets[body[at + 1]!]!
    const third = sextets[body[at + 2]!]!
    const fourth = sextets[body[at + 3]!]!
    if ((first | second | third | fourth) < 0) break
    body[length++] = (first << 2) | (second >> 4)
    body[length++] = (second << 4) | (third >> 2)
    body[length++] = (third << 6) | fourth
  }
  return at
}

/** An escape that is none stays as it is; white space at the end of a line was added on the way (RFC 2045, 6.7). */
export const decodeQuotedPrintable = (body: Uint8Array): Unwrapped => {
  let length = 0
  /** Where white space would begin if the line ended here. */
  let ink = 0
  let isProper = true
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]!
    if (byte === 61) {
      const escaped = hexByte(body, at + 1)
      const soft = escaped >= 0 ? -1 : softBreakEnd(body, at + 1)
      if (escaped >= 0) {
        body[length++] = escaped
        at += 2
      } else if (soft >= 0) at = soft - 1
      else {
        body[length++] = byte
        isProper = false
      }
      ink = length
      continue
    }
    if (byte === 10 || (byte === 13 && body[at + 1] === 10)) length = ink
    body[length++] = byte
    if (byte !== 32 && byte !== 9) ink = length
  }
  return { bytes: body.subarray(0, length), isProper }
}

/** Of the first file in it; without a `begin` line, or with nothing behind it, the body stays as it is. */
const decodeUuencode = (body: Uint8Array): Unwrapped => {
  let at = afterBegin(body)
  if (at < 0) return { bytes: body, isProper: false }
  let length = 0
  while (at < body.length) {
    const feed = body.indexOf(10, at)
    const end = feed < 0 ? body.length : feed
    const count = (body[at]! - 32) & 63
    // `end`, or a line that holds nothing: the file is over.
    if (count === 0 || body[at]! < 32 || body[at]! > 96) return { bytes: body.subarray(0, length), isProper: true }
    length = uuencodedLine(body, at + 1, end, count, length)
    at = end + 1
  }
  return { bytes: body.subarray(0, length), isProper: false }
}

/** Blanks at the end of a line may be lost on the way; they are made up for as far as there is room. */
const uuencodedLine = (body: Uint8Array, start: number, end: number, count: number, to: number): number => {
  const sextet = (at: number): number => (at < end && body[at]! >= 32 ? (body[at]! - 32) & 63 : 0)
  let length = to
  for (let at = start, left = count; left > 0 && (at < end || length + 3 <= end); at += 4, left -= 3) {
    const bits = (sextet(at) << 18) | (sextet(at + 1) << 12) | (sextet(at + 2) << 6) | sextet(at + 3)
    body[length++] = bits >> 16
    if (left > 1) body[length++] = (bits >> 8) & 255
    if (left > 2) body[length++] = bits & 255
  }
  return length
}

/** Behind the line `begin 644 name`; -1 if there is none. */
const afterBegin = (body: Uint8Array): number => {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const begin = bytes.toString("latin1", 0, 6) === "begin " ? 0 : bytes.indexOf("\nbegin ")
  const feed = begin < 0 ? -1 : bytes.indexOf(10, begin + 1)
  return feed < 0 ? -1 : feed + 1
}

/** The encoding Q of an encoded word: an underscore is a space. */
export const decodeQ = (word: Uint8Array): Unwrapped => {
  let length = 0
  let isProper = true
  for (let at = 0; at < word.length; at++) {
    const byte = word[at]!
    const escaped = byte === 61 ? hexByte(word, at + 1) : -1
    if (escaped >= 0) at += 2
    else if (byte === 61) isProper = false
    word[length++] = escaped >= 0 ? escaped : byte === 95 ? 32 : byte
  }
  return { bytes: word.subarray(0, length), isProper }
}

const hexByte = (bytes: Uint8Array, at: number): number => {
  const high = hexDigit(bytes[at])
  const low = hexDigit(bytes[at + 1])
  return high < 0 || low < 0 ? -1 : high * 16 + low
}

const hexDigit = (byte: number | undefined): number => {
  if (byte === undefined) return -1
  if (byte >= 48 && byte <= 57) return byte - 48
  const upper = byte & 0xdf
  return upper >= 65 && upper <= 70 ? upper - 55 : -1
}

/** Behind a soft line break whose `=` stands before `at`; -1 if there is none. */
const softBreakEnd = (body: Uint8Array, at: number): number => {
  let end = at
  while (body[end] === 32 || body[end] === 9) end += 1
  while (body[end] === 13) end += 1
  return body[end] === 10 ? end + 1 : end >= body.length ? body.length : -1
}
