import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Latch, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as JobQueueSteps from "../../conformance/JobQueueSteps.ts"
import { QueueUnavailable } from "../../core/ports/JobQueue.ts"
import { Database } from "./Database.ts"
import * as JobClaims from "./JobClaims.ts"
import { JobNews, layerLocal } from "./JobNews.ts"
import * as Jobs from "./Jobs.ts"
import type { Row } from "./Rows.ts"
import * as TestDatabase from "./TestDatabase.ts"

/** What a database without jobs answers, a moment late, and how many of its statements were called off. */
const nothing = (over: Partial<Row> = {}) => {
  const counts = { statements: 0, calledOff: 0 }
  const row: Row = { arc: 1, last_group: "", is_round: true, looked: 0, passed: 0, next_ms: null, is_ready: false, took_ms: 0, was_ready: false, ...over }
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

/** Claims, and for how many milliseconds it then waits for work of which nobody tells. */
const pauseBehind = Effect.fnUntraced(function* ({ claim, awaitWork }: ReturnType<typeof JobClaims.make>) {
  const claiming = yield* Effect.forkChild(claim({ kinds: ["submit"], limit: 1, visibilityTimeout: Duration.minutes(1), inFlightMax: 1 }))
  yield* TestClock.adjust("1 second")
  yield* Fiber.join(claiming)
  const waiting = yield* Effect.forkChild(awaitWork(["submit"], Duration.minutes(1)), { startImmediately: true })
  const begun = yield* Clock.currentTimeMillis
  while (waiting.pollUnsafe() === undefined) yield* TestClock.adjust("10 millis")
  return (yield* Clock.currentTimeMillis) - begun
})

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

  it.effect("is short behind a claim that has not come round, also where all that it saw is at its cap", () =>
    Effect.gen(function* () {
      const pauses: Array<number> = []
      const behind = [{ is_round: false, looked: 256 }, { looked: 256 }, { looked: 0, was_ready: true }, { looked: 0 }]
      for (const row of behind) {
        const { rows } = nothing(row)
        pauses.push(yield* pauseBehind(JobClaims.make(rows, yield* JobNews)))
      }

      assert.deepStrictEqual(pauses, [20, 250, 20, 60_000])
    }).pipe(Effect.provide(Layer.fresh(layerLocal)))
  )

  it.effect("is short where any statement of the claim saw groups at their caps, and not for what an earlier claim saw", () =>
    Effect.gen(function* () {
      const answers = [{ is_round: false, looked: 256 }, { looked: 0 }, { looked: 0 }]
      const rows: JobClaims.Rows = (...asked) => nothing(answers.shift()).rows(...asked)
      const claims = JobClaims.make(rows, yield* JobNews)

      assert.deepStrictEqual([yield* pauseBehind(claims), yield* pauseBehind(claims)], [250, 60_000])
    }).pipe(Effect.provide(Layer.fresh(layerLocal)))
  )

  it.effect("lasts a second while the database is away, and no longer than it may", () =>
    Effect.gen(function* () {
      const away = Effect.fail(new QueueUnavailable({ cause: "away" }))
      const { awaitWork } = JobClaims.make(() => away, yield* JobNews)
      for (const [atMost, lasts] of [[60_000, 1_000], [300, 300]] as const) {
        const waiting = yield* Effect.forkChild(awaitWork(["submit"], Duration.millis(atMost)), { startImmediately: true })

        yield* TestClock.adjust(lasts - 1)
        assert.isUndefined(waiting.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.isDefined(waiting.pollUnsafe())
      }
    }).pipe(Effect.provide(Layer.fresh(layerLocal)))
  )
})

it.effect("a claim goes round all groups of its kinds, each statement from where the last one stopped", () =>
  Effect.gen(function* () {
    const asked: Array<ReadonlyArray<unknown>> = []
    const stops = [{ arc: 1, last_group: "x" }, { arc: 2, last_group: "m" }, { arc: 2, last_group: "n" }, { arc: 1, is_round: true }, { arc: 1, is_round: true }]
    const rows: JobClaims.Rows = (_text, parameters = []) =>
      Effect.sync(() => {
        const [kinds, afters, uptos] = parameters.slice(0, 3).map((one) => (one as { readonly value: ReadonlyArray<unknown> }).value) // lists
        asked.push(kinds!.map((kind, index) => [kind, afters![index], uptos![index]]))
        return [{ last_group: "", is_round: false, looked: 256, passed: 256, next_ms: null, took_ms: 0, was_ready: false, ...stops[asked.length - 1] }]
      })
    const { claim } = JobClaims.make(rows, yield* JobNews)
    const claiming = claim({ kinds: ["submit", "deliver"], limit: 1, visibilityTimeout: Duration.minutes(1), inFlightMax: 1 })

    yield* claiming
    yield* claiming

    const [one, begun] = asked[0]![0] as [string, string]
    const other = one === "submit" ? "deliver" : "submit"
    assert.deepStrictEqual(asked, [
      [[one, begun, null], [other, "", null], [one, "", begun]],
      [[one, "x", null], [other, "", null], [one, "", begun]],
      [[other, "m", null], [one, "", begun]],
      [[one, "n", begun]],
      [[one, "n", null], [other, "", null], [one, "", "n"]]
    ])
  }).pipe(Effect.provide(Layer.fresh(layerLocal)))
)

layer(Layer.provideMerge(layerLocal, TestDatabase.layer()), { excludeTestServices: true })("a claim beside another", (it) => {
  it.effect("is soon made again where the other makes jobs ready that it leaves, for nobody tells of them", () =>
    Effect.gen(function* () {
      const [{ rows, sql }, news] = [yield* Database, yield* JobNews]
      const options = { kinds: ["submit"], visibilityTimeout: Duration.minutes(1), inFlightMax: 9 } as const
      const other = JobClaims.make((text, parameters = []) => Effect.orDie(sql.unsafe<Row>(text, parameters)), news)
      const { claim, awaitWork } = JobClaims.make((text, parameters = []) => Effect.orDie(rows<Row>(text, parameters)), news)
      // They wait for their time, which has come when they are claimed.
      const dueAt = (yield* Clock.currentTimeMillis) - 1
      yield* Jobs.offer(rows, [1, 2, 3].map(() => JobQueueSteps.job(dueAt, { kind: "submit" })), dueAt - 1)
      const [isTaken, isSeen] = [yield* Latch.make(), yield* Latch.make()]
      const claiming = yield* other.claim({ ...options, limit: 1 }).pipe(
        Effect.tap(() => Effect.andThen(isTaken.open, isSeen.await)),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* isTaken.await
      const found = yield* claim({ ...options, limit: 9 })
      yield* isSeen.open
      const theirs = yield* Fiber.join(claiming)

      const waited = yield* Effect.timeoutOption(awaitWork(["submit"], Duration.minutes(1)), "5 seconds")
      const left = yield* claim({ ...options, limit: 9 })

      assert.deepStrictEqual([found.length, theirs.length, waited._tag, left.length], [0, 1, "Some", 2])
    })
  )
})
