/** What an operator does to endpoints, where the store, the queue or somebody else comes between. */
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer, Redacted, Struct } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { insert, insertDelivery } from "../../conformance/StoreLaw.ts"
import type { Actor } from "../model/Audit.ts"
import type { Delivery } from "../model/Delivery.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { Millis } from "../model/Ids.ts"
import { JobQueue, QueueUnavailable } from "../ports/JobQueue.ts"
import { Store, StoreUnavailable, type Change } from "../ports/Store.ts"
import { WebhookManagement } from "./WebhookManagement.ts"

const ada: Actor = { type: "operator", id: "ada" }
const realm = Fixtures.realm("production")

interface Between {
  readonly store?: (store: typeof Store.Service) => typeof Store.Service
  readonly queue?: (queue: typeof JobQueue.Service) => typeof JobQueue.Service
}

/** Over memory, with something in front of the store or the queue; the test itself has the real ones. */
const over = ({ store = (real) => real, queue = (real) => real }: Between = {}) => {
  const between = Layer.merge(Layer.effect(Store, Effect.map(Store, store)), Layer.effect(JobQueue, Effect.map(JobQueue, queue)))
  const crypto = NodeCrypto.layerSeeded("webhooks", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(1)) }] })
  return Effect.provide(
    WebhookManagement.layer.pipe(Layer.provide(Layer.merge(between, crypto)), Layer.provideMerge(Layer.merge(MemoryStore.layer, MemoryJobQueue.layer)))
  )
}

const put = (...changes: ReadonlyArray<Change>) => Store.use(({ commit }) => commit(changes, []))
const stored = ({ id }: Endpoint) => Effect.map(Store.use(({ endpoints }) => endpoints.get(realm, id)), (found) => found!)
const roundsOf = (deliveries: ReadonlyArray<Delivery>) =>
  Effect.forEach(deliveries, ({ id }) => Effect.map(Store.use((store) => store.deliveries.get(realm, id)), (found) => found!.round))

/** So many, each of which died a millisecond after the one before. */
const dead = (endpoint: Endpoint, count: number, first = 0) =>
  Array.from({ length: count }, (_, index) => Fixtures.delivery(endpoint, { status: "dead", nextAttemptAt: null, deadAt: first + index }))

const enabled = ({ id }: Endpoint) =>
  Effect.map(WebhookManagement.use(({ enableEndpoint }) => enableEndpoint(ada, realm.tenantId, id, { replayDead: true })), ({ replayed }) => replayed)

for (const [what, first, given, replay] of [
  ["what died", 0, {}, ({ id }) => WebhookManagement.use(({ replayDead }) => replayDead(ada, realm.tenantId, id, 0))],
  ["what died by a clock that is ahead", 30_000, {}, ({ id }) => WebhookManagement.use(({ replayDead }) => replayDead(ada, realm.tenantId, id, 0))],
  ["what died at an endpoint that is enabled again", 0, { enabled: false, disabledAt: 0 }, enabled],
  ["what died by a clock that is ahead at an endpoint that is enabled again", 30_000, { enabled: false, disabledAt: 0 }, enabled]
] as ReadonlyArray<readonly [what: string, first: Millis, over: Partial<Endpoint>, replay: (endpoint: Endpoint) => Effect.Effect<number, unknown, WebhookManagement>]>) {
  it.effect(`${what} is replayed once, however soon it dies again`, () => {
    const replayedIn = (changes: ReadonlyArray<Change>) =>
      changes.flatMap((change) => (change._tag === "Update" && change.kind === "delivery" && change.record.round === 2 ? [change.record] : []))
    const hopeless = (store: typeof Store.Service): typeof Store.Service => ({
      ...store,
      commit: (...given) =>
        Effect.tap(store.commit(...given), () =>
          Effect.gen(function* () {
            yield* TestClock.adjust(1)
            const deadAt = yield* Clock.currentTimeMillis
            const again = replayedIn(given[0]).map((one) => ({ ...one, version: one.version + 1, status: "dead", nextAttemptAt: null, deadAt }) as const)
            yield* store.commit(again.map((record) => ({ _tag: "Update", kind: "delivery", record })), [])
          })
        )
    })
    return Effect.gen(function* () {
      const endpoint = Fixtures.endpoint(realm, given)
      const deliveries = dead(endpoint, 1_001, first)
      yield* put(insert("endpoint", endpoint), ...deliveries.map((one) => insertDelivery(one)))
      yield* TestClock.setTime(1_000)

      const replayed = yield* replay(endpoint)

      assert.deepStrictEqual([replayed, new Set(yield* roundsOf(deliveries))], [1_001, new Set([2])])
    }).pipe(over({ store: hopeless }))
  })
}

it.effect("replays nothing at an endpoint that is disabled while what died is looked for", () => {
  const endpoint = Fixtures.endpoint(realm)
  const disabled = { ...endpoint, version: 2, enabled: false, disabledAt: 0 }
  const meanwhile = (store: typeof Store.Service): typeof Store.Service => ({
    ...store,
    deliveries: {
      ...store.deliveries,
      deadSince: (...query) =>
        Effect.tap(store.deliveries.deadSince(...query), Effect.orDie(store.commit([{ _tag: "Update", kind: "endpoint", record: disabled }], [])))
    }
  })
  return Effect.gen(function* () {
    const deliveries = dead(endpoint, 1)
    yield* put(insert("endpoint", endpoint), ...deliveries.map((one) => insertDelivery(one)))

    const replayed = yield* WebhookManagement.use(({ replayDead }) => replayDead(ada, realm.tenantId, endpoint.id, 0))

    assert.deepStrictEqual([replayed, yield* roundsOf(deliveries)], [0, [1]])
  }).pipe(over({ store: meanwhile }))
})

it.effect("shows when the next secret begins to sign until it does, and no secret", () =>
  Effect.gen(function* () {
    const endpoint = Fixtures.endpoint(realm)
    yield* put(insert("endpoint", endpoint))
    const management = yield* WebhookManagement
    yield* management.rotateSecret(ada, realm.tenantId, endpoint.id, { overlap: 1_000 })
    const shown = management.getEndpoint(realm.tenantId, endpoint.id)

    yield* TestClock.setTime(999)
    const before = yield* shown
    yield* TestClock.setTime(1_000)

    assert.deepStrictEqual([before.nextSecretFrom, (yield* shown).nextSecretFrom], [1_000, null])
    const told = Struct.omit(endpoint, ["secret", "nextSecret", "positions"])
    assert.deepStrictEqual(before, { ...told, version: 2, sealVersion: 1, nextSecretFrom: 1_000 })
  }).pipe(over())
)

it.effect("tells no secret that was not stored", () => {
  const away = (store: typeof Store.Service): typeof Store.Service => ({
    ...store,
    commit: () => Effect.fail(new StoreUnavailable({ cause: "away" }))
  })
  return Effect.gen(function* () {
    const endpoint = Fixtures.endpoint(realm)
    yield* put(insert("endpoint", endpoint))
    const rotated = WebhookManagement.use(({ rotateSecret }) => rotateSecret(ada, realm.tenantId, endpoint.id, { overlap: 0 }))

    assert.strictEqual((yield* Effect.flip(rotated))._tag, "StoreUnavailable")
  }).pipe(over({ store: away }))
})

for (const [what, queue, isSlow] of [
  ["is slow no more", (real) => real, false],
  ["stays slow where the queue has not heard of it", (real) => ({ ...real, throttle: () => Effect.fail(new QueueUnavailable({ cause: "away" })) }), true]
] as ReadonlyArray<readonly [what: string, queue: NonNullable<Between["queue"]>, isSlow: boolean]>) {
  it.effect(`an endpoint that is enabled again ${what}`, () =>
    Effect.gen(function* () {
      const off = { enabled: false, disabledAt: 0 }
      const [slow, quick] = [Fixtures.endpoint(realm, { ...off, isSlow: true }), Fixtures.endpoint(realm, off)]
      yield* put(insert("endpoint", slow), insert("endpoint", quick))
      for (const { id } of [slow, quick]) yield* WebhookManagement.use(({ enableEndpoint }) => enableEndpoint(ada, realm.tenantId, id, { replayDead: false }))

      assert.deepStrictEqual([(yield* stored(slow)).isSlow, (yield* stored(quick)).isSlow], [isSlow, false])
    }).pipe(over({ queue }))
  )
}

it.effect("writes nothing for an actor without a name", () =>
  Effect.gen(function* () {
    const [on, off] = [Fixtures.endpoint(realm), Fixtures.endpoint(realm, { enabled: false, disabledAt: 0 })]
    yield* put(insert("endpoint", on), insert("endpoint", off), ...dead(on, 1).map((one) => insertDelivery(one)))
    const management = yield* WebhookManagement
    const nobody: Actor = { type: "operator", id: " " }

    for (const acting of [
      management.rotateSecret(nobody, realm.tenantId, on.id, { overlap: 0 }),
      management.disableEndpoint(nobody, realm.tenantId, on.id),
      management.enableEndpoint(nobody, realm.tenantId, off.id, { replayDead: false }),
      management.replayDead(nobody, realm.tenantId, on.id, 0)
    ] as ReadonlyArray<Effect.Effect<unknown, { readonly message: string }>>) {
      assert.strictEqual((yield* Effect.flip(acting)).message, "actor wants 1 to 200 characters.")
    }
    assert.deepStrictEqual([(yield* stored(on)).version, (yield* stored(off)).version], [1, 1])
    assert.deepStrictEqual(yield* Store.use(({ audit }) => audit.page(realm.tenantId, 10)), [])
  }).pipe(over())
)

it.effect("says in the audit trail of the endpoint's environment what was done to it", () =>
  Effect.gen(function* () {
    const endpoint = Fixtures.endpoint(realm)
    yield* put(insert("endpoint", endpoint), ...dead(endpoint, 1).map((one) => insertDelivery(one)))
    const management = yield* WebhookManagement
    yield* management.rotateSecret(ada, realm.tenantId, endpoint.id, { overlap: 0 })
    yield* management.disableEndpoint(ada, realm.tenantId, endpoint.id)
    yield* management.enableEndpoint(ada, realm.tenantId, endpoint.id, { replayDead: true })

    const entries = yield* Store.use(({ audit }) => audit.page(realm.tenantId, 10))
    const acts = ["rotate_secret", "disable", "enable", "replay"].map((act) => [`webhook_endpoint.${act}`, "production", endpoint.id, "ada"])
    const written = entries.map(({ action, environment, subject, actor }) => [action, environment, subject.id, actor.id])
    assert.sameDeepMembers(written, acts)
  }).pipe(over())
)

it.effect("sends an endpoint no test event of a type that it does not get", () =>
  Effect.gen(function* () {
    const endpoint = Fixtures.endpoint(realm, { eventTypes: ["mailbox.created", "message.sent"] })
    yield* put(insert("endpoint", endpoint))
    const sending = WebhookManagement.use(({ testEndpoint }) => testEndpoint(ada, realm.tenantId, endpoint.id, "message.bounced"))

    assert.strictEqual((yield* Effect.flip(sending)).message, "type is none that this endpoint gets; it gets message.sent, mailbox.created.")
  }).pipe(over())
)

it.effect("makes no test event of a type that there is not", () =>
  Effect.gen(function* () {
    const application = Fixtures.application(Fixtures.realm("sandbox"))
    yield* put(insert("application", application))
    const sending = WebhookManagement.use(({ sendTestEvent }) =>
      sendTestEvent(ada, { tenantId: application.tenantId, applicationId: application.id, type: "*" as never }) // as JavaScript can call it
    )
    const error = yield* Effect.flip(sending)
    assert.strictEqual(error._tag === "InvalidInput" ? error.field : error._tag, "type")
  }).pipe(over())
)

it.effect("replays with the enabling all that died at one time, also what is more than a commit holds", () =>
  Effect.gen(function* () {
    const endpoint = Fixtures.endpoint(realm, { enabled: false, disabledAt: 0 })
    const deliveries = dead(endpoint, 501).map((one) => ({ ...one, deadAt: 30_000 }))
    yield* put(insert("endpoint", endpoint), ...deliveries.map((one) => insertDelivery(one)))

    const { replayed } = yield* WebhookManagement.use(({ enableEndpoint }) => enableEndpoint(ada, realm.tenantId, endpoint.id, { replayDead: true }))

    assert.deepStrictEqual([replayed, new Set(yield* roundsOf(deliveries))], [501, new Set([2])])
  }).pipe(over())
)

it.effect("an endpoint is told of without its secrets, and so is one that is enabled again", () =>
  Effect.gen(function* () {
    const endpoint = Fixtures.endpoint(realm, { enabled: false, disabledAt: 0 })
    yield* put(insert("endpoint", endpoint))
    const management = yield* WebhookManagement

    const shown = [
      yield* management.getEndpoint(realm.tenantId, endpoint.id),
      (yield* management.enableEndpoint(ada, realm.tenantId, endpoint.id, { replayDead: false })).endpoint,
      (yield* management.enableEndpoint(ada, realm.tenantId, endpoint.id, { replayDead: false })).endpoint,
      yield* management.disableEndpoint(ada, realm.tenantId, endpoint.id)
    ]

    assert.deepStrictEqual(shown.map(({ enabled }) => enabled), [false, true, true, false])
    for (const one of shown) for (const member of ["secret", "nextSecret", "positions"]) assert.notProperty(one, member)
  }).pipe(over())
)

it.effect("endpoints are listed of all the tenant's applications, or of the one that is named, and of no other", () =>
  Effect.gen(function* () {
    const [first, second, stranger] = [Fixtures.application(realm), Fixtures.application(realm), Fixtures.application(Fixtures.realm("production"))]
    const endpoints = [first, second].map((application) => Fixtures.endpoint(realm, { applicationId: application.id }))
    yield* put(insert("tenant", Fixtures.tenant({ id: realm.tenantId })))
    for (const application of [first, second, stranger]) yield* put(insert("application", application))
    for (const endpoint of endpoints) yield* put(insert("endpoint", endpoint))
    const { listEndpoints } = yield* WebhookManagement
    const listed = (query: Parameters<typeof listEndpoints>[1]) => Effect.map(listEndpoints(realm.tenantId, query), ({ items }) => items.map(({ id }) => id))

    assert.sameMembers([...(yield* listed({}))], endpoints.map(({ id }) => id))
    assert.deepStrictEqual(yield* listed({ applicationId: second.id }), [endpoints[1]!.id])
    assert.strictEqual((yield* Effect.flip(listed({ applicationId: stranger.id }))).message, `There is no application ${stranger.id} in this tenant.`)
  }).pipe(over())
)

it.effect("sends an endpoint a test event of what it gets, where no type is asked for", () =>
  Effect.gen(function* () {
    const application = Fixtures.application(Fixtures.realm("sandbox"))
    const sandbox = { tenantId: application.tenantId, environment: "sandbox" } as const
    const endpoint = Fixtures.endpoint(sandbox, { applicationId: application.id, eventTypes: ["mailbox.created"] })
    yield* put(insert("application", application), insert("endpoint", endpoint))

    const event = yield* WebhookManagement.use(({ testEndpoint }) => testEndpoint(ada, application.tenantId, endpoint.id))

    assert.deepStrictEqual([event.type, event.tenantId, event.environment], ["mailbox.created", application.tenantId, "sandbox"])
  }).pipe(over())
)
