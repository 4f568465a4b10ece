import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as Database from "./Database.ts"
import * as Pooler from "./Pooler.ts"
import * as TestDatabase from "./TestDatabase.ts"
import * as TestPooler from "./TestPooler.ts"

const faultBehind = (options: TestPooler.Options, prepare: boolean) =>
  Pooler.fault.pipe(Effect.provide(Layer.unwrap(Effect.map(TestPooler.url(options), (url) => Database.layer({ url, prepare })))))

describe("a pooler", () => {
  const rows = [
    { mode: "session", prepare: true, fault: null },
    { mode: "session", prepare: false, fault: null },
    { mode: "transaction", prepare: true, fault: "forgets prepared statements" },
    { mode: "transaction", prepare: false, fault: null },
    { mode: "statement", prepare: true, fault: "allows no transactions" },
    { mode: "statement", prepare: false, fault: "allows no transactions" }
  ] as const
  for (const { mode, prepare, fault } of rows) {
    it.live(`that lends a connection for each ${mode} ${fault === null ? "is no fault" : fault}, prepare: ${prepare}`, () =>
      Effect.gen(function* () {
        assert.strictEqual(yield* faultBehind({ mode, ignoresParameters: true }, prepare), fault)
      }).pipe(Effect.scoped)
    )
  }

  it.live("that refuses our settings is told from a server that is away", () =>
    Effect.gen(function* () {
      const url = yield* TestPooler.url({ mode: "session" })
      const asked = (prepare: boolean) => Effect.provide(Effect.flatMap(Database.Database, ({ sql }) => sql`select 1 as one`), Database.layer({ url, prepare }))

      const refused = yield* Effect.flip(asked(true))

      assert.strictEqual(Pooler.refusedParameter(refused), "idle_in_transaction_session_timeout")
      assert.deepStrictEqual(yield* asked(false), [{ one: 1 }])
    }).pipe(Effect.scoped)
  )
})

it.live("a server without a pooler has none of its faults, and its connections are as they were", () =>
  Effect.gen(function* () {
    const { sql } = yield* Database.Database
    assert.isNull(yield* Pooler.fault)
    assert.deepStrictEqual(yield* sql`select count(*)::integer as open from pg_stat_activity where datname = current_database() and state like 'idle in%'`, [
      { open: 0 }
    ])
    assert.isNull(Pooler.refusedParameter(yield* Effect.flip(sql`select 1 / 0`)))
  }).pipe(Effect.provide(TestDatabase.layer()))
)
