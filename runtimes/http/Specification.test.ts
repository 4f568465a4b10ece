/**
 * What the specification says that no other test of this runtime holds still:
 * the whole shape of each resource, lists, flags, environments, what every
 * answer carries. Over real sockets; nothing is known here but the contract.
 */
import { assert, it, layer } from "@effect/vitest"
import { Effect, Redacted, Result } from "effect"
import { createHash } from "node:crypto"
import * as Address from "../../core/model/Address.ts"
import { scopes } from "../../core/model/ApiKey.ts"
import type { Environment } from "../../core/model/Ids.ts"
import * as Harness from "./harness.ts"

const live = { excludeTestServices: true }
const idempotent = () => ({ "idempotency-key": crypto.randomUUID() })
const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const millis = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const micros = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

/** Sends as a party, to one recipient unless the change says otherwise. */
const send = (server: Harness.Harness, party: Harness.Party, change: object = {}) =>
  server.call("POST", "/v1/messages", {
    key: party.key,
    headers: idempotent(),
    body: { fromMailboxId: party.mailbox.id, to: ["charles@mail.example"], text: "x", ...change }
  })

const upload = (server: Harness.Harness, party: Harness.Party, change: object = {}) =>
  server.call("POST", "/v1/attachments", {
    key: party.key,
    body: { mailboxId: party.mailbox.id, filename: "note.txt", mediaType: "text/plain", contentBase64: "QUJD", ...change }
  })

/** Another application of a party's tenant, with a key of all scopes. */
const application = (server: Harness.Harness, party: Harness.Party, environment: Environment) =>
  Effect.orDie(
    Effect.gen(function* () {
      const { tenantId } = party
      const made = yield* server.management.createApplication(Harness.actor, { tenantId, environment, name: "Another" })
      const { text } = yield* server.management.issueKey(Harness.actor, { tenantId, applicationId: made.id, name: "key", scopes })
      return { ...party, application: made, key: Redacted.value(text) } satisfies Harness.Party
    })
  )

const mailbox = (server: Harness.Harness, party: Harness.Party, local: string) =>
  Effect.orDie(
    server.management.createMailbox(Harness.actor, {
      tenantId: party.tenantId,
      address: Result.getOrThrow(Address.parse(`${local}@${Address.domainOf(party.mailbox.address)}`)),
      displayName: local
    })
  )

const idsOf = ({ json }: Harness.Reply): ReadonlyArray<string> => json.items.map(({ id }: { id: string }) => id)
const eventsOf = (server: Harness.Harness, party: Harness.Party) =>
  Effect.map(server.call("GET", "/v1/events?limit=100", { key: party.key }), ({ json }) => json.items)

layer(Harness.layer(), live)("A resource", (it) => {
  it.effect("of type mailbox has an id, an address and a display name, and nothing else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { status, json } = yield* server.call("GET", "/v1/mailboxes")

      assert.strictEqual(status, 200)
      assert.deepStrictEqual(json, { items: [{ id: server.mailbox.id, address: server.mailbox.address, displayName: "Ada Lovelace" }] })
    })
  )

  it.effect("of type domain has its name, its health, whether it is verified, and how many mailboxes it has, and nothing else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      yield* mailbox(server, party, "second")
      const list = Effect.map(server.call("GET", "/v1/domains", { key: party.key }), ({ json }) => json)
      const whole = { id: party.mailbox.domainId, domain: Address.domainOf(party.mailbox.address), verified: true, health: "healthy", mailboxCount: 2 }

      assert.deepStrictEqual(yield* list, { items: [whole] })
      yield* Effect.orDie(server.management.setDomainSuspended(Harness.actor, party.tenantId, party.mailbox.domainId, true))
      assert.deepStrictEqual(yield* list, { items: [{ ...whole, verified: false, health: "suspended" }] })
      const domain = Result.getOrThrow(Address.parseDomain(`z${crypto.randomUUID().slice(0, 8)}.example`))
      const { id } = yield* Effect.orDie(server.management.createDomain(Harness.actor, { tenantId: party.tenantId, domain }))
      assert.deepInclude((yield* list).items, { id, domain, verified: false, health: "pending", mailboxCount: 0 })
    })
  )

  it.effect("of type queued message has an id, its object and its status, and nothing else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { status, json, headers } = yield* server.send()

      assert.strictEqual(status, 202)
      assert.match(json.id, version7)
      assert.deepStrictEqual(json, { id: json.id, object: "message", status: "queued" })
      assert.strictEqual(headers.get("content-type"), "application/json")
    })
  )

  it.effect("of type attachment has all that was decided of it, before its scan and after its first use", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const bytes = Buffer.from("The engine weaves")

      const { status, json } = yield* upload(server, server, { contentBase64: bytes.toString("base64") })
      assert.strictEqual(status, 201)
      const { id, createdAt, expiresAt } = json.attachment
      const whole = {
        id,
        object: "attachment",
        mailboxId: server.mailbox.id,
        messageId: null,
        filename: "note.txt",
        mediaType: "text/plain",
        sizeBytes: 17,
        sha256: createHash("sha256").update(bytes).digest("hex"),
        disposition: "attachment",
        contentId: null,
        scanState: "pending",
        scannedAt: null,
        createdAt,
        expiresAt
      }
      assert.deepStrictEqual(json, { attachment: whole })
      assert.match(id, version7)
      for (const time of [createdAt, expiresAt]) assert.match(time, millis)
      assert.strictEqual(Date.parse(expiresAt) - Date.parse(createdAt), 7 * 86_400_000)

      yield* server.scanned(server, id, "Clean")
      const first = yield* server.send({ attachmentIds: [id] })
      const again = yield* server.send({ attachmentIds: [id, id] })
      for (const sent of [first, again]) {
        const { json: got } = yield* server.call("GET", `/v1/messages/${sent.json.id}`)
        const { scannedAt } = got.message.attachments[0]
        assert.match(scannedAt, millis)
        assert.deepStrictEqual(got.message.attachments, [{ ...whole, messageId: first.json.id, scanState: "clean", scannedAt, expiresAt: null }])
      }
    })
  )

  it.effect("of type message is whole: its summary in lists, its detail by id", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const { json: uploaded } = yield* upload(server, party, { contentBase64: Buffer.from("notes").toString("base64") })
      const text = `The  engine\nweaves ${"é".repeat(300)}`
      const html = "<p>The engine weaves</p>"
      const content = { to: ["charles@mail.example"], cc: ["Mary@mail.example"], bcc: ["hidden@mail.example"], subject: "Note G", text, html }
      const sent = yield* send(server, party, { ...content, attachmentIds: [uploaded.attachment.id] })

      const { json: page } = yield* server.call("GET", "/v1/messages", { key: party.key })
      const { json: got } = yield* server.call("GET", `/v1/messages/${sent.json.id}`, { key: party.key })

      const { address } = party.mailbox
      const { createdAt, updatedAt } = page.items[0]
      const summary = {
        id: sent.json.id,
        object: "message",
        mailboxId: party.mailbox.id,
        direction: "outbound",
        status: "queued",
        folder: "sent",
        isRead: true,
        isStarred: false,
        from: { address, name: "Ada Lovelace" },
        to: [{ address: "charles@mail.example", name: "" }],
        subject: "Note G",
        snippet: `The engine weaves ${"é".repeat(182)}`,
        hasAttachments: true,
        sizeBytes: Buffer.byteLength(text) + html.length + 5,
        createdAt,
        updatedAt
      }
      assert.match(createdAt, micros)
      assert.match(updatedAt, millis)
      assert.deepStrictEqual(page, { items: [summary], nextCursor: null })

      const part = { charset: null, disposition: null, contentId: null, filename: null, attachmentId: null, sizeBytes: 0, parts: [] }
      const recipient = { status: "queued", bounceClass: null, smtpCode: null, enhancedCode: null, diagnostic: null, complainedAt: null, updatedAt }
      const { headers, ...rest } = got.message
      assert.deepStrictEqual(rest, {
        ...summary,
        cc: [{ address: "Mary@mail.example", name: "" }],
        bcc: [{ address: "hidden@mail.example", name: "" }],
        replyTo: [],
        internetMessageId: `<${sent.json.id}@${Address.domainOf(address)}>`,
        inReplyTo: null,
        references: [],
        text,
        html,
        mime: {
          ...part,
          partId: "",
          mediaType: "multipart/mixed",
          parts: [
            {
              ...part,
              partId: "1",
              mediaType: "multipart/alternative",
              parts: [
                { ...part, partId: "1.1", mediaType: "text/plain", charset: "utf-8", sizeBytes: Buffer.byteLength(text) },
                { ...part, partId: "1.2", mediaType: "text/html", charset: "utf-8", sizeBytes: html.length }
              ]
            },
            { ...part, partId: "2", mediaType: "text/plain", disposition: "attachment", filename: "note.txt", sizeBytes: 5, attachmentId: uploaded.attachment.id }
          ]
        },
        attachments: [{ ...uploaded.attachment, messageId: sent.json.id, expiresAt: null }],
        recipients: [
          { ...recipient, address: "charles@mail.example", role: "to" },
          { ...recipient, address: "Mary@mail.example", role: "cc" },
          { ...recipient, address: "hidden@mail.example", role: "bcc" }
        ],
        failure: null,
        authentication: null,
        sentAt: null,
        requestId: sent.headers.get("x-request-id")
      })
      assert.deepStrictEqual(headers.map(({ name }: { name: string }) => name), ["From", "To", "Cc", "Subject", "Message-ID", "Date", "MIME-Version"])
      assert.notInclude(JSON.stringify(headers), "hidden")
    })
  )

  it.effect("of type event has six members, and its data say what happened", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const content = { to: ["charles@mail.example"], cc: ["mary@mail.example"], bcc: ["hidden@mail.example"], subject: "Note G", text: "secret text" }
      const sent = yield* send(server, party, content)

      const reply = yield* server.call("GET", "/v1/events", { key: party.key })

      assert.deepStrictEqual(Object.keys(reply.json).sort(), ["items", "nextCursor"])
      const event = reply.json.items.at(-1)
      assert.match(event.id, version7)
      assert.match(event.occurredAt, millis)
      assert.deepStrictEqual(event, {
        id: event.id,
        type: "message.queued",
        resourceType: "message",
        resourceId: sent.json.id,
        data: {
          object: "message",
          id: sent.json.id,
          sequence: 1,
          mailboxId: party.mailbox.id,
          from: party.mailbox.address,
          to: ["charles@mail.example"],
          cc: ["mary@mail.example"],
          subject: "Note G",
          attachmentIds: [],
          requestId: sent.headers.get("x-request-id")
        },
        occurredAt: event.occurredAt
      })
    })
  )
})

layer(Harness.layer(), live)("A list", (it) => {
  it.effect("shows 25 items unless told otherwise, and is over when nothing comes after", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      for (let count = 0; count < 26; count++) yield* send(server, party)

      for (const [path, total] of [["/v1/messages", 26], ["/v1/events", 28]] as const) {
        const first = yield* server.call("GET", path, { key: party.key })
        assert.lengthOf(first.json.items, 25)
        const rest = yield* server.call("GET", `${path}?cursor=${encodeURIComponent(first.json.nextCursor)}`, { key: party.key })
        assert.lengthOf(rest.json.items, total - 25)
        assert.isNull(rest.json.nextCursor)
        const full = yield* server.call("GET", `${path}?limit=${total}`, { key: party.key })
        assert.lengthOf(full.json.items, total)
        assert.isNull(full.json.nextCursor)
      }
    })
  )

  it.effect("of messages is newest first, goes on behind its cursor, and holds a mailbox's alone when asked", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const second = yield* mailbox(server, party, "second")
      const sent: Array<string> = []
      for (const id of [party.mailbox.id, second.id, party.mailbox.id]) sent.push((yield* send(server, party, { fromMailboxId: id })).json.id)
      const list = (query: string) => server.call("GET", `/v1/messages?${query}`, { key: party.key })

      const first = yield* list("limit=2")
      assert.deepStrictEqual(idsOf(first), [sent[2], sent[1]])
      assert.strictEqual(first.json.nextCursor, first.json.items[1].createdAt)
      assert.deepStrictEqual(idsOf(yield* list(`cursor=${first.json.nextCursor}`)), [sent[0]])
      assert.deepStrictEqual(idsOf(yield* list(`mailboxId=${second.id}`)), [sent[1]])
      const page = yield* list(`mailboxId=${party.mailbox.id}&limit=1`)
      assert.deepStrictEqual(idsOf(page), [sent[2]])
      assert.deepStrictEqual(idsOf(yield* list(`mailboxId=${party.mailbox.id}&cursor=${page.json.nextCursor}`)), [sent[0]])
    })
  )

  it.effect("of events is in the order of their commits, and may begin at a time", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const sent = (yield* send(server, party)).json.id
      yield* server.call("PATCH", `/v1/messages/${sent}`, { key: party.key, body: { mailboxId: party.mailbox.id, isStarred: true } })

      const events = yield* eventsOf(server, party)
      const types = ["domain.health_changed", "mailbox.created", "message.queued", "message.updated"]
      assert.deepStrictEqual(events.map(({ type }: { type: string }) => type), types)

      const since = (at: string) => server.call("GET", `/v1/events?cursor=${encodeURIComponent(at)}`, { key: party.key })
      const from = yield* since(events[2].occurredAt)
      assert.include(idsOf(from), events[2].id)
      for (const { occurredAt } of from.json.items) assert.isAtLeast(Date.parse(occurredAt), Date.parse(events[2].occurredAt))
      assert.deepStrictEqual((yield* since("2999-01-01T00:00:00+02:00")).json, { items: [], nextCursor: null })
    })
  )
})

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

layer(Harness.layer(), live)("updateMessage", (it) => {
  const flags = [
    ...["inbox", "sent", "archive", "spam", "trash"].map((folder) => ({ folder })),
    { isRead: false },
    { isRead: true },
    { isStarred: true },
    { isStarred: false }
  ]
  for (const change of flags) {
    it.effect(`takes ${JSON.stringify(change)} alone, and says so in an event`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const party = yield* server.party()
        const sent = (yield* send(server, party)).json.id
        const before = (yield* server.call("GET", `/v1/messages/${sent}`, { key: party.key })).json.message

        const reply = yield* server.call("PATCH", `/v1/messages/${sent}`, { key: party.key, body: { mailboxId: party.mailbox.id, ...change } })

        assert.deepStrictEqual([reply.status, reply.json], [200, { id: sent, updated: true }])
        const after = (yield* server.call("GET", `/v1/messages/${sent}`, { key: party.key })).json.message
        assert.deepStrictEqual(after, { ...before, ...change, updatedAt: after.updatedAt })
        const [name, value] = Object.entries(change)[0]!
        const { isRead, isStarred, folder } = after
        const event = (yield* eventsOf(server, party)).at(-1)
        assert.deepStrictEqual([event.type, event.resourceType, event.resourceId], ["message.updated", "message", sent])
        assert.deepStrictEqual(event.data, {
          object: "message",
          id: sent,
          sequence: 2,
          mailboxId: party.mailbox.id,
          isRead,
          isStarred,
          folder,
          changed: before[name] === value ? [] : [name],
          actor: { type: "api_key", id: event.data.actor.id }
        })
        assert.match(event.data.actor.id, version7)
      })
    )
  }

  it.effect("refuses a body without the mailbox", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const reply = yield* server.call("PATCH", `/v1/messages/${crypto.randomUUID()}`, { body: { isRead: true } })

      assert.deepStrictEqual([reply.status, reply.json.details.issues[0].path], [400, "/mailboxId"])
    })
  )
})

layer(Harness.layer(), live)("sendMessage", (it) => {
  it.effect("knows a request again by what it says, not by how it is written", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const id = server.mailbox.id
      const headers = idempotent()
      const written = [
        `{"fromMailboxId":"${id}","to":["a@mail.example"],"text":"x","subject":"s"}`,
        `{ "subject" : "s",\n "text":"\\u0078", "to":[ "a@MAIL.example" ] , "fromMailboxId":"${id}", "cc":[] }`
      ]

      const [first, again] = yield* Effect.forEach(written, (body) => server.send({}, { body, headers }))
      const other = yield* server.send({}, { body: written[0]!.replace("\"s\"", "\"S\""), headers })

      assert.deepStrictEqual([first!.status, again!.status, again!.json], [202, 202, first!.json])
      assert.strictEqual(again!.headers.get("idempotent-replayed"), "true")
      assert.deepStrictEqual([other.status, other.json.code, other.json.details], [409, "idempotency_conflict", {}])
    })
  )

  it.effect("refused as invalid leaves its key free", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const headers = idempotent()
      assert.strictEqual((yield* server.send({ to: [] }, { headers })).status, 400)

      const sent = yield* server.send({}, { headers })

      assert.deepStrictEqual([sent.status, sent.headers.get("idempotent-replayed")], [202, null])
    })
  )

  it.effect("demands a mailbox and a recipient", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      for (const name of ["fromMailboxId", "to"]) {
        const reply = yield* server.send({ [name]: undefined })

        assert.deepStrictEqual([reply.status, reply.json.details.issues.map(({ path, code }: { path: string; code: string }) => [path, code])], [400, [[`/${name}`, "required"]]])
      }
    })
  )

  it.effect("answers 409 for a suspended mailbox", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      yield* Effect.orDie(server.management.updateMailbox(Harness.actor, party.tenantId, party.mailbox.id, { status: "suspended" }))

      const reply = yield* send(server, party)

      assert.deepStrictEqual([reply.status, reply.json.code, reply.json.details], [409, "mailbox_suspended", {}])
    })
  )

  it.effect("takes an attachment whose scan is still to come", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { json } = yield* upload(server, server)

      assert.strictEqual((yield* server.send({ attachmentIds: [json.attachment.id] })).status, 202)
    })
  )

  it.effect("takes 20 attachments", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const ids = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.map(upload(server, server), ({ json }) => json.attachment.id))

      const sent = yield* server.send({ attachmentIds: ids })

      const { json } = yield* server.call("GET", `/v1/messages/${sent.json.id}`)
      assert.deepStrictEqual(json.message.attachments.map(({ id }: { id: string }) => id), ids)
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
      assert.deepStrictEqual([attached.status, attached.json.details], [404, { field: "attachmentIds" }])
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
        server.call("POST", "/v1/messages", { body: "x", headers: { "content-type": "text/plain" } })
      ])

      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 202, 400, 401, 403, 404, 404, 405, 415])
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
      yield* send(server, party, { fromMailboxId: crypto.randomUUID() })
      yield* server.call("GET", "/v1/messages", { key: party.key })

      const entries = (yield* Effect.orDie(server.store.audit.page(party.tenantId, 100))).slice(0, -before.length).toReversed()

      assert.deepStrictEqual(
        entries.map(({ action, subject, requestId, clientAddress, environment, actor }) => [action, subject, requestId, clientAddress, environment, actor.type]),
        [
          ["attachment.upload", { type: "attachment", id: uploaded.json.attachment.id }, uploaded.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"],
          ["message.send", { type: "message", id: sent.json.id }, sent.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"],
          ["message.update", { type: "message", id: sent.json.id }, patched.headers.get("x-request-id"), "127.0.0.1", "sandbox", "api_key"]
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
