/**
 * MailProvider over SMTP submission: a relay or smarthost that takes this
 * service's mail and delivers it. The bytes arrive as they came, with a
 * DKIM-Signature before them where there is a key for their author, and with
 * every line end as CRLF.
 *
 * What the server says before MAIL FROM, and what it says of the session
 * rather than of the message, makes it unavailable and bounces nobody: it is
 * the operator's to mend. Delivery notices come by mail, so there is nothing
 * to poll; a submission is named after its message, whose id stands in the
 * Message-ID, and in the server's log with it.
 */
import { Effect, Stream, type Scope } from "effect"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider } from "../../core/ports/MailProvider.ts"
import { wantedNoMore, type SmtpFailed } from "./SmtpAnswer.ts"
import * as SmtpPool from "./SmtpPool.ts"
import { check, checkEnvelope, name, type Options } from "./SmtpSettings.ts"
import { wireLines } from "./WireLines.ts"

export type { DkimKey } from "./Dkim.ts"
export { defaults, type Options, type Timeouts } from "./SmtpSettings.ts"

/** Connects when there is something to submit; the scope closes what is open. Dies at once on options that cannot work. */
export const make = (options: Options): Effect.Effect<MailProvider, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { settings, limits, sign } = yield* Effect.sync(() => check(options))
    const pool = yield* SmtpPool.make(settings, limits)
    return {
      name,
      submit: Effect.fnUntraced(function* (request) {
        const { messageId, envelope, sizeBytes, dkim, mime, isWanted } = request
        const recipients = yield* Effect.sync(() => checkEnvelope(envelope))
        const lines = wireLines(mime)
        const signatures = yield* sign(lines, dkim)
        const signed = signatures.length === 0 ? lines : Stream.concat(Stream.make(signatures), lines)
        // Asked once more before its first byte: the process may have stood still since its turn.
        const stillWanted = Effect.suspend(() => (isWanted() ? Effect.succeed(signed) : Effect.fail(wantedNoMore())))
        const answer = yield* pool
          .use((connection) => connection.send({ ...envelope, recipients }, sizeBytes + signatures.length, Stream.unwrap(stillWanted)), request)
          .pipe(Effect.catchTag("SmtpFailed", (cause: SmtpFailed) => Effect.fail(new MailProviderUnavailable({ cause }))))
        if (answer._tag === "Refused") return yield* new SubmissionRefused({ reply: answer.reply })
        return { providerMessageId: messageId, replies: answer.replies, pollAt: null }
      }),
      poll: () => Effect.succeed({ notifications: [], pollAt: null })
    }
  })
