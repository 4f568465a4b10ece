import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { Store } from "../ports/Store.ts"
import { RequestLog } from "./RequestLog.ts"

const layer = RequestLog.layer.pipe(Layer.provideMerge(MemoryStore.layer))

it.effect("a flush that is interrupted writes what it took, or puts it back", () =>
  Effect.gen(function* () {
    const store = yield* Store
    const requestLog = yield* RequestLog
    const application = Fixtures.application(Fixtures.realm())
    const apiKey = Fixtures.apiKey(application)
    yield* store.commit([{ _tag: "Insert", kind: "apiKey", record: apiKey }], [])

    for (let turns = 0; turns < 6; turns++) {
      requestLog.touch(apiKey.id, 7 + turns)
      const flushing = yield* Effect.forkChild(requestLog.flush, { startImmediately: true })
      for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
      yield* Fiber.interrupt(flushing)
      yield* requestLog.flush

      const stored = yield* store.credentials.apiKey(apiKey.tenantId, apiKey.id)
      assert.strictEqual(stored?.lastUsedAt, 7 + turns, `after ${turns} turns`)
    }
  }).pipe(Effect.provide(layer))
)
