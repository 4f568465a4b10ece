/**
 * The message that comes behind DATA, as a stream of its bytes: read as they
 * are wanted, and failed by whatever makes it no message to take. What is not
 * wanted of it is read all the same, up to its end, for the reply stands there.
 */
import { Clock, Data, Duration, Effect, Stream } from "effect"
import * as Reply from "./Reply.ts"
import * as Transparency from "./Transparency.ts"
import { WireEnded, type Wire } from "./Wire.ts"

/** It is not to be taken, whoever it is for. */
export class NotAMessage extends Data.TaggedError("NotAMessage")<{ readonly reply: Reply.Reply }> {}

export interface Limits {
  readonly sizeBytesMax: number
  /** Without a byte, as of now. */
  readonly silence: () => Duration.Duration
  /** From DATA to the end of the message. */
  readonly total: Duration.Duration
}

export interface Incoming {
  /** Read once. */
  readonly bytes: Stream.Stream<Uint8Array, NotAMessage | WireEnded>
  /** Whether its end has been read. */
  readonly isOver: () => boolean
  /** Reads what is left of it; whether it came whole, and as it is to be. */
  readonly rest: Effect.Effect<void, NotAMessage | WireEnded>
}

/** How many times its limit is read of a message, before the connection is given up. */
const excessMax = 2

export const make = Effect.fnUntraced(function* (wire: Pick<Wire, "chunk" | "giveBack">, { sizeBytesMax, silence, total }: Limits) {
  const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(total)
  const decoder = Transparency.make()
  let sizeBytes = 0
  let fault: NotAMessage | null = null
  let isOver = false
  /** Why no more comes: who is silent is not waited for again, by whoever wants the rest. */
  let ended: WireEnded | null = null

  /** What comes next of it; null once it has ended. */
  const next = Effect.fnUntraced(function* (): Effect.fn.Return<Uint8Array | null, WireEnded> {
    if (isOver) return null
    if (ended !== null) return yield* ended
    const left = until - (yield* Clock.currentTimeMillis)
    if (left <= 0) return yield* new WireEnded({ reason: "silent" })
    if (sizeBytes > excessMax * sizeBytesMax) return yield* new WireEnded({ reason: "endless" })
    const chunk = yield* wire.chunk(Duration.min(silence(), Duration.millis(left)))
    if (chunk === null) return yield* new WireEnded({ reason: "gone" })
    const { bytes, rest } = decoder.decode(chunk)
    sizeBytes += bytes.length
    if (decoder.hasBareLineEnd()) fault ??= new NotAMessage({ reply: Reply.bareInMessage })
    if (sizeBytes > sizeBytesMax) fault ??= new NotAMessage({ reply: Reply.tooLarge })
    if (rest !== null) {
      isOver = true
      wire.giveBack(rest)
    }
    return bytes
  }, Effect.tapError((error) => Effect.sync(() => (ended = error))))

  const pull = Effect.fnUntraced(function* (): Effect.fn.Return<readonly [Uint8Array, undefined] | undefined, NotAMessage | WireEnded> {
    const bytes = yield* next()
    if (fault !== null) return yield* fault
    return bytes === null ? undefined : [bytes, undefined]
  })
  const incoming: Incoming = {
    bytes: Stream.unfold(undefined, pull),
    isOver: () => isOver,
    rest: Effect.gen(function* () {
      while ((yield* next()) !== null) continue
      if (fault !== null) return yield* fault
    })
  }
  return incoming
})
