/**
 * What SES says of a submission, in our words: both the events of a
 * configuration set (`eventType`) and the feedback notifications of an identity
 * (`notificationType`), which are the same but for their name.
 *
 * A transient bounce without a word about the delivery is what SES makes of
 * automatic replies; it says nothing, lest an absence note turn a delivered
 * message into one that bounced.
 */
import { Effect, Option, Result, Schema } from "effect"
import * as Addresses from "../../core/model/Address.ts"
import type { Millis } from "../../core/model/Ids.ts"
import type { Notification, Outcome } from "../../core/model/Notification.ts"
import { isEnhanced, oneLine } from "../../core/model/Reply.ts"
import { millisOf } from "./SnsMessage.ts"

/** Of another type it counts as null. */
const optional = Schema.optionalKey(Schema.NullOr(Schema.String).pipe(Schema.catchDecoding(() => Effect.succeed(Option.some(null)))))

const Told = Schema.fromJsonString(
  Schema.Struct({
    eventType: optional,
    notificationType: optional,
    mail: Schema.Struct({ messageId: Schema.String, timestamp: optional }),
    bounce: Schema.optionalKey(
      Schema.Struct({
        bounceType: Schema.String,
        bounceSubType: optional,
        timestamp: optional,
        bouncedRecipients: Schema.Array(
          Schema.Struct({ emailAddress: Schema.String, action: optional, status: optional, diagnosticCode: optional })
        )
      })
    ),
    complaint: Schema.optionalKey(
      Schema.Struct({
        complaintSubType: optional,
        complaintFeedbackType: optional,
        timestamp: optional,
        complainedRecipients: Schema.Array(Schema.Struct({ emailAddress: Schema.String }))
      })
    ),
    delivery: Schema.optionalKey(
      Schema.Struct({ timestamp: optional, recipients: Schema.Array(Schema.String), smtpResponse: optional })
    ),
    reject: Schema.optionalKey(Schema.Struct({ reason: optional })),
    failure: Schema.optionalKey(Schema.Struct({ errorMessage: optional }))
  })
)
type Told = typeof Told.Type

const decode = Schema.decodeUnknownResult(Told)

export interface Meaning {
  readonly kind: string
  readonly notifications: ReadonlyArray<Notification>
}

/** What an SNS message's text means; one that is not about mail says nothing. */
export const read = (provider: string, text: string): Meaning => {
  const told = Result.getOrNull(decode(text))
  const kind = told?.eventType ?? told?.notificationType ?? null
  if (told === null || kind === null) return { kind: "Notification", notifications: [] }
  const notifications = outcomesOf(kind, told).flatMap(({ recipient, outcome }): ReadonlyArray<Notification> => {
    const of = { provider, providerMessageId: told.mail.messageId }
    if (recipient === null) return [{ ...of, recipient, outcome }]
    const address = Result.getOrNull(Addresses.parse(addressIn(recipient)))
    // Of an address that is none of ours it says nothing; without an address it would say it of all.
    return address === null ? [] : [{ ...of, recipient: address, outcome }]
  })
  return { kind, notifications }
}

/** SES hands on what the receiver's own report says, which may have brackets, and a type or a name before them. */
const addressIn = (recipient: string): string => (/<([^<>]*)>\s*$/.exec(recipient)?.[1] ?? recipient.replace(/^\s*rfc822\s*;/i, "")).trim()

interface Said {
  /** Null: all of the submission's. */
  readonly recipient: string | null
  readonly outcome: Outcome
}

const outcomesOf = (kind: string, { mail, bounce, complaint, delivery, reject, failure }: Told): ReadonlyArray<Said> => {
  const atOf = (timestamp: string | null | undefined): Millis | null => millisOf(timestamp ?? "") ?? millisOf(mail.timestamp ?? "")
  const ofAll = (code: string, message: string | null | undefined): ReadonlyArray<Said> => {
    const at = atOf(null)
    return at === null ? [] : [{ recipient: null, outcome: { _tag: "Failed", at, code, message: oneLine(message) ?? code } }]
  }
  switch (kind) {
    case "Bounce":
      return bounce === undefined ? [] : bounced(bounce, atOf(bounce.timestamp))
    case "Complaint":
      return complaint === undefined ? [] : complained(complaint, atOf(complaint.timestamp))
    case "Delivery": {
      const at = delivery === undefined ? null : atOf(delivery.timestamp)
      if (delivery === undefined || at === null) return []
      const smtpResponse = oneLine(delivery.smtpResponse)
      return delivery.recipients.map((recipient) => ({ recipient, outcome: { _tag: "Delivered", at, smtpResponse } }))
    }
    case "Reject":
      return ofAll("rejected", reject?.reason)
    case "Rendering Failure":
      return ofAll("rendering_failure", failure?.errorMessage)
    default:
      return []
  }
}

const classes: Readonly<Record<string, "permanent" | "transient">> = { Permanent: "permanent", Transient: "transient" }

const bounced = ({ bounceType, bounceSubType, bouncedRecipients }: NonNullable<Told["bounce"]>, at: Millis | null): ReadonlyArray<Said> => {
  const bounceClass = classes[bounceType] ?? "undetermined"
  if (at === null) return []
  return bouncedRecipients
    .map(({ emailAddress, action, status, diagnosticCode }) => ({
      recipient: emailAddress,
      action: oneLine(action),
      status: oneLine(status),
      diagnostic: oneLine(diagnosticCode)
    }))
    .filter(({ action, status, diagnostic }) => bounceClass !== "transient" || (action ?? status ?? diagnostic) !== null)
    .map(({ recipient, status, diagnostic }) => ({
      recipient,
      outcome: {
        _tag: "Bounced",
        at,
        class: bounceClass,
        smtpCode: smtpCodeIn(diagnostic ?? ""),
        enhancedCode: isEnhanced(status) ? status : null,
        diagnostic: diagnostic ?? oneLine(`${bounceType}: ${bounceSubType ?? "no more is known"}`)
      }
    }))
}

/** The code of a reply in a diagnostic such as `smtp; 550 5.1.1 user unknown`. */
const smtpCodeIn = (diagnostic: string): number | null => {
  const [, code] = /^(?:smtp;\s*)?([245]\d\d)(?=[\s-]|$)/i.exec(diagnostic) ?? []
  return code === undefined ? null : Number(code)
}

const complained = (
  { complaintSubType, complaintFeedbackType, complainedRecipients }: NonNullable<Told["complaint"]>,
  at: Millis | null
): ReadonlyArray<Said> => {
  if (at === null || complaintFeedbackType === "not-spam") return []
  const outcome: Outcome =
    complaintSubType === "OnAccountSuppressionList"
      ? // Nobody complains now: the address did before, so SES has sent nothing.
        { _tag: "Bounced", at, class: "permanent", smtpCode: null, enhancedCode: null, diagnostic: "Complaint: OnAccountSuppressionList" }
      : { _tag: "Complained", at }
  return complainedRecipients.map(({ emailAddress }) => ({ recipient: emailAddress, outcome }))
}
