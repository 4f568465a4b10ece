/**
 * What became of a submission: a provider's notifications in, decisions out.
 * The end depends on the set of authentic notifications, not on their order,
 * number or batching. One that comes before its submission is known, or all
 * that it took, waits 48 h.
 *
 * Whoever calls this has authenticated the provider.
 */
import { Clock, Context, Effect, Layer, Result, Schema } from "effect"
import * as Address from "../model/Address.ts"
import { realmOf, type Millis } from "../model/Ids.ts"
import * as Message from "../model/Message.ts"
import * as Notification from "../model/Notification.ts"
import type { SubmissionRef } from "../model/Recipient.ts"
import { settle, type Outcome } from "../model/Settlement.ts"
import { Crypto } from "../ports/Crypto.ts"
import { jobOf, JobQueue, type Job } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"
import { changeRecord, commit, dieOnRejection } from "./Commit.ts"
import * as Outcomes from "./Outcomes.ts"

/**
 * How much of what is kept is looked at in one go. What others send under the same account is kept as well, for two days, and
 * nobody ever knows its submission.
 */
const lookedAtMax = 10_000

export class RecordNotification extends Context.Service<
  RecordNotification,
  {
    /** Applies notifications, or keeps those whose submission is not known yet. */
    readonly record: (notifications: ReadonlyArray<Notification.Notification>) => Effect.Effect<void, StoreUnavailable>
    /** Applies what was kept for a submission that has just been committed. */
    readonly applyKept: (ref: SubmissionRef) => Effect.Effect<void, StoreUnavailable>
    /** Applies what was kept for submissions known by now, of a part of all that is kept; the next time of the part behind. How many. */
    readonly applyMatched: Effect.Effect<number, StoreUnavailable>
    /** What one poll about a submission of a message brought, with the time of the next, in one commit. */
    readonly recordPoll: (
      message: Message.Message,
      submission: Message.Submission,
      notifications: ReadonlyArray<Notification.Notification>,
      pollAt: Millis | null
    ) => Effect.Effect<void, StoreUnavailable>
  }
>()("mailroom/core/operations/RecordNotification") {
  static readonly layer = Layer.effect(
    RecordNotification,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto

      /**
       * Applies what concerns one message, read afresh, and drops what was kept of it; but what may speak of a recipient who is
       * still queued is kept, for a provider may take the message in parts under one name.
       */
      const apply = Effect.fnUntraced(function* (
        read: Effect.Effect<Message.Message | null, StoreUnavailable>,
        notifications: ReadonlyArray<Notification.Notification>,
        kept: boolean,
        poll: { readonly submission: Message.Submission; readonly pollAt: Millis | null } | null
      ) {
        const message = yield* read
        if (message === null) return false
        yield* applyTo(message, notifications, kept, poll).pipe(
          Tracing.spanOf(message.id, "RecordNotification.apply", {
            "mailroom.message_id": message.id,
            "mailroom.tenant_id": message.tenantId,
            "mailroom.environment": message.environment
          }),
          Effect.annotateLogs({ messageId: message.id })
        )
        return true
      })

      const applyTo = Effect.fnUntraced(function* (
        message: Message.Message,
        notifications: ReadonlyArray<Notification.Notification>,
        kept: boolean,
        poll: { readonly submission: Message.Submission; readonly pollAt: Millis | null } | null
      ) {
        const now = yield* Clock.currentTimeMillis
        const outcomes = notifications.flatMap((notification) => outcomesOf(message, notification))
        const { message: settled, drafts } = settle(message, outcomes, now)
        const polled = poll === null ? settled : withPollAt(message, settled, poll.submission, poll.pollAt)
        const queued = Message.queuedRecipients(message)
        const isOpen = (notification: Notification.Notification) => queued.some(({ address }) => speaksOf(notification, address))
        const changes: ReadonlyArray<Change> = [
          ...(polled === message ? [] : [{ _tag: "Update", kind: "message", record: polled } as const]),
          ...(yield* Outcomes.changesOf(crypto, message, polled, { outcomes, drafts }, now)),
          // What is kept when its recipient has just been recorded is the sweep's to apply.
          ...(kept ? dropping(notifications.filter((notification) => !isOpen(notification))) : keeping(notifications.filter(isOpen), now))
        ]
        const jobs = poll === null || poll.pollAt === null ? [] : [pollJob(polled, poll.pollAt)]
        if (changes.length === 0) return
        yield* commit(store, queue, changes, jobs)
        yield* Outcomes.count(message, outcomes, drafts)
      })

      const applyAll = (ref: SubmissionRef, notifications: ReadonlyArray<Notification.Notification>, kept: boolean) =>
        changeRecord(ref.providerMessageId, apply(store.messages.bySubmission(ref), notifications, kept, null))

      const applyKept = Tracing.fn("RecordNotification.applyKept")(function* (ref: SubmissionRef) {
        const kept = yield* store.notifications.kept(ref)
        if (kept.length > 0) yield* applyAll(ref, kept, true)
      })

      const keep = Effect.fnUntraced(function* (notifications: ReadonlyArray<Notification.Notification>) {
        const at = yield* Clock.currentTimeMillis
        yield* commit(store, queue, keeping(notifications, at), []).pipe(dieOnRejection)
      })

      /** How far the last look at what is kept came. */
      let reached: string | null = null

      return RecordNotification.of({
        record: Tracing.fn("RecordNotification.record")(function* (notifications) {
          for (const group of bySubmission(yield* soundOf(notifications))) {
            const ref = Notification.refOf(group[0]!)
            if (yield* applyAll(ref, group, false)) continue
            yield* keep(group)
            // The submission may have been committed between our look and our note of it.
            yield* applyKept(ref)
          }
        }),

        applyKept,

        applyMatched: Effect.gen(function* () {
          const { notifications: matched, next } = yield* store.notifications.matched({ after: reached, limit: lookedAtMax })
          for (const group of bySubmission(matched)) {
            yield* applyAll(Notification.refOf(group[0]!), group, true).pipe(
              Effect.catchDefect((defect) => Effect.logError("kept notifications could not be applied", defect))
            )
          }
          reached = next
          return matched.length
        }),

        recordPoll: Tracing.fn("RecordNotification.recordPoll")(function* (message, submission, notifications, pollAt) {
          const sound = yield* Effect.annotateLogs(soundOf(notifications), { messageId: message.id })
          const told = sound.filter((notification) => isOf(submission, notification))
          // By its id: a provider may have another message by that name.
          const read = store.messages.get(realmOf(message), message.id)
          yield* changeRecord(message.id, apply(read, told, false, { submission, pollAt }))
        })
      })
    })
  )
}

const isSound = Schema.is(Notification.Notification)

const soundOf = Effect.fnUntraced(function* (notifications: ReadonlyArray<Notification.Notification>) {
  const sound = notifications.filter(isSound)
  if (sound.length < notifications.length) yield* Effect.logWarning("a notification makes no sense; it is passed over")
  return sound
})

/** A look at what the provider knows of a message, when it is due. */
export const pollJob = (message: Message.Message, dueAt: Millis): Job => jobOf("poll", message, dueAt)

const keeping = (notifications: ReadonlyArray<Notification.Notification>, at: Millis) =>
  notifications.map((notification) => ({ _tag: "KeepNotification", notification, at }) as const)

const dropping = (notifications: ReadonlyArray<Notification.Notification>) =>
  notifications.map((notification) => ({ _tag: "DropNotification", notification }) as const)

const isOf = (submission: SubmissionRef | null, { provider, providerMessageId }: Notification.Notification): boolean =>
  submission?.provider === provider && submission.providerMessageId === providerMessageId

const speaksOf = ({ recipient }: Notification.Notification, address: Address.Address): boolean =>
  recipient === null || Address.foldCase(address) === Address.foldCase(recipient)

/** Only recipients whom this very submission took; a notification without one speaks of all of them. */
const outcomesOf = (message: Message.Message, notification: Notification.Notification): ReadonlyArray<Outcome> => {
  const { outcome } = notification
  return message.recipients
    .filter(({ submission, address }) => isOf(submission, notification) && speaksOf(notification, address))
    .map(({ address }) =>
      Result.match(Notification.toInput(outcome), {
        onSuccess: (input) => ({ recipient: address, input }),
        onFailure: () => ({ recipient: address, complainedAt: outcome.at })
      })
    )
}

const withPollAt = (
  before: Message.Message,
  settled: Message.Message,
  polled: Message.Submission,
  pollAt: Millis | null
): Message.Message => ({
  ...settled,
  version: before.version + 1,
  submissions: settled.submissions.map((submission) =>
    submission.provider === polled.provider &&
    submission.providerMessageId === polled.providerMessageId &&
    submission.submittedAt === polled.submittedAt
      ? { ...submission, pollAt }
      : submission
  )
})

const bySubmission = (
  notifications: ReadonlyArray<Notification.Notification>
): ReadonlyArray<ReadonlyArray<Notification.Notification>> => [
  ...Map.groupBy(notifications, ({ provider, providerMessageId }) => `${provider} ${providerMessageId}`).values()
]
