/**
 * Proving adapters among your own tests: each law becomes a test, here under
 * Node's runner. Vitest's `test` takes the same lines.
 *
 *   node --test prove-in-tests.ts
 */
import { Effect, Layer, Redacted } from "effect"
import { MemoryBlobStore, MemoryJobQueue, MemoryRateLimiter, MemoryStore } from "mailroom/adapters/memory"
import { RfcMime } from "mailroom/adapters/mime"
import { NodeCrypto } from "mailroom/adapters/node"
import { SandboxMailProvider } from "mailroom/adapters/sandbox"
import { conforms, jobQueue, plays, prove, Sandbox, sendToEveryOutcome } from "mailroom/conformance"
import assert from "node:assert/strict"
import { test } from "node:test"

/** Stands for the adapter that is yours. */
const myQueue = MemoryJobQueue.layer

/** A whole set for the scenarios: your adapter, and those of the package for the rest. The sandbox keeps its timings. */
const mySet = Layer.mergeAll(
  myQueue,
  MemoryStore.layer,
  MemoryBlobStore.layer,
  MemoryRateLimiter.layer,
  RfcMime.layer,
  NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(7)) }] }),
  Layer.sync(Sandbox, () => SandboxMailProvider.make())
)

const proofs = [conforms("my queue", jobQueue, myQueue), ...plays("a set with my queue", mySet, [sendToEveryOutcome])]
const { checks } = await Effect.runPromise(prove(proofs, { filter: [], timeout: "1 minute", onResult: () => Effect.void }))
for (const { adapter, suite, title, outcome, reason } of checks) {
  void test(`${adapter}, ${suite}: ${title}`, () => assert.equal(outcome, "passed", reason ?? ""))
}
