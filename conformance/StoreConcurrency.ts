/** Laws of many commits at once: who wins, what is lost, and the order that all readers agree on. */
import { Effect, Fiber } from "effect"
import assert from "node:assert/strict"
import type { LoggedEvent } from "../core/model/Event.ts"
import { shardOf, type Realm } from "../core/model/Ids.ts"
import type { Message } from "../core/model/Message.ts"
import type { Change } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  behind,
  endOfLog,
  eventsOf,
  insert,
  insertMessage,
  land,
  law,
  logBehind,
  next,
  outcome,
  realmInShard,
  refusal,
  reservation,
  reserve,
  takeQuota,
  times,
  together,
  update,
  type Service
} from "./StoreLaw.ts"

/** A message and its event, as a send commits them. */
const sent = (realm: Realm, over: Partial<Message> = {}) => {
  const message = Fixtures.message(realm, over)
  const event = Fixtures.queuedEvent(message)
  return { message, event, changes: [insertMessage(message), append(event)] as ReadonlyArray<Change> }
}

const everyEvent = (store: Service, realm: Realm) => eventsOf(store, realm, null, 1_000)

const everyMessage = (store: Service, realm: Realm) =>
  store.messages.page(realm, { mailboxId: null, before: null, limit: 1_000 })

/** How many steps of the scheduler callers wait before they hang up. */
const patience = [1, 0, 2, 5, 20, 100]

const conflicts = [
  law("lets a conflict among concurrent commits harm its own caller only", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [tenant, held, taken] = [Fixtures.tenant(), reservation(), Fixtures.message(realm)]
      yield* land(store, insert("tenant", tenant), reserve(held), insertMessage(taken))
      const obstacles: ReadonlyArray<Change> = [
        update("tenant", { ...tenant, version: 9 }),
        reserve(held),
        insertMessage(taken),
        takeQuota(realm.tenantId, 1, 0)
      ]
      const callers = times(60, (index) => ({ ...sent(realm), obstacle: index % 3 === 0 ? obstacles[(index / 3) % 4]! : null }))

      const reasons = yield* together(
        callers.map(({ changes, obstacle }) => outcome(store, ...changes, ...(obstacle === null ? [] : [obstacle])))
      )

      const expected = ["VersionMoved", "KeyTaken", "Duplicate", "QuotaExceeded"]
      assert.deepEqual(
        reasons.map((reason) => reason?._tag ?? null),
        callers.map((_, index) => (index % 3 === 0 ? expected[(index / 3) % 4] : null))
      )
      const landed = callers.filter(({ obstacle }) => obstacle === null)
      assert.deepEqual(
        new Set((yield* everyMessage(store, realm)).map(({ id }) => id)),
        new Set([taken.id, ...landed.map(({ message }) => message.id)])
      )
      assert.deepEqual(
        (yield* everyEvent(store, realm)).map(({ id }) => id).sort(),
        landed.map(({ event }) => event.id).sort()
      )
    })
  ),
  law("lets exactly one of many commits that update one version win", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const message = Fixtures.message(realm)
      yield* land(store, insertMessage(message))
      const callers = times(30, (index) => {
        const changed = next(message, { snippet: `caller ${index}` })
        return { changed, event: Fixtures.queuedEvent(changed) }
      })

      const reasons = yield* together(
        callers.map(({ changed, event }) => outcome(store, append(event), update("message", changed)))
      )

      const winners = callers.filter((_, index) => reasons[index] === null)
      assert.equal(winners.length, 1)
      for (const reason of reasons) {
        if (reason !== null) assert.deepEqual(reason, { _tag: "VersionMoved", kind: "message", id: message.id })
      }
      assert.deepEqual(yield* store.messages.get(realm, message.id), winners[0]!.changed)
      assert.deepEqual((yield* everyEvent(store, realm)).map(({ id }) => id), [winners[0]!.event.id])
    })
  ),
  law("loses no update of callers who read again when a version moved", (store) =>
    Effect.gen(function* () {
      const tenant = Fixtures.tenant({ name: "0" })
      yield* land(store, insert("tenant", tenant))
      const increment = Effect.gen(function* () {
        for (;;) {
          const current = (yield* store.credentials.tenant(tenant.id))!
          const raised = next(current, { name: String(Number(current.name) + 1) })
          if ((yield* outcome(store, update("tenant", raised))) === null) return
        }
      })

      yield* together(times(20, () => increment))

      assert.deepEqual(yield* store.credentials.tenant(tenant.id), { ...tenant, version: 21, name: "20" })
    })
  ),
  law("lets exactly one of many commits that reserve one key win", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const { applicationId, idempotencyKey } = reservation()
      const callers = times(30, () => sent(realm))

      const reasons = yield* together(
        callers.map(({ message, changes }) =>
          outcome(store, reserve({ ...reservation(), applicationId, idempotencyKey, messageId: message.id }), ...changes)
        )
      )

      const winners = callers.filter((_, index) => reasons[index] === null)
      assert.equal(winners.length, 1)
      for (const reason of reasons) if (reason !== null) assert.deepEqual(reason, { _tag: "KeyTaken", idempotencyKey })
      assert.deepEqual((yield* everyMessage(store, realm)).map(({ id }) => id), [winners[0]!.message.id])
      assert.equal((yield* store.reservations.get(applicationId, idempotencyKey, 0))?.messageId, winners[0]!.message.id)
    })
  ),
  law("lets exactly one of many commits that insert one id, or one unique field, win", (store) =>
    Effect.gen(function* () {
      const tenant = Fixtures.tenant()
      const domain = Fixtures.mailDomain(tenant.id)
      const winners = (changes: ReadonlyArray<Change>) =>
        Effect.map(together(changes.map((change) => outcome(store, change))), (reasons) => {
          for (const reason of reasons) if (reason !== null) assert.equal(reason._tag, "Duplicate")
          return reasons.filter((reason) => reason === null).length
        })

      assert.equal(yield* winners(times(20, () => insert("tenant", tenant))), 1)
      assert.equal(yield* winners(times(20, () => insert("mailbox", Fixtures.mailbox(domain)))), 1)
      assert.equal((yield* store.mailboxes.list(tenant.id)).length, 1)
    })
  ),
  law("ends commits that touch the same records in opposite orders", (store) =>
    Effect.gen(function* () {
      const [one, two] = [Fixtures.tenant(), Fixtures.tenant()]
      yield* land(store, insert("tenant", one), insert("tenant", two))
      const bumpBoth = Effect.fnUntraced(function* (ids: ReadonlyArray<typeof one.id>) {
        for (;;) {
          const changes: Array<Change> = []
          for (const id of ids) changes.push(update("tenant", next((yield* store.credentials.tenant(id))!)))
          if ((yield* outcome(store, ...changes)) === null) return
        }
      })

      yield* together(times(20, (index) => bumpBoth(index % 2 === 0 ? [one.id, two.id] : [two.id, one.id])))

      for (const { id } of [one, two]) assert.equal((yield* store.credentials.tenant(id))?.version, 21)
    })
  ),
  law("takes a quota exactly up to its limit, whoever asks at once", (store) =>
    Effect.gen(function* () {
      const [{ tenantId }, other] = [Fixtures.realm(), Fixtures.realm()]

      const ones = yield* together(times(100, () => outcome(store, takeQuota(tenantId, 1, 37))))
      const amounts = times(100, (index) => (index % 3) + 1)
      const several = yield* together(amounts.map((amount) => outcome(store, takeQuota(other.tenantId, amount, 50))))

      assert.equal(ones.filter((reason) => reason === null).length, 37)
      assert.deepEqual(yield* refusal(store, takeQuota(tenantId, 1, 37)), { _tag: "QuotaExceeded", limit: 37, used: 37 })
      const taken = amounts.filter((_, index) => several[index] === null).reduce((sum, amount) => sum + amount, 0)
      assert.ok(taken > 47 && taken <= 50, `${taken} were taken`)
      assert.deepEqual(yield* refusal(store, takeQuota(other.tenantId, 51, 50)), { _tag: "QuotaExceeded", limit: 50, used: taken })
    })
  ),
  law("neither tears a commit nor harms another when its caller is interrupted", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const callers = times(40, (index) => {
        const { message, event, changes } = sent(realm)
        const held = reservation({ messageId: message.id })
        const all = [...changes, reserve(held), takeQuota(realm.tenantId, 1, 1_000)]
        // The first to come may be the one who commits for all: it is among those who leave.
        const after = patience[(index >> 1) % patience.length]!
        return { message, event, held, changes: all, isInterrupted: index % 2 === 0, after }
      })

      const fibers = yield* Effect.forEach(callers, ({ changes }) => Effect.forkChild(land(store, ...changes)))
      yield* together(
        callers.map(
          Effect.fnUntraced(function* ({ isInterrupted, after }, index) {
            if (!isInterrupted) return yield* Fiber.join(fibers[index]!)
            for (let steps = 0; steps < after; steps++) yield* Effect.yieldNow
            yield* Fiber.interrupt(fibers[index]!)
          })
        )
      )

      // Whoever was cut off asks again: it finds its commit there as a whole, or lands it now.
      for (const { message, held, changes, isInterrupted } of callers) {
        const reason = yield* outcome(store, ...changes)
        if (!isInterrupted || reason !== null) assert.deepEqual(reason, { _tag: "Duplicate", kind: "message", field: "id" })
        assert.equal((yield* store.messages.get(realm, message.id))?.id, message.id)
        assert.deepEqual(yield* store.reservations.get(held.applicationId, held.idempotencyKey, 0), held)
      }
      assert.deepEqual(
        (yield* everyEvent(store, realm)).map(({ id }) => id).sort(),
        callers.map(({ event }) => event.id).sort()
      )
      assert.deepEqual(yield* refusal(store, takeQuota(realm.tenantId, 1_000, 1_000)), {
        _tag: "QuotaExceeded",
        limit: 1_000,
        used: callers.length
      })
    })
  )
]

const log = [
  law("numbers the events of a shard in list order, rising by one, and gives them back as they were", (store) =>
    Effect.gen(function* () {
      const realm = realmInShard(11)
      const begin = yield* endOfLog(store, 11)
      const events = times(5, () => sent(realm).event)

      yield* land(store, ...events.slice(0, 3).map(append))
      yield* land(store, ...events.slice(3).map(append))

      const expected = events.map((event, index) => ({ ...event, shard: 11, position: begin + BigInt(index) + 1n }))
      assert.deepEqual(yield* store.events.readLog(11, begin, 10), expected)
      assert.deepEqual(yield* store.events.readLog(11, begin, 2), expected.slice(0, 2))
      assert.deepEqual(yield* store.events.readLog(11, begin + 3n, 10), expected.slice(3))
      assert.deepEqual(yield* store.events.readLog(11, begin + 5n, 10), [])
    })
  ),
  law("keeps a log for each shard, with positions of its own", (store) =>
    Effect.gen(function* () {
      const realms = times(16, realmInShard)
      const begins = yield* Effect.forEach(times(16, (shard) => shard), (shard) => endOfLog(store, shard))

      yield* land(store, ...realms.flatMap((realm) => [append(sent(realm).event), append(sent(realm).event)]))

      for (const [shard, realm] of realms.entries()) {
        assert.equal(shardOf(realm.tenantId), shard)
        const found = yield* store.events.readLog(shard, begins[shard]!, 10)
        assert.deepEqual(
          found.map(({ tenantId, shard, position }) => ({ tenantId, shard, position: position - begins[shard]! })),
          [1n, 2n].map((position) => ({ tenantId: realm.tenantId, shard, position }))
        )
      }
    })
  ),
  law("shows a reader every event once, in commit order and without gaps, while many commit", (store) =>
    Effect.gen(function* () {
      const shard = 7
      const realms = times(4, () => realmInShard(shard))
      const begin = yield* endOfLog(store, shard)
      const obstacle = update("tenant", Fixtures.tenant({ version: 2 }))
      const written: Array<string> = []
      const writer = (index: number) =>
        Effect.gen(function* () {
          for (const round of times(10, (round) => round)) {
            const events = times(1 + ((index + round) % 3), () => sent(realms[index % realms.length]!).event)
            const isRejected = (index + round) % 4 === 0
            yield* outcome(store, ...events.map(append), ...(isRejected ? [obstacle] : []))
            if (!isRejected) written.push(...events.map(({ id }) => id))
          }
        })
      const read: Array<LoggedEvent> = []
      const readOn = Effect.fnUntraced(function* () {
        const page = yield* store.events.readLog(shard, read.at(-1)?.position ?? begin, 7)
        assert.ok(page.length === 0 || page[0]!.position > (read.at(-1)?.position ?? begin))
        read.push(...page)
        return page.length
      })

      const writers = yield* Effect.forkChild(together(times(8, writer)))
      while (writers.pollUnsafe() === undefined) {
        yield* readOn()
        yield* Effect.yieldNow
      }
      yield* Fiber.join(writers)
      while ((yield* readOn()) > 0);

      for (const [index, event] of read.entries()) assert.equal(event.position, begin + BigInt(index) + 1n)
      assert.deepEqual(read, yield* logBehind(store, shard, begin), "something appeared behind the reader")
      const own = read.filter((event) => realms.some(({ tenantId }) => tenantId === event.tenantId))
      assert.deepEqual(own.map(({ id }) => id).sort(), written.sort())
    })
  ),
  law("pages a tenant through every event once while many commit", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const writer = () => Effect.forEach(times(10, () => sent(realm)), ({ changes }) => land(store, ...changes))
      const read: Array<LoggedEvent> = []
      const readOn = Effect.fnUntraced(function* () {
        const last = read.at(-1)
        const page = yield* eventsOf(store, realm, last === undefined ? null : behind(last), 3)
        assert.ok(page.length === 0 || page[0]!.position > (last?.position ?? 0n))
        read.push(...page)
        return page.length
      })

      const writers = yield* Effect.forkChild(together(times(6, writer)))
      while (writers.pollUnsafe() === undefined) {
        yield* readOn()
        yield* Effect.yieldNow
      }
      yield* Fiber.join(writers)
      while ((yield* readOn()) > 0);

      assert.equal(read.length, 60)
      assert.deepEqual(read, yield* everyEvent(store, realm), "something appeared behind the reader")
    })
  ),
  law("shows a commit whole: whoever sees one of its changes finds the others", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const writer = (index: number) =>
        Effect.forEach(times(10, () => sent(realm)), ({ changes }) =>
          land(store, ...(index % 2 === 0 ? changes : changes.toReversed()))
        )
      const messagesSeen = Effect.map(everyMessage(store, realm), (messages) => messages.map(({ id }): string => id))
      const eventsSeen = Effect.map(everyEvent(store, realm), (events) => events.map(({ resourceId }) => resourceId))
      const allOf = (earlier: ReadonlyArray<string>, later: ReadonlyArray<string>) => {
        const found = new Set(later)
        assert.deepEqual(earlier.filter((id) => !found.has(id)), [])
      }

      const writers = yield* Effect.forkChild(together(times(6, writer)))
      while (writers.pollUnsafe() === undefined) {
        allOf(yield* messagesSeen, yield* eventsSeen)
        allOf(yield* eventsSeen, yield* messagesSeen)
        yield* Effect.yieldNow
      }
      yield* Fiber.join(writers)

      assert.equal((yield* messagesSeen).length, 60)
    })
  ),
  law("keeps the events of one commit together in the log", (store) =>
    Effect.gen(function* () {
      const realm = realmInShard(3)
      const begin = yield* endOfLog(store, 3)
      const groups = times(20, () => times(3, () => sent(realm).event))

      yield* together(groups.map((events) => land(store, ...events.map(append))))

      const ids = (yield* logBehind(store, 3, begin)).map(({ id }) => id)
      for (const events of groups) {
        const first = ids.indexOf(events[0]!.id)
        assert.deepEqual(ids.slice(first, first + 3), events.map(({ id }) => id))
      }
    })
  )
]

const creation = [
  law("sets createdAt to the proposed time, or to the tenant's last one plus 1 µs if that is greater", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [other, stranger] = [Fixtures.otherEnvironment(realm), Fixtures.realm()]
      const at = 1_796_117_400_123_457n
      const rows = [
        { realm, proposed: at, expected: at },
        { realm, proposed: at, expected: at + 1n },
        { realm, proposed: at - 1_000_000n, expected: at + 2n },
        { realm: other, proposed: at, expected: at + 3n },
        { realm: stranger, proposed: 5n, expected: 5n },
        { realm, proposed: at + 4n, expected: at + 4n },
        { realm: other, proposed: at + 1_000n, expected: at + 1_000n },
        { realm, proposed: 0n, expected: at + 1_001n }
      ].map((row) => ({ ...row, message: Fixtures.message(row.realm, { createdAt: row.proposed }) }))
      const expected = rows.map((row) => row.expected)
      const found = Effect.forEach(rows, (row) =>
        Effect.map(store.messages.get(row.realm, row.message.id), (message) => message?.createdAt)
      )

      for (const { message } of rows.slice(0, 4)) yield* land(store, insertMessage(message))
      yield* land(store, ...rows.slice(4).map(({ message }) => insertMessage(message)))

      assert.deepEqual(yield* found, expected)
    })
  ),
  law("keeps createdAt as it was set, whatever an update says", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [first, second] = [Fixtures.message(realm, { createdAt: 100n }), Fixtures.message(realm, { createdAt: 100n })]
      yield* land(store, insertMessage(first), insertMessage(second))

      yield* land(store, update("message", next(second, { isStarred: true })))
      yield* land(store, update("message", next(next(second), { createdAt: 10_000n })))
      const third = Fixtures.message(realm, { createdAt: 100n })
      yield* land(store, insertMessage(third))

      assert.deepEqual(
        (yield* everyMessage(store, realm)).map(({ id, createdAt }) => ({ id, createdAt })),
        [{ id: third.id, createdAt: 102n }, { id: second.id, createdAt: 101n }, { id: first.id, createdAt: 100n }]
      )
      assert.equal((yield* store.messages.get(realm, second.id))?.createdAt, 101n)
    })
  ),
  law("makes createdAt rise strictly in commit order, as the log does, under concurrent commits", (store) =>
    Effect.gen(function* () {
      const realms = [Fixtures.realm()].flatMap((realm) => [realm, Fixtures.otherEnvironment(realm)])
      const begin = yield* endOfLog(store, shardOf(realms[0]!.tenantId))
      const callers = times(60, (index) => sent(realms[index % 2]!, { createdAt: BigInt(1_000 - (index % 7) * 100) }))

      yield* together(callers.map(({ changes }) => land(store, ...changes)))

      const events = (yield* logBehind(store, shardOf(realms[0]!.tenantId), begin)).filter(
        (event) => event.tenantId === realms[0]!.tenantId
      )
      const messages = (yield* Effect.forEach(realms, (realm) => everyMessage(store, realm))).flat()
      const createdAt = new Map<string, bigint>(messages.map((message) => [message.id, message.createdAt]))
      const inLogOrder = events.map((event) => createdAt.get(event.resourceId)!)
      assert.equal(inLogOrder.length, callers.length)
      assert.deepEqual(inLogOrder, [...new Set(inLogOrder)].sort((left, right) => (left < right ? -1 : 1)))
    })
  ),
  law("puts no message behind a page that was already read", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const writer = (index: number) =>
        Effect.forEach(times(8, (round) => round), (round) =>
          land(store, insertMessage(Fixtures.message(realm, { createdAt: BigInt(((index * 31 + round * 17) % 10) * 50) })))
        )
      const pages: Array<ReadonlyArray<Message>> = []

      const writers = yield* Effect.forkChild(together(times(6, writer)))
      while (writers.pollUnsafe() === undefined) {
        pages.push(yield* everyMessage(store, realm))
        yield* Effect.yieldNow
      }
      yield* Fiber.join(writers)

      const all = yield* everyMessage(store, realm)
      assert.equal(all.length, 48)
      for (const page of pages) assert.deepEqual(page, all.slice(all.length - page.length))
    })
  )
]

export const concurrency = [...conflicts, ...log, ...creation]
