/**
 * What the checks of a JobQueue are made of. A claim may hand out any job of
 * the queue, so each check begins with an empty one: it goes a day ahead, by
 * when all that earlier checks left behind is due, and completes it. The queue
 * must therefore serve one check at a time, and nobody else.
 */
import assert from "node:assert/strict"
import { Clock, Duration, Effect, Fiber, Option, Result } from "effect"
import { TestClock } from "effect/testing"
import type { Millis } from "../core/model/Ids.ts"
import { JobQueue, jobKinds, type Job, type JobKind, type Lease } from "../core/ports/JobQueue.ts"
import { freshId, realm } from "./fixtures.ts"

export const minute = 60_000
export const visibilityTimeout = Duration.minutes(1)
export const noCap = 1_000_000

/** An empty queue, and the time. */
export const begin = Effect.gen(function* () {
  yield* TestClock.adjust("1 day")
  const queue = yield* JobQueue
  for (;;) {
    const left = yield* queue.claim({ kinds: jobKinds, limit: 200, visibilityTimeout, inFlightMax: noCap })
    if (left.length === 0) break
    for (const lease of left) yield* queue.complete(lease)
  }
  return { queue, now: yield* Clock.currentTimeMillis }
})

export const job = (dueAt: Millis, over: Partial<Job> = {}): Job => {
  const of = realm()
  return { kind: "submit", subject: freshId<string>(), realm: of, group: of.tenantId, dueAt, ...over }
}

export const jobs = (count: number, dueAt: Millis, over: Partial<Job> = {}): Array<Job> => {
  const { group } = job(dueAt, over)
  return Array.from({ length: count }, () => job(dueAt, { group, ...over }))
}

export const claim = Effect.fnUntraced(function* (limit = 100, inFlightMax = noCap, kinds: ReadonlyArray<JobKind> = jobKinds) {
  const queue = yield* JobQueue
  return yield* queue.claim({ kinds, limit, visibilityTimeout, inFlightMax })
})

export const claimOne = Effect.gen(function* () {
  const leases = yield* claim()
  assert.equal(leases.length, 1, `one job is due, and a claim finds ${leases.length}`)
  return leases[0]!
})

export const assertNothingDue = Effect.gen(function* () {
  assert.deepEqual(yield* claim(), [])
})

export const assertLost = (outcome: Result.Result<unknown, { readonly _tag: string }>): void => {
  assert.equal(Result.isFailure(outcome) ? outcome.failure._tag : "done", "LeaseLost")
}

export const subjectsOf = (leases: ReadonlyArray<Lease>): ReadonlyArray<string> => leases.map((lease) => lease.job.subject).toSorted()

export const groupsOf = (leases: ReadonlyArray<Lease>): ReadonlyArray<string> => leases.map((lease) => lease.job.group)

/** True if it ends: an adapter may need real time for what the virtual clock has made due. */
export const ends = (fiber: Fiber.Fiber<unknown, unknown>) =>
  TestClock.withLive(Effect.map(Effect.timeoutOption(Fiber.await(fiber), "5 seconds"), Option.isSome))
