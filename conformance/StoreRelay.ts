/**
 * Laws of what turns events into deliveries exactly once: the version that a
 * commit requires, and the relay's place.
 */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Millis, Realm } from "../core/model/Ids.ts"
import type { Change, Kind } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  demand,
  endOfLog,
  eventsOf,
  forget,
  insert,
  insertDelivery,
  insertMessage,
  land,
  law,
  logBehind,
  moveRelay,
  next,
  outcome,
  ownAge,
  realmInShard,
  recordsOf,
  refusal,
  relayBehind,
  stored,
  suppose,
  times,
  together,
  unwrittenShards,
  update,
  usedBefore,
  type Service
} from "./StoreLaw.ts"
import { allAt, positionsOf } from "./StorePositions.ts"

const event = (realm: Realm, occurredAt = 0) => Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt })

const moved = (kind: Kind, { id }: { readonly id: string }) => ({ _tag: "VersionMoved", kind, id })

const premises = [
  { verb: "requires", premise: demand },
  { verb: "expects", premise: suppose }
]

const requirements = [
  ...premises.flatMap(({ verb, premise }) => [
    law(`${verb} the version of a record of any kind, and changes nothing of it`, (store) =>
      Effect.gen(function* () {
        const records = recordsOf(Fixtures.realm())
        const { message, delivery, ...plain } = records
        const kinds = Object.keys(records) as ReadonlyArray<Kind> // its members are all kinds
        for (const kind of kinds) {
          assert.deepEqual(yield* refusal(store, premise(kind, records[kind])), moved(kind, records[kind]), "it is not there")
        }
        const inserts = Object.entries(plain).map(([kind, record]) => insert(kind as keyof typeof plain, record)) // its own
        yield* land(store, ...inserts, insertMessage(message), insertDelivery(delivery))

        yield* land(store, ...kinds.map((kind) => premise(kind, records[kind])))
        yield* land(store, ...kinds.map((kind) => update(kind, next(records[kind]))))

        for (const kind of kinds) {
          for (const version of [0, 1, 3]) {
            assert.deepEqual(yield* refusal(store, premise(kind, { ...records[kind], version })), moved(kind, records[kind]))
          }
          yield* land(store, premise(kind, next(records[kind])), premise(kind, next(records[kind])))
          assert.deepEqual(yield* stored(store, kind, records[kind]), next(records[kind]))
        }
      })
    ),
    law(`${verb} a version as the changes before it in the list leave it`, (store) =>
      Effect.gen(function* () {
        const endpoint = Fixtures.endpoint(Fixtures.realm())
        const [second, third] = [next(endpoint), next(next(endpoint))]

        const refused = Effect.fnUntraced(function* (...changes: ReadonlyArray<Change>) {
          assert.deepEqual(yield* refusal(store, ...changes), moved("endpoint", endpoint))
        })
        const [isFirst, isSecond, isThird] = [endpoint, second, third].map((record) => premise("endpoint", record))

        yield* refused(isFirst!, insert("endpoint", endpoint))
        yield* land(store, insert("endpoint", endpoint), isFirst!, update("endpoint", second), isSecond!)
        yield* refused(update("endpoint", third), isSecond!)
        yield* refused(isThird!, update("endpoint", third))

        yield* land(store, isSecond!, update("endpoint", third))
      })
    ),
    law(`${verb} the version of one record beside another of its kind that is written`, (store) =>
      Effect.gen(function* () {
        const [one, other] = [Fixtures.endpoint(Fixtures.realm()), Fixtures.endpoint(Fixtures.realm())]
        yield* land(store, insert("endpoint", one), insert("endpoint", other))

        yield* land(store, premise("endpoint", other), update("endpoint", next(one)))
        yield* land(store, update("endpoint", next(next(one))), premise("endpoint", other))

        const third = update("endpoint", next(next(next(one))))
        assert.deepEqual(yield* refusal(store, third, premise("endpoint", next(other))), moved("endpoint", other))
        assert.deepEqual(yield* stored(store, "endpoint", one), next(next(one)))
      })
    )
  ]),
  law("lets all land that only require one version at once", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      yield* land(store, insert("endpoint", endpoint))
      const made = times(40, () => Fixtures.delivery(endpoint))

      const reasons = yield* together(
        made.map((delivery) => outcome(store, demand("endpoint", endpoint), insertDelivery(delivery)))
      )

      assert.deepEqual(reasons.filter((reason) => reason !== null), [])
      assert.equal((yield* store.deliveries.page(realm, { ...endpoint, endpointId: endpoint.id, limit: 100 })).length, 40)
    })
  ),
  law("lets whoever requires a version land before it moves, or not at all", (store) =>
    Effect.gen(function* () {
      const realm = realmInShard(6)
      const begin = yield* endOfLog(store, 6)
      const endpoint = Fixtures.endpoint(realm)
      const end = event(realm)
      yield* land(store, insert("endpoint", endpoint))
      const requirers = times(40, () => ({ event: event(realm), delivery: Fixtures.delivery(endpoint) }))
      const commits = requirers.map(({ event, delivery }) =>
        outcome(store, demand("endpoint", endpoint), append(event), insertDelivery(delivery))
      )
      const disable = outcome(store, update("endpoint", next(endpoint, { enabled: false })), append(end))

      const reasons = yield* together(commits.toSpliced(20, 0, disable))

      assert.equal(reasons[20], null, "requiring a version does not keep others from moving it")
      const landed = requirers.filter((_, index) => reasons[index < 20 ? index : index + 1] === null)
      for (const reason of reasons) if (reason !== null) assert.deepEqual(reason, moved("endpoint", endpoint))
      const log = (yield* logBehind(store, 6, begin)).map(({ id }) => id)
      assert.equal(log.at(-1), end.id, "a commit that required the version before comes after")
      assert.deepEqual(log.slice(0, -1).toSorted(), landed.map(({ event }) => event.id).toSorted())
      const page = yield* store.deliveries.page(realm, { ...endpoint, endpointId: null, limit: 100 })
      assert.deepEqual(page.map(({ id }) => id).toSorted(), landed.map(({ delivery }) => delivery.id).toSorted())
    })
  ),
  law("lets whoever expects a version land while it stands, and not when it has moved", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const mailbox = Fixtures.mailbox(Fixtures.mailDomain(realm.tenantId))
      yield* land(store, insert("mailbox", mailbox))
      const rely = () => {
        const message = Fixtures.message(realm)
        const queued = Fixtures.queuedEvent(message)
        return { queued, commit: outcome(store, suppose("mailbox", mailbox), insertMessage(message), append(queued)) }
      }
      const [meanwhile, behind] = [times(40, rely), times(40, rely)]

      const reasons = yield* together(meanwhile.map(({ commit }) => commit).toSpliced(20, 0, outcome(store, update("mailbox", next(mailbox)))))
      const late = yield* together(behind.map(({ commit }) => commit))

      assert.equal(reasons[20], null, "expecting a version does not keep others from moving it")
      for (const reason of reasons) if (reason !== null) assert.deepEqual(reason, moved("mailbox", mailbox))
      assert.deepEqual(late, behind.map(() => moved("mailbox", mailbox)))
      const landed = meanwhile.filter((_, index) => reasons[index < 20 ? index : index + 1] === null)
      const events = yield* eventsOf(store, realm, null, 1_000)
      assert.deepEqual(events.map(({ id }) => id).toSorted(), landed.map(({ queued }) => queued.id).toSorted())
      assert.equal((yield* store.messages.page(realm, { mailboxId: null, before: null, limit: 1_000 })).length, landed.length)
    })
  ),
  law("lets no two commits land that each require what the other moves", (store) =>
    Effect.gen(function* () {
      for (const _ of times(15, (round) => round)) {
        const [one, other] = [Fixtures.endpoint(Fixtures.realm()), Fixtures.endpoint(Fixtures.realm())]
        yield* land(store, insert("endpoint", one), insert("endpoint", other))

        const reasons = yield* together([
          outcome(store, demand("endpoint", one), update("endpoint", next(other))),
          outcome(store, demand("endpoint", other), update("endpoint", next(one)))
        ])

        assert.equal(reasons.filter((reason) => reason === null).length, 1)
      }
    })
  )
]

/** Moves every relay to the end of its log: nothing is behind any of them. Where a log that was cut ends, only its next event knows. */
export const catchUp = Effect.fnUntraced(function* (store: Service) {
  yield* land(store, ...times(16, (shard) => append(event(realmInShard(shard)))))
  for (const { shard, position } of yield* store.relay.behind) {
    const last = (yield* logBehind(store, shard, position)).at(-1)!.position
    yield* land(store, moveRelay(position, { shard, position: last }))
  }
})

/** A shard's log goes on by some events: where its relay stands. */
const withNews = Effect.fnUntraced(function* (store: Service, shard: number, count = 3) {
  yield* land(store, ...times(count, () => append(event(realmInShard(shard)))))
  return (yield* relayBehind(store, shard))!.position
})

const relayMoved = (shard: number) => ({ _tag: "VersionMoved", kind: "relay", id: String(shard) })

const relays = [
  law("moves a shard's relay from where it stands, and from nowhere else", (store) =>
    Effect.gen(function* () {
      const shard = 10
      yield* catchUp(store)
      const from = yield* withNews(store, shard)
      for (const wrong of [from - 1n, from + 1n, from + 3n]) {
        assert.deepEqual(yield* refusal(store, moveRelay(wrong, { shard, position: from + 3n })), relayMoved(shard))
      }

      yield* land(store, moveRelay(from, { shard, position: from + 1n }))

      assert.deepEqual(yield* refusal(store, moveRelay(from, { shard, position: from + 3n })), relayMoved(shard))
      yield* land(store, moveRelay(from + 1n, { shard, position: from + 2n }), moveRelay(from + 2n, { shard, position: from + 3n }))
      assert.equal(yield* relayBehind(store, shard), undefined)
    })
  ),
  law("names exactly the shards whose log goes on behind the relay, each as it was left", (store) =>
    Effect.gen(function* () {
      yield* catchUp(store)
      assert.deepEqual(yield* store.relay.behind, [])
      const froms = yield* Effect.forEach([2, 9], (shard) => withNews(store, shard))
      const behind = Effect.map(store.relay.behind, (found) => found.toSorted((left, right) => left.shard - right.shard))
      assert.deepEqual((yield* behind).map(({ shard, position }) => ({ shard, position })), [
        { shard: 2, position: froms[0] },
        { shard: 9, position: froms[1] }
      ])

      const two = { shard: 2, position: froms[0]! + 2n, holder: "Ünïcode 'worker' 7", heldUntil: 1_796_117_400_123 }
      yield* land(store, moveRelay(froms[0]!, two), moveRelay(froms[1]!, { shard: 9, position: froms[1]! + 3n }))

      assert.deepEqual(yield* behind, [two])
      const three = { ...two, position: two.position + 1n }
      yield* land(store, moveRelay(two.position, three))
      assert.deepEqual(yield* behind, [])
      yield* withNews(store, 2, 1)
      assert.deepEqual(yield* behind, [three])
    })
  ),
  law("lets a relay stay where it is, in the name of another", (store) =>
    Effect.gen(function* () {
      const shard = 10
      yield* catchUp(store)
      const position = yield* withNews(store, shard)
      const [mine, theirs] = ["worker-1", "worker-2"].map((holder) => ({ shard, position, holder, heldUntil: 5 }))

      yield* land(store, moveRelay(position, mine!))
      assert.deepEqual(yield* relayBehind(store, shard), mine)
      yield* land(store, moveRelay(position, theirs!))

      assert.deepEqual(yield* relayBehind(store, shard), theirs)
    })
  ),
  law("lets exactly one of many workers that relay the same events make their deliveries", (store) =>
    Effect.gen(function* () {
      const shard = 4
      const realm = realmInShard(shard)
      const endpoint = Fixtures.endpoint(realm)
      yield* catchUp(store)
      yield* land(store, insert("endpoint", endpoint))
      const from = yield* withNews(store, shard)
      const workers = times(20, (index) => ({
        delivery: Fixtures.delivery(endpoint),
        move: moveRelay(from, { shard, position: from + 3n, holder: `worker-${index}` })
      }))

      const reasons = yield* together(
        workers.map(({ delivery, move }, index) => {
          const made = [demand("endpoint", endpoint), insertDelivery(delivery)]
          return outcome(store, ...(index % 2 === 0 ? [...made, move] : [move, ...made]))
        })
      )

      const winners = workers.filter((_, index) => reasons[index] === null)
      assert.equal(winners.length, 1)
      for (const reason of reasons) if (reason !== null) assert.deepEqual(reason, relayMoved(shard))
      const page = yield* store.deliveries.page(realm, { ...endpoint, endpointId: null, limit: 100 })
      assert.deepEqual(page.map(({ id }) => id), [winners[0]!.delivery.id])
    })
  ),
  law("moves no relay in a commit that is rejected", (store) =>
    Effect.gen(function* () {
      const shard = 10
      const endpoint = Fixtures.endpoint(realmInShard(shard))
      const [known, fresh] = [Fixtures.delivery(endpoint), Fixtures.delivery(endpoint)]
      yield* catchUp(store)
      yield* land(store, insert("endpoint", endpoint), insertDelivery(known))
      const from = yield* withNews(store, shard)
      const before = yield* store.relay.behind
      const move = moveRelay(from, { shard, position: from + 3n, holder: "worker-9" })

      const back = moveRelay(from + 3n, { shard, position: from })
      const reason = yield* refusal(store, insertDelivery(fresh), move, back, insertDelivery(known))

      assert.deepEqual(reason, { _tag: "Duplicate", kind: "delivery", field: "id" })
      assert.deepEqual(yield* store.relay.behind, before)
      assert.equal(yield* store.deliveries.get(endpoint, fresh.id), null)
      yield* land(store, insertDelivery(fresh), move)
    })
  )
]

const begun = [
  law("begins a relay at 0, held by nobody, and keeps its place and the endpoints' when events are forgotten", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const shard = (yield* unwrittenShards(store)).at(-1)!
      const realm = realmInShard(shard)
      const [early, late] = [Fixtures.endpoint(realm, { positions: allAt(5n) }), Fixtures.endpoint(realm)]
      const at = (occurredAt: Millis) => append(event(realm, age + occurredAt))
      const ofOthers = (yield* store.backlog).unrelayed
      yield* land(store, insert("endpoint", early), at(10), at(20), at(30))
      const [first] = yield* store.events.readLog(shard, 0n, 1)
      if (first?.position !== 1n) return yield* usedBefore
      assert.deepEqual(yield* positionsOf(store, early), allAt(0n))
      assert.deepEqual(yield* relayBehind(store, shard), { shard, position: 0n, holder: "", heldUntil: 0 })
      assert.deepEqual(yield* refusal(store, moveRelay(1n, { shard, position: 2n })), relayMoved(shard))
      yield* land(store, moveRelay(0n, { shard, position: 2n }))

      yield* land(store, forget("events", age + 25))
      assert.equal((yield* relayBehind(store, shard))?.position, 2n)
      assert.deepEqual((yield* store.events.readLog(shard, 2n, 10)).map(({ position }) => position), [3n])
      yield* land(store, forget("events", age + 100), insert("endpoint", late))
      assert.equal(yield* relayBehind(store, shard), undefined, "what is forgotten is no news")
      assert.equal((yield* store.backlog).unrelayed, ofOthers)
      yield* land(store, at(200))
      assert.equal((yield* store.backlog).unrelayed, ofOthers + 1, "what is forgotten waits for nobody")

      assert.equal((yield* relayBehind(store, shard))?.position, 2n)
      assert.deepEqual((yield* store.events.readLog(shard, 2n, 10)).map(({ position }) => position), [4n])
      assert.deepEqual(yield* positionsOf(store, late), allAt(3n))
      yield* land(store, moveRelay(2n, { shard, position: 4n }))
      assert.equal(yield* relayBehind(store, shard), undefined)
      yield* land(store, forget("events", age + 201))
    })
  )
]

/** To run before all others, in a log that nobody has written to, nor forgotten any of. */
export const firstOfAllRelays = begun
export const relaying = [...requirements, ...relays]
