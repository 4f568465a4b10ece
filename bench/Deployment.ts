/**
 * The product as an operator runs it: its own processes over a private
 * PostgreSQL server whose commits wait for the disk, with limits on, and
 * ceilings that no load here reaches.
 */
import { Effect, Exit, Redacted, Scope } from "effect"
import { randomBytes } from "node:crypto"
import { rmSync } from "node:fs"
import * as PrivatePostgres from "../adapters/postgres/PrivatePostgres.ts"
import type { Caller } from "./Api.ts"
import * as Cluster from "./Cluster.ts"
import { connected } from "./Copies.ts"
import { found } from "./Founding.ts"
import { cpuMs, postgresCpuMs } from "./Processor.ts"
import { scale, voidIf } from "./Report.ts"

export interface Database {
  readonly folder: string
  readonly url: (database: string) => string
  /** Processor time of the server so far, in milliseconds. */
  readonly cpu: () => number
  readonly stop: () => Promise<void>
}

// Its processor time is lost with it, and what it had to do is done by nobody meanwhile.
voidIf(() => Cluster.endedByThemselves[0] ?? null)

/** Of its log, for a benchmark to write into: more rounds write more. */
const usedMegabytes = scale.of(160 * scale.rounds, 0)

/** So much of its log is kept to be written over. */
const walMegabytes = Math.max(2_048, 2 * usedMegabytes)

/**
 * A server that has run for a while writes into files of its log that it has had before. A new one makes each of them when
 * it is needed, 16 MB of zeros, and every commit waits meanwhile; so it has them made, and a checkpoint gives them back.
 */
const use = (url: string): Promise<void> =>
  connected(url, async (client) => {
    await client.query("select count(pg_logical_emit_message(false, '', repeat('0', 1048576))) from generate_series(1, $1)", [usedMegabytes])
    await client.query("checkpoint")
  })

/** Settings beside those that a test's server has. */
export const openDatabase = async (settings: ReadonlyArray<string> = [], measuresCommits = true): Promise<Database> => {
  const scope = Scope.makeUnsafe()
  const opened = PrivatePostgres.open({ isDurable: true, settings: ["shared_buffers=512MB", `min_wal_size=${walMegabytes}MB`, `max_wal_size=${2 * walMegabytes}MB`, ...settings] })
  const postgres = await Effect.runPromise(Effect.provideService(opened, Scope.Scope, scope))
  await Effect.runPromise(postgres.started)
  const url = (database: string) => Redacted.value(postgres.url(database))
  if (measuresCommits && usedMegabytes > 0) await use(url("postgres"))
  return {
    folder: postgres.folder,
    url,
    cpu: () => postgresCpuMs(postgres.folder),
    stop: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
}

export interface Deployment {
  readonly database: Database
  readonly cluster: Cluster.Cluster
  readonly baseUrl: string
  /** A tenant's callers, in this order. */
  readonly sandbox: Caller
  readonly production: Caller
  readonly variables: Readonly<Record<string, string>>
  /** Processor time of the product's processes and of PostgreSQL so far, in milliseconds. */
  readonly cpu: () => number
  readonly stop: () => Promise<void>
}

export interface Options {
  readonly serves?: number
  readonly workers?: number
  readonly database?: ReadonlyArray<string>
  readonly variables?: Readonly<Record<string, string>>
  /** False where none of what is compared waits for a commit: then the log needs no files from before. */
  readonly measuresCommits?: boolean
}

export const open = async ({
  serves = 1,
  workers = 0,
  database: settings = [],
  variables: others = {},
  measuresCommits = true
}: Options = {}): Promise<Deployment> => {
  const database = await openDatabase(settings, measuresCommits)
  const variables = {
    MAILROOM_MODE: "development",
    MAILROOM_DATABASE_URL: database.url("postgres"),
    MAILROOM_SEALING_KEYS: `1:${randomBytes(32).toString("base64")}`,
    MAILROOM_IP_REQUESTS_PER_MINUTE: "1000000",
    MAILROOM_WEBHOOK_ALLOW_HTTP: "true",
    MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "127.0.0.0/8",
    // Starts them sooner, where one is kept.
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "",
    ...others
  }
  try {
    await Cluster.run(["migrate"], variables)
    const [cluster, [sandbox, production]] = await Promise.all([
      Cluster.start({ serves, workers }, variables),
      found(variables, "bench.example", plan)
    ])
    process.once("exit", () => rmSync(cluster.folder, { recursive: true, force: true })) // also if it is cut short
    return {
      database,
      cluster,
      baseUrl: cluster.baseUrls[0] ?? "",
      sandbox: sandbox!,
      production: production!,
      variables,
      cpu: () => database.cpu() + cluster.pids().reduce((sum, pid) => sum + cpuMs(pid), 0),
      stop: async () => {
        await cluster.stop()
        rmSync(cluster.folder, { recursive: true })
        await database.stop()
      }
    }
  } catch (error) {
    await database.stop()
    throw error
  }
}

/** No load here reaches it. */
export const plan = { id: "bench", keyRequestsPerMinute: 1_000_000_000, tenantRequestsPerDay: 1_000_000_000, recipientsPerDay: 1_000_000_000 } as const
