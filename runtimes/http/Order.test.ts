import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { connect } from "node:net"
import { scopes } from "../../core/model/ApiKey.ts"
import type { ApiKeyId } from "../../core/model/Ids.ts"
import { requiredScopes, type Operation } from "../../core/operations/Access.ts"
import type { Store } from "../../core/ports/Store.ts"
import * as Harness from "./harness.ts"
import { deliveriesOf, send, subscribe, subscriber } from "./parties.ts"
import { answered, broken } from "./receivers.ts"

const live = { excludeTestServices: true }
const nobody = "0199d6a0-7c4e-7b1a-9f3d-000000000000"

/** A request of each operation that is good but for what it points at. */
const requests: Readonly<Record<Operation, readonly [method: string, path: string, body?: unknown]>> = {
  listMailboxes: ["GET", "/v1/mailboxes"],
  listDomains: ["GET", "/v1/domains"],
  listMessages: ["GET", "/v1/messages"],
  sendMessage: ["POST", "/v1/messages", { fromMailboxId: nobody, to: ["a@mail.example"], text: "x" }],
  getMessage: ["GET", `/v1/messages/${nobody}`],
  updateMessage: ["PATCH", `/v1/messages/${nobody}`, { mailboxId: nobody, isRead: true }],
  uploadAttachment: ["POST", "/v1/attachments", { mailboxId: nobody, filename: "a", mediaType: "a/b", contentBase64: "" }],
  downloadAttachment: ["GET", `/v1/attachments/${nobody}/download`],
  listEvents: ["GET", "/v1/events"],
  listWebhookEndpoints: ["GET", "/v1/webhook-endpoints"],
  createWebhookEndpoint: ["POST", "/v1/webhook-endpoints", { url: "https://nobody.hooks.example/", eventTypes: ["*"] }],
  listWebhookDeliveries: ["GET", "/v1/webhook-deliveries"],
  replayWebhookDelivery: ["POST", `/v1/webhook-deliveries/${nobody}/replay`]
}
const all = Object.entries(requests) as ReadonlyArray<[Operation, (typeof requests)[Operation]]> // the keys of the literal
const idempotent = () => ({ "idempotency-key": crypto.randomUUID() })

layer(Harness.layer(), live)("The HTTP runtime", (it) => {
  it.effect("lets a key do what its scope allows, and nothing else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      assert.deepStrictEqual([scopes.length, all.length], [8, 13])
      for (const scope of [null, ...scopes]) {
        const { text: key } = yield* server.issueKey(server, scope === null ? [] : [scope])
        for (const [operation, [method, path, body]] of all) {
          const reply = yield* server.call(method, path, { key, body, headers: idempotent() })
          if (requiredScopes[operation] === scope) assert.notInclude([401, 403], reply.status, `${operation} with ${scope}`)
          else {
            assert.strictEqual(reply.status, 403, `${operation} with ${scope}`)
            assert.strictEqual(reply.json.code, "insufficient_scope")
            assert.deepStrictEqual(reply.json.details, { required: [requiredScopes[operation]], missing: [requiredScopes[operation]] })
          }
        }
      }
    })
  )

  interface Attempt {
    readonly path?: string
    readonly headers?: Record<string, string>
  }
  const credentials: ReadonlyArray<readonly [what: string, make: (key: string) => Attempt]> = [
    ["no credential", () => ({})],
    ["a key in the query", (key) => ({ path: `?api_key=${key}&access_token=${key}` })],
    ["Basic authentication", (key) => ({ headers: { authorization: `Basic ${btoa(`${key}:`)}` } })],
    ["a key in a cookie", (key) => ({ headers: { cookie: `api_key=${key}; session=${key}` } })],
    ["a key in a header of another name", (key) => ({ headers: { "x-api-key": key } })],
    ["a key without a scheme", (key) => ({ headers: { authorization: key } })],
    ["an empty credential", () => ({ headers: { authorization: "Bearer " } })],
    ["two credentials", (key) => ({ headers: { authorization: `Bearer ${key} ${key}` } })],
    ["a mistyped key", (key) => ({ headers: { authorization: `Bearer ${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}` } })],
    ["a key of the other environment's prefix", (key) => ({ headers: { authorization: `Bearer ${key.replace("_test_", "_live_")}` } })]
  ]
  for (const [what, make] of credentials) {
    it.effect(`answers 401 to ${what}, and does not log it`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const { path = "", headers = {} } = make(server.key)

        const reply = yield* server.call("GET", `/v1/mailboxes${path}`, { key: null, headers })

        assert.strictEqual(reply.status, 401)
        assert.strictEqual(reply.json.code, "unauthorized")
        assert.deepStrictEqual(reply.json.details, {})
        assert.strictEqual(reply.headers.get("www-authenticate"), "Bearer")
        assert.isFalse(server.logs.some((line) => line.includes(server.key.slice(9, 40))))
        assert.isTrue(server.logs.some((line) => line.includes(reply.json.requestId) && line.includes("\"reason\":")))
      })
    )
  }

  it.effect("answers 401 to a key from the moment it is revoked, and while its application is suspended", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const other = yield* server.issueKey(party, scopes)
      const status = (key: string) => Effect.map(server.call("GET", "/v1/mailboxes", { key }), (reply) => reply.status)
      assert.strictEqual(yield* status(other.text), 200)

      yield* Effect.orDie(server.management.revokeKey(Harness.actor, party.tenantId, other.id))
      assert.strictEqual(yield* status(other.text), 401)
      assert.strictEqual(yield* status(party.key), 200)

      const suspend = server.management.setApplicationStatus(Harness.actor, party.tenantId, party.application.id, "suspended")
      yield* Effect.orDie(suspend)
      assert.strictEqual(yield* status(party.key), 401)
    })
  )

  it.effect("answers alike for what is absent and what is somebody else's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const strangers = yield* Effect.all([server.party(), server.party({ environment: "production" })])
      const { json: sent } = yield* server.send()
      const { json: uploaded } = yield* server.call("POST", "/v1/attachments", {
        body: { ...(requests.uploadAttachment[2] as object), mailboxId: server.mailbox.id }
      })
      const points = (mailbox: string, message: string, attachment: string) =>
        [
          ["GET", `/v1/messages?mailboxId=${mailbox}`],
          ["POST", "/v1/messages", { fromMailboxId: mailbox, to: ["a@mail.example"], text: "x" }],
          ["GET", `/v1/messages/${message}`],
          ["PATCH", `/v1/messages/${message}`, { mailboxId: mailbox, isRead: true }],
          ["POST", "/v1/attachments", { mailboxId: mailbox, filename: "a", mediaType: "a/b", contentBase64: "" }],
          ["GET", `/v1/attachments/${attachment}/download`]
        ] as const
      const ours = points(server.mailbox.id, sent.id, uploaded.attachment.id)
      const absent = points(nobody, nobody, nobody)
      for (const { key } of strangers) {
        for (const [index, [method, path, body]] of ours.entries()) {
          const [, absentPath, absentBody] = absent[index]!
          const theirs = yield* server.call(method, path, { key, body, headers: idempotent() })
          const nothing = yield* server.call(method, absentPath, { key, body: absentBody, headers: idempotent() })

          assert.strictEqual(theirs.status, 404)
          assert.deepStrictEqual({ ...theirs.json, requestId: "" }, { ...nothing.json, requestId: "" })
        }
      }
    })
  )
})

/** Requests that break two rules each; the earlier one is to answer. */
layer(Harness.layer({ planId: "tiny" }), live)("The order of refusal", (it) => {
  const tooLong = ["Content-Length: 999999999"]

  it.effect("puts an unknown route before the length, and a wrong method too", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const unknown = yield* server.raw(Harness.wire("POST /v1/nothing", tooLong))
      const wrong = yield* server.raw(Harness.wire("PUT /v1/messages", tooLong))

      assert.match(unknown, /^HTTP\/1\.1 404 [^]*"code":"not_found"/)
      assert.match(wrong, /^HTTP\/1\.1 405 [^]*"code":"method_not_allowed"/)
      assert.match(wrong, /\r\nallow: GET, HEAD, POST\r\n/)
    })
  )

  it.effect("puts the length before the credential", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const answer = yield* server.raw(Harness.wire("POST /v1/messages", tooLong))

      assert.match(answer, /^HTTP\/1\.1 413 [^]*"code":"payload_too_large"/)
    })
  )

  it.effect("puts the credential before the limits, and these before the scope", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const { text: scopeless } = yield* server.issueKey(party, [])
      const keys = [scopeless, scopeless, scopeless, scopeless, null]
      const replies = yield* Effect.forEach(keys, (key) => server.call("GET", "/v1/mailboxes", { key }))

      assert.deepStrictEqual(
        replies.map(({ json }) => json.code),
        ["insufficient_scope", "insufficient_scope", "insufficient_scope", "rate_limited", "unauthorized"]
      )
    })
  )

  it.effect("puts the key's limit before the tenant's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const second = yield* server.issueKey(party, scopes)
      const limits: Array<string | undefined> = []
      for (const key of [party.key, party.key, party.key, party.key, second.text, second.text, second.text]) {
        limits.push((yield* server.call("GET", "/v1/mailboxes", { key })).json.details?.scope)
      }

      assert.deepStrictEqual(limits, [undefined, undefined, undefined, "key", undefined, undefined, "tenant_day"])
    })
  )
})

layer(Harness.layer(), live)("The order of refusal, inside", (it) => {
  it.effect("puts the scope before the media type, and that before the input", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { text: scopeless } = yield* server.issueKey(server, [])
      const wrong = { body: "x", headers: { "content-type": "text/plain" } }
      const codeOf = (...call: Parameters<Harness.Harness["call"]>) => Effect.map(server.call(...call), ({ json }) => json.code)

      assert.strictEqual(yield* codeOf("POST", "/v1/messages", { ...wrong, key: scopeless }), "insufficient_scope")
      assert.strictEqual(yield* codeOf("POST", "/v1/messages", wrong), "unsupported_media_type")
      assert.strictEqual(yield* codeOf("PATCH", "/v1/messages/x", wrong), "unsupported_media_type")
      assert.strictEqual(yield* codeOf("POST", "/v1/messages", { body: "x" }), "invalid_request")
      assert.strictEqual(yield* codeOf("PATCH", "/v1/messages/x", { body: {} }), "invalid_request")
    })
  )

  it.effect("puts the input first, then the idempotency key's past, ownership, the state, and the quota last", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party({ planId: "free" })
      const key = { "idempotency-key": crypto.randomUUID() }
      const recipients = Array.from({ length: 50 }, (_, index) => `a${index}@mail.example`)
      const send = (body: object, headers = idempotent() as Record<string, string>) =>
        server.call("POST", "/v1/messages", { key: party.key, headers, body })
      const good = { fromMailboxId: party.mailbox.id, to: recipients, cc: recipients.map((one) => `c${one}`), text: "x" }
      for (const headers of [key, ...Array.from({ length: 4 }, idempotent)]) {
        assert.strictEqual((yield* send(good, headers)).status, 202)
      }

      const suspend = (status: "active" | "suspended") =>
        Effect.orDie(server.management.updateMailbox(Harness.actor, party.tenantId, party.mailbox.id, { status }))
      yield* suspend("suspended")
      assert.strictEqual((yield* send({ ...good, to: [] }, key)).json.code, "invalid_request")
      assert.strictEqual((yield* send(good, key)).headers.get("idempotent-replayed"), "true")
      assert.strictEqual((yield* send({ ...good, fromMailboxId: nobody }, key)).json.code, "idempotency_conflict")
      assert.deepStrictEqual((yield* send({ ...good, fromMailboxId: nobody })).json.details, { field: "fromMailboxId" })
      assert.deepStrictEqual((yield* send({ ...good, attachmentIds: [nobody] })).json.details, { field: "attachmentIds", index: 0 })
      assert.strictEqual((yield* send(good)).json.code, "mailbox_suspended")
      yield* suspend("active")
      assert.strictEqual((yield* send(good)).json.code, "quota_exceeded")
    })
  )
})

layer(Harness.layer(), live)("The order of refusal, of webhooks", (it) => {
  it.effect("puts the input first, then the types, the URL, the handshakes under way, and the handshake last", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const mayAnswer = yield* Deferred.make<void>()
      const busy = server.receivers.open((posted) => Effect.andThen(Deferred.await(mayAnswer), broken(posted)))
      const input = { url: "http://127.0.0.1/", eventTypes: ["message.opened"], color: "red" }
      const { text: scopeless } = yield* server.issueKey(server, ["webhooks:read"])
      const codeOf = (body: object, call: Harness.Call = {}) =>
        Effect.map(server.call("POST", "/v1/webhook-endpoints", { body, ...call }), ({ json }) => json.code)
      const creating = yield* Effect.forkChild(subscribe(server, server, busy))
      yield* Harness.eventually(() => busy.posts.length === 1)

      assert.strictEqual(yield* codeOf(input, { key: scopeless, headers: { "content-type": "text/plain" } }), "insufficient_scope")
      assert.strictEqual(yield* codeOf(input, { headers: { "content-type": "text/plain" } }), "unsupported_media_type")
      assert.strictEqual(yield* codeOf(input), "invalid_request")
      const { color: _, ...known } = input
      assert.strictEqual(yield* codeOf(known), "unsupported_event_type")
      assert.strictEqual(yield* codeOf({ ...known, eventTypes: ["*"] }), "invalid_webhook_url")
      assert.strictEqual(yield* codeOf({ url: busy.url, eventTypes: ["*"] }), "rate_limited")
      yield* Deferred.succeed(mayAnswer, undefined)
      assert.strictEqual((yield* Fiber.join(creating)).status, 201)
      busy.behave = () => Effect.succeed(answered(500))
      assert.strictEqual(yield* codeOf({ url: busy.url, eventTypes: ["*"] }), "webhook_verification_failed")
    })
  )

  it.effect("puts the body and the path before the delivery, and that before its endpoint's state", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party())
      party.receiver.behave = broken
      for (let count = 0; count < 2; count++) yield* send(server, party)
      yield* server.settle
      const [{ id }] = yield* deliveriesOf(server, party)
      const codeOf = (path: string, call: Harness.Call = {}) =>
        Effect.map(server.call("POST", `/v1/webhook-deliveries/${path}/replay`, { key: party.key, ...call }), ({ json }) => json.code)

      assert.strictEqual(yield* codeOf("x", { body: "x", headers: { "content-type": "text/plain" } }), "unsupported_media_type")
      assert.strictEqual(yield* codeOf(id, { body: { id } }), "invalid_request")
      assert.strictEqual(yield* codeOf("x"), "invalid_request")
      assert.strictEqual(yield* codeOf(nobody), "not_found")
      assert.strictEqual(yield* codeOf(id, { key: server.key }), "not_found")
      assert.strictEqual(yield* codeOf(id), "endpoint_disabled")
    })
  )
})

layer(Harness.layer({ ipRequestsPerMinute: 2 }), live)("The IP guard", (it) => {
  it.effect("comes before the route, and lets the probes through", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      yield* server.call("GET", "/v1/nothing", { key: null })
      yield* server.call("GET", "/docs", { key: null })

      const refused = yield* server.call("GET", "/v1/nothing", { key: null })
      const docs = yield* server.call("GET", "/docs", { key: null })
      const probes = yield* Effect.forEach(["/healthz", "/readyz"], (path) => server.call("GET", path, { key: null }))

      assert.strictEqual(refused.status, 429)
      assert.strictEqual(refused.json.details.scope, "ip")
      assert.strictEqual(docs.status, 429)
      assert.deepStrictEqual(probes.map(({ status }) => status), [200, 200])
      assert.isNull(probes[0]!.headers.get("ratelimit-limit"))
    })
  )
})

let lookups = 0
const counted = (store: typeof Store.Service): typeof Store.Service => ({
  ...store,
  credentials: {
    ...store.credentials,
    byPublicId: (ids) => Effect.tap(store.credentials.byPublicId(ids), () => Effect.sync(() => void (lookups += 1)))
  }
})

layer(Harness.layer({ promptBody: 0, store: counted }), live)("A body that takes its time", (it) => {
  for (const [path, body] of [
    ["/v1/messages", requests.sendMessage[2]],
    ["/v1/attachments", requests.uploadAttachment[2]],
    [`/v1/webhook-deliveries/${nobody}/replay`, {}]
  ] as const) {
    it.effect(`is answered 401 where its key was revoked meanwhile: POST ${path}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const party = yield* server.party()
        const whole = JSON.stringify(body)
        const heads = [Harness.bearer(party), "Content-Type: application/json", "Idempotency-Key: 12345678", `Content-Length: ${whole.length}`, "Connection: close"]
        const statusOf = Effect.fnUntraced(function* (meanwhile: (keyIds: ReadonlyArray<ApiKeyId>) => Effect.Effect<void>) {
          const before = lookups
          const socket = connect(server.port, "127.0.0.1")
          let answer = ""
          socket.on("data", (chunk) => (answer += chunk.toString()))
          socket.write(Harness.wire(`POST ${path}`, heads, whole.slice(0, -1)))
          yield* Harness.eventually(() => lookups === before + 1)
          yield* meanwhile((yield* Effect.orDie(server.management.listKeys(party.tenantId, { limit: 10 }))).items.map(({ id }) => id))
          socket.write(whole.slice(-1))
          yield* Harness.eventually(() => answer.includes("\r\n\r\n"))
          return Number(answer.slice("HTTP/1.1 ".length, 12))
        })

        assert.strictEqual(yield* statusOf(() => Effect.void), 404)
        const revoke = (ids: ReadonlyArray<ApiKeyId>) =>
          Effect.forEach(ids, (id) => Effect.orDie(server.management.revokeKey(Harness.actor, party.tenantId, id)), { discard: true })
        assert.strictEqual(yield* statusOf(revoke), 401)
      })
    )
  }
})
