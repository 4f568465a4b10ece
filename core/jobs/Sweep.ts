/**
 * Sees to it that the queue holds what the store says is due, and that nothing
 * is kept longer than it should be. The queue may lose everything at any time:
 * a new epoch offers all of it again, and whatever is half a minute overdue is
 * offered again in any case, so many at a time: a backlog is overdue as well.
 */
import { Clock, Context, Duration, Effect, Layer, Option } from "effect"
import { useGrain, type Attachment } from "../model/Attachment.ts"
import { ClockOffset, isClockTrusted } from "../ClockOffset.ts"
import type { Millis, TenantId } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import { payloadRetention } from "../model/ProviderPayload.ts"
import * as Metrics from "../Metrics.ts"
import { commit, dieOnRejection, offer } from "../operations/Commit.ts"
import { RecordNotification } from "../operations/RecordNotification.ts"
import { BlobStore, type BlobUnavailable } from "../ports/BlobStore.ts"
import { JobQueue, jobKinds, type JobKind } from "../ports/JobQueue.ts"
import { CommitRejected, Store, type DuePage, type Forgettable, type StoreUnavailable } from "../ports/Store.ts"
import * as SeldomLog from "../SeldomLog.ts"
import { Settings } from "../Settings.ts"
import { extendEvery } from "./Lanes.ts"

/** Milliseconds overdue after which a job is taken for lost. */
const overdueAfter = 30_000

/**
 * Milliseconds from which on mail is offered that an emptied queue may have lost while it was being handed over: until then,
 * whoever has done that records it, or has extended its lease, which the queue may hold anew then. A commit to a store that
 * is away is given up after ten seconds, and tried again each second (`Worker.recordTaken`).
 */
const handedOverGrace = Duration.toMillis(extendEvery) + 5_000

/** Milliseconds for which what has expired is kept, for clocks that do not agree: 2 days. */
const margin = 2 * 86_400_000

const pageSize = 500

/** Pages of overdue work of a kind in one tick; the next one goes on behind them. */
const pagesMax = 20

/** Pages of blobs in one go, once all of them were looked at: most are kept for good. */
const blobPagesMax = 200

export class Sweep extends Context.Service<
  Sweep,
  {
    /** Offers lost jobs, and applies notifications that waited for their submission; how many. */
    readonly tick: Effect.Effect<number>
    /**
     * Removes what has had its time: events, deliveries that ended, reservations, kept notifications, request logs,
     * providers' payloads, counts of past days, messages with their attachments if they have a time, unused uploads, blobs
     * that nothing refers to. Where there are more than a hundred thousand blobs, each time but the first looks at a part.
     */
    readonly retain: Effect.Effect<void>
  }
>()("mailroom/core/jobs/Sweep") {
  static readonly layer = Layer.effect(
    Sweep,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const blobs = yield* BlobStore
      const notifications = yield* RecordNotification
      const settings = yield* Settings
      const clockOffset = yield* ClockOffset
      const seldom = SeldomLog.make()
      let seenEpoch: string | null = null
      /** Mail is offered for then at the earliest, in each sweep until then: a further offer would bring it forward. */
      let handedOverUntil: Millis = 0
      /** How far the last tick came, of each kind. */
      const reached = new Map<JobKind, string | null>()
      /** The same, of blobs. What a process before has not come to lies at the end, so the first round goes there. */
      const blobRound = { after: null as string | null, isFirst: true }

      const offerDue = Effect.fnUntraced(function* (kind: JobKind, dueBefore: Millis, pages: number, notBefore: Millis) {
        let after = reached.get(kind) ?? null
        let offered = 0
        let read = 0
        do {
          const page: DuePage =
            yield* store.due(kind, { dueBefore, after, limit: pageSize })
          yield* offer(queue, page.jobs.map((job) => (job.dueAt < notBefore ? { ...job, dueAt: notBefore } : job)))
          offered += page.jobs.length
          yield* Metrics.add(Metrics.jobsOffered[kind], page.jobs.length)
          after = page.next
          read += 1
        } while (after !== null && read < pages)
        reached.set(kind, after)
        return offered
      })

      const tick = Effect.gen(function* () {
        if (!isClockTrusted(clockOffset)) return 0
        const now = yield* Clock.currentTimeMillis
        const epoch = yield* Effect.option(queue.epoch)
        const emptied = Option.isSome(epoch) && epoch.value !== seenEpoch
        if (emptied) reached.clear()
        // At its first look a process does not know whether others have worked before it.
        if (emptied && seenEpoch !== null) handedOverUntil = now + handedOverGrace
        const offered = yield* Effect.forEach(jobKinds, (kind) => {
          const notBefore = kind === "submit" && now < handedOverUntil ? handedOverUntil : 0
          return emptied
            ? offerDue(kind, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY, notBefore)
            : offerDue(kind, now - overdueAfter, pagesMax, notBefore)
        })
        if (emptied) seenEpoch = epoch.value
        return offered.reduce((sum, count) => sum + count, yield* notifications.applyMatched)
      })

      /** In short commits, until nothing is left to forget. */
      const forget = (what: Forgettable, before: number) =>
        commit(store, queue, [{ _tag: "Forget", what, before, limit: pageSize }], []).pipe(
          dieOnRejection,
          Effect.tap(({ forgotten }) => Metrics.add(Metrics.retentionRemoved[what], forgotten)),
          Effect.repeat({ until: ({ forgotten }) => forgotten < pageSize })
        )

      const removeUnused = Effect.fnUntraced(function* (now: number) {
        let found: ReadonlyArray<Attachment>
        do {
          found = yield* store.attachments.expired(now, pageSize)
          for (const attachment of found) {
            yield* commit(store, queue, [{ _tag: "Remove", kind: "attachment", record: attachment }], []).pipe(
              Effect.andThen(Metrics.count(Metrics.retentionRemoved.attachments)),
              // A message has just begun to use it.
              Effect.catchIf((error) => error instanceof CommitRejected, () => Effect.void)
            )
          }
        } while (found.length === pageSize)
      })

      const removeBlobs = Effect.fnUntraced(function* (
        before: number
      ): Effect.fn.Return<void, StoreUnavailable | BlobUnavailable> {
        let read = 0
        const stuck: { count: number; first: BlobUnavailable | null } = { count: 0, first: null }
        do {
          const page: {
            readonly blobs: ReadonlyArray<{ readonly tenantId: TenantId; readonly sha256: string }>
            readonly next: string | null
          } = yield* blobs.olderThan({ before, after: blobRound.after, limit: pageSize })
          for (const [tenantId, group] of Map.groupBy(page.blobs, (blob) => blob.tenantId)) {
            // What belongs to nobody here is another database's, which shares the store of blobs.
            if ((yield* store.credentials.tenant(tenantId)) === null) continue
            const digests = group.map(({ sha256 }) => sha256)
            const kept = new Set(yield* store.blobs.referenced(tenantId, digests))
            for (const sha256 of digests.filter((digest) => !kept.has(digest))) {
              // One that cannot go keeps none behind it from going.
              yield* blobs.remove(tenantId, sha256, before).pipe(
                Effect.andThen(Metrics.count(Metrics.retentionRemoved.blobs)),
                Effect.catch((error) =>
                  Effect.sync(() => {
                    stuck.count += 1
                    stuck.first ??= error
                  })
                )
              )
            }
          }
          blobRound.after = page.next
          if (page.next === null) blobRound.isFirst = false
          read += 1
        } while (blobRound.after !== null && (blobRound.isFirst || read < blobPagesMax))
        if (stuck.first !== null) yield* Effect.logWarning(`blobs that nothing refers to and that could not be removed: ${stuck.count}; the first for this`, stuck.first)
      })

      return Sweep.of({
        tick: tick.pipe(Effect.catch((error) => Effect.as(seldom(Effect.logWarning("the sweep could not read the store", error)), 0))),
        retain: Effect.gen(function* () {
          if (!isClockTrusted(clockOffset)) return
          const now = yield* Clock.currentTimeMillis
          yield* forget("deliveries", now - settings.eventRetention) // before the events that some of them need
          yield* forget("events", now - settings.eventRetention - Limits.eventGrace)
          yield* forget("reservations", now - margin)
          yield* forget("notifications", now - Limits.notificationRetention)
          yield* forget("requests", now - settings.eventRetention)
          yield* forget("payloads", now - payloadRetention)
          yield* forget("quotas", now - margin)
          if (settings.messageRetention !== null) {
            yield* forget("messages", now - settings.messageRetention)
            // Any of them may have used it this much later than it says.
            yield* forget("attachments", now - settings.messageRetention - useGrain)
          }
          yield* removeUnused(now)
          yield* removeBlobs(now - Limits.blobGrace - margin)
        }).pipe(Effect.catch((error) => Effect.logWarning("retention stopped before its end", error)))
      })
    })
  )
}
