import { assert, describe, it } from "@effect/vitest"
import { Effect, Tracer } from "effect"
import * as SandboxMailProvider from "../../adapters/sandbox/SandboxMailProvider.ts"
import { rootOf, traceIdOf } from "../../core/Tracing.ts"
import * as SpanTracer from "../SpanTracer.ts"
import * as Harness from "./harness.ts"
import { subscribe, upload } from "./parties.ts"
import { broken } from "./receivers.ts"

type Span = SpanTracer.OtlpSpan

const attributesOf = ({ attributes }: Span): Readonly<Record<string, unknown>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? value.boolValue]))

/** A server whose sandbox tells of its outcomes at once, and its spans. */
const traced = Effect.gen(function* () {
  const spans: Array<Span> = []
  const sandbox = SandboxMailProvider.make({ outcomeAfter: 0, lateBounceAfter: 0 })
  const tracer = SpanTracer.make((span) => void spans.push(span))
  // Within a span of another tracer, as programs are.
  const server = yield* Harness.start({ sandbox, tracer }).pipe(Effect.withSpan("main"))
  return { server, spans, named: (name: string) => spans.filter((span) => span.name === name) }
})

const incoming = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" }
const traceparent = (flags = "01") => `00-${incoming.traceId}-${incoming.spanId}-${flags}`

describe("The trace of a message", () => {
  it.live("is named by its id, and has all that happens to it from its acceptance to the last webhook", () =>
    Effect.gen(function* () {
      const { server, spans } = yield* traced
      const receiver = server.receivers.open()
      const endpoint = yield* subscribe(server, server, receiver)
      const { json } = yield* server.send({}, { headers: { traceparent: traceparent() } })
      yield* server.settle

      const own = spans.filter(({ traceId }) => traceId === traceIdOf(json.id))
      const [first, ...more] = own.filter(({ parentSpanId }) => parentSpanId === undefined)
      const ids = new Map(own.map((span) => [span.spanId, span]))

      assert.strictEqual(first?.name, "message")
      assert.strictEqual(first?.spanId, rootOf(json.id).spanId)
      assert.deepStrictEqual(more, [])
      for (const { parentSpanId } of own) assert.isTrue(parentSpanId === undefined || ids.has(parentSpanId))
      for (const span of own.filter(({ name }) => name !== "Store.commit")) {
        assert.strictEqual(attributesOf(span)["mailroom.message_id"], json.id, span.name)
        assert.strictEqual(attributesOf(span)["mailroom.tenant_id"], server.tenantId, span.name)
      }
      const parents = own.map(({ name, parentSpanId }) => `${name} < ${parentSpanId === undefined ? "" : ids.get(parentSpanId)?.name}`)
      for (const expected of [
        "SubmitMessage.handle < message",
        "MailProvider.submit < SubmitMessage.handle",
        "Store.commit < SubmitMessage.handle",
        "PollProvider.handle < message",
        "MailProvider.poll < PollProvider.handle",
        "RecordNotification.apply < RecordNotification.recordPoll",
        "RecordNotification.recordPoll < PollProvider.handle",
        "EventRelay.relay < message",
        "DeliverWebhook.handle < message",
        "WebhookTransport.post < DeliverWebhook.handle"
      ]) {
        assert.include(parents, expected)
      }
      const delivered = own.filter(({ name }) => name === "DeliverWebhook.handle" || name === "FirstAttempts.begin").map(attributesOf)
      assert.sameMembers(delivered.map((of) => of["mailroom.event_type"]), ["message.delivered", "message.queued", "message.sent"])
      assert.deepStrictEqual([...new Set(delivered.map((of) => of["mailroom.endpoint_id"]))], [endpoint.json.endpoint.id])
    })
  )

  it.live("begins with a link to the request that sent it, which is in its caller's trace and names it", () =>
    Effect.gen(function* () {
      const { server, named } = yield* traced
      const { json, headers } = yield* server.send({}, { headers: { traceparent: traceparent() } })

      const [request] = named("POST /v1/messages")
      const [first] = named("message")

      assert.strictEqual(request?.traceId, incoming.traceId)
      assert.strictEqual(request?.parentSpanId, incoming.spanId)
      assert.strictEqual(request?.kind, 2)
      assert.deepStrictEqual(attributesOf(request!), {
        "http.request.method": "POST",
        "http.route": "/v1/messages",
        "http.response.status_code": 202,
        "mailroom.request_id": headers.get("x-request-id"),
        "mailroom.operation": "sendMessage",
        "mailroom.tenant_id": server.tenantId,
        "mailroom.environment": "sandbox",
        "mailroom.message_id": json.id
      })
      assert.deepStrictEqual(first?.links.map(({ traceId, spanId }) => ({ traceId, spanId })), [
        { traceId: incoming.traceId, spanId: request!.spanId }
      ])
      assert.strictEqual(attributesOf(first!)["mailroom.request_id"], headers.get("x-request-id"))
    })
  )

  it.live("is there once, however often the request is repeated", () =>
    Effect.gen(function* () {
      const { server, named } = yield* traced
      const call = { headers: { "idempotency-key": "the-same-key" } }
      const { json } = yield* server.send({}, call)
      yield* server.send({}, call)
      yield* server.send({ text: "another" }, call)

      assert.deepStrictEqual(named("message").map(({ traceId }) => traceId), [traceIdOf(json.id)])
      assert.deepStrictEqual(
        named("POST /v1/messages").map((span) => attributesOf(span)["mailroom.message_id"]),
        [json.id, json.id, undefined]
      )
    })
  )

  it.live("is not there for a send that was refused", () =>
    Effect.gen(function* () {
      const { server, named } = yield* traced
      yield* server.send({ fromMailboxId: crypto.randomUUID() })

      assert.deepStrictEqual(named("message"), [])
      assert.deepStrictEqual(attributesOf(named("POST /v1/messages")[0]!)["mailroom.code"], "not_found")
    })
  )

  it.live("says of an attempt how it ended, and not whom it called", () =>
    Effect.gen(function* () {
      const { server, spans, named } = yield* traced
      const receiver = server.receivers.open(broken)
      yield* subscribe(server, server, receiver, { eventTypes: ["message.queued"] })
      yield* server.send()
      yield* server.settle

      const attempts = named("WebhookTransport.post").map(attributesOf)
      assert.strictEqual(attempts.length, 5)
      for (const attempt of attempts) {
        assert.strictEqual(attempt["mailroom.outcome"], "http_error")
        assert.strictEqual(attempt["http.response.status_code"], 500)
      }
      assert.notInclude(JSON.stringify(spans), "hooks.example")
    })
  )

  it.live("is written whether or not the caller samples its own", () =>
    Effect.gen(function* () {
      const { server, named } = yield* traced
      yield* server.send({}, { headers: { traceparent: traceparent("00") } })

      assert.strictEqual(named("message").length, 1)
      assert.strictEqual(named("POST /v1/messages").length, 0)
    })
  )
})

describe("The trace of an attachment", () => {
  it.live("has its upload's link and its scan", () =>
    Effect.gen(function* () {
      const { server, spans } = yield* traced
      const { json } = yield* upload(server, server)
      yield* server.settle

      const { id } = json.attachment
      const own = spans.filter(({ traceId }) => traceId === traceIdOf(id))
      assert.deepStrictEqual(own.filter(({ parentSpanId }) => parentSpanId === undefined).map(({ name }) => name), ["attachment"])
      assert.isTrue(own.some(({ name }) => name === "Scanner.scan"))
      const [request] = spans.filter(({ name }) => name === "POST /v1/attachments")
      assert.strictEqual(own[0]?.links[0]?.spanId, request?.spanId)
      assert.strictEqual(attributesOf(request!)["mailroom.attachment_id"], id)
    })
  )
})

describe("The span of a request", () => {
  it.live("holds no header, no query, no body, no address and no key, wherever a client puts one", () =>
    Effect.gen(function* () {
      const { server, spans } = yield* traced
      yield* server.send({ subject: "confidential-subject", text: "confidential-text", to: ["confidential@mail.example"] })
      yield* server.send({ subject: 5, confidential: "confidential-member" })
      yield* server.call("GET", `/v1/messages?cursor=${server.key}&confidential=1`)
      yield* server.call("GET", `/v1/${server.key}/messages`, { headers: { "user-agent": "confidential-agent" } })
      yield* server.call("GET", `/v1/messages/${server.key}`)
      const hook = { url: "https://confidential.hooks.example/confidential", description: "confidential-note", eventTypes: ["*"] }
      yield* server.call("POST", "/v1/webhook-endpoints", { body: hook })
      yield* server.call("POST", "/v1/webhook-endpoints", { body: { ...hook, eventTypes: ["confidential.type"] } })
      yield* server.settle

      const text = JSON.stringify(spans)
      for (const told of ["confidential", server.key.slice("svc_test_".length, 40), "mail.example", "127.0.0.1", "hooks.example"]) {
        assert.notInclude(text, told)
      }
      assert.includeMembers(spans.map(({ name }) => name), ["GET /v1/messages", "GET", "GET /v1/messages/:messageId"])
    })
  )

  it.live("names what its request was about, and a method only if it is one", () =>
    Effect.gen(function* () {
      const { server, named } = yield* traced
      const endpoint = yield* subscribe(server, server, server.receivers.open())
      const { id } = (yield* server.send()).json
      yield* server.settle
      const [delivery] = (yield* server.call("GET", "/v1/webhook-deliveries")).json.items
      yield* server.call("POST", `/v1/webhook-deliveries/${delivery.id}/replay`)
      yield* server.call("PATCH", `/v1/messages/${id}`, { body: { mailboxId: server.mailbox.id, isStarred: true } })
      yield* server.call("PURGE", `/v1/messages/${id}`)

      const about = (name: string) =>
        Object.fromEntries(Object.entries(attributesOf(named(name)[0]!)).filter(([attribute]) => /^mailroom\.\w+_id$/.test(attribute) && !/(?:request|tenant)_id$/.test(attribute)))
      assert.deepStrictEqual(about("POST /v1/webhook-endpoints"), { "mailroom.endpoint_id": endpoint.json.endpoint.id })
      assert.deepStrictEqual(about("POST /v1/webhook-deliveries/:deliveryId/replay"), { "mailroom.delivery_id": delivery.id })
      assert.deepStrictEqual(about("PATCH /v1/messages/:messageId"), { "mailroom.message_id": id })
      const [strange] = named("_OTHER /v1/messages/:messageId")
      assert.strictEqual(attributesOf(strange!)["http.request.method"], "_OTHER")
    })
  )

  it.live("is an error from 500 up, and says of what kind and nothing more", () =>
    Effect.gen(function* () {
      const spans: Array<Span> = []
      let isAway = false
      const server = yield* Harness.start({
        tracer: SpanTracer.make((span) => void spans.push(span)),
        store: (store) => ({
          ...store,
          commit: (changes, jobs) => (isAway ? Effect.die(new TypeError("the password is confidential")) : store.commit(changes, jobs))
        })
      })
      isAway = true
      yield* server.send()
      yield* server.send({ fromMailboxId: crypto.randomUUID() })

      const [failed, refused] = spans.filter(({ name }) => name === "POST /v1/messages")
      const [inner] = spans.filter(({ name }) => name === "Messages.send")
      assert.deepStrictEqual([failed?.status, attributesOf(failed!)["error.type"]], [{ code: 2 }, "500"])
      assert.deepStrictEqual([inner?.status, attributesOf(inner!)["error.type"], inner?.events], [{ code: 2 }, "TypeError", []])
      assert.deepStrictEqual(refused?.status, { code: 0 })
      assert.notInclude(JSON.stringify(spans), "confidential")
    })
  )

  it.live("is the only one of its request, and there for no probe and no scrape", () =>
    Effect.gen(function* () {
      const spans: Array<Span> = []
      const server = yield* Harness.start({ tracer: SpanTracer.make((span) => void spans.push(span)) })
      for (const path of ["/healthz", "/readyz", "/metrics", "/v1/mailboxes"]) yield* server.call("GET", path)
      assert.deepStrictEqual(spans.filter(({ kind }) => kind === 2).map(({ name }) => name), ["GET /v1/mailboxes"])
    })
  )

  it.live("is let out without what a library puts in, and not beneath what another tracer began", () =>
    Effect.gen(function* () {
      const spans: Array<Span> = []
      const tracer = SpanTracer.make((span) => void spans.push(span))
      const inner = Effect.void.pipe(Effect.withSpan("inner"), Effect.provideService(Tracer.Tracer, tracer))
      yield* inner.pipe(Effect.withSpan("outer"), Effect.provideService(Tracer.Tracer, Tracer.nativeTracer))
      assert.deepStrictEqual(spans, [])

      const confidential = { "url.full": "confidential", "client.address": "confidential", "db.query.text": "confidential" }
      const attributes = { ...confidential, "db.system.name": "postgresql" }
      const queried = Effect.withSpan(Effect.logInfo("confidential"), "sql.execute", { attributes })
      yield* Effect.provideService(queried, Tracer.Tracer, tracer)
      assert.deepStrictEqual(spans.map((span) => [span.name, attributesOf(span), span.events]), [
        ["sql.execute", { "db.system.name": "postgresql" }, []]
      ])
    })
  )

  it.live("is in the log line of its request", () =>
    Effect.gen(function* () {
      const { server, named } = yield* traced
      const { json } = yield* server.send()

      const [line] = server.logs.map((line) => JSON.parse(line)).filter(({ message }) => message === "request")
      assert.strictEqual(line.annotations.traceId, named("POST /v1/messages")[0]?.traceId)
      assert.strictEqual(line.annotations.messageId, json.id)
    })
  )
})
