/** The client against the service itself, over real sockets. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Harness from "../runtimes/http/harness.ts"
import { answered } from "../runtimes/http/receivers.ts"
import { failure } from "./fixtures/party.ts"
import {
  isCode,
  Mailroom,
  verifyWebhook,
  webhookChallenge,
  type KnownCode,
  type MailroomError,
  type WebhookPayload
} from "./index.ts"

const refusal = <Code extends KnownCode>(code: Code, promise: Promise<unknown>): Effect.Effect<MailroomError<Code>> =>
  Effect.map(Effect.promise(() => failure(promise)), (error) => {
    if (isCode(error, code)) return error
    return assert.fail(`not ${code}, but ${String(error)}`)
  })

const collect = <Item>(items: AsyncIterable<Item>): Effect.Effect<ReadonlyArray<Item>> =>
  Effect.promise(async () => {
    const found: Array<Item> = []
    for await (const item of items) found.push(item)
    return found
  })

layer(Harness.layer(), { excludeTestServices: true })("The client and the service", (it) => {
  const connect = Effect.gen(function* () {
    const service = yield* Harness.Running
    const party = yield* service.party()
    const mailroom = new Mailroom({ baseUrl: service.baseUrl, apiKey: party.key, maxRetries: 0 })
    const mail = {
      fromMailboxId: party.mailbox.id,
      to: ["ada@mail.example"],
      subject: "Grüße 🚀",
      html: "<p>Hello</p>"
    }
    return { service, party, mailroom, mail }
  })

  it.effect("agree on mailboxes and domains", () =>
    Effect.gen(function* () {
      const { party, mailroom } = yield* connect

      const { items } = yield* Effect.promise(() => mailroom.listMailboxes())
      const domains = yield* Effect.promise(() => mailroom.listDomains())

      assert.deepStrictEqual(items, [{
        id: party.mailbox.id,
        address: party.mailbox.address,
        displayName: party.mailbox.displayName
      }])
      assert.strictEqual(domains.items[0]?.health, "healthy")
    }))

  it.effect("agree on a message: sent, replayed, refused under a used key, read and flagged", () =>
    Effect.gen(function* () {
      const { mailroom, mail } = yield* connect
      const key = { idempotencyKey: "order-42-shipped" }

      const sent = yield* Effect.promise(() => mailroom.sendMessage(mail, key))
      const again = yield* Effect.promise(() => mailroom.sendMessage({ ...mail, cc: [] }, key))
      const conflict = yield* refusal("idempotency_conflict", mailroom.sendMessage({ ...mail, subject: "Other" }, key))
      const { message } = yield* Effect.promise(() => mailroom.getMessage(sent.id))
      const updated = yield* Effect.promise(() =>
        mailroom.updateMessage(sent.id, { mailboxId: message.mailboxId, isStarred: true, folder: "archive" })
      )

      assert.deepStrictEqual(sent, { id: sent.id, object: "message", status: "queued", replayed: false })
      assert.deepStrictEqual(again, { ...sent, replayed: true })
      assert.deepStrictEqual([conflict.status, conflict.idempotencyKey], [409, key.idempotencyKey])
      assert.deepStrictEqual([message.subject, message.html, message.recipients.length], [mail.subject, mail.html, 1])
      assert.deepStrictEqual(updated, { id: sent.id, updated: true })
    }))

  it.effect("agree on pages of messages and events", () =>
    Effect.gen(function* () {
      const { mailroom, mail } = yield* connect
      const ids: Array<string> = []
      for (let count = 0; count < 5; count++) ids.push((yield* Effect.promise(() => mailroom.sendMessage(mail))).id)

      const messages = yield* collect(mailroom.messages.all({ limit: 2, mailboxId: mail.fromMailboxId }))
      const pages = yield* collect(mailroom.events.pages({ limit: 2 }))
      const resumed = yield* collect(mailroom.events.all({ cursor: pages[1]!.resumeCursor! }))

      assert.deepStrictEqual(messages.map(({ id }) => id), ids.toReversed())
      const events = pages.flatMap(({ items }) => items)
      const queued = events.flatMap((
        event
      ) => (event.type === "message.queued" ? [[event.resourceId, event.data.subject]] : []))
      assert.deepStrictEqual(queued, ids.map((id) => [id, mail.subject]))
      assert.deepStrictEqual(resumed, events.slice(4))
    }))

  it.effect("agree on files", () =>
    Effect.gen(function* () {
      const { service, party, mailroom } = yield* connect
      const content = Uint8Array.from({ length: 300_000 }, (_, index) => index % 251)

      const { attachment } = yield* Effect.promise(() =>
        mailroom.uploadAttachment({
          mailboxId: party.mailbox.id,
          filename: "Rechnung №1.pdf",
          mediaType: "application/pdf",
          content
        })
      )
      const early = yield* refusal("attachment_not_clean", mailroom.downloadAttachment(attachment.id))
      yield* service.scanned(party, attachment.id, "Clean")
      const file = yield* Effect.promise(() => mailroom.downloadAttachment(attachment.id))

      assert.deepStrictEqual([early.details.scanState, early.retryAfter], ["pending", 5])
      assert.deepStrictEqual([file.filename, file.mediaType, file.bytes()], [
        "Rechnung №1.pdf",
        "application/pdf",
        content
      ])
      assert.strictEqual(attachment.sizeBytes, content.length)
    }))

  it.effect("agree on refusals", () =>
    Effect.gen(function* () {
      const { service, mailroom, mail } = yield* connect
      const elsewhere = { ...mail, fromMailboxId: crypto.randomUUID() }

      const invalid = yield* refusal("invalid_request", mailroom.sendMessage({ ...mail, to: ["nobody"] }))
      const absent = yield* refusal("not_found", mailroom.sendMessage(elsewhere))
      const cursor = yield* refusal("invalid_cursor", mailroom.listEvents({ cursor: "x" }))
      const lost = yield* refusal(
        "not_found",
        new Mailroom({ baseUrl: `${service.baseUrl}/elsewhere`, apiKey: service.key }).listDomains()
      )
      const stranger = `${service.key.slice(0, -1)}${service.key.endsWith("0") ? "1" : "0"}`
      const unauthorized = yield* refusal(
        "unauthorized",
        new Mailroom({ baseUrl: service.baseUrl, apiKey: stranger }).listDomains()
      )

      assert.strictEqual(invalid.details.issues[0]?.path, "/to/0")
      assert.strictEqual(absent.details.field, "fromMailboxId")
      assert.strictEqual(cursor.details.reason, "malformed")
      assert.match(invalid.requestId ?? "", /^[0-9a-f-]{36}$/)
      assert.deepStrictEqual([lost.status, unauthorized.status], [404, 401])
    }))

  it.effect("agree on webhooks: the handshake, the signature, deliveries and replays", () =>
    Effect.gen(function* () {
      const { service, mailroom, mail } = yield* connect
      const taken: Array<WebhookPayload> = []
      let secret = ""
      const { url } = service.receivers.open(({ headers, text }) =>
        Effect.promise(async () => {
          const challenge = webhookChallenge(text)
          if (challenge !== null) return answered(200, challenge)
          taken.push(await verifyWebhook({ secret, headers, body: text }))
          return answered(204)
        })
      )

      const created = yield* Effect.promise(() =>
        mailroom.createWebhookEndpoint({ url, eventTypes: ["message.queued"] })
      )
      secret = created.secret
      const sent = yield* Effect.promise(() => mailroom.sendMessage(mail))
      yield* service.settle
      const [delivery] = (yield* Effect.promise(() =>
        mailroom.listWebhookDeliveries({ endpointId: created.endpoint.id })
      )).items
      const replayed = yield* Effect.promise(() => mailroom.replayWebhookDelivery(delivery!.id))
      yield* service.settle
      const endpoints = yield* Effect.promise(() => mailroom.listWebhookEndpoints())

      assert.deepStrictEqual(endpoints.items, [created.endpoint])
      assert.deepStrictEqual([delivery!.status, replayed.delivery.status], ["delivered", "pending"])
      assert.deepStrictEqual(
        taken.map(({ id, type, data }) => [id, type, data.id]),
        [1, 2].map(() => [delivery!.eventId, "message.queued", sent.id])
      )
    }))

  it.effect("agree on webhooks that are refused", () =>
    Effect.gen(function* () {
      const { service, mailroom } = yield* connect
      const { url } = service.receivers.open(() => Effect.succeed(answered(200, { challenge: "another" })))

      const unsafe = yield* refusal(
        "invalid_webhook_url",
        mailroom.createWebhookEndpoint({ url: "https://127.0.0.1/", eventTypes: ["*"] })
      )
      const wrong = yield* refusal(
        "webhook_verification_failed",
        mailroom.createWebhookEndpoint({ url, eventTypes: ["*"] })
      )

      assert.deepStrictEqual([unsafe.details.reason, wrong.details.reason], ["unsafe_url", "challenge_mismatch"])
    }))

  it.effect("agree on limits", () =>
    Effect.gen(function* () {
      const { service } = yield* connect
      const { key } = yield* service.party({ planId: "tiny" })
      const busy = new Mailroom({ baseUrl: service.baseUrl, apiKey: key, maxRetries: 0 })
      const answers = yield* Effect.promise(() =>
        Promise.allSettled(Array.from({ length: 8 }, () => busy.listDomains()))
      )
      const refused = answers.flatMap((
        answer
      ) => (answer.status === "rejected" && isCode(answer.reason, "rate_limited") ? [answer.reason] : []))

      assert.isAbove(refused.length, 0)
      assert.deepStrictEqual(
        refused.map(({ details, retryAfter }) => [details.scope, details.retryAfterSeconds === retryAfter]),
        refused.map(() => ["key", true])
      )
    }))
})
