/** Deliveries that are attempted before they are committed: to endpoints that answer at once, straight from the log. */
import { Clock, Deferred, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import * as Deliveries from "../../core/model/Delivery.ts"
import type { Delivery } from "../../core/model/Delivery.ts"
import type { DeliveryId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import { deliverJob } from "../../core/operations/Webhooks.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { CallLog } from "./Faults.ts"
import { acquaint, assertAllOnce, happenOften, playQuick, warm } from "./QuickReceivers.ts"
import { addMailbox, assertSigned, broken, countOf, deliveriesTo, endpointOf, happen, hook, ok, outcomesOf, postsTo, replay, respond, untilPosted, type Hook } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { loggedTo, logOf, pass, scenario, settle, type Process, type ScenarioSuite, type World } from "./World.ts"

/** Has one event relayed; how often its receiver is asked in that turn. */
const relayedAtOnce = (world: World, process: Process, to: Hook) =>
  Effect.gen(function* () {
    yield* happenOften(process, to.of, 1)
    const before = postsTo(world, to).length
    yield* process.relay.tick
    return postsTo(world, to).length - before
  })

/** A delivery that has left its body to its event. */
const playBodiless = (world: World) =>
  Effect.gen(function* () {
    const { process, of, to } = yield* playQuick(world)
    yield* happenOften(process, of, 1)
    yield* process.relay.tick
    const delivery = (yield* deliveriesTo(world, to)).at(-1)!
    assert.deepEqual([delivery.status, yield* world.store.deliveries.body(of.realm, delivery.id)], ["delivered", null])
    return { process, of, to, delivery }
  })

/** As it is now, with what its receiver was sent. */
const soFar = (world: World, to: Hook, { id, eventId }: Delivery) =>
  Effect.gen(function* () {
    const delivery = (yield* deliveriesTo(world, to)).find((one) => one.id === id)!
    const texts = postsTo(world, to).flatMap(({ json, text }) => (json.id === eventId ? text : []))
    return { ...delivery, posts: texts.length, bodies: new Set([...texts, (yield* world.store.deliveries.body(to.of.realm, id)) ?? texts[0]]).size }
  })

export const suite: ScenarioSuite = {
  name: "webhook first attempts",
  checks: [
    scenario("an endpoint that answers at once gets its events with the relay's turn, each in one commit and without a job", (world) =>
      Effect.gen(function* () {
        const log = new CallLog()
        const { process, of, to } = yield* playQuick(world, log)
        yield* happenOften(process, of, 30)
        log.made.length = 0

        yield* process.relay.tick

        yield* assertAllOnce(world, { of, to })
        assert.equal(log.made.filter((call) => call === "Store.commit").length, 1)
        assert.equal(log.made.filter((call) => call === "WebhookTransport.post").length, 30)
        assert.equal(yield* process.worker.tick, 0, "nothing is left to do")
        for (const posted of postsTo(world, to)) yield* assertSigned(world, to, posted)
        const [first] = (yield* deliveriesTo(world, to)).toReversed()
        assert.deepEqual([first!.version, first!.attemptCount, first!.nextAttemptAt, first!.trigger], [1, 1, null, "event"])
      })
    ),

    scenario("a delivery that was attempted first can be replayed, with the same bytes", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const endpoint = yield* endpointOf(world, to)
        const older = { ...endpoint, version: endpoint.version + 1, apiVersion: "2025-06-01" }
        yield* world.store.commit([{ _tag: "Update", kind: "endpoint", record: older }], [])
        yield* happenOften(process, of, 1)
        yield* process.relay.tick
        const delivery = (yield* deliveriesTo(world, to)).at(-1)!

        yield* process.webhooks.replay(of.principal, delivery.id)
        yield* settle(process)

        const [, first, again] = postsTo(world, to)
        assert.deepEqual([again!.text, again!.json.id, again!.json.apiVersion], [first!.text, delivery.eventId, "2025-06-01"])
        assert.deepEqual(outcomesOf((yield* deliveriesTo(world, to)).at(-1)!), ["success", "success"])
      })
    ),

    scenario("what succeeded at once leaves its body to its event, and can be replayed until it is forgotten, as often as one likes", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        yield* happenOften(process, of, 2)
        yield* process.relay.tick
        const [, one, other] = yield* deliveriesTo(world, to)
        const body = ({ id }: { readonly id: DeliveryId }) => world.store.deliveries.body(of.realm, id)
        assert.deepEqual([yield* body(one!), yield* body(other!)], [null, null])
        yield* Time.adjust("30 days")
        yield* process.sweep.retain

        for (let time = 0; time < 2; time++) {
          yield* process.webhooks.replay(of.principal, one!.id)
          yield* settle(process)
        }
        yield* Time.adjust(1)
        yield* process.sweep.retain
        const left = (yield* logOf(world, of)).some(({ id }) => id === other!.eventId)

        assert.deepEqual([left, yield* world.store.deliveries.get(of.realm, other!.id)], [true, null], "before its event")
        const texts = postsTo(world, to).flatMap(({ json, text }) => (json.id === one!.eventId ? text : []))
        assert.deepEqual([texts.length, new Set(texts).size, yield* body(one!)], [3, 1, texts[0]])
        const gone = yield* Effect.flip(process.webhooks.replay(of.principal, other!.id))
        assert.equal(gone._tag, "NotFound")
      })
    ),

    scenario("an event that waited for an hour, and may be forgotten before its deliveries, leaves them their bodies", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const known = (yield* deliveriesTo(world, to))[0]!
        yield* happenOften(process, of, 2) // the first is claimed: nobody holds the shard any more
        yield* Time.adjust(1)
        yield* happenOften(process, of, 1)
        yield* Time.adjust(Limits.freshEventMax - 1)
        yield* process.webhooks.replay(of.principal, known.id)
        yield* process.worker.tick // so that it has answered of late

        yield* process.relay.tick

        const made = (yield* deliveriesTo(world, to)).toSorted((one, other) => Number(one.eventPosition! - other.eventPosition!))
        const [old, fresh] = made.slice(2)
        assert.deepEqual([old!, fresh!].map((one) => [one.version, one.status]), [[1, "delivered"], [1, "delivered"]])
        const bodies = yield* Effect.forEach([old!, fresh!], ({ id }) => world.store.deliveries.body(of.realm, id))
        assert.deepEqual(bodies, [postsTo(world, to).find(({ json }) => json.id === old!.eventId)!.text, null])
        yield* Time.adjust("30 days")
        yield* process.sweep.retain
        for (const { id } of [old!, fresh!]) yield* process.webhooks.replay(of.principal, id)
        yield* settle(process)
        for (const one of [old!, fresh!]) {
          const { status, posts, bodies } = yield* soFar(world, to, one)
          assert.deepEqual([status, posts, bodies], ["delivered", 2, 1])
        }
      })
    ),

    scenario("replays at the same time, in two processes, of what left its body to its event, make one new round with one body", (world) =>
      Effect.gen(function* () {
        const { process, of, to, delivery } = yield* playBodiless(world)
        const second = yield* world.boot()

        const views = yield* Effect.all(
          Array.from({ length: 20 }, (_, index) => replay(index % 2 === 0 ? process : second, of, delivery)),
          { concurrency: "unbounded" }
        )
        yield* Effect.all([settle(process), settle(second)], { concurrency: "unbounded" })

        assert.ok(views.every(({ status }) => status === "pending"))
        const { status, round, attempts, posts, bodies } = yield* soFar(world, to, delivery)
        assert.deepEqual([status, round, attempts.length, posts, bodies], ["delivered", 2, 2, 2, 1])
      })
    ),

    scenario("what a version of before has replayed without its body is sent with it, and ends dead if its event is forgotten", (world) =>
      Effect.gen(function* () {
        const { process, of, to, delivery } = yield* playBodiless(world)
        const replayedBefore = Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const record = Deliveries.replay((yield* world.store.deliveries.get(of.realm, delivery.id))!, now)!
          yield* world.store.commit([{ _tag: "Update", kind: "delivery", record }], [])
          yield* world.queue.offer([deliverJob(record, now)])
          yield* process.worker.tick
          return yield* soFar(world, to, delivery)
        })

        const sent = yield* replayedBefore
        assert.deepEqual([sent.status, sent.posts, sent.bodies], ["delivered", 2, 1])
        yield* world.store.commit([{ _tag: "Forget", what: "events", before: (yield* Clock.currentTimeMillis) + 1, limit: 1_000 }], [])
        yield* addMailbox(process, of) // the log goes on with an event that it is not about
        const lines: Array<string> = []
        const lost = yield* Effect.provide(replayedBefore, loggedTo(lines))
        assert.deepEqual([lost.status, lost.lastError, lost.posts], ["dead", "internal_error", 2])
        assert.ok(lines.some((line) => /given up: its body was left to its event/.test(line) && line.includes(delivery.id)), lines.join("\n"))
      })
    ),

    scenario("nobody is attempted first who has not answered yet, nor answered of late, nor by a process that does not hold the shard", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const stranger = yield* hook(process, of)
        const another = yield* world.boot()
        const relayed = (by: Process) =>
          Effect.gen(function* () {
            yield* happenOften(process, of, 1)
            const before = [postsTo(world, to).length, postsTo(world, stranger).length]
            yield* by.relay.tick
            const asked = [postsTo(world, to).length - before[0]!, postsTo(world, stranger).length - before[1]!]
            yield* settle(process)
            return asked
          })

        assert.deepEqual(yield* relayed(process), [1, 0], "a new endpoint")
        assert.deepEqual(yield* relayed(process), [1, 1], "it has answered")
        yield* Time.adjust("6 seconds")
        assert.deepEqual(yield* relayed(process), [0, 0], "the shard may be another's")
        assert.deepEqual(yield* relayed(process), [1, 1], "it is held again")
        // The shard is held all the while, by events that these endpoints do not hear of.
        for (let second = 0; second < 64; second += 4) {
          yield* Time.adjust("4 seconds")
          yield* addMailbox(process, of)
          yield* process.relay.tick
        }
        assert.deepEqual(yield* relayed(process), [0, 0], "they answered a minute ago")
        assert.deepEqual(yield* relayed(process), [1, 1], "they have answered")
        yield* Time.adjust("6 seconds")
        assert.deepEqual(yield* relayed(another), [0, 0], "the shard is another's")
        assert.deepEqual(yield* relayed(another), [0, 0], "whom nobody has answered")
        for (const one of [to, stranger]) {
          for (const delivery of yield* deliveriesTo(world, one)) assert.deepEqual(outcomesOf(delivery), ["success"])
        }
      })
    ),

    scenario("who comes back to a shard has one event claimed, and sends all others at once", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const asked = postsTo(world, to).length
        yield* Time.adjust("6 seconds")
        yield* happenOften(process, of, 6)

        yield* process.relay.tick
        assert.equal(postsTo(world, to).length - asked, 5)
        yield* settle(process)

        yield* assertAllOnce(world, { of, to })
      })
    ),

    ...(
      [
        ["an answer of 500", broken, "http_error"],
        ["a broken connection", Effect.fail(new WebhookUnanswered({ reason: "network_error" })), "network_error"]
      ] as const
    ).map(([what, answer, outcome]) =>
      scenario(`a first attempt that fails is recorded and counted, and the delivery is tried again: ${what}`, (world) =>
        Effect.gen(function* () {
          const { process, of, to } = yield* playQuick(world)
          yield* happenOften(process, of, 3)
          respond(world, () => answer)
          yield* process.relay.tick
          yield* settle(process)

          const failed = (yield* deliveriesTo(world, to)).slice(1)
          for (const one of failed) assert.deepEqual([one.status, outcomesOf(one), one.lastError], ["pending", [outcome], outcome])
          assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 3)
          assert.equal(postsTo(world, to).length, 4, "nothing was attempted twice")

          respond(world, () => ok)
          yield* pass(process, "3 minutes")
          for (const one of (yield* deliveriesTo(world, to)).slice(1)) {
            assert.deepEqual([one.status, outcomesOf(one)], ["delivered", [outcome, "success"]])
          }
          assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 0)
          assert.equal(postsTo(world, to).length, 7)
        })
      )
    ),

    scenario("a receiver that hangs holds up nobody's events for longer than a moment, and its own are tried again", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const well = yield* hook(process, of)
        yield* acquaint(process, of)
        yield* happenOften(process, of, 20)
        const before = postsTo(world, to).length
        respond(world, ({ url }) => (url === to.endpoint.url ? Effect.never : ok))
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 1)
        yield* Time.adjust("1 second")
        assert.ok(turn.pollUnsafe() !== undefined, "the relay goes on")

        for (const one of (yield* deliveriesTo(world, well)).slice(1)) assert.equal(one.status, "delivered")
        const hanging = postsTo(world, to).length - before
        assert.ok(hanging > 0 && hanging <= 10, `${hanging} requests to who hangs`)
        assert.equal((yield* deliveriesTo(world, to)).length, 22, "its deliveries are made")
        yield* happen(process, of)
        yield* process.relay.tick
        assert.equal(postsTo(world, to).length - before, hanging, "it is not waited for again")
        yield* Time.adjust("5 seconds")
        const ended = (yield* deliveriesTo(world, to)).filter(({ attempts }) => attempts.some(({ outcome }) => outcome === "timeout"))
        assert.equal(ended.length, hanging, "each attempt has its record")
        assert.equal((yield* endpointOf(world, to)).isSlow, true)

        respond(world, () => ok)
        yield* Fiber.join(turn)
        yield* pass(process, "10 minutes")
        for (const one of yield* deliveriesTo(world, to)) assert.equal(one.status, "delivered")
      })
    ),

    scenario("an answer that is late is recorded when it comes, once", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        yield* happenOften(process, of, 4)
        respond(world, () => Effect.delay(ok, "3 seconds"))
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 4)
        yield* Time.adjust("1 second")
        yield* Fiber.join(turn)
        const held = (yield* deliveriesTo(world, to)).slice(1)
        assert.deepEqual(held.map(({ status, attempts }) => [status, attempts.length]), Array.from({ length: 4 }, () => ["pending", 0]))
        assert.equal(yield* process.worker.tick, 0, "nobody may attempt them meanwhile")

        yield* Time.adjust("3 seconds")
        yield* process.relay.ended

        yield* assertAllOnce(world, { of, to })
        yield* pass(process, "5 minutes")
        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("128 first attempts are in flight at a time, 64 at most to one endpoint, and of several endpoints each has its share", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const hooks = [to]
        const inFlightOf = (count: number) =>
          Effect.gen(function* () {
            while (hooks.length < count) hooks.push(yield* hook(process, of))
            yield* warm(process, of)
            const inFlight = new Map<string, number>()
            let most = 0
            const gate = yield* Deferred.make<void>()
            respond(world, ({ url }) => {
              inFlight.set(url, (inFlight.get(url) ?? 0) + 1)
              most += 1
              return Effect.andThen(Deferred.await(gate), ok)
            })
            yield* happenOften(process, of, 100)
            const turn = yield* Effect.forkChild(process.relay.tick)
            yield* untilPosted(world, world.stage.posts.length + Math.min(64 * count, 128))
            const found = [most, ...inFlight.values()]
            respond(world, () => ok)
            yield* Deferred.succeed(gate, undefined)
            yield* Fiber.join(turn)
            yield* settle(process)
            return found
          })

        assert.deepEqual(yield* inFlightOf(1), [64, 64])
        assert.deepEqual(yield* inFlightOf(2), [128, 64, 64])
        assert.deepEqual(yield* inFlightOf(4), [128, 32, 32, 32, 32])
        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("an endpoint that failed answers fifty claimed deliveries in a row before it is attempted first again", (world) =>
      Effect.gen(function* () {
        const { process, to } = yield* playQuick(world)
        const askedInOneTurn = relayedAtOnce(world, process, to)
        respond(world, () => broken)
        assert.equal(yield* askedInOneTurn, 1)
        yield* process.relay.ended
        respond(world, () => ok)

        for (let count = 0; count < 50; count++) {
          assert.equal(yield* askedInOneTurn, 0, `after ${count}`)
          yield* settle(process)
        }
        assert.equal(yield* askedInOneTurn, 0, "the last of them")
        yield* settle(process)
        assert.equal(yield* askedInOneTurn, 1)
      })
    ),

    scenario("an endpoint that mostly answers is not disabled: its failures and successes count in the order in which they came", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        yield* warm(process, of)
        yield* happenOften(process, of, 64)
        let asked = 0
        respond(world, () =>
          Effect.suspend(() => {
            asked += 1
            return Effect.delay(asked % 5 === 0 ? broken : ok, asked)
          })
        )
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 64)
        for (let step = 0; step < 100; step++) yield* Time.adjust(1)
        yield* Fiber.join(turn)
        yield* process.relay.ended

        const { enabled, consecutiveFailures } = yield* endpointOf(world, to)
        assert.deepEqual([enabled, consecutiveFailures], [true, 0])
        const failed = (yield* deliveriesTo(world, to)).filter((one) => outcomesOf(one).includes("http_error"))
        assert.equal(failed.length, 12)
      })
    ),

    scenario("failures and successes of one millisecond count in the order in which they came, whichever began first", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        yield* warm(process, of)
        yield* happenOften(process, of, 11)
        const gates = yield* Effect.forEach(Array.from({ length: 11 }), () => Deferred.make<void>())
        let asked = 0
        respond(world, () =>
          Effect.suspend(() => {
            asked += 1
            return Effect.andThen(Deferred.await(gates[asked - 1]!), asked === 1 ? ok : broken)
          })
        )
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 11 - asked)
        for (const nth of [1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10]) yield* Effect.andThen(Deferred.succeed(gates[nth]!, undefined), Time.calm)
        yield* Time.adjust("1 second")
        yield* Fiber.join(turn)
        yield* process.relay.ended

        assert.deepEqual(yield* countOf(world, to), [5, true])
      })
    ),

    scenario("of a page with a failure each ending is recorded, however many there are", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        yield* warm(process, of)
        yield* happenOften(process, of, 300)
        let asked = 0
        respond(world, () => Effect.suspend(() => (++asked === 1 ? Effect.delay(broken, "300 millis") : Effect.delay(ok, "1 milli"))))
        const turn = yield* Effect.forkChild(process.relay.tick)
        for (let step = 0; step < 100; step++) yield* Time.adjust(5)
        yield* Fiber.join(turn)
        yield* process.relay.ended

        const untried = (yield* deliveriesTo(world, to)).filter(({ attempts }) => attempts.length === 0)
        assert.deepEqual([asked, untried.length, yield* countOf(world, to)], [300, 0, [1, true]])
      })
    ),

    scenario("an endpoint that hung, or has failed elsewhere, is not attempted first again", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const another = yield* world.boot()
        yield* happenOften(process, of, 1)
        respond(world, () => Effect.delay(ok, "1 second"))
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 1)
        yield* Time.adjust("2 seconds")
        yield* Fiber.join(turn)
        yield* process.relay.ended
        respond(world, () => ok)
        const askedInOneTurn = relayedAtOnce(world, process, to)
        assert.equal(yield* askedInOneTurn, 0, "it took a second")
        yield* settle(process)
        assert.equal(yield* askedInOneTurn, 1, "it was quick when it was claimed")

        const [replayed] = yield* deliveriesTo(world, to)
        respond(world, () => broken)
        yield* process.webhooks.replay(of.principal, replayed!.id)
        yield* another.worker.tick
        respond(world, () => ok)
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 1)
        assert.equal(yield* askedInOneTurn, 0, "it has failed")
      })
    )
  ]
}
