import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Random } from "effect"
import { TestClock } from "effect/testing"
import { realm } from "../../conformance/fixtures.ts"
import { agrees } from "../../conformance/JobQueueModel.ts"
import { withProcessorTime } from "../../conformance/ProcessorTime.ts"
import { JobQueue, type Job, type JobKind } from "../../core/ports/JobQueue.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"

const of = realm()
const job = (subject: string, group: string, dueAt: number, kind: JobKind = "submit"): Job => {
  return { kind, subject, realm: of, group, dueAt }
}

describe("MemoryJobQueue", () => {
  it.effect("does what a plain list of jobs would, whatever is asked of it", () =>
    agrees(() => Layer.fresh(MemoryJobQueue.layer), { numRuns: 300 })
  )

  it.effect("takes, hands out and ends 100,000 jobs of 1,000 groups in a few seconds", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const jobs = Array.from({ length: 100_000 }, (_, index) => job(`s${index}`, `g${index % 1_000}`, (index * 7919) % 1_000))
      const { took } = yield* withProcessorTime(
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
      assert.isBelow(took, 8_000)
    }).pipe(Effect.provide(MemoryJobQueue.layer))
  )

  it.effect("claims as fast beside 20,000 groups at their cap", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const claim = queue.claim({ kinds: ["submit"], limit: 20_000, visibilityTimeout: Duration.hours(1), inFlightMax: 1 })
      yield* queue.offer(Array.from({ length: 40_000 }, (_, index) => job(`s${index}`, `g${index % 20_000}`, 0)))
      assert.strictEqual((yield* claim).length, 20_000)
      yield* queue.offer(Array.from({ length: 1_000 }, (_, index) => job(`f${index}`, "free", 0)))

      const { took } = yield* withProcessorTime(
        Effect.repeat(Effect.flatMap(claim, ([lease]) => queue.complete(lease!)), { times: 999 })
      )

      assert.isBelow(took, 1_000)
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
      const { took } = yield* withProcessorTime(Effect.repeat(Effect.flatMap(one, ([lease]) => queue.complete(lease!)), { times: 999 }))

      assert.isBelow(took, 1_000)
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
