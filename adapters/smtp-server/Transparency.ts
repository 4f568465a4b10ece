/**
 * Where a message ends, and what its bytes are (RFC 5321, 4.1.1.4 and 4.5.2).
 * Its only end is CRLF dot CRLF; a CR or LF that stands alone ends nothing,
 * neither the message nor a line, and is noted.
 */

export interface Decoded {
  /** What belongs to the message; it may be nothing. */
  readonly bytes: Uint8Array
  /** What came behind its end; null while it has not ended. */
  readonly rest: Uint8Array | null
}

export interface Decoder {
  readonly decode: (chunk: Uint8Array) => Decoded
  /** Whether a CR or LF stood alone so far. */
  readonly hasBareLineEnd: () => boolean
}

const CR = 13
const LF = 10
const DOT = 46

/** `start`: of a line. `dot`, `dotCr`: of a line that may be the end, and is not yet given out. */
type State = "start" | "line" | "cr" | "dot" | "dotCr"

/** For one message, from the first byte behind the reply to DATA. */
export const make = (): Decoder => {
  let state: State = "start"
  let isBare = false

  const decode = (chunk: Uint8Array): Decoded => {
    const pieces: Array<Uint8Array> = []
    let from = 0
    const give = (to: number, next: number) => {
      if (to > from) pieces.push(chunk.subarray(from, to))
      from = next
    }
    for (let index = 0; ; index++) {
      // Nearly all that comes is within lines.
      if (state === "line") index = lineEnd(chunk, index)
      if (index === chunk.length) break
      const byte = chunk[index]
      if (state === "start" && byte === DOT) {
        give(index, index + 1)
        state = "dot"
      } else if (state === "dot" && byte === CR) {
        give(index, index + 1)
        state = "dotCr"
      } else if (state === "dotCr" && byte === LF) {
        return { bytes: joined(pieces), rest: chunk.subarray(index + 1) }
      } else {
        const isAfterCr = state === "cr" || state === "dotCr"
        if (isAfterCr !== (byte === LF)) isBare = true
        state = byte === CR ? "cr" : byte === LF && isAfterCr ? "start" : "line"
      }
    }
    give(chunk.length, chunk.length)
    return { bytes: joined(pieces), rest: null }
  }

  return { decode, hasBareLineEnd: () => isBare }
}

/** Where the next CR or LF is, from a place on; the chunk's length if there is none. */
const lineEnd = (chunk: Uint8Array, from: number): number => {
  let index = from
  while (index < chunk.length && chunk[index] !== CR && chunk[index] !== LF) index++
  return index
}

/** Whoever takes them would do for each of the few bytes between two dots what it does for many: write a file, hash, wait. */
const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [first, ...others] = pieces
  return first !== undefined && others.length === 0 ? first : Buffer.concat(pieces)
}
