/** First attempts while something breaks: the process, the store, an attempt, the order of clocks; or while others change what they are about. */
import { Deferred, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { atEachCall, Interlude, NoCommits, Within } from "./Faults.ts"
import { acquaint, assertAllOnce, happenOften, heard, playQuick, warm } from "./QuickReceivers.ts"
import { broken, deliveriesTo, endpointOf, happen, hook, ok, outcomesOf, postsTo, respond, untilPosted, type Hook } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, logOf, pass, scenario, settle, type Process, type ScenarioSuite } from "./World.ts"

export const suite: ScenarioSuite = {
  name: "webhook first attempts, broken",
  checks: [
    scenario("wherever the process crashes, each event is delivered, and repeated only where the crash explains it", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const calm = yield* world.boot()
            const of = yield* world.found()
            const to = yield* hook(calm, of)
            // Crashes within the turn that is about first attempts alone.
            const turn = new Within(faults)
            const doomed = yield* world.boot(turn)
            yield* acquaint(doomed, of)
            yield* happenOften(calm, of, 3)
            turn.isOn = true
            yield* Effect.exit(doomed.relay.tick)
            yield* Time.adjust("6 seconds")

            const heir = yield* world.boot()
            yield* pass(heir, "5 minutes", "30 seconds")

            const found = yield* deliveriesTo(world, to)
            assert.deepEqual(found.map(({ eventId }) => eventId).toSorted(), yield* heard(world, of), label)
            for (const one of found) assert.deepEqual([one.status, outcomesOf(one)], ["delivered", ["success"]], label)
            assert.ok(postsTo(world, to).length <= 4 + 3, `${label}: ${postsTo(world, to).length} requests`)
          })
        )
        assert.ok(crashes >= 12, `${crashes} crashes were played`)
      })
    ),

    scenario("a store that takes no commits has no receiver called again", (world) =>
      Effect.gen(function* () {
        const store = new NoCommits()
        const { process, of, to } = yield* playQuick(world, store)
        yield* happenOften(process, of, 5)
        store.isOn = true
        for (let tick = 0; tick < 5; tick++) assert.equal(yield* process.relay.tick, 0)
        assert.equal(postsTo(world, to).length, 6)
        store.isOn = false

        yield* settle(process)

        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("a success counts on the endpoint as it is by then: one that failed meanwhile is reset", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const another = yield* world.boot()
        // A delivery of before, whose retry is due.
        respond(world, () => broken)
        const stale = yield* hook(another, of)
        yield* happenOften(process, of, 1)
        yield* process.relay.tick
        yield* settle(process)
        respond(world, () => ok)
        yield* pass(process, "5 minutes")
        yield* acquaint(process, of)
        yield* acquaint(process, of)

        // In the midst of the turn another process records a failure of the same endpoint.
        let failures = 0
        let isArmed = false
        respond(world, ({ url }) =>
          Effect.gen(function* () {
            if (!isArmed || url !== to.endpoint.url) return answered(200)
            isArmed = false
            const [dead] = yield* deliveriesTo(world, to)
            yield* another.webhooks.replay(of.principal, dead!.id)
            respond(world, () => Effect.suspend(() => Effect.succeed(answered(failures++ === 0 ? 500 : 200))))
            yield* another.worker.tick
            return answered(200)
          }).pipe(Effect.orDie)
        )
        yield* happenOften(process, of, 1)
        isArmed = true
        yield* process.relay.tick
        yield* process.relay.ended
        yield* settle(process)

        assert.ok(failures > 0, "another process met with a failure")
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 0)
        const last = (yield* deliveriesTo(world, to)).at(-1)!
        assert.deepEqual([last.status, outcomesOf(last)], ["delivered", ["success"]])
        assert.equal(postsTo(world, to).filter(({ json }) => json.id === last.eventId).length, 1)
        assert.ok((yield* deliveriesTo(world, stale)).every(({ status }) => status === "delivered"))
      })
    ),

    scenario("an attempt that cannot be made harms no other: its delivery is claimed", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const hooks = [yield* hook(process, of), yield* hook(process, of)]
        const [to, well] = [hooks[0]!, hooks[1]!]
        yield* acquaint(process, of)
        yield* happenOften(process, of, 8)
        respond(world, ({ url }) => (url === to.endpoint.url ? Effect.die(new Error("a bug of the transport")) : ok))

        assert.ok((yield* process.relay.tick) >= 8)
        yield* process.relay.ended
        yield* assertAllOnce(world, { of, to: well })

        respond(world, () => ok)
        yield* settle(process)
        yield* assertAllOnce(world, { of, to }, 8)
      })
    ),

    scenario("a commit that fails while the next page is attempted has nothing sent twice", (world) =>
      Effect.gen(function* () {
        const store = new NoCommits()
        const { process, of, to } = yield* playQuick(world, store)
        yield* warm(process, of)
        const calm = yield* world.boot()
        for (let round = 0; round < 4; round++) yield* happenOften(calm, of, 300)
        respond(world, ({ json }) => {
          // A page of some five hundred has been sent by then, and the next one is.
          store.isOn = postsTo(world, to).length > 600 && !store.hasStruck
          return json === null ? broken : Effect.delay(ok, "1 milli")
        })
        const turn = yield* Effect.forkChild(process.relay.tick)
        for (let step = 0; step < 100; step++) yield* Time.adjust(5)
        yield* Fiber.join(turn)
        store.isOn = false
        respond(world, () => ok)
        assert.ok(store.hasStruck, "a commit has failed")

        yield* settle(process)
        yield* process.relay.ended

        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("an ending that cannot be recorded is recorded when its delivery is claimed, and nobody is called again", (world) =>
      Effect.gen(function* () {
        const store = new NoCommits()
        const { process, of, to } = yield* playQuick(world, store, { deliveryBackoff: [600_000] })
        yield* happenOften(process, of, 3)
        const gate = yield* Deferred.make<void>()
        respond(world, () => Effect.andThen(Deferred.await(gate), broken))
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 3)
        yield* Time.adjust("1 second")
        yield* Fiber.join(turn)
        store.isOn = true
        yield* Deferred.succeed(gate, undefined)
        yield* Time.calm
        yield* process.relay.ended
        store.isOn = false
        const asked = postsTo(world, to).length

        yield* pass(process, "62 seconds")

        assert.equal(postsTo(world, to).length, asked)
        for (const one of (yield* deliveriesTo(world, to)).slice(1)) assert.deepEqual(outcomesOf(one), ["http_error"])
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 3)
      })
    ),

    ...[50, 4_000].map((behind) =>
      scenario(`two processes that relay all the time, their clocks ${behind} ms apart, send nothing twice`, (world) =>
        Effect.gen(function* () {
          const { process, of, to } = yield* playQuick(world)
          const [calm, late] = [yield* world.boot(), yield* world.boot()]
          yield* warm(process, of)
          for (let round = 0; round < 3; round++) yield* happenOften(calm, of, 300)
          respond(world, () => Effect.delay(ok, "10 millis"))
          const relaying = ({ relay }: Process) =>
            Effect.forever(Effect.andThen(Effect.sleep("50 millis"), Effect.repeat(relay.tick, { until: (count) => count === 0 })))
          const fibers = [yield* Effect.forkChild(relaying(process)), yield* Effect.forkChild(relaying(late).pipe(Time.ahead(-behind)))]
          for (let step = 0; step < 80; step++) yield* Time.adjust(10)
          for (const fiber of fibers) yield* Effect.forkChild(Fiber.interrupt(fiber))
          yield* Time.adjust("1 second")
          respond(world, () => ok)
          yield* Time.adjust("11 seconds")
          yield* settle(process)

          yield* assertAllOnce(world, { of, to })
        })
      )
    ),

    scenario("a relay that is stopped in the midst of its attempts commits them", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        yield* happenOften(process, of, 10)
        const gate = yield* Deferred.make<void>()
        respond(world, () => Effect.andThen(Deferred.await(gate), ok))
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 8)
        const stopping = yield* Effect.forkChild(Fiber.interrupt(turn))
        yield* Time.calm
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(stopping)

        yield* assertAllOnce(world, { of, to })
        const heir = yield* world.boot()
        yield* Time.adjust("6 seconds")
        yield* settle(heir)
        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("an endpoint that is created in the midst of a turn gets what comes behind it", (world) =>
      Effect.gen(function* () {
        const calm = yield* world.boot()
        let moments = 0
        for (let call = 1; ; call++) {
          const of = yield* world.found()
          const hooks: Array<Hook> = []
          const interlude = new Interlude(
            call,
            Effect.gen(function* () {
              hooks.push(yield* hook(calm, of))
              yield* happen(calm, of)
            })
          )
          const turn = new Within(interlude)
          const process = yield* world.boot(turn)
          yield* hook(calm, of)
          yield* acquaint(process, of)
          yield* happenOften(calm, of, 2)
          turn.isOn = true
          yield* process.relay.tick
          turn.isOn = false
          yield* settle(process)
          yield* process.relay.release // the next tenant's shard may be the same, and nobody else would relay it
          if (!interlude.hasStruck) break
          moments += 1

          const last = (yield* logOf(world, of)).findLast(({ type }) => type === "message.queued")!
          assert.deepEqual((yield* deliveriesTo(world, hooks[0]!)).map(({ eventId }) => eventId), [last.id], `after call ${call}`)
        }
        assert.ok(moments >= 4, `${moments} moments`)
      })
    )
  ]
}
