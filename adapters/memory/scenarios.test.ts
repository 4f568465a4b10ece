import { Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"
import * as MemoryStore from "./MemoryStore.ts"

const set = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, MemoryBlobStore.layer, MemoryRateLimiter.layer, companions)

for (const suite of scenarios) plays("{memory}", suite, set)
