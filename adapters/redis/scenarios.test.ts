import { Effect, Exit, Layer, Scope } from "effect"
import { afterAll } from "vitest"
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

const scope = Scope.makeUnsafe()
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

/** One server for all scenarios, started when first asked for. */
const server = Effect.runSync(
  Effect.cached(
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      return { url: server.url, operator: yield* PrivateRedis.operator(server) }
    }).pipe(Scope.provide(scope))
  )
)

/** Emptied for each: a set of its own for each of them, at a fraction of what a server costs. */
const redis = Layer.unwrap(
  Effect.gen(function* () {
    const { url, operator } = yield* server
    yield* Effect.promise(() => operator.flushall())
    return RedisClient.layer({ url })
  })
)

const set = Layer.mergeAll(PostgresStore.layerWithoutJobs, PostgresBlobStore.layerWithStore).pipe(
  Layer.provide(TestDatabase.emptied(TestDatabase.layer())),
  Layer.merge(Layer.mergeAll(RedisJobQueue.layer, RedisRateLimiter.layer).pipe(Layer.provide(redis))),
  Layer.merge(companions)
)

for (const suite of scenarios) plays("{Postgres + Redis}", suite, set)
