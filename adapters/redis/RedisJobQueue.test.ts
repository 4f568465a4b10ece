import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Scheduler } from "effect"
import { TestClock } from "effect/testing"
import type { Redis } from "ioredis"
import { realm } from "../../conformance/fixtures.ts"
import { JobQueue, type Job, type JobKind } from "../../core/ports/JobQueue.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import { stepLength } from "./QueueScripts.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"

const of = realm()
const job = (subject: string, group: string, dueAt: number, kind: JobKind = "submit"): Job => ({ kind, subject, realm: of, group, dueAt })

/** A server, and what it takes to be one of the processes on it. */
const begin = Effect.gen(function* () {
  const server = yield* PrivateRedis.open()
  const process = (prefix = "mailroom") =>
    Effect.gen(function* () {
      // Long, for a claim of thousands ends with the first round that is not answered in time.
      const redis = yield* RedisClient.make({ url: server.url, prefix, timeout: "10 seconds" })
      return yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, redis)
    })
  const operator = yield* PrivateRedis.operator(server)
  return { server, process, operator }
})

/** How often the server was given this command so far, those of scripts included. */
const callsOf = (operator: Redis, command: string) =>
  Effect.map(Effect.promise(() => operator.info("commandstats")), (text) => Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(text)?.[1] ?? 0))

/** A queue, and how many arguments each of its scripts was given. */
const measured = Effect.gen(function* () {
  const { server } = yield* begin
  const redis = yield* RedisClient.make({ url: server.url })
  const sizes: Array<number> = []
  const run: typeof redis.run = (script, args) => {
    sizes.push(args.length)
    return redis.run(script, args)
  }
  const queue = yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, { ...redis, run })
  return { server, queue, sizes }
})

const elapsed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const start = yield* TestClock.withLive(Clock.monotonicTimeNanos)
    yield* effect
    return Number((yield* TestClock.withLive(Clock.monotonicTimeNanos)) - start) / 1e6
  })

/** Still waiting, after it had the time to hear whatever the server has to say. */
const isIdle = (fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.gen(function* () {
    yield* TestClock.withLive(Effect.sleep("50 millis"))
    return fiber.pollUnsafe() === undefined
  })

const claimOf = (queue: JobQueue["Service"], kinds: ReadonlyArray<JobKind>, limit: number, inFlightMax: number) =>
  queue.claim({ kinds, limit, visibilityTimeout: Duration.hours(1), inFlightMax })

describe("RedisJobQueue", () => {
  it.effect("hands each job to one of several processes, and keeps the cap over all of them", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queues = yield* Effect.all([process(), process(), process()])
      const jobs = Array.from({ length: 600 }, (_, index) => job(`s${index}`, `g${index % 6}`, 0))
      yield* queues[0].offer(jobs)

      const leases = (
        yield* Effect.all([0, 1, 2, 0, 1, 2, 0, 1, 2].map((at) => claimOf(queues[at]!, ["submit"], 5, 7)), { concurrency: "unbounded" })
      ).flat()

      assert.strictEqual(leases.length, 6 * 7)
      assert.strictEqual(new Set(leases.map((lease) => lease.job.subject)).size, leases.length)
      assert.strictEqual(new Set(leases.map((lease) => lease.token)).size, leases.length)
      for (const [, { length }] of Map.groupBy(leases, (lease) => lease.job.group)) assert.strictEqual(length, 7)
    })
  )

  it.effect("lets one process complete what another has claimed, by its token alone", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const [one, other] = yield* Effect.all([process(), process()])
      yield* one.offer([job("a", "g", 0)])
      const [lease] = yield* claimOf(one, ["submit"], 1, 1)

      yield* other.complete(lease!)

      assert.strictEqual((yield* Effect.flip(one.complete(lease!)))._tag, "LeaseLost")
    })
  )

  it.live("wakes another process within milliseconds", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const [one, other] = yield* Effect.all([process(), process()])
      for (const kind of ["submit", "deliver"] as const) {
        const waiting = yield* Effect.forkScoped(other.awaitWork([kind], Duration.seconds(30)))
        yield* Effect.sleep("100 millis")

        yield* one.offer([job("a", "g", yield* Clock.currentTimeMillis, kind)])
        const [ms] = yield* Effect.timed(Fiber.join(waiting))

        assert.isBelow(Duration.toMillis(ms), 300)
      }
    })
  )

  it.live("gives back what it claimed for one who gave up meanwhile", () =>
    Effect.gen(function* () {
      const { server, process } = yield* begin
      const [one, other] = yield* Effect.all([process(), process()])
      yield* one.offer([job("a", "g", 0), job("b", "g", 0)])
      yield* server.freeze
      const claiming = yield* Effect.forkScoped(claimOf(one, ["submit"], 5, 5))
      yield* Effect.sleep("50 millis")
      const givingUp = yield* Effect.forkScoped(Fiber.interrupt(claiming))
      yield* server.thaw
      yield* Fiber.join(givingUp)

      const leases = yield* claimOf(other, ["submit"], 5, 5)

      assert.deepStrictEqual(leases.map(({ job, claims }) => [job.subject, claims]), [["a", 1], ["b", 1]])
    })
  )

  it.effect("sleeps while all that is due is at its cap, until a lease is completed", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      yield* queue.offer([job("a", "g", 0), job("b", "g", 60_000), job("c", "h", 60_000)])
      yield* TestClock.adjust("1 minute")
      const [lease, other] = yield* claimOf(queue, ["submit"], 10, 1)
      assert.deepStrictEqual(yield* claimOf(queue, ["submit"], 10, 1), [])
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.minutes(30)))

      yield* TestClock.adjust("10 minutes")
      yield* queue.extend(lease!, Duration.hours(1))
      yield* queue.throttle("submit", "g", 2)
      yield* queue.complete(other!)
      yield* TestClock.adjust(1)
      assert.isTrue(yield* isIdle(waiting))
      yield* queue.complete(lease!)
      yield* Fiber.join(waiting)

      assert.strictEqual((yield* claimOf(queue, ["submit"], 10, 1)).length, 1)
    })
  )

  it.effect("sleeps while all that is due is throttled, until the throttle is lifted or lapses", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      for (const lapses of [false, true]) {
        const group = lapses ? "lapsing" : "lifted"
        yield* queue.throttle("deliver", group, 1)
        yield* queue.offer([job(`a ${group}`, group, 0, "deliver"), job(`b ${group}`, group, 0, "deliver")])
        yield* claimOf(queue, ["deliver"], 10, 8)
        assert.deepStrictEqual(yield* claimOf(queue, ["deliver"], 10, 8), [])
        const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver"], Duration.minutes(30)))

        yield* TestClock.adjust("4 minutes")
        assert.isTrue(yield* isIdle(waiting))
        if (lapses) yield* TestClock.adjust("1 minute")
        else yield* queue.throttle("deliver", group, null)
        yield* Fiber.join(waiting)

        assert.strictEqual((yield* claimOf(queue, ["deliver"], 10, 8)).length, 1)
      }
    })
  )

  it.effect("sleeps beside due jobs of other kinds, and while it is empty, and while nothing is due yet", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      yield* queue.offer([job("a", "g", 0), job("b", "g", 30 * 60_000, "scan")])
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["deliver", "scan"], Duration.hours(2)))
      assert.isTrue(yield* isIdle(waiting))

      yield* TestClock.adjust("29 minutes")
      yield* claimOf(queue, ["submit"], 1, 1)
      assert.isTrue(yield* isIdle(waiting))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(waiting)
    })
  )

  it.effect("claims as fast beside 30,000 due jobs of another group, and 2,000 groups at their cap", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      const claims = (count: number) =>
        Effect.repeat(
          Effect.flatMap(claimOf(queue, ["submit"], 1, 1), ([lease]) => queue.complete(lease!)),
          { times: count - 1 }
        )
      yield* queue.offer(Array.from({ length: 500 }, (_, index) => job(`x${index}`, "small", 0)))
      const alone = yield* elapsed(claims(300))
      yield* queue.offer(Array.from({ length: 30_000 }, (_, index) => job(`s${index}`, "big", index)))
      yield* queue.offer(Array.from({ length: 4_000 }, (_, index) => job(`c${index}`, `g${index % 2_000}`, 0)))
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* claimOf(queue, ["submit"], 2_002, 1)).length, 2_002)
      yield* queue.offer(Array.from({ length: 500 }, (_, index) => job(`y${index}`, "late", 0)))

      const beside = yield* elapsed(claims(300))

      assert.isBelow(beside, 3 * alone + 300)
    }),
    60_000
  )

  it.effect("reaches a job of its group in the next round, though 20,000 of another become due with it", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      yield* queue.offer(Array.from({ length: 20_000 }, (_, index) => job(`s${index}`, "big", 60_000)))
      yield* queue.offer([job("one", "small", 60_000)])
      yield* TestClock.adjust("1 minute")

      const groups = (yield* claimOf(queue, ["submit"], 2, 1)).map((lease) => lease.job.group)

      assert.deepStrictEqual(groups.toSorted(), ["big", "small"])
    })
  )

  it.effect("hands out all of 2,000 groups that become due, and of 2,000 leases that run out, in one claim", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      yield* queue.offer(Array.from({ length: 2_000 }, (_, index) => job(`s${index}`, `g${index}`, 60_000)))

      for (let round = 0; round < 2; round++) {
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* claimOf(queue, ["submit"], 5_000, 1)).length, 2_000)
      }
    })
  )

  it.effect("reaches a due job behind any number of groups at their cap", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      yield* queue.offer(Array.from({ length: 1_200 }, (_, index) => job(`s${index}`, `g${index % 600}`, index < 600 ? 0 : 60_000)))
      assert.strictEqual((yield* claimOf(queue, ["submit"], 1_000, 1)).length, 600)
      yield* queue.offer([job("free", "free", 61_000)])
      yield* TestClock.adjust(61_000)

      assert.deepStrictEqual((yield* claimOf(queue, ["submit"], 1, 1)).map((lease) => lease.job.subject), ["free"])
    })
  )

  it.effect("hands out nothing before it is due by the clock of who claims, whatever another's clock says", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      const clock = yield* Clock.Clock
      const ahead = Effect.provideService(Clock.Clock, {
        ...clock,
        currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + 1_000)
      })
      yield* ahead(queue.offer([job("a", "g", 500)]))

      assert.deepStrictEqual(yield* claimOf(queue, ["submit"], 1, 1), [])
      yield* TestClock.adjust(500)
      assert.strictEqual((yield* claimOf(queue, ["submit"], 1, 1)).length, 1)
    })
  )

  it.effect("leaves nothing behind of jobs that are done and throttles that lapsed", () =>
    Effect.gen(function* () {
      const { operator, process } = yield* begin
      const queue = yield* process()
      const kinds = ["submit", "deliver"] as const
      yield* queue.throttle("submit", "full", 1)
      yield* queue.offer([job("d", "full", 0), job("e", "full", 0)])
      const [held] = yield* claimOf(queue, ["submit"], 2, 2)
      assert.deepStrictEqual(yield* claimOf(queue, ["submit"], 2, 2), [])
      yield* queue.complete(held!)
      yield* queue.throttle("deliver", "idle", 3)
      yield* queue.offer(kinds.flatMap((kind) => [job("a", "g", 0, kind), job("b", "g", 0, kind), job("c", "h", 60_000, kind)]))
      yield* TestClock.adjust("10 minutes")
      for (const lease of yield* claimOf(queue, kinds, 10, 10)) yield* queue.complete(lease)
      assert.deepStrictEqual(yield* claimOf(queue, kinds, 10, 10), [])

      const keys = yield* Effect.promise(() => operator.keys("*"))

      assert.deepStrictEqual(keys.filter((key) => key.includes(":submit:") || key.includes(":deliver:")), [])
      assert.isTrue(keys.every((key) => key.startsWith("{mailroom}:")))
    })
  )

  it.effect("is not told of the queue before by one that was emptied and filled again", () =>
    Effect.gen(function* () {
      const { operator, process } = yield* begin
      const [one, other] = yield* Effect.all([process(), process()])
      const fill = other.offer([job("a", "g", 0)])
      yield* fill
      assert.lengthOf(yield* claimOf(one, ["submit"], 2, 1), 1)
      yield* Effect.promise(() => operator.flushall())
      yield* TestClock.adjust("1 second")
      yield* fill

      yield* one.awaitWork(["submit"], Duration.hours(1)) // or it waits for ever

      assert.lengthOf(yield* claimOf(one, ["submit"], 2, 1), 1)
    })
  )

  it.effect("keeps deployments on one server apart by their prefixes, each on one node of a cluster", () =>
    Effect.gen(function* () {
      const { operator, process } = yield* begin
      const [one, other] = yield* Effect.all([process("one"), process("other")])
      yield* one.offer([job("a", "g", 0), job("b", "h", 60_000)])
      yield* one.throttle("deliver", "e", 1)
      yield* claimOf(one, ["submit", "deliver"], 1, 1)

      assert.deepStrictEqual(yield* claimOf(other, ["submit"], 1, 1), [])
      assert.notStrictEqual(yield* one.epoch, yield* other.epoch)
      const keys = yield* Effect.promise(() => operator.keys("{one}:*"))
      assert.isAbove(keys.length, 6)
      assert.isEmpty((yield* Effect.promise(() => operator.keys("*"))).filter((key) => !/^\{(one|other)\}:/.test(key)))
    })
  )

  it.effect("asks the server once for all calls of a moment, and for a claim, whatever they are about", () =>
    Effect.gen(function* () {
      const { operator, process } = yield* begin
      const queue = yield* process()
      yield* queue.offer(Array.from({ length: 150 }, (_, index) => job(`s${index}`, `g${index % 9}`, 0)))
      const calls = callsOf(operator, "evalsha")
      const before = yield* calls
      const leases = yield* claimOf(queue, ["submit", "deliver"], 200, 100)
      assert.strictEqual(leases.length, 150)
      assert.isAtMost((yield* calls) - before, 2)

      const asked = yield* calls
      yield* Effect.forEach(leases, queue.complete, { concurrency: "unbounded", discard: true })

      assert.isAtMost((yield* calls) - asked, 3)
      assert.notInclude(yield* Effect.promise(() => operator.info("commandstats")), "cmdstat_publish:") // nobody waits
    })
  )

  it.effect("looks at no lease but the one that ends, when the others were extended", () =>
    Effect.gen(function* () {
      const { operator, process } = yield* begin
      const queue = yield* process()
      yield* queue.offer(Array.from({ length: 100 }, (_, index) => job(`s${index}`, "group", 0)))
      const leases = yield* claimOf(queue, ["submit"], 100, 100)
      yield* Effect.forEach(leases, (lease) => queue.extend(lease, Duration.hours(2)), { concurrency: "unbounded" })
      yield* TestClock.adjust("90 minutes")
      const looks = callsOf(operator, "hget")
      const before = yield* looks

      yield* queue.complete(leases[0]!)

      assert.isAtMost((yield* looks) - before, 1)
    })
  )

  it.effect("asks once for all that comes while the server has something to do", () =>
    Effect.gen(function* () {
      const { server, queue, sizes } = yield* measured
      yield* queue.offer([job("first", "g", 0)]) // by now it knows the server
      sizes.length = 0
      yield* server.freeze

      const asked = yield* Effect.forEach(Array.from({ length: 20 }, (_, index) => job(`s${index}`, "g", 0)), (one) =>
        Effect.tap(Effect.forkScoped(queue.offer([one])), () => Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve))))
      )
      yield* server.thaw
      yield* Fiber.joinAll(asked)

      assert.deepStrictEqual(sizes, [stepLength, 19 * stepLength])
    })
  )

  it.effect("asks for no more at once because many call at a time", () =>
    Effect.gen(function* () {
      const { queue, sizes } = yield* measured
      const jobs = (call: number) => Array.from({ length: 150 }, (_, index) => job(`s${call}-${index}`, "g", 0))

      yield* Effect.forEach([1, 2, 3], (call) => queue.offer(jobs(call)), { concurrency: "unbounded", discard: true })

      assert.deepStrictEqual(sizes.filter((size) => size >= 150 * stepLength), [1, 2, 3].map(() => 150 * stepLength))
    })
  )

  it.effect("hands out what it has claimed though the server is away before it has the rest, which is there to be claimed", () =>
    Effect.gen(function* () {
      const { server, process } = yield* begin
      yield* (yield* process()).offer(Array.from({ length: 500 }, (_, index) => job(`s${index}`, `g${index % 9}`, 0)))
      const redis = yield* RedisClient.make({ url: server.url })
      const answers = { left: 1 }
      const run: typeof redis.run = (...asked) =>
        Effect.suspend(() => (answers.left-- > 0 ? redis.run(...asked) : Effect.fail(new RedisClient.RedisUnavailable({ reason: "test" }))))
      const queue = yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, { ...redis, run })
      const claim = claimOf(queue, ["submit"], 450, 100)

      const first = yield* claim
      const none = yield* Effect.flip(claim)
      answers.left = Infinity
      yield* queue.awaitWork(["submit"], Duration.minutes(1)) // the clock stands still
      const rest = [...(yield* claim), ...(yield* claim)]

      assert.deepStrictEqual([first.length, none._tag, rest.length], [200, "QueueUnavailable", 300])
      assert.strictEqual(new Set([...first, ...rest].map(({ job }) => job.subject)).size, 500)
    })
  )

  it.effect("hands out no more than it is asked for, in however many rounds", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      yield* queue.offer(Array.from({ length: 500 }, (_, index) => job(`s${index}`, `g${index % 9}`, 0)))

      const leases = yield* claimOf(queue, ["submit"], 250, 100)

      assert.deepStrictEqual([leases.length, (yield* claimOf(queue, ["submit"], 1_000, 100)).length], [250, 250])
    })
  )

  it.effect("hands out a job under the realm and group that it was offered with, whatever characters are in them", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      const queue = yield* process()
      const offered: Job = { ...job("ünï:{code} \"%d\"", "gröup:with {braces}\n", 12.5), realm: realm("sandbox") }
      yield* queue.offer([offered])
      yield* TestClock.adjust(13)

      const [lease] = yield* claimOf(queue, ["submit"], 1, 1)

      assert.deepStrictEqual(lease?.job, offered)
    })
  )

  it.effect("goes on wherever one who tells of a throttle stands still and is interrupted", () =>
    Effect.gen(function* () {
      const { process } = yield* begin
      for (let ops = 2; ops <= 30; ops++) {
        const queue = yield* process()
        // A fiber stands still after so many steps: here at each of its first ones once.
        const told = Effect.provideService(queue.throttle("deliver", "group", null), Scheduler.MaxOpsBeforeYield, ops)
        yield* Fiber.interrupt(yield* Effect.forkChild(told, { startImmediately: true }))
        yield* queue.offer([job(`message ${ops}`, "tenant", 0)]) // or it waits for ever
      }
    }).pipe(Effect.scoped)
  )

  it.effect("has nobody to wake for one who waits, and stands still anywhere and is interrupted", () =>
    Effect.gen(function* () {
      const { server } = yield* begin
      const redis = yield* RedisClient.make({ url: server.url })
      let hear: (kind: string | null) => unknown = () => null
      const subscribe: typeof redis.subscribe = (_channel, heard) => Effect.sync(() => void (hear = heard))
      const queue = yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, { ...redis, subscribe })
      const wakes = () => hear("submit")
      const standingAt = (step: number) => {
        let steps = 0
        return Object.assign(new Scheduler.MixedScheduler(), { shouldYield: () => ++steps === step })
      }
      for (let step = 1; step <= 40; step++) {
        const waiting = Effect.provideService(queue.awaitWork(["submit"], Duration.hours(1)), Scheduler.Scheduler, standingAt(step))
        yield* Fiber.interrupt(yield* Effect.forkChild(waiting, { startImmediately: true }))
        assert.strictEqual(wakes(), 0, `at step ${step}`)
      }
      const waiting = yield* Effect.forkChild(queue.awaitWork(["submit"], Duration.hours(1)), { startImmediately: true })
      assert.deepStrictEqual([hear("deliver"), wakes(), wakes()], [0, 1, 1])
      yield* Fiber.interrupt(waiting)
    })
  )
})
