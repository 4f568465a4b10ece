/** Deliveries while something else breaks: the process, the queue, the store, a sealing key, the clock. */
import { Clock, Deferred, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import type { Endpoint } from "../../core/model/Endpoint.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { Ahead, Faults, NoCommits } from "./Faults.ts"
import { broken, deliveriesTo, deliveryTo, enable, endpointOf, happen, hook, ok, outcomesOf, play, postsTo, respond, times, untilPosted } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { loggedTo, pass, scenario, settle, type ScenarioSuite } from "./World.ts"

export const suite: ScenarioSuite = {
  name: "webhook outages",
  checks: [
    scenario("a delivery that kills the process at each attempt is parked dead at its fifth claim, and the others go on", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        let faults = new Faults(0, "before")
        const first = yield* world.boot(faults)
        const [poisoned, innocent] = [yield* hook(first, of), yield* hook(first, of)]
        respond(world, ({ url }) =>
          url !== poisoned.endpoint.url
            ? ok
            : Effect.suspend(() => {
                faults.kill()
                return Effect.die(new Error("a bug that ends the process"))
              })
        )
        yield* happen(first, of)
        yield* happen(first, of)

        let process = first
        let crashes = 0
        for (let restart = 0; restart < 20; restart++) {
          for (let tick = 0; tick < 10; tick++) yield* Effect.exit(Effect.andThen(process.relay.tick, process.worker.tick))
          yield* Time.adjust("2 minutes")
          if (faults.crashed === null) continue
          crashes += 1
          faults = new Faults(0, "before")
          process = yield* world.boot(faults)
        }

        assert.ok(crashes >= 4, `${crashes} crashes`)
        const [dead, delivered] = [yield* deliveriesTo(world, poisoned), yield* deliveriesTo(world, innocent)]
        assert.deepEqual([dead.length, delivered.length], [2, 2])
        for (const { status, lastError, attempts, nextAttemptAt } of dead) {
          assert.deepEqual([status, lastError, attempts.length, nextAttemptAt], ["dead", "internal_error", 0, null])
        }
        // Two that are claimed together: the first ends the process before the second has begun.
        assert.ok(postsTo(world, poisoned).length <= 2 * 4, `${postsTo(world, poisoned).length} requests`)
        assert.equal((yield* endpointOf(world, poisoned)).consecutiveFailures, 0, "it is no fault of the endpoint")
        for (const { status, attempts } of delivered) {
          assert.equal(status, "delivered")
          assert.equal(attempts.length, 1)
        }
        assert.ok(postsTo(world, innocent).length <= 4, `${postsTo(world, innocent).length} requests`)
      })
    ),

    scenario("a delivery whose handling breaks is tried at each claim, then parked dead, and can be replayed", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        respond(world, () => Effect.die(new Error("a bug of the transport")))
        yield* happen(process, of)
        const lines: Array<string> = []
        yield* Effect.provide(pass(process, "10 minutes"), loggedTo(lines))
        const parked = yield* deliveryTo(world, to)
        assert.deepEqual([parked.status, parked.lastError, postsTo(world, to).length], ["dead", "internal_error", 4])
        assert.ok(lines.some((line) => line.includes("given up: it was claimed") && line.includes(parked.id)), lines.join("\n"))

        respond(world, () => ok)
        yield* process.webhooks.replay(of.principal, parked.id)
        yield* settle(process)

        assert.equal((yield* deliveryTo(world, to)).status, "delivered")
      })
    ),

    ...([["delivered", ok, "success"], ["pending", broken, "http_error"]] as const).map(([status, answer, outcome]) =>
      scenario(`of two holders of one delivery's job one records its attempt: ${outcome}`, (world) =>
        Effect.gen(function* () {
          const of = yield* world.found()
          const [stalled, heir] = [yield* world.boot(), yield* world.boot()]
          const to = yield* hook(stalled, of)
          const gate = yield* Deferred.make<void>()
          // The first holder stands still in the middle of its request, and cannot extend its lease.
          respond(world, (_, nth) => (nth > 1 ? answer : Effect.uninterruptible(Effect.andThen(Deferred.await(gate), answer))))
          yield* happen(stalled, of)
          const asked = world.stage.posts.length
          const standing = yield* Effect.forkChild(settle(stalled))
          yield* untilPosted(world, asked + 1)
          world.stage.queueIsDown = true
          yield* Time.adjust("61 seconds")
          world.stage.queueIsDown = false

          yield* settle(heir)
          const recorded = yield* deliveryTo(world, to)
          const counted = yield* endpointOf(world, to)
          yield* Deferred.succeed(gate, undefined)
          yield* Time.adjust("1 second")
          yield* Fiber.join(standing)

          assert.equal(postsTo(world, to).length, 2)
          assert.deepEqual([recorded.status, outcomesOf(recorded)], [status, [outcome]])
          assert.deepEqual(yield* deliveryTo(world, to), recorded)
          assert.deepEqual(yield* endpointOf(world, to), counted)
          yield* Time.adjust("31 seconds")
          assert.equal(yield* heir.worker.tick, 0, "there is nothing to do again")
        })
      )
    ),

    scenario("jobs of deliveries that the queue lost, due or not, are offered again once it says so, and in half a minute in any case", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* process.sweep.tick
        const to = yield* hook(process, of)
        respond(world, (_, nth) => (nth === 1 ? broken : ok))
        const lose = Effect.gen(function* () {
          world.stage.queueForgets = true
          yield* happen(process, of)
          yield* settle(process)
          world.stage.queueForgets = false
          assert.equal(yield* process.sweep.tick, 0, "nothing is overdue")
        })

        yield* lose
        world.stage.queueEpoch += 1
        yield* process.sweep.tick
        yield* settle(process)
        assert.equal(postsTo(world, to).length, 1)
        yield* lose // the second event's first attempt
        yield* pass(process, "29 seconds", "1 second")
        assert.equal(postsTo(world, to).length, 1)
        yield* pass(process, "2 seconds", "1 second")
        assert.equal(postsTo(world, to).length, 2)
        world.stage.queueForgets = true // and the retries
        yield* pass(process, "10 minutes")
        world.stage.queueForgets = false
        yield* pass(process, "1 minute")

        assert.deepEqual((yield* deliveriesTo(world, to)).map(outcomesOf), [["http_error", "success"], ["http_error", "success"]])
      })
    ),

    scenario("a retry that is not due yet survives a queue that was emptied, and comes at its time", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* process.sweep.tick
        const to = yield* hook(process, of)
        respond(world, () =>
          Effect.suspend(() => {
            world.stage.queueForgets = true // the retry is offered with the attempt's result
            return broken
          })
        )
        yield* happen(process, of)
        yield* settle(process)
        world.stage.queueForgets = false
        world.stage.queueEpoch += 1
        yield* process.sweep.tick
        const { nextAttemptAt } = yield* deliveryTo(world, to)
        respond(world, () => ok)

        yield* Time.setTime(nextAttemptAt! - 1)
        yield* settle(process)
        assert.equal((yield* deliveryTo(world, to)).status, "pending")
        yield* Time.setTime(nextAttemptAt!)
        yield* settle(process)

        assert.equal((yield* deliveryTo(world, to)).status, "delivered")
      })
    ),

    scenario("a job that comes before its delivery is due makes no attempt, and comes again at the time", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        respond(world, (_, nth) => (nth === 1 ? broken : ok))
        yield* happen(process, of)
        yield* settle(process)
        const { id, nextAttemptAt } = yield* deliveryTo(world, to)
        const early = { kind: "deliver", subject: id, realm: of.realm, group: to.endpoint.id, dueAt: 0 } as const

        yield* world.queue.offer([early]) // as a sweep does that meets a lease
        yield* settle(process)
        assert.equal(postsTo(world, to).length, 1)
        yield* Time.setTime(nextAttemptAt! - 1)
        yield* settle(process)
        assert.equal(postsTo(world, to).length, 1)
        yield* Time.setTime(nextAttemptAt!)
        yield* settle(process)

        assert.deepEqual(outcomesOf(yield* deliveryTo(world, to)), ["http_error", "success"])
      })
    ),

    scenario("a queue that is away delays deliveries and loses none", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        respond(world, () => Effect.tap(broken, () => Effect.sync(() => void (world.stage.queueIsDown = true))))
        yield* happen(process, of)
        yield* settle(process)
        respond(world, () => ok)
        yield* happen(process, of)
        yield* pass(process, "20 minutes")
        assert.equal(postsTo(world, to).length, 1)

        world.stage.queueIsDown = false
        yield* pass(process, "2 minutes")

        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "delivered"))
      })
    ),

    scenario("a store that goes away during an attempt, and stays away, is told how it ended when it is back", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        respond(world, (_, nth) => (nth === 1 ? Effect.tap(broken, () => Effect.sync(() => void (world.stage.storeIsDown = true))) : ok))
        yield* happen(process, of)
        yield* pass(process, "1 hour", "20 seconds")
        assert.equal(postsTo(world, to).length, 1, "without the store nobody is called")
        world.stage.storeIsDown = false

        yield* pass(process, "2 minutes")

        const { status, attempts } = yield* deliveryTo(world, to)
        assert.deepEqual([status, outcomesOf({ attempts })], ["delivered", ["http_error", "success"]])
        assert.equal(postsTo(world, to).length, 2, "one request for each attempt")
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 0)
      })
    ),

    scenario("a store that takes no commits, and can be read, has no receiver called twice for one attempt", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const faults = new NoCommits()
        const process = yield* world.boot(faults)
        const to = yield* hook(process, of)
        yield* happen(process, of)
        yield* process.relay.tick
        faults.isOn = true
        yield* pass(process, "10 minutes")
        assert.deepEqual([postsTo(world, to).length, (yield* deliveryTo(world, to)).attempts], [1, []])

        faults.isOn = false
        yield* pass(process, "1 minute")

        assert.deepEqual(outcomesOf(yield* deliveryTo(world, to)), ["success"])
        assert.equal(postsTo(world, to).length, 1)
      })
    ),

    scenario("an attempt that fails while the store is away is recorded once when it is back, and the next one is made", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        const failing = Effect.fail(new WebhookUnanswered({ reason: "network_error" }))
        respond(world, (_, nth) => (nth === 1 ? Effect.andThen(Effect.sleep("2 seconds"), failing) : ok))
        yield* happen(process, of)
        const asked = world.stage.posts.length
        const working = yield* Effect.forkChild(settle(process))
        yield* untilPosted(world, asked + 1)
        world.stage.storeIsDown = true
        yield* Time.adjust("2 seconds")
        world.stage.storeIsDown = false
        yield* Fiber.join(working)
        yield* pass(process, "3 minutes")

        assert.equal(postsTo(world, to).length, 2)
        assert.deepEqual(outcomesOf(yield* deliveryTo(world, to)), ["network_error", "success"])
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 0)
      })
    ),

    scenario("a receiver that closes a connection that waits, while a delivery is on its way over it, is asked once more in the same attempt, for a delivery and for a handshake", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const stale = Effect.fail(new WebhookUnanswered({ reason: "network_error", isStale: true }))
        respond(world, (_, nth) => (nth === 1 ? stale : ok))
        yield* happen(process, of)
        yield* settle(process)

        const delivery = yield* deliveryTo(world, to)
        assert.deepEqual([delivery.status, outcomesOf(delivery), (yield* endpointOf(world, to)).consecutiveFailures], ["delivered", ["success"], 0])
        const [first, second, ...others] = postsTo(world, to)
        assert.deepEqual([second?.headers, second?.text, others.length], [first?.headers, first?.text, 0])

        respond(world, () => stale)
        yield* happen(process, of)
        yield* settle(process)
        assert.deepEqual(outcomesOf((yield* deliveriesTo(world, to))[1]!), ["network_error"])
        assert.equal(postsTo(world, to).length, 4, "twice in an attempt, and not more often")

        const welcoming = world.stage.receive
        let asked = 0
        world.stage.receive = (posted) => (++asked === 1 ? stale : welcoming(posted))
        assert.equal((yield* hook(process, of)).endpoint.enabled, true)
      })
    ),

    scenario("a signing secret that cannot be opened holds its own deliveries up until it can, and counts nothing", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const [to, other] = [yield* hook(process, of), yield* hook(process, of)]
        const update = (record: Endpoint) => world.store.commit([{ _tag: "Update", kind: "endpoint", record }], [])
        const before = yield* endpointOf(world, to)
        yield* update({ ...before, version: before.version + 1, secret: (yield* endpointOf(world, other)).secret })
        yield* happen(process, of)
        yield* pass(process, "1 hour", "20 seconds")
        const held = yield* deliveryTo(world, to)
        assert.deepEqual([held.status, held.attempts.length, postsTo(world, to).length], ["pending", 0, 0])
        assert.equal((yield* deliveryTo(world, other)).status, "delivered")

        yield* update({ ...before, version: before.version + 2 })
        yield* pass(process, "2 minutes")

        assert.equal((yield* deliveryTo(world, to)).status, "delivered")
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 0)
      })
    ),

    scenario("a clock that jumps a day either way, between attempts or within one, loses no delivery", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        const day = 86_400_000
        const happenAt = (at: number) =>
          Effect.gen(function* () {
            yield* Time.setTime(at)
            yield* happen(process, of)
            yield* settle(process)
          })
        respond(world, (_, nth) => (nth === 1 ? broken : ok))
        yield* happenAt(30 * day)
        yield* happenAt(31 * day)
        respond(world, (_, nth) => (nth === 1 ? Effect.andThen(Time.setTime(29 * day), broken) : ok))
        yield* happenAt(30 * day)
        respond(world, () => ok)

        yield* pass(process, "3 days", "10 minutes")

        const found = yield* deliveriesTo(world, to)
        assert.deepEqual(found.map(({ status }) => status), ["delivered", "delivered", "delivered"])
        assert.ok(found.every(({ attempts }) => attempts.length === 2 && attempts.every(({ durationMs }) => durationMs === 0)))
      })
    ),

    scenario("a shard whose relaying broke is relayed again in ten seconds, also if the clock is turned back meanwhile", (world) =>
      Effect.gen(function* () {
        yield* Time.adjust("3 days")
        const of = yield* world.found()
        let isBroken = false
        const bug = Effect.suspend(() => {
          if (!isBroken) return Effect.void
          isBroken = false
          return Effect.die(new Error("a bug, once"))
        })
        const process = yield* world.boot(new Ahead("Store.events.readLog", bug))
        const to = yield* hook(process, of)
        yield* happen(process, of)
        isBroken = true
        yield* process.relay.tick
        assert.equal(isBroken, false)
        yield* Time.setTime((yield* Clock.currentTimeMillis) - 86_400_000)

        yield* pass(process, "1 hour", "1 minute")

        assert.equal(postsTo(world, to).length, 1)
      })
    ),

    scenario("what dies at a disabled endpoint is replayed with its enabling, though the clocks of two workers and the operator differ", (world) =>
      Effect.gen(function* () {
        yield* Time.adjust("1 hour")
        const { process: fast, of, to } = yield* play(world)
        const right = yield* world.boot()
        respond(world, () => broken)
        yield* times(30, happen(fast, of))
        while ((yield* fast.relay.tick) > 0) continue
        // Ten fail under a clock that is ahead; a worker whose clock is right ends the others.
        for (let tick = 0; tick < 2; tick++) yield* Time.ahead(4_000)(fast.worker.tick)
        assert.equal((yield* endpointOf(world, to)).enabled, false)
        yield* Time.adjust("5 minutes")
        yield* settle(right)
        const dead = (yield* deliveriesTo(world, to)).filter(({ status }) => status === "dead")
        assert.equal(dead.length, 30)
        respond(world, () => ok)

        const { replayed } = yield* Time.ahead(-30_000)(enable(right, to, true))
        yield* settle(right)

        assert.equal(replayed, 30)
        assert.ok((yield* deliveriesTo(world, to)).every(({ status }) => status === "delivered"))
      })
    )
  ]
}
