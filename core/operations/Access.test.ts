import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as ApiKeys from "../model/ApiKey.ts"
import * as Limits from "../model/Limits.ts"
import { Crypto, CryptoBusy } from "../ports/Crypto.ts"
import { Store, type Credential } from "../ports/Store.ts"
import { Access, requiredScopes } from "./Access.ts"
import { RequestLog } from "./RequestLog.ts"

/** One key before an `Access`, with the number of hashes that it has cost so far, which may be refused. */
const admitting = Effect.gen(function* () {
  const hashing = { count: 0, isBusy: false }
  const realm = Fixtures.realm()
  const application = Fixtures.application(realm)
  const minted = ApiKeys.format(realm.environment, new Uint8Array(ApiKeys.publicIdBytes), new Uint8Array(ApiKeys.secretBytes))
  const { publicId, secret } = minted.token
  const credential: Credential = {
    apiKey: Fixtures.apiKey(application, { publicId, secretHash: Redacted.value(secret), scopes: ["messages:read"] }),
    application,
    tenant: Fixtures.tenant({ id: realm.tenantId }),
    plan: Limits.plans[0]!
  }
  const crypto: Pick<typeof Crypto.Service, "verifySecret" | "proof"> = {
    verifySecret: (secret, hash) =>
      Effect.suspend(() => {
        hashing.count += 1
        return hashing.isBusy ? Effect.fail(new CryptoBusy()) : Effect.succeed(Redacted.value(secret) === hash)
      }),
    proof: (secret) => Effect.succeed(Redacted.value(secret))
  }
  const store = { credentials: { byPublicId: () => Effect.succeed([credential]) } }
  const context = yield* Layer.build(
    Access.layer.pipe(
      Layer.provide(RequestLog.layer),
      Layer.provide([
        MemoryRateLimiter.layer,
        Layer.succeed(Store, store as unknown as typeof Store.Service), // nothing else is asked of them here
        Layer.succeed(Crypto, crypto as typeof Crypto.Service)
      ])
    )
  )
  const request = { authorization: `Bearer ${Redacted.value(minted.text)}`, operation: "listMessages", requestId: "r", clientAddress: "192.0.2.1" } as const
  const admit = Context.get(context, Access).admit(request, () => {}, () => {})
  return { hashing, tag: Effect.map(Effect.result(admit), (result) => (Result.isSuccess(result) ? "admitted" : result.failure._tag)) }
})

describe("a key", () => {
  it.effect("that could not be verified is verified again", () =>
    Effect.gen(function* () {
      const { hashing, tag } = yield* admitting

      hashing.isBusy = true
      assert.strictEqual(yield* tag, "CryptoBusy")
      hashing.isBusy = false
      assert.strictEqual(yield* tag, "admitted")
    })
  )

  it.effect("is known again without a hash for 5 minutes, and for no longer", () =>
    Effect.gen(function* () {
      const { hashing, tag } = yield* admitting
      const hashes = Effect.map(tag, () => hashing.count)

      assert.strictEqual(yield* hashes, 1)
      yield* TestClock.adjust(5 * 60_000 - 1)
      assert.strictEqual(yield* hashes, 1)
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* hashes, 2)
    })
  )

  it.effect("is known no longer where the clock was turned back", () =>
    Effect.gen(function* () {
      const { hashing, tag } = yield* admitting
      yield* TestClock.setTime(86_400_000)
      yield* tag

      yield* TestClock.setTime(86_399_999)
      yield* tag

      assert.strictEqual(hashing.count, 2)
    })
  )
})

describe("the operations", () => {
  it("each want the scope that the specification gives them", () => {
    assert.deepStrictEqual(requiredScopes, {
      listMailboxes: "mailboxes:read",
      listDomains: "mailboxes:read",
      listMessages: "messages:read",
      sendMessage: "messages:send",
      getMessage: "messages:read",
      updateMessage: "messages:write",
      uploadAttachment: "attachments:write",
      downloadAttachment: "attachments:read",
      listEvents: "messages:read",
      listWebhookEndpoints: "webhooks:read",
      createWebhookEndpoint: "webhooks:write",
      listWebhookDeliveries: "webhooks:read",
      replayWebhookDelivery: "webhooks:write"
    })
  })
})
