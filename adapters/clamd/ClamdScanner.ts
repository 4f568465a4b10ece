/**
 * Has ClamAV's daemon look at the bytes, by its INSTREAM command. `Clean` only
 * when clamd said OK, that alone, once it had every announced byte. What it
 * says it has not looked into, for a limit or a password, is no verdict.
 *
 * The protocol has neither password nor encryption: a Unix socket, or a
 * network of its own.
 */
import { Duration, Effect, Layer, Semaphore, Stream } from "effect"
import { ScanFailed, Scanner, type Verdict } from "../../core/ports/Scanner.ts"
import { ask, type Address, type Answer } from "./Connection.ts"
import { probes, sizeOf, type Probe } from "./Probes.ts"

/**
 * clamd calls a file OK that it has not looked into, unless its `clamd.conf` says:
 *
 *     AlertExceedsMax yes     # over a limit is no longer OK
 *     AlertEncrypted yes      # nor is what it has no password for
 *     StreamMaxLength 26M     # at least the largest attachment, 26214400 bytes
 *     MaxScanSize 400M
 *     MaxFileSize 410M        # above MaxScanSize: a file in a zip is cut off here without a word,
 *                             # and only the other limit then tells
 *     MaxScanTime 60000       # milliseconds; below `timeout`
 *     MaxThreads 10           # at least `connectionsMax`, for each process that scans
 *     FailIfCvdOlderThan 7    # days; rather no verdict than one of old signatures
 *
 * `check` tries whether it does. No setting helps against packing that clamd
 * does not know, such as LZMA within a zip: that it calls OK.
 */
export interface Options {
  /** clamd's `TCPAddr` and `TCPSocket`, or its `LocalSocket`. */
  readonly address: Address
  /** From the connection to the verdict; 90 seconds unless set. Waiting for a free connection does not count. */
  readonly timeout?: Duration.Input
  /** Scans beyond so many at once wait, in order; 4 unless set. */
  readonly connectionsMax?: number
}

export const layerWith = ({ address, timeout = "90 seconds", connectionsMax = 4 }: Options): Layer.Layer<Scanner> =>
  Layer.effect(
    Scanner,
    Effect.map(Semaphore.make(connectionsMax), (connections) =>
      Scanner.of({
        scan: (bytes, sizeBytes) =>
          instream(address, bytes, sizeBytes).pipe(within(timeout), Effect.flatMap(verdictOf), connections.withPermit)
      })
    )
  )

export interface Report {
  /** What clamd says it is: engine, and the number and date of its signatures. */
  readonly version: string
  /** What it gets wrong, each with the setting that helps. None: it is fit to judge attachments. */
  readonly faults: ReadonlyArray<string>
}

/**
 * Tries a clamd out: that it finds the EICAR test file, reads the largest attachment to its end, and calls nothing OK
 * that it has not seen. It is sent about 30 MB, among them a bomb as anyone may upload it. Fails if it is not there.
 */
export const check = Effect.fnUntraced(function* ({ address, timeout = "90 seconds" }: Options): Effect.fn.Return<Report, ScanFailed> {
  const { text: version } = yield* ask(address, ({ finish }) => finish(ascii("zVERSION\0"))).pipe(within(timeout))
  const faults = yield* Effect.forEach(probes, (probe) => {
    const pieces = probe.pieces()
    return instream(address, Stream.fromIterable(pieces), sizeOf(pieces)).pipe(
      Effect.match({
        onSuccess: ({ text }) => (probe.expected.test(text) ? [] : [faultOf(probe, `clamd says "${text}"`)]),
        onFailure: ({ reason }) => [faultOf(probe, reason)]
      }),
      // That says nothing of its settings.
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.succeed([faultOf({ ...probe, advice: "see what keeps it busy, and try again" }, lateness(timeout))])
      })
    )
  })
  return { version, faults: faults.flat() }
})

const faultOf = ({ what, advice }: Probe, got: string): string => `${what}: ${got}; ${advice}`

/** The bytes as clamd wants them: pieces behind their length, four bytes, the highest first, and an empty one at the end. */
const instream = <E>(address: Address, bytes: Stream.Stream<Uint8Array, E>, sizeBytes: number): Effect.Effect<Answer, E | ScanFailed> =>
  ask(
    address,
    Effect.fnUntraced(function* ({ write, finish }): Effect.fn.Return<void, E | ScanFailed> {
      let sentBytes = 0
      yield* write(ascii("zINSTREAM\0"))
      yield* Stream.runForEach(bytes, (piece) => {
        sentBytes += piece.length
        if (sentBytes > sizeBytes) return Effect.fail(new ScanFailed({ reason: "more bytes than announced" }))
        return Effect.forEach(chunksOf(piece), (chunk) => write(lengthOf(chunk), chunk), { discard: true })
      })
      if (sentBytes < sizeBytes) return yield* new ScanFailed({ reason: "fewer bytes than announced" })
      yield* finish(lengthOf(new Uint8Array()))
    })
  )

const chunkSizeBytesMax = 65_536

/** None of them empty: that would be the end. */
const chunksOf = (piece: Uint8Array): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(piece.length / chunkSizeBytesMax) }, (_, index) =>
    piece.subarray(index * chunkSizeBytesMax, (index + 1) * chunkSizeBytesMax)
  )

const lengthOf = (chunk: Uint8Array): Uint8Array => {
  const head = new Uint8Array(4)
  new DataView(head.buffer).setUint32(0, chunk.length)
  return head
}

/** A find before the end is a find; an OK before the end is a lie. */
const verdictOf = ({ text, isEarly }: Answer): Effect.Effect<Verdict, ScanFailed> => {
  if (text === "stream: OK" && !isEarly) return Effect.succeed({ _tag: "Clean" })
  const signature = /^stream: (.+) FOUND$/.exec(text)?.[1]
  if (signature === undefined) return Effect.fail(new ScanFailed({ reason: `clamd says "${text}"${isEarly ? " before it has all" : ""}` }))
  return /^Heuristics\.(Limits|Encrypted)\b/.test(signature)
    ? Effect.fail(new ScanFailed({ reason: `clamd has not seen all: ${signature}` }))
    : Effect.succeed({ _tag: "Infected", signature })
}

const within = (timeout: Duration.Input) => <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A, E | ScanFailed> =>
  Effect.timeoutOrElse(self, {
    duration: timeout,
    orElse: () => Effect.fail(new ScanFailed({ reason: lateness(timeout) }))
  })

const lateness = (timeout: Duration.Input): string => `clamd has not answered within ${Duration.format(Duration.fromInputUnsafe(timeout))}`

const ascii = (text: string): Uint8Array => new TextEncoder().encode(text)
