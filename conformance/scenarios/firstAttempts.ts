/** Deliveries that are attempted before they are committed: to endpoints that answer at once, straight from the log. */
import { Deferred, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { atEachCall, CallLog, Faults, Interlude } from "./Faults.ts"
import { addMailbox, assertSigned, broken, deliveriesTo, endpointOf, happen, hook, ok, outcomesOf, postsTo, respond, untilPosted, type Hook } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, logOf, pass, scenario, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** A process that holds the shard of a tenant, whose endpoint has answered it at once. */
const play = (world: World, faults?: Faults) =>
  Effect.gen(function* () {
    const process = yield* world.boot(faults)
    const of = yield* world.found()
    const to = yield* hook(process, of)
    yield* acquaint(process, of)
    return { process, of, to }
  })

const acquaint = (process: Process, of: Tenancy) => Effect.andThen(happen(process, of), settle(process))

/** Events whose message is submitted already, so that a relay's turn is all that is due. */
const happenOften = (process: Process, of: Tenancy, count: number) =>
  Effect.andThen(Effect.forEach(Array.from({ length: count }), () => happen(process, of), { concurrency: "unbounded" }), process.worker.tick)

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
    return Effect.suspend(() =>
      call === "Store.commit" && this.isOn ? Effect.fail(new StoreUnavailable({ cause: "read only" }) as E) : effect // of the store alone
    )
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

    scenario("a worker that relays has 128 requests in flight, 64 at most to one endpoint, and each line its share", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        // It is quick for long enough to be trusted with many.
        for (let round = 0; round < 4; round++) {
          yield* happenOften(process, of, 30)
          yield* settle(process)
        }
        const inFlight = new Map<string, number>()
        const most = new Map<string, number>()
        let [all, peak] = [0, 0]
        const gate = yield* Deferred.make<void>()
        respond(world, ({ url }) =>
          Effect.gen(function* () {
            inFlight.set(url, (inFlight.get(url) ?? 0) + 1)
            most.set(url, Math.max(most.get(url) ?? 0, inFlight.get(url)!))
            peak = Math.max(peak, ++all)
            yield* Deferred.await(gate)
            inFlight.set(url, inFlight.get(url)! - 1)
            all -= 1
            return answered(200)
          })
        )
        yield* happenOften(process, of, 300)
        const turn = yield* Effect.forkChild(process.relay.tick)
        yield* untilPosted(world, world.stage.posts.length + 64)

        assert.deepEqual([most.get(to.endpoint.url), peak], [64, 64])

        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(turn)
        respond(world, () => ok)
        yield* settle(process)
        yield* assertAllOnce(world, { of, to })
      })
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
