/**
 * The line ends of the wire: CR, LF and CRLF each are one line end, and become
 * CRLF. What follows (signing, dot-stuffing) then sees the lines that the next
 * hop will see. A message that has only CRLF passes as it came.
 */
import { Stream } from "effect"

const bare = /\r(?!\n)|(?<!\r)\n/

export const wireLines = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  Stream.mapAccum(
    bytes,
    () => false,
    // `endedInCr`: the last chunk ended in CR, for which CRLF was written; an LF that follows belongs to it.
    (endedInCr: boolean, chunk) => {
      if (chunk.length === 0) return [endedInCr, []]
      const rest = endedInCr && chunk[0] === 0x0a ? chunk.subarray(1) : chunk
      return rest.length === 0 ? [false, []] : [rest.at(-1) === 0x0d, [wireBytes(rest)]]
    }
  )

/** The same for bytes that come all at once. */
export const wireBytes = (bytes: Uint8Array): Uint8Array =>
  hasBare(bytes) ? Buffer.from(latin1(bytes).replace(/\r\n|\r|\n/g, "\r\n"), "latin1") : bytes

const hasBare = (bytes: Uint8Array): boolean => bare.test(latin1(bytes))

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1")

export const hasEightBit = (chunk: Uint8Array): boolean => chunk.some((byte) => byte > 0x7f)

/**
 * Lines of the wire with a dot before each dot that begins one (RFC 5321, 4.5.2). `isAtStart` says whether the
 * bytes begin a line; no chunk splits a CRLF.
 */
export const stuffDots = (bytes: Uint8Array, isAtStart: boolean): Uint8Array => {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const pieces: Array<Uint8Array> = []
  let from = 0
  if (isAtStart && text[0] === 0x2e) pieces.push(dot)
  for (let at = text.indexOf("\n."); at >= 0; at = text.indexOf("\n.", from)) {
    pieces.push(text.subarray(from, at + 1), dot)
    from = at + 1
  }
  return pieces.length === 0 ? bytes : Buffer.concat([...pieces, text.subarray(from)])
}

const dot = Buffer.from(".")
