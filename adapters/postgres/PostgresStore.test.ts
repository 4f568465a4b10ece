import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Exit, Fiber, Redacted } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Fixtures from "../../conformance/fixtures.ts"
import {
  append,
  demand,
  eventsOf,
  forget,
  insert,
  insertDelivery,
  insertMessage,
  keep,
  keepPayload,
  logBehind,
  moveRelay,
  next,
  notification,
  outcome,
  payload,
  realmInShard,
  reservation,
  reserve,
  submissionRef,
  suppress,
  suppression,
  takeQuota,
  times,
  together,
  update
} from "../../conformance/StoreLaw.ts"
import type { LoggedEvent } from "../../core/model/Event.ts"
import type { Realm, TenantId } from "../../core/model/Ids.ts"
import { leaseMax, type Job } from "../../core/ports/JobQueue.ts"
import { Store, StoreUnavailable, type Change, type Rejection } from "../../core/ports/Store.ts"
import * as Jobs from "./Jobs.ts"
import { blocked, foreign, newProcess, until, Url, url } from "./TestProcess.ts"

const sent = (realm: Realm = Fixtures.realm()) => {
  const message = Fixtures.message(realm)
  const event = Fixtures.queuedEvent(message)
  const changes: ReadonlyArray<Change> = [
    reserve(reservation({ messageId: message.id })),
    insertMessage(message),
    append(event),
    takeQuota(realm.tenantId, 1, 1_000)
  ]
  return { message, event, changes }
}

const isUnavailable = (exit: Exit.Exit<unknown, unknown>) =>
  Exit.isFailure(exit) &&
  exit.cause.reasons.some((reason) => reason._tag === "Fail" && reason.error instanceof StoreUnavailable)

const isThere = (store: typeof Store.Service, { message }: ReturnType<typeof sent>) =>
  Effect.map(store.messages.get(message, message.id), (found) => found !== null)

/** The socket of a server, behind one that can lose an answer. */
const lossyUrl = Effect.gen(function* () {
  const direct = new URL(Redacted.value(yield* Url))
  const socket = `${direct.searchParams.get("host")}/.s.PGSQL.5432`
  const folder = mkdtempSync(join(tmpdir(), "mailroom-lossy-"))
  let isLosing = false
  const server = createServer((client) => {
    const upstream = connect(socket)
    client.pipe(upstream)
    upstream.on("data", (chunk) => {
      if (!isLosing) return void client.write(chunk)
      isLosing = false
      client.destroy()
    })
    for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
      one.on("close", () => other.destroy())
      one.on("error", () => other.destroy())
    }
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(join(folder, ".s.PGSQL.5432"), () => resume(Effect.void))),
    () => Effect.sync(() => (server.close(), rmSync(folder, { recursive: true })))
  )
  direct.searchParams.set("host", folder)
  return { url: Redacted.make(direct.href), loseNextAnswer: () => void (isLosing = true) }
})

layer(url, { excludeTestServices: true })("PostgresStore among other processes", (it) => {
  it.effect("lets a reader wait for nobody and step over nothing, however slowly others write", () =>
    Effect.gen(function* () {
      const [shard, elsewhere] = [7, 8]
      const [one, other, reader] = [yield* newProcess(), yield* newProcess(), yield* newProcess()]
      const slow = yield* foreign
      const [realm, tenant] = [realmInShard(shard), Fixtures.tenant()]
      yield* one.store.commit([insert("tenant", tenant)], [])
      const read: Array<LoggedEvent> = []
      const readOn = Effect.gen(function* () {
        const page = yield* reader.store.events.readLog(shard, read.at(-1)?.position ?? 0n, 10)
        read.push(...page)
        return page
      })
      const reading = yield* Effect.forkChild(Effect.forever(Effect.andThen(readOn, Effect.yieldNow)))
      const write = ({ store }: typeof one) =>
        Effect.forEach(times(30, () => sent(realm)), ({ changes }) => store.commit(changes, []))
      const soon = Effect.timeout("1 second")

      // It holds rows, and has no place in the log yet: nobody has to wait for it.
      yield* slow.run("update mailroom.tenant set version = version where id = $1", [tenant.id])
      yield* together([write(one), write(other)])

      // Now it has one. Whoever comes behind it waits for it, and elsewhere nobody does.
      const { changes, event } = sent(realm)
      yield* slow.run("update mailroom.log_head set position = position + 1 where shard = $1", [shard])
      yield* slow.run(
        `insert into mailroom.event
         select shard, position, $2::uuid, '', null, 0, 0, $3::json from mailroom.log_head where shard = $1`,
        [shard, realm.tenantId, JSON.stringify(event)]
      )
      const behind = sent(realm)
      const waiting = yield* Effect.forkChild(one.store.commit(behind.changes, []))
      yield* blocked(reader)
      yield* soon(other.store.commit(sent(realmInShard(elsewhere)).changes, []))
      const events = eventsOf(reader.store, realm, null, 100)
      const messages = reader.store.messages.page(realm, { mailboxId: null, before: null, limit: 100 })
      assert.strictEqual((yield* soon(events)).length, 60)
      assert.strictEqual((yield* soon(messages)).length, 60)
      assert.strictEqual(read.length, 60)
      assert.isUndefined(waiting.pollUnsafe())

      yield* slow.commit
      yield* Fiber.join(waiting)
      yield* one.store.commit(changes.slice(1, 2), [])
      yield* until(Effect.sync(() => read.length === 62))
      yield* Fiber.interrupt(reading)
      assert.deepStrictEqual(read, yield* logBehind(reader.store, shard, 0n))
      assert.deepStrictEqual(read.map(({ position }) => position), times(62, (index) => BigInt(index + 1)))
      assert.deepStrictEqual(read.slice(60).map(({ id }) => id), [event.id, behind.event.id])
    }).pipe(Effect.scoped)
  )

  for (const end of ["commit", "rollback"] as const) {
    it.effect(`waits for another process that reserves the same key, and is right about its ${end}`, () =>
      Effect.gen(function* () {
        const one = yield* newProcess()
        const other = yield* foreign
        const held = reservation()
        yield* other.run("insert into mailroom.reservation values ($1::uuid, $2, $3, $4::json)", [
          held.applicationId,
          held.idempotencyKey,
          BigInt(held.expiresAt),
          JSON.stringify(held)
        ])
        const [twin, first, second] = [sent(), sent(), sent()]

        const lists = [[...twin.changes, reserve({ ...held, messageId: twin.message.id })], first.changes, second.changes]
        const waiting = yield* Effect.forkChild(together(lists.map((list) => outcome(one.store, ...list))))
        yield* blocked(one)
        yield* other[end]

        const taken: Rejection = { _tag: "KeyTaken", idempotencyKey: held.idempotencyKey }
        assert.deepStrictEqual(yield* Fiber.join(waiting), [end === "commit" ? taken : null, null, null])
        assert.strictEqual(yield* isThere(one.store, twin), end === "rollback")
        assert.deepStrictEqual(yield* Effect.forEach([first, second], (of) => isThere(one.store, of)), [true, true])
      }).pipe(Effect.scoped)
    )
  }

  it.effect("waits for another process that is about to move what it requires", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const endpoint = Fixtures.endpoint(Fixtures.realm())
      const delivery = Fixtures.delivery(endpoint)
      yield* one.store.commit([insert("endpoint", endpoint)], [])
      yield* other.run("update mailroom.endpoint set version = 2 where id = $1", [endpoint.id])

      const waiting = yield* Effect.forkChild(outcome(one.store, demand("endpoint", endpoint), insertDelivery(delivery)))
      yield* blocked(one)
      yield* other.commit

      assert.deepStrictEqual(yield* Fiber.join(waiting), { _tag: "VersionMoved", kind: "endpoint", id: endpoint.id })
      assert.isNull(yield* one.store.deliveries.get(endpoint, delivery.id))
    }).pipe(Effect.scoped)
  )

  /** Everybody locks in one order: who waits for what comes early in it holds nothing yet of what comes later. */
  it.effect("holds no row that it looked at while it waits for a key to be touched", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const realm = Fixtures.realm()
      const [apiKey, endpoint] = [Fixtures.apiKey(Fixtures.application(realm)), Fixtures.endpoint(realm)]
      yield* one.store.commit([insert("apiKey", apiKey), insert("endpoint", endpoint)], [])
      yield* other.run("select from mailroom.api_key where id = $1 for update", [apiKey.id])

      const touch: Change = { _tag: "TouchApiKeys", used: [{ id: apiKey.id, at: 1 }] }
      const waiting = yield* Effect.forkChild(one.store.commit([update("endpoint", next(endpoint)), touch], []))
      yield* blocked(one)
      yield* other.run("select from mailroom.endpoint where id = $1 for update nowait", [endpoint.id])
      yield* other.commit
      yield* Fiber.join(waiting)

      assert.strictEqual((yield* one.store.endpoints.get(realm, endpoint.id))?.version, 2)
      assert.strictEqual((yield* one.store.credentials.apiKey(realm.tenantId, apiKey.id))?.lastUsedAt, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("brings no key while it waits for a quota, as who looks has the quota first", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const realm = Fixtures.realm()
      const held = reservation()
      const [kept, suppressed, told] = [payload(), suppression(realm), notification(submissionRef())]
      const quota = takeQuota(realm.tenantId, 1, 10)
      yield* one.store.commit([quota], [])
      yield* other.run("select from mailroom.quota where tenant_id = $1 for update", [realm.tenantId])

      const changes = [reserve(held), keepPayload(kept), suppress(suppressed), keep(told, 1), quota]
      const waiting = yield* Effect.forkChild(outcome(one.store, ...changes))
      yield* blocked(one)
      yield* other.run("set local lock_timeout = '100ms'")
      const bring = (table: string, columns: string, ...values: ReadonlyArray<string>) =>
        other.run(`insert into mailroom.${table} (${columns}, record) values (${values.map((_, index) => `$${index + 1}`).join()}, '{}')`, values)
      yield* bring("payload", "provider, id, received_ms", kept.provider, kept.id, "0")
      yield* bring("suppression", "tenant_id, environment, folded_address", realm.tenantId, realm.environment, suppressed.address)
      yield* bring("reservation", "application_id, idempotency_key, expires_ms", held.applicationId, held.idempotencyKey, String(held.expiresAt))
      yield* other.commit

      assert.deepStrictEqual(yield* Fiber.join(waiting), { _tag: "KeyTaken", idempotencyKey: held.idempotencyKey })
    }).pipe(Effect.scoped)
  )

  for (const [how, looks] of [["written at once", false], ["looked at", true]] as const) {
    it.effect(`holds no delivery, ${how}, while it waits for an endpoint that it requires`, () =>
      Effect.gen(function* () {
        const one = yield* newProcess()
        const other = yield* foreign
        const endpoint = Fixtures.endpoint(Fixtures.realm())
        const [delivery, attachment] = [Fixtures.delivery(endpoint), Fixtures.attachment(endpoint)]
        yield* one.store.commit([insert("endpoint", endpoint), insertDelivery(delivery), insert("attachment", attachment)], [])
        yield* other.run("select from mailroom.endpoint where id = $1 for update", [endpoint.id])

        const looked: ReadonlyArray<Change> = looks ? [{ _tag: "Remove", kind: "attachment", record: attachment }] : []
        const changes = [update("delivery", next(delivery)), demand("endpoint", endpoint), ...looked]
        const waiting = yield* Effect.forkChild(one.store.commit(changes, []))
        yield* blocked(one)
        yield* other.run("select from mailroom.delivery where id = $1 for update nowait", [delivery.id])
        yield* other.commit
        yield* Fiber.join(waiting)

        assert.strictEqual((yield* one.store.deliveries.get(endpoint, delivery.id))?.version, 2)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("holds no quota while it waits for a relay", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const [shard, realm] = [11, realmInShard(11)]
      yield* one.store.commit([takeQuota(realm.tenantId, 1, 10)], [])
      // So it looks at quotas, too.
      assert.strictEqual((yield* outcome(one.store, takeQuota(realm.tenantId, 10, 10)))?._tag, "QuotaExceeded")
      yield* other.run("select from mailroom.relay where shard = $1 for update", [shard])

      const relay = moveRelay(0n, { shard, position: 1n })
      const waiting = yield* Effect.forkChild(outcome(one.store, takeQuota(realm.tenantId, 1, 10), relay))
      yield* blocked(one)
      yield* other.run("select from mailroom.quota where tenant_id = $1 for update nowait", [realm.tenantId])
      yield* other.commit

      assert.isNull(yield* Fiber.join(waiting))
    }).pipe(Effect.scoped)
  )

  it.effect("holds no event behind the one that it waits for, so that two who forget events do not wait for each other", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const realm = realmInShard(12)
      const events = times(40, (index) => Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt: index }))
      yield* one.store.commit(events.map(append), [])
      const unheld = "select position::int from mailroom.event where tenant_id = $1 order by position for update skip locked"
      const positions = (yield* other.run(unheld, [realm.tenantId])).flat()
      yield* other.rollback
      yield* other.run("begin")
      yield* other.run("select from mailroom.event where shard = 12 and position = $1 for update", [positions[20]])

      const waiting = yield* Effect.forkChild(one.store.commit([forget("events", 40)], []))
      yield* blocked(one)
      const left = (yield* other.run(unheld, [realm.tenantId])).flat()
      yield* other.commit
      yield* Fiber.join(waiting)

      assert.deepStrictEqual(left, positions.slice(20))
    }).pipe(Effect.scoped)
  )

  it.effect("ends a deadlock with another process, and harms nobody", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const [begin, end] = [Fixtures.freshId<TenantId>(), Fixtures.freshId<TenantId>()].toSorted()
      const [first, second] = [Fixtures.tenant({ id: begin! }), Fixtures.tenant({ id: end! })]
      yield* one.store.commit([insert("tenant", first), insert("tenant", second)], [])
      const lock = (id: string) => other.run("select from mailroom.tenant where id = $1 for update", [id])
      const beside = sent()

      // So it is the store that notices, a second after it had to wait.
      yield* other.run("set local deadlock_timeout = '1min'")
      yield* lock(second.id)
      const waiting = yield* Effect.forkChild(
        together([
          one.store.commit([update("tenant", next(first)), update("tenant", next(second))], []),
          one.store.commit(beside.changes, [])
        ])
      )
      yield* blocked(one)
      yield* lock(first.id)
      yield* other.commit
      yield* Fiber.join(waiting)

      assert.deepStrictEqual(yield* one.store.credentials.tenant(first.id), next(first))
      assert.deepStrictEqual(yield* one.store.credentials.tenant(second.id), next(second))
      assert.isTrue(yield* isThere(one.store, beside))
    }).pipe(Effect.scoped)
  )

  it.effect("says that it does not know, when its connection is lost on the way, and commits again after", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const tenant = Fixtures.tenant()
      yield* one.store.commit([insert("tenant", tenant)], [])
      yield* other.run("select from mailroom.tenant where id = $1 for update", [tenant.id])
      const fiber = yield* Effect.forkChild(Effect.exit(one.store.commit([update("tenant", next(tenant))], [])))

      const pid = yield* blocked(one)
      yield* one.sql`select pg_terminate_backend(${pid})`

      assert.isTrue(isUnavailable(yield* Fiber.join(fiber)))
      yield* other.rollback
      assert.deepStrictEqual(yield* one.store.credentials.tenant(tenant.id), tenant)
      yield* one.store.commit([update("tenant", next(tenant))], [])
      assert.deepStrictEqual(yield* one.store.credentials.tenant(tenant.id), next(tenant))
    }).pipe(Effect.scoped)
  )

  it.effect("says that it does not know, when the answer to a commit that landed is lost", () =>
    Effect.gen(function* () {
      const { url, loseNextAnswer } = yield* lossyUrl
      const one = yield* newProcess(url)
      const [before, lost] = [sent(), sent()]
      yield* one.store.commit(before.changes, [])

      loseNextAnswer()
      assert.isTrue(isUnavailable(yield* Effect.exit(one.store.commit(lost.changes, []))))

      yield* until(isThere(one.store, lost))
      assert.strictEqual((yield* outcome(one.store, ...lost.changes.slice(1)))?._tag, "Duplicate")
    }).pipe(Effect.scoped)
  )

  it.effect("commits for the others while one waits for a row, and sees through what an interrupted caller began", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const tenant = Fixtures.tenant()
      yield* one.store.commit([insert("tenant", tenant)], [])
      yield* other.run("select from mailroom.tenant where id = $1 for update", [tenant.id])

      const fiber = yield* Effect.forkChild(one.store.commit([update("tenant", next(tenant))], []))
      yield* blocked(one)
      yield* Effect.timeout(together(times(20, () => one.store.commit(sent().changes, []))), "2 seconds")
      yield* Fiber.interrupt(fiber)
      yield* other.rollback

      yield* until(Effect.map(one.store.credentials.tenant(tenant.id), (found) => found?.version === 2))
    }).pipe(Effect.scoped)
  )

  it.effect("writes jobs with the changes that make them due, or neither, and tells who listens", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const realm = Fixtures.realm()
      const job = ({ message }: ReturnType<typeof sent>): Job => ({
        kind: "submit",
        subject: message.id,
        realm: { tenantId: realm.tenantId, environment: realm.environment },
        group: realm.tenantId,
        dueAt: 5
      })
      const [lands, fails] = [sent(realm), sent(realm)]
      const news = yield* one.news.listen(["submit"])
      const heard = yield* Deferred.make<void>()
      yield* Effect.forkChild(Effect.andThen(news, Deferred.succeed(heard, undefined)))

      assert.deepStrictEqual(yield* one.store.commit(lands.changes, [job(lands)]), { jobsOffered: true, leaseEnded: false, forgotten: 0, next: [] })
      yield* Effect.timeout(Deferred.await(heard), "1 second")
      yield* Effect.flip(one.store.commit([...fails.changes, takeQuota(realm.tenantId, 1, 1)], [job(fails)]))

      const jobs = yield* one.sql`
        select subject, kind, due_ms::int as due from mailroom.job where tenant_id = ${realm.tenantId}::uuid`
      assert.deepStrictEqual(jobs, [{ subject: lands.message.id, kind: "submit", due: 5 }])
    }).pipe(Effect.scoped)
  )

  it.effect("takes a job for lost that is to come too late, or is leased for longer than may be", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const realm = Fixtures.realm()
      const { message, changes } = sent(realm)
      const dueAt = message.nextAttemptAt!
      const job: Job = { kind: "submit", subject: message.id, realm, group: realm.tenantId, dueAt }
      yield* one.store.commit(changes, [job])
      const isLost = Effect.map(one.store.due("submit", { dueBefore: dueAt, after: null, limit: 10_000 }), ({ jobs }) =>
        jobs.some(({ subject }) => subject === message.id)
      )
      const leased = (forMillis: number) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => one.sql`
          update mailroom.job set ready = false, token = gen_random_uuid(), at_ms = ${now + forMillis} where subject = ${message.id}`)

      assert.isFalse(yield* isLost)
      yield* one.sql`update mailroom.job set due_ms = due_ms + 1 where subject = ${message.id}`
      assert.isTrue(yield* isLost)
      yield* one.sql`update mailroom.job set due_ms = due_ms - 1 where subject = ${message.id}`
      yield* leased(leaseMax)
      assert.isFalse(yield* isLost)
      yield* leased(leaseMax + 60_000)
      assert.isTrue(yield* isLost)
      // A clock that was ahead by more has found that it ran out: nobody else may claim it until then.
      yield* one.sql`update mailroom.job set ready = true where subject = ${message.id}`
      assert.isTrue(yield* isLost)
      yield* Jobs.offer(one.sql.unsafe, [job], yield* Clock.currentTimeMillis)
      assert.isFalse(yield* isLost)
    }).pipe(Effect.scoped)
  )

  it.effect("drops a body with the last of its deliveries, if another process forgets one of them meanwhile", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const first = Fixtures.delivery(Fixtures.endpoint(Fixtures.realm()), { status: "dead", nextAttemptAt: null, deadAt: -9 })
      const second = { ...first, id: Fixtures.freshId<typeof first.id>(), deadAt: -8 }
      yield* one.store.commit([insertDelivery(first), insertDelivery(second)], [])
      const other = yield* foreign
      yield* other.run("delete from mailroom.delivery where id = $1::uuid", [second.id])
      yield* other.run("update mailroom.delivery_body set deliveries = deliveries - 1 where delivery_id = $1::uuid", [first.id])

      const forgetting = yield* Effect.forkChild(one.store.commit([forget("deliveries", -8)], []))
      yield* blocked(one)
      yield* other.commit

      assert.strictEqual((yield* Fiber.join(forgetting)).forgotten, 1)
      assert.deepStrictEqual(yield* one.sql`select deliveries from mailroom.delivery_body where delivery_id = ${first.id}::uuid`, [])
    })
  )

  it.effect("takes an endpoint that a version of before has made to have begun where it was enabled", () =>
    Effect.gen(function* () {
      const { store, sql } = yield* newProcess()
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      const positions = Effect.map(store.endpoints.get(realm, endpoint.id), (found) => found?.positions)
      const news = () => append(Fixtures.queuedEvent(Fixtures.message(realm)))
      yield* store.commit([insert("endpoint", endpoint), news()], [])
      yield* sql`update mailroom.endpoint set enabled_after = 3, created_after = null, disabled_after = null where id = ${endpoint.id}::uuid`
      assert.deepStrictEqual(yield* positions, { createdAfter: 3n, disabledAfter: 3n, enabledAfter: 3n })

      const off = next(endpoint, { enabled: false })
      yield* store.commit([news(), update("endpoint", off)], [])
      const { disabledAfter } = (yield* positions)!
      assert.isAbove(Number(disabledAfter), 1)
      assert.deepStrictEqual(yield* positions, { createdAfter: 3n, disabledAfter, enabledAfter: 3n })
      yield* store.commit([news(), update("endpoint", next(off, { enabled: true }))], [])
      assert.deepStrictEqual(yield* positions, { createdAfter: 3n, disabledAfter, enabledAfter: disabledAfter + 1n })
    })
  )
})
