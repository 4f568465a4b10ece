import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Redacted, type Layer } from "effect"
import { createPrivateKey, createSecretKey } from "node:crypto"
import { availableParallelism } from "node:os"
import * as Webhook from "../../core/model/Webhook.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import webhookSignatures from "../../docs/webhook-signatures.json" with { type: "json" }
import aesGcm from "./fixtures/aes-256-gcm.json" with { type: "json" }
import argon2id from "./fixtures/argon2id.json" with { type: "json" }
import hmacSha256 from "./fixtures/hmac-sha256.json" with { type: "json" }
import * as NodeCrypto from "./NodeCrypto.ts"

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(1)) }]
const cheap = { sealingKeys, memoryCostKiB: 8, timeCost: 1 }
const secret = Redacted.make("a secret")
const hex = (text: string) => Buffer.from(text, "hex")

const over = <A, E>(layer: Layer.Layer<Crypto>, body: (crypto: Crypto["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(Crypto, body).pipe(Effect.provide(layer))

describe("published vectors", () => {
  for (const vector of webhookSignatures.accepted) {
    it.effect(`webhook signature of ${vector.title}`, () =>
      over(NodeCrypto.layer(cheap), (crypto) =>
        Effect.gen(function* () {
          const { bodyRepeated: repeated } = vector
          const body = repeated === undefined ? vector.bodyBase64 : Buffer.from(repeated.base64, "base64").toString("latin1").repeat(repeated.count)
          const bytes = Buffer.from(body ?? "", repeated === undefined ? "base64" : "latin1")

          const mac = yield* crypto.sign(Redacted.make(vector.secret), Webhook.signedBytes(vector.id, vector.timestamp, bytes))

          assert.strictEqual(Webhook.deliveryHeaders(vector.id, vector.timestamp, mac)["service-webhook-signature"], vector.signature)
        })
      )
    )
  }

  for (const { name, key, iv, associated, plaintext, ciphertext, tag } of aesGcm.vectors) {
    it(`AES-256-GCM ${name}`, () => {
      const secretKey = createSecretKey(hex(key))

      const sealed = NodeCrypto.encrypt(secretKey, hex(iv), hex(associated), hex(plaintext))
      const opened = NodeCrypto.decrypt(secretKey, hex(iv), hex(associated), hex(ciphertext), hex(tag))

      assert.deepStrictEqual([sealed.ciphertext.toString("hex"), sealed.tag.toString("hex")], [ciphertext, tag])
      assert.strictEqual(opened.toString("hex"), plaintext)
      assert.throws(() => NodeCrypto.decrypt(secretKey, hex(iv), Buffer.from("other"), hex(ciphertext), hex(tag)))
    })
  }

  for (const { key, data, hmac } of hmacSha256.vectors) {
    it.effect(`HMAC-SHA256 ${hmac}`, () =>
      over(NodeCrypto.layer({ sealingKeys }), (crypto) =>
        Effect.gen(function* () {
          const signature = yield* crypto.sign(Redacted.make(hex(key).toString()), hex(data))

          assert.strictEqual(signature.slice(0, hmac.length), hmac)
        })
      )
    )
  }

  for (const { secret, hash } of argon2id.vectors) {
    for (const [name, layer] of [
      ["on threads", NodeCrypto.layer({ sealingKeys })],
      ["in place", NodeCrypto.layerSeeded(0, cheap)]
    ] as const) {
      it.effect(`Argon2id ${name} ${hash}`, () =>
        over(layer, (crypto) =>
          Effect.gen(function* () {
            assert.isTrue(yield* crypto.verifySecret(Redacted.make(secret), hash))
          })
        )
      )
    }
  }
})

describe("hashing", () => {
  it.effect("costs 19 MiB and two passes in production", () =>
    over(NodeCrypto.layer({ sealingKeys }), (crypto) =>
      Effect.gen(function* () {
        assert.isTrue((yield* crypto.hashSecret(secret)).startsWith("$argon2id$v=19$m=19456,t=2,p=1$"))
      })
    )
  )

  it.effect("takes as many as its places and its queue hold, and no more", () =>
    over(NodeCrypto.layer({ sealingKeys, hashConcurrency: 1, hashQueueMax: 2 }), (crypto) =>
      Effect.gen(function* () {
        const five = Array.from({ length: 5 }, () => Effect.exit(crypto.hashSecret(secret)))

        const exits = yield* Effect.all(five, { concurrency: "unbounded" })

        assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, true, false, false])
      })
    )
  )

  it.effect("leaves a processor to others, if there is more than one", () =>
    over(NodeCrypto.layer({ sealingKeys, hashQueueMax: 0 }), (crypto) =>
      Effect.gen(function* () {
        const processors = availableParallelism()
        const exits = yield* Effect.all(Array.from({ length: processors + 1 }, () => Effect.exit(crypto.hashSecret(secret))), { concurrency: "unbounded" })

        assert.lengthOf(exits.filter(Exit.isSuccess), NodeCrypto.hashesAtOnce(processors))
        assert.deepStrictEqual([1, 2, 8].map(NodeCrypto.hashesAtOnce), [1, 1, 7])
      })
    )
  )

  it.effect("refuses at once, before any hash has ended", () =>
    over(NodeCrypto.layer({ sealingKeys, hashConcurrency: 1, hashQueueMax: 0 }), (crypto) =>
      Effect.gen(function* () {
        const running = yield* Effect.forkChild(crypto.hashSecret(secret), { startImmediately: true })

        const refused = yield* Effect.exit(crypto.verifySecret(secret, argon2id.vectors[0]!.hash))

        assert.isTrue(Exit.isFailure(refused))
        assert.isUndefined(running.pollUnsafe())
        yield* Fiber.join(running)
      })
    )
  )

  it.effect("gives the place of an interrupted waiter to the next, while the hash before it runs on", () =>
    over(NodeCrypto.layer({ sealingKeys, hashConcurrency: 1, hashQueueMax: 1 }), (crypto) =>
      Effect.gen(function* () {
        const running = yield* Effect.forkChild(crypto.hashSecret(secret), { startImmediately: true })
        const waiting = yield* Effect.forkChild(crypto.hashSecret(secret), { startImmediately: true })

        yield* Fiber.interrupt(waiting)

        assert.isUndefined(running.pollUnsafe(), "the waiter had begun already")
        const next = yield* Effect.forkChild(crypto.hashSecret(secret), { startImmediately: true })
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(next)))
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(running)))
      })
    )
  )

  it.effect("keeps the place of an interrupted hash until its thread is done", () =>
    over(NodeCrypto.layer({ sealingKeys, hashConcurrency: 1, hashQueueMax: 0 }), (crypto) =>
      Effect.gen(function* () {
        const running = yield* Effect.forkChild(crypto.hashSecret(secret), { startImmediately: true })
        const interrupting = yield* Effect.forkChild(Fiber.interrupt(running), { startImmediately: true })

        assert.isTrue(Exit.isFailure(yield* Effect.exit(crypto.hashSecret(secret))))
        yield* Fiber.join(interrupting)
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(crypto.hashSecret(secret))))
      })
    )
  )
})

describe("options that are none", () => {
  for (const options of [{ hashConcurrency: 0 }, { hashConcurrency: Number.NaN }, { hashConcurrency: "2" as never }, { hashQueueMax: -1 }, { hashQueueMax: Number.NaN }]) {
    it.effect(`are refused: ${JSON.stringify(options)}`, () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(over(NodeCrypto.layer({ sealingKeys, ...options }), (crypto) => crypto.uuid))

        assert.include(String(Exit.isFailure(exit) && Cause.squash(exit.cause)), `TypeError: ${Object.keys(options)[0]} wants a whole number from `)
      }))
  }
})

describe("sealing", () => {
  it("never uses an IV twice in 200,000", () => {
    const ivs = new Set<string>()
    const program = over(NodeCrypto.layer({ sealingKeys }), (crypto) =>
      Effect.gen(function* () {
        for (let index = 0; index < 200_000; index++) ivs.add((yield* crypto.seal(secret, "context")).iv)
      })
    )

    return Effect.runPromise(program).then(() => assert.strictEqual(ivs.size, 200_000))
  })

  for (const [what, keys] of [
    ["no key", []],
    ["a key of 31 bytes", [{ version: 1, key: Redacted.make(new Uint8Array(31).fill(77)) }]],
    ["two keys of one version", [...sealingKeys, ...sealingKeys]],
    ["a version that is no number", [{ version: Number.NaN, key: sealingKeys[0]!.key }]],
    ["a key that is text", [{ version: 1, key: Redacted.make("7".repeat(32)) as never }]],
    ["a key that lies open", [{ version: 1, key: new Uint8Array(32).fill(77) as never }]]
  ] as const) {
    it.effect(`does not start with ${what}`, () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(over(NodeCrypto.layer({ sealingKeys: keys }), (crypto) => crypto.uuid))

        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.notInclude(String(exit), "77")
      })
    )
  }

  it.effect("says what a ring is where none is given", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(over(NodeCrypto.layer({ sealingKeys: undefined as never }), (crypto) => crypto.uuid))

      assert.match(String(Exit.isFailure(exit) && Cause.squash(exit.cause)), /^TypeError: sealingKeys wants a list of \{ version, key \}/)
    })
  )
})

describe("randomness", () => {
  /** Whatever is drawn, in one text. */
  const draws = (crypto: Crypto["Service"]) =>
    Effect.gen(function* () {
      return JSON.stringify([
        yield* crypto.uuid,
        Buffer.from(yield* crypto.randomBytes(20)).toString("hex"),
        yield* crypto.hashSecret(secret),
        yield* crypto.seal(secret, "context"),
        yield* crypto.proof(secret, "hash"),
        yield* crypto.uuid
      ])
    })

  it.effect("follows from the seed", () =>
    Effect.gen(function* () {
      const first = yield* over(NodeCrypto.layerSeeded("seed 1", cheap), draws)

      assert.strictEqual(yield* over(NodeCrypto.layerSeeded("seed 1", cheap), draws), first)
      assert.notStrictEqual(yield* over(NodeCrypto.layerSeeded("seed 2", cheap), draws), first)
    })
  )

  it("needs no thread under a seed, so a simulation runs without waiting", () => {
    const verified = over(NodeCrypto.layerSeeded(7, cheap), (crypto) =>
      Effect.flatMap(crypto.hashSecret(secret), (hash) => crypto.verifySecret(secret, hash))
    )

    assert.isTrue(Effect.runSync(verified))
  })

  it.effect("makes the same DKIM keys under a seed, and as small ones as it is told to", () =>
    Effect.gen(function* () {
      const keyOf = (layer: Layer.Layer<Crypto>) => over(layer, (crypto) => crypto.generateDkimKey)
      const small = NodeCrypto.layerSeeded("seed 1", { ...cheap, dkimKeyBits: 1_024 })
      const made = yield* keyOf(small)
      const key = createPrivateKey(Redacted.value(made.privateKey))

      assert.deepStrictEqual(yield* keyOf(small), made)
      assert.notStrictEqual((yield* keyOf(NodeCrypto.layerSeeded("seed 2", { ...cheap, dkimKeyBits: 1_024 }))).publicKey, made.publicKey)
      assert.strictEqual(key.asymmetricKeyDetails?.modulusLength, 1_024)
    })
  )

  it.effect("makes a DKIM key on a thread, while others go on", () =>
    over(NodeCrypto.layer({ sealingKeys }), (crypto) =>
      Effect.gen(function* () {
        const making = yield* Effect.forkScoped(crypto.generateDkimKey)
        yield* Effect.yieldNow
        yield* crypto.uuid

        assert.isUndefined(making.pollUnsafe(), "it was made in place")
        yield* Fiber.join(making)
      }).pipe(Effect.scoped)
    )
  )

  it.effect("makes cheaper hashes only where it is told to", () =>
    Effect.gen(function* () {
      const hashOf = (layer: Layer.Layer<Crypto>) => over(layer, (crypto) => crypto.hashSecret(secret))

      assert.isTrue((yield* hashOf(NodeCrypto.layerSeeded(0, cheap))).startsWith("$argon2id$v=19$m=8,t=1,p=1$"))
      assert.isTrue((yield* hashOf(NodeCrypto.layerSeeded(0, { sealingKeys }))).startsWith("$argon2id$v=19$m=19456,t=2,p=1$"))
    })
  )

  it.effect("verifies in production what was hashed under a seed, and the other way round", () =>
    Effect.gen(function* () {
      const production = NodeCrypto.layer({ sealingKeys })
      const seeded = NodeCrypto.layerSeeded(0, cheap)
      for (const [from, to] of [[production, seeded], [seeded, production]] as const) {
        const hash = yield* over(from, (crypto) => crypto.hashSecret(secret))
        assert.isTrue(yield* over(to, (crypto) => crypto.verifySecret(secret, hash)))
      }
    })
  )

  it.effect("proves a secret by another text in each process", () =>
    Effect.gen(function* () {
      const prove = over(NodeCrypto.layer({ sealingKeys }), (crypto) => crypto.proof(secret, "hash"))

      assert.notStrictEqual(yield* prove, yield* prove)
    })
  )
})
