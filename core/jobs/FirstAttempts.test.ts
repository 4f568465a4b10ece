import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { append, insert, land } from "../../conformance/StoreLaw.ts"
import { sealContext } from "../model/Endpoint.ts"
import { Crypto } from "../ports/Crypto.ts"
import { Store } from "../ports/Store.ts"
import { Settings, defaults } from "../Settings.ts"
import { EventRelay } from "./EventRelay.ts"
import { FirstAttempts } from "./FirstAttempts.ts"
import { RecordAttempts } from "./RecordAttempts.ts"
import { WebhookAttempts } from "./WebhookAttempts.ts"

/** A relay, with what it makes its first attempts with. */
const relaying = EventRelay.layer.pipe(
  Layer.provideMerge(FirstAttempts.layer),
  Layer.provide(RecordAttempts.layer),
  Layer.provideMerge(WebhookAttempts.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      Memory.layer,
      NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
      Layer.succeed(Settings, defaults)
    )
  )
)

it.effect("A first attempt is remembered no longer than until its delivery is committed", () =>
  Effect.gen(function* () {
    const store = yield* Store
    const realm = Fixtures.realm()
    const unsealed = Fixtures.endpoint(realm)
    const secret = yield* (yield* Crypto).seal(Redacted.make("whsec_AAAA"), sealContext(unsealed))
    const endpoint = { ...unsealed, secret }
    yield* (yield* WebhookAttempts).attempt(Fixtures.delivery(endpoint), endpoint, "{}") // it answers at once
    // The first of two is claimed, for until then another may hold the shard.
    const events = [1, 2].map(() => Fixtures.queuedEvent(Fixtures.message(realm)))
    yield* land(store, insert("endpoint", endpoint), ...events.map(append))

    yield* (yield* EventRelay).tick

    const made = yield* store.deliveries.page(realm, { applicationId: endpoint.applicationId, endpointId: endpoint.id, limit: 10 })
    assert.deepStrictEqual(made.map(({ status }) => status), ["delivered", "pending"])
    assert.deepStrictEqual(made.map((yield* FirstAttempts).begun), [null, null])
  }).pipe(Effect.provide(relaying))
)
