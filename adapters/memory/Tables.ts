/**
 * What the memory Store holds, and how a commit changes it: one change after
 * another, each with its inverse beside it, so that all can be taken back.
 */
import type { Attachment } from "../../core/model/Attachment.ts"
import type { AuditEntry, Numbered, RequestEntry } from "../../core/model/Audit.ts"
import type { Delivery } from "../../core/model/Delivery.ts"
import { positionsAt, type Endpoint } from "../../core/model/Endpoint.ts"
import type { LoggedEvent } from "../../core/model/Event.ts"
import type { Reservation } from "../../core/model/IdempotencyKey.ts"
import { isInRealm, shardCount, shardOf, type EndpointId, type Micros, type Millis, type TenantId } from "../../core/model/Ids.ts"
import type { Plan } from "../../core/model/Limits.ts"
import { nextPollAt, queuedRecipients, type KeptContent, type Message } from "../../core/model/Message.ts"
import * as Notifications from "../../core/model/Notification.ts"
import type { Notification } from "../../core/model/Notification.ts"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import type { Suppression } from "../../core/model/Suppression.ts"
import { utcDay } from "../../core/model/Timestamp.ts"
import type { JobKind } from "../../core/ports/JobQueue.ts"
import { uniqueNameOf, type Change, type Credential, type Kind, type Records, type Rejection, type Relay } from "../../core/ports/Store.ts"
import { keyOfApplication, keyOfEndpoint, keyOfList, keyOfName, keyOfPayload, keyOfRef, keyOfReservation, keyOfSuppression } from "./Keys.ts"
import { Timeline } from "./Timeline.ts"

/** A notification whose submission was not known. */
export type Kept = Numbered<{ readonly notification: Notification; readonly at: Millis }>

/** A shard's events, how many were cut off before them (positions go on), and the latest time that one of those occurred. */
export interface ShardLog {
  readonly dropped: number
  readonly droppedUntil: Millis
  readonly events: Array<LoggedEvent>
}

export class Tables {
  readonly plans = new Map<string, Plan>()
  readonly records: { readonly [K in Kind]: Map<string, Records[K]> } = {
    tenant: new Map(),
    application: new Map(),
    apiKey: new Map(),
    domain: new Map(),
    mailbox: new Map(),
    attachment: new Map(),
    message: new Map(),
    endpoint: new Map(),
    delivery: new Map()
  }
  /** Ids by kind and unique field. */
  readonly names = new Map<string, string>()

  readonly contents = new Map<string, KeptContent>()
  readonly lastCreatedAt = new Map<TenantId, Micros>()
  /** By realm, and by realm and mailbox: messages as inserted, oldest first. */
  readonly messageLists = new Map<string, Array<Message>>()
  readonly submissions = new Map<string, string>()
  /** By attachment, the messages with a queued recipient. */
  readonly queuedWith = new Map<string, Map<string, true>>()

  readonly due: { readonly [K in JobKind]: Timeline } = {
    submit: new Timeline(),
    poll: new Timeline(),
    scan: new Timeline(),
    deliver: new Timeline(),
    parse: new Timeline()
  }
  /** Unused uploads by their expiry. */
  readonly expiries = new Timeline()
  /** By tenant and digest, how many records refer to the blob. */
  readonly blobUses = new Map<string, number>()

  readonly shards = new Map<number, ShardLog>()
  /** The same events by tenant. */
  readonly events = new Map<TenantId, Array<LoggedEvent>>()

  /** By realm and application, by creation. */
  readonly endpointLists = new Map<string, Timeline>()
  /** By tenant, the enabled endpoints. */
  readonly enabled = new Map<TenantId, Map<EndpointId, true>>()
  readonly bodies = new Map<string, string>()
  /** By realm and application, and by these and the endpoint, by creation. */
  readonly deliveryLists = new Map<string, Timeline>()
  /** By realm and endpoint, the dead deliveries by their death. */
  readonly deadLists = new Map<string, Timeline>()
  readonly relays = new Map<number, Relay>()

  readonly reservations = new Map<string, Reservation>()
  readonly quotas = new Map<string, number>()
  readonly suppressions = new Map<string, Suppression>()
  readonly kept = new Map<string, Kept>()
  /** By provider and id. */
  readonly payloads = new Map<string, Numbered<ProviderPayload>>()
  readonly audit = new Map<TenantId, Array<Numbered<AuditEntry>>>()
  readonly requests = new Map<TenantId, Array<Numbered<RequestEntry>>>()

  /** The last number that was given to anything. */
  private number = 0

  /** Rows that the last commit has forgotten. */
  forgotten = 0

  /** How to take back what the current commit has applied. */
  private undo: Array<() => void> = []

  /** Applies all changes, or none and says why. */
  commit(changes: ReadonlyArray<Change>): Rejection | null {
    this.undo = []
    this.forgotten = 0
    let applied = false
    try {
      for (const change of changes) {
        const reason = this.apply(change)
        if (reason !== null) return reason
      }
      applied = true
      return null
    } finally {
      if (!applied) for (const takeBack of this.undo.toReversed()) takeBack()
    }
  }

  /** A message as it is now. */
  readonly current = (message: Message): Message => this.records.message.get(message.id)!

  credential(publicId: string): Credential | null {
    const apiKey = this.records.apiKey.get(this.names.get(keyOfName({ kind: "apiKey", value: publicId })) ?? "")
    const application = this.records.application.get(apiKey?.applicationId ?? "")
    const tenant = this.records.tenant.get(apiKey?.tenantId ?? "")
    const plan = this.plans.get(tenant?.planId ?? "")
    return apiKey && application && tenant && plan ? { apiKey, application, tenant, plan } : null
  }

  /** Those whose unique field is one of these, each once. */
  named<K extends "mailbox" | "domain">(kind: K, names: ReadonlyArray<string>): ReadonlyArray<Records[K]> {
    return [...new Set(names)].flatMap((name) => this.records[kind].get(this.names.get(keyOfName({ kind, value: name })) ?? "") ?? [])
  }

  /** The last position of a shard's log; 0 if nothing was ever appended. */
  endOfLog(shard: number): bigint {
    const log = this.shards.get(shard)
    return log === undefined ? 0n : BigInt(log.dropped + log.events.length)
  }

  /** How far a shard is relayed. One that was never moved is held by nobody. */
  relay(shard: number): Relay {
    return this.relays.get(shard) ?? { shard, position: 0n, holder: "", heldUntil: 0 }
  }

  /** Events of a shard that lie behind the relay's position. */
  unrelayed(shard: number): ReadonlyArray<LoggedEvent> {
    const { dropped, events } = this.shards.get(shard) ?? { dropped: 0, events: [] }
    return events.slice(Math.max(0, Number(this.relay(shard).position) - dropped))
  }

  keptInOrder(): ReadonlyArray<Kept> {
    return [...this.kept.values()].sort((left, right) => left.at - right.at || left.number - right.number)
  }

  payloadsInOrder(): ReadonlyArray<Numbered<ProviderPayload>> {
    return [...this.payloads.values()].sort((left, right) => left.number - right.number)
  }

  private numbered<A>(item: A): Numbered<A> {
    return { ...item, number: (this.number += 1) }
  }

  private apply(change: Change): Rejection | null {
    switch (change._tag) {
      case "PutPlan":
        this.set(this.plans, change.plan.id, change.plan)
        return null
      case "Insert":
        return this.insert(change)
      case "InsertMessage":
        return this.insertMessage(change.message, change.content)
      case "PutContent": {
        const { realm, messageId, content } = change
        if (isInRealm(realm, this.records.message.get(messageId))) this.set(this.contents, messageId, content)
        return null
      }
      case "InsertDelivery": {
        const { delivery, body } = change
        if (this.records.delivery.has(delivery.id)) return { _tag: "Duplicate", kind: "delivery", field: "id" }
        this.put("delivery", delivery)
        if (body !== null) this.set(this.bodies, delivery.id, body)
        return null
      }
      case "PutBody": {
        const { realm, deliveryId, body } = change
        const isAwaited = isInRealm(realm, this.records.delivery.get(deliveryId)) && !this.bodies.has(deliveryId)
        if (isAwaited) this.set(this.bodies, deliveryId, body)
        return null
      }
      case "PutBlob":
        throw new Error("this store keeps no blobs; its BlobStore must write them itself")
      case "Update":
        return this.update(change)
      case "Require":
      case "Expect": {
        const { kind, id, version } = change
        return this.records[kind].get(id)?.version === version ? null : { _tag: "VersionMoved", kind, id }
      }
      case "MoveRelay": {
        const { shard } = change.relay
        if (this.relay(shard).position !== change.from) return { _tag: "VersionMoved", kind: "relay", id: String(shard) }
        this.set(this.relays, shard, change.relay)
        return null
      }
      case "Remove": {
        const { kind, record: { id, version } } = change
        const stored = this.records[kind].get(id)
        if (stored?.version !== version) return { _tag: "VersionMoved", kind, id }
        this.drop(kind, stored)
        return null
      }
      case "Reserve": {
        const key = keyOfReservation(change.reservation)
        const held = this.reservations.get(key)
        if (held !== undefined && held.expiresAt > change.reservation.reservedAt) {
          return { _tag: "KeyTaken", idempotencyKey: change.reservation.idempotencyKey }
        }
        this.set(this.reservations, key, change.reservation)
        return null
      }
      case "TakeQuota": {
        const { amount, limit } = change
        const key = `${change.tenantId} ${change.day}`
        const used = this.quotas.get(key) ?? 0
        if (used + amount > limit) return { _tag: "QuotaExceeded", limit, used }
        this.set(this.quotas, key, used + amount)
        return null
      }
      case "AppendEvent": {
        const { event } = change
        const shard = shardOf(event.tenantId)
        const log = this.shards.get(shard) ?? { dropped: 0, droppedUntil: -Infinity, events: [] }
        const logged = { ...event, shard, position: this.endOfLog(shard) + 1n }
        this.set(this.shards, shard, log)
        this.push(log.events, logged)
        this.append(this.events, event.tenantId, logged)
        return null
      }
      case "AppendAudit":
        this.append(this.audit, change.entry.tenantId, this.numbered(change.entry))
        return null
      case "AppendRequests":
        for (const entry of change.entries) this.append(this.requests, entry.tenantId, this.numbered(entry))
        return null
      case "TouchApiKeys":
        for (const { id, at } of change.used) {
          const apiKey = this.records.apiKey.get(id)
          if (apiKey !== undefined && (apiKey.lastUsedAt ?? Number.NEGATIVE_INFINITY) < at) {
            this.set(this.records.apiKey, id, { ...apiKey, lastUsedAt: at })
          }
        }
        return null
      case "Suppress": {
        const key = keyOfSuppression(change.suppression, change.suppression.address)
        if (!this.suppressions.has(key)) this.set(this.suppressions, key, change.suppression)
        return null
      }
      case "Unsuppress":
        this.set(this.suppressions, keyOfSuppression(change.realm, change.address), undefined)
        return null
      case "KeepNotification": {
        const key = Notifications.keyOf(change.notification)
        if (!this.kept.has(key)) this.set(this.kept, key, this.numbered({ notification: change.notification, at: change.at }))
        return null
      }
      case "KeepPayload": {
        const key = keyOfPayload(change.payload)
        if (!this.payloads.has(key)) this.set(this.payloads, key, this.numbered(change.payload))
        return null
      }
      case "DropNotification":
        this.set(this.kept, Notifications.keyOf(change.notification), undefined)
        return null
      case "Forget":
        this.forget(change)
        return null
    }
  }

  private insert(change: Extract<Change, { readonly _tag: "Insert" }>): Rejection | null {
    const { kind, record } = change
    if (this.records[kind].has(record.id)) return { _tag: "Duplicate", kind, field: "id" }
    const unique = uniqueNameOf(kind, record)
    if (unique !== null && this.names.has(keyOfName(unique))) return { _tag: "Duplicate", kind, field: unique.field }
    this.put(kind, this.withOwn(kind, record, null))
    return null
  }

  private insertMessage(message: Message, content: KeptContent): Rejection | null {
    const { id, tenantId, mailboxId } = message
    if (this.records.message.has(id)) return { _tag: "Duplicate", kind: "message", field: "id" }
    const last = this.lastCreatedAt.get(tenantId)
    const createdAt = last === undefined || message.createdAt > last ? message.createdAt : last + 1n
    this.set(this.lastCreatedAt, tenantId, createdAt)
    const stored = { ...message, createdAt }
    this.put("message", stored)
    this.set(this.contents, id, content)
    this.append(this.messageLists, keyOfList(message, null), stored)
    this.append(this.messageLists, keyOfList(message, mailboxId), stored)
    return null
  }

  private update(change: Extract<Change, { readonly _tag: "Update" }>): Rejection | null {
    const { kind, record } = change
    const stored = this.records[kind].get(record.id)
    if (stored?.version !== record.version - 1) return { _tag: "VersionMoved", kind, id: record.id }
    this.index(kind, stored, false)
    this.put(kind, this.withOwn(kind, record, stored))
    return null
  }

  /** An update's record, with what the store itself has set; `stored` is null for an insert. */
  private withOwn(kind: Kind, record: Records[Kind], stored: Records[Kind] | null): Records[Kind] {
    // Both are of this kind.
    if (kind === "message" && stored !== null) return { ...(record as Message), createdAt: (stored as Message).createdAt }
    if (kind !== "endpoint") return record
    const [before, endpoint] = [stored as Endpoint | null, record as Endpoint]
    return { ...endpoint, positions: positionsAt(before, endpoint, () => this.endOfLog(shardOf(endpoint.tenantId))) }
  }

  private put<K extends Kind>(kind: K, record: Records[Kind]): void {
    // A change pairs each kind with its record; the compiler loses the pair on the way here.
    this.set(this.records[kind] as Map<string, Records[Kind]>, record.id, record)
    this.index(kind, record, true)
  }

  private drop(kind: Kind, record: Records[Kind]): void {
    this.index(kind, record, false)
    this.set(this.records[kind] as Map<string, Records[Kind]>, record.id, undefined) // as above
  }

  /** Enters a record in every index that is derived from it, or takes it out. */
  private index(kind: Kind, record: Records[Kind], present: boolean): void {
    const unique = uniqueNameOf(kind, record)
    if (unique !== null) this.set(this.names, keyOfName(unique), present ? record.id : undefined)
    if (kind === "attachment") {
      const attachment = record as Records["attachment"] // by its kind
      this.countBlob(attachment.tenantId, attachment.blob.sha256, present)
      this.mark(this.due.scan, attachment.nextScanAt, attachment.id, present)
      if (attachment.messageId === null) this.mark(this.expiries, attachment.expiresAt, attachment.id, present)
    }
    if (kind === "message") {
      const message = record as Message // by its kind
      const queued = queuedRecipients(message).length > 0
      for (const ref of message.submissions.map(keyOfRef)) {
        // A name that was used twice is the last message's.
        if (present || this.submissions.get(ref) === message.id) this.set(this.submissions, ref, present ? message.id : undefined)
      }
      for (const id of queued ? message.attachmentIds : []) {
        this.set(entry(this.queuedWith, id, () => new Map()), message.id, present ? true : undefined)
      }
      if (message.mime !== null) this.countBlob(message.tenantId, message.mime.sha256, present)
      this.mark(this.due.submit, message.nextAttemptAt, message.id, present)
      this.mark(this.due.poll, nextPollAt(message), message.id, present)
      this.mark(this.due.parse, message.reception?.nextParseAt ?? null, message.id, present)
    }
    if (kind === "endpoint") {
      const endpoint = record as Endpoint // by its kind
      const { id, tenantId, applicationId, createdAt } = endpoint
      this.mark(entry(this.endpointLists, keyOfApplication(endpoint, applicationId), () => new Timeline()), createdAt, id, present)
      if (endpoint.enabled) this.set(entry(this.enabled, tenantId, () => new Map()), id, present ? true : undefined)
    }
    if (kind === "delivery") this.indexDelivery(record as Delivery, present) // by its kind
  }

  private indexDelivery(delivery: Delivery, present: boolean): void {
    const { id, applicationId, endpointId, createdAt, deadAt } = delivery
    for (const key of [keyOfApplication(delivery, applicationId), keyOfApplication(delivery, applicationId, endpointId)]) {
      this.mark(entry(this.deliveryLists, key, () => new Timeline()), createdAt, id, present)
    }
    if (delivery.status === "dead") {
      this.mark(entry(this.deadLists, keyOfEndpoint(delivery, endpointId), () => new Timeline()), deadAt, id, present)
    }
    this.mark(this.due.deliver, delivery.nextAttemptAt, id, present)
  }

  private countBlob(tenantId: TenantId, sha256: string, present: boolean): void {
    const key = `${tenantId} ${sha256}`
    const uses = (this.blobUses.get(key) ?? 0) + (present ? 1 : -1)
    this.set(this.blobUses, key, uses === 0 ? undefined : uses)
  }

  private mark(timeline: Timeline, at: Millis | null, id: string, present: boolean): void {
    if (at === null) return
    if (present) timeline.add({ at, id })
    else timeline.remove({ at, id })
    this.undo.push(() => (present ? timeline.remove({ at, id }) : timeline.add({ at, id })))
  }

  private forget({ what, before, limit }: Extract<Change, { readonly _tag: "Forget" }>): void {
    const cut = <A>(items: Iterable<A>, at: (item: A) => Millis, remove: (item: A) => void): void => {
      for (const item of olderThan(before, limit, items, at)) {
        remove(item)
        this.forgotten += 1
      }
    }
    const { attachment, delivery, message } = this.records
    switch (what) {
      case "events":
        return this.forgetEvents(before, limit)
      case "reservations":
        return cut(this.reservations.values(), (held) => held.expiresAt, (held) => this.set(this.reservations, keyOfReservation(held), undefined))
      case "notifications":
        return cut(this.kept.values(), ({ at }) => at, ({ notification }) => this.set(this.kept, Notifications.keyOf(notification), undefined))
      case "payloads":
        return cut(this.payloads.values(), (payload) => payload.receivedAt, (payload) => this.set(this.payloads, keyOfPayload(payload), undefined))
      case "quotas": {
        const today = utcDay(before)
        for (const key of [...this.quotas.keys()].filter((key) => dayOf(key) < today).sort(byDay).slice(0, limit)) {
          this.set(this.quotas, key, undefined)
          this.forgotten += 1
        }
        return
      }
      case "deliveries":
        return cut([...delivery.values()].filter(({ status }) => status !== "pending"), ({ deadAt, deliveredAt }) => (deadAt ?? deliveredAt)!, (one) => {
          this.drop("delivery", one)
          this.set(this.bodies, one.id, undefined)
        })
      case "messages": {
        const listed = new Map<string, Set<string>>()
        cut([...message.values()].filter(waitsForNothing), ({ createdAt }) => Number(createdAt) / 1_000, (one) => {
          this.drop("message", one)
          this.set(this.contents, one.id, undefined)
          for (const key of [keyOfList(one, null), keyOfList(one, one.mailboxId)]) entry(listed, key, () => new Set()).add(one.id)
        })
        for (const [key, old] of listed) this.set(this.messageLists, key, this.messageLists.get(key)!.filter(({ id }) => !old.has(id)))
        return
      }
      case "attachments": {
        const isLeft = ({ id, usedAt }: Attachment) => usedAt !== null && (this.queuedWith.get(id)?.size ?? 0) === 0
        return cut([...attachment.values()].filter(isLeft), ({ usedAt }) => usedAt!, (one) => this.drop("attachment", one))
      }
      case "requests": {
        const old = new Set(olderThan(before, limit, [...this.requests.values()].flat(), (one) => one.at))
        this.forgotten += old.size
        for (const tenantId of new Set([...old].map((one) => one.tenantId))) {
          this.set(this.requests, tenantId, this.requests.get(tenantId)!.filter((one) => !old.has(one)))
        }
      }
    }
  }

  /** Cuts each shard from its front, and stops there at the first event that is not older. */
  private forgetEvents(before: Millis, limit: number): void {
    const cuts = new Map<number, number>()
    for (let left = limit; left > 0; left--) {
      const fronts = Array.from({ length: shardCount }, (_, shard) => this.shards.get(shard)?.events[cuts.get(shard) ?? 0])
      const [oldest] = olderThan(before, 1, fronts.filter((event) => event !== undefined), (event) => event.occurredAt)
      if (oldest === undefined) break
      cuts.set(oldest.shard, (cuts.get(oldest.shard) ?? 0) + 1)
    }
    for (const [shard, cut] of cuts) {
      this.forgotten += cut
      const { dropped, droppedUntil, events } = this.shards.get(shard)!
      const gone = events.slice(0, cut)
      const until = gone.reduce((latest, { occurredAt }) => Math.max(latest, occurredAt), droppedUntil)
      this.set(this.shards, shard, { dropped: dropped + cut, droppedUntil: until, events: events.slice(cut) })
      for (const [tenantId, old] of Map.groupBy(gone, (event) => event.tenantId)) this.set(this.events, tenantId, this.events.get(tenantId)!.slice(old.length))
    }
  }

  /** Writes one entry of a map; `undefined` deletes it. */
  private set<K, V>(map: Map<K, V>, key: K, value: V | undefined): void {
    const write = (to: V | undefined) => void (to === undefined ? map.delete(key) : map.set(key, to))
    const before = map.get(key)
    write(value)
    this.undo.push(() => write(before))
  }

  private push<A>(list: Array<A>, item: A): void {
    list.push(item)
    this.undo.push(() => list.pop())
  }

  private append<K, A>(lists: Map<K, Array<A>>, key: K, item: A): void {
    this.push(entry(lists, key, () => []), item)
  }
}

const waitsForNothing = (message: Message): boolean =>
  message.nextAttemptAt === null && nextPollAt(message) === null && (message.reception?.nextParseAt ?? null) === null

const dayOf = (quota: string): string => quota.slice(quota.indexOf(" ") + 1)

const byDay = (left: string, right: string): number => (dayOf(left) < dayOf(right) ? -1 : 1)

const olderThan = <A>(before: Millis, limit: number, items: Iterable<A>, at: (item: A) => Millis): ReadonlyArray<A> =>
  [...items].filter((item) => at(item) < before).sort((left, right) => at(left) - at(right)).slice(0, limit)

const entry = <K, V>(map: Map<K, V>, key: K, make: () => V): V => {
  const held = map.get(key)
  if (held !== undefined) return held
  const made = make()
  map.set(key, made)
  return made
}
