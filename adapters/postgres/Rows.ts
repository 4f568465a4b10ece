/**
 * Records as rows: one description of each table, shared by what writes and
 * what reads. A record is kept as JSON text. What JSON has no word for, what
 * the store itself sets, and, in the tables that grow with each message, the
 * ids that stand in columns anyhow, are kept in columns only and put over the
 * record when it is read.
 *
 * A record may have been written by other code than reads it. A member that
 * this code does not know is kept and written back; one that is missing has the
 * value of `defaults`, or is filled by the migration that brings it.
 */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"
import { hash } from "node:crypto"
import { foldCase } from "../../core/model/Address.ts"
import type { AuditEntry, Numbered, RequestEntry } from "../../core/model/Audit.ts"
import * as Endpoints from "../../core/model/Endpoint.ts"
import type { LoggedEvent } from "../../core/model/Event.ts"
import type { Reservation } from "../../core/model/IdempotencyKey.ts"
import type { AttachmentId, Environment, MessageId, Millis, TenantId } from "../../core/model/Ids.ts"
import type { Plan } from "../../core/model/Limits.ts"
import { sealVersion } from "../../core/model/MailDomain.ts"
import { nextPollAt, queuedRecipients, type KeptContent, type Message } from "../../core/model/Message.ts"
import * as Notifications from "../../core/model/Notification.ts"
import type { Notification } from "../../core/model/Notification.ts"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import type { SubmissionRef } from "../../core/model/Recipient.ts"
import type { Suppression } from "../../core/model/Suppression.ts"
import type { Kind, Records, Relay } from "../../core/ports/Store.ts"
import { positionColumns, positions, positionsOf } from "./EndpointPositions.ts"

export type SqlType = "uuid" | "text" | "smallint" | "integer" | "bigint" | "boolean" | "json" | "bytea"

/** What a column holds, as the driver takes it: a `bigint` column a bigint, a `json` column its text. */
export type Value = string | number | bigint | boolean | Uint8Array | null

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

/** The content of a message, in columns: the bodies as far as a `text` column can hold them, and the rest as a record. */
export interface StoredContent {
  readonly messageId: MessageId
  readonly text: string | null
  readonly html: string | null
  readonly record: string | null
}

export const bigintMax = 9_223_372_036_854_775_807n

/** A time as a `bigint` column takes it. What lies beyond the column's range is its end. */
export const toBigint = (at: Millis): bigint =>
  at >= Number(bigintMax) ? bigintMax : at <= -Number(bigintMax) ? -bigintMax : BigInt(Math.floor(at))

export const toBigintOrNull = (at: Millis | null): bigint | null => (at === null ? null : toBigint(at))

/** The time that a `bigint` column holds; all that are written fit a number. */
export const toMillis = (value: unknown): Millis => Number(value)

export const toMillisOrNull = (value: unknown): Millis | null => (value === null ? null : Number(value))

/** Whether a text is an identifier as we write them. No other text names anything, and none may reach a cast. */
export const isId = (text: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text)

/** A text that others chose, as a `text` column takes it: whole characters, and no NUL. */
export const toText = (text: string): string => text.toWellFormed().replaceAll("\u0000", "\ufffd")

/** What a notification is kept under: as long for every notification. */
export const hashOf = (notification: Notification): string => hash("sha256", Notifications.keyOf(notification), "hex")

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

/** What of a record its text does without, beside the members that have their usual values. */
interface Apart<A, Read> {
  /** Members that columns hold just as the text would, with the names of the columns. */
  readonly standing?: { readonly [M in keyof A]?: string }
  /** Members that columns hold in another form, or that the store sets: the columns, and what a row of them says. */
  readonly other?: { readonly columns: ReadonlyArray<string>; readonly members: ReadonlyArray<keyof A & string>; readonly read: (row: Row) => Partial<NoInfer<Read>> }
  /** Values whose members a text lacks, also one of before such a member was there: so they never change. */
  readonly usual?: Partial<A>
}

const isSame = (value: unknown, usual: unknown): boolean =>
  value === usual || (Array.isArray(usual) && Array.isArray(value) && value.length === 0) // an array that is usual is empty

/** A table of these columns and of a record's text, which is read with what stands in columns put over it. */
const recorded = <A extends object, Read extends object = A>(
  name: string,
  columns: ReadonlyArray<Column<A>>,
  { standing = {}, other, usual = {} }: Apart<A, Read> = {}
): Table<A, Read> => {
  const stands: ReadonlyArray<readonly [string, string]> = Object.entries<string>(standing as Readonly<Record<string, string>>) // names of columns
  const usuals = Object.entries<unknown>(usual)
  const absent: ReadonlyArray<string> = [...stands.map(([member]) => member), ...(other?.members ?? [])]
  const textOf = (record: A): string => {
    const kept = { ...record } as Record<string, unknown>
    for (const member of absent) kept[member] = undefined
    for (const [member, value] of usuals) if (isSame(kept[member], value)) kept[member] = undefined
    return JSON.stringify(kept)
  }
  // Put together at once: V8 keeps an object that grew by a dozen members one after the other as a dictionary, of which a copy
  // takes 10 µs instead of a tenth of one.
  const decode = (row: Row): Read => {
    const own: Record<string, unknown> = {}
    for (const [member, column] of stands) own[member] = row[column]
    return { ...usual, ...parse<Read>(row), ...own, ...other?.read(row) } as Read // all of its members are there now
  }
  const beside = [...stands.map(([, column]) => column), ...(other?.columns ?? [])]
  return table(name, [...columns, moving("record", "json", textOf)], decode, beside)
}

const identity = <A extends { readonly id: string; readonly tenantId: TenantId }>(): ReadonlyArray<Column<A>> => [
  fixed("id", "uuid", ({ id }) => id),
  fixed("tenant_id", "uuid", ({ tenantId }) => tenantId)
]

/** The columns that say whose a record is, by its members. */
const inRealm = { id: "id", tenantId: "tenant_id", environment: "environment" } as const

const version = <A extends { readonly version: number }>(): Column<A> => moving("version", "integer", (record) => record.version)

const createdMs = <A extends { readonly createdAt: Millis }>(): Column<A> =>
  moving("created_ms", "bigint", ({ createdAt }) => toBigint(createdAt))

const usedAt = (row: Row) => ({ usedAt: row["unused_until_ms"] === null ? toMillisOrNull(row["used_ms"]) : null })

/** The records with an identity and a version. A commit locks rows of these tables in this order. */
export const tables: { readonly [K in Kind]: Table<Records[K]> } = {
  tenant: recorded("tenant", [fixed("id", "uuid", ({ id }) => id), version()]),
  application: recorded("application", [...identity<Records["application"]>(), version(), createdMs()]),
  apiKey: recorded(
    "api_key",
    [
      ...identity<Records["apiKey"]>(),
      fixed("application_id", "uuid", ({ applicationId }) => applicationId),
      fixed("public_id", "text", ({ publicId }) => publicId),
      version(),
      createdMs(),
      moving("last_used_ms", "bigint", ({ lastUsedAt }) => toBigintOrNull(lastUsedAt))
    ],
    {
      other: {
        columns: ["last_used_ms"],
        members: ["lastUsedAt"],
        read: (row) => ({ lastUsedAt: toMillisOrNull(row["last_used_ms"]) })
      }
    }
  ),
  domain: recorded(
    "domain",
    [
      ...identity<Records["domain"]>(),
      fixed("domain", "text", ({ domain }) => domain),
      version(),
      moving("next_check_ms", "bigint", ({ nextCheckAt }) => toBigintOrNull(nextCheckAt)),
      moving("seal_version", "integer", sealVersion)
    ],
    { usual: { proof: null, dkim: null, nextDkim: null, nextCheckAt: null, catchAll: null } }
  ),
  mailbox: recorded(
    "mailbox",
    [
      ...identity<Records["mailbox"]>(),
      fixed("domain_id", "uuid", ({ domainId }) => domainId),
      fixed("address", "text", ({ address }) => address),
      fixed("folded_address", "text", ({ address }) => foldCase(address)),
      version()
    ]
  ),
  attachment: recorded(
    "attachment",
    [
      ...identity<Records["attachment"]>(),
      fixed("environment", "text", ({ environment }) => environment),
      version(),
      moving("sha256", "text", ({ blob }) => blob.sha256),
      moving("next_scan_ms", "bigint", ({ nextScanAt }) => toBigintOrNull(nextScanAt)),
      moving("unused_until_ms", "bigint", ({ messageId, expiresAt }) => (messageId === null ? toBigintOrNull(expiresAt) : null)),
      // Of an upload its end: a version of before that uses it first leaves the column as it is.
      moving("used_ms", "bigint", ({ messageId, expiresAt, usedAt }) => toBigintOrNull(messageId === null ? expiresAt : usedAt))
    ],
    { other: { columns: ["used_ms", "unused_until_ms"], members: ["usedAt"], read: usedAt } }
  ),
  message: recorded(
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
      moving("mime_sha256", "text", ({ mime }) => mime?.sha256 ?? null)
    ],
    {
      standing: { ...inRealm, mailboxId: "mailbox_id", version: "version", createdAt: "created_us" },
      usual: {
        isStarred: false,
        replyTo: [],
        attachmentIds: [],
        inReplyTo: null,
        references: [],
        failure: null,
        sentAt: null,
        attempts: 0,
        submissions: [],
        mime: null,
        reception: null
      }
    }
  ),
  endpoint: recorded(
    "endpoint",
    [
      ...identity<Records["endpoint"]>(),
      fixed("environment", "text", ({ environment }) => environment),
      fixed("application_id", "uuid", ({ applicationId }) => applicationId),
      version(),
      moving("enabled", "boolean", ({ enabled }) => enabled),
      ...Object.entries(positions).map(([name, position]) => moving<Records["endpoint"]>(name, "bigint", (endpoint) => endpoint.positions[position])),
      moving("seal_version", "integer", Endpoints.sealVersion),
      createdMs()
    ],
    { other: { columns: positionColumns, members: ["positions"], read: (row) => ({ positions: positionsOf(row) }) }, usual: { nextSecret: null } }
  ),
  delivery: recorded(
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
      fixed("event_position", "bigint", ({ eventPosition }) => eventPosition)
    ],
    {
      standing: { ...inRealm, applicationId: "application_id", endpointId: "endpoint_id", version: "version", eventPosition: "event_position" },
      usual: { demo: false, lastError: null, attempts: [], deliveredAt: null, deadAt: null, nextAttemptAt: null }
    }
  )
}

export const plan: Table<Plan> = recorded("plan", [fixed("id", "text", ({ id }) => id)])

/** A body as a `text` column takes it; null if none can hold it. */
const bodyOf = (body: string | null): string | null => (body !== null && body.isWellFormed() && !body.includes("\0") ? body : null)

/** As it is written. */
export const storedContent = (messageId: MessageId, { text, html, ...others }: KeptContent): StoredContent => {
  const held = { text: bodyOf(text), html: bodyOf(html) }
  const rest = held.text === text && held.html === html ? others : { text, html, ...others }
  return { messageId, ...held, record: Object.keys(rest).length === 0 ? null : JSON.stringify(rest) }
}

export const messageContent: Table<StoredContent, KeptContent> = table(
  "message_content",
  [
    fixed("message_id", "uuid", ({ messageId }) => messageId),
    moving("text", "text", ({ text }) => text),
    moving("html", "text", ({ html }) => html),
    moving("record", "json", ({ record }) => record)
  ],
  // Texts; and the members of a content, encoded by the same table.
  ({ text, html, record }) => ({ text: text as string | null, html: html as string | null, ...(JSON.parse((record ?? "{}") as string) as object) }),
  ["text", "html"]
)

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

export const event: Table<StoredEvent, LoggedEvent> = recorded<StoredEvent, LoggedEvent>(
  "event",
  [
    fixed("shard", "smallint", ({ shard }) => shard),
    fixed("position", "bigint", ({ position }) => position),
    fixed("tenant_id", "uuid", ({ tenantId }) => tenantId),
    fixed("environment", "text", ({ environment }) => environment ?? ""),
    fixed("audience", "uuid", ({ audience }) => audience),
    fixed("occurred_ms", "bigint", ({ occurredAt }) => toBigint(occurredAt)),
    fixed("latest_ms", "bigint", ({ latestAt }) => toBigint(latestAt))
  ],
  {
    standing: { shard: "shard", position: "position", tenantId: "tenant_id", audience: "audience" },
    other: {
      columns: ["environment"],
      members: ["environment", "latestAt"],
      read: ({ environment }) => ({ environment: environment === "" ? null : (environment as Environment) }) // as it is written
    }
  }
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

export const reservation: Table<Reservation> = recorded("reservation", [
  fixed("application_id", "uuid", ({ applicationId }) => applicationId),
  fixed("idempotency_key", "text", ({ idempotencyKey }) => toText(idempotencyKey)),
  moving("expires_ms", "bigint", ({ expiresAt }) => toBigint(expiresAt))
])

export const suppression: Table<Suppression> = recorded("suppression", [
  fixed("tenant_id", "uuid", ({ tenantId }) => tenantId),
  fixed("environment", "text", ({ environment }) => environment),
  fixed("folded_address", "text", ({ address }) => foldCase(address))
])

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

/** The database gives the number; all that it will ever give fit one of ours. */
const numbered = { columns: ["number"], members: [], read: (row: Row) => ({ number: Number(row["number"]) }) }

export const payload: Table<ProviderPayload, Numbered<ProviderPayload>> = recorded(
  "payload",
  [
    fixed("provider", "text", ({ provider }) => toText(provider)),
    fixed("id", "text", ({ id }) => toText(id)),
    fixed("received_ms", "bigint", ({ receivedAt }) => toBigint(receivedAt))
  ],
  { other: numbered }
)

export const audit: Table<AuditEntry, Numbered<AuditEntry>> = recorded("audit", [fixed("tenant_id", "uuid", ({ tenantId }) => tenantId)], {
  standing: { tenantId: "tenant_id" },
  other: numbered
})

export const request: Table<RequestEntry, Numbered<RequestEntry>> = recorded(
  "request",
  [fixed("tenant_id", "uuid", ({ tenantId }) => tenantId), fixed("at_ms", "bigint", ({ at }) => toBigint(at))],
  { standing: { tenantId: "tenant_id" }, other: numbered }
)

// Statements over many rows have one array for each column, so that one text serves any number of them. Those over a single
// one have its values: PostgreSQL takes four fifths of the time for it.

export type Form = "row" | "arrays"

const elementOids: Readonly<Record<SqlType, number>> = {
  uuid: PgTypes.OID.uuid,
  text: PgTypes.OID.text,
  smallint: PgTypes.OID.int2,
  integer: PgTypes.OID.int4,
  bigint: PgTypes.OID.int8,
  boolean: PgTypes.OID.bool,
  json: PgTypes.OID.text, // it is text already
  bytea: PgTypes.OID.bytea
}

/** An array parameter. Its type is told, so that neither nulls nor small numbers change the statement. */
export const array = (type: SqlType, values: ReadonlyArray<Value>): PgTypes.Parameter =>
  Result.getOrThrow(PgTypes.array(values, elementOids[type])) // fails only for a type without arrays

const scalars: { readonly [T in SqlType]: (value: never) => PgTypes.Parameter } = {
  uuid: PgTypes.uuid,
  text: PgTypes.text,
  smallint: PgTypes.int2,
  integer: PgTypes.int4,
  bigint: PgTypes.int8,
  boolean: PgTypes.bool,
  json: PgTypes.text, // it is text already
  bytea: PgTypes.bytea
}

/** One parameter for each column: an array, or the value of the only row. */
export const parameters = <A>(columns: ReadonlyArray<Column<A>>, items: ReadonlyArray<A>, form: Form = "arrays"): ReadonlyArray<PgTypes.Parameter> => {
  const [only] = items
  return form === "row" && only !== undefined
    ? columns.map(({ type, value }) => scalars[type](value(only) as never)) // of its type
    : columns.map(({ type, value }) => array(type, items.map(value)))
}

/**
 * The rows that parameters hold, from this number on: `(select unnest($1::uuid[]) as id, …) as given`, or
 * `(select $1::uuid as id, …) as given`. As a function in `from` arrays would cost three times as much, for there each is
 * copied into a store of its own first.
 */
export const given = (
  columns: ReadonlyArray<Pick<Column<never>, "name" | "type">>,
  first = 1,
  form: Form = "arrays",
  alias = "given"
): string => {
  const values = columns.map(({ name, type }, index) =>
    form === "row" ? `$${first + index}::${type} as ${name}` : `unnest($${first + index}::${type}[]) as ${name}`
  )
  return `(select ${values.join(", ")}) as ${alias}`
}

/** The columns' names, in order. */
export const names = <A>(columns: ReadonlyArray<Column<A>>): string => columns.map(({ name }) => name).join(", ")
