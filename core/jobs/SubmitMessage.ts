/**
 * From queued to sent: builds the MIME object, stores it, or leaves a small one
 * to the commit, hands it to the provider, and commits what each recipient got
 * (Spec 3, Outbound message).
 *
 * The store says what is due; this reads it again and does the rest. A crash
 * anywhere is resumed when the lease runs out, and repeats a submission only
 * if it fell between the provider's acceptance and our commit: then with the
 * same Message-ID and the same bytes.
 */
import { Cause, Clock, Context, Duration, Effect, Exit, Layer, Random, Stream } from "effect"
import type { Address } from "../model/Address.ts"
import * as Addresses from "../model/Address.ts"
import type { Attachment } from "../model/Attachment.ts"
import { returnPathDomain } from "../model/DomainRecords.ts"
import { realmOf, type MessageId, type TenantId } from "../model/Ids.ts"
import { claimsMax } from "../model/Limits.ts"
import { isVerified, type MailDomain } from "../model/MailDomain.ts"
import * as Message from "../model/Message.ts"
import type { Recipient } from "../model/Recipient.ts"
import * as ReturnPath from "../model/ReturnPath.ts"
import type { Suppression } from "../model/Suppression.ts"
import * as Timestamp from "../model/Timestamp.ts"
import { changeAsRead, commit, offer, Place } from "../operations/Commit.ts"
import { takeIn } from "../operations/MessageObject.ts"
import * as Outcomes from "../operations/Outcomes.ts"
import { pollJob, RecordNotification } from "../operations/RecordNotification.ts"
import { submitJob } from "../operations/Sending.ts"
import { BlobStore, blobUnanswered, type BlobCorrupt, type BlobMissing, type BlobUnavailable, type Enclosed } from "../ports/BlobStore.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { MailProviderUnavailable, MailProviders, type SubmitRequest, type SubmitResult } from "../ports/MailProvider.ts"
import { Mime } from "../ports/Mime.ts"
import { Store, StoreUnavailable, type Outbound } from "../ports/Store.ts"
import * as Deadlines from "../Deadlines.ts"
import * as Metrics from "../Metrics.ts"
import { Settings } from "../Settings.ts"
import * as SeldomLog from "../SeldomLog.ts"
import * as Tracing from "../Tracing.ts"
import type { HeldLease } from "./Lanes.ts"
import { signingKeys } from "./SigningKeys.ts"
import {
  Abandoned,
  abandoned,
  asPort,
  attempted,
  AwaitsScan,
  bounceSuppressed,
  concludedOn,
  GivenBack,
  heldUp,
  nothingToSend,
  poison,
  portBroken,
  Postponed,
  postponed,
  refused,
  soundOf,
  submissionOutcome,
  unbuildable,
  type Attempt
} from "./SubmissionAttempt.ts"

/** Bytes of an object that are kept from its making to its submission, instead of being read back. */
const keptMax = 128 * 1024

/** The object, stored or enclosed in the commit that ends the try, with its bytes while they are at hand. */
interface Built extends Enclosed {
  readonly bytes: Uint8Array | null
}

/** A try that has ended: the message as it was when it began, and what it came to. */
interface Tried {
  readonly started: Message.Message
  readonly attempt: Attempt
}

const stopped = () => new Postponed({ code: "provider_unavailable", detail: "the worker was stopped before the mail provider answered" })

/** So many results may wait for the store before nothing more is submitted; those that it has had for this long count, too. */
const unrecordedMax = 16
const slowRecording = Duration.toNanosUnsafe(Duration.seconds(2))

/** A provider that takes longer has not answered, nor have blobs that an object is made of; long enough for the largest message over a slow line. */
const submitTimeout = Duration.minutes(10)

export class SubmitMessage extends Context.Service<
  SubmitMessage,
  {
    /**
     * One try at the job's message, if it is due. True: its job ended with what it committed. Fails only if the store does,
     * and where it is another's, or the worker stops, before the message's turn at its provider has come; all else is an
     * outcome, or a later try.
     */
    readonly handle: (lease: Lease, held: HeldLease) => Effect.Effect<boolean, StoreUnavailable | GivenBack>
    /** Records what providers have taken while the store was away, as far as it can: before another process mails it again. */
    readonly recordTaken: Effect.Effect<void>
    /** Waits for no provider any longer: what one has not answered yet is put off, as where its answer is lost. */
    readonly cutOff: Effect.Effect<void>
  }
>()("mailroom/core/jobs/SubmitMessage") {
  static readonly layer = Layer.effect(
    SubmitMessage,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const blobs = yield* BlobStore
      const mime = yield* Mime
      const crypto = yield* Crypto
      const providers = yield* MailProviders
      const notifications = yield* RecordNotification
      const settings = yield* Settings
      const clock = yield* Clock.Clock
      const [deadlines, answers] = [yield* Deadlines.make(submitTimeout), yield* Deadlines.make(submitTimeout)]
      let isCutOff = false
      const keyOf = signingKeys(crypto)
      const seldom = SeldomLog.make()
      /** All mail of a sender may be, every five minutes, and each message says by itself why it waits. */
      const seldomHeldUp = new Map(Array.from(heldUp, (code) => [code, SeldomLog.make()]))

      /** What providers have taken and the store has not, in front what was tried longest ago: who is in it is not mailed again. */
      const unrecorded = new Map<MessageId, Tried>()

      /** What is being recorded now, and since when: what takes long is as if it waited. */
      const recording = new Map<MessageId, bigint>()

      /** Whether fewer of them wait than may: nothing more is submitted else. */
      const hasRoom = (): boolean => {
        let waiting = unrecorded.size
        const slowSince = clock.monotonicTimeNanosUnsafe() - slowRecording
        for (const [id, since] of recording) {
          if (since > slowSince) break // so are those behind it
          if (!unrecorded.has(id)) waiting += 1
        }
        return waiting < unrecordedMax
      }
      const roomForMore = Effect.suspend(() =>
        hasRoom() ? Effect.void : Effect.fail(new StoreUnavailable({ cause: "too many results wait to be recorded" }))
      )

      const recordTaken = Effect.gen(function* () {
        const waiting = [...unrecorded.values()] // what cannot be recorded goes to the end
        for (const tried of waiting) {
          const exit = yield* Effect.exit(conclude(null, tried))
          if (Exit.isSuccess(exit)) continue
          yield* seldom(Effect.logWarning("what a provider has taken could not be recorded; it is kept, and tried again", exit.cause))
          // One that breaks whoever commits it holds up no other.
          if (!Cause.hasDies(exit.cause)) return
        }
      })

      /** Messages whose try is under way here. A queue that has lost everything brings their jobs again. */
      const underWay = new Set<MessageId>()

      const handle = (lease: Lease, held: HeldLease) =>
        Effect.suspend(() => {
          const id = lease.job.subject as MessageId // by its kind
          // What the try comes to is recorded, and makes the next job if there is to be one.
          if (underWay.has(id)) return Effect.succeed(false)
          underWay.add(id)
          return Effect.ensuring(tryOnce(lease, held, id), Effect.sync(() => underWay.delete(id)))
        })

      const tryOnce = Tracing.fn("SubmitMessage.handle")(function* (lease: Lease, held: HeldLease, id: MessageId) {
        // Before the message is read: what is recorded in between does not wait any more, and was still queued as it was read.
        const waiting = unrecorded.get(id)
        const outbound = yield* store.messages.outbound(lease.job.realm, id)
        if (outbound === null || outbound.message.nextAttemptAt === null) return false
        const { message } = outbound
        const now = yield* Clock.currentTimeMillis
        if (outbound.message.nextAttemptAt > now) {
          return yield* Effect.as(offer(queue, [submitJob(message, outbound.message.nextAttemptAt)]), false)
        }
        const own = unrecorded.get(id) ?? waiting
        if (lease.claims >= claimsMax) {
          const attempt = abandoned(Message.queuedRecipients(message), poison(claimsMax - 1), now)
          const givenUp = conclude(lease, { started: message, attempt })
          // Who is known to be mailed does not fail, unless it is the record of that which breaks whoever writes it.
          return yield* own === undefined ? givenUp : Effect.catchDefect(conclude(lease, own), () => givenUp)
        }
        if (own !== undefined) return yield* conclude(lease, own)
        yield* roomForMore

        const queued = Message.queuedRecipients(message)
        const suppressed = yield* findSuppressed(message, queued)
        const sendable = queued.filter(({ address }) => !suppressed.has(Addresses.foldCase(address)))
        const bounces = bounceSuppressed(queued, suppressed, now)
        const attempt = yield* Effect.catchTags(attemptTo(outbound, sendable, held), {
          Abandoned: ({ failure }) => Effect.as(Effect.logWarning("a message failed", failure), abandoned(sendable, failure, now)),
          Postponed: (why) => Effect.succeed(postponed(sendable, why)),
          AwaitsScan: () => Effect.succeed(bounces.length === 0 ? null : nothingToSend)
        })
        // Suppressed recipients bounce at once, whatever becomes of the others.
        if (attempt === null) return false
        return yield* conclude(lease, { started: message, attempt: { ...attempt, outcomes: [...bounces, ...attempt.outcomes] } })
      })

      /** The try itself: everything that may refuse or put it off, and then the provider. */
      const attemptTo = Effect.fnUntraced(function* (outbound: Outbound, sendable: ReadonlyArray<Recipient>, held: HeldLease) {
        if (sendable.length === 0) return nothingToSend
        const { message } = outbound
        const domain = yield* checkSender(outbound)
        const attachments = yield* checkAttachments(message)
        const built = yield* buildMime(outbound, attachments)
        const submitted = Effect.catchTags(submit(message, domain, sendable, built, held), {
          // To send it unsigned would be to send it to a spam folder.
          SealBroken: ({ message }) => Effect.fail(new Postponed({ code: "dkim_key_unavailable", detail: message })),
          // The bytes are gone, and are made again, the same: the next try finds them.
          BlobMissing: (error) =>
            Effect.flatMap(buildMime({ ...outbound, message: { ...message, mime: null } }, attachments), (again) =>
              Effect.fail(new Postponed({ code: "storage_unavailable", detail: error.message, mime: again }))
            )
        })
        return yield* Effect.catchTag(submitted, "Postponed", ({ code, detail, reply, mime = built }) => Effect.fail(new Postponed({ code, detail, reply, mime })))
      })

      /** The mailbox's domain, if mail may be sent from it. */
      const checkSender = Effect.fnUntraced(function* ({ mailbox, domain }: Outbound) {
        // It was active when the message was accepted, and does not come back.
        if (mailbox === null) {
          return yield* new Abandoned({ failure: { stage: "submit", code: "mailbox_removed", message: "the sending mailbox was removed" } })
        }
        if (mailbox.status !== "active") {
          return yield* new Postponed({ code: "mailbox_suspended", detail: "the sending mailbox is suspended" })
        }
        if (domain === null || !isVerified(domain.health)) {
          return yield* new Postponed({ code: "domain_not_sendable", detail: "the sending domain may not send" })
        }
        return domain
      })

      const checkAttachments = Effect.fnUntraced(function* (message: Message.Message) {
        const realm = realmOf(message)
        const attachments =
          message.attachmentIds.length === 0 ? [] : yield* store.attachments.many(realm, message.attachmentIds)
        if (attachments.length < message.attachmentIds.length) {
          return yield* unbuildable("attachment_missing", "an attachment is no longer there")
        }
        const states = new Set(attachments.map(({ scanState }) => scanState))
        if (states.has("infected")) {
          return yield* new Abandoned({
            failure: { stage: "scan", code: "attachment_infected", message: "malware was found in an attachment" }
          })
        }
        if (states.has("error")) {
          return yield* new Postponed({ code: "attachment_not_clean", detail: "an attachment could not be scanned" })
        }
        return states.has("pending") ? yield* new AwaitsScan() : attachments
      })

      const findSuppressed = Effect.fnUntraced(function* (message: Message.Message, queued: ReadonlyArray<Recipient>) {
        if (message.environment === "sandbox") return new Map<string, Suppression["reason"]>()
        const found = yield* store.suppressions.among(realmOf(message), queued.map(({ address }) => address))
        return new Map(found.map(({ address, reason }) => [Addresses.foldCase(address), reason]))
      })

      const written = Effect.fnUntraced(function* <E>(tenantId: TenantId, bytes: Stream.Stream<Uint8Array, E>) {
        const { begins, keep } = yield* takeIn(blobs, tenantId, bytes, keptMax)
        const object = yield* (yield* keep).objectOf(tenantId)
        return { ...object, bytes: begins.length === object.blob.sizeBytes ? begins : null } satisfies Built
      })
      const write = <E>(tenantId: TenantId, bytes: Stream.Stream<Uint8Array, E>) =>
        deadlines.within(blobUnanswered)(Effect.scoped(written(tenantId, bytes)))

      /** The object: made once, and found again by its digest. */
      const buildMime = Effect.fnUntraced(function* ({ message, content }: Outbound, attachments: ReadonlyArray<Attachment>) {
        if (message.mime !== null) return { blob: message.mime, changes: [], bytes: null } satisfies Built
        if (content === null) {
          return yield* unbuildable("content_missing", "the message's content is no longer there")
        }
        const bytes = mime.build(
          message,
          Message.contentOf(message, content),
          attachments.map((attachment) => ({ attachment, bytes: blobs.read(message.tenantId, attachment.blob) }))
        )
        return yield* Effect.catchTags(write(message.tenantId, bytes), {
          MimeFailed: ({ cause }) =>
            Effect.andThen(
              Effect.logWarning("a message cannot be written as MIME", cause),
              Effect.fail(unbuildable("mime_failed", "the message cannot be written as MIME"))
            ),
          BlobUnavailable: storageUnavailable,
          BlobMissing: storageUnavailable,
          BlobCorrupt: storageUnavailable
        })
      })

      const submit = Effect.fnUntraced(function* (
        message: Message.Message,
        domain: MailDomain,
        sendable: ReadonlyArray<Recipient>,
        built: Built,
        held: HeldLease
      ) {
        const { blob, bytes } = built
        const provider = providers[message.environment]
        if (provider === null) {
          return yield* new Postponed({ code: "no_provider", detail: "no mail provider is configured for production" })
        }
        const place = yield* Place
        let isGivenBack = false
        // Nobody has been told of it while it waits; another worker may have it by the time that its turn comes.
        const isWanted = () => {
          isGivenBack = place?.isStopping() === true || !held.isOurs() || !hasRoom()
          return !isGivenBack
        }
        if (!isWanted()) return yield* new GivenBack()
        const request: SubmitRequest = {
          realm: realmOf(message),
          messageId: message.id,
          envelope: {
            returnPath: yield* returnPath(message, domain),
            recipients: sendable.map(({ address }) => address)
          },
          sizeBytes: blob.sizeBytes,
          dkim: message.environment === "sandbox" ? null : yield* keyOf(domain),
          mime: bytes === null ? blobs.read(message.tenantId, blob) : Stream.succeed(bytes),
          isWanted
        }
        const submission = asPort(() => provider.submit(request)).pipe(
          Effect.flatMap((result) => understood(message, sendable, result)),
          Effect.catchTag("MailProviderUnavailable", (error) => Effect.fail(isGivenBack ? new GivenBack() : error)),
          answers.within(() => Effect.fail(isCutOff ? stopped() : new MailProviderUnavailable({ cause: "no answer in time" }))),
          Metrics.timed(Metrics.submissionDuration),
          Effect.onExit((exit) => measured(message, exit)),
          Tracing.span("MailProvider.submit", "client", { "mailroom.provider": provider.name })
        )
        const result = yield* Effect.catchTags(submission, {
          SubmissionRefused: ({ reply }) => Effect.fail(refused(reply)),
          MailProviderUnavailable: (error) =>
            Effect.andThen(
              Effect.logWarning("the provider did not say whether it took the message; it is tried again", error.cause),
              Effect.fail(new Postponed({ code: "provider_unavailable", detail: error.message }))
            ),
          BlobUnavailable: storageUnavailable,
          BlobCorrupt: storageUnavailable
        })
        return attempted(provider, sendable, built, result, yield* Clock.currentTimeMillis)
      })

      /** What a provider has answered, as it can be kept. */
      const understood = ({ id }: Message.Message, sendable: ReadonlyArray<Recipient>, result: SubmitResult) => {
        const sound = soundOf(result, id, sendable.map(({ address }) => address))
        return sound === result ? Effect.succeed(result) : Effect.as(Effect.logWarning(portBroken), sound)
      }

      /** Counts a submission by its outcome, and says so in its span. */
      const measured = ({ environment }: Message.Message, exit: Exit.Exit<SubmitResult, { readonly _tag: string }>) => {
        if (Exit.hasInterrupts(exit)) return Effect.void
        const outcome = submissionOutcome(exit)
        if (outcome === null) return Effect.void
        return Effect.andThen(
          Metrics.count(Metrics.submissions[environment][outcome]),
          Tracing.annotate({ "mailroom.outcome": outcome })
        )
      }

      const returnPath = Effect.fnUntraced(function* (message: Message.Message, domain: MailDomain) {
        const host = returnPathDomain(domain, settings.bounceDomain)
        if (host === null) return message.from.address as Address // of a mailbox, for this is outbound
        return ReturnPath.format(message.id, yield* crypto.mac(ReturnPath.purpose, message.id), host)
      })

      /** Commits what the try came to, on this message. Null: it is not this try's to move any more. */
      const concludeOnce = Effect.fnUntraced(function* (message: Message.Message | null, { started, attempt }: Tried, lease: Lease | null, random: number) {
        const now = yield* Clock.currentTimeMillis
        const concluded = message === null ? null : concludedOn(message, started, attempt, now, random)
        if (message === null || concluded === null) return null
        const { record, drafts, outcomes, retryAt } = concluded
        const isLast = record.nextAttemptAt === null
        const { leaseEnded } = yield* commit(
          store,
          queue,
          [
            ...(attempt.mime?.changes ?? []),
            { _tag: "Update", kind: "message", record },
            ...(yield* Outcomes.changesOf(crypto, message, record, { outcomes, drafts }, now))
          ],
          [
            ...(retryAt === null ? [] : [submitJob(record, retryAt)]),
            ...(attempt.submission?.pollAt == null ? [] : [pollJob(record, attempt.submission.pollAt)])
          ],
          // One that is put off leaves its place to a claim: a provider that refuses at once is not asked as fast as it refuses.
          isLast && lease !== null ? lease : undefined
        )
        yield* Outcomes.count(message, outcomes, drafts)
        if (retryAt !== null && attempt.postponed !== null) {
          const { code, detail } = attempt.postponed
          const line = Effect.annotateLogs(Effect.logWarning("a message could not be submitted; it is tried again"), {
            code,
            detail,
            attempts: record.attempts,
            nextAttemptAt: Timestamp.fromMillis(retryAt)
          })
          yield* seldomHeldUp.get(code)?.(line) ?? line
        }
        return { submission: attempt.submission, isEnded: leaseEnded }
      })

      const commitTried = Effect.fnUntraced(function* (lease: Lease | null, tried: Tried) {
        const { started } = tried
        const random = yield* Random.next
        const done = yield* changeAsRead(started, () => store.messages.get(realmOf(started), started.id), (message) =>
          concludeOnce(message, tried, lease, random)
        )
        if (done === null) return false
        if (done.submission !== null) yield* notifications.applyKept(done.submission)
        return done.isEnded
      })

      /**
       * Records a try, or remembers that it is yet to be recorded. `lease`: of the job that ends with it; null where no job is
       * under way, as in `recordTaken`: the message's own comes again and finds nothing to do.
       */
      const conclude = (lease: Lease | null, tried: Tried) =>
        Effect.suspend(() => {
          const { attempt, started: { id } } = tried
          if (attempt.submission !== null) recording.set(id, clock.monotonicTimeNanosUnsafe())
          return Effect.onExit(commitTried(lease, tried), (exit) =>
            Effect.sync(() => {
              recording.delete(id)
              // To give up what was taken, and fail with it, is no reason to forget who has been mailed.
              if (Exit.isFailure(exit) && attempt.submission === null) return
              unrecorded.delete(id)
              if (Exit.isFailure(exit)) unrecorded.set(id, tried)
            })
          )
        })

      const cutOff = Effect.suspend(() => {
        isCutOff = true
        return answers.end
      })

      return SubmitMessage.of({ handle, recordTaken, cutOff })
    })
  )
}

/** An object could not be written, or read. */
const storageUnavailable = (error: BlobUnavailable | BlobMissing | BlobCorrupt) =>
  Effect.andThen(
    Effect.logWarning("a message's object could not be written, or read", error),
    Effect.fail(new Postponed({ code: "storage_unavailable", detail: error.message }))
  )
