/**
 * Deployments that are broken in one way each: what the suite has to notice,
 * and with which law. For tests of the suite itself; a corruption stands
 * between the suite and a deployment that is sound.
 */

/** An answer on its way: a corruption may change it, or give another. */
export interface Answer {
  readonly method: string
  /** Without the origin. */
  readonly path: string
  readonly request: { readonly headers: Readonly<Record<string, string>>; readonly body: string }
  readonly status: number
  readonly headers: Headers
  /** The body, parsed; a corruption may change it in place. */
  // oxlint-disable-next-line typescript/no-explicit-any -- it is changed member by member, and has no one shape
  readonly json: any
}

interface Changed {
  readonly status?: number
  readonly json?: unknown
  readonly text?: string
}

export interface Corruption {
  /** "notices …". */
  readonly name: string
  /** The checks that notice it. */
  readonly filter: ReadonlyArray<string>
  /** Checks that run before them, for those that judge what others were answered. */
  readonly beside: ReadonlyArray<string>
  /** Made anew for each run. */
  readonly fetch: () => (answer: Answer) => Changed | void
  /** Law, title and reason of every check of the filter that fails. */
  readonly breaks: RegExp
}

/** A fetch whose answers are corrupted on the way. */
export const mutated = (make: Corruption["fetch"]): typeof globalThis.fetch => {
  const corrupt = make()
  return async (input, init) => {
    const response = await fetch(input, init)
    const text = await response.text()
    const url = new URL(input instanceof Request ? input.url : input)
    const headers = new Headers(response.headers)
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {
      json = undefined
    }
    const { status } = response
    const request = { headers: Object.fromEntries(new Headers(init?.headers)), body: typeof init?.body === "string" ? init.body : "" }
    const changed = corrupt({ method: init?.method ?? "GET", path: `${url.pathname}${url.search}`, request, status, headers, json }) ?? {}
    const body = changed.text ?? (json === undefined ? text : JSON.stringify(changed.json ?? json))
    return new Response(body, { status: changed.status ?? status, headers })
  }
}

/** With a state of its own in each run. */
const stateful = (name: string, filter: string | ReadonlyArray<string>, breaks: RegExp, fetch: Corruption["fetch"]): Corruption => ({
  name,
  filter: typeof filter === "string" ? [filter] : filter,
  beside: [],
  breaks,
  fetch
})

const corruption = (name: string, filter: string | ReadonlyArray<string>, breaks: RegExp, fetch: (answer: Answer) => Changed | void) =>
  stateful(name, filter, breaks, () => fetch)

/** Noticed by a check that judges all that was answered before. */
const inTheRun = (name: string, beside: string, filter: string, breaks: RegExp, fetch: (answer: Answer) => Changed | void): Corruption => ({
  ...corruption(name, filter, breaks, fetch),
  beside: [beside]
})

const gets = (path: RegExp, change: (answer: Answer) => Changed | void) => (answer: Answer) =>
  answer.method === "GET" && path.test(answer.path) && answer.status === 200 ? change(answer) : undefined

const messagePath = /^\/v1\/messages\/[0-9a-f-]{36}$/
const messagesPath = /^\/v1\/messages(\?|$)/
const eventsPath = /^\/v1\/events/

export const corruptions: ReadonlyArray<Corruption> = [
  // Envelope
  inTheRun("an envelope with a further member", "access:", "every error", /^Spec 7, Envelope: .*stack/, ({ status, json }) => {
    if (status >= 400 && json !== undefined) json.stack = "at Object.<anonymous>"
  }),
  inTheRun("an error without requestId", "malformed JSON", "every error", /^Spec 7, Envelope: .*requestId/, ({ status, json }) => {
    if (status === 400) delete json.requestId
  }),
  inTheRun("a requestId that is another request's", "malformed JSON", "carries X-Request-Id", /^Spec 7, Envelope: .*requestId is X-Request-Id/, ({ status, json }) => {
    if (status === 400) json.requestId = globalThis.crypto.randomUUID()
  }),
  inTheRun("an answer without X-Request-Id", "mailboxes:", "carries X-Request-Id", /^Spec 7, Envelope: .*X-Request-Id is there/, ({ headers }) => headers.delete("x-request-id")),
  inTheRun("one X-Request-Id for all", "mailboxes:", "no two answers", /^Spec 7, Envelope: .*was there before/, ({ headers }) => headers.set("x-request-id", "1")),
  corruption("the client's X-Request-Id in the answer", "a request id is the service's own", /X-Request-Id/, ({ request, headers }) => {
    if (request.headers["x-request-id"] !== undefined) headers.set("x-request-id", request.headers["x-request-id"])
  }),
  inTheRun("an error as HTML", "a path that does not exist", "is JSON, and says so", /^Spec 4: .*Content-Type/, ({ status, headers }) => {
    if (status !== 404) return
    headers.set("content-type", "text/html")
    return { text: "<h1>Not Found</h1>" }
  }),
  inTheRun("a key in an answer", "mailboxes:", "repeats a key", /^Spec 5, 1: .*neither body nor headers/, ({ request, headers }) => headers.set("x-debug", request.headers["authorization"] ?? "")),

  // Credentials
  corruption("a 401 that says why", "every 401 has the same body", /^Spec 5, 5: .*equal but for requestId/, ({ status, request, json }) => {
    if (status === 401) json.message = request.headers["authorization"] === undefined ? "missing" : "malformed"
  }),
  corruption("a 401 without WWW-Authenticate", "answered 401", /^Spec 5, 5: .*WWW-Authenticate/, ({ headers }) => headers.delete("www-authenticate")),
  corruption("403 for a bad credential", "answered 401", /^Spec 5, 5: .*expected 401, got 403/, ({ status }) => (status === 401 ? { status: 403 } : undefined)),
  corruption("a mistyped key that is let in", "a mistyped key", /^Spec 5, 5: .*expected 401, got 200/, ({ status }) => (status === 401 ? { status: 200, json: { items: [] } } : undefined)),
  corruption("a 403 that does not say which scope", "without the scope", /^Spec 5, 3: .*details name the scopes/, ({ status, json }) => {
    if (status === 403) json.details = {}
  }),
  corruption("a 405 without Allow", "is answered 405", /405: .*Allow/, ({ headers }) => headers.delete("allow")),
  corruption("400 for a media type", "media type is answered 415", /415: .*expected 415, got 400/, ({ status }) => (status === 415 ? { status: 400 } : undefined)),
  corruption("a tenant that can be chosen", "a tenant in the request", /^Spec 1, 1: .*the list is the same/, ({ path, json }) => {
    if (path.includes("tenantId=")) json.items = []
  }),

  // Mailboxes and domains
  corruption("a mailbox with a further member", "mailboxes have an id", /^Spec 2, Mailbox: .*tenantId/, gets(/^\/v1\/mailboxes/, ({ json }) => json.items.forEach((item: object) => Object.assign(item, { tenantId: "x" })))),
  corruption("a domain that is verified and failing", "domains have their name", /^Spec 2, Domain: .*is verified if/, gets(/^\/v1\/domains/, ({ json }) => json.items.forEach((item: object) => Object.assign(item, { health: "failing" })))),
  corruption("a wrong mailboxCount", "counts its mailboxes", /^Spec 2, Domain: .*mailboxCount/, gets(/^\/v1\/domains/, ({ json }) => json.items.forEach((item: { mailboxCount: number }) => (item.mailboxCount += 1)))),

  // Sending
  corruption("200 for an accepted send", "an accepted send", /expected 202, got 200/, ({ status }) => (status === 202 ? { status: 200 } : undefined)),
  corruption("a queued message with a further member", "an accepted send", /^Spec 2, Queued message: .*createdAt/, ({ status, json }) => {
    if (status === 202) json.createdAt = "2026-12-01T00:00:00Z"
  }),
  corruption("a replay that is not marked", "the same request under the same key", /^Spec 4, Idempotency on send 2 and 3: .*Idempotent-Replayed/, ({ headers }) => headers.delete("idempotent-replayed")),
  corruption("a replay with another id", "the same request under the same key", /^Spec 4, Idempotency on send 2 and 3: .*the object is the first one's/, ({ headers, json }) => {
    if (headers.has("idempotent-replayed")) json.id = globalThis.crypto.randomUUID()
  }),
  corruption("twins that become two messages", "twins sent at once", /^Spec 4, Idempotency on send 5: .*(one message was made|one of the answers)/, ({ status, headers, json }) => {
    if (status !== 202 && status !== 409) return
    headers.delete("idempotent-replayed")
    return { status: 202, json: { id: globalThis.crypto.randomUUID(), object: "message", status: "queued", ...(status === 202 ? { id: json.id } : {}) } }
  }),
  corruption("a conflict that is accepted", "a different request under the same key", /^Spec 4, Idempotency on send 4: /, ({ status }) => (status === 409 ? { status: 202 } : undefined)),
  corruption("a fault that is not pointed at", "a subject of 999 characters", /^Spec 4, SendMessageInput: subject: .*point at the fault/, ({ status, json }) => {
    if (status === 400) json.details.issues = [{ path: "", code: "invalid", message: "" }]
  }),
  corruption("a member that is ignored", "a member that there is not is answered", /^Spec 4, SendMessageInput: no additional/, ({ status }) => (status === 400 ? { status: 404 } : undefined)),
  corruption("a limit that is one too low", "within the limits", /^Spec 8, send: .*the input is taken/, ({ status }) => (status === 404 ? { status: 400 } : undefined)),

  // Messages
  stateful("a message that a page loses", "paging by two shows every message", /^Spec 4, Pagination: .*once each/, () => {
    let pages = 0
    return gets(/^\/v1\/messages\?limit=2/, ({ json }) => (++pages === 2 ? { json: { ...json, items: json.items.slice(1) } } : undefined))
  }),
  stateful("a message that two pages show", ["paging by two shows every message", "an exclusive bound"], /^Spec 4, Pagination: /, () => {
    let last: unknown
    return gets(/^\/v1\/messages\?limit=2/, ({ json }) => {
      const items = last === undefined ? json.items : [last, ...json.items]
      last = json.items.at(-1)
      return { json: { ...json, items } }
    })
  }),
  corruption("messages in another order", "paging by two shows every message", /^Spec 4, Pagination: .*createdAt falls/, gets(messagesPath, ({ json }) => json.items.reverse() && undefined)),
  corruption("a cursor that leads nowhere", "paging by two shows every message", /^Spec 4, Pagination: /, gets(messagesPath, ({ json }) => ({ json: { ...json, nextCursor: null } }))),
  corruption("pages of 26", "messages: a page has at most 25", /^Spec 4, limit: /, gets(messagesPath, ({ json }) => ({ json: { ...json, items: Array.from({ length: 26 }, () => json.items[0]) } }))),
  corruption("a filter that lets others through", "a mailbox's messages can be had alone", /^Spec 4, listMessages: .*all are of the mailbox/, gets(messagesPath, ({ json }) => {
    json.items[0].mailboxId = globalThis.crypto.randomUUID()
  })),
  corruption("a hidden recipient that shows", "a message is shown as it was sent", /^Spec 2, Message detail: .*hidden recipient/, gets(messagePath, ({ json }) => {
    json.message.headers.push({ name: "Bcc", value: json.message.bcc[0].address })
  })),
  corruption("a MIME structure that is missing", "a message is shown as it was sent", /^Spec 2, Message detail: .*mime/, gets(messagePath, ({ json }) => {
    delete json.message.mime
  })),
  corruption("a text that lost its line breaks", "a message is shown as it was sent", /^Spec 2, Message detail: .*what was sent/, gets(messagePath, ({ json }) => {
    json.message.text = json.message.text.replaceAll("\n", " ")
  })),
  corruption("a flag that is not kept", "isRead can be set", /^Spec 4, updateMessage: .*isRead/, gets(messagePath, ({ json }) => {
    json.message.isRead = true
  })),
  corruption("an update whose event tells something else", "isStarred can be set", /^Spec 4, updateMessage: .*tells the flags/, gets(eventsPath, ({ json }) => {
    for (const { type, data } of json.items) if (type === "message.updated") data.isStarred = false
  })),
  corruption("404s that differ", "an absent message is answered 404", /^Spec 5, 5: .*equal but for requestId/, ({ status, path, json }) => {
    if (status === 404) json.message = `no ${path}`
  }),

  // Attachments
  corruption("a file that is altered", "a clean file comes down", /^Spec 4, downloadAttachment: .*the file/, gets(/\/download$/, ({ json }) => {
    json.contentBase64 = `AAAA${json.contentBase64.slice(4)}`
  })),
  corruption("a wrong digest", "an upload is answered 201", /^Spec 4, uploadAttachment: .*sha256/, ({ status, json }) => {
    if (status === 201) json.attachment.sha256 = "0".repeat(64)
  }),
  corruption("an infected file that is sent", "an infected file is never", /^Spec 3, Attachment: .*expected 400, got 202/, ({ status, json }) =>
    status === 400 && json.code === "attachment_infected" ? { status: 202, json: { id: globalThis.crypto.randomUUID(), object: "message", status: "queued" } } : undefined
  ),
  corruption("413 without the limit", "26,214,401 bytes", /^Spec 7, 413: .*details/, ({ status, json }) => {
    if (status === 413) json.details = {}
  }),

  // Events
  stateful("an event that a page loses", ["paging by two to null", "pages of two hold"], /^Spec (6, Delivery semantics 8|4, Pagination): /, () => {
    let pages = 0
    return gets(/^\/v1\/events\?limit=2&/, ({ json }) => (++pages % 3 === 2 ? { json: { ...json, items: json.items.slice(1) } } : undefined))
  }),
  corruption("events that end too soon", ["paging by two to null", "pages of two hold"], /^Spec (6, Delivery semantics 8|4, Pagination): /, gets(/^\/v1\/events\?limit=2&/, ({ json }) => ({ json: { ...json, nextCursor: null } }))),
  corruption("events that never end", "paging by two to null", /^Spec 6, Delivery semantics 8: .*a cursor leads on/, gets(/^\/v1\/events\?limit=2&/, ({ json, path }) => ({
    json: { ...json, nextCursor: json.nextCursor ?? decodeURIComponent(path.split("cursor=")[1] ?? "") }
  }))),
  corruption("an event without its resource", "events have six members", /^Spec 2, Event: .*resourceId/, gets(eventsPath, ({ json }) => json.items.forEach((item: { resourceId?: string }) => delete item.resourceId))),
  corruption("a timestamp that is refused as cursor", "an ISO 8601 timestamp is a cursor", /^Spec 4, cursor \(events\): .*expected 200, got 400/, ({ path, status }) =>
    /limit=100&cursor=2\d{3}-/.test(path) && status === 200 ? { status: 400 } : undefined
  ),
  corruption("an old cursor that is taken", "before the retention", /cursor \(events\): .*expected 400, got 200/, ({ path }) =>
    path.includes("2001-") ? { status: 200, json: { items: [], nextCursor: null } } : undefined
  ),

  // Outcomes
  corruption("a bounce that is told as delivered", "mail to bounced@", /^Spec 3, Outbound message: .*the recipient's status/, gets(messagePath, ({ json }) => {
    if (json.message.status === "bounced") json.message.recipients[0].status = "delivered"
  })),
  corruption("a delivery that is told twice", "mail to duplicate@", /^Spec 3, Outbound message: .*the events/, gets(eventsPath, ({ json }) => {
    json.items = json.items.flatMap((event: { type: string }) => (event.type === "message.delivered" ? [event, event] : [event]))
  })),
  corruption("a soft bounce that is told as a hard one", "mail to bounced-soft@", /^Spec 3, Outbound message: .*bounceClass/, gets(messagePath, ({ json }) => {
    for (const one of json.message.recipients) if (one.bounceClass !== null) one.bounceClass = "permanent"
  })),

  // Webhooks
  corruption("a secret that signs nothing", "an event is delivered with its id", /^Spec 6, Signature: .*HMAC-SHA256/, ({ path, status, json }) => {
    if (path === "/v1/webhook-endpoints" && status === 201) json.secret = "whsec_another"
  }),
  corruption("a secret that is listed", "creation asks the receiver", /^Spec 6, Endpoint verification handshake: .*secret/, gets(/^\/v1\/webhook-endpoints$/, ({ json }) => json.items.forEach((item: object) => Object.assign(item, { secret: "whsec_shown" })))),
  corruption("an endpoint that is created without its handshake", "whose receiver answers 500", /^Spec 6, Endpoint verification handshake 3: /, ({ path, status }) =>
    path === "/v1/webhook-endpoints" && status === 400 ? { status: 201 } : undefined
  ),
  corruption("a private address that is taken", "an endpoint at https://10.0.0.1", /^Spec 3, Webhook endpoint: /, ({ path, status }) => (path === "/v1/webhook-endpoints" && status === 400 ? { status: 201 } : undefined)),
  corruption("a replay that is done before it is made", "a replayed delivery is pending", /^Spec 6, Delivery semantics 6: .*the delivery/, ({ path, status, json }) => {
    if (path.endsWith("/replay") && status === 202) json.delivery.status = "delivered"
  }),
  corruption("a replay that is no new round", "a replayed delivery is pending", /^Spec 6, Delivery semantics 6: .*both attempts/, gets(/^\/v1\/webhook-deliveries/, ({ json }) => {
    for (const { attempts } of json.items) for (const attempt of attempts) attempt.round = 1
  })),
  corruption("a failure that is not counted", "a failed attempt is recorded", /^Spec 6, Delivery semantics 4 and 5: .*consecutiveFailures/, gets(/^\/v1\/webhook-endpoints$/, ({ json }) => json.items.forEach((item: { consecutiveFailures: number }) => (item.consecutiveFailures = 0)))),

  // Isolation
  stateful("a message that another tenant may read", "the same 404 for a message", /^Spec 5, 5: .*expected 404, got 200/, () => {
    let own = ""
    return ({ request, path, status, json }) => {
      own ||= request.headers["authorization"] ?? ""
      return request.headers["authorization"] !== own && messagePath.test(path) && status === 404 ? { status: 200, json: { message: json } } : undefined
    }
  }),
  corruption("a list that holds another tenant's messages", "lists none of the messages", /^Spec 1, 1: .*hold nothing of this run/, (() => {
    let ids: ReadonlyArray<unknown> = []
    return ({ path, method, status, json }: Answer) => {
      if (method === "POST" && status === 202) ids = [...ids, json.id]
      if (messagesPath.test(path) && method === "GET") json.items = ids.map((id) => ({ id }))
    }
  })()),
  corruption("a 404 that tells whose it is", "the same 404 for a file", /^Spec 5, 5: .*that of an absent one/, (() => {
    let files: ReadonlyArray<string> = []
    return ({ path, status, json }: Answer) => {
      if (status === 201) files = [...files, json.attachment.id]
      if (status === 404 && files.some((id) => path.includes(id))) json.message = "This file is another tenant's."
    }
  })()),

  // Contract
  corruption("a document of another version", "published at /openapi.yaml", /^Spec 9, 1: .*info.version/, ({ path }) =>
    path === "/openapi.yaml" ? { text: "openapi: 3.1.0\ninfo: { version: 0.9.0 }\npaths: {}\n" } : undefined
  ),
  corruption("a document that lacks operations", "has every operation", /^Spec 4, Operations: .*get \/v1\/mailboxes/, ({ path }) => (path === "/openapi.yaml" ? { text: "openapi: 3.1.0\npaths: {}\n" } : undefined)),
  inTheRun("an answer that the document does not know", "mailboxes:", "fits the published schema", /^Spec 9, 1: .*displayName/, gets(/^\/v1\/mailboxes/, ({ json }) => json.items.forEach((item: { displayName: unknown }) => (item.displayName = null)))),
  inTheRun("a status that the document does not know", "mailboxes:", "fits the published schema", /^Spec 9, 1: .*fits the document: .*code/, ({ path, status }) => (path === "/v1/mailboxes" && status === 200 ? { status: 206 } : undefined)),
  inTheRun("limits that are not told", "mailboxes:", "the tightest limit", /^Spec 8 \(decided\): .*three are whole numbers/, ({ headers }) => headers.delete("ratelimit-remaining")),
  inTheRun("a 429 without Retry-After", "mailboxes:", "every 429", /^Spec 7, 429: .*Retry-After/, ({ path, headers }) => {
    if (path !== "/v1/domains") return
    headers.delete("retry-after")
    return { status: 429, json: { code: "rate_limited", message: "", requestId: "", details: {} } }
  }),
  inTheRun("a fault of the service", "mailboxes:", "answered with 500", /^Spec 7: .*a fault of the service, 500/, ({ path }) => (path === "/v1/domains" ? { status: 500, json: { code: "internal_error" } } : undefined))
]
