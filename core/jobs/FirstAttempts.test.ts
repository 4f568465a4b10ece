import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Time from "../../conformance/scenarios/Time.ts"
import { loggedTo } from "../../conformance/scenarios/World.ts"
import { append, insert, land } from "../../conformance/StoreLaw.ts"
import { sealContext, type Endpoint } from "../model/Endpoint.ts"
import { Crypto } from "../ports/Crypto.ts"
import { Store } from "../ports/Store.ts"
import { Settings, defaults } from "../Settings.ts"
import { EventRelay } from "./EventRelay.ts"
import { FirstAttempts, type NewDelivery } from "./FirstAttempts.ts"
import { RecordAttempts } from "./RecordAttempts.ts"
import { WebhookAttempts, type Ending } from "./WebhookAttempts.ts"

/** A relay, with what it makes its first attempts with. */
const relaying = EventRelay.layer.pipe(
  Layer.provideMerge(FirstAttempts.layer),
  Layer.provide(RecordAttempts.layer),
  Layer.provideMerge(WebhookAttempts.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      Memory.layer,
      NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
      Layer.succeed(Settings, defaults)
    )
  )
)

it.effect("A first attempt is remembered no longer than until its delivery is committed", () =>
  Effect.gen(function* () {
    const store = yield* Store
    const realm = Fixtures.realm()
    const unsealed = Fixtures.endpoint(realm)
    const secret = yield* (yield* Crypto).seal(Redacted.make("whsec_AAAA"), sealContext(unsealed))
    const endpoint = { ...unsealed, secret }
    yield* (yield* WebhookAttempts).attempt(Fixtures.delivery(endpoint), endpoint, "{}") // it answers at once
    // The first of two is claimed, for until then another may hold the shard.
    const events = [1, 2].map(() => Fixtures.queuedEvent(Fixtures.message(realm)))
    yield* land(store, insert("endpoint", endpoint), ...events.map(append))

    yield* (yield* EventRelay).tick

    const made = yield* store.deliveries.page(realm, { applicationId: endpoint.applicationId, endpointId: endpoint.id, limit: 10 })
    assert.deepStrictEqual(made.map(({ status }) => status), ["delivered", "pending"])
    assert.deepStrictEqual(made.map((yield* FirstAttempts).begun), [null, null])
  }).pipe(Effect.provide(relaying))
)

const realm = Fixtures.realm()
const receiver = () => Fixtures.endpoint(realm)
const receivers = (count: number): ReadonlyArray<Endpoint> => Array.from({ length: count }, receiver)

const deliveriesTo = (endpoint: Endpoint, count = 1): ReadonlyArray<NewDelivery> =>
  Array.from({ length: count }, () => ({ delivery: Fixtures.delivery(endpoint), endpoint, body: "{}", attempt: null }))

const ok: Ending = { sequence: 1, startedAt: 0, endedAt: 0, outcome: "success", answer: { status: 200, retryAfter: null } }
const answered = Effect.succeed(ok)
const answeredAfter = (millis: number) => Effect.delay(answered, millis)

const hasBegun = ({ attempt }: NewDelivery): boolean => attempt !== null
const hasEnded = ({ attempt }: NewDelivery): boolean => attempt !== null && attempt.ending !== null

/** Receivers that answer like this; so many attempts may be in flight at each, unless it is doubted. */
const playing = Effect.fnUntraced(function* (answer: (endpoint: Endpoint) => Effect.Effect<Ending>, inFlightMax = 64) {
  const doubted = new Set<Endpoint>()
  const attempts = WebhookAttempts.of({
    attempt: (_, endpoint) => answer(endpoint),
    hasFailedLately: () => false,
    inFlightMax: (endpoint) => (doubted.has(endpoint) ? 0 : inFlightMax),
    doubt: (endpoint) => void doubted.add(endpoint),
    unrecorded: () => null,
    recorded: () => {}
  })
  const first = Context.get(yield* Layer.build(Layer.provide(FirstAttempts.layer, Layer.succeed(WebhookAttempts, attempts))), FirstAttempts)

  /** Begins a turn; when it is over, in milliseconds from its beginning: null if it is not. */
  const begin = Effect.fnUntraced(function* (deliveries: ReadonlyArray<NewDelivery>) {
    const since = yield* Clock.currentTimeMillis
    let tookMillis: number | null = null
    const turn = Effect.flatMap(first.make(deliveries), () => Effect.map(Clock.currentTimeMillis, (now) => void (tookMillis = now - since)))
    yield* Effect.forkChild(turn, { startImmediately: true })
    yield* Time.calm
    return { deliveries, tookMillis: () => tookMillis }
  })
  return { first, begin, doubted }
})

/** Bit by bit, so that whoever goes on at some millisecond does so at that one. */
const pass = (millis: number) => Time.adjust(millis, 1)

describe("a turn of first attempts", () => {
  it.effect("has 128 requests in flight, to however many endpoints, and makes the next when one of them has ended", () =>
    Effect.gen(function* () {
      const endpoints = receivers(130)
      const { begin } = yield* playing((endpoint) => answeredAfter(endpoint === endpoints[0] ? 10 : 20))

      const { deliveries, tookMillis } = yield* begin(endpoints.flatMap((endpoint) => deliveriesTo(endpoint)))

      assert.strictEqual(deliveries.filter(hasBegun).length, 128)
      yield* pass(10)
      assert.strictEqual(deliveries.filter(hasBegun).length, 129)
      yield* pass(30)
      assert.deepStrictEqual([deliveries.filter(hasEnded).length, tookMillis()], [130, 40])
    })
  )

  it.effect("shares them between the endpoints that are quick, and with none that is not", () =>
    Effect.gen(function* () {
      const [quick, ...others] = receivers(64)
      const { begin, doubted } = yield* playing(() => Effect.never)
      for (const one of others) doubted.add(one)

      const { deliveries } = yield* begin([...deliveriesTo(quick!, 100), ...others.flatMap((one) => deliveriesTo(one))])

      assert.strictEqual(deliveries.filter(hasBegun).length, 64)
    })
  )

  it.effect("goes by turns through its endpoints where few requests are free", () =>
    Effect.gen(function* () {
      const { begin } = yield* playing(() => Effect.never)
      yield* begin(receivers(2).flatMap((endpoint) => deliveriesTo(endpoint, 63)))

      const { deliveries } = yield* begin(receivers(2).flatMap((endpoint) => deliveriesTo(endpoint, 10)))

      assert.deepStrictEqual([deliveries.slice(0, 10), deliveries.slice(10)].map((own) => own.filter(hasBegun).length), [1, 1])
    })
  )

  it.effect("goes before those that came after it, where a request is free again", () =>
    Effect.gen(function* () {
      const quick = receiver()
      const { begin } = yield* playing((endpoint) => (endpoint === quick ? answeredAfter(50) : Effect.never))
      yield* begin(deliveriesTo(quick))
      yield* begin([...deliveriesTo(receiver(), 64), ...deliveriesTo(receiver(), 63)])

      const [first, second] = [yield* begin(deliveriesTo(receiver())), yield* begin(deliveriesTo(receiver()))]
      yield* pass(50)

      assert.deepStrictEqual([first, second].map(({ deliveries }) => deliveries.some(hasBegun)), [true, false])
    })
  )

  it.effect("shares the places at an endpoint with the turns beside it", () =>
    Effect.gen(function* () {
      const endpoint = receiver()
      let inFlight = 0
      let most = 0
      const counted = Effect.suspend(() => {
        most = Math.max(most, ++inFlight)
        return Effect.ensuring(answeredAfter(10), Effect.sync(() => (inFlight -= 1)))
      })
      const { begin } = yield* playing(() => counted, 1)

      const first = yield* begin(deliveriesTo(endpoint, 5))
      yield* pass(10)
      const second = yield* begin(deliveriesTo(endpoint, 5))
      yield* pass(100)

      assert.deepStrictEqual([[...first.deliveries, ...second.deliveries].every(hasEnded), most], [true, 1])
    })
  )

  it.effect("leaves room beside endpoints that hang, however many of its requests they would take", () =>
    Effect.gen(function* () {
      const hanging = receivers(2)
      const { begin } = yield* playing((endpoint) => (hanging.includes(endpoint) ? Effect.never : answeredAfter(10)))

      const { deliveries } = yield* begin([...hanging, receiver()].flatMap((endpoint) => deliveriesTo(endpoint, 200)))
      yield* pass(100)

      const [begun, ended] = [deliveries.slice(0, 400).filter(hasBegun), deliveries.slice(400).filter(hasEnded)]
      assert.deepStrictEqual([begun.length, ended.length], [2 * 43, 200])
    })
  )

  it.effect("goes on to begin others for 250 ms, and is over when these have ended", () =>
    Effect.gen(function* () {
      const { begin, doubted } = yield* playing(() => answeredAfter(10), 1)

      const { deliveries, tookMillis } = yield* begin(deliveriesTo(receiver(), 100))
      yield* pass(400)

      assert.deepStrictEqual([deliveries.filter(hasBegun).length, deliveries.filter(hasEnded).length], [25, 25])
      assert.deepStrictEqual([tookMillis(), doubted.size], [250, 0])
    })
  )

  it.effect("waits for answers for 350 ms, and doubts the endpoints that have not given theirs", () =>
    Effect.gen(function* () {
      const [hanging, late, well] = receivers(3)
      const { begin, doubted } = yield* playing((endpoint) => (endpoint === hanging ? Effect.never : answeredAfter(endpoint === late ? 349 : 1)))

      const { deliveries, tookMillis } = yield* begin([hanging!, late!, well!].flatMap((endpoint) => deliveriesTo(endpoint)))
      yield* pass(400)

      assert.deepStrictEqual([deliveries.map(hasBegun), deliveries.map(hasEnded)], [[true, true, true], [false, true, true]])
      assert.deepStrictEqual([tookMillis(), [...doubted]], [350, [hanging]])
    })
  )

  it.effect("leaves to be claimed what has not begun in 250 ms, because others have the places at its endpoint", () =>
    Effect.gen(function* () {
      const endpoint = receiver()
      const { begin, doubted } = yield* playing(() => Effect.never, 1)

      yield* begin(deliveriesTo(endpoint))
      const { deliveries, tookMillis } = yield* begin(deliveriesTo(endpoint))
      yield* pass(250)

      assert.deepStrictEqual([deliveries.some(hasBegun), tookMillis(), doubted.size], [false, 250, 0])
    })
  )

  it.effect("begins within 250 ms where those before it have the places, and has all of its time from then on", () =>
    Effect.gen(function* () {
      const endpoint = receiver()
      const answers = [answeredAfter(200), answeredAfter(340)]
      const { begin } = yield* playing(() => answers.shift()!, 1)

      yield* begin(deliveriesTo(endpoint))
      const { deliveries, tookMillis } = yield* begin(deliveriesTo(endpoint))
      yield* pass(600)

      assert.deepStrictEqual([deliveries.every(hasEnded), tookMillis()], [true, 540])
    })
  )

  it.effect("begins where those before it have all requests, as soon as one of them is free", () =>
    Effect.gen(function* () {
      const others = receivers(2)
      const { begin } = yield* playing((endpoint) => answeredAfter(others.includes(endpoint) ? 100 : 1))

      yield* begin(others.flatMap((endpoint) => deliveriesTo(endpoint, 64)))
      const { deliveries, tookMillis } = yield* begin(deliveriesTo(receiver(), 2))
      yield* pass(200)

      assert.deepStrictEqual([deliveries.every(hasEnded), tookMillis()], [true, 101])
    })
  )

  it.effect("does not wait at an endpoint that has been found to hang", () =>
    Effect.gen(function* () {
      const endpoint = receiver()
      const { begin } = yield* playing(() => Effect.never, 1)

      const before = yield* begin(deliveriesTo(endpoint))
      yield* pass(200)
      const { deliveries, tookMillis } = yield* begin(deliveriesTo(endpoint))
      yield* pass(200)

      assert.deepStrictEqual([before.tookMillis(), tookMillis(), deliveries.some(hasBegun)], [350, 150, false])
    })
  )

  it.effect("counts at an endpoint what past turns have left in flight there", () =>
    Effect.gen(function* () {
      const endpoint = receiver()
      const { begin, doubted } = yield* playing(() => answeredAfter(1_000), 1)
      yield* begin(deliveriesTo(endpoint))
      yield* pass(800)
      doubted.clear() // it has answered what was claimed

      const { deliveries } = yield* begin(deliveriesTo(endpoint))
      yield* pass(199)
      const begunBefore = deliveries.some(hasBegun)
      yield* pass(1)

      assert.deepStrictEqual([begunBefore, deliveries.every(hasBegun)], [false, true])
    })
  )

  const lines: Array<string> = []

  it.effect("leaves a delivery whose attempt cannot be made as it was, and its endpoint's others with it", () =>
    Effect.gen(function* () {
      const [broken, well] = receivers(2)
      const broke = Effect.die(new Error("the secret broke"))
      const { first, begin, doubted } = yield* playing((endpoint) => (endpoint === broken ? broke : answered), 1)

      const { deliveries, tookMillis } = yield* begin([...deliveriesTo(broken!, 3), ...deliveriesTo(well!, 3)])

      assert.deepStrictEqual([deliveries.map(hasEnded), tookMillis()], [[false, false, false, true, true, true], 0])
      assert.deepStrictEqual(deliveries.slice(0, 3).map(({ attempt, delivery }) => [attempt, first.begun(delivery)]), Array.from({ length: 3 }, () => [null, null]))
      assert.deepStrictEqual([...doubted], [broken])
      assert.ok(lines.some((line) => line.includes(broken!.id) && line.includes("the secret broke")), lines.join("\n"))
    }).pipe(Effect.provide(loggedTo(lines)))
  )

  it.effect("remembers an attempt by its event and its endpoint, whatever delivery is made of them", () =>
    Effect.gen(function* () {
      const { first, begin } = yield* playing(() => answered)
      const [one, other] = receivers(2).flatMap((endpoint) => deliveriesTo(endpoint))
      const { eventId } = one!.delivery

      yield* begin([one!, { ...other!, delivery: { ...other!.delivery, eventId } }])

      const anew = [one!, other!].map(({ endpoint }) => first.begun(Fixtures.delivery(endpoint, { eventId })))
      assert.ok(anew[0] !== null && anew[0] === one!.attempt)
      assert.ok(anew[1] !== null && anew[1] !== one!.attempt)
      assert.isNull(first.begun(Fixtures.delivery(one!.endpoint)))
    })
  )

  it.effect("tells who asks for an attempt that cannot be made after all that it has no ending", () =>
    Effect.gen(function* () {
      const { first, begin } = yield* playing(() => Effect.delay(Effect.die(new Error("no attempt")), 500))
      const { deliveries } = yield* begin(deliveriesTo(receiver()))
      yield* pass(400)
      const { attempt } = deliveries[0]!
      assert.isNotNull(attempt)

      const asked = yield* Effect.forkChild(first.ended(attempt!), { startImmediately: true })
      yield* pass(100)

      assert.deepStrictEqual(asked.pollUnsafe()?._tag, "Success")
      assert.isNull(yield* first.ended(attempt!))
    })
  )
})
