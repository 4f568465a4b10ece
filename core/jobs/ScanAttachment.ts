/**
 * From pending to a verdict. Whatever keeps a scanner from seeing every byte
 * and saying so ends in `error`, never in `clean`; an error is scanned again
 * by schedule for 48 h.
 */
import { Clock, Context, Duration, Effect, Layer, Random, Result } from "effect"
import * as Attachments from "../model/Attachment.ts"
import type { Attachment } from "../model/Attachment.ts"
import { entryOf, system } from "../model/Audit.ts"
import * as Backoff from "../model/Backoff.ts"
import type { AttachmentId, MessageId, Millis, Realm } from "../model/Ids.ts"
import { claimsMax } from "../model/Limits.ts"
import type { Message } from "../model/Message.ts"
import { scanJob } from "../operations/Attachments.ts"
import { changeRecord, commit, offer } from "../operations/Commit.ts"
import { submitJob } from "../operations/Sending.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { ScanFailed, Scanner, type Verdict } from "../ports/Scanner.ts"
import * as Metrics from "../Metrics.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"

/** A scanner that takes longer has given no verdict: long enough for one file to wait for another, and be scanned. */
export const scanTimeout = Duration.minutes(4)

/** Why there is no verdict, and what broke, if something did: for the operator's log. */
interface NoVerdict {
  readonly reason: string
  readonly cause?: unknown
}

/** What happens to an attachment, as of when it is committed. */
type InputAt = (at: Millis, current: Attachment) => Attachments.Input

export class ScanAttachment extends Context.Service<
  ScanAttachment,
  {
    /** Scans the job's attachment, if it is due. Fails only if the store does; a scanner's failure ends in `error`. */
    readonly handle: (lease: Lease) => Effect.Effect<void, StoreUnavailable>
  }
>()("mailroom/core/jobs/ScanAttachment") {
  static readonly layer = Layer.effect(
    ScanAttachment,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const blobs = yield* BlobStore
      const scanner = yield* Scanner
      const crypto = yield* Crypto

      const handle = Tracing.fn("ScanAttachment.handle")(function* ({ job, claims }: Lease) {
        const attachment = yield* store.attachments.get(job.realm, job.subject as AttachmentId) // by its kind
        if (attachment === null) return
        // Who committed a verdict may not have come to this.
        if (attachment.nextScanAt === null) return yield* attachment.scanState === "error" ? Effect.void : wake(attachment)
        const now = yield* Clock.currentTimeMillis
        if (attachment.nextScanAt > now) return yield* offer(queue, [scanJob(attachment, attachment.nextScanAt)])
        if (attachment.scanState === "error") yield* move(attachment, (at) => ({ _tag: "Rescan", at }))
        const verdict: Result.Result<Verdict, NoVerdict> =
          claims >= claimsMax ? Result.fail({ reason: `gave up after ${claimsMax - 1} scans that came to no end` }) : yield* scan(attachment)
        yield* Metrics.count(Metrics.scans[Result.isFailure(verdict) ? "error" : verdict.success._tag === "Clean" ? "clean" : "infected"])
        const random = yield* Random.next
        yield* move(attachment, (at, current) => {
          if (Result.isSuccess(verdict)) return { _tag: verdict.success._tag, at }
          const next = at + Backoff.delay(Backoff.submission, current.scanErrors + 1, random)
          const again = claims < claimsMax && Backoff.maySubmit(current.createdAt, next)
          return { _tag: "Errored", at, nextScanAt: again ? next : null }
        })
        if (Result.isFailure(verdict)) {
          const { reason, cause } = verdict.failure
          yield* Effect.logWarning("attachment not scanned", ...(cause === undefined ? [] : [cause])).pipe(
            Effect.annotateLogs({ attachmentId: attachment.id, reason })
          )
        }
        if (Result.isSuccess(verdict)) yield* wake(attachment)
      })

      /** A verdict, or why there is none. Never fails: a broken scanner is an answer too. */
      const scan = (attachment: Attachment): Effect.Effect<Result.Result<Verdict, NoVerdict>> =>
        scanner.scan(blobs.read(attachment.tenantId, attachment.blob), attachment.blob.sizeBytes).pipe(
          Effect.timeoutOrElse({ duration: scanTimeout, orElse: () => Effect.fail(new ScanFailed({ reason: "timeout" })) }),
          Effect.map((verdict) => Result.succeed(verdict)),
          Effect.catch((error) =>
            Effect.succeed(Result.fail<NoVerdict>(error._tag === "ScanFailed" ? error : { reason: error.message, cause: error }))
          ),
          Effect.catchDefect((cause) => Effect.succeed(Result.fail<NoVerdict>({ reason: "the scanner broke", cause }))),
          Metrics.timed(Metrics.scanDuration),
          Tracing.span("Scanner.scan", "client")
        )

      /** Commits a step of the scan machine on what stands now; a step that the machine does not take is none. */
      const moveOnce = Effect.fnUntraced(function* ({ id, tenantId, environment }: Attachment, inputAt: InputAt) {
        const current = yield* store.attachments.get({ tenantId, environment }, id)
        if (current === null) return
        const now = yield* Clock.currentTimeMillis
        const decided = Attachments.decide(current, inputAt(now, current))
        if (Result.isFailure(decided)) return
        const record = Attachments.apply(current, decided.success)
        const entry = entryOf({
          id: yield* crypto.uuid,
          tenantId,
          environment,
          at: now,
          actor: system,
          action: `attachment.scan_${decided.success.to}`
        }, id)
        yield* commit(
          store,
          queue,
          [
            { _tag: "Update", kind: "attachment", record },
            { _tag: "AppendAudit", entry }
          ],
          record.nextScanAt === null || decided.success.to === "pending" ? [] : [scanJob(record, record.nextScanAt)]
        )
      })
      const move = (attachment: Attachment, inputAt: InputAt) => changeRecord(attachment.id, moveOnce(attachment, inputAt))

      /** The messages that waited for this verdict are due now. Read after the commit: who came later saw the verdict. */
      const wake = Effect.fnUntraced(function* ({ id, tenantId, environment }: Attachment) {
        const waiting = yield* store.messages.queuedWith({ tenantId, environment }, id)
        yield* Effect.forEach(waiting, (message) => hasten(message, { tenantId, environment }), { discard: true })
      })

      /** A message that an error had put off is due now, too. */
      const hastenOnce = Effect.fnUntraced(function* (id: MessageId, realm: Realm) {
        const message = yield* store.messages.get(realm, id)
        const now = yield* Clock.currentTimeMillis
        if (message === null || message.nextAttemptAt === null) return
        if (message.nextAttemptAt <= now) return yield* offer(queue, [submitJob(message, now)])
        const record = { ...message, version: message.version + 1, nextAttemptAt: now }
        yield* commit(store, queue, [{ _tag: "Update", kind: "message", record }], [submitJob(record, now)])
      })
      const hasten = ({ id }: Message, realm: Realm) => changeRecord(id, hastenOnce(id, realm))

      return ScanAttachment.of({ handle })
    })
  )
}
