/** Mime by the RFCs: written by encoders of its own, read by a reader of its own that nothing makes fail. */
import { Effect, Layer, Stream } from "effect"
import { Mime } from "../../core/ports/Mime.ts"
import { readHead, readMessage, unread } from "./MimeReader.ts"
import { write } from "./MimeWriter.ts"
import * as ParserThreads from "./ParserThreads.ts"

/** Bytes of a message that are read. */
export const sizeBytesMax = 64 * 1024 * 1024
/** A message of so many bytes is read where it is: that takes less than to hand it over, and a few milliseconds at worst. */
const smallBytesMax = 32 * 1024

export const layer: Layer.Layer<Mime> = Layer.effect(
  Mime,
  Effect.map(ParserThreads.make(), (threads) => {
    const parse = Effect.fnUntraced(function* <E>(bytes: Stream.Stream<Uint8Array, E>) {
      const { chunks, size, isCut } = yield* collect(bytes)
      const parsed =
        size > smallBytesMax
          ? yield* threads.parse(chunks, size, isCut)
          : yield* Effect.sync(() => readMessage(joined(chunks, size), isCut)).pipe(
              Effect.catchDefect((fault) => Effect.as(Effect.logWarning("a message could not be read", fault), null))
            )
      return parsed ?? unread(joined(chunks, size), isCut)
    })
    return { build: write, parse, readHead: (start) => Effect.sync(() => readHead(start)) }
  })
)

const collect = Effect.fnUntraced(function* <E>(bytes: Stream.Stream<Uint8Array, E>) {
  const chunks: Array<Uint8Array> = []
  let size = 0
  const take = (chunk: Uint8Array) => {
    chunks.push(chunk.subarray(0, sizeBytesMax - size))
    size += chunk.length
    return size <= sizeBytesMax
  }
  yield* Stream.runForEachWhile(bytes, (chunk) => Effect.sync(() => take(chunk)))
  return { chunks, size: Math.min(size, sizeBytesMax), isCut: size > sizeBytesMax }
})

const joined = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const bytes = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}
