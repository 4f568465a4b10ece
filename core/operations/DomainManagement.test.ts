/** Domains as an operator handles them, on memory adapters. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Address from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import { shardOf } from "../model/Ids.ts"
import { eventDataBytesMax } from "../model/Limits.ts"
import type * as MailDomains from "../model/MailDomain.ts"
import { Crypto } from "../ports/Crypto.ts"
import { Store } from "../ports/Store.ts"
import { Management } from "./Management.ts"

const ada: Actor = { type: "operator", id: "ada" }

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32)) }]
const ports = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, NodeCrypto.layerSeeded("domains", { sealingKeys, memoryCostKiB: 64, timeCost: 1, dkimKeyBits: 512 }))
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
    "have no check that cannot be kept, or shown",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      const check = { record: "spf", state: "missing", expected: "x", observed: null, since: 0 } as const
      const refusedFor = (wrong: Partial<MailDomains.RecordCheck>) =>
        Effect.map(Effect.flip(management.recordChecks(tenantId, id, [check, { ...check, ...wrong }])), ({ message }) => message)

      for (const since of [Number.NaN, 1e300, Date.now() * 1e6, -62_135_596_800_001, 0.5]) {
        assert.include(yield* refusedFor({ since }), "checks[1].since wants a whole number from -62135596800000 to 253402300799999")
      }
      for (const text of ["x".repeat(65_536), "a\0b", "a\ud800"]) {
        assert.include(yield* refusedFor({ expected: text }), "checks[1].expected wants at most 65535 characters")
        assert.include(yield* refusedFor({ observed: text }), "checks[1].observed wants at most 65535 characters")
      }
      assert.deepStrictEqual((yield* management.getDomain(tenantId, id)).checks, [])
      assert.lengthOf((yield* management.recordChecks(tenantId, id, [{ ...check, expected: "x".repeat(65_535), since: 253_402_300_799_999 }])).checks, 1)
    })
  )

  managed(
    "are confirmed though a record could not be looked up, and keep what else was found",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      const found = (record: "spf" | "dmarc" | "dkim", state: "missing" | "unknown") => ({ record, state, expected: "x", observed: null, since: 0 })
      yield* management.recordChecks(tenantId, id, [found("dkim", "missing"), found("spf", "unknown"), found("dmarc", "missing")])

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

  managed(
    "have their other mail go to none but a mailbox of their own, also within the tenant",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      yield* management.createDomain(ada, { tenantId, domain: domainName("other.example") })
      const elsewhere = yield* management.createMailbox(ada, { tenantId, address: address("all@other.example"), displayName: "" })

      const refused = yield* Effect.flip(management.setCatchAll(ada, tenantId, id, elsewhere.id))

      assert.strictEqual(refused.message, `There is no mailbox ${elsewhere.id} in this tenant.`)
      assert.isNull((yield* management.getDomain(tenantId, id)).catchAll)
    })
  )

  managed(
    "have each key that is made for them on record, and not that it was shown again",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      yield* management.domainRecords(ada, tenantId, id)
      yield* management.domainRecords(ada, tenantId, id)
      yield* management.rotateDkim(ada, tenantId, id)
      yield* management.domainRecords(ada, tenantId, id)

      const { items } = yield* management.listAudit(tenantId, { limit: 3 })
      assert.deepStrictEqual(
        items.map(({ action, subject, actor }) => [action, subject.id, actor.id]),
        [["domain.rotate_dkim", id, "ada"], ["domain.make_key", id, "ada"], ["domain.create", id, "ada"]]
      )
    })
  )

  managed(
    "are looked at soon after a new key, unless nobody looks at them",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      yield* TestClock.adjust(5)

      assert.strictEqual((yield* management.rotateDkim(ada, tenantId, id)).domain.nextCheckAt, 5)
      yield* management.confirmDomain(ada, tenantId, id)
      assert.isNull((yield* management.rotateDkim(ada, tenantId, id)).domain.nextCheckAt)
      yield* management.setDomainSuspended(ada, tenantId, id, true)
      yield* TestClock.adjust(5)
      assert.strictEqual((yield* management.setDomainSuspended(ada, tenantId, id, false)).nextCheckAt, 10)
      assert.isNull((yield* management.setDomainSuspended(ada, tenantId, id, true)).nextCheckAt)
    })
  )

  managed(
    "are proved by their tenant alone, also where the key was asked for first, and have one key until they are to have another",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      const proofOf = ({ records }: { readonly records: ReadonlyArray<{ readonly record: string; readonly value: string }> }) =>
        records.find(({ record }) => record === "ownership")!.value

      const first = yield* management.rotateDkim(ada, tenantId, id)
      assert.match(proofOf(first), /^mailroom-verify=[0-9a-f]{32}$/)
      const signing = { ...first.domain, version: first.domain.version + 1, dkim: first.domain.nextDkim, nextDkim: null }
      yield* Store.use(({ commit }) => commit([{ _tag: "Update", kind: "domain", record: signing }], []))
      assert.deepStrictEqual((yield* management.domainRecords(ada, tenantId, id)).domain, signing)

      yield* management.setDomainSuspended(ada, tenantId, id, true)
      yield* management.removeDomain(ada, tenantId, id, {})
      const { id: other } = yield* management.createTenant(ada, { name: "Difference Engines", planId: "standard" })
      const again = yield* management.createDomain(ada, { tenantId: other, domain: first.domain.domain })
      assert.notStrictEqual(proofOf(yield* management.domainRecords(ada, other, again.id)), proofOf(first))
    })
  )

  it.effect("have selectors of eight digits", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(ports)
      const drawn = Context.add(context, Crypto, { ...Context.get(context, Crypto), randomBytes: (count) => Effect.succeed(new Uint8Array([0, 1, 15, 255]).subarray(0, count)) })

      yield* Effect.gen(function* () {
        const { management, tenantId, id } = yield* founded
        assert.strictEqual((yield* management.domainRecords(ada, tenantId, id)).domain.nextDkim?.selector, "mr00010fff")
      }).pipe(Effect.provide(Management.layer), Effect.provide(drawn))
    })
  )

  managed(
    "put on record what somebody else found, and tell of it in an event that has room",
    Effect.gen(function* () {
      const { management, tenantId, id } = yield* founded
      yield* management.confirmDomain(ada, tenantId, id)

      const missing = { record: "spf", state: "mismatch", expected: "x", observed: "a".repeat(2 * eventDataBytesMax), since: 0 } as const
      const { checks } = yield* management.getDomain(tenantId, id)
      yield* management.recordChecks(tenantId, id, [...checks, missing])

      const [newest] = (yield* management.listAudit(tenantId, { limit: 1 })).items
      assert.deepStrictEqual([newest!.action, newest!.actor.id], ["domain.check", "domain-checker"])
      const log = yield* Store.use(({ events }) => events.readLog(shardOf(tenantId), 0n, 10))
      assert.isAtMost(JSON.stringify(log.at(-1)!.data).length, eventDataBytesMax)
      assert.isNull(log.at(-1)!.environment, "both environments are told")
    })
  )
})
