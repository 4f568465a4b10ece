import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Metric, Redacted } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { loggedTo } from "../../conformance/scenarios/World.ts"
import { insert, insertDelivery, land, next, update } from "../../conformance/StoreLaw.ts"
import type { Delivery, Outcome } from "../model/Delivery.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import { jobOf, JobQueue, QueueUnavailable, type Lease } from "../ports/JobQueue.ts"
import { CommitRejected, Store, StoreUnavailable, type Change } from "../ports/Store.ts"
import { defaults, Settings } from "../Settings.ts"
import * as Metrics from "../Metrics.ts"
import { RecordAttempts } from "./RecordAttempts.ts"
import { rememberedMax, WebhookAttempts, type Ending } from "./WebhookAttempts.ts"

const realm = Fixtures.realm()

const ending = (sequence: number, outcome: Outcome = "http_error"): Ending => ({
  sequence,
  startedAt: 0,
  endedAt: 0,
  outcome,
  answer: { status: outcome === "success" ? 200 : 500, retryAfter: null }
})

const leaseOf = (delivery: Delivery): Lease => ({ job: jobOf("deliver", delivery, 0), token: "t", claims: 1, expiresAt: 60_000 })

const away = Effect.fail(new StoreUnavailable({ cause: "away" }))

/** An endpoint with so many deliveries, in a store whose commits can be stopped. */
const recording = Effect.fnUntraced(function* (count: number, over: Partial<Endpoint> = {}) {
  const endpoint = Fixtures.endpoint(realm, over)
  const deliveries = Array.from({ length: count }, () => Fixtures.delivery(endpoint))
  const memory = Context.get(yield* Layer.build(Memory.MemoryStore.layer), Store)
  yield* land(memory, insert("endpoint", endpoint), ...deliveries.map((one) => insertDelivery(one)))

  const world = {
    /** What stands before a commit. */
    ahead: (_: ReadonlyArray<Change>): Effect.Effect<void, CommitRejected | StoreUnavailable> => Effect.void,
    /** The endpoint has failed, and has not made up for it. */
    hasFailedLately: true,
    commits: [] as Array<ReadonlyArray<Change>>,
    looks: 0,
    recorded: [] as Array<string>,
    /** What the queue was told of the endpoint's cap; nothing while it is away. */
    caps: [] as Array<number | null>,
    queueIsAway: false
  }
  const store: typeof Store.Service = {
    ...memory,
    endpoints: { ...memory.endpoints, get: (...given) => Effect.suspend(() => ((world.looks += 1), memory.endpoints.get(...given))) },
    commit: (changes, jobs, lease) =>
      Effect.suspend(() => {
        world.commits.push(changes)
        const landed = Effect.andThen(world.ahead(changes), memory.commit(changes, jobs))
        return Effect.map(landed, (done) => ({ ...done, leaseEnded: lease !== undefined }))
      })
  }
  const throttle: (typeof JobQueue.Service)["throttle"] = (_kind, _group, inFlightMax) =>
    Effect.suspend(() => (world.queueIsAway ? Effect.fail(new QueueUnavailable({ cause: "away" })) : Effect.sync(() => void world.caps.push(inFlightMax))))
  const attempts = WebhookAttempts.of({
    attempt: () => Effect.die("nothing is attempted"),
    hasFailedLately: () => world.hasFailedLately,
    inFlightMax: () => 0,
    doubt: () => {},
    unrecorded: () => null,
    recorded: ({ id }) => void world.recorded.push(id)
  })
  const ports = Layer.mergeAll(
    Layer.succeed(Store, store),
    Layer.succeed(WebhookAttempts, attempts),
    Layer.succeed(Settings, defaults),
    Layer.effect(JobQueue, Effect.map(JobQueue, (queue) => ({ ...queue, throttle }))).pipe(Layer.provide(Memory.MemoryJobQueue.layer)),
    NodeCrypto.layerSeeded("recording", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] })
  )
  const { record } = Context.get(yield* Layer.build(Layer.provide(RecordAttempts.layer, ports)), RecordAttempts)

  let sequence = 0
  /** Endings that come together; how that ended for each of those who wait. */
  const recordAll = (some: ReadonlyArray<Delivery>, outcome?: Outcome) =>
    Effect.forEach(some, (one) => Effect.exit(record(one, endpoint, ending(++sequence, outcome))), { concurrency: "unbounded" })
  const statusOf = ({ id }: Delivery) => Effect.map(memory.deliveries.get(realm, id), (found) => [found?.status, found?.attempts.length])
  const endpointNow = Effect.map(memory.endpoints.get(realm, endpoint.id), (found) => found!)
  return { world, memory, endpoint, deliveries, record, recordAll, statusOf, endpointNow }
})

const tagsOf = (changes: ReadonlyArray<Change>) => changes.map((one) => ("kind" in one ? `${one._tag} ${one.kind}` : one._tag))

const isUpdateOf = ({ id }: Delivery) => (change: Change) => change._tag === "Update" && change.kind === "delivery" && change.record.id === id

describe("a success of a healthy endpoint", () => {
  it.effect("is committed alone, with the end of its job, and does not move its endpoint", () =>
    Effect.gen(function* () {
      const { world, deliveries, endpoint, record, statusOf, endpointNow } = yield* recording(1)
      world.hasFailedLately = false

      const hasEnded = yield* record(deliveries[0]!, endpoint, ending(1, "success"), leaseOf(deliveries[0]!))

      assert.isTrue(hasEnded)
      assert.deepStrictEqual(world.commits.map(tagsOf), [["Require endpoint", "Update delivery"]])
      assert.deepStrictEqual([yield* statusOf(deliveries[0]!), (yield* endpointNow).version, world.recorded], [["delivered", 1], 1, [deliveries[0]!.id]])
    })
  )

  it.effect("counts on the endpoint as it is by then, at once, where that has changed since the attempt", () =>
    Effect.gen(function* () {
      const { world, memory, deliveries, endpoint, record, statusOf, endpointNow } = yield* recording(1)
      world.hasFailedLately = false
      yield* land(memory, update("endpoint", next(endpoint, { consecutiveFailures: 9 })))

      const hasEnded = yield* record(deliveries[0]!, endpoint, ending(1, "success"), leaseOf(deliveries[0]!))

      assert.isFalse(hasEnded, "its job is the caller's to end")
      assert.deepStrictEqual([yield* statusOf(deliveries[0]!), (yield* endpointNow).consecutiveFailures], [["delivered", 1], 0])
    })
  )

  it.effect("whose commit came to nothing is recorded with those that come behind it, before them", () =>
    Effect.gen(function* () {
      for (const outcome of ["success", "http_error"] as const) {
        const { world, endpoint, deliveries, record, recordAll, statusOf, endpointNow } = yield* recording(2)
        world.hasFailedLately = false
        world.ahead = () => away
        yield* Effect.flip(record(deliveries[0]!, endpoint, ending(0, "success"), leaseOf(deliveries[0]!)))
        world.ahead = () => Effect.void

        yield* recordAll(deliveries.slice(1), outcome)

        assert.deepStrictEqual(yield* statusOf(deliveries[0]!), ["delivered", 1], outcome)
        assert.strictEqual((yield* endpointNow).consecutiveFailures, outcome === "success" ? 0 : 1)
      }
    })
  )
})

describe("endings of one endpoint", () => {
  it.effect("that come together are one commit, by one look at the endpoint", () =>
    Effect.gen(function* () {
      const { world, deliveries, recordAll, endpointNow } = yield* recording(3)

      yield* recordAll(deliveries)

      const update = "Update delivery"
      assert.deepStrictEqual([world.commits.map(tagsOf), world.looks], [[[update, update, update, "Update endpoint"]], 1])
      assert.strictEqual((yield* endpointNow).consecutiveFailures, 3)
      assert.deepStrictEqual(world.recorded, deliveries.map(({ id }) => id))
    })
  )

  it.effect("that change nothing of it leave its version as it was", () =>
    Effect.gen(function* () {
      const { world, deliveries, recordAll, endpointNow } = yield* recording(2)

      yield* recordAll(deliveries, "success")

      assert.deepStrictEqual(world.commits.map(tagsOf), [["Update delivery", "Update delivery", "Require endpoint"]])
      assert.strictEqual((yield* endpointNow).version, 1)
    })
  )

  it.effect("tell the queue of an endpoint that is slow, each time, and once that it is so no more", () =>
    Effect.gen(function* () {
      const { world, endpoint, deliveries, record, endpointNow } = yield* recording(6)
      const after = (index: number, outcome: Outcome) =>
        Effect.gen(function* () {
          world.caps.length = 0
          const answer = outcome === "timeout" ? null : { status: 500, retryAfter: null }
          yield* record(deliveries[index]!, endpoint, { ...ending(index + 1, outcome), answer })
          return [[...world.caps], (yield* endpointNow).isSlow]
        })

      world.queueIsAway = true
      assert.deepStrictEqual(yield* after(0, "http_error"), [[], false], "it is not slow, and the queue not asked")
      world.queueIsAway = false
      assert.deepStrictEqual(yield* after(1, "timeout"), [[1], true])
      assert.deepStrictEqual(yield* after(2, "timeout"), [[1], true])
      world.queueIsAway = true
      assert.deepStrictEqual(yield* after(3, "http_error"), [[], true], "the queue has not heard that it answers")
      world.queueIsAway = false
      assert.deepStrictEqual(yield* after(4, "http_error"), [[null], false])
      assert.deepStrictEqual(yield* after(5, "http_error"), [[], false])
    })
  )

  it.effect("are timed by when they came, not by when their attempts began", () =>
    Effect.gen(function* () {
      const { memory, deliveries, endpoint, record, endpointNow } = yield* recording(2, { consecutiveFailures: 8 })
      const last = next(deliveries[1]!, { attemptCount: 4 })
      yield* land(memory, update("delivery", last))
      // The clock was turned back meanwhile.
      const busy = { ...ending(1), startedAt: 6_000, endedAt: 4_000, answer: { status: 503, retryAfter: "Thu, 01 Jan 1970 00:30:00 GMT" } }

      yield* record(deliveries[0]!, endpoint, busy)
      yield* record(last, endpoint, { ...busy, sequence: 2, endedAt: 5_000 })

      const [again, dead] = yield* Effect.forEach(deliveries, ({ id }) => memory.deliveries.get(realm, id))
      assert.deepStrictEqual([again?.nextAttemptAt, dead?.deadAt, (yield* endpointNow).disabledAt], [30 * 60_000, 5_000, 5_000])
      assert.strictEqual(again?.attempts[0]?.durationMs, 0)
    })
  )

  it.effect("of the same attempt are recorded once, and all who wait are told", () =>
    Effect.gen(function* () {
      const { world, deliveries, recordAll, statusOf } = yield* recording(1)
      const twice = [deliveries[0]!, deliveries[0]!]
      const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      world.ahead = () => Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(go))

      const first = yield* Effect.forkChild(recordAll(twice))
      yield* Deferred.await(reached)
      const meanwhile = yield* Effect.forkChild(recordAll(twice), { startImmediately: true })
      yield* Deferred.succeed(go, undefined)
      const exits = [...(yield* Fiber.join(first)), ...(yield* Fiber.join(meanwhile))]

      assert.deepStrictEqual(exits, Array.from({ length: 4 }, () => Exit.succeed(false)))
      assert.deepStrictEqual([world.commits.length, yield* statusOf(deliveries[0]!)], [1, ["pending", 1]])
    })
  )

  it.effect("are recorded on their deliveries as these were read last", () =>
    Effect.gen(function* () {
      const { world, memory, deliveries, recordAll, statusOf } = yield* recording(1)
      world.ahead = () => away
      yield* recordAll(deliveries)
      const moved = next(deliveries[0]!)
      yield* land(memory, update("delivery", moved))
      world.ahead = () => Effect.void

      yield* recordAll([moved], "success")

      assert.deepStrictEqual(yield* statusOf(moved), ["delivered", 1])
    })
  )

  it.effect("are looked at anew, together, where another process has moved the endpoint", () =>
    Effect.gen(function* () {
      const { world, memory, endpoint, deliveries, recordAll, endpointNow } = yield* recording(3)
      world.ahead = () => {
        world.ahead = () => Effect.void
        return Effect.orDie(land(memory, update("endpoint", next(endpoint, { consecutiveFailures: 2 }))))
      }

      yield* recordAll(deliveries)

      assert.deepStrictEqual(world.commits.map((changes) => changes.length), [4, 4])
      assert.strictEqual((yield* endpointNow).consecutiveFailures, 5)
    })
  )

  it.effect("are recorded each by itself where one of them breaks the commit, which breaks its own, and leaves the others no trace of it", () =>
    Effect.gen(function* () {
      const { world, memory, endpoint, deliveries, record, recordAll, statusOf, endpointNow } = yield* recording(3)
      const [one, poison, other] = deliveries
      world.ahead = (changes) => (changes.some(isUpdateOf(poison!)) ? Effect.die(new Error("it breaks")) : Effect.void)

      const exits = yield* recordAll(deliveries)

      assert.deepStrictEqual(exits.map(({ _tag }) => _tag), ["Success", "Failure", "Success"])
      assert.deepStrictEqual([yield* statusOf(one!), yield* statusOf(poison!), yield* statusOf(other!)], [["pending", 1], ["pending", 0], ["pending", 1]])
      // Nothing of it stands in the endpoint's line: what succeeds is committed alone again, with the end of its job.
      world.hasFailedLately = false
      const fresh = Fixtures.delivery(endpoint)
      yield* land(memory, update("endpoint", next(yield* endpointNow, { consecutiveFailures: 0 })), insertDelivery(fresh))
      assert.isTrue(yield* record(fresh, yield* endpointNow, ending(4, "success"), leaseOf(fresh)))
    })
  )

  it.effect("keep their places where the store takes none, as many as may be remembered, and then none", () =>
    Effect.gen(function* () {
      const recordedWith = (count: number) =>
        Effect.gen(function* () {
          const { world, deliveries, recordAll } = yield* recording(count)
          world.ahead = () => away
          for (let time = 0; time < 2; time++) {
            world.commits.length = 0
            const exits = yield* recordAll(deliveries)
            assert.ok(exits.every(Exit.isFailure))
            assert.strictEqual(world.commits.length, 1, "the store is asked once")
          }
          world.ahead = () => Effect.void
          world.commits.length = 0
          yield* recordAll(deliveries.slice(-1))
          return world.commits.flat().filter(({ _tag }) => _tag === "Update").length - world.commits.length
        })

      assert.deepStrictEqual([yield* recordedWith(rememberedMax), yield* recordedWith(rememberedMax + 1)], [rememberedMax, 1])
    })
  )
})

describe("what an operator sees of endings", () => {
  const lines: Array<string> = []

  it.effect("is each delivery that has ended, and each endpoint that is disabled by them", () =>
    Effect.gen(function* () {
      const counts = Effect.all([Metrics.deliveriesEnded.delivered, Metrics.deliveriesEnded.dead, Metrics.endpointsDisabled].map((metric) => Metric.value(metric)))
      const before = yield* counts
      const alone = yield* recording(1)
      alone.world.hasFailedLately = false
      const { memory, endpoint, deliveries, recordAll, record } = yield* recording(3, { consecutiveFailures: 8 })
      const last = next(deliveries[2]!, { attemptCount: 4 })
      yield* land(memory, update("delivery", last))

      yield* alone.recordAll(alone.deliveries, "success")
      yield* recordAll([deliveries[0]!, last])
      yield* record(deliveries[1]!, endpoint, ending(3, "success"))

      assert.deepStrictEqual((yield* counts).map(({ count }, index) => count - before[index]!.count), [2, 1, 1])
      assert.ok(lines.some((line) => line.includes("was disabled after ten failed attempts") && line.includes(endpoint.id)), lines.join("\n"))
    }).pipe(Effect.provide(loggedTo(lines)))
  )
})
