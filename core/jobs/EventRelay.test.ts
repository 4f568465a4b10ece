import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { append, insert, land, next, update } from "../../conformance/StoreLaw.ts"
import type { Delivery } from "../model/Delivery.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import { Store, type Change } from "../ports/Store.ts"
import { EventRelay } from "./EventRelay.ts"
import { FirstAttempts, type NewDelivery } from "./FirstAttempts.ts"
import { RecordAttempts } from "./RecordAttempts.ts"
import { WebhookAttempts, type Ending } from "./WebhookAttempts.ts"

const ok: Ending = { sequence: 1, startedAt: 0, endedAt: 0, outcome: "success", answer: { status: 200, retryAfter: null } }

/** A relay whose first attempts succeed at once, at so many of the endpoints that are quick. */
const relaying = Effect.fnUntraced(function* (endpointCount: number, quickCount: number) {
  const realm = Fixtures.realm()
  const endpoints = Array.from({ length: endpointCount }, () => Fixtures.endpoint(realm))
  const quick = new Set(endpoints.slice(0, quickCount).map(({ id }) => id))
  const memory = Context.get(yield* Layer.build(Memory.MemoryStore.layer), Store)
  yield* land(memory, ...endpoints.map((one) => insert("endpoint", one)))

  const commits: Array<ReadonlyArray<Change>> = []
  const recorded: Array<Delivery> = []
  const world = {
    commits,
    recorded,
    /** Attempts that the page's commit holds, and that nobody has to remember any more. */
    known: [] as Array<string>,
    /** Deliveries whose first attempts are not remembered any more. */
    forgotten: [] as Array<string>,
    /** Comes after the attempts of a page. */
    meanwhile: Effect.void as Effect.Effect<void>,
    hasFailedLately: false,
    /** What becomes of the first attempt of a page. */
    first: ok
  }
  const store: typeof Store.Service = {
    ...memory,
    commit: (changes, ...more) => Effect.suspend(() => (commits.push(changes), memory.commit(changes, ...more)))
  }
  const attempted = (one: NewDelivery, ending: Ending) => {
    if (quick.has(one.endpoint.id)) one.attempt ??= { ending, isOver: true, whenOver: null }
  }
  const ports = Layer.mergeAll(
    Layer.succeed(Store, store),
    Layer.succeed(FirstAttempts, {
      make: (deliveries) =>
        Effect.suspend(() => {
          for (const [index, one] of deliveries.entries()) attempted(one, index === 0 ? world.first : ok)
          return world.meanwhile
        }),
      begun: () => null,
      ended: ({ ending }) => Effect.succeed(ending),
      forget: (deliveries) => void world.forgotten.push(...deliveries.map(({ delivery }) => delivery.id))
    }),
    Layer.succeed(RecordAttempts, { record: (delivery) => Effect.sync(() => (recorded.push(delivery), false)) }),
    Layer.succeed(WebhookAttempts, {
      attempt: () => Effect.die("the relay attempts nothing itself"),
      hasFailedLately: () => world.hasFailedLately,
      inFlightMax: ({ id }) => (quick.has(id) ? 8 : 0),
      doubt: () => {},
      unrecorded: () => null,
      recorded: ({ id }) => void world.known.push(id)
    }),
    Memory.MemoryJobQueue.layer,
    NodeCrypto.layerSeeded("relaying", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] })
  )
  const relay = Context.get(yield* Layer.build(Layer.provide(EventRelay.layer, ports)), EventRelay)

  /** Relays so many new events to the end of the log. */
  const relayed = Effect.fnUntraced(function* (eventCount: number) {
    const message = Fixtures.message(realm)
    yield* land(memory, ...Array.from({ length: eventCount }, () => append(Fixtures.queuedEvent(message, { id: Fixtures.freshId() }))))
    yield* Effect.repeat(relay.tick, { until: (count) => count === 0 })
    yield* relay.ended
  })
  /** Each has been changed by somebody else. */
  const moved = (some: ReadonlyArray<Endpoint>) =>
    Effect.orDie(
      Effect.forEach(some, ({ id }) =>
        Effect.flatMap(memory.endpoints.get(realm, id), (found) => land(memory, update("endpoint", next(found!, { description: "moved" }))))
      )
    )
  return { world, endpoints, relayed, moved }
})

const deliveriesIn = (changes: ReadonlyArray<Change>): ReadonlyArray<Delivery> =>
  changes.flatMap((one) => (one._tag === "InsertDelivery" ? one.delivery : []))

const sizesOf = (commits: ReadonlyArray<ReadonlyArray<Change>>): ReadonlyArray<number> => commits.map((changes) => deliveriesIn(changes).length)

describe("a commit of the relay", () => {
  it.effect("holds a thousand deliveries at most, and all of an event's", () =>
    Effect.gen(function* () {
      const even = yield* relaying(4, 0)
      const odd = yield* relaying(3, 0)

      yield* even.relayed(300)
      yield* odd.relayed(400)

      assert.deepStrictEqual(sizesOf(even.world.commits), [1_000, 200])
      assert.deepStrictEqual(sizesOf(odd.world.commits), [999, 201])
    })
  )

  it.effect("holds 512 where somebody is attempted first, and one event's until the shard is held", () =>
    Effect.gen(function* () {
      const { world, relayed } = yield* relaying(4, 1)

      yield* relayed(300)

      assert.deepStrictEqual(sizesOf(world.commits), [4, 508, 512, 176])
    })
  )

  it.effect("holds 500 events at most, whoever hears of them", () =>
    Effect.gen(function* () {
      const { world, relayed } = yield* relaying(1, 0)

      yield* relayed(501)

      assert.deepStrictEqual(sizesOf(world.commits), [500, 1])
    })
  )

  it.effect("holds the successes at endpoints that are as they were, and leaves those at one that has changed to be recorded", () =>
    Effect.gen(function* () {
      const { world, endpoints, relayed, moved } = yield* relaying(2, 2)
      yield* relayed(1)
      world.commits.length = 0
      world.meanwhile = moved([endpoints[0]!])

      yield* relayed(1)

      const made = deliveriesIn(world.commits.at(-1)!)
      const landed = made.map(({ endpointId, status }) => [endpointId, status])
      assert.deepStrictEqual(landed, [[endpoints[0]!.id, "pending"], [endpoints[1]!.id, "delivered"]])
      assert.deepStrictEqual(world.recorded.map(({ endpointId }) => endpointId), [endpoints[0]!.id])
      assert.deepStrictEqual(world.forgotten.slice(-2), made.map(({ id }) => id), "no attempt is remembered behind its delivery's commit")
    })
  )

  it.effect("holds no success at an endpoint that has failed, within its events or before: those are recorded in their order", () =>
    Effect.gen(function* () {
      const { world, relayed } = yield* relaying(1, 1)
      yield* relayed(1)
      const landed = (count: number) =>
        Effect.gen(function* () {
          world.recorded.length = world.known.length = 0
          yield* relayed(count)
          return [deliveriesIn(world.commits.at(-1)!).map(({ status }) => status), world.recorded.length, world.known.length]
        })

      assert.deepStrictEqual(yield* landed(2), [["delivered", "delivered"], 0, 2])
      world.first = { ...ok, outcome: "http_error" }
      assert.deepStrictEqual(yield* landed(2), [["pending", "pending"], 2, 0])
      world.first = ok
      world.hasFailedLately = true
      assert.deepStrictEqual(yield* landed(2), [["pending", "pending"], 2, 0])
    })
  )

  it.effect("is tried five times at most, however many endpoints have changed", () =>
    Effect.gen(function* () {
      const { world, endpoints, relayed, moved } = yield* relaying(10, 10)
      yield* relayed(1)
      world.commits.length = 0
      world.meanwhile = moved(endpoints)

      yield* relayed(1)

      assert.deepStrictEqual([world.commits.length, world.recorded.length], [5, 10])
    })
  )
})
