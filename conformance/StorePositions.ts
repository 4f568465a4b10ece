/** Laws of where an endpoint stands in its shard's log: where it was created, disabled last, and enabled last. */
import { Effect, Fiber } from "effect"
import assert from "node:assert/strict"
import type { Positions } from "../core/model/Endpoint.ts"
import type { Realm } from "../core/model/Ids.ts"
import type { Records } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import { append, demand, endOfLog, eventsOf, insert, land, law, logBehind, next, realmInShard, refusal, times, together, update, type Service } from "./StoreLaw.ts"

const event = (realm: Realm) => Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt: 0 })

/** Of an endpoint that was created there, and then neither disabled nor enabled. */
export const allAt = (end: bigint): Positions => ({ createdAfter: end, disabledAfter: end, enabledAfter: end })

/** As the store set them. */
export const positionsOf = (store: Service, of: Records["endpoint"]) => Effect.map(store.endpoints.get(of, of.id), (found) => found!.positions)

/** Appends an event of this realm, and says where it stands. */
const appended = Effect.fnUntraced(function* (store: Service, shard: number) {
  yield* land(store, append(event(realmInShard(shard))))
  return (yield* endOfLog(store, shard)) - 1n
})

export const positions = [
  law("places a new endpoint at the end of its shard's log, whatever was proposed", (store) =>
    Effect.gen(function* () {
      const [shard, realm] = [12, realmInShard(12)]
      yield* endOfLog(store, 13)
      const begin = yield* endOfLog(store, shard)
      yield* endOfLog(store, 13)
      const made = [
        Fixtures.endpoint(realm, { positions: allAt(1_000_000n) }),
        Fixtures.endpoint(Fixtures.otherEnvironment(realm)),
        Fixtures.endpoint(realm, { enabled: false, positions: allAt(1_000_000n) }),
        Fixtures.endpoint(realmInShard(shard))
      ]

      yield* land(store, ...made.map((endpoint) => insert("endpoint", endpoint)))

      for (const endpoint of made) assert.deepEqual(yield* positionsOf(store, endpoint), allAt(begin))
      assert.deepEqual((yield* store.endpoints.enabled([realm.tenantId]))[0]!.positions, allAt(begin))
      assert.deepEqual((yield* store.endpoints.list(realm, made[0]!.applicationId))[0]!.positions, allAt(begin))
    })
  ),
  law("counts the events of its shard that come before a position in its commit, and no others", (store) =>
    Effect.gen(function* () {
      const [shard, realm] = [12, realmInShard(12)]
      const [first, second, brief] = [Fixtures.endpoint(realm), Fixtures.endpoint(realm), Fixtures.endpoint(realm)]
      const [third, fourth] = [Fixtures.endpoint(realm, { enabled: false }), Fixtures.endpoint(realm)]
      const news = () => append(event(realm))
      const foreign = Fixtures.endpoint(realmInShard(13), { enabled: false })
      const before = yield* endOfLog(store, shard)
      yield* land(store, insert("endpoint", third), insert("endpoint", fourth), insert("endpoint", foreign))
      const [begin, foreignBegin] = [yield* endOfLog(store, shard), yield* endOfLog(store, 13)]
      // So that the two logs do not end at one position.
      const foreignNews = times(foreignBegin + 1n === begin + 5n ? 2 : 1, () => append(event(foreign)))
      const paused = next(brief, { enabled: false })
      const off = next(fourth, { enabled: false })

      yield* land(
        store,
        insert("endpoint", first),
        insert("endpoint", brief),
        news(),
        ...foreignNews,
        update("endpoint", paused),
        update("endpoint", off),
        news(),
        insert("endpoint", second),
        news(),
        update("endpoint", next(third, { enabled: true })),
        update("endpoint", next(foreign, { enabled: true })),
        update("endpoint", next(paused, { enabled: true })),
        news(),
        update("endpoint", next(off, { enabled: true })),
        news()
      )

      assert.deepEqual(yield* positionsOf(store, first), allAt(begin))
      assert.deepEqual(yield* positionsOf(store, second), allAt(begin + 2n))
      assert.deepEqual(yield* positionsOf(store, third), { ...allAt(before), enabledAfter: begin + 3n })
      assert.deepEqual(yield* positionsOf(store, fourth), { createdAfter: before, disabledAfter: begin + 1n, enabledAfter: begin + 4n })
      assert.deepEqual(yield* positionsOf(store, brief), { createdAfter: begin, disabledAfter: begin + 1n, enabledAfter: begin + 3n })
      assert.equal((yield* positionsOf(store, foreign)).enabledAfter, foreignBegin + BigInt(foreignNews.length))
    })
  ),
  law("moves one position of an endpoint when an update disables or enables it, and none by any other update", (store) =>
    Effect.gen(function* () {
      const [shard, realm] = [12, realmInShard(12)]
      const endpoint = Fixtures.endpoint(realm)
      const begin = yield* endOfLog(store, shard)
      yield* land(store, insert("endpoint", endpoint))
      let [record, expected] = [endpoint, allAt(begin)]
      const put = Effect.fnUntraced(function* (over: Partial<Records["endpoint"]>, moved?: "disabledAfter" | "enabledAfter") {
        const last = yield* appended(store, shard)
        record = next(record, { positions: allAt(77n), ...over })
        yield* land(store, update("endpoint", record))
        if (moved !== undefined) expected = { ...expected, [moved]: last + 1n }
        assert.deepEqual(yield* positionsOf(store, endpoint), expected)
      })

      yield* put({ consecutiveFailures: 1 })
      yield* put({ enabled: true })
      yield* put({ enabled: false, disabledAt: 5 }, "disabledAfter")
      yield* put({ consecutiveFailures: 0 })
      yield* put({ enabled: true, disabledAt: null }, "enabledAfter")
      yield* put({ isSlow: true, url: "https://example.net/" })
      yield* put({ enabled: false, disabledAt: 6 }, "disabledAfter")
      yield* put({ enabled: true, disabledAt: null }, "enabledAfter")
    })
  ),
  law("places an endpoint where a commit that is rejected has left the log", (store) =>
    Effect.gen(function* () {
      const [shard, realm] = [12, realmInShard(12)]
      const [endpoint, known] = [Fixtures.endpoint(realm), Fixtures.endpoint(realm)]
      const off = update("endpoint", next(known, { enabled: false }))
      yield* land(store, insert("endpoint", known))
      const { createdAfter } = yield* positionsOf(store, known)
      const begin = yield* endOfLog(store, shard)

      yield* refusal(store, append(event(realm)), insert("endpoint", endpoint), off, demand("endpoint", next(endpoint)))
      assert.deepEqual(yield* positionsOf(store, known), allAt(createdAfter))
      yield* land(store, insert("endpoint", endpoint), off)

      assert.deepEqual(yield* positionsOf(store, endpoint), allAt(begin))
      assert.deepEqual(yield* positionsOf(store, known), { ...allAt(createdAfter), disabledAfter: begin })
    })
  ),
  law("gives each endpoint its own commit's position in the log, while many commit", (store) =>
    Effect.gen(function* () {
      const shard = 14
      const begin = yield* endOfLog(store, shard)
      const callers = times(45, (index) => {
        const realm = realmInShard(shard)
        const endpoint = Fixtures.endpoint(realm, { enabled: index % 3 !== 0 })
        const [before, behind] = [event(realm), event(realm)]
        const moved: ReadonlyArray<keyof Positions> =
          index % 3 === 0 ? ["enabledAfter"] : index % 3 === 1 ? ["disabledAfter"] : ["createdAfter", "disabledAfter", "enabledAfter"]
        const change = moved.length > 1 ? insert("endpoint", endpoint) : update("endpoint", next(endpoint, { enabled: !endpoint.enabled }))
        return { endpoint, before, behind, moved, changes: [append(before), change, append(behind)] }
      })
      yield* land(store, ...callers.flatMap(({ endpoint, moved }) => (moved.length > 1 ? [] : [insert("endpoint", endpoint)])))
      const alone = times(10, () => Fixtures.endpoint(realmInShard(shard)))

      const commits = callers.map(({ changes }) => land(store, ...changes))
      yield* together([...commits, ...alone.map((endpoint) => land(store, insert("endpoint", endpoint)))])

      const log = yield* logBehind(store, shard, begin)
      const positionOf = (of: { readonly id: string }) => log.find(({ id }) => id === of.id)!.position
      for (const { endpoint, before, behind, moved } of callers) {
        const expected = Object.fromEntries(moved.map((name) => [name, positionOf(before)]))
        assert.deepEqual(yield* positionsOf(store, endpoint), { ...allAt(begin), ...expected })
        assert.equal(positionOf(behind), positionOf(before) + 1n)
      }
      for (const endpoint of alone) {
        const { createdAfter, ...others } = yield* positionsOf(store, endpoint)
        assert.ok(createdAfter >= begin && createdAfter <= log.at(-1)!.position)
        assert.deepEqual({ createdAfter, ...others }, allAt(createdAfter))
      }
    })
  ),
  law("places a new endpoint behind every event that was seen before, and before every event that comes after", (store) =>
    Effect.gen(function* () {
      const shard = 15
      const realm = realmInShard(shard)
      yield* endOfLog(store, shard)
      const writer = () => Effect.forEach(times(10, () => event(realm)), (one) => land(store, append(one)))
      const writers = yield* Effect.forkChild(together(times(4, writer)))
      const all = eventsOf(store, realm, null, 100)
      const seen = Effect.map(all, (found) => found.at(-1)?.position ?? 0n)

      for (const endpoint of times(8, () => Fixtures.endpoint(realm))) {
        const before = yield* seen
        yield* land(store, insert("endpoint", endpoint))
        const after = event(realm)
        yield* land(store, append(after))

        const { enabledAfter } = yield* positionsOf(store, endpoint)
        const behind = (yield* logBehind(store, shard, enabledAfter)).map(({ id }) => id)
        assert.ok(enabledAfter >= before, "it would get an event that was there before it")
        assert.ok(behind.includes(after.id), "it would miss an event that came after it")
      }
      yield* Fiber.join(writers)
    })
  )
]
