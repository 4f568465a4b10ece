/** A job that ends with the commit of what it was about, where the store is the queue too. */
import { assert, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Layer, Option } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as JobQueueSteps from "../../conformance/JobQueueSteps.ts"
import { forget, insert, insertDelivery, next, update } from "../../conformance/StoreLaw.ts"
import type { Endpoint } from "../../core/model/Endpoint.ts"
import type { Tenant } from "../../core/model/Tenant.ts"
import { JobQueue, type Job, type Lease } from "../../core/ports/JobQueue.ts"
import { Store, type Change, type Next } from "../../core/ports/Store.ts"
import * as CommitBatch from "./CommitBatch.ts"
import { Database } from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as PostgresStore from "./PostgresStore.ts"
import { id } from "./Query.ts"
import type { Row } from "./Rows.ts"
import * as TestDatabase from "./TestDatabase.ts"

const both = Layer.merge(PostgresStore.layer, PostgresJobQueue.layer).pipe(
  Layer.provide(JobNews.layerLocal),
  Layer.provideMerge(TestDatabase.layer())
)

const jobOf = (over: Partial<Job> = {}): Job => JobQueueSteps.job(0, { kind: "deliver", ...over })

const claim = (visibility: Duration.Input = "1 minute", inFlightMax = 1) =>
  JobQueue.use((queue) =>
    queue.claim({ kinds: ["deliver"], limit: 10, visibilityTimeout: Duration.fromInputUnsafe(visibility), inFlightMax })
  )

const completed = (leases: ReadonlyArray<Lease>) => JobQueue.use((queue) => Effect.forEach(leases, queue.complete, { discard: true }))

const lost = (lease: Lease) => JobQueue.use((queue) => Effect.map(Effect.exit(queue.complete(lease)), Exit.isFailure))

layer(both, { excludeTestServices: true })("a lease that is given to a commit", (it) => {
  it.effect("ends with its changes", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const tenant = Fixtures.tenant()
      yield* queue.offer([jobOf()])
      const [lease] = yield* claim()

      const committed = yield* store.commit([insert("tenant", tenant)], [], lease)

      assert.deepStrictEqual(committed, { jobsOffered: true, leaseEnded: true, forgotten: 0, next: [] })
      assert.isTrue(yield* lost(lease!))
      assert.deepStrictEqual(yield* claim(), [])
    })
  )

  it.effect("ends with changes that forget, and nothing else", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      yield* queue.offer([jobOf()])
      const [lease] = yield* claim()

      const { leaseEnded } = yield* store.commit([forget("payloads", 0)], [], lease)

      assert.isTrue(leaseEnded)
      assert.isTrue(yield* lost(lease!))
      const job = jobOf()
      yield* store.commit([forget("payloads", 0)], [job])
      const claimed = yield* claim()
      assert.deepStrictEqual(claimed.map((held) => held.job.subject), [job.subject], "nor is a job left out that it makes due")
      yield* completed(claimed)
    })
  )

  it.effect("is held on when they are rejected", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      yield* queue.offer([jobOf()])
      const [lease] = yield* claim()

      assert.isTrue(Exit.isFailure(yield* Effect.exit(store.commit([update("tenant", next(Fixtures.tenant()))], [], lease))))

      assert.isFalse(yield* lost(lease!))
    })
  )

  it.effect("leaves the job that was offered meanwhile, and those of others", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const [again, other] = [jobOf(), jobOf()]
      yield* queue.offer([again, other])
      const leases = yield* claim()
      const lease = leases.find(({ job }) => job.subject === again.subject)!
      yield* queue.offer([{ ...again, dueAt: 1 }])

      yield* store.commit([insert("tenant", Fixtures.tenant())], [], lease)

      const claimed = yield* claim()
      assert.deepStrictEqual(claimed.map(({ job, claims }) => [job.subject, job.dueAt, claims]), [[again.subject, 1, 1]])
      for (const held of [...claimed, ...leases.filter((one) => one !== lease)]) yield* queue.complete(held)
    })
  )

  it.effect("leaves a job that was offered meanwhile for later to wait: none that is ready has yet to fall due", () =>
    Effect.gen(function* () {
      const [store, queue, { rows }] = [yield* Store, yield* JobQueue, yield* Database]
      const job = jobOf()
      yield* queue.offer([job])
      const [lease] = yield* claim()
      yield* queue.offer([{ ...job, dueAt: (yield* Clock.currentTimeMillis) + 3_600_000 }])

      yield* store.commit([insert("tenant", Fixtures.tenant())], [], lease)

      assert.deepStrictEqual(yield* rows<Row>("select ready from mailroom.job where subject = $1", [job.subject]), [{ ready: false }])
    })
  )

  const written: Readonly<Record<string, (endpoint: Endpoint) => ReadonlyArray<Change>>> = {
    "written at once": () => [insert("tenant", Fixtures.tenant())],
    "looked at first": (endpoint) => [update("endpoint", next(endpoint))],
    "that forget": () => [forget("payloads", 0), insert("tenant", Fixtures.tenant())]
  }
  for (const [how, changesOf] of Object.entries(written)) {
    it.effect(`wakes who waits for work if the job was offered meanwhile, with changes ${how}`, () =>
      Effect.gen(function* () {
        const [store, queue] = [yield* Store, yield* JobQueue]
        const [endpoint, job] = [Fixtures.endpoint(Fixtures.realm()), jobOf()]
        yield* store.commit([insert("endpoint", endpoint)], [])
        yield* queue.offer([job])
        const [lease] = yield* claim()
        yield* queue.offer([job])
        assert.deepStrictEqual(yield* claim(), [])
        const waiting = yield* Effect.forkChild(queue.awaitWork(["deliver"], Duration.minutes(1)), { startImmediately: true })

        yield* store.commit(changesOf(endpoint), [], lease)

        assert.isDefined(yield* Effect.timeout(Fiber.await(waiting), "5 seconds")) // else the wait goes on
        yield* completed(yield* claim())
      })
    )
  }

  const offerings = [
    { meanwhile: null, offered: 3, left: 3 },
    { meanwhile: 5, offered: 3, left: 3 },
    { meanwhile: 2, offered: 3, left: 2 }
  ]
  for (const { meanwhile, offered, left } of offerings) {
    for (const others of [0, 2]) {
      const [of, among] = [meanwhile === null ? "" : `, beside one that was offered meanwhile for ${meanwhile}`, others === 0 ? "" : ", among others"]
      it.effect(`leaves a job that the commit offers for ${offered}${of}${among}`, () =>
        Effect.gen(function* () {
          const [store, queue] = [yield* Store, yield* JobQueue]
          const [job, ...beside] = Array.from({ length: 1 + others }, () => jobOf())
          yield* queue.offer([job!, ...beside])
          const leases = yield* claim()
          if (meanwhile !== null) yield* queue.offer([{ ...job!, dueAt: meanwhile }])
          const more = jobOf({ dueAt: 4 })
          const ending = leases.find((lease) => lease.job.subject === job!.subject)!

          yield* store.commit([insert("tenant", Fixtures.tenant())], [{ ...job!, dueAt: offered }, ...(others === 0 ? [] : [more])], ending)

          const claimed = yield* claim()
          assert.sameDeepMembers(
            claimed.map(({ job, claims }) => [job.subject, job.dueAt, claims]),
            [[job!.subject, left, 1], ...(others === 0 ? [] : [[more.subject, 4, 1]])]
          )
          yield* completed([...claimed, ...leases.filter((lease) => lease !== ending)])
        })
      )
    }
  }

  it.effect("leaves a job that another commit of its batch offers, and neither is tried again", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const { rows } = yield* Database
      const job = jobOf()
      yield* queue.offer([job])
      const [lease] = yield* claim()
      yield* queue.offer([{ ...job, dueAt: 5 }])
      const transactionOf = (tenant: Tenant) =>
        Effect.map(rows<Row>("select xmin::text as transaction from mailroom.tenant where id = $1", [id(tenant.id)]), ([row]) => row!["transaction"])
      const [ends, offers] = [Fixtures.tenant(), Fixtures.tenant()]

      yield* Effect.all([store.commit([insert("tenant", ends)], [], lease), store.commit([insert("tenant", offers)], [{ ...job, dueAt: 3 }])], {
        concurrency: "unbounded"
      })

      assert.strictEqual(yield* transactionOf(ends), yield* transactionOf(offers))
      const claimed = yield* claim()
      assert.deepStrictEqual(claimed.map(({ job, claims }) => [job.subject, job.dueAt, claims]), [[job.subject, 3, 1]])
      yield* completed(claimed)
    })
  )

  it.effect("offers the job beside another's lease where its own was lost", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const job = jobOf()
      yield* queue.offer([job])
      const [stale] = yield* claim("0 millis")
      const [lease] = yield* claim()

      yield* store.commit([insert("tenant", Fixtures.tenant())], [{ ...job, dueAt: 3 }], stale)

      assert.deepStrictEqual(yield* claim(), [])
      yield* completed([lease!])
      const claimed = yield* claim()
      assert.deepStrictEqual(claimed.map(({ job, claims }) => [job.subject, job.dueAt, claims]), [[job.subject, 3, 1]])
      yield* completed(claimed)
    })
  )

  it.effect("ends nothing when somebody else has the job, and the changes land", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const tenant = Fixtures.tenant()
      yield* queue.offer([jobOf()])
      const [stale] = yield* claim("0 millis")
      const [lease] = yield* claim()

      yield* store.commit([insert("tenant", tenant)], [], stale)

      assert.isNotNull(yield* store.credentials.tenant(tenant.id))
      assert.isFalse(yield* lost(lease!))
    })
  )

  it.effect("frees a place below its group's cap, and wakes who waits for one", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const group = Fixtures.freshId<string>()
      yield* queue.offer([jobOf({ group }), jobOf({ group })])
      const [lease] = yield* claim()
      const begun = performance.now()
      const waiting = yield* Effect.forkChild(queue.awaitWork(["deliver"], Duration.minutes(1)), { startImmediately: true })

      yield* store.commit([insert("tenant", Fixtures.tenant())], [], lease)
      yield* Fiber.join(waiting)

      assert.isBelow(performance.now() - begun, 240) // else it is looked for by itself
      const [second] = yield* claim()
      yield* queue.complete(second!)
    })
  )

  /** Jobs of one group, of which the first so many are held, and what takes their places when they end together. */
  const passing = Effect.fnUntraced(function* (
    jobs: ReadonlyArray<Job>,
    inFlightMax: number,
    { jobsMax = 1, before = Effect.void }: { readonly jobsMax?: number; readonly before?: Effect.Effect<unknown, unknown, JobQueue> } = {}
  ) {
    const [store, queue] = [yield* Store, yield* JobQueue]
    yield* queue.offer(jobs)
    const held = yield* claim("1 minute", inFlightMax)
    yield* before
    const ended = yield* Effect.forEach(
      held,
      (lease) => store.commit([insert("tenant", Fixtures.tenant())], [], { ...lease, holdNext: { jobsMax, visibilityTimeout: Duration.minutes(1) } }),
      { concurrency: "unbounded" }
    )
    return { held, next: ended.flatMap(({ next }) => next), shares: ended.map(({ next }) => next.length) }
  })
  const one = { jobsMax: 1, visibilityTimeout: Duration.minutes(1) }

  it.effect("passes its place to the next job of its group, which is held as if it had been claimed", () =>
    Effect.gen(function* () {
      const group = Fixtures.freshId<string>()
      const jobs = [3, 1, 2, 4, 5].map((dueAt) => jobOf({ group, dueAt }))

      const { held, next } = yield* passing(jobs, 2)

      assert.deepStrictEqual(held.map(({ job }) => job.dueAt), [1, 2])
      assert.sameDeepMembers(next.map(({ job, claims }) => ({ ...job, claims })), [{ ...jobs[0]!, claims: 1 }, { ...jobs[3]!, claims: 1 }])
      assert.deepStrictEqual(yield* claim("1 minute", 2), []) // the cap holds
      yield* completed(next)
      const [last] = yield* claim("1 minute", 2)
      assert.strictEqual(last?.job.dueAt, 5)
      yield* completed([last!])
    })
  )

  it.effect("passes it to none with changes that are looked at first: the next is claimed", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const endpoint = Fixtures.endpoint(Fixtures.realm())
      const group = Fixtures.freshId<string>()
      yield* store.commit([insert("endpoint", endpoint)], [])
      yield* queue.offer([1, 2].map((dueAt) => jobOf({ group, dueAt })))
      const [lease] = yield* claim()

      const { leaseEnded, next: passed } = yield* store.commit([update("endpoint", next(endpoint))], [], { ...lease!, holdNext: one })

      assert.deepStrictEqual([leaseEnded, passed], [true, []])
      const claimed = yield* claim()
      assert.deepStrictEqual(claimed.map(({ job }) => job.dueAt), [2])
      yield* completed(claimed)
    })
  )

  it.effect("passes it on to more of them where more are wanted, the earliest first", () =>
    Effect.gen(function* () {
      const group = Fixtures.freshId<string>()
      const jobs = [1, 2, 3, 4, 5, 6].map((dueAt) => jobOf({ group, dueAt }))

      const { next } = yield* passing(jobs, 2, { jobsMax: 2 })

      assert.sameMembers(next.map(({ job }) => job.dueAt), [3, 4, 5, 6])
      yield* completed(next)

      const few = [1, 2, 3, 4, 5].map((dueAt) => jobOf({ group, dueAt }))
      const { next: rest } = yield* passing(few, 3, { jobsMax: 2 })

      assert.sameMembers(rest.map(({ job }) => job.dueAt), [4, 5])
      yield* completed(rest)
    })
  )

  it.effect("passes one to each who ends in one commit before any gets another", () =>
    Effect.gen(function* () {
      for (const [left, shares] of [[2, [0, 1, 1]], [4, [1, 1, 2]]] as const) {
        const group = Fixtures.freshId<string>()
        const jobs = Array.from({ length: 3 + left }, (_, place) => jobOf({ group, dueAt: place + 1 }))

        const passed = yield* passing(jobs, 3, { jobsMax: 2 })

        assert.sameMembers(passed.shares, [...shares])
        yield* completed(passed.next)
      }
    })
  )

  it.effect("has what it passes held for as long as was asked, also beside one that passes nothing", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const group = Fixtures.freshId<string>()
      yield* queue.offer([1, 2, 3].map((dueAt) => jobOf({ group, dueAt })))
      const [first, second] = yield* claim("1 minute", 2)
      const now = yield* Clock.currentTimeMillis

      const ended = yield* Effect.forEach(
        [first!, { ...second!, holdNext: one }],
        (lease) => store.commit([insert("tenant", Fixtures.tenant())], [], lease),
        { concurrency: "unbounded" }
      )

      const passed = ended.flatMap(({ next }) => next)
      assert.deepStrictEqual(passed.map(({ job }) => job.dueAt), [3])
      assert.isAtLeast(passed[0]!.expiresAt, now + 60_000)
      yield* completed(passed)
    })
  )

  it.effect("passes nothing on to other groups or kinds, nor to what is not due", () =>
    Effect.gen(function* () {
      const [mine, other] = [jobOf(), jobOf()]
      const later = { ...jobOf({ group: mine.group }), dueAt: Date.now() + 60_000 }

      const { held, next } = yield* passing([mine, { ...jobOf({ group: mine.group }), kind: "submit" }, later], 1, { before: JobQueue.use((queue) => queue.offer([other])) })

      assert.deepStrictEqual(held.map(({ job }) => job.subject), [mine.subject])
      assert.deepStrictEqual(next, [])
      yield* completed(yield* claim())
    })
  )

  it.effect("passes nothing on in a group that is throttled", () =>
    Effect.gen(function* () {
      const group = Fixtures.freshId<string>()

      const { next } = yield* passing([jobOf({ group }), jobOf({ group })], 1, { before: JobQueue.use((queue) => queue.throttle("deliver", group, 1)) })

      assert.deepStrictEqual(next, [])
      yield* completed(yield* claim())

      const lifted = JobQueue.use((queue) => queue.throttle("deliver", group, null))
      const { next: passed } = yield* passing([jobOf({ group }), jobOf({ group })], 1, { before: lifted })

      assert.strictEqual(passed.length, 1)
      yield* completed(passed)
    })
  )

  it.effect("passes over a job that somebody is at, and waits for nobody", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const group = Fixtures.freshId<string>()
      const jobs = [1, 2, 3].map((dueAt) => jobOf({ group, dueAt }))
      const somebody = yield* sql.reserve
      const isAt = Effect.andThen(
        somebody.executeValues("begin", []),
        somebody.executeValues("select from mailroom.job where subject = $1 for update", [jobs[1]!.subject])
      )

      const passed = yield* Effect.timeoutOption(passing(jobs, 1, { before: isAt }), "5 seconds")
      yield* somebody.executeValues("rollback", [])

      const next = Option.match(passed, { onNone: () => [], onSome: (one) => one.next })
      assert.deepStrictEqual(next.map(({ job }) => job.dueAt), [3])
      yield* completed([...next, ...(yield* claim("1 minute", 2))])
    }).pipe(Effect.scoped)
  )

  it.effect("passes nothing on that was lost, or has run out, for it counts no more", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const group = Fixtures.freshId<string>()
      yield* queue.offer([jobOf({ group }), jobOf({ group })])
      const [lease] = yield* claim("0 millis")

      const { next } = yield* store.commit([insert("tenant", Fixtures.tenant())], [], { ...lease!, holdNext: one })

      assert.deepStrictEqual(next, [])
      yield* completed(yield* claim())
    })
  )

  it.effect("passes on no job that was taken before, or each answer that is lost would count as a worker that broke", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const group = Fixtures.freshId<string>()
      const [first, lost, third] = [0, 1, 2].map((dueAt) => jobOf({ group, dueAt }))
      const pass = (lease: Lease | Next) =>
        Effect.map(store.commit([insert("tenant", Fixtures.tenant())], [], { ...lease, holdNext: one }), ({ next }) => next)
      yield* queue.offer([first!, lost!])
      const [lease] = yield* claim()
      const [passed] = yield* pass(lease!)
      assert.deepStrictEqual([passed?.job.subject, passed?.claims], [lost!.subject, 1])
      yield* queue.extend(passed!, Duration.zero) // nobody has heard of it: its lease runs out
      yield* queue.offer([third!])

      const [held] = yield* claim()
      assert.strictEqual(held?.job.subject, third!.subject)
      assert.deepStrictEqual(yield* pass(held!), [])

      const [again] = yield* claim()
      assert.deepStrictEqual([again?.job.subject, again?.claims], [lost!.subject, 2])
      yield* completed([again!])
    })
  )

  it.effect("tells of the delivery that it passes to what its own read would, if that is due when the job is", () =>
    Effect.gen(function* () {
      const [store, queue] = [yield* Store, yield* JobQueue]
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      const positions = [null, null, 41n, 41n, 9_007_199_254_740_993n] // the last is none that JSON's reader holds exactly
      const made = positions.map((eventPosition, place) => ({ ...Fixtures.delivery(endpoint), eventPosition, nextAttemptAt: 2 * place }))
      const [, second, placed, early, far] = made
      yield* store.commit([insert("endpoint", endpoint), ...made.map((one) => insertDelivery(one, "{ \"é\": 1 }"))], [])
      const jobs = made.map((one) => jobOf({ realm, subject: one.id, group: endpoint.id, dueAt: one.nextAttemptAt + (one === early ? 1 : 0) }))
      yield* queue.offer(jobs)
      const [lease] = yield* claim()
      const pass = (held: Lease | Next) => store.commit([insert("tenant", Fixtures.tenant())], [], { ...held, holdNext: one })

      let held: Lease | Next = lease!
      for (const [one, isTold] of [[second!, true], [placed!, true], [early!, false], [far!, false]] as const) {
        const [next]: ReadonlyArray<Next> = (yield* pass(held)).next
        assert.strictEqual(next?.job.subject, one.id)
        assert.deepStrictEqual(next!.outgoing, isTold ? yield* store.deliveries.outgoing(realm, one.id) : null)
        held = next!
      }
      yield* completed([held])
    })
  )

  it.effect("is told that it ended with its changes though the delivery that it passes on cannot be read, which is looked at by itself", () =>
    Effect.gen(function* () {
      const [store, queue, database] = [yield* Store, yield* JobQueue, yield* Database]
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      const made = [0, 1, 2, 3].map((nextAttemptAt) => ({ ...Fixtures.delivery(endpoint), nextAttemptAt }))
      yield* store.commit([insert("endpoint", endpoint), ...made.map((one) => insertDelivery(one, "{}"))], [])
      yield* queue.offer(made.map((one) => jobOf({ realm, subject: one.id, group: endpoint.id, dueAt: one.nextAttemptAt })))
      const leases = yield* claim("1 minute", 2)
      const broken = made[2]!
      const breaking = (told: unknown) =>
        JSON.stringify((JSON.parse(told as string) as ReadonlyArray<Row>).map((row) => (row["subject"] === broken.id ? { ...row, record: "no record" } : row))) // as it is told
      const rows = <A>(text: string, parameters?: ReadonlyArray<unknown>) =>
        Effect.map(database.rows<Row>(text, parameters), (found) => found.map((row) => ({ ...row, taken_outgoing: breaking(row["taken_outgoing"]) })) as unknown as ReadonlyArray<A>)
      const commit = CommitBatch.make({ ...database, rows }, { jobsOffered: true })
      const now = yield* Clock.currentTimeMillis

      const answers = yield* commit(leases.map((lease) => ({ changes: [insert("tenant", Fixtures.tenant())], jobs: [], lease: { ...lease, holdNext: one }, now })))

      const told = yield* Effect.all(answers)
      assert.deepStrictEqual(told.map(({ leaseEnded }) => leaseEnded), [true, true])
      const next = told.flatMap((committed) => committed.next)
      const read = yield* store.deliveries.outgoing(realm, made[3]!.id)
      assert.sameDeepMembers(next.map(({ job, outgoing }) => ({ subject: job.subject, outgoing })), [{ subject: broken.id, outgoing: null }, { subject: made[3]!.id, outgoing: read }])
      yield* completed(next)
    })
  )
})
