/** Made-up `data` of each type, for test events: whole, plausible, and naming nobody (Spec 6, Sandbox test events). */
import type { Data, Event, Type } from "./Event.ts"
import type { ApplicationId, EventId, MailboxId, MessageId, Millis, TenantId } from "./Ids.ts"
import * as Timestamp from "./Timestamp.ts"

export interface SampleIds {
  readonly event: EventId
  /** Of the resource that the event is about; it names nothing. */
  readonly resource: MessageId
  readonly mailbox: MailboxId
}

/** A synthetic event with `demo: true`, for one application only. */
export const make = <T extends Type>(
  type: T,
  of: { readonly tenantId: TenantId; readonly applicationId: ApplicationId },
  ids: SampleIds,
  at: Millis
): Event<T> => {
  const resourceType = type.slice(0, type.indexOf(".")) as Event["resourceType"] // types are named after their resource
  const fields = samples(ids, at)[type]
  return {
    id: ids.event,
    tenantId: of.tenantId,
    environment: "sandbox",
    audience: of.applicationId,
    type,
    resourceType,
    resourceId: ids.resource,
    // Event.test.ts decodes each sample by its type's schema.
    data: { object: resourceType, id: ids.resource, sequence: 1, demo: true, ...fields } as unknown as Data<T>,
    occurredAt: at
  }
}

const samples = ({ mailbox: mailboxId, resource }: SampleIds, now: Millis) => {
  const at = Timestamp.fromMillis(now)
  const recipient = "charles@example.com"
  const ada = { address: "ada@example.com", displayName: "Ada", status: "active", reason: null }
  const message = { mailboxId, recipient, messageStatus: "delivered" }
  return {
    "message.queued": {
      mailboxId,
      from: ada.address,
      to: [recipient],
      cc: [],
      subject: "A test event",
      attachmentIds: [],
      requestId: resource
    },
    "message.sent": {
      mailboxId,
      internetMessageId: `<${resource}@example.com>`,
      provider: "sandbox",
      providerMessageId: resource,
      recipients: [recipient],
      sentAt: at
    },
    "message.delivered": { ...message, smtpResponse: "250 2.0.0 Ok", deliveredAt: at },
    "message.bounced": {
      ...message,
      bounce: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "550 5.1.1 No such user" },
      messageStatus: "bounced"
    },
    "message.failed": {
      ...message,
      failure: { stage: "submit", code: "5.7.1", message: "The provider refused the message" },
      messageStatus: "failed"
    },
    "message.received": {
      mailboxId,
      internetMessageId: `<${resource}@example.com>`,
      from: recipient,
      to: [ada.address],
      subject: "A test event",
      receivedAt: at,
      folder: "inbox",
      attachments: [],
      authentication: { spf: "pass", dkim: "pass", dmarc: "pass" },
      sizeBytes: 1_024
    },
    "message.updated": {
      mailboxId,
      isRead: true,
      isStarred: false,
      folder: "inbox",
      changed: ["isRead"],
      actor: { type: "api_key", id: resource }
    },
    "mailbox.created": ada,
    "mailbox.updated": ada,
    "mailbox.suspended": { ...ada, status: "suspended", reason: "A test event" },
    "domain.health_changed": {
      domain: "example.com",
      verified: true,
      health: "degraded",
      previousHealth: "healthy",
      reasons: [{ record: "spf", state: "missing", expected: "v=spf1 include:example.net -all", observed: null }]
    }
  } as const satisfies { readonly [T in Type]: object }
}
