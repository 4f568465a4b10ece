/** The breaker of an endpoint: ten failed attempts since the last success disable it, or an operator, and only an operator enables it again. */
import { Clock, Deferred, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import type { EndpointId } from "../../core/model/Ids.ts"
import { freshId } from "../fixtures.ts"
import { CallLog, NoCommits } from "./Faults.ts"
import {
  broken,
  countOf,
  deliveriesTo,
  deliveryTo,
  enable,
  endpointOf,
  happen,
  hook,
  ok,
  outcomesOf,
  play,
  postsTo,
  relayAll,
  replay,
  respond,
  running,
  times,
  untilNextAttempt,
  untilPosted
} from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, pass, scenario, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** So many failed attempts, each of another delivery. */
const fail = (world: World, process: Process, of: Tenancy, count: number) =>
  Effect.gen(function* () {
    respond(world, () => broken)
    for (let failure = 0; failure < count; failure++) {
      yield* happen(process, of)
      yield* settle(process)
    }
  })

const audited = (world: World, { realm }: Tenancy, action: string) =>
  Effect.map(world.store.audit.page(realm.tenantId, 1_000), (entries) => entries.filter((entry) => entry.action === action))

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

    scenario("an endpoint that an operator disables is sent nothing more: what is under way ends, and what is pending dies and can be replayed", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 3)
        const gate = yield* Deferred.make<void>()
        respond(world, () => Effect.as(Deferred.await(gate), answered(200)))
        yield* happen(process, of)
        const asked = world.stage.posts.length
        const underWay = yield* Effect.forkChild(settle(process))
        yield* untilPosted(world, asked + 1)
        yield* Time.adjust("1 second")
        const now = yield* Clock.currentTimeMillis
        const disable = process.webhookManagement.disableEndpoint(system, of.realm.tenantId, to.endpoint.id)

        const { enabled, disabledAt, consecutiveFailures } = yield* disable

        assert.deepEqual([enabled, disabledAt, consecutiveFailures], [false, now, 3])
        yield* happen(process, of)
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(underWay)
        respond(world, () => ok)
        yield* pass(process, "5 minutes")
        assert.deepEqual(yield* countOf(world, to), [0, false])
        assert.equal(postsTo(world, to).length, 4)
        assert.deepEqual((yield* deliveriesTo(world, to)).map(({ status }) => status).toSorted(), ["dead", "dead", "dead", "delivered"])

        const before = yield* endpointOf(world, to)
        yield* disable
        assert.deepEqual(yield* endpointOf(world, to), before, "to disable it again changes nothing")
        assert.equal((yield* audited(world, of, "webhook_endpoint.disable")).length, 1)
        const absent = process.webhookManagement.disableEndpoint(system, of.realm.tenantId, freshId<EndpointId>())
        assert.equal((yield* Effect.flip(absent))._tag, "UnknownResource")
        assert.equal((yield* enable(process, to, true)).replayed, 3)
        yield* settle(process)
        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "delivered"))
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
        yield* relayAll(process)
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
        const shown = yield* process.webhookManagement.getEndpoint(of.realm.tenantId, to.endpoint.id)

        const { endpoint, replayed } = yield* enable(process, to, true)
        const absent = process.webhookManagement.enableEndpoint(system, of.realm.tenantId, freshId<EndpointId>(), { replayDead: true })
        const elsewhere = process.webhookManagement.enableEndpoint(system, (yield* world.found()).realm.tenantId, to.endpoint.id, { replayDead: true })

        assert.deepEqual([endpoint, replayed], [shown, 0])
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

    scenario("answers that come together count in their order, in a few commits: nine failures at a time disable nobody", (world) =>
      Effect.gen(function* () {
        const log = new CallLog()
        const process = yield* world.boot(log)
        const of = yield* world.found()
        const to = yield* hook(process, of)
        // When the first hundred have answered, all others are in flight where places pass from job to job, and eight elsewhere.
        const [quick, together, inFlightLeast] = [100, 60, 8]
        const gate = yield* Deferred.make<void>()
        let asked = 0
        respond(world, () =>
          Effect.suspend(() => {
            asked += 1
            return asked <= quick ? ok : Effect.andThen(Deferred.await(gate), asked % 10 === 0 ? ok : broken)
          })
        )
        yield* times(quick + together, happen(process, of))
        while ((yield* process.worker.tick) > 0) continue // a tick may leave some to be submitted, whose commits would be counted
        yield* process.relay.tick
        yield* running(
          process,
          Effect.gen(function* () {
            yield* Time.until(() => asked >= quick + inFlightLeast)
            yield* Time.calm
            log.made.length = 0
            yield* Deferred.succeed(gate, undefined)
            yield* Time.adjust("1 second")
          })
        )

        assert.deepEqual(yield* countOf(world, to), [0, true])
        const attempts = (yield* deliveriesTo(world, to)).flatMap((delivery) => outcomesOf(delivery))
        assert.deepEqual([asked, attempts.length, attempts.filter((outcome) => outcome !== "success").length], [160, 160, 54])
        const commits = log.made.filter((call) => call === "Store.commit").length
        assert.ok(commits <= 12, `${commits} commits`)
      })
    ),

    scenario("a store that fails one commit parts no success from the failures around it", (world) =>
      Effect.gen(function* () {
        const store = new NoCommits()
        const process = yield* world.boot(store)
        const of = yield* world.found()
        const to = yield* hook(process, of)
        yield* fail(world, process, of, 5)
        const gate = yield* Deferred.make<void>()
        let asked = 0
        respond(world, () =>
          Effect.suspend(() => {
            asked += 1
            return Effect.andThen(Deferred.await(gate), asked === 1 ? ok : broken)
          })
        )
        yield* times(6, happen(process, of))
        yield* process.relay.tick
        const delivering = yield* Effect.forkChild(process.worker.tick)
        yield* untilPosted(world, world.stage.posts.length + 6 - asked)
        ;[store.isOn, store.left] = [true, 1]
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(delivering)
        yield* Time.adjust("31 seconds")
        yield* settle(process)

        assert.deepEqual([yield* countOf(world, to), asked, store.hasStruck], [[5, true], 6, true])
      })
    ),

    scenario("a success that could not be committed counts before the failures that ended after it", (world) =>
      Effect.gen(function* () {
        const store = new NoCommits()
        const process = yield* world.boot(store)
        const of = yield* world.found()
        const to = yield* hook(process, of)
        yield* happen(process, of)
        yield* process.worker.tick
        yield* process.relay.tick
        ;[store.isOn, store.left] = [true, 1]
        yield* process.worker.tick
        assert.ok(store.hasStruck)
        const asked = postsTo(world, to).length
        yield* fail(world, process, of, 3)
        yield* Time.adjust("31 seconds")
        yield* settle(process)

        assert.deepEqual([yield* countOf(world, to), postsTo(world, to).length - asked], [[3, true], 3])
      })
    ),

    scenario("an ending that breaks whoever records it breaks no other", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* fail(world, process, of, 1)
        yield* times(6, happen(process, of))
        yield* process.relay.tick
        const [, , bad] = yield* deliveriesTo(world, to)
        const notText = 7 as unknown as string // what no transport may answer
        respond(world, ({ json }) => (json.id === bad!.eventId ? Effect.succeed({ ...answered(500), retryAfter: notText }) : broken))

        yield* process.worker.tick

        const found = (yield* deliveriesTo(world, to)).slice(1)
        assert.deepEqual(found.map((one) => outcomesOf(one).length), found.map(({ id }) => (id === bad!.id ? 0 : 1)))
        assert.deepEqual(yield* countOf(world, to), [6, true])
      })
    ),

    scenario("a store that fails one commit beside an ending that breaks it parts no success from the failures either", (world) =>
      Effect.gen(function* () {
        const store = new NoCommits()
        const process = yield* world.boot(store)
        const of = yield* world.found()
        const to = yield* hook(process, of)
        yield* fail(world, process, of, 5)
        yield* times(7, happen(process, of))
        yield* process.relay.tick
        const gate = yield* Deferred.make<void>()
        let asked = 0
        const notText = 7 as unknown as string // what no transport may answer
        const bad = Effect.succeed({ ...answered(500), retryAfter: notText })
        respond(world, () =>
          Effect.suspend(() => {
            asked += 1
            return Effect.andThen(Deferred.await(gate), asked === 1 ? ok : asked === 7 ? bad : broken)
          })
        )
        const delivering = yield* Effect.forkChild(process.worker.tick)
        yield* untilPosted(world, world.stage.posts.length + 7 - asked)
        ;[store.isOn, store.left] = [true, 1]
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(delivering)
        yield* Time.adjust("31 seconds")
        yield* settle(process)

        assert.deepEqual([yield* countOf(world, to), asked, store.left], [[5, true], 7, 0])
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
