/**
 * What a provider tells us later about a submission, in our own words. An
 * adapter authenticates the provider and translates; the core decides.
 */
import { Result, Schema } from "effect"
import { Address } from "./Address.ts"
import { canonical } from "./IdempotencyKey.ts"
import { providerMessageIdMax, type Input, type SubmissionRef } from "./Recipient.ts"
import { dateMax } from "./Timestamp.ts"

/** An instant that has a date; milliseconds. */
const at = Schema.Int.check(Schema.isBetween({ minimum: -dateMax, maximum: dateMax }))
const smtpCode = Schema.NullOr(Schema.Int)
const text = Schema.NullOr(Schema.String)

/** `Delivered`: the receiving server took it. `Bounced`: it came back. `Failed`: the provider gave up without a bounce. `Complained`: the reader called it spam. */
export const Outcome = Schema.Union([
  Schema.TaggedStruct("Delivered", { at, smtpResponse: text }),
  Schema.TaggedStruct("Bounced", {
    at,
    class: Schema.Literals(["permanent", "transient", "undetermined"]),
    smtpCode,
    enhancedCode: text,
    diagnostic: text
  }),
  Schema.TaggedStruct("Failed", { at, code: Schema.String, message: Schema.String }),
  Schema.TaggedStruct("Complained", { at })
])
export type Outcome = typeof Outcome.Type

export const Notification = Schema.Struct({
  /** Which adapter speaks, as in `SubmissionRef`. */
  provider: Schema.String,
  /** Any that is longer names no submission, and no index of a store need take it. */
  providerMessageId: Schema.String.check(Schema.isMaxLength(providerMessageIdMax)),
  /** Null when the provider speaks of the whole submission. */
  recipient: Schema.NullOr(Address),
  outcome: Outcome
})
export type Notification = typeof Notification.Type

/** The submission that it speaks of. */
export const refOf = (notification: Notification): SubmissionRef => ({
  provider: notification.provider,
  providerMessageId: notification.providerMessageId
})

/** Two notifications with one key say the same thing, in whatever order their members stand. */
export const keyOf = (notification: Notification): string => canonical(notification)

/** The machine's input for an outcome; a complaint is none, for it moves no state. */
export const toInput = (outcome: Outcome): Result.Result<Input, "complaint"> => {
  switch (outcome._tag) {
    case "Delivered":
      return Result.succeed(outcome)
    case "Bounced": {
      const { at, class: bounceClass, smtpCode, enhancedCode, diagnostic } = outcome
      return Result.succeed({ _tag: "Bounced", at, bounce: { class: bounceClass, smtpCode, enhancedCode, diagnostic } })
    }
    case "Failed": {
      const { at, code, message } = outcome
      return Result.succeed({ _tag: "Failed", at, failure: { stage: "provider", code, message } })
    }
    case "Complained":
      return Result.fail("complaint")
  }
}
