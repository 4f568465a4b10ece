/**
 * The way to write. Offers the jobs of a commit to the queue where the store
 * is not the queue itself, and tries again from a fresh read when a version moved.
 *
 * - What brings something new: `commit`, whose caller knows what each rejection
 *   means, or that none can come (`dieOnRejection`).
 * - What changes a record: `changeRecord` around the read, the decision and the
 *   commit; `changeAsRead` where the record has been read already.
 * - What goes by several records: `retryOnVersionMoved` around the same.
 * - What makes a secret that is told once: `orFound` around all of it.
 *
 * A record that a decision goes by and does not change is named as `unchanged`.
 */
import { Context, Effect, Exit, Option } from "effect"
import { JobQueue, type Job, type Lease } from "../ports/JobQueue.ts"
import * as Metrics from "../Metrics.ts"
import * as SeldomLog from "../SeldomLog.ts"
import * as Tracing from "../Tracing.ts"
import { Turns } from "../Turns.ts"
import { CommitRejected, Store, StoreUnavailable, type Change, type Committed, type Hold, type Kind, type Next, type Rejection } from "../ports/Store.ts"

/** How often a decision is made anew when its version moved, before it is given up as busy. */
const retriesMax = 50

/**
 * For changes of one record in this process, by record, so that they do not only collide. Other processes are held off by
 * versions.
 */
const turns = new Turns()

/** Queues that took no offer, each with its log: a line a minute, where each commit would else write one. */
const refusing = new WeakMap<typeof JobQueue.Service, ReturnType<typeof SeldomLog.make>>()

const seldomOf = (queue: typeof JobQueue.Service) => {
  const seldom = refusing.get(queue) ?? SeldomLog.make()
  refusing.set(queue, seldom)
  return seldom
}

/** Offers jobs; a queue that is away loses nothing, for the sweep offers what stays undone. */
export const offer = (queue: typeof JobQueue.Service, jobs: ReadonlyArray<Job>): Effect.Effect<void> =>
  jobs.length === 0
    ? Effect.void
    : queue.offer(jobs).pipe(Effect.catch((error) => seldomOf(queue)(Effect.logWarning("jobs were not offered; the sweep will", error))))

/** That a record is still as it was read, and stays so until the commit has landed. */
export const unchanged = (kind: Kind, { id, version }: { readonly id: string; readonly version: number }): Change => ({
  _tag: "Require",
  kind,
  id,
  version
})

/** A place that passes from job to job: whose job ends with a commit is handed the next of its group with it. */
export interface Place {
  /** What to hold next; null: nothing is wanted now. */
  holdNext(): Hold | null
  /** Takes the leases of the next jobs, whatever becomes of what is under way. */
  take(next: ReadonlyArray<Next>): void
  /** The worker stops: a job that has done nothing yet that cannot be undone is given back. */
  isStopping(): boolean
}

/** The place of the job that is under way; null if its end just frees it. */
export const Place = Context.Reference<Place | null>("mailroom/core/operations/Commit/Place", { defaultValue: () => null })

/** Commits changes with the jobs they make due, and with the end of the job that they are of, where the store can. */
export const commit = (
  store: typeof Store.Service,
  queue: typeof JobQueue.Service,
  changes: ReadonlyArray<Change>,
  jobs: ReadonlyArray<Job>,
  lease?: Lease
): Effect.Effect<Committed, CommitRejected | StoreUnavailable> =>
  // Once begun it is seen through: a caller who hangs up must not part the commit from its jobs.
  Effect.uninterruptible(
    Effect.withFiber((fiber) => {
      const place = lease === undefined ? null : fiber.getRef(Place)
      const holdNext = place?.holdNext() ?? null
      const ending = lease === undefined || holdNext === null ? lease : { ...lease, holdNext }
      return Effect.tap(measure(store.commit(changes, jobs, ending)), ({ jobsOffered, next }) => {
        if (next.length > 0) place?.take(next)
        return jobsOffered ? Effect.void : offer(queue, jobs)
      })
    })
  )

const measure = (self: Effect.Effect<Committed, CommitRejected | StoreUnavailable>) =>
  self.pipe(
    Metrics.timed(Metrics.commitDuration, (exit) => Metrics.commits[resultOf(exit)]),
    Tracing.span("Store.commit", "client")
  )

const resultOf = (exit: Exit.Exit<Committed, CommitRejected | StoreUnavailable>): (typeof Metrics.commitResults)[number] => {
  if (Exit.isSuccess(exit)) return "committed"
  const error = Option.getOrNull(Exit.findErrorOption(exit))
  return error instanceof CommitRejected ? rejected[error.reason._tag] : "unavailable"
}

const rejected = {
  VersionMoved: "version_moved",
  KeyTaken: "key_taken",
  QuotaExceeded: "quota_exceeded",
  Duplicate: "duplicate"
} as const satisfies { readonly [T in Rejection["_tag"]]: (typeof Metrics.commitResults)[number] }

/**
 * Reads, decides and commits a change of one record, again while another writer was faster; `StoreUnavailable` if it
 * always was. Any other rejection is a bug: a change of what is there takes no name and no quota.
 */
export const changeRecord = <A, E, R>(
  record: string,
  self: Effect.Effect<A, E | CommitRejected, R>
): Effect.Effect<A, Exclude<E, CommitRejected> | StoreUnavailable, R> =>
  dieOnRejection(turns.take(record, retryOnVersionMoved(self)))

/** The same for a record that has been read: the change is made to it as it was then, and read afresh only if it has moved since. */
export const changeAsRead = <Record extends { readonly id: string }, A, E, R, E2, R2>(
  read: Record,
  afresh: () => Effect.Effect<Record | null, E2, R2>,
  change: (record: Record | null) => Effect.Effect<A, E | CommitRejected, R>
): Effect.Effect<A, Exclude<E | E2, CommitRejected> | StoreUnavailable, R | R2> =>
  Effect.suspend(() => {
    let isFirst = true
    const once = Effect.suspend(() => {
      const current = isFirst ? Effect.succeed(read) : afresh()
      isFirst = false
      return Effect.flatMap(current, change)
    })
    return changeRecord(read.id, once)
  })

/** The same for what is about several records, or can be rejected for more than a version: for what, its caller says. */
export const retryOnVersionMoved = <A, E, R>(
  self: Effect.Effect<A, E | CommitRejected, R>
): Effect.Effect<A, E | CommitRejected | StoreUnavailable, R> =>
  retryTimes(self, retriesMax)

const retryTimes = <A, E, R>(
  self: Effect.Effect<A, E | CommitRejected, R>,
  times: number
): Effect.Effect<A, E | CommitRejected | StoreUnavailable, R> =>
  Effect.catchIf(
    self,
    (error) => isRejected(error, "VersionMoved"),
    (error) => (times === 0 ? Effect.fail(new StoreUnavailable({ cause: error })) : retryTimes(self, times - 1))
  )

/**
 * For a commit that makes a secret, which is told this once: where nobody knows whether it landed, `find` looks
 * for what it has made, and that is the answer, if it is there.
 */
export const orFound = <A, E, B, E2>(
  self: Effect.Effect<A, E | StoreUnavailable>,
  find: Effect.Effect<B | null, E2>
): Effect.Effect<A | B, E | E2 | StoreUnavailable> =>
  Effect.catchIf(
    self,
    (error): error is StoreUnavailable => error instanceof StoreUnavailable,
    (error) => Effect.flatMap(find, (found): Effect.Effect<B, StoreUnavailable> => (found === null ? Effect.fail(error) : Effect.succeed(found)))
  )

/** Whether a commit was rejected for this reason. */
export const isRejected = (error: unknown, reason: Rejection["_tag"]): boolean =>
  error instanceof CommitRejected && error.reason._tag === reason

/** A rejection that this caller's changes cannot meet with is a bug. */
export const dieOnRejection = <A, E, R>(
  self: Effect.Effect<A, E | CommitRejected, R>
): Effect.Effect<A, Exclude<E, CommitRejected>, R> =>
  // The cast names what the predicate removes.
  Effect.catchIf(self, (error) => error instanceof CommitRejected, (error) => Effect.die(error)) as Effect.Effect<
    A,
    Exclude<E, CommitRejected>,
    R
  >
