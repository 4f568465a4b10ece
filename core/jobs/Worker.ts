/**
 * One look at the queue: claims what is due, does it, and ends each job that
 * came to an end. A job that did not is left to its lease, and comes again.
 */
import { Cause, Context, Duration, Effect, Layer } from "effect"
import { JobQueue, type JobKind, type Lease } from "../ports/JobQueue.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import { PollProvider } from "./PollProvider.ts"
import { ScanAttachment } from "./ScanAttachment.ts"
import { SubmitMessage } from "./SubmitMessage.ts"

/** How long a job is held before others may have it; work that takes longer extends its lease. */
export const visibilityTimeout = Duration.seconds(60)

const claimLimit = 32
/** Leases of one tenant at a time, over all workers, so that a big sender leaves room for the others. */
const inFlightMax = 16

export class Worker extends Context.Service<
  Worker,
  {
    /** Does what is due now, up to a batch; how many jobs that was. 0: nothing is due. */
    readonly tick: Effect.Effect<number>
    /** Waits until something may be due, at most this long. */
    readonly awaitWork: (atMost: Duration.Duration) => Effect.Effect<void>
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

      /** Holds the lease for as long as the work goes on. The store's versions fence the result, so losing it is no error. */
      const heartbeat = (lease: Lease) =>
        Effect.forever(
          Effect.andThen(Effect.sleep(Duration.divideUnsafe(visibilityTimeout, 3)), queue.extend(lease, visibilityTimeout))
        ).pipe(Effect.ignore)

      const work = Effect.fnUntraced(
        function* (lease: Lease) {
          yield* Effect.forkScoped(heartbeat(lease))
          yield* handlers[lease.job.kind](lease)
          yield* queue.complete(lease).pipe(Effect.catchTag("LeaseLost", () => Effect.void))
        },
        Effect.scoped,
        (effect, { job }) =>
          effect.pipe(
            Effect.catchCause((cause) =>
              Cause.hasInterruptsOnly(cause)
                ? Effect.failCause(cause as Cause.Cause<never>) // interrupts carry no error
                : Effect.logError("a job came to no end; its lease runs out and it comes again", cause)
            ),
            Effect.annotateLogs({ job: job.kind, subject: job.subject, tenantId: job.realm.tenantId })
          )
      )

      return Worker.of({
        tick: queue.claim({ limit: claimLimit, visibilityTimeout, inFlightMax }).pipe(
          Effect.catch((error) => Effect.as(Effect.logWarning("the job queue is away", error), [])),
          Effect.tap((leases) => Effect.forEach(leases, work, { concurrency: "unbounded", discard: true })),
          Effect.map((leases) => leases.length)
        ),
        awaitWork: queue.awaitWork
      })
    })
  )
}
