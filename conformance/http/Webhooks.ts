/** Webhooks: endpoints, their handshake, signed deliveries, replay (Spec 3, Spec 4, Spec 6). */
import { Clock, Effect } from "effect"
import { NotApplicable } from "../Suite.ts"
import {
  codeOf,
  Deployment,
  type Exchange,
  parsed,
  type ReceivedRequest,
  type ReceiverAnswer,
  type Reply
} from "./Deployment.ts"
import { eventsSince } from "./Events.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, eventually, fits, holds, refused, refusedInput, status } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { challengeIn, freshId, type Hook, Traffic, welcome } from "./Traffic.ts"

const create = (json: object) =>
  call({ method: "POST", path: "/v1/webhook-endpoints", json: { url: unsafe, eventTypes: ["*"], ...json } })

/** A URL that may be called nowhere: what else is wrong with an input is told before that, or with it. */
const unsafe = "https://10.0.0.1/conformance"

const endpoints = Effect.gen(function* () {
  const reply = yield* call({ method: "GET", path: "/v1/webhook-endpoints" })
  return { reply, ...(yield* answered(reply, 200, Shapes.WebhookEndpoints)) }
})

const deliveries = (query: string) => call({ method: "GET", path: `/v1/webhook-deliveries?${query}` })

const replay = (id: string) => call({ method: "POST", path: `/v1/webhook-deliveries/${id}/replay` })

const receiver = Effect.gen(function* () {
  const { target } = yield* Deployment
  return target.receiver ??
    (yield* new NotApplicable({
      reason: "there is no receiver that the deployment can reach; name one with --receiver-url"
    }))
})

const utf8 = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

/** The deliveries that a receiver got at a path. */
const posts = (path: string) =>
  Effect.map(receiver, ({ received }) => received(path).filter(({ body }) => challengeIn(utf8(body)) === null))

/** Makes one message.updated, and gives the request that tells of it. */
const happen = (hook: Hook) =>
  Effect.gen(function* () {
    const traffic = yield* Traffic
    const { id: mailboxId } = yield* traffic.mailbox
    const { id } = (yield* traffic.messages).at(-1)!
    const before = (yield* posts(hook.path)).length
    const { message } = yield* answered(yield* call({ method: "GET", path: `/v1/messages/${id}` }), 200, Shapes.Got)
    yield* status(
      yield* call({ method: "PATCH", path: `/v1/messages/${id}`, json: { mailboxId, isStarred: !message.isStarred } }),
      200
    )
    const request = yield* eventually(
      "the event is delivered",
      "30 seconds",
      Effect.map(posts(hook.path), (all) => all[before])
    )
    return { request, messageId: id }
  })

const hmac = (secret: string, bytes: Uint8Array<ArrayBuffer>) =>
  Effect.promise(async () => {
    const hmacKey = await globalThis.crypto.subtle.importKey(
      "raw",
      new TextEncoder().encode(secret),
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign"]
    )
    const mac = await globalThis.crypto.subtle.sign("HMAC", hmacKey, bytes)
    return Array.from(new Uint8Array(mac), (byte) => byte.toString(16).padStart(2, "0")).join("")
  })

/** What a receiver got, as it is shown. */
const exchangeOf = ({ method, headers, body }: ReceivedRequest): Exchange => ({
  request: [
    `${method} (to the receiver)`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "",
    utf8(body)
  ]
    .join("\n"),
  response: ""
})

/** Judges a delivery as a receiver does, and gives its body. */
const genuine = (request: ReceivedRequest, secret: string) =>
  Effect.gen(function* () {
    const { headers, body, at, method } = request
    const shown = { exchange: exchangeOf(request) }
    const [id, timestamp, signature] = ["id", "timestamp", "signature"].map((name) =>
      headers[`service-webhook-${name}`]
    )
    yield* equal(shown, "the request's method and headers", [method, headers["content-type"], headers["user-agent"]], [
      "POST",
      "application/json",
      "Service-Webhooks/1.0"
    ])
    yield* holds(
      shown,
      `Service-Webhook-Timestamp is in Unix seconds, of now: ${timestamp}`,
      /^\d+$/.test(timestamp ?? "") && Math.abs(Number(timestamp) - at / 1_000) <= 300
    )
    yield* holds(
      shown,
      `Service-Webhook-Signature is v1= and 64 lower-case hex digits: ${signature}`,
      /^v1=[0-9a-f]{64}$/.test(signature ?? "")
    )
    const head = new TextEncoder().encode(`${id}.${timestamp}.`)
    const signed = new Uint8Array(head.length + body.length)
    signed.set(head)
    signed.set(body, head.length)
    yield* holds(
      shown,
      "Service-Webhook-Signature is the HMAC-SHA256 of id.timestamp.body under the secret",
      signature === `v1=${yield* hmac(secret, signed)}`
    )
    const said = yield* fits(shown, parsed(utf8(body)), Shapes.WebhookBody)
    yield* equal(shown, "Service-Webhook-Id is the event's id", id, said.id)
    return said
  })

/** The newest delivery of an event to an endpoint, once it is as it is looked for. */
const delivery = (hook: Hook, eventId: string, isSo: (one: typeof Shapes.WebhookDelivery.Type) => boolean) =>
  eventually(
    "the delivery is listed, with its attempt",
    "15 seconds",
    Effect.gen(function* () {
      const reply = yield* deliveries(`endpointId=${hook.endpoint.id}&limit=100`)
      const { items } = yield* answered(reply, 200, Shapes.WebhookDeliveries)
      const found = items.find((one) => one.eventId === eventId)
      return found !== undefined && isSo(found) ? { reply, delivery: found } : undefined
    })
  )

/** Receivers that fail the handshake, each in its way. */
const failing: ReadonlyArray<readonly [what: string, reason: string, answer: (body: string) => ReceiverAnswer]> = [
  ["answers 500", "non_2xx", () => ({ status: 500 })],
  ["redirects", "redirect", () => ({ status: 302, headers: { location: "https://example.com/" } })],
  ["answers no JSON", "invalid_json", () => ({ status: 200, body: "ok" })],
  [
    "echoes another challenge",
    "challenge_mismatch",
    () => ({ status: 200, body: JSON.stringify({ challenge: freshId() }) })
  ],
  ["takes longer than five seconds", "timeout", (body) => ({ ...welcome(body), afterMillis: 6_500 })]
]

const unsafeUrls = [
  "https://10.0.0.1/hook",
  "https://169.254.169.254/latest/meta-data",
  "https://[fd00::1]/hook",
  "https://0x0a000001/hook",
  "https://user:secret@example.com/hook",
  "https://example.com/hook#fragment",
  "https://example.com:25/hook",
  "ftp://example.com/hook",
  "no url"
]

/** A deployment that reaches no receiver has nothing to verify. */
const unlessUnreachable = (reply: Reply) =>
  Effect.gen(function* () {
    const { isGiven, urlOf } = yield* receiver
    if (!isGiven && codeOf(reply) === "invalid_webhook_url") {
      return yield* new NotApplicable({
        reason: `the deployment does not call ${urlOf("/")}; name a receiver that it can reach with --receiver-url`
      })
    }
  })

export const suite: HttpSuite = {
  name: "webhooks",
  checks: [
    check(
      "Spec 2, Webhook endpoint",
      "endpoints are listed with their nine members, and never with their secret",
      function* () {
        const { reply } = yield* endpoints
        yield* holds(reply, "no secret is in the list", !reply.text.includes("whsec_"))
      }
    ),

    check(
      "Spec 4, listWebhookDeliveries",
      "deliveries are listed, as many as are asked for, each with its attempts",
      function* () {
        const reply = yield* deliveries("limit=2")
        const { items } = yield* answered(reply, 200, Shapes.WebhookDeliveries)
        yield* holds(reply, `at most 2 items, got ${items.length}`, items.length <= 2)
        yield* refusedInput(yield* deliveries("limit=0"), "/limit")
        yield* refusedInput(yield* deliveries("limit=101"), "/limit")
      }
    ),

    check(
      "Spec 4, listWebhookDeliveries",
      "an endpoint filter that is nobody's is answered 404, and one that is no UUID 400",
      function* () {
        const absent = yield* deliveries(`endpointId=${freshId()}`)
        yield* equal(absent, "details", yield* refused(absent, 404, "not_found"), { field: "endpointId" })
        yield* refusedInput(yield* deliveries("endpointId=x"), "/endpointId")
      }
    ),

    ...([
      ["no event types", { eventTypes: [] }, "/eventTypes"],
      ["21 event types", { eventTypes: Array.from({ length: 21 }, () => "*") }, "/eventTypes"],
      ["missing event types", { eventTypes: undefined }, "/eventTypes"],
      ["a description of 256 characters", { description: "x".repeat(256) }, "/description"],
      ["a missing URL", { url: undefined }, "/url"],
      ["a member that there is not", { secret: "whsec_mine" }, "/secret"]
    ] as const).map(([what, change, path]) =>
      check("Spec 4, Create webhook endpoint body", `an endpoint with ${what} is refused`, function* () {
        yield* refusedInput(yield* create(change), path)
      })
    ),

    ...["message.exploded", "webhook.endpoint_verification"].map((type) =>
      check("Spec 6 (decided), Event types", `${type} cannot be subscribed`, function* () {
        const reply = yield* create({ eventTypes: ["message.sent", type] })
        const details = yield* refused(reply, 400, "unsupported_event_type")
        yield* equal(reply, "details.unsupported", details["unsupported"], [type])
        yield* holds(
          reply,
          "details.supported names the types",
          Array.isArray(details["supported"]) && details["supported"].includes("message.sent")
        )
      })
    ),

    ...unsafeUrls.map((url) =>
      check("Spec 3, Webhook endpoint", `an endpoint at ${url} is refused, and nothing is stored`, function* () {
        const { items: before } = yield* endpoints
        const reply = yield* create({ url })
        yield* equal(reply, "details", yield* refused(reply, 400, "invalid_webhook_url"), { reason: "unsafe_url" })
        yield* equal(reply, "endpoints", (yield* endpoints).items.map(({ id }) => id), before.map(({ id }) => id))
      })
    ),

    ...failing.map(([what, reason, answer]) =>
      check(
        "Spec 6, Endpoint verification handshake 3",
        `an endpoint whose receiver ${what} is not created`,
        function* () {
          const { environment } = yield* Deployment
          if (environment === "production") {
            return yield* new NotApplicable({ reason: "a production key would send real mail, or leave something" })
          }
          const stage = yield* receiver
          const path = `/conformance/${freshId()}`
          stage.answer(path, answer)
          const reply = yield* create({ url: stage.urlOf(path) })
          yield* unlessUnreachable(reply)
          yield* equal(reply, "details", yield* refused(reply, 400, "webhook_verification_failed"), { reason })
          yield* holds(reply, "nothing is stored", !(yield* endpoints).items.some(({ url }) => url.endsWith(path)))
        }
      )
    ),

    check(
      "Spec 6, Endpoint verification handshake",
      "creation asks the receiver for its challenge, unsigned, and then tells the secret once",
      function* () {
        const { challenges, endpoint, path, reply, secret } = yield* (yield* Traffic).hook
        yield* equal(reply, "one verification request was made", challenges.length, 1)
        const { method, headers, body } = challenges[0]!
        yield* equal(reply, "its method and type", [method, headers["content-type"]], ["POST", "application/json"])
        yield* holds(reply, "it carries a challenge", (challengeIn(utf8(body)) ?? "").length >= 16)
        yield* holds(reply, "it is not signed", headers["service-webhook-signature"] === undefined)
        const { enabled, consecutiveFailures, disabledAt, eventTypes, url } = endpoint
        yield* equal(reply, "the endpoint", { enabled, consecutiveFailures, disabledAt, eventTypes }, {
          enabled: true,
          consecutiveFailures: 0,
          disabledAt: null,
          eventTypes: ["message.updated"]
        })
        yield* holds(reply, "its URL is the receiver's", url.endsWith(path))
        const listed = yield* endpoints
        yield* equal(
          listed.reply,
          "it is listed as it was created",
          listed.items.find(({ id }) => id === endpoint.id),
          endpoint
        )
        yield* holds(listed.reply, "its secret is not told again", !listed.reply.text.includes(secret))
      }
    ),

    check(
      "Spec 6, Signature",
      "an event is delivered with its id, its time and a signature, and is the one that is listed",
      function* () {
        const traffic = yield* Traffic
        const hook = yield* traffic.hook
        const { request, messageId } = yield* happen(hook)
        const body = yield* genuine(request, hook.secret)
        yield* equal(null, "its type, and the message it is about", [body.type, body.data["object"], body.data["id"]], [
          "message.updated",
          "message",
          messageId
        ])
        const { events } = yield* eventsSince(yield* traffic.since, 100)
        const event = events.find(({ id }) => id === body.id)
        yield* equal(null, "GET /v1/events lists the same event", event && [event.type, event.occurredAt, event.data], [
          body.type,
          body.occurredAt,
          body.data
        ])
        const listed = yield* delivery(hook, body.id, ({ status }) => status === "delivered")
        const { attempts, attemptCount, eventType, lastResponseStatus, trigger } = listed.delivery
        yield* equal(listed.reply, "the delivery", { eventType, attemptCount, lastResponseStatus, trigger }, {
          eventType: "message.updated",
          attemptCount: 1,
          lastResponseStatus: 204,
          trigger: "event"
        })
        yield* equal(
          listed.reply,
          "its attempt",
          attempts.map(({ number, round, outcome, responseStatus }) => [number, round, outcome, responseStatus]),
          [[1, 1, "success", 204]]
        )
      }
    ),

    check(
      "Spec 6, Delivery semantics 6",
      "a replayed delivery is pending, and comes again under its id, freshly signed; no attempt is forgotten",
      function* () {
        const hook = yield* (yield* Traffic).hook
        const { request } = yield* happen(hook)
        const { id: eventId } = yield* genuine(request, hook.secret)
        const { delivery: done } = yield* delivery(hook, eventId, ({ status }) => status === "delivered")
        const before = (yield* posts(hook.path)).length
        const replayedAt = yield* Clock.currentTimeMillis
        const reply = yield* replay(done.id)
        const { delivery: pending } = yield* answered(reply, 202, Shapes.Replayed)
        yield* equal(reply, "the delivery", [pending.id, pending.eventId, pending.status], [
          done.id,
          eventId,
          "pending"
        ])
        const again = yield* eventually(
          "it is delivered again",
          "30 seconds",
          Effect.map(posts(hook.path), (all) => all[before])
        )
        const body = yield* genuine(again, hook.secret)
        yield* equal(null, "the event is the same", body.id, eventId)
        const timestamp = Number(again.headers["service-webhook-timestamp"])
        yield* holds(
          null,
          "its timestamp is fresh",
          timestamp >= Number(request.headers["service-webhook-timestamp"]) &&
            Math.abs(timestamp - replayedAt / 1_000) <= 300
        )
        const { delivery: twice, reply: listed } = yield* delivery(
          hook,
          eventId,
          ({ status, attempts }) => status === "delivered" && attempts.length > 1
        )
        yield* equal(listed, "both attempts are told", twice.attempts.map(({ round, outcome }) => [round, outcome]), [[
          1,
          "success"
        ], [2, "success"]])
      }
    ),

    check(
      "Spec 6, Delivery semantics 4 and 5",
      "a failed attempt is recorded and counted, its delivery stays pending, and a success resets the counter",
      function* () {
        const hook = yield* (yield* Traffic).hook
        const stage = yield* receiver
        stage.answer(hook.path, () => ({ status: 503 }))
        const { request } = yield* happen(hook).pipe(
          Effect.ensuring(Effect.sync(() => stage.answer(hook.path, welcome)))
        )
        const { id: eventId } = yield* genuine(request, hook.secret)
        const { delivery: failed, reply } = yield* delivery(hook, eventId, ({ attemptCount }) => attemptCount === 1)
        yield* equal(reply, "the delivery", [
          failed.status,
          failed.lastResponseStatus,
          failed.attempts.map(({ outcome }) => outcome)
        ], ["pending", 503, ["http_error"]])
        yield* holds(reply, "another attempt is to come", failed.nextAttemptAt !== null)
        const counted = yield* endpoints
        yield* equal(
          counted.reply,
          "consecutiveFailures",
          counted.items.find(({ id }) => id === hook.endpoint.id)?.consecutiveFailures,
          1
        )
        const again = yield* replay(failed.id)
        yield* equal(
          again,
          "a replay of what is pending changes nothing",
          (yield* answered(again, 202, Shapes.Replayed)).delivery,
          failed
        )
        yield* happen(hook)
        yield* eventually(
          "consecutiveFailures is 0 again",
          "15 seconds",
          Effect.map(
            endpoints,
            ({ items }) => items.find(({ id }) => id === hook.endpoint.id)?.consecutiveFailures === 0 ? true : undefined
          )
        )
      }
    ),

    check(
      "Spec 5, 5",
      "the replay of an absent delivery is answered 404, and of an id that is no UUID 400",
      function* () {
        yield* refused(yield* replay(freshId()), 404, "not_found")
        yield* refusedInput(yield* replay("x"), "/deliveryId")
      }
    )
  ]
}
