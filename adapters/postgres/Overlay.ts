/**
 * A commit before it is written: plays lists of changes, one after the other,
 * on what was loaded of the database, and holds what is then to be written.
 * A list that cannot be applied leaves nothing, as in the memory Store.
 *
 * What depends on a place in a log stays relative: the log's end is known only
 * where it is written. Keys that were not looked up are taken to be free, which
 * the database's own constraints see to.
 */
import type { AuditEntry, RequestEntry } from "../../core/model/Audit.ts"
import type { Delivery } from "../../core/model/Delivery.ts"
import { positionsAt, type Endpoint, type Positions } from "../../core/model/Endpoint.ts"
import type { Event } from "../../core/model/Event.ts"
import type { Reservation } from "../../core/model/IdempotencyKey.ts"
import { isInRealm, shardOf, type Micros, type Millis, type TenantId } from "../../core/model/Ids.ts"
import type { Plan } from "../../core/model/Limits.ts"
import type { KeptContent, Message } from "../../core/model/Message.ts"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import type { Suppression } from "../../core/model/Suppression.ts"
import { uniqueNameOf, type Change, type Kind, type Records, type Rejection, type Relay } from "../../core/ports/Store.ts"
import { nameOf } from "./BlobParts.ts"
import * as Rows from "./Rows.ts"
import { isPremise, keyInRealm, keyOfName, keyOfQuota, keyOfReservation, keyOfRow, keyOfSuppression, mustLook } from "./Touched.ts"

/** What the database holds of what is touched. */
export interface Loaded {
  /** Whether every key was looked up, also those that are to be new: what is not here is not there. */
  readonly isComplete: boolean
  /** Whether the rows are what the changes themselves say of them. What is written then holds only if they are right. */
  readonly isAssumed: boolean
  readonly rows: ReadonlyMap<string, { readonly version: number; readonly enabled: boolean }>
  /** Those of the assumed rows that are to be held as they are; what is only expected is not. */
  readonly required: ReadonlySet<string>
  readonly names: ReadonlySet<string>
  readonly reservations: ReadonlyMap<string, Millis>
  readonly quotas: ReadonlyMap<string, number>
  readonly relays: ReadonlyMap<number, bigint>
}

/** Of changes that need to know nothing of what is there. */
export const nothingLoaded: Loaded = {
  isComplete: false,
  isAssumed: false,
  rows: new Map(),
  required: new Set(),
  names: new Set(),
  reservations: new Map(),
  quotas: new Map(),
  relays: new Map()
}

/**
 * Whether this change, if it needs to know what is there, says what that must be. An update of an endpoint does not: whether
 * it was enabled decides if its positions in the log move.
 */
export const canBeAssumed = (change: Change): boolean =>
  !mustLook(change) || isPremise(change) || (change._tag === "Update" && change.kind !== "endpoint")

/** What the first change of each row says that there is. */
export const assumed = (lists: ReadonlyArray<ReadonlyArray<Change>>): Loaded => {
  const rows = new Map<string, { readonly version: number; readonly enabled: boolean }>()
  const required = new Set<string>()
  for (const changes of lists) {
    for (const change of changes) {
      if (change._tag !== "Update" && !isPremise(change)) continue
      const [id, version] = change._tag === "Update" ? [change.record.id, change.record.version - 1] : [change.id, change.version]
      const key = keyOfRow(change.kind, id)
      if (change._tag === "Require") required.add(key)
      if (!rows.has(key) && Rows.isId(id)) rows.set(key, { version, enabled: false })
    }
  }
  return { ...nothingLoaded, isAssumed: true, rows, required }
}

/** A message's place among its tenant's new ones, from 1, and the least that its `createdAt` can be, less that place. */
export interface MessagePlace {
  readonly ordinal: bigint
  readonly floor: Micros
}

/** A row as the changes leave it. */
export interface Entry<K extends Kind = Kind> {
  readonly kind: K
  readonly id: string
  /** In the database; null if it is not there. */
  readonly base: number | null
  /** Null if it is not there any more, or not yet. */
  readonly version: number | null
  /** It was removed from the database, whether or not there is another by now. */
  readonly isRemoved: boolean
  readonly record: Records[K] | null
  readonly content: KeptContent | null
  readonly body: string | null
  /** Of a message that is new. */
  readonly place: MessagePlace | null
  readonly enabled: boolean
  /** Of an endpoint: how many events of its shard's log come before each of them here; null where it stays as the database has it. */
  readonly positions: Positions<number | null>
}

const unmoved: Positions<null> = { createdAfter: null, disabledAfter: null, enabledAfter: null }

/** A row that must be at this version; `isHeld`: until the commit has landed. */
export interface Premise {
  readonly kind: Kind
  readonly id: string
  readonly version: number
  readonly isHeld: boolean
}

/** What a tenant adds to its log. */
export interface TenantLog {
  readonly messages: bigint
  readonly floor: Micros | null
  readonly latestAt: Millis | null
}

export interface AppendedEvent {
  readonly event: Event
  readonly shard: number
  /** From 1, among the events of the shard here. */
  readonly ordinal: number
  /** The latest `occurredAt` of its tenant's events here, up to this one. */
  readonly latestAt: Millis
}

export interface Quota {
  readonly tenantId: TenantId
  readonly day: string
  readonly taken: number
  /** What may be used before `taken` without any taker passing its limit. */
  readonly room: number
}

/** `isDropped`: what the database keeps goes first. */
export interface Note {
  readonly isDropped: boolean
  readonly kept: Rows.KeptNotification | null
}

/** `lifted`: what the database holds of it goes first. */
export interface Suppressed {
  readonly lifted: Pick<Suppression, "tenantId" | "environment" | "address"> | null
  readonly kept: Suppression | null
}

/** A rejection that what was not looked up might change. */
export const unsure = "unsure"

export class Overlay {
  readonly plans = new Map<string, Plan>()
  readonly entries = new Map<string, Entry>()
  /** Whether a name is taken, where that is no more as the database has it. */
  readonly names = new Map<string, boolean>()
  readonly tenantLogs = new Map<TenantId, TenantLog>()
  /** Events by shard; a shard that is here with none has its end looked up. */
  readonly heads = new Map<number, number>()
  readonly events: Array<AppendedEvent> = []
  readonly relays = new Map<number, Relay>()
  readonly reservations = new Map<string, Reservation>()
  readonly quotas = new Map<string, Quota>()
  readonly suppressions = new Map<string, Suppressed>()
  /** Contents of messages that the database has, if they are of these realms. */
  readonly contents = new Map<string, Extract<Change, { readonly _tag: "PutContent" }>>()
  /** Bodies of deliveries that the database has, if they are. */
  readonly bodies = new Map<string, Extract<Change, { readonly _tag: "PutBody" }>>()
  readonly blobs = new Map<string, Extract<Change, { readonly _tag: "PutBlob" }>>()
  readonly notes = new Map<string, Note>()
  /** Of keys that are not written otherwise. */
  readonly touches = new Map<string, Millis>()
  readonly payloads = new Map<string, ProviderPayload>()
  readonly audit: Array<AuditEntry> = []
  readonly requests: Array<RequestEntry> = []

  private readonly loaded: Loaded
  private undo: Array<() => void> = []
  /** Whether the list that is played relies on a key being free that was not looked up. */
  private hasAssumed = false

  constructor(loaded: Loaded) {
    this.loaded = loaded
  }

  /** Applies a caller's changes: all, or none and says why. */
  play(changes: ReadonlyArray<Change>): Rejection | typeof unsure | null {
    this.undo = []
    this.hasAssumed = false
    for (const change of changes) {
      const reason = this.apply(change)
      if (reason === null) continue
      for (const takeBack of this.undo.toReversed()) takeBack()
      return this.hasAssumed ? unsure : reason
    }
    return null
  }

  /** Whether the database holds a reservation of this key, expired or not. */
  isStored(reservation: string): boolean {
    return this.loaded.reservations.has(reservation)
  }

  /** The rows that were assumed, and are not written: they must be what they were taken for. By id. */
  premises(): ReadonlyArray<Premise> {
    if (!this.loaded.isAssumed) return []
    const premises: Array<Premise> = []
    for (const [key, { version }] of this.loaded.rows) {
      if (this.entries.has(key)) continue
      const [kind, id] = key.split(" ") as [Kind, string] // as it was made
      premises.push({ kind, id, version, isHeld: this.loaded.required.has(key) })
    }
    return premises.sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  private apply(change: Change): Rejection | null {
    switch (change._tag) {
      case "PutPlan":
        this.set(this.plans, change.plan.id, change.plan)
        return null
      case "Insert":
        return this.insert(change.kind, change.record)
      case "InsertMessage":
        return this.insertMessage(change.message, change.content)
      case "PutContent":
        this.putContent(change)
        return null
      case "InsertDelivery":
        return this.insert("delivery", change.delivery, { body: change.body })
      case "PutBody":
        this.putBody(change)
        return null
      case "PutBlob":
        this.putBlob(change)
        return null
      case "Update":
        return this.update(change.kind, change.record)
      case "Require":
      case "Expect": {
        const { kind, id, version } = change
        return this.entry(kind, id).version === version ? null : { _tag: "VersionMoved", kind, id }
      }
      case "MoveRelay": {
        const { shard } = change.relay
        const position = this.relays.get(shard)?.position ?? this.loaded.relays.get(shard) ?? 0n
        if (position !== change.from) return { _tag: "VersionMoved", kind: "relay", id: String(shard) }
        this.set(this.relays, shard, change.relay)
        return null
      }
      case "Remove":
        return this.remove(change.kind, change.record)
      case "Reserve":
        return this.reserve(change.reservation)
      case "TakeQuota":
        return this.takeQuota(change)
      case "AppendEvent":
        this.append(change.event)
        return null
      case "AppendAudit":
        this.push(this.audit, change.entry)
        return null
      case "AppendRequests":
        for (const entry of change.entries) this.push(this.requests, entry)
        return null
      case "TouchApiKeys":
        for (const { id, at } of change.used) this.touch(id, at)
        return null
      case "Suppress": {
        const key = keyOfSuppression(change.suppression)
        const held = this.suppressions.get(key) ?? { lifted: null, kept: null }
        if (held.kept === null) this.set(this.suppressions, key, { ...held, kept: change.suppression })
        return null
      }
      case "Unsuppress": {
        const lifted = { ...change.realm, address: change.address }
        this.set(this.suppressions, keyOfSuppression(lifted), { lifted, kept: null })
        return null
      }
      case "KeepNotification": {
        const { notification, at } = change
        const hash = Rows.hashOf(notification)
        const note = this.notes.get(hash) ?? { isDropped: false, kept: null }
        if (note.kept === null) this.set(this.notes, hash, { ...note, kept: { notification, at } })
        return null
      }
      case "KeepPayload": {
        const key = `${change.payload.provider}\n${change.payload.id}`
        if (!this.payloads.has(key)) this.set(this.payloads, key, change.payload)
        return null
      }
      case "DropNotification":
        this.set(this.notes, Rows.hashOf(change.notification), { isDropped: true, kept: null })
        return null
      case "Forget":
        throw new Error("what is forgotten is not played")
    }
  }

  private insert<K extends Kind>(kind: K, record: Records[K], own: Partial<Entry> = {}): Rejection | null {
    const entry = this.entry(kind, record.id)
    if (entry.version !== null) return { _tag: "Duplicate", kind, field: "id" }
    this.assume()
    const unique = uniqueNameOf(kind, record)
    if (unique !== null) {
      const name = keyOfName(unique)
      if (this.names.get(name) ?? this.loaded.names.has(name)) return { _tag: "Duplicate", kind, field: unique.field }
      this.set(this.names, name, true)
    }
    this.put({ ...entry, version: record.version, record, ...this.turned(kind, record, null), ...own })
    return null
  }

  private insertMessage(message: Message, content: KeptContent): Rejection | null {
    const { id, tenantId, createdAt } = message
    if (this.entry("message", id).version !== null) return { _tag: "Duplicate", kind: "message", field: "id" }
    const log = this.tenantLog(tenantId)
    const ordinal = log.messages + 1n
    const own = createdAt - ordinal
    const floor = log.floor === null || own > log.floor ? own : log.floor
    this.set(this.tenantLogs, tenantId, { ...log, messages: ordinal, floor })
    return this.insert("message", message, { content, place: { ordinal, floor } })
  }

  private putContent(change: Extract<Change, { readonly _tag: "PutContent" }>): void {
    const { messageId, realm, content } = change
    const entry = this.entry("message", messageId)
    if (entry.content === null) return this.set(this.contents, keyInRealm(messageId, realm), change)
    const message = entry.record as Message // by its kind; it is new here, so its content is not written yet
    if (isInRealm(realm, message)) this.put({ ...entry, content })
  }

  private putBody(change: Extract<Change, { readonly _tag: "PutBody" }>): void {
    const { deliveryId, realm, body } = change
    const entry = this.entry("delivery", deliveryId)
    if (entry.base !== null || entry.record === null) {
      const key = keyInRealm(deliveryId, realm)
      if (!this.bodies.has(key)) this.set(this.bodies, key, change)
      return
    }
    const delivery = entry.record as Delivery // by its kind; it is new here
    if (isInRealm(realm, delivery) && entry.body === null) this.put({ ...entry, body })
  }

  private putBlob(change: Extract<Change, { readonly _tag: "PutBlob" }>): void {
    const key = nameOf(change)
    const held = this.blobs.get(key)
    if (held === undefined || held.at < change.at) this.set(this.blobs, key, change)
  }

  private update<K extends Kind>(kind: K, record: Records[K]): Rejection | null {
    const entry = this.entry(kind, record.id)
    if (entry.version === null || entry.version !== record.version - 1) return { _tag: "VersionMoved", kind, id: record.id }
    this.put({ ...entry, version: record.version, record, ...this.turned(kind, record, entry) })
    // A statement writes a row once; and the record says when its key was used last.
    if (kind === "apiKey") this.set(this.touches, record.id, undefined)
    return null
  }

  private remove<K extends Kind>(kind: K, record: Records[K]): Rejection | null {
    const { id, version } = record
    const entry = this.entry(kind, id)
    if (entry.version !== version) return { _tag: "VersionMoved", kind, id }
    this.put({ ...entry, version: null, record: null, isRemoved: true })
    const unique = uniqueNameOf(kind, record)
    if (unique !== null) this.set(this.names, keyOfName(unique), false)
    return null
  }

  /** What an insert (`before` null) or an update leaves of whether an endpoint is enabled, and since where; of other kinds nothing. */
  private turned<K extends Kind>(kind: K, record: Records[K], before: Entry | null): Pick<Entry, "enabled" | "positions"> {
    if (kind !== "endpoint") return { enabled: false, positions: unmoved }
    const endpoint = record as Endpoint // by its kind
    return { enabled: endpoint.enabled, positions: positionsAt<number | null>(before, endpoint, () => this.endOfLog(shardOf(endpoint.tenantId))) }
  }

  /** What stands behind all events here would stand behind, counted from the log's end before them. */
  private endOfLog(shard: number): number {
    const events = this.heads.get(shard)
    if (events === undefined) this.set(this.heads, shard, 0)
    return events ?? 0
  }

  private reserve(reservation: Reservation): Rejection | null {
    const key = keyOfReservation(reservation)
    const held = this.reservations.get(key)?.expiresAt ?? this.loaded.reservations.get(key)
    if (held !== undefined && held > reservation.reservedAt) {
      return { _tag: "KeyTaken", idempotencyKey: reservation.idempotencyKey }
    }
    if (held === undefined) this.assume()
    this.set(this.reservations, key, reservation)
    return null
  }

  private takeQuota({ tenantId, day, amount, limit }: Extract<Change, { readonly _tag: "TakeQuota" }>): Rejection | null {
    const key = keyOfQuota(tenantId, day)
    const quota = this.quotas.get(key) ?? { tenantId, day, taken: 0, room: Number.MAX_SAFE_INTEGER }
    const known = this.loaded.quotas.get(key)
    if (known === undefined) this.assume()
    const used = (known ?? 0) + quota.taken
    if (used + amount > limit) return { _tag: "QuotaExceeded", limit, used }
    const taken = quota.taken + amount
    this.set(this.quotas, key, { ...quota, taken, room: Math.min(quota.room, limit - taken) })
    return null
  }

  private append(event: Event): void {
    const shard = shardOf(event.tenantId)
    const ordinal = (this.heads.get(shard) ?? 0) + 1
    const log = this.tenantLog(event.tenantId)
    const latestAt = Math.max(log.latestAt ?? event.occurredAt, event.occurredAt)
    this.set(this.heads, shard, ordinal)
    this.set(this.tenantLogs, event.tenantId, { ...log, latestAt })
    this.push(this.events, { event, shard, ordinal, latestAt })
  }

  private touch(id: string, at: Millis): void {
    const entry = this.entries.get(keyOfRow("apiKey", id))
    if (entry?.record == null) {
      const touched = this.touches.get(id)
      if (touched === undefined || touched < at) this.set(this.touches, id, at)
      return
    }
    const apiKey = entry.record as Records["apiKey"] // by its kind
    if (apiKey.lastUsedAt === null || apiKey.lastUsedAt < at) this.put({ ...entry, record: { ...apiKey, lastUsedAt: at } })
  }

  private tenantLog(tenantId: TenantId): TenantLog {
    return this.tenantLogs.get(tenantId) ?? { messages: 0n, floor: null, latestAt: null }
  }

  private entry<K extends Kind>(kind: K, id: string): Entry {
    const key = keyOfRow(kind, id)
    const entry = this.entries.get(key)
    if (entry !== undefined) return entry
    const row = this.loaded.rows.get(key)
    return {
      kind,
      id,
      base: row?.version ?? null,
      version: row?.version ?? null,
      isRemoved: false,
      record: null,
      content: null,
      body: null,
      place: null,
      enabled: row?.enabled ?? false,
      positions: unmoved
    }
  }

  private put(entry: Entry): void {
    this.set(this.entries, keyOfRow(entry.kind, entry.id), entry)
  }

  private assume(): void {
    if (!this.loaded.isComplete) this.hasAssumed = true
  }

  /** Writes one entry of a map; `undefined` deletes it. */
  private set<K, V>(map: Map<K, V>, key: K, value: V | undefined): void {
    const before = map.get(key)
    const write = (to: V | undefined) => void (to === undefined ? map.delete(key) : map.set(key, to))
    write(value)
    this.undo.push(() => write(before))
  }

  private push<A>(list: Array<A>, item: A): void {
    list.push(item)
    this.undo.push(() => list.pop())
  }
}
