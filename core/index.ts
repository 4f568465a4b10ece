/** The public surface of the core: model, ports, operations and jobs, each as a namespace or service of its own. */
export * as Mailroom from "./Mailroom.ts"
export * from "./ClockOffset.ts"
export * as Loops from "./Loops.ts"
export * as Metrics from "./Metrics.ts"
export * from "./Settings.ts"
export * as SubmissionTurns from "./SubmissionTurns.ts"
export * as Tracing from "./Tracing.ts"

export * as Address from "./model/Address.ts"
export * as ApiKey from "./model/ApiKey.ts"
export * as Attachment from "./model/Attachment.ts"
export * as Audit from "./model/Audit.ts"
export * as Backoff from "./model/Backoff.ts"
export * as Cursor from "./model/Cursor.ts"
export * as Delivery from "./model/Delivery.ts"
export * as DomainRecords from "./model/DomainRecords.ts"
export * as Endpoint from "./model/Endpoint.ts"
export * as Event from "./model/Event.ts"
export * as IdempotencyKey from "./model/IdempotencyKey.ts"
export * as Ids from "./model/Ids.ts"
export * as Limits from "./model/Limits.ts"
export * as Machine from "./model/Machine.ts"
export * as Inbound from "./model/Inbound.ts"
export * as Mailbox from "./model/Mailbox.ts"
export * as MailDomain from "./model/MailDomain.ts"
export * as Message from "./model/Message.ts"
export * as MessageView from "./model/MessageView.ts"
export * as MimePart from "./model/MimePart.ts"
export * as Notification from "./model/Notification.ts"
export * as Recipient from "./model/Recipient.ts"
export * as PublicAddress from "./model/PublicAddress.ts"
export type * as Reception from "./model/Reception.ts"
export type * as ParsedMessage from "./model/ParsedMessage.ts"
export * as ReturnPath from "./model/ReturnPath.ts"
export * as Reply from "./model/Reply.ts"
export * as Webhook from "./model/Webhook.ts"
export * as WebhookUrl from "./model/WebhookUrl.ts"
export type { ProviderPayload } from "./model/ProviderPayload.ts"
export type { BlobRef } from "./model/Blob.ts"
export type { Envelope } from "./model/Envelope.ts"
export type { Guard, Standing, Taken } from "./model/RateLimit.ts"
export { sealVersionLimit, type SealedSecret } from "./model/SealedSecret.ts"
export type { Suppression } from "./model/Suppression.ts"
export type { Application, Tenant } from "./model/Tenant.ts"

export * from "./ports/BlobStore.ts"
export * from "./ports/Crypto.ts"
export * from "./ports/JobQueue.ts"
export * from "./ports/MailAuthenticator.ts"
export * from "./ports/MailProvider.ts"
export * from "./ports/Mime.ts"
export * from "./ports/NotificationIntake.ts"
export * from "./ports/RateLimiter.ts"
export * from "./ports/Resolver.ts"
export * from "./ports/Scanner.ts"
export * from "./ports/SpamFilter.ts"
export * from "./ports/Store.ts"
export * from "./ports/WebhookTransport.ts"

export * from "./operations/Access.ts"
export {
  InUse,
  InvalidInput,
  NameTaken,
  StaleVersion,
  UnknownResource,
  type Guarded,
  type Page,
  type PageQuery,
  type Refused,
  type Removed
} from "./operations/Administration.ts"
export * from "./operations/Attachments.ts"
export * from "./operations/Events.ts"
export { HandshakesBusy, InvalidWebhookUrl, WebhookVerificationFailed } from "./operations/Handshakes.ts"
export { Notifications, ProviderUnknown } from "./operations/Notifications.ts"
export { KeyEnded, type IssuedKey, type KeyManagement, type ManagedKey } from "./operations/KeyManagement.ts"
export * from "./operations/Mailboxes.ts"
export type { DomainManagement, DomainRecordSet, ManagedDomain } from "./operations/DomainManagement.ts"
export type { MailboxManagement } from "./operations/MailboxManagement.ts"
export * from "./operations/Management.ts"
export * from "./operations/Messages.ts"
export {
  AttachmentInfected,
  AttachmentNotClean,
  DomainNotSendable,
  IdempotencyConflict,
  IdempotencyPending,
  MailboxSuspended,
  QueuedMessage,
  QuotaExceeded,
  SendMessageInput,
  submitJob,
  type SendRefusal,
  type Sent
} from "./operations/Sending.ts"
export { NotFound } from "./operations/Ownership.ts"
export * from "./operations/Receive.ts"
export { RecordNotification } from "./operations/RecordNotification.ts"
export * from "./operations/RequestLog.ts"
export * from "./operations/Resealing.ts"
export type { SuppressionManagement } from "./operations/SuppressionManagement.ts"
export { installation, type PlanNumbers, type TenantManagement } from "./operations/TenantManagement.ts"
export * from "./operations/WebhookManagement.ts"
export * from "./operations/Webhooks.ts"

export { CheckDomains, type CheckedDomain, type CheckedRecord } from "./jobs/CheckDomains.ts"
export { EventRelay } from "./jobs/EventRelay.ts"
export { Sweep } from "./jobs/Sweep.ts"
export { Worker } from "./jobs/Worker.ts"
