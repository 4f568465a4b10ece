/**
 * Writes what an overlay holds, in one statement, so that a commit which has
 * nothing to look up is a single round trip and its own transaction.
 *
 * Its parts stand in the order in which everybody locks: rows by kind, written
 * or required, quotas, keys, what is put over what is there, the tenants' logs
 * with the messages, and last the heads of the shards with what needs to know
 * where they are. So a head is held for the end of the statement and the commit
 * only, and nothing else is waited for meanwhile.
 * Whoever looks first has its quotas by then, so nothing is brought before that
 * a twin brings as well: it would wait for that, and hold the quota that this
 * one waits for. Rows that are new are the exception, for hardly anybody brings
 * the same name at once.
 */
import { foldCase } from "../../core/model/Address.ts"
import type { EventId } from "../../core/model/Ids.ts"
import type { KeptContent, Message } from "../../core/model/Message.ts"
import type { Suppression } from "../../core/model/Suppression.ts"
import type { Change, Kind, Records } from "../../core/ports/Store.ts"
import { blobParts } from "./BlobParts.ts"
import { endpointParts } from "./EndpointParts.ts"
import type { AppendedEvent, Entry, MessagePlace, Overlay, Premise, Quota, TenantLog } from "./Overlay.ts"
import { atVersions, column, deleting, inserting, insertingPlaced, ofArrays, ofRows, statementOf, updating } from "./Parts.ts"
import type { Based, Part, PartOf, Shape, Statement } from "./Parts.ts"
import * as Rows from "./Rows.ts"
import { kinds } from "./Touched.ts"

/** The statement; null if there is nothing to write. Jobs are written before the heads are taken. */
export const statement = (overlay: Overlay, jobs: ReadonlyArray<Part>): Statement | null => {
  const [first, ...others] = partsOf(overlay, jobs)
  return first === undefined ? null : statementOf([first, ...others])
}

const has = <A>(part: PartOf<A>, items: ReadonlyArray<A>): ReadonlyArray<Part> => (items.length === 0 ? [] : [part(items)])

const partsOf = (overlay: Overlay, jobs: ReadonlyArray<Part>): ReadonlyArray<Part> => {
  const entries = Map.groupBy(overlay.entries.values(), ({ kind }) => kind)
  const premises = Map.groupBy(overlay.premises(), ({ kind }) => kind)
  const endpoints = entries.get("endpoint") ?? []
  const [held, notes] = [sorted(overlay.reservations), sorted(overlay.notes)]
  return [
    ...kinds.flatMap((kind) => {
      const own = entries.get(kind) ?? []
      const required = premises.get(kind) ?? []
      const touched = kind === "apiKey" ? sorted(overlay.touches) : []
      const written = kind === "endpoint" ? [] : kind === "message" ? has(changedMessages, changedOf<"message">(own)) : rowParts(kind, own)
      return [...lockedFirst(kind, required, touched, own), ...premiseParts(kind, required), ...has(touches, touched), ...written]
    }),
    ...has(quotas, sorted(overlay.quotas).map(([, quota]) => quota)),
    ...has(replacedReservations, held.filter(([key]) => overlay.isStored(key)).map(([, reservation]) => reservation)),
    ...has(newReservations, held.filter(([key]) => !overlay.isStored(key)).map(([, reservation]) => reservation)),
    ...has(plans, sorted(overlay.plans).map(([, plan]) => plan)),
    ...has(putContents, sorted(overlay.contents).map(([, change]) => change)),
    ...has(putBodies, sorted(overlay.bodies).map(([, change]) => change)),
    ...(overlay.blobs.size === 0 ? [] : blobParts([...overlay.blobs.values()])),
    ...has(liftedSuppressions, sorted(overlay.suppressions).flatMap(([, { lifted }]) => lifted ?? [])),
    ...has(suppressions, sorted(overlay.suppressions).flatMap(([, { kept }]) => kept ?? [])),
    ...has(droppedNotes, notes.flatMap(([hash, { isDropped }]) => (isDropped ? [hash] : []))),
    // Numbered in the order in which they came.
    ...has(keptNotes, [...overlay.notes.values()].flatMap(({ kept }) => kept ?? [])),
    ...has(payloads, [...overlay.payloads.values()]),
    ...has(tenantLogs, sorted(overlay.tenantLogs)),
    ...messageParts(entries.get("message") ?? []),
    ...has(audit, overlay.audit),
    ...has(requests, overlay.requests),
    ...jobs,
    ...has(relays, [...overlay.relays.values()].sort((one, other) => one.shard - other.shard)),
    ...has(heads, [...overlay.heads].sort(([one], [other]) => one - other)),
    ...endpointParts(endpoints.filter(isNew), inOrder(endpoints.filter(isChanged)), overlay.heads),
    ...has(events, overlay.events.map((one) => ({ ...one, back: overlay.heads.get(one.shard)! - one.ordinal })))
  ]
}

/** The entries of a map by their keys: rows that others may hold are waited for in one order. */
const sorted = <V>(map: ReadonlyMap<string, V>): ReadonlyArray<readonly [string, V]> =>
  map.size < 2 ? [...map] : [...map].sort(([one], [other]) => (one < other ? -1 : 1))

// Rows by id

const isNew = ({ base, isRemoved, record }: Entry): boolean => record !== null && (base === null || isRemoved)
const isChanged = ({ base, isRemoved, record }: Entry): boolean => record !== null && base !== null && !isRemoved
const isGone = ({ base, isRemoved }: Entry): boolean => base !== null && isRemoved

interface RowShapes {
  readonly insert: PartOf<Records[Kind]>
  readonly update: PartOf<Based<Records[Kind]>>
  readonly remove: PartOf<string>
}

const shapesOf = (kind: Kind): RowShapes => {
  const { name } = Rows.tables[kind]
  // It is given records of its kind alone.
  const columns = Rows.tables[kind].columns as ReadonlyArray<Rows.Column<never>> as ReadonlyArray<Rows.Column<Records[Kind]>>
  const suffix = name.slice("mailroom.".length)
  return {
    insert: inserting(`new_${suffix}`, name, columns),
    update: updating(`changed_${suffix}`, name, columns),
    remove: deleting(`gone_${suffix}`, name, "id")
  }
}
const rowShapes = new Map(kinds.map((kind) => [kind, shapesOf(kind)]))

const rowParts = (kind: Kind, entries: ReadonlyArray<Entry>): ReadonlyArray<Part> => {
  const { insert, update, remove } = rowShapes.get(kind)!
  const [created, changed, gone] = [entries.filter(isNew), changedOf(entries), entries.filter(isGone)]
  return [
    ...(gone.length === 0 ? [] : [remove(gone.map(({ id }) => id))]),
    ...(kind === "delivery" ? newDeliveryParts(created) : has(insert, recordsOf(created))),
    ...(changed.length === 0 ? [] : [update(changed)])
  ]
}

const premiseShapesOf = (kind: Kind) => {
  const { name } = Rows.tables[kind]
  const suffix = name.slice("mailroom.".length)
  return { required: atVersions(`required_${suffix}`, name, true), expected: atVersions(`expected_${suffix}`, name, false) }
}
const premiseShapes = new Map(kinds.map((kind) => [kind, premiseShapesOf(kind)]))

const premiseParts = (kind: Kind, premises: ReadonlyArray<Premise>): ReadonlyArray<Part> => {
  const { required, expected } = premiseShapes.get(kind)!
  return [...has(required, premises.filter(({ isHeld }) => isHeld)), ...has(expected, premises.filter(({ isHeld }) => !isHeld))]
}

/** Rows by id: they are waited for in one order. */
const inOrder = (entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> => entries.toSorted((one, other) => (one.id < other.id ? -1 : 1))

/** Those that are written over what is there. The caller names their kind. */
const changedOf = <K extends Kind>(entries: ReadonlyArray<Entry>): ReadonlyArray<Based<Records[K]>> =>
  inOrder(entries.filter(isChanged)).map(({ record, base }) => ({ item: record as Records[K], base: base! }))

/**
 * Rows of one kind that parts one after the other would lock, in the order of all of them: else two statements could have
 * what the other waits for, as could two that hold one row in share until both write it.
 */
const lockedFirst = (
  kind: Kind,
  required: ReadonlyArray<Premise>,
  touched: ReadonlyArray<readonly [string, number]>,
  entries: ReadonlyArray<Entry>
): ReadonlyArray<Part> => {
  const waits = [
    required.filter(({ isHeld }) => isHeld).map(({ id }) => id),
    touched.map(([id]) => id),
    entries.filter(isChanged).map(({ id }) => id)
  ].filter((ids) => ids.length > 0)
  return waits.length < 2 ? [] : [locks.get(kind)!(waits.flat())]
}

const lockOf = (kind: Kind): PartOf<string> => {
  const { name } = Rows.tables[kind]
  const shape: Shape = {
    name: `locked_${name.slice("mailroom.".length)}`,
    text: (first, behind) => `select 1 from ${name} where id = any($${first}::uuid[]) and ${behind} order by id for update`
  }
  return (ids) => ofArrays(shape, [Rows.array("uuid", ids)])
}
const locks = new Map(kinds.map((kind) => [kind, lockOf(kind)]))

const recordsOf = (entries: ReadonlyArray<Entry>): ReadonlyArray<Records[Kind]> =>
  entries.flatMap(({ record }) => record ?? [])

// Deliveries

interface SharedBody {
  /** The first that has it. */
  readonly deliveryId: string
  readonly body: string
  /** How many have it. */
  deliveries: number
}

const bodies = inserting<SharedBody>("delivery_body", "mailroom.delivery_body", [
  column("delivery_id", "uuid", ({ deliveryId }) => deliveryId),
  column("body", "text", ({ body }) => body),
  column("deliveries", "integer", ({ deliveries }) => deliveries)
])

interface NewDelivery {
  readonly delivery: Records["delivery"]
  /** The delivery whose body it has; null: it has one of its own. */
  readonly bodyId: string | null
}

const newDeliveries = inserting<NewDelivery>("new_delivery", "mailroom.delivery", [
  ...Rows.tables.delivery.columns.map((one) => ({ ...one, value: ({ delivery }: NewDelivery) => one.value(delivery) })),
  column("body_id", "uuid", ({ bodyId }) => bodyId)
])

/** A body is written once for all deliveries of an event that are made together. */
const newDeliveryParts = (entries: ReadonlyArray<Entry>): ReadonlyArray<Part> => {
  const ofEvents = new Map<EventId, Array<SharedBody>>()
  const created: Array<NewDelivery> = []
  for (const { record, body } of entries) {
    const delivery = record as Records["delivery"] // by its kind
    const known = ofEvents.get(delivery.eventId) ?? []
    const shared = known.find((one) => one.body === body)
    if (shared !== undefined) shared.deliveries += 1
    else if (body !== null) ofEvents.set(delivery.eventId, [...known, { deliveryId: delivery.id, body, deliveries: 1 }])
    created.push({ delivery, bodyId: shared?.deliveryId ?? null })
  }
  return [...has(newDeliveries, created), ...has(bodies, [...ofEvents.values()].flat())]
}

type PutBody = Extract<Change, { readonly _tag: "PutBody" }>

const putBodyColumns: ReadonlyArray<Rows.Column<PutBody>> = [
  column("delivery_id", "uuid", ({ deliveryId }) => (Rows.isId(deliveryId) ? deliveryId : null)),
  column("tenant_id", "uuid", ({ realm }) => (Rows.isId(realm.tenantId) ? realm.tenantId : null)),
  column("environment", "text", ({ realm }) => realm.environment),
  column("body", "text", ({ body }) => body)
]

/** For deliveries of these realms that have none. */
const putBodies = ofRows<PutBody>(
  {
    name: "put_body",
    text: (first, behind, form) =>
      `insert into mailroom.delivery_body (delivery_id, body)
       select delivery.id, given.body
       from ${Rows.given(putBodyColumns, first, form)}
       join lateral (select * from mailroom.delivery where id = given.delivery_id offset 0) delivery
         on delivery.tenant_id = given.tenant_id and delivery.environment = given.environment
       where delivery.body_id is null and ${behind}
       on conflict (delivery_id) do nothing returning 1`
  },
  putBodyColumns
)

/** Raises when keys were last used; unless it was looked first, the keys are not locked yet. */
const touches: PartOf<readonly [string, number]> = (items) =>
  ofArrays(touchShape, [
    Rows.array("uuid", items.map(([id]) => id)),
    Rows.array("bigint", items.map(([, at]) => Rows.toBigint(at)))
  ])
const touchShape: Shape = {
  name: "touched",
  text: (first, behind) =>
    `update mailroom.api_key as stored set last_used_ms = used.at
     from unnest($${first}::uuid[], $${first + 1}::bigint[]) as used(id, at)
     join (
       select id from mailroom.api_key where id = any($${first}::uuid[]) order by id for update
     ) as locked on locked.id = used.id
     where stored.id = locked.id and (stored.last_used_ms is null or stored.last_used_ms < used.at) and ${behind} returning 1`
}

// What has a key of its own

const plans = inserting("plan", Rows.plan.name, Rows.plan.columns, { conflict: "(id) do update set record = excluded.record" })

const newReservations = inserting("new_reservation", Rows.reservation.name, Rows.reservation.columns)
/** Those of which the database holds one that has expired. */
const replacedReservations = inserting("replaced_reservation", Rows.reservation.name, Rows.reservation.columns, {
  conflict: "(application_id, idempotency_key) do update set expires_ms = excluded.expires_ms, record = excluded.record"
})

/** Rows that others may hold are waited for in one order. */
const liftedSuppressions: PartOf<Pick<Suppression, "tenantId" | "environment" | "address">> = (items) =>
  ofArrays(liftedShape, [
    Rows.array("uuid", items.map(({ tenantId }) => tenantId)),
    Rows.array("text", items.map(({ environment }) => environment)),
    Rows.array("text", items.map(({ address }) => foldCase(address)))
  ])
const liftedShape: Shape = {
  name: "lifted_suppression",
  text: (first, behind) =>
    `delete from mailroom.suppression as stored using (
       select tenant_id, environment, folded_address from mailroom.suppression
       where (tenant_id, environment, folded_address) in (
         select * from unnest($${first}::uuid[], $${first + 1}::text[], $${first + 2}::text[])
       )
       order by tenant_id, environment, folded_address for update
     ) as held
     where stored.tenant_id = held.tenant_id and stored.environment = held.environment
       and stored.folded_address = held.folded_address and ${behind} returning 1`
}

const suppressions = inserting("suppression", Rows.suppression.name, Rows.suppression.columns, { conflict: "do nothing" })

const droppedNotes = deleting("dropped_notification", Rows.notification.name, "hash", "text")
const keptNotes = inserting("kept_notification", Rows.notification.name, Rows.notification.columns, { conflict: "do nothing" })

const payloads = inserting("payload", Rows.payload.name, Rows.payload.columns, { conflict: "do nothing" })

const audit = inserting("audit", Rows.audit.name, Rows.audit.columns)
const requests = inserting("request", Rows.request.name, Rows.request.columns)

/** A quota that would pass what its takers allow fails the statement. */
const quotas = inserting<Quota>(
  "quota",
  "mailroom.quota",
  [
    column("tenant_id", "uuid", ({ tenantId }) => tenantId),
    column("day", "text", ({ day }) => day),
    column("used", "bigint", ({ taken }) => BigInt(taken)),
    column("allowed", "bigint", ({ taken, room }) => BigInt(taken) + BigInt(room))
  ],
  { conflict: "(tenant_id, day) do update set used = quota.used + excluded.used, allowed = excluded.allowed" }
)

const relays = inserting("relay", Rows.relay.name, Rows.relay.columns, {
  conflict: `(shard) do update
    set position = excluded.position, holder = excluded.holder, held_until_ms = excluded.held_until_ms`
})

// The tenants' logs, and the messages that have a place in them

/** What a column holds as long as there has been none. */
const none = -Rows.bigintMax

const tenantLogs = inserting<readonly [string, TenantLog]>(
  "place",
  "mailroom.tenant_log",
  [
    column("tenant_id", "uuid", ([tenantId]) => tenantId),
    column("messages", "bigint", ([, { messages }]) => messages),
    column("last_created_us", "bigint", ([, { messages, floor }]) => (floor === null ? none : floor + messages)),
    column("previous_created_us", "bigint", () => none),
    column("latest_occurred_ms", "bigint", ([, { latestAt }]) => (latestAt === null ? none : Rows.toBigint(latestAt))),
    column("previous_occurred_ms", "bigint", () => none)
  ],
  {
    conflict: `(tenant_id) do update set messages = tenant_log.messages + excluded.messages,
      last_created_us = greatest(excluded.last_created_us, tenant_log.last_created_us + excluded.messages),
      previous_created_us = tenant_log.last_created_us,
      latest_occurred_ms = greatest(excluded.latest_occurred_ms, tenant_log.latest_occurred_ms),
      previous_occurred_ms = tenant_log.latest_occurred_ms`,
    returning: "tenant_id, previous_created_us, previous_occurred_ms"
  }
)

interface NewMessage {
  readonly message: Message
  readonly content: KeptContent
  readonly place: MessagePlace
}

const newMessages = insertingPlaced<NewMessage>(
  "new_message",
  "mailroom.message",
  Rows.tables.message.columns
    .filter(({ name }) => name !== "created_us")
    .map((one) => ({ ...one, value: ({ message }: NewMessage) => one.value(message) })),
  {
    by: [column("ordinal", "bigint", ({ place }) => place.ordinal), column("floor", "bigint", ({ place }) => place.floor)],
    columns: { created_us: "given.ordinal + greatest(given.floor, place.previous_created_us)" },
    from: "place",
    where: "place.tenant_id = given.tenant_id"
  }
)

const contents = inserting("message_content", Rows.messageContent.name, Rows.messageContent.columns)

type PutContent = Extract<Change, { readonly _tag: "PutContent" }>

const putColumns: ReadonlyArray<Rows.Column<Rows.StoredContent & Pick<PutContent, "realm">>> = [
  column("message_id", "uuid", ({ messageId }) => (Rows.isId(messageId) ? messageId : null)),
  column("tenant_id", "uuid", ({ realm }) => (Rows.isId(realm.tenantId) ? realm.tenantId : null)),
  column("environment", "text", ({ realm }) => realm.environment),
  ...Rows.messageContent.columns.filter(({ name }) => name !== "message_id")
]

const putShape: Shape = {
  name: "put_content",
  text: (first, behind, form) =>
    `update mailroom.message_content as stored set text = given.text, html = given.html, record = given.record
     from ${Rows.given(putColumns, first, form)}
     join lateral (select * from mailroom.message where id = given.message_id offset 0) message
       on message.tenant_id = given.tenant_id and message.environment = given.environment
     where stored.message_id = message.id and ${behind} returning 1`
}
const putRows = ofRows(putShape, putColumns)
/** Over what is there, of messages of these realms. */
const putContents: PartOf<PutContent> = (items) =>
  putRows(items.map(({ messageId, realm, content }) => ({ ...Rows.storedContent(messageId, content), realm })))

const changedMessages = updating("changed_message", "mailroom.message", Rows.tables.message.columns)

const submissionShape: Shape = {
  name: "submission",
  text: (first, behind, form) =>
    `insert into mailroom.submission (${Rows.names(Rows.submissionColumns)})
     select * from ${Rows.given(Rows.submissionColumns, first, form)}
     where ${behind} and not exists (
       select from mailroom.submission as stored where stored.provider = given.provider
         and stored.provider_message_id = given.provider_message_id and stored.message_id = given.message_id
     )
     on conflict (provider, provider_message_id) do update set message_id = excluded.message_id returning 1`
}
/** Mostly they are there already, and then only looked at. */
const submissions = ofRows(submissionShape, Rows.submissionColumns)

const unqueued = deleting("unqueued_attachment", "mailroom.queued_attachment", "message_id")
const queued = inserting("queued_attachment", "mailroom.queued_attachment", Rows.queuedAttachmentColumns, {
  conflict: "do nothing"
})

const messageParts = (entries: ReadonlyArray<Entry>): ReadonlyArray<Part> => {
  if (entries.length === 0) return []
  const created = entries.filter(isNew).map(({ record, content, place }) => ({
    message: record as Message, // by its kind, as below
    content: content!, // a message that is new has both
    place: place!
  }))
  const changed = changedOf<"message">(entries).map(({ item }) => item)
  const messages = [...created.map(({ message }) => message), ...changed]
  // One row for each name as its column takes it, of the message that said it last.
  const refs = new Map(messages.flatMap(Rows.submissionsOf).map((one) => [`${one.provider}\n${Rows.toText(one.providerMessageId)}`, one]))
  const pairs = messages.flatMap(Rows.queuedAttachmentsOf)
  const holders = new Set(pairs.map(({ messageId }) => messageId))
  const left = changed.filter(({ id, attachmentIds }) => attachmentIds.length > 0 && !holders.has(id)).map(({ id }) => id)
  return [
    ...(created.length === 0 ? [] : [newMessages(created), contents(created.map(({ message, content }) => Rows.storedContent(message.id, content)))]),
    ...(refs.size === 0 ? [] : [submissions([...refs.values()])]),
    ...(left.length === 0 ? [] : [unqueued(left)]),
    ...(pairs.length === 0 ? [] : [queued(pairs)])
  ]
}

// The shards' logs, and what has a place in them

/** `back`: how many events of this commit come behind, in the shard. */
interface Backed {
  readonly back: number
}

const heads = inserting<readonly [number, number]>(
  "head",
  "mailroom.log_head",
  [column("shard", "smallint", ([shard]) => shard), column("position", "bigint", ([, events]) => BigInt(events))],
  {
    conflict: "(shard) do update set position = log_head.position + excluded.position",
    returning: "shard, position"
  }
)

const back = column<Backed>("back", "bigint", ({ back }) => BigInt(back))

/** The columns that an event has before it has a place. */
const eventColumns = Rows.event.columns.filter(({ name }) => !["shard", "position", "latest_ms"].includes(name))

const events = insertingPlaced<AppendedEvent & Backed>(
  "new_event",
  "mailroom.event",
  [
    column("shard", "smallint", ({ shard }) => shard),
    // None of them reads the place.
    ...eventColumns.map((one) => ({ ...one, value: ({ event }: AppendedEvent) => one.value(event as Rows.StoredEvent) }))
  ],
  {
    by: [back, column("latest_ms", "bigint", ({ latestAt }) => Rows.toBigint(latestAt))],
    columns: {
      position: "head.position - given.back",
      latest_ms: "greatest(given.latest_ms, place.previous_occurred_ms)"
    },
    from: "head, place",
    where: "head.shard = given.shard and place.tenant_id = given.tenant_id"
  }
)
