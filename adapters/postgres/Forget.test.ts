import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { forget, insert, insertDelivery, insertMessage, times } from "../../conformance/StoreLaw.ts"
import { settledAt } from "../../conformance/StoreMessageRetention.ts"
import type { Attachment } from "../../core/model/Attachment.ts"
import type { DeliveryId, MessageId } from "../../core/model/Ids.ts"
import { Store, type Forgettable } from "../../core/ports/Store.ts"
import { Database } from "./Database.ts"
import * as Forget from "./Forget.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"
import { applicationName, blocked } from "./TestProcess.ts"

const all: ReadonlyArray<Forgettable> = ["deliveries", "events", "reservations", "notifications", "requests", "payloads", "quotas", "messages", "attachments"]

/** So many of each. */
const rows = [
  `insert into mailroom.delivery (id, tenant_id, environment, application_id, endpoint_id, version, created_ms, ended_ms, record)
     select i, i, 'sandbox', i, i, 1, n, n, '{}' from row`,
  "insert into mailroom.delivery_body (delivery_id, body) select i, '' from row",
  "insert into mailroom.event (shard, position, tenant_id, environment, occurred_ms, latest_ms, record) select 3, n, i, 'sandbox', n, n, '{}' from row",
  "insert into mailroom.reservation (application_id, idempotency_key, expires_ms, record) select i, n, n, '{}' from row",
  "insert into mailroom.notification (hash, provider, provider_message_id, kept_ms, record) select n, 'ses', n, n, '{}' from row",
  "insert into mailroom.request (tenant_id, at_ms, record) select i, n, '{}' from row",
  "insert into mailroom.payload (provider, id, received_ms, record) select 'ses', n, n, '{}' from row",
  `insert into mailroom.message (id, tenant_id, environment, mailbox_id, version, created_us, record)
     select i, i, 'sandbox', i, 1, n, '{}' from row`,
  "insert into mailroom.message_content (message_id) select i from row",
  "insert into mailroom.submission (provider, provider_message_id, message_id) select 'ses', n, i from row",
  "insert into mailroom.attachment (id, tenant_id, environment, version, sha256, used_ms, record) select i, i, 'sandbox', 1, '', n, '{}' from row",
  "insert into mailroom.queued_attachment (attachment_id, message_id) select i, i from row",
  "insert into mailroom.quota (tenant_id, day, used, allowed) select i, '2026-01-01', 1, 1 from row"
]

/** An index that is not asked for anything is walked from end to end; all that is old is, where the oldest are sorted out of it. */
const isPass = (line: string, next = "") =>
  (/Seq Scan|Index.* Scan/.test(line) && !next.includes("Index Cond")) || (line.includes("LockRows") && next.includes("Sort"))

layer(TestDatabase.layer({ connectionsMax: 1 }))("forgetting", (it) => {
  it.effect("passes over no table, though it was planned while there were hardly any rows, and so many were known", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const passed: Array<string> = []
      for (const count of [0, 1, 2]) {
        for (const statement of rows) yield* sql.unsafe(`with row as (select gen_random_uuid() as i, ${count} as n where ${count} > 0) ${statement}`)
        yield* sql`analyze`
        for (const what of all) {
          const { text, parameters } = Forget.statement({ _tag: "Forget", what, before: 0, limit: 500 })
          const lines = yield* TestDatabase.genericPlan(text, parameters)
          passed.push(...lines.filter((line, at) => isPass(line, lines[at + 1])).map((line) => `${what} of ${count}: ${line.trim()}`))
        }
      }

      assert.deepStrictEqual(passed, [])
    })
  )
})

const store = Layer.provideMerge(PostgresStore.layer, Layer.provideMerge(JobNews.layerLocal, TestDatabase.layer({ applicationName })))

const endedAt = (deadAt: number) => Fixtures.delivery(Fixtures.endpoint(Fixtures.realm()), { status: "dead", nextAttemptAt: null, deadAt })

layer(store, { excludeTestServices: true })("beside others, forgetting", (it) => {
  it.effect("passes over a message and a file that somebody is about to change, and waits for nobody", () =>
    Effect.gen(function* () {
      const [{ sql }, { attachments, commit, messages }] = [yield* Database, yield* Store]
      const realm = Fixtures.realm()
      const message = settledAt(realm, -20)
      const [used, other] = [-20, -19].map((usedAt) => Fixtures.attachment(realm, { messageId: message.id, usedAt })) as [Attachment, Attachment]
      yield* commit([insertMessage(message), insert("attachment", used), insert("attachment", other)], [])
      const somebody = yield* sql.reserve
      const run = (text: string, id?: string) => somebody.executeValues(text, id === undefined ? [] : [id])
      const forgotten = (what: Forgettable) => Effect.timeout(Effect.map(commit([forget(what, -10)], []), (done) => done.forgotten), "5 seconds")
      yield* run("begin")
      yield* run("update mailroom.message set next_attempt_ms = 5 where id = $1::uuid", message.id)
      yield* run("update mailroom.attachment set used_ms = 8000000000000 where id = $1::uuid", used.id)

      assert.deepStrictEqual([yield* forgotten("messages"), yield* forgotten("attachments")], [0, 1])
      yield* run("commit")
      assert.deepStrictEqual([yield* forgotten("messages"), yield* forgotten("attachments")], [0, 0])

      assert.strictEqual((yield* messages.get(realm, message.id))?.id, message.id)
      assert.deepStrictEqual(yield* attachments.many(realm, [used.id, other.id]), [{ ...used, usedAt: 8e12 }])
    }).pipe(Effect.scoped)
  )

  it.effect("drops a body with its last delivery, also where somebody drops the last but one at the same time", () =>
    Effect.gen(function* () {
      const [{ sql }, { commit }] = [yield* Database, yield* Store]
      const first = endedAt(-20)
      const shared = { ...first, id: Fixtures.freshId<DeliveryId>(), deadAt: -5 }
      yield* commit([insertDelivery(first), insertDelivery(shared)], [])
      const somebody = yield* sql.reserve
      const run = (text: string, id: string) => somebody.executeValues(text, [id])
      yield* somebody.executeValues("begin", [])
      yield* run("delete from mailroom.delivery where id = $1::uuid", shared.id)
      yield* run("update mailroom.delivery_body set deliveries = deliveries - 1 where delivery_id = $1::uuid", first.id)

      const forgetting = yield* Effect.forkChild(commit([forget("deliveries", -10)], []))
      yield* blocked({ sql })
      yield* somebody.executeValues("commit", [])
      yield* Fiber.join(forgetting)

      assert.deepStrictEqual(yield* sql`select deliveries from mailroom.delivery_body where delivery_id = ${first.id}::uuid`, [])
    }).pipe(Effect.scoped)
  )

  it.effect("knows how many are left that have a body, however many go at once", () =>
    Effect.gen(function* () {
      const [{ sql }, { commit }] = [yield* Database, yield* Store]
      const first = endedAt(-20)
      const others = [-20, -20, -5, -5].map((deadAt) => ({ ...first, id: Fixtures.freshId<DeliveryId>(), deadAt }))
      yield* commit([first, ...others].map((one) => insertDelivery(one)), [])
      const left = sql`select deliveries from mailroom.delivery_body where delivery_id = ${first.id}::uuid`

      yield* commit([forget("deliveries", -10)], [])
      assert.deepStrictEqual(yield* left, [{ deliveries: 2 }])
      yield* commit([forget("deliveries", 0)], [])
      assert.deepStrictEqual(yield* left, [])
    }).pipe(Effect.scoped)
  )

  it.effect("waits for bodies in one order", () =>
    Effect.gen(function* () {
      const [{ sql }, { commit }] = [yield* Database, yield* Store]
      const deliveries = times(20, () => endedAt(-20))
      yield* commit(deliveries.map((one) => insertDelivery(one)), [])
      const [first, ...others] = deliveries.map(({ id }) => id).toSorted()
      const somebody = yield* sql.reserve
      yield* somebody.executeValues("begin", [])
      const lock = (ids: ReadonlyArray<string>) =>
        somebody.executeValues("select from mailroom.delivery_body where delivery_id::text = any(string_to_array($1, ' ')) for update skip locked", [ids.join(" ")])
      assert.strictEqual((yield* lock([first!])).length, 1)

      const forgetting = yield* Effect.forkChild(commit([forget("deliveries", -10)], []))
      yield* blocked({ sql })
      const free = yield* lock(others)
      yield* somebody.executeValues("commit", [])
      yield* Fiber.join(forgetting)

      assert.strictEqual(free.length, others.length)
    }).pipe(Effect.scoped)
  )

  it.effect("takes a new upload that an older version uses first for used a week behind the upload", () =>
    Effect.gen(function* () {
      const [{ sql }, { attachments, commit }] = [yield* Database, yield* Store]
      const [week, messageId] = [7 * 86_400_000, Fixtures.freshId<MessageId>()]
      const upload = Fixtures.attachment(Fixtures.realm(), { expiresAt: week })
      yield* commit([insert("attachment", upload)], [])
      assert.deepStrictEqual(yield* attachments.get(upload, upload.id), upload)
      // All that it writes: it knows nothing of `used_ms`.
      const record = JSON.stringify({ ...upload, version: 2, messageId, expiresAt: null, usedAt: undefined })
      yield* sql`update mailroom.attachment set version = 2, unused_until_ms = null, record = ${record}::json where id = ${upload.id}::uuid`

      assert.strictEqual((yield* attachments.get(upload, upload.id))?.usedAt, week)
      assert.strictEqual((yield* commit([forget("attachments", week)], [])).forgotten, 0)
      assert.strictEqual((yield* commit([forget("attachments", week + 1)], [])).forgotten, 1)
    })
  )
})
