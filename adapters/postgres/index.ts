/**
 * Everything that a deployment must not lose, and its queue, on PostgreSQL or
 * on PGlite. Each layer takes a `Database` (of a server, or Pglite's), whose
 * tables `Migrations.migrate` makes.
 */
import { Layer } from "effect"
import * as Database from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import * as Migrations from "./Migrations.ts"
import * as Pglite from "./Pglite.ts"
import * as PostgresBlobStore from "./PostgresBlobStore.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as PostgresRateLimiter from "./PostgresRateLimiter.ts"
import * as PostgresStore from "./PostgresStore.ts"

export { Database, JobNews, Migrations, Pglite, PostgresBlobStore, PostgresJobQueue, PostgresRateLimiter, PostgresStore }

/** All ports of one database, whose jobs are written with the changes that make them due. */
export const layer = Layer.mergeAll(
  PostgresStore.layer,
  PostgresJobQueue.layer,
  PostgresBlobStore.layerWithStore,
  PostgresRateLimiter.layer
)
