/** What the adapters of an embedded Mailroom may want of each other, and what a caller is told of one that is away. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import { Mime } from "../../core/ports/Mime.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import { embed } from "./harness.ts"

describe("the adapters of an embedded Mailroom", () => {
  it("may be a provider that wants the reader of messages, as Postmark's does", async () => {
    let got: Mime["Service"] | null = null
    const provider = Effect.gen(function* () {
      got = yield* Mime
      return Memory.MemoryMailProvider.make("reader").provider
    })

    await embed({ provider })

    assert.isFunction(got!.parse)
  })

  it("may be a store that is away: a tick, and what forgets, reject and say so", async () => {
    let isAway = false
    const away = Layer.effect(
      Store,
      Effect.map(Store, (store) => {
        const behind = Effect.suspend(() => (isAway ? Effect.fail(new StoreUnavailable({ cause: "test" })) : store.relay.behind))
        return { ...store, relay: { ...store.relay, behind } }
      })
    )
    const mailroom = await embed({ store: Layer.provide(away, Memory.MemoryStore.layer) })
    const told = () => Promise.all([mailroom.tick(), mailroom.retain()].map((one) => one.then(() => null, (error: unknown) => String(error))))
    const before = await told()
    isAway = true

    const meanwhile = await told()

    assert.deepStrictEqual(before, [null, null])
    for (const error of meanwhile) assert.include(error ?? "", "StoreUnavailable")
  })
})
