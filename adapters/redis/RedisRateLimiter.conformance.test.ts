import { Effect, Layer } from "effect"
import { suite } from "../../conformance/RateLimiter.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisRateLimiter from "./RedisRateLimiter.ts"

const server = Layer.unwrap(Effect.map(PrivateRedis.asUser(), ({ url }) => RedisClient.layer({ url })))

conforms("RedisRateLimiter", suite, Layer.provide(RedisRateLimiter.layer, server))
