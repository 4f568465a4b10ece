/**
 * MailProvider over SMTP submission, as `SmtpMailProvider` is and with the
 * same options, over connections of our own that pipeline. The reply to a
 * message and the envelope of the next pass each other, so that a message
 * costs one round trip, and few of them wait for it.
 *
 * A message of up to 64 KiB is read before it takes a place on a connection,
 * and goes out in one piece; a larger one is read as the server takes it.
 */
import { Effect, Stream, type Scope } from "effect"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider, type SubmitRequest } from "../../core/ports/MailProvider.ts"
import type { Outgoing, Sink } from "./PipeliningConnection.ts"
import * as PipeliningPool from "./PipeliningPool.ts"
import { needsEightBit, type Answer, type SmtpFailed } from "./SmtpAnswer.ts"
import { check, checkEnvelope, name, type Options } from "./SmtpSettings.ts"
import { hasEightBit, stuffDots, wireBytes, wireLines } from "./WireLines.ts"

export type { DkimKey } from "./Dkim.ts"
export { defaults, type Options, type Timeouts } from "./SmtpSettings.ts"

/** Connects when there is something to submit; the scope closes what is open. Dies at once on options that cannot work. */
export const make = (options: Options): Effect.Effect<MailProvider, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { settings, limits, sign } = yield* Effect.sync(() => check(options))
    const pool = yield* PipeliningPool.make(settings, limits)

    const small = Effect.fnUntraced(function* (request: Addressed, lines: Uint8Array) {
      const signatures = yield* sign(Stream.make(lines), request.dkim)
      const body = stuffDots(lines, true)
      const whole = signatures.length === 0 ? [body, endOf(lines)] : [signatures, body, endOf(lines)]
      return yield* pool.submit({
        envelope: request.envelope,
        sizeBytes: request.sizeBytes + signatures.length,
        whole,
        hasEightBit: () => hasEightBit(lines),
        onWanted: () => undefined
      }, request)
    })

    const large = Effect.fnUntraced(function* (request: Addressed) {
      const lines = wireLines(request.mime)
      const signatures = yield* sign(lines, request.dkim)
      const wanted = want()
      const submitting = pool.submit({
        envelope: request.envelope,
        sizeBytes: request.sizeBytes + signatures.length,
        whole: null,
        hasEightBit: () => false,
        onWanted: wanted.onWanted
      }, request)
      const bytes = signatures.length === 0 ? lines : Stream.concat(Stream.make(signatures), lines)
      return yield* Effect.raceFirst(submitting, Effect.flatMap(wanted.sink, (sink) => pour(bytes, sink)))
    })

    return {
      name,
      submit: Effect.fnUntraced(function* (request) {
        const recipients = yield* Effect.sync(() => checkEnvelope(request.envelope))
        const addressed = { ...request, envelope: { ...request.envelope, recipients } }
        const bytes = request.sizeBytes > wholeSizeMax ? null : yield* collect(request.mime)
        const submitting: Effect.Effect<Answer, SmtpFailed | Effect.Error<ReturnType<typeof large>>> =
          bytes === null ? large(addressed) : small(addressed, wireBytes(bytes))
        const answer = yield* Effect.catchTag(submitting, "SmtpFailed", (cause) => Effect.fail(new MailProviderUnavailable({ cause })))
        if (answer._tag === "Refused") return yield* new SubmissionRefused({ reply: answer.reply })
        return { providerMessageId: request.messageId, replies: answer.replies, pollAt: null }
      }),
      poll: () => Effect.succeed({ notifications: [], pollAt: null })
    }
  })

type Addressed = Pick<SubmitRequest, "realm" | "envelope" | "sizeBytes" | "dkim" | "mime" | "isWanted">

const wholeSizeMax = 64 * 1024

/** Null if there is more of it than was announced, or would be held whole. */
const collect = <E>(mime: Stream.Stream<Uint8Array, E>): Effect.Effect<Uint8Array | null, E> =>
  Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    const take = (chunk: Uint8Array) => {
      chunks.push(chunk)
      size += chunk.length
      return size <= wholeSizeMax
    }
    return Effect.map(
      Stream.runForEachWhile(mime, (chunk) => Effect.sync(() => take(chunk))),
      () => (size > wholeSizeMax ? null : chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)) // there is one
    )
  })

/** What ends a message that ends in these lines. */
const endOf = (lines: Uint8Array): Uint8Array => (lines.length === 0 || lines.at(-1) === 0x0a ? ends.line : ends.midLine)

const ends = { line: Buffer.from(".\r\n"), midLine: Buffer.from("\r\n.\r\n") }

/** Where the bytes are to go, once the server wants them. */
const want = (): { readonly onWanted: Outgoing["onWanted"]; readonly sink: Effect.Effect<Sink> } => {
  let given: Sink | null = null
  let onGiven: ((sink: Sink) => void) | null = null
  return {
    onWanted: (sink) => {
      given = sink
      onGiven?.(sink)
    },
    sink: Effect.callback((resume) => {
      onGiven = (sink) => resume(Effect.succeed(sink))
      if (given !== null) onGiven(given)
    })
  }
}

/** As fast as they are taken. Never ends but by a failure of the bytes: what becomes of them the server says. Public only for its test. */
export const pour = <E>(bytes: Stream.Stream<Uint8Array, E>, sink: Sink): Effect.Effect<never, E> =>
  Stream.runForEach(bytes, (chunk) =>
    // In one step: what has drained before somebody listens is never told.
    Effect.callback<void>((resume) => {
      if (!sink.takesEightBit && hasEightBit(chunk)) sink.breakOff(needsEightBit)
      else if (sink.write(chunk)) resume(Effect.void)
      else sink.onDrain(() => resume(Effect.void))
    })
  ).pipe(Effect.andThen(Effect.sync(sink.end)), Effect.andThen(Effect.never))
