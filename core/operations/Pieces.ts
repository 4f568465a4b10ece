/**
 * Bytes put together that come in small pieces. Whoever sends them may send one
 * at a time, and each piece costs by itself: to keep, to hash and to write. So
 * this stands in front of all that is stored as it comes.
 */
import { Stream } from "effect"

/** So much is given on at a time, where it comes in less. */
const pieceBytes = 16 * 1024

const none = new Uint8Array(0)

export class Pieces {
  #held = none
  #heldBytes = 0

  /** Takes in the next bytes, and gives those that are to go on now. What it keeps of them is a copy. */
  add(bytes: Uint8Array): ReadonlyArray<Uint8Array> {
    const full = this.#heldBytes + bytes.length > pieceBytes ? this.rest() : []
    if (bytes.length >= pieceBytes) return [...full, bytes]
    if (this.#held.length === 0) this.#held = new Uint8Array(pieceBytes)
    this.#held.set(bytes, this.#heldBytes)
    this.#heldBytes += bytes.length
    return full
  }

  /** What is left. */
  rest(): ReadonlyArray<Uint8Array> {
    const bytes = this.#held.subarray(0, this.#heldBytes)
    this.#held = none
    this.#heldBytes = 0
    return bytes.length === 0 ? [] : [bytes]
  }
}

/** The same bytes, in pieces of such a size at least, but for some and the last. */
export const ofStream = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
  Stream.mapAccum(bytes, () => new Pieces(), (pieces, piece) => [pieces, pieces.add(piece)], { onHalt: (pieces) => pieces.rest() })
