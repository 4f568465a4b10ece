/**
 * What a JobQueue holds when its process ends and another begins, and what two
 * processes make of one: everything, leases too, or else its epoch is another,
 * by which the sweep learns to offer all work again.
 */
import assert from "node:assert/strict"
import { Duration, Effect, Layer, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { JobQueue, jobKinds, type Lease } from "../core/ports/JobQueue.ts"
import { assertLost, begin, claim, ends, job, jobs, minute, noCap, subjectsOf, visibilityTimeout } from "./JobQueueSteps.ts"
import type { Suite } from "./Suite.ts"

/**
 * What a JobQueue is to several processes, one after another and at once. `adapter` is opened several times over what it
 * keeps its jobs in, which the services `R` of the proof hold: a server, a folder. Where a path is all that it takes, `R`
 * is nothing, and the proof's layer is `Layer.empty`.
 */
export const suite = <E, R>(adapter: Layer.Layer<JobQueue, E, R>): Suite<R> => {
  const opened = <A, E2, R2>(use: Effect.Effect<A, E2, R2>) => Effect.scoped(Effect.provide(use, Layer.fresh(adapter)))

  const left = Effect.gen(function* () {
    const { queue, now } = yield* begin
    const due = jobs(3, now)
    yield* queue.offer([...due, job(now + 2 * minute)])
    const [lease] = yield* claim(1)
    return { epoch: yield* queue.epoch, due, lease: lease! }
  })

  /** Two processes at once; of queues that have nothing in common, which their epochs tell, nothing is asked. */
  const together = <A, E2>(use: (ours: JobQueue["Service"], theirs: JobQueue["Service"]) => Effect.Effect<A, E2, Scope.Scope>) =>
    opened(
      Effect.gen(function* () {
        const { queue: ours } = yield* begin
        yield* opened(
          Effect.gen(function* () {
            const theirs = yield* JobQueue
            if ((yield* ours.epoch) === (yield* theirs.epoch)) yield* use(ours, theirs)
          })
        )
      })
    )

  const take = (queue: JobQueue["Service"], limit: number, inFlightMax = noCap) =>
    queue.claim({ kinds: jobKinds, limit, visibilityTimeout, inFlightMax })

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
      },
      {
        title: "gives two processes no job twice, and no two leases one token",
        check: together((ours, theirs) =>
          Effect.gen(function* () {
            const due = Array.from({ length: 10 }, () => jobs(20, 0)).flat()
            yield* ours.offer(due)
            const worker = Effect.fnUntraced(function* (queue: JobQueue["Service"]) {
              const leases: Array<Lease> = []
              for (let empty = 0; empty < 10; ) {
                const more = yield* take(queue, 3)
                empty = more.length === 0 ? empty + 1 : 0
                leases.push(...more)
              }
              return leases
            })

            const byTurns = yield* Effect.forEach([ours, theirs, ours, theirs], (queue) => take(queue, 10))
            assert.deepEqual(byTurns.map(({ length }) => length), [10, 10, 10, 10], "each process is handed jobs")
            const atOnce = yield* Effect.all([worker(ours), worker(theirs)], { concurrency: "unbounded" })
            const taken = [...byTurns, ...atOnce].flat()

            assert.deepEqual(subjectsOf(taken), due.map(({ subject }) => subject).toSorted(), "each job has one lease")
            assert.equal(new Set(taken.map(({ token }) => token)).size, due.length, "each lease has a token of its own")
          })
        )
      },
      {
        title: "fences the leases of one process against those of another, and of those before it",
        check: Effect.gen(function* () {
          const { epoch, lease } = yield* opened(left)
          yield* together((ours, theirs) =>
            Effect.gen(function* () {
              if ((yield* ours.epoch) !== epoch) return
              yield* ours.offer([lease.job])
              const [first] = yield* take(ours, 1)
              yield* TestClock.adjust(visibilityTimeout)
              const [second] = yield* take(theirs, 1)
              assert.deepEqual([first?.claims, second?.claims], [1, 2])

              for (const lost of [lease, first!]) {
                assertLost(yield* Effect.result(theirs.complete(lost)))
                assertLost(yield* Effect.result(ours.extend(lost, visibilityTimeout)))
              }
              yield* ours.complete(second!)
              assert.deepEqual(yield* take(theirs, 1), [], "what one process has completed is gone for the other")
            })
          )
        })
      },
      {
        title: "keeps caps and throttles over all processes",
        check: together((ours, theirs) =>
          Effect.gen(function* () {
            const due = jobs(9, 0)
            yield* ours.offer(due)
            assert.equal((yield* take(ours, 2, 3)).length, 2)
            assert.equal((yield* take(theirs, 9, 3)).length, 1, "the cap counts the leases of all")

            yield* theirs.throttle("submit", due[0]!.group, 4)
            assert.equal((yield* take(ours, 9)).length, 1, "a throttle holds for all")
          })
        )
      },
      {
        title: "wakes who waits in one process for what is offered in another, within a minute",
        check: together((ours, theirs) =>
          Effect.gen(function* () {
            assert.deepEqual(yield* take(theirs, 1), [])
            const waiting = yield* Effect.forkScoped(theirs.awaitWork(jobKinds, Duration.hours(10)))
            yield* TestClock.adjust(1)
            yield* ours.offer([job(0)])
            for (let second = 0; second < 60; second++) yield* TestClock.adjust("1 second")

            assert.ok(yield* ends(waiting), "it waits on, beside a due job")
            assert.equal((yield* take(theirs, 1)).length, 1)
          })
        )
      }
    ]
  }
}
