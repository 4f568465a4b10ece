/**
 * A request whose body is held in few pieces until somebody reads it. Node keeps
 * each chunk of a chunked body by itself, and one of a single byte takes two
 * hundred: a connection would hold fifteen megabytes before it is told to wait.
 * Here small ones that come behind others are copied together.
 */
import { IncomingMessage } from "node:http"

/** Bytes of a piece that is held as it came: what it takes by itself is little beside them. */
const smallBelow = 1024
const togetherBytes = 4096

export class SmallPieces extends IncomingMessage {
  #together: Buffer | null = null
  #length = 0

  override push(piece: Uint8Array | null): boolean {
    if (piece === null || piece.length >= smallBelow || this.readableLength === 0) {
      this.#handOver()
      return super.push(piece)
    }
    const isRoom = this.#length + piece.length <= togetherBytes || this.#handOver()
    this.#together ??= Buffer.allocUnsafeSlow(togetherBytes)
    this.#together.set(piece, this.#length)
    this.#length += piece.length
    return isRoom
  }

  /** Whoever has read all that came before is given the rest; the stream does not know of it, and would let him wait. */
  override read(size?: number): unknown {
    const piece: unknown = super.read(size)
    if (this.readableLength === 0) this.#handOver()
    return piece
  }

  /** Whether the client may go on. */
  #handOver(): boolean {
    if (this.#together === null) return true
    const pieces = this.#together.subarray(0, this.#length)
    this.#together = null
    this.#length = 0
    return super.push(pieces)
  }
}
