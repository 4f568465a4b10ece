/** What several rings of sealing keys promise each other, and several processes over one ring. */
import { Effect, Redacted, type Layer } from "effect"
import assert from "node:assert/strict"
import type { SealedSecret } from "../core/model/SealedSecret.ts"
import { Crypto } from "../core/ports/Crypto.ts"
import { context, knownHash, opening, secret } from "./Crypto.ts"
import type { Suite } from "./Suite.ts"

/** A key of the ring as the adapter's maker takes it. */
export interface RingKey {
  readonly version: number
  readonly key: Redacted.Redacted<Uint8Array>
}

const ringKey = (version: number, byte = version): RingKey => ({ version, key: Redacted.make(new Uint8Array(32).fill(byte)) })

/** `layerOf` makes the adapter over a ring, as production has it: drawn from no seed, and at no lower cost. */
export const suite = (layerOf: (ring: ReadonlyArray<RingKey>) => Layer.Layer<Crypto>): Suite<never> => {
  const over = <A, E>(ring: ReadonlyArray<RingKey>, body: (crypto: Crypto["Service"]) => Effect.Effect<A, E>) =>
    Effect.flatMap(Crypto, body).pipe(Effect.provide(layerOf(ring)))
  const sealedBy = (ring: ReadonlyArray<RingKey>) => over(ring, (crypto) => crypto.seal(secret, context))
  const openedBy = (ring: ReadonlyArray<RingKey>, sealed: SealedSecret) => over(ring, (crypto) => opening(crypto, sealed))

  return {
    name: "Crypto's key ring",
    checks: [
      {
        title: "seals under the newest version, in whatever order the keys come",
        check: Effect.gen(function* () {
          for (const ring of [[ringKey(1), ringKey(7), ringKey(3)], [ringKey(7), ringKey(3)]]) {
            assert.equal((yield* sealedBy(ring)).version, 7)
          }
        })
      },
      {
        title: "opens what an older key sealed, until that key is gone",
        check: Effect.gen(function* () {
          const sealed = yield* sealedBy([ringKey(1)])

          assert.equal(yield* openedBy([ringKey(1), ringKey(2), ringKey(3)], sealed), "opened")
          assert.equal(yield* openedBy([ringKey(2), ringKey(3)], sealed), "broken")
        })
      },
      {
        title: "opens nothing under another key of the same version, nor under another version of the same key",
        check: Effect.gen(function* () {
          const sealed = yield* sealedBy([ringKey(1, 9)])

          assert.equal(yield* openedBy([ringKey(1, 8)], sealed), "broken")
          assert.equal(yield* openedBy([ringKey(1, 9), ringKey(2, 9)], { ...sealed, version: 2 }), "broken")
        })
      },
      {
        title: "keeps MACs when newer keys come, for each process alike",
        check: Effect.gen(function* () {
          const macBy = (ring: ReadonlyArray<RingKey>) => over(ring, (crypto) => crypto.mac("bounce", "message-1"))
          const mac = yield* macBy([ringKey(1)])

          assert.equal(yield* macBy([ringKey(2), ringKey(1)]), mac)
          assert.notEqual(yield* macBy([ringKey(2)]), mac)
        })
      },
      {
        title: "uses no IV that another process has used under the same key",
        check: Effect.gen(function* () {
          const sealedByOne = over([ringKey(1)], (crypto) => Effect.all(Array.from({ length: 100 }, () => crypto.seal(secret, context))))
          const sealed = [...(yield* sealedByOne), ...(yield* sealedByOne), ...(yield* sealedByOne)]

          assert.equal(new Set(sealed.map(({ iv }) => iv)).size, 300)
        })
      },
      {
        title: "proves a verified secret to its own process alone",
        check: Effect.gen(function* () {
          const proof = over([ringKey(1)], (crypto) => crypto.proof(secret, knownHash))

          assert.notEqual(yield* proof, yield* proof)
        })
      },
      {
        title: "hashes at the cost that the port names",
        check: Effect.gen(function* () {
          const hash = yield* over([ringKey(1)], (crypto) => crypto.hashSecret(secret))

          assert.ok(hash.startsWith("$argon2id$v=19$m=19456,t=2,p=1$"), hash.slice(0, hash.lastIndexOf("$")))
        })
      }
    ]
  }
}
