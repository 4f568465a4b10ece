/** What holds for a lease: its time, its count, its fence, and the offers that come meanwhile. */
import assert from "node:assert/strict"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { jobKinds, leaseMax, type JobQueue, type Lease } from "../core/ports/JobQueue.ts"
import { assertLost, assertNothingDue, begin, claim, claimOne, job, jobs, minute, subjectsOf, visibilityTimeout } from "./JobQueueSteps.ts"
import { ahead } from "./scenarios/Time.ts"
import type { Check } from "./Suite.ts"

export const leases: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "answers each of many calls at once for its own lease",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(450, now)) // more than an adapter may tell its server at once
      const leases: Array<Lease> = []
      while (leases.length < 450) {
        const more = yield* claim(450)
        assert.ok(more.length > 0, `${450 - leases.length} due jobs are left, and a claim finds none`)
        leases.push(...more)
      }
      const gone = leases.filter((_, index) => index % 9 === 0)
      yield* Effect.forEach(gone, queue.complete, { discard: true })

      const ends = yield* Effect.forEach(leases, (lease) => Effect.result(queue.complete(lease)), { concurrency: "unbounded" })

      assert.deepEqual(ends.map(({ _tag }) => _tag === "Failure"), leases.map((lease) => gone.includes(lease)))
    })
  },
  {
    title: "hands a leased job to nobody else until its time runs out, and then counts on",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      assert.equal((yield* claimOne).claims, 1)

      yield* TestClock.adjust(minute - 1)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      const second = yield* claimOne
      yield* TestClock.adjust(minute)
      const third = yield* claimOne

      assert.deepEqual([second.claims, third.claims], [2, 3])
      assert.deepEqual(third.job, offered)
      assert.equal(third.expiresAt, now + 3 * minute)
    })
  },
  {
    title: "gives a released job to the next claim at once, as if it had not been claimed",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      yield* claimOne
      yield* TestClock.adjust(visibilityTimeout)
      const second = yield* claimOne
      assert.equal(second.claims, 2)

      yield* queue.release(second, Duration.zero)

      const third = yield* claimOne
      assert.deepEqual([third.job, third.claims], [offered, 2])
      yield* queue.complete(third)
      yield* assertNothingDue
    })
  },
  {
    title: "gives a released job back for later, behind what is due, unless an offer asks for it sooner",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const [put, asked] = [job(now), job(now)]
      yield* queue.offer([put, asked])
      const leases = yield* claim(2)
      for (const lease of leases) yield* queue.release(lease, Duration.millis(minute))
      yield* assertNothingDue

      yield* queue.offer([{ ...asked, dueAt: now + minute / 2 }])
      yield* TestClock.adjust(minute / 2)
      const sooner = yield* claimOne
      assert.deepEqual([sooner.job, sooner.claims], [{ ...asked, dueAt: now + minute / 2 }, 1])
      yield* queue.complete(sooner)
      yield* assertNothingDue
      yield* TestClock.adjust(minute / 2)
      const later = yield* claimOne

      assert.deepEqual([later.job, later.claims], [{ ...put, dueAt: now + minute }, 1])
      yield* queue.complete(later)
    })
  },
  {
    title: "gives a released job back for the time of an offer that came under its lease, where that is sooner",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const [put, asked] = [job(now), job(now)]
      yield* queue.offer([put, asked])
      const leases = yield* claim(2)
      yield* queue.offer([{ ...put, dueAt: now + 2 * minute }, { ...asked, dueAt: now + minute / 2 }])

      for (const lease of leases) yield* queue.release(lease, Duration.millis(minute))

      yield* assertNothingDue
      yield* TestClock.adjust(minute / 2)
      const sooner = yield* claimOne
      assert.deepEqual([sooner.job, sooner.claims], [{ ...asked, dueAt: now + minute / 2 }, 1])
      yield* TestClock.adjust(minute / 2)
      const later = yield* claimOne
      assert.deepEqual([later.job, later.claims], [{ ...put, dueAt: now + minute }, 1])
      for (const lease of [sooner, later]) yield* queue.complete(lease)
      yield* TestClock.adjust(2 * minute)
      yield* assertNothingDue
    })
  },
  {
    title: "gives a released job back for its own time where whoever claimed it had a clock that was ahead",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now + 10 * minute)
      yield* queue.offer([offered])
      const held = yield* ahead(20 * minute)(claimOne)

      yield* queue.release(held, Duration.millis(minute))

      yield* TestClock.adjust(10 * minute - 1)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      const again = yield* claimOne
      assert.deepEqual([again.job, again.claims], [offered, 1])
      yield* queue.complete(again)
    })
  },
  {
    title: "keeps one job of an offer and a release",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const lease = yield* claimOne
      yield* queue.offer([{ ...offered, dueAt: now + minute }])

      yield* queue.release(lease, Duration.zero)

      const again = yield* claimOne
      assert.deepEqual(again.job, offered)
      yield* queue.complete(again)
      yield* TestClock.adjust(2 * minute)
      yield* assertNothingDue
    })
  },
  {
    title: "refuses the release of a lease that was lost, and changes nothing",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      const lost = yield* claimOne
      yield* TestClock.adjust(visibilityTimeout)
      const held = yield* claimOne

      assertLost(yield* Effect.result(queue.release(lost, Duration.zero)))

      yield* assertNothingDue
      yield* queue.complete(held)
      assertLost(yield* Effect.result(queue.release(held, Duration.zero)))
      yield* assertNothingDue
    })
  },
  {
    title: "forgets a completed job for good",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      yield* queue.complete(yield* claimOne)

      yield* assertNothingDue
      yield* TestClock.adjust("1 hour")
      yield* assertNothingDue
    })
  },
  {
    title: "counts claims from 1 again when a completed job is offered anew",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      yield* claimOne
      yield* TestClock.adjust(visibilityTimeout)
      yield* queue.complete(yield* claimOne)

      yield* queue.offer([offered])

      assert.equal((yield* claimOne).claims, 1)
    })
  },
  {
    title: "goes on counting the claims of a job that is offered again meanwhile",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      yield* claimOne
      yield* TestClock.adjust(visibilityTimeout)

      yield* queue.offer([offered])

      assert.equal((yield* claimOne).claims, 2)
      yield* assertNothingDue
    })
  },
  {
    title: "refuses a lost lease, and lets it change nothing",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      const lost = yield* claimOne
      yield* TestClock.adjust(visibilityTimeout)
      const held = yield* claimOne

      assertLost(yield* Effect.result(queue.complete(lost)))
      assertLost(yield* Effect.result(queue.extend(lost, Duration.hours(1))))

      yield* TestClock.adjust(minute - 1)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      assert.equal((yield* claimOne).claims, held.claims + 1)
    })
  },
  {
    title: "refuses the lease of a job that is gone",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      const lease = yield* claimOne
      yield* queue.complete(lease)

      assertLost(yield* Effect.result(queue.complete(lease)))
      assertLost(yield* Effect.result(queue.extend(lease, visibilityTimeout)))
      yield* queue.offer([lease.job])
      assertLost(yield* Effect.result(queue.complete(lease)))
      yield* claimOne
    })
  },
  {
    title: "lets a late worker complete what nobody has leased since",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      const late = yield* claimOne
      yield* TestClock.adjust(2 * minute)

      yield* queue.complete(late)

      yield* assertNothingDue
    })
  },
  {
    title: "holds an extended lease for as long as was asked, from now",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      const lease = yield* claimOne
      yield* TestClock.adjust(minute / 2)

      const extended = yield* queue.extend(lease, Duration.minutes(2))

      assert.equal(extended.expiresAt, now + 2.5 * minute)
      assert.equal(extended.claims, 1)
      assert.deepEqual(extended.job, lease.job)
      yield* TestClock.adjust(2 * minute - 1)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      assert.equal((yield* claimOne).claims, 2)
    })
  },
  {
    title: "holds an extended lease no longer than was asked, also where that ends it sooner",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])
      const lease = yield* claimOne

      const extended = yield* queue.extend(lease, Duration.millis(minute / 2))

      assert.equal(extended.expiresAt, now + minute / 2)
      yield* TestClock.adjust(minute / 2 - 1)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      assert.equal((yield* claimOne).claims, 2)
    })
  },
  {
    title: "holds what a late worker extends, if nobody has leased it since",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(2, now))
      const held = yield* claim()
      yield* TestClock.adjust(minute)
      const [taken] = yield* claim(1) // which has looked at both
      const late = held.find(({ job }) => job.subject !== taken!.job.subject)!

      const extended = yield* queue.extend(late, visibilityTimeout)

      yield* queue.offer([job(now, { group: late.job.group })])
      assert.deepEqual(yield* claim(10, 2), [], "both count against the cap")
      yield* queue.complete(yield* claimOne)
      yield* queue.complete(extended)
      yield* queue.complete(taken!)
      yield* TestClock.adjust(minute)
      yield* assertNothingDue
    })
  },
  {
    title: "completes an extended lease",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now)])

      yield* queue.complete(yield* queue.extend(yield* claimOne, Duration.minutes(2)))

      yield* TestClock.adjust("1 hour")
      yield* assertNothingDue
    })
  },
  {
    title: "keeps an offer beside the lease, and makes it the job when the lease is completed",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      yield* claimOne
      yield* TestClock.adjust(visibilityTimeout)
      const lease = yield* claimOne
      const again = { ...offered, dueAt: now + 90_000 }
      yield* queue.offer([{ ...offered, dueAt: now + 100_000 }, again])
      yield* queue.offer([{ ...offered, dueAt: now + 95_000 }])
      yield* assertNothingDue

      yield* queue.complete(lease)

      yield* TestClock.adjust(29_999)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      const next = yield* claimOne
      assert.deepEqual(next.job, again)
      assert.equal(next.claims, 1)
      yield* queue.complete(next)
      yield* TestClock.adjust(minute)
      yield* assertNothingDue
    })
  },
  {
    title: "ends the lease with its completion, also when an offer takes the job's place",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const lease = yield* claimOne
      yield* queue.offer([{ ...offered, dueAt: now + minute }])
      yield* queue.complete(lease)

      assertLost(yield* Effect.result(queue.complete(lease)))
      assertLost(yield* Effect.result(queue.extend(lease, visibilityTimeout)))
      yield* queue.offer([{ ...offered, dueAt: now + 10_000 }])

      yield* TestClock.adjust(10_000)
      assert.equal((yield* claimOne).claims, 1)
    })
  },
  {
    title: "hands out at completion what was offered under the lease as due",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const lease = yield* claimOne
      yield* queue.offer([offered])
      yield* assertNothingDue

      yield* queue.complete(lease)

      assert.equal((yield* claimOne).claims, 1)
    })
  },
  {
    title: "keeps an offer beside an extended lease",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const lease = yield* claimOne
      yield* queue.offer([offered])

      yield* queue.complete(yield* queue.extend(lease, visibilityTimeout))

      assert.equal((yield* claimOne).claims, 1)
    })
  },
  {
    title: "makes one job of an expired lease and the offer beside it: due at once, its claims counting on",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      yield* claimOne
      yield* queue.offer([{ ...offered, dueAt: now + 3 * minute }])

      yield* TestClock.adjust(visibilityTimeout)
      const second = yield* claimOne

      assert.equal(second.claims, 2)
      yield* queue.complete(second)
      yield* TestClock.adjust("1 hour")
      yield* assertNothingDue
    })
  },
  {
    title: "ends a lease with the next offer of its job where a clock has written it that was a day ahead",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const held = yield* ahead(24 * 60 * minute)(claimOne)
      yield* TestClock.adjust(visibilityTimeout)
      yield* assertNothingDue

      yield* queue.offer([offered, job(now + 2 * minute, { kind: "deliver" })])

      const second = yield* claimOne
      assert.deepEqual([second.job, second.claims], [offered, 2])
      assertLost(yield* Effect.result(queue.complete(held)))
      yield* queue.complete(second)
      yield* assertNothingDue
    })
  },
  {
    title: "keeps the longest lease that may be asked for, whatever is offered",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([offered])
      const [lease] = yield* queue.claim({ kinds: jobKinds, limit: 1, visibilityTimeout: Duration.millis(leaseMax), inFlightMax: 1 })

      yield* queue.offer([offered])
      yield* TestClock.adjust(leaseMax - 1)
      yield* assertNothingDue

      yield* queue.complete(lease!)
      assert.equal((yield* claimOne).claims, 1)
    })
  },
  {
    title: "loses no offer to a worker who completes too late",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const under = job(now)
      const after = job(now)
      yield* queue.offer([under, after])
      const late = yield* claim()
      yield* queue.offer([under])
      yield* TestClock.adjust(visibilityTimeout)
      yield* queue.offer([after])

      yield* Effect.forEach(late, (lease) => Effect.ignore(queue.complete(lease)))

      assert.deepEqual(subjectsOf(yield* claim()), [under.subject, after.subject].toSorted())
    })
  }
]
