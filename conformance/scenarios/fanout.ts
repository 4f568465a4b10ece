/** From the log to the endpoints: each event once to each endpoint whose it is, and to no other. */
import { Effect } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import { types } from "../../core/model/Event.ts"
import { shardOf, type ApplicationId, type TenantId } from "../../core/model/Ids.ts"
import { address, freshId } from "../fixtures.ts"
import { Interlude, Turns } from "./Faults.ts"
import {
  addMailbox,
  assertSigned,
  broken,
  deliveriesTo,
  deliveryTo,
  endpointOf,
  happen,
  hook,
  ok,
  postsTo,
  relayAll,
  replay,
  respond,
  settleFor,
  untilNextAttempt,
  type Hook
} from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, logOf, pass, scenario, send, settle, typesOf, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** The types of what an endpoint has deliveries of, in the order of their events. */
const typesTo = (world: World, to: Hook) => Effect.map(deliveriesTo(world, to), (found) => found.map(({ eventType }) => eventType).toSorted())

const eventsTo = (world: World, to: Hook) => Effect.map(deliveriesTo(world, to), (found) => found.map(({ eventId }) => eventId).toSorted())

const idsOf = (events: ReadonlyArray<{ readonly id: string }>) => events.map(({ id }) => id).toSorted()

const sendTest = (process: Process, { realm, application }: Tenancy, type: (typeof types)[number] = "message.bounced") =>
  process.webhookManagement.sendTestEvent(system, { tenantId: realm.tenantId, applicationId: application.id, type })

export const suite: ScenarioSuite = {
  name: "webhook fan-out",
  checks: [
    scenario("an event goes once to each subscribed endpoint of its tenant and environment, whichever application's, and to no other", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const first = yield* world.found("production")
        const sibling = yield* world.foundApplication(first, "production")
        const sandbox = yield* world.foundApplication(first, "sandbox")
        const stranger = yield* world.found("production")
        const hear = (of: Tenancy, ...eventTypes: ReadonlyArray<string>) => hook(process, of, { eventTypes })
        const hearing = [
          yield* hear(first, "message.queued"),
          yield* hear(first, "message.sent", "message.queued"),
          yield* hear(first, "*"),
          yield* hear(first, "message.queued", "*"),
          yield* hear(sibling, "message.queued")
        ]
        const deaf = [
          yield* hear(first, "message.delivered", "mailbox.created"),
          yield* hear(sandbox, "*"),
          yield* hear(stranger, "*")
        ]

        yield* happen(process, first)
        yield* relayAll(process)

        const [event] = yield* logOf(world, first)
        for (const to of hearing) assert.deepEqual(yield* eventsTo(world, to), [event!.id])
        for (const to of deaf) assert.deepEqual(yield* eventsTo(world, to), [])
        yield* settle(process)
        for (const to of hearing) assert.equal(postsTo(world, to).filter(({ json }) => json.id === event!.id).length, 1)
        for (const to of deaf) assert.equal(postsTo(world, to).length, 0)
      })
    ),

    scenario("an endpoint gets the types that it subscribes to, and with * each that there is", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found("sandbox")
        const [all, some] = [
          yield* hook(process, of, { eventTypes: ["*"] }),
          yield* hook(process, of, { eventTypes: ["message.sent", "message.bounced", "domain.health_changed"] })
        ]

        for (const type of types) yield* sendTest(process, of, type)
        yield* send(process, of, address("bounced"))
        yield* pass(process, "1 minute")

        assert.deepEqual(yield* typesTo(world, all), [...types, "message.queued", "message.sent", "message.bounced"].toSorted())
        assert.deepEqual(
          yield* typesTo(world, some),
          ["message.sent", "message.bounced", "domain.health_changed", "message.sent", "message.bounced"].toSorted()
        )
        assert.equal(postsTo(world, all).length, types.length + 3)
      })
    ),

    scenario("events of the tenant as a whole go to its endpoints in both environments", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const first = yield* world.found("production")
        const sandbox = yield* world.foundApplication(first, "sandbox")
        const stranger = yield* world.found("sandbox")
        const [here, there, elsewhere] = [
          yield* hook(process, first, { eventTypes: ["mailbox.created"] }),
          yield* hook(process, sandbox, { eventTypes: ["*"] }),
          yield* hook(process, stranger, { eventTypes: ["*"] })
        ]

        yield* addMailbox(process, first)
        yield* settle(process)

        for (const to of [here, there]) {
          const { eventType, environment, status } = yield* deliveryTo(world, to)
          assert.deepEqual([eventType, environment, status], ["mailbox.created", to.of.realm.environment, "delivered"])
        }
        assert.deepEqual(yield* deliveriesTo(world, elsewhere), [])
      })
    ),

    scenario("an endpoint gets no event that happened before it was created, though nobody relayed it then", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const early = yield* hook(process, of)
        yield* happen(process, of)
        yield* Time.adjust("1 hour") // no relay runs

        const late = yield* hook(process, of)
        yield* happen(process, of)
        yield* settle(process)

        assert.equal((yield* deliveriesTo(world, early)).length, 2)
        assert.equal((yield* deliveryTo(world, late)).eventId, (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")[1]!.id)
      })
    ),

    scenario("an endpoint that was disabled and enabled again while no relay ran gets what happened before and after, and nothing of meanwhile", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const { tenantId } = of.realm
        yield* happen(process, of) // before it was there
        const [to, steady] = [yield* hook(process, of), yield* hook(process, of)]
        const turn = Effect.andThen(
          process.webhookManagement.disableEndpoint(system, tenantId, to.endpoint.id),
          Effect.andThen(happen(process, of), process.webhookManagement.enableEndpoint(system, tenantId, to.endpoint.id, { replayDead: false }))
        )
        yield* happen(process, of)
        yield* turn
        yield* happen(process, of)
        yield* Time.adjust("1 hour") // no relay runs
        yield* settle(process)

        const log = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")
        assert.equal(log.length, 4)
        assert.deepEqual(yield* eventsTo(world, to), idsOf([log[1]!, log[3]!]))
        assert.deepEqual(yield* eventsTo(world, steady), idsOf(log.slice(1)))

        yield* turn // now the relay has come to the end
        yield* settle(process)
        assert.equal((yield* deliveriesTo(world, to)).length, 2)
        assert.equal((yield* deliveriesTo(world, steady)).length, 4)
      })
    ),

    scenario("an endpoint that is created among events gets each that is behind it in the log, and none that is before", (world) =>
      Effect.gen(function* () {
        const processes = [yield* world.boot(new Turns()), yield* world.boot(new Turns())]
        const of = yield* world.found()
        let emitted = 0
        const hooks: Array<Hook> = []
        const once = (holds: () => boolean) => Effect.repeat(Effect.yieldNow, { until: holds })
        // Some happen while an endpoint is created, and none before it that is to be behind it.
        const emit = (index: number) => once(() => hooks.length >= Math.floor((index + 1) / 5)).pipe(Effect.andThen(happen(processes[index % 2]!, of)), Effect.map(() => (emitted += 1)))
        const create = (index: number) => once(() => emitted >= 5 * index).pipe(Effect.andThen(hook(processes[index % 2]!, of)), Effect.map((made) => hooks.push(made)))
        const relay = (index: number) => Effect.andThen(once(() => emitted >= index), processes[0]!.relay.tick)
        yield* Effect.all([Effect.forEach(Array(50).keys(), emit), Effect.forEach(Array(10).keys(), create), Effect.forEach(Array(50).keys(), relay)], { concurrency: "unbounded" })
        yield* settle(processes[0]!)

        const log = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")
        assert.deepEqual([hooks.length, log.length], [10, 50])
        const counts = new Set<number>()
        for (const to of hooks) {
          const { positions } = yield* endpointOf(world, to)
          const expected = idsOf(log.filter(({ position }) => position > positions.createdAfter))
          assert.deepEqual(yield* eventsTo(world, to), expected)
          counts.add(expected.length)
        }
        assert.equal(counts.size, 10, "they were created at different places of the log")
      })
    ),

    scenario("an endpoint that is created, and an event after it, at any moment of a relay's turn, meet", (world) =>
      Effect.gen(function* () {
        const calm = yield* world.boot()
        let moments = 0
        for (let call = 1; ; call++) {
          const of = yield* world.found()
          yield* happen(calm, of) // so that the relay looks for the tenant's endpoints
          const hooks: Array<Hook> = []
          const interlude = new Interlude(call, Effect.gen(function* () {
            hooks.push(yield* hook(calm, of))
            yield* happen(calm, of)
          }))
          const process = yield* world.boot(interlude)
          yield* Time.adjust("6 seconds") // its shard may be held by who relayed it in the round before
          yield* process.relay.tick
          yield* Time.adjust("6 seconds")
          yield* relayAll(calm)
          if (!interlude.hasStruck) break
          moments += 1

          const { eventId } = yield* deliveryTo(world, hooks[0]!)
          assert.equal(eventId, (yield* logOf(world, of)).findLast(({ type }) => type === "message.queued")!.id, `after call ${call}`)
        }
        assert.ok(moments >= 4, `${moments} moments`)
      })
    ),

    scenario("a long log is fanned out to the end, each event once", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const hooks = [yield* hook(process, of), yield* hook(process, of), yield* hook(process, of)]
        yield* Effect.forEach(Array.from({ length: 650 }), () => happen(process, of), { concurrency: 50, discard: true })

        const counts: Array<number> = []
        do counts.push(yield* process.relay.tick)
        while (counts.at(-1)! > 0)

        const log = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")
        assert.equal(log.length, 650)
        assert.ok(counts.reduce((sum, count) => sum + count) >= 650, counts.join())
        for (const to of hooks) assert.deepEqual(yield* eventsTo(world, to), idsOf(log))
      })
    ),

    scenario("events that nobody subscribes to hold up none behind them", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const to = yield* hook(process, of, { eventTypes: ["mailbox.created"] })
        yield* Effect.forEach(Array.from({ length: 450 }), () => happen(process, of), { concurrency: 50, discard: true })
        yield* addMailbox(process, of)

        yield* relayAll(process)

        assert.equal((yield* deliveryTo(world, to)).eventType, "mailbox.created")
        assert.equal(yield* process.relay.tick, 0)
      })
    ),

    scenario("an event goes to more than a thousand endpoints, and so do those that follow it", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const others = yield* Effect.forEach(Array.from({ length: 10 }), () => world.foundApplication(of, of.realm.environment))
        const hooks = yield* Effect.forEach([of, ...others], (one) => Effect.forEach(Array.from({ length: 100 }), () => hook(process, one)))
        for (const _ of [1, 2, 3]) yield* happen(process, of)

        yield* relayAll(process)

        const log = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")
        for (const to of hooks.flat()) assert.deepEqual(yield* eventsTo(world, to), idsOf(log))
      })
    ),

    scenario("several processes that relay at once make each delivery once", (world) =>
      Effect.gen(function* () {
        const processes = [yield* world.boot(), yield* world.boot(), yield* world.boot()]
        const tenancies = [yield* world.found(), yield* world.found()]
        const hooks = yield* Effect.forEach(tenancies, (of) => hook(processes[0]!, of))
        for (let round = 0; round < 10; round++) {
          yield* Effect.forEach(tenancies, (of) => happen(processes[0]!, of))
          yield* Effect.all(processes.map(({ relay }) => relay.tick), { concurrency: "unbounded" })
          yield* Time.adjust("6 seconds") // nobody's turn: all try at once again
        }
        yield* Effect.all(processes.map(settle), { concurrency: "unbounded" })

        for (const [index, to] of hooks.entries()) {
          const log = (yield* logOf(world, tenancies[index]!)).filter(({ type }) => type === "message.queued")
          assert.deepEqual(yield* eventsTo(world, to), idsOf(log))
          assert.equal(postsTo(world, to).length, 10)
        }
      })
    ),

    scenario("a worker leaves a shard to the one that moved it last, and takes it over within seconds when that one is gone", (world) =>
      Effect.gen(function* () {
        const [first, second] = [yield* world.boot(), yield* world.boot()]
        const of = yield* world.found()
        const to = yield* hook(first, of)
        yield* happen(first, of)
        yield* first.relay.tick
        yield* happen(first, of)

        assert.equal(yield* second.relay.tick, 0)
        yield* Time.adjust(4_999)
        assert.equal(yield* second.relay.tick, 0)
        yield* Time.adjust(1)

        assert.equal(yield* second.relay.tick, 1)
        assert.equal((yield* deliveriesTo(world, to)).length, 2)
        yield* happen(first, of)
        assert.equal(yield* first.relay.tick, 0, "now it is the other's")
      })
    ),

    scenario("a shard that is held until far in the future, by a clock that was wrong, is relayed all the same", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const [first, second] = [yield* world.boot(), yield* world.boot()]
        yield* Time.setTime(3 * 86_400_000)
        const to = yield* hook(first, of)
        yield* happen(first, of)
        yield* settle(first)
        yield* Time.setTime(86_400_000)

        yield* happen(second, of)
        yield* settle(second)

        assert.deepEqual((yield* deliveriesTo(world, to)).map(({ status }) => status), ["delivered", "delivered"])
      })
    ),

    scenario("a relay that cannot read the store goes on when it can", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const to = yield* hook(process, of)
        yield* happen(process, of)
        world.stage.storeIsDown = true
        for (let tick = 0; tick < 5; tick++) assert.equal(yield* process.relay.tick, 0)
        world.stage.storeIsDown = false

        yield* settle(process)

        assert.equal((yield* deliveryTo(world, to)).status, "delivered")
      })
    ),

    scenario("a test event goes to the endpoints of its sandbox application alone, and is listed for it alone, marked as a demo", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const first = yield* world.found("sandbox")
        const others = [
          yield* world.foundApplication(first, "sandbox"),
          yield* world.foundApplication(first, "production"),
          yield* world.found("sandbox")
        ]
        const subscribed = yield* hook(process, first, { eventTypes: ["message.bounced"] })
        const filtered = yield* hook(process, first, { eventTypes: ["message.sent"] })
        const foreign = yield* Effect.forEach(others, (of) => hook(process, of, { eventTypes: ["*"] }))

        const event = yield* sendTest(process, first)
        yield* settle(process)

        const { trigger, demo, status, eventId, eventType } = yield* deliveryTo(world, subscribed)
        assert.deepEqual([trigger, demo, status, eventId, eventType], ["test", true, "delivered", event.id, "message.bounced"])
        const [posted, ...more] = postsTo(world, subscribed)
        assert.equal(more.length, 0)
        assert.equal(posted!.json.data.demo, true)
        yield* assertSigned(world, subscribed, posted!)
        for (const to of [filtered, ...foreign]) assert.deepEqual(yield* deliveriesTo(world, to), [])
        const listed = ({ principal }: Tenancy) =>
          Effect.map(process.events.list(principal, { limit: 100, cursor: null }), ({ items }) => items.filter(({ id }) => id === event.id))
        assert.deepEqual((yield* listed(first)).map(({ data }) => data["demo"]), [true])
        for (const of of others) assert.deepEqual(yield* listed(of), [])
        const audited = yield* world.store.audit.page(first.realm.tenantId, 100)
        assert.deepEqual(audited.filter(({ action }) => action === "event.test").map(({ subject }) => subject.id), [event.id])
      })
    ),

    scenario("a test event of what is the tenant's as a whole stays in its application too", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const first = yield* world.found("sandbox")
        const production = yield* world.foundApplication(first, "production")
        const [here, there] = [
          yield* hook(process, first, { eventTypes: ["mailbox.suspended"] }),
          yield* hook(process, production, { eventTypes: ["mailbox.suspended"] })
        ]

        yield* sendTest(process, first, "mailbox.suspended")
        yield* settle(process)

        assert.equal((yield* deliveryTo(world, here)).status, "delivered")
        assert.deepEqual(yield* deliveriesTo(world, there), [])
      })
    ),

    scenario("a test event is retried, replayed and counted as any other, under the same signature", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found("sandbox")
        const to = yield* hook(process, of, { eventTypes: ["*"] })
        respond(world, (_, nth) => (nth === 2 ? ok : broken))
        yield* sendTest(process, of)
        yield* settle(process)
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 1)
        yield* untilNextAttempt(process, yield* deliveryTo(world, to))
        const delivered = yield* deliveryTo(world, to)
        assert.deepEqual([delivered.status, delivered.attempts.length], ["delivered", 2])

        const view = yield* replay(process, of, delivered)
        yield* settle(process)

        assert.deepEqual([view.trigger, view.demo], ["replay", true])
        const posts = postsTo(world, to)
        assert.equal(posts.length, 3)
        assert.equal(new Set(posts.map(({ text }) => text)).size, 1)
        yield* Effect.forEach(posts, (posted) => assertSigned(world, to, posted))
      })
    ),

    scenario("a test event is refused for a production application, and for one that is not there", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const production = yield* world.found("production")
        const stranger = yield* world.found("sandbox")
        const refused = (tenantId: TenantId, applicationId: ApplicationId) =>
          Effect.map(
            Effect.flip(process.webhookManagement.sendTestEvent(system, { tenantId, applicationId, type: "message.sent" })),
            ({ _tag }) => _tag
          )

        assert.equal(yield* refused(production.realm.tenantId, production.application.id), "NotSandbox")
        assert.equal(yield* refused(stranger.realm.tenantId, freshId<ApplicationId>()), "UnknownResource")
        assert.equal(yield* refused(production.realm.tenantId, stranger.application.id), "UnknownResource")
        assert.deepEqual(typesOf(yield* logOf(world, production)), [])
      })
    ),

    scenario("a worker has 128 requests in flight, and those that wait for their turn lose none of their time", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const hooks: Array<Hook> = []
        for (let count = 0; count < 20; count++) hooks.push(yield* hook(process, of))
        let [inFlight, most] = [0, 0]
        respond(world, () =>
          Effect.gen(function* () {
            most = Math.max(most, ++inFlight)
            yield* Effect.sleep("4 seconds")
            inFlight -= 1
            return answered(200)
          })
        )
        for (let count = 0; count < 8; count++) yield* happen(process, of)
        yield* settleFor(world, process, "1 minute")

        assert.equal(most, 128)
        for (const one of hooks) {
          const found = yield* deliveriesTo(world, one)
          assert.deepEqual(found.map(({ status, attemptCount }) => [status, attemptCount]), Array.from({ length: 8 }, () => ["delivered", 1]))
          for (const { attempts } of found) assert.equal(attempts[0]!.durationMs, 4_000) // the only one
        }
      })
    ),

    scenario("tenants of one shard do not hold each other up, nor meet", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const first = yield* world.found()
        let second = yield* world.found()
        while (shardOf(second.realm.tenantId) !== shardOf(first.realm.tenantId)) second = yield* world.found()
        const hooks = [yield* hook(process, first), yield* hook(process, second)]

        yield* Effect.all([1, 2, 3, 4].map((one) => happen(process, one % 2 === 0 ? first : second)), { concurrency: "unbounded" })
        yield* settle(process)

        for (const [index, of] of [first, second].entries()) {
          const log = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")
          assert.deepEqual(yield* eventsTo(world, hooks[index]!), idsOf(log))
        }
      })
    ),

    scenario("an endpoint that is down loses nothing of what it subscribes to: all comes when it is back", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const to = yield* hook(process, of)
        let isDown = true
        respond(world, () => Effect.suspend(() => (isDown ? broken : ok)))
        for (let count = 0; count < 6; count++) yield* happen(process, of)
        yield* settle(process)

        isDown = false
        yield* pass(process, "5 minutes")

        const log = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued")
        assert.deepEqual(yield* eventsTo(world, to), idsOf(log))
        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "delivered"))
      })
    )
  ]
}
