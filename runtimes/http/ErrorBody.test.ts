import { assert, describe, it } from "@effect/vitest"
import { STATUS_CODES } from "node:http"
import { AttachmentId } from "../../core/model/Ids.ts"
import { RateLimited, Unauthorized } from "../../core/operations/Access.ts"
import { AttachmentTooLarge } from "../../core/operations/Attachments.ts"
import { AttachmentNotClean, IdempotencyPending, QuotaExceeded } from "../../core/operations/Sending.ts"
import { NotFound } from "../../core/operations/Ownership.ts"
import { HandshakesBusy, InvalidWebhookUrl } from "../../core/operations/Handshakes.ts"
import { BlobUnavailable } from "../../core/ports/BlobStore.ts"
import { CryptoBusy } from "../../core/ports/Crypto.ts"
import { IntakeUnavailable } from "../../core/ports/NotificationIntake.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { answer, catalogue, codes, errorsMarkdown, reasons } from "./ErrorBody.ts"
import {
  Defect,
  HeadersTooLarge,
  InvalidIdempotencyKey,
  InvalidRequest,
  MethodNotAllowed,
  MetricsUnauthorized,
  NotReady,
  PayloadTooLarge,
  ReadOnly,
  RequestTimeout,
  RouteUnknown,
  ShuttingDown,
  TooManyAnswers
} from "./Refusals.ts"

const requestId = "0199d6a0-7c4e-7b1a-9f3d-0000000000f6"
const attachmentId = AttachmentId.make("0199d6a0-7c4e-7b1a-9f3d-0000000000a7")

describe("An error body", () => {
  it("has the statuses and codes that are published, and no other", () => {
    assert.deepStrictEqual(
      codes.map((code) => `${catalogue[code].status} ${code}`).sort(),
      [
        "400 attachment_infected",
        "400 invalid_cursor",
        "400 invalid_idempotency_key",
        "400 invalid_request",
        "400 invalid_webhook_url",
        "400 unsupported_event_type",
        "400 webhook_verification_failed",
        "401 unauthorized",
        "403 insufficient_scope",
        "404 not_found",
        "405 method_not_allowed",
        "408 request_timeout",
        "409 attachment_not_clean",
        "409 domain_not_sendable",
        "409 endpoint_disabled",
        "409 idempotency_conflict",
        "409 idempotency_pending",
        "409 mailbox_suspended",
        "409 too_many_endpoints",
        "413 attachment_too_large",
        "413 payload_too_large",
        "415 unsupported_media_type",
        "429 quota_exceeded",
        "429 rate_limited",
        "431 headers_too_large",
        "500 internal_error",
        "503 unavailable"
      ]
    )
  })

  it("names the reason phrase that the status line has", () => {
    for (const [status, reason] of Object.entries(reasons)) assert.strictEqual(reason, STATUS_CODES[status])
  })

  it("has exactly the members of the envelope", () => {
    const { status, headers, body } = answer(new NotFound({ field: "fromMailboxId" }), requestId)

    assert.deepStrictEqual([status, headers], [404, {}])
    const { message, ...rest } = body
    assert.isAbove(message.length, 20)
    assert.deepStrictEqual(rest, { code: "not_found", requestId, error: "Not Found", details: { field: "fromMailboxId" } })
    assert.deepStrictEqual(answer(new NotFound({ field: null }), requestId).body.details, {})
  })

  const headers: ReadonlyArray<readonly [refusal: Parameters<typeof answer>[0], headers: Readonly<Record<string, string>>]> = [
    [new Unauthorized({ reason: "missing" }), { "www-authenticate": "Bearer" }],
    [new MetricsUnauthorized(), { "www-authenticate": "Bearer" }],
    [new MethodNotAllowed({ allow: ["GET", "HEAD"] }), { allow: "GET, HEAD" }],
    [new RateLimited({ scope: "key", limit: 1, windowSeconds: 60, retryAfterSeconds: 7 }), { "retry-after": "7" }],
    [new QuotaExceeded({ limit: 5, used: 4, requested: 2, retryAfterSeconds: 9 }), { "retry-after": "9" }],
    [new HandshakesBusy({ limit: 5 }), { "retry-after": "5" }],
    [new IdempotencyPending(), { "retry-after": "1" }],
    [new AttachmentNotClean({ attachmentId, scanState: "pending" }), { "retry-after": "5" }],
    [new AttachmentNotClean({ attachmentId, scanState: "error" }), {}],
    // What is left of the request is not read.
    [new RequestTimeout(), { connection: "close" }],
    [new PayloadTooLarge({ limitBytes: 1 }), { connection: "close" }],
    [new AttachmentTooLarge({ limitBytes: 1 }), { connection: "close" }],
    [new HeadersTooLarge(), { connection: "close" }],
    // What is over in a moment, and what may last.
    [new CryptoBusy(), { "retry-after": "1" }],
    [new ShuttingDown(), { "retry-after": "1" }],
    [new StoreUnavailable({ cause: null }), { "retry-after": "5" }],
    [new BlobUnavailable({ cause: null }), { "retry-after": "5" }],
    [new IntakeUnavailable({ cause: null }), { "retry-after": "5" }],
    [new NotReady(), { "retry-after": "5" }],
    [new ReadOnly(), { "retry-after": "5" }],
    [new TooManyAnswers(), { "retry-after": "5" }],
    [new Defect(), {}]
  ]

  for (const [refusal, expected] of headers) {
    it(`comes with the headers that belong to its code: ${refusal._tag} ${JSON.stringify(expected)}`, () => {
      assert.deepStrictEqual(answer(refusal, requestId).headers, expected)
    })
  }

  const messages: ReadonlyArray<readonly [refusal: Parameters<typeof answer>[0], message: string]> = [
    [new PayloadTooLarge({ limitBytes: 70_000 }), "The body of this operation has at most 70000 bytes."],
    [new MethodNotAllowed({ allow: ["GET", "HEAD"] }), "This path allows GET, HEAD."],
    [
      new InvalidIdempotencyKey(),
      "Sending needs one Idempotency-Key header of 8 to 255 characters. Make one per message, such as a UUID, and repeat it when you retry."
    ],
    [new RouteUnknown(), "There is nothing at this path. GET /openapi.yaml lists the operations; GET /docs shows them."],
    [new MetricsUnauthorized(), "Send the metrics token as `Authorization: Bearer <MAILROOM_METRICS_TOKEN>`."],
    [new ReadOnly(), "The database can be read and takes no writes, as a standby does. Nothing is accepted until it takes them again."],
    [new StoreUnavailable({ cause: null }), "The service cannot take this request now. Try again in 5 s, plus a random moment."],
    [new Defect(), "Something failed on our side. Try again; if it persists, ask for help and quote the requestId."]
  ]

  for (const [refusal, message] of messages) {
    it(`says what to do: ${refusal._tag}`, () => {
      assert.strictEqual(answer(refusal, requestId).body.message, message)
    })
  }

  it("does not tell why a credential is refused, nor what failed inside", () => {
    const reasons = ["missing", "unknown", "mismatch", "revoked"] as const
    const bodies = reasons.map((reason) => answer(new Unauthorized({ reason }), requestId).body)
    for (const body of bodies) assert.deepStrictEqual(body, bodies[0])

    assert.notInclude(JSON.stringify(answer(new StoreUnavailable({ cause: new Error("db.sock") }), requestId).body), "sock")
    assert.deepStrictEqual(answer(new Defect(), requestId).body.details, {})
  })

  it("says in words what is wrong with a URL, and one reason for all of it", () => {
    const bodies = (["scheme", "port", "address", null] as const).map((fault) => answer(new InvalidWebhookUrl({ fault }), requestId).body)

    assert.strictEqual(new Set(bodies.map(({ message }) => message)).size, bodies.length)
    for (const { details } of bodies) assert.deepStrictEqual(details, { reason: "unsafe_url" })
  })

  it("names the first of several issues in its message", () => {
    const issue = { path: "/to/0", code: "invalid_value", message: "Expected an address" } as const
    assert.strictEqual(
      answer(new InvalidRequest({ issues: [issue, issue, issue] }), requestId).body.message,
      "The request is not valid: Expected an address at /to/0 (and 2 more)."
    )
  })

  it("is listed in the errors page with every code", () => {
    const page = errorsMarkdown()
    for (const code of codes) assert.include(page, `| ${catalogue[code].status} | \`${code}\` |`)
    assert.include(page, "`scope`, `limit`, `windowSeconds`, `retryAfterSeconds`")
  })
})
