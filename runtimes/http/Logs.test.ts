import { assert, it, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import * as Harness from "./harness.ts"
import { subscribe, upload } from "./parties.ts"

interface Line {
  readonly level: string
  readonly message: string
  readonly annotations: Readonly<Record<string, unknown>>
}

const linesOf = (server: Harness.Harness): ReadonlyArray<Line> =>
  server.logs.map((line) => JSON.parse(line) as Line).filter(({ message }) => message === "request")

layer(Harness.layer(), { excludeTestServices: true })("The log", (it) => {
  it.effect("has one line per request, with who did what and how it ended", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const before = linesOf(server).length
      const sent = yield* server.send()
      const refused = yield* server.call("GET", `/v1/messages/${crypto.randomUUID()}?color=red`)
      const unknown = yield* server.call("GET", "/v1/nothing?color=red", { key: null })

      const [first, second, third, ...more] = linesOf(server).slice(before).map(({ annotations: { durationMs, ...rest } }) => {
        assert.isNumber(durationMs)
        return rest
      })
      const who = { tenantId: server.tenantId, applicationId: server.application.id }
      const sending = { operation: "sendMessage", method: "POST", route: "/v1/messages", status: 202, code: null }
      const getting = { operation: "getMessage", method: "GET", route: "/v1/messages/:messageId", status: 404, code: "not_found" }
      const nothing = { operation: null, method: "GET", route: "/v1/nothing", status: 404, code: "not_found" }
      const nobody = { tenantId: null, applicationId: null }
      assert.deepStrictEqual(first, { ...who, ...sending, requestId: sent.headers.get("x-request-id"), messageId: sent.json.id })
      assert.deepStrictEqual(second, { ...who, ...getting, requestId: refused.json.requestId })
      assert.deepStrictEqual(third, { ...nobody, ...nothing, requestId: unknown.json.requestId })
      assert.deepStrictEqual(more, [])
    })
  )

  it.effect("names what a request was about, for the caller whose it is, and for nobody else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const [party, stranger] = [yield* server.party(), yield* server.party()]
      const before = linesOf(server).length
      const endpointId = (yield* subscribe(server, party, server.receivers.open())).json.endpoint.id
      const messageId = (yield* server.send({ fromMailboxId: party.mailbox.id }, { key: party.key })).json.id
      const attachmentId = (yield* upload(server, party)).json.attachment.id
      yield* server.scanned(party, attachmentId, "Clean")
      yield* server.relay
      const deliveryId = (yield* server.call("GET", "/v1/webhook-deliveries", { key: party.key })).json.items[0].id
      for (const { key } of [party, stranger]) {
        yield* server.call("GET", `/v1/messages/${messageId}`, { key })
        yield* server.call("PATCH", `/v1/messages/${messageId}`, { key, body: { mailboxId: party.mailbox.id, isStarred: true } })
        yield* server.call("GET", `/v1/attachments/${attachmentId}/download`, { key })
        yield* server.call("POST", `/v1/webhook-deliveries/${deliveryId}/replay`, { key })
      }

      const told = linesOf(server).slice(before).map(({ annotations: { operation, status, ...rest } }) => [
        operation,
        status,
        Object.fromEntries(Object.entries(rest).filter(([name]) => ["messageId", "attachmentId", "endpointId", "deliveryId"].includes(name)))
      ])
      assert.deepStrictEqual(told, [
        ["createWebhookEndpoint", 201, { endpointId }],
        ["sendMessage", 202, { messageId }],
        ["uploadAttachment", 201, { attachmentId }],
        ["listWebhookDeliveries", 200, {}],
        ["getMessage", 200, { messageId }],
        ["updateMessage", 200, { messageId }],
        ["downloadAttachment", 200, { attachmentId }],
        ["replayWebhookDelivery", 202, { deliveryId }],
        ...["getMessage", "updateMessage", "downloadAttachment", "replayWebhookDelivery"].map((operation) => [operation, 404, {}])
      ])
    })
  )

  it.effect("holds no header, no query, no body and no key, wherever a client puts one", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const secret = server.key.slice("svc_test_".length)
      yield* server.send({ subject: "confidential-subject", text: "confidential-text", to: ["confidential@mail.example"] })
      yield* server.send({ subject: 5, confidential: "confidential-member" })
      yield* server.call("GET", `/v1/messages?cursor=${server.key}&api_key=${server.key}`)
      yield* server.call("GET", `/v1/messages/${server.key}`)
      yield* server.call("GET", `/v1/${server.key}/messages`)
      yield* server.call("GET", `/v1/messages/${server.key.replaceAll("_", "%5F")}/x`, { key: null })
      yield* server.call("GET", "/hooks/whsec_confidential/confidential@mail.example", { key: null })
      yield* server.call("GET", `/${server.key}`, { key: null, headers: { cookie: server.key, "user-agent": "confidential-agent" } })
      yield* server.call("POST", "/v1/attachments", { body: { filename: "confidential.txt", contentBase64: "!" } })
      const hook = { url: "https://confidential.hooks.example/confidential", description: "confidential-note", eventTypes: ["*"] }
      yield* server.call("POST", "/v1/webhook-endpoints", { body: hook })
      yield* server.call("POST", "/v1/webhook-endpoints", { body: { ...hook, eventTypes: ["confidential.type"] } })
      yield* server.raw(`GET /v1/mailboxes HTTP/1.1\r\nAuthorization: Bearer ${server.key}\r\nBad Header: x\r\n\r\n`)

      const log = server.logs.join("\n")

      for (const told of [secret, secret.slice(11, 44), "confidential", "$argon2id"]) assert.notInclude(log, told)
    })
  )

  it.effect("is one line of JSON, whatever a path holds", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      yield* server.call("GET", `/v1/${encodeURIComponent("x\r\n{\"level\":\"ERROR\"}")}`)

      for (const line of server.logs) {
        assert.notInclude(line, "\n")
        assert.isObject(JSON.parse(line))
      }
    })
  )

  it.effect("tells of a path that names nothing its short and plain words, up to a length", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const before = linesOf(server).length
      yield* server.call("GET", `/${"a".repeat(24)}/${"b".repeat(25)}/${"c/".repeat(100)}`, { key: null })

      const [line] = linesOf(server).slice(before)
      assert.strictEqual(line?.annotations["route"], `/${"a".repeat(24)}/.../${"c/".repeat(74)}`)
    })
  )

  it.effect("is quiet about probes", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const before = server.logs.length
      yield* server.call("GET", "/healthz")
      yield* server.call("GET", "/readyz")

      assert.strictEqual(server.logs.length, before)
    })
  )

  it.effect("of requests has an entry for each caller who is known, also when it is refused", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const { text: scopeless } = yield* server.issueKey(party, [])
      const began = yield* Clock.currentTimeMillis
      const first = yield* server.call("GET", "/v1/mailboxes", { key: party.key })
      yield* server.call("GET", "/v1/mailboxes", { key: scopeless })
      yield* server.call("GET", "/v1/messages/x", { key: party.key })
      yield* server.call("GET", "/v1/mailboxes", { key: null })
      yield* server.call("GET", "/v1/nothing", { key: party.key })

      yield* server.requestLog.flush
      const ended = yield* Clock.currentTimeMillis
      const entries = yield* Effect.orDie(server.store.audit.requests(party.tenantId, 10))

      assert.deepStrictEqual(
        entries.map((entry) => `${entry.operation} ${entry.status} ${entry.code} ${entry.clientAddress} ${entry.environment}`).sort(),
        [
          "getMessage 400 invalid_request 127.0.0.1 sandbox",
          "listMailboxes 200 null 127.0.0.1 sandbox",
          "listMailboxes 403 insufficient_scope 127.0.0.1 sandbox"
        ]
      )
      for (const { at, durationMs, applicationId } of entries) {
        assert.isTrue(began <= at && at <= ended, `${began} ${at} ${ended}`)
        assert.isTrue(Number.isSafeInteger(durationMs) && durationMs >= 0, "whole milliseconds, as stores keep them")
        assert.strictEqual(applicationId, party.application.id)
      }
      assert.include(entries.map(({ requestId }) => requestId), first.headers.get("x-request-id"))
    })
  )
})

it.live("The audit trail has each write of a caller, under its name, with its request and where that came from", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const hook = yield* subscribe(server, server, server.receivers.open())
    const sent = yield* server.send()
    const updated = yield* server.call("PATCH", `/v1/messages/${sent.json.id}`, { body: { mailboxId: server.mailbox.id, isStarred: true } })
    const file = yield* upload(server, server)
    yield* server.settle
    const [delivery] = (yield* server.call("GET", "/v1/webhook-deliveries")).json.items
    const replayed = yield* server.call("POST", `/v1/webhook-deliveries/${delivery.id}/replay`)

    const entries = yield* server.store.audit.page(server.tenantId, 100)
    const written = entries.filter(({ actor }) => actor.type === "api_key").map(({ action, subject, requestId, clientAddress }) => [action, subject.id, requestId, clientAddress])
    const expected = ([
      ["webhook_endpoint.create", hook.json.endpoint.id, hook],
      ["message.send", sent.json.id, sent],
      ["message.update", sent.json.id, updated],
      ["attachment.upload", file.json.attachment.id, file],
      ["webhook_delivery.replay", delivery.id, replayed]
    ] as ReadonlyArray<readonly [action: string, id: string, reply: Harness.Reply]>).map(([action, id, { headers }]) => [action, id, headers.get("x-request-id"), "127.0.0.1"])
    assert.sameDeepMembers(written, expected)
  }).pipe(Effect.scoped)
)
