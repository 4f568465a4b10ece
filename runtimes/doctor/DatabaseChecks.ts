/** The database, as a deployment needs it. One connection, and nothing but reads. */
import { Effect, Layer, Option, Redacted, Result } from "effect"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import * as FileBlobStore from "../../adapters/node/FileBlobStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Postgres from "../../adapters/postgres/Database.ts"
import * as Hosts from "../../adapters/postgres/Hosts.ts"
import * as Migrations from "../../adapters/postgres/Migrations.ts"
import * as Reads from "../../adapters/postgres/Reads.ts"
import { clockOffsetMax } from "../../core/ClockOffset.ts"
import * as Routing from "../../core/operations/Routing.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { connectionAdvice, placeOf, poolerFault } from "../Adapters.ts"
import { settings, type Deployment } from "../Config.ts"
import * as FileFault from "../FileFault.ts"
import * as SealedSecrets from "../SealedSecrets.ts"
import { unbroken, voice, type Reader, type Voice } from "./Findings.ts"

const versionMin = 150_000
/** Milliseconds; half of what a process may be off. */
const clockOffsetNoted = clockOffsetMax / 2
/** Of each kind, at either end. */
const blobsTried = 20

/**
 * What the checks behind it want is there, or they are left out. Each statement has its own deadline, so one that waits for a
 * lock takes no other's place; a server that answers nothing is given up by who asked for all of this.
 */
export const database = Effect.fnUntraced(function* (config: Deployment, reader: Reader) {
  const says = voice("database", reader)
  const opened = yield* Effect.result(
    Layer.build(
      Postgres.layer({ url: config.databaseUrl, connectionsMax: 2, applicationName: "mailroom doctor", prepare: config.databasePrepare })
    ).pipe(Effect.flatMap((context) => Effect.provideContext(server(config, says), context).pipe(Effect.as(context))))
  )
  if (Result.isFailure(opened)) {
    return yield* says.fail(
      `${placeOf(config)}: ${Postgres.reasonOf(opened.failure)}`,
      connectionAdvice(config, opened.failure) ?? `Start PostgreSQL, open the way to it, or mend ${settings.databaseUrl.name}.`
    )
  }
  const checks = {
    ...(hostsOf(config).length > 1 && { servers: servers(config) }),
    connections: connections(config),
    clock,
    migrations,
    indexes,
    locks,
    rights,
    durability: durability(config),
    secrets: sealed(config),
    blobs: blobs(config),
    postmaster: postmaster(config)
  }
  for (const [name, check] of Object.entries(checks)) {
    yield* reader.began(name)
    const voiced = voice(name, reader)
    yield* check(voiced).pipe(
      Effect.catch((error) => voiced.fail(describe(error), adviceOn(error))),
      unbroken(voiced),
      Effect.provideContext(opened.success)
    )
  }
}, Effect.scoped)

/** The database's own, also where a port has it as its cause. */
const sqlErrorOf = (error: unknown): SqlError | null => {
  const cause = error instanceof StoreUnavailable ? error.cause : error
  return isSqlError(cause) ? cause : null
}

const adviceOn = (error: unknown): string => {
  const cause = sqlErrorOf(error)
  // insufficient_privilege
  if (cause !== null && Postgres.codeOf(cause) === "42501") return "Look at what is said of `rights`."
  return cause !== null && Postgres.isConnectionLost(cause)
    ? "Look at what it waits for: a lock (pg_stat_activity), a server that hangs, or the way to it."
    : "Look at the checks before this one."
}

const describe = (error: unknown): string => {
  const cause = sqlErrorOf(error)
  return cause !== null ? Postgres.reasonOf(cause) : error instanceof Error ? error.message : String(error)
}

const server = Effect.fnUntraced(function* (config: Deployment, says: Voice) {
  const { sql } = yield* Postgres.Database
  const [row] = yield* sql<{ number: string; version: string; connections: string; encoding: string; readOnly: boolean }>`
    select current_setting('server_version_num') as number, current_setting('server_version') as version,
      current_setting('max_connections') as connections, current_setting('server_encoding') as encoding,
      current_setting('default_transaction_read_only') = 'on' as "readOnly"`
  const { number, version, connections, encoding, readOnly } = row!
  const place = placeOf(config)
  if (Number(number) < versionMin) yield* says.fail(`PostgreSQL ${version} at ${place}`, "Mailroom wants version 15 or later.")
  else if (readOnly) {
    yield* says.fail(`${place} is set to read only, and takes no writes`, "Set default_transaction_read_only = off, for the server, this database or this user.")
  } else if (encoding !== "UTF8") yield* says.fail(`${place} keeps its text in ${encoding}`, "Make a database with encoding 'UTF8' template template0.")
  else yield* says.ok(`PostgreSQL ${version} at ${place}`)
  if (config.databasePool > Number(connections) / 2) {
    yield* says.warn(
      `a process of ours may open ${config.databasePool} of ${connections} connections`,
      `Raise max_connections, lower ${settings.databasePool.name}, or put a pooler between.`
    )
  }
  if (!isEncrypted(config) && !isNear(config)) {
    yield* says.warn("nothing makes sure that the connection is encrypted", `Add ?sslmode=require to ${settings.databaseUrl.name}, unless the network is yours alone.`)
  }
})

/** `allow` and `prefer` do without where the server, or who pretends to be it, offers none. */
const isEncrypted = (config: Deployment): boolean =>
  hostsOf(config).every(({ url }) => ["require", "verify-ca", "verify-full"].includes(new URL(Redacted.value(url)).searchParams.get("sslmode") ?? ""))

/** On this machine, by a socket or by its own address. */
const isNear = (config: Deployment): boolean =>
  hostsOf(config).every(({ host }) => host === "localhost" || host.startsWith("/") || host.startsWith("127.") || host === "::1")

const hostsOf = ({ databaseUrl }: Deployment) => Hosts.hostsOf(databaseUrl) ?? []

/** Each server by itself: one that does not answer is found out before it is wanted. */
const servers = (config: Deployment) => Effect.fnUntraced(function* (says: Voice) {
  const found = yield* Effect.forEach(hostsOf(config), (host) => Effect.map(Effect.result(startOf(config, host)), (start) => ({ host, start })), {
    concurrency: "unbounded"
  })
  const primaries: Array<string> = []
  const starts = new Set<string>()
  for (const { host, start } of found) {
    if (Result.isSuccess(start)) {
      primaries.push(Hosts.nameOf(host))
      starts.add(start.success)
    } else if (!Postgres.isWithoutPrimary(start.failure)) {
      yield* says.warn(
        `${Hosts.nameOf(host)}: ${Postgres.reasonOf(start.failure)}`,
        connectionAdvice(config, start.failure) ?? `Start it, or open the way to it: it could not take over. Or take it out of ${settings.databaseUrl.name}.`
      )
    }
  }
  if (primaries.length === 0) {
    return yield* says.fail(`none of ${found.length} servers could be seen to be the primary`, "See to what is said of each, and run the doctor again.")
  }
  // Two ways to one server are fine, as through two poolers.
  if (starts.size > 1) {
    return yield* says.fail(
      `${primaries.join(" and ")} take writes, and are not one server: each process uses the first that it reaches`,
      `Stop all but one of them, or name one cluster in ${settings.databaseUrl.name}.`
    )
  }
  yield* says.ok(`${primaries.join(" and ")} of ${found.length} ${primaries.length === 1 ? "is" : "are"} the primary`)
})

/** When it started, by which two ways to one are told; it fails on a standby. */
const startOf = (config: Deployment, { url }: Hosts.Host) =>
  Effect.gen(function* () {
    const { rows } = yield* Postgres.Database
    const [row] = yield* rows<{ start: string }>("select pg_postmaster_start_time()::text as start")
    return row!.start
  }).pipe(Effect.provide(Layer.fresh(Postgres.layer({ url, connectionsMax: 1, applicationName: "mailroom doctor", prepare: config.databasePrepare }))))

/** Any end to transactions that nobody goes on with will do. */
const transactionsEnd = "idle_in_transaction_session_timeout"

/** Whether our statements and settings stay on a connection: a pooler may forget the ones and ignore the others. */
const connections = (config: Deployment) => Effect.fnUntraced(function* (says: Voice) {
  const fault = yield* poolerFault(config)
  if (fault !== null) return yield* says.fail(fault.message, fault.advice)
  const { sql } = yield* Postgres.Database
  const wanted: Readonly<Record<string, string>> = Postgres.sessionSettings
  const rows = yield* sql<{ name: string; setting: string }>`
    select name, setting from pg_settings where name in ${sql.in(Object.keys(wanted))} order by name`
  const others = rows.filter(({ name, setting }) => (name === transactionsEnd ? setting === "0" : setting !== wanted[name]))
  if (others.length === 0) return yield* says.ok("have the settings that ours want")
  yield* says.warn(
    `lack settings that ours want: ${others.map(({ name, setting }) => `${name} is ${setting}`).join(", ")}`,
    "Give them to the role (docs/deploy.md, Poolers): without them plans get slow while tables grow, what a process has locked as it died stays locked, or commits fail that were only made at the same time."
  )
})

const clock = Effect.fnUntraced(function* (says: Voice) {
  const { clockOffset } = yield* Postgres.Database
  const offset = yield* clockOffset
  const message = `${Math.abs(offset)} ms ${offset < 0 ? "ahead of" : "behind"} the database's`
  if (Math.abs(offset) > clockOffsetMax) yield* says.fail(message, "Set this machine's clock, by NTP: a process that is more than 5 s off takes no work.")
  else if (Math.abs(offset) > clockOffsetNoted) yield* says.warn(message, "Set this machine's clock, by NTP.")
  else yield* says.ok(message)
})

const migrations = Effect.fnUntraced(function* (says: Voice) {
  const { applied, missing, unknown } = yield* Migrations.current
  if (missing.length > 0) yield* says.fail(`missing: ${missing.join(", ")}`, "Run `mailroom migrate`.")
  if (unknown.length > 0) yield* says.warn(`of a later version: ${unknown.join(", ")}`, "Bring this version up to the one that migrated.")
  if (missing.length + unknown.length === 0) yield* says.ok(`all ${applied.length} taken`)
})

/** Of a later version's we do not know which there are. */
const indexes = Effect.fnUntraced(function* (says: Voice) {
  const steps = yield* Migrations.current
  if (steps.missing.length + steps.unknown.length > 0) return
  const { expected, missing, invalid } = yield* Migrations.currentIndexes
  if (missing.length > 0) {
    yield* says.fail(
      `missing: ${missing.join(", ")}`,
      "A restore that broke off leaves it so. Stop all processes, and restore anew, into an empty database; or make the rest of it: pg_restore --section=post-data."
    )
  }
  for (const name of invalid) {
    yield* says.fail(`${name} was not made to its end, and is not used`, `reindex index mailroom.${name}`)
  }
  if (missing.length + invalid.length === 0) yield* says.ok(`all ${expected.length} are there`)
})

const rights = Effect.fnUntraced(function* (says: Voice) {
  const { sql } = yield* Postgres.Database
  const [found] = yield* sql<{ user: string; quoted: string; there: boolean; usable: boolean | null }>`
    select current_user::text as user, quote_ident(current_user) as quoted, to_regnamespace('mailroom') is not null as there,
      has_schema_privilege(to_regnamespace('mailroom'), 'usage') as usable`
  const { user, quoted, there, usable } = found!
  if (!there) return yield* says.fail("there is no schema mailroom yet", "Run `mailroom migrate`.")
  if (usable !== true) return yield* says.fail(`${user} may not use the schema mailroom`, `grant usage on schema mailroom to ${quoted}`)
  const closed = yield* sql<{ name: string }>`
    select c.relname::text as name from pg_class c
    where c.relnamespace = to_regnamespace('mailroom') and (
      c.relkind in ('r', 'p') and not (
        has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
        and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
      or c.relkind = 'S' and not has_sequence_privilege(c.oid, 'usage')
        -- An identity column's is used with the right to insert.
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i'))
    order by 1`
  if (closed.length > 0) {
    yield* says.fail(
      `${user} may not read and write ${closed.map(({ name }) => name).join(", ")}`,
      `grant select, insert, update, delete on all tables in schema mailroom to ${quoted}`
    )
  }
  // Everybody may, unless that was taken away, as hardened databases do.
  const uncalled = yield* sql<{ name: string }>`
    select distinct p.proname::text as name from pg_proc p
    where p.pronamespace = to_regnamespace('mailroom') and p.prorettype <> 'trigger'::regtype and not has_function_privilege(p.oid, 'execute')
    order by 1`
  if (uncalled.length > 0) {
    yield* says.fail(
      `${user} may not call ${uncalled.map(({ name }) => name).join(", ")}`,
      `grant execute on all functions in schema mailroom to ${quoted}`
    )
  }
  if (closed.length + uncalled.length === 0) yield* says.ok(`${user} may read and write every table`)
})

/** Who keeps others from reading or writing a table. Most locks are gone in a moment, as those of a migration are. */
const locks = Effect.fnUntraced(function* (says: Voice) {
  const first = yield* tableLocks
  if (first.length > 0) yield* Effect.sleep("1 second")
  const pids = new Set(first.map(({ pid }) => pid))
  const held = first.length === 0 ? [] : (yield* tableLocks).filter(({ pid }) => pids.has(pid))
  if (held.length === 0) return yield* says.ok("nobody holds up a table")
  for (const { pid, application, seconds, mode, tables } of held) {
    const who = pid === null ? "a prepared transaction" : `session ${pid}${application ? ` (${application})` : ""}`
    yield* says.fail(
      `${who} has locked ${tables}${seconds === null ? "" : ` for ${seconds} s`} (${mode}): all that ${
        mode === "AccessExclusiveLock" ? "reads or writes" : "writes"
      } ${tables.includes(",") ? "them" : "it"} waits, and is given up after 10 s`,
      pid === null ? "Commit it, or roll it back: see pg_prepared_xacts." : `Let it come to its end, or end it: select pg_terminate_backend(${pid}).`
    )
  }
})

/** By session and mode. For how long another user's has been at it is told to who may see that. */
const tableLocks = Effect.gen(function* () {
  const { sql } = yield* Postgres.Database
  return yield* sql<{ pid: number | null; application: string | null; seconds: number | null; mode: string; tables: string }>`
    select l.pid, a.application_name as application, l.mode,
      extract(epoch from clock_timestamp() - min(a.xact_start))::int as seconds,
      string_agg(distinct 'mailroom.' || c.relname, ', ' order by 'mailroom.' || c.relname) as tables
    from pg_locks l
    join pg_class c on c.oid = l.relation and c.relnamespace = to_regnamespace('mailroom') and c.relkind in ('r', 'p')
    left join pg_stat_activity a on a.pid = l.pid
    where l.granted and l.database = (select oid from pg_database where datname = current_database())
      and l.mode in ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock')
    group by l.pid, a.application_name, l.mode order by l.pid, l.mode`
})

const durability = (config: Deployment) => Effect.fnUntraced(function* (says: Voice) {
  const { sql } = yield* Postgres.Database
  const rows = yield* sql<{ name: string; setting: string }>`
    select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')`
  const off = rows.filter(({ setting }) => setting === "off").map(({ name }) => name).toSorted()
  if (off.length > 0) {
    yield* says.fail(`${off.join(" and ")} ${off.length === 1 ? "is" : "are"} off: a crash loses accepted mail`, `Set ${off.join(", ")} = on for this database.`)
  }
  const { missing, isFollowed } = yield* confirmation
  if (missing !== null) {
    yield* says.fail(
      `${missing}: sends are answered 503, and mail that comes in 451`,
      "Start a standby that synchronous_standby_names names, and open its way to the primary; or empty that setting, and do without."
    )
  }
  if (off.length > 0 || missing !== null) return
  // A standby that is there for other things is not named in the URL.
  if (isFollowed && hostsOf(config).length > 1) {
    return yield* says.warn(
      "commits wait for no standby: a failover loses what it has not got",
      "Name it in synchronous_standby_names, if that must not be. docs/deploy.md says what is lost (Failover)."
    )
  }
  yield* says.ok("what is committed is on disk")
})

/**
 * What keeps commits that wait for a standby from their end, null if nothing does; and whether one follows that none waits for.
 * Without rights to look at others, no more is seen of a standby than that it is connected; but of sessions that are the same
 * user's, for what they wait.
 */
const confirmation = Effect.gen(function* () {
  const { sql } = yield* Postgres.Database
  const [row] = yield* sql<{ expected: boolean; connected: number; waiting: number }>`
    select current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local') as expected,
      (select count(*)::int from pg_stat_replication) as connected,
      (select count(*)::int from pg_stat_activity
        where wait_event = 'SyncRep' and clock_timestamp() - query_start > interval '2 seconds') as waiting`
  const { expected, connected, waiting } = row!
  const missing =
    expected && connected === 0
      ? "commits wait for a standby, and none is connected"
      : waiting > 0
        ? `commits wait for a standby, ${waiting} of them for more than 2 s`
        : null
  return { missing, isFollowed: !expected && connected > 0 }
})

/** Whether the ring opens what is stored. */
const sealed = (config: Deployment) => Effect.fnUntraced(function* (says: Voice) {
  if (config.sealingKeys.length === 0 || (yield* Migrations.current).missing.length > 0) return
  const crypto = yield* Effect.provide(Crypto, NodeCrypto.layer({ sealingKeys: config.sealingKeys }))
  const { unopened, versions } = yield* SealedSecrets.tried(Reads.make(yield* Postgres.Database, { jobsOffered: false }), crypto, config)
  if (unopened.length > 0) {
    return yield* says.fail(SealedSecrets.fault(config, unopened), SealedSecrets.advice)
  }
  const newest = Math.max(...config.sealingKeys.map(({ version }) => version))
  if (versions.some((version) => version < newest)) yield* says.warn("some secrets are sealed by an older key", "Run `mailroom sealing reseal` before the older key is taken away.")
  else yield* says.ok(versions.length === 0 ? "none is stored yet" : "the keys open what is stored")
})

/**
 * Whether blobs that records refer to are where they are looked for: they are not when the setting was changed, or when a
 * disk is not mounted. The oldest and the newest show either.
 */
const blobs = ({ blobs: place }: Deployment) => Effect.fnUntraced(function* (says: Voice) {
  if ((yield* Migrations.current).missing.length > 0) return
  const { sql } = yield* Postgres.Database
  const tried = yield* sql<{ tenantId: string; sha256: string; isInDatabase: boolean }>`
    select tenant_id as "tenantId", sha256, exists (
      select from mailroom.blob where blob.tenant_id = held.tenant_id and blob.sha256 = held.sha256
    ) as "isInDatabase"
    from (
      (select tenant_id, sha256 from mailroom.attachment order by id limit ${blobsTried})
      union (select tenant_id, sha256 from mailroom.attachment order by id desc limit ${blobsTried})
      union (select tenant_id, mime_sha256 from mailroom.message order by id limit ${blobsTried})
      union (select tenant_id, mime_sha256 from mailroom.message order by id desc limit ${blobsTried})
    ) held where sha256 is not null` // a message has no blob until it is built
  if (tried.length === 0) return
  const where = place === "postgres" ? "the database" : place.directory
  const looked = yield* Effect.filter(tried, ({ isInDatabase, tenantId, sha256 }) =>
    place === "postgres" ? Effect.succeed(!isInDatabase) : Effect.map(FileBlobStore.holds(place, tenantId, sha256), (isHeld) => !isHeld)
  ).pipe(Effect.timeoutOption("10 seconds"))
  if (Option.isNone(looked)) {
    return yield* says.fail(
      `${where} does not answer within 10 seconds`,
      "Look at its disk, or at the way to it: whatever wants an attachment waits as long."
    )
  }
  const missing = looked.value
  if (missing.length === 0) return yield* says.ok("the oldest and the newest are where they are looked for")
  const elsewhere = place === "postgres" ? 0 : missing.filter(({ isInDatabase }) => isInDatabase).length
  yield* says.fail(
    `of ${tried.length} that messages and attachments refer to ${missing.length} ${missing.length === 1 ? "is" : "are"} not in ${where}${elsewhere === 0 ? "" : `; the database has ${elsewhere} of them`}`,
    `Set ${settings.blobs.name} to where they are, or mount its disk: nothing is moved when it is changed.`
  )
}, (effect, says) =>
  Effect.catchTag(effect, "BlobUnavailable", ({ cause }) =>
    says.fail(`what is in the folder ${FileFault.reasonOf(cause)}`, "Let this user read it, or run the doctor as one who may.")
  )
)

/** Whether mail for the host's postmaster would be taken now. */
const postmaster = (config: Deployment) => Effect.fnUntraced(function* (says: Voice) {
  const address = config.inboundPostmaster
  if (address === null || (yield* Migrations.current).missing.length > 0) return
  const reads = Reads.make(yield* Postgres.Database, { jobsOffered: false })
  yield* Routing.toMailbox(reads, config.bounceDomain)(address).pipe(
    Effect.andThen(says.ok(`${address} takes mail for it`)),
    Effect.catchTag("ReceiveRefused", ({ message }) =>
      says.fail(`${address} takes none: ${message}`, `Give that address a mailbox that takes mail, or name another in ${settings.inboundPostmaster.name}.`)
    )
  )
})
