/** What a process remembers of the attempts that it has made. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { sealContext } from "../model/Endpoint.ts"
import type { WebhookTarget } from "../model/WebhookUrl.ts"
import { Crypto } from "../ports/Crypto.ts"
import { postAnew, WebhookTransport, WebhookUnanswered } from "../ports/WebhookTransport.ts"
import { Settings, defaults } from "../Settings.ts"
import { WebhookAttempts } from "./WebhookAttempts.ts"

const ports = Layer.mergeAll(
  Memory.layer,
  NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
  Layer.succeed(Settings, defaults)
)
const attempting = Effect.provide(Layer.provideMerge(WebhookAttempts.layer, ports))

/** One attempt, which a receiver has answered at once. */
const made = Effect.gen(function* () {
  const attempts = yield* WebhookAttempts
  const unsealed = Fixtures.endpoint(Fixtures.realm())
  const secret = yield* (yield* Crypto).seal(Redacted.make("whsec_AAAA"), sealContext(unsealed))
  const endpoint = { ...unsealed, secret }
  const delivery = Fixtures.delivery(endpoint)
  return { attempts, endpoint, delivery, ending: yield* attempts.attempt(delivery, endpoint, "{}") }
})

it.effect("An ending that is not recorded is that of its own attempt, and of no later one", () =>
  Effect.gen(function* () {
    const { attempts, delivery, ending } = yield* made
    const later = [{ attemptCount: 1 }, { round: 2 }].map((over) => attempts.unrecorded({ ...delivery, ...over }))

    assert.deepStrictEqual([attempts.unrecorded(delivery), ...later], [ending, null, null])
    attempts.recorded(delivery)
    assert.isNull(attempts.unrecorded(delivery))
  }).pipe(attempting)
)

it.effect("An endpoint is attempted first while it is in order, and within a minute of a quick answer by a clock that is turned either way", () =>
  Effect.gen(function* () {
    yield* TestClock.setTime(100_000)
    const { attempts, endpoint } = yield* made
    const most = ([{}, { enabled: false }, { consecutiveFailures: 1 }, { isSlow: true }]).map((over) =>
      attempts.inFlightMax({ ...endpoint, ...over }, 100_000)
    )
    const within = [40_000, 40_001, 159_999, 160_000].map((now) => attempts.inFlightMax(endpoint, now))

    assert.deepStrictEqual([most, within], [[8, 0, 0, 0], [0, 8, 8, 0]])
  }).pipe(attempting)
)

for (const [millis, times] of [[999, 2], [1_000, 1]] as const) {
  it.effect(`A receiver that closes a connection behind ${millis} ms of a request is sent it ${times === 1 ? "once" : "twice"}`, () =>
    Effect.gen(function* () {
      let posted = 0
      const stale = Effect.suspend(() => {
        posted += 1
        return Effect.delay(Effect.fail(new WebhookUnanswered({ reason: "network_error", isStale: true })), millis)
      })
      const transport = WebhookTransport.of({ post: () => stale, get: () => stale })
      const request = { target: {} as WebhookTarget, headers: {}, body: new Uint8Array() } // nobody looks at it
      const posting = yield* Effect.forkChild(Effect.flip(postAnew(transport, request)))

      yield* TestClock.adjust("3 seconds")

      assert.strictEqual((yield* Fiber.join(posting)).reason, "network_error")
      assert.strictEqual(posted, times)
    })
  )
}
