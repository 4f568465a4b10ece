/** What holds for kinds and throttles: who is claimed, how many at a time, and who waits for what. */
import assert from "node:assert/strict"
import { Clock, Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { jobKinds, throttleLifetime, type JobKind, type JobQueue, type Lease } from "../core/ports/JobQueue.ts"
import { freshId } from "./fixtures.ts"
import {
  assertNothingDue,
  begin,
  claim,
  claimOne,
  ends,
  groupsOf,
  job,
  jobs,
  minute,
  noCap,
  subjectsOf,
  visibilityTimeout
} from "./JobQueueSteps.ts"
import type { Check } from "./Suite.ts"

const countOf = (leases: ReadonlyArray<Lease>, group: string, kind?: JobKind): number =>
  leases.filter(({ job }) => job.group === group && (kind === undefined || job.kind === kind)).length

const kinds: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "hands out jobs of the kinds that are asked for, and leaves the others",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      yield* queue.offer(jobKinds.flatMap((kind) => jobs(2, now, { kind, group })))
      const kindsOf = (leases: ReadonlyArray<Lease>) => leases.map(({ job }) => job.kind).toSorted()

      assert.deepEqual(yield* claim(100, noCap, []), [])
      assert.deepEqual(kindsOf(yield* claim(100, noCap, ["deliver"])), ["deliver", "deliver"])
      assert.deepEqual(yield* claim(100, noCap, ["deliver"]), [])
      assert.deepEqual(kindsOf(yield* claim(100, noCap, ["scan", "deliver", "poll"])), ["poll", "poll", "scan", "scan"])
      assert.deepEqual(kindsOf(yield* claim()), ["parse", "parse", "submit", "submit"])
    })
  },
  {
    title: "gives an expired lease's job to claims of its kind only",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now, { kind: "deliver" })])
      yield* claimOne
      yield* TestClock.adjust(minute)

      assert.deepEqual(yield* claim(100, noCap, ["submit", "poll", "scan"]), [])
      assert.deepEqual((yield* claim(100, noCap, ["deliver"])).map(({ claims }) => claims), [2])
    })
  },
  {
    title: "hands out no more than was asked for, over all kinds of a claim",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobKinds.flatMap((kind) => jobs(3, now, { kind })))

      assert.equal((yield* claim(5)).length, 5)
      assert.equal((yield* claim(8, noCap, jobKinds)).length, 8)
      assert.equal((yield* claim(5)).length, 2)
    })
  },
  {
    title: "goes round the groups of all kinds of a claim",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const backlogs = [jobs(50, now - 3_000), jobs(5, now - 2_000, { kind: "deliver" }), jobs(9, now - 1_000, { kind: "poll" })]
      yield* queue.offer(backlogs.flat())

      const together = groupsOf(yield* claim(6))
      const served: Array<string> = []
      for (let turn = 0; turn < 6; turn++) served.push(...groupsOf(yield* claim(1)))

      const expected = backlogs.flatMap(([first]) => [first!.group, first!.group]).toSorted()
      assert.deepEqual(together.toSorted(), expected)
      assert.deepEqual(served.toSorted(), expected)
    })
  },
  {
    title: "counts a group's leases against the cap for each kind apart",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      const ofKinds: ReadonlyArray<JobKind> = ["submit", "deliver"]
      yield* queue.offer(ofKinds.flatMap((kind) => jobs(9, now, { kind, group })))

      const alone = yield* claim(100, 3, ["submit"])
      const both = yield* claim(100, 3, ofKinds)
      assert.equal(countOf(alone, group, "submit"), 3)
      assert.deepEqual([countOf(both, group, "submit"), countOf(both, group, "deliver")], [0, 3])

      yield* queue.complete(both[0]!)
      assert.deepEqual(yield* claim(100, 3, ["submit"]), [])
      assert.deepEqual((yield* claim(100, 3)).map((lease) => lease.job.kind), ["deliver"])
    })
  }
]

/** A group of deliveries that is throttled, with this many due. */
const throttled = Effect.fnUntraced(function* (inFlightMax: number, count: number) {
  const { queue, now } = yield* begin
  const group = freshId<string>()
  yield* queue.throttle("deliver", group, inFlightMax)
  yield* queue.offer(jobs(count, now, { kind: "deliver", group }))
  return { queue, now, group }
})

const throttles: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "leases a throttled group no more than that, over all claims, and other groups as before",
    check: Effect.gen(function* () {
      const { queue, now, group } = yield* throttled(2, 9)
      const [other] = jobs(1, now, { kind: "deliver" })
      yield* queue.offer(jobs(9, now, { kind: "deliver", group: other!.group }))

      const first = yield* claim(3, 4)
      const rest = yield* claim(100, 4)

      assert.equal(countOf([...first, ...rest], group), 2)
      assert.equal(countOf([...first, ...rest], other!.group), 4)
      assert.deepEqual(yield* claim(100, 4), [])
      const taken = [...first, ...rest].find((lease) => lease.job.group === group)!
      yield* queue.complete(taken)
      assert.deepEqual(groupsOf(yield* claim(100, 4)), [group])
    })
  },
  {
    title: "throttles one kind of a group, and no other",
    check: Effect.gen(function* () {
      const { queue, now, group } = yield* throttled(1, 5)
      yield* queue.offer(jobs(5, now, { kind: "submit", group }))

      const leases = yield* claim()

      assert.deepEqual([countOf(leases, group, "deliver"), countOf(leases, group, "submit")], [1, 5])
    })
  },
  {
    title: "never gives a throttled group more than the claim's own cap",
    check: Effect.gen(function* () {
      const { group } = yield* throttled(5, 9)

      assert.equal(countOf(yield* claim(100, 2), group), 2)
      assert.equal(countOf(yield* claim(100, 4), group), 2)
      assert.equal(countOf(yield* claim(), group), 1)
    })
  },
  {
    title: "lets a throttle lapse after five minutes, unless it is renewed",
    check: Effect.gen(function* () {
      const { queue, group } = yield* throttled(1, 9)
      yield* TestClock.adjust(throttleLifetime / 2)
      yield* queue.throttle("deliver", group, 1)
      yield* TestClock.adjust(throttleLifetime / 2)
      yield* queue.complete(yield* claimOne)
      const lease = yield* claimOne
      assert.deepEqual(yield* claim(), [], "it was renewed")

      yield* TestClock.adjust(throttleLifetime / 2)
      yield* queue.extend(lease, visibilityTimeout).pipe(Effect.andThen(queue.complete(lease)), Effect.catchTag("LeaseLost", () => Effect.void))

      assert.ok((yield* claim(100, 4)).length > 1)
    })
  },
  {
    title: "keeps a throttle until it is lifted, also while the group has no jobs",
    check: Effect.gen(function* () {
      const { queue, group } = yield* throttled(1, 3)
      for (let round = 0; round < 3; round++) yield* queue.complete(yield* claimOne)
      yield* assertNothingDue
      yield* queue.offer(jobs(3, yield* Clock.currentTimeMillis, { kind: "deliver", group }))
      yield* claimOne
      yield* assertNothingDue

      yield* queue.throttle("deliver", group, null)

      assert.equal((yield* claim()).length, 2)
    })
  },
  {
    title: "takes the last throttle of several",
    check: Effect.gen(function* () {
      const { queue, group } = yield* throttled(1, 9)
      yield* claimOne

      yield* queue.throttle("deliver", group, 4)
      assert.equal((yield* claim()).length, 3)
      yield* queue.throttle("deliver", group, 2)
      yield* assertNothingDue
      yield* queue.throttle("deliver", group, 5)
      yield* claimOne
      yield* assertNothingDue
    })
  },
  {
    title: "lets the leases above a new throttle finish, and gives no other until there is room",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      yield* queue.offer(jobs(9, now, { kind: "deliver", group }))
      const [first, second, third] = yield* claim(3)

      yield* queue.throttle("deliver", group, 1)

      yield* assertNothingDue
      yield* queue.complete(yield* queue.extend(first!, Duration.minutes(2)))
      yield* assertNothingDue
      yield* queue.release(second!, Duration.zero)
      yield* assertNothingDue
      yield* queue.complete(third!)
      yield* claimOne
      yield* assertNothingDue
    })
  },
  {
    title: "counts the leases that were taken before the throttle, and frees their places as they run out",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const group = freshId<string>()
      yield* queue.offer(jobs(3, now, { kind: "deliver", group }))
      const [first] = yield* claim(2)
      yield* queue.throttle("deliver", group, 1)
      yield* TestClock.adjust(minute / 2)
      yield* queue.extend(first!, Duration.minutes(1))

      yield* TestClock.adjust(minute / 2)
      yield* assertNothingDue
      yield* TestClock.adjust(minute / 2)

      yield* claimOne
      yield* assertNothingDue
    })
  },
  {
    title: "gives the next claim the place of a released job, also under a throttle",
    check: Effect.gen(function* () {
      const { queue, group } = yield* throttled(1, 1)
      const lease = yield* claimOne

      yield* queue.release(lease, Duration.zero)

      const again = yield* claimOne
      assert.deepEqual([again.job, again.claims], [lease.job, 1])
      yield* queue.throttle("deliver", group, null)
      yield* assertNothingDue
    })
  },
  {
    title: "serves a throttled group in the round, and lets it hold up nobody",
    check: Effect.gen(function* () {
      const { queue, now, group } = yield* throttled(1, 9)
      const stuck = freshId<string>()
      yield* queue.throttle("deliver", stuck, 1)
      yield* queue.offer(jobs(9, now - 2_000, { kind: "deliver", group: stuck }))
      const others = [jobs(9, now - 1_000, { kind: "deliver" }), jobs(9, now, { kind: "deliver" })]
      yield* queue.offer(others.flat())

      const served: Array<string> = []
      for (let turn = 0; turn < 10; turn++) {
        const [lease] = yield* claim(1)
        served.push(lease!.job.group)
        if (lease!.job.group !== stuck) yield* queue.complete(lease!)
      }

      const turnsOf = (of: string) => served.filter((one) => one === of).length
      assert.equal(turnsOf(stuck), 1)
      for (const of of [group, ...others.map(([first]) => first!.group)]) assert.equal(turnsOf(of), 3)
    })
  },
  {
    title: "keeps a throttle under concurrent claims",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      const groups = [1, 2, 3].map((inFlightMax) => ({ group: freshId<string>(), inFlightMax }))
      for (const { group, inFlightMax } of groups) yield* queue.throttle("deliver", group, inFlightMax)
      yield* queue.offer(groups.flatMap(({ group }) => jobs(30, now, { kind: "deliver", group })))

      const leases = (yield* Effect.all(Array.from({ length: 8 }, () => claim(10, 4)), { concurrency: "unbounded" })).flat()

      for (const { group, inFlightMax } of groups) assert.ok(countOf(leases, group) <= inFlightMax)
      assert.equal(new Set(subjectsOf(leases)).size, leases.length)
      assert.equal(leases.length + (yield* claim(100, 4)).length, 6)
    })
  }
]

const waiting: ReadonlyArray<Check<JobQueue>> = [
  {
    title: "stops waiting for a kind when a job of it is offered, beside due jobs of other kinds",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(3, now))
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["poll", "deliver"], Duration.hours(10)))
      yield* TestClock.adjust(1)

      yield* queue.offer([job(now, { kind: "deliver" })])
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
      assert.equal((yield* claim(100, noCap, ["poll", "deliver"])).length, 1)
    })
  },
  {
    title: "stops waiting for a kind when a job of it falls due, or its lease runs out",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now), job(now + 2 * minute, { kind: "deliver" })])
      for (let claims = 1; claims <= 2; claims++) {
        const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver"], Duration.hours(10)))

        yield* TestClock.adjust(3 * minute)

        assert.ok(yield* ends(waiting))
        assert.deepEqual((yield* claim(100, noCap, ["deliver"])).map((lease) => lease.claims), [claims])
      }
    })
  },
  {
    title: "returns at once from waiting for a kind that is due, whatever claims of other kinds have found",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer([job(now, { kind: "deliver" })])
      assert.deepEqual(yield* claim(100, noCap, ["submit", "poll", "scan"]), [])

      const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver", "submit"], Duration.hours(10)))
      yield* TestClock.adjust(minute)

      assert.ok(yield* ends(waiting))
    })
  },
  {
    title: "waits for a kind at most as long as it was told, beside due jobs of other kinds",
    check: Effect.gen(function* () {
      const { queue, now } = yield* begin
      yield* queue.offer(jobs(3, now))
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver"], Duration.minutes(10)))

      yield* TestClock.adjust("10 minutes")

      assert.ok(yield* ends(waiting))
    })
  }
]

export const byKind: ReadonlyArray<Check<JobQueue>> = [...kinds, ...throttles, ...waiting]
