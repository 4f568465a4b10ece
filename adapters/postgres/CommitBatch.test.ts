import { assert, it, layer } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Random } from "effect"
import { ConnectionError, SqlError, UnknownError } from "effect/sql/SqlError"
import { inspect } from "node:util"
import * as Fixtures from "../../conformance/fixtures.ts"
import {
  append,
  auditEntry,
  demand,
  drop,
  forget,
  insert,
  insertDelivery,
  insertMessage,
  keep,
  keepPayload,
  land,
  moveRelay,
  next,
  notification,
  outcome,
  payload,
  recordsOf,
  putBody,
  remove,
  requestEntry,
  reservation,
  reserve,
  stored,
  submission,
  submissionRef,
  suppress,
  suppression,
  takeQuota,
  times,
  together,
  unnumbered,
  update
} from "../../conformance/StoreLaw.ts"
import { shardOf, type DeliveryId } from "../../core/model/Ids.ts"
import { jobKinds, type Job } from "../../core/ports/JobQueue.ts"
import { Store, type Change, type Kind, type Records, type Rejection } from "../../core/ports/Store.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import * as CommitBatch from "./CommitBatch.ts"
import { Database } from "./Database.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

const below = (bound: number) => Random.nextIntBetween(0, bound, { halfOpen: true })
const oneOf = <A>(list: ReadonlyArray<A>) => Effect.map(below(list.length), (index) => list[index]!)

/** So few things that the callers of one batch meet on them. */
const makeWorld = () => {
  const [realm, other] = [Fixtures.realm(), Fixtures.realm()]
  const own = recordsOf(realm)
  const records: Records = { ...own, message: Fixtures.message(realm, { attachmentIds: [own.attachment.id] }) }
  return { realm, other, records, ref: submissionRef(), held: reservation(), told: notification(submissionRef()) }
}
type World = ReturnType<typeof makeWorld>
const plainKinds = ["tenant", "application", "apiKey", "domain", "mailbox", "attachment", "endpoint"] as const

const randomChange = Effect.fnUntraced(function* (
  model: typeof Store.Service,
  world: World
): Effect.fn.Return<Change, unknown> {
  const { realm, other, records, ref, held, told } = world
  const some = yield* below(4)
  const plain = yield* oneOf(plainKinds)
  const kind = yield* oneOf(Object.keys(records) as ReadonlyArray<Kind>)
  // Mostly right as long as nobody before it in the batch moves it, and sometimes right because somebody does.
  const version = ((yield* stored(model, kind, records[kind]))?.version ?? 0) + (yield* oneOf([0, 1, 1, 1, 2]))
  const message = { ...records.message, version: Math.max(1, version), isStarred: some === 1 }
  const recipients = [{ ...message.recipients[0]!, status: "sent" as const }]
  const handed = { ...message, nextAttemptAt: null, submissions: [submission(ref)], recipients }
  const ended = { ...records.delivery, version, status: "dead" as const, nextAttemptAt: null, deadAt: some }
  const record = {
    ...records[kind],
    version,
    ...(kind === "message" && version > 2 && handed), // what was handed over once, stays so
    ...(kind === "delivery" && some > 1 && ended),
    ...(kind === "endpoint" && { enabled: some > 1 }),
    ...(kind === "apiKey" && { lastUsedAt: some })
  } as Records[Kind] // of its kind, as it is made of one
  const twin = { id: Fixtures.freshId<never>() }
  const position = BigInt(yield* below(3))
  const changes: ReadonlyArray<Change> = [
    insert(plain, { ...records[plain], ...(some === 0 && twin) } as never), // the same record but for its id
    insert(plain, records[plain] as never),
    insertMessage({ ...records.message, createdAt: BigInt(some) }),
    insertMessage(Fixtures.message(other, { createdAt: BigInt(some * 100) })),
    insertDelivery(records.delivery, String(some)),
    update(kind, record),
    update(kind, record),
    update(kind, record),
    demand(kind, { id: record.id, version }),
    remove("attachment", { ...records.attachment, version: Math.max(1, version - 1) }),
    reserve({ ...held, fingerprint: String(some).repeat(64), reservedAt: some * 10, expiresAt: some * 10 + 15 }),
    takeQuota(realm.tenantId, some + 1, 9, "2026-12-01"),
    takeQuota(realm.tenantId, some + 1, 12, `2026-12-0${some + 1}`),
    append(Fixtures.queuedEvent(records.message, { occurredAt: some })),
    append(Fixtures.queuedEvent(Fixtures.message(other), { occurredAt: some, environment: null })),
    moveRelay(position, { shard: shardOf(realm.tenantId), position: position + BigInt(some >> 1), heldUntil: some }),
    { _tag: "PutPlan", plan: { id: "p", keyRequestsPerMinute: some, tenantRequestsPerDay: 1, recipientsPerDay: 1 } },
    { _tag: "AppendAudit", entry: auditEntry(realm, { at: some }) },
    { _tag: "AppendRequests", entries: [requestEntry(realm, { at: some }), requestEntry(realm)] },
    { _tag: "TouchApiKeys", used: [{ id: records.apiKey.id, at: some }, { id: Fixtures.freshId(), at: some }] },
    suppress(suppression(realm, { createdAt: some })),
    keep(told, some),
    drop(told),
    keepPayload(payload({ provider: "p", id: String(some), receivedAt: some * 10 })),
    forget("payloads", some * 10),
    forget("reservations", some * 10),
    forget("deliveries", some),
    forget("messages", some),
    forget("attachments", some)
  ]
  return yield* oneOf(changes)
})

/** All that the reads show of a world. */
const look = (store: typeof Store.Service, { realm, other, records, ref, held, told }: World) =>
  Effect.all({
    records: Effect.forEach(Object.keys(records) as ReadonlyArray<Kind>, (kind) => stored(store, kind, records[kind])),
    endpoint: store.endpoints.get(realm, records.endpoint.id),
    content: store.messages.content(realm, records.message.id),
    body: store.deliveries.body(realm, records.delivery.id),
    pages: Effect.forEach([realm, other], (of) => store.messages.page(of, { mailboxId: null, before: null, limit: 100 })),
    queued: store.messages.queuedWith(realm, records.attachment.id),
    submitted: store.messages.bySubmission(ref),
    logs: Effect.forEach([realm, other], ({ tenantId }) => store.events.readLog(shardOf(tenantId), 0n, 1_000)),
    since: Effect.forEach([realm, other], (of) =>
      store.events.page(of, Fixtures.freshId(), { start: { _tag: "Since", at: 2 }, limit: 1_000 })
    ),
    relays: Effect.map(store.relay.behind, (found) => found.toSorted((one, two) => one.shard - two.shard)),
    reserved: store.reservations.get(held.applicationId, held.idempotencyKey, 0),
    suppressed: store.suppressions.among(realm, [Fixtures.address()]),
    kept: store.notifications.kept(told),
    payloads: Effect.map(store.audit.payloads(null, 100), unnumbered),
    plans: store.credentials.plans,
    audit: Effect.map(store.audit.page(realm.tenantId, 100), unnumbered),
    requests: Effect.map(store.audit.requests(realm.tenantId, 100), unnumbered),
    due: Effect.forEach(jobKinds, (kind) =>
      Effect.map(store.due(kind, { dueBefore: 1_000, after: null, limit: 1_000 }), ({ jobs }) =>
        jobs.toSorted((one, two) => (one.subject < two.subject ? -1 : 1))
      )
    ),
    expired: store.attachments.expired(1_000, 100)
  })

const reasonOf = (answer: CommitBatch.Answer): Effect.Effect<Rejection | null, unknown> =>
  answer.pipe(
    Effect.as(null),
    Effect.catchTag("CommitRejected", ({ reason }) => Effect.succeed(reason))
  )

const call = (changes: ReadonlyArray<Change>, jobs: ReadonlyArray<Job> = []): CommitBatch.Call => ({ changes, jobs, now: 0 })

/** What an accepted message changes. */
const sent = (realm = Fixtures.realm()): ReadonlyArray<Change> => {
  const message = Fixtures.message(realm)
  return [
    reserve(reservation({ messageId: message.id })),
    insertMessage(message),
    append(Fixtures.queuedEvent(message)),
    { _tag: "AppendAudit", entry: auditEntry(realm) },
    takeQuota(realm.tenantId, 1, 1_000)
  ]
}

const submitJob = (changes: ReadonlyArray<Change>): ReadonlyArray<Job> =>
  changes.flatMap((change): ReadonlyArray<Job> => {
    if (change._tag !== "InsertMessage") return []
    const { message } = change
    return [{ kind: "submit", subject: message.id, realm: message, group: message.tenantId, dueAt: 0 }]
  })

/** The database, and how many statements and transactions it is asked for. */
const counting = Effect.map(Database, (database) => {
  const counts = { statements: 0, transactions: 0 }
  const sql = new Proxy(database.sql, {
    get: (target, name) => {
      if (name === "unsafe") counts.statements += 1
      if (name === "withTransaction") counts.transactions += 1
      return Reflect.get(target, name)
    }
  })
  const rows: Database["Service"]["rows"] = (text, parameters) => {
    counts.statements += 1
    return database.rows(text, parameters)
  }
  return { counts, database: { ...database, sql, rows } }
})

for (const seed of times(4, (seed) => `seed ${seed}`)) {
  it.live(`answers the callers of a batch as the model answers them one by one (${seed})`, () =>
    Effect.gen(function* () {
      const model = Context.get(yield* Layer.build(Layer.fresh(MemoryStore.layer)), Store)
      const context = yield* Layer.build(Layer.provideMerge(PostgresStore.layerWithoutJobs, TestDatabase.layer()))
      const store = Context.get(context, Store)
      const commit = CommitBatch.make(Context.get(context, Database), { jobsOffered: false })
      const world = makeWorld()

      for (const step of times(60, (step) => step)) {
        const size = 1 + (yield* below(6))
        const list = Effect.flatMap(below(4), (count) => Effect.all(times(1 + count, () => randomChange(model, world))))
        const lists = yield* Effect.all(times(size, () => list))
        // Who forgets comes alone, behind the others.
        const forgets = (list: ReadonlyArray<Change>) => Number(list.some(({ _tag }) => _tag === "Forget"))
        const inOrder = lists.toSorted((one, two) => forgets(one) - forgets(two))
        const told = inOrder.map((list) => list.map(({ _tag }) => _tag).join(", ")).join(" | ")

        const answers = yield* commit(inOrder.map((list) => call(list)))
        const reasons = yield* Effect.forEach(answers, reasonOf)
        const expected = yield* Effect.forEach(inOrder, (list) => outcome(model, ...list))

        assert.deepStrictEqual(reasons, expected, `batch ${step}: ${told}`)
        if (step % 4 !== 3) continue
        assert.deepStrictEqual(yield* look(store, world), yield* look(model, world), `batch ${step}: ${told}`)
      }
    }).pipe(Random.withSeed(seed), Effect.scoped)
  )
}

layer(Layer.provideMerge(PostgresStore.layerWithoutJobs, TestDatabase.layer()))("a batch", (it) => {
  it.effect("takes one statement and no transaction of its own for callers who bring only what is new", () =>
    Effect.gen(function* () {
      const { counts, database } = yield* counting
      const commit = CommitBatch.make(database, { jobsOffered: true })
      const lists = times(100, () => sent())

      const [answer] = yield* commit([call(lists[0]!, submitJob(lists[0]!))])
      assert.deepStrictEqual(yield* Effect.exit(answer!), Exit.succeed({ jobsOffered: true, leaseEnded: false, forgotten: 0, next: [] }))
      assert.deepStrictEqual(counts, { statements: 1, transactions: 0 })

      yield* Effect.all(yield* commit(lists.slice(1).map((changes) => call(changes, submitJob(changes)))))
      assert.deepStrictEqual(counts, { statements: 2, transactions: 0 })
    })
  )

  it.effect("is shared by all who commit at once", () =>
    Effect.gen(function* () {
      const { counts, database } = yield* counting
      const commit = yield* GroupCommit.make({
        commit: CommitBatch.make(database, { jobsOffered: true }),
        committers: 2,
        onLiveClock: database.live
      })
      const lists = times(64, () => sent())

      yield* together(lists.map((changes) => commit(changes, submitJob(changes))))

      assert.isAtMost(counts.statements, 3)
      assert.strictEqual(counts.transactions, 0)
    })
  )

  it.effect("takes one statement and no transaction of its own for callers who write over versions that they name", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const { counts, database } = yield* counting
      const commit = CommitBatch.make(database, { jobsOffered: false })
      const realm = Fixtures.realm()
      const [endpoint, tenants] = [Fixtures.endpoint(realm), times(20, () => Fixtures.tenant())]
      const [deliveries, messages] = [times(20, () => Fixtures.delivery(endpoint)), times(20, () => Fixtures.message(realm))]
      yield* land(store, insert("endpoint", endpoint), ...tenants.map((tenant) => insert("tenant", tenant)))
      yield* land(store, ...deliveries.map((one) => insertDelivery(one)), ...messages.map((one) => insertMessage(one)))

      yield* Effect.all(
        yield* commit([
          ...tenants.map((tenant) => call([update("tenant", next(tenant))])),
          call([update("tenant", next(next(tenants[0]!)))]),
          ...deliveries.map((delivery) => call([demand("endpoint", endpoint), update("delivery", next(delivery))])),
          ...messages.map((message) => call([update("message", next(message)), takeQuota(message.tenantId, 1, 100)])),
          call(sent())
        ])
      )

      assert.deepStrictEqual(counts, { statements: 1, transactions: 0 })
      for (const { id } of deliveries) assert.strictEqual((yield* store.deliveries.get(realm, id))?.version, 2)
      for (const { id } of messages) assert.strictEqual((yield* store.messages.get(realm, id))?.version, 2)
    })
  )

  for (const [name, stale] of [
    ["writes over", (tenant: Records["tenant"]) => update("tenant", { ...tenant, version: 3 })],
    ["requires", (tenant: Records["tenant"]) => demand("tenant", { ...tenant, version: 2 })],
    ["removes", (tenant: Records["tenant"]) => remove("attachment", Fixtures.attachment({ tenantId: tenant.id, environment: "sandbox" }))]
  ] as const) {
    it.effect(`looks once more, in a transaction, if a version that somebody ${name} is not there`, () =>
      Effect.gen(function* () {
        const store = yield* Store
        const { counts, database } = yield* counting
        const commit = CommitBatch.make(database, { jobsOffered: false })
        const [tenant, ...tenants] = times(20, () => Fixtures.tenant())
        yield* land(store, insert("tenant", tenant!), ...tenants.map((one) => insert("tenant", one)))

        const fits = tenants.map((one) => call([update("tenant", next(one))]))
        const answers = yield* commit([call([...sent(), stale(tenant!)]), ...fits])

        const reasons = yield* Effect.forEach(answers, reasonOf)
        assert.deepStrictEqual(reasons.map((reason) => reason?._tag), ["VersionMoved", ...fits.map(() => undefined)])
        assert.isAtMost(counts.transactions, 2)
        for (const { id } of tenants) assert.strictEqual((yield* store.credentials.tenant(id))?.version, 2)
      })
    )
  }

  it.effect("leaves names as they were, taken or free, with a caller whose changes do not fit", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const { counts, database } = yield* counting
      const commit = CommitBatch.make(database, { jobsOffered: false })
      const { domain } = recordsOf(Fixtures.realm())
      const twin = () => insert("domain", { ...recordsOf(Fixtures.realm()).domain, domain: domain.domain })
      const misfit = demand("tenant", Fixtures.tenant())
      yield* land(store, insert("domain", domain))

      const lists = [[remove("domain", domain), misfit], [twin()], [remove("domain", domain)], [twin(), misfit], [twin()], [twin()]]
      const reasons = yield* Effect.forEach(yield* commit(lists.map((changes) => call(changes))), reasonOf)

      assert.deepStrictEqual(
        reasons.map((reason) => reason?._tag),
        ["VersionMoved", "Duplicate", undefined, "VersionMoved", undefined, "Duplicate"]
      )
      assert.strictEqual(counts.transactions, 1)
    })
  )

  it.effect("harms no caller but the one whose changes do not fit", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const commit = CommitBatch.make(yield* Database, { jobsOffered: false })
      const [tenant, held, old] = [Fixtures.tenant(), reservation(), Fixtures.message(Fixtures.realm())]
      yield* land(store, insert("tenant", tenant), reserve(held), insertMessage(old))
      const fits = times(4, () => sent())
      const misfits = [
        [...sent(), update("tenant", { ...tenant, version: 3 })],
        [...sent(), reserve({ ...held, messageId: Fixtures.freshId() })],
        [insertMessage(old), ...sent()],
        [...sent(), takeQuota(tenant.id, 6, 5)]
      ]

      const answers = yield* commit(fits.flatMap((fit, index) => [call(fit), call(misfits[index]!)]))

      const reasons = yield* Effect.forEach(answers, reasonOf)
      assert.deepStrictEqual(
        reasons.map((reason) => reason?._tag),
        [undefined, "VersionMoved", undefined, "KeyTaken", undefined, "Duplicate", undefined, "QuotaExceeded"]
      )
      const messageOf = (changes: ReadonlyArray<Change>) =>
        changes.flatMap((change) => (change._tag === "InsertMessage" ? [change.message] : []))
      for (const message of fits.flatMap(messageOf)) assert.isNotNull(yield* store.messages.get(message, message.id))
      for (const message of misfits.flatMap(messageOf).filter(({ id }) => id !== old.id)) {
        assert.isNull(yield* store.messages.get(message, message.id))
      }
    })
  )

  it.effect("harms no caller but the one whose text the server does not take, and says nothing of that text", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const commit = CommitBatch.make(yield* Database, { jobsOffered: false })
      const application = Fixtures.application(Fixtures.realm())
      const apiKey = Fixtures.apiKey(application, { publicId: "confid\u0000ential" })
      const [one, other] = [sent(), sent()]

      const answers = yield* commit([call(one), call([insert("apiKey", apiKey)]), call(other)])

      const exits = yield* Effect.forEach(answers, Effect.exit)
      assert.deepStrictEqual(exits.map(({ _tag }) => _tag), ["Success", "Failure", "Success"])
      const shown = inspect(yield* Effect.flip(answers[1]!), { depth: null, showHidden: true })
      assert.match(shown, /invalid byte sequence[^]*StoreUnavailable/)
      assert.notMatch(shown, /confid|ential/)
      assert.isNull(yield* store.credentials.apiKey(application.tenantId, apiKey.id))
    })
  )

  it.effect("asks once, for all callers, a server that says of itself that it takes nothing", () =>
    Effect.gen(function* () {
      for (const code of ["0A000", "25006", "53100"]) {
        const cause = Object.assign(new Error("refused"), { code })
        const refused = new SqlError({ reason: new UnknownError({ cause, message: "refused", operation: "query" }) })
        let statements = 0
        const rows = () => Effect.suspend(() => Effect.fail((statements++, refused)))
        const commit = CommitBatch.make({ ...(yield* Database), rows }, { jobsOffered: false })

        const answers = yield* commit([call(sent()), call(sent())])

        const failures = yield* Effect.forEach(answers, Effect.flip)
        assert.deepStrictEqual(failures.map(({ _tag }) => _tag), ["StoreUnavailable", "StoreUnavailable"])
        assert.strictEqual(statements, 1)
      }
    })
  )

  it.effect("goes on to none of its callers, one by one, once the database does not answer", () =>
    Effect.gen(function* () {
      const cause = Object.assign(new Error("not taken"), { code: "22P05" })
      const notTaken = new UnknownError({ cause, message: "not taken", operation: "query" })
      const gone = new ConnectionError({ cause: new Error("gone"), message: "gone", operation: "query" })
      let statements = 0
      const rows = () => Effect.suspend(() => Effect.fail(new SqlError({ reason: statements++ === 0 ? notTaken : gone })))
      const commit = CommitBatch.make({ ...(yield* Database), rows }, { jobsOffered: false })

      const failures = yield* Effect.forEach(yield* commit([call(sent()), call(sent())]), Effect.flip)
      assert.deepStrictEqual([statements, ...failures.map(({ _tag }) => _tag)], [2, "StoreUnavailable", "StoreUnavailable"])
    })
  )

  it.effect("harms no caller but the one whose changes make no sense", () =>
    Effect.gen(function* () {
      const commit = CommitBatch.make(yield* Database, { jobsOffered: false })

      const answers = yield* commit([call(sent()), call([takeQuota(Fixtures.realm().tenantId, 0.5, 5)]), call(sent())])

      assert.deepStrictEqual((yield* Effect.forEach(answers, Effect.exit)).map(Exit.hasDies), [false, true, false])
    })
  )

  it.effect("writes a body once for the deliveries of an event, and drops it with the last of them", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const store = yield* Store
      const first = Fixtures.delivery(Fixtures.endpoint(Fixtures.realm()), { status: "dead", nextAttemptAt: null, deadAt: -9 })
      const [second, third] = [first, first].map((one) => ({ ...one, id: Fixtures.freshId<typeof one.id>() }))
      const bodies = Effect.map(
        sql<{ deliveries: number }>`select deliveries from mailroom.delivery_body where delivery_id in (${first.id}, ${second!.id}, ${third!.id})`,
        (rows) => rows.map(({ deliveries }) => deliveries)
      )
      yield* land(store, insertDelivery(first), insertDelivery(second!), insertDelivery({ ...third!, deadAt: -7 }))
      assert.deepStrictEqual(yield* bodies, [3])

      yield* land(store, forget("deliveries", -8))
      assert.deepStrictEqual(yield* bodies, [1])

      yield* land(store, forget("deliveries", -6))
      assert.deepStrictEqual(yield* bodies, [])
    })
  )

  it.effect("writes a body that comes later for a delivery that has none, and drops it with that", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const store = yield* Store
      const realm = Fixtures.realm()
      const ended = { status: "delivered", nextAttemptAt: null } as const
      const [whole, bodiless] = [-9, -7].map((deliveredAt) => Fixtures.delivery(Fixtures.endpoint(realm), { ...ended, deliveredAt }))
      const shared = { ...whole!, id: Fixtures.freshId<DeliveryId>() }
      const all = [whole!, bodiless!, shared].map(({ id }) => id)
      const holders = Effect.map(
        sql<{ id: string }>`select delivery_id as id from mailroom.delivery_body where delivery_id in ${sql.in(all)}`,
        (rows) => rows.map(({ id }) => id).toSorted()
      )
      yield* land(store, insertDelivery(whole!), insertDelivery(shared), insertDelivery(bodiless!, null))
      assert.deepStrictEqual(yield* holders, [whole!.id])

      yield* land(store, ...all.map((id) => putBody(realm, { id }, "{}")))
      assert.deepStrictEqual(yield* holders, [whole!.id, bodiless!.id].toSorted())

      yield* land(store, forget("deliveries", -8))
      assert.deepStrictEqual(yield* holders, [bodiless!.id])

      yield* land(store, forget("deliveries", -6))
      assert.deepStrictEqual(yield* holders, [])
    })
  )

  it.effect("keeps each taker of a quota within its own limit, where another in the batch has a higher one", () =>
    Effect.gen(function* () {
      const commit = CommitBatch.make(yield* Database, { jobsOffered: false })
      const { tenantId } = Fixtures.realm()
      yield* (yield* commit([call([takeQuota(tenantId, 3, 5)])]))[0]!

      const answers = yield* commit([call([takeQuota(tenantId, 3, 5)]), call([takeQuota(tenantId, 1, 100)])])

      const reasons = yield* Effect.forEach(answers, reasonOf)
      assert.deepStrictEqual(reasons, [{ _tag: "QuotaExceeded", limit: 5, used: 3 }, null])
    })
  )

  it.effect("looks at a quota that was found used up before it writes anything in vain", () =>
    Effect.gen(function* () {
      const { counts, database } = yield* counting
      const commit = CommitBatch.make(database, { jobsOffered: false })
      const { tenantId } = Fixtures.realm()
      yield* (yield* commit([call([takeQuota(tenantId, 4, 4)])]))[0]!
      yield* Effect.flip((yield* commit([call([takeQuota(tenantId, 1, 4)])]))[0]!)
      counts.statements = 0

      const answers = yield* commit([call([takeQuota(tenantId, 1, 4)]), call(sent())])

      const reasons = yield* Effect.forEach(answers, reasonOf)
      assert.deepStrictEqual(reasons.map((reason) => reason?._tag), ["QuotaExceeded", undefined])
      assert.strictEqual(counts.statements, 2)
    })
  )
})
