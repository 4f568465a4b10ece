/** What a try at submitting a message comes to, as values, and a provider's answers as its port has them. */
import { Data, Effect, Exit, Option } from "effect"
import type { Address } from "../model/Address.ts"
import * as Addresses from "../model/Address.ts"
import * as Backoff from "../model/Backoff.ts"
import { classOf } from "../model/BounceReason.ts"
import type { MessageId, Millis } from "../model/Ids.ts"
import { submissionWindow } from "../model/Limits.ts"
import * as Message from "../model/Message.ts"
import { defer, providerMessageIdMax, type Bounce, type Deferral, type Failure, type Input, type Recipient, type SubmissionRef } from "../model/Recipient.ts"
import * as Replies from "../model/Reply.ts"
import type { Reply } from "../model/Reply.ts"
import type { Suppression } from "../model/Suppression.ts"
import { settle, type Draft, type Outcome } from "../model/Settlement.ts"
import { dateMax } from "../model/Timestamp.ts"
import type { Enclosed } from "../ports/BlobStore.ts"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider, type SubmitResult } from "../ports/MailProvider.ts"
import type * as Metrics from "../Metrics.ts"

/** Not now: tried again by the schedule, until the message is 48 h old. */
export class Postponed extends Data.TaggedError("Postponed")<{
  readonly code: string
  readonly detail: string
  /** What the provider said, if it was asked and answered. */
  readonly reply?: Reply | undefined
  /** The object, if it had come to that. */
  readonly mime?: Enclosed
}> {}

/** Never: every queued recipient fails. */
export class Abandoned extends Data.TaggedError("Abandoned")<{ readonly failure: Failure }> {}

/** It cannot be written as mail. */
export const unbuildable = (code: string, message: string) => new Abandoned({ failure: { stage: "build", code, message } })

/** A scan verdict is awaited; the commit that brings it makes this job due again. */
export class AwaitsScan extends Data.TaggedError("AwaitsScan")<{}> {}

/** The worker stops, and nothing was said of the message to anybody: its job is somebody else's. */
export class GivenBack extends Data.TaggedError("GivenBack")<{}> {}

/** What one try came to, for all recipients that were queued when it began. */
export interface Attempt {
  readonly outcomes: ReadonlyArray<Outcome>
  readonly submission: Message.Submission | null
  readonly mime: Enclosed | null
  /** Why recipients stay queued; null if none does, or if they wait for a scan. */
  readonly postponed: { readonly code: string; readonly detail: string } | null
  /** What is to be shown of it, for each of them. */
  readonly deferrals: ReadonlyMap<Address, Deferral>
}

const noDeferrals: Attempt["deferrals"] = new Map()

/** Why a message fails that breaks whoever submits it. */
export const poison = (tries: number): Failure => ({
  stage: "submit",
  code: "poison",
  message: `gave up after ${tries} tries that came to no end`
})

/** What a try comes to where everybody is suppressed, or the message awaits a scan, which is no failed try. */
export const nothingToSend: Attempt = { outcomes: [], submission: null, mime: null, postponed: null, deferrals: noDeferrals }

/** These recipients fail. */
export const abandoned = (recipients: ReadonlyArray<Recipient>, failure: Failure, at: Millis): Attempt => ({
  outcomes: recipients.map(({ address }) => ({
    recipient: address,
    input: { _tag: "Failed", at, failure }
  })),
  submission: null,
  mime: null,
  postponed: null,
  deferrals: noDeferrals
})

/** These recipients stay queued. */
export const postponed = (recipients: ReadonlyArray<Recipient>, { code, detail, reply, mime }: Postponed): Attempt => {
  const deferral = deferralOf(reply, detail)
  return {
    outcomes: [],
    submission: null,
    mime: mime ?? null,
    postponed: { code, detail },
    deferrals: new Map(recipients.map(({ address }) => [address, deferral]))
  }
}

/** Who must not be mailed bounces. */
export const bounceSuppressed = (
  queued: ReadonlyArray<Recipient>,
  suppressed: ReadonlyMap<string, Suppression["reason"]>,
  at: Millis
): ReadonlyArray<Outcome> =>
  queued.flatMap(({ address, evidence }): ReadonlyArray<Outcome> => {
    const reason = suppressed.get(Addresses.foldCase(address))
    if (reason === undefined) return []
    // It was submitted before a crash, and a report has come of it.
    if (evidence.bounced !== null) return [{ recipient: address, input: { _tag: "Bounced", ...evidence.bounced } }]
    const bounce: Bounce = { class: "suppressed", smtpCode: null, enhancedCode: null, diagnostic: suppressedBecause[reason] }
    return [{ recipient: address, input: { _tag: "Bounced", at, bounce } }]
  })

const suppressedBecause: Readonly<Record<Suppression["reason"], string>> = {
  bounce: "the address bounced before",
  complaint: "the address complained before",
  manual: "the address is on the suppression list"
}

/** When to ask, as it can be kept: in whole milliseconds; never, if it is no instant that has a date. */
export const pollTime = (at: unknown): Millis | null =>
  typeof at === "number" && Math.abs(at) <= dateMax ? Math.ceil(at) : null

/** What an operator is told of an answer that was not kept as it came. */
export const portBroken =
  "the provider's adapter said what its port does not allow; the suite `mailProvider` of mailroom/conformance tells what"

const portErrors = new Set(["SubmissionRefused", "MailProviderUnavailable", "BlobUnavailable", "BlobMissing", "BlobCorrupt"])

const isOfPort = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string" && portErrors.has(error._tag)

const ofPort = <E>(error: E): Effect.Effect<never, E | MailProviderUnavailable> =>
  isOfPort(error)
    ? Effect.fail(error)
    : Effect.andThen(Effect.logWarning(portBroken), Effect.fail(new MailProviderUnavailable({ cause: error })))

/**
 * A call of a provider's method, as the port has it. In JavaScript it may give a promise, or what that comes to: somebody may
 * have been mailed by then, so it is taken at its word, and not asked again. A failure that the port does not have, thrown or
 * not, leaves the outcome as unknown as an answer that was lost.
 */
export const asPort = <A, E>(call: () => Effect.Effect<A, E>): Effect.Effect<A, E | MailProviderUnavailable> =>
  Effect.suspend(() => {
    const given = called(call)
    const result = Effect.flatMap(begun(given), inTheEnd<A, E>)
    return Effect.isEffect(given) ? result : Effect.andThen(Effect.logWarning(portBroken), result)
  })

type Given<A, E> = Effect.Effect<A, E> | Promise<A>

const called = <A, E>(call: () => Effect.Effect<A, E>): Given<A, E> => {
  try {
    const given = call()
    return Effect.isEffect(given) ? given : Promise.resolve(given as A | Promise<A>) // no Effect
  } catch (cause) {
    return Promise.reject(cause)
  }
}

const begun = <A, E>(given: Given<A, E>): Effect.Effect<A, E | MailProviderUnavailable> => {
  if (Effect.isEffect(given)) return Effect.catch(given, ofPort<E>)
  void given.catch(() => {}) // before anybody waits for it, a rejection would end the process
  return Effect.tryPromise({ try: () => given, catch: (cause) => new MailProviderUnavailable({ cause }) })
}

/** Who hands the call on from a promise, or an Effect of its own, may come to another one: nobody is mailed before that is run. */
const inTheEnd = <A, E>(result: A | Given<A, E>): Effect.Effect<A, E | MailProviderUnavailable> =>
  Effect.isEffect(result) || result instanceof Promise
    ? Effect.andThen(Effect.logWarning(portBroken), Effect.flatMap(begun(result as Given<A, E>), inTheEnd<A, E>))
    : Effect.succeed(result)

/**
 * The result itself if it is as the port has it, and else what can be kept of it. Whoever was taken has been mailed: a
 * member that no store takes must not be why that goes unrecorded, and they are mailed again. A submission without a name
 * has that of its message, by which nothing is found but that message. One without a list of replies took everybody: a
 * provider that takes nobody, or that does not tell, fails.
 */
export const soundOf = (result: SubmitResult, messageId: MessageId, recipients: ReadonlyArray<Address>): SubmitResult => {
  const { providerMessageId, replies, pollAt }: { readonly [M in keyof SubmitResult]?: unknown } = result ?? {}
  const list: ReadonlyArray<SubmitResult["replies"][number] | null | undefined> = Array.isArray(replies)
    ? replies
    : recipients.map((recipient) => ({ recipient, reply: { smtpCode: 250, enhancedCode: null, text: null } }))
  const name = isName(providerMessageId) ? String(providerMessageId) : messageId
  const sound = {
    providerMessageId: name.length > providerMessageIdMax ? name.slice(0, providerMessageIdMax).toWellFormed() : name,
    // To leave the reply out says nothing of the recipient.
    replies: list.flatMap((one) => (one?.reply == null ? [] : [{ recipient: one.recipient, reply: Replies.soundOf(one.reply) }])),
    pollAt: pollTime(pollAt)
  }
  const isSound =
    list === replies &&
    sound.providerMessageId === providerMessageId &&
    sound.pollAt === pollAt &&
    sound.replies.length === list.length &&
    sound.replies.every(({ reply }, index) => reply === list[index]?.reply)
  return isSound ? result : sound
}

const isName = (name: unknown): name is string | number => (typeof name === "string" && name !== "") || typeof name === "number"

/** What the provider's replies mean for each recipient; who was refused for the moment stays queued. */
export const attempted = (
  provider: MailProvider,
  sendable: ReadonlyArray<Recipient>,
  mime: Enclosed,
  result: SubmitResult,
  at: Millis
): Attempt => {
  const ref: SubmissionRef = { provider: provider.name, providerMessageId: result.providerMessageId }
  const replies = new Map(result.replies.map(({ recipient, reply }) => [recipient, reply]))
  const outcomes = sendable.flatMap(({ address }): ReadonlyArray<Outcome> => {
    const reply = replies.get(address)
    const input = reply === undefined ? null : inputOf(reply, ref, at)
    return input === null ? [] : [{ recipient: address, input }]
  })
  const accepted = outcomes.flatMap((outcome) => ("input" in outcome && outcome.input._tag === "Accepted" ? [outcome.recipient] : []))
  const submission = accepted.length === 0 ? null : { ...ref, submittedAt: at, recipients: accepted, pollAt: result.pollAt }
  if (outcomes.length === sendable.length) return { outcomes, mime, submission, postponed: null, deferrals: noDeferrals }
  const settled = new Set(outcomes.map(({ recipient }) => recipient))
  const waiting = sendable.flatMap(({ address }) => (settled.has(address) ? [] : [address]))
  const told = (reply: Reply | undefined) =>
    reply === undefined ? "the mail provider gave no reply for this recipient" : (Replies.cleanReply(reply.text) ?? "refused for the moment")
  const first = replies.get(waiting[0]!) // one has no outcome
  return {
    outcomes,
    mime,
    submission,
    postponed: { code: first === undefined ? "no_reply" : codeOf(first), detail: told(first) },
    deferrals: new Map(waiting.map((address) => [address, deferralOf(replies.get(address), told(replies.get(address)))]))
  }
}

const deferralOf = (reply: Reply | undefined, diagnostic: string): Deferral => ({
  smtpCode: reply?.smtpCode ?? null,
  enhancedCode: reply?.enhancedCode ?? null,
  diagnostic
})

const inputOf = (reply: Reply, submission: SubmissionRef, at: Millis): Input | null => {
  switch (Replies.classify(reply)) {
    case "accepted":
      return { _tag: "Accepted", at, submission }
    case "permanent":
      return {
        _tag: "Bounced",
        at,
        bounce: {
          class: classOf(reply, reply.text ?? ""), // by the words that a report of it would have
          smtpCode: reply.smtpCode,
          enhancedCode: reply.enhancedCode,
          diagnostic: Replies.cleanReply(reply.text)
        }
      }
    case "transient":
      return null
  }
}

/** What a refusal of the whole submission means. */
export const refused = (said: Reply): Abandoned | Postponed => {
  const reply = Replies.soundOf(said)
  return Replies.classify(reply) === "permanent"
    ? new Abandoned({
        failure: {
          stage: "submit",
          code: codeOf(reply),
          message: Replies.cleanReply(reply.text) ?? "the provider refused the message",
          reply: { smtpCode: reply.smtpCode, enhancedCode: reply.enhancedCode }
        }
      })
    : new Postponed({ code: codeOf(reply), detail: Replies.cleanReply(reply.text) ?? "the provider refused the message for the moment", reply })
}

/** What a submission is counted as; null: as none, for it was given back. */
export const submissionOutcome = (
  exit: Exit.Exit<SubmitResult, { readonly _tag: string }>
): (typeof Metrics.submissionOutcomes)[number] | null => {
  if (Exit.isSuccess(exit)) {
    const kinds = new Set(exit.value.replies.map(({ reply }) => Replies.classify(reply)))
    return kinds.has("accepted") ? "accepted" : kinds.has("transient") || kinds.size === 0 ? "transient" : "permanent"
  }
  const error = Option.getOrNull(Exit.findErrorOption(exit))
  if (error instanceof GivenBack) return null
  return error instanceof SubmissionRefused && Replies.classify(error.reply) === "permanent"
    ? "permanent"
    : error instanceof SubmissionRefused
      ? "transient"
      : "unavailable"
}

const codeOf = (reply: Reply): string => reply.enhancedCode ?? String(reply.smtpCode)

/** What a try has made of its message, one version on, and what is to be told of it. */
export interface Concluded {
  readonly record: Message.Message
  readonly drafts: ReadonlyArray<Draft>
  /** Those of the try that were its own to bring, and after 48 h those of everybody else. */
  readonly outcomes: ReadonlyArray<Outcome>
  /** When the next try is due; null if there is none, or if a scan's verdict makes it due. */
  readonly retryAt: Millis | null
}

/**
 * What a try that began with `started` makes of the message as it is now. Null: it is not this try's to move any more, for
 * another holder of its job has recorded one.
 */
export const concludedOn = (
  message: Message.Message,
  started: Message.Message,
  attempt: Attempt,
  now: Millis,
  random: number
): Concluded | null => {
  // Another holder may have settled some recipients: what is no longer queued is not ours to move.
  const queued = new Set(Message.queuedRecipients(message).map(({ address }) => address))
  const own = attempt.outcomes.filter(({ recipient }) => queued.has(recipient))
  if (own.length === 0 && message.attempts !== started.attempts) return null
  const outcomes = Backoff.maySubmit(message.acceptedAt, now) ? own : expire(message, own, attempt, now)
  const { message: settled, drafts } = settle(message, outcomes, now)
  const waits = Message.queuedRecipients(settled).length > 0
  const awaitsScan = waits && attempt.postponed === null
  const isHeldUp = attempt.postponed !== null && heldUp.has(attempt.postponed.code)
  const next = waits && attempt.postponed !== null ? retryAt(message, isHeldUp, now, random) : null
  const record: Message.Message = {
    ...settled,
    recipients: deferred(settled.recipients, attempt.deferrals, now),
    version: message.version + 1,
    attempts: message.attempts + (awaitsScan || isHeldUp ? 0 : 1),
    updatedAt: now,
    nextAttemptAt: awaitsScan ? message.nextAttemptAt : next,
    submissions: attempt.submission === null ? settled.submissions : [...settled.submissions, attempt.submission],
    mime: attempt.mime?.blob ?? settled.mime,
    sizeBytes: attempt.mime?.blob.sizeBytes ?? settled.sizeBytes
  }
  return { record, drafts, outcomes, retryAt: next }
}

/** With why those wait who are still queued. */
const deferred = (recipients: ReadonlyArray<Recipient>, deferrals: Attempt["deferrals"], at: Millis): ReadonlyArray<Recipient> =>
  deferrals.size === 0
    ? recipients
    : recipients.map((recipient) => {
        const deferral = recipient.status === "queued" ? deferrals.get(recipient.address) : undefined
        return deferral === undefined ? recipient : defer(recipient, deferral, at)
      })

/** The 48 h are over: whoever is still queued fails. */
const expire = (
  message: Message.Message,
  outcomes: ReadonlyArray<Outcome>,
  attempt: Attempt,
  at: Millis
): ReadonlyArray<Outcome> => {
  const settled = new Set(outcomes.map(({ recipient }) => recipient))
  const why = attempt.postponed ?? { code: "expired", detail: "not submitted in time" }
  const failure: Failure = { stage: "submit", code: why.code, message: `gave up after 48 hours: ${why.detail}` }
  return [
    ...outcomes,
    ...Message.queuedRecipients(message)
      .filter(({ address }) => !settled.has(address))
      .map(({ address }): Outcome => {
        const { smtpCode, enhancedCode } = attempt.deferrals.get(address) ?? { smtpCode: null, enhancedCode: null }
        const reply = smtpCode === null ? {} : { reply: { smtpCode, enhancedCode } }
        return { recipient: address, input: { _tag: "Failed", at, failure: { ...failure, ...reply } } }
      })
  ]
}

/** The codes of what is over as soon as an operator ends it. No provider was asked, so none of them is a try. */
export const heldUp: ReadonlySet<string> = new Set(["mailbox_suspended", "domain_not_sendable", "no_provider", "dkim_key_unavailable"])

/** The next try by the schedule, and the last one when the 48 h end. */
const retryAt = ({ acceptedAt, attempts }: Message.Message, isHeldUp: boolean, now: Millis, random: number): Millis => {
  const wait = isHeldUp ? Backoff.whileHeld(now - acceptedAt, random) : Backoff.delay(Backoff.submission, attempts + 1, random)
  return Math.min(now + wait, acceptedAt + submissionWindow)
}
