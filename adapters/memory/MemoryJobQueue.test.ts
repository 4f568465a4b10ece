import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Random } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { realm } from "../../conformance/fixtures.ts"
import { JobQueue, type Job, type JobKind, type Lease } from "../../core/ports/JobQueue.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"

const of = realm()
const job = (subject: string, group: string, dueAt: number, kind: JobKind = "submit"): Job => {
  return { kind, subject, realm: of, group, dueAt }
}

const elapsed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const start = yield* TestClock.withLive(Clock.monotonicTimeNanos)
    yield* effect
    return Number((yield* TestClock.withLive(Clock.monotonicTimeNanos)) - start) / 1e6
  })

interface Held {
  job: Job
  claims: number
  token: string | null
  expiresAt: number
  beside: number | null
}

const nameOf = ({ kind, subject }: Job) => `${kind} ${subject}`
const placeOf = ({ kind, group }: Job) => `${kind} ${group}`

/** The contract in the plainest words: a list of jobs, searched from end to end. */
class Plain {
  readonly jobs = new Map<string, Held>()
  readonly throttles = new Map<string, number>()

  offer(offered: Job): void {
    const held = this.jobs.get(nameOf(offered))
    if (held === undefined) {
      this.jobs.set(nameOf(offered), { job: offered, claims: 0, token: null, expiresAt: 0, beside: null })
    } else if (held.token !== null) held.beside = Math.min(held.beside ?? Infinity, offered.dueAt)
    else held.job = { ...held.job, dueAt: Math.min(held.job.dueAt, offered.dueAt) }
  }

  isDue({ job: { dueAt }, token, expiresAt }: Held, now: number): boolean {
    return token === null ? dueAt <= now : expiresAt <= now
  }

  inFlight(place: string, now: number): number {
    return [...this.jobs.values()].filter((one) => placeOf(one.job) === place && one.token !== null && one.expiresAt > now).length
  }

  /** How many jobs a claim must hand out. */
  allowed(kinds: ReadonlyArray<JobKind>, limit: number, inFlightMax: number, now: number): number {
    const due = [...this.jobs.values()].filter((one) => kinds.includes(one.job.kind) && this.isDue(one, now))
    let sum = 0
    for (const [place, { length }] of Map.groupBy(due, (one) => placeOf(one.job))) {
      const cap = Math.min(inFlightMax, this.throttles.get(place) ?? Infinity)
      sum += Math.max(0, Math.min(length, cap - this.inFlight(place, now)))
    }
    return Math.min(limit, sum)
  }

  claimed({ job, token, claims, expiresAt }: Lease, now: number): void {
    const held = this.jobs.get(nameOf(job))
    assert.isDefined(held)
    assert.isTrue(this.isDue(held, now))
    assert.strictEqual(claims, held.claims + 1)
    Object.assign(held, { claims, token, expiresAt, beside: null })
  }

  /** Ends a lease in one of three ways; false if it is lost. */
  ended(how: "complete" | "release" | "extend", { job, token }: Lease, expiresAt: number): boolean {
    const held = this.jobs.get(nameOf(job))
    if (held?.token !== token) return false
    if (how === "extend") held.expiresAt = expiresAt
    else if (how === "release") Object.assign(held, { claims: held.claims - 1, token: null, beside: null })
    else if (held.beside === null) this.jobs.delete(nameOf(job))
    else Object.assign(held, { job: { ...held.job, dueAt: held.beside }, claims: 0, token: null, beside: null })
    return true
  }
}

const kind = fc.constantFrom<JobKind>("submit", "deliver")
const lease = fc.nat(30)

const command = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("offer" as const), subject: fc.nat(11), wait: fc.nat(4), kind }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      limit: fc.integer({ min: 1, max: 6 }),
      cap: fc.integer({ min: 1, max: 3 }),
      kinds: fc.uniqueArray(kind)
    })
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("complete" as const), lease }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("extend" as const), lease }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("release" as const), lease }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("throttle" as const), group: fc.nat(2), to: fc.option(fc.integer({ min: 1, max: 2 })), kind }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), quarters: fc.integer({ min: 1, max: 3 }) }) }
)

describe("MemoryJobQueue", () => {
  it.effect("does what a plain list of jobs would, whatever is asked of it", () =>
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      const property = fc.asyncProperty(fc.array(command, { maxLength: 80 }), (commands) =>
        Effect.runPromiseWith(context)(
          Effect.gen(function* () {
            const queue = yield* MemoryJobQueue.make
            const plain = new Plain()
            const leases: Array<Lease> = []
            for (const one of commands) {
              const now = yield* Clock.currentTimeMillis
              if (one.do === "offer") {
                const offered = job(`s${one.subject}`, `g${one.subject % 3}`, now + one.wait * 1000 - 1000, one.kind)
                yield* queue.offer([offered])
                plain.offer(offered)
              } else if (one.do === "claim") {
                const { kinds, limit, cap } = one
                const count = plain.allowed(kinds, limit, cap, now)
                const claimed = yield* queue.claim({ kinds, limit, visibilityTimeout: Duration.seconds(2), inFlightMax: cap })
                for (const lease of claimed) plain.claimed(lease, now)
                assert.strictEqual(claimed.length, count)
                assert.isTrue(claimed.every((lease) => kinds.includes(lease.job.kind)))
                leases.push(...claimed)
              } else if (one.do === "throttle") {
                yield* queue.throttle(one.kind, `g${one.group}`, one.to)
                plain.throttles.set(`${one.kind} g${one.group}`, one.to ?? Infinity)
              } else if (one.do === "wait") {
                // A run is over before any throttle lapses.
                yield* TestClock.adjust(Duration.millis(one.quarters * 250))
              } else {
                const lease = leases[one.lease % Math.max(1, leases.length)]
                if (lease === undefined) continue
                const outcome = yield* Effect.result(
                  one.do === "extend"
                    ? queue.extend(lease, Duration.seconds(2))
                    : one.do === "release"
                      ? queue.release(lease, Duration.zero)
                      : queue.complete(lease)
                )
                assert.strictEqual(outcome._tag, plain.ended(one.do, lease, now + 2000) ? "Success" : "Failure")
              }
            }
          })
        )
      )
      yield* Effect.promise(() => fc.assert(property, { numRuns: 300 }))
    })
  )

  it.effect("takes, hands out and ends 100,000 jobs of 1,000 groups in a few seconds", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const jobs = Array.from({ length: 100_000 }, (_, index) => job(`s${index}`, `g${index % 1_000}`, (index * 7919) % 1_000))
      const ms = yield* elapsed(
        Effect.gen(function* () {
          yield* queue.offer(jobs)
          yield* TestClock.adjust("1 second")
          let done = 0
          for (;;) {
            const leases = yield* queue.claim({ kinds: ["submit"], limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 4 })
            if (leases.length === 0) break
            for (const lease of leases) yield* queue.complete(lease)
            done += leases.length
          }
          assert.strictEqual(done, 100_000)
        })
      )
      assert.isBelow(ms, 8_000)
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("claims as fast beside 20,000 groups at their cap", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const claim = queue.claim({ kinds: ["submit"], limit: 20_000, visibilityTimeout: Duration.hours(1), inFlightMax: 1 })
      yield* queue.offer(Array.from({ length: 40_000 }, (_, index) => job(`s${index}`, `g${index % 20_000}`, 0)))
      assert.strictEqual((yield* claim).length, 20_000)
      yield* queue.offer(Array.from({ length: 1_000 }, (_, index) => job(`f${index}`, "free", 0)))

      const ms = yield* elapsed(
        Effect.repeat(Effect.flatMap(claim, ([lease]) => queue.complete(lease!)), { times: 999 })
      )

      assert.isBelow(ms, 1_000)
      assert.deepStrictEqual(yield* claim, [])
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("sleeps while all that is due is at its cap, until a lease is completed", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const claim = queue.claim({ kinds: ["submit"], limit: 10, visibilityTimeout: Duration.hours(1), inFlightMax: 1 })
      yield* queue.offer([job("a", "g", 0), job("b", "g", 0), job("c", "h", 0)])
      const [lease, other] = yield* claim
      assert.deepStrictEqual(yield* claim, [])
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.minutes(30)))

      yield* TestClock.adjust("10 minutes")
      yield* queue.extend(lease!, Duration.hours(1))
      yield* queue.throttle("submit", "g", 2)
      yield* queue.complete(other!)
      yield* TestClock.adjust(1)
      assert.isUndefined(waiting.pollUnsafe())
      yield* queue.complete(lease!)
      yield* Fiber.join(waiting)

      assert.strictEqual((yield* claim).length, 1)
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("claims as fast beside 20,000 throttled groups", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const claim = queue.claim({ kinds: ["deliver"], limit: 20_000, visibilityTimeout: Duration.hours(1), inFlightMax: 8 })
      const groups = Array.from({ length: 20_000 }, (_, index) => `g${index}`)
      for (const [index, group] of groups.entries()) yield* queue.throttle("deliver", group, 1 + (index % 4))
      const five = [0, 1, 2, 3, 4]
      yield* queue.offer(groups.flatMap((group) => five.map((index) => job(`${group}.${index}`, group, 0, "deliver"))))
      for (let round = 0; round < 3; round++) yield* claim
      yield* queue.offer(Array.from({ length: 1_000 }, (_, index) => job(`f${index}`, "free", 0, "deliver")))

      const one = queue.claim({ kinds: ["deliver"], limit: 1, visibilityTimeout: Duration.hours(1), inFlightMax: 8 })
      const ms = yield* elapsed(Effect.repeat(Effect.flatMap(one, ([lease]) => queue.complete(lease!)), { times: 999 }))

      assert.isBelow(ms, 1_000)
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("sleeps beside due jobs of other kinds, whatever becomes of them", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      yield* queue.offer([job("a", "g", 0), job("b", "g", 0), job("c", "g", 60_000)])
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver", "scan"], Duration.hours(1)))

      yield* TestClock.adjust("10 minutes")
      const claimed = yield* queue.claim({ kinds: ["submit"], limit: 2, visibilityTimeout: Duration.minutes(1), inFlightMax: 2 })
      yield* queue.complete(claimed[0]!)
      yield* TestClock.adjust("10 minutes")
      assert.isUndefined(waiting.pollUnsafe())
      yield* queue.offer([job("d", "g", 0, "deliver")])
      yield* Fiber.join(waiting)
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("sleeps while all that is due is throttled, until the throttle is lifted", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const claim = queue.claim({ kinds: ["deliver"], limit: 10, visibilityTimeout: Duration.hours(2), inFlightMax: 8 })
      yield* queue.throttle("deliver", "g", 1)
      yield* queue.offer([job("a", "g", 0, "deliver"), job("b", "g", 0, "deliver")])
      const [lease] = yield* claim
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver"], Duration.hours(1)))

      yield* TestClock.adjust("10 minutes")
      yield* queue.extend(lease!, Duration.hours(2))
      yield* queue.throttle("deliver", "g", 1)
      yield* TestClock.adjust("10 minutes")
      assert.isUndefined(waiting.pollUnsafe())
      yield* queue.throttle("deliver", "g", null)
      yield* Fiber.join(waiting)

      assert.strictEqual((yield* claim).length, 1)
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("sleeps while it is empty, and while nothing is due yet", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.hours(1)))
      yield* TestClock.adjust("1 minute")
      yield* queue.offer([job("later", "g", 30 * 60_000)])

      yield* TestClock.adjust("28 minutes")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 minute")
      assert.isDefined(waiting.pollUnsafe())
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("misses no offer that comes while a worker is about to wait", () =>
    Effect.gen(function* () {
      for (let turns = 0; turns < 20; turns++) {
        const queue = yield* MemoryJobQueue.make
        const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.hours(1)))
        for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
        yield* queue.offer([job("a", "g", 0)])

        yield* TestClock.adjust(1)

        assert.isDefined(waiting.pollUnsafe(), `after ${turns} turns`)
      }
    })
  )

  it.effect("is in another epoch after a restart", () =>
    Effect.gen(function* () {
      const before = yield* MemoryJobQueue.make
      const after = yield* MemoryJobQueue.make

      assert.notStrictEqual(yield* before.epoch, yield* after.epoch)
    }).pipe(Random.withSeed("restart"))
  )
})
