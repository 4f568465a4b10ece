/** What every JobQueue does. */
import assert from "node:assert/strict"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { jobKinds, leaseMax, type JobQueue, type Lease } from "../core/ports/JobQueue.ts"
import { freshId, realm } from "./fixtures.ts"
import { byKind } from "./JobQueueKinds.ts"
import { leases } from "./JobQueueLeases.ts"
import { assertLost, assertNothingDue, begin, claim, claimOne, ends, groupsOf, job, jobs, minute, subjectsOf, visibilityTimeout } from "./JobQueueSteps.ts"
import { waits } from "./JobQueueWaits.ts"
import type { Check, Suite } from "./Suite.ts"

const handOuts: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "hands out a due job as it was offered, for as long as was asked",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now, { kind: "scan", realm: realm("production") })
      yield* queue.offer([offered])

      const lease = yield* claimOne

      assert.deepEqual(lease.job, offered)
      assert.equal(lease.claims, 1)
      assert.equal(lease.expiresAt, now + minute)
    })
  },
  {
    title: "hands out nothing before it is due, and everything from then on",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now + 10_007), job(now + 20_007)]) // no whole seconds

      yield* TestClock.adjust(10_006)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      assert.equal((yield* claimOne).job.dueAt, now + 10_007)
      yield* TestClock.adjust(10_000)
      assert.equal((yield* claimOne).job.dueAt, now + 20_007)
    })
  },
  {
    title: "takes an offer of nothing, and gives a claim of nothing",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([])
      yield* queue.offer([job(now)])

      assert.deepEqual(yield* claim(0), [])
      assert.equal((yield* claim()).length, 1)
    })
  },
  {
    title: "hands out no more than was asked for, and the others next",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = jobs(7, now)
      yield* queue.offer(offered)

      const first = yield* claim(3)
      const second = yield* claim(3)
      const third = yield* claim(3)

      assert.deepEqual([first.length, second.length, third.length], [3, 3, 1])
      assert.deepEqual(subjectsOf([...first, ...second, ...third]), offered.map(({ subject }) => subject).toSorted())
    })
  },
  {
    title: "hands out hundreds of jobs, of few groups and of many: all that a claim may take, or the rest without a wait",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      for (const groups of [1, 3, 300]) {
        yield* queue.offer(Array.from({ length: groups }, () => jobs(300 / groups, now)).flat())

        for (let left = 300; left > 0; ) {
          const leases = yield* claim(left)
          assert.ok(leases.length > 0, `${left} due jobs of ${groups} groups are left, and a claim finds none`)
          for (const lease of leases) yield* queue.complete(lease)
          left -= leases.length
          const waiting = yield* Effect.forkScoped(queue.awaitWork(jobKinds, Duration.hours(10)))
          if (left > 0) assert.ok(yield* ends(waiting), `${left} due jobs of ${groups} groups are left, and a wait does not end`)
          yield* Fiber.interrupt(waiting)
        }
      }
    })
  },
  {
    title: "hands out the jobs of a group in the order in which they fell due",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      const dueAts = [7, 2, 9, 4, 1, 8, 3, 6, 5].map((place) => now + place * 1_000)
      for (const dueAt of dueAts) yield* queue.offer([job(dueAt, { group })])
      yield* TestClock.adjust(minute)
      yield* queue.offer([job(now + minute, { group })])

      const handedOut: Array<number> = []
      for (const limit of [1, 3, 100]) handedOut.push(...(yield* claim(limit)).map((lease) => lease.job.dueAt - now))

      assert.deepEqual(handedOut, [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, minute])
    })
  },
  {
    title: "holds one job for a kind and a subject, also when one offer names it twice",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      const later = { ...offered, dueAt: now + minute }
      yield* queue.offer([later, offered, offered, later])
      yield* queue.offer([later])

      yield* queue.complete(yield* claimOne)

      yield* assertNothingDue
    })
  },
  {
    title: "keeps subjects apart, and kinds of one subject",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now)
      yield* queue.offer([...jobKinds.map((kind) => ({ ...offered, kind })), { ...offered, subject: freshId<string>() }])

      const leases = yield* claim()
      assert.equal(leases.length, 6)
      yield* queue.complete(leases.find((lease) => lease.job.kind === "poll")!)

      yield* TestClock.adjust(visibilityTimeout)
      assert.deepEqual((yield* claim()).map((lease) => lease.job.kind).toSorted(), ["deliver", "parse", "scan", "submit", "submit"])
    })
  },
  {
    title: "moves a job to the earlier due time that it is offered for, never to a later one",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const early = job(now + 10_000)
      const late = job(now + 10_000)
      const far = job(now + 2 * leaseMax) // later than any lease may end
      yield* queue.offer([early, late, far])
      yield* queue.offer([{ ...early, dueAt: now + 5_000 }, { ...late, dueAt: now + 15_000 }, far])

      yield* TestClock.adjust(4_999)
      yield* assertNothingDue
      yield* TestClock.adjust(1)
      assert.deepEqual((yield* claimOne).job, { ...early, dueAt: now + 5_000 })
      yield* TestClock.adjust(5_000)
      assert.deepEqual((yield* claimOne).job, late)
      yield* TestClock.adjust(5_000)
      yield* assertNothingDue
    })
  },
  {
    title: "makes a waiting job due at once when it is offered as due",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = job(now + minute)
      yield* queue.offer([offered])
      yield* queue.offer([{ ...offered, dueAt: now }])

      yield* queue.complete(yield* claimOne)

      yield* TestClock.adjust(minute)
      yield* assertNothingDue
    })
  },
  {
    title: "hands each of a thousand jobs to one of eight claimers",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const offered = Array.from({ length: 20 }, () => jobs(50, now)).flat()
      yield* queue.offer(offered)

      const worker = Effect.gen(function* () {
        const done: Array<string> = []
        for (;;) {
          const leases = yield* claim(16)
          if (leases.length === 0) return done
          for (const lease of leases) {
            done.push(lease.job.subject)
            assert.equal(lease.claims, 1)
            yield* queue.complete(lease)
          }
        }
      })
      const done = (yield* Effect.all(Array.from({ length: 8 }, () => worker), { concurrency: "unbounded" })).flat()

      assert.deepEqual(done.toSorted(), offered.map(({ subject }) => subject).toSorted())
    })
  }
]

const fairness: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "goes round the groups within a claim",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const [many, few, some] = [jobs(50, now - 3_000), jobs(2, now - 2_000), jobs(10, now - 1_000)]
      yield* queue.offer([...many, ...few, ...some])

      const leases = yield* claim(6)

      const expected = [many, few, some].flatMap(([first]) => [first!.group, first!.group])
      assert.deepEqual(groupsOf(leases).toSorted(), expected.toSorted())
    })
  },
  {
    title: "goes round the groups from claim to claim, whether or not jobs are completed in between",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      for (const completes of [true, false]) {
        const [many, one, other] = [jobs(20, now - 3_000), jobs(1, now - 2_000), jobs(1, now - 1_000)]
        yield* queue.offer([...many, ...one, ...other])
        const served: Array<string> = []
        for (let round = 0; round < 6; round++) {
          const [lease] = yield* claim(1)
          served.push(lease!.job.group)
          if (completes) yield* queue.complete(lease!)
        }

        assert.ok(served.includes(one[0]!.group), "each group has its turn in two rounds")
        assert.ok(served.includes(other[0]!.group), "each group has its turn in two rounds")
        for (const lease of yield* claim()) yield* queue.complete(lease)
      }
    })
  },
  {
    title: "serves each of many groups once a round, whatever their backlogs and leases",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const backlogs = [3, 30, 4, 3, 12, 5, 3].map((count, index) => jobs(count, now - 1_000 * index))
      const slow = new Set([backlogs[1]![0]!.group, backlogs[4]![0]!.group])
      yield* queue.offer(backlogs.flat())

      const served: Array<string> = []
      for (let turn = 0; turn < 3 * backlogs.length; turn++) {
        const [lease] = yield* claim(1)
        served.push(lease!.job.group)
        if (!slow.has(lease!.job.group)) yield* queue.complete(lease!)
      }

      for (const [first] of backlogs) assert.equal(served.filter((group) => group === first!.group).length, 3)
    })
  },
  {
    title: "lets nobody push ahead by offering a new job each time the last is done",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const patient = jobs(10, now)
      const pushing = jobs(10, now - 1_000)
      yield* queue.offer([...patient, pushing.pop()!])

      const served: Array<string> = []
      for (let turn = 0; turn < 10; turn++) {
        const [lease] = yield* claim(1)
        served.push(lease!.job.group)
        yield* queue.complete(lease!)
        if (lease!.job.group !== patient[0]!.group) yield* queue.offer([pushing.pop()!])
      }

      assert.ok(served.filter((group) => group === patient[0]!.group).length >= 4, "those who waited have their turns")
    })
  },
  {
    title: "leaves a group its turn, whatever it is offered and completes meanwhile",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const { group } = job(now)
      yield* queue.offer([...jobs(5, now, { group }), ...jobs(9, now), ...jobs(9, now)])
      const [held] = (yield* claim(3)).filter((lease) => lease.job.group === group)

      const served: Array<string> = []
      for (let turn = 0; turn < 9; turn++) {
        yield* queue.offer([job(now, { group })])
        if (turn === 4) yield* queue.complete(held!)
        served.push(...groupsOf(yield* claim(1)))
      }

      assert.equal(served.filter((one) => one === group).length, 3)
    })
  },
  {
    title: "serves a group that comes later before the backlog of another is done",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(50, now))
      for (const lease of yield* claim(10)) yield* queue.complete(lease)
      const late = job(now)
      yield* queue.offer([late])

      const served: Array<string> = []
      for (let turn = 0; turn < 4; turn++) {
        const [lease] = yield* claim(1)
        served.push(lease!.job.subject)
        yield* queue.complete(lease!)
      }

      assert.ok(served.includes(late.subject))
    })
  },
  {
    title: "leases no more jobs of a group than the cap, over all claims, and goes on with the other groups",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const { group } = job(now)
      yield* queue.offer([...jobs(10, now, { group }), ...jobs(2, now)])

      const first = yield* claim(4, 3)
      const second = yield* claim(10, 3)
      const third = yield* claim(10, 3)

      const all = [...first, ...second]
      assert.equal(all.length, 5)
      assert.equal(all.filter((lease) => lease.job.group === group).length, 3)
      assert.deepEqual(third, [])
      assert.equal((yield* claim(10, 4)).length, 1)
    })
  },
  {
    title: "counts leases against the cap, also of jobs that are offered meanwhile, and no jobs that wait for their time",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const { group } = job(now)
      const due = jobs(4, now, { group })
      yield* queue.offer([...due, ...jobs(2, now + minute, { group })])
      const first = yield* claim(1, 2)

      yield* queue.offer(first.map((lease) => lease.job))

      assert.equal((yield* claim(10, 2)).length, 1)
      assert.deepEqual(yield* claim(10, 2), [])
    })
  },
  {
    title: "frees a place below the cap with each lease that is completed or runs out",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(10, now))
      const [first, , third] = yield* claim(10, 3)

      yield* queue.complete(first!)
      assert.equal((yield* claim(10, 3)).length, 1)
      yield* TestClock.adjust(minute / 2)
      yield* queue.extend(third!, visibilityTimeout)
      yield* TestClock.adjust(minute / 2)
      assert.equal((yield* claim(10, 3)).length, 2)
      assert.deepEqual(yield* claim(10, 3), [])
    })
  },
  {
    title: "keeps the cap under concurrent claims",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const groups = Array.from({ length: 4 }, () => jobs(30, now))
      yield* queue.offer(groups.flat())

      const leases = (yield* Effect.all(Array.from({ length: 8 }, () => claim(10, 3)), { concurrency: "unbounded" })).flat()

      for (const [first] of groups) {
        assert.ok(leases.filter((lease) => lease.job.group === first!.group).length <= 3, "no group is over its cap")
      }
      assert.equal(new Set(subjectsOf(leases)).size, leases.length)
      assert.equal(leases.length + (yield* claim(100, 3)).length, 12)
    })
  }
]

const tokens: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "gives no two leases one token",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(50, now))
      const tokens: Array<string> = []
      for (let round = 0; round < 3; round++) {
        tokens.push(...(yield* claim()).map(({ token }) => token))
        yield* TestClock.adjust(visibilityTimeout)
      }

      // The same jobs, claimed as often as before, and in the same moment.
      for (const end of [(lease: Lease) => queue.release(lease, Duration.zero), (lease: Lease) => Effect.andThen(queue.complete(lease), queue.offer([lease.job]))]) {
        const held = yield* claim()
        yield* Effect.forEach(held, end)
        tokens.push(...held.map(({ token }) => token))
      }

      assert.equal(tokens.length, 250)
      assert.equal(new Set(tokens).size, 250)
    })
  },
  {
    title: "fences whoever comes late from the job that was completed and offered anew since, or given back",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const again = (lease: Lease) => Effect.andThen(queue.complete(lease), queue.offer([lease.job]))
      const since: ReadonlyArray<(late: Lease) => Effect.Effect<void, unknown, JobQueue>> = [
        again,
        (late) => queue.release(late, Duration.zero),
        () => Effect.andThen(TestClock.adjust(visibilityTimeout), Effect.flatMap(claimOne, again)),
        () => Effect.andThen(TestClock.adjust(visibilityTimeout), Effect.flatMap(claimOne, (lease) => queue.release(lease, Duration.zero)))
      ]
      for (const happens of since) {
        yield* queue.offer([job(now)])
        const late = yield* claimOne
        yield* happens(late)
        const held = yield* claimOne

        assertLost(yield* Effect.result(queue.complete(late)))
        assertLost(yield* Effect.result(queue.extend(late, Duration.hours(1))))
        assertLost(yield* Effect.result(queue.release(late, Duration.zero)))

        yield* assertNothingDue
        yield* queue.complete(held)
        yield* assertNothingDue
      }
    })
  }
]

const epochs: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "stays in its epoch as long as it loses nothing",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const before = yield* queue.epoch
      yield* queue.offer(jobs(3, now))
      const [lease] = yield* claim()
      yield* queue.complete(lease!)
      yield* TestClock.adjust("2 hours")

      assert.notEqual(before, "")
      assert.equal(yield* queue.epoch, before)
    })
  }
]

/**
 * What every JobQueue does. A claim may hand out any job of the queue, so each check empties it first: the queue of a proof
 * serves nobody else meanwhile, and one check at a time. How it fares when it is opened twice, `jobQueueReopened` tells.
 */
export const suite: Suite<JobQueue> = { name: "JobQueue", checks: [...handOuts, ...tokens, ...leases, ...fairness, ...byKind, ...epochs, ...waits] }
