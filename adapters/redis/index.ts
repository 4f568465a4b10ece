/** Redis as job queue and rate limiter of several processes. It never holds the truth. */
export * as RedisClient from "./RedisClient.ts"
export * as RedisJobQueue from "./RedisJobQueue.ts"
export * as RedisRateLimiter from "./RedisRateLimiter.ts"
