/** Messages that come in, and what a worker holds of them. */
import { Effect, Fiber, Latch, Layer } from "effect"
import * as assert from "node:assert/strict"
import * as Memory from "../../adapters/memory/index.ts"
import { arrive, withFile } from "../../conformance/scenarios/Arrivals.ts"
import * as Time from "../../conformance/scenarios/Time.ts"
import { scenario, settle } from "../../conformance/scenarios/World.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import { Mime } from "../ports/Mime.ts"
import { largeBytes } from "./ParseMessage.ts"

const memory = Layer.mergeAll(Memory.MemoryStore.layer, Memory.MemoryJobQueue.layer, Memory.MemoryBlobStore.layer, Memory.MemoryRateLimiter.layer)

/** Readings that have begun, each of which waits at the gate. */
let begun = 0
const gate = Latch.makeUnsafe()

const gated = Layer.effect(
  Mime,
  Effect.map(Mime, (mime) => ({
    ...mime,
    parse: (bytes) => {
      begun += 1
      return Effect.andThen(gate.await, mime.parse(bytes))
    }
  }) satisfies typeof Mime.Service)
)

plays("{memory}", {
  name: "reads messages",
  checks: [
    scenario("one large message at a time, which is held whole with the files that are in it, and small ones meanwhile", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const [large, small] = [withFile("x".repeat(largeBytes + 1)), withFile("x".repeat(largeBytes / 2))]
        for (const bytes of [large, large, large, small]) yield* arrive(process, of.mailbox.address, bytes)
        begun = 0
        gate.closeUnsafe()

        const ticking = yield* Effect.forkDetach(process.worker.tick, { startImmediately: true })
        yield* Time.until(() => begun >= 2)
        yield* Effect.repeat(Effect.yieldNow, { times: 100 }) // whatever else is about to begin does
        const atOnce = begun
        gate.openUnsafe()
        yield* Fiber.join(ticking)
        yield* settle(process)

        assert.equal(atOnce, 2)
        assert.equal(begun, 4)
        const { items } = yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: of.mailbox.id })
        assert.deepEqual(items.map(({ hasAttachments }) => hasAttachments), [true, true, true, true])
      })
    )
  ]
}, Layer.merge(memory, Layer.provideMerge(gated, companions)))
