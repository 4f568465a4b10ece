/** Scenarios about events, with all tenants in two shards of the log: an author's ids are random, and have them meet there. */
import { Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companionsInTwoShards } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"
import * as MemoryStore from "./MemoryStore.ts"

const set = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, MemoryBlobStore.layer, MemoryRateLimiter.layer, companionsInTwoShards)

for (const suite of scenarios.filter(({ name }) => name.startsWith("webhook") || name === "crash and resume")) plays("{memory, two shards}", suite, set)
