/** Valid records with nothing special about them; a check states only what matters to it. Each call makes fresh ids. */
import type { Address, DomainName } from "../core/model/Address.ts"
import type { ApiKey } from "../core/model/ApiKey.ts"
import type { Attachment } from "../core/model/Attachment.ts"
import type { Delivery } from "../core/model/Delivery.ts"
import { unsetPositions, type Endpoint } from "../core/model/Endpoint.ts"
import type { Event } from "../core/model/Event.ts"
import type {
  ApiKeyId,
  ApplicationId,
  AttachmentId,
  DeliveryId,
  DomainId,
  EndpointId,
  Environment,
  EventId,
  MailboxId,
  MessageId,
  Realm,
  TenantId
} from "../core/model/Ids.ts"
import type { Mailbox } from "../core/model/Mailbox.ts"
import type { MailDomain } from "../core/model/MailDomain.ts"
import * as Messages from "../core/model/Message.ts"
import type { Content, Message } from "../core/model/Message.ts"
import * as Recipients from "../core/model/Recipient.ts"
import type { Application, Tenant } from "../core/model/Tenant.ts"

/** A fresh identifier of whatever kind the place asks for. */
export const freshId = <Id extends string>(): Id => globalThis.crypto.randomUUID() as Id // a UUID is any of them

export const realm = (environment: Environment = "sandbox"): Realm => ({ tenantId: freshId<TenantId>(), environment })

/** The other environment of the same tenant. */
export const otherEnvironment = (of: Realm): Realm => ({
  tenantId: of.tenantId,
  environment: of.environment === "sandbox" ? "production" : "sandbox"
})

export const address = (local = "ada", domain = "example.com"): Address => `${local}@${domain}` as Address // plain enough to be valid

/** A domain name nobody else has. */
export const domainName = (): DomainName => `d${globalThis.crypto.randomUUID().slice(0, 18)}.example` as DomainName // a host name

export const tenant = (over: Partial<Tenant> = {}): Tenant => ({
  id: freshId<TenantId>(),
  version: 1,
  name: "Analytical Engines",
  planId: "free",
  status: "active",
  createdAt: 0,
  ...over
})

export const application = (of: Realm, over: Partial<Application> = {}): Application => ({
  id: freshId<ApplicationId>(),
  tenantId: of.tenantId,
  version: 1,
  environment: of.environment,
  name: "Billing",
  status: "active",
  createdAt: 0,
  ...over
})

export const apiKey = (of: Application, over: Partial<ApiKey> = {}): ApiKey => ({
  id: freshId<ApiKeyId>(),
  tenantId: of.tenantId,
  applicationId: of.id,
  environment: of.environment,
  version: 1,
  publicId: globalThis.crypto.randomUUID().replaceAll("-", "").slice(0, 11),
  secretHash: "$argon2id$not-a-hash",
  name: "first key",
  scopes: [],
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
  ...over
})

export const mailDomain = (tenantId: TenantId, over: Partial<MailDomain> = {}): MailDomain => ({
  id: freshId<DomainId>(),
  tenantId,
  version: 1,
  eventSequence: 0,
  domain: domainName(),
  health: "healthy",
  checks: [],
  proof: null,
  dkim: null,
  nextDkim: null,
  nextCheckAt: null,
  catchAll: null,
  createdAt: 0,
  ...over
})

export const mailbox = (of: MailDomain, over: Partial<Mailbox> = {}): Mailbox => ({
  id: freshId<MailboxId>(),
  tenantId: of.tenantId,
  version: 1,
  eventSequence: 0,
  domainId: of.id,
  address: address("ada", of.domain),
  displayName: "Ada Lovelace",
  status: "active",
  createdAt: 0,
  ...over
})

export const attachment = (of: Realm, over: Partial<Attachment> = {}): Attachment => ({
  id: freshId<AttachmentId>(),
  tenantId: of.tenantId,
  environment: of.environment,
  version: 1,
  mailboxId: freshId<MailboxId>(),
  messageId: null,
  filename: "notes.txt",
  mediaType: "text/plain",
  blob: { sha256: "0".repeat(64), sizeBytes: 0 },
  disposition: "attachment",
  contentId: null,
  scanState: "clean",
  scanErrors: 0,
  nextScanAt: null,
  scannedAt: 0,
  createdAt: 0,
  expiresAt: null,
  usedAt: null,
  ...over
})

/** A queued outbound message to one recipient, due at once. */
export const message = (of: Realm, over: Partial<Message> = {}): Message => {
  const id = over.id ?? freshId<MessageId>()
  const from = over.from ?? { address: address(), name: "Ada Lovelace" }
  const recipients = over.recipients ?? [Recipients.make(address("charles"), "to", 0)]
  return {
    id,
    tenantId: of.tenantId,
    environment: of.environment,
    version: 1,
    eventSequence: 1,
    applicationId: freshId<ApplicationId>(),
    requestId: freshId<string>(),
    mailboxId: freshId<MailboxId>(),
    direction: "outbound",
    createdAt: 0n,
    acceptedAt: 0,
    updatedAt: 0,
    folder: "sent",
    isRead: true,
    isStarred: false,
    from,
    replyTo: [],
    subject: "Note G",
    snippet: "The engine weaves",
    sizeBytes: 17,
    attachmentIds: [],
    internetMessageId: Messages.internetMessageId(id, from.address as Address),
    inReplyTo: null,
    references: [],
    recipients,
    status: Messages.fold(recipients),
    failure: null,
    sentAt: null,
    attempts: 0,
    nextAttemptAt: 0,
    submissions: [],
    mime: null,
    reception: null,
    ...over
  }
}

/** The content that goes with a message: its headers and structure follow from it. */
export const content = (
  of: Message,
  bodies: { readonly text?: string | null; readonly html?: string | null } = { text: "The engine weaves" },
  attachments: ReadonlyArray<Attachment> = []
): Content => ({
  text: bodies.text ?? null,
  html: bodies.html ?? null,
  headers: Messages.outboundHeaders(of),
  mime: Messages.outboundStructure(bodies.text ?? null, bodies.html ?? null, attachments)
})

/** The event that an accepted message emits. */
export const queuedEvent = (of: Message, over: Partial<Event<"message.queued">> = {}): Event<"message.queued"> => ({
  id: freshId<EventId>(),
  tenantId: of.tenantId,
  environment: of.environment,
  audience: null,
  type: "message.queued",
  resourceType: "message",
  resourceId: of.id,
  data: {
    object: "message",
    id: of.id,
    sequence: 1,
    mailboxId: of.mailboxId,
    from: of.from.address,
    to: of.recipients.filter((recipient) => recipient.role === "to").map((recipient) => recipient.address),
    cc: [],
    subject: of.subject,
    attachmentIds: of.attachmentIds,
    requestId: of.requestId
  },
  occurredAt: of.acceptedAt,
  ...over
})

/** An enabled endpoint for all types, which has not failed yet. */
export const endpoint = (of: Realm, over: Partial<Endpoint> = {}): Endpoint => ({
  id: freshId<EndpointId>(),
  tenantId: of.tenantId,
  environment: of.environment,
  applicationId: freshId<ApplicationId>(),
  version: 1,
  url: "https://example.com/hooks",
  description: null,
  eventTypes: ["*"],
  apiVersion: "2026-12-01",
  secret: { version: 1, iv: "AAAA", ciphertext: "AAAA", tag: "AAAA" },
  nextSecret: null,
  isSlow: false,
  positions: unsetPositions,
  enabled: true,
  consecutiveFailures: 0,
  disabledAt: null,
  createdAt: 0,
  ...over
})

/** A pending delivery of some event to an endpoint, due at once. */
export const delivery = (of: Endpoint, over: Partial<Delivery> = {}): Delivery => ({
  id: freshId<DeliveryId>(),
  tenantId: of.tenantId,
  environment: of.environment,
  applicationId: of.applicationId,
  endpointId: of.id,
  eventId: freshId<EventId>(),
  eventPosition: null,
  eventType: "message.queued",
  resourceId: freshId(),
  version: 1,
  trigger: "event",
  demo: false,
  status: "pending",
  round: 1,
  attemptCount: 0,
  nextAttemptAt: 0,
  deliveredAt: null,
  deadAt: null,
  lastError: null,
  attempts: [],
  createdAt: 0,
  ...over
})
