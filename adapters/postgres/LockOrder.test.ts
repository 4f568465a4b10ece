/**
 * Rows that others may hold are waited for in one order, whatever the order of
 * the changes: who waits for the first holds no second. Two commits that took
 * them as they came would wait for each other, until the database ends one of
 * them a second later.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { append, demand, drop, insert, insertMessage, keep, next, notification, realmInShard, reservation, reserve, submissionRef, suppress, suppression, takeQuota, times, unsuppress, update } from "../../conformance/StoreLaw.ts"
import type { ApiKey } from "../../core/model/ApiKey.ts"
import type { IdempotencyKey } from "../../core/model/IdempotencyKey.ts"
import type { Change } from "../../core/ports/Store.ts"
import { hashOf } from "./Rows.ts"
import { blocked, foreign, newProcess, url } from "./TestProcess.ts"

interface Rows {
  readonly table: string
  /** A column that tells the rows apart. */
  readonly key: string
  /** Two rows in the order in which they are waited for: by which key, what makes it, and what touches it; of another table, or by another column, where one is named. */
  readonly rows: ReadonlyArray<Touched>
}

interface Touched {
  readonly key: string
  readonly made: Change
  readonly touched: Change
  readonly table?: string
  readonly by?: string
}

const held = reservation()

const used = ({ id }: ApiKey): Change => ({ _tag: "TouchApiKeys", used: [{ id, at: 1 }] })

/** Two keys, in order, and what is done with each. */
const keysOf = (...touched: ReadonlyArray<(key: ApiKey) => Change>): Rows => ({
  table: "api_key",
  key: "id",
  rows: times(2, () => Fixtures.apiKey(Fixtures.application(Fixtures.realm())))
    .toSorted((one, other) => (one.id < other.id ? -1 : 1))
    .map((key, index) => ({ key: key.id, made: insert("apiKey", key), touched: touched[index]!(key) }))
})

const behindQuota = (other: Touched): Rows => {
  const { tenantId } = Fixtures.realm()
  return { table: "quota", key: "tenant_id", rows: [{ key: tenantId, made: takeQuota(tenantId, 1, 9), touched: takeQuota(tenantId, 1, 9) }, { by: "id", ...other }] }
}

const realms = () => times(2, () => Fixtures.realm()).toSorted((one, other) => (one.tenantId < other.tenantId ? -1 : 1))

const kinds: Readonly<Record<string, () => Rows>> = {
  "records that are written over": () => ({
    table: "tenant",
    key: "id",
    rows: realms().map(({ tenantId }) => {
      const tenant = Fixtures.tenant({ id: tenantId })
      return { key: tenant.id, made: insert("tenant", tenant), touched: update("tenant", next(tenant)) }
    })
  }),
  "records that are required": () => ({
    table: "tenant",
    key: "id",
    rows: realms().map(({ tenantId }) => {
      const tenant = Fixtures.tenant({ id: tenantId })
      return { key: tenant.id, made: insert("tenant", tenant), touched: demand("tenant", tenant) }
    })
  }),
  "keys that were used": () => keysOf(used, used),
  "a key that was used, behind the tables before it": () => {
    const [tenant, key] = [Fixtures.tenant(), Fixtures.apiKey(Fixtures.application(Fixtures.realm()))]
    return {
      table: "tenant",
      key: "id",
      rows: [
        { key: tenant.id, made: insert("tenant", tenant), touched: update("tenant", next(tenant)) },
        { table: "api_key", key: key.id, made: insert("apiKey", key), touched: used(key) }
      ]
    }
  },
  "a record that is written over, and one behind it that is required": () => {
    const [first, second] = realms().map(({ tenantId }) => Fixtures.tenant({ id: tenantId }))
    return {
      table: "tenant",
      key: "id",
      rows: [
        { key: first!.id, made: insert("tenant", first!), touched: update("tenant", next(first!)) },
        { key: second!.id, made: insert("tenant", second!), touched: demand("tenant", second!) }
      ]
    }
  },
  "a key that is written over, and one behind it that was used": () => keysOf((key) => update("apiKey", next(key)), used),
  "a key that was used, and an endpoint behind it that is written over": () => {
    const [key, endpoint] = [Fixtures.apiKey(Fixtures.application(Fixtures.realm())), Fixtures.endpoint(Fixtures.realm())]
    return {
      table: "api_key",
      key: "id",
      rows: [
        { key: key.id, made: insert("apiKey", key), touched: used(key) },
        { table: "endpoint", key: endpoint.id, made: insert("endpoint", endpoint), touched: update("endpoint", next(endpoint)) }
      ]
    }
  },
  "a key that was used, and one behind it that is required": () => keysOf(used, (key) => demand("apiKey", key)),
  "a quota, and a plan behind it": () => {
    const plan = { id: Fixtures.freshId<string>(), keyRequestsPerMinute: 1, tenantRequestsPerDay: 1, recipientsPerDay: 1 }
    const put = { _tag: "PutPlan", plan } as const
    return behindQuota({ table: "plan", key: plan.id, made: put, touched: put })
  },
  "a quota, and a blob behind it": () => {
    const { tenantId } = Fixtures.realm()
    const blob = { sha256: "ab".repeat(32), sizeBytes: 1 }
    const put = { _tag: "PutBlob", tenantId, blob, bytes: new Uint8Array(1), at: 1 } as const
    return behindQuota({ table: "blob", by: "tenant_id", key: tenantId, made: put, touched: put })
  },
  "a quota, and a content that is written over behind it": () => {
    const realm = Fixtures.realm()
    const message = Fixtures.message(realm)
    const put = { _tag: "PutContent", realm, messageId: message.id, content: Fixtures.content(message) } as const
    return behindQuota({ table: "message_content", by: "message_id", key: message.id, made: insertMessage(message), touched: put })
  },
  "a quota, and a notification behind it that is dropped": () => {
    const note = notification(submissionRef())
    return behindQuota({ table: "notification", by: "hash", key: hashOf(note), made: keep(note, 0), touched: drop(note) })
  },
  "tenants' quotas": () => ({
    table: "quota",
    key: "tenant_id",
    rows: realms().map(({ tenantId }) => ({ key: tenantId, made: takeQuota(tenantId, 1, 9), touched: takeQuota(tenantId, 1, 9) }))
  }),
  "reservations that have expired": () => ({
    table: "reservation",
    key: "idempotency_key",
    rows: ["first-key", "other-key"].map((key) => {
      const made = reservation({ ...held, idempotencyKey: key as IdempotencyKey }) // as the key is written
      return { key, made: reserve({ ...made, expiresAt: 0 }), touched: reserve(made) }
    })
  }),
  "suppressions that are lifted": () => {
    const [realm] = realms()
    return {
      table: "suppression",
      key: "folded_address",
      rows: ["ada", "charles"].map((local) => {
        const address = Fixtures.address(local)
        return { key: address, made: suppress(suppression(realm!, { address })), touched: unsuppress(realm!, address) }
      })
    }
  },
  "places in tenants' logs": () => ({
    table: "tenant_log",
    key: "tenant_id",
    rows: realms().map((realm) => ({
      key: realm.tenantId,
      made: insertMessage(Fixtures.message(realm)),
      touched: insertMessage(Fixtures.message(realm))
    }))
  }),
  "heads of the log": () => ({
    table: "log_head",
    key: "shard",
    rows: [3, 4].map((shard) => {
      const appended = () => append(Fixtures.queuedEvent(Fixtures.message(realmInShard(shard))))
      return { key: String(shard), made: appended(), touched: appended() }
    })
  })
}

layer(url, { excludeTestServices: true })("a commit waits in one order", (it) => {
  for (const [what, rowsOf] of Object.entries(kinds)) {
    it.effect(`for ${what}`, () =>
      Effect.gen(function* () {
        const one = yield* newProcess()
        const other = yield* foreign
        const { key, rows, table } = rowsOf()
        const [first, second] = [rows[0]!, rows[1]!]
        yield* one.store.commit(rows.map(({ made }) => made), [])
        const lock = (row: Touched) =>
          other.run(`select ${row.by ?? key}::text from mailroom.${row.table ?? table} where ${row.by ?? key}::text = $1 for update skip locked`, [row.key])
        assert.deepStrictEqual(yield* lock(first), [[first.key]])

        const waiting = yield* Effect.forkChild(one.store.commit(rows.toReversed().map(({ touched }) => touched), []))
        yield* blocked(one)
        const free = yield* lock(second)
        yield* other.commit
        yield* Fiber.join(waiting)

        assert.deepStrictEqual(free, [[second.key]])
      }).pipe(Effect.scoped)
    )
  }

  it.effect("and holds no key in share that it will write", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const key = Fixtures.apiKey(Fixtures.application(Fixtures.realm()))
      yield* one.store.commit([insert("apiKey", key)], [])
      const lock = (how: string) => other.run(`select id::text from mailroom.api_key where id = $1 for ${how}`, [key.id])
      yield* lock("share")

      const waiting = yield* Effect.forkChild(one.store.commit([demand("apiKey", key), used(key)], []))
      yield* blocked(one)
      const free = yield* lock("update skip locked")
      yield* other.commit
      yield* Fiber.join(waiting)

      assert.deepStrictEqual(free, [[key.id]])
    }).pipe(Effect.scoped)
  )

  it.effect("and a look-up of reservations waits for none that has looked at them", () =>
    Effect.gen(function* () {
      const one = yield* newProcess()
      const other = yield* foreign
      const made = reservation({ expiresAt: 0 })
      const { tenantId } = Fixtures.realm()
      yield* one.store.commit([reserve(made), takeQuota(tenantId, 1, 9), insertMessage(Fixtures.message({ ...Fixtures.realm(), tenantId }))], [])
      yield* other.run("select from mailroom.tenant_log where tenant_id = $1 for update", [tenantId])

      // It is there, so it is looked at, and found to have expired.
      const message = Fixtures.message({ ...Fixtures.realm(), tenantId })
      const waiting = yield* Effect.forkChild(one.store.commit([reserve({ ...made, reservedAt: 1, expiresAt: 2 }), insertMessage(message)], []))
      yield* blocked(one)
      const { applicationId, idempotencyKey } = made
      const asked = { tenantId, mailboxId: message.mailboxId, applicationId, idempotencyKey, at: -1 }
      const { reservation: found } = yield* one.store.messages.admission(asked)
      yield* other.commit
      yield* Fiber.join(waiting)

      assert.deepStrictEqual(found, made)
    }).pipe(Effect.scoped)
  )
})
