import { Effect, Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as PostgresBlobStore from "../postgres/PostgresBlobStore.ts"
import * as PostgresStore from "../postgres/PostgresStore.ts"
import * as TestDatabase from "../postgres/TestDatabase.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"
import * as RedisRateLimiter from "./RedisRateLimiter.ts"

const redis = Layer.unwrap(Effect.map(PrivateRedis.open(), ({ url }) => RedisClient.layer({ url })))

const set = Layer.mergeAll(PostgresStore.layerWithoutJobs, PostgresBlobStore.layerWithStore).pipe(
  Layer.provide(TestDatabase.emptied(TestDatabase.layer())),
  Layer.merge(Layer.mergeAll(RedisJobQueue.layer, RedisRateLimiter.layer).pipe(Layer.provide(redis))),
  Layer.merge(companions)
)

for (const suite of scenarios) plays("{Postgres + Redis}", suite, set)
