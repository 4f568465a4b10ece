/**
 * Takes jobs from the queue, does them, and ends each that came to an end. A
 * job whose worker broke is left to its lease, and comes again; one that the
 * store or a provider could not serve is offered for later, and starts anew.
 */
import { Cause, Clock, Context, Duration, Effect, FiberSet, Layer, Semaphore } from "effect"
import { JobQueue, type JobKind, type Lease } from "../ports/JobQueue.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import { offer } from "../operations/Commit.ts"
import { PollProvider } from "./PollProvider.ts"
import { ScanAttachment } from "./ScanAttachment.ts"
import { SubmitMessage } from "./SubmitMessage.ts"

/** How long a job is held before others may have it; work that takes longer extends its lease. */
export const visibilityTimeout = Duration.seconds(60)

/** Jobs under way at a time in one process. */
const placesMax = 32
/** Leases of one tenant at a time, over all workers, so that a big sender leaves room for the others. */
const inFlightMax = 16
/** When a job is tried again that the store could not serve. */
const unavailableRetry = 30_000

export class Worker extends Context.Service<
  Worker,
  {
    /** Does what is due now, up to a batch, and waits for its end; how many jobs that was. 0: nothing is due. */
    readonly tick: Effect.Effect<number>
    /**
     * Keeps all places busy, so that a slow job holds up nobody else, until it is told to stop; then ends when the
     * jobs under way have. `idle`: how long it sleeps at most where nothing nudges it.
     */
    readonly run: (isStopping: () => boolean, idle: Duration.Duration) => Effect.Effect<void>
  }
>()("mailroom/core/jobs/Worker") {
  static readonly layer = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const submitMessage = yield* SubmitMessage
      const scanAttachment = yield* ScanAttachment
      const pollProvider = yield* PollProvider

      const handlers: Record<JobKind, (lease: Lease) => Effect.Effect<void, StoreUnavailable>> = {
        submit: submitMessage.handle,
        scan: scanAttachment.handle,
        poll: pollProvider.handle
      }

      /**
       * Holds the lease for as long as the work goes on, whatever the queue's moods, until somebody else has it. The
       * store's versions fence the result, so losing it is no error.
       */
      const heartbeat = (lease: Lease) =>
        Effect.sleep(Duration.divideUnsafe(visibilityTimeout, 3)).pipe(
          Effect.andThen(queue.extend(lease, visibilityTimeout)),
          Effect.catchTag("QueueUnavailable", () => Effect.void),
          Effect.forever,
          Effect.ignore
        )

      /** The store was away: no fault of the job, so its claims must not count against it. */
      const later = Effect.fnUntraced(function* ({ job }: Lease, error: StoreUnavailable) {
        yield* Effect.logWarning("a job could not be done; it is tried again", error)
        yield* offer(queue, [{ ...job, dueAt: (yield* Clock.currentTimeMillis) + unavailableRetry }])
      })

      const work = Effect.fnUntraced(
        function* (lease: Lease) {
          yield* Effect.forkScoped(heartbeat(lease))
          yield* handlers[lease.job.kind](lease).pipe(Effect.catch((error) => later(lease, error)))
          yield* queue.complete(lease).pipe(Effect.catchTag("LeaseLost", () => Effect.void))
        },
        Effect.scoped,
        (effect, { job }) =>
          effect.pipe(
            Effect.catchCause((cause) =>
              Cause.hasInterruptsOnly(cause)
                ? Effect.interrupt
                : Effect.logError("a job came to no end; its lease runs out and it comes again", cause)
            ),
            Effect.annotateLogs({ job: job.kind, subject: job.subject, tenantId: job.realm.tenantId })
          )
      )

      /**
       * Claims, and deals out: jobs that are new, and at most one that came to no end before. Such a one is worked
       * alone, and its like are given back untouched, so that what breaks the worker breaks nobody else's job.
       */
      const claim = Effect.fnUntraced(function* (limit: number) {
        const leases = yield* queue.claim({ limit, visibilityTimeout, inFlightMax }).pipe(
          Effect.catch((error) => Effect.as(Effect.logWarning("the job queue is away", error), []))
        )
        const [suspect, ...others] = leases.filter(({ claims }) => claims > 1)
        yield* Effect.forEach(others, (lease) => Effect.ignore(queue.release(lease)), { discard: true })
        return { fresh: leases.filter(({ claims }) => claims === 1), suspect: suspect ?? null }
      })

      return Worker.of({
        tick: Effect.gen(function* () {
          const { fresh, suspect } = yield* claim(placesMax)
          yield* Effect.forEach(fresh, work, { concurrency: "unbounded", discard: true })
          if (suspect !== null) yield* work(suspect)
          return fresh.length + (suspect === null ? 0 : 1)
        }),

        run: Effect.fnUntraced(function* (isStopping, idle) {
          const places = Semaphore.makeUnsafe(placesMax)
          const fibers = yield* FiberSet.make()
          let busy = 0
          const start = (lease: Lease) => {
            busy += 1
            const done = Effect.sync(() => void (busy -= 1))
            return FiberSet.run(fibers, places.withPermits(1)(work(lease)).pipe(Effect.ensuring(done)))
          }
          /** Its lease is held while the others come to their end. */
          const workAlone = (lease: Lease) =>
            Effect.scoped(
              Effect.forkScoped(heartbeat(lease)).pipe(
                Effect.andThen(FiberSet.awaitEmpty(fibers)),
                Effect.andThen(work(lease))
              )
            )
          while (!isStopping()) {
            yield* places.withPermits(1)(Effect.void) // a place is free
            const { fresh, suspect } = yield* claim(Math.max(1, placesMax - busy))
            for (const lease of fresh) yield* start(lease)
            if (suspect !== null) yield* workAlone(suspect)
            if (fresh.length === 0 && suspect === null) yield* queue.awaitWork(idle)
          }
          yield* FiberSet.awaitEmpty(fibers)
        }, Effect.scoped)
      })
    })
  )
}
