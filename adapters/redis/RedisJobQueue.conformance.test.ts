import { Effect, Layer } from "effect"
import { suite } from "../../conformance/JobQueue.ts"
import { suite as reopened } from "../../conformance/JobQueueReopened.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"

const server = Layer.unwrap(Effect.map(PrivateRedis.asUser(), ({ url }) => RedisClient.layer({ url })))

conforms("RedisJobQueue", suite, Layer.provide(RedisJobQueue.layer, server))
conforms("RedisJobQueue", reopened(RedisJobQueue.layer), server)
