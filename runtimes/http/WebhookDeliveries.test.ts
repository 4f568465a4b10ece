/** Listing and replaying webhook deliveries (Spec 3, 4 and 6), over real sockets on our side and a directed transport on the other. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Harness from "./harness.ts"
import { application, deliveriesOf, eventsOf, idsOf, replay, send, subscribe, subscriber } from "./parties.ts"
import { answered, broken, welcoming } from "./receivers.ts"

const live = { excludeTestServices: true }
const nobody = "0199d6a0-7c4e-7b1a-9f3d-000000000000"
const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const millis = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** A subscriber with one delivery, which has come as far as it can with this receiver. */
const withDelivery = Effect.fnUntraced(function* (server: Harness.Harness, behave = welcoming) {
  const party = yield* subscriber(server, yield* server.party(), behave)
  yield* send(server, party)
  yield* server.settle
  const [delivery] = yield* deliveriesOf(server, party)
  return { party, delivery }
})

layer(Harness.layer(), live)("listWebhookDeliveries", (it) => {
  it.effect("shows each delivery whole: while it is pending, once it is delivered, and once it is dead", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party())
      yield* send(server, party)
      const event = (yield* eventsOf(server, party)).at(-1)
      yield* server.relay
      const list = server.call("GET", "/v1/webhook-deliveries", { key: party.key })

      const pending = yield* list
      assert.strictEqual(pending.status, 200)
      const { id, createdAt } = pending.json.items[0]
      assert.match(id, version7)
      assert.match(createdAt, millis)
      const whole = {
        id,
        object: "webhook_delivery",
        endpointId: party.endpoint.id,
        eventId: event.id,
        eventType: "message.queued",
        status: "pending",
        trigger: "event",
        demo: false,
        attemptCount: 0,
        maxAttempts: 5,
        nextAttemptAt: createdAt,
        lastAttemptAt: null,
        lastResponseStatus: null,
        lastError: null,
        createdAt,
        deliveredAt: null,
        deadAt: null,
        attempts: []
      }
      assert.deepStrictEqual(pending.json, { items: [whole] })

      yield* server.settle
      const [delivered] = (yield* list).json.items
      const { deliveredAt, lastAttemptAt, attempts } = delivered
      for (const time of [deliveredAt, lastAttemptAt]) assert.match(time, millis)
      assert.isAtLeast(attempts[0].durationMs, 0)
      assert.deepStrictEqual(delivered, {
        ...whole,
        status: "delivered",
        attemptCount: 1,
        nextAttemptAt: null,
        lastAttemptAt,
        lastResponseStatus: 204,
        deliveredAt,
        attempts: [{ number: 1, round: 1, startedAt: lastAttemptAt, durationMs: attempts[0].durationMs, outcome: "success", responseStatus: 204 }]
      })

      const { delivery: dead } = yield* withDelivery(server, broken)
      assert.match(dead.deadAt, millis)
      assert.deepStrictEqual(
        [dead.status, dead.attemptCount, dead.nextAttemptAt, dead.deliveredAt, dead.lastResponseStatus, dead.lastError],
        ["dead", 5, null, null, 500, "http_error"]
      )
      assert.deepStrictEqual(
        dead.attempts.map(({ startedAt: _at, durationMs: _ms, ...rest }: { startedAt: string; durationMs: number }) => rest),
        [1, 2, 3, 4, 5].map((number) => ({ number, round: 1, outcome: "http_error", responseStatus: 500 }))
      )
      assert.strictEqual(dead.lastAttemptAt, dead.attempts[4].startedAt)
    })
  )

  it.effect("marks what comes of a test event", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const sibling = yield* application(server, party, "sandbox")
      for (const of of [party, sibling]) yield* subscribe(server, of, server.receivers.open())
      const test = { tenantId: party.tenantId, applicationId: party.application.id, type: "mailbox.created" as const }
      const event = yield* Effect.orDie(server.webhookManagement.sendTestEvent(Harness.actor, test))

      yield* server.settle

      const [delivery] = yield* deliveriesOf(server, party)
      assert.deepInclude(delivery, { eventId: event.id, trigger: "test", demo: true, status: "delivered" })
      assert.deepStrictEqual(yield* deliveriesOf(server, sibling), [])
    })
  )

  it.effect("says nothing of what a receiver answered but its status", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party())
      party.receiver.behave = () => Effect.succeed(answered(502, { banner: "internal-banner-8.4" }))
      yield* send(server, party)
      yield* server.settle

      const { json, text } = yield* server.call("GET", "/v1/webhook-deliveries", { key: party.key })

      assert.strictEqual(json.items[0].lastResponseStatus, 502)
      assert.notInclude(text, "banner")
    })
  )

  it.effect("is newest first, 25 at a time unless told otherwise, and of one endpoint when asked", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party())
      const second = yield* subscriber(server, party)
      const sent: Array<string> = []
      for (let count = 0; count < 13; count++) {
        yield* send(server, party)
        sent.push((yield* eventsOf(server, party)).at(-1).id)
        yield* server.relay
      }
      const list = (query: string) => server.call("GET", `/v1/webhook-deliveries?${query}`, { key: party.key })
      const eventIds = ({ json }: Harness.Reply) => json.items.map(({ eventId }: { eventId: string }) => eventId)

      assert.lengthOf((yield* list("")).json.items, 25)
      const whole = yield* list("limit=100")
      assert.deepStrictEqual(Object.keys(whole.json), ["items"])
      assert.deepStrictEqual([...new Set(eventIds(whole))], sent.toReversed())
      assert.deepStrictEqual(idsOf(yield* list("limit=3")), idsOf(whole).slice(0, 3))
      for (const { endpoint } of [party, second]) {
        const of = yield* list(`endpointId=${endpoint.id}`)
        assert.deepStrictEqual(eventIds(of), sent.toReversed())
        assert.deepStrictEqual(new Set(of.json.items.map(({ endpointId }: { endpointId: string }) => endpointId)), new Set([endpoint.id]))
        assert.lengthOf((yield* list(`endpointId=${endpoint.id.toUpperCase()}&limit=5&color=red`)).json.items, 5)
      }
    })
  )

  it.effect("wants a UUID where it is asked for an endpoint's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { status, json } = yield* server.call("GET", "/v1/webhook-deliveries?endpointId=x")

      assert.deepStrictEqual([status, json.code, json.details.issues[0].path], [400, "invalid_request", "/endpointId"])
    })
  )
})

layer(Harness.layer(), live)("replayWebhookDelivery", (it) => {
  for (const [state, behave] of [["dead", broken], ["delivered", welcoming]] as const) {
    it.effect(`makes a ${state} delivery pending: a new round, the same event, and nothing of the past erased`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const { party, delivery } = yield* withDelivery(server, behave)
        assert.strictEqual(delivery.status, state)
        party.receiver.behave = welcoming

        const { status, json } = yield* replay(server, party, delivery.id)

        assert.strictEqual(status, 202)
        const { nextAttemptAt } = json.delivery
        assert.match(nextAttemptAt, millis)
        const pending = { ...delivery, status: "pending", trigger: "replay", attemptCount: 0, nextAttemptAt, deliveredAt: null, deadAt: null }
        assert.deepStrictEqual(json, { delivery: pending })
        assert.deepStrictEqual(yield* deliveriesOf(server, party), [pending])

        yield* server.settle
        const [after] = yield* deliveriesOf(server, party)
        const { id, eventId } = delivery
        assert.deepInclude(after, { id, eventId, status: "delivered", attemptCount: 1, lastError: null })
        assert.deepStrictEqual(after.attempts.slice(0, -1), delivery.attempts)
        assert.deepInclude(after.attempts.at(-1), { number: 1, round: 2, outcome: "success", responseStatus: 204 })
        const [first, ...more] = party.receiver.posts.slice(1) // the handshake came before
        for (const again of more) {
          assert.strictEqual(again.headers["service-webhook-id"], delivery.eventId)
          assert.strictEqual(again.text, first!.text)
        }
        assert.lengthOf(more, delivery.attempts.length)
      })
    )
  }

  it.effect("leaves a pending delivery as it is, and says so with 202", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party())
      yield* send(server, party)
      yield* server.relay
      const [pending] = yield* deliveriesOf(server, party)
      const audit = Effect.map(Effect.orDie(server.store.audit.page(party.tenantId, 100)), (entries) => entries.length)
      const before = yield* audit

      const again = yield* Effect.forEach([1, 2], () => replay(server, party, pending.id))

      for (const { status, json } of again) assert.deepStrictEqual([status, json], [202, { delivery: pending }])
      assert.deepStrictEqual(yield* deliveriesOf(server, party), [pending])
      assert.strictEqual(yield* audit, before)
      yield* server.settle
      assert.lengthOf(party.receiver.posts, 2)
    })
  )

  it.effect("twice at the same time begins one round", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { party, delivery } = yield* withDelivery(server, broken)

      const replies = yield* Effect.all([1, 2, 3].map(() => replay(server, party, delivery.id)), { concurrency: "unbounded" })
      yield* server.settle

      for (const { status, json } of replies) assert.deepStrictEqual([status, json], [202, replies[0]!.json])
      const [after] = yield* deliveriesOf(server, party)
      assert.deepStrictEqual(after.attempts.map(({ round }: { round: number }) => round), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    })
  )

  it.effect("answers 409 while the endpoint is disabled, in whatever state the delivery is, and 202 once it is enabled again", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party())
      yield* send(server, party)
      yield* server.settle
      party.receiver.behave = broken
      for (let count = 0; count < 2; count++) yield* send(server, party)
      yield* server.settle
      const before = yield* deliveriesOf(server, party)
      assert.deepStrictEqual(before.map(({ status }: { status: string }) => status), ["dead", "dead", "delivered"])

      for (const { id } of before) {
        const { status, json } = yield* replay(server, party, id)
        assert.deepStrictEqual([status, json.code, json.error, json.details], [409, "endpoint_disabled", "Conflict", {}])
      }
      assert.deepStrictEqual(yield* deliveriesOf(server, party), before)

      yield* Effect.orDie(server.webhookManagement.enableEndpoint(Harness.actor, party.tenantId, party.endpoint.id, { replayDead: false }))
      assert.strictEqual((yield* replay(server, party, before[0].id)).status, 202)
    })
  )

  const nothing: ReadonlyArray<readonly [what: string, headers: ReadonlyArray<string>, body: string]> = [
    ["no body", [], ""],
    ["no body, and says so", ["Content-Length: 0"], ""],
    ["no body of type JSON", ["Content-Length: 0", "Content-Type: application/json"], ""],
    ["no body of another type", ["Content-Length: 0", "Content-Type: application/x-www-form-urlencoded"], ""],
    ["no body in chunks", ["Transfer-Encoding: chunked"], "0\r\n\r\n"],
    ["no body of another type in chunks", ["Transfer-Encoding: chunked", "Content-Type: text/plain;charset=UTF-8"], "0\r\n\r\n"],
    ["an empty object", ["Content-Length: 2", "Content-Type: application/json"], "{}"],
    ["an empty object with white space", ["Content-Length: 7", "Content-Type: application/json; charset=utf-8"], "\r\n{\n} \n"],
    ["an empty object in chunks", ["Transfer-Encoding: chunked", "Content-Type: application/json"], "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"]
  ]
  for (const [what, headers, body] of nothing) {
    it.effect(`takes ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const { party, delivery } = yield* withDelivery(server)
        const line = `POST /v1/webhook-deliveries/${delivery.id}/replay`

        const answer = yield* server.raw(Harness.wire(line, [Harness.bearer(party), "Connection: close", ...headers], body))

        assert.match(answer, /^HTTP\/1\.1 202 /)
        assert.include(answer, "\"trigger\":\"replay\"")
      })
    )
  }

  const bodies: ReadonlyArray<readonly [what: string, body: string, issue: string]> = [
    ["a member", "{\"endpointId\":\"x\"}", "/endpointId unknown_member"],
    ["a member of a prototype's", "{\"__proto__\":{}}", "/__proto__ unknown_member"],
    ["null", "null", " wrong_type"],
    ["a list", "[]", " wrong_type"],
    ["a text", "\"x\"", " wrong_type"],
    ["malformed JSON", "{", " malformed_json"],
    ["a byte order mark", "\ufeff{}", " malformed_json"],
    ["nothing but white space", " ", " empty_body"]
  ]
  for (const [what, body, issue] of bodies) {
    it.effect(`refuses ${what} as its body, and replays nothing`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const { party, delivery } = yield* withDelivery(server)

        const { status, json } = yield* server.call("POST", `/v1/webhook-deliveries/${delivery.id}/replay`, { key: party.key, body })

        assert.deepStrictEqual([status, json.code], [400, "invalid_request"])
        assert.deepStrictEqual(json.details.issues.map(({ path, code }: { path: string; code: string }) => `${path} ${code}`), [issue])
        assert.deepStrictEqual(yield* deliveriesOf(server, party), [delivery])
      })
    )
  }

  it.effect("refuses a body that is not JSON, or too long, before it looks for the delivery", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const path = `/v1/webhook-deliveries/${nobody}/replay`
      const post = (body: string, headers: Record<string, string> = {}) => server.call("POST", path, { body, headers })
      const big = `{"a":"${"x".repeat(64 * 1024)}"}`
      const chunked = `${big.length.toString(16)}\r\n${big}\r\n0\r\n\r\n`

      assert.strictEqual((yield* post("{}", { "content-type": "text/plain" })).status, 415)
      assert.strictEqual((yield* post("{}", { "content-encoding": "gzip" })).status, 415)
      assert.strictEqual((yield* post(big)).json.code, "payload_too_large")
      const headers = [Harness.bearer(server), "Transfer-Encoding: chunked", "Content-Type: application/json"]
      const answer = yield* server.raw(Harness.wire(`POST ${path}`, headers, chunked))
      assert.match(answer, /^HTTP\/1\.1 413 [^]*"payload_too_large"/)
      assert.strictEqual((yield* post("{}")).status, 404)
    })
  )
})
