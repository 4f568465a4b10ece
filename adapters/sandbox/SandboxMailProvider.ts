/**
 * The provider of sandbox mail (decided by the recipient's local part): accepts
 * everything, delivers nothing, and touches no network. What becomes of a
 * submission follows from its recipients and the time it was submitted, so
 * there is nothing to keep, and nothing that a restart could lose.
 */
import { Clock, Effect, Stream } from "effect"
import * as Addresses from "../../core/model/Address.ts"
import type { Address } from "../../core/model/Address.ts"
import type { Millis } from "../../core/model/Ids.ts"
import type { Submission } from "../../core/model/Message.ts"
import type { Notification, Outcome } from "../../core/model/Notification.ts"
import type { Reply } from "../../core/model/Reply.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"

/** Milliseconds after the submission. */
export interface Options {
  /** Until the first, and mostly only, outcome. */
  readonly outcomeAfter: Millis
  readonly delayedAfter: Millis
  readonly lateBounceAfter: Millis
  /** Between the three notices of one delivery. */
  readonly duplicateEvery: Millis
}

export const defaults: Options = { outcomeAfter: 500, delayedAfter: 15_000, lateBounceAfter: 10_000, duplicateEvery: 500 }

export const make = (options: Partial<Options> = {}): MailProvider => {
  const times = { ...defaults, ...options }
  return {
    name,
    submit: Effect.fnUntraced(function* ({ messageId, envelope, mime }) {
      yield* Stream.runDrain(mime)
      const now = yield* Clock.currentTimeMillis
      return {
        providerMessageId: `sbx_${messageId}`,
        replies: envelope.recipients.map((recipient) => ({ recipient, reply: accepted })),
        pollAt: noticesOf(envelope.recipients, now, times)[0]?.noticedAt ?? null
      }
    }),
    poll: ({ providerMessageId, recipients, submittedAt }: Submission) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const notices = noticesOf(recipients, submittedAt, times)
        const [due, ahead] = [notices.filter((one) => one.noticedAt <= now), notices.filter((one) => one.noticedAt > now)]
        return {
          notifications: due.map(
            ({ recipient, outcome }): Notification => ({ provider: name, providerMessageId, recipient, outcome })
          ),
          pollAt: ahead[0]?.noticedAt ?? null
        }
      })
  }
}

const name = "sandbox"

const accepted: Reply = { smtpCode: 250, enhancedCode: "2.0.0", text: "Ok: accepted by the sandbox" }

interface Notice {
  readonly recipient: Address
  /** When the sandbox tells of the outcome: `outcome.at`, or later for a duplicate. */
  readonly noticedAt: Millis
  readonly outcome: Outcome
}

/** All that will ever be told of a submission, in the order of the telling. */
const noticesOf = (recipients: ReadonlyArray<Address>, submittedAt: Millis, times: Options): ReadonlyArray<Notice> =>
  recipients
    .flatMap((recipient) => noticesTo(recipient, submittedAt, times))
    .toSorted((left, right) => left.noticedAt - right.noticedAt)

const noticesTo = (recipient: Address, submittedAt: Millis, times: Options): ReadonlyArray<Notice> => {
  const first = submittedAt + times.outcomeAfter
  const notice = (outcome: Outcome, noticedAt: Millis = outcome.at): Notice => ({ recipient, noticedAt, outcome })
  switch (scenarioOf(recipient)) {
    case "bounced":
      return [notice(bounced(first))]
    case "bounced-soft":
      return [notice(bouncedSoft(first))]
    case "failed":
      return [notice({ _tag: "Failed", at: first, code: "sandbox_failure", message: "The sandbox fails mail to this address." })]
    case "delayed":
      return [notice(delivered(submittedAt + times.delayedAfter))]
    case "late-bounce":
      return [notice(delivered(first)), notice(bounced(submittedAt + times.lateBounceAfter))]
    case "duplicate":
      return [0, 1, 2].map((time) => notice(delivered(first), first + time * times.duplicateEvery))
    default:
      return [notice(delivered(first))]
  }
}

/** `Bounced+invoice-7@anywhere.example` is `bounced`. */
const scenarioOf = (recipient: Address): string => Addresses.localPart(recipient).toLowerCase().split("+")[0]!

const delivered = (at: Millis): Outcome => ({ _tag: "Delivered", at, smtpResponse: "250 2.0.0 Ok: delivered in the sandbox" })

const bounced = (at: Millis): Outcome => ({
  _tag: "Bounced",
  at,
  class: "permanent",
  smtpCode: 550,
  enhancedCode: "5.1.1",
  diagnostic: "550 5.1.1 The sandbox knows no such mailbox"
})

const bouncedSoft = (at: Millis): Outcome => ({
  _tag: "Bounced",
  at,
  class: "transient",
  smtpCode: 452,
  enhancedCode: "4.2.2",
  diagnostic: "452 4.2.2 The sandbox finds this mailbox full"
})
