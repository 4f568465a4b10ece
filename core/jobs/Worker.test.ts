import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import type { TenantId } from "../model/Ids.ts"
import { Place } from "../operations/Commit.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { DeliverWebhook } from "./DeliverWebhook.ts"
import { ParseMessage } from "./ParseMessage.ts"
import { PollProvider } from "./PollProvider.ts"
import { ScanAttachment } from "./ScanAttachment.ts"
import { SubmitMessage } from "./SubmitMessage.ts"
import { Worker } from "./Worker.ts"

const leaseOf = (number: number, claims = 1): Lease => ({
  job: { kind: "deliver", subject: `job ${number}`, realm: { tenantId: "tenant" as TenantId, environment: "sandbox" }, group: "group", dueAt: number },
  token: `token ${number}`,
  claims,
  expiresAt: 60_000
})

interface Options {
  /** The queue always has as many as it is asked for; else one. */
  readonly isFull?: boolean
  /** How long the worker runs, and how long a job takes. */
  readonly millis?: number
  readonly jobMillis?: number
}

/** A worker on a queue that has deliveries to claim, and those that follow one. */
const running = Effect.fnUntraced(function* (following: Array<Lease>, { isFull = false, millis = 1_000, jobMillis = 1 }: Options = {}) {
  const [worked, released]: [Array<string>, Array<string>] = [[], []]
  let [claims, number, isStopping] = [0, 1_000, false]
  const queue: typeof JobQueue.Service = {
    offer: () => Effect.void,
    claim: ({ kinds, limit }) =>
      Effect.sync(() => {
        if (!kinds.includes("deliver")) return []
        claims += 1
        if (isFull) return Array.from({ length: limit }, () => leaseOf(number++))
        return claims === 1 ? [leaseOf(0)] : []
      }),
    complete: () => Effect.void,
    extend: (lease) => Effect.succeed(lease),
    release: (lease) => Effect.sync(() => void released.push(lease.job.subject)),
    throttle: () => Effect.void,
    epoch: Effect.succeed("epoch"),
    awaitWork: (_, atMost) => Effect.sleep(atMost)
  }
  const handle = (lease: Lease) =>
    Effect.gen(function* () {
      yield* Effect.sleep(jobMillis)
      const place = yield* Place
      worked.push(lease.job.subject)
      if (place !== null && place.holdNext() !== null) {
        const next = following.shift()
        if (next !== undefined) place.passed({ ...next, outgoing: null })
      }
      return true
    })
  const unused = { handle: () => Effect.die("no such job") }
  const handlers = Layer.mergeAll(
    Layer.succeed(JobQueue, queue),
    Layer.succeed(DeliverWebhook, { handle }),
    Layer.succeed(SubmitMessage, unused),
    Layer.succeed(ScanAttachment, unused),
    Layer.succeed(PollProvider, unused),
    Layer.succeed(ParseMessage, unused)
  )
  const context = yield* Layer.build(Layer.provide(Worker.layer, handlers))
  const worker = yield* Effect.forkChild(Context.get(context, Worker).run(() => isStopping, Duration.minutes(1)), { startImmediately: true })
  yield* TestClock.adjust(millis)
  const claimsThen = claims
  isStopping = true
  yield* TestClock.adjust("2 minutes")
  yield* Fiber.join(worker)
  return { worked, released, claims: claimsThen }
})

describe("a place of the worker", () => {
  it.effect("passes from job to job without a claim, and is given back after fifty", () =>
    Effect.gen(function* () {
      const { worked, claims } = yield* running(Array.from({ length: 80 }, (_, index) => leaseOf(index + 1)))

      assert.deepStrictEqual(worked, Array.from({ length: 51 }, (_, index) => `job ${index}`))
      assert.strictEqual(claims, 1)
    })
  )

  it.effect("passes for a tenth of a second while others wait for a claim", () =>
    Effect.gen(function* () {
      const run = (millis: number) =>
        running(Array.from({ length: 5_000 }, (_, index) => leaseOf(10_000 + index)), { isFull: true, jobMillis: 20, millis })

      assert.strictEqual((yield* run(99)).claims, 1)
      assert.isAbove((yield* run(121)).claims, 1)
    })
  )

  it.effect("does not work a job on the way that came to no end twice before", () =>
    Effect.gen(function* () {
      const { worked, released } = yield* running([leaseOf(1, 3), leaseOf(2)])

      assert.deepStrictEqual(worked, ["job 0"])
      assert.deepStrictEqual(released, ["job 1"])
    })
  )
})
