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
      if (rest.length === 0) return [false, []]
      const text = Buffer.from(rest.buffer, rest.byteOffset, rest.byteLength).toString("latin1")
      return [
        rest.at(-1) === 0x0d,
        [bare.test(text) ? Buffer.from(text.replace(/\r\n|\r|\n/g, "\r\n"), "latin1") : rest]
      ]
    }
  )

export const hasEightBit = (chunk: Uint8Array): boolean => chunk.some((byte) => byte > 0x7f)
