/**
 * NotificationIntake for Amazon SES by way of SNS. A request is believed when
 * its topic is one of the operator's, its certificate is SNS's own, and its
 * signature is over what it says; only then is it looked into. Signature
 * versions 1 (SHA-1) and 2 (SHA-256) are both SNS's to choose: who would make
 * two texts of one SHA-1 would still have to name the operator's topic in the
 * one that SNS signs.
 *
 * A subscription to one of these topics is confirmed by itself.
 */
import { Clock, Duration, Effect, Option } from "effect"
import { verify } from "node:crypto"
import { notificationRetention, webhookDeadline } from "../../core/model/Limits.ts"
import { intakeKindLengthMax, IntakeRefused, IntakeUnavailable, type NotificationIntake } from "../../core/ports/NotificationIntake.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import * as SesNotifications from "./SesNotifications.ts"
import * as SnsCertificates from "./SnsCertificates.ts"
import { millisOf, parse, signedText, type SnsMessage } from "./SnsMessage.ts"

/** Of the provider, its submissions and its notifications. */
export const name = "ses"

export interface Options {
  /** The topics that are the operator's, by ARN. */
  readonly topics: ReadonlyArray<string>
}

const algorithms = { "1": "RSA-SHA1", "2": "RSA-SHA256" } as const

export const make = ({ topics }: Options): Effect.Effect<NotificationIntake, never, WebhookTransport> =>
  Effect.gen(function* () {
    const transport = yield* WebhookTransport
    const certificates = SnsCertificates.make(transport)

    const authenticated = Effect.fnUntraced(function* (body: Uint8Array) {
      const message = parse(body)
      if (message === null) return yield* new IntakeRefused({ reason: "malformed" })
      if (!topics.includes(message.TopicArn)) return yield* new IntakeRefused({ reason: "wrong_account" })
      const key = yield* certificates.keyAt(message.SigningCertURL)
      const signature = new Uint8Array(Buffer.from(message.Signature, "base64"))
      if (!verify(algorithms[message.SignatureVersion], new TextEncoder().encode(signedText(message)), key, signature)) {
        return yield* new IntakeRefused({ reason: "bad_signature" })
      }
      const sentAt = millisOf(message.Timestamp)
      const isStale = sentAt === null || sentAt < (yield* Clock.currentTimeMillis) - notificationRetention
      return isStale ? yield* new IntakeRefused({ reason: "stale" }) : message
    })

    /** Tells SNS that the subscription is wanted; SNS asks again where this fails. */
    const confirm = Effect.fnUntraced(function* ({ SubscribeURL = "", TopicArn }: SnsMessage) {
      const parsed = SnsCertificates.parseSnsUrl(SubscribeURL)
      const parameters = parsed?.url.searchParams
      if (parsed === null || parameters?.get("Action") !== "ConfirmSubscription" || parameters.get("TopicArn") !== TopicArn) {
        return yield* new IntakeRefused({ reason: "malformed" })
      }
      const answer = yield* transport.get({ target: parsed.target, headers: {} }).pipe(
        Effect.mapError((cause) => new IntakeUnavailable({ cause })),
        Effect.timeoutOption(Duration.millis(webhookDeadline))
      )
      if (Option.isNone(answer) || answer.value.status !== 200) {
        return yield* new IntakeUnavailable({ cause: new Error("SNS did not take the confirmation") })
      }
      yield* Effect.logInfo("a subscription to a topic is confirmed").pipe(Effect.annotateLogs({ topic: TopicArn }))
    })

    return {
      name,
      receive: Effect.fnUntraced(function* ({ body }) {
        const message = yield* authenticated(body)
        if (message.Type === "SubscriptionConfirmation") yield* confirm(message)
        if (message.Type === "UnsubscribeConfirmation") {
          yield* Effect.logWarning("a subscription to a topic has ended").pipe(Effect.annotateLogs({ topic: message.TopicArn }))
        }
        const { kind, notifications } =
          message.Type === "Notification" ? SesNotifications.read(name, message.Message) : { kind: message.Type, notifications: [] }
        return { id: message.MessageId, kind: kind.slice(0, intakeKindLengthMax), notifications }
      })
    }
  })
