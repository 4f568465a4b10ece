/** Laws of one commit: it lands whole or not at all, and says why not. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Address } from "../core/model/Address.ts"
import { shardOf, type MessageId } from "../core/model/Ids.ts"
import type { Plan } from "../core/model/Limits.ts"
import type { Change, Kind, Records, Rejection } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  auditEntry,
  demand,
  drop,
  endOfLog,
  forget,
  insert,
  insertDelivery,
  insertMessage,
  keep,
  keepPayload,
  land,
  law,
  moveRelay,
  next,
  notification,
  ownAge,
  payload,
  putBody,
  recordsOf,
  refusal,
  relayBehind,
  remove,
  requestEntry,
  reservation,
  reserve,
  stored,
  submissionRef,
  suppress,
  suppression,
  takeQuota,
  unsuppress,
  update,
  type Service
} from "./StoreLaw.ts"

const kinds: ReadonlyArray<Kind> = [
  "tenant",
  "application",
  "apiKey",
  "domain",
  "mailbox",
  "attachment",
  "message",
  "endpoint",
  "delivery"
]

const insertAny = (kind: Kind, records: Records): Change => {
  if (kind === "message") return insertMessage(records.message)
  return kind === "delivery" ? insertDelivery(records.delivery) : insert(kind, records[kind])
}

/** A commit's changes, one of each, and a look at which of them can be seen. */
const oneOfEach = Effect.fnUntraced(function* (store: Service) {
  const realm = Fixtures.realm()
  const records = recordsOf(realm)
  const age = ownAge()
  const plan: Plan = { id: Fixtures.freshId(), keyRequestsPerMinute: 1, tenantRequestsPerDay: 1, recipientsPerDay: 1 }
  const tenant = { ...records.tenant, planId: plan.id }
  const message = Fixtures.message(realm, { createdAt: 9_000_000_000_000_000n })
  const upload = Fixtures.attachment(realm)
  const other = Fixtures.endpoint(realm)
  const delivery = Fixtures.delivery(records.endpoint)
  const bodiless = Fixtures.delivery(records.endpoint, { status: "delivered", nextAttemptAt: null, deliveredAt: Number.MAX_SAFE_INTEGER })
  const [held, old] = [reservation(), reservation({ reservedAt: age, expiresAt: age + 1 })]
  const posted = payload()
  const [kept, dropped] = [notification(submissionRef()), notification(submissionRef())]
  const pardoned = suppression(realm, { address: Fixtures.address("mary") })
  const mailbox = Fixtures.mailbox(records.domain, { address: Fixtures.address("grace", records.domain.domain) })
  yield* land(
    store,
    { _tag: "PutPlan", plan },
    insert("tenant", tenant),
    insert("application", records.application),
    insert("apiKey", records.apiKey),
    insert("domain", records.domain),
    insert("attachment", records.attachment),
    insert("endpoint", records.endpoint),
    insertDelivery(bodiless, null),
    reserve(old),
    suppress(pardoned),
    keep(dropped, 0)
  )

  const shard = shardOf(realm.tenantId)
  yield* endOfLog(store, shard)
  const relayed = (yield* relayBehind(store, shard))!.position

  const changes: ReadonlyArray<Change> = [
    { _tag: "PutPlan", plan: { ...plan, keyRequestsPerMinute: 2 } },
    insert("mailbox", mailbox),
    insert("attachment", upload),
    insertMessage(message),
    insert("endpoint", other),
    insertDelivery(delivery),
    putBody(realm, bodiless, "{}"),
    update("endpoint", next(records.endpoint, { enabled: false })),
    demand("application", records.application),
    moveRelay(relayed, { shard, position: relayed + 1n }),
    update("application", next(records.application, { name: "Renamed" })),
    remove("attachment", records.attachment),
    reserve(held),
    takeQuota(realm.tenantId, 3, 100),
    append(Fixtures.queuedEvent(message)),
    { _tag: "AppendAudit", entry: auditEntry(realm) },
    { _tag: "AppendRequests", entries: [requestEntry(realm)] },
    { _tag: "TouchApiKeys", used: [{ id: records.apiKey.id, at: 7 }] },
    suppress(suppression(realm)),
    unsuppress(realm, pardoned.address),
    keep(kept, 0),
    drop(dropped),
    keepPayload(posted),
    { _tag: "Forget", what: "reservations", before: age + 2, limit: 10 }
  ]

  const seen = Effect.gen(function* () {
    const [credential] = yield* store.credentials.byPublicId([records.apiKey.publicId])
    const quota = yield* refusal(store, takeQuota(realm.tenantId, 101, 100))
    const newest = { mailboxId: null, before: null, limit: 1 }
    const traces = {
      PutPlan: credential?.plan.keyRequestsPerMinute === 2,
      Insert: (yield* store.mailboxes.get(realm.tenantId, mailbox.id)) !== null,
      "Insert, of an attachment": (yield* store.attachments.get(realm, upload.id)) !== null,
      InsertMessage: (yield* store.messages.get(realm, message.id)) !== null,
      "InsertMessage, its content": (yield* store.messages.content(realm, message.id)) !== null,
      "InsertMessage, its place in the list": (yield* store.messages.page(realm, newest)).length > 0,
      "Insert, of an endpoint": (yield* store.endpoints.get(realm, other.id)) !== null,
      "Insert, its place in the list": (yield* store.endpoints.list(realm, other.applicationId)).length > 0,
      InsertDelivery: (yield* store.deliveries.get(realm, delivery.id)) !== null,
      "InsertDelivery, its body": (yield* store.deliveries.body(realm, delivery.id)) !== null,
      "InsertDelivery, its place in the list": (yield* store.deliveries.page(realm, { ...delivery, limit: 2 })).length > 1,
      PutBody: (yield* store.deliveries.body(realm, bodiless.id)) !== null,
      "Update, of what is enabled": (yield* store.endpoints.enabled([realm.tenantId])).every(({ id }) => id === other.id),
      MoveRelay: (yield* relayBehind(store, shard))?.position !== relayed,
      Update: credential?.application.name === "Renamed",
      Remove: (yield* store.attachments.get(realm, records.attachment.id)) === null,
      Reserve: (yield* store.reservations.get(held.applicationId, held.idempotencyKey, 0)) !== null,
      TakeQuota: quota._tag === "QuotaExceeded" && quota.used !== 0,
      AppendEvent: (yield* store.events.page(realm, records.application.id, { start: null, limit: 1 })).events.length > 0,
      AppendAudit: (yield* store.audit.page(realm.tenantId, 1)).length > 0,
      AppendRequests: (yield* store.audit.requests(realm.tenantId, 1)).length > 0,
      TouchApiKeys: credential?.apiKey.lastUsedAt === 7,
      Suppress: (yield* store.suppressions.among(realm, [Fixtures.address()])).length > 0,
      Unsuppress: (yield* store.suppressions.among(realm, [pardoned.address])).length === 0,
      KeepNotification: (yield* store.notifications.kept(kept)).length > 0,
      DropNotification: (yield* store.notifications.kept(dropped)).length === 0,
      KeepPayload: (yield* store.audit.payloads(posted.provider, 1)).length > 0,
      Forget: (yield* store.reservations.get(old.applicationId, old.idempotencyKey, age)) === null
    }
    return Object.entries(traces).filter(([, isSeen]) => isSeen).map(([trace]) => trace)
  })
  return { realm, changes, seen, traces: 28 }
})

/** Changes that cannot be applied, each for its reason. */
const inapplicable = Effect.fnUntraced(function* (store: Service) {
  const records = recordsOf(Fixtures.realm())
  const [held, quotaOf] = [reservation(), Fixtures.realm().tenantId]
  yield* land(store, insert("tenant", records.tenant), insertMessage(records.message), reserve(held), takeQuota(quotaOf, 4, 5))
  yield* land(store, insertDelivery(records.delivery))
  const [tenant, attachment, message] = [records.tenant, records.attachment, records.message]
  return {
    "an update of another version": {
      change: update("tenant", { ...tenant, version: 3 }),
      reason: { _tag: "VersionMoved", kind: "tenant", id: tenant.id }
    },
    "a removal of what is not there": {
      change: remove("attachment", attachment),
      reason: { _tag: "VersionMoved", kind: "attachment", id: attachment.id }
    },
    "a second insert": { change: insert("tenant", tenant), reason: { _tag: "Duplicate", kind: "tenant", field: "id" } },
    "a second insert of a message": {
      change: insertMessage(message),
      reason: { _tag: "Duplicate", kind: "message", field: "id" }
    },
    "a second insert of a delivery": {
      change: insertDelivery(records.delivery),
      reason: { _tag: "Duplicate", kind: "delivery", field: "id" }
    },
    "a version that is required and not there": {
      change: demand("tenant", { ...tenant, version: 2 }),
      reason: { _tag: "VersionMoved", kind: "tenant", id: tenant.id }
    },
    "a relay that stands elsewhere": {
      change: moveRelay(1_000_000n, { shard: 5, position: 1_000_001n }),
      reason: { _tag: "VersionMoved", kind: "relay", id: "5" }
    },
    "a reserved key": {
      change: reserve({ ...reservation(), applicationId: held.applicationId, idempotencyKey: held.idempotencyKey }),
      reason: { _tag: "KeyTaken", idempotencyKey: held.idempotencyKey }
    },
    "a quota that is used up": {
      change: takeQuota(quotaOf, 2, 5),
      reason: { _tag: "QuotaExceeded", limit: 5, used: 4 }
    }
  } satisfies Readonly<Record<string, { readonly change: Change; readonly reason: Rejection }>>
})
const obstacles = [
  "an update of another version",
  "a removal of what is not there",
  "a second insert",
  "a second insert of a message",
  "a second insert of a delivery",
  "a version that is required and not there",
  "a relay that stands elsewhere",
  "a reserved key",
  "a quota that is used up"
] as const

const wholeOrNothing = [
  law("applies every change of a commit", (store) =>
    Effect.gen(function* () {
      const { changes, seen, traces } = yield* oneOfEach(store)
      assert.deepEqual(yield* seen, [])

      yield* land(store, ...changes)

      assert.equal((yield* seen).length, traces, `only these are seen: ${(yield* seen).join("; ")}`)
    })
  ),
  ...obstacles.map((obstacle) =>
    law(`applies nothing of a commit with ${obstacle}, wherever it stands`, (store) =>
      Effect.gen(function* () {
        const { realm, changes, seen } = yield* oneOfEach(store)
        const { change, reason } = (yield* inapplicable(store))[obstacle]

        for (const place of [0, changes.length >> 1, changes.length]) {
          assert.deepEqual(yield* refusal(store, ...changes.slice(0, place), change, ...changes.slice(place)), reason)
          assert.deepEqual(yield* seen, [], `place ${place}`)
        }

        const later = Fixtures.message(realm, { createdAt: 5n })
        yield* land(store, insertMessage(later))
        assert.equal((yield* store.messages.get(realm, later.id))?.createdAt, 5n, "a rejected message moved the tenant's last time")
      })
    )
  ),
  law("applies nothing of a commit that names two versions, of which one has moved", (store) =>
    Effect.gen(function* () {
      const records = recordsOf(Fixtures.realm())
      yield* land(store, ...kinds.map((kind) => insertAny(kind, records)))
      const at = (kind: Kind, version: number) => update(kind, { ...records[kind], version } as Records[Kind]) // the same record but for its version

      for (const moved of kinds) {
        for (const kind of kinds.filter((one) => one !== moved)) {
          const refused = { _tag: "VersionMoved", kind: moved, id: records[moved].id }
          assert.deepEqual(yield* refusal(store, at(kind, 2), at(moved, 3)), refused, `${kind} stands`)
          assert.deepEqual(yield* stored(store, kind, records[kind]), records[kind], `${kind}, where ${moved} has moved`)
        }
      }
    })
  ),
  law("says of no commit that it ended a lease where it was given none", (store) =>
    Effect.gen(function* () {
      const brings = yield* store.commit([insert("tenant", Fixtures.tenant())], [])
      const drops = yield* store.commit([forget("payloads", 0)], [])

      assert.deepEqual([brings.leaseEnded, drops.leaseEnded], [false, false])
    })
  ),
  law("leaves a record as it was before a rejected commit, however often that commit changed it", (store) =>
    Effect.gen(function* () {
      const { tenant, message } = recordsOf(Fixtures.realm())
      const held = reservation({ reservedAt: 0, expiresAt: 10 })
      const again = (reservedAt: number) => reserve({ ...held, fingerprint: "e".repeat(64), reservedAt, expiresAt: reservedAt + 10 })
      const obstacle = takeQuota(tenant.id, 1, 4)
      yield* land(store, insert("tenant", tenant), insertMessage(message), reserve(held), takeQuota(tenant.id, 2, 4))

      const reason = yield* refusal(
        store,
        ...[next(tenant), next(next(tenant)), next(next(next(tenant)))].map((record) => update("tenant", record)),
        update("message", next(message, { nextAttemptAt: 7 })),
        update("message", next(next(message), { nextAttemptAt: null })),
        again(10),
        again(20),
        takeQuota(tenant.id, 1, 4),
        takeQuota(tenant.id, 1, 4),
        obstacle
      )

      assert.deepEqual(reason, { _tag: "QuotaExceeded", limit: 4, used: 4 })
      assert.deepEqual(yield* stored(store, "tenant", tenant), tenant)
      assert.deepEqual(yield* stored(store, "message", message), message)
      assert.deepEqual(yield* store.reservations.get(held.applicationId, held.idempotencyKey, 0), held)
      assert.deepEqual(yield* refusal(store, takeQuota(tenant.id, 3, 4)), { _tag: "QuotaExceeded", limit: 4, used: 2 })
      yield* land(store, update("tenant", next(tenant)), update("message", next(message)))
    })
  ),
  law("rejects with the reason of the first change that cannot be applied", (store) =>
    Effect.gen(function* () {
      const changes = yield* inapplicable(store)
      const applicable = () => insert("tenant", Fixtures.tenant())

      for (const first of obstacles) {
        for (const second of obstacles.filter((obstacle) => obstacle !== first)) {
          const reason = yield* refusal(store, applicable(), changes[first].change, applicable(), changes[second].change)
          assert.deepEqual(reason, changes[first].reason, `${first}, then ${second}`)
        }
      }
    })
  ),
  law("takes a commit without changes", (store) => land(store)),
  law("takes a change in the state that those before it in the list leave", (store) =>
    Effect.gen(function* () {
      const { tenant, mailbox, attachment, message } = recordsOf(Fixtures.realm())
      const [held, unborn, third] = [reservation(), Fixtures.message(Fixtures.realm()), next(next(next(tenant)))]
      yield* land(
        store,
        insert("tenant", tenant),
        update("tenant", next(tenant)),
        update("tenant", next(next(tenant), { name: "Twice renamed" })),
        insertMessage(message),
        update("message", next(message, { isStarred: true })),
        insert("attachment", attachment),
        remove("attachment", attachment),
        insert("attachment", { ...attachment, filename: "again.txt" })
      )

      assert.deepEqual(yield* store.credentials.tenant(tenant.id), { ...tenant, version: 3, name: "Twice renamed" })
      assert.deepEqual(yield* stored(store, "message", message), { ...message, version: 2, isStarred: true })
      assert.deepEqual(yield* stored(store, "attachment", attachment), { ...attachment, filename: "again.txt" })
      const twice = (change: Change) => Effect.map(refusal(store, change, change), ({ _tag }) => _tag)
      assert.equal(yield* twice(insert("mailbox", mailbox)), "Duplicate")
      assert.equal(yield* twice(insertMessage(unborn)), "Duplicate")
      assert.equal(yield* twice(update("tenant", third)), "VersionMoved")
      assert.equal(yield* twice(reserve(held)), "KeyTaken")
      assert.equal(yield* twice(takeQuota(tenant.id, 3, 5)), "QuotaExceeded")
    })
  )
]

const versions = kinds.map((kind) =>
  law(`updates a record (${kind}) only from the version before`, (store) =>
    Effect.gen(function* () {
      const records = recordsOf(Fixtures.realm())
      const [record, moved] = [records[kind], { _tag: "VersionMoved", kind, id: records[kind].id }]
      const at = (version: number) => update(kind, { ...record, version } as Records[Kind]) // the same record but for its version
      for (const version of [1, 2]) assert.deepEqual(yield* refusal(store, at(version)), moved, "it is not there")
      yield* land(store, insertAny(kind, records))

      for (const version of [0, 1, 3, 4]) assert.deepEqual(yield* refusal(store, at(version)), moved, `1 to ${version}`)
      yield* land(store, at(2))
      for (const version of [1, 2, 4]) assert.deepEqual(yield* refusal(store, at(version)), moved, `2 to ${version}`)
      yield* land(store, at(3))

      assert.deepEqual(yield* stored(store, kind, record), { ...record, version: 3 })
    })
  )
)

const uniqueness = [
  ...kinds.map((kind) =>
    law(`keeps the id of a record (${kind}) unique over all tenants`, (store) =>
      Effect.gen(function* () {
        const [records, others] = [recordsOf(Fixtures.realm()), recordsOf(Fixtures.realm())]
        yield* land(store, insertAny(kind, records))

        const reason = yield* refusal(
          store,
          insertAny(kind, { ...others, [kind]: { ...others[kind], id: records[kind].id } })
        )

        assert.deepEqual(reason, { _tag: "Duplicate", kind, field: "id" })
        assert.deepEqual(yield* stored(store, kind, records[kind]), records[kind])
      })
    )
  ),
  ...([["apiKey", "publicId"], ["mailbox", "address"], ["domain", "domain"]] as const).map(([kind, field]) =>
    law(`keeps ${field} of a record (${kind}) unique over all tenants`, (store) =>
      Effect.gen(function* () {
        const [records, others] = [recordsOf(Fixtures.realm()), recordsOf(Fixtures.realm())]
        const values: Readonly<Record<string, unknown>> = { ...records[kind] }
        yield* land(store, insertAny(kind, records))

        const twin = { ...others, [kind]: { ...others[kind], [field]: values[field] } }
        assert.deepEqual(yield* refusal(store, insertAny(kind, twin)), { _tag: "Duplicate", kind, field })
        assert.equal(yield* stored(store, kind, others[kind]), null)
        yield* land(store, insertAny(kind, others))
      })
    )
  ),
  law("takes addresses of mailboxes that differ in case alone for one", (store) =>
    Effect.gen(function* () {
      const [records, others] = [recordsOf(Fixtures.realm()), recordsOf(Fixtures.realm())]
      yield* land(store, insertAny("mailbox", records))

      const address = records.mailbox.address.toUpperCase() as Address // the same, shouted
      const twin = { ...others, mailbox: { ...others.mailbox, address } }
      assert.deepEqual(yield* refusal(store, insertAny("mailbox", twin)), { _tag: "Duplicate", kind: "mailbox", field: "address" })
    })
  )
]

const reservations = [
  law("holds a reserved key until it expires, and then lets it be replaced", (store) =>
    Effect.gen(function* () {
      const first = reservation({ reservedAt: 1_000, expiresAt: 2_000 })
      const later = (reservedAt: number) => ({
        ...first,
        messageId: Fixtures.freshId<MessageId>(),
        reservedAt,
        expiresAt: reservedAt + 1_000
      })
      const get = (at: number) => store.reservations.get(first.applicationId, first.idempotencyKey, at)
      yield* land(store, reserve(first))

      for (const at of [1_000, 1_999]) {
        assert.deepEqual(yield* refusal(store, reserve(later(at))), { _tag: "KeyTaken", idempotencyKey: first.idempotencyKey })
        assert.deepEqual(yield* get(at), first)
      }
      assert.equal(yield* get(2_000), null)
      const second = later(2_000)
      yield* land(store, reserve(second))

      assert.deepEqual(yield* get(2_999), second)
      assert.equal((yield* refusal(store, reserve(later(2_500))))._tag, "KeyTaken")
    })
  ),
  law("keeps the keys of applications apart", (store) =>
    Effect.gen(function* () {
      const [one, other, key] = [reservation(), reservation(), reservation()]
      yield* land(store, reserve(one))

      yield* land(store, reserve({ ...other, idempotencyKey: one.idempotencyKey }))
      yield* land(store, reserve({ ...key, applicationId: one.applicationId }))

      assert.deepEqual(yield* store.reservations.get(one.applicationId, one.idempotencyKey, 0), one)
      assert.equal((yield* store.reservations.get(other.applicationId, one.idempotencyKey, 0))?.messageId, other.messageId)
      assert.equal(yield* store.reservations.get(other.applicationId, key.idempotencyKey, 0), null)
    })
  ),
  law("tells keys apart that differ in case, in white space or in accents only", (store) =>
    Effect.gen(function* () {
      const first = reservation()
      for (const text of ["a-key-of-mine", "A-key-of-mine", "a-key-of-mine ", "a-key-of-mïne", "a-key-of-mi\u0308ne"]) {
        yield* land(store, reserve({ ...first, idempotencyKey: text as typeof first.idempotencyKey })) // long enough to be one
      }
    })
  ),
  law("holds a key with characters that are none, or that end a text, as any other", (store) =>
    Effect.gen(function* () {
      for (const text of ["a-key-of-mine\u0000", "a-key-of-mine\ud800"]) {
        const made = reservation({ reservedAt: 0, expiresAt: 10 })
        const first = { ...made, idempotencyKey: text as typeof made.idempotencyKey } // long enough to be one
        const later = { ...first, fingerprint: "e".repeat(64), reservedAt: 10, expiresAt: 20 }
        yield* land(store, reserve(first))
        assert.equal((yield* refusal(store, reserve({ ...later, reservedAt: 9 })))._tag, "KeyTaken")
        yield* land(store, reserve(later))

        assert.deepEqual(yield* store.reservations.get(first.applicationId, first.idempotencyKey, 10), later)
      }
    })
  )
]

const quotas = [
  law("takes a quota up to its limit, and never in part", (store) =>
    Effect.gen(function* () {
      const { tenantId } = Fixtures.realm()
      const exceeded = (limit: number, used: number) => ({ _tag: "QuotaExceeded", limit, used })

      assert.deepEqual(yield* refusal(store, takeQuota(tenantId, 6, 5)), exceeded(5, 0))
      yield* land(store, takeQuota(tenantId, 3, 5))
      assert.deepEqual(yield* refusal(store, takeQuota(tenantId, 3, 5)), exceeded(5, 3))
      yield* land(store, takeQuota(tenantId, 2, 5))
      assert.deepEqual(yield* refusal(store, takeQuota(tenantId, 1, 5)), exceeded(5, 5))

      yield* land(store, takeQuota(tenantId, 1, 6))
      assert.deepEqual(yield* refusal(store, takeQuota(tenantId, 1, 5)), exceeded(5, 6))

      const lowered = Fixtures.realm().tenantId
      yield* land(store, takeQuota(lowered, 3, 100))
      assert.deepEqual(yield* refusal(store, takeQuota(lowered, 3, 5)), exceeded(5, 3))
    })
  ),
  law("keeps the quotas of days and of tenants apart", (store) =>
    Effect.gen(function* () {
      const [one, other] = [Fixtures.realm().tenantId, Fixtures.realm().tenantId]
      yield* land(store, takeQuota(one, 5, 5, "2026-12-01"))

      yield* land(store, takeQuota(one, 5, 5, "2026-12-02"), takeQuota(other, 5, 5, "2026-12-01"))

      for (const [tenantId, day] of [[one, "2026-12-01"], [one, "2026-12-02"], [other, "2026-12-01"]] as const) {
        assert.deepEqual(yield* refusal(store, takeQuota(tenantId, 1, 5, day)), { _tag: "QuotaExceeded", limit: 5, used: 5 })
      }
    })
  )
]

export const commits = [...wholeOrNothing, ...versions, ...uniqueness, ...reservations, ...quotas]
