/** What every adapter set of the scenarios has beside the adapters that it is about. A composition root, for test files. */
import { Layer, Redacted } from "effect"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import { Sandbox } from "./scenarios/World.ts"

/** MIME, crypto that is cheap and draws the same chances in each run, and the sandbox's provider. */
export const companions = Layer.mergeAll(
  RfcMime.layer,
  NodeCrypto.layerSeeded("scenarios", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }], memoryCostKiB: 1024, timeCost: 2, dkimKeyBits: 1024 }),
  Layer.succeed(Sandbox, SandboxMailProvider.make())
)
