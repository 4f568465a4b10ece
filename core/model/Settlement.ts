/**
 * What outcomes do to a message: each recipient's machine takes its input, the
 * status is folded again, and the events of all that moved are drafted. The
 * one way in which an outbound message changes after acceptance.
 */
import { Result } from "effect"
import * as Address from "./Address.ts"
import type { Fields, Type } from "./Event.ts"
import type { Millis } from "./Ids.ts"
import * as Message from "./Message.ts"
import * as Recipient from "./Recipient.ts"
import * as Timestamp from "./Timestamp.ts"

/**
 * An outcome for one recipient; a complaint moves no state. `reported`: by who may know of an acceptance before we do, so
 * what it says of a queued recipient is kept beside it, and applied when the acceptance is known.
 */
export type Outcome =
  | { readonly recipient: Address.Address; readonly input: Recipient.Input }
  | { readonly recipient: Address.Address; readonly reported: Recipient.Input }
  | { readonly recipient: Address.Address; readonly complainedAt: Millis }

/** An event yet without id and time. */
export type Draft = {
  [T in Extract<Type, "message.sent" | "message.delivered" | "message.bounced" | "message.failed">]: {
    readonly type: T
    readonly sequence: number
    readonly fields: Fields<T>
  }
}["message.sent" | "message.delivered" | "message.bounced" | "message.failed"]

export interface Settled {
  /** One version on; the very same message if nothing changed. */
  readonly message: Message.Message
  readonly drafts: ReadonlyArray<Draft>
}

/** Applies outcomes to the recipients they name. What the machine does not take leaves its evidence and moves nothing. */
export const settle = (message: Message.Message, outcomes: ReadonlyArray<Outcome>, at: Millis): Settled => {
  const moves: Array<{ readonly recipient: Recipient.Recipient; readonly decision: Recipient.Decision }> = []
  const recipients = [...message.recipients]
  for (const outcome of outcomes) {
    const index = recipients.findIndex((one) => Address.foldCase(one.address) === Address.foldCase(outcome.recipient))
    const recipient = recipients[index]
    if (recipient === undefined) continue
    if ("complainedAt" in outcome) {
      recipients[index] = Recipient.complain(recipient, outcome.complainedAt)
      continue
    }
    const input = inputOf(outcome)
    if ("reported" in outcome && recipient.status === "queued") {
      recipients[index] = Recipient.witness(recipient, input)
      continue
    }
    // What was said before of a recipient that is only now accepted comes behind that.
    for (const next of input._tag === "Accepted" ? [input, ...Recipient.heard(recipient)] : [input]) {
      const current = recipients[index]!
      const decided = Recipient.decide(current, next)
      if (Result.isFailure(decided)) {
        recipients[index] = Recipient.witness(current, next)
        continue
      }
      const moved = Recipient.apply(current, decided.success)
      recipients[index] = moved
      moves.push({ recipient: moved, decision: decided.success })
    }
  }
  if (recipients.every((recipient, index) => recipient === message.recipients[index])) return { message, drafts: [] }

  const status = Message.fold(recipients)
  const accepted = recipients.filter(({ submission }) => submission !== null)
  const becameSent =
    message.sentAt === null && accepted.length > 0 && recipients.every((recipient) => recipient.status !== "queued")
  const drafts: Array<Draft> = []
  const sequence = () => message.eventSequence + drafts.length + 1
  if (becameSent) drafts.push({ type: "message.sent", sequence: sequence(), fields: sentFields(message, accepted, at) })
  for (const { recipient, decision } of moves) {
    const draft = draftOf(recipient, decision, status, sequence())
    if (draft !== null) drafts.push(draft)
  }
  return {
    message: {
      ...message,
      version: message.version + 1,
      eventSequence: message.eventSequence + drafts.length,
      updatedAt: at,
      recipients,
      status,
      failure: failureOf(recipients),
      sentAt: becameSent ? at : message.sentAt
    },
    drafts
  }
}

const inputOf = (outcome: Exclude<Outcome, { readonly complainedAt: Millis }>): Recipient.Input =>
  "reported" in outcome ? outcome.reported : outcome.input

/**
 * Addresses that must not be mailed again: a bounce for good, or a complaint. Never in the sandbox. The message is as it was
 * before these outcomes: what is told again was acted upon when it was told, and the operator may have lifted it since.
 */
export const suppressed = (
  message: Message.Message,
  outcomes: ReadonlyArray<Outcome>
): ReadonlyArray<{ readonly address: Address.Address; readonly reason: "bounce" | "complaint" }> =>
  message.environment === "sandbox"
    ? []
    : outcomes.flatMap((outcome) => {
        const reason = "complainedAt" in outcome ? ("complaint" as const) : isHardBounce(inputOf(outcome)) ? ("bounce" as const) : null
        const isNews = () => settle(message, [outcome], 0).message !== message // whatever the time
        return reason !== null && isNews() ? [{ address: outcome.recipient, reason }] : []
      })

const isHardBounce = (input: Recipient.Input): boolean => input._tag === "Bounced" && Recipient.isHard(input.bounce)

const sentFields = (
  message: Message.Message,
  accepted: ReadonlyArray<Recipient.Recipient>,
  at: Millis
): Fields<"message.sent"> => {
  const last = accepted[accepted.length - 1]!.submission! // `accepted` are those with a submission, and not empty
  return {
    internetMessageId: message.internetMessageId,
    provider: last.provider,
    providerMessageId: last.providerMessageId,
    recipients: accepted.map(({ address }) => address),
    sentAt: Timestamp.fromMillis(at)
  }
}

const failureOf = (recipients: ReadonlyArray<Recipient.Recipient>): Message.Message["failure"] => {
  const failed = recipients.find(({ status }) => status === "failed")?.evidence.failed
  return failed == null ? null : Recipient.told(failed.failure)
}

const draftOf = (
  recipient: Recipient.Recipient,
  { input, emits }: Recipient.Decision,
  messageStatus: Message.Status,
  sequence: number
): Draft | null => {
  if (emits === null) return null
  const common = { recipient: recipient.address, messageStatus }
  switch (input._tag) {
    case "Accepted":
      return null
    case "Delivered": {
      const { at, smtpResponse } = input
      return {
        type: "message.delivered",
        sequence,
        fields: { ...common, smtpResponse, deliveredAt: Timestamp.fromMillis(at) }
      }
    }
    case "Bounced":
      return { type: "message.bounced", sequence, fields: { ...common, bounce: input.bounce } }
    case "Failed":
      return { type: "message.failed", sequence, fields: { ...common, failure: Recipient.told(input.failure) } }
  }
}
