/** What authors get wrong about secrets: each flaw is put into an adapter that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { hash } from "node:crypto"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import { Crypto, CryptoBusy, SealBroken } from "../core/ports/Crypto.ts"
import { suite } from "./Crypto.ts"
import { suite as keyRing, type RingKey } from "./CryptoKeyRing.ts"
import { conforms, prove } from "./Proof.ts"

type Service = Crypto["Service"]

/** Secrets are changed before they are hashed. */
const hashing =
  (change: (secret: string) => string) =>
  (crypto: Service): Service => {
    const changed = (secret: Redacted.Redacted<string>) => Redacted.make(change(Redacted.value(secret)))
    return {
      ...crypto,
      hashSecret: (secret) => crypto.hashSecret(changed(secret)),
      verifySecret: (secret, text) => crypto.verifySecret(changed(secret), text)
    }
  }

/** One page of bytes, handed out in parts, and drawn anew over what was handed out. */
const onePage = (crypto: Service): Service => {
  const page = new Uint8Array(64 * 1024)
  let used = page.length
  return {
    ...crypto,
    randomBytes: (count) =>
      count > page.length
        ? crypto.randomBytes(count)
        : Effect.gen(function* () {
            if (used + count > page.length) {
              page.set(yield* crypto.randomBytes(page.length))
              used = 0
            }
            used += count
            return page.subarray(used - count, used)
          })
  }
}

/** Who gives up keeps the place that it had in the queue. */
const leavesNoPlace = (crypto: Service): Service => {
  let admitted = 0
  const pooled = <A>(work: Effect.Effect<A, CryptoBusy>) =>
    Effect.suspend(() => {
      if (admitted >= 50) return Effect.fail(new CryptoBusy())
      admitted += 1
      return Effect.tap(work, () => Effect.sync(() => (admitted -= 1)))
    })
  return { ...crypto, hashSecret: (secret) => pooled(crypto.hashSecret(secret)) }
}

const known = "knows no secret that only looks like the hashed one"

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: (crypto: Service) => Service]> = [
  ["secrets of 72 bytes", known, hashing((secret) => secret.slice(0, 72))],
  ["secrets that end at a NUL", known, hashing((secret) => secret.split("\u0000")[0]!)],
  ["secrets without the white space around them", known, hashing((secret) => secret.trim())],
  ["secrets that are written in another way", known, hashing((secret) => secret.normalize("NFKC"))],
  ["bytes that change after they were drawn", "leaves the bytes alone that it has drawn", onePage],
  [
    "at most 1,024 bytes at a time",
    "draws as many random bytes as asked for, other ones each time",
    (crypto) => ({ ...crypto, randomBytes: (count) => crypto.randomBytes(Math.min(count, 1_024)) })
  ],
  ["places that nobody gets back", "refuses a flood of hashes with CryptoBusy, and recovers when it ends", leavesNoPlace],
  [
    "a queue that has no bound for verifying",
    "refuses a flood of hashes with CryptoBusy, and recovers when it ends",
    (crypto) => ({ ...crypto, verifySecret: () => Effect.andThen(Effect.yieldNow, Effect.succeed(true)) })
  ],
  [
    "digests of another spelling",
    "digests a text's UTF-8 bytes",
    (crypto) => ({ ...crypto, digest: (text) => crypto.digest(text.normalize()) })
  ],
  [
    "a context of one byte to a letter",
    "opens nothing in another context",
    (crypto) => {
      const narrow = (context: string) => Buffer.from(context, "latin1").toString("latin1")
      return {
        ...crypto,
        seal: (secret, context) => crypto.seal(secret, narrow(context)),
        open: (sealed, context) => crypto.open(sealed, narrow(context))
      }
    }
  ],
  [
    "another key's version for what does not open",
    "opens nothing in another context",
    (crypto) => ({ ...crypto, open: (sealed, context) => Effect.mapError(crypto.open(sealed, context), ({ version }) => new SealBroken({ version: version + 1 })) })
  ],
  [
    "a MAC of the purpose and the text, joined",
    "derives a MAC per purpose and text, the same each time",
    (crypto) => ({ ...crypto, mac: (purpose, text) => crypto.mac("", `${purpose}:${text}`) })
  ]
]

const ringFlaws: ReadonlyArray<readonly [flaw: string, law: string, layerOf: (sealingKeys: ReadonlyArray<RingKey>) => Layer.Layer<Crypto>]> = [
  [
    "IVs that begin anew with each process",
    "uses no IV that another process has used under the same key",
    (sealingKeys) => NodeCrypto.layerSeeded("the same", { sealingKeys })
  ],
  [
    "a proof that everybody can make",
    "proves a verified secret to its own process alone",
    (sealingKeys) =>
      Layer.effect(
        Crypto,
        Effect.map(Crypto, (crypto): Service => ({
          ...crypto,
          proof: (secret, text) => Effect.sync(() => hash("sha256", JSON.stringify([Redacted.value(secret), text]), "hex"))
        }))
      ).pipe(Layer.provide(NodeCrypto.layer({ sealingKeys })))
  ],
  [
    "hashes that cost less",
    "hashes at the cost that the port names",
    (sealingKeys) => NodeCrypto.layerSeeded("any", { sealingKeys, memoryCostKiB: 8, timeCost: 1 })
  ]
]

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(1)) }]
const sound = NodeCrypto.layerSeeded("a seed", { sealingKeys, memoryCostKiB: 8, timeCost: 1 })

describe("the suites of Crypto", () => {
  const proofs = [
    ...flaws.map(([flaw, law, make]) => {
      const flawed = Layer.effect(Crypto, Effect.map(Crypto, make)).pipe(Layer.provide(sound))
      return [flaw, law, conforms("flawed", suite, flawed)] as const
    }),
    ...ringFlaws.map(([flaw, law, layerOf]) => [flaw, law, conforms("flawed", keyRing(layerOf), Layer.empty)] as const)
  ]
  for (const [flaw, law, proof] of proofs) {
    it.live(`refuse ${flaw}`, () =>
      Effect.gen(function* () {
        const { checks } = yield* prove([proof], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }
})
