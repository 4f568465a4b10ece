/**
 * The way to write. Offers the jobs of a commit to the queue where the store
 * is not the queue itself, and tries again from a fresh read when a version moved.
 */
import { Effect } from "effect"
import { JobQueue, type Job } from "../ports/JobQueue.ts"
import { CommitRejected, Store, type Change, type Rejection, type StoreUnavailable } from "../ports/Store.ts"

/** How often a decision is made anew when its version moved, before it is given up as busy. */
const retriesMax = 50

/** Offers jobs; a queue that is away loses nothing, for the sweep offers what stays undone. */
export const offer = (queue: typeof JobQueue.Service, jobs: ReadonlyArray<Job>): Effect.Effect<void> =>
  jobs.length === 0
    ? Effect.void
    : queue.offer(jobs).pipe(Effect.catch((error) => Effect.logWarning("jobs were not offered; the sweep will", error)))

/** Commits changes with the jobs they make due. */
export const commit = Effect.fnUntraced(function* (
  store: typeof Store.Service,
  queue: typeof JobQueue.Service,
  changes: ReadonlyArray<Change>,
  jobs: ReadonlyArray<Job>
): Effect.fn.Return<void, CommitRejected | StoreUnavailable> {
  // Once begun it is seen through: a caller who hangs up must not part the commit from its jobs.
  return yield* Effect.uninterruptible(
    Effect.flatMap(store.commit(changes, jobs), ({ jobsOffered }) => (jobsOffered ? Effect.void : offer(queue, jobs)))
  )
})

/** Reads, decides and commits again while another writer was faster. */
export const retryOnVersionMoved = <A, E, R>(self: Effect.Effect<A, E | CommitRejected, R>): Effect.Effect<A, E | CommitRejected, R> =>
  Effect.retry(self, { times: retriesMax, while: (error) => isRejected(error, "VersionMoved") })

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
