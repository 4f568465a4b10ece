/**
 * Databases for tests, each of its own on the run's private server, gone when
 * its layer is. The first one asked for makes the template that they are
 * copied from.
 */
import { Effect, Exit, Layer, Redacted, Schedule, Scope, type Context } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll, inject } from "vitest"
import * as Database from "./Database.ts"
import { migrate } from "./Migrations.ts"
import { urlOf } from "./PrivatePostgres.ts"

const server = (database: string) => Redacted.make(urlOf(inject("postgresFolder"), database))

/** One connection as the server's owner, to one of its databases. */
const connected = <A, E, R>(database: string, use: Effect.Effect<A, E, R>) =>
  Effect.provide(use, Database.layer({ url: server(database), connectionsMax: 1 }))

const run = (database: string, statement: string) =>
  connected(
    database,
    Effect.flatMap(Database.Database, ({ sql }) => sql.unsafe(statement))
  )

const template = "mailroom_template"

/** Waits for the server, which may still be starting, and says why there is none. */
const ready = run("postgres", "select 1").pipe(
  Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 600, while: Database.isConnectionLost }),
  Effect.catch((error) => Effect.die(new Error(`the private PostgreSQL server does not answer: ${error.message}\n${lastWords()}`)))
)

const lastWords = (): string => {
  const log = path.join(inject("postgresFolder"), "log")
  return fs.existsSync(log) ? fs.readFileSync(log, "utf8").slice(-2_000) : "it left no log"
}

/** Test files run in several processes: one of them makes it. */
const templated = connected(
  "postgres",
  Effect.gen(function* () {
    const { sql } = yield* Database.Database
    const connection = yield* sql.reserve
    yield* connection.execute("select pg_advisory_lock(1)", [], undefined)
    const found = yield* connection.execute("select from pg_database where datname = $1", [template], undefined)
    if (found.length > 0) return
    const making = `${template}_new`
    yield* connection.execute(`drop database if exists ${making}`, [], undefined)
    yield* connection.execute(`create database ${making}`, [], undefined)
    yield* connected(making, migrate)
    yield* connection.execute(`alter database ${making} rename to ${template}`, [], undefined)
  }).pipe(Effect.scoped)
)

/** The URL of a new database, with all tables; or `empty`, without any, and in another encoding if that is asked for. */
export const url = (content: "migrated" | "empty" = "migrated", encoding = "UTF8"): Effect.Effect<Redacted.Redacted<string>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const name = `test_${randomBytes(6).toString("hex")}`
    yield* ready
    if (content === "migrated") yield* templated
    const from = content === "migrated" ? template : "template0"
    yield* Effect.acquireRelease(run("postgres", `create database ${name} template ${from} encoding ${encoding} strategy file_copy`), () =>
      Effect.ignore(run("postgres", `drop database ${name} with (force)`))
    )
    return server(name)
  }).pipe(Database.onLiveClock, Effect.orDie)

/** A database of its own, as an application sees it. */
export const layer = (options: Database.Pooling = {}): Layer.Layer<Database.Database, SqlError> =>
  Layer.unwrap(Effect.map(url(), (url) => Database.layer({ ...options, url })))

/** The lines of the plan by which a connection of ours runs this, whatever it is given. */
export const genericPlan = Effect.fnUntraced(function* (text: string, parameters: ReadonlyArray<{ readonly oid: number }>) {
  const { sql } = yield* Database.Database
  const types = yield* sql<{ name: string }>`
    select oid::regtype::text as name from unnest(${parameters.map(({ oid }) => oid)}::oid[]) with ordinality as given(oid, n) order by n`
  const list = (items: ReadonlyArray<string>) => (items.length === 0 ? "" : `(${items.join(", ")})`)
  yield* sql.unsafe(`prepare asked ${list(types.map(({ name }) => name))} as ${text}`)
  const plan = yield* sql.unsafe<{ "QUERY PLAN": string }>(`explain (costs off) execute asked ${list(types.map(() => "null"))}`)
  yield* sql`deallocate asked`
  return plan.map((row) => row["QUERY PLAN"])
})

/**
 * One database for all scenarios of a test file, opened when first asked for and emptied before each: a set of its own
 * for each of them, at a fraction of what a database costs.
 */
export const emptied = <E>(database: Layer.Layer<Database.Database, E>): Layer.Layer<Database.Database, E> => {
  const scope = Scope.makeUnsafe()
  const memoMap = Layer.makeMemoMapUnsafe()
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  const opened: Effect.Effect<Context.Context<Database.Database>, E> = Database.onLiveClock(Layer.buildWithMemoMap(database, memoMap, scope))
  return Layer.effectContext(Effect.tap(opened, (services) => Effect.orDie(Effect.provideContext(empty, services))))
}

const empty = Effect.gen(function* () {
  const { sql } = yield* Database.Database
  const kept = ["migration", "log_head", "relay"]
  const found = yield* sql<{ name: string }>`select tablename as name from pg_tables where schemaname = 'mailroom'`
  const names = found.map(({ name }) => name).filter((name) => !kept.includes(name))
  // A scenario leaves little; to truncate would make each table and index a file of its own anew.
  const deletions = names.map((name, index) => `d${index} as (delete from mailroom.${name})`)
  yield* sql.unsafe(`with ${deletions.join(", ")} select`)
  yield* sql`update mailroom.log_head set position = 0`
  yield* sql`update mailroom.relay set position = 0, holder = '', held_until_ms = 0`
})
