/**
 * What answers look like (Spec 2 and 7, with what was decided beyond), as the
 * suite states it for itself: the house's own schemas are what is on trial.
 * `closed` objects have no further members; `open` ones may.
 */
import { Schema } from "effect"

/** Read with excess properties refused: that closes them. */
const closed = Schema.Struct
/** For more than this suite's own shapes. */
export const open = <const F extends Schema.Struct.Fields>(fields: F) =>
  Schema.StructWithRest(Schema.Struct(fields), [Schema.Record(Schema.String, Schema.Unknown)])

export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const Uuid = Schema.String.check(Schema.isPattern(uuidPattern, { expected: "a UUID" }))
/** Wherever one stands in a text. */
export const uuidIn = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi
export const dateTimePattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/
export const Time = Schema.String.check(Schema.isPattern(dateTimePattern, { expected: "an ISO 8601 date-time" }))
const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
export const Text = Schema.String
const text = Schema.NullOr(Text)
const timeOrNull = Schema.NullOr(Time)
const party = open({ address: Schema.String, name: Schema.String })

/** The envelope of section 7. `requestId`, `error` and `details` may be left out by the specification; this service has them always. */
export const ErrorBody = closed({
  code: Schema.NonEmptyString,
  message: Schema.NonEmptyString,
  requestId: Uuid,
  error: Schema.optionalKey(Schema.String),
  details: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
})

export const Mailbox = closed({ id: Uuid, address: Schema.String, displayName: Schema.String })
export const Mailboxes = open({ items: Schema.Array(Mailbox) })

export const Domain = closed({
  id: Uuid,
  domain: Schema.String,
  verified: Schema.Boolean,
  health: Schema.Literals(["pending", "healthy", "degraded", "failing", "suspended"]),
  mailboxCount: count
})
export const Domains = open({ items: Schema.Array(Domain) })

const status = Schema.Literals(["queued", "sent", "delivered", "bounced", "failed"])
const folder = Schema.Literals(["inbox", "sent", "archive", "spam", "trash"])

const summary = {
  id: Uuid,
  object: Schema.Literal("message"),
  mailboxId: Uuid,
  direction: Schema.Literals(["inbound", "outbound"]),
  status: Schema.Union([status, Schema.Literal("received")]),
  folder,
  isRead: Schema.Boolean,
  isStarred: Schema.Boolean,
  from: party,
  to: Schema.Array(party),
  subject: Schema.String,
  snippet: Schema.String,
  hasAttachments: Schema.Boolean,
  sizeBytes: count,
  createdAt: Time,
  updatedAt: Time
}
export const MessagePage = open({ items: Schema.Array(open(summary)), nextCursor: timeOrNull })

/** A part of a message's MIME structure, and the parts in it. */
export interface MimePart {
  readonly partId: string
  readonly mediaType: string
  readonly charset: string | null
  readonly disposition: string | null
  readonly contentId: string | null
  readonly filename: string | null
  readonly sizeBytes: number
  readonly attachmentId: string | null
  readonly parts: ReadonlyArray<MimePart>
}
const MimePart: Schema.Codec<MimePart> = Schema.Struct({
  partId: Schema.String,
  mediaType: Schema.String,
  charset: text,
  disposition: text,
  contentId: text,
  filename: text,
  sizeBytes: count,
  attachmentId: Schema.NullOr(Uuid),
  parts: Schema.Array(Schema.suspend((): Schema.Codec<MimePart> => MimePart))
})

export const Attachment = open({
  id: Uuid,
  object: Schema.Literal("attachment"),
  mailboxId: Uuid,
  messageId: Schema.NullOr(Uuid),
  filename: Schema.String,
  mediaType: Schema.String,
  sizeBytes: count,
  sha256: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/, { expected: "64 lower-case hex digits" })),
  disposition: Schema.Literals(["attachment", "inline"]),
  contentId: text,
  scanState: Schema.Literals(["pending", "clean", "infected", "error"]),
  scannedAt: timeOrNull,
  createdAt: Time,
  expiresAt: timeOrNull
})
export const Uploaded = open({ attachment: Attachment })
export const Downloaded = open({ filename: Schema.String, mediaType: Schema.String, contentBase64: Schema.String })

export const Recipient = open({
  address: Schema.String,
  role: Schema.Literals(["to", "cc", "bcc"]),
  status,
  bounceClass: Schema.NullOr(Schema.Literals(["permanent", "transient", "undetermined", "suppressed"])),
  smtpCode: Schema.NullOr(Schema.Int),
  enhancedCode: text,
  diagnostic: text,
  updatedAt: Time
})

export const Message = open({
  ...summary,
  cc: Schema.Array(party),
  bcc: Schema.Array(party),
  replyTo: Schema.Array(party),
  internetMessageId: Schema.String,
  inReplyTo: text,
  references: Schema.Array(Schema.String),
  headers: Schema.Array(open({ name: Schema.String, value: Schema.String })),
  text,
  html: text,
  mime: MimePart,
  attachments: Schema.Array(Attachment),
  recipients: Schema.Array(Recipient),
  failure: Schema.NullOr(open({ stage: Schema.String, code: Schema.String, message: Schema.String })),
  authentication: Schema.NullOr(open({})),
  sentAt: timeOrNull,
  requestId: Schema.String
})
export const Got = open({ message: Message })

export const QueuedMessage = closed({ id: Uuid, object: Schema.Literal("message"), status: Schema.Literal("queued") })
export const Updated = closed({ id: Uuid, updated: Schema.Literal(true) })

export const Event = closed({
  id: Uuid,
  type: Schema.String,
  resourceType: Schema.String,
  resourceId: Uuid,
  data: open({ object: Schema.String, id: Uuid }),
  occurredAt: Time
})
export type Event = typeof Event.Type
export const EventPage = open({
  items: Schema.Array(Event),
  nextCursor: Schema.NullOr(
    Schema.String.check(Schema.isBetweenCodePoints(1, 512, { expected: "a cursor of 1 to 512 characters" }))
  )
})

export const WebhookEndpoint = closed({
  id: Uuid,
  appId: Uuid,
  url: Schema.String,
  description: Schema.optionalKey(text),
  eventTypes: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  consecutiveFailures: count,
  disabledAt: timeOrNull,
  createdAt: Time
})
export const WebhookEndpoints = open({ items: Schema.Array(WebhookEndpoint) })
export const CreatedEndpoint = open({
  endpoint: WebhookEndpoint,
  secret: Schema.String.check(Schema.isPattern(/^whsec_\S+$/, { expected: "a whsec_… secret" }))
})

export const WebhookDelivery = open({
  id: Uuid,
  object: Schema.Literal("webhook_delivery"),
  endpointId: Uuid,
  eventId: Uuid,
  eventType: Schema.String,
  status: Schema.Literals(["pending", "delivered", "dead"]),
  trigger: Schema.Literals(["event", "replay", "test"]),
  demo: Schema.Boolean,
  attemptCount: count,
  maxAttempts: Schema.Literal(5),
  nextAttemptAt: timeOrNull,
  lastAttemptAt: timeOrNull,
  lastResponseStatus: Schema.NullOr(Schema.Int),
  lastError: text,
  createdAt: Time,
  deliveredAt: timeOrNull,
  deadAt: timeOrNull,
  attempts: Schema.Array(
    open({
      number: Schema.Int,
      round: Schema.Int,
      startedAt: Time,
      durationMs: Schema.Finite,
      outcome: Schema.Literals(["success", "timeout", "unsafe_url", "redirect", "network_error", "http_error"]),
      responseStatus: Schema.NullOr(Schema.Int)
    })
  )
})
export const WebhookDeliveries = open({ items: Schema.Array(WebhookDelivery) })
export const Replayed = open({ delivery: WebhookDelivery })

/** The body of a webhook. It may gain members: receivers ignore what they do not know. */
export const WebhookBody = open({
  id: Uuid,
  type: Schema.String,
  apiVersion: Schema.String,
  occurredAt: Time,
  data: open({})
})
