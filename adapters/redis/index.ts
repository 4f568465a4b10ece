/** Redis as job queue and rate limiter of several processes, over one connection. It never holds the truth. */
import { Layer } from "effect"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"
import * as RedisRateLimiter from "./RedisRateLimiter.ts"

export { RedisClient, RedisJobQueue, RedisRateLimiter }

export const layer = (options: RedisClient.Options) =>
  Layer.merge(RedisJobQueue.layer, RedisRateLimiter.layer).pipe(Layer.provide(RedisClient.layer(options)))
