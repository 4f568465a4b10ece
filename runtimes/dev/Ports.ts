/**
 * What `dev` keeps its data in: a database and blobs in its folder, unless a
 * database is named, or it is told to keep everything in memory.
 */
import { Layer } from "effect"
import * as MemoryBlobStore from "../../adapters/memory/MemoryBlobStore.ts"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import * as JobNews from "../../adapters/postgres/JobNews.ts"
import * as Migrations from "../../adapters/postgres/Migrations.ts"
import * as Pglite from "../../adapters/postgres/Pglite.ts"
import * as PostgresJobQueue from "../../adapters/postgres/PostgresJobQueue.ts"
import * as PostgresStore from "../../adapters/postgres/PostgresStore.ts"
import type { BlobStore } from "../../core/ports/BlobStore.ts"
import type { Crypto } from "../../core/ports/Crypto.ts"
import type { JobQueue } from "../../core/ports/JobQueue.ts"
import type { Mime } from "../../core/ports/Mime.ts"
import type { RateLimiter } from "../../core/ports/RateLimiter.ts"
import type { Store } from "../../core/ports/Store.ts"
import * as Adapters from "../Adapters.ts"
import type { Config, Deployment } from "../Config.ts"
import * as DataFolder from "./DataFolder.ts"

export type Place = "memory" | "folder" | "server"

export const placeOf = ({ databaseUrl }: Config, memory: boolean): Place => (memory ? "memory" : databaseUrl === null ? "folder" : "server")

const memory = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, MemoryBlobStore.layer)

/** One process has it all, so what it counts it counts by itself. */
const folder = (data: string) =>
  Layer.mergeAll(PostgresStore.layer, PostgresJobQueue.layer).pipe(
    Layer.provide(JobNews.layerLocal),
    Layer.provide(Layer.effectDiscard(Migrations.migrate)),
    Layer.provide(Pglite.layer({ directory: DataFolder.databaseIn(data) })),
    Layer.merge(DataFolder.blobsIn(data))
  )

const alone = <E>(kept: Layer.Layer<Store | JobQueue | BlobStore, E>, config: Config) =>
  Layer.mergeAll(kept, MemoryRateLimiter.layer, RfcMime.layer, Adapters.crypto(config))

const server = (config: Config, databaseUrl: Deployment["databaseUrl"]) =>
  Adapters.over(config, Adapters.database({ ...config, databaseUrl }, "dev"), Adapters.migrate({ ...config, databaseUrl }))

type Fault = Layer.Error<ReturnType<typeof folder>> | Layer.Error<ReturnType<typeof server>>

/** Every port that keeps something. A database is migrated on the way. */
export const layer = (
  config: Config,
  place: Place
): Layer.Layer<Store | JobQueue | BlobStore | RateLimiter | Crypto | Mime, Fault> => {
  if (place === "server" && config.databaseUrl !== null) return server(config, config.databaseUrl)
  return alone(place === "memory" ? memory : folder(config.data), config)
}
