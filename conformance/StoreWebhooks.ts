/** Laws of webhook endpoints and deliveries: what each read shows, in which order, and how it follows the changes. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Attempt, Delivery } from "../core/model/Delivery.ts"
import type { Endpoint } from "../core/model/Endpoint.ts"
import type { ApplicationId, DeliveryId, Realm } from "../core/model/Ids.ts"
import * as Fixtures from "./fixtures.ts"
import {
  forget,
  insert,
  insertDelivery,
  land,
  law,
  next,
  ownAge,
  putBody,
  refusal,
  stored,
  times,
  update,
  type Service
} from "./StoreLaw.ts"

const idsOf = (found: ReadonlyArray<{ readonly id: string }>): ReadonlyArray<string> => found.map(({ id }) => id)

const sortedIds = <E>(read: Effect.Effect<ReadonlyArray<{ readonly id: string }>, E>): Effect.Effect<ReadonlyArray<string>, E> =>
  Effect.map(read, (found) => idsOf(found).toSorted())

/** Text that storage likes to normalise: order and repetition of members, white space, escapes, numbers too long for one. */
const awkwardBody =
  '{ "b":1,"a" : 2,"a":3,\r\n\t"long":12345678901234567890.10, "esc":"\\u00e9\\u0000 \\/",' +
  ' "é":"e\u0301 ß 🏳️‍🌈 \u202e \uFEFF \'; drop table delivery; --" } '

const fidelity = [
  law("gives back an endpoint as it was put", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const endpoint = Fixtures.endpoint(realm, {
        url: "https://example.com:8443/hooks?q=%27%C3%A9'&x=$1",
        description: "Ünïcode 'quoted' \\ \"twice\" 🏳️‍🌈",
        eventTypes: ["message.sent", "mailbox.created"],
        apiVersion: "2027-01-01",
        secret: { version: 7, iv: "aXY=", ciphertext: "Y2lwaGVy", tag: "dGFn" },
        isSlow: true,
        enabled: false,
        consecutiveFailures: 10,
        disabledAt: 1_796_117_400_123,
        createdAt: 1_796_117_400_122
      })

      yield* land(store, insert("endpoint", endpoint))

      const { positions } = (yield* store.endpoints.get(realm, endpoint.id))!
      assert.deepEqual(yield* store.endpoints.get(realm, endpoint.id), { ...endpoint, positions })
      assert.deepEqual(yield* store.endpoints.list(realm, endpoint.applicationId), [{ ...endpoint, positions }])
    })
  ),
  law("gives back a delivery as it was put, and its body to the byte", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const attempt: Attempt = {
        number: 1,
        round: 1,
        startedAt: 1_796_117_400_123,
        durationMs: 5_000,
        outcome: "timeout",
        responseStatus: null
      }
      const delivery = Fixtures.delivery(Fixtures.endpoint(realm), {
        eventPosition: 9_007_199_254_740_993n,
        eventType: "domain.health_changed",
        trigger: "replay",
        demo: true,
        status: "dead",
        round: 3,
        attemptCount: 4,
        nextAttemptAt: null,
        deadAt: 1_796_117_400_124,
        lastError: "http_error",
        attempts: [attempt, { ...attempt, number: 2, outcome: "http_error", responseStatus: 599 }],
        createdAt: 1_796_117_400_122
      })
      const long = Fixtures.delivery(Fixtures.endpoint(realm), { status: "delivered", nextAttemptAt: null, deliveredAt: 9 })
      const longBody = JSON.stringify("é".repeat(100_000))
      yield* land(store, insertDelivery(delivery, awkwardBody), insertDelivery(long, longBody))

      assert.deepEqual(yield* store.deliveries.get(realm, delivery.id), delivery)
      assert.deepEqual(yield* store.deliveries.page(realm, { ...delivery, limit: 1 }), [delivery])
      assert.deepEqual(yield* store.deliveries.get(realm, long.id), long)
      assert.equal(yield* store.deliveries.body(realm, delivery.id), awkwardBody)
      assert.equal(yield* store.deliveries.body(realm, long.id), longBody)
    })
  ),
  law("takes a delivery that has ended without its body, and a body for it, once", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const ended = { status: "delivered", nextAttemptAt: null, deliveredAt: Number.MAX_SAFE_INTEGER } as const
      const [one, other, fresh, whole, astray] = times(5, (place) =>
        Fixtures.delivery(Fixtures.endpoint(realm), { ...ended, eventPosition: BigInt(place) })
      ) as [Delivery, Delivery, Delivery, Delivery, Delivery] // as many as were asked for
      const shared = { ...whole, id: Fixtures.freshId<DeliveryId>() }
      yield* land(store, insertDelivery(one, null), insertDelivery(other, null), insertDelivery(whole, awkwardBody), insertDelivery(shared, awkwardBody))
      const bodies = Effect.forEach([one, other, whole, shared, fresh, astray], ({ id }) => store.deliveries.body(realm, id))
      assert.deepEqual(yield* bodies, [null, null, awkwardBody, awkwardBody, null, null])
      assert.deepEqual(yield* store.deliveries.outgoing(realm, one.id), { delivery: one, endpoint: null, body: null })
      const again = next(one, { status: "pending", nextAttemptAt: 6, deliveredAt: null })

      yield* land(
        store,
        putBody(Fixtures.otherEnvironment(realm), one, "of another environment"),
        putBody({ ...realm, tenantId: Fixtures.realm().tenantId }, one, "of another tenant"),
        update("delivery", again),
        putBody(realm, one, awkwardBody),
        putBody(realm, one, "later"),
        putBody(realm, whole, "another"),
        putBody(realm, shared, "another"),
        putBody(realm, fresh, "too early"),
        insertDelivery(fresh, null),
        putBody(Fixtures.realm(), fresh, "of another tenant"),
        putBody(realm, fresh, "{}"),
        putBody(realm, fresh, "later"),
        putBody(realm, astray, "of nothing"),
        putBody(Fixtures.realm(), other, "of another tenant")
      )

      assert.deepEqual(yield* bodies, [awkwardBody, null, awkwardBody, awkwardBody, "{}", null])
      assert.deepEqual(yield* store.deliveries.outgoing(realm, one.id), { delivery: again, endpoint: null, body: awkwardBody })
      yield* land(store, putBody(realm, one, "later"), putBody(realm, fresh, "later"))
      assert.deepEqual(yield* bodies, [awkwardBody, null, awkwardBody, awkwardBody, "{}", null])
    })
  ),
  law("keeps the body of a delivery through all that becomes of it", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const delivery = Fixtures.delivery(Fixtures.endpoint(realm))
      const dead = next(delivery, { status: "dead", nextAttemptAt: null, deadAt: 5 })
      yield* land(store, insertDelivery(delivery, awkwardBody))

      yield* land(store, update("delivery", dead))
      yield* land(store, update("delivery", next(dead, { status: "pending", nextAttemptAt: 6, deadAt: null })))

      assert.equal(yield* store.deliveries.body(realm, delivery.id), awkwardBody)
    })
  )
]

const endpoints = [
  law("lists the endpoints of one application, oldest first, then by id, enabled or not", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const applicationId = Fixtures.freshId<ApplicationId>()
      const make = (createdAt: number, over: Partial<Endpoint> = {}) =>
        Fixtures.endpoint(realm, { applicationId, createdAt, ...over })
      const twins = [make(20), make(20)].toSorted((left, right) => (left.id < right.id ? -1 : 1))
      const [oldest, newest] = [make(10, { enabled: false, disabledAt: 15 }), make(30)]
      const elsewhere = Fixtures.endpoint(Fixtures.otherEnvironment(realm), { applicationId, createdAt: 25 })
      const of = [newest, twins[1]!, oldest, twins[0]!, Fixtures.endpoint(realm, { createdAt: 20 }), elsewhere]
      yield* land(store, ...of.map((endpoint) => insert("endpoint", endpoint)))
      const list = Effect.map(store.endpoints.list(realm, applicationId), idsOf)

      assert.deepEqual(yield* list, idsOf([oldest, ...twins, newest]))
      yield* land(store, update("endpoint", next(oldest, { url: "https://example.net/" })))
      assert.deepEqual(yield* list, idsOf([oldest, ...twins, newest]))
      assert.equal((yield* store.endpoints.list(realm, applicationId))[0]!.url, "https://example.net/")
    })
  ),
  law("finds the enabled endpoints of several tenants, in both environments, each once", (store) =>
    Effect.gen(function* () {
      const [one, other, stranger] = [Fixtures.realm(), Fixtures.realm(), Fixtures.realm()]
      const make = (realm: Realm, over: Partial<Endpoint> = {}) => Fixtures.endpoint(realm, over)
      const found = [make(one), make(one), make(Fixtures.otherEnvironment(one)), make(other)]
      const off = [make(one, { enabled: false }), make(Fixtures.otherEnvironment(other), { enabled: false })]
      yield* land(store, ...[...found, ...off, make(stranger)].map((endpoint) => insert("endpoint", endpoint)))
      const enabled = (...of: ReadonlyArray<Realm>) => sortedIds(store.endpoints.enabled(of.map(({ tenantId }) => tenantId)))

      assert.deepEqual(yield* enabled(one, other), idsOf(found).toSorted())
      assert.deepEqual(yield* enabled(other, Fixtures.realm(), one, one), idsOf(found).toSorted())
      assert.deepEqual(yield* enabled(other), [found[3]!.id])
      const shown = (yield* store.endpoints.enabled([other.tenantId]))[0]!
      assert.deepEqual(shown, { ...found[3]!, positions: shown.positions })
    })
  ),
  law("follows an endpoint as its breaker counts, disables it, and is reset", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      const failed = next(endpoint, { consecutiveFailures: 9, isSlow: true })
      const disabled = next(failed, { consecutiveFailures: 10, enabled: false, disabledAt: 7 })
      const reset = next(disabled, { consecutiveFailures: 0, isSlow: false })
      const enabled = next(reset, { enabled: true, disabledAt: null })
      yield* land(store, insert("endpoint", endpoint))

      for (const record of [failed, disabled, reset, enabled]) {
        yield* land(store, update("endpoint", record))

        assert.deepEqual(yield* stored(store, "endpoint", record), record)
        const [shown] = yield* store.endpoints.enabled([realm.tenantId])
        assert.deepEqual(shown, record.enabled ? { ...record, positions: shown?.positions } : undefined)
        assert.deepEqual(idsOf(yield* store.endpoints.list(realm, endpoint.applicationId)), [endpoint.id])
      }
    })
  )
]

/** Newest first, as a page shows them. */
const newestFirst = (deliveries: ReadonlyArray<Delivery>): ReadonlyArray<Delivery> =>
  deliveries.toSorted((left, right) => right.createdAt - left.createdAt || (left.id < right.id ? 1 : -1))

/** Two endpoints of one application, with deliveries that were not made in the order of their times. */
const twoEndpoints = Effect.fnUntraced(function* (store: Service) {
  const realm = Fixtures.realm()
  const applicationId = Fixtures.freshId<ApplicationId>()
  const [one, two] = [Fixtures.endpoint(realm, { applicationId }), Fixtures.endpoint(realm, { applicationId })]
  const all = times(12, (index) => Fixtures.delivery(index % 3 === 0 ? two : one, { createdAt: 100 + ((index * 7) % 5) }))
  const foreign = Fixtures.delivery(Fixtures.endpoint(realm), { createdAt: 102 })
  yield* land(store, ...[...all, foreign].map((delivery) => insertDelivery(delivery)))
  const page = (over: Partial<Parameters<Service["deliveries"]["page"]>[1]> = {}) =>
    store.deliveries.page(realm, { applicationId, endpointId: null, limit: 100, ...over })
  return { realm, one, two, all, foreign, page }
})

const deliveries = [
  law("pages the deliveries of one application, newest first, then by id, up to a limit", (store) =>
    Effect.gen(function* () {
      const { all, foreign, page } = yield* twoEndpoints(store)
      const expected = newestFirst(all)

      assert.deepEqual(yield* page(), expected)
      assert.deepEqual(yield* page({ limit: 12 }), expected)
      assert.deepEqual(yield* page({ limit: 5 }), expected.slice(0, 5))
      assert.deepEqual(yield* page({ limit: 1 }), expected.slice(0, 1))
      assert.deepEqual(yield* page({ applicationId: foreign.applicationId }), [foreign])
      assert.deepEqual(yield* page({ applicationId: Fixtures.freshId() }), [])
    })
  ),
  law("pages the deliveries of one endpoint, if it is the application's", (store) =>
    Effect.gen(function* () {
      const { one, two, all, foreign, page } = yield* twoEndpoints(store)

      for (const { id } of [one, two]) {
        const expected = newestFirst(all).filter(({ endpointId }) => endpointId === id)
        assert.deepEqual(yield* page({ endpointId: id }), expected)
        assert.deepEqual(yield* page({ endpointId: id, limit: 3 }), expected.slice(0, 3))
      }
      assert.deepEqual(yield* page({ endpointId: foreign.endpointId }), [])
      assert.deepEqual(yield* page({ applicationId: foreign.applicationId, endpointId: one.id }), [])
    })
  ),
  law("shows deliveries in a page as they stand, in the same order whatever became of them", (store) =>
    Effect.gen(function* () {
      const { one, all, page } = yield* twoEndpoints(store)
      const after = newestFirst(all).map((delivery, index) =>
        index % 2 === 0 ? next(delivery, { status: "delivered", nextAttemptAt: null, deliveredAt: 200 - index }) : delivery
      )

      yield* land(store, ...after.filter(({ version }) => version > 1).map((delivery) => update("delivery", delivery)))

      assert.deepEqual(yield* page(), after)
      const ofOne = after.filter(({ endpointId }) => endpointId === one.id)
      assert.deepEqual(yield* page({ endpointId: one.id, limit: 4 }), ofOne.slice(0, 4))
    })
  ),
  law("names the deliveries of one endpoint that died at a time or later, oldest death first, then by id", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      const dead = (deadAt: number, of = endpoint) =>
        Fixtures.delivery(of, { status: "dead", nextAttemptAt: null, deadAt, createdAt: 1_000 - deadAt })
      const twins = [dead(20), dead(20)].toSorted((left, right) => (left.id < right.id ? -1 : 1))
      const [first, last] = [dead(10), dead(30)]
      const neighbour = Fixtures.endpoint(realm, { applicationId: endpoint.applicationId })
      const alive = Fixtures.delivery(endpoint, { status: "delivered", nextAttemptAt: null, deliveredAt: 20 })
      const of = [last, twins[1]!, first, alive, twins[0]!, dead(20, neighbour), Fixtures.delivery(endpoint)]
      yield* land(store, ...of.map((delivery) => insertDelivery(delivery)))
      const since = (at: number, limit = 100) => store.deliveries.deadSince(realm, endpoint.id, at, limit)

      assert.deepEqual(yield* since(0), [first, ...twins, last])
      assert.deepEqual(yield* since(10), [first, ...twins, last])
      assert.deepEqual(yield* since(11), [...twins, last])
      assert.deepEqual(yield* since(10.5), [...twins, last], "a time between two milliseconds")
      assert.deepEqual(yield* since(11, 2), twins)
      assert.deepEqual(yield* since(20, 1), [twins[0]])
      assert.deepEqual(yield* since(30), [last])
      assert.deepEqual(yield* since(31), [])
    })
  ),
  law("counts a delivery as dead from its death to its replay, and again from its next death", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const pending = Fixtures.delivery(Fixtures.endpoint(realm))
      const dead = next(pending, { status: "dead", nextAttemptAt: null, deadAt: 10 })
      const replayed = next(dead, { status: "pending", round: 2, nextAttemptAt: 20, deadAt: null })
      const again = next(replayed, { status: "dead", nextAttemptAt: null, deadAt: 30 })
      const since = (at: number) => store.deliveries.deadSince(realm, pending.endpointId, at, 10)

      yield* land(store, insertDelivery(pending))
      assert.deepEqual(yield* since(0), [])
      yield* land(store, update("delivery", dead))
      assert.deepEqual(yield* since(10), [dead])
      yield* land(store, update("delivery", replayed))
      assert.deepEqual(yield* since(0), [])
      yield* land(store, update("delivery", again))
      assert.deepEqual(yield* since(30), [again])
    })
  )
]

const forgetting = [
  law("forgets a delivery by when it ended, however old it is, and never one that is pending", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const endpoint = Fixtures.endpoint(realm)
      const make = (over: Partial<Delivery>) => Fixtures.delivery(endpoint, { createdAt: age, nextAttemptAt: null, ...over })
      const [pending, late] = [make({ nextAttemptAt: age }), make({ status: "delivered", deliveredAt: age + 100 })]
      const dead = make({ status: "dead", deadAt: age + 10 })
      const delivered = make({ status: "delivered", deliveredAt: age + 10 })
      const replayed = next(dead, { status: "pending", round: 2, nextAttemptAt: age + 20, deadAt: null })
      yield* land(store, ...[pending, late, dead, delivered].map((delivery) => insertDelivery(delivery)))
      yield* land(store, update("delivery", replayed))
      const left = sortedIds(store.deliveries.page(realm, { ...endpoint, endpointId: null, limit: 10 }))

      assert.equal((yield* store.commit([forget("deliveries", age + 50)], [])).forgotten, 1)

      assert.deepEqual(yield* left, idsOf([pending, late, replayed]).toSorted())
      yield* land(store, update("delivery", next(replayed, { status: "dead", nextAttemptAt: null, deadAt: age + 60 })))
      yield* land(store, forget("deliveries", age + 101))
      assert.deepEqual(yield* left, [pending.id])
    })
  ),
  law("forgets all of a delivery: its body, its place in every read, and its id", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const endpoint = Fixtures.endpoint(realm)
      const dead = Fixtures.delivery(endpoint, { status: "dead", nextAttemptAt: null, deadAt: age, attempts: [] })
      yield* land(store, insertDelivery(dead))

      yield* land(store, forget("deliveries", age + 1))

      assert.equal(yield* store.deliveries.get(realm, dead.id), null)
      assert.equal(yield* store.deliveries.body(realm, dead.id), null)
      for (const endpointId of [null, endpoint.id]) {
        assert.deepEqual(yield* store.deliveries.page(realm, { ...endpoint, endpointId, limit: 10 }), [])
      }
      assert.deepEqual(yield* store.deliveries.deadSince(realm, endpoint.id, age, 10), [])
      yield* land(store, insertDelivery({ ...dead, status: "pending", deadAt: null, nextAttemptAt: age }, awkwardBody))
      assert.equal(yield* store.deliveries.body(realm, dead.id), awkwardBody)
    })
  ),
  law("leaves its body to the other deliveries of the event of one that it forgets", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const first = Fixtures.delivery(Fixtures.endpoint(realm), { status: "dead", nextAttemptAt: null, deadAt: age })
      const [second, third] = [1, 2].map((later) => ({ ...first, id: Fixtures.freshId<DeliveryId>(), deadAt: age + later })) as [Delivery, Delivery]
      const body = (of: Delivery) => store.deliveries.body(realm, of.id)
      yield* land(store, insertDelivery(first, awkwardBody), insertDelivery(second, awkwardBody), insertDelivery(third, "{}"))

      yield* land(store, forget("deliveries", age + 1))
      assert.deepEqual(yield* Effect.all([first, second, third].map(body)), [null, awkwardBody, "{}"])

      yield* land(store, forget("deliveries", age + 2))
      assert.deepEqual(yield* Effect.all([first, second, third].map(body)), [null, null, "{}"])
    })
  ),
  law("counts no delivery that stays among those that it forgets at most", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const endpoint = Fixtures.endpoint(Fixtures.realm())
      const pending = times(3, () => Fixtures.delivery(endpoint, { createdAt: age, nextAttemptAt: age }))
      const dead = Fixtures.delivery(endpoint, { createdAt: age + 1, status: "dead", nextAttemptAt: null, deadAt: age + 1 })
      yield* land(store, ...[...pending, dead].map((delivery) => insertDelivery(delivery)))

      assert.equal((yield* store.commit([forget("deliveries", age + 10, 2)], [])).forgotten, 1)
      assert.equal(yield* store.deliveries.get(endpoint, dead.id), null)
    })
  ),
  law("forgets no delivery in a commit that is rejected", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const age = ownAge()
      const dead = Fixtures.delivery(Fixtures.endpoint(realm), { status: "dead", nextAttemptAt: null, deadAt: age })
      yield* land(store, insertDelivery(dead, awkwardBody))

      yield* refusal(store, forget("deliveries", age + 1), update("delivery", next(dead)))

      assert.deepEqual(yield* store.deliveries.get(realm, dead.id), dead)
      assert.equal(yield* store.deliveries.body(realm, dead.id), awkwardBody)
      assert.deepEqual(yield* store.deliveries.page(realm, { ...dead, limit: 10 }), [dead])
      assert.deepEqual(yield* store.deliveries.deadSince(realm, dead.endpointId, age, 10), [dead])
      assert.equal((yield* store.commit([forget("deliveries", age + 1)], [])).forgotten, 1)
    })
  )
]

export const webhooks = [...fidelity, ...endpoints, ...deliveries, ...forgetting]
