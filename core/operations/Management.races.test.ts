/** What an operator asks for, where another process changes the same record at the same moment: it is done all the same, and once. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Result } from "effect"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { insert } from "../../conformance/StoreLaw.ts"
import * as Address from "../model/Address.ts"
import { scopes } from "../model/ApiKey.ts"
import type { Actor } from "../model/Audit.ts"
import { realmOf } from "../model/Ids.ts"
import { Store, type Change } from "../ports/Store.ts"
import { Management } from "./Management.ts"
import { WebhookManagement } from "./WebhookManagement.ts"

const ada: Actor = { type: "operator", id: "ada" }

type StoreService = typeof Store.Service

/** The record as it is, one version on, as it is when somebody else has changed something of it. */
const moved = Effect.fnUntraced(function* ({ credentials, domains, mailboxes, endpoints }: StoreService, change: Change & { readonly _tag: "Update" }) {
  const next = <A extends { readonly version: number }>(found: A | null) => ({ ...found!, version: found!.version + 1 })
  switch (change.kind) {
    case "tenant": return [{ ...change, record: next(yield* credentials.tenant(change.record.id)) }]
    case "application": return [{ ...change, record: next(yield* credentials.application(change.record.tenantId, change.record.id)) }]
    case "apiKey": return [{ ...change, record: next(yield* credentials.apiKey(change.record.tenantId, change.record.id)) }]
    case "domain": return [{ ...change, record: next(yield* domains.get(change.record.tenantId, change.record.id)) }]
    case "mailbox": return [{ ...change, record: next(yield* mailboxes.get(change.record.tenantId, change.record.id)) }]
    case "endpoint": return [{ ...change, record: next(yield* endpoints.get(realmOf(change.record), change.record.id)) }]
    default: return []
  }
})

const founded = Effect.gen(function* () {
  let isSlower = false
  const memory = yield* Layer.build(Layer.merge(MemoryStore.layer, MemoryJobQueue.layer))
  const faster = Layer.effect(
    Store,
    Effect.map(Store, (store): StoreService => ({
      ...store,
      commit: Effect.fnUntraced(function* (changes, ...others) {
        if (isSlower) {
          isSlower = false
          const updates = changes.filter((change) => change._tag === "Update")
          yield* store.commit((yield* Effect.forEach(updates, (update) => moved(store, update))).flat(), [])
        }
        return yield* store.commit(changes, ...others)
      })
    }))
  )
  const crypto = NodeCrypto.layerSeeded("races", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }], memoryCostKiB: 64, timeCost: 1, dkimKeyBits: 512 })
  const context = yield* Layer.build(
    Layer.merge(Management.layer, WebhookManagement.layer).pipe(Layer.provideMerge(Layer.merge(faster, crypto)), Layer.provide(Layer.succeedContext(memory)))
  )
  return yield* Effect.gen(function* () {
    const [management, webhooks] = [yield* Management, yield* WebhookManagement]
    yield* management.createPlan(ada, { id: "standard" })
    const { id: tenantId } = yield* management.createTenant(ada, { name: "Analytical Engines", planId: "standard" })
    const application = yield* management.createApplication(ada, { tenantId, environment: "sandbox", name: "Billing" })
    const { apiKey } = yield* management.issueKey(ada, { tenantId, applicationId: application.id, name: "web", scopes })
    const domain = yield* management.createDomain(ada, { tenantId, domain: Result.getOrThrow(Address.parseDomain("mail.example")) })
    const mailbox = yield* management.createMailbox(ada, { tenantId, address: Result.getOrThrow(Address.parse("ada@mail.example")), displayName: "" })
    const realm = { tenantId, environment: "sandbox" } as const
    const on = Fixtures.endpoint(realm, { applicationId: application.id })
    const off = Fixtures.endpoint(realm, { applicationId: application.id, enabled: false, disabledAt: 0 })
    yield* Store.use(({ commit }) => commit([insert("endpoint", on), insert("endpoint", off)], []))
    const beaten = <A, E>(act: Effect.Effect<A, E>) => Effect.andThen(Effect.sync(() => { isSlower = true }), act)
    const acts = Effect.map(management.listAudit(tenantId, {}), ({ items }) => items.map(({ action }) => action))
    return { management, webhooks, tenantId, application, apiKey, domain, mailbox, on, off, beaten, acts }
  }).pipe(Effect.provide(context))
})

type Founded = Effect.Success<typeof founded>
type Versioned = Effect.Effect<{ readonly version: number }, unknown>

for (const [action, act] of [
  ["tenant.update", ({ management, tenantId }) => management.updateTenant(ada, tenantId, { name: "Engines" })],
  ["tenant.suspend", ({ management, tenantId }) => management.setTenantStatus(ada, tenantId, "suspended")],
  ["application.update", ({ management, tenantId, application }) => management.updateApplication(ada, tenantId, application.id, { name: "Invoices" })],
  ["application.suspend", ({ management, tenantId, application }) => management.setApplicationStatus(ada, tenantId, application.id, "suspended")],
  ["api_key.update", ({ management, tenantId, apiKey }) => management.updateKey(ada, tenantId, apiKey.id, { name: "site" })],
  ["api_key.rotate", ({ management, tenantId, apiKey }) => Effect.map(management.rotateKey(ada, tenantId, apiKey.id, { overlap: 0 }), ({ replaced }) => replaced)],
  ["api_key.revoke", ({ management, tenantId, apiKey }) => management.revokeKey(ada, tenantId, apiKey.id)],
  ["domain.make_key", ({ management, tenantId, domain }) => Effect.map(management.domainRecords(ada, tenantId, domain.id), (set) => set.domain)],
  ["domain.rotate_dkim", ({ management, tenantId, domain }) => Effect.map(management.rotateDkim(ada, tenantId, domain.id), (set) => set.domain)],
  ["domain.check", ({ management, tenantId, domain }) => management.recordChecks(tenantId, domain.id, [])],
  ["domain.suspend", ({ management, tenantId, domain }) => management.setDomainSuspended(ada, tenantId, domain.id, true)],
  ["domain.catch_all", ({ management, tenantId, domain, mailbox }) => management.setCatchAll(ada, tenantId, domain.id, mailbox.id)],
  ["mailbox.suspend", ({ management, tenantId, mailbox }) => management.updateMailbox(ada, tenantId, mailbox.id, { status: "suspended" })],
  ["webhook_endpoint.rotate_secret", ({ webhooks, tenantId, on }) => Effect.map(webhooks.rotateSecret(ada, tenantId, on.id, { overlap: 0 }), ({ endpoint }) => endpoint)],
  ["webhook_endpoint.disable", ({ webhooks, tenantId, on }) => webhooks.disableEndpoint(ada, tenantId, on.id)],
  ["webhook_endpoint.enable", ({ webhooks, tenantId, off }) => Effect.map(webhooks.enableEndpoint(ada, tenantId, off.id, { replayDead: false }), ({ endpoint }) => endpoint)]
] as ReadonlyArray<readonly [action: string, act: (founded: Founded) => Versioned]>) {
  it.effect(`${action} is done, and on record once, where another process changes the same record first`, () =>
    Effect.gen(function* () {
      const all = yield* founded

      const { version } = yield* all.beaten(act(all))

      assert.strictEqual(version, 3, "behind the other's change, which stays")
      assert.lengthOf((yield* all.acts).filter((one) => one === action), 1)
    })
  )
}
