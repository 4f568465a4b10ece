/** Each caller of a batch hears of its own commit, and of nobody else's, whoever is in the batch with it and in whatever order. */
import { assert, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Layer, Random } from "effect"
import * as SqlError from "effect/sql/SqlError"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as JobQueueSteps from "../../conformance/JobQueueSteps.ts"
import { forget, insert, keepPayload, land, next, payload, reservation, reserve, takeQuota, times, update } from "../../conformance/StoreLaw.ts"
import { JobQueue, type Job, type JobKind } from "../../core/ports/JobQueue.ts"
import { Store, type Change, type Next } from "../../core/ports/Store.ts"
import * as CommitBatch from "./CommitBatch.ts"
import { Database } from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as PostgresStore from "./PostgresStore.ts"
import { premiseFailed } from "./Parts.ts"
import type { Row } from "./Rows.ts"
import * as TestDatabase from "./TestDatabase.ts"

const both = Layer.merge(PostgresStore.layer, PostgresJobQueue.layer).pipe(
  Layer.provide(JobNews.layerLocal),
  Layer.provideMerge(TestDatabase.layer())
)

const below = (bound: number) => Random.nextIntBetween(0, bound, { halfOpen: true })

const jobOf = (over: Partial<Job> = {}): Job => JobQueueSteps.job(0, { kind: "deliver", ...over })

const kinds: ReadonlyArray<JobKind> = ["submit", "deliver"]

const held = (jobs: ReadonlyArray<Job>) =>
  JobQueue.use((queue) =>
    Effect.andThen(queue.offer(jobs), queue.claim({ kinds, limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 100 }))
  )

const landing = (): ReadonlyArray<Change> => [insert("tenant", Fixtures.tenant())]

/** How many rows a caller's commit forgot, or why nothing of it was done. */
const toldBy = (answer: CommitBatch.Answer): Effect.Effect<number | string> =>
  Effect.match(answer, {
    onSuccess: ({ forgotten }): number | string => forgotten,
    onFailure: (error) => (error._tag === "CommitRejected" ? error.reason._tag : error._tag)
  })

layer(both, { excludeTestServices: true })("a caller", (it) => {
  for (const seed of times(6, (seed) => `seed ${seed}`)) {
    it.effect(`has jobs in its place of its own kind and group, no more than it wants, and none if it is rejected (${seed})`, () =>
      Effect.gen(function* () {
        const queue = yield* JobQueue
        const commit = CommitBatch.make(yield* Database, { jobsOffered: true })
        const groups = times(2, () => Fixtures.freshId<string>())
        const places = kinds.flatMap((kind) => groups.map((group) => ({ kind, group })))
        const leases = yield* held((yield* Effect.forEach(places, (place) => Effect.map(below(4), (count) => times(count, () => jobOf(place))))).flat())
        yield* queue.offer((yield* Effect.forEach(places, (place) => Effect.map(below(8), (count) => times(count, () => jobOf({ ...place, dueAt: 1 }))))).flat())
        const [now, taken] = [yield* Clock.currentTimeMillis, landing()]
        const calls = yield* Effect.forEach(leases, (lease) =>
          Effect.gen(function* () {
            const jobsMax = yield* below(4)
            const holdNext = jobsMax === 0 ? {} : { holdNext: { jobsMax, visibilityTimeout: Duration.minutes(1) } }
            const isMisfit = (yield* below(3)) === 0
            return { changes: isMisfit ? taken : landing(), jobs: [], lease: { ...lease, ...holdNext }, now, jobsMax: isMisfit ? 0 : jobsMax, isMisfit }
          })
        )
        const waiting = yield* Effect.map((yield* Database).rows<Row>("select kind, group_name from mailroom.job where token is null", []), (rows) =>
          rows.map((row) => `${row["kind"]} ${row["group_name"]}`)
        )

        const [, ...answers] = yield* commit([{ changes: taken, jobs: [], now }, ...calls])

        const exits = yield* Effect.forEach(answers, Effect.exit)
        assert.deepStrictEqual(exits.map(Exit.isFailure), calls.map(({ isMisfit }) => isMisfit))
        const shares = exits.map((exit): ReadonlyArray<Next> => (Exit.isSuccess(exit) ? exit.value.next : []))
        for (const [index, { lease: { job } }] of calls.entries()) {
          for (const one of shares[index]!) assert.deepStrictEqual([one.job.kind, one.job.group], [job.kind, job.group])
        }
        for (const { kind, group } of places) {
          const of = calls.flatMap(({ lease: { job }, jobsMax }, index) => (job.kind === kind && job.group === group ? [{ jobsMax, share: shares[index]!.length }] : []))
          const wanted = of.reduce((sum, { jobsMax }) => sum + jobsMax, 0)
          assert.strictEqual(of.reduce((sum, { share }) => sum + share, 0), Math.min(wanted, waiting.filter((one) => one === `${kind} ${group}`).length))
          for (const { jobsMax, share } of of) {
            assert.isAtMost(share, jobsMax)
            for (const other of of) assert.isTrue(share <= other.share + 1 || other.share === other.jobsMax, "one has a second before another has a first")
          }
        }
        yield* Effect.forEach([...shares.flat(), ...leases.filter((_, index) => calls[index]!.isMisfit)], queue.complete) // each is held, once
        yield* Effect.forEach(yield* held([]), queue.complete)
      }).pipe(Random.withSeed(seed))
    )
  }

  it.effect("has its answer at its own place, where others forget and are answered behind it", () =>
    Effect.gen(function* () {
      const commit = CommitBatch.make(yield* Database, { jobsOffered: true })
      const store = yield* Store
      const [taken, misfit] = [landing(), update("tenant", next(Fixtures.tenant()))]
      yield* land(store, ...[10, 20, 30].map((receivedAt) => keepPayload(payload({ provider: "p", id: Fixtures.freshId<string>(), receivedAt }))), ...taken)
      const lists: ReadonlyArray<ReadonlyArray<Change>> = [
        [forget("payloads", 15)],
        landing(),
        [forget("payloads", 35), misfit],
        [misfit],
        [...landing(), forget("payloads", 25), forget("payloads", 35)],
        taken,
        [forget("payloads", 35)]
      ]

      const answers = yield* commit(lists.map((changes) => ({ changes, jobs: [], now: 0 })))

      const told = yield* Effect.forEach(answers, toldBy)
      assert.deepStrictEqual(told, [1, 0, "VersionMoved", "VersionMoved", 2, "Duplicate", 0])
    })
  )

  it.effect("hears of the first of its changes that does not fit, though it is written without a look", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const database = yield* Database
      const { tenantId } = Fixtures.realm()
      const held = reservation({ reservedAt: 0, expiresAt: 100 })
      yield* land(store, reserve(held), takeQuota(tenantId, 3, 5))
      const stale = update("endpoint", next(Fixtures.endpoint(Fixtures.application(Fixtures.realm()))))
      const reasonOf = (...changes: ReadonlyArray<Change>) =>
        Effect.gen(function* () {
          const commit = CommitBatch.make(database, { jobsOffered: false }) // knows of no quota that is nearly used up
          const error = yield* Effect.flip((yield* commit([{ changes, jobs: [], now: 0 }]))[0]!)
          return error._tag === "CommitRejected" ? error.reason : error
        })

      const taken = { _tag: "KeyTaken", idempotencyKey: held.idempotencyKey } as const
      assert.deepStrictEqual(yield* reasonOf(reserve({ ...held, reservedAt: 50 }), stale), taken)
      assert.deepStrictEqual(yield* reasonOf(takeQuota(tenantId, 6, 5)), { _tag: "QuotaExceeded", limit: 5, used: 3 })
      assert.deepStrictEqual(yield* reasonOf(takeQuota(tenantId, 3, 5), stale), { _tag: "QuotaExceeded", limit: 5, used: 3 })
    })
  )

  it.effect("is looked at first for a quota that was found used up of late, until there are too many of those", () =>
    Effect.gen(function* () {
      const database = yield* Database
      let blindly = 0
      const rows: Database["Service"]["rows"] = (text, parameters) => {
        blindly += 1
        return database.rows(text, parameters)
      }
      const commit = CommitBatch.make({ ...database, rows }, { jobsOffered: false })
      const usedUp = (others: number) => [
        ...times(others, () => takeQuota(Fixtures.realm().tenantId, 1, 1)),
        takeQuota(Fixtures.realm().tenantId, 1, 0)
      ]
      const refused = (changes: ReadonlyArray<Change>) =>
        Effect.gen(function* () {
          const before = blindly
          const told = yield* Effect.forEach(yield* commit([{ changes, jobs: [], now: 0 }]), toldBy)
          assert.deepStrictEqual(told, ["QuotaExceeded"])
          return blindly - before
        })
      const first = takeQuota(Fixtures.realm().tenantId, 4, 4)
      yield* land(yield* Store, first)
      const again = [first]

      assert.deepStrictEqual([yield* refused(again), yield* refused(again)], [1, 0])
      yield* refused(usedUp(10_000))
      yield* refused(usedUp(0))
      assert.strictEqual(yield* refused(again), 1)
    })
  )

  it.effect("hears that a lease has ended if it gave one, and if jobs are kept with the records", () =>
    Effect.gen(function* () {
      const [queue, database] = [yield* JobQueue, yield* Database]
      const [lease] = yield* held([jobOf()])
      const job = jobOf()
      const calls = [
        { changes: landing(), jobs: [job], now: 0, lease: lease! },
        { changes: landing(), jobs: [], now: 0 },
        { changes: [...landing(), forget("payloads", 0)], jobs: [], now: 0, lease: lease! },
        { changes: [...landing(), forget("payloads", 0)], jobs: [], now: 0 }
      ]
      const endedWhere = (jobsOffered: boolean) =>
        Effect.flatMap(CommitBatch.make(database, { jobsOffered })(calls), (answers) => Effect.all(answers)).pipe(
          Effect.map((all) => all.map((one) => [one.jobsOffered, one.leaseEnded]))
        )

      assert.deepStrictEqual(yield* endedWhere(false), times(4, () => [false, false]))
      assert.deepStrictEqual(yield* database.rows<Row>("select 1 from mailroom.job where subject = $1", [job.subject]), [])
      yield* queue.extend(lease!, Duration.minutes(1)) // it is held on

      calls.forEach((call) => (call.changes = call.changes.map((change) => (change._tag === "Insert" ? landing()[0]! : change))))
      assert.deepStrictEqual(yield* endedWhere(true), [[true, true], [true, false], [true, true], [true, false]])
      assert.isTrue(Exit.isFailure(yield* Effect.exit(queue.complete(lease!))))
      yield* Effect.forEach(yield* held([]), queue.complete)
    })
  )

  it.effect("has offered what it offers of another kind for the subject whose job it ends, and offers again", () =>
    Effect.gen(function* () {
      const commit = CommitBatch.make(yield* Database, { jobsOffered: true })
      const queue = yield* JobQueue
      const job = jobOf({ kind: "submit" })
      const [lease] = yield* held([job])
      const now = yield* Clock.currentTimeMillis
      const jobs: ReadonlyArray<Job> = [{ ...job, dueAt: 3 }, { ...job, kind: "deliver", dueAt: 4 }]

      yield* (yield* commit([{ changes: landing(), jobs, lease: lease!, now }]))[0]!

      const leases = yield* held([])
      assert.sameDeepMembers(leases.map((one) => one.job), [...jobs])
      yield* Effect.forEach(leases, queue.complete)
    })
  )

  it.effect("has its jobs ready when they are due by the latest clock among them", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const commit = CommitBatch.make(database, { jobsOffered: true })
      for (const nows of [[10, 0], [0, 10], [0, 0]]) {
        const group = Fixtures.freshId<string>()
        yield* commit(nows.map((now) => ({ changes: landing(), jobs: [jobOf({ group, dueAt: 5 })], now })))

        const ready = yield* database.rows<Row>("select ready from mailroom.job where group_name = $1", [group])
        assert.deepStrictEqual(ready.map((row) => row["ready"]), nows.map(() => nows.includes(10)))
      }
      const queue = yield* JobQueue
      yield* Effect.forEach(yield* held([]), queue.complete)
    })
  )

  /** What a statement fails with, as the driver has it: the class, the code, and the driver's own words. */
  type Failed = readonly [of: keyof typeof classes, code: string | null, message?: string]
  const classes = {
    syntax: SqlError.SqlSyntaxError,
    right: SqlError.AuthorizationError,
    password: SqlError.AuthenticationError,
    connection: SqlError.ConnectionError,
    late: SqlError.StatementTimeoutError,
    constraint: SqlError.ConstraintError,
    deadlock: SqlError.DeadlockError,
    serial: SqlError.SerializationError,
    lock: SqlError.LockTimeoutError,
    other: SqlError.UnknownError
  } as const
  const others = (...codes: ReadonlyArray<string>) => codes.map((code): Failed => ["other", code])
  /** Of a batch of two: statements without a look, and transactions with one. */
  const tries: ReadonlyArray<{ readonly after: string; readonly failures: ReadonlyArray<Failed>; readonly tried: readonly [statements: number, transactions: number] }> = [
    {
      after: "the server takes nothing from anybody, or has not said what it did: once, for both",
      failures: [
        ["connection", null],
        ["connection", "08006"],
        ["connection", "EPIPE"],
        ["password", "28P01"],
        ["right", "42501"],
        ["syntax", "42P01"],
        ["late", "57014"],
        ["other", null],
        ["other", "ENOENT"],
        ...others("0A000", "25006", "53100", "53200", "53300", "55000", "57P01", "57P03", "58030", "F0000", "XX000", "XX001")
      ],
      tried: [1, 0]
    },
    {
      after: "something of one caller is not taken: each by itself",
      failures: [["other", null, "PgConnection: Failed to encode query"], ...others("21000", "22001", "22003", "22021", "22P02", "22P05", "54000", "P0001")],
      tried: [3, 0]
    },
    {
      after: "something is not as its change says: with a look, and each by itself",
      failures: others(premiseFailed),
      tried: [3, 3]
    },
    {
      after: "others were in the way: three times with a look, and each by itself as often",
      failures: [["constraint", "23514"], ["deadlock", "40P01"], ["serial", "40001"], ["lock", "55P03"]],
      tried: [3, 9]
    }
  ]
  for (const { after, failures, tried } of tries) {
    it.effect(`is tried again as it may be: ${after}`, () =>
      Effect.gen(function* () {
        for (const [of, code, message = "failed"] of failures) {
          const counts = [0, 0] as [number, number]
          const cause = Object.assign(new Error("no"), code !== null && { code, detail: "a tenant's" })
          const reason = new classes[of]({ cause, message, operation: "query" })
          const failing = (place: 0 | 1) => () => Effect.suspend(() => ((counts[place] += 1), Effect.fail(new SqlError.SqlError({ reason }))))
          const database = yield* Database
          const sql = new Proxy(database.sql, { get: (target, name) => (name === "withTransaction" ? failing(1) : Reflect.get(target, name)) })
          const commit = CommitBatch.make({ ...database, sql, rows: failing(0) }, { jobsOffered: false })
          const calls = times(2, () => ({ changes: [update("tenant", next(Fixtures.tenant()))], jobs: [], now: 0 }))

          const told = yield* Effect.forEach(yield* commit(calls), Effect.flip)

          assert.deepStrictEqual(counts, tried, `${of} ${code}`)
          const said = code !== null && /^[0-9A-Z]{5}$/.test(code) ? `no (${code})` : message // else it may be of anything
          for (const error of told) assert.deepStrictEqual([error._tag, String(error.cause)], ["StoreUnavailable", `Error: ${reason._tag}: ${said}`])
        }
      })
    )
  }
})
