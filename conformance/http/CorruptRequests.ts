/** Deployments that are wrong about who asks, what is asked, and the contract of it. */
import { type Answer, type Corruption, corruption, gets, inTheRun, stateful } from "./Corruption.ts"

const messagePath = /^\/v1\/messages\/[0-9a-f-]{36}$/
const messagesPath = /^\/v1\/messages(\?|$)/

export const corruptions: ReadonlyArray<Corruption> = [
  // Envelope
  inTheRun(
    "an envelope with a further member",
    "access:",
    "every error",
    /^Spec 7, Envelope: .*stack/,
    ({ status, json }) => {
      if (status >= 400 && json !== undefined) json.stack = "at Object.<anonymous>"
    }
  ),
  inTheRun(
    "an error without requestId",
    "malformed JSON",
    "every error",
    /^Spec 7, Envelope: .*requestId/,
    ({ status, json }) => {
      if (status === 400) delete json.requestId
    }
  ),
  inTheRun(
    "a requestId that is another request's",
    "malformed JSON",
    "carries X-Request-Id",
    /^Spec 7, Envelope: .*requestId is X-Request-Id/,
    ({ status, json }) => {
      if (status === 400) json.requestId = globalThis.crypto.randomUUID()
    }
  ),
  inTheRun(
    "an answer without X-Request-Id",
    "mailboxes:",
    "carries X-Request-Id",
    /^Spec 7, Envelope: .*X-Request-Id is there/,
    ({ headers }) => headers.delete("x-request-id")
  ),
  inTheRun(
    "one X-Request-Id for all",
    "mailboxes:",
    "no two answers",
    /^Spec 7, Envelope: .*was there before/,
    ({ headers }) => headers.set("x-request-id", "1")
  ),
  corruption(
    "the client's X-Request-Id in the answer",
    "a request id is the service's own",
    /X-Request-Id/,
    ({ request, headers }) => {
      if (request.headers["x-request-id"] !== undefined) headers.set("x-request-id", request.headers["x-request-id"])
    }
  ),
  inTheRun(
    "an error as HTML",
    "a path that does not exist",
    "is JSON, and says so",
    /^Spec 4: .*Content-Type/,
    ({ status, headers }) => {
      if (status !== 404) return
      headers.set("content-type", "text/html")
      return { text: "<h1>Not Found</h1>" }
    }
  ),
  inTheRun(
    "a key in an answer",
    "mailboxes:",
    "repeats a key",
    /^Spec 5, 1: .*neither body nor headers/,
    ({ request, headers }) => headers.set("x-debug", request.headers["authorization"] ?? "")
  ),

  // Credentials
  corruption(
    "a 401 that says why",
    "every 401 has the same body",
    /^Spec 5, 5: .*equal but for requestId/,
    ({ status, request, json }) => {
      if (status === 401) json.message = request.headers["authorization"] === undefined ? "missing" : "malformed"
    }
  ),
  corruption(
    "a 401 without WWW-Authenticate",
    "answered 401",
    /^Spec 5, 5: .*WWW-Authenticate/,
    ({ headers }) => headers.delete("www-authenticate")
  ),
  corruption(
    "403 for a bad credential",
    "answered 401",
    /^Spec 5, 5: .*expected 401, got 403/,
    ({ status }) => (status === 401 ? { status: 403 } : undefined)
  ),
  corruption(
    "a mistyped key that is let in",
    "a mistyped key",
    /^Spec 5, 5: .*expected 401, got 200/,
    ({ status }) => (status === 401 ? { status: 200, json: { items: [] } } : undefined)
  ),
  corruption(
    "a 403 that does not say which scope",
    "without the scope",
    /^Spec 5, 3: .*details name the scopes/,
    ({ status, json }) => {
      if (status === 403) json.details = {}
    }
  ),
  corruption("a 405 without Allow", "is answered 405", /405: .*Allow/, ({ headers }) => headers.delete("allow")),
  corruption(
    "400 for a media type",
    "media type is answered 415",
    /415: .*expected 415, got 400/,
    ({ status }) => (status === 415 ? { status: 400 } : undefined)
  ),
  corruption(
    "a tenant that can be chosen",
    "a tenant in the request",
    /^Spec 1, 1: .*the list is the same/,
    ({ path, json }) => {
      if (path.includes("tenantId=")) json.items = []
    }
  ),

  // Mailboxes and domains
  corruption(
    "a mailbox with a further member",
    "mailboxes have an id",
    /^Spec 2, Mailbox: .*tenantId/,
    gets(/^\/v1\/mailboxes/, ({ json }) => json.items.forEach((item: object) => Object.assign(item, { tenantId: "x" })))
  ),
  corruption(
    "a domain that is verified and failing",
    "domains have their name",
    /^Spec 2, Domain: .*is verified if/,
    gets(
      /^\/v1\/domains/,
      ({ json }) => json.items.forEach((item: object) => Object.assign(item, { health: "failing" }))
    )
  ),
  corruption(
    "a wrong mailboxCount",
    "counts its mailboxes",
    /^Spec 2, Domain: .*mailboxCount/,
    gets(
      /^\/v1\/domains/,
      ({ json }) => json.items.forEach((item: { mailboxCount: number }) => (item.mailboxCount += 1))
    )
  ),

  // Sending
  corruption(
    "200 for an accepted send",
    "an accepted send",
    /expected 202, got 200/,
    ({ status }) => (status === 202 ? { status: 200 } : undefined)
  ),
  corruption(
    "a queued message with a further member",
    "an accepted send",
    /^Spec 2, Queued message: .*createdAt/,
    ({ status, json }) => {
      if (status === 202) json.createdAt = "2026-12-01T00:00:00Z"
    }
  ),
  corruption(
    "a replay that is not marked",
    "the same request under the same key",
    /^Spec 4, Idempotency on send 2 and 3: .*Idempotent-Replayed/,
    ({ headers }) => headers.delete("idempotent-replayed")
  ),
  corruption(
    "a replay with another id",
    "the same request under the same key",
    /^Spec 4, Idempotency on send 2 and 3: .*the object is the first one's/,
    ({ headers, json }) => {
      if (headers.has("idempotent-replayed")) json.id = globalThis.crypto.randomUUID()
    }
  ),
  corruption(
    "twins that become two messages",
    "twins sent at once",
    /^Spec 4, Idempotency on send 5: .*(one message was made|one of the answers)/,
    ({ status, headers, json }) => {
      if (status !== 202 && status !== 409) return
      headers.delete("idempotent-replayed")
      return {
        status: 202,
        json: {
          id: globalThis.crypto.randomUUID(),
          object: "message",
          status: "queued",
          ...(status === 202 ? { id: json.id } : {})
        }
      }
    }
  ),
  corruption(
    "a conflict that is accepted",
    "a different request under the same key",
    /^Spec 4, Idempotency on send 4: /,
    ({ status }) => (status === 409 ? { status: 202 } : undefined)
  ),
  corruption(
    "a fault that is not pointed at",
    "a subject of 999 characters",
    /^Spec 4, SendMessageInput: subject: .*point at the fault/,
    ({ status, json }) => {
      if (status === 400) json.details.issues = [{ path: "", code: "invalid", message: "" }]
    }
  ),
  corruption(
    "a member that is ignored",
    "a member that there is not is answered",
    /^Spec 4, SendMessageInput: no additional/,
    ({ status }) => (status === 400 ? { status: 404 } : undefined)
  ),
  corruption(
    "a limit that is one too low",
    "the limits let pass",
    /^Spec 8, send: .*the input is taken/,
    ({ status }) => (status === 404 ? { status: 400 } : undefined)
  ),

  // Isolation
  stateful(
    "a message that another tenant may read",
    "the same 404 for a message",
    /^Spec 5, 5: .*expected 404, got 200/,
    () => {
      let own = ""
      return ({ request, path, status, json }) => {
        own ||= request.headers["authorization"] ?? ""
        return request.headers["authorization"] !== own && messagePath.test(path) && status === 404 ?
          { status: 200, json: { message: json } } :
          undefined
      }
    }
  ),
  corruption(
    "a list that holds another tenant's messages",
    "lists none of the messages",
    /^Spec 1, 1: .*hold nothing of this run/,
    (() => {
      let ids: ReadonlyArray<unknown> = []
      return ({ path, method, status, json }: Answer) => {
        if (method === "POST" && status === 202) ids = [...ids, json.id]
        if (messagesPath.test(path) && method === "GET") json.items = ids.map((id) => ({ id }))
      }
    })()
  ),
  corruption(
    "a 404 that tells whose it is",
    "the same 404 for a file",
    /^Spec 5, 5: .*that of an absent one/,
    (() => {
      let files: ReadonlyArray<string> = []
      return ({ path, status, json }: Answer) => {
        if (status === 201) files = [...files, json.attachment.id]
        if (status === 404 && files.some((id) => path.includes(id))) json.message = "This file is another tenant's."
      }
    })()
  ),

  // Contract
  corruption(
    "a document of another version",
    "published at /openapi.yaml",
    /^Spec 9, 1: .*info.version/,
    ({ path }) =>
      path === "/openapi.yaml" ? { text: "openapi: 3.1.0\ninfo: { version: 0.9.0 }\npaths: {}\n" } : undefined
  ),
  corruption(
    "a document that lacks operations",
    "has every operation",
    /^Spec 4, Operations: .*get \/v1\/mailboxes/,
    ({ path }) => (path === "/openapi.yaml" ? { text: "openapi: 3.1.0\npaths: {}\n" } : undefined)
  ),
  inTheRun(
    "an answer that the document does not know",
    "mailboxes:",
    "fits the published schema",
    /^Spec 9, 1: .*displayName/,
    gets(
      /^\/v1\/mailboxes/,
      ({ json }) => json.items.forEach((item: { displayName: unknown }) => (item.displayName = null))
    )
  ),
  inTheRun(
    "a status that the document does not know",
    "mailboxes:",
    "fits the published schema",
    /^Spec 9, 1: .*fits the document: .*code/,
    ({ path, status }) => (path === "/v1/mailboxes" && status === 200 ? { status: 206 } : undefined)
  ),
  inTheRun(
    "limits that are not told",
    "mailboxes:",
    "the tightest limit",
    /^Spec 8 \(decided\): .*three are whole numbers/,
    ({ headers }) => headers.delete("ratelimit-remaining")
  ),
  inTheRun(
    "a 429 without Retry-After",
    "mailboxes:",
    "every 429",
    /^Spec 7, 429: .*Retry-After/,
    ({ path, headers }) => {
      if (path !== "/v1/domains") return
      headers.delete("retry-after")
      return { status: 429, json: { code: "rate_limited", message: "", requestId: "", details: {} } }
    }
  ),
  inTheRun(
    "a fault of the service",
    "mailboxes:",
    "answered with 500",
    /^Spec 7: .*a fault of the service, 500/,
    ({ path }) => (path === "/v1/domains" ? { status: 500, json: { code: "internal_error" } } : undefined)
  )
]
