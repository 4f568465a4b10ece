/**
 * The adapters of a durable deployment, as its settings choose them: the store
 * is PostgreSQL, and what stands in it is the truth; the queue, the limiter and
 * the blobs are there too, unless a setting names another place.
 */
import { Data, Effect, Layer, Redacted } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import * as FileBlobStore from "../adapters/node/FileBlobStore.ts"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as Postgres from "../adapters/postgres/Database.ts"
import * as Hosts from "../adapters/postgres/Hosts.ts"
import * as JobNews from "../adapters/postgres/JobNews.ts"
import * as Migrations from "../adapters/postgres/Migrations.ts"
import * as Pooler from "../adapters/postgres/Pooler.ts"
import * as PostgresBlobStore from "../adapters/postgres/PostgresBlobStore.ts"
import * as PostgresJobQueue from "../adapters/postgres/PostgresJobQueue.ts"
import * as PostgresRateLimiter from "../adapters/postgres/PostgresRateLimiter.ts"
import * as PostgresStore from "../adapters/postgres/PostgresStore.ts"
import * as RedisClient from "../adapters/redis/RedisClient.ts"
import * as RedisJobQueue from "../adapters/redis/RedisJobQueue.ts"
import * as RedisRateLimiter from "../adapters/redis/RedisRateLimiter.ts"
import { PoolGauge } from "../core/Metrics.ts"
import type { BlobStore } from "../core/ports/BlobStore.ts"
import type { JobQueue } from "../core/ports/JobQueue.ts"
import type { RateLimiter } from "../core/ports/RateLimiter.ts"
import type { Store } from "../core/ports/Store.ts"
import * as ClockWatch from "./ClockWatch.ts"
import { ConfigFaults, settings, type Config, type Deployment } from "./Config.ts"
import * as FileFault from "./FileFault.ts"

/** The database cannot be used as it is; one line. */
export class DatabaseFault extends Data.TaggedError("DatabaseFault")<{ readonly message: string }> {}

/** Where the database is, without credentials. */
export const placeOf = ({ databaseUrl }: Pick<Deployment, "databaseUrl">): string => {
  const hosts = Hosts.hostsOf(databaseUrl) ?? []
  const path = hosts.length === 0 ? "" : new URL(Redacted.value(hosts[0]!.url)).pathname
  return `${hosts.map(Hosts.nameOf).join(",")}${path === "/" ? "" : path}`
}

/**
 * True when a certificate was shown that nobody here vouches for, or that is out of date or another's: Node's words, which all
 * name it. A server that wants one of ours speaks of a client's.
 */
export const isDistrust = (words: string): boolean => /(?<!client )\bcertificate\b/i.test(words)

/** What to do then. */
export const trustAdvice = (place = "NODE_EXTRA_CA_CERTS"): string =>
  `Have the server show a certificate that is valid now and for this name; the file of a private authority goes into ${place}.`

/** A pool of connections to the database of these settings. */
export const database = (config: Deployment, name: string) =>
  Postgres.layer({
    url: config.databaseUrl,
    connectionsMax: config.databasePool,
    prepare: config.databasePrepare,
    applicationName: `mailroom ${name}`
  }).pipe(
    Layer.catchTag("SqlError", (error) => Layer.effectContext(unreachable(config)(error)))
  )

const unreachable = (config: Deployment) => (error: SqlError) => {
  const advice = connectionAdvice(config, error)
  const reason = Postgres.reasonOf(error)
  const next = advice === null ? "" : `. ${advice}`
  return new DatabaseFault({
    message: Postgres.isConnectionLost(error)
      ? `the database at ${placeOf(config)} cannot be reached: ${reason}${next}`
      : `the database at ${placeOf(config)} refuses: ${reason}${next || "; `mailroom doctor` says what it wants"}`
  })
}

/** What to do where it is not the server that is away; null: that, or nobody knows. */
export const connectionAdvice = (config: Pick<Deployment, "databasePrepare">, error: SqlError): string | null => {
  const parameter = Pooler.refusedParameter(error)
  if (parameter !== null) {
    return `A pooler is between: ${config.databasePrepare ? `set ${settings.databasePrepare.name}=false` : `take ${parameter} out of ${settings.databaseUrl.name}`}, or have it ignore what it does not know (docs/deploy.md, Poolers).`
  }
  if (Postgres.isWithoutPrimary(error)) {
    return `Name the primary in ${settings.databaseUrl.name}, beside its standbys if you like (\`host1:5432,host2:5432\`), or promote one of them (docs/deploy.md, Failover).`
  }
  if (Postgres.isNoneFree(error)) {
    return "If a pooler is between, give it a place for each connection of each process, and room for commands (docs/deploy.md, Poolers); else look at what holds the server up."
  }
  const advice = adviceByCode[Postgres.codeOf(error)]
  if (advice !== undefined) return advice
  return isDistrust(Postgres.reasonOf(error)) ? trustAdvice() : null
}

/** Where the server answers, and lets nobody in: by its code (SQLSTATE). */
const adviceByCode: Readonly<Record<string, string>> = {
  // invalid_password, which it also says of a role that is not there.
  "28P01": `Mend the user or the password in ${settings.databaseUrl.name}, where what URLs use for themselves is percent-encoded (\`@\` is %40), or give the role that password.`,
  // invalid_authorization_specification
  "28000": `Let the role in ${settings.databaseUrl.name} log in, by a line of pg_hba.conf that is for it and for where it comes from; make it, if there is none, or name another.`,
  // invalid_catalog_name
  "3D000": `Make the database, then run \`mailroom migrate\`; or name the one that is meant in ${settings.databaseUrl.name}.`
}

/** What a pooler between does that a process cannot work with, and what to do; null if nothing is seen. */
export const poolerFault = (config: Deployment) =>
  Effect.map(Pooler.fault, (fault) =>
    fault === null
      ? null
      : {
          message: `the pooler at ${placeOf(config)} ${fault}`,
          advice:
            fault === "allows no transactions"
              ? "Let it pool by transactions or sessions (docs/deploy.md, Poolers)."
              : `Set ${settings.databasePrepare.name}=false, or let it keep them (docs/deploy.md, Poolers).`
        }
  )

const unpooled = Effect.fnUntraced(function* (config: Deployment) {
  const fault = yield* poolerFault(config)
  if (fault !== null) return yield* new DatabaseFault({ message: `${fault.message}. ${fault.advice}` })
})

const current = (config: Deployment) =>
  Migrations.current.pipe(
    Effect.catchTag("SqlError", (error) => Effect.fail(unreachable(config)(error))),
    Effect.tap(() => unpooled(config))
  )

/** Fails unless every step of this version has been taken. */
const migrated = Effect.fnUntraced(function* (config: Deployment) {
  const { missing, unknown } = yield* current(config)
  if (missing.length > 0) {
    return yield* new DatabaseFault({ message: `the database lacks ${missing.join(", ")}; run \`mailroom migrate\`` })
  }
  if (unknown.length > 0) yield* Effect.logWarning(`the database was migrated by a later version: ${unknown.join(", ")}`)
})

/** Takes the steps that are missing; a database that is not there is told apart from one that refuses. */
export const migrate = (config: Deployment) => Effect.andThen(current(config), Migrations.migrate)

type Choice<Port, R = never> = Layer.Layer<Port, RedisClient.RedisUnavailable, R>

type Redis = Layer.Layer<RedisClient.RedisClient, RedisClient.RedisUnavailable> | null

const redisOf = ({ redisUrl }: Config): Redis => (redisUrl === null ? null : RedisClient.layer({ url: redisUrl }))

/** The truth, and the queue beside it or in it. */
const storeAndQueue = ({ queue }: Config, redis: Redis): Choice<Store | JobQueue, Postgres.Database | JobNews.JobNews> =>
  queue === "redis" && redis !== null
    ? Layer.merge(PostgresStore.layerWithoutJobs, Layer.provide(RedisJobQueue.layer, redis))
    : Layer.merge(PostgresStore.layer, PostgresJobQueue.layer)

const limiter = (redis: Redis): Choice<RateLimiter, Postgres.Database> =>
  redis === null ? PostgresRateLimiter.layer : Layer.provide(RedisRateLimiter.layer, redis)

const blobs = ({ blobs }: Config): Layer.Layer<BlobStore, ConfigFaults, Postgres.Database> =>
  blobs === "postgres"
    ? PostgresBlobStore.layerWithStore
    : FileBlobStore.layer(blobs).pipe(
        Layer.catchTag("BlobUnavailable", ({ cause }) =>
          Layer.effectContext(Effect.fail(new ConfigFaults({ faults: [`${settings.blobs.name}: ${blobs.directory}: ${FileFault.folderReasonOf(cause)}`] })))
        )
      )

/** For `/metrics`. */
const pool = Layer.effect(PoolGauge, Effect.map(Postgres.Database, ({ pool }) => pool))

/** Every port that keeps something, over a database that `ready` has made fit for it; and how far our clock is from its. */
export const over = <E, R>(config: Config, database: Layer.Layer<Postgres.Database, E>, ready: Effect.Effect<unknown, R, Postgres.Database>) => {
  const redis = redisOf(config)
  return Layer.mergeAll(storeAndQueue(config, redis), limiter(redis), blobs(config), crypto(config), RfcMime.layer, ClockWatch.layer, pool).pipe(
    Layer.provideMerge(JobNews.layer),
    Layer.provideMerge(Layer.effectDiscard(ready)),
    Layer.provideMerge(database)
  )
}

/** The ports of a process of this deployment; `name` is what the database's own lists call it. Refuses tables that are not up to date. */
export const layer = (config: Deployment, name: string) => over(config, database(config, name), migrated(config))

/** What management commands want of it: one short-lived process, and no more than it needs. */
export const operator = (config: Deployment) =>
  Layer.mergeAll(storeAndQueue(config, redisOf(config)), crypto(config), NodeResolver.layer).pipe(
    Layer.provideMerge(JobNews.layer),
    Layer.provideMerge(Layer.effectDiscard(migrated(config))),
    Layer.provideMerge(database({ ...config, databasePool: 2 }, "operator"))
  )

export const crypto = ({ sealingKeys }: Pick<Config, "sealingKeys">) => NodeCrypto.layer({ sealingKeys })
