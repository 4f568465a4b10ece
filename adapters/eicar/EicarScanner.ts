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
  readonly #wanted: Uint8Array
  #tail = new Uint8Array()

  constructor(wanted: Uint8Array) {
    this.#wanted = wanted
  }

  read(piece: Uint8Array): void {
    this.sizeBytes += piece.length
    const seen = new Uint8Array(this.#tail.length + piece.length)
    seen.set(this.#tail)
    seen.set(piece, this.#tail.length)
    this.isFound ||= this.#isIn(seen)
    this.#tail = seen.slice(Math.max(0, seen.length - this.#wanted.length + 1))
  }

  #isIn(bytes: Uint8Array): boolean {
    const [first] = this.#wanted
    const last = bytes.length - this.#wanted.length
    for (let at = bytes.indexOf(first!); at >= 0 && at <= last; at = bytes.indexOf(first!, at + 1)) {
      if (this.#wanted.every((byte, index) => bytes[at + index] === byte)) return true
    }
    return false
  }
}
