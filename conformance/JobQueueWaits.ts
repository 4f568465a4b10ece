/**
 * What holds for `awaitWork`: what ends a wait, and what does not. It is a
 * hint, so it may end early; but whoever claims and waits by turns, as a worker
 * does, must come to rest.
 */
import assert from "node:assert/strict"
import { Duration, Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import { JobQueue, jobKinds, leaseMax, type JobKind } from "../core/ports/JobQueue.ts"
import { freshId } from "./fixtures.ts"
import { assertNothingDue, begin, claim, claimOne, ends, job, jobs, minute, noCap } from "./JobQueueSteps.ts"
import type { Check } from "./Suite.ts"

const hours = Duration.hours(10)

const wait = (kinds: ReadonlyArray<JobKind> = jobKinds) =>
  Effect.tap(Effect.forkScoped(JobQueue.use((queue) => queue.awaitWork(kinds, hours))), () => TestClock.adjust(1))

/** Leases that do not run out meanwhile. */
const hold = (limit: number, inFlightMax: number) =>
  JobQueue.use((queue) => queue.claim({ kinds: jobKinds, limit, visibilityTimeout: Duration.millis(leaseMax), inFlightMax }))

const restFor = Duration.millis(200)

interface Utilization {
  readonly idle: number
  readonly active: number
  /** The part of the time in which the thread did not wait for something to do. */
  readonly utilization: number
}

/** Node's; not every platform tells. */
const thread: { readonly eventLoopUtilization?: (since?: Utilization) => Utilization } = Object(performance)

/**
 * Claims that find nothing and waits, by turns: one wait of three lasts, as far as a moment of real time shows, and leaves this
 * thread idle for half of that. One that looks for work all the time leaves it none, however little of the processor it is given.
 */
const assertRests = Effect.fnUntraced(function* (kinds: ReadonlyArray<JobKind> = jobKinds, inFlightMax = 1) {
  const seen: Array<string> = []
  for (let turn = 0; turn < 3; turn++) {
    assert.deepEqual(yield* claim(100, inFlightMax, kinds), [])
    const waiting = yield* Effect.forkScoped(JobQueue.use((queue) => queue.awaitWork(kinds, hours)))
    const before = thread.eventLoopUtilization?.()
    const ended = yield* TestClock.withLive(Effect.timeoutOption(Fiber.await(waiting), restFor))
    const utilization = thread.eventLoopUtilization?.(before).utilization ?? 0
    yield* Fiber.interrupt(waiting)
    if (Option.isNone(ended) && utilization < 0.5) return
    seen.push(Option.isSome(ended) ? "ended at once" : `was at work for ${Math.round(utilization * 100)} % of its time`)
  }
  assert.fail(`there was nothing to claim, and of three waits in a row none rested: one ${seen.join(", one ")}`)
})

/** Due deliveries of a group of which one is leased, and which is at its cap with it. */
const full = Effect.gen(function* () {
  const { queue, now } = yield* begin
  const group = freshId<string>()
  yield* queue.offer(jobs(2, now, { kind: "deliver", group }))
  const [lease] = yield* hold(1, 1)
  assert.deepEqual(yield* hold(1, 1), [])
  return { queue, now, group, lease: lease! }
})

const ending: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "waits for work at most as long as it was told",
    check: Effect.gen(function* () {
      const { queue } = yield* begin
      const waiting = yield* Effect.forkScoped(queue.awaitWork(jobKinds, Duration.minutes(10)))

      yield* TestClock.adjust("10 minutes")

      assert.ok(yield* ends(waiting))
    })
  },
  {
    title: "stops waiting when a due job is offered",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const waiting = yield* Effect.forkScoped(queue.awaitWork(jobKinds, Duration.hours(10)))
      yield* TestClock.adjust(1)

      yield* queue.offer([job(now)])
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
    })
  },
  {
    title: "stops waiting when a job falls due that was there before, or came meanwhile",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const dueAt = now + 2 * minute
      for (const before of [true, false]) {
        const offered = job(dueAt + (before ? 0 : 3 * minute))
        if (before) yield* queue.offer([offered])
        const waiting = yield* Effect.forkScoped(queue.awaitWork(jobKinds, Duration.hours(10)))
        yield* TestClock.adjust(1)
        if (!before) yield* queue.offer([offered])

        yield* TestClock.adjust(3 * minute)

        assert.ok(yield* ends(waiting))
        yield* queue.complete(yield* claimOne)
      }
    })
  },
  {
    title: "stops waiting when the first of several jobs falls due, of whichever kind",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now + 2 * minute), job(now + 20 * minute), job(now + 30 * minute, { kind: "scan" })])
      const waiting = yield* wait()

      yield* TestClock.adjust(5 * minute)

      assert.ok(yield* ends(waiting))
    })
  },
  {
    title: "stops waiting when a lease runs out",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      yield* claimOne
      const waiting = yield* Effect.forkScoped(queue.awaitWork(jobKinds, Duration.hours(10)))

      yield* TestClock.adjust(2 * minute)

      assert.ok(yield* ends(waiting))
      assert.equal((yield* claimOne).claims, 2)
    })
  },
  {
    title: "stops waiting when a lease runs out that was extended late",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      yield* queue.offer([job(now, { group })])
      const late = yield* claimOne
      yield* queue.offer([job(now, { group })])
      const [other] = yield* hold(1, 2)
      yield* TestClock.setTime(late.expiresAt)
      yield* assertRests()
      const waiting = yield* wait()
      yield* queue.extend(late, Duration.minutes(2))
      yield* queue.complete(other!)

      yield* TestClock.adjust("3 minutes")

      assert.ok(yield* ends(waiting))
      assert.equal((yield* claimOne).claims, 2)
    })
  },
  {
    title: "returns at once from waiting when a job is due already, also when it fell due this moment",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      for (const dueAt of [now, now + 2 * minute]) {
        yield* queue.offer([job(dueAt)])
        yield* TestClock.setTime(dueAt)

        for (let time = 0; time < 2; time++) assert.ok(yield* ends(yield* Effect.forkScoped(queue.awaitWork(jobKinds, hours))))
        yield* queue.complete(yield* claimOne)
      }
    })
  },
  {
    title: "returns at once from waiting when a claim took as many as it was to, and left another",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* assertNothingDue
      yield* queue.offer(jobs(3, now))
      assert.equal((yield* hold(2, noCap)).length, 2)

      const waiting = yield* wait()

      assert.ok(yield* ends(waiting))
      yield* claimOne
    })
  },
  {
    title: "returns at once from waiting when leases of a group at its cap ran out, and a claim took fewer than that",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(3, now))
      assert.equal((yield* claim(2, 2)).length, 2)
      assert.deepEqual(yield* claim(1, 2), [])
      yield* TestClock.adjust(minute)
      assert.equal((yield* hold(1, 2)).length, 1)

      const waiting = yield* wait()

      assert.ok(yield* ends(waiting))
      assert.equal((yield* claim(2, 2)).length, 1)
    })
  }
]

const free: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "stops waiting when a lease is completed, and its job was offered as due meanwhile",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const [lease] = yield* hold(1, 1)
      yield* queue.offer([offered])
      yield* assertNothingDue
      const waiting = yield* wait()

      yield* queue.complete(lease!)
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
      yield* claimOne
    })
  },
  {
    title: "stops waiting when a lease is completed, and a place below the cap is free",
    check: Effect.gen(function* () {
      const { queue, lease } = yield* full
      const waiting = yield* wait()

      yield* queue.complete(lease)
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
      yield* claimOne
    })
  },
  {
    title: "stops waiting when a lease is completed, whatever else is told of its group in that moment",
    check: Effect.gen(function* () {
      const { queue, group, lease } = yield* full
      const waiting = yield* wait()

      const told = [queue.throttle("deliver", freshId<string>(), 1), queue.complete(lease), queue.throttle("deliver", group, 1)]
      yield* Effect.all(told, { concurrency: "unbounded" })
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
      yield* claimOne
    })
  },
  {
    title: "stops waiting when a job is released, for at once or for later",
    check: Effect.gen(function* () {
      for (const delay of [0, minute]) {
        const { queue, now } = yield* begin
        yield* queue.offer([job(now)])
        const [lease] = yield* hold(1, 1)
        yield* assertNothingDue
        const waiting = yield* wait()

        yield* queue.release(lease!, Duration.millis(delay))
        yield* TestClock.adjust(2 * minute)

        assert.ok(yield* ends(waiting))
        yield* claimOne
      }
    })
  },
  {
    title: "stops waiting when a throttle is lifted",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      yield* queue.throttle("deliver", group, 1)
      yield* queue.offer(jobs(2, now, { kind: "deliver", group }))
      yield* hold(1, 2)
      assert.deepEqual(yield* hold(1, 2), [])
      const waiting = yield* wait()

      yield* queue.throttle("deliver", group, null)
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
      yield* claimOne
    })
  },
  {
    title: "returns at once from waiting for a job that is due behind those of a group at its cap",
    check: Effect.gen(function* () {
      const { queue, now } = yield* full
      const behind = job(now + 1, { kind: "deliver" })
      yield* queue.offer([behind])
      yield* TestClock.adjust(1)

      const waiting = yield* wait()
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
      assert.deepEqual((yield* hold(9, 1)).map(({ job: { subject } }) => subject), [behind.subject])
    })
  }
]

const resting: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "goes on waiting while nothing is due",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* assertRests()
      yield* queue.offer([job(now), job(now + minute)])
      yield* assertRests(["deliver", "scan"])
      yield* hold(1, 1)
      yield* assertRests()
    })
  },
  {
    title: "goes on waiting, once a claim has found it so, while all that is due is of groups at their caps or throttled",
    check: Effect.gen(function* () {
      const { queue, now } = yield* full
      yield* assertRests()
      const group = freshId<string>()
      yield* queue.throttle("scan", group, 1)
      yield* queue.offer(jobs(2, now, { kind: "scan", group }))
      yield* hold(1, 1)
      yield* assertRests()
    })
  }
]

export const waits: ReadonlyArray<Check<JobQueue>> = [...ending, ...free, ...resting]
