/** Domains as an operator handles them, on memory adapters. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Result } from "effect"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Address from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import { Management } from "./Management.ts"

const ada: Actor = { type: "operator", id: "ada" }

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32)) }]
const ports = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, NodeCrypto.layerSeeded("domains", { sealingKeys, memoryCostKiB: 64, timeCost: 1 }))
const layer = Layer.provideMerge(Management.layer, ports)

const domainName = (text: string) => Result.getOrThrow(Address.parseDomain(text))
const address = (text: string) => Result.getOrThrow(Address.parse(text))

const managed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

/** A tenant with a domain that was never checked. */
const founded = Effect.gen(function* () {
  const management = yield* Management
  yield* management.createPlan(ada, { id: "standard" })
  const { id: tenantId } = yield* management.createTenant(ada, { name: "Analytical Engines", planId: "standard" })
  const { id } = yield* management.createDomain(ada, { tenantId, domain: domainName("mail.example") })
  return { management, tenantId, id }
})

describe("domains", () => {
  managed(
    "are the tenant's by an operator's word until a check finds otherwise, and not while they are suspended",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded

      assert.strictEqual((yield* management.confirmDomain(ada, tenantId, id)).health, "healthy")
      const lost = (["ownership", "dkim"] as const).map(
        (record) => ({ record, state: "missing", expected: "x", observed: null, since: 0 }) as const
      )
      assert.strictEqual((yield* management.recordChecks(tenantId, id, lost)).health, "degraded")
      yield* management.setDomainSuspended(ada, tenantId, id, true)
      assert.strictEqual((yield* management.confirmDomain(ada, tenantId, id)).health, "suspended")
    })
  )

  managed(
    "are confirmed though a record could not be looked up, and keep what else was found",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      const found = (record: "spf" | "dmarc", state: "missing" | "unknown") => ({ record, state, expected: "x", observed: null, since: 0 })
      yield* management.recordChecks(tenantId, id, [found("spf", "unknown"), found("dmarc", "missing")])

      const { health, checks } = yield* management.confirmDomain(ada, tenantId, id)

      assert.strictEqual(health, "degraded")
      assert.deepStrictEqual(checks.map(({ record, state }) => `${record} ${state}`), ["dmarc missing", "ownership ok", "dkim ok"])
    })
  )

  managed(
    "have a catch-all set once, and nothing on record for setting it again",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      const mailbox = yield* management.createMailbox(ada, { tenantId, address: address("all@mail.example"), displayName: "" })

      const first = yield* management.setCatchAll(ada, tenantId, id, mailbox.id)
      const again = yield* management.setCatchAll(ada, tenantId, id, mailbox.id)

      assert.deepStrictEqual(again, first)
      const { items } = yield* management.listAudit(tenantId, {})
      assert.lengthOf(items.filter(({ action }) => action === "domain.catch_all"), 1)
    })
  )
})
