import { suite as breaker } from "../../conformance/scenarios/breaker.ts"
import { suite as crashes } from "../../conformance/scenarios/crashes.ts"
import { suite as deliveries } from "../../conformance/scenarios/deliveries.ts"
import { suite as fanout } from "../../conformance/scenarios/fanout.ts"
import { suite as handshakes } from "../../conformance/scenarios/handshakes.ts"
import { suite as idempotency } from "../../conformance/scenarios/idempotency.ts"
import { suite as isolation } from "../../conformance/scenarios/isolation.ts"
import { suite as limits } from "../../conformance/scenarios/limits.ts"
import { suite as notifications } from "../../conformance/scenarios/notifications.ts"
import { Layer, Redacted } from "effect"
import { suite as outcomes } from "../../conformance/scenarios/outcomes.ts"
import { suite as outages } from "../../conformance/scenarios/outages.ts"
import { suite as shown } from "../../conformance/scenarios/shown.ts"
import { suite as webhookOutages } from "../../conformance/scenarios/webhookOutages.ts"
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

const mail = [outcomes, crashes, idempotency, notifications, isolation, limits, shown, outages]
const webhooks = [handshakes, deliveries, breaker, fanout, webhookOutages]
for (const suite of [...mail, ...webhooks]) plays("{memory}", suite, set)
