/**
 * The product as an operator runs it: its own processes over a private
 * PostgreSQL server whose commits wait for the disk, with limits on, and
 * ceilings that no load here reaches.
 */
import { Effect, Exit, Redacted, Scope } from "effect"
import { randomBytes } from "node:crypto"
import * as PrivatePostgres from "../adapters/postgres/PrivatePostgres.ts"
import type { Caller } from "./Api.ts"
import * as Cluster from "./Cluster.ts"
import { found } from "./Founding.ts"
import { cpuMs, postgresCpuMs } from "./Processor.ts"

export interface Database {
  readonly folder: string
  readonly url: (database: string) => string
  /** Processor time of the server so far, in milliseconds. */
  readonly cpu: () => number
  readonly stop: () => Promise<void>
}

/** Settings beside those that a test's server has. */
export const openDatabase = async (settings: ReadonlyArray<string> = []): Promise<Database> => {
  const scope = Scope.makeUnsafe()
  const opened = PrivatePostgres.open({ isDurable: true, settings: ["shared_buffers=512MB", "max_wal_size=4GB", ...settings] })
  const postgres = await Effect.runPromise(Effect.provideService(opened, Scope.Scope, scope))
  await Effect.runPromise(postgres.started)
  return {
    folder: postgres.folder,
    url: (database) => Redacted.value(postgres.url(database)),
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
}

export const open = async ({ serves = 1, workers = 0, database: settings = [], variables: others = {} }: Options = {}): Promise<Deployment> => {
  const database = await openDatabase(settings)
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
