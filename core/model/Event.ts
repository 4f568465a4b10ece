/**
 * Canonical events (Spec 6): one per committed transition that has a type,
 * appended to the tenant's log in the same commit. `data` is metadata only and
 * has a published schema per type; receivers ignore fields they do not know.
 */
import { Schema } from "effect"
import { AttachmentId, EventId, MailboxId, Uuid, type ApplicationId, type Environment, type Millis, type TenantId } from "./Ids.ts"
import { eventDataBytesMax } from "./Limits.ts"
import { Health } from "./MailDomain.ts"
import { Folder, Status, utf8Length, type Message } from "./Message.ts"
import { BounceClass, FailureStage } from "./Recipient.ts"
import * as Timestamp from "./Timestamp.ts"

const address = Schema.String
const dateTime = Schema.String.annotate({ format: "date-time" })
const text = Schema.NullOr(Schema.String)

const common = (object: "message" | "mailbox" | "domain") => ({
  object: Schema.Literal(object),
  id: Uuid,
  /** Rises by one per event of the resource. */
  sequence: Schema.Int,
  /** True for a synthetic event, sent to one application only. */
  demo: Schema.optionalKey(Schema.Boolean),
  /** True when texts or lists were cut to keep the event small; the resource has them whole. */
  truncated: Schema.optionalKey(Schema.Boolean)
})

const failure = Schema.Struct({
  stage: FailureStage,
  code: Schema.String,
  message: Schema.String
})

const mailbox = Schema.Struct({
  ...common("mailbox"),
  address,
  displayName: Schema.String,
  status: Schema.Literals(["active", "suspended"]),
  reason: text
})

/** The schema of `data` for each type that can be subscribed. */
export const data = {
  "message.queued": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    from: address,
    to: Schema.Array(address),
    cc: Schema.Array(address),
    subject: Schema.String,
    attachmentIds: Schema.Array(AttachmentId),
    requestId: Schema.String
  }),
  "message.sent": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    internetMessageId: Schema.String,
    provider: Schema.String,
    providerMessageId: Schema.String,
    recipients: Schema.Array(address),
    sentAt: dateTime
  }),
  "message.delivered": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    recipient: address,
    smtpResponse: text,
    deliveredAt: dateTime,
    messageStatus: Status
  }),
  "message.bounced": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    recipient: address,
    bounce: Schema.Struct({
      class: BounceClass,
      smtpCode: Schema.NullOr(Schema.Int),
      enhancedCode: text,
      diagnostic: text
    }),
    messageStatus: Status
  }),
  "message.failed": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    recipient: Schema.NullOr(address),
    failure,
    messageStatus: Status
  }),
  "message.received": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    internetMessageId: text,
    from: address,
    to: Schema.Array(address),
    subject: Schema.String,
    receivedAt: dateTime,
    folder: Folder,
    attachments: Schema.Array(AttachmentId),
    authentication: Schema.NullOr(Schema.Struct({ spf: text, dkim: text, dmarc: text })),
    sizeBytes: Schema.Int
  }),
  "message.updated": Schema.Struct({
    ...common("message"),
    mailboxId: MailboxId,
    isRead: Schema.Boolean,
    isStarred: Schema.Boolean,
    folder: Folder,
    changed: Schema.Array(Schema.Literals(["isRead", "isStarred", "folder"])),
    actor: Schema.Struct({ type: Schema.String, id: Schema.String })
  }),
  "mailbox.created": mailbox,
  "mailbox.updated": mailbox,
  "mailbox.suspended": mailbox,
  "domain.health_changed": Schema.Struct({
    ...common("domain"),
    domain: Schema.String,
    verified: Schema.Boolean,
    health: Health,
    previousHealth: Health,
    reasons: Schema.Array(
      Schema.Struct({ record: Schema.String, state: Schema.String, expected: Schema.String, observed: text })
    )
  })
} as const

/** What can be subscribed, and stands in the log. */
export type Type = keyof typeof data
export const types = Object.keys(data) as ReadonlyArray<Type> // the keys of the literal above

/** Sent only while an endpoint is created, and never part of the log. */
export const verificationType = "webhook.endpoint_verification"

/** `data` of one type. */
export type Data<T extends Type> = (typeof data)[T]["Type"]

/** An event as a commit appends it. */
export interface Event<T extends Type = Type> {
  readonly id: EventId
  readonly tenantId: TenantId
  /** Null: of the tenant as a whole, seen from both environments (`mailbox.*`, `domain.*`). */
  readonly environment: Environment | null
  /** Null: every application. A sandbox test event has one. */
  readonly audience: ApplicationId | null
  readonly type: T
  readonly resourceType: "message" | "mailbox" | "domain"
  readonly resourceId: string
  readonly data: Data<T>
  readonly occurredAt: Millis
}

/** An event with its position in the log of its shard: these rise by one, in commit order. */
export interface LoggedEvent extends Event {
  readonly shard: number
  readonly position: bigint
}

/** A page of the log, as one moment has it. */
export interface LogPage {
  readonly events: ReadonlyArray<LoggedEvent>
  /**
   * What is known of the place at which it begins.
   * - `cut`: some of what was behind it was forgotten, of whichever tenant of the shard: a later position, or an event whose
   *   `occurredAt` is the time of that place or later. A store may not know of what it forgot before it kept count.
   * - `unknown`: no event of the tenant's is at its position, or one of another time, and it was not forgotten: the log went on
   *   otherwise from an earlier place, as that of a backup does, or of a standby that was behind.
   * - `whole`: neither. So is a page that begins with the oldest.
   */
  readonly beginning: "whole" | "cut" | "unknown"
}

/** What a type's `data` holds beyond the members that all types of a resource share. */
export type Fields<T extends Type> = Omit<Data<T>, "object" | "id" | "sequence" | "demo" | "truncated" | "mailboxId">

type MessageType = Extract<Type, `message.${string}`>

/** An event about a message; `sequence` is the next of the message's. */
export const ofMessage = <T extends MessageType>(
  message: Pick<Message, "id" | "tenantId" | "environment" | "mailboxId">,
  sequence: number,
  type: T,
  id: EventId,
  occurredAt: Millis,
  fields: Fields<T>
): Event<T> => ({
  id,
  tenantId: message.tenantId,
  environment: message.environment,
  audience: null,
  type,
  resourceType: "message",
  resourceId: message.id,
  // The compiler cannot see that Fields<T> and the shared members make up Data<T>; Event.test.ts does.
  data: fit({ object: "message", id: message.id, sequence, mailboxId: message.mailboxId, ...fields }) as unknown as Data<T>,
  occurredAt
})

/** Characters kept of what another server said, in an event that would be too large, and in one that still is. */
const foreignTextLengths = [1_000, 100]

/** What of an event's data was said by others and may be cut. */
const foreign = ["diagnostic", "message", "smtpResponse", "observed", "expected"]

/** With no more than that of what others said. */
const shortened = (data: Readonly<Record<string, unknown>>, length: number): Record<string, unknown> => {
  const cut = (name: string, value: unknown): unknown =>
    foreign.includes(name) && typeof value === "string" ? Array.from(value).slice(0, length).join("") : value
  return JSON.parse(JSON.stringify(data, cut)) as Record<string, unknown> // still an object
}

/** Keeps `data` within its size: cuts what another server said, then leaves addresses and files out, the least telling first. */
export const fit = (data: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> => {
  const excessOf = (value: unknown) => utf8Length(JSON.stringify(value)) - eventDataBytesMax
  if (excessOf(data) <= 0) return data
  let fitting: Record<string, unknown> = { ...data, truncated: true }
  for (const length of foreignTextLengths) if (excessOf(fitting) > 0) fitting = shortened(fitting, length)
  let excess = excessOf(fitting)
  for (const name of ["cc", "to", "recipients", "attachments", "reasons"]) {
    const listed = fitting[name]
    if (!Array.isArray(listed)) continue
    while (excess > 0 && listed.length > 0) {
      const comma = listed.length > 1 ? 1 : 0
      excess -= utf8Length(JSON.stringify(listed.pop())) + comma
    }
  }
  return fitting
}

/** An event as the API shows it. */
export const view = (event: Event): typeof View.Type => ({
  id: event.id,
  type: event.type,
  resourceType: event.resourceType,
  resourceId: event.resourceId,
  data: { ...event.data },
  occurredAt: Timestamp.fromMillis(event.occurredAt)
})

/** The Event resource (Spec 2; closed). */
export const View = Schema.Struct({
  id: EventId,
  type: Schema.String,
  resourceType: Schema.String,
  resourceId: Uuid,
  data: Schema.Record(Schema.String, Schema.Json),
  occurredAt: dateTime
})
