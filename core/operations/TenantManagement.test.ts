/** Plans, and how the trail of who wrote what is read on: the bounds of what an operator may write. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import type { Actor } from "../model/Audit.ts"
import { Management } from "./Management.ts"
import { installation } from "./TenantManagement.ts"

const ada: Actor = { type: "operator", id: "ada" }
const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32)) }]
const ports = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, NodeCrypto.layerSeeded("tenants", { sealingKeys }))
const layer = Management.layer.pipe(Layer.provideMerge(ports))

const managed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

const numbers = { keyRequestsPerMinute: 1, tenantRequestsPerDay: 2, recipientsPerDay: 3 }
const most = 1_000_000_000_000

describe("plans", () => {
  managed(
    "have short plain ids, and numbers up to a bound, whoever writes them",
    Effect.gen(function* () {
      const management = yield* Management
      const writers = [
        (id: string, recipientsPerDay = 3) => Effect.asVoid(management.createPlan(ada, { ...numbers, id, recipientsPerDay })),
        (id: string, recipientsPerDay = 3) => management.putPlan({ ...numbers, id, recipientsPerDay })
      ]

      for (const [place, write] of writers.entries()) {
        for (const id of ["a", "9", "A-b.c_D9", "x".repeat(63)]) yield* write(id)
        for (const id of ["", ".a", "-a", "_a", "a b", "x".repeat(64)]) {
          assert.strictEqual((yield* Effect.flip(write(id))).message, "id wants 1 to 63 letters, digits, dots, hyphens or underscores.", id)
        }
        yield* write(`most-${place}`, most)
        for (const number of [0, 1.5, most + 1]) {
          assert.strictEqual((yield* Effect.flip(write("more", number))).message, `recipientsPerDay wants a whole number from 1 to ${most}.`)
        }
      }
      assert.lengthOf(yield* management.listPlans, 6)
    })
  )

  managed(
    "that a program brings with it are put on record as made, once, and then as changed",
    Effect.gen(function* () {
      const management = yield* Management
      for (const recipientsPerDay of [3, 3, 4]) yield* management.putPlan({ ...numbers, id: "own", recipientsPerDay })

      assert.strictEqual(installation, "00000000-0000-0000-0000-000000000000", "what is on record already is found by it")
      const { items } = yield* management.listAudit(installation, {})
      assert.deepStrictEqual(items.map(({ action, environment }) => [action, environment]), [["plan.update", null], ["plan.create", null]])
    })
  )
})

describe("the audit trail", () => {
  managed(
    "is read on behind a number, as long as it is one that may come",
    Effect.gen(function* () {
      const management = yield* Management
      yield* management.createPlan(ada, { ...numbers, id: "own" })
      const behind = (after: string) => management.listAudit(installation, { after })

      assert.lengthOf((yield* behind("9".repeat(15))).items, 1)
      for (const after of ["", "-1", "1.5", "9".repeat(16)]) assert.include((yield* Effect.flip(behind(after))).message, "after is the number of no item")
    })
  )
})
