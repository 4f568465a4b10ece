/**
 * What a JobQueue holds when its process ends and another begins: everything,
 * leases too, or else its epoch is another, by which the sweep learns to offer
 * all work again. `adapter` is opened several times over what it keeps its jobs
 * in, which the services of the proof hold: a server, a file.
 */
import assert from "node:assert/strict"
import { Effect, Layer, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { JobQueue } from "../core/ports/JobQueue.ts"
import { begin, claim, job, jobs, minute, subjectsOf, visibilityTimeout } from "./JobQueueSteps.ts"
import type { Suite } from "./Suite.ts"

export const suite = <E, R>(adapter: Layer.Layer<JobQueue, E, R>): Suite<R> => {
  const opened = <A, E2>(use: Effect.Effect<A, E2, JobQueue | Scope.Scope>) => Effect.scoped(Effect.provide(use, Layer.fresh(adapter)))

  const left = Effect.gen(function* () {
    const { queue, now } = yield* begin
    const due = jobs(3, now)
    yield* queue.offer([...due, job(now + 2 * minute)])
    const [lease] = yield* claim(1)
    return { epoch: yield* queue.epoch, due, lease: lease! }
  })

  return {
    name: "JobQueue, opened again",
    checks: [
      {
        title: "shows another epoch when it is opened again, or holds every job and every lease",
        check: Effect.gen(function* () {
          const { epoch, due, lease } = yield* opened(left)

          yield* opened(
            Effect.gen(function* () {
              const queue = yield* JobQueue
              if ((yield* queue.epoch) !== epoch) return
              const waiting = due.map(({ subject }) => subject).filter((subject) => subject !== lease.job.subject)
              const again = yield* claim()
              assert.deepEqual(subjectsOf(again), waiting.toSorted(), "the epoch is the same, and the due jobs without a lease are not")
              for (const one of again) yield* queue.complete(one)
              yield* TestClock.adjust(visibilityTimeout)
              const [expired, ...others] = yield* claim()
              assert.deepEqual([expired?.job, expired?.claims, others], [lease.job, 2, []], "the epoch is the same, and the lease is not as it was")
              yield* queue.complete(expired!)
              yield* TestClock.adjust(minute)
              assert.equal((yield* claim()).length, 1, "the epoch is the same, and the job for later was forgotten")
            })
          )
        })
      }
    ]
  }
}
