import { Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companionsOf } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"
import * as MemoryStore from "./MemoryStore.ts"

/** Another plays them by other chances, above all with tenants in other shards of the log. */
const seed = process.env["MAILROOM_SCENARIO_SEED"] ?? "scenarios"

const set = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, MemoryBlobStore.layer, MemoryRateLimiter.layer, companionsOf(seed))

for (const suite of scenarios) plays("{memory}", suite, set)
