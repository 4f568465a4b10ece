import { Layer, Redacted } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { Sandbox } from "../../conformance/scenarios/World.ts"
import { plays } from "../../conformance/vitest.ts"
import * as NodeCrypto from "../node/NodeCrypto.ts"
import * as NodemailerMime from "../nodemailer/NodemailerMime.ts"
import * as SandboxMailProvider from "../sandbox/SandboxMailProvider.ts"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"
import * as MemoryStore from "./MemoryStore.ts"

const set = Layer.mergeAll(
  MemoryStore.layer,
  MemoryJobQueue.layer,
  MemoryBlobStore.layer,
  MemoryRateLimiter.layer,
  NodemailerMime.layer,
  NodeCrypto.layerSeeded("scenarios", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }], memoryCostKiB: 1024, timeCost: 2 }),
  Layer.succeed(Sandbox, SandboxMailProvider.make())
)

for (const suite of scenarios) plays("{memory}", suite, set)
