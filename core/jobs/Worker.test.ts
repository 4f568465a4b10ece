import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Fiber, Layer, Logger, Metric } from "effect"
import { TestClock } from "effect/testing"
import type { TenantId } from "../model/Ids.ts"
import { Place } from "../operations/Commit.ts"
import * as Metrics from "../Metrics.ts"
import { JobQueue, QueueUnavailable, type Lease } from "../ports/JobQueue.ts"
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

const unanswered = Effect.fail(new QueueUnavailable({ cause: "silence" }))

interface Options {
  /** The queue always has as many as it is asked for; else one. */
  readonly isFull?: boolean
  /** Beside the one there is one that came to no end twice before. */
  readonly suspect?: Lease
  /** In this the queue breaks, for whoever claims anything else. */
  readonly broken?: "claim" | "awaitWork" | "release"
  /** Then it interrupts whoever asks. */
  readonly isInterrupted?: boolean
  /** It does not answer this, until so many milliseconds have passed. */
  readonly away?: "claim" | "complete"
  readonly backAfter?: number
  /** Jobs come one by one, and each interrupts itself when it has been promised places, as an adapter may that is closed. */
  readonly isInterrupting?: boolean
  /** Whose lease was completed, where a job's handler has not ended it. */
  readonly completed?: Array<string>
  /** How long the worker runs, and how long a job takes. */
  readonly millis?: number
  readonly jobMillis?: number
  /** How long the first job takes of a queue that is full, where that is not what the others do. */
  readonly firstMillis?: number
}

/** A worker on a queue that has deliveries to claim, and those that follow one. */
const running = Effect.fnUntraced(function* (following: Array<Lease>, { isFull = false, suspect, isInterrupting = false, broken, isInterrupted = false, away, backAfter = Infinity, completed = [], millis = 1_000, jobMillis = 1, firstMillis = jobMillis }: Options = {}) {
  const [worked, released]: [Array<string>, Array<string>] = [[], []]
  const limits: Array<number> = []
  let [claims, number, inFlight, inFlightMost, asked, isStopping] = [0, 1_000, 0, 0, 0, false]
  const breaks = Effect.suspend(() => (isInterrupted ? Effect.interrupt : Effect.die(new Error("the queue broke"))))
  const queue: typeof JobQueue.Service = {
    offer: () => Effect.void,
    claim: ({ kinds, limit }) =>
      Effect.gen(function* () {
        if (away === "claim") return yield* unanswered
        if (!kinds.includes("deliver")) {
          asked += 1
          if (broken === "claim") return yield* breaks
          return broken === "release" ? [leaseOf(2, 9), leaseOf(3, 9)] : [] // suspects: one is given back
        }
        claims += 1
        limits.push(limit)
        if (isInterrupting) return [leaseOf(number++)]
        if (isFull) return Array.from({ length: limit }, () => leaseOf(number++))
        return claims > 1 ? [] : suspect === undefined ? [leaseOf(0)] : [leaseOf(0), suspect]
      }),
    complete: ({ job }) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        away === "complete" && now < backAfter ? unanswered : Effect.sync(() => void completed.push(job.subject))
      ),
    extend: (lease) => Effect.succeed(lease),
    release: (lease) =>
      broken === "release" ? breaks : Effect.sync(() => void released.push(lease.job.subject)),
    throttle: () => Effect.void,
    epoch: Effect.succeed("epoch"),
    awaitWork: (kinds, atMost) =>
      broken === "awaitWork" && !kinds.includes("deliver") ? breaks : Effect.sleep(isInterrupting ? 10 : atMost)
  }
  const handle = (lease: Lease) =>
    Effect.gen(function* () {
      inFlight += 1
      inFlightMost = Math.max(inFlightMost, inFlight)
      yield* Effect.sleep(lease.job.dueAt === 1_000 ? firstMillis : jobMillis)
      inFlight -= 1
      worked.push(lease.job.subject)
      const place = yield* Place
      if (isInterrupting) return yield* Effect.andThen(Effect.sync(() => place?.holdNext()), Effect.interrupt)
      const next = following.splice(0, place?.holdNext()?.jobsMax ?? 0)
      if (next.length > 0) place!.take(next.map((one) => ({ ...one, outgoing: null })))
      return away !== "complete"
    })
  const unused = { handle: () => Effect.die("no such job") }
  const handlers = Layer.mergeAll(
    Layer.succeed(JobQueue, queue),
    Layer.succeed(DeliverWebhook, { handle }),
    Layer.succeed(SubmitMessage, { ...unused, recordTaken: Effect.void, cutOff: Effect.void }),
    Layer.succeed(ScanAttachment, unused),
    Layer.succeed(PollProvider, unused),
    Layer.succeed(ParseMessage, unused)
  )
  const context = yield* Layer.build(Layer.provide(Worker.layer, handlers))
  const worker = yield* Effect.forkChild(Context.get(context, Worker).run(() => isStopping, away === "claim" ? Duration.millis(200) : Duration.minutes(1)), { startImmediately: true })
  yield* TestClock.adjust(millis)
  const [claimsThen, askedThen] = [claims, asked]
  isStopping = true
  yield* TestClock.adjust("2 minutes")
  yield* Fiber.join(worker)
  return { worked, released, limits, claims: claimsThen, asked: askedThen, inFlightMost }
})

const leases = (count: number) => Array.from({ length: count }, (_, index) => leaseOf(index + 1))

describe("a place of the worker", () => {
  it.effect("passes from job to job without a claim, and is given back after fifty", () =>
    Effect.gen(function* () {
      const { worked, claims } = yield* running(leases(80), { jobMillis: 100, millis: 6_000 })

      assert.deepStrictEqual(worked, Array.from({ length: 51 }, (_, index) => `job ${index}`))
      assert.strictEqual(claims, 1)
    })
  )

  it.effect("passes for a tenth of a second while others wait for a claim", () =>
    Effect.gen(function* () {
      const run = (millis: number) => running(leases(5_000), { isFull: true, jobMillis: 20, millis })

      assert.strictEqual((yield* run(99)).claims, 1)
      assert.isAbove((yield* run(121)).claims, 1)
    })
  )

  it.effect("brings more of a group that is quick, up to half of the requests in flight", () =>
    Effect.gen(function* () {
      const peakOf = (jobMillis: number) => Effect.map(running(leases(5_000), { jobMillis }), ({ inFlightMost }) => inFlightMost)

      assert.strictEqual(yield* peakOf(10), 64)
      assert.strictEqual(yield* peakOf(99), 64)
      assert.strictEqual(yield* peakOf(100), 1)
    })
  )

  it.effect("is given back after a job that took a second", () =>
    Effect.gen(function* () {
      const workedOf = (jobMillis: number) => Effect.map(running(leases(9), { jobMillis, millis: 20_000 }), ({ worked }) => worked.length)

      assert.strictEqual(yield* workedOf(999), 10)
      assert.strictEqual(yield* workedOf(1_000), 1)
    })
  )

  it.effect("is free again, with those that were promised, when its job interrupts itself", () =>
    Effect.gen(function* () {
      const { limits, worked } = yield* running([], { isInterrupting: true, millis: 100 })

      assert.isAbove(worked.length, 5)
      assert.deepStrictEqual([...new Set(limits)], [192])
    })
  )

  it.effect("is given back when the worker is told to stop", () =>
    Effect.gen(function* () {
      const { worked } = yield* running(leases(9), { jobMillis: 400 })

      assert.deepStrictEqual(worked, ["job 0", "job 1", "job 2"])
    })
  )

  it.effect("passes for no longer than a tenth of a second where one waits for its lane to be empty that came to no end twice before", () =>
    Effect.gen(function* () {
      const { worked } = yield* running(leases(5_000), { suspect: leaseOf(9_000, 3), jobMillis: 10 })

      assert.strictEqual(worked.indexOf("job 9000"), 10)
    })
  )

  it.effect("does not work a job on the way that came to no end twice before", () =>
    Effect.gen(function* () {
      const { worked, released } = yield* running([leaseOf(1, 3), leaseOf(2)], { jobMillis: 100 })

      assert.deepStrictEqual(worked, ["job 0"])
      assert.deepStrictEqual(released, ["job 1"])
    })
  )
})

describe("a lane of the worker", () => {
  it.effect("claims no more than it has places for, so that nothing waits under a lease that nobody holds", () =>
    Effect.gen(function* () {
      const { limits } = yield* running([], { isFull: true, firstMillis: 10, jobMillis: 500, millis: 400 })

      assert.deepStrictEqual(limits, [192, 1])
    })
  )

  for (const broken of ["claim", "awaitWork", "release"] as const) {
    it.effect(`finishes what it has under way while the queue breaks for another, which leaves time between: ${broken}`, () =>
      Effect.gen(function* () {
        const { worked, asked } = yield* running([], { broken, jobMillis: 500 })

        assert.include(worked, "job 0")
        assert.isAtMost(asked, 4, "claims of the other two")
      })
    )

    it.effect(`finishes what it has under way while the queue interrupts whoever asks for another, which leaves time between: ${broken}`, () =>
      Effect.gen(function* () {
        const { worked, asked } = yield* running([], { broken, isInterrupted: true, jobMillis: 500 })

        assert.include(worked, "job 0")
        assert.isAtMost(asked, 4, "claims of the other two")
      })
    )
  }
})

describe("a queue that is away", () => {
  const logged = (options: Options) =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      yield* Effect.provide(running([], options), Logger.layer([Logger.map(Logger.formatStructured, ({ level }) => void lines.push(level))]))
      return lines
    })

  it.effect("is said so once a minute, however often it is asked", () =>
    Effect.gen(function* () {
      const claims = Effect.map(Metric.value(Metrics.claimsUnavailable), ({ count }) => count)
      const before = yield* claims
      assert.deepStrictEqual(yield* logged({ away: "claim", millis: 3_000 }), ["WARN"])
      assert.isAtLeast((yield* claims) - before, 15, "each is counted")
      assert.strictEqual((yield* logged({ away: "claim", millis: 181_000 })).length, 4)
    })
  )

  it.effect("is told of a job that was done when it is back, and the job is not counted among those that broke their worker", () =>
    Effect.gen(function* () {
      const count = (result: "broken" | "postponed") => Effect.map(Metric.value(Metrics.jobsEnded.deliver[result]), ({ count }) => count)
      const [broken, postponed] = [yield* count("broken"), yield* count("postponed")]

      const completed: Array<string> = []
      assert.deepStrictEqual(yield* logged({ away: "complete", millis: 50_000, backAfter: 40_000, completed }), ["WARN"])

      assert.deepStrictEqual(completed, ["job 0"])
      assert.deepStrictEqual([yield* count("broken"), yield* count("postponed")], [broken, postponed + 1])
    })
  )
})

describe("a job of the worker", () => {
  for (const kind of ["scan", "poll"] as const) {
    it.effect(`is ended though its work answers something that nobody asked for, as a queue's own answer to an offer: ${kind}`, () =>
      Effect.gen(function* () {
        const { job, ...lease } = leaseOf(1)
        const [left, completed]: [Array<Lease>, Array<string>] = [[{ ...lease, job: { ...job, kind } }], []]
        const queue = {
          offer: () => Effect.void,
          claim: () => Effect.sync(() => left.splice(0)),
          complete: ({ token }) => Effect.sync(() => void completed.push(token)),
          extend: Effect.succeed,
          release: () => Effect.void,
          throttle: () => Effect.void,
          epoch: Effect.succeed("epoch"),
          awaitWork: () => Effect.void
        } satisfies typeof JobQueue.Service
        const answering = { handle: () => Effect.succeed(true) } // an Effect<void> to the types
        const unused = { handle: () => Effect.die("no such job") }
        const handlers = Layer.mergeAll(
          Layer.succeed(JobQueue, queue),
          Layer.succeed(DeliverWebhook, unused),
          Layer.succeed(SubmitMessage, { ...unused, recordTaken: Effect.void, cutOff: Effect.void }),
          Layer.succeed(ScanAttachment, answering),
          Layer.succeed(PollProvider, answering),
          Layer.succeed(ParseMessage, unused)
        )

        const context = yield* Layer.build(Layer.provide(Worker.layer, handlers))
        yield* Context.get(context, Worker).tick

        assert.deepStrictEqual(completed, ["token 1"])
      })
    )
  }
})
