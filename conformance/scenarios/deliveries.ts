/** One event on its way to one endpoint: when it is tried, what each attempt sends and records, and how it is replayed. */
import { Clock, DateTime, Effect } from "effect"
import * as assert from "node:assert/strict"
import type { DeliveryId, EndpointId } from "../../core/model/Ids.ts"
import * as Webhook from "../../core/model/Webhook.ts"
import { deliverJob } from "../../core/operations/Webhooks.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { freshId } from "../fixtures.ts"
import {
  assertSigned,
  broken,
  deliveriesTo,
  deliveryTo,
  endpointOf,
  happen,
  hook,
  ok,
  outcomesOf,
  play,
  postsTo,
  replay,
  respond,
  settleFor,
  untilNextAttempt
} from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, pass, scenario, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const minute = 60_000
const steps = [minute, 10 * minute, 60 * minute, 360 * minute]

/** An event whose delivery fails five times, and is dead. */
const untilDead = (world: World, process: Process, of: Tenancy, to: Parameters<typeof deliveryTo>[1]) =>
  Effect.gen(function* () {
    yield* happen(process, of)
    yield* settle(process)
    for (let attempt = 2; attempt <= 5; attempt++) yield* untilNextAttempt(process, yield* deliveryTo(world, to))
    const dead = yield* deliveryTo(world, to)
    assert.equal(dead.status, "dead")
    return dead
  })

/** What becomes of one attempt. */
const failures: ReadonlyArray<{
  readonly what: string
  readonly answer: ReturnType<Parameters<typeof respond>[1]>
  readonly outcome: string
  readonly status: number | null
}> = [
  { what: "a receiver that never answers", answer: Effect.never, outcome: "timeout", status: null },
  { what: "a receiver that answers after 5 s", answer: Effect.delay(ok, 5_001), outcome: "timeout", status: null },
  { what: "a redirect", answer: Effect.succeed(answered(307)), outcome: "redirect", status: 307 },
  { what: "500", answer: broken, outcome: "http_error", status: 500 },
  { what: "410", answer: Effect.succeed(answered(410)), outcome: "http_error", status: 410 },
  { what: "a broken connection", answer: Effect.fail(new WebhookUnanswered({ reason: "network_error" })), outcome: "network_error", status: null },
  { what: "a name that leads inside", answer: Effect.fail(new WebhookUnanswered({ reason: "unsafe_url" })), outcome: "unsafe_url", status: null }
]

export const suite: ScenarioSuite = {
  name: "webhook deliveries",
  checks: [
    scenario("a delivery is tried at once, then after 1 m, 10 m, 1 h and 6 h, give or take a fifth, and is dead after the fifth failure", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => broken)
        yield* happen(process, of)
        yield* settle(process)

        for (const [index, step] of steps.entries()) {
          const delivery = yield* deliveryTo(world, to)
          const { status, attempts, attemptCount, nextAttemptAt } = delivery
          assert.deepEqual([status, attempts.length, attemptCount, postsTo(world, to).length], ["pending", index + 1, index + 1, index + 1])
          const wait = nextAttemptAt! - attempts.at(-1)!.startedAt
          assert.ok(wait >= 0.8 * step && wait <= 1.2 * step, `the ${index + 1}. wait: ${wait}`)
          yield* Time.setTime(nextAttemptAt! - 1)
          yield* world.queue.offer([deliverJob(delivery, 0)]) // as by who has read it before the attempt
          yield* settle(process)
          assert.equal(postsTo(world, to).length, index + 1, "not before its time")
          yield* Time.setTime(nextAttemptAt!)
          yield* settle(process)
        }

        const now = yield* Clock.currentTimeMillis
        const { status, attempts, attemptCount, nextAttemptAt, deadAt, lastError } = yield* deliveryTo(world, to)
        assert.deepEqual([status, attemptCount, nextAttemptAt, deadAt, lastError], ["dead", 5, null, now, "http_error"])
        assert.deepEqual(attempts.map(({ number, round }) => [number, round]), [1, 2, 3, 4, 5].map((number) => [number, 1]))
        yield* pass(process, "1 day", "1 hour")
        assert.equal(postsTo(world, to).length, 5, "nothing after its end")
      })
    ),

    scenario("the waits of deliveries that failed together differ, so that they do not all come back at once", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const hooks = [to, ...(yield* Effect.forEach([1, 2, 3, 4, 5], () => hook(process, of)))]
        respond(world, () => broken)

        yield* happen(process, of)
        yield* settle(process)

        const due = yield* Effect.forEach(hooks, (one) => Effect.map(deliveryTo(world, one), ({ nextAttemptAt }) => nextAttemptAt))
        assert.equal(new Set(due).size, hooks.length)
      })
    ),

    scenario("the waits are an installation's to set", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { deliveryBackoff: [1_000] })
        const of = yield* world.found()
        const to = yield* hook(process, of)
        respond(world, () => broken)

        yield* happen(process, of)
        yield* pass(process, "10 seconds", "1 second")

        assert.equal((yield* deliveryTo(world, to)).status, "dead")
      })
    ),

    ...failures.map(({ what, answer, outcome, status }) =>
      scenario(`${what} is a failed attempt: ${outcome}`, (world) =>
        Effect.gen(function* () {
          const { process, of, to } = yield* play(world)
          respond(world, () => answer)
          yield* happen(process, of)
          const startedAt = yield* Clock.currentTimeMillis

          yield* settleFor(world, process, "10 seconds")

          const { attempts, lastError, attemptCount, ...delivery } = yield* deliveryTo(world, to)
          const durationMs = outcome === "timeout" ? 5_000 : 0
          assert.deepEqual(attempts, [{ number: 1, round: 1, startedAt, durationMs, outcome, responseStatus: status }])
          assert.deepEqual([delivery.status, attemptCount, lastError], ["pending", 1, outcome])
          const { consecutiveFailures, enabled, isSlow } = yield* endpointOf(world, to)
          assert.deepEqual([consecutiveFailures, enabled, isSlow], [1, true, outcome === "timeout"])
        })
      )
    ),

    scenario("a receiver that answers within five seconds is heard, at the last millisecond too", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => Effect.delay(ok, 4_999))
        yield* happen(process, of)

        yield* settleFor(world, process, "10 seconds")

        const { status, attempts } = yield* deliveryTo(world, to)
        assert.deepEqual([status, attempts.map(({ durationMs }) => durationMs)], ["delivered", [4_999]])
      })
    ),

    scenario("any 2xx delivers, and is recorded", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const statuses = [200, 201, 204, 299]
        respond(world, () => Effect.succeed(answered(statuses[postsTo(world, to).length - 1]!, "whatever it says")))
        for (const _ of statuses) {
          yield* happen(process, of)
          yield* settle(process)
          yield* Time.adjust("1 second")
        }

        const found = yield* deliveriesTo(world, to)
        assert.deepEqual(found.map(({ attempts }) => attempts.map(({ responseStatus }) => responseStatus)), statuses.map((one) => [one]))
        for (const { status, attempts, deliveredAt, nextAttemptAt, lastError, deadAt } of found) {
          assert.deepEqual([status, outcomesOf({ attempts }), nextAttemptAt, lastError, deadAt], ["delivered", ["success"], null, null, null])
          assert.equal(deliveredAt, attempts[0]!.startedAt)
        }
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 0)
      })
    ),

    scenario("a delivery is a POST of the event's envelope, with its id, and says who sends it", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* happen(process, of)
        yield* settle(process)

        const [posted] = postsTo(world, to)
        const { items } = yield* process.events.list(of.principal, { limit: 100, cursor: null })
        const event = items.find(({ type }) => type === "message.queued")!
        const { resourceType: _, resourceId: __, ...shown } = event
        assert.deepEqual(posted!.json, { ...shown, apiVersion: "2026-12-01" })
        assert.deepEqual(Object.keys(posted!.json as object), ["id", "type", "apiVersion", "occurredAt", "data"])
        assert.deepEqual(Object.keys(posted!.headers).sort(), [
          "content-type",
          "service-webhook-id",
          "service-webhook-signature",
          "service-webhook-timestamp",
          "user-agent"
        ])
        assert.equal(posted!.headers["content-type"], "application/json")
        assert.equal(posted!.headers["user-agent"], "Service-Webhooks/1.0")
        assert.equal(posted!.headers["service-webhook-id"], event.id)
        assert.match(posted!.headers["service-webhook-signature"]!, /^v1=[0-9a-f]{64}$/)
      })
    ),

    scenario("each attempt sends the same bytes under the same id, signed anew at its own time, hours later too", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => broken)
        yield* untilDead(world, process, of, to)
        yield* replay(process, of, yield* deliveryTo(world, to))
        yield* settle(process)

        const posts = postsTo(world, to)
        assert.equal(posts.length, 6)
        yield* Effect.forEach(posts, (posted) => assertSigned(world, to, posted))
        assert.equal(new Set(posts.map(({ text }) => text)).size, 1)
        assert.equal(new Set(posts.map(({ headers }) => headers["service-webhook-id"])).size, 1)
        // The replay follows in the second of the fifth failure.
        assert.equal(new Set(posts.map(({ headers }) => headers["service-webhook-timestamp"])).size, 5)
        assert.equal(new Set(posts.map(({ headers }) => headers["service-webhook-signature"])).size, 5)
      })
    ),

    scenario("each endpoint's requests are signed with its own secret", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const other = yield* hook(process, of)
        yield* happen(process, of)
        yield* settle(process)

        yield* assertSigned(world, to, postsTo(world, to)[0]!)
        yield* assertSigned(world, other, postsTo(world, other)[0]!)
        assert.notEqual(postsTo(world, to)[0]!.headers["service-webhook-signature"], postsTo(world, other)[0]!.headers["service-webhook-signature"])
      })
    ),

    scenario("a receiver that asks to be left alone is, for seconds or until a date, up to an hour; never for less than the wait", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const asked = ["120", "Thu, 01 Jan 1970 00:30:00 GMT", "1", "999999", "600"]
        const second = yield* world.boot(undefined, { deliveryBackoff: [minute] })
        respond(world, (_, nth) => Effect.succeed(answered(503, undefined, asked[nth - 1]!)))
        yield* happen(process, of)
        yield* settle(second)
        const [waits, starts]: [Array<number>, Array<number>] = [[], []]
        for (let attempt = 2; attempt <= 5; attempt++) {
          const delivery = yield* deliveryTo(world, to)
          starts.push(delivery.attempts.at(-1)!.startedAt)
          waits.push(delivery.nextAttemptAt! - starts.at(-1)!)
          yield* untilNextAttempt(second, delivery)
        }

        const [seconds, date, short, long] = waits
        assert.equal(seconds, 120_000)
        assert.equal(starts[1]! + date!, 30 * minute)
        assert.ok(short! >= 0.8 * minute && short! <= 1.2 * minute, `${short}`)
        assert.equal(long, 60 * minute)
        assert.equal((yield* deliveryTo(world, to)).status, "dead", "at the end it is not asked")
      })
    ),

    scenario("the wait begins when the attempt has ended", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => Effect.delay(Effect.succeed(answered(503, undefined, "120")), "3 seconds"))
        yield* happen(process, of)
        const startedAt = yield* Clock.currentTimeMillis

        yield* settleFor(world, process, "3 seconds")

        assert.equal((yield* deliveryTo(world, to)).nextAttemptAt, startedAt + 123_000)
      })
    ),

    scenario("an endpoint whose URL the rules have come to forbid gets no request, and the attempt counts", (world) =>
      Effect.gen(function* () {
        const lenient = yield* world.boot(undefined, { webhookTargets: { allowHttp: true, allowedBlocks: [] } })
        const strict = yield* world.boot()
        const of = yield* world.found("sandbox")
        const to = yield* hook(lenient, of, { url: "http://hooks.example/" })

        yield* happen(strict, of)
        yield* settle(strict)

        assert.equal(postsTo(world, to).length, 0)
        const { attempts } = yield* deliveryTo(world, to)
        assert.deepEqual(attempts.map(({ outcome, durationMs }) => [outcome, durationMs]), [["unsafe_url", 0]])
        assert.equal((yield* endpointOf(world, to)).consecutiveFailures, 1)
      })
    ),

    scenario("a dead delivery that is replayed has a new round of five attempts, at once, and keeps those it made", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const saviour = yield* hook(process, of) // its successes are its own
        respond(world, (posted) => (posted.url === to.endpoint.url ? broken : ok))
        const dead = yield* untilDead(world, process, of, to)
        const now = yield* Clock.currentTimeMillis

        const replayed = yield* replay(process, of, dead)

        assert.deepEqual(
          [replayed.status, replayed.trigger, replayed.attemptCount, replayed.attempts.length, replayed.deadAt],
          ["pending", "replay", 0, 5, null]
        )
        assert.equal(replayed.nextAttemptAt, DateTime.formatIso(DateTime.makeUnsafe(now)))
        yield* settle(process)
        for (let attempt = 2; attempt <= 5; attempt++) yield* untilNextAttempt(process, yield* deliveryTo(world, to))
        const { status, attempts, round } = yield* deliveryTo(world, to)
        assert.deepEqual([status, round, postsTo(world, to).length], ["dead", 2, 10])
        assert.deepEqual(attempts.slice(0, 5), dead.attempts)
        assert.deepEqual(attempts.slice(5).map((one) => [one.round, one.number]), [1, 2, 3, 4, 5].map((number) => [2, number]))
        assert.equal((yield* deliveryTo(world, saviour)).status, "delivered")
      })
    ),

    scenario("a delivered delivery can be replayed, as often as one likes, and the replays are audited", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* happen(process, of)
        yield* settle(process)
        for (let round = 2; round <= 4; round++) {
          const view = yield* replay(process, of, yield* deliveryTo(world, to))
          assert.deepEqual([view.status, view.deliveredAt, view.attempts.length], ["pending", null, round - 1])
          yield* settle(process)
        }

        const { id, status, round, attempts } = yield* deliveryTo(world, to)
        assert.deepEqual([status, round, attempts.length, postsTo(world, to).length], ["delivered", 4, 4, 4])
        const audited = (yield* world.store.audit.page(of.realm.tenantId, 100)).filter(({ action }) => action === "webhook_delivery.replay")
        assert.deepEqual(audited.map(({ subject, actor }) => [subject.id, actor.id]), [1, 2, 3].map(() => [id, of.principal.apiKeyId]))
      })
    ),

    scenario("a pending delivery that is replayed stays as it is, with its retry", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, (_, nth) => (nth === 1 ? broken : ok))
        yield* happen(process, of)
        yield* settle(process)
        const before = yield* deliveryTo(world, to)

        const view = yield* replay(process, of, before)
        yield* settle(process)

        assert.deepEqual([view.status, view.trigger, view.attemptCount], ["pending", "event", 1])
        assert.deepEqual(yield* deliveryTo(world, to), before)
        assert.equal(postsTo(world, to).length, 1, "the replay makes no request of its own")
        yield* untilNextAttempt(process, before)
        assert.equal((yield* deliveryTo(world, to)).status, "delivered")
      })
    ),

    scenario("replays at the same time, in two processes, make one new round and one schedule", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const second = yield* world.boot()
        respond(world, () => broken)
        const dead = yield* untilDead(world, process, of, to)

        const views = yield* Effect.all(
          Array.from({ length: 20 }, (_, index) => replay(index % 2 === 0 ? process : second, of, dead)),
          { concurrency: "unbounded" }
        )
        yield* Effect.all([settle(process), settle(second)], { concurrency: "unbounded" })

        assert.ok(views.every(({ status }) => status === "pending"))
        const { round, attempts, attemptCount } = yield* deliveryTo(world, to)
        assert.deepEqual([round, attempts.length, attemptCount, postsTo(world, to).length], [2, 6, 1, 6])
        yield* pass(process, "30 minutes", "1 minute")
        assert.equal(postsTo(world, to).length, 6 + 2, "one schedule: retries after 1 m and 10 m")
      })
    ),

    scenario("a replay that races an attempt, at any moment, leaves one schedule", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const second = yield* world.boot()
        const rounds = new Set<number>()
        for (let turns = 0; turns < 24; turns++) {
          const of = yield* world.found()
          const to = yield* hook(process, of)
          respond(world, () => broken)
          yield* happen(process, of)
          yield* settle(process)
          for (let attempt = 2; attempt <= 4; attempt++) yield* untilNextAttempt(process, yield* deliveryTo(world, to))
          const last = yield* deliveryTo(world, to)
          yield* Time.setTime(last.nextAttemptAt!)
          const late = Effect.gen(function* () {
            for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
            // However long the ports take, one of them comes behind it all.
            if (turns === 23) yield* Time.calm
            yield* replay(second, of, last)
          })

          yield* Effect.all([settle(process), late], { concurrency: "unbounded" })
          yield* Effect.all([settle(process), settle(second)], { concurrency: "unbounded" })

          const { round, status, attempts } = yield* deliveryTo(world, to)
          rounds.add(round)
          assert.deepEqual([status, attempts.length], round === 1 ? ["dead", 5] : ["pending", 6], `after ${turns} turns`)
          assert.equal(postsTo(world, to).length, attempts.length, `after ${turns} turns`)
        }
        assert.equal(rounds.size, 2, "some came before the fifth failure, some after")
      })
    ),

    scenario("deliveries are listed newest first, of all the application's endpoints or of one", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const other = yield* hook(process, of)
        for (let count = 0; count < 3; count++) {
          yield* happen(process, of)
          yield* settle(process)
          yield* Time.adjust("1 second")
        }
        const list = (limit: number, endpointId: EndpointId | null) =>
          Effect.map(process.webhooks.listDeliveries(of.principal, { limit, endpointId }), ({ items }) => items)

        const [all, one, few] = [yield* list(100, null), yield* list(100, to.endpoint.id), yield* list(2, other.endpoint.id)]

        assert.equal(all.length, 6)
        for (const items of [all, one, few]) {
          assert.deepEqual(items.map(({ createdAt }) => createdAt), items.map(({ createdAt }) => createdAt).toSorted().toReversed())
        }
        assert.deepEqual(one.map(({ endpointId }) => endpointId), [1, 2, 3].map(() => to.endpoint.id))
        assert.deepEqual(few, all.filter(({ endpointId }) => endpointId === other.endpoint.id).slice(0, 2))
        const { id, eventId, createdAt, lastAttemptAt, deliveredAt, attempts, ...rest } = one[0]!
        assert.ok([id, eventId, createdAt, lastAttemptAt, deliveredAt].every((text) => text !== null))
        assert.deepEqual(attempts, [{ number: 1, round: 1, durationMs: 0, outcome: "success", responseStatus: 200, startedAt: lastAttemptAt! }])
        assert.deepEqual(rest, {
          object: "webhook_delivery",
          endpointId: to.endpoint.id,
          eventType: "message.queued",
          status: "delivered",
          trigger: "event",
          demo: false,
          attemptCount: 1,
          maxAttempts: 5,
          nextAttemptAt: null,
          lastResponseStatus: 200,
          lastError: null,
          deadAt: null
        })
      })
    ),

    scenario("a delivery that does not exist cannot be replayed", (world) =>
      Effect.gen(function* () {
        const { process, of } = yield* play(world)

        const error = yield* Effect.flip(process.webhooks.replay(of.principal, freshId<DeliveryId>()))

        assert.deepEqual([error._tag, error._tag === "NotFound" && error.field], ["NotFound", null])
      })
    ),

    scenario("deliveries that ended are forgotten 30 days later, with their bodies; a pending one never is, and outlives its event", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const away = yield* hook(process, of)
        respond(world, ({ url }) => (url === away.endpoint.url ? broken : ok))
        yield* untilDead(world, process, of, away)
        const [delivered, dead] = [yield* deliveryTo(world, to), yield* deliveryTo(world, away)]
        const waiting = yield* hook(process, of)
        yield* Time.setTime(delivered.deliveredAt! + 1)
        yield* happen(process, of)
        yield* process.relay.tick // it will be looked at after a month only
        const days30 = 30 * 24 * 60 * minute
        const exists = ({ id }: { readonly id: DeliveryId }) =>
          Effect.map(world.store.deliveries.body(of.realm, id), (body) => body !== null)

        yield* Time.setTime(delivered.deliveredAt! + days30)
        yield* process.sweep.retain
        assert.deepEqual([yield* exists(delivered), yield* exists(dead)], [true, true])
        yield* Time.setTime(delivered.deliveredAt! + days30 + 1)
        yield* process.sweep.retain
        assert.deepEqual([yield* exists(delivered), yield* exists(dead)], [false, true])
        yield* Time.setTime(dead.deadAt! + days30 + 1)
        yield* process.sweep.retain

        assert.equal(yield* exists(dead), false)
        const { items } = yield* process.webhooks.listDeliveries(of.principal, { limit: 100, endpointId: null })
        assert.deepEqual(items.map(({ status }) => status), ["pending", "pending"]) // the one that was delivered is gone as well
        yield* settle(process)
        assert.equal((yield* deliveryTo(world, waiting)).status, "delivered")
        yield* assertSigned(world, waiting, postsTo(world, waiting)[0]!)
        assert.equal(Webhook.apiVersion, postsTo(world, waiting)[0]!.json.apiVersion)
      })
    )
  ]
}
