/** Whose is what, who counts it, and what every answer carries, over real sockets. */
import { assert, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Harness from "./harness.ts"
import { application, deliveriesOf, eventsOf, idsOf, mailbox, replay, send, subscribe, subscriber, upload } from "./parties.ts"
import { broken } from "./receivers.ts"

const live = { excludeTestServices: true }
const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

layer(Harness.layer(), live)("What is not the caller's", (it) => {
  it.effect("is named by the field that points at it", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const stranger = yield* server.party()
      const theirs = stranger.mailbox.id
      const sent = (yield* server.send()).json.id
      const field = (reply: Harness.Reply) => [reply.status, reply.json.code, reply.json.details]

      assert.deepStrictEqual(field(yield* server.call("GET", `/v1/messages?mailboxId=${theirs}`)), [404, "not_found", { field: "mailboxId" }])
      assert.deepStrictEqual(field(yield* upload(server, server, { mailboxId: theirs })), [404, "not_found", { field: "mailboxId" }])
      const patch = yield* server.call("PATCH", `/v1/messages/${sent}`, { body: { mailboxId: theirs, isRead: false } })
      assert.deepStrictEqual(field(patch), [404, "not_found", { field: "mailboxId" }])
      assert.deepStrictEqual(field(yield* server.call("GET", `/v1/messages/${crypto.randomUUID()}`)), [404, "not_found", {}])
      const { endpoint } = yield* subscriber(server, stranger)
      const deliveries = `/v1/webhook-deliveries?endpointId=${endpoint.id}`
      assert.deepStrictEqual(field(yield* server.call("GET", deliveries)), [404, "not_found", { field: "endpointId" }])
      assert.deepStrictEqual(field(yield* replay(server, server, crypto.randomUUID())), [404, "not_found", {}])
    })
  )

  it.effect("is told apart from what is the caller's, and of another mailbox", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const other = yield* mailbox(server, party, "other")
      const sent = (yield* send(server, party)).json.id
      const { attachment } = (yield* upload(server, party)).json
      const told = ({ status, json }: Harness.Reply) => [status, json.code, json.details, json.message]

      const patch = yield* server.call("PATCH", `/v1/messages/${sent}`, { key: party.key, body: { mailboxId: other.id, isRead: false } })
      const foreign = yield* server.call("PATCH", `/v1/messages/${sent}`, { key: party.key, body: { mailboxId: server.mailbox.id, isRead: false } })
      const letter = yield* send(server, party, { fromMailboxId: other.id, attachmentIds: [attachment.id] })

      assert.include(foreign.json.message, "mailboxId names nothing of yours.")
      assert.deepStrictEqual(told(patch), [404, "not_found", { field: "mailboxId" }, "mailboxId is not the mailbox that the message is in. Give the one that the message names."])
      assert.deepStrictEqual(told(letter), [
        404,
        "not_found",
        { field: "attachmentIds", index: 0 },
        "attachmentIds, at index 0, is a file of another mailbox. Upload it for the one that sends."
      ])
    })
  )

  it.effect("is looked for by what the key decides: the environment, and of webhooks the application", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { endpoint } = yield* subscriber(server, yield* server.party())
      const absent = crypto.randomUUID()
      const paths = [["GET", `/v1/messages/${absent}`], ["POST", `/v1/webhook-deliveries/${absent}/replay`], ["GET", `/v1/webhook-deliveries?endpointId=${endpoint.id}`]]

      for (const [method, path] of paths) {
        assert.include((yield* server.call(method!, path!)).json.message, "of the right environment, and for webhooks of the right application.")
      }
    })
  )

  it.effect("stays out of reach whatever tenant a request names", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const stranger = yield* server.party()
      const sent = (yield* send(server, stranger)).json.id
      const headers = { "x-tenant-id": stranger.tenantId, "tenant-id": stranger.tenantId }
      const query = `tenantId=${stranger.tenantId}&applicationId=${stranger.application.id}`

      const one = yield* server.call("GET", `/v1/messages/${sent}?${query}`, { headers })
      const list = yield* server.call("GET", `/v1/messages?${query}`, { headers })

      assert.strictEqual(one.status, 404)
      assert.notInclude(idsOf(list), sent)
    })
  )
})

/** Who must not reach what `party` has in a realm and an application of its own. */
const strangers: ReadonlyArray<readonly [who: string, make: (server: Harness.Harness, party: Harness.Party) => Effect.Effect<Harness.Party>]> = [
  ["another tenant", (server) => server.party()],
  ["another tenant's production", (server) => server.party({ environment: "production" })],
  ["the tenant's other environment", (server, party) => application(server, party, "production")],
  ["another application of the tenant", (server, party) => application(server, party, "sandbox")]
]

layer(Harness.layer(), live)("A webhook endpoint and its deliveries", (it) => {
  for (const [who, make] of strangers) {
    it.effect(`are absent for ${who}, as if there were none`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const party = yield* subscriber(server, yield* server.party())
        yield* send(server, party)
        yield* server.settle
        const [delivery] = yield* deliveriesOf(server, party)
        const stranger = yield* make(server, party)
        const absent = crypto.randomUUID()
        const points = (endpoint: string, id: string) =>
          [
            ["GET", `/v1/webhook-deliveries?endpointId=${endpoint}`],
            ["POST", `/v1/webhook-deliveries/${id}/replay`]
          ] as const
        const nothing = points(absent, absent)

        for (const [index, [method, path]] of points(party.endpoint.id, delivery.id).entries()) {
          const theirs = yield* server.call(method, path, { key: stranger.key })
          const none = yield* server.call(method, nothing[index]![1], { key: stranger.key })
          assert.deepStrictEqual([theirs.status, theirs.json.code], [404, "not_found"])
          assert.deepStrictEqual({ ...theirs.json, requestId: "" }, { ...none.json, requestId: "" })
          assert.notStrictEqual((yield* server.call(method, path, { key: party.key })).status, 404)
        }
        for (const path of ["/v1/webhook-endpoints", "/v1/webhook-deliveries"]) {
          assert.deepStrictEqual((yield* server.call("GET", path, { key: stranger.key })).json, { items: [] })
        }
      })
    )
  }

  it.effect("are not touched by a stranger's replay", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* subscriber(server, yield* server.party(), broken)
      yield* send(server, party)
      yield* server.settle
      const before = yield* deliveriesOf(server, party)

      for (const [, make] of strangers) {
        assert.strictEqual((yield* replay(server, yield* make(server, party), before[0].id)).status, 404)
      }
      yield* server.settle

      assert.deepStrictEqual(yield* deliveriesOf(server, party), before)
    })
  )

  it.effect("get the events of the tenant and the environment, whichever application made them, and no others", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const first = yield* subscriber(server, yield* server.party())
      const second = yield* subscriber(server, yield* application(server, first, "sandbox"))
      const production = yield* subscriber(server, yield* application(server, first, "production"))
      const stranger = yield* subscriber(server, yield* server.party())
      yield* send(server, first)
      yield* send(server, production)
      yield* server.settle

      const eventIds = (of: Harness.Party) =>
        Effect.map(deliveriesOf(server, of), (items) => items.map(({ eventId }: { eventId: string }) => eventId))
      const queued = (of: Harness.Party) =>
        Effect.map(eventsOf(server, of), (events: ReadonlyArray<{ readonly id: string; readonly type: string }>) =>
          events.filter(({ type }) => type === "message.queued").map(({ id }) => id)
        )
      assert.deepStrictEqual(yield* eventIds(first), yield* queued(first))
      assert.deepStrictEqual(yield* eventIds(second), yield* queued(first))
      assert.deepStrictEqual(yield* eventIds(production), yield* queued(production))
      assert.deepStrictEqual(yield* eventIds(stranger), [])
    })
  )
})

layer(Harness.layer(), live)("The environments of a tenant", (it) => {
  it.effect("have prefixes of their own, and share mailboxes, domains and nothing else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const sandbox = yield* server.party()
      const production = yield* application(server, sandbox, "production")
      assert.match(sandbox.key, /^svc_test_/)
      assert.match(production.key, /^svc_live_/)
      const sent = (yield* send(server, sandbox)).json.id
      const { attachment } = (yield* upload(server, sandbox)).json
      yield* server.scanned(sandbox, attachment.id, "Clean")
      const get = (path: string) => server.call("GET", path, { key: production.key })

      for (const path of ["/v1/mailboxes", "/v1/domains"]) {
        assert.deepStrictEqual((yield* get(path)).json, (yield* server.call("GET", path, { key: sandbox.key })).json)
      }
      assert.deepStrictEqual((yield* get("/v1/messages")).json.items, [])
      assert.deepStrictEqual((yield* eventsOf(server, production)).map(({ type }: { type: string }) => type), ["domain.health_changed", "mailbox.created"])
      for (const path of [`/v1/messages/${sent}`, `/v1/attachments/${attachment.id}/download`]) assert.strictEqual((yield* get(path)).status, 404)
      const attached = yield* send(server, production, { attachmentIds: [attachment.id] })
      assert.deepStrictEqual([attached.status, attached.json.details], [404, { field: "attachmentIds", index: 0 }])
    })
  )

  it.effect("let all their applications see the same messages, attachments and events", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const first = yield* server.party()
      const second = yield* application(server, first, "sandbox")
      const sent = (yield* send(server, first)).json.id
      const { attachment } = (yield* upload(server, first)).json
      yield* server.scanned(first, attachment.id, "Clean")

      const paths = ["/v1/messages", "/v1/events", `/v1/messages/${sent}`, `/v1/attachments/${attachment.id}/download`]
      for (const path of paths) {
        const [mine, theirs] = yield* Effect.forEach([first, second], ({ key }) => server.call("GET", path, { key }))
        assert.deepStrictEqual([mine!.status, mine!.text], [200, theirs!.text])
      }
    })
  )
})

layer(Harness.layer({ planId: "tiny" }), live)("The plan of a tenant", (it) => {
  it.effect("counts the requests of a day over all its applications, and says when the day ends", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const other = yield* application(server, party, "production")
      for (const { key } of [party, party, party, other, other]) assert.strictEqual((yield* server.call("GET", "/v1/mailboxes", { key })).status, 200)

      const { status, json, headers } = yield* server.call("GET", "/v1/mailboxes", { key: other.key })

      const wait = Number(headers.get("retry-after"))
      assert.strictEqual(status, 429)
      assert.deepStrictEqual(json.details, { scope: "tenant_day", limit: 5, windowSeconds: 86_400, retryAfterSeconds: wait })
      assert.approximately((Date.now() + wait * 1000) % 86_400_000, 0, 5_000)
      assert.include(json.message, "5 in this UTC day")
      assert.strictEqual(headers.get("ratelimit-remaining"), "0")
    })
  )

  it.effect("counts a recipient who is named twice once", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()

      const sent = yield* send(server, party, { to: ["a@mail.example", "A@mail.example"], cc: ["a@mail.example"], bcc: ["b@mail.example"] })

      assert.strictEqual(sent.status, 202)
    })
  )
})

layer(Harness.layer(), live)("Every answer", (it) => {
  it.effect("says what is left of the tightest guard, and which request it answers", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { text: scopeless } = yield* server.issueKey(server, [])
      const replies = yield* Effect.all([
        server.call("GET", "/v1/mailboxes"),
        server.send(),
        server.send({ to: [] }),
        server.call("GET", "/v1/mailboxes", { key: null }),
        server.call("GET", "/v1/mailboxes", { key: scopeless }),
        server.call("GET", `/v1/messages/${crypto.randomUUID()}`),
        server.call("GET", "/v1/nothing", { key: null }),
        server.call("DELETE", "/v1/mailboxes", { key: null }),
        server.call("POST", "/v1/messages", { body: "x", headers: { "content-type": "text/plain" } }),
        server.call("GET", "/v1/webhook-endpoints"),
        subscribe(server, server, server.receivers.open()),
        server.call("GET", "/v1/webhook-deliveries"),
        replay(server, server, crypto.randomUUID())
      ])

      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 202, 400, 401, 403, 404, 404, 405, 415, 200, 201, 200, 404])
      for (const { headers, json, status } of replies) {
        for (const name of ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]) assert.match(headers.get(name) ?? "", /^\d+$/, `${status} ${name}`)
        assert.match(headers.get("x-request-id") ?? "", version7)
        assert.strictEqual(headers.get("content-type"), "application/json")
        if (status < 400) continue
        assert.deepStrictEqual(Object.keys(json).sort(), ["code", "details", "error", "message", "requestId"])
        assert.strictEqual(json.requestId, headers.get("x-request-id"))
        assert.isObject(json.details)
      }
    })
  )

  it.effect("to a write leaves an entry in the audit trail, with who, what and which request", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const before = yield* Effect.orDie(server.store.audit.page(party.tenantId, 100))
      const uploaded = yield* upload(server, party)
      const sent = yield* send(server, party)
      const patched = yield* server.call("PATCH", `/v1/messages/${sent.json.id}`, { key: party.key, body: { mailboxId: party.mailbox.id, isRead: false } })
      const receiver = server.receivers.open()
      const created = yield* subscribe(server, party, receiver)
      yield* server.settle
      const [{ id: deliveryId }] = yield* deliveriesOf(server, party)
      const replayed = yield* replay(server, party, deliveryId)
      yield* send(server, party, { fromMailboxId: crypto.randomUUID() })
      yield* subscribe(server, party, receiver, { eventTypes: ["message.opened"] })
      yield* replay(server, party, crypto.randomUUID())
      yield* server.call("GET", "/v1/messages", { key: party.key })

      const written = (yield* Effect.orDie(server.store.audit.page(party.tenantId, 100))).slice(0, -before.length).toReversed()
      const entries = written.filter(({ actor }) => actor.type !== "system") // the scan's is there too

      assert.deepStrictEqual(
        entries.map(({ action, subject, requestId, clientAddress, environment, actor }) => [action, subject, requestId, clientAddress, environment, actor.type]),
        [
          ["attachment.upload", { type: "attachment", id: uploaded.json.attachment.id }, uploaded.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"],
          ["message.send", { type: "message", id: sent.json.id }, sent.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"],
          ["message.update", { type: "message", id: sent.json.id }, patched.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"],
          ["webhook_endpoint.create", { type: "webhook_endpoint", id: created.json.endpoint.id }, created.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"],
          ["webhook_delivery.replay", { type: "webhook_delivery", id: deliveryId }, replayed.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"]
        ]
      )
      for (const action of ["tenant.create", "application.create", "api_key.issue", "domain.create", "domain.check", "mailbox.create"]) {
        assert.include(before.map((entry) => entry.action), action)
      }
    })
  )
})

it.live("A malformed key is refused before the store is asked", () =>
  Effect.gen(function* () {
    let asked = 0
    const server = yield* Harness.start({
      store: (store) => ({
        ...store,
        credentials: { ...store.credentials, byPublicId: (ids) => Effect.suspend(() => (asked++, store.credentials.byPublicId(ids))) }
      })
    })
    const changed = server.key.endsWith("0") ? "1" : "0"
    const wrong = [`${server.key.slice(0, -1)}${changed}`, server.key.slice(1), server.key.replace("_test_", "_live_"), "svc_test_x", `${server.key}0`]
    for (const key of wrong) assert.strictEqual((yield* server.call("GET", "/v1/mailboxes", { key })).status, 401)
    assert.strictEqual(asked, 0)

    assert.strictEqual((yield* server.call("GET", "/v1/mailboxes")).status, 200)
    assert.strictEqual(asked, 1)
  }).pipe(Effect.scoped)
)
