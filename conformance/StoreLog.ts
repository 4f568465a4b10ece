/** Laws of the log's pages: what they show, in which order, and what is known of where they start. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { EventPlace } from "../core/model/Cursor.ts"
import type { Environment, Millis, Realm } from "../core/model/Ids.ts"
import * as Fixtures from "./fixtures.ts"
import { append, behind, eventsOf, forget, land, law, ownAge, realmInShard, times, unwrittenShards } from "./StoreLaw.ts"

export const logPages = [
  law("pages events in log order behind a position, up to a limit", (store) =>
    Effect.gen(function* () {
      const realm = realmInShard(5)
      const neighbour = realmInShard(5)
      const written = times(6, () => Fixtures.queuedEvent(Fixtures.message(realm)))
      for (const event of written) yield* land(store, append(Fixtures.queuedEvent(Fixtures.message(neighbour))), append(event))
      const page = (position: bigint | null, limit: number) =>
        eventsOf(store, realm, position === null ? null : behind({ position, occurredAt: 0 }), limit)

      const all = yield* page(null, 100)
      assert.deepEqual(all, written.map((event, index) => ({ ...event, shard: 5, position: all[index]?.position })))
      for (const [index, { position }] of all.entries()) assert.ok(index === 0 || all[index - 1]!.position < position)
      assert.deepEqual(yield* page(null, 2), all.slice(0, 2))
      assert.deepEqual(yield* page(all[1]!.position, 3), all.slice(2, 5))
      assert.deepEqual(yield* page(all[1]!.position + 1n, 3), all.slice(2, 5), "another tenant's position")
      assert.deepEqual(yield* page(0n, 100), all)
      assert.deepEqual(yield* page(all[5]!.position, 3), [])
      assert.deepEqual(yield* page(0x7fff_ffff_ffff_ffffn, 3), [])
    })
  ),
  law("pages events from the first of a time or later, and on in log order", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const at = (occurredAt: number, environment: Environment = realm.environment) =>
        append(Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt, environment }))
      yield* land(store, at(100), at(300, Fixtures.otherEnvironment(realm).environment), at(200), at(300), at(250), at(400))
      const since = (time: number, limit = 100) =>
        Effect.map(eventsOf(store, realm, { _tag: "Since", at: time }, limit), (found) =>
          found.map(({ occurredAt }) => occurredAt)
        )

      assert.deepEqual(yield* since(0), [100, 200, 300, 250, 400])
      assert.deepEqual(yield* since(100), [100, 200, 300, 250, 400])
      assert.deepEqual(yield* since(101), [200, 300, 250, 400])
      assert.deepEqual(yield* since(201), [300, 250, 400])
      assert.deepEqual(yield* since(250), [300, 250, 400])
      assert.deepEqual(yield* since(300), [300, 250, 400])
      assert.deepEqual(yield* since(300, 2), [300, 250])
      assert.deepEqual(yield* since(300.5), [400], "a time between two milliseconds")
      assert.deepEqual(yield* since(301), [400])
      assert.deepEqual(yield* since(401), [])
    })
  ),
  law("shows events of the realm, of the tenant as a whole, and of no other application's audience", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [one, two] = [Fixtures.application(realm), Fixtures.application(realm)]
      const message = Fixtures.message(realm)
      const event = Fixtures.queuedEvent(message)
      const of = (name: string, over: Pick<Partial<typeof event>, "environment" | "audience">) =>
        append(Fixtures.queuedEvent(message, { ...over, data: { ...event.data, subject: name } }))
      yield* land(
        store,
        of("everyone's", {}),
        of("the tenant's", { environment: null }),
        of("one's", { audience: one.id }),
        of("two's", { audience: two.id }),
        of("the other environment's", { environment: Fixtures.otherEnvironment(realm).environment }),
        append(Fixtures.queuedEvent(Fixtures.message(Fixtures.realm()), { environment: null }))
      )
      const seen = (by: Realm, applicationId: typeof one.id, limit = 100) =>
        Effect.map(eventsOf(store, by, null, limit, applicationId), (found) =>
          found.map(({ data }) => (data as typeof event.data).subject) // every one is of that type
        )

      assert.deepEqual(yield* seen(realm, one.id), ["everyone's", "the tenant's", "one's"])
      assert.deepEqual(yield* seen(realm, two.id), ["everyone's", "the tenant's", "two's"])
      assert.deepEqual(yield* seen(realm, two.id, 3), ["everyone's", "the tenant's", "two's"], "the limit counts what is shown")
      assert.deepEqual(yield* seen(realm, two.id, 2), ["everyone's", "the tenant's"], "and is one for all of it")
      const since = yield* eventsOf(store, realm, { _tag: "Since", at: 0 }, 2, two.id)
      assert.deepEqual(since, yield* eventsOf(store, realm, null, 2, two.id))
      assert.deepEqual(yield* seen(realm, Fixtures.freshId()), ["everyone's", "the tenant's"])
      const outside = yield* seen(Fixtures.otherEnvironment(realm), Fixtures.freshId())
      assert.deepEqual(outside, ["the tenant's", "the other environment's"])
    })
  ),
  law("knows the place of an event that a page begins behind, by its position, tenant and time", (store) =>
    Effect.gen(function* () {
      const [realm, neighbour] = [realmInShard(9), realmInShard(9)]
      const at = (occurredAt: Millis, of: Realm = realm) => append(Fixtures.queuedEvent(Fixtures.message(of), { occurredAt }))
      yield* land(store, at(2_000), at(3_000, neighbour), at(1_000))
      const [first, last] = yield* eventsOf(store, realm, null, 10)
      const [foreign] = yield* eventsOf(store, neighbour, null, 10)
      const known = (place: EventPlace, of: Realm = realm) =>
        Effect.map(store.events.page(of, Fixtures.freshId(), { start: behind(place), limit: 10 }), ({ beginning, events }) => [beginning, events.length])

      assert.deepEqual([yield* known(first!), yield* known(last!), yield* known(foreign!, neighbour)], [["whole", 1], ["whole", 0], ["whole", 0]])
      for (const [what, place, count] of [
        ["of a time before", { ...first!, occurredAt: 1_999 }, 1],
        ["of a time behind", { ...last!, occurredAt: 1_001 }, 0],
        ["another tenant's", foreign!, 1],
        ["ahead of the log", { ...last!, position: last!.position + 1_000_000n }, 0],
        ["ahead of all logs", { ...last!, position: 0x7fff_ffff_ffff_ffffn }, 0]
      ] as const) {
        assert.deepEqual(yield* known(place), ["unknown", count], what)
      }
      assert.deepEqual(yield* known(first!, Fixtures.otherEnvironment(realm)), ["whole", 0], "the log of a tenant is one")

      const asked = Fixtures.queuedEvent(Fixtures.message(realm), { audience: Fixtures.freshId(), occurredAt: 4_000 })
      yield* land(store, append(asked))
      const [theirs] = yield* eventsOf(store, realm, behind(last!), 10, asked.audience!)
      assert.deepEqual(yield* known(theirs!), ["whole", 0], "one that another application alone is shown")
    })
  )
]

/** To run before all others, in a log of which nothing else stays. */
export const firstOfAllPages = [
  law("reads a page and what is known of its beginning at one moment, also while events are forgotten", (store) =>
    Effect.gen(function* () {
      const [shard] = yield* unwrittenShards(store)
      const realm = realmInShard(shard)
      for (const _ of times(15, (round) => round)) {
        const age = ownAge()
        yield* land(store, ...times(8, (index) => append(Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt: age + index }))))
        const all = yield* eventsOf(store, realm, null, 10)
        const read = store.events.page(realm, Fixtures.freshId(), { start: behind(all[1]!), limit: 10 })
        for (const until of [2, 4, 6, 8]) {
          const [page] = yield* Effect.all([read, land(store, forget("events", age + until))], { concurrency: "unbounded" })
          if (page.beginning === "whole") assert.equal(page.events.length, 6, "none of a page that is whole was forgotten")
        }
      }
    })
  )
]
