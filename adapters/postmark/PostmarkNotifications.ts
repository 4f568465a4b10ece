/**
 * What Postmark says of a submission, in our words. Its types of bounces are
 * judged here by what they say of the address; those that speak of something
 * else (automatic replies, delays, subscriptions) say nothing.
 */
import { Effect, Option, Result, Schema } from "effect"
import * as Addresses from "../../core/model/Address.ts"
import type { Millis } from "../../core/model/Ids.ts"
import { Uuid } from "../../core/model/Ids.ts"
import type { Notification, Outcome } from "../../core/model/Notification.ts"
import { oneLine } from "../../core/model/Reply.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { metadataKey } from "./PostmarkMessage.ts"

/** Of another type it counts as null: what is refused for it Postmark would not send again. */
const optionalOf = <S extends Schema.Constraint>(schema: S) =>
  Schema.optionalKey(Schema.NullOr(schema).pipe(Schema.catchDecoding(() => Effect.succeed(Option.some(null)))))
const optional = optionalOf(Schema.String)

const Told = Schema.fromJsonString(
  Schema.Struct({
    RecordType: Schema.String,
    ServerID: optionalOf(Schema.Int),
    MessageID: optional,
    Metadata: optionalOf(Schema.Record(Schema.String, Schema.Unknown)),
    // 64 bits wide: more than a number holds to its last digit.
    ID: optionalOf(Schema.Finite),
    Type: optional,
    Email: optional,
    Recipient: optional,
    BouncedAt: optional,
    DeliveredAt: optional,
    ChangedAt: optional,
    Details: optional,
    Description: optional,
    SuppressSending: optionalOf(Schema.Boolean),
    SuppressionReason: optional
  })
)
export type Told = typeof Told.Type

const decode = Schema.decodeUnknownResult(Told)

/** Null, if it is nothing that Postmark sends. */
export const parse = (text: string): Told | null => Result.getOrNull(decode(text))

/** What each type of bounce says; null: nothing about the delivery. What is not here is not known yet. */
const bounces: Readonly<Record<string, "permanent" | "transient" | "undetermined" | "failed" | "complaint" | null>> = {
  HardBounce: "permanent",
  BadEmailAddress: "permanent",
  ManuallyDeactivated: "permanent",
  SoftBounce: "transient",
  DnsError: "transient",
  Unknown: "undetermined",
  SpamNotification: "undetermined",
  VirusNotification: "undetermined",
  Blocked: "undetermined",
  DMARCPolicy: "undetermined",
  SMTPApiError: "failed",
  TemplateRenderingFailed: "failed",
  SpamComplaint: "complaint",
  Transient: null,
  Unsubscribe: null,
  Subscribe: null,
  AutoResponder: null,
  AddressChange: null,
  OpenRelayTest: null,
  ChallengeVerification: null,
  Unconfirmed: null,
  InboundError: null
}

export const read = (provider: string, told: Told): ReadonlyArray<Notification> => {
  // Only what went out with our message's id is ours.
  const messageId = Schema.decodeUnknownOption(Uuid)(told.Metadata?.[metadataKey])
  const recipient = Addresses.parse((told.Email ?? told.Recipient ?? "").trim())
  const at = atOf(told.BouncedAt ?? told.DeliveredAt ?? told.ChangedAt ?? "")
  if (Option.isNone(messageId) || Result.isFailure(recipient) || at === null) return []
  const outcome = outcomeOf(told, at)
  return outcome === null ? [] : [{ provider, providerMessageId: messageId.value, recipient: recipient.success, outcome }]
}

const atOf = (timestamp: string): Millis | null =>
  Option.getOrNull(Option.map(Timestamp.toMicros(timestamp), (micros) => Number(micros / 1000n)))

const outcomeOf = (told: Told, at: Millis): Outcome | null => {
  switch (told.RecordType) {
    case "Delivery":
      return { _tag: "Delivered", at, smtpResponse: oneLine(told.Details) }
    case "Bounce":
      return bounced(told, at)
    case "SpamComplaint":
      return { _tag: "Complained", at }
    case "SubscriptionChange":
      // A bounce is told of as a bounce, and who unsubscribes complains of nothing.
      return told.SuppressSending === true && told.SuppressionReason === "SpamComplaint" ? { _tag: "Complained", at } : null
    default:
      return null
  }
}

const bounced = ({ Type, Details, Description }: Told, at: Millis): Outcome | null => {
  const type = oneLine(Type) ?? "Unknown"
  const said = Object.hasOwn(bounces, type) ? bounces[type]! : "undetermined"
  const text = oneLine(Details) ?? oneLine(Description) ?? type
  if (said === null) return null
  if (said === "complaint") return { _tag: "Complained", at }
  if (said === "failed") return { _tag: "Failed", at, code: type, message: text }
  const [, smtpCode] = /(?:^|smtp;\s*)([245]\d\d)(?=[\s-]|$)/i.exec(text) ?? []
  const [enhancedCode] = /(?<![\w.])[245]\.\d{1,3}\.\d{1,3}\b(?![.\d])/.exec(text) ?? []
  return {
    _tag: "Bounced",
    at,
    class: said,
    smtpCode: smtpCode === undefined ? null : Number(smtpCode),
    enhancedCode: enhancedCode ?? null,
    diagnostic: text
  }
}
