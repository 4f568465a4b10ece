import { assert, it, layer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Fiber, Latch, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import { freshId, realm } from "../../conformance/fixtures.ts"
import { JobQueue, jobKinds, type Job, type JobKind, type Lease } from "../../core/ports/JobQueue.ts"
import * as Database from "./Database.ts"
import * as JobClaims from "./JobClaims.ts"
import * as JobNews from "./JobNews.ts"
import * as Jobs from "./Jobs.ts"
import { migrate } from "./Migrations.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as PrivatePostgres from "./PrivatePostgres.ts"
import type { Row } from "./Rows.ts"
import * as TestDatabase from "./TestDatabase.ts"

type Queue = JobQueue["Service"]

/** Three processes on one database, as it were. */
class Processes extends Context.Service<
  Processes,
  { readonly queues: ReadonlyArray<Queue>; readonly database: Database.Database["Service"] }
>()("Processes") {}
const processes = Layer.effect(
  Processes,
  Effect.gen(function* () {
    const url = yield* TestDatabase.url()
    const process = PostgresJobQueue.layer.pipe(
      Layer.provide(JobNews.layer),
      Layer.provideMerge(Database.layer({ url, connectionsMax: 4 }))
    )
    const made = yield* Effect.forEach([1, 2, 3], () => Layer.build(Layer.fresh(process)))
    return { queues: made.map((one) => Context.get(one, JobQueue)), database: Context.get(made[0]!, Database.Database) }
  })
)

const job = (group: string, dueAt: number, over: Partial<Job> = {}): Job => ({
  kind: "submit",
  subject: freshId<string>(),
  realm: realm(),
  group,
  dueAt,
  ...over
})

const claim = (queue: Queue, limit = 100, inFlightMax = 1_000) =>
  queue.claim({ kinds: jobKinds, limit, visibilityTimeout: Duration.minutes(1), inFlightMax })

const completeAll = (queue: Queue, leases: ReadonlyArray<Lease>) =>
  Effect.forEach(leases, (lease) => queue.complete(lease), { concurrency: "unbounded", discard: true })

const drain = (queue: Queue) =>
  claim(queue, 500).pipe(
    Effect.tap((leases) => completeAll(queue, leases)),
    Effect.repeat({ until: (leases) => leases.length === 0 })
  )

/** All at once; how each ended. */
const results = <A, E>(effects: ReadonlyArray<Effect.Effect<A, E>>) =>
  Effect.forEach(effects, (effect) => Effect.result(effect), { concurrency: "unbounded" })

const waitingOf = (queue: Queue, kinds: ReadonlyArray<JobKind> = jobKinds) =>
  Effect.forkChild(Effect.timeoutOption(queue.awaitWork(kinds, Duration.minutes(10)), "10 seconds"))

layer(processes, { excludeTestServices: true })("the job queue of several processes", (it) => {
  it.effect("keeps each group's cap over all of them, and hands out each job once", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      const now = yield* Clock.currentTimeMillis
      yield* queues[0]!.throttle("submit", "group-3", 2)
      yield* queues[0]!.offer(Array.from({ length: 400 }, (_, index) => job(`group-${index % 8}`, now)))
      const held = new Map<string, number>()
      const done: Array<string> = []

      const worker = (queue: Queue) =>
        Effect.gen(function* () {
          while (done.length < 400) {
            const leases = yield* claim(queue, 20, 5)
            for (const { job } of leases) {
              held.set(job.group, (held.get(job.group) ?? 0) + 1)
              assert.isAtMost(held.get(job.group)!, job.group === "group-3" ? 2 : 5)
            }
            yield* Effect.sleep(2)
            for (const lease of leases) {
              held.set(lease.job.group, held.get(lease.job.group)! - 1)
              done.push(lease.job.subject)
              yield* queue.complete(lease)
            }
          }
        })
      yield* Effect.forEach([...queues, ...queues], worker, { concurrency: "unbounded" })

      assert.strictEqual(new Set(done).size, 400)
      yield* queues[0]!.throttle("submit", "group-3", null)
    })
  )

  it.effect("fences the leases of one against the claims of another", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      const [ours, theirs] = [queues[0]!, queues[1]!]
      yield* ours.offer([job("fenced", yield* Clock.currentTimeMillis)])
      const [lost] = yield* ours.claim({ kinds: ["submit"], limit: 1, visibilityTimeout: Duration.millis(1), inFlightMax: 9 })
      yield* Effect.sleep(5)
      const [held] = yield* claim(theirs)

      assert.strictEqual((yield* Effect.flip(ours.complete(lost!)))._tag, "LeaseLost")
      assert.strictEqual((yield* Effect.flip(ours.extend(lost!, Duration.minutes(1))))._tag, "LeaseLost")
      assert.strictEqual((yield* Effect.flip(ours.release(lost!, Duration.zero)))._tag, "LeaseLost")
      yield* ours.complete(held!)
    })
  )

  it.effect("passes over what others are at, a lease that has run out among it, and waits for nobody", () =>
    Effect.gen(function* () {
      const { queues, database } = yield* Processes
      const queue = queues[0]!
      yield* drain(queue)
      const now = yield* Clock.currentTimeMillis
      const offered = job("offered", now, { kind: "deliver" })
      yield* queue.offer([job("ran out", now), offered])
      yield* queue.claim({ kinds: ["submit"], limit: 1, visibilityTimeout: Duration.zero, inFlightMax: 9 })
      const ofOther = JobClaims.make((text, parameters = []) => Effect.orDie(database.sql.unsafe<Row>(text, parameters)), yield* JobNews.JobNews)
      const [isHeld, isSeen] = [yield* Latch.make(), yield* Latch.make()]
      const other = yield* Effect.gen(function* () {
        const leases = yield* ofOther.claim({ kinds: ["submit"], limit: 9, visibilityTimeout: Duration.minutes(1), inFlightMax: 9 })
        yield* Jobs.offer(database.sql.unsafe, [{ ...offered, dueAt: now - 1 }], now)
        yield* isHeld.open
        yield* isSeen.await
        return leases
      }).pipe(database.sql.withTransaction, Effect.forkChild)
      yield* isHeld.await
      yield* queue.offer([job("free", now)])

      const found = yield* Effect.timeoutOption(claim(queue), "10 seconds")
      yield* isSeen.open
      const theirs = yield* Fiber.join(other)
      const later = yield* claim(queue)

      const groups = [Option.getOrElse(found, () => []), theirs, later].map((leases) => leases.map((lease) => lease.job.group))
      assert.deepStrictEqual(groups, [["free"], ["ran out"], ["offered"]])
      yield* drain(queue)
    }).pipe(Effect.provide(Layer.fresh(JobNews.layerLocal)))
  )

  it.effect("answers each of many calls in one batch for its own lease", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      const now = yield* Clock.currentTimeMillis
      yield* queues[0]!.offer(Array.from({ length: 300 }, () => job("batched", now)))
      const leases = yield* claim(queues[0]!, 300)
      const [gone, kept] = [leases.filter((_, index) => index % 3 === 0), leases.filter((_, index) => index % 3 !== 0)]
      yield* completeAll(queues[1]!, gone)

      const ends = yield* results(leases.map((lease) => queues[0]!.complete(lease)))

      assert.deepStrictEqual(
        ends.map(({ _tag }) => _tag),
        leases.map((lease) => (gone.includes(lease) ? "Failure" : "Success"))
      )
      const again = yield* results(kept.map((lease) => queues[0]!.extend(lease, Duration.minutes(1))))
      assert.isTrue(again.every(({ _tag }) => _tag === "Failure"))
    })
  )

  it.effect("wakes who waits in one of them for what is offered in another, and for a throttle that is lifted", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      yield* drain(queues[0]!)
      const now = yield* Clock.currentTimeMillis
      const waiting = yield* waitingOf(queues[1]!, ["deliver"])
      yield* Effect.sleep(50)
      yield* queues[0]!.offer([1, 2].map(() => job("woken", now, { kind: "deliver" })))
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "Some")

      yield* queues[0]!.throttle("deliver", "woken", 1)
      const first = yield* claim(queues[1]!)
      assert.deepStrictEqual(yield* claim(queues[1]!), [])
      const stuck = yield* waitingOf(queues[1]!)
      yield* queues[0]!.throttle("deliver", "woken", null)
      assert.strictEqual((yield* Fiber.join(stuck))._tag, "Some")
      yield* completeAll(queues[1]!, [...first, ...(yield* claim(queues[1]!))])
    })
  )

  it.effect("wakes who waits in one of them for what was offered under a lease that another completes", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      yield* drain(queues[0]!)
      const again = job("again", yield* Clock.currentTimeMillis, { kind: "deliver" })
      yield* queues[0]!.offer([again])
      const [lease] = yield* claim(queues[0]!)
      yield* queues[0]!.offer([again])
      assert.deepStrictEqual(yield* claim(queues[1]!), [])
      const waiting = yield* waitingOf(queues[1]!, ["deliver"])
      yield* Effect.sleep(50)

      yield* queues[0]!.complete(lease!)

      assert.strictEqual((yield* Fiber.join(waiting))._tag, "Some")
      yield* drain(queues[0]!)
    })
  )

  it.effect("serves who comes last to a queue of many groups within a round, by short claims", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      const now = yield* Clock.currentTimeMillis
      const groupOf = (index: number) => (index % 2 === 0 ? "crowd" : `group-${index % 300}`)
      yield* queues[0]!.offer(Array.from({ length: 3_000 }, (_, index) => job(groupOf(index), now - 1_000)))
      yield* queues[0]!.offer([job("late", now)])

      const served: Array<string> = []
      for (let turn = 0; turn < 8 && !served.includes("late"); turn++) {
        const leases = yield* claim(queues[0]!, 32, 16)
        served.push(...leases.map((lease) => lease.job.group))
        yield* completeAll(queues[0]!, leases)
      }

      assert.isTrue(served.includes("late"), "151 groups are round in 8 claims of 32")
      yield* drain(queues[0]!)
    })
  )

  it.effect("leaves old jobs alone for a while after two slow claims that found none, and then serves them", () =>
    Effect.gen(function* () {
      const { queues, database } = yield* Processes
      const queue = queues[2]!
      yield* drain(queue)
      const slowClaim = Effect.gen(function* () {
        const locked = yield* Latch.make()
        const lock = Effect.andThen(database.sql`lock table mailroom.job`, locked.open)
        const slow = yield* Effect.forkChild(database.sql.withTransaction(Effect.andThen(lock, Effect.sleep(200))))
        yield* locked.await
        assert.deepStrictEqual(yield* claim(queue), [])
        yield* Fiber.join(slow)
      })
      const offered = (group: string, ageMs: number) =>
        Effect.gen(function* () {
          const one = job(group, (yield* Clock.currentTimeMillis) - ageMs)
          yield* queue.offer([one])
          return one.subject
        })

      // The server may have stood still.
      yield* slowClaim
      const kept = yield* offered("old", 120_000)
      const once = yield* claim(queue)
      assert.deepStrictEqual(once.map((lease) => lease.job.subject), [kept])

      yield* slowClaim
      yield* slowClaim
      const [old, fresh] = [yield* offered("old", 120_000), yield* offered("fresh", 0)]
      const first = yield* claim(queue)
      assert.deepStrictEqual(first.map((lease) => lease.job.subject), [fresh])
      const [later] = yield* queue.awaitWork(jobKinds, Duration.minutes(1)).pipe(
        Effect.andThen(claim(queue)),
        Effect.repeat({ until: (leases) => leases.length > 0 })
      )

      assert.strictEqual(later!.job.subject, old)
      yield* completeAll(queue, [...once, ...first, later!])
    })
  )

  it.effect("goes on with old jobs at once after the process stood still while it claimed", () =>
    Effect.gen(function* () {
      const { queues } = yield* Processes
      const queue = queues[2]!
      yield* drain(queue)
      for (let times = 0; times < 3; times++) {
        const claiming = yield* Effect.forkChild(claim(queue))
        // The statement goes out, and its answer waits.
        yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(() => resolve())))
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
        assert.deepStrictEqual(yield* Fiber.join(claiming), [])
      }

      const old = job("stood", (yield* Clock.currentTimeMillis) - 120_000)
      yield* queue.offer([old])
      const leases = yield* claim(queue)

      assert.deepStrictEqual(leases.map((lease) => lease.job.subject), [old.subject])
      yield* completeAll(queue, leases)
    })
  )

  it.effect("is in one epoch for all of them, and in another when its table was emptied", () =>
    Effect.gen(function* () {
      const { queues, database } = yield* Processes
      const epochs = yield* Effect.forEach(queues, (queue) => queue.epoch, { concurrency: "unbounded" })
      assert.strictEqual(new Set(epochs).size, 1)

      yield* database.sql`truncate mailroom.job`

      const after = yield* Effect.forEach(queues, (queue) => queue.epoch, { concurrency: "unbounded" })
      assert.strictEqual(new Set(after).size, 1)
      assert.notStrictEqual(after[0], epochs[0])
    })
  )

  it.effect("holds nothing of an offer whose transaction was rolled back, and deadlocks over none", () =>
    Effect.gen(function* () {
      const { queues, database } = yield* Processes
      const now = yield* Clock.currentTimeMillis
      yield* drain(queues[0]!)
      const jobs = Array.from({ length: 200 }, () => job("offered", now))
      const lost = database.sql.withTransaction(Effect.andThen(Jobs.offer(database.sql.unsafe, jobs, now), Effect.fail("rolled back")))
      yield* Effect.ignore(lost)
      assert.deepStrictEqual(yield* claim(queues[0]!), [])

      const earlier = jobs.map((one, index) => ({ ...one, dueAt: now - index }))
      yield* Effect.forEach(
        Array.from({ length: 12 }, (_, turn) => (turn % 2 === 0 ? earlier : earlier.toReversed())),
        (offered, turn) => queues[turn % 3]!.offer(offered.map((one) => ({ ...one, dueAt: one.dueAt - turn }))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual((yield* claim(queues[0]!, 500)).length, 200)
    })
  )
})

/** With its connection there already: whoever begins to listen is told that there may be anything, which would end a wait. */
const listening = Layer.effect(
  JobNews.JobNews,
  Effect.gen(function* () {
    const news = yield* JobNews.JobNews
    yield* Effect.flatten(news.listen(jobKinds))
    return news
  })
).pipe(Layer.provide(JobNews.layer))

const onTestClock = PostgresJobQueue.layer.pipe(Layer.provide(listening), Layer.provide(TestDatabase.layer()))

layer(onTestClock)("who waits for the job queue, while time stands still", (it) => {
  /** Waits behind a claim that found a group at its cap, until `frees` has made room; what is to be had then. */
  const woken = Effect.fnUntraced(function* (frees: (queue: Queue, held: Lease) => Effect.Effect<void, unknown>) {
    const queue = yield* JobQueue
    const group = freshId<string>()
    yield* queue.offer([1, 2].map(() => job(group, 0)))
    yield* queue.throttle("submit", group, 1)
    const [held] = yield* claim(queue)
    assert.deepStrictEqual(yield* claim(queue), [])
    const waiting = yield* Effect.forkChild(queue.awaitWork(jobKinds, Duration.minutes(10)), { startImmediately: true })
    yield* TestClock.withLive(Effect.sleep(50))
    assert.isUndefined(waiting.pollUnsafe())

    yield* frees(queue, held!)

    assert.isDefined(yield* TestClock.withLive(Effect.timeout(Fiber.await(waiting), "5 seconds")))
    const leases = yield* claim(queue)
    yield* completeAll(queue, leases)
    yield* Effect.ignore(queue.complete(held!))
    yield* queue.throttle("submit", group, null)
    yield* drain(queue)
    return leases.length
  })

  it.effect("is woken by a completion that frees a place", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* woken((queue, held) => queue.complete(held)), 1)
    })
  )

  it.effect("is woken by a throttle that is lifted", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* woken((queue, { job }) => queue.throttle("submit", job.group, null)), 1)
    })
  )

  it.effect("is woken by a job that is released", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* woken((queue, held) => queue.release(held, Duration.zero)), 1)
    })
  )

  it.effect("is woken by an offer that becomes the job when its lease is completed", () =>
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const offered = job("again", 0)
      yield* queue.offer([offered])
      const [lease] = yield* claim(queue)
      yield* queue.offer([offered])
      const waiting = yield* Effect.forkChild(queue.awaitWork(jobKinds, Duration.minutes(10)), { startImmediately: true })
      yield* TestClock.withLive(Effect.sleep(50))
      assert.isUndefined(waiting.pollUnsafe())

      yield* queue.complete(lease!)

      assert.isDefined(yield* TestClock.withLive(Effect.timeout(Fiber.await(waiting), "5 seconds")))
      yield* drain(queue)
    })
  )
})

/** A server that a test may break. */
class Server extends Context.Service<Server, PrivatePostgres.PrivatePostgres>()("Server") {}
const migrated = Layer.unwrap(
  Effect.map(Server, ({ url }) =>
    Layer.effectDiscard(migrate).pipe(Layer.provideMerge(Database.layer({ url: url("postgres"), connectionsMax: 6 })))
  )
)
const breakable = PostgresJobQueue.layer.pipe(
  Layer.provide(JobNews.layer),
  Layer.provideMerge(migrated),
  Layer.provideMerge(
    Layer.effect(
      Server,
      Effect.tap(PrivatePostgres.open({ binaries: process.env["TEST_POSTGRES_BIN"] }), ({ started }) => started)
    )
  )
)

layer(breakable, { excludeTestServices: true })("the job queue of a server that is lost", (it) => {
  it.effect("fails what is under way when its connection ends, and then works again", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database.Database
      const queue = yield* JobQueue
      const now = yield* Clock.currentTimeMillis
      yield* queue.offer(Array.from({ length: 20 }, () => job("lost", now)))
      const leases = yield* claim(queue, 10)

      // They wait for the row until they are ended.
      const connection = yield* sql.reserve
      yield* connection.execute("begin", [], undefined)
      yield* connection.execute("lock table mailroom.job in access exclusive mode", [], undefined)
      const calls = yield* Effect.forkChild(
        results<unknown, { readonly _tag: string }>([
          claim(queue),
          queue.complete(leases[0]!),
          queue.extend(leases[1]!, Duration.minutes(1))
        ])
      )
      const waiting = "from pg_stat_activity where wait_event_type = 'Lock'"
      yield* sql.unsafe(`select pid ${waiting}`).pipe(
        Effect.tap(() => Effect.sleep(5)),
        Effect.repeat({ until: (rows) => rows.length === 3 })
      )
      yield* sql.unsafe(`select pg_terminate_backend(pid) ${waiting}`)
      yield* connection.execute("rollback", [], undefined)

      const ends = yield* Fiber.join(calls)
      assert.deepStrictEqual(
        ends.map((end) => (end._tag === "Failure" ? end.failure._tag : "")),
        ["QueueUnavailable", "QueueUnavailable", "QueueUnavailable"]
      )
      yield* completeAll(queue, leases)
      assert.strictEqual((yield* claim(queue)).length, 10)
    }).pipe(Effect.scoped)
  )

  it.effect("is emptied by a crash, which its epoch tells, and works again", () =>
    Effect.gen(function* () {
      const server = yield* Server
      const queue = yield* JobQueue
      const now = yield* Clock.currentTimeMillis
      yield* queue.offer([job("crash", now)])
      const before = yield* queue.epoch

      yield* server.stop("immediate")
      assert.strictEqual((yield* Effect.flip(claim(queue)))._tag, "QueueUnavailable")
      yield* server.start

      assert.notStrictEqual(yield* queue.epoch, before)
      assert.deepStrictEqual(yield* claim(queue), [])
      yield* queue.offer([job("crash", now)])
      assert.strictEqual((yield* claim(queue)).length, 1)
    })
  )
})

it.live("finds the jobs that it claims by their key, also by a plan that was made while there were hardly any", () =>
  Effect.gen(function* () {
    const url = yield* TestDatabase.url()
    const process = PostgresJobQueue.layer.pipe(Layer.provide(JobNews.layer), Layer.provideMerge(Database.layer({ url, connectionsMax: 1 })))
    const context = yield* Layer.build(process)
    const [queue, { sql }] = [Context.get(context, JobQueue), Context.get(context, Database.Database)]
    /** Entries of the index of what is ready that were read so far. */
    const read = Effect.gen(function* () {
      yield* sql`select pg_stat_force_next_flush()`
      const [row] = yield* sql<{ read: string }>`select idx_tup_read as read from pg_stat_user_indexes where indexrelname = 'job_ready'`
      return Number(row!.read)
    })
    yield* sql`analyze mailroom.job`
    const now = yield* Clock.currentTimeMillis
    yield* queue.offer([job("group", now)])
    yield* completeAll(queue, yield* claim(queue))
    yield* queue.offer(Array.from({ length: 2_000 }, (_, index) => job(`group-${index % 50}`, now)))
    const before = yield* read

    const leases = yield* claim(queue, 50)

    assert.strictEqual(leases.length, 50)
    assert.isBelow((yield* read) - before, 1_000)
  }).pipe(Effect.scoped)
)
