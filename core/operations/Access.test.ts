import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Redacted, Result } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as ApiKeys from "../model/ApiKey.ts"
import * as Limits from "../model/Limits.ts"
import { Crypto, CryptoBusy } from "../ports/Crypto.ts"
import { Store, type Credential } from "../ports/Store.ts"
import { Access, RateLimited, requiredScopes } from "./Access.ts"
import { RequestLog } from "./RequestLog.ts"

/** One key before an `Access`, with the number of hashes that it has cost so far, which may be refused. */
const admitting = Effect.gen(function* () {
  const used: Array<string> = []
  const hashing = { count: 0, isBusy: false, takes: Effect.void as Effect.Effect<void> }
  const realm = Fixtures.realm()
  const application = Fixtures.application(realm)
  const minted = ApiKeys.format(realm.environment, new Uint8Array(ApiKeys.publicIdBytes), new Uint8Array(ApiKeys.secretBytes))
  const { publicId, secret } = minted.token
  const plan = { ...Limits.plans[0]! }
  const credential: Credential = {
    apiKey: Fixtures.apiKey(application, { publicId, secretHash: Redacted.value(secret), scopes: ["messages:read"] }),
    application,
    tenant: Fixtures.tenant({ id: realm.tenantId }),
    plan
  }
  const crypto: Pick<typeof Crypto.Service, "verifySecret" | "proof"> = {
    verifySecret: (secret, hash) =>
      Effect.suspend(() => {
        hashing.count += 1
        return hashing.isBusy ? Effect.fail(new CryptoBusy()) : Effect.as(hashing.takes, Redacted.value(secret) === hash)
      }),
    proof: (secret) => Effect.succeed(Redacted.value(secret))
  }
  const byPublicId = ([asked]: ReadonlyArray<string>) => Effect.succeed(asked === publicId ? [credential] : [])
  const store = { credentials: { byPublicId } }
  const context = yield* Layer.build(
    Access.layer.pipe(
      Layer.provide([
        Layer.succeed(RequestLog, { touch: (id: string) => void used.push(id) } as unknown as typeof RequestLog.Service),
        MemoryRateLimiter.layer,
        Layer.succeed(Store, store as unknown as typeof Store.Service), // nothing else is asked of them here
        Layer.succeed(Crypto, crypto as typeof Crypto.Service)
      ])
    )
  )
  const { admit, readmit } = Context.get(context, Access)
  const asking = (authorization: string | undefined) =>
    admit({ authorization, operation: "listMessages", requestId: "r", clientAddress: "192.0.2.1" }, () => {}, () => {})
  const tagOf = (text: Redacted.Redacted<string>, scheme = "Bearer ") =>
    Effect.map(Effect.result(asking(`${scheme}${Redacted.value(text)}`)), (result) => (Result.isSuccess(result) ? "admitted" : result.failure._tag))
  /** Why the log says that it was refused, which the caller is not told. */
  const reasonOf = (authorization: string | undefined) =>
    Effect.map(Effect.flip(asking(authorization)), (error) => (error._tag === "Unauthorized" ? error.reason : error._tag))
  const otherSecret = ApiKeys.withPublicId(realm.environment, publicId, new Uint8Array(ApiKeys.secretBytes).fill(1))
  const ofSecret = (byte: number) => tagOf(ApiKeys.withPublicId(realm.environment, publicId, new Uint8Array(ApiKeys.secretBytes).fill(byte)).text)
  const readmitted = (since: number) =>
    Effect.map(Effect.result(readmit(`Bearer ${Redacted.value(minted.text)}`, BigInt(since) * 1_000_000n)), (result) => (Result.isSuccess(result) ? "admitted" : result.failure._tag))
  const revoke = Effect.sync(() => void Object.assign(credential.apiKey, { revokedAt: 0 }))
  return { readmitted, revoke, ofSecret, hashing, used, plan, environment: realm.environment, reasonOf, isRefused: Effect.flip(asking(`Bearer ${Redacted.value(minted.text)}`)), tag: tagOf(minted.text), ofOtherSecret: tagOf(otherSecret.text), ofScheme: (scheme: string) => tagOf(minted.text, scheme) }
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

      assert.deepStrictEqual([yield* hashes, yield* hashes], [1, 1])
      yield* TestClock.adjust(5 * 60_000 - 1)
      assert.strictEqual(yield* hashes, 1)
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* hashes, 2)
    })
  )

  it.effect("that was revoked is found so behind a body that took a second to come, and not looked at behind one that did not", () =>
    Effect.gen(function* () {
      const { readmitted, revoke, tag, used } = yield* admitting
      yield* tag
      assert.strictEqual(yield* readmitted(-1_000), "admitted")
      yield* revoke

      assert.deepStrictEqual([yield* readmitted(-999), yield* readmitted(-1_000), used.length], ["admitted", "Unauthorized", 1])
    })
  )

  it.effect("that is known again is so by its own secret, and by no other", () =>
    Effect.gen(function* () {
      const { tag, ofOtherSecret, used } = yield* admitting

      assert.deepStrictEqual([yield* tag, yield* ofOtherSecret, yield* tag], ["admitted", "Unauthorized", "admitted"])
      assert.lengthOf(used, 2) // and only by whom it let in
    })
  )

  it.effect("comes behind the name of its scheme, however that is written", () =>
    Effect.gen(function* () {
      const { ofScheme } = yield* admitting

      for (const scheme of ["Bearer ", "bearer ", "BEARER  "]) assert.strictEqual(yield* ofScheme(scheme), "admitted", scheme)
      for (const scheme of ["", "Basic ", "Bearer", " Bearer "]) assert.strictEqual(yield* ofScheme(scheme), "Unauthorized", scheme)
    })
  )

  it.effect("that is missing, malformed, or nobody's, is refused as such, and costs no hash", () =>
    Effect.gen(function* () {
      const { environment, hashing, used, reasonOf } = yield* admitting
      const nobodys = ApiKeys.format(environment, new Uint8Array(ApiKeys.publicIdBytes).fill(1), new Uint8Array(ApiKeys.secretBytes))

      assert.strictEqual(yield* reasonOf(undefined), "missing")
      assert.strictEqual(yield* reasonOf("Bearer svc_test_"), "malformed")
      assert.strictEqual(yield* reasonOf(`Bearer ${Redacted.value(nobodys.text)}`), "unknown")
      assert.deepStrictEqual([hashing.count, used], [0, []])
    })
  )

  it.effect("that many present at once costs one hash, also where the first of them hangs up", () =>
    Effect.gen(function* () {
      const { hashing, tag } = yield* admitting
      const isDone = yield* Deferred.make<void>()
      hashing.takes = Deferred.await(isDone)
      const [first, ...others] = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(tag, { startImmediately: true }))
      yield* Fiber.interrupt(first!)
      yield* Deferred.succeed(isDone, undefined)

      assert.deepStrictEqual(yield* Fiber.joinAll(others), ["admitted", "admitted"])
      assert.strictEqual(hashing.count, 1)
    })
  )

  it.effect("costs one hash at a time, whatever secrets come with it; some wait for their turn, and what is more is refused", () =>
    Effect.gen(function* () {
      const { hashing, ofSecret, tag } = yield* admitting
      const isDone = yield* Deferred.make<void>()
      hashing.takes = Deferred.await(isDone)
      const asked = yield* Effect.forEach(Array(20).keys(), (n) => Effect.forkChild(ofSecret(n + 1), { startImmediately: true }))
      for (let turn = 0; turn < 100; turn++) yield* Effect.yieldNow
      assert.strictEqual(hashing.count, 1)
      yield* Deferred.succeed(isDone, undefined)

      const told = yield* Fiber.joinAll(asked)
      assert.deepStrictEqual(told, [...Array<string>(17).fill("Unauthorized"), ...Array<string>(3).fill("CryptoBusy")])
      assert.strictEqual(hashing.count, 17)
      assert.strictEqual(yield* tag, "admitted")
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

describe("a refusal", () => {
  it("says whose limit is reached, and how long to wait", () => {
    const says = (scope: RateLimited["scope"], windowSeconds: number) => new RateLimited({ scope, limit: 7, windowSeconds, retryAfterSeconds: 3 }).message
    const wait = "Wait 3 seconds, plus a random moment."

    assert.strictEqual(says("ip", 60), `Too many requests from your network address: 7 in 60 seconds. ${wait}`)
    assert.strictEqual(says("key", 60), `Too many requests from this API key: 7 in 60 seconds. ${wait}`)
    assert.strictEqual(says("tenant_day", 86_400), `Too many requests from your organization: 7 in this UTC day. ${wait}`)
  })

  it.effect("at the end of a tenant's day tells of a whole day, and of the seconds that are left, rounded up", () =>
    Effect.gen(function* () {
      const { plan, tag, isRefused } = yield* admitting
      plan.tenantRequestsPerDay = 1
      const refusal = { _tag: "RateLimited", scope: "tenant_day", limit: 1, windowSeconds: 86_400 } as const
      yield* TestClock.setTime(86_398_999)
      assert.strictEqual(yield* tag, "admitted")

      assert.deepInclude(yield* isRefused, { ...refusal, retryAfterSeconds: 2 })
      yield* TestClock.setTime(86_399_999)
      assert.deepInclude(yield* isRefused, { ...refusal, retryAfterSeconds: 1 })
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
