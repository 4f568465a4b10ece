/** Deployments that are wrong about messages, files, events and webhooks. */
import { type Corruption, corruption, gets, stateful } from "./Corruption.ts"

const messagePath = /^\/v1\/messages\/[0-9a-f-]{36}$/
const messagesPath = /^\/v1\/messages(\?|$)/
const eventsPath = /^\/v1\/events/

export const corruptions: ReadonlyArray<Corruption> = [
  // Messages
  stateful(
    "a message that a page loses",
    "paging by two shows every message",
    /^Spec 4, Pagination: .*once each/,
    () => {
      let pages = 0
      return gets(
        /^\/v1\/messages\?limit=2/,
        ({ json }) => (++pages === 2 ? { json: { ...json, items: json.items.slice(1) } } : undefined)
      )
    }
  ),
  stateful(
    "a message that two pages show",
    ["paging by two shows every message", "an exclusive bound"],
    /^Spec 4, Pagination: /,
    () => {
      let last: unknown
      return gets(/^\/v1\/messages\?limit=2/, ({ json }) => {
        const items = last === undefined ? json.items : [last, ...json.items]
        last = json.items.at(-1)
        return { json: { ...json, items } }
      })
    }
  ),
  corruption(
    "messages in another order",
    "paging by two shows every message",
    /^Spec 4, Pagination: .*createdAt falls/,
    gets(messagesPath, ({ json }) => json.items.reverse() && undefined)
  ),
  corruption(
    "a cursor that leads nowhere",
    "paging by two shows every message",
    /^Spec 4, Pagination: /,
    gets(messagesPath, ({ json }) => ({ json: { ...json, nextCursor: null } }))
  ),
  corruption(
    "pages of 26",
    "messages: a page has at most 25",
    /^Spec 4, limit: /,
    gets(messagesPath, ({ json }) => ({ json: { ...json, items: Array.from({ length: 26 }, () => json.items[0]) } }))
  ),
  corruption(
    "a filter that lets others through",
    "a mailbox's messages can be had alone",
    /^Spec 4, listMessages: .*all are of the mailbox/,
    gets(messagesPath, ({ json }) => {
      json.items[0].mailboxId = globalThis.crypto.randomUUID()
    })
  ),
  corruption(
    "a hidden recipient that shows",
    "a message is shown as it was sent",
    /^Spec 2, Message detail: .*hidden recipient/,
    gets(messagePath, ({ json }) => {
      json.message.headers.push({ name: "Bcc", value: json.message.bcc[0].address })
    })
  ),
  corruption(
    "a MIME structure that is missing",
    "a message is shown as it was sent",
    /^Spec 2, Message detail: .*mime/,
    gets(messagePath, ({ json }) => {
      delete json.message.mime
    })
  ),
  corruption(
    "a text that lost its line breaks",
    "a message is shown as it was sent",
    /^Spec 2, Message detail: .*what was sent/,
    gets(messagePath, ({ json }) => {
      json.message.text = json.message.text.replaceAll("\n", " ")
    })
  ),
  corruption(
    "a flag that is not kept",
    "isRead can be set",
    /^Spec 4, updateMessage: .*isRead/,
    gets(messagePath, ({ json }) => {
      json.message.isRead = true
    })
  ),
  corruption(
    "an update whose event tells something else",
    "isStarred can be set",
    /^Spec 4, updateMessage: .*tells the flags/,
    gets(eventsPath, ({ json }) => {
      for (const { type, data } of json.items) if (type === "message.updated") data.isStarred = false
    })
  ),
  corruption(
    "404s that differ",
    "an absent message is answered 404",
    /^Spec 5, 5: .*equal but for requestId/,
    ({ status, path, json }) => {
      if (status === 404) json.message = `no ${path}`
    }
  ),

  // Attachments
  corruption(
    "a file that is altered",
    "a clean file comes down",
    /^Spec 4, downloadAttachment: .*the file/,
    gets(/\/download$/, ({ json }) => {
      json.contentBase64 = `AAAA${json.contentBase64.slice(4)}`
    })
  ),
  corruption(
    "a wrong digest",
    "an upload is answered 201",
    /^Spec 4, uploadAttachment: .*sha256/,
    ({ status, json }) => {
      if (status === 201) json.attachment.sha256 = "0".repeat(64)
    }
  ),
  corruption(
    "an infected file that is sent",
    "an infected file is never",
    /^Spec 3, Attachment: .*expected 400, got 202/,
    ({ status, json }) =>
      status === 400 && json.code === "attachment_infected" ?
        { status: 202, json: { id: globalThis.crypto.randomUUID(), object: "message", status: "queued" } } :
        undefined
  ),
  corruption("413 without the limit", "26,214,401 bytes", /^Spec 7, 413: .*details/, ({ status, json }) => {
    if (status === 413) json.details = {}
  }),

  // Events
  stateful(
    "an event that a page loses",
    ["paging by two to null", "pages of two hold"],
    /^Spec (6, Delivery semantics 8|4, Pagination): /,
    () => {
      let pages = 0
      return gets(
        /^\/v1\/events\?limit=2&/,
        ({ json }) => (++pages % 3 === 2 ? { json: { ...json, items: json.items.slice(1) } } : undefined)
      )
    }
  ),
  corruption(
    "events that end too soon",
    ["paging by two to null", "pages of two hold"],
    /^Spec (6, Delivery semantics 8|4, Pagination): /,
    gets(/^\/v1\/events\?limit=2&/, ({ json }) => ({ json: { ...json, nextCursor: null } }))
  ),
  corruption(
    "events that never end",
    "paging by two to null",
    /^Spec 6, Delivery semantics 8: .*a cursor leads on/,
    gets(/^\/v1\/events\?limit=2&/, ({ json, path }) => ({
      json: { ...json, nextCursor: json.nextCursor ?? decodeURIComponent(path.split("cursor=")[1] ?? "") }
    }))
  ),
  corruption(
    "an event without its resource",
    "events have six members",
    /^Spec 2, Event: .*resourceId/,
    gets(eventsPath, ({ json }) => json.items.forEach((item: { resourceId?: string }) => delete item.resourceId))
  ),
  corruption(
    "a timestamp that is refused as cursor",
    "an ISO 8601 timestamp is a cursor",
    /^Spec 4, cursor \(events\): .*expected 200, got 400/,
    ({ path, status }) => /limit=100&cursor=2\d{3}-/.test(path) && status === 200 ? { status: 400 } : undefined
  ),
  corruption(
    "an old cursor that is taken",
    "before the retention",
    /cursor \(events\): .*expected 400, got 200/,
    ({ path }) => path.includes("2001-") ? { status: 200, json: { items: [], nextCursor: null } } : undefined
  ),

  // Outcomes
  corruption(
    "a bounce that is told as delivered",
    "mail to bounced@",
    /^Spec 3, Outbound message: .*the recipient's status/,
    gets(messagePath, ({ json }) => {
      if (json.message.status === "bounced") json.message.recipients[0].status = "delivered"
    })
  ),
  corruption(
    "a delivery that is told twice",
    "mail to duplicate@",
    /^Spec 3, Outbound message: .*the events/,
    gets(eventsPath, ({ json }) => {
      const isMeant = ({ type, data }: { type: string; data: { recipient?: string } }) =>
        type === "message.delivered" && data.recipient?.startsWith("duplicate") === true
      json.items = json.items.flatMap((
        event: Parameters<typeof isMeant>[0]
      ) => (isMeant(event) ? [event, event] : [event]))
    })
  ),
  corruption(
    "a soft bounce that is told as a hard one",
    "mail to bounced-soft@",
    /^Spec 3, Outbound message: .*bounceClass/,
    gets(messagePath, ({ json }) => {
      for (const one of json.message.recipients) if (one.bounceClass !== null) one.bounceClass = "permanent"
    })
  ),

  // Webhooks
  corruption(
    "a secret that signs nothing",
    "an event is delivered with its id",
    /^Spec 6, Signature: .*HMAC-SHA256/,
    ({ path, status, json }) => {
      if (path === "/v1/webhook-endpoints" && status === 201) json.secret = "whsec_another"
    }
  ),
  corruption(
    "a secret that is listed",
    "creation asks the receiver",
    /^Spec 6, Endpoint verification handshake: .*secret/,
    gets(
      /^\/v1\/webhook-endpoints$/,
      ({ json }) => json.items.forEach((item: object) => Object.assign(item, { secret: "whsec_shown" }))
    )
  ),
  corruption(
    "an endpoint that is created without its handshake",
    "whose receiver answers 500",
    /^Spec 6, Endpoint verification handshake 3: /,
    ({ path, status }) => path === "/v1/webhook-endpoints" && status === 400 ? { status: 201 } : undefined
  ),
  corruption(
    "a private address that is taken",
    "an endpoint at https://10.0.0.1",
    /^Spec 3, Webhook endpoint: /,
    ({ path, status }) => (path === "/v1/webhook-endpoints" && status === 400 ? { status: 201 } : undefined)
  ),
  corruption(
    "a replay that is done before it is made",
    "a replayed delivery is pending",
    /^Spec 6, Delivery semantics 6: .*the delivery/,
    ({ path, status, json }) => {
      if (path.endsWith("/replay") && status === 202) json.delivery.status = "delivered"
    }
  ),
  corruption(
    "a replay that is no new round",
    "a replayed delivery is pending",
    /^Spec 6, Delivery semantics 6: .*both attempts/,
    gets(/^\/v1\/webhook-deliveries/, ({ json }) => {
      for (const { attempts } of json.items) for (const attempt of attempts) attempt.round = 1
    })
  ),
  corruption(
    "a failure that is not counted",
    "a failed attempt is recorded",
    /^Spec 6, Delivery semantics 4 and 5: .*consecutiveFailures/,
    gets(
      /^\/v1\/webhook-endpoints$/,
      ({ json }) => json.items.forEach((item: { consecutiveFailures: number }) => (item.consecutiveFailures = 0))
    )
  )
]
