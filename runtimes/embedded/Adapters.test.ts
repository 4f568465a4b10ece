/** What the adapters of an embedded Mailroom may want of each other, and what a caller is told of one that is away. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import { Mime } from "../../core/ports/Mime.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import { embed, rejectionOf } from "./harness.ts"

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

  const options = ["store", "queue", "blobs", "crypto", "mime", "scanner", "webhooks", "limiter", "resolver", "authenticator", "spamFilter"]
  for (const option of options) {
    const layer = option === "store" ? RfcMime.layer : Memory.MemoryStore.layer
    it(`are refused by name where one is of another port: ${option}`, async () => {
      const error = await rejectionOf(embed({ [option]: layer })) // as JavaScript gives it

      assert.match(String(error), new RegExp(`^TypeError: ${option} is a layer that makes something else; it wants an adapter's layer of [A-Z][A-Za-z]+$`))
    })
  }

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
