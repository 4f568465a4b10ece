import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Result } from "effect"
import { createHash } from "node:crypto"
import type { Forgettable } from "../../core/ports/Store.ts"
import * as Database from "./Database.ts"
import * as Forget from "./Forget.ts"
import { current, currentOf, currentIndexes, migrate, migrateTo, migrations, type Migration } from "./Migrations.ts"
import * as TestDatabase from "./TestDatabase.ts"

const first: Migration = { name: "0001_first", statements: ["create table mailroom.one (id integer primary key)"] }
const second: Migration = {
  name: "0002_second",
  statements: ["alter table mailroom.one add column name text not null default ''", "create index one_name on mailroom.one (name)"]
}

const onEmpty = <A, E>(check: Effect.Effect<A, E, Database.Database>) =>
  Effect.flatMap(TestDatabase.url("empty"), (url) => Effect.provide(check, Database.layer({ url }))).pipe(Effect.scoped)

const columns = Effect.flatMap(Database.Database, ({ sql }) =>
  Effect.map(
    sql<{ column: string }>`select table_name || '.' || column_name as column from information_schema.columns where table_schema = 'mailroom' order by 1`,
    (rows) => rows.map(({ column }) => column).filter((column) => !column.startsWith("migration."))
  )
)

describe("migrations", () => {
  it.effect("are all taken by an empty database, once", () =>
    onEmpty(
      Effect.gen(function* () {
        const names = migrations.map(({ name }) => name)
        assert.deepStrictEqual(yield* current, { applied: [], missing: names, unknown: [] })

        assert.deepStrictEqual(yield* migrate, { applied: names })
        assert.deepStrictEqual(yield* migrate, { applied: [] })

        assert.deepStrictEqual(yield* current, { applied: names, missing: [], unknown: [] })
      })
    )
  )

  it.effect("leave the indexes that are known to be left, and no others", () =>
    onEmpty(
      Effect.gen(function* () {
        yield* migrate
        const { sql } = yield* Database.Database
        const rows = yield* sql<{ name: string }>`select indexname::text as name from pg_indexes where schemaname = 'mailroom'`
        assert.deepStrictEqual(yield* currentIndexes, { expected: rows.map(({ name }) => name).toSorted(), missing: [], invalid: [] })
      })
    )
  )

  it.effect("compress bodies and blobs by LZ4 where the server has it, also what fits a page, and leave them where not", () =>
    onEmpty(
      Effect.gen(function* () {
        yield* migrate
        const { sql } = yield* Database.Database
        const [server] = yield* sql<{ methods: ReadonlyArray<string> }>`
          select enumvals as methods from pg_settings where name = 'default_toast_compression'`
        const columns = yield* sql<{ name: string; method: string; storage: string }>`
          select attname::text as name, attcompression::text as method, attstorage::text as storage from pg_attribute
          where attrelid = 'mailroom.message_content'::regclass and attname in ('html', 'record', 'text')
            or attrelid = 'mailroom.blob_part'::regclass and attname = 'bytes' order by 1`
        const hasLz4 = server!.methods.includes("lz4")
        const method = hasLz4 ? "l" : ""
        assert.deepStrictEqual(columns, [
          { name: "bytes", method, storage: hasLz4 ? "x" : "e" },
          { name: "html", method, storage: "x" },
          { name: "record", method, storage: "x" },
          { name: "text", method, storage: "x" }
        ])
        const [table] = yield* sql<{ options: ReadonlyArray<string> | null }>`
          select reloptions as options from pg_class where oid = 'mailroom.message_content'::regclass`
        assert.deepStrictEqual(table?.options, hasLz4 ? null : ["toast_tuple_target=8160"])
      })
    )
  )

  it.effect("take attachments of the versions before for used a week behind the step, and what they bring later; uploads have their own end", () =>
    onEmpty(
      Effect.gen(function* () {
        const { sql } = yield* Database.Database
        const bring = (count: number, unusedUntil: number | null) => sql`
          insert into mailroom.attachment (id, tenant_id, environment, version, sha256, unused_until_ms, record)
          select gen_random_uuid(), gen_random_uuid(), 'sandbox', ${count}, '', ${unusedUntil}, '{}'`
        const own = migrations.findIndex(({ name }) => name === "0018_attachment_uses")
        yield* migrateTo(migrations.slice(0, own))
        yield* bring(1, null)
        yield* migrate
        yield* bring(2, null)
        yield* bring(3, 5)

        const days = yield* sql<{ version: number; days: number }>`
          select version, round((used_ms - extract(epoch from now()) * 1000) / 86400000)::integer as days from mailroom.attachment order by version`
        assert.deepStrictEqual(days, [1, 2, 3].map((version) => ({ version, days: 7 })))
        const { text, parameters } = Forget.statement({ _tag: "Forget", what: "attachments", before: 8e12, limit: 10 })
        assert.deepStrictEqual(yield* sql.unsafe(text, parameters).values, [[2n]])
        assert.deepStrictEqual(yield* sql`select version from mailroom.attachment`, [{ version: 3 }])
      })
    )
  )

  it.effect("take endpoints of the versions before to have begun where they were enabled last", () =>
    onEmpty(
      Effect.gen(function* () {
        const { sql } = yield* Database.Database
        yield* migrateTo(migrations.filter(({ name }) => name < "0026"))
        yield* sql`
          insert into mailroom.endpoint (id, tenant_id, environment, application_id, version, enabled, enabled_after, seal_version, created_ms, record)
          select gen_random_uuid(), gen_random_uuid(), 'sandbox', gen_random_uuid(), 1, enabled, 7, 1, 0, '{}' from (values (true), (false)) as one (enabled)`
        yield* migrate

        const positions = { created_after: 7n, disabled_after: 7n, enabled_after: 7n }
        assert.deepStrictEqual(yield* sql`select created_after, disabled_after, enabled_after from mailroom.endpoint`, [positions, positions])
      })
    )
  )

  it("have names that rise, and are never the same", () => {
    const names = migrations.map(({ name }) => name)
    assert.deepStrictEqual(names, [...new Set(names)].sort())
    for (const name of names) assert.match(name, /^\d{4}_[a-z_]+$/)
  })

  it("say what they said when they were first taken, for who has taken a step does not take it again", () => {
    const digests = migrations.map(({ name, statements }) => [name, createHash("sha256").update(JSON.stringify(statements)).digest("hex").slice(0, 16)])
    assert.deepStrictEqual(digests, [
      ["0001_truth", "01ae89ee575f3c01"],
      ["0002_jobs", "2e58df75e73db3f7"],
      ["0003_blobs", "1e30014f3f4dce5f"],
      ["0004_day_counts", "e66898e0a91b1b4b"],
      ["0005_claims", "26fd4c6cffa535c9"],
      ["0006_inbound", "683c54c4e22a093a"],
      ["0007_domains", "352f8862000fe312"],
      ["0008_payloads", "987ab1e0a4748c1f"],
      ["0009_bodies", "46050860b519b2cc"],
      ["0010_claims_by_key", "571b853209990ae6"],
      ["0011_content_columns", "362af6cdf46d575e"],
      ["0012_shared_bodies", "c00b51b5cbed620f"],
      ["0013_bodies_of_events", "aa13f380eb862775"],
      ["0014_mailboxes_of_domains", "c721f625bd016ab3"],
      ["0015_quick_compression", "147af2fca84d8ec5"],
      ["0016_compressed_blobs", "0eaf5f9a13d9fd10"],
      ["0017_message_ages", "587b1a4c80acddb8"],
      ["0018_attachment_uses", "906681fba176a677"],
      ["0019_submissions_of_messages", "aa1420f44690274f"],
      ["0020_bodies_of_a_page", "0f694f855208b94a"],
      ["0021_attachment_ages", "fa82b3ffaef33e70"],
      ["0022_log_fronts", "82d67a81b2a89977"],
      ["0023_early_vacuum", "7de7f7fc75cfe89c"],
      ["0024_jobs_by_key", "f7e5ce56b3e64f78"],
      ["0025_cut_times", "d33d58e339a61f3f"],
      ["0026_endpoint_positions", "1cd51ee2e7962e75"]
    ])
  })

  it.effect("go on where attachments have the index of their ages already, as 0018 made it before 0021 did", () =>
    onEmpty(
      Effect.gen(function* () {
        const { sql } = yield* Database.Database
        yield* migrateTo(migrations.filter(({ name }) => name < "0021"))
        yield* sql`create index attachment_used on mailroom.attachment (used_ms) where used_ms is not null`

        assert.include((yield* migrate).applied, "0021_attachment_ages")
      })
    )
  )

  it("make no index of a table in the step that changes it, for its readers would wait as long", () => {
    const grown = migrations.findIndex(({ name }) => name === "0008_payloads")
    const tablesOf = (statements: ReadonlyArray<string>, words: RegExp) => statements.flatMap((text) => words.exec(text)?.[1] ?? [])
    for (const { name, statements } of migrations.slice(grown)) {
      const changed = tablesOf(statements, /alter table (\S+)/)
      for (const table of tablesOf(statements, /create index (?:if not exists )?\w+ on (\S+)/)) assert.notInclude(changed, table, name)
    }
  })

  it.effect("have what is asked for from the start of an index vacuumed before much of it is dead", () =>
    onEmpty(
      Effect.gen(function* () {
        yield* migrate
        const { sql } = yield* Database.Database
        const kept: ReadonlyArray<Forgettable> = ["deliveries", "events", "reservations", "notifications", "requests", "payloads", "messages", "attachments"]
        const texts = kept.map((what) => Forget.statement({ _tag: "Forget", what, before: 0, limit: 1 }).text)
        const early = yield* sql<{ name: string }>`
          select relname::text as name from pg_class cross join unnest(reloptions) as option
          where relnamespace = 'mailroom'::regnamespace and option = 'autovacuum_vacuum_scale_factor=0.05'`

        assert.sameMembers(
          early.map(({ name }) => name),
          texts.map((text) => /delete from mailroom\.(\w+)/.exec(text)![1]!)
        )
      })
    )
  )

  it.effect("let a log begin where it does when they are taken", () =>
    onEmpty(
      Effect.gen(function* () {
        const before = migrations.findIndex(({ name }) => name === "0022_log_fronts")
        const { sql } = yield* Database.Database
        yield* migrateTo(migrations.slice(0, before))
        yield* sql`insert into mailroom.event (shard, position, tenant_id, environment, occurred_ms, latest_ms, record)
          select shard, position, gen_random_uuid(), '', 0, 0, '{}' from (values (3, 7), (3, 8), (15, 1)) given (shard, position)`

        yield* migrate

        const fronts = yield* sql<{ shard: number; position: bigint }>`select shard, position from mailroom.log_front order by shard`
        assert.deepStrictEqual(fronts.map(({ shard, position }) => [shard, position]), [[3, 6n], [15, 0n]])
      })
    )
  )

  it.effect("leave nothing of a step that fails, and keep the steps before it", () =>
    onEmpty(
      Effect.gen(function* () {
        const broken = { ...second, statements: [...second.statements, "create table mailroom.one (id integer)"] }

        const error = yield* Effect.flip(migrateTo([first, broken]))
        assert.strictEqual(error.message, 'migration 0002_second failed: relation "one" already exists')
        assert.deepStrictEqual(yield* columns, ["one.id"])
        assert.deepStrictEqual(yield* currentOf([first, second]), { applied: ["0001_first"], missing: ["0002_second"], unknown: [] })

        assert.deepStrictEqual(yield* migrateTo([first, second]), { applied: ["0002_second"] })
        assert.deepStrictEqual(yield* columns, ["one.id", "one.name"])
      })
    )
  )

  it.effect("refuse a database that is not in UTF-8, before they touch it", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url("empty", "LATIN1")
      const check = Effect.gen(function* () {
        for (const failed of [yield* Effect.flip(current), yield* Effect.flip(migrate)]) {
          assert.strictEqual(failed.message, "the database keeps its text in LATIN1; make one `with encoding 'UTF8' template template0`")
        }
        assert.deepStrictEqual(yield* columns, [])
      })
      yield* Effect.provide(check, Database.layer({ url }))
    })
  )

  it.effect("refuse a database that a later version has changed", () =>
    onEmpty(
      Effect.gen(function* () {
        yield* migrateTo([first, second])

        const error = yield* Effect.flip(migrateTo([first]))

        assert.strictEqual(error._tag, "DatabaseNewer")
        assert.include(error.message, "0002_second")
        assert.deepStrictEqual(yield* currentOf([first]), { applied: ["0001_first", "0002_second"], missing: [], unknown: ["0002_second"] })
      })
    )
  )

  it.effect("have nothing to do for who may make no tables, where none is missing", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url("empty")
      yield* Effect.provide(migrateTo([first]), Layer.fresh(Database.layer({ url })))
      const context = yield* Layer.build(Database.layer({ url, connectionsMax: 1 }))
      const { sql } = Context.get(context, Database.Database)
      const reader = sql(`reader_${crypto.randomUUID()}`) // roles are the whole server's
      yield* sql`create role ${reader}`
      yield* Effect.addFinalizer(() => Effect.orDie(Effect.andThen(sql`drop owned by ${reader}`, sql`drop role ${reader}`)))
      yield* sql`grant usage on schema mailroom to ${reader}`
      yield* sql`grant select on all tables in schema mailroom to ${reader}`
      const asReader = (list: ReadonlyArray<Migration>) =>
        Effect.andThen(sql`set role ${reader}`, migrateTo(list)).pipe(
          Effect.provideService(Database.Database, Context.get(context, Database.Database)),
          Effect.ensuring(Effect.orDie(sql`reset role`))
        )

      assert.deepStrictEqual(yield* asReader([first]), { applied: [] })
      assert.match((yield* Effect.flip(asReader([first, second]))).message, /permission denied .*\. Let a user migrate who owns the database$/)
    }).pipe(Effect.scoped)
  )

  it.effect("are taken once by runners that come at the same time", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url("empty")
      const runner = Effect.provide(migrateTo([first, second]), Layer.fresh(Database.layer({ url, connectionsMax: 1 })))

      const results = yield* Effect.all([runner, runner, runner, runner], { concurrency: "unbounded" })

      assert.deepStrictEqual(results.flatMap(({ applied }) => applied).sort(), ["0001_first", "0002_second"])
    }).pipe(Effect.scoped)
  )

  it.effect("disturb no process of the version before", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url("empty")
      const older = Context.get(yield* Layer.build(Database.layer({ url })), Database.Database)
      const started = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      yield* Effect.provide(migrateTo([first]), Database.layer({ url }))

      // It has prepared these statements, and goes on with them.
      const worker = yield* Effect.forkChild(
        Effect.gen(function* () {
          for (let id = 1; !(yield* Deferred.isDone(done)); id++) {
            yield* older.sql`insert into mailroom.one (id) values (${id})`
            const rows = yield* older.sql`select id from mailroom.one where id = ${id}`
            assert.deepStrictEqual(rows, [{ id }])
            if (id === 20) yield* Deferred.succeed(started, undefined)
          }
        }).pipe(Effect.result)
      )
      yield* Deferred.await(started)
      yield* Effect.provide(migrateTo([first, second]), Layer.fresh(Database.layer({ url })))
      yield* Deferred.succeed(done, undefined)

      assert.isTrue(Result.isSuccess(yield* Fiber.join(worker)))
    }).pipe(Effect.scoped)
  )

  it.effect("rather fail than make the service wait behind a table that is in use", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url("empty")
      const { sql } = Context.get(yield* Layer.build(Database.layer({ url })), Database.Database)
      yield* Effect.provide(migrateTo([first]), Layer.fresh(Database.layer({ url })))

      const error = yield* Effect.flip(
        sql.withTransaction(
          Effect.andThen(
            sql`insert into mailroom.one values (1)`,
            Effect.provide(migrateTo([first, second]), Layer.fresh(Database.layer({ url })))
          )
        )
      )

      assert.strictEqual(
        error.message,
        "migration 0002_second failed: canceling statement due to lock timeout. Nothing of it is done, for another transaction, such as a dump's, holds a table that it changes: run it again when that has ended"
      )
    }).pipe(Effect.scoped)
  )
})
