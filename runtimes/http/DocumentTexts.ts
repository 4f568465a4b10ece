/** The words of the published document: what the schemas cannot say. */
import type { Operation } from "../../core/operations/Access.ts"
import { exampleIds } from "./DocumentExamples.ts"

export const introduction = `Send, receive, inspect and automate mail for one tenant, server to server.

- **Authentication**: \`Authorization: Bearer <API_KEY>\`. The key decides the tenant, the application and the environment.
- **Errors**: one envelope for all, with a stable \`code\`, and \`details\` whose schema depends on it.
- **Request ids**: each response carries \`X-Request-Id\`, equal to \`requestId\` in an error. Quote it when you ask for help.
- **Limits**: per network address, per key, and per tenant and UTC day; \`RateLimit-*\` tells of the tightest. After a 429 wait
  \`Retry-After\` seconds plus random jitter.
- **Compatibility**: ignore members, event types and codes that you do not know; the values that are listed for a member of
  an answer are those of today, and may come to be more. Request bodies are strict: a member that the schema does not have
  is refused. Of a query, a parameter that is not documented is passed over: look at its spelling. Answers whose schemas
  have \`additionalProperties: false\` are those of today: validate them without it.
- **HEAD** is allowed wherever GET is.`

export const tags: Readonly<Record<string, string>> = {
  mailboxes: "What the tenant sends from.",
  messages: "Sending, reading and flagging mail.",
  attachments: "Files, up and down.",
  events: "What happened, for consumers that were away.",
  webhooks: "What happened, posted to you as it happens, and the state of each delivery."
}

export const operations: Readonly<Record<Operation, { readonly summary: string; readonly description: string }>> = {
  listMailboxes: { summary: "List mailboxes", description: "The mailboxes that the tenant can send from, by address." },
  listDomains: {
    summary: "List domains",
    description: "The tenant's mail domains, by name, each with its delivery health."
  },
  listMessages: {
    summary: "List messages",
    description:
      "Newest first. Pass `nextCursor` back as `cursor` until it is null. Nothing is lost or repeated, whatever arrives meanwhile. A cursor is a time to the microsecond: hand it back as it came, for what makes a `Date` of it may cut it to the millisecond, and lose messages that share it."
  },
  sendMessage: {
    summary: "Send a message",
    description: `Queues a message. 202 means that it is durably queued, not delivered: follow it with getMessage or listEvents.

The Idempotency-Key is kept for 24 hours. A retry with an equal input answers what the first call did, with
\`Idempotent-Replayed: true\`; the order of members, white space and explicit defaults make no difference.`
  },
  getMessage: {
    summary: "Retrieve a message",
    description: `A message with its MIME structure, its recipients, and what became of each. Messages are kept for good, unless the
operator of the server has set a time: one that is past it is not found. An attachment goes with the last message that used it.`
  },
  updateMessage: {
    summary: "Update a message",
    description: "Changes the flags or the folder of a message in the given mailbox, and emits `message.updated`."
  },
  uploadAttachment: {
    summary: "Upload an attachment",
    description: `Stores a file for later messages from the same mailbox. It is scanned at once, and can be downloaded once its
\`scanState\` is \`clean\`. An upload that no message uses is removed after 7 days.`
  },
  downloadAttachment: { summary: "Download an attachment", description: "The file in Base64, if its scan is clean." },
  listEvents: {
    summary: "List events",
    description: `Oldest first, in commit order. Store \`nextCursor\` once the page is processed, and go on until it is null; later resume
from the last cursor that was not null, and drop the ids you know. Events are kept for 30 days, unless the operator of the
server has set another time; a cursor that is older is refused as \`expired\`: begin again without one.`
  },
  listWebhookEndpoints: {
    summary: "List webhook endpoints",
    description:
      "The endpoints of the key's application, oldest first, the disabled ones too. Their secrets are not shown."
  },
  createWebhookEndpoint: {
    summary: "Create a webhook endpoint",
    description: `Verifies a receiver, and posts to it from then on. Before anything is stored, the URL gets one request of
type \`webhook.endpoint_verification\`, and must answer it within 5 seconds with 2xx and its challenge; so this call lasts as
long as the receiver takes. Whatever is refused leaves nothing.

\`secret\` signs the deliveries and is shown this once. At a time, 5 verifications of an application and 1 to a host may
run in each process of the server.`
  },
  listWebhookDeliveries: {
    summary: "List webhook deliveries",
    description: `The latest deliveries to the endpoints of the key's application, newest first, each with its attempts.
There is no page behind: what happened earlier is in listEvents.`
  },
  replayWebhookDelivery: {
    summary: "Replay a webhook delivery",
    description: `Makes a dead or delivered delivery pending again, with a new round of five attempts, the same event id and the
same body; what was attempted before stays listed. A pending one stays as it is. The request has no body.`
  }
}

/** What an endpoint gets. */
export const webhooks = {
  event: {
    summary: "An event",
    description: `Posted to each enabled endpoint that subscribes to its type, with \`Content-Type: application/json\` and
\`User-Agent: Service-Webhooks/1.0\`. It comes at least once, and in no order.

Verify before you parse: \`Service-Webhook-Signature\` is \`v1=\` and HMAC-SHA256, in lower-case hex, of the id, a dot, the
timestamp, a dot and the body as it came, under the UTF-8 bytes of the whole \`whsec_…\` secret. Compare in constant time,
and refuse a timestamp that is more than 300 seconds from your clock.

There is one signature, by one secret. While the operator replaces an endpoint's secret, the old one signs until a time that
was told with the new one, and the new one from then on, attempts and replays of earlier events too: take both meanwhile.

Then store the id under a unique constraint, and answer 2xx once the event is safe. Let types and members that you do not
know pass.`
  },
  endpointVerification: {
    summary: "The verification of a new endpoint",
    description: `Posted once to the URL that createWebhookEndpoint is given, before there is an endpoint. It is not signed,
for the secret is shown only after it.`
  }
} as const

export const webhookHeaders = {
  "Service-Webhook-Id": {
    description: "The event's id, the same in each attempt and replay. Take each id once.",
    example: exampleIds.event
  },
  "Service-Webhook-Timestamp": { description: "When this attempt was signed, in Unix seconds.", example: 1_796_117_402 },
  "Service-Webhook-Signature": {
    description: "`v1=` and the HMAC-SHA256 of `<id>.<timestamp>.<body>` in 64 lower-case hex digits.",
    example: `v1=${"6f3c".repeat(16)}`
  }
} as const

/** What we make of the answers. */
export const webhookAnswers = {
  event: {
    "2XX": { description: "Delivered. The body is not looked at." },
    default: {
      description: `Anything else, a redirect too, or no answer within 5 seconds: a failed attempt. It is tried again after 1
and 10 minutes and 1 and 6 hours, unless an operator has set other times, or later if \`Retry-After\` says so, up to an hour; then the delivery is dead, and can be
replayed. Ten failed attempts in a row disable the endpoint.`
    }
  },
  endpointVerification: {
    "2XX": { description: "The challenge, as it came." },
    default: { description: "Anything else, a redirect too, or no answer within 5 seconds: the endpoint is not created." }
  }
} as const

/** Parameters, by operation (or `*`) and name. */
export const parameters: Readonly<Record<string, string>> = {
  "*.limit": "The size of a page.",
  "*.messageId": "The message's id.",
  "*.attachmentId": "The attachment's id.",
  "*.mailboxId": "Only messages of this mailbox.",
  "*.endpointId": "Only deliveries to this endpoint.",
  "*.deliveryId": "The delivery's id.",
  "*.idempotency-key": "Names this message among the application's, so that a retry does not send it twice.",
  "listMessages.cursor": "`nextCursor` of the page before. Leave it out to start at the newest message.",
  "listEvents.cursor":
    "`nextCursor` of an earlier page, or an ISO 8601 timestamp: the first event at or after it. Without it: from the oldest."
}

/** Members of the schemas, by schema and name. */
export const members: Readonly<Record<string, string>> = {
  "SendMessageInput.fromMailboxId": "The mailbox to send from; one of the tenant's.",
  "SendMessageInput.to": "Bare addresses, `local@domain`. An address that is given twice is mailed once.",
  "SendMessageInput.cc": "None if it is missing.",
  "SendMessageInput.bcc": "Recipients that nobody else sees. None if it is missing.",
  "SendMessageInput.subject": "One line, without control characters. Empty if it is missing.",
  "SendMessageInput.text": "The plain text, without NUL and halves of characters; null is as missing. At least one of `text` and `html` must be given.",
  "SendMessageInput.html": "The HTML text, without NUL and halves of characters; null is as missing. At least one of `text` and `html` must be given.",
  "SendMessageInput.attachmentIds": "Uploads of the same mailbox; none if it is missing. A message waits for scans that are pending.",
  "UpdateMessageInput.mailboxId": "The mailbox that the message is in.",
  "UploadAttachmentInput.mailboxId": "The mailbox that messages with this file will be sent from.",
  "UploadAttachmentInput.filename": "A name, not a path: without `/`, `\\`, control characters and what turns the writing direction, and more than white space.",
  "UploadAttachmentInput.mediaType": "`type/subtype`, with parameters if there are some, as in `text/calendar; method=REQUEST`; `filename` is its name. Not `multipart/*` or `message/*`, which may not be encoded as a file must be: attach a mail as `application/octet-stream`.",
  "Domain.verified": "Whether mail may be sent from it: true for `healthy` and `degraded`.",
  "Domain.health":
    "`pending`: never verified. `healthy`. `degraded`: a record drifted, and sending goes on. " +
    "`failing`: ownership or DKIM gone for over 24 hours. `suspended`: by an operator.",
  "MessageSummary.status":
    "Of an outbound message what became of its recipients: `queued`, `sent`, `delivered`, `bounced` or `failed`. " +
    "Of an inbound one `received`.",
  "MessageSummary.snippet": "The first 200 characters of the text, or of the HTML's where there is none; white space as single spaces.",
  "MessageSummary.sizeBytes": "Of the message as mail, once it is made; before that, of its text, HTML and files.",
  "MessageSummary.createdAt": "To the microsecond; no two messages of a tenant share one.",
  "Message.recipients":
    "Each recipient once, with what became of it. `smtpCode` and `diagnostic` are those of its end, and while it is queued of the last try.",
  "Message.headers":
    "In their order. Of a message that came in as they came, but on one line each and with encoded words decoded (RFC 2047); " +
    "addresses are spelled `\"Name\" <address>` or `address`, without comments, unless readers could disagree about whom they name. " +
    "Of one that is sent those that say what it is, without those of its form, such as `Content-Type`.",
  "Message.nextAttemptAt": "When it is tried next, while a recipient is queued.",
  "Message.defects": "What was wrong with the bytes of a message that came in, such as `missing_date`. It was read all the same.",
  "Message.failure": "Why the message failed, and at which stage.",
  "Message.requestId": "The request id of the call that sent it; of a message that came in, the id in the `Received` field that it got here.",
  "Attachment.mediaType": "`type/subtype`, with the parameters that say what is in it, as in `text/calendar; method=REQUEST`.",
  "Attachment.messageId": "The message that used it first.",
  "Attachment.scanState": "Only `clean` downloads. `infected` is final; `error` is scanned again.",
  "Attachment.expiresAt": "When an upload that no message uses is removed.",
  "Event.data": "Metadata of the resource; its members depend on `type`: `MessageQueuedData` for `message.queued`, and so on.",
  "WebhookEndpoint.appId": "The application whose endpoint it is: its keys list it, and its deliveries.",
  "WebhookEndpoint.url": "As it is called.",
  "WebhookEndpoint.eventTypes": "The types it subscribes to; `*` stands for all, also those to come.",
  "WebhookEndpoint.enabled":
    "Whether it gets events. Ten failed attempts in a row disable it; an operator can enable it again.",
  "WebhookEndpoint.consecutiveFailures": "Failed attempts since the last success.",
  "WebhookDelivery.eventId": "The event's id in listEvents, and `Service-Webhook-Id` of each request.",
  "WebhookDelivery.status":
    "`pending`: an attempt is due or under way. `delivered`. `dead`: given up. The last two can be replayed.",
  "WebhookDelivery.trigger": "What made it: the event, a replay, or a test event from the dashboard.",
  "WebhookDelivery.demo": "True for a synthetic event.",
  "WebhookDelivery.nextAttemptAt": "When the next attempt is due, while it is pending.",
  "WebhookDelivery.lastError":
    "Why it is not delivered: the outcome of the last attempt, `endpoint_disabled`, or `internal_error`; null if nothing is wrong.",
  "WebhookDelivery.attempts": "Oldest first. A replay begins a new round and erases none.",
  "CreateWebhookEndpointInput.url":
    "https, of a public host, on port 443, or on one from 1024 up that is not known for another service; without user name, password and fragment.",
  "CreateWebhookEndpointInput.description": "A note for people, without NUL and halves of characters; null if it is missing.",
  "CreateWebhookEndpointInput.eventTypes":
    "The types to subscribe to, or `*` for all, also those to come. Repeats count once.",
  "WebhookPayload.id": "The event's id. Take each once.",
  "WebhookPayload.type": "Expect types that you do not know.",
  "WebhookPayload.apiVersion": "The same for as long as the endpoint exists.",
  "WebhookPayload.data": "As in listEvents.",
  "WebhookVerification.id": "Names this request, and no event.",
  "WebhookVerification.data": "What is to come back."
}

interface Header {
  readonly description: string
  readonly schema: object
  readonly example: string | number
}

export const headers: Readonly<Record<string, Header>> = {
  "X-Request-Id": {
    description: "Names this call in our logs. Always ours, whatever the request carried.",
    schema: { type: "string", format: "uuid" },
    example: exampleIds.request
  },
  "RateLimit-Limit": {
    description: "The limit of the tightest guard: the one with the fewest requests left.",
    schema: { type: "integer", minimum: 0 },
    example: 60
  },
  "RateLimit-Remaining": {
    description: "How many requests it would accept now.",
    schema: { type: "integer", minimum: 0 },
    example: 59
  },
  "RateLimit-Reset": {
    description: "Seconds until its counter is at its start again, or, when it refused, until it accepts one more.",
    schema: { type: "integer", minimum: 0 },
    example: 60
  },
  "Cache-Control": {
    description: "Answers are not for caches.",
    schema: { type: "string", const: "no-store" },
    example: "no-store"
  },
  "X-Content-Type-Options": {
    description: "The media type is as stated.",
    schema: { type: "string", const: "nosniff" },
    example: "nosniff"
  },
  "Retry-After": {
    description: "Seconds to wait before another try. Add random jitter.",
    schema: { type: "integer", minimum: 1 },
    example: 5
  },
  Allow: { description: "The methods of this path.", schema: { type: "string" }, example: "GET, HEAD, POST" },
  "WWW-Authenticate": {
    description: "How to authenticate.",
    schema: { type: "string", const: "Bearer" },
    example: "Bearer"
  },
  "Idempotent-Replayed": {
    description: "Present when an earlier request with this Idempotency-Key had sent the message.",
    schema: { type: "string", const: "true" },
    example: "true"
  }
}
