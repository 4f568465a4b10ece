/**
 * The truth. What Mailroom has accepted is here, and nothing else. Only bytes
 * may lie elsewhere, in the blob store, which is swept against it. The queue is
 * derived from it, and the limiter may forget.
 *
 * Reads are grouped by resource and take the tenant or realm first; what lies
 * outside it is answered like what does not exist. An order by a text (an
 * address, a name, an id) is that of its code units: capitals come first, and
 * no language has a say. There is one write, `commit`, which lands whole or not
 * at all.
 *
 * An adapter
 * - keeps a log of events per shard (`Ids.shardOf`), whose positions rise by
 *   one in commit order: whoever has read up to a position will never see an
 *   event appear at or before it;
 * - sets `createdAt` of each inserted message to the greater of the proposed
 *   time and the tenant's last one plus 1 µs, in that same order;
 * - sets the `positions` of an endpoint, of `Endpoint.positionsAt`, to the last position
 *   of its shard's log, in that same order;
 * - checks every key and version before it writes anything, and rejects with
 *   the reason of the first change in the list that cannot be applied;
 * - may commit concurrent callers together, but a conflict harms only its own
 *   caller, and the interruption of a caller does not undo or stop the others;
 * - asks no clock: times come in the changes and the reads;
 * - does not retry. A failure whose outcome is not known is `StoreUnavailable`,
 *   and the caller reads again to learn what happened.
 */
import { Context, Data, type Duration, type Effect } from "effect"
import { foldCase, type Address, type DomainName } from "../model/Address.ts"
import type { ApiKey } from "../model/ApiKey.ts"
import type { Attachment } from "../model/Attachment.ts"
import type { AuditEntry, Numbered, RequestEntry } from "../model/Audit.ts"
import type { BlobRef } from "../model/Blob.ts"
import type { EventStart } from "../model/Cursor.ts"
import type { Delivery } from "../model/Delivery.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { Event, LoggedEvent, LogPage } from "../model/Event.ts"
import type { IdempotencyKey, Reservation } from "../model/IdempotencyKey.ts"
import type {
  ApiKeyId, ApplicationId, AttachmentId, DeliveryId, DomainId, EndpointId, MailboxId,
  MessageId, Micros, Millis, Realm, TenantId
} from "../model/Ids.ts"
import type { Plan } from "../model/Limits.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import type { MailDomain } from "../model/MailDomain.ts"
import type { KeptContent, Message } from "../model/Message.ts"
import type { Notification } from "../model/Notification.ts"
import type { ProviderPayload } from "../model/ProviderPayload.ts"
import type { SubmissionRef } from "../model/Recipient.ts"
import type { Suppression } from "../model/Suppression.ts"
import type { Application, Tenant } from "../model/Tenant.ts"
import type { Job, JobKind, Lease } from "./JobQueue.ts"

/** Records with an identity and a version. The version starts at 1 and rises by one with each update. */
export interface Records {
  readonly tenant: Tenant
  readonly application: Application
  readonly apiKey: ApiKey
  readonly domain: MailDomain
  readonly mailbox: Mailbox
  readonly attachment: Attachment
  readonly message: Message
  readonly endpoint: Endpoint
  readonly delivery: Delivery
}
export type Kind = keyof Records

/** Kinds that come without a body of their own. */
type Plain = Exclude<Kind, "message" | "delivery">

type Insert = { [K in Plain]: { readonly _tag: "Insert"; readonly kind: K; readonly record: Records[K] } }[Plain]

/** Kinds of which a record can be removed. */
type Removable = "attachment" | "domain" | "mailbox"

type Remove = { [K in Removable]: { readonly _tag: "Remove"; readonly kind: K; readonly record: Records[K] } }[Removable]

type Update = { [K in Kind]: { readonly _tag: "Update"; readonly kind: K; readonly record: Records[K] } }[Kind]

/**
 * What `Forget` cuts at an age, oldest first: `events` by `occurredAt`, `reservations` by `expiresAt`, `notifications` by when
 * they were first kept, `requests` by `at`, `payloads` by `receivedAt`. Of `deliveries` only those that are not pending,
 * by when they ended. Of `quotas` the UTC days before that of `before`: a day is not cut while it lasts. Of `messages` those
 * for which no job is due at any time, by `createdAt`, with content and submissions. Of `attachments` those that were used,
 * by `usedAt`, but for what a message with a queued recipient uses.
 */
export type Forgettable = "events" | "reservations" | "notifications" | "requests" | "quotas" | "deliveries" | "payloads" | "messages" | "attachments"

/** How far a shard's events have been turned into deliveries, and by whom last. */
export interface Relay {
  readonly shard: number
  readonly position: bigint
  /** The process that moved it last, and until when the others leave the shard to it. Courtesy, not a lock: the position fences. */
  readonly holder: string
  readonly heldUntil: Millis
}

/** What must be free of a record beside its id. */
export interface UniqueName {
  readonly kind: "apiKey" | "domain" | "mailbox"
  readonly field: string
  /** As it is compared. */
  readonly value: string
}

const uniqueNames: { readonly [K in Kind]?: (record: Records[K]) => UniqueName } = {
  apiKey: ({ publicId }) => ({ kind: "apiKey", field: "publicId", value: publicId }),
  domain: ({ domain }) => ({ kind: "domain", field: "domain", value: domain }),
  mailbox: ({ address }) => ({ kind: "mailbox", field: "address", value: foldCase(address) })
}

/** Null: nothing but its id. */
export const uniqueNameOf = <K extends Kind>(kind: K, record: Records[K]): UniqueName | null => uniqueNames[kind]?.(record) ?? null

/**
 * One change of the truth. Each sees what the changes before it in its list
 * would leave.
 *
 * - `PutPlan` writes a plan over the one of that id.
 * - `Insert`, `InsertMessage`: the id, and the record's `uniqueNameOf`, must be
 *   free: else `Duplicate`.
 * - `InsertMessage`, `PutContent`: what the content lacks, it lacks when it is read.
 * - `PutContent`: writes over the content of a message of that realm; passed over if there is none.
 * - `InsertDelivery`: the id must be free: else `Duplicate`. `body` never changes.
 *   What has been attempted already comes with its attempt, in any status; what
 *   has ended may come without its body.
 * - `PutBody`: gives a delivery of that realm its body; passed over if it has one, or is not there.
 * - `PutBlob`: writes a blob, as its writer's `finish` at that time would. Only of a store that keeps the blobs too, and
 *   only as that store's `BlobStore.enclose` made it.
 * - `Update`: the stored version must be one less than the record's: else
 *   `VersionMoved`. Whatever the record says, `createdAt` of a message stays as
 *   the store set it, and so do the `positions` of an endpoint, but for where this
 *   update enables or disables it. No update changes an id, a tenant, an environment or a unique field.
 * - `Require`: the stored version must be this: else `VersionMoved`. It
 *   changes nothing, and callers who only require do not exclude each other;
 *   one who requires a version lands before the one who moves it, or not at all.
 * - `Expect`: the same, but it is not held: who moves the version may land before.
 * - `MoveRelay`: the shard's position must be `from` (0 if it was never moved):
 *   else `VersionMoved`. The new one may be the same, with another holder.
 * - `Remove`: the stored version must be the record's: else `VersionMoved`. Its unique name is free again.
 * - `Reserve`: no unexpired reservation of (application, idempotency key) may
 *   be held at `reservedAt`: else `KeyTaken`. An expired one is replaced.
 * - `TakeQuota`: `used + amount` of that tenant and UTC day must not pass
 *   `limit`: else `QuotaExceeded`. An `amount` is never taken in part.
 * - `AppendEvent`: appended in list order. Its data is read with its members in their order.
 * - `Suppress`, `KeepNotification`, `KeepPayload`: idempotent (on realm and
 *   folded address; on `Notification.keyOf`; on provider and id): the first stays.
 *   `Unsuppress` takes away what is there, if anything is.
 * - `TouchApiKeys`: raises `lastUsedAt`, never lowers it, and is no new
 *   version; unknown ids are passed over.
 * - `Forget`: drops what is older than `before`, oldest first, at most `limit`
 *   rows. Of events only from the front of a shard's log: none behind one that stays.
 */
export type Change =
  | { readonly _tag: "PutPlan"; readonly plan: Plan }
  | Insert
  | { readonly _tag: "InsertMessage"; readonly message: Message; readonly content: KeptContent }
  | { readonly _tag: "PutContent"; readonly realm: Realm; readonly messageId: MessageId; readonly content: KeptContent }
  | { readonly _tag: "InsertDelivery"; readonly delivery: Delivery; readonly body: string | null }
  | { readonly _tag: "PutBody"; readonly realm: Realm; readonly deliveryId: DeliveryId; readonly body: string }
  | { readonly _tag: "PutBlob"; readonly tenantId: TenantId; readonly blob: BlobRef; readonly bytes: Uint8Array; readonly at: Millis }
  | Update
  | { readonly _tag: "Require" | "Expect"; readonly kind: Kind; readonly id: string; readonly version: number }
  | { readonly _tag: "MoveRelay"; readonly relay: Relay; readonly from: bigint }
  | Remove
  | { readonly _tag: "Reserve"; readonly reservation: Reservation }
  | { readonly _tag: "TakeQuota"; readonly tenantId: TenantId; readonly day: string; readonly amount: number; readonly limit: number }
  | { readonly _tag: "AppendEvent"; readonly event: Event }
  | { readonly _tag: "AppendAudit"; readonly entry: AuditEntry }
  | { readonly _tag: "AppendRequests"; readonly entries: ReadonlyArray<RequestEntry> }
  | { readonly _tag: "TouchApiKeys"; readonly used: ReadonlyArray<{ readonly id: ApiKeyId; readonly at: Millis }> }
  | { readonly _tag: "Suppress"; readonly suppression: Suppression }
  | { readonly _tag: "Unsuppress"; readonly realm: Realm; readonly address: Address }
  | { readonly _tag: "KeepNotification"; readonly notification: Notification; readonly at: Millis }
  | { readonly _tag: "DropNotification"; readonly notification: Notification }
  | { readonly _tag: "KeepPayload"; readonly payload: ProviderPayload }
  | { readonly _tag: "Forget"; readonly what: Forgettable; readonly before: Millis; readonly limit: number }

/** Why nothing of a commit was applied. */
export type Rejection =
  | { readonly _tag: "VersionMoved"; readonly kind: Kind | "relay"; readonly id: string }
  | { readonly _tag: "KeyTaken"; readonly idempotencyKey: IdempotencyKey }
  | { readonly _tag: "QuotaExceeded"; readonly limit: number; readonly used: number }
  | { readonly _tag: "Duplicate"; readonly kind: Kind; readonly field: string }

/** Nothing was written, for this reason. */
export class CommitRejected extends Data.TaggedError("CommitRejected")<{ readonly reason: Rejection }> {
  override get message(): string {
    const { reason } = this
    return `commit rejected: ${reason._tag}${"kind" in reason ? ` (${reason.kind} ${"id" in reason ? reason.id : reason.field})` : ""}`
  }
}

/** The store did not answer. After a commit: it may have been applied or not. */
export class StoreUnavailable extends Data.TaggedError("StoreUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the store is unavailable"
}

export interface Committed {
  /** True if the jobs were written with the changes; false if the caller has yet to offer them to the queue. */
  readonly jobsOffered: boolean
  /** True if the lease, unless it was lost, has been completed with the changes; false if the caller has yet to complete it. False where none was given. */
  readonly leaseEnded: boolean
  /** Rows that `Forget` changes have dropped. */
  readonly forgotten: number
  /** The leases that took the place of the one that ended. */
  readonly next: ReadonlyArray<Next>
}

/** A lease that took the place of another. */
export interface Next extends Lease {
  /** Of a delivery: what its read of that name tells, as of the moment when it was taken; null: to be read. */
  readonly outgoing: Outgoing | null
}

/** What to lease in the place of a job that ends: the next that are due of its group, unless that is throttled. */
export interface Hold {
  /** 1: the group then has as many leases as before. More: it has more. */
  readonly jobsMax: number
  readonly visibilityTimeout: Duration.Duration
}

/** The lease of a job that ends with a commit. */
export interface Ending extends Lease {
  /** What to lease in its place. A store that is the queue too may do so; what it does not take is claimed. */
  readonly holdNext?: Hold
}

/** A key with all that decides whether it is valid, and what it may use. */
export interface Credential {
  readonly apiKey: ApiKey
  readonly application: Application
  readonly tenant: Tenant
  readonly plan: Plan
}

/** A keyset through due work: pass `next` back for the page behind. */
export interface DuePage {
  readonly jobs: ReadonlyArray<Job>
  readonly next: string | null
}

/** What waits, for those who watch the service. */
export interface Backlog {
  /** The earliest time for which the state says that work of a kind is due, past or to come; null if there is none. */
  readonly earliestDue: { readonly [K in JobKind]: Millis | null }
  /** Events, of all shards, that the relay has yet to come to. */
  readonly unrelayed: number
  /** When the first of them in its shard occurred, the earliest of all shards; null if there are none. */
  readonly oldestUnrelayedAt: Millis | null
}

type Read<A> = Effect.Effect<A, StoreUnavailable>

export interface MessageReads {
  readonly get: (realm: Realm, id: MessageId) => Read<Message | null>
  readonly content: (realm: Realm, id: MessageId) => Read<KeptContent | null>
  /** What its idempotency key has been used for, unexpired at that time, and who sends it. */
  readonly admission: (query: {
    readonly tenantId: TenantId
    readonly mailboxId: MailboxId
    readonly applicationId: ApplicationId
    readonly idempotencyKey: IdempotencyKey
    readonly at: Millis
  }) => Read<Admission>
  readonly outbound: (realm: Realm, id: MessageId) => Read<Outbound | null>
  /** Newest first; `before` is exclusive. */
  readonly page: (
    realm: Realm,
    query: { readonly mailboxId: MailboxId | null; readonly before: Micros | null; readonly limit: number }
  ) => Read<ReadonlyArray<Message>>
  /** The message that a provider took under this name; names of providers belong to no realm. */
  readonly bySubmission: (ref: SubmissionRef) => Read<Message | null>
  /** Of whichever tenant: for ids that we have signed, and that come back to us. */
  readonly anywhere: (id: MessageId) => Read<Message | null>
  /** Messages with a queued recipient that use this attachment. */
  readonly queuedWith: (realm: Realm, attachmentId: AttachmentId) => Read<ReadonlyArray<Message>>
}

/** What accepting a message asks first, in one look-up; each part as its own read has it. */
export interface Admission {
  readonly reservation: Reservation | null
  readonly mailbox: Mailbox | null
  readonly domain: MailDomain | null
}

/** What taking mail to an address asks first, in one look-up. Addresses are compared in folded case. */
export interface Addressee {
  /** The mailbox of that very address. */
  readonly mailbox: Mailbox | null
  /** The one of the address without its tag. */
  readonly untagged: Mailbox | null
  readonly domain: MailDomain | null
  /** The domain's, as `get` has it of the domain's tenant. */
  readonly catchAll: Mailbox | null
  /** Whose the domain is. */
  readonly tenant: Tenant | null
}

/** A message with all that submitting it asks of the store; each part as its own read has it. */
export interface Outbound {
  readonly message: Message
  readonly content: KeptContent | null
  readonly mailbox: Mailbox | null
  readonly domain: MailDomain | null
}

export interface AttachmentReads {
  readonly get: (realm: Realm, id: AttachmentId) => Read<Attachment | null>
  /** Those that exist, in the order of the ids. */
  readonly many: (realm: Realm, ids: ReadonlyArray<AttachmentId>) => Read<ReadonlyArray<Attachment>>
  /** Uploads that no message used (no `messageId`), expired at this time or earlier; in any order. */
  readonly expired: (at: Millis, limit: number) => Read<ReadonlyArray<Attachment>>
}

export interface EventReads {
  /**
   * Ascending by position; those of the realm, of the tenant as a whole, and of
   * no other application's audience. `Since` starts at the first of these whose
   * `occurredAt` is that time or later, and goes on in log order. `After` goes on
   * behind its position, whatever is there. Null: from the oldest that is left.
   */
  readonly page: (
    realm: Realm,
    applicationId: ApplicationId,
    query: { readonly start: EventStart | null; readonly limit: number }
  ) => Read<LogPage>
  /** One shard of the log, all tenants, ascending behind a position (0: from the start). */
  readonly readLog: (shard: number, after: bigint, limit: number) => Read<ReadonlyArray<LoggedEvent>>
}

export interface EndpointReads {
  readonly get: (realm: Realm, id: EndpointId) => Read<Endpoint | null>
  /** Of one application, oldest first; of one time, by id. */
  readonly list: (realm: Realm, applicationId: ApplicationId) => Read<ReadonlyArray<Endpoint>>
  /** The enabled ones of these tenants, in both environments, each once. */
  readonly enabled: (tenantIds: ReadonlyArray<TenantId>) => Read<ReadonlyArray<Endpoint>>
  /** Of all tenants, those that hold a secret sealed by a key of a lower version than this, be it one to come, by id, behind `after`. */
  readonly sealedBelow: (
    version: number,
    query: { readonly after: EndpointId | null; readonly limit: number }
  ) => Read<ReadonlyArray<Endpoint>>
}

export interface DeliveryReads {
  readonly get: (realm: Realm, id: DeliveryId) => Read<Delivery | null>
  /** The bytes that every attempt sends, as text; null also if it came without them. */
  readonly body: (realm: Realm, id: DeliveryId) => Read<string | null>
  readonly outgoing: (realm: Realm, id: DeliveryId) => Read<Outgoing | null>
  /** Of one application's endpoints, newest first: by `createdAt`, then by id, both falling. */
  readonly page: (
    realm: Realm,
    query: { readonly applicationId: ApplicationId; readonly endpointId: EndpointId | null; readonly limit: number }
  ) => Read<ReadonlyArray<Delivery>>
  /** Of one endpoint, those that are dead since this time or later, oldest death first; of one time, by id. */
  readonly deadSince: (realm: Realm, endpointId: EndpointId, since: Millis, limit: number) => Read<ReadonlyArray<Delivery>>
}

/** A delivery with all that an attempt at it asks of the store, as of one moment; each part as its own read has it. */
export interface Outgoing {
  readonly delivery: Delivery
  readonly endpoint: Endpoint | null
  readonly body: string | null
}

/** A domain, and how many mailboxes it has. */
export interface CountedDomain {
  readonly domain: MailDomain
  readonly mailboxCount: number
}

export interface RelayReads {
  /**
   * Shards whose log holds events behind the relay's position, each as it stands; one that was never moved at position 0,
   * held by nobody (an empty text) until 0. A shard is not among them if all its events behind that position were forgotten.
   */
  readonly behind: Read<ReadonlyArray<Relay>>
}

export class Store extends Context.Service<
  Store,
  {
    /**
     * `jobs`: what the changes make due. `lease`: of the job that the changes are the end of; it is no condition, so they
     * land also if it was lost. A job that is among both is offered while the lease is held, and so becomes the job behind it.
     */
    readonly commit: (
      changes: ReadonlyArray<Change>,
      jobs: ReadonlyArray<Job>,
      lease?: Ending
    ) => Effect.Effect<Committed, CommitRejected | StoreUnavailable>

    readonly credentials: {
      /** By public ids, in one look-up; ids are left out that name nothing, or a key whose application, tenant or plan is missing. */
      readonly byPublicId: (publicIds: ReadonlyArray<string>) => Read<ReadonlyArray<Credential>>
      readonly apiKey: (tenantId: TenantId, id: ApiKeyId) => Read<ApiKey | null>
      readonly application: (tenantId: TenantId, id: ApplicationId) => Read<Application | null>
      readonly tenant: (id: TenantId) => Read<Tenant | null>
      /** By id, behind `after`; null: from the first. */
      readonly tenants: (query: { readonly after: TenantId | null; readonly limit: number }) => Read<ReadonlyArray<Tenant>>
      /** Oldest first; of one time, by id. */
      readonly applications: (tenantId: TenantId) => Read<ReadonlyArray<Application>>
      /** Of all applications, oldest first; of one time, by id. */
      readonly apiKeys: (tenantId: TenantId) => Read<ReadonlyArray<ApiKey>>
      /** By id. */
      readonly plans: Read<ReadonlyArray<Plan>>
    }
    readonly mailboxes: {
      readonly get: (tenantId: TenantId, id: MailboxId) => Read<Mailbox | null>
      /** By address. */
      readonly list: (tenantId: TenantId) => Read<ReadonlyArray<Mailbox>>
      /** By address, behind `after` (null: from the first); of one domain, or of all. */
      readonly page: (
        tenantId: TenantId,
        query: { readonly domainId: DomainId | null; readonly after: Address | null; readonly limit: number }
      ) => Read<ReadonlyArray<Mailbox>>
      /** Who mail to an address may be for, of whichever tenant: the address, what it is without its tag, and its domain. */
      readonly addressee: (query: {
        readonly address: Address
        readonly untagged: Address | null
        readonly domain: DomainName
      }) => Read<Addressee>
    }
    readonly domains: {
      readonly get: (tenantId: TenantId, id: DomainId) => Read<MailDomain | null>
      /** By name. */
      readonly list: (tenantId: TenantId) => Read<ReadonlyArray<CountedDomain>>
      /** By name, behind `after`; null: from the first. */
      readonly page: (
        tenantId: TenantId,
        query: { readonly after: DomainName | null; readonly limit: number }
      ) => Read<ReadonlyArray<CountedDomain>>
      /** Of all tenants, those whose `nextCheckAt` is this time or earlier, earliest first; of one time, by id. */
      readonly due: (at: Millis, limit: number) => Read<ReadonlyArray<MailDomain>>
      /** Of all tenants, those that hold a secret sealed by a key of a lower version than this, by id, behind `after`. */
      readonly sealedBelow: (
        version: number,
        query: { readonly after: DomainId | null; readonly limit: number }
      ) => Read<ReadonlyArray<MailDomain>>
      /** Of all tenants, those of these names, each once. */
      readonly named: (names: ReadonlyArray<DomainName>) => Read<ReadonlyArray<MailDomain>>
    }
    readonly messages: MessageReads
    readonly attachments: AttachmentReads
    readonly events: EventReads
    readonly endpoints: EndpointReads
    readonly deliveries: DeliveryReads
    readonly relay: RelayReads
    readonly reservations: {
      /** Unexpired at this time. Callers are told that it is accepted: it is as safe as what a commit has told of. */
      readonly get: (applicationId: ApplicationId, idempotencyKey: IdempotencyKey, at: Millis) => Read<Reservation | null>
    }
    readonly suppressions: {
      /** Which of these addresses are suppressed; folded case. */
      readonly among: (realm: Realm, addresses: ReadonlyArray<Address>) => Read<ReadonlyArray<Suppression>>
      /** By folded address, behind `after` in that order; null: from the first. */
      readonly page: (
        realm: Realm,
        query: { readonly after: Address | null; readonly limit: number }
      ) => Read<ReadonlyArray<Suppression>>
    }
    readonly notifications: {
      /** Kept for a submission that was not known when they arrived, or not all of it, oldest first: by when they were first kept, then by commit. */
      readonly kept: (ref: SubmissionRef) => Read<ReadonlyArray<Notification>>
      /**
       * Looks at so many of those kept, oldest first, behind `after`, and names the ones whose submission is known by now. Pass
       * `next` back for those behind; null: there are none.
       */
      readonly matched: (query: {
        readonly after: string | null
        readonly limit: number
      }) => Read<{ readonly notifications: ReadonlyArray<Notification>; readonly next: string | null }>
    }
    readonly audit: {
      /** Newest first, which is by number, whatever `at` says; `before`: only those of a lower number. */
      readonly page: (tenantId: TenantId, limit: number, before?: number) => Read<ReadonlyArray<Numbered<AuditEntry>>>
      readonly requests: (tenantId: TenantId, limit: number, before?: number) => Read<ReadonlyArray<Numbered<RequestEntry>>>
      /** What providers posted, in the order of commits, in the same way; of one provider, or of all. No tenant's. */
      readonly payloads: (provider: string | null, limit: number, before?: number) => Read<ReadonlyArray<Numbered<ProviderPayload>>>
    }
    readonly blobs: {
      /** Which of a tenant's blobs any attachment or message refers to. */
      readonly referenced: (tenantId: TenantId, digests: ReadonlyArray<string>) => Read<ReadonlyArray<string>>
    }
    /**
     * The work that the state says is due at or before a time: a message's
     * `nextAttemptAt` (submit), earliest `pollAt` (poll) and its reception's
     * `nextParseAt` (parse), an attachment's `nextScanAt` (scan), a delivery's
     * `nextAttemptAt` (deliver). In keyset order, whatever that is. A store that is the queue too may leave out what has
     * its job there.
     */
    readonly due: (
      kind: JobKind,
      query: { readonly dueBefore: Millis; readonly after: string | null; readonly limit: number }
    ) => Read<DuePage>
    /** What waits now. Cheap enough to be asked every few seconds. */
    readonly backlog: Read<Backlog>
  }
>()("mailroom/core/ports/Store") {}
