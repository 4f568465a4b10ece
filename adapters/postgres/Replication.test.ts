/** A server that waits for a standby with each commit, as with synchronous replication, while there is none. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { demand, insertMessage, reservation, reserve } from "../../conformance/StoreLaw.ts"
import type { MailboxId, TenantId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import * as Database from "./Database.ts"
import { migrate } from "./Migrations.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as PrivatePostgres from "./PrivatePostgres.ts"

const database = Layer.unwrap(
  Effect.gen(function* () {
    const { started, url } = yield* PrivatePostgres.open({ binaries: process.env["TEST_POSTGRES_BIN"] })
    yield* started
    return Database.layer({ url: url("postgres"), connectionsMax: 5 })
  })
)
const migrated = Layer.provideMerge(Layer.effectDiscard(migrate), database)

const setStandby = Effect.fnUntraced(function* (standby: string) {
  const { sql } = yield* Database.Database
  yield* sql.unsafe(`alter system set synchronous_standby_names = '${standby}'`).unprepared
  yield* sql`select pg_reload_conf()`
})

const waiting = Effect.gen(function* () {
  const { sql } = yield* Database.Database
  return (yield* sql`select from pg_stat_activity where wait_event = 'SyncRep'`).length
})

/** Whether it ends only when the standby has what it tells of. */
const waits = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { sql } = yield* Database.Database
    yield* setStandby("nobody")
    // The server takes its new setting when it comes to it: from when one waits on, all do.
    const first = yield* Effect.forkChild(Effect.forever(sql`select pg_logical_emit_message(true, 'first', '')::text`))
    yield* Effect.repeat(waiting, { until: (count) => count === 1 })
    const asked = yield* Effect.forkChild(self)
    const isWaiting = Effect.repeat(waiting, { until: (count) => count === 2 || asked.pollUnsafe() !== undefined })
    const hasWaited = (yield* Effect.ensuring(isWaiting, Effect.orDie(setStandby("")))) === 2
    const answer = yield* Fiber.join(asked)
    yield* Fiber.interrupt(first)
    return { hasWaited, answer }
  })

layer(Layer.provideMerge(PostgresStore.layerWithoutJobs, migrated), { excludeTestServices: true })("a store whose server waits for a standby", (it) => {
  it.effect("tells of an idempotency key's use once the standby has it, for who asks is told that it is accepted", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const held = reservation()
      const { applicationId, idempotencyKey, reservedAt: at } = held
      yield* store.commit([reserve(held)], [])

      const alone = yield* waits(store.reservations.get(applicationId, idempotencyKey, at))
      const [tenantId, mailboxId] = [Fixtures.freshId<TenantId>(), Fixtures.freshId<MailboxId>()]
      const among = yield* waits(store.messages.admission({ tenantId, mailboxId, applicationId, idempotencyKey, at }))

      assert.deepStrictEqual(alone, { hasWaited: true, answer: held })
      assert.deepStrictEqual([among.hasWaited, among.answer.reservation], [true, held])
    })
  )

  it.effect("does not wait to tell that a key is free", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const { applicationId, idempotencyKey, reservedAt } = reservation()

      const free = yield* waits(store.reservations.get(applicationId, idempotencyKey, reservedAt))

      assert.deepStrictEqual(free, { hasWaited: false, answer: null })
    })
  )

  it.effect("lands a premise alone once the standby has what it is about", () =>
    Effect.gen(function* () {
      const store = yield* Store
      const message = Fixtures.message(Fixtures.realm())
      yield* store.commit([insertMessage(message)], [])

      assert.isTrue((yield* waits(store.commit([demand("message", message)], []))).hasWaited)
    })
  )
})
