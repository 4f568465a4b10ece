/** The breaker of an endpoint: ten failed attempts since the last success disable it, and only an operator enables it again. */
import { Clock, Deferred, Duration, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import type { EndpointId } from "../../core/model/Ids.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { freshId } from "../fixtures.ts"
import {
  broken,
  deliveriesTo,
  deliveryTo,
  endpointOf,
  happen,
  hook,
  ok,
  outcomesOf,
  postsTo,
  replay,
  respond,
  settleFor,
  untilNextAttempt,
  untilPosted,
  type Hook
} from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, pass, scenario, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const play = (world: World) =>
  Effect.gen(function* () {
    const process = yield* world.boot()
    const of = yield* world.found()
    return { process, of, to: yield* hook(process, of) }
  })

const times = <A, E, R>(count: number, effect: Effect.Effect<A, E, R>) =>
  Effect.forEach(Array.from({ length: count }), () => effect, { discard: true })

/** So many failed attempts, each of another delivery. */
const fail = (world: World, process: Process, of: Tenancy, count: number) =>
  Effect.gen(function* () {
    respond(world, () => broken)
    for (let failure = 0; failure < count; failure++) {
      yield* happen(process, of)
      yield* settle(process)
    }
  })

const countOf = (world: World, to: Hook) => Effect.map(endpointOf(world, to), ({ consecutiveFailures, enabled }) => [consecutiveFailures, enabled])

const audited = (world: World, { realm }: Tenancy, action: string) =>
  Effect.map(world.store.audit.page(realm.tenantId, 1_000), (entries) => entries.filter((entry) => entry.action === action))

const enable = (process: Process, { of, endpoint }: Hook, replayDead: boolean) =>
  process.webhookManagement.enableEndpoint(system, of.realm, endpoint.id, { replayDead })

/** Takes part in the scenario: how many requests an endpoint's receiver has under way, and had at most. */
const watched = (world: World, answer: (nth: number) => Effect.Effect<ReturnType<typeof answered>>) => {
  const flight = { now: 0, most: 0 }
  let nth = 0
  respond(world, () =>
    Effect.suspend(() => {
      flight.now += 1
      flight.most = Math.max(flight.most, flight.now)
      return Effect.ensuring(answer(++nth), Effect.sync(() => void (flight.now -= 1)))
    })
  )
  return flight
}

/** A worker and a relay that run in the background until the effect is done. */
const running = <A, E, R>({ worker, relay }: Process, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let stopping = false
    const fibers = [
      yield* Effect.forkChild(worker.run(() => stopping, Duration.millis(200))),
      yield* Effect.forkChild(Effect.forever(Effect.andThen(relay.tick, Effect.sleep(50))))
    ]
    const result = yield* effect
    stopping = true
    yield* Fiber.interruptAll(fibers)
    return result
  })

export const suite: ScenarioSuite = {
  name: "webhook breaker",
  checks: [
    scenario("ten failed attempts in a row, over several deliveries, disable the endpoint, and that is audited", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 9)
        assert.deepEqual(yield* countOf(world, to), [9, true])
        yield* Time.adjust("1 second")
        const now = yield* Clock.currentTimeMillis

        yield* fail(world, process, of, 1)

        const { consecutiveFailures, enabled, disabledAt } = yield* endpointOf(world, to)
        assert.deepEqual([consecutiveFailures, enabled, disabledAt], [10, false, now])
        const [entry, ...more] = yield* audited(world, of, "webhook_endpoint.disable")
        assert.deepEqual([entry!.actor, entry!.subject.id, entry!.at, more.length], [system, to.endpoint.id, now, 0])
        const [shown] = (yield* process.webhooks.listEndpoints(of.principal)).items
        assert.deepEqual([shown!.enabled, shown!.consecutiveFailures, shown!.disabledAt !== null], [false, 10, true])
      })
    ),

    scenario("the retries of two deliveries disable it as well: ten attempts, whosever they are", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 2)

        yield* pass(process, "12 hours", "10 minutes")

        assert.deepEqual(yield* countOf(world, to), [10, false])
        assert.equal(postsTo(world, to).length, 10)
      })
    ),

    scenario("a success among the failures starts the count anew", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 9)
        respond(world, () => ok)
        yield* happen(process, of)
        yield* settle(process)
        assert.deepEqual(yield* countOf(world, to), [0, true])

        yield* fail(world, process, of, 9)

        assert.deepEqual(yield* countOf(world, to), [9, true])
      })
    ),

    scenario("pending deliveries of a disabled endpoint become dead when they are due, without a request", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 10)
        const before = yield* deliveriesTo(world, to)
        assert.ok(before.every(({ status }) => status === "pending"))
        respond(world, () => ok)
        const first = Math.min(...before.map(({ nextAttemptAt }) => nextAttemptAt!))
        yield* Time.setTime(first - 1)
        yield* settle(process)
        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "pending"), "not before they are due")

        yield* pass(process, "5 minutes")

        for (const { status, lastError, deadAt, attempts, attemptCount, ...delivery } of yield* deliveriesTo(world, to)) {
          assert.deepEqual([status, lastError, attempts.length, attemptCount, delivery.nextAttemptAt], ["dead", "endpoint_disabled", 1, 1, null])
          assert.ok(deadAt! >= first)
        }
        assert.equal(postsTo(world, to).length, 10)
        assert.deepEqual(yield* countOf(world, to), [10, false])
      })
    ),

    scenario("a success that was in flight when the endpoint was disabled resets the counter, and it stays disabled", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const second = yield* world.boot()
        const gate = yield* Deferred.make<void>()
        yield* fail(world, process, of, 9)
        respond(world, () => Effect.as(Deferred.await(gate), answered(200)))
        yield* happen(process, of)
        const asked = world.stage.posts.length
        const slow = yield* Effect.forkChild(settle(process))
        yield* untilPosted(world, asked + 1)
        yield* Time.adjust("1 second")
        respond(world, () => broken)
        yield* happen(second, of)
        yield* process.relay.tick
        yield* settle(second)
        const disabled = yield* endpointOf(world, to)
        assert.deepEqual([disabled.consecutiveFailures, disabled.enabled], [10, false])

        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(slow)

        const { enabled, consecutiveFailures, disabledAt } = yield* endpointOf(world, to)
        assert.deepEqual([enabled, consecutiveFailures, disabledAt], [false, 0, disabled.disabledAt])
        assert.equal((yield* deliveriesTo(world, to)).filter(({ status }) => status === "delivered").length, 1)
      })
    ),

    scenario("a success that began before a failure and ends after it is recorded by its one request, and resets the count", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* happen(process, of)
        yield* happen(process, of)
        yield* process.relay.tick
        const late = Effect.delay(ok, "2 seconds")
        respond(world, () => Effect.suspend(() => (postsTo(world, to).length === 1 ? late : broken)))

        const asked = world.stage.posts.length
        const working = yield* Effect.forkChild(process.worker.tick)
        yield* untilPosted(world, asked + 2)
        assert.deepEqual(yield* countOf(world, to), [1, true])
        yield* Time.adjust("2 seconds")
        yield* Fiber.join(working)

        assert.deepEqual(yield* countOf(world, to), [0, true])
        assert.deepEqual((yield* deliveriesTo(world, to)).map(({ status }) => status).toSorted(), ["delivered", "pending"])
        assert.equal(postsTo(world, to).length, 2)
      })
    ),

    scenario("a replay to a disabled endpoint is refused", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => ok)
        yield* happen(process, of)
        yield* settle(process)
        const delivered = yield* deliveryTo(world, to)
        yield* fail(world, process, of, 10)

        const error = yield* Effect.flip(replay(process, of, delivered))

        assert.equal(error._tag, "EndpointDisabled")
        assert.deepEqual(yield* world.store.deliveries.get(of.realm, delivered.id), delivered)
      })
    ),

    scenario("an endpoint that is enabled again starts at 0, and gets the events from then on, but none that happened meanwhile", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 10)
        respond(world, () => ok)
        yield* happen(process, of)
        yield* settle(process)
        yield* happen(process, of) // not yet relayed when it is enabled
        const before = (yield* deliveriesTo(world, to)).length
        assert.equal(before, 10)

        const { endpoint, replayed } = yield* enable(process, to, false)
        yield* settle(process)
        yield* happen(process, of)
        yield* settle(process)

        assert.deepEqual([endpoint.enabled, endpoint.consecutiveFailures, endpoint.disabledAt, replayed], [true, 0, null, 0])
        assert.equal((yield* deliveriesTo(world, to)).length, before + 1)
        assert.equal((yield* audited(world, of, "webhook_endpoint.enable")).length, 1)
        yield* pass(process, "2 minutes")
        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "delivered"), "those not yet dead go on")
      })
    ),

    scenario("enabling leaves what died meanwhile, unless it is asked to replay that", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const early = yield* world.boot(undefined, { deliveryBackoff: [1] })
        respond(world, () => broken)
        yield* happen(early, of)
        yield* pass(early, "1 second", "10 millis")
        const old = yield* deliveryTo(world, to)
        assert.equal(old.status, "dead")
        respond(world, () => ok)
        yield* happen(early, of)
        yield* settle(early)
        yield* Time.adjust("10 seconds")
        yield* fail(world, process, of, 10)
        yield* pass(process, "5 minutes")
        const dead = (yield* deliveriesTo(world, to)).filter(({ id, status }) => status === "dead" && id !== old.id)
        assert.equal(dead.length, 10)
        respond(world, () => ok)

        assert.equal((yield* enable(process, to, false)).replayed, 0)
        yield* settle(process)
        assert.ok((yield* deliveriesTo(world, to)).filter(({ status }) => status === "dead").length === 11)
        yield* fail(world, process, of, 10)
        yield* pass(process, "5 minutes")
        respond(world, () => ok)
        const { replayed } = yield* enable(process, to, true)
        yield* settle(process)

        assert.equal(replayed, 10)
        const left = (yield* deliveriesTo(world, to)).filter(({ status }) => status === "dead").map(({ id }) => id)
        assert.deepEqual(left.toSorted(), [old, ...dead].map(({ id }) => id).toSorted(), "what died before it was disabled stays dead")
      })
    ),

    scenario("more than a commit can hold are replayed when it is enabled", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* times(510, happen(process, of))
        while ((yield* process.relay.tick) > 0) continue
        respond(world, () => broken)
        yield* pass(process, "5 minutes", "1 minute")
        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "dead"))
        respond(world, () => ok)

        const { replayed } = yield* enable(process, to, true)
        yield* settle(process)

        assert.equal(replayed, 510)
        assert.ok((yield* deliveriesTo(world, to)).every(({ status, round }) => status === "delivered" && round === 2))
      })
    ),

    scenario("enabling what is enabled changes nothing; an endpoint that is not there cannot be enabled", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 3)
        const before = yield* endpointOf(world, to)

        const { endpoint, replayed } = yield* enable(process, to, true)
        const absent = process.webhookManagement.enableEndpoint(system, of.realm, freshId<EndpointId>(), { replayDead: true })
        const elsewhere = process.webhookManagement.enableEndpoint(system, { ...of.realm, environment: "sandbox" }, to.endpoint.id, { replayDead: true })

        assert.deepEqual([endpoint, replayed], [before, 0])
        assert.deepEqual(yield* endpointOf(world, to), before)
        for (const refused of [absent, elsewhere]) assert.equal((yield* Effect.flip(refused))._tag, "UnknownResource")
        assert.deepEqual(yield* audited(world, of, "webhook_endpoint.enable"), [])
      })
    ),

    scenario("two processes that deliver to one endpoint at once lose no failure, and count none twice", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const second = yield* world.boot()
        const pausing = (turns: number) => times(turns, Effect.yieldNow)
        for (const succeeding of [0, 3]) {
          respond(world, (_, nth) => Effect.andThen(pausing((nth * 7) % 5), nth > 1 || succeeding === 0 ? broken : ok))
          yield* times(8, happen(process, of))
          yield* process.relay.tick
          const before = yield* endpointOf(world, to)
          yield* Effect.all([process.worker.tick, second.worker.tick], { concurrency: "unbounded" })
          const after = yield* endpointOf(world, to)
          if (succeeding === 0) assert.deepEqual([before.consecutiveFailures, after.consecutiveFailures], [0, 8])
          else assert.equal(after.consecutiveFailures, 0)
        }

        const attempts = (yield* deliveriesTo(world, to)).flatMap((delivery) => delivery.attempts)
        assert.equal(attempts.length, postsTo(world, to).length)
        assert.equal(attempts.length, 16)
      })
    ),

    scenario("a receiver that does not answer gets one delivery at a time until it does", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => Effect.never)
        yield* happen(process, of)
        yield* settleFor(world, process, "10 seconds")
        assert.equal((yield* endpointOf(world, to)).isSlow, true)
        const flight = watched(world, (nth) => Effect.delay(nth === 1 ? broken : ok, "1 second"))
        yield* times(4, happen(process, of))

        yield* running(process, Effect.gen(function* () {
          yield* Time.adjust("900 millis")
          assert.deepEqual(flight, { now: 1, most: 1 })
          yield* Time.adjust("550 millis")
          yield* Time.adjust("50 millis")
          assert.deepEqual(flight, { now: 3, most: 3 }, "any answer will do")
          yield* Time.adjust("2 seconds")
        }))

        assert.equal((yield* endpointOf(world, to)).isSlow, false)
        assert.ok((yield* deliveriesTo(world, to)).filter(({ status }) => status === "delivered").length === 3)
      })
    ),

    scenario("a receiver that is cut off has not answered: it stays slow until it does", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, (_, nth) => [Effect.never, Effect.fail(new WebhookUnanswered({ reason: "network_error" })), broken][nth - 1] ?? ok)
        yield* happen(process, of)
        yield* settleFor(world, process, "10 seconds")
        yield* untilNextAttempt(process, yield* deliveryTo(world, to))
        assert.deepEqual(outcomesOf(yield* deliveryTo(world, to)), ["timeout", "network_error"])
        assert.equal((yield* endpointOf(world, to)).isSlow, true)

        yield* untilNextAttempt(process, yield* deliveryTo(world, to))

        assert.equal((yield* endpointOf(world, to)).isSlow, false)
      })
    ),

    scenario("a slow endpoint that is enabled again is given its deliveries at once, like any other", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => Effect.never)
        yield* times(10, happen(process, of))
        yield* settleFor(world, process, "2 minutes")
        assert.deepEqual(yield* countOf(world, to), [10, false])

        yield* enable(process, to, false)
        yield* times(6, happen(process, of))
        const flight = watched(world, () => Effect.delay(ok, "1 second"))
        yield* running(process, Time.adjust("2 minutes"))

        assert.ok(flight.most >= 6, `${flight.most} at a time`)
      })
    ),

    scenario("a slow endpoint is held to one delivery at a time also after the queue has lost that", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => Effect.never)
        yield* happen(process, of)
        yield* settleFor(world, process, "10 seconds")
        yield* world.queue.throttle("deliver", to.endpoint.id, null)
        yield* happen(process, of)
        yield* settleFor(world, process, "10 seconds")

        const flight = watched(world, () => Effect.never)
        yield* times(3, happen(process, of))
        yield* running(process, Time.adjust("4 seconds"))

        assert.equal(flight.most, 1)
      })
    ),

    scenario("an endpoint that answers again while the queue is away is not held back for ever", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => Effect.never)
        yield* happen(process, of)
        yield* settleFor(world, process, "10 seconds")
        respond(world, () => Effect.delay(ok, "1 second"))
        yield* happen(process, of)
        const asked = world.stage.posts.length
        const working = yield* Effect.forkChild(settle(process))
        yield* untilPosted(world, asked + 1)
        world.stage.queueIsDown = true
        yield* Time.adjust("5 seconds")
        world.stage.queueIsDown = false
        yield* Fiber.join(working)
        yield* Time.adjust("2 minutes")
        
        yield* happen(process, of)
        yield* settleFor(world, process, "5 seconds")
        const flight = watched(world, () => Effect.delay(ok, "1 second"))
        yield* times(5, happen(process, of))
        yield* running(process, Time.adjust("3 seconds"))

        assert.equal((yield* endpointOf(world, to)).isSlow, false)
        assert.equal(flight.most, 5)
      })
    ),

    scenario("a receiver that hangs holds up nobody else's deliveries", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const other = yield* world.found()
        const good = yield* hook(process, other)
        respond(world, ({ url }) => (url === to.endpoint.url ? Effect.never : ok))
        yield* times(300, happen(process, of))

        yield* running(process, Effect.gen(function* () {
          yield* Time.adjust("1 second")
          yield* happen(process, other)
          yield* Time.adjust("1 second")
          yield* Time.adjust("50 millis") // a lane under way waits a moment before it claims
          assert.equal((yield* deliveryTo(world, good)).status, "delivered")
        }))

        assert.ok(postsTo(world, to).length <= 8, "and it gets a few at a time")
      })
    ),

    scenario("a mail server that hangs holds up no webhook", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        world.stage.behave = () => Effect.never
        yield* times(100, happen(process, of))

        yield* running(process, Time.adjust("2 seconds"))

        assert.equal(postsTo(world, to).length, 100)
      })
    ),

    scenario("an attempt that fails counts against its own endpoint alone", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const [sibling, stranger] = [yield* hook(process, of), yield* hook(process, yield* world.found())]
        respond(world, ({ url }) => (url === to.endpoint.url ? broken : ok))
        yield* happen(process, of)
        yield* settle(process)
        yield* untilNextAttempt(process, yield* deliveryTo(world, to))

        assert.deepEqual(
          [yield* countOf(world, to), yield* countOf(world, sibling), yield* countOf(world, stranger)],
          [[2, true], [0, true], [0, true]]
        )
      })
    )
  ]
}
