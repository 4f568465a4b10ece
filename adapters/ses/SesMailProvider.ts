/**
 * MailProvider over Amazon SES, API version 2: the message goes as it is, raw,
 * to the envelope's recipients. One call takes 50 of them; the rest is told to
 * come again (`452 4.5.3`, as a mail server says it), and is a submission of
 * its own, so that each has the name by which SES speaks of it later.
 *
 * SES sends under its own Return-Path and Message-ID; what it forwards of
 * bounces goes to the envelope's return path, which must be of an identity
 * that SES has verified. Outcomes come by SNS (`SesNotificationIntake`), so
 * there is nothing to poll.
 */
import { SendEmailCommand, SESv2Client, SESv2ServiceException, type SendEmailCommandInput } from "@aws-sdk/client-sesv2"
import { Duration, Effect, Redacted, Stream, type Scope } from "effect"
import type { Address } from "../../core/model/Address.ts"
import type { Reply } from "../../core/model/Reply.ts"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider, type SubmitRequest } from "../../core/ports/MailProvider.ts"
import * as SubmissionTurns from "../../core/SubmissionTurns.ts"
import { name } from "./SesNotificationIntake.ts"

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted<string>
}

export interface Options {
  /** `eu-central-1`. */
  readonly region: string
  /** Null: those that the SDK finds, in the environment, a profile, or the machine's role. */
  readonly credentials?: Credentials | null
  /** The configuration set whose events are published; null: the identity's own. */
  readonly configurationSet?: string | null
  /** Another address of the API: for tests. */
  readonly endpoint?: string | null
  /** For a whole call. Default 60 seconds. */
  readonly deadline?: Duration.Input
}

/** Recipients of one call. */
const recipientsMax = 50
/** Bytes of a message, before base64; the API takes 40 MB of the whole. */
export const sizeBytesMax = 30_000_000

/**
 * Calls at a time, fewer than the SDK has sockets. Each holds its message whole, with what is made of it to be sent: of large
 * ones only so many.
 */
const callsMax = { small: 40, large: 4 }

/** Calls nobody until there is something to submit; the scope closes what is open. */
export const make = ({
  region,
  credentials = null,
  configurationSet = null,
  endpoint = null,
  deadline = "60 seconds"
}: Options): Effect.Effect<MailProvider, never, Scope.Scope> =>
  Effect.gen(function* () {
    const client = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new SESv2Client({
            region,
            // The core decides what is tried again, and when.
            maxAttempts: 1,
            // Certificates are verified, said outright: an environment variable of Node's would turn it off.
            requestHandler: { connectionTimeout: 10_000, httpsAgent: { rejectUnauthorized: true } },
            ...(endpoint === null ? {} : { endpoint }),
            ...(credentials === null ? {} : { credentials: { ...credentials, secretAccessKey: Redacted.value(credentials.secretAccessKey) } })
          })
      ),
      (client) => Effect.sync(() => client.destroy())
    )

    const send = (input: SendEmailCommandInput) =>
      Effect.tryPromise({
        try: (abortSignal) => client.send(new SendEmailCommand(input), { abortSignal }),
        catch: (error) => failureOf(error)
      }).pipe(
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.fail(new MailProviderUnavailable({ cause: new Error("no answer in time") }))
        })
      )

    const submit = Effect.fnUntraced(function* ({ messageId, envelope: { recipients, returnPath }, mime }: SubmitRequest) {
      const [now, later] = [recipients.slice(0, recipientsMax), recipients.slice(recipientsMax)]
      const Data = yield* Stream.mkUint8Array(mime)
      const { MessageId } = yield* send({
        // Without a From of the call, SES takes the message's own; its headers name no recipients here.
        Content: { Raw: { Data } },
        Destination: { ToAddresses: now },
        EmailTags: [{ Name: "mailroom-message", Value: messageId }],
        ...(returnPath === null ? {} : { FeedbackForwardingEmailAddress: returnPath }),
        ...(configurationSet === null ? {} : { ConfigurationSetName: configurationSet })
      })
      if (MessageId === undefined) return yield* new MailProviderUnavailable({ cause: new Error("SES named no message") })
      const accepted: Reply = { smtpCode: 250, enhancedCode: "2.0.0", text: `Ok ${MessageId}` }
      return { providerMessageId: MessageId, replies: [...repliesOf(now, accepted), ...repliesOf(later, tooMany)], pollAt: null }
    })

    const inTurn = SubmissionTurns.make(callsMax)
    return {
      name,
      submit: (request) =>
        request.sizeBytes > sizeBytesMax ? Effect.fail(new SubmissionRefused({ reply: tooLarge })) : inTurn(request, submit(request)),
      poll: () => Effect.succeed({ notifications: [], pollAt: null })
    }
  })

const repliesOf = (recipients: ReadonlyArray<Address>, reply: Reply) => recipients.map((recipient) => ({ recipient, reply }))

const tooLarge: Reply = { smtpCode: 552, enhancedCode: "5.3.4", text: "the message is larger than SES takes" }
const tooMany: Reply = { smtpCode: 452, enhancedCode: "4.5.3", text: `SES takes ${recipientsMax} recipients at a time` }

/**
 * What SES says of a submission that it has not taken. What concerns the message is for good; what concerns the account,
 * its rate or its settings is the operator's to mend, and passes.
 */
const refusals: Readonly<Record<string, readonly [smtpCode: number, enhancedCode: string]>> = {
  MessageRejected: [554, "5.6.0"],
  BadRequestException: [554, "5.6.0"],
  MailFromDomainNotVerifiedException: [451, "4.7.1"],
  AccountSuspendedException: [451, "4.7.1"],
  SendingPausedException: [451, "4.3.2"],
  NotFoundException: [451, "4.3.5"],
  TooManyRequestsException: [451, "4.4.5"],
  ThrottlingException: [451, "4.4.5"],
  Throttling: [451, "4.4.5"],
  LimitExceededException: [451, "4.4.5"]
}

/**
 * An identity that SES has not verified, or any recipient while the account is in SES's sandbox: that has no code of its
 * own but that of a message with malware, and only its words tell it.
 */
const isUnverified = ({ name, message }: SESv2ServiceException): boolean =>
  name === "MessageRejected" && /^Email address is not verified\b/i.test(message)

const failureOf = (error: unknown): SubmissionRefused | MailProviderUnavailable => {
  const message = error instanceof Error ? `${error.name}: ${error.message}`.replace(/\s+/g, " ").slice(0, 500) : "SES could not be called"
  if (error instanceof SESv2ServiceException && error.$fault === "client") {
    if (error.$metadata.httpStatusCode === 413) return new SubmissionRefused({ reply: tooLarge })
    const [smtpCode, enhancedCode] = (isUnverified(error) ? refusals["MailFromDomainNotVerifiedException"] : refusals[error.name]) ?? []
    if (smtpCode !== undefined && enhancedCode !== undefined) {
      return new SubmissionRefused({ reply: { smtpCode, enhancedCode, text: message } })
    }
  }
  // Its words only: the error itself holds what was sent.
  return new MailProviderUnavailable({ cause: new Error(message) })
}
