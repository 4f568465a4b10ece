/** The examples of the published document. They are about one message, and fit together. */
import { verificationType } from "../../core/model/Event.ts"
import { apiVersion } from "../../core/model/Webhook.ts"
import type { Operation } from "../../core/operations/Access.ts"
import type {
  CreateWebhookEndpointInput,
  DownloadedAttachment,
  Message,
  SendMessageInput,
  UpdateMessageInput,
  UploadAttachmentInput,
  WebhookDelivery,
  WebhookEndpoint
} from "./Api.ts"

const id = (digits: string) => `0199d6a0-7c4e-7b1a-9f3d-${digits.padStart(12, "0")}`
export const exampleIds = {
  mailbox: id("a1"),
  message: id("b2"),
  attachment: id("c3"),
  event: id("d4"),
  domain: id("e5"),
  request: id("f6"),
  endpoint: id("a7"),
  delivery: id("b8"),
  application: id("c9"),
  verification: id("d0")
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
  defects: [],
  receivedAt: null,
  sentAt: "2026-12-01T09:30:01.000Z",
  nextAttemptAt: null,
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

const create: typeof CreateWebhookEndpointInput.Encoded = {
  url: "https://hooks.example.com/mailroom",
  description: "Billing",
  eventTypes: ["message.delivered", "message.bounced"]
}
const event = {
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
const endpoint: typeof WebhookEndpoint.Encoded = {
  ...create,
  id: exampleIds.endpoint,
  appId: exampleIds.application,
  description: "Billing",
  enabled: true,
  consecutiveFailures: 0,
  disabledAt: null,
  createdAt: "2026-12-01T09:00:00.000Z"
}
const delivery: typeof WebhookDelivery.Encoded = {
  id: exampleIds.delivery,
  object: "webhook_delivery",
  endpointId: exampleIds.endpoint,
  eventId: exampleIds.event,
  eventType: "message.delivered",
  status: "delivered",
  trigger: "event",
  demo: false,
  attemptCount: 1,
  maxAttempts: 5,
  nextAttemptAt: null,
  lastAttemptAt: "2026-12-01T09:30:02.100Z",
  lastResponseStatus: 204,
  lastError: null,
  createdAt: "2026-12-01T09:30:02.050Z",
  deliveredAt: "2026-12-01T09:30:02.300Z",
  deadAt: null,
  attempts: [
    {
      number: 1,
      round: 1,
      startedAt: "2026-12-01T09:30:02.100Z",
      durationMs: 200,
      outcome: "success",
      responseStatus: 204
    }
  ]
}

export const requests: Readonly<Partial<Record<Operation, unknown>>> = {
  sendMessage: send,
  updateMessage: update,
  uploadAttachment: upload,
  createWebhookEndpoint: create
}

export const responses: Readonly<Record<Operation, unknown>> = {
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
  listEvents: { items: [event], nextCursor: null },
  listWebhookEndpoints: { items: [endpoint] },
  createWebhookEndpoint: { endpoint, secret: `whsec_${"1d7a93c4e0b25f68".repeat(4)}` },
  listWebhookDeliveries: { items: [delivery] },
  replayWebhookDelivery: {
    delivery: {
      ...delivery,
      status: "pending",
      trigger: "replay",
      attemptCount: 0,
      nextAttemptAt: "2026-12-01T10:00:00.000Z",
      deliveredAt: null
    }
  }
}

/** A delivery's body. */
export const webhook = {
  id: event.id,
  type: event.type,
  apiVersion,
  occurredAt: event.occurredAt,
  data: event.data
}

/** A handshake's body. */
export const verification = {
  id: exampleIds.verification,
  type: verificationType,
  apiVersion,
  occurredAt: "2026-12-01T09:00:00.000Z",
  data: { challenge: "9b1f4c02d7e86a35".repeat(4) }
}
