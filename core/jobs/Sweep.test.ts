import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { TenantId } from "../model/Ids.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { JobQueue, type Job } from "../ports/JobQueue.ts"
import { Store } from "../ports/Store.ts"
import { RecordNotification } from "./RecordNotification.ts"
import { Sweep } from "./Sweep.ts"

const jobOf = (dueAt: number): Job => ({
  kind: "submit",
  subject: `message ${dueAt}`,
  realm: { tenantId: "tenant" as TenantId, environment: "sandbox" },
  group: "tenant",
  dueAt
})

const unasked = () => Effect.die("not asked")

/** A sweep over so much overdue mail, whose queue tells what it was offered. */
const sweeping = Effect.fnUntraced(function* (overdue: number) {
  const offered: Array<number> = []
  let epoch = "first"
  const store: Pick<typeof Store.Service, "due"> = {
    due: (kind, { after, limit }) => {
      const from = Number(after ?? 0)
      const count = kind === "submit" ? Math.min(limit, overdue - from) : 0
      const jobs = Array.from({ length: count }, (_, index) => jobOf(from + index))
      return Effect.succeed({ jobs, next: kind === "submit" && from + count < overdue ? String(from + count) : null })
    }
  }
  const queue: Pick<typeof JobQueue.Service, "offer" | "epoch"> = {
    offer: (jobs) => Effect.sync(() => void offered.push(...jobs.map(({ dueAt }) => dueAt))),
    epoch: Effect.sync(() => epoch)
  }
  const context = yield* Layer.build(
    Sweep.layer.pipe(
      Layer.provide([
        Layer.succeed(Store, store as typeof Store.Service), // nothing else is asked of them here
        Layer.succeed(JobQueue, queue as typeof JobQueue.Service),
        Layer.succeed(BlobStore, {} as typeof BlobStore.Service),
        Layer.succeed(RecordNotification, { record: unasked, recordPoll: unasked, applyKept: unasked, applyMatched: Effect.succeed(0) })
      ])
    )
  )
  const { tick } = Context.get(context, Sweep)
  return {
    tick: Effect.map(tick, () => offered.splice(0)),
    empty: () => {
      epoch = "another"
    }
  }
})

const numbers = (from: number, upto: number) => Array.from({ length: upto - from }, (_, index) => from + index)

describe("Sweep", () => {
  it.effect("offers all that is due to a queue that was emptied", () =>
    Effect.gen(function* () {
      const { tick, empty } = yield* sweeping(25_000)

      assert.deepStrictEqual(yield* tick, numbers(0, 25_000))
      assert.deepStrictEqual(yield* tick, numbers(0, 10_000))
      empty()
      assert.deepStrictEqual(yield* tick, numbers(0, 25_000))
    })
  )

  it.effect("offers so much of what is overdue at a time, and goes on behind it", () =>
    Effect.gen(function* () {
      const { tick } = yield* sweeping(25_000)
      yield* tick

      assert.deepStrictEqual(yield* tick, numbers(0, 10_000))
      assert.deepStrictEqual(yield* tick, numbers(10_000, 20_000))
      assert.deepStrictEqual(yield* tick, numbers(20_000, 25_000))
      assert.deepStrictEqual(yield* tick, numbers(0, 10_000))
    })
  )
})
