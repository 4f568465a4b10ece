import { assert, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { append, demand, insert, outcome, reservation, reserve, takeQuota } from "../../conformance/StoreLaw.ts"
import { Store } from "../../core/ports/Store.ts"
import * as Database from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

/** A store that has seen a tenant's quota used up, and so looks at all that its commits touch; and somebody else's transaction. */
const looking = Effect.gen(function* () {
  const url = yield* TestDatabase.url()
  const process = PostgresStore.layer.pipe(Layer.provide(JobNews.layerLocal), Layer.provideMerge(Database.layer({ url, applicationName: "looking" })))
  const context = yield* Layer.build(process)
  const [store, { sql }] = [Context.get(context, Store), Context.get(context, Database.Database)]
  const { tenantId } = Fixtures.realm()
  assert.strictEqual((yield* outcome(store, takeQuota(tenantId, 1, 0)))?._tag, "QuotaExceeded")
  const other = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ url }))), Database.Database)
  const connection = yield* other.sql.reserve
  const run = (text: string, parameters: ReadonlyArray<unknown> = []) => connection.executeValues(text, parameters)
  const waits = Effect.map(sql`select from pg_stat_activity where application_name = 'looking' and wait_event_type = 'Lock'`, ({ length }) => length > 0)
  const isBlocked = Effect.repeat(Effect.tap(waits, () => Effect.sleep("5 millis")), { until: (is) => is })
  return { store, looks: takeQuota(tenantId, 1, 9), run, isBlocked }
})

it.live("a key that has expired is replaced by one process, and taken for the other", () =>
  Effect.gen(function* () {
    const { store, looks, run, isBlocked } = yield* looking
    const held = reservation({ expiresAt: 0 })
    yield* store.commit([reserve(held)], [])
    yield* run("begin")
    yield* run("update mailroom.reservation set expires_ms = 1 where application_id = $1", [held.applicationId])

    const twin = yield* Effect.forkChild(outcome(store, looks, reserve({ ...held, expiresAt: 1 })))
    yield* isBlocked
    yield* run("commit")

    assert.deepStrictEqual(yield* Fiber.join(twin), { _tag: "KeyTaken", idempotencyKey: held.idempotencyKey })
  }).pipe(Effect.scoped)
)

for (const how of ["without a look", "after a look"]) {
  it.live(`nobody moves what a commit requires, ${how}, while that waits for a place in the log, and others may require it`, () =>
    Effect.gen(function* () {
      const { store, looks, run, isBlocked } = yield* looking
      const endpoint = Fixtures.endpoint(Fixtures.realm())
      const event = () => append(Fixtures.queuedEvent(Fixtures.message(endpoint)))
      yield* store.commit([insert("endpoint", endpoint), event()], [])
      yield* run("begin")
      yield* run("select from mailroom.log_head for update")

      const changes = [demand("endpoint", endpoint), event()]
      const waiting = yield* Effect.forkChild(outcome(store, ...(how === "after a look" ? [looks, ...changes] : changes)))
      yield* isBlocked
      const lock = (strength: string) => run(`select 1 from mailroom.endpoint where id = $1 for ${strength} skip locked`, [endpoint.id])
      const [moved, shared] = [yield* lock("no key update"), yield* lock("share")]
      yield* run("commit")

      assert.deepStrictEqual({ moved, shared }, { moved: [], shared: [[1]] })
      assert.isNull(yield* Fiber.join(waiting))
    }).pipe(Effect.scoped)
  )
}
