/**
 * MailProvider over Postmark's email API, which takes no raw message: what the
 * bytes say is said again as JSON, and Postmark writes a message of its own
 * from it, under our Message-ID and its own Return-Path.
 *
 * Who is mailed are the envelope's recipients, and nobody else: those whom the
 * header names go together, as it names them; the others with them, unseen; and
 * where none is left to be seen, each of the others by himself, for Postmark
 * wants a visible recipient. A submission is named after its message, whose id
 * goes along as metadata and comes back with each notification. So it may take
 * several calls; what comes of each is told of its recipients. Where no time is
 * left for all of them, the recipients of the others are told to come again.
 */
import { Clock, Duration, Effect, Redacted, Result, Schema, type Scope } from "effect"
import { Agent } from "undici"
import type { Address } from "../../core/model/Address.ts"
import type { Millis } from "../../core/model/Ids.ts"
import type { Reply } from "../../core/model/Reply.ts"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider, type SubmitRequest } from "../../core/ports/MailProvider.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as SubmissionTurns from "../../core/SubmissionTurns.ts"
import * as PostmarkMessage from "./PostmarkMessage.ts"
import { name } from "./PostmarkNotificationIntake.ts"

export interface Options {
  readonly serverToken: Redacted.Redacted<string>
  /** The message stream; null: the server's default, `outbound`. */
  readonly messageStream?: string | null
  /** Another address of the API: for tests. */
  readonly endpoint?: string | null
  /** For each call. Default 60 seconds. */
  readonly deadline?: Duration.Input
}

/** Bytes of a message with its attachments, encoded: 10 MiB. */
export const sizeBytesMax = 10 * 1024 * 1024
/** For how long a submission makes calls, to the last one's begin: the core waits for ten. */
const callsBegin = Duration.minutes(8)
/** Bytes of an answer that are read. */
const answerBytesMax = 64 * 1024

/** Submissions at a time, one call each. Each holds its message whole, in several forms: of large ones only so many. */
const submissionsMax = { small: 16, large: 4 }

/** Calls nobody until there is something to submit; the scope closes what is open. */
export const make = ({
  serverToken,
  messageStream = null,
  endpoint = null,
  deadline = "60 seconds"
}: Options): Effect.Effect<MailProvider, never, Scope.Scope | Mime> =>
  Effect.gen(function* () {
    const mime = yield* Mime
    const agent = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new Agent({
            // Verified, said outright: an environment variable of Node's would turn it off.
            connect: { timeout: 10_000, rejectUnauthorized: true },
            connections: submissionsMax.small + submissionsMax.large,
            headersTimeout: 0,
            bodyTimeout: 0
          })
      ),
      (agent) => Effect.promise(() => agent.destroy())
    )
    const origin = endpoint ?? "https://api.postmarkapp.com"

    const call = (message: PostmarkMessage.Message) =>
      Effect.tryPromise({
        try: async (signal) => {
          const { statusCode, body } = await agent.request({
            origin,
            path: "/email",
            method: "POST",
            signal,
            headers: {
              accept: "application/json",
              "content-type": "application/json",
              "x-postmark-server-token": Redacted.value(serverToken)
            },
            body: JSON.stringify(message)
          })
          return { status: statusCode, text: await textOf(body) }
        },
        // Its words only: what is sent stays out of logs.
        catch: (error) => new MailProviderUnavailable({ cause: new Error(error instanceof Error ? error.message : "no answer") })
      }).pipe(
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.fail(new MailProviderUnavailable({ cause: new Error("no answer in time") }))
        }),
        Effect.flatMap(({ status, text }) => Effect.fromResult(judgedOf(status, text)))
      )

    const submit = Effect.fnUntraced(function* ({ messageId, envelope: { recipients }, mime: bytes, isWanted }: SubmitRequest, until: Millis) {
      const parsed = yield* mime.parse(bytes)
      // The message is ours, so that is the reader's fault: what it has left would go out as a file without a name.
      if (parsed.defects.includes("too_costly")) return yield* new MailProviderUnavailable({ cause: new Error("the message could not be read") })
      const replies: Array<{ readonly recipient: Address; readonly reply: Reply }> = []
      const tell = (group: PostmarkMessage.Group, replyOf: (recipient: Address) => Reply) =>
        void replies.push(...PostmarkMessage.recipientsOf(group).map((recipient) => ({ recipient, reply: replyOf(recipient) })))
      const groups = PostmarkMessage.groupsOf(parsed, recipients)
      for (const [index, group] of groups.entries()) {
        if (index > 0 && (!isWanted() || (yield* Clock.currentTimeMillis) >= until)) {
          // Who is asked no more would not be told of either, and those told already would be mailed again.
          for (const later of groups.slice(index)) tell(later, () => notYet)
          break
        }
        const judged = yield* Effect.result(call(PostmarkMessage.make(parsed, group, { messageId, messageStream })))
        if (Result.isSuccess(judged)) tell(group, judged.success)
        else if (judged.failure._tag === "SubmissionRefused" && groups.length > 1) {
          const { reply } = judged.failure
          tell(group, () => reply)
        } else if (index === 0) return yield* judged.failure
        else {
          // Others were told already: these come again.
          for (const later of groups.slice(index)) tell(later, () => notNow)
          break
        }
      }
      return { providerMessageId: messageId, replies, pollAt: null }
    })

    const inTurn = SubmissionTurns.make(submissionsMax)
    return {
      name,
      submit: Effect.fnUntraced(function* (request) {
        if (request.sizeBytes > sizeBytesMax) return yield* new SubmissionRefused({ reply: tooLarge })
        const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(callsBegin)
        return yield* inTurn(request, submit(request, until))
      }),
      poll: () => Effect.succeed({ notifications: [], pollAt: null })
    }
  })

const textOf = async (body: AsyncIterable<Uint8Array>): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > answerBytesMax) throw new Error("the answer is too long")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

const Answered = Schema.fromJsonString(Schema.Struct({ ErrorCode: Schema.Int, Message: Schema.String }))

const tooLarge: Reply = { smtpCode: 552, enhancedCode: "5.3.4", text: "the message is larger than Postmark takes" }
const notNow: Reply = { smtpCode: 451, enhancedCode: "4.4.2", text: "Postmark did not answer" }
const notYet: Reply = { smtpCode: 451, enhancedCode: "4.4.5", text: "the message has gone to others, and there was no time for more" }

/**
 * What Postmark's error codes say. What concerns the message is for good; what concerns the account, its rate or its
 * settings is the operator's to mend, and passes.
 */
const refusals: Readonly<Record<number, readonly [smtpCode: number, enhancedCode: string]>> = {
  100: [451, "4.3.2"],
  300: [554, "5.6.0"],
  400: [451, "4.7.1"],
  401: [451, "4.7.1"],
  402: [554, "5.6.0"],
  403: [554, "5.6.0"],
  405: [451, "4.7.1"],
  409: [554, "5.6.0"],
  411: [554, "5.6.1"],
  412: [451, "4.7.1"],
  413: [451, "4.7.1"],
  429: [451, "4.4.5"]
}
/** All recipients of the call are on the server's suppression list. */
const inactiveRecipients = 406
/** What the address of one says who is on that list. */
const inactive = (text: string): Reply => ({ smtpCode: 550, enhancedCode: "5.7.1", text })

/** The reply to each recipient of a call, or that the call as a whole came to nothing. */
const judgedOf = (
  status: number,
  text: string
): Result.Result<(recipient: Address) => Reply, SubmissionRefused | MailProviderUnavailable> => {
  const answered = Result.getOrNull(Schema.decodeUnknownResult(Answered)(text))
  const whole = (answered?.Message ?? "no reason given").replace(/\s+/g, " ")
  const said = whole.slice(0, 500)
  if (status === 200 && answered?.ErrorCode === 0) {
    // An accepted call names the recipients that are left out.
    const leftOut = new Set(whole === "OK" ? [] : whole.toLowerCase().match(/[^\s,;:<>]+@[^\s,;:<>]+/g)?.map(withoutStop))
    return Result.succeed((recipient) =>
      leftOut.has(recipient.toLowerCase()) ? inactive(said) : { smtpCode: 250, enhancedCode: "2.0.0", text: said }
    )
  }
  if (answered?.ErrorCode === inactiveRecipients) return Result.succeed(() => inactive(said))
  const [smtpCode, enhancedCode] = status === 413 ? [tooLarge.smtpCode, tooLarge.enhancedCode] : (refusals[status === 429 ? 429 : (answered?.ErrorCode ?? 0)] ?? [])
  return smtpCode === undefined || enhancedCode == null || status >= 500 || status === 401
    ? Result.fail(new MailProviderUnavailable({ cause: new Error(`Postmark answered ${status}: ${said}`) }))
    : Result.fail(new SubmissionRefused({ reply: { smtpCode, enhancedCode, text: said } }))
}

const withoutStop = (address: string): string => address.replace(/\.$/, "")
