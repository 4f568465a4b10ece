import { Layer, Redacted } from "effect"
import { suite } from "../../conformance/Crypto.ts"
import { suite as keyRing } from "../../conformance/CryptoKeyRing.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as NodeCrypto from "./NodeCrypto.ts"

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(1)) }]

conforms("NodeCrypto", suite, NodeCrypto.layer({ sealingKeys }))
conforms("NodeCrypto, seeded", suite, NodeCrypto.layerSeeded("a seed", { sealingKeys, memoryCostKiB: 8, timeCost: 1 }))
conforms("NodeCrypto", keyRing((ring) => NodeCrypto.layer({ sealingKeys: ring })), Layer.empty)
