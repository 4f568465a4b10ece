/**
 * Rows that others may hold are waited for in one order, whatever the order of
 * the changes: who waits for the first holds no second. Two commits that took
 * them as they came would wait for each other, until the database ends one of
 * them a second later.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { append, demand, insert, insertMessage, next, realmInShard, reservation, reserve, suppress, suppression, takeQuota, times, unsuppress, update } from "../../conformance/StoreLaw.ts"
import type { IdempotencyKey } from "../../core/model/IdempotencyKey.ts"
import type { Change } from "../../core/ports/Store.ts"
import { blocked, foreign, newProcess, url } from "./TestProcess.ts"

interface Rows {
  readonly table: string
  /** A column that tells the rows apart. */
  readonly key: string
  /** Two rows in the order in which they are waited for: by which key, what makes it, and what touches it; of another table, where one is named. */
  readonly rows: ReadonlyArray<{ readonly key: string; readonly made: Change; readonly touched: Change; readonly table?: string }>
}

const held = reservation()

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
  "keys that were used": () => ({
    table: "api_key",
    key: "id",
    rows: times(2, () => Fixtures.apiKey(Fixtures.application(Fixtures.realm())))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1))
      .map((key) => ({ key: key.id, made: insert("apiKey", key), touched: { _tag: "TouchApiKeys", used: [{ id: key.id, at: 1 }] } }))
  }),
  "a key that was used, behind the tables before it": () => {
    const [tenant, key] = [Fixtures.tenant(), Fixtures.apiKey(Fixtures.application(Fixtures.realm()))]
    return {
      table: "tenant",
      key: "id",
      rows: [
        { key: tenant.id, made: insert("tenant", tenant), touched: update("tenant", next(tenant)) },
        { table: "api_key", key: key.id, made: insert("apiKey", key), touched: { _tag: "TouchApiKeys", used: [{ id: key.id, at: 1 }] } }
      ]
    }
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
        const lock = (row: Rows["rows"][number]) =>
          other.run(`select ${key}::text from mailroom.${row.table ?? table} where ${key}::text = $1 for update skip locked`, [row.key])
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
})
