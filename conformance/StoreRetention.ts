/** Laws of time: what the state says is due, and what is forgotten at an age. The store asks no clock. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Attachment } from "../core/model/Attachment.ts"
import type { Delivery } from "../core/model/Delivery.ts"
import type { Endpoint } from "../core/model/Endpoint.ts"
import type { EventStart } from "../core/model/Cursor.ts"
import { shardCount, type Millis, type Realm } from "../core/model/Ids.ts"
import type { Message } from "../core/model/Message.ts"
import { jobKinds, type Job, type JobKind } from "../core/ports/JobQueue.ts"
import type { Change, DuePage, Forgettable, StoreUnavailable } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import { messageRetention, settledAt } from "./StoreMessageRetention.ts"
import { inbound, reception } from "./StoreReceiving.ts"
import {
  append,
  behind,
  eventsOf,
  forget,
  insert,
  insertDelivery,
  insertMessage,
  keep,
  keepPayload,
  land,
  law,
  logBehind,
  next,
  notification,
  ownAge,
  payload,
  realmInShard,
  refusal,
  remove,
  requestEntry,
  reservation,
  reserve,
  submission,
  submissionRef,
  takeQuota,
  times,
  unwrittenShards,
  update,
  type Service
} from "./StoreLaw.ts"

/** A record that is due for a kind of job at a time, or never, and how to make it due at another. */
const dueRecord = (kind: JobKind, realm: Realm, at: Millis | null) => {
  const { subject, group, insertIt, updateIt } = dueSubject(kind, realm)
  return {
    id: subject.id,
    insert: insertIt(at),
    reschedule: updateIt,
    job: (dueAt: Millis): Job => ({ kind, subject: subject.id, realm, group, dueAt })
  }
}

const dueSubject = (kind: JobKind, realm: Realm) => {
  const group = realm.tenantId
  if (kind === "scan") {
    const subject = Fixtures.attachment(realm)
    const insertIt = (at: Millis | null) => insert("attachment", { ...subject, nextScanAt: at })
    const updateIt = (at: Millis | null) => update("attachment", next(subject, { nextScanAt: at }))
    return { subject, group, insertIt, updateIt }
  }
  if (kind === "deliver") {
    const endpoint = Fixtures.endpoint(realm)
    const subject = Fixtures.delivery(endpoint)
    const insertIt = (at: Millis | null) => insertDelivery({ ...subject, nextAttemptAt: at })
    const updateIt = (at: Millis | null) => update("delivery", next(subject, { nextAttemptAt: at }))
    return { subject, group: endpoint.id, insertIt, updateIt }
  }
  if (kind === "parse") {
    const subject = inbound(realm)
    const dated = (at: Millis | null) => ({ ...subject, reception: reception({ nextParseAt: at }) })
    return { subject, group, insertIt: (at: Millis | null) => insertMessage(dated(at)), updateIt: (at: Millis | null) => update("message", next(dated(at))) }
  }
  const subject = Fixtures.message(realm)
  const polled = (pollAt: Millis | null) => submission(submissionRef(), { pollAt })
  const dated = (at: Millis | null): Partial<Message> =>
    kind === "submit"
      ? { nextAttemptAt: at }
      : { nextAttemptAt: null, submissions: [polled(at === null ? null : at + 5), polled(at), polled(null)] }
  const insertIt = (at: Millis | null) => insertMessage({ ...subject, ...dated(at) })
  const updateIt = (at: Millis | null) => update("message", next(subject, dated(at)))
  return { subject, group, insertIt, updateIt }
}

/** All pages of what is due; each has no more than `limit`. */
const allDue = Effect.fnUntraced(function* (
  store: Service,
  kind: JobKind,
  dueBefore: Millis,
  limit: number,
  between: Effect.Effect<void, unknown> = Effect.void
) {
  const jobs: Array<Job> = []
  let after: string | null = null
  do {
    const page: DuePage = yield* store.due(kind, { dueBefore, after, limit })
    assert.ok(page.jobs.length <= limit, "a page over its limit")
    assert.ok(after === null || page.next !== after, "a page that leads to itself")
    jobs.push(...page.jobs)
    after = page.next
    if (after !== null) yield* between
  } while (after !== null)
  return jobs
})

const bySubject = (jobs: ReadonlyArray<Job>) => jobs.toSorted((left, right) => (left.subject < right.subject ? -1 : 1))

const due = jobKinds.flatMap((kind) => [
  law(`says what is due (${kind}) at or before a time, and nothing that is not`, (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const age = ownAge()
      const records = [0, 100, 100, 101, null].map((at) => ({ at, record: dueRecord(kind, realm, at === null ? null : age + at) }))
      yield* land(store, ...records.map(({ record }) => record.insert))
      const own = (dueBefore: Millis) =>
        Effect.map(allDue(store, kind, dueBefore, 50), (jobs) => bySubject(jobs.filter((job) => job.realm.tenantId === realm.tenantId)))
      const expected = (at: number) =>
        bySubject(records.flatMap((row) => (row.at !== null && row.at <= at ? [row.record.job(age + row.at)] : [])))

      for (const at of [-1, 0, 99, 100, 101]) assert.deepEqual(yield* own(age + at), expected(at), `due at ${at}`)
      assert.deepEqual(yield* own(Number.MAX_SAFE_INTEGER), expected(101), "the end of time is a time")
    })
  ),
  law(`follows a record (${kind}) as it becomes due at another time, or never`, (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const [sooner, later, never, anew] = [
        dueRecord(kind, realm, age + 50),
        dueRecord(kind, realm, age + 50),
        dueRecord(kind, realm, age + 50),
        dueRecord(kind, realm, null)
      ]
      yield* land(store, ...[sooner, later, never, anew].map((record) => record.insert))
      const own = (at: number) =>
        Effect.map(allDue(store, kind, age + at, 50), (jobs) => bySubject(jobs.filter((job) => job.realm.tenantId === realm.tenantId)))

      yield* land(store, sooner.reschedule(age + 10), later.reschedule(age + 90), never.reschedule(null), anew.reschedule(age + 60))

      assert.deepEqual(yield* own(10), [sooner.job(age + 10)])
      assert.deepEqual(yield* own(60), bySubject([sooner.job(age + 10), anew.job(age + 60)]))
      assert.deepEqual(yield* own(90), bySubject([sooner.job(age + 10), anew.job(age + 60), later.job(age + 90)]))
    })
  ),
  law(`pages through what is due (${kind}) without repeating or omitting any`, (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realms = times(3, () => Fixtures.realm())
      const records = times(23, (index) => ({
        at: age + (index % 4),
        record: dueRecord(kind, realms[index % 3]!, age + (index % 4))
      }))
      yield* land(store, ...records.map(({ record }) => record.insert))
      const expected = bySubject(records.map(({ at, record }) => record.job(at)))

      for (const limit of [1, 4, 23, 24]) {
        const found = yield* allDue(store, kind, age + 10, limit)
        assert.deepEqual(bySubject(found.filter(({ dueAt }) => dueAt >= age)), expected, `pages of ${limit}`)
      }
    })
  ),
  law(`misses nothing that stays due (${kind}) while other work comes and goes between the pages`, (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const make = (count: number) => times(count, (index) => dueRecord(kind, realm, age + (index % 5)))
      const [staying, going] = [make(12), make(12)]
      yield* land(store, ...[...staying, ...going].map((record) => record.insert))
      const leaving = [...going]
      const between = Effect.suspend(() => {
        const gone = leaving.pop()
        return land(store, dueRecord(kind, realm, age).insert, ...(gone === undefined ? [] : [gone.reschedule(null)]))
      })

      const found = (yield* allDue(store, kind, age + 10, 5, between)).map(({ subject }) => subject)

      for (const { id } of staying) assert.equal(found.filter((subject) => subject === id).length, 1)
    })
  )
])

const uploads = [
  law("names uploads that no message used, once they have expired", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const at = (expiresAt: Millis | null, over: Partial<Attachment> = {}) => Fixtures.attachment(realm, { expiresAt, ...over })
      const [old, due, fresh, used] = [at(age), at(age + 10), at(age + 11), at(age, { messageId: Fixtures.freshId() })]
      yield* land(store, ...[old, due, fresh, used, at(null)].map((attachment) => insert("attachment", attachment)))
      const expired = (time: Millis, limit = 1_000) =>
        Effect.map(store.attachments.expired(time, limit), (found) =>
          found.filter(({ tenantId }) => tenantId === realm.tenantId).map(({ id }) => id).sort()
        )

      assert.deepEqual(yield* expired(age - 1), [])
      assert.deepEqual(yield* expired(age + 9), [old.id])
      assert.deepEqual(yield* expired(age + 10), [old.id, due.id].sort())
      assert.equal((yield* store.attachments.expired(age + 10, 1)).length, 1)
      assert.deepEqual((yield* store.attachments.expired(age + 9, 1_000)).find(({ id }) => id === old.id), old)
      yield* land(store, update("attachment", next(old, { messageId: Fixtures.freshId(), expiresAt: null })))
      assert.deepEqual(yield* expired(age + 10), [due.id])
      yield* land(store, remove("attachment", due))
      assert.deepEqual(yield* expired(age + 10), [])
    })
  )
]

/** A delivery that ended at a time. */
const ended = (endpoint: Endpoint, at: Millis, status: "dead" | "delivered"): Delivery =>
  Fixtures.delivery(endpoint, { status, nextAttemptAt: null, ...(status === "dead" ? { deadAt: at } : { deliveredAt: at }) })

/** Rows of one kind, of one's own age, by their times, and a look at the times of those left. */
const rowsOf: { readonly [L in Exclude<Forgettable, "events" | "quotas">]: (store: Service, age: Millis) => {
  readonly row: (at: Millis) => Change
  readonly left: Effect.Effect<ReadonlyArray<Millis>, StoreUnavailable>
} } = {
  reservations: (store, age) => {
    const { applicationId } = reservation()
    const keys: Array<ReturnType<typeof reservation>> = []
    return {
      row: (at) => {
        keys.push(reservation({ applicationId, reservedAt: age - 1_000, expiresAt: age + at }))
        return reserve(keys.at(-1)!)
      },
      left: Effect.suspend(() =>
        Effect.map(
          Effect.forEach(keys, ({ idempotencyKey }) => store.reservations.get(applicationId, idempotencyKey, age - 1_000)),
          (found) => found.flatMap((one) => (one === null ? [] : [one.expiresAt - age]))
        )
      )
    }
  },
  notifications: (store, age) => {
    const ref = submissionRef()
    const make = (at: Millis) => notification(ref, { outcome: { _tag: "Delivered", at, smtpResponse: null } })
    return {
      row: (at) => (keep(make(at), age + at)),
      left: Effect.map(store.notifications.kept(ref), (found) => found.map(({ outcome }) => outcome.at))
    }
  },
  deliveries: (store, age) => {
    const endpoint = Fixtures.endpoint(Fixtures.realm())
    const { applicationId } = endpoint
    return {
      row: (at) => insertDelivery(ended(endpoint, age + at, at % 20 === 0 ? "dead" : "delivered")),
      left: Effect.map(store.deliveries.page(endpoint, { applicationId, endpointId: null, limit: 100 }), (found) =>
        found.map(({ deadAt, deliveredAt }) => (deadAt ?? deliveredAt ?? 0) - age)
      )
    }
  },
  requests: (store, age) => {
    const realm = Fixtures.realm()
    return {
      row: (at) => ({ _tag: "AppendRequests", entries: [requestEntry(realm, { at: age + at })] }),
      left: Effect.map(store.audit.requests(realm.tenantId, 100), (found) => found.map(({ at }) => at - age))
    }
  },
  messages: (store, age) => {
    const realm = Fixtures.realm()
    return {
      row: (at) => insertMessage(settledAt(realm, age + at)),
      left: Effect.map(store.messages.page(realm, { mailboxId: null, before: null, limit: 100 }), (found) =>
        found.map(({ createdAt }) => Number(createdAt / 1000n) - age)
      )
    }
  },
  attachments: (store, age) => {
    const realm = Fixtures.realm()
    const ids: Array<Attachment["id"]> = []
    return {
      row: (at) => {
        const attachment = Fixtures.attachment(realm, { messageId: Fixtures.freshId(), usedAt: age + at })
        ids.push(attachment.id)
        return insert("attachment", attachment)
      },
      left: Effect.suspend(() => Effect.map(store.attachments.many(realm, ids), (found) => found.map(({ usedAt }) => usedAt! - age)))
    }
  },
  payloads: (store, age) => {
    const { provider } = payload()
    return {
      row: (at) => keepPayload(payload({ provider, receivedAt: age + at })),
      left: Effect.map(store.audit.payloads(provider, 100), (found) => found.map(({ receivedAt }) => receivedAt - age))
    }
  }
}
const aged = ["reservations", "notifications", "requests", "deliveries", "payloads", "messages", "attachments"] as const

/** What no store has, so that its commit is rejected. */
const stale = () => update("mailbox", next(Fixtures.mailbox(Fixtures.mailDomain(Fixtures.realm().tenantId))))

/** Has a commit of these say that it dropped so many rows, as it also does where that is fewer than it might have. */
const forgets = (store: Service, count: number, ...changes: ReadonlyArray<Change>) =>
  Effect.map(store.commit(changes, []), ({ forgotten }) => assert.equal(forgotten, count, "rows that a commit says it has dropped"))

const retention = [
  ...aged.map((what) =>
    law(`forgets what is older than a time (${what}), oldest first and no more than the limit`, (store) =>
      Effect.gen(function* () {
        const age = ownAge()
        const { row, left } = rowsOf[what](store, age)
        // A tenant's messages have the times of their order.
        yield* land(store, ...(what === "messages" ? [10, 20, 30, 40, 50] : [40, 10, 50, 30, 20]).map(row))
        const sorted = Effect.map(left, (found) => found.toSorted((one, other) => one - other))

        yield* forgets(store, 0, forget(what, age + 10))
        assert.deepEqual(yield* sorted, [10, 20, 30, 40, 50], "what is as old as the time stays")
        yield* forgets(store, 1, forget(what, age + 11))
        assert.deepEqual(yield* sorted, [20, 30, 40, 50])
        yield* forgets(store, 2, forget(what, age + 45, 2))
        assert.deepEqual(yield* sorted, [40, 50])
        for (const count of [1, 0]) yield* forgets(store, count, forget(what, age + 45, 2))
        assert.deepEqual(yield* sorted, [50])
        for (const other of aged.filter((other) => other !== what)) yield* land(store, forget(other, age + 100))
        assert.deepEqual(yield* sorted, [50], "each kind is forgotten apart")
        yield* land(store, row(60))
        yield* forgets(store, 2, forget(what, age + 51), forget(what, age + 61))
        assert.deepEqual(yield* sorted, [])
        yield* forgets(store, 0)
      })
    )
  ),
  law("forgets nothing in a commit that is rejected", (store) =>
    Effect.gen(function* () {
      for (const what of aged) {
        const age = ownAge()
        const { row, left } = rowsOf[what](store, age)
        yield* land(store, row(10), row(20))

        yield* refusal(store, forget(what, age + 15), stale())
        assert.deepEqual((yield* left).toSorted((one, other) => one - other), [10, 20], what)
        assert.equal((yield* store.commit([forget(what, age + 25)], [])).forgotten, 2, what)
      }
    })
  ),
  law("forgets the quotas of days that are over, and of no other day", (store) =>
    Effect.gen(function* () {
      const { tenantId } = Fixtures.realm()
      const days = ["1969-03-01", "1969-03-02", "1969-03-03"] // before any other check's
      const midnight = -305 * 86_400_000 // with which the second begins
      const isKept = (day: string) =>
        Effect.map(refusal(store, takeQuota(tenantId, 1, 5, day)), (reason) => assert.deepEqual(reason, { _tag: "QuotaExceeded", limit: 5, used: 5 }, day))
      yield* land(store, forget("quotas", midnight + 10 * 86_400_000)) // of the same check on the same store
      yield* land(store, ...days.map((day) => takeQuota(tenantId, 5, 5, day)))

      yield* forgets(store, 0, forget("quotas", midnight - 1))
      yield* refusal(store, forget("quotas", midnight), stale())
      yield* Effect.forEach(days, isKept)
      yield* forgets(store, 1, forget("quotas", midnight))

      yield* land(store, takeQuota(tenantId, 5, 5, days[0]))
      yield* Effect.forEach(days.slice(1), isKept)

      yield* land(store, ...times(2, () => takeQuota(Fixtures.realm().tenantId, 5, 5, days[0])))
      for (const count of [2, 1, 0]) yield* forgets(store, count, forget("quotas", midnight, 2))
      yield* Effect.forEach(days.slice(1), isKept)
    })
  ),
  law("counts a notification's age from when it was first kept", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const ref = submissionRef()
      yield* land(store, keep(notification(ref), age), keep(notification(ref), age + 10))
      yield* land(store, keep(notification(ref), age + 20))

      yield* land(store, forget("notifications", age + 1))

      assert.deepEqual(yield* store.notifications.kept(ref), [])
      yield* land(store, keep(notification(ref), age + 30))
      assert.equal((yield* store.notifications.kept(ref)).length, 1)
      yield* land(store, forget("notifications", age + 31))
    })
  )
]

const eventRetention = [
  law("says of a page whether some of what was behind its beginning is forgotten", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      yield* unwrittenShards(store, shardCount) // one that was used before may have forgotten what was later
      const [realm, neighbour] = [realmInShard(6), realmInShard(6)]
      const at = (occurredAt: Millis, of = realm) =>
        append(Fixtures.queuedEvent(Fixtures.message(of), { occurredAt: age + occurredAt }))
      const startOf = (start: EventStart | null, of = realm) =>
        Effect.map(store.events.page(of, Fixtures.freshId(), { start, limit: 10 }), (page) => page.beginning)
      const nowhere = behind({ position: 1_000_000n, occurredAt: age })
      assert.equal(yield* startOf(nowhere), "unknown", "nothing was ever written")
      yield* land(store, at(10), at(40, neighbour), at(30), at(60), at(70))
      const [first, foreign, third, ...others] = yield* logBehind(store, 6, 0n)
      const ours = [first!, third!, ...others]
      const after = Effect.forEach(ours, (event) => startOf(behind(event)))
      const since = Effect.forEach([10, 30, 40, 40.5, 41, 60, 61, 99], (time) => startOf({ _tag: "Since", at: age + time }))
      const [whole, cut] = ["whole", "cut"] as const

      yield* refusal(store, forget("events", age + 50), stale())
      assert.deepEqual([yield* after, yield* since], [times(4, () => whole), times(8, () => whole)], "nothing was forgotten")
      assert.equal((yield* eventsOf(store, realm, null, 10)).length, 4)

      yield* land(store, forget("events", age + 50))
      assert.deepEqual(yield* after, [cut, whole, whole, whole], "behind the last that was forgotten is all that there was")
      assert.deepEqual(yield* since, [cut, cut, cut, whole, whole, whole, whole, whole], "from the time of the latest that was forgotten")
      assert.deepEqual([yield* startOf(null), (yield* eventsOf(store, realm, null, 10)).length], [whole, 2])
      assert.equal(yield* startOf(behind(foreign!), neighbour), cut, "whose the forgotten ones were makes no difference, nor that no other is shown")

      yield* land(store, forget("events", age + 80))
      assert.deepEqual(yield* after, [cut, cut, cut, whole])
      assert.deepEqual(yield* since, [...times(7, () => cut), whole])
      assert.equal(yield* startOf(nowhere), "unknown", "all was forgotten")

      yield* land(store, at(20))
      yield* land(store, forget("events", age + 25))
      assert.equal(yield* startOf({ _tag: "Since", at: age + 70 }), cut, "what was forgotten before was later")
      assert.equal(yield* startOf({ _tag: "Since", at: age + 71 }), whole)
    })
  ),
  law("forgets events from the front of the log, and numbers on as before", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const [shard, ...others] = yield* unwrittenShards(store)
      const [realm, neighbour] = [realmInShard(shard), realmInShard(shard)]
      const at = (occurredAt: Millis, of = realm) =>
        append(Fixtures.queuedEvent(Fixtures.message(of), { occurredAt: age + occurredAt }))
      const left = Effect.map(logBehind(store, shard, 0n), (found) => found.map(({ occurredAt }) => occurredAt - age))
      yield* land(store, at(10), at(20, neighbour), at(30), at(30), at(50), at(60, neighbour))
      const all = yield* logBehind(store, shard, 0n)
      const from = (start: EventStart | null) => eventsOf(store, realm, start, 10)
      const position = Effect.map(from(null), (found) => found.map((event) => event.position))

      yield* forgets(store, 0, forget("events", age + 10))
      assert.deepEqual(yield* left, [10, 20, 30, 30, 50, 60])
      yield* forgets(store, 2, forget("events", age + 50, 2))
      assert.deepEqual(yield* left, [30, 30, 50, 60])
      assert.deepEqual(yield* from(null), [all[2], all[3], all[4]])
      for (const count of [2, 0]) yield* forgets(store, count, forget("events", age + 50, 2))

      assert.deepEqual(yield* logBehind(store, shard, 0n), all.slice(4))
      assert.deepEqual(yield* from(null), [all[4]])
      assert.deepEqual(yield* from(behind(all[0]!)), [all[4]], "a reader goes on from what is forgotten")
      assert.deepEqual(yield* from({ _tag: "Since", at: age + 10 }), [all[4]])
      yield* forgets(store, 2, forget("events", age + 100))
      assert.deepEqual(yield* left, [])
      yield* land(store, at(200), ...(others[0] === undefined ? [] : [at(200, realmInShard(others[0]))]))
      assert.deepEqual(yield* position, [all[5]!.position + 1n], "positions go on behind an empty log")
      yield* land(store, forget("events", age + 201))
    })
  ),
  law("forgets of the fronts of the shards the older one first, whichever shard it is in", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const shards = yield* unwrittenShards(store, 2)
      const [first, second] = [shards[0], shards[1]!]
      const at = (occurredAt: Millis, shard: number) =>
        append(Fixtures.queuedEvent(Fixtures.message(realmInShard(shard)), { occurredAt: age + occurredAt }))
      const leftOf = (shard: number) => Effect.map(logBehind(store, shard, 0n), (found) => found.map(({ occurredAt }) => occurredAt - age))
      const left = Effect.forEach([first, second], leftOf)
      yield* land(store, at(20, first), at(40, first), at(10, second), at(30, second))

      yield* forgets(store, 1, forget("events", age + 50, 1))
      assert.deepEqual(yield* left, [[20, 40], [30]])
      yield* forgets(store, 2, forget("events", age + 50, 2))
      assert.deepEqual(yield* left, [[40], []])
      yield* forgets(store, 1, forget("events", age + 50, 2))

      for (const [young, old] of [[first, second], [second, first]] as const) {
        yield* land(store, at(60, young), at(50, old), at(49, old), at(48, old), at(60, old))
        yield* land(store, forget("events", age + 55, 2))
        assert.deepEqual([yield* leftOf(young), yield* leftOf(old)], [[60], [48, 60]], "what has the turn of one before it goes behind that")
        yield* land(store, forget("events", age + 55))
        assert.deepEqual([yield* leftOf(young), yield* leftOf(old)], [[60], [60]], "what stays holds up nothing before it, and no other shard")
        yield* land(store, forget("events", age + 70))
      }

      yield* land(store, ...shards.map((shard) => at(10, shard)))
      yield* land(store, forget("events", age + 20))
      assert.deepEqual(yield* Effect.forEach(shards, leftOf), shards.map(() => []), "every shard has its turn")
    })
  ),
  law("forgets no event that is not older, and none behind one that stays", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      const at = (occurredAt: Millis) => append(Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt: age + occurredAt }))
      yield* land(store, at(20), at(10), at(20), at(30))
      const page = store.events.page(realm, Fixtures.freshId(), { start: null, limit: 10 })
      const before = yield* page

      yield* land(store, forget("events", age + 20))

      assert.deepEqual(yield* page, before, "the first one stays, and so does what is behind it: a log has no gaps")
    })
  )
]

/** To run before all others, in a log that nobody has written to. */
export const firstOfAll = eventRetention
export const retentions = [...due, ...uploads, ...retention, ...messageRetention]
