/**
 * Work to look at. A queue holds only "look at this message, not before then";
 * what is due stands in the store, so a queue may lose everything and cost
 * nothing but latency. A job delivered twice does nothing twice, because its
 * handler reads the store first.
 *
 * An adapter
 * - holds at most one job for a (kind, subject); a further offer moves its due
 *   time to the earlier of the two. An offer for a job under lease is kept
 *   beside the lease, and becomes the job when the lease is completed or runs out,
 *   also when it is completed after that, as long as nobody has leased it since;
 *   a lease for longer than `leaseMax` from now, which a clock that was wrong
 *   has written, runs out with it;
 * - hands a job to one lease at a time, until it is completed or its time runs
 *   out; an expired lease's job is due at once, and its claims count on;
 * - is fair: claims go round the groups that have due jobs, and no group has
 *   more than `inFlightMax` leases of one kind at a time, over all claimers, nor
 *   more than it is throttled to; only a commit may lease more (`Hold`, Store).
 *   Of a group's jobs it hands out those first that fell due first;
 * - judges time by Effect's `Clock`, never by its server's;
 * - has no retry policy. When to look again is the state machine's to say.
 */
import { Context, Data, type Duration, type Effect } from "effect"
import type { Millis, Realm } from "../model/Ids.ts"

/**
 * `submit`: a message to its provider. `poll`: ask the provider what became of it. `scan`: an attachment. `deliver`: an
 * event to a webhook endpoint. `parse`: an inbound message.
 */
export const jobKinds = ["submit", "poll", "scan", "deliver", "parse"] as const
export type JobKind = (typeof jobKinds)[number]

/** Milliseconds: nobody asks for a longer lease. */
export const leaseMax = 60 * 60_000

/** Milliseconds for which a throttle holds unless it is renewed. */
export const throttleLifetime = 5 * 60_000

export interface Job {
  readonly kind: JobKind
  /** The id of the message, attachment or delivery. */
  readonly subject: string
  readonly realm: Realm
  /** Who waits together: the tenant; of deliveries, the endpoint. */
  readonly group: string
  readonly dueAt: Millis
}

/** What a job looks at, as far as the job tells. */
export interface Subject extends Realm {
  readonly id: string
  /** Of a delivery. */
  readonly endpointId?: string
}

/** A look at a record, when it is due. */
export const jobOf = (kind: JobKind, { id, tenantId, environment, endpointId }: Subject, dueAt: Millis): Job => ({
  kind,
  subject: id,
  realm: { tenantId, environment },
  group: endpointId ?? tenantId,
  dueAt
})

/** The right to work on a job for a while. */
export interface Lease {
  readonly job: Job
  /** Never the same twice; fences `complete`, `extend` and `release`. */
  readonly token: string
  /**
   * How often the job was handed out since it was first offered, or last completed, this time included. A further offer
   * changes nothing of that.
   */
  readonly claims: number
  readonly expiresAt: Millis
}

/** The queue did not answer: what it was told it may have done, or not. */
export class QueueUnavailable extends Data.TaggedError("QueueUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the job queue is unavailable"
}

/** Another worker holds the job by now, or it is gone. */
export class LeaseLost extends Data.TaggedError("LeaseLost")<{ readonly token: string }> {
  override readonly message = "the lease was lost"
}

export class JobQueue extends Context.Service<
  JobQueue,
  {
    /** Puts jobs there, each beside what is there of it. When it fails, any of them may be there; to offer again does no harm. */
    readonly offer: (jobs: ReadonlyArray<Job>) => Effect.Effect<void, QueueUnavailable>
    /**
     * Up to `limit` due jobs of these kinds, at once; an empty list if none may be taken. Fewer than `limit`: no more may
     * be taken now, or the wait that follows ends at once. Nobody asks for longer than `leaseMax`, which need not be checked.
     */
    readonly claim: (options: {
      readonly kinds: ReadonlyArray<JobKind>
      readonly limit: number
      readonly visibilityTimeout: Duration.Duration
      readonly inFlightMax: number
    }) => Effect.Effect<ReadonlyArray<Lease>, QueueUnavailable>
    /** Ends the job. Fails with `LeaseLost`, and changes nothing, when another worker has leased it since. */
    readonly complete: (lease: Lease) => Effect.Effect<void, QueueUnavailable | LeaseLost>
    /**
     * Holds the job for this long from now. Fails with `LeaseLost`, and changes nothing, as `complete` does. A queue that has
     * lost all it held since the claim may hold the job anew, with its claims, where nobody else does by now: until work that
     * goes on for longer is extended, what is due is offered for later (`Sweep`).
     */
    readonly extend: (
      lease: Lease,
      visibilityTimeout: Duration.Duration
    ) => Effect.Effect<Lease, QueueUnavailable | LeaseLost>
    /**
     * Gives a job back untouched: due after a while (at once, if that is zero), and as if this claim had not been. Its
     * `dueAt` stays as it was where the delay is zero; else it is now plus the delay, or as it was where this is later (who
     * claimed it had a clock that was ahead), or that of the offer beside the lease where this is earlier. Fails with
     * `LeaseLost`, and changes nothing, as `complete` does.
     */
    readonly release: (lease: Lease, delay: Duration.Duration) => Effect.Effect<void, QueueUnavailable | LeaseLost>
    /**
     * For some minutes (`throttleLifetime`) from now this group has at most so many leases of this kind, one or more, also
     * while it has no jobs; null lifts it, and wakes who waits. Leases beyond it end as they would. Lost with the queue's
     * content. That it lapses heals what processes tell a queue in the wrong order.
     */
    readonly throttle: (kind: JobKind, group: string, inFlightMax: number | null) => Effect.Effect<void, QueueUnavailable>
    /** Changes when the queue may have lost what it held. */
    readonly epoch: Effect.Effect<string, QueueUnavailable>
    /**
     * Waits until a job of these kinds may be claimed, at most this long: one is or falls due, whether by an offer, a
     * completion, a release or a lease that runs out, or a place below a cap or a throttle becomes free. It knows no cap
     * but those of the claims before it: due jobs for which the last claim of these kinds had no place end no wait. A hint
     * to sleep by: it may return early, but not time after time, or who claims and waits by turns does nothing else.
     */
    readonly awaitWork: (kinds: ReadonlyArray<JobKind>, atMost: Duration.Duration) => Effect.Effect<void>
  }
>()("mailroom/core/ports/JobQueue") {}
