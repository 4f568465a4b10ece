import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import { notification, submissionRef } from "../../conformance/StoreLaw.ts"
import { Store, StoreUnavailable } from "../ports/Store.ts"
import { RecordNotification } from "./RecordNotification.ts"

describe("applying what is kept", () => {
  it.effect("looks at part after part of it, and again at one of which the store took nothing", () =>
    Effect.gen(function* () {
      const asked: Array<string | null> = []
      let isAway = false
      const kept = [notification(submissionRef())]
      const nextOf: Readonly<Record<string, string | null>> = { null: "first", first: "second", second: null }
      const part = ({ after }: { readonly after: string | null }) =>
        Effect.sync(() => {
          asked.push(after)
          return { notifications: kept, next: nextOf[String(after)]! }
        })
      const bySubmission = () => Effect.suspend(() => (isAway ? new StoreUnavailable({ cause: "test" }) : Effect.succeed(null)))
      const store = Layer.effect(
        Store,
        Effect.map(Store, (memory) => ({
          ...memory,
          notifications: { ...memory.notifications, matched: part },
          messages: { ...memory.messages, bySubmission }
        }))
      )
      const ports = Layer.mergeAll(Layer.provide(store, Memory.MemoryStore.layer), Memory.MemoryJobQueue.layer, NodeCrypto.layerSeeded("kept", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }))
      const { applyMatched } = yield* Effect.provide(RecordNotification, Layer.provide(RecordNotification.layer, ports))

      const count = yield* applyMatched
      isAway = true
      const failure = yield* Effect.flip(applyMatched)
      isAway = false
      for (const _ of [1, 2, 3]) yield* applyMatched

      assert.strictEqual(count, 1)
      assert.strictEqual(failure._tag, "StoreUnavailable")
      assert.deepStrictEqual(asked, [null, "first", "first", "second", null])
    })
  )
})
