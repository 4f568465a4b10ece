/**
 * Finds the EICAR test file, and nothing else: for development, and to try out
 * what becomes of an infected attachment. It is no protection.
 */
import { Effect, Layer, Stream } from "effect"
import { ScanFailed, Scanner, type Verdict } from "../../core/ports/Scanner.ts"

export interface Options {
  /** No verdict on more than this. */
  readonly sizeBytesMax?: number
}

/** The 68 bytes. In parts, lest a virus scanner take this file away. */
export const testFile: Uint8Array = new TextEncoder().encode(
  ["X5O!P%@AP[4\\PZX54(P^)7CC)7}$", "EICAR-STANDARD-", "ANTIVIRUS-TEST-FILE!", "$H+H*"].join("")
)

export const layerWith = ({ sizeBytesMax = Infinity }: Options): Layer.Layer<Scanner> =>
  Layer.succeed(Scanner, {
    scan: Effect.fnUntraced(function* <E>(
      bytes: Stream.Stream<Uint8Array, E>,
      sizeBytes: number
    ): Effect.fn.Return<Verdict, E | ScanFailed> {
      if (sizeBytes > sizeBytesMax) return yield* new ScanFailed({ reason: `over ${sizeBytesMax} bytes` })
      const search = new Search(testFile)
      // Read to the end also when found: a stream that fails there has not given the bytes it was to give.
      yield* Stream.runForEach(bytes, (piece) => {
        search.read(piece)
        return search.sizeBytes > sizeBytes ? Effect.fail(new ScanFailed({ reason: "more bytes than announced" })) : Effect.void
      })
      if (search.sizeBytes < sizeBytes) return yield* new ScanFailed({ reason: "fewer bytes than announced" })
      return search.isFound ? { _tag: "Infected", signature: "Eicar-Test-Signature" } : { _tag: "Clean" }
    })
  })

export const layer: Layer.Layer<Scanner> = layerWith({})

/** Looks for bytes in a stream, also where they lie across its pieces. */
class Search {
  isFound = false
  sizeBytes = 0
  readonly #wanted: Buffer
  /** The last bytes so far, one less than are wanted: only with those that follow can they be it. */
  #tail: Buffer = Buffer.alloc(0)

  constructor(wanted: Uint8Array) {
    this.#wanted = Buffer.from(wanted)
  }

  read(piece: Uint8Array): void {
    this.sizeBytes += piece.length
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.length)
    const seam = Buffer.concat([this.#tail, bytes.subarray(0, this.#wanted.length - 1)])
    this.isFound ||= seam.includes(this.#wanted) || bytes.includes(this.#wanted)
    const last = bytes.length < this.#wanted.length ? seam : bytes
    this.#tail = Buffer.from(last.subarray(Math.max(0, last.length - this.#wanted.length + 1)))
  }
}
