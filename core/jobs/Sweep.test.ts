import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Metric } from "effect"
import { TestClock } from "effect/testing"
import * as Fixtures from "../../conformance/fixtures.ts"
import { ClockOffset, clockOffsetMax } from "../ClockOffset.ts"
import type { Attachment } from "../model/Attachment.ts"
import type { AttachmentId, TenantId } from "../model/Ids.ts"
import * as Metrics from "../Metrics.ts"
import { RecordNotification } from "../operations/RecordNotification.ts"
import { BlobStore, BlobUnavailable } from "../ports/BlobStore.ts"
import { JobQueue, QueueUnavailable, type Job, type JobKind } from "../ports/JobQueue.ts"
import { CommitRejected, Store, StoreUnavailable, type Forgettable } from "../ports/Store.ts"
import { Sweep } from "./Sweep.ts"

const jobOf = (dueAt: number, kind: JobKind = "submit"): Job => ({
  kind,
  subject: `message ${dueAt}`,
  realm: { tenantId: "tenant" as TenantId, environment: "sandbox" },
  group: "tenant",
  dueAt
})

const unasked = () => Effect.die("not asked")

const day = 86_400_000

/** A blob of a page that nothing refers to. */
const looseBlob = (page: number, index: number) => ({ tenantId: "tenant" as TenantId, sha256: `${page}/${index}` })

/** A sweep over so much overdue mail, these unused uploads and pages of blobs by their number, whose queue tells what it was offered, and whose store what it let go. */
const sweeping = Effect.fnUntraced(function* (overdue: number, unused: ReadonlyArray<Attachment> = []) {
  const offered: Array<number> = []
  const forgotten: Array<readonly [what: Forgettable | "blobs", before: number]> = []
  const [removed, refused]: [Array<AttachmentId>, Array<AttachmentId>] = [[], []]
  const pages: Array<number> = []
  const state = { clockOffset: 0, isUnreadable: false, inUse: new Set<AttachmentId>(), blobPages: 1, brokenPage: -1, blobsOfPage: 0, stuck: (_sha256: string): boolean => false, dueBefore: 0, isDeliveryDue: false, isQueueAway: false, forgotten: new Array<number>() }
  let epoch = "first"
  const store = {
    attachments: {
      expired: (_, limit) => Effect.sync(() => unused.filter(({ id }) => !removed.includes(id) && !refused.includes(id)).slice(0, limit))
    },
    blobs: { referenced: () => Effect.succeed([]) },
    credentials: { tenant: () => Effect.succeed(Fixtures.tenant()) },
    commit: ([change]) =>
      Effect.suspend(() => {
        if (change?._tag === "Forget") forgotten.push([change.what, change.before])
        if (change?._tag === "Remove" && change.kind === "attachment") {
          const { id } = change.record
          if (state.inUse.has(id)) {
            refused.push(id)
            return Effect.fail(new CommitRejected({ reason: { _tag: "VersionMoved", kind: "attachment", id } }))
          }
          removed.push(id)
        }
        return Effect.succeed({ jobsOffered: true, leaseEnded: false, forgotten: state.forgotten.shift() ?? 0, next: [] })
      }),
    due: (kind, { dueBefore, after, limit }) => {
      state.dueBefore = dueBefore
      if (state.isUnreadable) return Effect.fail(new StoreUnavailable({ cause: "test" }))
      if (kind === "deliver" && state.isDeliveryDue) return Effect.succeed({ jobs: [jobOf(0, kind)], next: null })
      const from = Number(after ?? 0)
      const count = kind === "submit" ? Math.min(limit, overdue - from) : 0
      const jobs = Array.from({ length: count }, (_, index) => jobOf(from + index))
      return Effect.succeed({ jobs, next: kind === "submit" && from + count < overdue ? String(from + count) : null })
    }
  } satisfies Partial<Record<keyof typeof Store.Service, unknown>> & Pick<typeof Store.Service, "due" | "commit"> & { readonly attachments: Pick<(typeof Store.Service)["attachments"], "expired">; readonly blobs: Pick<(typeof Store.Service)["blobs"], "referenced">; readonly credentials: Pick<(typeof Store.Service)["credentials"], "tenant"> }
  const [tried, gone]: [Array<string>, Set<string>] = [[], new Set()]
  const blobs: Pick<typeof BlobStore.Service, "olderThan" | "remove"> = {
    remove: (_, sha256, before) =>
      Effect.suspend(() => {
        tried.push(sha256)
        forgotten.push(["blobs", before])
        if (state.stuck(sha256)) return Effect.fail(new BlobUnavailable({ cause: "test" }))
        gone.add(sha256)
        return Effect.void
      }),
    olderThan: ({ before, after }) =>
      Effect.suspend(() => {
        const page = Number(after ?? 0)
        if (page === state.brokenPage) return Effect.fail(new BlobUnavailable({ cause: "test" }))
        pages.push(page)
        forgotten.push(["blobs", before])
        const found = numbers(0, state.blobsOfPage).map((index) => looseBlob(page, index)).filter(({ sha256 }) => !gone.has(sha256))
        return Effect.succeed({ blobs: found, next: page + 1 < state.blobPages ? String(page + 1) : null })
      })
  }
  const queue: Pick<typeof JobQueue.Service, "offer" | "epoch"> = {
    offer: (jobs) => Effect.sync(() => void offered.push(...jobs.map(({ dueAt }) => dueAt))),
    epoch: Effect.suspend(() => (state.isQueueAway ? Effect.fail(new QueueUnavailable({ cause: "test" })) : Effect.succeed(epoch)))
  }
  const context = yield* Layer.build(
    Sweep.layer.pipe(
      Layer.provide([
        Layer.succeed(Store, store as unknown as typeof Store.Service), // nothing else is asked of them here
        Layer.succeed(JobQueue, queue as typeof JobQueue.Service),
        Layer.succeed(BlobStore, blobs as typeof BlobStore.Service),
        Layer.succeed(RecordNotification, { record: unasked, recordPoll: unasked, applyKept: unasked, applyMatched: Effect.succeed(0) }),
        Layer.succeed(ClockOffset, () => state.clockOffset)
      ])
    )
  )
  const { tick, retain } = Context.get(context, Sweep)
  return {
    state,
    retain: Effect.map(retain, () => ({ forgotten: forgotten.splice(0), removed: removed.splice(0), pages: pages.splice(0), tried: tried.splice(0) })),
    gone,
    tick: Effect.map(tick, () => offered.splice(0)),
    empty: () => {
      epoch += " again"
    }
  }
})

const numbers = (from: number, upto: number) => Array.from({ length: upto - from }, (_, index) => from + index)

describe("Sweep", () => {
  it.effect("offers all that is due to a queue that was emptied", () =>
    Effect.gen(function* () {
      const { tick, empty, state } = yield* sweeping(25_000)

      assert.deepStrictEqual(yield* tick, numbers(0, 25_000))
      assert.deepStrictEqual(yield* tick, numbers(0, 10_000))
      empty()
      const graced = numbers(0, 25_000).map((dueAt) => Math.max(dueAt, 25_000))
      assert.deepStrictEqual(yield* tick, graced, "who has handed mail over has 25 seconds to record it, or to extend its lease")

      yield* TestClock.setTime(10_000)
      assert.deepStrictEqual(yield* tick, graced.slice(0, 10_000), "to offer it again does not bring it forward")
      yield* TestClock.setTime(25_000)
      assert.deepStrictEqual(yield* tick, numbers(10_000, 20_000))

      empty()
      state.isDeliveryDue = true
      assert.deepStrictEqual(new Set((yield* tick).filter((dueAt) => dueAt < 50_000)), new Set([0]), "nobody hands over what is not mail")
    })
  )

  it.effect("knows a queue that was away by what it showed before, whether or not it was emptied meanwhile", () =>
    Effect.gen(function* () {
      const { tick, empty, state } = yield* sweeping(25_000)
      yield* tick
      state.isQueueAway = true
      yield* tick

      state.isQueueAway = false
      assert.deepStrictEqual(yield* tick, numbers(10_000, 20_000))
      state.isQueueAway = true
      yield* tick
      empty()
      state.isQueueAway = false
      assert.deepStrictEqual(yield* tick, numbers(0, 25_000).map((dueAt) => Math.max(dueAt, 25_000)))
    })
  )

  it.effect("takes what is half a minute overdue for lost, and of a queue that was emptied whatever is due at any time", () =>
    Effect.gen(function* () {
      const { tick, state, empty } = yield* sweeping(1)
      yield* TestClock.setTime(day)
      yield* tick
      assert.strictEqual(state.dueBefore, Number.MAX_SAFE_INTEGER)

      yield* tick
      assert.strictEqual(state.dueBefore, day - 30_000)

      empty()
      yield* tick
      assert.strictEqual(state.dueBefore, Number.MAX_SAFE_INTEGER)
    })
  )

  it.effect("offers so much of what is overdue at a time, and goes on behind it", () =>
    Effect.gen(function* () {
      const { tick } = yield* sweeping(25_000)
      yield* tick

      assert.deepStrictEqual(yield* tick, numbers(0, 10_000))
      assert.deepStrictEqual(yield* tick, numbers(10_000, 20_000))
      assert.deepStrictEqual(yield* tick, numbers(20_000, 25_000))
      assert.deepStrictEqual(yield* tick, numbers(0, 10_000))
    })
  )

  it.effect("offers all that is due once it can be read, if it could not when the queue was emptied", () =>
    Effect.gen(function* () {
      const { tick, state } = yield* sweeping(25_000)
      state.isUnreadable = true
      assert.deepStrictEqual(yield* tick, [])

      state.isUnreadable = false
      assert.deepStrictEqual(yield* tick, numbers(0, 25_000))
    })
  )

  it.effect("counts what it offers, and what it removes, until a page is not full", () =>
    Effect.gen(function* () {
      const { tick, retain, state } = yield* sweeping(700)
      const counts = Effect.map(
        Effect.all([Metric.value(Metrics.jobsOffered.submit), Metric.value(Metrics.retentionRemoved.deliveries), Metric.value(Metrics.retentionRemoved.events)]),
        (states) => states.map(({ count }) => count)
      )
      const before = yield* counts
      state.forgotten = [500, 500, 3, 1]

      yield* tick
      const { forgotten } = yield* retain

      assert.deepStrictEqual((yield* counts).map((count, index) => count - before[index]!), [700, 1_003, 1])
      assert.deepStrictEqual(forgotten.slice(0, 5).map(([what]) => what), ["deliveries", "deliveries", "deliveries", "events", "reservations"])
    })
  )

  it.effect("keeps each thing for its time", () =>
    Effect.gen(function* () {
      const { retain, state } = yield* sweeping(0)
      const now = 100 * day
      state.blobsOfPage = 1
      yield* TestClock.setTime(now)

      const { forgotten } = yield* retain

      assert.deepStrictEqual(
        forgotten.map(([what, before]) => [what, (now - before) / day]),
        [["deliveries", 30], ["events", 30 + 2 / 24], ["reservations", 2], ["notifications", 2], ["requests", 30], ["payloads", 30], ["quotas", 2], ["blobs", 3], ["blobs", 3]],
        "blobs are looked for by their age, and have to be of that age still when they go"
      )
    })
  )

  it.effect("removes all unused uploads, but for one that a message has just begun to use", () =>
    Effect.gen(function* () {
      const unused = Array.from({ length: 501 }, () => Fixtures.attachment(Fixtures.realm()))
      const [used, ...others] = unused.map(({ id }) => id)
      const { retain, state } = yield* sweeping(0, unused)
      state.inUse.add(used!)

      const { removed, forgotten } = yield* retain

      assert.deepStrictEqual(removed, others)
      assert.strictEqual(forgotten.at(-1)?.[0], "blobs")
    })
  )

  it.effect("looks at all blobs once, and from then on at so many at a time, one part after the other", () =>
    Effect.gen(function* () {
      const { retain, state } = yield* sweeping(0)
      state.blobPages = 500
      const pagesOf = Effect.map(retain, ({ pages }) => pages)

      assert.deepStrictEqual(yield* pagesOf, numbers(0, 500))
      assert.deepStrictEqual(yield* pagesOf, numbers(0, 200))
      state.brokenPage = 300
      assert.deepStrictEqual(yield* pagesOf, numbers(200, 300))
      assert.deepStrictEqual(yield* pagesOf, [])
      state.brokenPage = -1
      assert.deepStrictEqual(yield* pagesOf, numbers(300, 500))
      assert.deepStrictEqual(yield* pagesOf, numbers(0, 200))
      state.blobPages = 200
      assert.deepStrictEqual([yield* pagesOf, yield* pagesOf], [[200], numbers(0, 200)])
    })
  )

  it.effect("goes on with all blobs where the store failed among them", () =>
    Effect.gen(function* () {
      const { retain, state } = yield* sweeping(0)
      Object.assign(state, { blobPages: 500, brokenPage: 3 })
      assert.deepStrictEqual((yield* retain).pages, [0, 1, 2])

      state.brokenPage = -1
      assert.deepStrictEqual((yield* retain).pages, numbers(3, 500))
    })
  )

  it.effect("passes over blobs that cannot be removed, which keep none behind them from going, and comes back to them", () =>
    Effect.gen(function* () {
      const { retain, state, gone } = yield* sweeping(0)
      Object.assign(state, { blobPages: 3, blobsOfPage: 5, stuck: (sha256: string) => sha256.startsWith("0/") || sha256 === "1/3" })
      const before = yield* Metric.value(Metrics.retentionRemoved.blobs)

      yield* retain
      assert.deepStrictEqual([...gone], ["1/0", "1/1", "1/2", "1/4", "2/0", "2/1", "2/2", "2/3", "2/4"])
      assert.strictEqual((yield* Metric.value(Metrics.retentionRemoved.blobs)).count - before.count, gone.size)
      assert.deepStrictEqual((yield* retain).tried, ["0/0", "0/1", "0/2", "0/3", "0/4", "1/3"])
      state.stuck = () => false
      yield* retain
      assert.strictEqual(gone.size, 15)
    })
  )

  it.effect("does nothing by a clock that is far from the store's", () =>
    Effect.gen(function* () {
      const { tick, retain, state } = yield* sweeping(1)

      for (state.clockOffset of [clockOffsetMax + 1, -clockOffsetMax - 1]) {
        assert.deepStrictEqual(yield* tick, [])
        assert.deepStrictEqual(yield* retain, { forgotten: [], removed: [], pages: [], tried: [] })
      }
      state.clockOffset = clockOffsetMax
      assert.deepStrictEqual(yield* tick, [0])
    })
  )
})
