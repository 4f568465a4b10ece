import { assert, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { requestEntry } from "../../conformance/StoreLaw.ts"
import { Store, StoreUnavailable } from "../ports/Store.ts"
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

it.effect("a flush writes a thousand entries at a time, in their order, and keeps what could not be written", () =>
  Effect.gen(function* () {
    const sizes: Array<number> = []
    const times: Array<number> = []
    let left = 2
    const memory = yield* Store
    const store: typeof Store.Service = {
      ...memory,
      commit: (changes, ...given) =>
        Effect.suspend(() => {
          if (left-- <= 0) return Effect.fail(new StoreUnavailable({ cause: "away" }))
          const entries = changes.flatMap((change) => (change._tag === "AppendRequests" ? change.entries : []))
          sizes.push(entries.length)
          times.push(...entries.map(({ at }) => at))
          return memory.commit(changes, ...given)
        })
    }
    const requestLog = Context.get(yield* Layer.build(Layer.provide(RequestLog.layer, Layer.succeed(Store, store))), RequestLog)
    const realm = Fixtures.realm()
    const all = Array.from({ length: 2_500 }, (_, at) => at)
    for (const at of all) requestLog.append(requestEntry(realm, { at }))
    requestLog.touch(Fixtures.freshId(), 7)

    const first = yield* requestLog.flush
    left = Number.POSITIVE_INFINITY
    const second = yield* requestLog.flush

    assert.deepStrictEqual([first, second, yield* requestLog.flush], [2_001, 500, 0])
    assert.deepStrictEqual(sizes, [1_000, 1_000, 500])
    assert.deepStrictEqual(times, all)
  }).pipe(Effect.provide(MemoryStore.layer))
)

it.effect("a flush ends, however much comes while it writes: that is for the next one", () =>
  Effect.gen(function* () {
    const memory = yield* Store
    const realm = Fixtures.realm()
    let coming = 3
    const store: typeof Store.Service = {
      ...memory,
      commit: (...given) =>
        Effect.suspend(() => {
          if (coming-- > 0) requestLog.append(requestEntry(realm))
          return memory.commit(...given)
        })
    }
    const requestLog = Context.get(yield* Layer.build(Layer.provide(RequestLog.layer, Layer.succeed(Store, store))), RequestLog)
    requestLog.append(requestEntry(realm))

    const flushed = [yield* requestLog.flush, yield* requestLog.flush]

    assert.deepStrictEqual(flushed, [1, 1])
  }).pipe(Effect.provide(MemoryStore.layer))
)

it.effect("a flush asks a store that is away once, however much has gathered", () =>
  Effect.gen(function* () {
    let asked = 0
    const away: typeof Store.Service = {
      ...(yield* Store),
      commit: () =>
        Effect.suspend(() => {
          asked += 1
          return Effect.fail(new StoreUnavailable({ cause: "away" }))
        })
    }
    const requestLog = Context.get(yield* Layer.build(Layer.provide(RequestLog.layer, Layer.succeed(Store, away))), RequestLog)
    const realm = Fixtures.realm()
    for (let at = 0; at < 2_500; at++) requestLog.append(requestEntry(realm, { at }))

    assert.strictEqual(yield* requestLog.flush, 0)
    assert.strictEqual(asked, 1)
  }).pipe(Effect.provide(MemoryStore.layer))
)
