/**
 * Proving adapters of your own. This job queue has a flaw that is easy to
 * overlook: a worker that was too slow, and whose job another has by now, may
 * still end it. The suite of its port says which law that breaks:
 *
 *   npm run --silent mailroom -- conformance --adapters examples/prove-adapter.ts
 */
import { Effect, Layer } from "effect"
import { JobQueue } from "mailroom"
import { MemoryJobQueue } from "mailroom/adapters/memory"
import { conforms, jobQueue } from "mailroom/conformance"

const withoutFence = Effect.map(JobQueue, (queue) =>
  JobQueue.of({
    ...queue,
    complete: (lease) => queue.complete(lease).pipe(Effect.catchTag("LeaseLost", () => Effect.void))
  })
)

export default [
  conforms("a queue without a fence", jobQueue, Layer.effect(JobQueue, withoutFence).pipe(Layer.provide(MemoryJobQueue.layer))),
  conforms("the memory queue", jobQueue, MemoryJobQueue.layer)
]
