/**
 * One recipient of an outbound message, and its machine (Spec 3, Outbound
 * message). The message's status is a fold over its recipients (Message.ts).
 *
 * A recipient keeps the evidence behind each outcome, chosen by rules that do
 * not look at the order of arrival, so its end is a function of the *set* of
 * authentic notifications.
 */
import { Result, Schema } from "effect"
import * as Address from "./Address.ts"
import { canonical } from "./IdempotencyKey.ts"
import type { Millis } from "./Ids.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"

export const Role = Schema.Literals(["to", "cc", "bcc"])
export type Role = typeof Role.Type

export const State = Schema.Literals(["queued", "sent", "delivered", "bounced", "failed"])
export type State = typeof State.Type

/** `suppressed`: we did not try, because the address is suppressed: it bounced or complained before, or was put on the list by hand. */
export const BounceClass = Schema.Literals(["permanent", "transient", "undetermined", "suppressed"])

/** Where on the way out we may give up. */
export const FailureStage = Schema.Literals(["scan", "build", "store", "submit", "provider"])

/** Why mail came back. */
export interface Bounce {
  readonly class: typeof BounceClass.Type
  readonly smtpCode: number | null
  readonly enhancedCode: string | null
  readonly diagnostic: string | null
}

/** Why a queued recipient waits for another try: what was said to the last one, or, where nothing was, why it came to none. */
export interface Deferral {
  readonly smtpCode: number | null
  readonly enhancedCode: string | null
  readonly diagnostic: string
}

/** Where on the way out we gave up, and why. */
export interface Failure {
  readonly stage: typeof FailureStage.Type
  readonly code: string
  readonly message: string
  /** Of the reply that refused it, if one did: shown with its recipients, and no part of what is told of it (`told`). */
  readonly reply?: { readonly smtpCode: number; readonly enhancedCode: string | null }
}

/** A failure as the message and its events tell it. */
export const told = ({ stage, code, message }: Failure) => ({ stage, code, message })

/** Characters of a provider's name for a submission: it is looked for by it. */
export const providerMessageIdMax = 500

/** The provider that took a recipient, and its name for the submission. */
export interface SubmissionRef {
  readonly provider: string
  /** At most `providerMessageIdMax` characters. */
  readonly providerMessageId: string
}

export type Input =
  | { readonly _tag: "Accepted"; readonly at: Millis; readonly submission: SubmissionRef }
  | { readonly _tag: "Delivered"; readonly at: Millis; readonly smtpResponse: string | null }
  | { readonly _tag: "Bounced"; readonly at: Millis; readonly bounce: Bounce }
  | { readonly _tag: "Failed"; readonly at: Millis; readonly failure: Failure }

type Emits = "message.delivered" | "message.bounced" | "message.failed"

export const transitions = {
  queued: {
    Accepted: { to: "sent" },
    Bounced: { to: "bounced", emits: "message.bounced" },
    Failed: { to: "failed", emits: "message.failed" }
  },
  sent: {
    Delivered: { to: "delivered", emits: "message.delivered" },
    Bounced: { to: "bounced", emits: "message.bounced" },
    Failed: { to: "failed", emits: "message.failed" }
  },
  delivered: {
    Bounced: { to: "bounced", emits: "message.bounced" }, // a late bounce
    Failed: { to: "failed", emits: "message.failed" }
  },
  bounced: {
    Failed: { to: "failed", emits: "message.failed" }
  },
  failed: {}
} as const satisfies Table<State, Input["_tag"], Emits>

/** What is known of each outcome, whatever the state is. Null: not reported. */
export interface Evidence {
  readonly delivered: { readonly at: Millis; readonly smtpResponse: string | null } | null
  readonly bounced: { readonly at: Millis; readonly bounce: Bounce } | null
  readonly failed: { readonly at: Millis; readonly failure: Failure } | null
}

/** A recipient of a message, as it stands. */
export interface Recipient {
  readonly address: Address.Address
  readonly role: Role
  readonly status: State
  readonly submission: SubmissionRef | null
  /** Of the last try that put it off, if one did. It says something of one that is queued only. */
  readonly deferral?: Deferral
  readonly evidence: Evidence
  readonly complainedAt: Millis | null
  readonly updatedAt: Millis
}

export interface Decision {
  readonly from: State
  readonly to: State
  readonly input: Input
  readonly emits: Emits | null
}

/** A recipient of whom nothing has been tried yet. */
export const make = (address: Address.Address, role: Role, at: Millis): Recipient => ({
  address,
  role,
  status: "queued",
  submission: null,
  evidence: { delivered: null, bounced: null, failed: null },
  complainedAt: null,
  updatedAt: at
})

/** What this input would do to this recipient. Changes nothing. */
export const decide = (recipient: Recipient, input: Input): Result.Result<Decision, IllegalTransition> =>
  Result.map(next<State, Input["_tag"], Emits>("recipient", transitions, recipient.status, input._tag), (cell) => ({
    from: recipient.status,
    to: cell.to,
    input,
    emits: cell.emits ?? null
  }))

/** The recipient after a decision. */
export const apply = (recipient: Recipient, decision: Decision): Recipient =>
  dated({
    ...witness(recipient, decision.input),
    status: decision.to,
    submission: decision.input._tag === "Accepted" ? decision.input.submission : recipient.submission,
    updatedAt: decision.input.at
  })

/** Keeps what an input says, also where it moves nothing. The same set of inputs in any order leaves the same evidence. */
export const witness = (recipient: Recipient, input: Input): Recipient => {
  const witnessed = keep(recipient, input)
  return witnessed === recipient ? recipient : dated(witnessed)
}

/** As of the evidence that stands, not of the moment in which we heard of it. */
const dated = (recipient: Recipient): Recipient => {
  const { status, evidence } = recipient
  const stands = status === "queued" || status === "sent" ? null : evidence[status]
  return stands === null ? recipient : { ...recipient, updatedAt: stands.at }
}

const keep = (recipient: Recipient, input: Input): Recipient => {
  const { evidence } = recipient
  switch (input._tag) {
    case "Accepted":
      return recipient
    case "Delivered": {
      const delivered = prefer(evidence.delivered, { at: input.at, smtpResponse: input.smtpResponse }, (one) => [one.at])
      return delivered === evidence.delivered ? recipient : { ...recipient, evidence: { ...evidence, delivered } }
    }
    case "Bounced": {
      const bounced = prefer(evidence.bounced, { at: input.at, bounce: input.bounce }, ({ at, bounce }) => [bounceRank[bounce.class], isHard(bounce) ? 0 : 1, at])
      return bounced === evidence.bounced ? recipient : { ...recipient, evidence: { ...evidence, bounced } }
    }
    case "Failed": {
      const failed = prefer(evidence.failed, { at: input.at, failure: input.failure }, (one) => [one.at])
      return failed === evidence.failed ? recipient : { ...recipient, evidence: { ...evidence, failed } }
    }
  }
}

/** What was said of a recipient, beside how it stands: applied when it comes to where the machine takes it. */
export const heard = ({ evidence: { delivered, bounced, failed } }: Recipient): ReadonlyArray<Input> => [
  ...(delivered === null ? [] : [{ _tag: "Delivered", ...delivered } as const]),
  ...(bounced === null ? [] : [{ _tag: "Bounced", ...bounced } as const]),
  ...(failed === null ? [] : [{ _tag: "Failed", ...failed } as const])
]

/** One that stays queued, and why. */
export const defer = (recipient: Recipient, deferral: Deferral, at: Millis): Recipient => ({ ...recipient, deferral, updatedAt: at })

/** A complaint moves no state; the first one's time is kept. */
export const complain = (recipient: Recipient, at: Millis): Recipient =>
  recipient.complainedAt !== null && recipient.complainedAt <= at ? recipient : { ...recipient, complainedAt: at }

/** The recipients of a message: folded duplicates are mailed once, in the strongest role (to, cc, bcc). */
export const unique = (
  fields: Readonly<Record<Role, ReadonlyArray<Address.Address>>>,
  at: Millis
): ReadonlyArray<Recipient> => {
  const seen = new Map<string, Recipient>()
  for (const role of ["to", "cc", "bcc"] as const) {
    for (const address of fields[role]) {
      const folded = Address.foldCase(address)
      if (!seen.has(folded)) seen.set(folded, make(address, role, at))
    }
  }
  return [...seen.values()]
}

/** A bounce for good that speaks of the address. What was refused for its content or by policy says nothing against it. */
export const isHard = ({ class: kind, smtpCode, enhancedCode }: Bounce): boolean =>
  kind === "permanent" && (enhancedCode === null ? smtpCode === null : addressCodes.has(enhancedCode))

/** RFC 3463 3.2 and 3.3, RFC 7505: no such mailbox, system or syntax, moved, refuses mail, disabled. The others of 5.1 speak of the sender. */
const addressCodes: ReadonlySet<string> = new Set(["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"])

/** The strongest statement about a bounce comes first: a permanent one decides over a guess, and one about the address over others. */
const bounceRank: Record<Bounce["class"], number> = { suppressed: 0, permanent: 1, undetermined: 2, transient: 3 }

/** The lesser by rank, then by its text: a choice that depends neither on who came first nor on how a store orders members. */
const prefer = <A>(held: A | null, offered: A, rank: (one: A) => ReadonlyArray<number>): A => {
  if (held === null) return offered
  const left = rank(held)
  const right = rank(offered)
  for (let index = 0; index < left.length; index++) {
    if (left[index] !== right[index]) return left[index]! < right[index]! ? held : offered
  }
  return canonical(offered) < canonical(held) ? offered : held
}
