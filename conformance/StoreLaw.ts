/**
 * What the laws of the Store are written with: a law, the two ends of a
 * commit, and changes and records with nothing special about them. State is
 * built through `commit` alone.
 */
import { Effect, type Scope } from "effect"
import assert from "node:assert/strict"
import type { Address } from "../core/model/Address.ts"
import type { AuditEntry, RequestEntry } from "../core/model/Audit.ts"
import type { EventPlace, EventStart } from "../core/model/Cursor.ts"
import type { Delivery } from "../core/model/Delivery.ts"
import type { Event, LoggedEvent } from "../core/model/Event.ts"
import type { IdempotencyKey, Reservation } from "../core/model/IdempotencyKey.ts"
import type { ApiKeyId, ApplicationId, MessageId, Millis, Realm, TenantId } from "../core/model/Ids.ts"
import type { KeptContent, Message, Submission } from "../core/model/Message.ts"
import type { Notification } from "../core/model/Notification.ts"
import type { ProviderPayload } from "../core/model/ProviderPayload.ts"
import type { SubmissionRef } from "../core/model/Recipient.ts"
import type { Suppression } from "../core/model/Suppression.ts"
import {
  Store,
  type Change,
  type Forgettable,
  type Kind,
  type Records,
  type Rejection,
  type Relay,
  type StoreUnavailable
} from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import { NotApplicable, type Check } from "./Suite.ts"

export type Service = typeof Store.Service

export const law = (
  title: string,
  check: (store: Service) => Effect.Effect<void, unknown, Scope.Scope>
): Check<Store> => ({ title, check: Effect.flatMap(Store, check) })

/** Commits what must land. */
export const land = (store: Service, ...changes: ReadonlyArray<Change>): Effect.Effect<void, unknown> =>
  Effect.asVoid(store.commit(changes, []))

/** Commits what must be rejected, and says why it was. */
export const refusal = (store: Service, ...changes: ReadonlyArray<Change>): Effect.Effect<Rejection, StoreUnavailable> =>
  Effect.map(outcome(store, ...changes), (reason) => {
    assert.ok(reason !== null, "the commit landed")
    return reason
  })

/** Why a commit was rejected; null if it landed. */
export const outcome = (
  store: Service,
  ...changes: ReadonlyArray<Change>
): Effect.Effect<Rejection | null, StoreUnavailable> =>
  store.commit(changes, []).pipe(
    Effect.as(null),
    Effect.catchTag("CommitRejected", ({ reason }) => Effect.succeed(reason))
  )

/** Runs all at once. */
export const together = <A, E, R>(effects: Iterable<Effect.Effect<A, E, R>>): Effect.Effect<Array<A>, E, R> =>
  Effect.all([...effects], { concurrency: "unbounded" })

/** What a maker makes of each index, from 0. */
export const times = <A>(count: number, make: (index: number) => A): Array<A> =>
  Array.from({ length: count }, (_, index) => make(index))

/** Without their numbers, which each store gives in its own way. */
export const unnumbered = <A extends { readonly number: number }>(items: ReadonlyArray<A>): ReadonlyArray<Omit<A, "number">> =>
  items.map(({ number: _, ...item }) => item)

/** A record of each kind, of one realm. */
export const recordsOf = (realm: Realm): Records => {
  const domain = Fixtures.mailDomain(realm.tenantId)
  const application = Fixtures.application(realm)
  const endpoint = Fixtures.endpoint(realm)
  return {
    tenant: Fixtures.tenant({ id: realm.tenantId }),
    application,
    apiKey: Fixtures.apiKey(application),
    domain,
    mailbox: Fixtures.mailbox(domain),
    attachment: Fixtures.attachment(realm),
    message: Fixtures.message(realm),
    endpoint,
    delivery: Fixtures.delivery(endpoint)
  }
}

// Changes

export const insert = <K extends Exclude<Kind, "message" | "delivery">>(kind: K, record: Records[K]): Change =>
  ({ _tag: "Insert", kind, record }) as Change // the signature pairs kind and record

export const insertMessage = (message: Message, content: KeptContent = Fixtures.content(message)): Change => ({
  _tag: "InsertMessage",
  message,
  content
})

export const insertDelivery = (delivery: Delivery, body: string | null = "{}"): Change => ({ _tag: "InsertDelivery", delivery, body })

export const putBody = (realm: Realm, { id }: Pick<Delivery, "id">, body: string): Change => ({ _tag: "PutBody", realm, deliveryId: id, body })

export const update = <K extends Kind>(kind: K, record: Records[K]): Change =>
  ({ _tag: "Update", kind, record }) as Change // as above

export const remove = <K extends Extract<Change, { readonly _tag: "Remove" }>["kind"]>(kind: K, record: Records[K]): Change =>
  ({ _tag: "Remove", kind, record }) as Change // as above

/** Holds a commit to the version of a record. */
export const demand = (kind: Kind, record: { readonly id: string; readonly version: number }): Change => ({
  _tag: "Require",
  kind,
  id: record.id,
  version: record.version
})

/** The same, without holding it. */
export const suppose = (kind: Kind, record: { readonly id: string; readonly version: number }): Change => ({
  _tag: "Expect",
  kind,
  id: record.id,
  version: record.version
})

export const moveRelay = (from: bigint, to: Pick<Relay, "shard" | "position"> & Partial<Relay>): Change => ({
  _tag: "MoveRelay",
  relay: { holder: "worker-1", heldUntil: 0, ...to },
  from
})

export const forget = (what: Forgettable, before: Millis, limit = 1_000): Change => ({ _tag: "Forget", what, before, limit })

/** A record one version on. */
export const next = <R extends { readonly version: number }>(record: R, over: Partial<R> = {}): R => ({
  ...record,
  ...over,
  version: record.version + 1
})

export const append = (event: Event): Change => ({ _tag: "AppendEvent", event })

export const reserve = (reservation: Reservation): Change => ({ _tag: "Reserve", reservation })

export const takeQuota = (tenantId: TenantId, amount: number, limit: number, day = "2026-12-01"): Change => ({
  _tag: "TakeQuota",
  tenantId,
  day,
  amount,
  limit
})

export const suppress = (entry: Suppression): Change => ({ _tag: "Suppress", suppression: entry })

export const unsuppress = (realm: Realm, address: Address): Change => ({ _tag: "Unsuppress", realm, address })

export const keep = (note: Notification, at: Millis): Change => ({ _tag: "KeepNotification", notification: note, at })

export const keepPayload = (payload: ProviderPayload): Change => ({ _tag: "KeepPayload", payload })

export const drop = (note: Notification): Change => ({ _tag: "DropNotification", notification: note })

// Records

/** Of a provider that nobody else has heard of, unless said otherwise. */
export const payload = (over: Partial<ProviderPayload> = {}): ProviderPayload => ({
  id: Fixtures.freshId<string>(),
  provider: `p${Fixtures.freshId<string>()}`,
  receivedAt: 0,
  digest: "d".repeat(64),
  text: "{\"Type\":\"Notification\",\"Subject\":\"\\u0000 ✓\"}",
  kind: "Bounce",
  notifications: 1,
  ...over
})

export const reservation = (over: Partial<Reservation> = {}): Reservation => ({
  applicationId: Fixtures.freshId<ApplicationId>(),
  idempotencyKey: Fixtures.freshId<string>() as IdempotencyKey, // 36 characters
  fingerprint: "f".repeat(64),
  messageId: Fixtures.freshId<MessageId>(),
  reservedAt: 0,
  expiresAt: 86_400_000,
  ...over
})

export const auditEntry = (of: Realm, over: Partial<AuditEntry> = {}): AuditEntry => ({
  id: Fixtures.freshId<string>(),
  tenantId: of.tenantId,
  environment: of.environment,
  at: 0,
  actor: { type: "api_key", id: Fixtures.freshId<string>() },
  action: "message.send",
  subject: { type: "message", id: Fixtures.freshId<string>() },
  requestId: Fixtures.freshId<string>(),
  clientAddress: "192.0.2.1",
  ...over
})

export const requestEntry = (of: Realm, over: Partial<RequestEntry> = {}): RequestEntry => ({
  requestId: Fixtures.freshId<string>(),
  tenantId: of.tenantId,
  environment: of.environment,
  applicationId: Fixtures.freshId<ApplicationId>(),
  apiKeyId: Fixtures.freshId<ApiKeyId>(),
  at: 0,
  operation: "sendMessage",
  status: 202,
  code: null,
  durationMs: 1.5,
  clientAddress: "192.0.2.1",
  ...over
})

export const suppression = (of: Realm, over: Partial<Suppression> = {}): Suppression => ({
  tenantId: of.tenantId,
  environment: of.environment,
  address: Fixtures.address(),
  reason: "bounce",
  messageId: Fixtures.freshId<MessageId>(),
  createdAt: 0,
  ...over
})

export const submissionRef = (): SubmissionRef => ({ provider: "relay", providerMessageId: Fixtures.freshId<string>() })

export const submission = (ref: SubmissionRef, over: Partial<Submission> = {}): Submission => ({
  ...ref,
  submittedAt: 0,
  recipients: [Fixtures.address("charles")],
  pollAt: null,
  ...over
})

export const notification = (ref: SubmissionRef, over: Partial<Notification> = {}): Notification => ({
  ...ref,
  recipient: Fixtures.address("charles"),
  outcome: { _tag: "Delivered", at: 0, smtpResponse: "250 2.0.0 Ok" },
  ...over
})

// Places and times of one's own

/** A tenant in this shard of the log. */
export const realmInShard = (shard: number): Realm => {
  const { tenantId, environment } = Fixtures.realm()
  return { tenantId: `${tenantId.slice(0, -1)}${shard.toString(16)}` as TenantId, environment } // still a UUID
}

let age = -1_000_000_000_000

/**
 * The start of an age long before that of any check so far, as long as eleven
 * days: whatever is due, expired or old at its end is this check's own.
 */
export const ownAge = (): Millis => (age -= 1_000_000_000)

/** All of a shard's log behind a position. */
export const logBehind = Effect.fnUntraced(function* (store: Service, shard: number, after: bigint) {
  const events: Array<LoggedEvent> = []
  for (;;) {
    const page: ReadonlyArray<LoggedEvent> = yield* store.events.readLog(shard, events.at(-1)?.position ?? after, 500)
    if (page.length === 0) return events
    assert.ok(page[0]!.position > (events.at(-1)?.position ?? after), "a page begins behind the position that was read")
    events.push(...page)
  }
})

/** The start of who has read up to this event. */
export const behind = ({ position, occurredAt }: EventPlace): EventStart => ({ _tag: "After", position, occurredAt })

/** What a page of events holds, for one of no application's audience unless told otherwise. */
export const eventsOf = (
  store: Service,
  realm: Realm,
  start: EventStart | null,
  limit: number,
  applicationId: ApplicationId = Fixtures.freshId()
): Effect.Effect<ReadonlyArray<LoggedEvent>, StoreUnavailable> =>
  Effect.map(store.events.page(realm, applicationId, { start, limit }), ({ events }) => events)

/** The last position of a shard's log, which a marker takes: of a log that was cut, only its next event knows. */
export const endOfLog = Effect.fnUntraced(function* (store: Service, shard: number) {
  const marker = Fixtures.queuedEvent(Fixtures.message(realmInShard(shard)))
  yield* land(store, append(marker))
  return (yield* logBehind(store, shard, 0n)).find(({ id }) => id === marker.id)!.position
})

/** Said of a law that no store can be held to behind others' work. */
export const usedBefore = new NotApplicable({ reason: "the store was used before, and this can be told of a new one only: give the suite an empty store" })

/** The first shards of the log that nobody has written to yet, so many at least: only there does a check know what stands at the front. */
export const unwrittenShards = Effect.fnUntraced(function* (store: Service, least = 1) {
  const free: Array<number> = []
  for (const shard of times(16, (shard) => shard)) {
    if ((yield* store.events.readLog(shard, 0n, 1)).length === 0) free.push(shard)
  }
  const [first, ...others] = free
  return first === undefined || free.length < least ? yield* usedBefore : ([first, ...others] as const)
})

/** How far a shard is relayed, whose log goes on behind it. */
export const relayBehind = (store: Service, shard: number): Effect.Effect<Relay | undefined, StoreUnavailable> =>
  Effect.map(store.relay.behind, (found) => found.find((relay) => relay.shard === shard))

/** The record of a kind, as its own tenant sees it; what the store sets of an endpoint has laws of its own. */
export const stored = <K extends Kind>(
  store: Service,
  kind: K,
  record: Records[K]
): Effect.Effect<Records[K] | null, StoreUnavailable> => {
  // A tenant's id is its tenant id, and what has no environment needs none. Each id is that of its kind.
  const realm = { tenantId: record.id, environment: "sandbox", ...record } as Realm
  const id = record.id as never
  const reads: { readonly [Each in Kind]: Effect.Effect<Records[Each] | null, StoreUnavailable> } = {
    tenant: store.credentials.tenant(id),
    application: store.credentials.application(realm.tenantId, id),
    apiKey: store.credentials.apiKey(realm.tenantId, id),
    domain: store.domains.get(realm.tenantId, id),
    mailbox: store.mailboxes.get(realm.tenantId, id),
    attachment: store.attachments.get(realm, id),
    message: store.messages.get(realm, id),
    endpoint: Effect.map(store.endpoints.get(realm, id), (found) =>
      found === null ? null : { ...found, positions: (record as Records["endpoint"]).positions }
    ),
    delivery: store.deliveries.get(realm, id)
  }
  return reads[kind]
}
