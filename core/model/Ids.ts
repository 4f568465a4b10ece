/**
 * Identifiers, units of time, and the realm that every tenant-owned record
 * lives in. All identifiers are UUIDs (version 7 where we make them).
 */
import { Schema, SchemaTransformation } from "effect"

/** An identifier; any case is read, and lower case is kept, so that equal ids are equal texts. */
export const Uuid = Schema.String.check(Schema.isUUID(undefined, { expected: "a UUID" })).pipe(
  Schema.decodeTo(Schema.String, SchemaTransformation.toLowerCase())
)

export const TenantId = Uuid.pipe(Schema.brand("TenantId"))
export type TenantId = typeof TenantId.Type
export const ApplicationId = Uuid.pipe(Schema.brand("ApplicationId"))
export type ApplicationId = typeof ApplicationId.Type
export const ApiKeyId = Uuid.pipe(Schema.brand("ApiKeyId"))
export type ApiKeyId = typeof ApiKeyId.Type
export const MailboxId = Uuid.pipe(Schema.brand("MailboxId"))
export type MailboxId = typeof MailboxId.Type
export const DomainId = Uuid.pipe(Schema.brand("DomainId"))
export type DomainId = typeof DomainId.Type
export const MessageId = Uuid.pipe(Schema.brand("MessageId"))
export type MessageId = typeof MessageId.Type
export const AttachmentId = Uuid.pipe(Schema.brand("AttachmentId"))
export type AttachmentId = typeof AttachmentId.Type
export const EventId = Uuid.pipe(Schema.brand("EventId"))
export type EventId = typeof EventId.Type
export const EndpointId = Uuid.pipe(Schema.brand("EndpointId"))
export type EndpointId = typeof EndpointId.Type
export const DeliveryId = Uuid.pipe(Schema.brand("DeliveryId"))
export type DeliveryId = typeof DeliveryId.Type

/** A UUID that names nothing yet, and may become the id of anything: who takes it says of what. */
export type FreshId = TenantId & ApplicationId & ApiKeyId & MailboxId & DomainId & MessageId & AttachmentId & EventId & EndpointId & DeliveryId

/** Names one call of the API, from its answer's `X-Request-Id` to the audit trail. */
export type RequestId = string

/** The two worlds of a tenant. Their secrets and their mail never mix (Spec 1, point 6). */
export const Environment = Schema.Literals(["sandbox", "production"])
export type Environment = typeof Environment.Type

/**
 * A tenant in one environment: the wall around messages, attachments and
 * events. Whatever is outside the caller's realm is absent to the caller.
 */
export interface Realm {
  readonly tenantId: TenantId
  readonly environment: Environment
}

/** That of a record, and nothing else of it. */
export const realmOf = ({ tenantId, environment }: Realm): Realm => ({ tenantId, environment })

/** Whether a record is there, and in this realm. */
export const isInRealm = ({ tenantId, environment }: Realm, record: Realm | undefined): boolean =>
  record?.tenantId === tenantId && record.environment === environment

/** Milliseconds since the Unix epoch. */
export type Millis = number

/** Microseconds since the Unix epoch; a bigint, so that it is never mistaken for `Millis`. */
export type Micros = bigint

/** How many shards the event log has; a tenant's events all lie in one of them. */
export const shardCount = 16

/** The log shard of a tenant: the last hex digit of its id, which is random in every UUID version we meet. */
export const shardOf = (tenantId: TenantId): number => Number.parseInt(tenantId.slice(-1), 16)
