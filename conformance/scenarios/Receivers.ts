/** Webhook endpoints of a scenario: setting them up, having their receivers answer, and what has come of it. */
import { Duration, Effect, Fiber, type Redacted } from "effect"
import * as assert from "node:assert/strict"
import { domainOf } from "../../core/model/Address.ts"
import { system } from "../../core/model/Audit.ts"
import type { Delivery } from "../../core/model/Delivery.ts"
import type * as Endpoints from "../../core/model/Endpoint.ts"
import type { DeliveryId } from "../../core/model/Ids.ts"
import * as Webhook from "../../core/model/Webhook.ts"
import type { CreateWebhookEndpointInput } from "../../core/operations/Webhooks.ts"
import type { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { address, freshId } from "../fixtures.ts"
import * as Time from "./Time.ts"
import { answered, send, settle, welcoming, type Posted, type Process, type Tenancy, type World } from "./World.ts"

/** An endpoint with the secret that its creation told. */
export interface Hook {
  readonly of: Tenancy
  readonly endpoint: typeof Endpoints.View.Type
  readonly secret: Redacted.Redacted<string>
}

export const hookUrl = (): string => `https://h${freshId().slice(0, 18)}.example/hook`

/** Creates an endpoint for `message.queued`, of which each message makes one. */
export const hook = (process: Process, of: Tenancy, over: Partial<CreateWebhookEndpointInput> = {}) =>
  Effect.map(
    process.webhooks.createEndpoint(of.principal, { url: hookUrl(), description: null, eventTypes: ["message.queued"], ...over }),
    ({ endpoint, secret }): Hook => ({ of, endpoint, secret })
  )

/** A process, a tenant, and an endpoint of it. */
export const play = (world: World, environment: "sandbox" | "production" = "production") =>
  Effect.gen(function* () {
    const process = yield* world.boot()
    const of = yield* world.found(environment)
    return { process, of, to: yield* hook(process, of) }
  })

/** From now on, what receivers answer to deliveries; `nth` counts the requests of this delivery, from 1. They welcome handshakes. */
export const respond = (
  { stage }: World,
  answer: (posted: Posted, nth: number) => Effect.Effect<Webhook.Answer, WebhookUnanswered>
): void => {
  stage.receive = (posted) => {
    if (isHandshake(posted)) return welcoming(posted)
    const same = stage.posts.filter(({ url, json }) => url === posted.url && json.id === posted.json.id)
    return answer(posted, same.length)
  }
}

export const ok = Effect.succeed(answered(200))
export const broken = Effect.succeed(answered(500))

const isHandshake = ({ json }: Posted): boolean => json.type === "webhook.endpoint_verification"

/** The deliveries that an endpoint's receiver got. */
export const postsTo = ({ stage }: World, { endpoint }: Hook): ReadonlyArray<Posted> =>
  stage.posts.filter((posted) => posted.url === endpoint.url && !isHandshake(posted))

/** Makes one event that `hook` subscribes to. */
export const happen = (process: Process, of: Tenancy) => send(process, of, address("delivered"))

/** Another mailbox, by which the tenant as a whole has an event. */
export const addMailbox = (process: Process, { realm, mailbox }: Tenancy) =>
  process.management.createMailbox(system, {
    tenantId: realm.tenantId,
    address: address(`m${freshId().slice(0, 8)}`, domainOf(mailbox.address)),
    displayName: "Another"
  })

/** An endpoint's deliveries, oldest first. */
export const deliveriesTo = ({ store }: World, { of, endpoint }: Hook) =>
  Effect.map(
    store.deliveries.page(of.realm, { applicationId: of.application.id, endpointId: endpoint.id, limit: 10_000 }),
    (found) => found.toReversed()
  )

/** The one delivery that an endpoint has. */
export const deliveryTo = (world: World, to: Hook) =>
  Effect.map(deliveriesTo(world, to), (found) => {
    assert.equal(found.length, 1, "the endpoint has one delivery")
    return found[0]!
  })

export const endpointOf = ({ store }: World, { of, endpoint }: Hook) =>
  Effect.map(store.endpoints.get(of.realm, endpoint.id), (found) => {
    assert.ok(found !== null)
    return found
  })

export const replay = (process: Process, { principal }: Tenancy, { id }: { readonly id: DeliveryId }) =>
  Effect.map(process.webhooks.replay(principal, id), ({ delivery }) => delivery)

/** Lets the clock come to a delivery's next attempt, and has it made. */
export const untilNextAttempt = (process: Process, { nextAttemptAt }: Delivery) =>
  Effect.gen(function* () {
    assert.ok(nextAttemptAt !== null, "another attempt is due")
    yield* Time.setTime(nextAttemptAt)
    yield* settle(process)
  })

/** The failed attempts that an endpoint counts, and whether it is enabled. */
export const countOf = (world: World, to: Hook) => Effect.map(endpointOf(world, to), ({ consecutiveFailures, enabled }) => [consecutiveFailures, enabled])

/** Waits, the clock standing still, until receivers were asked so often in all, and their answers are waited for. */
export const untilPosted = ({ stage }: World, count: number) =>
  Effect.gen(function* () {
    yield* Time.until(() => stage.posts.length >= count)
    assert.ok(stage.posts.length >= count, `${stage.posts.length} of ${count} requests were made`)
    yield* Time.calm
  })

/** Has what is due done while the clock goes on: where receivers take their time. At least one of them is asked. */
export const settleFor = (world: World, process: Process, duration: Parameters<typeof Time.adjust>[0]) =>
  Effect.gen(function* () {
    const before = world.stage.posts.length
    const fiber = yield* Effect.forkChild(settle(process))
    yield* untilPosted(world, before + 1)
    yield* Time.adjust(duration)
    yield* Fiber.join(fiber)
  })

/** How each attempt of a delivery ended. */
export const outcomesOf = ({ attempts }: Pick<Delivery, "attempts">): ReadonlyArray<string> => attempts.map(({ outcome }) => outcome)

/** Verifies a request as its receiver would: with the secret that was told at creation, over the bytes that came. */
export const assertSigned = ({ crypto }: World, { secret }: Hook, { headers, text, at, json }: Posted) =>
  Effect.gen(function* () {
    const { "service-webhook-id": id = "", "service-webhook-timestamp": timestamp = "" } = headers
    assert.equal(id, json.id)
    assert.equal(timestamp, String(Math.floor(at / 1000)), "the time of this attempt")
    const mac = yield* crypto.sign(secret, Webhook.signedBytes(id, timestamp, new TextEncoder().encode(text)))
    assert.equal(headers["service-webhook-signature"], `v1=${mac}`)
  })

/** Relays all that the log holds, and delivers nothing. */
export const relayAll = ({ relay }: Process) => Effect.repeat(relay.tick, { until: (count) => count === 0 })

/** A worker and a relay that run in the background until the effect is done. */
export const running = <A, E, R>({ worker, relay }: Process, effect: Effect.Effect<A, E, R>) =>
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

/** An operator enables an endpoint again. */
export const enable = (process: Process, { of, endpoint }: Hook, replayDead: boolean) =>
  process.webhookManagement.enableEndpoint(system, of.realm.tenantId, endpoint.id, { replayDead })

/** The same so often, one after the other. */
export const times = <A, E, R>(count: number, effect: Effect.Effect<A, E, R>) =>
  Effect.forEach(Array.from({ length: count }), () => effect, { discard: true })
