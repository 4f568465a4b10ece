/** Deliveries that wait for one of a process's requests. */
import { Duration, Effect, Fiber, Layer } from "effect"
import * as assert from "node:assert/strict"
import * as Memory from "../../adapters/memory/index.ts"
import { broken, endpointOf, happen, hook, ok, play, postsTo, respond, times } from "../../conformance/scenarios/Receivers.ts"
import * as Time from "../../conformance/scenarios/Time.ts"
import { scenario, settle } from "../../conformance/scenarios/World.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import { requestsMax } from "./WebhookAttempts.ts"

const memory = Layer.mergeAll(Memory.MemoryStore.layer, Memory.MemoryJobQueue.layer, Memory.MemoryBlobStore.layer, Memory.MemoryRateLimiter.layer)

plays("{memory}", {
  name: "requests that are all under way",
  checks: [
    scenario("no attempt starts at an endpoint that was disabled while it waited for its request", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => broken)
        yield* times(9, happen(process, of))
        yield* settle(process)
        // Receivers that take seconds have all requests of the process, and give them back one after the other.
        const other = yield* world.found()
        const slow = new Set<string>()
        for (let count = 0; count < requestsMax / 8; count++) slow.add((yield* hook(process, other)).endpoint.url)
        let underWay = 0
        respond(world, ({ url }) =>
          slow.has(url)
            ? Effect.suspend(() => Effect.andThen(Effect.sleep(3_000 + 10 * (underWay++ % requestsMax)), ok))
            : Effect.andThen(Effect.sleep(20), broken)
        )
        yield* times(12, happen(process, other))
        while ((yield* process.relay.tick) > 0) continue
        let isStopping = false
        const worker = yield* Effect.forkChild(process.worker.run(() => isStopping, Duration.millis(200)))
        yield* Time.adjust("1 second")
        assert.equal(underWay, requestsMax)
        yield* times(8, happen(process, of))
        while ((yield* process.relay.tick) > 0) continue
        yield* Time.adjust("10 seconds")
        isStopping = true
        yield* Time.adjust("10 seconds")
        yield* Fiber.interrupt(worker)

        const { enabled, disabledAt } = yield* endpointOf(world, to)
        assert.equal(enabled, false)
        assert.deepEqual(postsTo(world, to).filter(({ at }) => at > disabledAt!), [])
      })
    )
  ]
}, Layer.merge(memory, companions))
