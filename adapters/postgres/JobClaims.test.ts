import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as JobClaims from "./JobClaims.ts"
import { JobNews, layerLocal } from "./JobNews.ts"

/** What a database without jobs answers, a moment late, and how many of its statements were called off. */
const nothing = () => {
  const counts = { statements: 0, calledOff: 0 }
  const row = { arc: 1, last_group: "", is_round: true, looked: 0, passed: 0, next_ms: null, is_ready: false }
  const rows: JobClaims.Rows = () =>
    Effect.suspend(() => {
      counts.statements += 1
      return Effect.sleep("1 millis")
    }).pipe(
      Effect.as([row]),
      Effect.onInterrupt(() => Effect.sync(() => void (counts.calledOff += 1)))
    )
  return { counts, rows }
}

describe("a wait for work", () => {
  it.effect("calls off no statement when it ends, for that costs a connection", () =>
    Effect.gen(function* () {
      const { counts, rows } = nothing()
      const { claim, awaitWork } = JobClaims.make(rows, yield* JobNews)
      const idle = Duration.millis(200)
      const claiming = claim({ kinds: ["submit"], limit: 1, visibilityTimeout: Duration.minutes(1), inFlightMax: 1 })
      const worker = yield* Effect.forkChild(Effect.forever(Effect.andThen(claiming, awaitWork(["submit"], idle))), { startImmediately: true })

      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(counts.calledOff, 0)
      assert.isAtMost(counts.statements, 11)
      yield* Fiber.interrupt(worker)
    }).pipe(Effect.provide(Layer.fresh(layerLocal)))
  )
})
