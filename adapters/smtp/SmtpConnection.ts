/**
 * One connection to the mail server: nodemailer speaks SMTP on it, and this
 * says what came of it. A connection on which something unknown happened is
 * never fit for another message.
 *
 * nodemailer's transports are left out: they queue and submit again by
 * themselves, which is the core's to decide, and hide what becomes of a
 * connection. No code here reads files, fetches URLs, or logs.
 */
import { Duration, Effect, Exit, Redacted, Result, Stream } from "effect"
import type { NodemailerError } from "nodemailer/lib/errors"
import SMTPConnection, {
  type SMTPConnectionEnvelope,
  type SMTPConnectionOptions,
  type SMTPConnectionSendInfo,
  type SMTPEnvelope
} from "nodemailer/lib/smtp-connection"
import { setImmediate } from "node:timers/promises"
import { getCACertificates } from "node:tls"
import type { Envelope } from "../../core/model/Envelope.ts"
import { MessageSource } from "./MessageSource.ts"
import { conclude, describe, failed, needsEightBit, type Answer, type SmtpFailed } from "./SmtpAnswer.ts"
import { replySizeMax, type Settings } from "./SmtpSettings.ts"
import { hasEightBit } from "./WireLines.ts"

export type { Settings } from "./SmtpSettings.ts"

export interface Connection {
  readonly isOpen: () => boolean
  /** Messages that it was asked to carry. */
  readonly messageCount: () => number
  /** The bytes have CRLF line ends alone. Not again before `settle` has said so. */
  readonly send: <E>(
    envelope: Envelope,
    sizeBytes: number,
    bytes: Stream.Stream<Uint8Array, E>
  ) => Effect.Effect<Answer, SmtpFailed | E>
  /** Whether `settle` needs no word of the server. */
  readonly isSettled: () => boolean
  /** Whether it may carry another message. Ends within the time to connect. */
  readonly settle: Effect.Effect<boolean>
  /** Takes leave, without waiting for an answer. */
  readonly quit: Effect.Effect<void>
  readonly close: Effect.Effect<void>
}

/** Connected, encrypted and signed in. Ends within the time to connect. */
export const open = (settings: Settings): Effect.Effect<Connection, SmtpFailed> =>
  Effect.suspend(() => {
    const line = start(settings)
    return begin(line, settings).pipe(
      Effect.timeoutOrElse({
        duration: settings.connectTimeout,
        orElse: () => Effect.fail(failed("CONN", "not connected and signed in within the time"))
      }),
      Effect.onExit((exit) => (Exit.isSuccess(exit) ? Effect.void : line.close)),
      Effect.map((ehlo) => connection(line, settings, /^250[ -]8BITMIME\b/im.test(ehlo)))
    )
  })

// The line

/** nodemailer's connection, and each exchange on it as an Effect that always ends with the connection. */
interface Line {
  readonly smtp: SMTPConnection
  readonly isOpen: () => boolean
  /** Interruption closes the connection. */
  readonly exchange: <A>(
    ask: (done: (error: NodemailerError | null | undefined, value?: A) => void) => void
  ) => Effect.Effect<A, NodemailerError>
  readonly quit: Effect.Effect<void>
  readonly close: Effect.Effect<void>
}

const start = (settings: Settings): Line => {
  const smtp = new SMTPConnection(optionsOf(settings))
  let error: NodemailerError = new Error("the connection was closed")
  let isOpen = true
  let onEnd: (() => void) | null = null
  smtp.on("error", (first: NodemailerError) => {
    if (isOpen) error = first
  })
  smtp.on("end", () => {
    isOpen = false
    onEnd?.()
  })

  const close = Effect.sync(() => {
    isOpen = false
    smtp.close()
    // close() still writes what it holds, and waits for the other side.
    if (smtp._socket) smtp._socket.destroy()
  })

  return {
    smtp,
    isOpen: () => isOpen,
    exchange: <A>(ask: (done: (error: NodemailerError | null | undefined, value?: A) => void) => void) =>
      Effect.callback<A, NodemailerError>((resume) => {
        // The end comes before an exchange's own error, and some exchanges hear of nothing but the end.
        onEnd = () => queueMicrotask(() => resume(Effect.fail(error)))
        // Called with an error or with the value.
        ask((refusal, value) => resume(refusal ? Effect.fail(refusal) : Effect.succeed(value as A)))
        return close
      }).pipe(
        Effect.onExit(() =>
          Effect.sync(() => {
            onEnd = null
          })
        )
      ),
    quit: Effect.sync(() => {
      smtp.quit()
      smtp.close()
      isOpen = false
    }),
    close
  }
}

const optionsOf = (settings: Settings): SMTPConnectionOptions => ({
  host: settings.host,
  port: settings.port,
  secure: settings.tls === "implicit",
  requireTLS: settings.tls === "starttls",
  ignoreTLS: settings.tls === "none",
  servername: settings.servername ?? undefined,
  name: settings.ehloName ?? undefined,
  tls: {
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ...(settings.ca === null ? {} : { ca: [...getCACertificates("default"), settings.ca] })
  },
  connectionTimeout: Duration.toMillis(settings.connectTimeout),
  dnsTimeout: Duration.toMillis(settings.connectTimeout),
  greetingTimeout: Duration.toMillis(settings.greetingTimeout),
  socketTimeout: Duration.toMillis(settings.socketTimeout),
  socketCloseTimeout: 1_000,
  maxResponseSize: replySizeMax,
  logger: false,
  debug: false,
  transactionLog: false
})

/** The server's EHLO reply. Whatever it says here answers us, and no message: none of it is the port's reply. */
const begin = (line: Line, settings: Settings): Effect.Effect<string, SmtpFailed> =>
  Effect.gen(function* () {
    const { smtp } = line
    const told = Effect.mapError((error: NodemailerError) => failed(error.command ?? "CONN", describe(error, settings)))

    const ehlo = yield* told(
      line.exchange<string>((done) => smtp.connect((error) => done(error, smtp.lastServerResponse || "")))
    )
    if (!smtp.secure && settings.tls !== "none") return yield* failed("CONN", "the connection is not encrypted")
    if (!(yield* settled(line))) return yield* unasked()
    if (settings.auth !== null) {
      if (!smtp.allowsAuth) return yield* failed("AUTH", "the server takes no credentials")
      const credentials = { user: settings.auth.user, pass: Redacted.value(settings.auth.password) }
      yield* told(line.exchange<boolean>((done) => smtp.login({ credentials }, done)))
      if (!(yield* settled(line))) return yield* unasked()
    }
    return ehlo
  })

const unasked = () => failed("CONN", "the server took its leave, or said more than it was asked")

/** What else came with an answer is looked at now: a word that nobody asked for ends the connection. */
const settled = (line: Line): Effect.Effect<boolean> =>
  Effect.promise(async () => {
    for (let turn = 0; turn < 3; turn++) await setImmediate()
    return line.isOpen()
  })

// Messages

/**
 * Until the server may have the bytes: it has asked for them, and said no more. nodemailer also sends them to who says
 * 250 to DATA, and would take them for commands; and it hears what came with a 354 as the answer to them.
 */
const demanded = (line: Line): Effect.Effect<unknown> =>
  Effect.suspend(() => (/^354(?:[ -]|$)/.test(line.smtp.lastServerResponse || "") ? settled(line) : Effect.andThen(line.close, Effect.never)))

const connection = (line: Line, settings: Settings, takesEightBit: boolean): Connection => {
  const { smtp } = line
  let messageCount = 0
  let state: "fit" | "unreset" | "unfit" = "fit"

  const send: Connection["send"] = (envelope, sizeBytes, bytes) =>
    Effect.suspend(() => {
      const isReused = messageCount > 0
      const source = new MessageSource()
      let isEightBit = false
      const wanted = Stream.unwrap(Effect.as(demanded(line), bytes))
      const checked = takesEightBit
        ? wanted
        : Stream.tap(wanted, (chunk) => {
            isEightBit = hasEightBit(chunk)
            return isEightBit ? Effect.andThen(line.close, Effect.never) : Effect.void
          })
      const allowSilence = (silence: Duration.Duration) =>
        Effect.sync(() => void (smtp._socket && smtp._socket.setTimeout(Duration.toMillis(silence))))
      const toTheEnd = Stream.concat(checked, Stream.fromEffectDrain(allowSilence(settings.endTimeout)))
      // nodemailer keeps its book of recipients in the envelope that it is given. What has 7 bits has at most 8, and
      // nobody knows before the end; no address is more than ASCII, so SMTPUTF8 is never asked for.
      const wire: SMTPEnvelope & Partial<Pick<SMTPConnectionEnvelope, "rejectedErrors">> & { readonly mailError?: NodemailerError } = {
        from: envelope.returnPath ?? "",
        to: [...envelope.recipients],
        size: sizeBytes,
        use8BitMime: true
      }
      messageCount += 1
      state = "unfit"
      return Effect.result(line.exchange<SMTPConnectionSendInfo>((done) => smtp.send(wire, source, done))).pipe(
        Effect.raceFirst(source.feed(toTheEnd)),
        Effect.tap(() => allowSilence(settings.socketTimeout)),
        // That the last byte has gone may be known a moment after it has.
        Effect.tap(() => (source.hasBegun() && !source.isWritten() ? settled(line) : Effect.void)),
        Effect.flatMap((result) => {
          if (isEightBit) return Effect.succeed(needsEightBit)
          const [hasBegun, isWritten] = [source.hasBegun(), source.isWritten()]
          const answer = conclude({
            recipients: envelope.recipients,
            result: Result.map(result, ({ response }) => response),
            senderRefusal: wire.mailError ?? null,
            refusals: wire.rejectedErrors ?? [],
            isReused,
            hasBegun,
            isWritten,
            secrets: settings
          })
          // A refusal in the midst of the bytes leaves the rest of them on the wire.
          if (Result.isSuccess(answer) && hasBegun === isWritten) state = Result.isSuccess(result) ? "fit" : "unreset"
          return Effect.fromResult(answer)
        })
      )
    })

  const reset = Effect.isSuccess(line.exchange<boolean>((done) => smtp.reset(done))).pipe(
    Effect.timeoutOrElse({ duration: settings.connectTimeout, orElse: () => Effect.succeed(false) })
  )

  return {
    isOpen: line.isOpen,
    messageCount: () => messageCount,
    send,
    isSettled: () => state !== "unreset",
    settle: Effect.gen(function* () {
      if (state === "unreset") state = (yield* reset) ? "fit" : "unfit"
      return state === "fit" && (yield* settled(line))
    }),
    quit: line.quit,
    close: line.close
  }
}
