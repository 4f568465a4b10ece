/** The bytes of one message for nodemailer: read when it asks for them, which is once the server has taken DATA. */
import { Effect, Stream } from "effect"
import { Readable } from "node:stream"

export class MessageSource extends Readable {
  #hasBegun = false
  #isAsked = false
  #onAsked: (() => void) | null = null
  #sink: NodeJS.WritableStream | null = null

  /** Whether any byte was asked for. */
  hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Whether all of it has gone to the socket, with the dot that ends it. */
  isWritten(): boolean {
    return this.#sink instanceof Readable && this.#sink.readableEnded
  }

  /** Hands the bytes over as they are asked for, and never ends but by a failure. Without the end of `bytes` there is no dot. */
  feed<E>(bytes: Stream.Stream<Uint8Array, E>): Effect.Effect<never, E> {
    const asked = Effect.callback<void>((resume) => {
      this.#onAsked = () => resume(Effect.void)
      if (this.#isAsked) this.#onAsked()
    })
    const hand = (chunk: Uint8Array | null) =>
      Effect.andThen(
        asked,
        Effect.sync(() => {
          this.#isAsked = false
          this.push(chunk)
        })
      )
    return asked.pipe(
      // To push nothing would be taken for an answer, and nothing more asked for.
      Effect.andThen(Stream.runForEach(Stream.filter(bytes, ({ length }) => length > 0), hand)),
      Effect.andThen(hand(null)),
      Effect.andThen(Effect.never)
    )
  }

  override _read(): void {
    this.#hasBegun = true
    this.#isAsked = true
    this.#onAsked?.()
  }

  /** nodemailer pipes it through its dot-stuffing into the socket. */
  override pipe<T extends NodeJS.WritableStream>(sink: T, options?: { readonly end?: boolean }): T {
    this.#sink = sink
    return super.pipe(sink, options)
  }
}
