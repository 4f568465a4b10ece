/**
 * The tables' history: forward only, each step in a transaction of its own with
 * its row in `mailroom.migration`, one runner at a time. A step adds; what it
 * would take away or change the meaning of waits until no running version
 * needs it. So processes of the version before work on while a step is taken.
 */
import { Clock, Data, Duration, Effect } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { reasonOf, StatementDeadline } from "./Connections.ts"
import { Database } from "./Database.ts"
import * as Indexes from "./Indexes.ts"
import * as truth from "./migrations/0001_truth.ts"
import * as jobs from "./migrations/0002_jobs.ts"
import * as blobs from "./migrations/0003_blobs.ts"
import * as dayCounts from "./migrations/0004_day_counts.ts"
import * as claims from "./migrations/0005_claims.ts"
import * as inbound from "./migrations/0006_inbound.ts"
import * as domains from "./migrations/0007_domains.ts"
import * as payloads from "./migrations/0008_payloads.ts"
import * as bodies from "./migrations/0009_bodies.ts"
import * as claimsByKey from "./migrations/0010_claims_by_key.ts"
import * as contentColumns from "./migrations/0011_content_columns.ts"
import * as sharedBodies from "./migrations/0012_shared_bodies.ts"
import * as bodiesOfEvents from "./migrations/0013_bodies_of_events.ts"
import * as mailboxesOfDomains from "./migrations/0014_mailboxes_of_domains.ts"
import * as quickCompression from "./migrations/0015_quick_compression.ts"
import * as compressedBlobs from "./migrations/0016_compressed_blobs.ts"
import * as messageAges from "./migrations/0017_message_ages.ts"
import * as attachmentUses from "./migrations/0018_attachment_uses.ts"
import * as submissionsOfMessages from "./migrations/0019_submissions_of_messages.ts"
import * as bodiesOfAPage from "./migrations/0020_bodies_of_a_page.ts"
import * as attachmentAges from "./migrations/0021_attachment_ages.ts"
import * as logFronts from "./migrations/0022_log_fronts.ts"
import * as earlyVacuum from "./migrations/0023_early_vacuum.ts"
import * as jobsByKey from "./migrations/0024_jobs_by_key.ts"
import * as cutTimes from "./migrations/0025_cut_times.ts"
import * as endpointPositions from "./migrations/0026_endpoint_positions.ts"

export interface Migration {
  readonly name: string
  readonly statements: ReadonlyArray<string>
}

/** In order. A name never changes, nor does what stands under it. */
export const migrations: ReadonlyArray<Migration> = [
  { name: "0001_truth", statements: truth.statements },
  { name: "0002_jobs", statements: jobs.statements },
  { name: "0003_blobs", statements: blobs.statements },
  { name: "0004_day_counts", statements: dayCounts.statements },
  { name: "0005_claims", statements: claims.statements },
  { name: "0006_inbound", statements: inbound.statements },
  { name: "0007_domains", statements: domains.statements },
  { name: "0008_payloads", statements: payloads.statements },
  { name: "0009_bodies", statements: bodies.statements },
  { name: "0010_claims_by_key", statements: claimsByKey.statements },
  { name: "0011_content_columns", statements: contentColumns.statements },
  { name: "0012_shared_bodies", statements: sharedBodies.statements },
  { name: "0013_bodies_of_events", statements: bodiesOfEvents.statements },
  { name: "0014_mailboxes_of_domains", statements: mailboxesOfDomains.statements },
  { name: "0015_quick_compression", statements: quickCompression.statements },
  { name: "0016_compressed_blobs", statements: compressedBlobs.statements },
  { name: "0017_message_ages", statements: messageAges.statements },
  { name: "0018_attachment_uses", statements: attachmentUses.statements },
  { name: "0019_submissions_of_messages", statements: submissionsOfMessages.statements },
  { name: "0020_bodies_of_a_page", statements: bodiesOfAPage.statements },
  { name: "0021_attachment_ages", statements: attachmentAges.statements },
  { name: "0022_log_fronts", statements: logFronts.statements },
  { name: "0023_early_vacuum", statements: earlyVacuum.statements },
  { name: "0024_jobs_by_key", statements: jobsByKey.statements },
  { name: "0025_cut_times", statements: cutTimes.statements },
  { name: "0026_endpoint_positions", statements: endpointPositions.statements }
]

/** What to do about it, behind what the server said. */
const remedies: { readonly [R in SqlError["reason"]["_tag"]]?: string } = {
  AuthorizationError: ". Let a user migrate who owns the database",
  LockTimeoutError: ". Nothing of it is done, for another transaction, such as a dump's, holds a table that it changes: run it again when that has ended"
}

/** A step failed, and nothing of it is left. The steps before it stay. */
export class MigrationFailed extends Data.TaggedError("MigrationFailed")<{ readonly migration: string; readonly cause: SqlError }> {
  override readonly message = `migration ${this.migration} failed: ${reasonOf(this.cause)}${remedies[this.cause.reason._tag] ?? ""}`
}

/** The database has steps that this version does not know. */
export class DatabaseNewer extends Data.TaggedError("DatabaseNewer")<{ readonly unknown: ReadonlyArray<string> }> {
  override readonly message =
    `the database is newer than this version: it has ${this.unknown.join(", ")}. Run the version that made them, or a later one`
}

/** A database of another encoding would take the tables, and then refuse what people write. */
export class DatabaseNotUtf8 extends Data.TaggedError("DatabaseNotUtf8")<{ readonly encoding: string }> {
  override readonly message = `the database keeps its text in ${this.encoding}; make one \`with encoding 'UTF8' template template0\``
}

export interface Current {
  readonly applied: ReadonlyArray<string>
  /** Of this version, but not taken yet. */
  readonly missing: ReadonlyArray<string>
  /** Taken by a later version. */
  readonly unknown: ReadonlyArray<string>
}

/** What has been done and what has not. Reads only. */
export const currentOf = Effect.fnUntraced(function* (
  list: ReadonlyArray<Migration>
): Effect.fn.Return<Current, SqlError | DatabaseNotUtf8, Database> {
  const { sql } = yield* Database
  const [found] = yield* sql<{ encoding: string; table: string | null }>`
    select current_setting('server_encoding') as encoding, to_regclass('mailroom.migration')::text as "table"`
  const { encoding, table } = found!
  if (encoding !== "UTF8") return yield* new DatabaseNotUtf8({ encoding })
  const rows = table === null ? [] : yield* sql<{ name: string }>`select name from mailroom.migration order by name`
  const applied = rows.map(({ name }) => name)
  return {
    applied,
    missing: list.map(({ name }) => name).filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !list.some((migration) => migration.name === name))
  }
})

export interface FoundIndexes {
  /** All that there ought to be. */
  readonly expected: ReadonlyArray<string>
  readonly missing: ReadonlyArray<string>
  /** There, but not made to their end: no plan uses them. */
  readonly invalid: ReadonlyArray<string>
}

/** The indexes of a database in which each step is taken, and no later one. Reads only. */
export const currentIndexes: Effect.Effect<FoundIndexes, SqlError, Database> = Effect.gen(function* () {
  const { sql } = yield* Database
  const found = yield* sql<{ name: string; isValid: boolean }>`
    select i.relname::text as name, x.indisvalid and x.indisready as "isValid"
    from pg_index x join pg_class i on i.oid = x.indexrelid where i.relnamespace = to_regnamespace('mailroom')`
  const valid = new Map(found.map(({ name, isValid }) => [name, isValid]))
  return {
    expected: Indexes.names,
    missing: Indexes.names.filter((name) => !valid.has(name)),
    invalid: Indexes.names.filter((name) => valid.get(name) === false)
  }
})

/** Takes the steps that are missing. */
export const migrateTo = Effect.fnUntraced(
  function* (
    list: ReadonlyArray<Migration>
  ): Effect.fn.Return<{ readonly applied: ReadonlyArray<string> }, MigrationFailed | DatabaseNewer | DatabaseNotUtf8, Database> {
    const { missing, unknown } = yield* Effect.catchTag(currentOf(list), "SqlError", (cause) =>
      Effect.fail(new MigrationFailed({ migration: "check", cause }))
    )
    if (unknown.length > 0) return yield* new DatabaseNewer({ unknown })
    // Whoever may read and write the tables need not be one who may make them.
    if (missing.length === 0) return { applied: [] }
    yield* prepare
    const applied: Array<string> = []
    for (const migration of list) {
      if (yield* take(migration)) applied.push(migration.name)
    }
    return { applied }
  },
  Effect.provideService(StatementDeadline, Duration.hours(4))
)

export const migrate = migrateTo(migrations)
export const current = currentOf(migrations)

/** One runner at a time: the number is of no meaning, but for being ours. */
const lockKey = 5_311_776_021

const prepare = Effect.gen(function* () {
  const { sql } = yield* Database
  yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`select pg_advisory_xact_lock(${lockKey})`
      yield* sql`create schema if not exists mailroom`
      yield* sql`create table if not exists mailroom.migration (name text collate "C" primary key, applied_ms bigint not null)`
    })
  )
}).pipe(Effect.mapError((cause) => new MigrationFailed({ migration: "schema", cause })))

/** True when it was this run that took the step. */
const take = Effect.fnUntraced(
  function* (migration: Migration) {
    const { sql } = yield* Database
    const now = yield* Clock.currentTimeMillis
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`select pg_advisory_xact_lock(${lockKey})`
        const rows = yield* sql`select from mailroom.migration where name = ${migration.name}`
        if (rows.length > 0) return false
        // A lock on a busy table makes all others wait behind it: rather fail than hold up the service.
        yield* sql`set local lock_timeout = '5s'`
        for (const statement of migration.statements) yield* sql.unsafe(statement).unprepared
        yield* sql`insert into mailroom.migration (name, applied_ms) values (${migration.name}, ${now})`
        return true
      })
    )
  },
  (effect, { name }) => Effect.mapError(effect, (cause) => new MigrationFailed({ migration: name, cause }))
)
