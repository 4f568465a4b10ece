/**
 * What the specification says of resources, lists and inputs that no other
 * test of this runtime holds still: the whole shape of each, and each rule.
 * Over real sockets; nothing is known here but the contract.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { createHash } from "node:crypto"
import * as Address from "../../core/model/Address.ts"
import * as Harness from "./harness.ts"
import { eventsOf, idsOf, mailbox, send, upload } from "./parties.ts"

const live = { excludeTestServices: true }
const idempotent = () => ({ "idempotency-key": crypto.randomUUID() })
const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const millis = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const micros = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

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
        defects: [],
        receivedAt: null,
        sentAt: null,
        nextAttemptAt: null,
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

  it.effect("of messages wants a UUID where it is asked for a mailbox's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { status, json } = yield* server.call("GET", "/v1/messages?mailboxId=x")

      assert.deepStrictEqual([status, json.code, json.details.issues[0].path], [400, "invalid_request", "/mailboxId"])
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
