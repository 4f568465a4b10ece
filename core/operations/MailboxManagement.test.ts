/** Mailboxes as an operator handles them, on memory adapters. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Result } from "effect"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Address from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import { shardOf, type DomainId, type TenantId } from "../model/Ids.ts"
import { Store } from "../ports/Store.ts"
import { Management } from "./Management.ts"

const ada: Actor = { type: "operator", id: "ada" }
const nobody = "0197a000-0000-7000-8000-000000000000"

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32)) }]
const ports = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, NodeCrypto.layerSeeded("mailboxes", { sealingKeys }))
const layer = Management.layer.pipe(Layer.provideMerge(ports))

const domainName = (text: string) => Result.getOrThrow(Address.parseDomain(text))
const address = (text: string) => Result.getOrThrow(Address.parse(text))

const managed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

/** A tenant with a mailbox at a domain that was never checked. */
const founded = Effect.gen(function* () {
  const management = yield* Management
  yield* management.createPlan(ada, { id: "standard" })
  const { id: tenantId } = yield* management.createTenant(ada, { name: "Analytical Engines", planId: "standard" })
  const domain = yield* management.createDomain(ada, { tenantId, domain: domainName("mail.example") })
  const mailbox = yield* management.createMailbox(ada, { tenantId, address: address("ada@mail.example"), displayName: "Ada" })
  return { management, tenantId, domain, mailbox }
})

describe("mailboxes", () => {
  managed(
    "are listed by the domain that they are at",
    Effect.gen(function* () {
      const { management, tenantId, domain, mailbox } = yield* founded
      const { id: other } = yield* management.createDomain(ada, { tenantId, domain: domainName("other.example") })
      const listed = (domainId: DomainId) => Effect.map(management.listMailboxes(tenantId, { domainId }), ({ items }) => items.map(({ id }) => id))

      assert.deepStrictEqual([yield* listed(domain.id), yield* listed(other)], [[mailbox.id], []])
    })
  )

  managed(
    "are refused with what is wrong, and nothing is on record",
    Effect.gen(function* () {
      const { management, tenantId, mailbox } = yield* founded
      const { id: suspended } = yield* management.createDomain(ada, { tenantId, domain: domainName("off.example") })
      yield* management.setDomainSuspended(ada, tenantId, suspended, true)
      const create = (of: TenantId, text: string, displayName = "") => management.createMailbox(ada, { tenantId: of, address: address(text), displayName })
      const before = yield* management.listAudit(tenantId, {})

      for (const [says, effect] of [
        ["displayName holds a control character, or half of a character.", create(tenantId, "b@mail.example", "a\nb")],
        ["displayName holds a control character, or half of a character.", management.updateMailbox(ada, tenantId, mailbox.id, { displayName: "a\nb" })],
        ["reason wants 1 to 200 characters.", management.updateMailbox(ada, tenantId, mailbox.id, { status: "suspended", reason: " " })],
        ["address is at off.example, which is suspended; take that into use again first.", create(tenantId, "b@off.example")],
        [`There is no tenant ${nobody}.`, create(nobody as TenantId, "b@mail.example")],
        [`There is no domain ${nobody} in this tenant.`, management.listMailboxes(tenantId, { domainId: nobody as DomainId })]
      ] as ReadonlyArray<readonly [string, Effect.Effect<unknown, { readonly message: string }>]>) {
        assert.strictEqual((yield* Effect.flip(effect)).message, says)
      }
      assert.deepStrictEqual(yield* management.listAudit(tenantId, {}), before)
    })
  )

  managed(
    "are told to be suspended when they become it, and to be changed when they are it already",
    Effect.gen(function* () {
      const { management, tenantId, mailbox } = yield* founded
      yield* management.updateMailbox(ada, tenantId, mailbox.id, { status: "suspended" })
      yield* management.updateMailbox(ada, tenantId, mailbox.id, { displayName: "Ada L." })

      const log = yield* Store.use(({ events }) => events.readLog(shardOf(tenantId), 0n, 10))
      assert.deepStrictEqual(log.map(({ type }) => type), ["mailbox.created", "mailbox.suspended", "mailbox.updated"])
      assert.deepInclude(log.at(-1)!.data, { displayName: "Ada L.", status: "suspended" })
      const { items } = yield* management.listAudit(tenantId, { limit: 2 })
      assert.deepStrictEqual(items.map(({ action }) => action), ["mailbox.update", "mailbox.suspend"])
    })
  )
})
