/** Deliveries that are attempted before they are committed: to endpoints that answer at once, straight from the log. */
import { Clock, Deferred, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import type { SettingsShape } from "../../core/Settings.ts"
import { atEachCall, CallLog, Faults, Interlude } from "./Faults.ts"
import { addMailbox, assertSigned, broken, deliveriesTo, endpointOf, happen, hook, ok, outcomesOf, postsTo, respond, untilPosted, type Hook } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, logOf, pass, scenario, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** A process that holds the shard of a tenant, whose endpoint has answered it at once. */
const play = (world: World, faults?: Faults, settings?: Partial<SettingsShape>) =>
  Effect.gen(function* () {
    const process = yield* world.boot(faults, settings)
    const of = yield* world.found()
    const to = yield* hook(process, of)
    yield* acquaint(process, of)
    return { process, of, to }
  })

const acquaint = (process: Process, of: Tenancy) => Effect.andThen(happen(process, of), settle(process))

/** Events whose message is submitted already, so that a relay's turn is all that is due. */
const happenOften = (process: Process, of: Tenancy, count: number) =>
  Effect.andThen(Effect.forEach(Array.from({ length: count }), () => happen(process, of), { concurrency: "unbounded" }), process.worker.tick)

/** Its endpoints are quick for long enough to be trusted with many. */
const warm = (process: Process, of: Tenancy) =>
  Effect.repeat(Effect.andThen(happenOften(process, of, 30), settle(process)), { times: 3 })

/** With a clock that is so many milliseconds behind the world's. */
const slowBy = (millis: number) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Clock.Clock, (clock) => {
    const slow: Clock.Clock = Object.assign(Object.create(clock), { // all else is the world's
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - millis,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - millis)
    })
    return Effect.provideService(self, Clock.Clock, slow)
  })

/** The events of a tenant that its endpoints hear of. */
const heard = (world: World, of: Tenancy) =>
  Effect.map(logOf(world, of), (log) => log.filter(({ type }) => type === "message.queued").map(({ id }) => id).toSorted())

/** Each event has one delivery, with one attempt, and was posted once; `repeats`: as often as that it may have been posted again. */
const assertAllOnce = (world: World, { of, to }: { readonly of: Tenancy; readonly to: Hook }, repeats = 0, label = "") =>
  Effect.gen(function* () {
    const found = yield* deliveriesTo(world, to)
    const events = yield* heard(world, of)
    assert.deepEqual(found.map(({ eventId }) => eventId).toSorted(), events, label)
    for (const one of found) assert.deepEqual([one.status, outcomesOf(one)], ["delivered", ["success"]], label)
    const posts = postsTo(world, to)
    assert.deepEqual([...new Set(posts.map(({ json }) => json.id as string))].toSorted(), events, label)
    assert.ok(posts.length <= events.length + repeats, `${label}: ${posts.length} requests for ${events.length} events`)
  })

/** A store that answers reads, and takes nothing while it is on. */
class NoCommits extends Faults {
  isOn = false

  constructor() {
    super(0, "before")
  }

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      if (call !== "Store.commit" || !this.isOn) return effect
      this.hasStruck = true
      return Effect.fail(new StoreUnavailable({ cause: "read only" }) as E) // of the store alone
    })
  }
}

export const suite: ScenarioSuite = {
  name: "webhook first attempts",
  checks: [
    scenario("an endpoint that answers at once gets its events with the relay's turn, each in one commit and without a job", (world) =>
      Effect.gen(function* () {
        const log = new CallLog()
        const { process, of, to } = yield* play(world, log)
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
        const { process, of, to } = yield* play(world)
        yield* happenOften(process, of, 1)
        yield* process.relay.tick
        const delivery = (yield* deliveriesTo(world, to)).at(-1)!

        yield* process.webhooks.replay(of.principal, delivery.id)
        yield* settle(process)

        const [, first, again] = postsTo(world, to)
        assert.deepEqual([again!.text, again!.json.id], [first!.text, delivery.eventId])
        assert.deepEqual(outcomesOf((yield* deliveriesTo(world, to)).at(-1)!), ["success", "success"])
      })
    ),

    scenario("nobody is attempted first who has not answered yet, nor answered of late, nor by a process that does not hold the shard", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
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

    ...(
      [
        ["an answer of 500", broken, "http_error"],
        ["a broken connection", Effect.fail(new WebhookUnanswered({ reason: "network_error" })), "network_error"]
      ] as const
    ).map(([what, answer, outcome]) =>
      scenario(`a first attempt that fails is recorded and counted, and the delivery is tried again: ${what}`, (world) =>
        Effect.gen(function* () {
          const { process, of, to } = yield* play(world)
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
        const { process, of, to } = yield* play(world)
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
        const { process, of, to } = yield* play(world)
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

    scenario("wherever the process crashes, each event is delivered, and repeated only where the crash explains it", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const calm = yield* world.boot()
            const of = yield* world.found()
            const to = yield* hook(calm, of)
            const counting = new CallLog()
            let isDoomed = false
            // Crashes within the turn that is about first attempts alone.
            const doomed = yield* world.boot(
              Object.assign(new Faults(0, "before"), {
                around: <A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
                  Effect.suspend(() => (isDoomed ? faults : counting).around(call, effect))
              })
            )
            yield* acquaint(doomed, of)
            yield* happenOften(calm, of, 3)
            isDoomed = true
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
        const { process, of, to } = yield* play(world, store)
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
        const { process, of, to } = yield* play(world)
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

    scenario("128 first attempts are in flight at a time, 64 at most to one endpoint, and of several endpoints each has its share", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
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

    scenario("an endpoint that mostly answers is not disabled: its failures and successes count in the order in which they came", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
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

    scenario("an endpoint that hung, or has failed elsewhere, is not attempted first again", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const another = yield* world.boot()
        yield* happenOften(process, of, 1)
        respond(world, () => Effect.delay(ok, "1 second"))
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 1)
        yield* Time.adjust("2 seconds")
        yield* Fiber.join(turn)
        yield* process.relay.ended
        respond(world, () => ok)
        const askedInOneTurn = Effect.gen(function* () {
          yield* happenOften(process, of, 1)
          const before = postsTo(world, to).length
          yield* process.relay.tick
          return postsTo(world, to).length - before
        })
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
        const { process, of, to } = yield* play(world, store)
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
        const { process, of, to } = yield* play(world, store, { deliveryBackoff: [600_000] })
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
          const { process, of, to } = yield* play(world)
          const [calm, late] = [yield* world.boot(), yield* world.boot()]
          yield* warm(process, of)
          for (let round = 0; round < 3; round++) yield* happenOften(calm, of, 300)
          respond(world, () => Effect.delay(ok, "10 millis"))
          const relaying = ({ relay }: Process) =>
            Effect.forever(Effect.andThen(Effect.sleep("50 millis"), Effect.repeat(relay.tick, { until: (count) => count === 0 })))
          const fibers = [yield* Effect.forkChild(relaying(process)), yield* Effect.forkChild(relaying(late).pipe(slowBy(behind)))]
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
        const { process, of, to } = yield* play(world)
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
          let isOn = false
          const interlude = new Interlude(
            call,
            Effect.gen(function* () {
              hooks.push(yield* hook(calm, of))
              yield* happen(calm, of)
            })
          )
          const process = yield* world.boot(
            Object.assign(new Faults(0, "before"), {
              around: <A, E, R>(name: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
                Effect.suspend(() => (isOn ? interlude.around(name, effect) : effect))
            })
          )
          yield* hook(calm, of)
          yield* acquaint(process, of)
          yield* happenOften(calm, of, 2)
          isOn = true
          yield* process.relay.tick
          isOn = false
          yield* settle(process)
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
