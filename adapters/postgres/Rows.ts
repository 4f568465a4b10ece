/**
 * Records as rows: one description of each table, shared by what writes and
 * what reads. A record is kept as JSON text; what JSON has no word for, and
 * what the store itself sets, is kept in columns only and put over the record
 * when it is read.
 *
 * A record may have been written by other code than reads it. A member that
 * this code does not know is kept and written back; one that is missing has the
 * value of `defaults`, or is filled by the migration that brings it.
 */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import { createHash } from "node:crypto"
import { foldCase } from "../../core/model/Address.ts"
import type { AuditEntry, RequestEntry } from "../../core/model/Audit.ts"
import type { LoggedEvent } from "../../core/model/Event.ts"
import type { Reservation } from "../../core/model/IdempotencyKey.ts"
import type { AttachmentId, DeliveryId, MessageId, Millis, TenantId } from "../../core/model/Ids.ts"
import type { Plan } from "../../core/model/Limits.ts"
import { sealVersion } from "../../core/model/MailDomain.ts"
import { nextPollAt, queuedRecipients, type KeptContent, type Message } from "../../core/model/Message.ts"
import * as Notifications from "../../core/model/Notification.ts"
import type { Notification } from "../../core/model/Notification.ts"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import type { SubmissionRef } from "../../core/model/Recipient.ts"
import type { Suppression } from "../../core/model/Suppression.ts"
import type { Kind, Records, Relay } from "../../core/ports/Store.ts"

export type SqlType = "uuid" | "text" | "smallint" | "integer" | "bigint" | "boolean" | "json"

/** What a column holds, as the driver takes it: a `bigint` column a bigint, a `json` column its text. */
export type Value = string | number | bigint | boolean | null

export interface Column<A> {
  readonly name: string
  readonly type: SqlType
  readonly value: (item: A) => Value
  /** It never changes after the insert. */
  readonly fixed: boolean
}

/** A row as the driver gives it. */
export type Row = Readonly<Record<string, unknown>>

export interface Table<Written, Read = Written> {
  /** Qualified. */
  readonly name: string
  /** All that an insert gives. */
  readonly columns: ReadonlyArray<Column<Written>>
  /** The columns that `decode` wants, as a select list; of the table under this alias. */
  readonly selected: (alias?: string) => string
  readonly decode: (row: Row) => Read
}

/** An event with what its time is found by: the latest `occurredAt` of its tenant's events up to it. */
export interface StoredEvent extends LoggedEvent {
  readonly latestAt: Millis
}

export interface KeptNotification {
  readonly notification: Notification
  readonly at: Millis
}

export interface StoredContent {
  readonly messageId: MessageId
  readonly content: KeptContent
}

/** Values of members that a record may lack, because an older version of this code wrote it. */
const defaults: { readonly [K in Kind]?: Partial<Records[K]> } = {
  domain: { proof: null, dkim: null, nextDkim: null, nextCheckAt: null, catchAll: null },
  message: { reception: null }
}

export const bigintMax = 9_223_372_036_854_775_807n

/** A time as a `bigint` column takes it. What lies beyond the column's range is its end. */
export const toBigint = (at: Millis): bigint =>
  at >= Number(bigintMax) ? bigintMax : at <= -Number(bigintMax) ? -bigintMax : BigInt(Math.floor(at))

const toBigintOrNull = (at: Millis | null): bigint | null => (at === null ? null : toBigint(at))

/** The time that a `bigint` column holds; all that are written fit a number. */
export const toMillis = (value: unknown): Millis => Number(value)

export const toMillisOrNull = (value: unknown): Millis | null => (value === null ? null : Number(value))

/** Whether a text is an identifier as we write them. No other text names anything, and none may reach a cast. */
export const isId = (text: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text)

/** A text that others chose, as a `text` column takes it: whole characters, and no NUL. */
export const toText = (text: string): string => text.toWellFormed().replaceAll("\u0000", "\ufffd")

/** What a notification is kept under: as long for every notification. */
export const hashOf = (notification: Notification): string =>
  createHash("sha256").update(Notifications.keyOf(notification)).digest("hex")

const fixed = <A>(name: string, type: SqlType, value: (item: A) => Value): Column<A> => ({ name, type, value, fixed: true })

const moving = <A>(name: string, type: SqlType, value: (item: A) => Value): Column<A> => ({ name, type, value, fixed: false })

/** A table whose rows are wanted for their `record` and some columns `beside` it. */
const table = <Written, Read = Written>(
  name: string,
  columns: ReadonlyArray<Column<Written>>,
  decode: (row: Row) => Read,
  beside: ReadonlyArray<string> = []
): Table<Written, Read> => ({
  name: `mailroom.${name}`,
  columns,
  selected: (alias) => {
    const of = alias === undefined ? "" : `${alias}.`
    return [`${of}record::text as record`, ...beside.map((column) => `${of}${column}`)].join(", ")
  },
  decode
})

/** The record of a row, as it was written. */
const parse = <A>(row: Row): A => JSON.parse(row["record"] as string) as A // encoded by the same table

/** A row's record with what stands in columns put over it. */
const parseWith = <A extends object>(kind: Kind, own?: (row: Row) => Partial<A>) => {
  const missing = Object.entries(defaults[kind] ?? {})
  return (row: Row): A => {
    const record = parse<A & Record<string, unknown>>(row)
    for (const [member, value] of missing) if (record[member] === undefined) Object.assign(record, { [member]: value })
    return own === undefined ? record : Object.assign(record, own(row))
  }
}

/** A record's text, without the members that stand in columns only. */
const textWithout = <A extends object>(...members: ReadonlyArray<keyof A & string>) => {
  if (members.length === 0) return (record: A): string => JSON.stringify(record)
  const absent = Object.fromEntries(members.map((member) => [member, undefined]))
  return (record: A): string => JSON.stringify({ ...record, ...absent })
}

const identity = <A extends { readonly id: string; readonly tenantId: TenantId }>(): ReadonlyArray<Column<A>> => [
  fixed("id", "uuid", ({ id }) => id),
  fixed("tenant_id", "uuid", ({ tenantId }) => tenantId)
]

const version = <A extends { readonly version: number }>(): Column<A> => moving("version", "integer", (record) => record.version)

const createdMs = <A extends { readonly createdAt: Millis }>(): Column<A> =>
  moving("created_ms", "bigint", ({ createdAt }) => toBigint(createdAt))

/** The records with an identity and a version. */
export const tables: { readonly [K in Kind]: Table<Records[K]> } = {
  tenant: table(
    "tenant",
    [fixed("id", "uuid", ({ id }) => id), version(), moving("record", "json", textWithout())],
    parseWith("tenant")
  ),
  application: table(
    "application",
    [...identity<Records["application"]>(), version(), createdMs(), moving("record", "json", textWithout())],
    parseWith("application")
  ),
  apiKey: table(
    "api_key",
    [
      ...identity<Records["apiKey"]>(),
      fixed("application_id", "uuid", ({ applicationId }) => applicationId),
      fixed("public_id", "text", ({ publicId }) => publicId),
      version(),
      createdMs(),
      moving("last_used_ms", "bigint", ({ lastUsedAt }) => toBigintOrNull(lastUsedAt)),
      moving("record", "json", textWithout("lastUsedAt"))
    ],
    parseWith<Records["apiKey"]>("apiKey", (row) => ({ lastUsedAt: toMillisOrNull(row["last_used_ms"]) })),
    ["last_used_ms"]
  ),
  domain: table(
    "domain",
    [
      ...identity<Records["domain"]>(),
      fixed("domain", "text", ({ domain }) => domain),
      version(),
      moving("next_check_ms", "bigint", ({ nextCheckAt }) => toBigintOrNull(nextCheckAt)),
      moving("seal_version", "integer", sealVersion),
      moving("record", "json", textWithout())
    ],
    parseWith("domain")
  ),
  mailbox: table(
    "mailbox",
    [
      ...identity<Records["mailbox"]>(),
      fixed("domain_id", "uuid", ({ domainId }) => domainId),
      fixed("address", "text", ({ address }) => address),
      fixed("folded_address", "text", ({ address }) => foldCase(address)),
      version(),
      moving("record", "json", textWithout())
    ],
    parseWith("mailbox")
  ),
  attachment: table(
    "attachment",
    [
      ...identity<Records["attachment"]>(),
      fixed("environment", "text", ({ environment }) => environment),
      version(),
      moving("sha256", "text", ({ blob }) => blob.sha256),
      moving("next_scan_ms", "bigint", ({ nextScanAt }) => toBigintOrNull(nextScanAt)),
      moving("unused_until_ms", "bigint", ({ messageId, expiresAt }) => (messageId === null ? toBigintOrNull(expiresAt) : null)),
      moving("record", "json", textWithout())
    ],
    parseWith("attachment")
  ),
  message: table(
    "message",
    [
      ...identity<Records["message"]>(),
      fixed("environment", "text", ({ environment }) => environment),
      fixed("mailbox_id", "uuid", ({ mailboxId }) => mailboxId),
      version(),
      fixed("created_us", "bigint", ({ createdAt }) => createdAt),
      moving("next_attempt_ms", "bigint", ({ nextAttemptAt }) => toBigintOrNull(nextAttemptAt)),
      moving("poll_ms", "bigint", (message) => toBigintOrNull(nextPollAt(message))),
      moving("parse_ms", "bigint", ({ reception }) => toBigintOrNull(reception?.nextParseAt ?? null)),
      moving("mime_sha256", "text", ({ mime }) => mime?.sha256 ?? null),
      moving("record", "json", textWithout("createdAt"))
    ],
    parseWith<Records["message"]>("message", (row) => ({ createdAt: row["created_us"] as bigint })), // an int8
    ["created_us"]
  ),
  endpoint: table(
    "endpoint",
    [
      ...identity<Records["endpoint"]>(),
      fixed("environment", "text", ({ environment }) => environment),
      fixed("application_id", "uuid", ({ applicationId }) => applicationId),
      version(),
      moving("enabled", "boolean", ({ enabled }) => enabled),
      moving("enabled_after", "bigint", ({ enabledAfter }) => enabledAfter),
      moving("seal_version", "integer", ({ secret }) => secret.version),
      createdMs(),
      moving("record", "json", textWithout("enabledAfter"))
    ],
    parseWith<Records["endpoint"]>("endpoint", (row) => ({ enabledAfter: row["enabled_after"] as bigint })), // an int8
    ["enabled_after"]
  ),
  delivery: table(
    "delivery",
    [
      ...identity<Records["delivery"]>(),
      fixed("environment", "text", ({ environment }) => environment),
      fixed("application_id", "uuid", ({ applicationId }) => applicationId),
      fixed("endpoint_id", "uuid", ({ endpointId }) => endpointId),
      version(),
      createdMs(),
      moving("next_attempt_ms", "bigint", ({ nextAttemptAt }) => toBigintOrNull(nextAttemptAt)),
      moving("dead_ms", "bigint", ({ status, deadAt }) => (status === "dead" ? toBigintOrNull(deadAt) : null)),
      moving("ended_ms", "bigint", ({ status, deadAt, deliveredAt }) =>
        status === "pending" ? null : toBigintOrNull(deadAt ?? deliveredAt)
      ),
      moving("record", "json", textWithout())
    ],
    parseWith("delivery")
  )
}

export const plan: Table<Plan> = table(
  "plan",
  [fixed("id", "text", ({ id }) => id), moving("record", "json", textWithout())],
  parse<Plan>
)

export const messageContent: Table<StoredContent, KeptContent> = table(
  "message_content",
  [
    fixed("message_id", "uuid", ({ messageId }) => messageId),
    fixed("record", "json", ({ content }) => JSON.stringify(content))
  ],
  parse<KeptContent>
)

export const deliveryBodyColumns: ReadonlyArray<Column<{ readonly deliveryId: DeliveryId; readonly body: string }>> = [
  fixed("delivery_id", "uuid", ({ deliveryId }) => deliveryId),
  fixed("body", "text", ({ body }) => body)
]

/** The names that providers took a message under. */
export const submissionsOf = (message: Message): ReadonlyArray<SubmissionRef & { readonly messageId: MessageId }> =>
  message.submissions.map(({ provider, providerMessageId }) => ({ provider, providerMessageId, messageId: message.id }))

/** The attachments that a message holds for a queued recipient; none once no recipient is queued. */
export const queuedAttachmentsOf = (
  message: Message
): ReadonlyArray<{ readonly attachmentId: AttachmentId; readonly messageId: MessageId }> =>
  queuedRecipients(message).length === 0
    ? []
    : [...new Set(message.attachmentIds)].map((attachmentId) => ({ attachmentId, messageId: message.id }))

export const submissionColumns: ReadonlyArray<Column<SubmissionRef & { readonly messageId: MessageId }>> = [
  fixed("provider", "text", ({ provider }) => toText(provider)),
  fixed("provider_message_id", "text", ({ providerMessageId }) => toText(providerMessageId)),
  fixed("message_id", "uuid", ({ messageId }) => messageId)
]

export const queuedAttachmentColumns: ReadonlyArray<
  Column<{ readonly attachmentId: AttachmentId; readonly messageId: MessageId }>
> = [
  fixed("attachment_id", "uuid", ({ attachmentId }) => attachmentId),
  fixed("message_id", "uuid", ({ messageId }) => messageId)
]

export const event: Table<StoredEvent, LoggedEvent> = table(
  "event",
  [
    fixed("shard", "smallint", ({ shard }) => shard),
    fixed("position", "bigint", ({ position }) => position),
    fixed("tenant_id", "uuid", ({ tenantId }) => tenantId),
    fixed("environment", "text", ({ environment }) => environment ?? ""),
    fixed("audience", "uuid", ({ audience }) => audience),
    fixed("occurred_ms", "bigint", ({ occurredAt }) => toBigint(occurredAt)),
    fixed("latest_ms", "bigint", ({ latestAt }) => toBigint(latestAt)),
    fixed("record", "json", textWithout("shard", "position", "latestAt"))
  ],
  // The columns are an int2 and an int8.
  (row) => Object.assign(parse<LoggedEvent>(row), { shard: row["shard"] as number, position: row["position"] as bigint }),
  ["shard", "position"]
)

/** A row for each shard stands from the beginning. */
export const relay: Table<Relay> = {
  ...table<Relay>(
    "relay",
    [
      fixed("shard", "smallint", ({ shard }) => shard),
      moving("position", "bigint", ({ position }) => position),
      moving("holder", "text", ({ holder }) => holder),
      moving("held_until_ms", "bigint", ({ heldUntil }) => toBigint(heldUntil))
    ],
    // An int2, an int8 and a text.
    (row) => ({
      shard: row["shard"] as number,
      position: row["position"] as bigint,
      holder: row["holder"] as string,
      heldUntil: toMillis(row["held_until_ms"])
    })
  ),
  // It has no record: its columns are all of it.
  selected: (alias) =>
    ["shard", "position", "holder", "held_until_ms"]
      .map((column) => (alias === undefined ? column : `${alias}.${column}`))
      .join(", ")
}

export const reservation: Table<Reservation> = table(
  "reservation",
  [
    fixed("application_id", "uuid", ({ applicationId }) => applicationId),
    fixed("idempotency_key", "text", ({ idempotencyKey }) => toText(idempotencyKey)),
    moving("expires_ms", "bigint", ({ expiresAt }) => toBigint(expiresAt)),
    moving("record", "json", textWithout())
  ],
  parse<Reservation>
)

export const suppression: Table<Suppression> = table(
  "suppression",
  [
    fixed("tenant_id", "uuid", ({ tenantId }) => tenantId),
    fixed("environment", "text", ({ environment }) => environment),
    fixed("folded_address", "text", ({ address }) => foldCase(address)),
    fixed("record", "json", textWithout())
  ],
  parse<Suppression>
)

export const notification: Table<KeptNotification, Notification> = table(
  "notification",
  [
    fixed("hash", "text", (kept) => hashOf(kept.notification)),
    fixed("provider", "text", (kept) => toText(kept.notification.provider)),
    fixed("provider_message_id", "text", (kept) => toText(kept.notification.providerMessageId)),
    fixed("kept_ms", "bigint", ({ at }) => toBigint(at)),
    fixed("record", "json", (kept) => JSON.stringify(kept.notification))
  ],
  parse<Notification>
)

export const payload: Table<ProviderPayload> = table(
  "payload",
  [
    fixed("provider", "text", ({ provider }) => toText(provider)),
    fixed("id", "text", ({ id }) => toText(id)),
    fixed("received_ms", "bigint", ({ receivedAt }) => toBigint(receivedAt)),
    fixed("record", "json", textWithout())
  ],
  parse<ProviderPayload>
)

export const audit: Table<AuditEntry> = table(
  "audit",
  [fixed("tenant_id", "uuid", ({ tenantId }) => tenantId), fixed("record", "json", textWithout())],
  parse<AuditEntry>
)

export const request: Table<RequestEntry> = table(
  "request",
  [
    fixed("tenant_id", "uuid", ({ tenantId }) => tenantId),
    fixed("at_ms", "bigint", ({ at }) => toBigint(at)),
    fixed("record", "json", textWithout())
  ],
  parse<RequestEntry>
)

// Statements over many rows: one array for each column, so that one text serves any number of them.

const elementOids: Readonly<Record<SqlType, number>> = {
  uuid: PgTypes.OID.uuid,
  text: PgTypes.OID.text,
  smallint: PgTypes.OID.int2,
  integer: PgTypes.OID.int4,
  bigint: PgTypes.OID.int8,
  boolean: PgTypes.OID.bool,
  json: PgTypes.OID.text // it is text already
}

/** An array of bytes. */
export const byteaArray = (values: ReadonlyArray<Uint8Array>): PgTypes.Parameter =>
  Result.getOrThrow(PgTypes.array(values, PgTypes.OID.bytea)) // fails only for a type without arrays

/** An array parameter. Its type is told, so that neither nulls nor small numbers change the statement. */
export const array = (type: SqlType, values: ReadonlyArray<Value>): PgTypes.Parameter =>
  Result.getOrThrow(PgTypes.array(values, elementOids[type])) // fails only for a type without arrays

/** One array parameter for each column. */
export const parameters = <A>(columns: ReadonlyArray<Column<A>>, items: ReadonlyArray<A>): ReadonlyArray<PgTypes.Parameter> =>
  columns.map(({ type, value }) => array(type, items.map(value)))

/**
 * The rows that arrays hold, their parameters from this number on: `(select unnest($1::uuid[]) as id, …) as given`. As a
 * function in `from` they would cost three times as much, for there each array is copied into a store of its own first.
 */
export const unnest = (columns: ReadonlyArray<Pick<Column<never>, "name" | "type">>, first = 1, alias = "given"): string =>
  `(select ${columns.map(({ name, type }, index) => `unnest($${first + index}::${type}[]) as ${name}`).join(", ")}) as ${alias}`

/** The columns' names, in order. */
export const names = <A>(columns: ReadonlyArray<Column<A>>): string => columns.map(({ name }) => name).join(", ")
