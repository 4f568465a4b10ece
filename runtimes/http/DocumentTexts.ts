/** The words and examples of the published document: what the schemas cannot say. */
import type { Operation } from "../../core/operations/Access.ts"
import type { DownloadedAttachment, Message, SendMessageInput, UpdateMessageInput, UploadAttachmentInput } from "./Api.ts"

export const introduction = `Send, receive, inspect and automate mail for one tenant, server to server.

- **Authentication**: \`Authorization: Bearer <API_KEY>\`. The key decides the tenant, the application and the environment.
- **Errors**: one envelope for all, with a stable \`code\`, and \`details\` whose schema depends on it.
- **Request ids**: each response carries \`X-Request-Id\`, equal to \`requestId\` in an error. Quote it when you ask for help.
- **Limits**: per network address, per key, and per tenant and UTC day; \`RateLimit-*\` tells of the tightest. After a 429 wait
  \`Retry-After\` seconds plus random jitter.
- **Compatibility**: ignore members, event types and codes that you do not know. Request bodies are strict: a member that
  the schema does not have is refused.
- **HEAD** is allowed wherever GET is.`

export const tags: Readonly<Record<string, string>> = {
  mailboxes: "What the tenant sends from.",
  messages: "Sending, reading and flagging mail.",
  attachments: "Files, up and down.",
  events: "What happened, for consumers that were away."
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
      "Newest first. Pass `nextCursor` back as `cursor` until it is null. Nothing is lost or repeated, whatever arrives meanwhile."
  },
  sendMessage: {
    summary: "Send a message",
    description: `Queues a message. 202 means that it is durably queued, not delivered: follow it with getMessage or listEvents.

The Idempotency-Key is kept for 24 hours. A retry with an equal input answers what the first call did, with
\`Idempotent-Replayed: true\`; the order of members, white space and explicit defaults make no difference.`
  },
  getMessage: {
    summary: "Retrieve a message",
    description: "A message with its MIME structure, its recipients, and what became of each."
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
from the last cursor that was not null, and drop the ids you know. Events are kept for 30 days.`
  }
}

/** Parameters, by operation (or `*`) and name. */
export const parameters: Readonly<Record<string, string>> = {
  "*.limit": "The size of a page.",
  "*.messageId": "The message's id.",
  "*.attachmentId": "The attachment's id.",
  "*.mailboxId": "Only messages of this mailbox.",
  "*.idempotency-key": "Names this message among the application's, so that a retry does not send it twice.",
  "listMessages.cursor": "`nextCursor` of the page before. Leave it out to start at the newest message.",
  "listEvents.cursor":
    "`nextCursor` of an earlier page, or an ISO 8601 timestamp: the first event at or after it. Without it: from the oldest."
}

/** Members of the schemas, by schema and name. */
export const members: Readonly<Record<string, string>> = {
  "SendMessageInput.fromMailboxId": "The mailbox to send from; one of the tenant's.",
  "SendMessageInput.to": "Bare addresses, `local@domain`. An address that is given twice is mailed once.",
  "SendMessageInput.bcc": "Recipients that nobody else sees.",
  "SendMessageInput.subject": "One line, without control characters.",
  "SendMessageInput.text": "The plain text. At least one of `text` and `html` must be given.",
  "SendMessageInput.html": "The HTML text. At least one of `text` and `html` must be given.",
  "SendMessageInput.attachmentIds": "Uploads of the same mailbox. A message waits for scans that are pending.",
  "UpdateMessageInput.mailboxId": "The mailbox that the message is in.",
  "UploadAttachmentInput.mailboxId": "The mailbox that messages with this file will be sent from.",
  "UploadAttachmentInput.filename": "A name, not a path.",
  "UploadAttachmentInput.mediaType": "`type/subtype`, without parameters.",
  "Domain.verified": "Whether mail may be sent from it: true for `healthy` and `degraded`.",
  "Domain.health":
    "`pending`: never verified. `healthy`. `degraded`: a record drifted, and sending goes on. " +
    "`failing`: ownership or DKIM gone for over 24 hours. `suspended`: by an operator.",
  "MessageSummary.status":
    "Of an outbound message what became of its recipients: `queued`, `sent`, `delivered`, `bounced` or `failed`. " +
    "Of an inbound one `received`.",
  "MessageSummary.snippet": "The first 200 characters of the text.",
  "MessageSummary.createdAt": "To the microsecond; no two messages of a tenant share one.",
  "Message.recipients": "Each recipient once, with what became of it.",
  "Message.failure": "Why the message failed, and at which stage.",
  "Message.requestId": "The request id of the call that sent it.",
  "Attachment.messageId": "The message that used it first.",
  "Attachment.scanState": "Only `clean` downloads. `infected` is final; `error` is scanned again.",
  "Attachment.expiresAt": "When an upload that no message uses is removed.",
  "Event.data": "Metadata of the resource; its members depend on `type`: `MessageQueuedData` for `message.queued`, and so on."
}

const id = (digits: string) => `0199d6a0-7c4e-7b1a-9f3d-${digits.padStart(12, "0")}`
const exampleIds = {
  mailbox: id("a1"),
  message: id("b2"),
  attachment: id("c3"),
  event: id("d4"),
  domain: id("e5"),
  request: id("f6")
}

const summary = {
  id: exampleIds.message,
  object: "message",
  mailboxId: exampleIds.mailbox,
  direction: "outbound",
  status: "delivered",
  folder: "sent",
  isRead: true,
  isStarred: false,
  from: { address: "ada@mail.example", name: "Ada Lovelace" },
  to: [{ address: "charles@mail.example", name: "" }],
  subject: "Note G",
  snippet: "The engine weaves algebraic patterns.",
  hasAttachments: true,
  sizeBytes: 1543,
  createdAt: "2026-12-01T09:30:00.123456Z",
  updatedAt: "2026-12-01T09:30:02.000Z"
} as const

const attachment = {
  id: exampleIds.attachment,
  object: "attachment",
  mailboxId: exampleIds.mailbox,
  messageId: null,
  filename: "note-g.txt",
  mediaType: "text/plain",
  sizeBytes: 37,
  sha256: "a6de0ae9a53349b62a14c77bc66c2041d343cc42aa56a58a334560696f59b950",
  disposition: "attachment",
  contentId: null,
  scanState: "pending",
  scannedAt: null,
  createdAt: "2026-12-01T09:29:00.000Z",
  expiresAt: "2026-12-08T09:29:00.000Z"
} as const

const content = "VGhlIGVuZ2luZSB3ZWF2ZXMgYWxnZWJyYWljIHBhdHRlcm5zLg=="

const message: typeof Message.Encoded = {
  ...summary,
  cc: [],
  bcc: [],
  replyTo: [],
  internetMessageId: `<${exampleIds.message}@mail.example>`,
  inReplyTo: null,
  references: [],
  headers: [{ name: "Subject", value: "Note G" }],
  text: "The engine weaves algebraic patterns.",
  html: null,
  mime: {
    partId: "1",
    mediaType: "text/plain",
    charset: "utf-8",
    disposition: null,
    contentId: null,
    filename: null,
    sizeBytes: 37,
    attachmentId: null,
    parts: []
  },
  attachments: [],
  recipients: [
    {
      address: "charles@mail.example",
      role: "to",
      status: "delivered",
      bounceClass: null,
      smtpCode: null,
      enhancedCode: null,
      diagnostic: null,
      complainedAt: null,
      updatedAt: "2026-12-01T09:30:02.000Z"
    }
  ],
  failure: null,
  authentication: null,
  sentAt: "2026-12-01T09:30:01.000Z",
  requestId: exampleIds.request
}

const send: typeof SendMessageInput.Encoded = {
  fromMailboxId: exampleIds.mailbox,
  to: ["charles@mail.example"],
  subject: "Note G",
  text: "The engine weaves algebraic patterns.",
  attachmentIds: [exampleIds.attachment]
}
const update: typeof UpdateMessageInput.Encoded = { mailboxId: exampleIds.mailbox, isRead: true, folder: "archive" }
const upload: typeof UploadAttachmentInput.Encoded = {
  mailboxId: exampleIds.mailbox,
  filename: "note-g.txt",
  mediaType: "text/plain",
  contentBase64: content
}
const download: typeof DownloadedAttachment.Encoded = {
  filename: "note-g.txt",
  mediaType: "text/plain",
  contentBase64: content
}

export const requestExamples: Readonly<Partial<Record<Operation, unknown>>> = {
  sendMessage: send,
  updateMessage: update,
  uploadAttachment: upload
}

export const responseExamples: Readonly<Record<Operation, unknown>> = {
  listMailboxes: { items: [{ id: exampleIds.mailbox, address: "ada@mail.example", displayName: "Ada Lovelace" }] },
  listDomains: {
    items: [{ id: exampleIds.domain, domain: "mail.example", verified: true, health: "healthy", mailboxCount: 1 }]
  },
  listMessages: { items: [summary], nextCursor: summary.createdAt },
  sendMessage: { id: exampleIds.message, object: "message", status: "queued" },
  getMessage: { message },
  updateMessage: { id: exampleIds.message, updated: true },
  uploadAttachment: { attachment },
  downloadAttachment: download,
  listEvents: {
    items: [
      {
        id: exampleIds.event,
        type: "message.delivered",
        resourceType: "message",
        resourceId: exampleIds.message,
        data: {
          object: "message",
          id: exampleIds.message,
          sequence: 3,
          mailboxId: exampleIds.mailbox,
          recipient: "charles@mail.example",
          smtpResponse: "250 2.0.0 OK",
          deliveredAt: "2026-12-01T09:30:02.000Z",
          messageStatus: "delivered"
        },
        occurredAt: "2026-12-01T09:30:02.000Z"
      }
    ],
    nextCursor: null
  }
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
