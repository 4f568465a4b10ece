/** What a request meets with whose twin is under way in the same process. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted, References, Schema } from "effect"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { IdempotencyKey } from "../model/IdempotencyKey.ts"
import type { ApiKeyId, ApplicationId, MailboxId } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store } from "../ports/Store.ts"
import type { Principal } from "./Access.ts"
import { make, SendMessageInput } from "./Sending.ts"

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32)) }]
const ports = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, NodeCrypto.layerSeeded("sending", { sealingKeys }))

const principal: Principal = {
  realm: Fixtures.realm(),
  applicationId: Fixtures.freshId<ApplicationId>(),
  apiKeyId: Fixtures.freshId<ApiKeyId>(),
  scopes: [],
  plan: Limits.plans[0]!,
  requestId: "request",
  clientAddress: "192.0.2.1"
}
const input = Schema.decodeUnknownSync(SendMessageInput)({ fromMailboxId: Fixtures.freshId<MailboxId>(), to: ["ada@mail.example"], text: "The engine weaves" })
const key = IdempotencyKey.make("order-4711")

it.effect("one of two that come at the same moment is told that the other runs, whoever is let work in between", () =>
  Effect.gen(function* () {
    const [store, queue, crypto] = [yield* Store, yield* JobQueue, yield* Crypto]
    // Each gives way to the other after so many steps: at some of these counts, between any two.
    for (let steps = 4; steps < 24; steps++) {
      let asked = 0
      const unanswered: typeof Store.Service = {
        ...store,
        messages: { ...store.messages, admission: () => Effect.suspend(() => (asked++ > 0 ? Effect.die(`both were let in: ${steps}`) : Effect.never)) }
      }
      const send = make(unanswered, queue, crypto)

      const twins = Effect.raceFirst(Effect.flip(send(principal, key, input)), Effect.flip(send(principal, key, input)))
      const refusal = yield* Effect.provideService(twins, References.MaxOpsBeforeYield, steps)

      assert.strictEqual(refusal._tag, "IdempotencyPending")
    }
  }).pipe(Effect.provide(ports))
)
