/** What the doctor says of a primary and its standby. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as Database from "../../adapters/postgres/Database.ts"
import * as PrivatePostgres from "../../adapters/postgres/PrivatePostgres.ts"
import { complete, findingsOf, says } from "./harness.ts"

const binaries = process.env["TEST_POSTGRES_BIN"]
const opened = (options: PrivatePostgres.Options) =>
  Effect.tap(PrivatePostgres.open({ ...options, binaries, isDurable: true }), ({ started }) => started)

/** As one who has no rights but to connect. */
const urlOf = (...servers: ReadonlyArray<PrivatePostgres.PrivatePostgres>) =>
  `postgres:///postgres?user=ada&host=${servers.map(({ folder }) => folder).join(",")}&target_session_attrs=primary`

const durability = (...servers: ReadonlyArray<PrivatePostgres.PrivatePostgres>) =>
  Effect.map(findingsOf({ ...complete, MAILROOM_DATABASE_URL: urlOf(...servers) }), (findings) => says(findings, "durability"))

const connected = (url: Redacted.Redacted<string>) => Layer.fresh(Database.layer({ url, connectionsMax: 2 }))

const doing = (...statements: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { sql } = yield* Database.Database
    for (const statement of statements) yield* sql.unsafe(statement).unprepared
  })

/** One after the other, whatever becomes of each. */
const committing = Effect.flatMap(Database.Database, ({ sql }) =>
  Effect.forever(Effect.ignore(sql`select pg_logical_emit_message(true, 'one', '')::text`))
)

describe("the doctor, of a primary and its standby,", () => {
  it.live("says when commits wait for none, when none is connected that they wait for, and when one is that confirms nothing", () =>
    Effect.gen(function* () {
      const primary = yield* opened({})
      const asOwner = connected(primary.url("postgres"))
      yield* Effect.provide(doing("create role ada login"), asOwner)
      yield* primary.stop("fast")
      const standby = yield* opened({ standbyOf: primary.folder })
      yield* primary.start

      const behind = "warn commits wait for no standby: a failover loses what it has not got"
      yield* Effect.repeat(durability(primary, standby), { until: ([said]) => said === behind })
      assert.deepStrictEqual(yield* durability(primary), ["ok what is committed is on disk"], "one that nobody is to fail over to")

      yield* standby.stop("fast")
      yield* Effect.provide(doing("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"), asOwner)
      const refused = "sends are answered 503, and mail that comes in 451"
      assert.deepStrictEqual(yield* durability(primary), [`fail commits wait for a standby, and none is connected: ${refused}`])

      yield* standby.start
      const followed = yield* Effect.repeat(durability(primary), { until: ([said]) => said?.includes("none is connected") === false })
      assert.deepStrictEqual(followed, ["ok what is committed is on disk"])

      yield* standby.freeze
      yield* Effect.forkChild(Effect.provide(committing, connected(Redacted.make(urlOf(primary)))))
      const stuck = yield* Effect.repeat(durability(primary), { until: ([said]) => said?.startsWith("fail") ?? false })
      assert.deepStrictEqual(stuck, [`fail commits wait for a standby, 1 of them for more than 2 s: ${refused}`])
    }).pipe(Effect.scoped),
    120_000
  )
})
