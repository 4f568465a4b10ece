/** What every adapter set of the scenarios has beside the adapters that it is about. A composition root, for test files. */
import { Effect, Layer, Redacted } from "effect"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import type { FreshId } from "../core/model/Ids.ts"
import { Crypto } from "../core/ports/Crypto.ts"
import { Sandbox } from "./scenarios/World.ts"

const beside = (crypto: Layer.Layer<Crypto>) => Layer.mergeAll(RfcMime.layer, crypto, Layer.succeed(Sandbox, SandboxMailProvider.make()))

const cheapCrypto = (seed: string) =>
  NodeCrypto.layerSeeded(seed, { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }], memoryCostKiB: 1024, timeCost: 2, dkimKeyBits: 1024 })

/** MIME, crypto that is cheap and draws the same chances in each run of this seed, and the sandbox's provider. */
export const companionsOf = (seed: string) => beside(cheapCrypto(seed))

export const companions = companionsOf("scenarios")

/** The same, of whose tenants each is in one of two shards of the log: chance seldom has those of one scenario meet there. */
export const companionsInTwoShards = beside(
  Layer.effect(
    Crypto,
    Effect.map(Crypto, (crypto) => ({
      ...crypto,
      uuid: Effect.map(crypto.uuid, (id) => `${id.slice(0, -1)}${Number.parseInt(id.slice(-1), 16) % 2}` as FreshId) // still nothing's: it counts
    }))
  ).pipe(Layer.provide(cheapCrypto("two shards")))
)
