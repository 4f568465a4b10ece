import { describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { agrees } from "../../conformance/JobQueueModel.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"

describe("RedisJobQueue", () => {
  it.effect(
    "does what a plain list of jobs would, whatever is asked of it",
    () =>
      Effect.gen(function* () {
        const { url } = yield* PrivateRedis.open()
        let runs = 0
        const emptyQueue = () => Layer.provide(RedisJobQueue.layer, RedisClient.layer({ url, prefix: `run${runs++}` }))
        yield* agrees(emptyQueue, { numRuns: 100, minLength: 40 })
      }),
    60_000
  )
})
