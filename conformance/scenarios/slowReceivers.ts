/** Endpoints whose receivers do not answer: they get one delivery at a time until they do, and hold up nobody else. */
import { Effect, Exit, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import {
  broken,
  countOf,
  deliveriesTo,
  deliveryTo,
  enable,
  endpointOf,
  happen,
  hook,
  hookUrl,
  ok,
  outcomesOf,
  play,
  postsTo,
  respond,
  running,
  settleFor,
  times,
  untilNextAttempt,
  untilPosted
} from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, scenario, settle, welcoming, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

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

export const suite: ScenarioSuite = {
  name: "webhook slow receivers",
  checks: [
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

    scenario("a tenant whose receivers never answer keeps nobody else from creating endpoints at their host, whatever applications it asks by", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const [of, other] = [yield* world.found(), yield* world.found()]
        const siblings = [of, yield* world.foundApplication(of, "production"), yield* world.foundApplication(of, "sandbox")]
        const host = hookUrl()
        // To hang up takes its time, too.
        const silent = Effect.onInterrupt(Effect.never, () => Effect.sleep("500 millis"))
        world.stage.receive = (posted) => (posted.url.endsWith("/silent") ? silent : welcoming(posted))
        const create = ({ principal }: Tenancy, url: string) =>
          Effect.exit(process.webhooks.createEndpoint(principal, { url, description: null, eventTypes: ["message.sent"] }))
        // Each asks again as soon as it was told.
        const asking = yield* Effect.forEach(siblings, (one) =>
          Effect.forkChild(Effect.forever(Effect.andThen(create(one, `${host}/silent`), Effect.sleep("50 millis"))))
        )
        yield* untilPosted(world, 1)

        const made: Array<boolean> = []
        for (let count = 1; count <= 4; count++) {
          yield* Time.adjust("200 millis")
          const asked = yield* Effect.forkChild(create(other, host))
          for (let second = 0; second < 6; second++) yield* Time.adjust("1 second")
          const exit = asked.pollUnsafe()
          made.push(exit !== undefined && Exit.isSuccess(exit) && Exit.isSuccess(exit.value))
        }
        const ended = yield* Effect.forkChild(Fiber.interruptAll(asking))
        yield* Time.adjust("1 second")
        yield* Fiber.join(ended)

        assert.deepEqual(made, [true, true, true, true])
      })
    )
  ]
}
