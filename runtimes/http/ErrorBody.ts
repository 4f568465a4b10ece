/**
 * The error envelope (Spec 7), and the two tables behind it: `catalogue` has
 * an entry per stable code, with its status, the schema of its `details` and
 * the remedy; `rows` has a row per refusal, with its code. Both are exhaustive
 * by the compiler: a refusal without a row does not type-check.
 */
import { Schema } from "effect"
import { State as ScanState } from "../../core/model/Attachment.ts"
import { Scope } from "../../core/model/ApiKey.ts"
import { Uuid, type RequestId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import { Health } from "../../core/model/MailDomain.ts"
import { handshakeFaults } from "../../core/model/Webhook.ts"
import { Issue } from "./Issues.ts"
import type { Refusal } from "./Refusals.ts"

/** The reason phrase of each status we refuse with (RFC 9110, as Node prints it). */
export const reasons = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  413: "Payload Too Large",
  415: "Unsupported Media Type",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable"
} as const
export type Status = keyof typeof reasons

const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const seconds = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const none = Schema.Struct({})
/** Why an endpoint was not created. */
const webhookReason = Schema.Literals(handshakeFaults)
const missingScopes = Schema.Struct({ required: Schema.Array(Scope), missing: Schema.Array(Scope) })

/** `not_found` is `NotFoundError` in the published document. */
export const schemaName = (code: string): string =>
  `${code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Error`

const entry = <const C extends string, const T extends Status, D extends Schema.Top>(
  code: C,
  status: T,
  details: D,
  texts: { readonly meaning: string; readonly remedy: string }
) => ({
  code,
  status,
  ...texts,
  details,
  /** The whole body. */
  body: Schema.Struct({
    code: Schema.Literal(code),
    message: Schema.String.annotate({ description: "What happened and what to do, for a person. Its wording may change." }),
    requestId: Uuid.annotate({ description: "Equal to X-Request-Id. Quote it when you ask for help.", format: "uuid" }),
    error: Schema.Literal(reasons[status]).annotate({ description: "The reason phrase of the HTTP status." }),
    details
  }).annotate({ identifier: schemaName(code), description: texts.meaning, httpApiStatus: status })
})

/** Every stable code. Codes are added, never renamed. */
export const catalogue = {
  invalid_request: entry("invalid_request", 400, Schema.Struct({ issues: Schema.Array(Issue) }), {
    meaning: "The request is malformed or does not fit its schema; `issues` names each fault.",
    remedy: "Correct what the issues point at. The same request will fail again."
  }),
  invalid_cursor: entry("invalid_cursor", 400, Schema.Struct({ reason: Schema.Literals(["malformed", "expired"]) }), {
    meaning: "The cursor is none of ours, or points at events that are no longer kept.",
    remedy: "Pass `nextCursor` back as it came. After `expired`, start without a cursor and reconcile with listMessages."
  }),
  invalid_idempotency_key: entry("invalid_idempotency_key", 400, none, {
    meaning: "The Idempotency-Key header is missing, repeated, or not of 8 to 255 characters.",
    remedy: "Make one key per message, such as a UUID, and send it again with each retry of that message."
  }),
  attachment_infected: entry("attachment_infected", 400, Schema.Struct({ attachmentId: Schema.String }), {
    meaning: "Malware was found in an attachment of the message.",
    remedy: "Send without it. An infected attachment stays locked."
  }),
  unsupported_event_type: entry(
    "unsupported_event_type",
    400,
    Schema.Struct({ unsupported: Schema.Array(Schema.String), supported: Schema.Array(Schema.String) }),
    {
      meaning: "`eventTypes` holds what cannot be subscribed: no event has that type.",
      remedy: "Use the types in `supported`, or `*` for all of them and those to come."
    }
  ),
  invalid_webhook_url: entry("invalid_webhook_url", 400, Schema.Struct({ reason: webhookReason }), {
    meaning:
      "The URL may not be called (`unsafe_url`): by its form, or because its host leads to an address that is not public.",
    remedy: "Give an https URL of a public host, on port 443, or on one from 1024 up that is not known for another service, without user name, password and fragment."
  }),
  webhook_verification_failed: entry("webhook_verification_failed", 400, Schema.Struct({ reason: webhookReason }), {
    meaning: "The receiver did not echo the challenge in time, so no endpoint was created; `reason` says how it failed.",
    remedy:
      "Answer `webhook.endpoint_verification` within 5 seconds with 2xx and `{\"challenge\": …}`, then create the endpoint again."
  }),
  unauthorized: entry("unauthorized", 401, none, {
    meaning: "The API key is missing, malformed, expired or revoked.",
    remedy: "Send a valid key as `Authorization: Bearer <API_KEY>`. Keys in URLs, cookies or Basic authentication are not read."
  }),
  insufficient_scope: entry("insufficient_scope", 403, missingScopes, {
    meaning: "The API key lacks a scope that the operation requires.",
    remedy: "Issue a replacement key that has the missing scopes: scopes are fixed at issuance."
  }),
  not_found: entry("not_found", 404, Schema.Struct({ field: Schema.optionalKey(Schema.String), index: Schema.optionalKey(Schema.Int) }), {
    meaning:
      "The resource is absent, or belongs to another tenant or environment, or (of webhooks) to another application; " +
      "`field` names the input that points at it, and `index` the place in a list.",
    remedy: "Check the id, and that the key is of the environment, and for webhooks of the application, in which it was made."
  }),
  method_not_allowed: entry("method_not_allowed", 405, none, {
    meaning: "The path exists, and has no such method.",
    remedy: "Use one of the methods in the `Allow` header."
  }),
  request_timeout: entry("request_timeout", 408, none, {
    meaning: "The request did not arrive in time; the connection is closed.",
    remedy: "Send it again on a new connection."
  }),
  idempotency_conflict: entry("idempotency_conflict", 409, none, {
    meaning: "The Idempotency-Key stands for a different request.",
    remedy: "Repeat the first request exactly, or use a new key for a new message."
  }),
  idempotency_pending: entry("idempotency_pending", 409, none, {
    meaning: "The first request with this Idempotency-Key is still running.",
    remedy: "Repeat the request after `Retry-After`: it will answer what the first one did."
  }),
  attachment_not_clean: entry("attachment_not_clean", 409, Schema.Struct({ scanState: ScanState, attachmentId: Schema.String }), {
    meaning: "The attachment has no clean scan: it is still scanned, its scan failed, or malware was found.",
    remedy: "While `pending`, try again after `Retry-After`. After `error` it is scanned again by itself. `infected` is final."
  }),
  mailbox_suspended: entry("mailbox_suspended", 409, none, {
    meaning: "The sending mailbox is suspended.",
    remedy: "Have an operator reinstate it, or send from another."
  }),
  domain_not_sendable: entry("domain_not_sendable", 409, Schema.Struct({ health: Health }), {
    meaning: "The sending mailbox's domain is not verified, failing or suspended.",
    remedy: "Set the DNS records that its health asks for (listDomains), or have an operator reinstate it."
  }),
  endpoint_disabled: entry("endpoint_disabled", 409, none, {
    meaning: "The delivery's webhook endpoint is disabled: ten attempts in a row have failed, or an operator has disabled it.",
    remedy: "Repair the receiver and have an operator enable the endpoint again; then replay."
  }),
  too_many_endpoints: entry("too_many_endpoints", 409, Schema.Struct({ limit: count }), {
    meaning: "The application has as many enabled webhook endpoints as it may.",
    remedy: "Subscribe one to more event types in place of several. One whose receiver fails ten times in a row is disabled by itself, and an operator can disable any."
  }),
  attachment_too_large: entry("attachment_too_large", 413, Schema.Struct({ limitBytes: count }), {
    meaning: "The attachment is larger than 25 MB (26,214,400 bytes) when decoded.",
    remedy: "Send a smaller file, or a link to it."
  }),
  payload_too_large: entry("payload_too_large", 413, Schema.Struct({ limitBytes: count }), {
    meaning: "The request's body is larger than the operation takes.",
    remedy: "Send less at once."
  }),
  unsupported_media_type: entry("unsupported_media_type", 415, none, {
    meaning: "The body is not plain application/json in UTF-8.",
    remedy: "Send `Content-Type: application/json`, and no Content-Encoding."
  }),
  rate_limited: entry(
    "rate_limited",
    429,
    Schema.Struct({
      scope: Schema.Literals(["ip", "key", "tenant_day", "handshake"]),
      limit: count,
      windowSeconds: seconds,
      retryAfterSeconds: seconds
    }),
    {
      meaning:
        "Too many requests from the network address (`ip`), with the key, or of the tenant in this UTC day; " +
        "or (`handshake`) as many endpoint verifications as may run at a time in a process of the server, of the application or to the host.",
      remedy: "Wait `Retry-After` seconds plus random jitter. Further keys do not help."
    }
  ),
  quota_exceeded: entry(
    "quota_exceeded",
    429,
    Schema.Struct({ limit: count, used: count, requested: count, retryAfterSeconds: seconds }),
    {
      meaning: "The plan's recipients of this UTC day do not suffice for the message.",
      remedy: "Send after `Retry-After`, with fewer recipients, or on a larger plan."
    }
  ),
  headers_too_large: entry("headers_too_large", 431, none, {
    meaning: "The request's header section is larger than 16 KiB; the connection is closed.",
    remedy: "Send fewer and shorter headers."
  }),
  internal_error: entry("internal_error", 500, none, {
    meaning: "A fault on our side.",
    remedy: "Try again; a send is safe to repeat with its Idempotency-Key. If it persists, report the `requestId`."
  }),
  unavailable: entry("unavailable", 503, none, {
    meaning: "The service cannot take the request now.",
    remedy: "Try again after `Retry-After`, plus random jitter. A send is safe to repeat with its Idempotency-Key."
  })
} as const

export type Code = keyof typeof catalogue
export const codes = Object.keys(catalogue) as ReadonlyArray<Code> // the keys of the literal above

export type ErrorBody<C extends Code = Code> = { [K in C]: (typeof catalogue)[K]["body"]["Type"] }[C]
type Details<C extends Code> = (typeof catalogue)[C]["details"]["Type"]

type Tag = Refusal["_tag"]
type Tagged<T extends Tag> = Extract<Refusal, { readonly _tag: T }>

interface Row<C extends Code, R> {
  readonly code: C
  readonly details: (refusal: R) => Details<C>
  readonly headers?: (refusal: R) => Readonly<Record<string, string>>
  /** Where the refusal's own message is not for callers. */
  readonly message?: string
}

/** Seconds after which every handshake that is running now has ended. */
export const handshakeSeconds = Limits.webhookDeadline / 1000
/** Seconds after which a scan is worth asking for again. */
const scanSeconds = 5

const empty = () => ({})
const retryAfter = (seconds: number) => ({ "retry-after": String(seconds) })
const closing = () => ({ connection: "close" })

const unavailable = (seconds: number) =>
  ({
    code: "unavailable",
    details: empty,
    message: `The service cannot take this request now. Try again in ${seconds} s, plus a random moment.`,
    headers: () => retryAfter(seconds)
  }) as const

/** A row per refusal: its code, and what it tells beyond that. */
const rows = {
  InvalidRequest: { code: "invalid_request", details: ({ issues }) => ({ issues }) },
  InvalidCursor: { code: "invalid_cursor", details: ({ reason }) => ({ reason }) },
  InvalidIdempotencyKey: { code: "invalid_idempotency_key", details: empty },
  AttachmentInfected: { code: "attachment_infected", details: ({ attachmentId }) => ({ attachmentId }) },
  UnsupportedEventType: {
    code: "unsupported_event_type",
    details: ({ unsupported, supported }) => ({ unsupported, supported })
  },
  InvalidWebhookUrl: { code: "invalid_webhook_url", details: ({ reason }) => ({ reason }) },
  WebhookVerificationFailed: { code: "webhook_verification_failed", details: ({ reason }) => ({ reason }) },
  Unauthorized: { code: "unauthorized", details: empty, headers: () => ({ "www-authenticate": "Bearer" }) },
  MetricsUnauthorized: { code: "unauthorized", details: empty, headers: () => ({ "www-authenticate": "Bearer" }) },
  InsufficientScope: { code: "insufficient_scope", details: ({ required, missing }) => ({ required, missing }) },
  NotFound: { code: "not_found", details: ({ field, index }) => (field === null ? {} : { field, ...(index === undefined ? {} : { index }) }) },
  RouteUnknown: { code: "not_found", details: empty },
  MethodNotAllowed: { code: "method_not_allowed", details: empty, headers: ({ allow }) => ({ allow: allow.join(", ") }) },
  RequestTimeout: { code: "request_timeout", details: empty, headers: closing },
  IdempotencyConflict: { code: "idempotency_conflict", details: empty },
  IdempotencyPending: { code: "idempotency_pending", details: empty, headers: () => retryAfter(1) },
  AttachmentNotClean: {
    code: "attachment_not_clean",
    details: ({ scanState, attachmentId }) => ({ scanState, attachmentId }),
    headers: ({ scanState }) => (scanState === "pending" ? retryAfter(scanSeconds) : {})
  },
  MailboxSuspended: { code: "mailbox_suspended", details: empty },
  DomainNotSendable: { code: "domain_not_sendable", details: ({ health }) => ({ health }) },
  EndpointDisabled: { code: "endpoint_disabled", details: empty },
  TooManyEndpoints: { code: "too_many_endpoints", details: ({ limit }) => ({ limit }) },
  // What is left of such a body is not worth reading.
  AttachmentTooLarge: { code: "attachment_too_large", details: ({ limitBytes }) => ({ limitBytes }), headers: closing },
  PayloadTooLarge: { code: "payload_too_large", details: ({ limitBytes }) => ({ limitBytes }), headers: closing },
  UnsupportedMediaType: { code: "unsupported_media_type", details: empty },
  RateLimited: {
    code: "rate_limited",
    details: ({ scope, limit, windowSeconds, retryAfterSeconds }) => ({ scope, limit, windowSeconds, retryAfterSeconds }),
    headers: ({ retryAfterSeconds }) => retryAfter(retryAfterSeconds)
  },
  HandshakesBusy: {
    code: "rate_limited",
    details: ({ limit }) => ({
      scope: "handshake",
      limit,
      windowSeconds: handshakeSeconds,
      retryAfterSeconds: handshakeSeconds
    }),
    headers: () => retryAfter(handshakeSeconds)
  },
  QuotaExceeded: {
    code: "quota_exceeded",
    details: ({ limit, used, requested, retryAfterSeconds }) => ({ limit, used, requested, retryAfterSeconds }),
    headers: ({ retryAfterSeconds }) => retryAfter(retryAfterSeconds)
  },
  HeadersTooLarge: { code: "headers_too_large", details: empty, headers: closing },
  Defect: {
    code: "internal_error",
    details: empty,
    message: "Something failed on our side. Try again; if it persists, ask for help and quote the requestId."
  },
  CryptoBusy: unavailable(1),
  StoreUnavailable: unavailable(5),
  BlobUnavailable: unavailable(5),
  IntakeUnavailable: unavailable(5),
  NotReady: unavailable(5),
  ReadOnly: { code: "unavailable", details: empty, headers: () => retryAfter(5) },
  TooManyAnswers: unavailable(5),
  ShuttingDown: unavailable(1)
} as const satisfies { readonly [T in Tag]: { [C in Code]: Row<C, Tagged<T>> }[Code] }

/** The code that a refusal is answered with. */
export type CodeOf<R extends Refusal> = (typeof rows)[R["_tag"]]["code"]

/** The refusals that are answered with one of these codes. */
export type RefusalWith<C extends Code> = { [T in Tag]: (typeof rows)[T]["code"] extends C ? Tagged<T> : never }[Tag]

export interface Answer<C extends Code = Code> {
  readonly status: Status
  readonly headers: Readonly<Record<string, string>>
  readonly body: ErrorBody<C>
}

/** What a refusal is answered with. */
export const answer = <R extends Refusal>(refusal: R, requestId: RequestId): Answer<CodeOf<R>> => {
  // The row of this tag takes this refusal: `rows` says so, which the compiler cannot follow through the index.
  const { code, details, headers, message }: Row<Code, R> = rows[refusal._tag] as Row<Code, R>
  const { status } = catalogue[code]
  const text = message ?? refusal.message
  const body = { code, message: text, requestId, error: reasons[status], details: details(refusal) }
  // One row gave the code and the details.
  return { status, headers: headers?.(refusal) ?? {}, body: body as ErrorBody<CodeOf<R>> }
}

/** `docs/errors.md`. */
export const errorsMarkdown = (): string =>
  [
    "# Errors",
    "",
    "A call that does not succeed is answered with one JSON object: `code` (stable), `message` (for a person), `requestId`",
    "(equal to the `X-Request-Id` header), `error` (the HTTP reason phrase) and `details` (an object; its members depend on the code).",
    "Expect further codes, and further members of `details`. This page is generated: `npm run docs`.",
    "",
    "| status | code | meaning | what to do | details |",
    "|---|---|---|---|---|",
    ...codes.map((code) => {
      const { status, meaning, remedy, details } = catalogue[code]
      const members = Object.keys(details.fields).map((name) => `\`${name}\``).join(", ")
      return `| ${status} | \`${code}\` | ${meaning} | ${remedy} | ${members === "" ? "–" : members} |`
    }),
    ""
  ].join("\n")
