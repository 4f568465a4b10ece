import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { realm } from "../../conformance/fixtures.ts"
import type { Job, Lease } from "../../core/ports/JobQueue.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"

const of = realm()
const job = (number: number, dueAt = 0): Job => ({ kind: "submit", subject: `s${number}`, realm: of, group: number % 2 === 0 ? "even" : "odd", dueAt })
const all = [0, 1, 2, 3, 4, 5].map((number) => job(number))

const even = [0, 2, 4].map((number) => job(number))

const number = fc.nat({ max: 5 })
const order = <T extends string>(what: T) => fc.record({ what: fc.constant(what), at: number })
/** A part of a key is a member of it, where it has some. */
const lose = fc.record({ what: fc.constantFrom("lose", "losePart"), at: fc.nat({ max: 50 }) })
const orders = fc.array(
  fc.oneof(...(["offer", "later", "claim", "complete", "release", "extend", "pass"] as const).map(order), order("claim"), order("offer"), lose),
  { minLength: 20, maxLength: 30, size: "max" }
)

const subjects = (leases: ReadonlyArray<Lease>) => leases.map(({ job }) => job.subject).sort()

const begin = Effect.gen(function* () {
  const server = yield* PrivateRedis.open()
  const client = yield* RedisClient.make({ url: server.url })
  const queue = yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, client)
  const operator = yield* PrivateRedis.operator(server)
  const claim = (limit: number, inFlightMax = 3) => queue.claim({ kinds: ["submit"], limit, visibilityTimeout: Duration.minutes(1), inFlightMax })
  return { queue, operator, claim }
})

describe("a Redis that loses anything at any time", () => {
  it.effect("has each job again, and all places of its group, when all have been offered twice", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      const loseOne = async (at: number, isPart: boolean) => {
        const keys = (await operator.keys("*")).sort()
        const key = keys[at % keys.length]
        if (key === undefined) return
        const members = isPart && (await operator.type(key)) === "zset" ? await operator.zrange(key, "0", "-1") : []
        const member = members[at % members.length]
        await (member === undefined ? operator.del(key) : operator.zrem(key, member))
      }

      for (const run of fc.sample(orders, { numRuns: 250, seed: 1 })) {
        yield* Effect.promise(() => operator.flushall())
        let held: ReadonlyArray<Lease> = []
        for (const { what, at } of run) {
          const lease = held[at % Math.max(1, held.length)]
          if (what === "offer") yield* queue.offer([job(at)])
          else if (what === "later") yield* queue.offer([job(at, (yield* Clock.currentTimeMillis) + 90_000)])
          else if (what === "claim") held = [...held, ...(yield* claim(1 + (at % 3)))]
          else if (what === "pass") yield* TestClock.adjust(Duration.seconds(15 * (at + 1)))
          else if (what === "lose" || what === "losePart") yield* Effect.promise(() => loseOne(at, what === "losePart"))
          else if (lease === undefined) continue
          else if (what === "extend") yield* Effect.ignore(queue.extend(lease, Duration.minutes(1)))
          else {
            yield* Effect.ignore(what === "complete" ? queue.complete(lease) : queue.release(lease, Duration.seconds(30 * (at % 2))))
            held = held.filter((one) => one !== lease)
          }
        }
        yield* TestClock.adjust("2 minutes")
        yield* claim(0)
        yield* queue.offer(all)
        yield* queue.offer(all)

        const leases = yield* claim(10)

        assert.deepStrictEqual(subjects(leases), all.map(({ subject }) => subject), JSON.stringify(run))
      }
    }),
    60_000
  )
})

describe("a Redis that loses jobs that are held", () => {
  it.effect("holds no group at its cap for leases whose jobs it has lost", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.offer(even)
      for (const { job } of yield* claim(10)) yield* Effect.promise(() => operator.del(`{mailroom}:submit:job:${job.subject}`))
      yield* TestClock.adjust("2 minutes")
      yield* claim(10)

      yield* queue.offer(even)

      assert.deepStrictEqual(subjects(yield* claim(10)), ["s0", "s2", "s4"])
    })
  )

  it.effect("counts a lease for as long as it was extended", () =>
    Effect.gen(function* () {
      const { queue, claim } = yield* begin
      yield* queue.offer(even)
      const [held] = yield* claim(5, 1)
      yield* queue.extend(held!, Duration.minutes(10))
      yield* TestClock.adjust("5 minutes")

      yield* queue.offer(even)

      assert.deepStrictEqual(yield* claim(5, 1), [])
      yield* queue.complete(held!)
      assert.lengthOf(yield* claim(5, 1), 1)
    })
  )

  it.effect("lets a throttle lapse, though it has lost when", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.throttle("submit", "even", 1)
      yield* queue.offer(even)
      assert.lengthOf(yield* claim(10), 1)
      yield* Effect.promise(() => operator.del("{mailroom}:submit:throttled"))

      yield* TestClock.adjust("10 minutes")

      assert.deepStrictEqual(subjects(yield* claim(10)), ["s0", "s2", "s4"])
    })
  )

  it.effect("expects nothing of a group whose jobs it has lost, or who waits for them would never rest", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.offer([job(0, 60_000)])
      yield* Effect.promise(() => operator.del("{mailroom}:submit:jobs:even"))
      yield* TestClock.adjust("1 minute")

      assert.deepStrictEqual(yield* claim(10), [])

      assert.strictEqual(yield* Effect.promise(() => operator.exists("{mailroom}:submit:later")), 0)
    })
  )

  it.effect("gives a job back at its own time, and at once where it has lost the lease", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      const [held, later] = [job(0), job(2, 60_000)]
      yield* queue.offer([held, later])
      assert.lengthOf(yield* claim(10), 1)
      for (const key of ["leased", "jobs:even"]) yield* Effect.promise(() => operator.del(`{mailroom}:submit:${key}`))

      yield* queue.offer([{ ...held, dueAt: 60_000 }, later])

      assert.deepStrictEqual(subjects(yield* claim(10)), ["s0"])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(subjects(yield* claim(10)), ["s0", "s2"])
    })
  )

  it.effect("is told once more of jobs that such leases have kept waiting, and hands them out", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.offer(even)
      for (const { job } of yield* claim(10)) yield* Effect.promise(() => operator.del(`{mailroom}:submit:job:${job.subject}`))
      yield* queue.offer([job(6), job(8)])
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(yield* claim(10), [])

      yield* queue.offer([job(6)])
      yield* queue.awaitWork(["submit"], Duration.hours(1)) // or it waits for ever

      assert.deepStrictEqual(subjects(yield* claim(10)), ["s6", "s8"])
    })
  )

  it.effect("is told of the place of a job that is completed, though it has lost the lease", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.offer(even)
      const [held] = yield* claim(10, 1)
      yield* Effect.promise(() => operator.del("{mailroom}:submit:leased"))
      assert.deepStrictEqual(yield* claim(10, 1), [])

      yield* queue.complete(held!)
      yield* queue.awaitWork(["submit"], Duration.hours(1)) // or it waits for ever

      assert.lengthOf(yield* claim(10, 1), 1)
    })
  )

  it.effect("is told of a job that is put back", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.offer(even)
      assert.deepStrictEqual(subjects(yield* claim(10, 1)), ["s0"])
      yield* Effect.promise(() => operator.del("{mailroom}:submit:leased"))
      assert.deepStrictEqual(yield* claim(10, 1), [])

      yield* queue.offer(even)
      yield* queue.awaitWork(["submit"], Duration.hours(1)) // or it waits for ever

      assert.lengthOf(yield* claim(10, 1), 1)
    })
  )
})

describe("a Redis that has lost all it held", () => {
  const emptied = Effect.gen(function* () {
    const server = yield* PrivateRedis.open()
    /** Played once, behind the next steps of the first process. */
    const meanwhile: { play: Effect.Effect<ReadonlyArray<Lease>, unknown> | null; played: Effect.Effect<ReadonlyArray<Lease>> } = { play: null, played: Effect.succeed([]) }
    const process = (isFirst: boolean) =>
      Effect.flatMap(RedisClient.make({ url: server.url }), (client) => {
        const run: typeof client.run = (script, args) =>
          Effect.tap(client.run(script, args), () => {
            const { play } = meanwhile
            if (!isFirst || play === null) return Effect.void
            meanwhile.play = null
            return Effect.map(Effect.orDie(play), (leases) => void (meanwhile.played = Effect.succeed(leases)))
          })
        return Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, { ...client, run })
      })
    const [one, other] = [yield* process(true), yield* process(false)]
    const operator = yield* PrivateRedis.operator(server)
    const claim = (queue: typeof one, inFlightMax = 5) => queue.claim({ kinds: ["submit"], limit: 10, visibilityTimeout: Duration.minutes(1), inFlightMax })
    yield* one.epoch
    yield* one.offer([job(0)])
    yield* claim(one)
    yield* TestClock.adjust("1 minute")
    const [held] = yield* claim(one)
    const empty = Effect.andThen(Effect.promise(() => operator.flushall()), other.epoch)
    return { one, other, operator, claim, held: held!, empty, meanwhile }
  })
  const soon = (at: number) => [job(0, at)]

  it.effect("has a lease again that is extended, with its claims, though the job was offered meanwhile", () =>
    Effect.gen(function* () {
      const { one, other, claim, held, empty } = yield* emptied
      yield* empty
      yield* other.offer(soon((yield* Clock.currentTimeMillis) + 25_000))

      yield* TestClock.adjust("20 seconds")
      const extended = yield* one.extend(held, Duration.minutes(1))

      assert.deepStrictEqual(extended, { ...held, expiresAt: (yield* Clock.currentTimeMillis) + 60_000 })
      yield* TestClock.adjust("59 seconds")
      assert.deepStrictEqual(yield* claim(other), [])
      yield* TestClock.adjust("1 second")
      const [again, ...more] = yield* claim(other)
      assert.deepStrictEqual([again!.job.subject, again!.claims, more], ["s0", 3, []])
    })
  )

  it.effect("has it as if it had never been lost: it may be extended, given back and completed, and counts for its group", () =>
    Effect.gen(function* () {
      const { one, other, claim, held, empty } = yield* emptied
      yield* empty
      yield* one.extend(held, Duration.minutes(1)) // nobody has offered it
      yield* TestClock.adjust("50 seconds")
      yield* one.extend(held, Duration.minutes(1))
      yield* TestClock.adjust("50 seconds")

      yield* other.offer([job(2)])
      assert.deepStrictEqual(yield* claim(other, 1), [])
      yield* one.release(held, Duration.zero)
      const [first] = yield* claim(other, 1)
      assert.deepStrictEqual([first!.job.subject, first!.claims], ["s0", 2])
      yield* other.complete(first!)
      assert.deepStrictEqual(subjects(yield* claim(other, 1)), ["s2"])
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(subjects(yield* claim(other)), ["s2"])
    })
  )

  it.effect("leaves it to who claims it while it is being held again, and hands it out once more for an offer that came beside it", () =>
    Effect.gen(function* () {
      const { one, other, claim, held, empty, meanwhile } = yield* emptied
      yield* empty
      yield* other.offer(soon(0))
      meanwhile.play = claim(other)

      const outcome = yield* Effect.flip(one.extend(held, Duration.minutes(1)))

      assert.strictEqual(outcome._tag, "LeaseLost")
      assert.deepStrictEqual(yield* claim(other), [])
      const [others] = yield* meanwhile.played
      yield* other.complete(others!)
      assert.deepStrictEqual(subjects(yield* claim(other)), ["s0"])
    })
  )

  it.effect("leaves it to who has claimed it since, and who has not lost everything has lost nothing", () =>
    Effect.gen(function* () {
      const { one, other, operator, claim, held, empty } = yield* emptied
      const lost = (queue: typeof one, lease: Lease) => Effect.map(Effect.flip(queue.extend(lease, Duration.minutes(1))), ({ _tag }) => _tag)
      yield* empty
      yield* other.offer(soon(0))
      const [others] = yield* claim(other)

      assert.strictEqual(yield* lost(one, held), "LeaseLost")
      assert.strictEqual(others!.claims, 1)
      yield* other.complete(others!)
      yield* one.extend(held, Duration.minutes(1)) // nothing is known of it any more, and to look once more does no harm
      yield* one.complete(held)
      assert.deepStrictEqual([yield* claim(other), yield* Effect.promise(() => operator.keys("*:job:*"))], [[], []])

      yield* other.offer(soon(0))
      const [known] = yield* claim(other)
      yield* other.complete(known!)
      assert.strictEqual(yield* lost(other, known!), "LeaseLost")
      yield* empty
      yield* one.extend(known!, Duration.minutes(1))
    })
  )
})

describe("a queue that processes of the version before work on as well", () => {
  it.effect("counts their leases, though they do not say of a group until when the last of them holds", () =>
    Effect.gen(function* () {
      const { queue, operator, claim } = yield* begin
      yield* queue.offer(even)
      const [earlier] = yield* claim(1)
      yield* queue.complete(earlier!)
      const heldUntil = yield* Effect.promise(() => operator.hget("{mailroom}:submit:group:even", "heldUntil"))
      yield* TestClock.adjust("2 minutes")
      const [held] = yield* claim(1, 1)
      yield* Effect.promise(() => operator.hset("{mailroom}:submit:group:even", "heldUntil", heldUntil!))

      yield* queue.offer([job(6)])

      assert.deepStrictEqual(yield* claim(5, 1), [])
      yield* queue.complete(held!)
      assert.lengthOf(yield* claim(5, 1), 1)
    })
  )
})
