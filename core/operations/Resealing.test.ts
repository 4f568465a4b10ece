/** Re-sealing with a ring that has got a new key, beside workers that go on. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { Actor } from "../model/Audit.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { Realm } from "../model/Ids.ts"
import * as MailDomains from "../model/MailDomain.ts"
import type { MailDomain } from "../model/MailDomain.ts"
import { Crypto } from "../ports/Crypto.ts"
import { Store } from "../ports/Store.ts"
import { Resealing, type Unopened } from "./Resealing.ts"

const ada: Actor = { type: "operator", id: "ada" }

const ringOf = (...versions: ReadonlyArray<number>) =>
  NodeCrypto.layerSeeded(versions.join(), {
    sealingKeys: versions.map((version) => ({ version, key: Redacted.make(new Uint8Array(32).fill(version)) }))
  })

const memory = Layer.merge(MemoryStore.layer, MemoryJobQueue.layer)

const reseal = (...versions: ReadonlyArray<number>) =>
  Resealing.use((resealing) => resealing.reseal(ada)).pipe(Effect.provide(Layer.provide(Resealing.layer, ringOf(...versions))))

/** An endpoint whose secret the newest key of this ring has sealed. */
const sealedBy = Effect.fnUntraced(function* (ring: ReadonlyArray<number>, realm: Realm = Fixtures.realm()) {
  const endpoint = Fixtures.endpoint(realm)
  const secret = yield* Crypto.use(({ seal }) => seal(Redacted.make(`whsec_${endpoint.id}`), Endpoints.sealContext(endpoint))).pipe(
    Effect.provide(ringOf(...ring))
  )
  const record = { ...endpoint, secret }
  yield* Store.use(({ commit }) => commit([{ _tag: "Insert", kind: "endpoint", record }], []))
  return record
})

const stored = ({ id, tenantId, environment }: Endpoint) =>
  Effect.map(Store.use(({ endpoints }) => endpoints.get({ tenantId, environment }, id)), (found) => found!)

const opened = Effect.fnUntraced(function* (endpoint: Endpoint, ...ring: ReadonlyArray<number>) {
  const { secret } = yield* stored(endpoint)
  const text = yield* Crypto.use(({ open }) => open(secret, Endpoints.sealContext(endpoint))).pipe(Effect.provide(ringOf(...ring)))
  return { sealVersion: secret.version, text: Redacted.value(text) }
})

it.effect("seals every secret anew, of all tenants and over many pages, so that the old key can go", () =>
  Effect.gen(function* () {
    const endpoints = yield* Effect.forEach(Array.from({ length: 450 }), (_, index) =>
      sealedBy([1], Fixtures.realm(index % 2 === 0 ? "sandbox" : "production"))
    )
    const done = yield* sealedBy([1, 3])
    const [{ count, ...first }, ...more] = (yield* reseal(3)).unopened as [Unopened]
    assert.deepStrictEqual([count, first.sealVersion, more], [450, 1, []], "without the old key")

    assert.deepStrictEqual(yield* reseal(1, 3), { version: 3, resealed: 450, unopened: [] })

    for (const endpoint of endpoints) {
      assert.deepStrictEqual(yield* opened(endpoint, 3), { sealVersion: 3, text: `whsec_${endpoint.id}` })
      assert.strictEqual((yield* stored(endpoint)).version, 2)
    }
    assert.deepStrictEqual(yield* stored(done), done)
    const [entry] = yield* Store.use(({ audit }) => audit.page(endpoints[0]!.tenantId, 9))
    assert.deepInclude(entry, { action: "webhook_endpoint.reseal", actor: ada, environment: "sandbox" })
    assert.deepStrictEqual(yield* reseal(1, 3), { version: 3, resealed: 0, unopened: [] })
  }).pipe(Effect.provide(memory))
)

it.effect("is done by nobody without a name, for it goes on record", () =>
  Effect.gen(function* () {
    const nameless = Resealing.use((resealing) => resealing.reseal({ ...ada, id: " " }))
    const refused = yield* Effect.flip(Effect.provide(nameless, Layer.provide(Resealing.layer, ringOf(1))))

    assert.deepInclude(refused, { _tag: "InvalidInput", field: "actor" })
  }).pipe(Effect.provide(memory))
)

it.effect("leaves a secret that it cannot open as it is, and counts it by the key that sealed it", () =>
  Effect.gen(function* () {
    const [lost, other, good] = [yield* sealedBy([1]), yield* sealedBy([1]), yield* sealedBy([2])]

    const { resealed, unopened } = yield* reseal(2, 3)

    assert.strictEqual(resealed, 1)
    assert.deepInclude(unopened[0], { sealVersion: 1, count: 2 })
    assert.strictEqual(unopened[0]!.what, "endpoint")
    assert.include([lost.id, other.id], unopened[0]!.id)
    assert.deepStrictEqual([yield* stored(lost), yield* stored(other)], [lost, other])
    assert.strictEqual((yield* opened(good, 3)).text, `whsec_${good.id}`)
  }).pipe(Effect.provide(memory))
)

it.effect("counts what a key beyond the ring has sealed, of a higher version or of the same", () =>
  Effect.gen(function* () {
    const [later, good] = [yield* sealedBy([1, 4]), yield* sealedBy([3])]
    const another = NodeCrypto.layerSeeded("another", { sealingKeys: [{ version: 3, key: Redacted.make(new Uint8Array(32).fill(33)) }] })
    const sealed = (context: string) => Crypto.use(({ seal }) => seal(Redacted.make("key"), context)).pipe(Effect.provide(another))
    const unsealed = Fixtures.endpoint(Fixtures.realm())
    const strange = { ...unsealed, secret: yield* sealed(Endpoints.sealContext(unsealed)) }
    const keys = Effect.fnUntraced(function* (of: "dkim" | "nextDkim") {
      const domain = Fixtures.mailDomain(later.tenantId)
      return { ...domain, [of]: { selector: "a", publicKey: "AAAA", privateKey: yield* sealed(MailDomains.sealContext(domain)) } }
    })
    for (const record of [yield* keys("dkim"), yield* keys("nextDkim")]) {
      yield* Store.use(({ commit }) => commit([{ _tag: "Insert", kind: "domain", record }], []))
    }
    yield* Store.use(({ commit }) => commit([{ _tag: "Insert", kind: "endpoint", record: strange }], []))

    assert.deepStrictEqual(yield* reseal(1, 3), {
      version: 3,
      resealed: 0,
      unopened: [
        { sealVersion: 3, count: 3, what: "endpoint", id: strange.id },
        { sealVersion: 4, count: 1, what: "endpoint", id: later.id }
      ]
    })
    assert.deepStrictEqual([yield* stored(later), yield* stored(good)], [later, good])
  }).pipe(Effect.provide(memory))
)

it.effect("seals a secret anew that is yet to sign, whichever of the two is the older, and keeps its time", () =>
  Effect.gen(function* () {
    const [older, newer] = [yield* sealedBy([1]), yield* sealedBy([1, 3])]
    const sealNext = (endpoint: Endpoint, ...ring: ReadonlyArray<number>) =>
      Effect.gen(function* () {
        const secret = yield* Crypto.use(({ seal }) => seal(Redacted.make("whsec_next"), Endpoints.sealContext(endpoint))).pipe(Effect.provide(ringOf(...ring)))
        const record = { ...endpoint, version: 2, nextSecret: { secret, from: 7 } }
        yield* Store.use(({ commit }) => commit([{ _tag: "Update", kind: "endpoint", record }], []))
      })
    yield* sealNext(older, 1, 3)
    yield* sealNext(newer, 1)

    assert.deepStrictEqual(yield* reseal(1, 3), { version: 3, resealed: 2, unopened: [] })

    for (const endpoint of [older, newer]) {
      const { nextSecret, version } = yield* stored(endpoint)
      const next = yield* Crypto.use(({ open }) => open(nextSecret!.secret, Endpoints.sealContext(endpoint))).pipe(Effect.provide(ringOf(3)))
      assert.deepStrictEqual([version, Redacted.value(next), nextSecret!.from], [3, "whsec_next", 7])
      assert.deepStrictEqual(yield* opened(endpoint, 3), { sealVersion: 3, text: `whsec_${endpoint.id}` })
    }
    assert.deepStrictEqual(yield* reseal(3), { version: 3, resealed: 0, unopened: [] })
  }).pipe(Effect.provide(memory))
)

const dkimKey = Effect.fnUntraced(function* (domain: MailDomain, selector: string, ring: ReadonlyArray<number>) {
  const text = Redacted.make(`key ${selector} of ${domain.id}`)
  const privateKey = yield* Crypto.use(({ seal }) => seal(text, MailDomains.sealContext(domain))).pipe(Effect.provide(ringOf(...ring)))
  return { selector, publicKey: "AAAA", privateKey }
})

it.effect("seals the DKIM keys of domains anew, each with what it was, and counts those that it cannot open", () =>
  Effect.gen(function* () {
    const store = yield* Store
    const insert = (record: MailDomain) => Effect.as(store.commit([{ _tag: "Insert", kind: "domain", record }], []), record)
    const [one, two, three, four] = [1, 2, 3, 4].map(() => Fixtures.mailDomain(Fixtures.realm().tenantId))
    const old = yield* insert({ ...one!, dkim: yield* dkimKey(one!, "a", [2]), nextDkim: yield* dkimKey(one!, "b", [3]) })
    const half = yield* insert({ ...four!, dkim: yield* dkimKey(four!, "e", [3]), nextDkim: yield* dkimKey(four!, "f", [2]) })
    const done = yield* insert({ ...two!, nextDkim: yield* dkimKey(two!, "c", [3]) })
    const lost = yield* insert({ ...three!, dkim: yield* dkimKey(three!, "d", [1]) })
    const without = yield* insert(Fixtures.mailDomain(old.tenantId))

    assert.deepStrictEqual(yield* reseal(2, 3), {
      version: 3,
      resealed: 2,
      unopened: [{ sealVersion: 1, count: 1, what: "domain", id: lost.id }]
    })

    for (const { tenantId, id } of [old, half]) {
      const now = (yield* store.domains.get(tenantId, id))!
      assert.deepStrictEqual([now.version, now.dkim?.privateKey.version, now.nextDkim?.privateKey.version], [2, 3, 3])
      for (const key of [now.dkim!, now.nextDkim!]) {
        const open = Crypto.use(({ open }) => open(key.privateKey, MailDomains.sealContext(now)))
        assert.strictEqual(Redacted.value(yield* Effect.provide(open, ringOf(3))), `key ${key.selector} of ${id}`)
      }
    }
    for (const same of [done, lost, without]) assert.deepStrictEqual(yield* store.domains.get(same.tenantId, same.id), same)
    const [entry] = yield* store.audit.page(old.tenantId, 1)
    assert.deepInclude(entry, { action: "domain.reseal", actor: ada, environment: null, subject: { type: "domain", id: old.id } })
  }).pipe(Effect.provide(memory))
)

it.effect("loses nothing of what workers change meanwhile, nor they of it, and two of it do each once", () =>
  Effect.gen(function* () {
    const store = yield* Store
    const endpoints = yield* Effect.forEach(Array.from({ length: 20 }), () => sealedBy([1]))
    // As a worker counts a failed attempt: anew, while somebody else was faster.
    const count = (endpoint: Endpoint) =>
      Effect.gen(function* () {
        const before = yield* stored(endpoint)
        const record = { ...before, version: before.version + 1, consecutiveFailures: before.consecutiveFailures + 1 }
        yield* store.commit([{ _tag: "Update", kind: "endpoint", record }], [])
      }).pipe(Effect.retry({ times: 100 }), Effect.repeat({ times: 4 }))

    const [one, two] = yield* Effect.all([reseal(1, 2), reseal(1, 2), ...endpoints.map(count)], { concurrency: "unbounded" })

    assert.deepStrictEqual((one as { resealed: number }).resealed + (two as { resealed: number }).resealed, 20)
    for (const endpoint of endpoints) {
      assert.strictEqual((yield* opened(endpoint, 2)).text, `whsec_${endpoint.id}`)
      const { consecutiveFailures, version } = yield* stored(endpoint)
      assert.deepStrictEqual([consecutiveFailures, version], [5, 7])
    }
  }).pipe(Effect.provide(memory))
)
