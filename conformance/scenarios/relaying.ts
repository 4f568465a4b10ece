/** How long a shard's log is relayed at a time: to its end, unless somebody waits. */
import { Clock, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { ClockOffset, clockOffsetMax } from "../../core/ClockOffset.ts"
import { shardOf } from "../../core/model/Ids.ts"
import { freshId } from "../fixtures.ts"
import { Ahead } from "./Faults.ts"
import { assertAllOnce, happenOften, heard, playQuick } from "./QuickReceivers.ts"
import { deliveriesTo, endpointOf, happen, hook, postsTo, relayAll, type Hook } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { scenario, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** A process each of whose reads of the log takes longer than a turn, and finds one event more, as long as some are `left`. */
const playGrowing = (world: World) =>
  Effect.gen(function* () {
    const calm = yield* world.boot()
    const of = yield* world.found()
    const log: { left: number; ahead: Effect.Effect<unknown, unknown> } = { left: 0, ahead: Effect.void }
    const clock = { offset: 0 }
    const grow = Effect.gen(function* () {
      yield* Time.adjust(300)
      yield* log.ahead
      if (log.left === 0) return
      log.left -= 1
      yield* happen(calm, of)
    })
    const process = yield* world.boot(new Ahead("Store.events.readLog", Effect.orDie(grow))).pipe(
      Effect.provideService(ClockOffset, () => clock.offset)
    )
    const to = yield* hook(calm, of)
    yield* happen(calm, of)
    return { of, process, log, clock, to }
  })

/** A tenant in another shard. */
const elsewhere = Effect.fnUntraced(function* (world: World, { realm }: Tenancy) {
  let other = yield* world.found()
  while (shardOf(other.realm.tenantId) === shardOf(realm.tenantId)) other = yield* world.found()
  return other
})

export const suite: ScenarioSuite = {
  name: "webhook relaying",
  checks: [
    scenario("a shard is relayed to its end while no other waits, and left for a moment when one does", (world) =>
      Effect.gen(function* () {
        const { of, process, log, to } = yield* playGrowing(world)
        const other = yield* elsewhere(world, of)
        const toOther = yield* hook(process, other)
        yield* relayAll(process) // of what creating endpoints made

        log.left = 5
        yield* happen(process, of)
        yield* process.relay.tick

        assert.equal(log.left, 0)
        assert.equal((yield* deliveriesTo(world, to)).length, 7, "all of it, while nobody waited")

        log.left = 5
        yield* happen(process, of)
        log.ahead = Effect.suspend(() => {
          log.ahead = Effect.void
          return happen(process, other)
        })
        yield* process.relay.tick
        const left = log.left
        yield* relayAll(process)

        assert.ok(left > 0, "it went on while another waited")
        assert.equal((yield* deliveriesTo(world, to)).length, 13)
        assert.equal((yield* deliveriesTo(world, toOther)).length, 1)
      })
    ),

    scenario("a shard that the process has been through waits again as soon as it has more", (world) =>
      Effect.gen(function* () {
        const { of, process, log } = yield* playGrowing(world)
        const other = yield* elsewhere(world, of)
        const toOther = yield* hook(process, other)
        yield* relayAll(process) // of what creating endpoints made

        log.left = 20
        yield* happen(process, other)
        yield* happen(process, of)
        log.ahead = Effect.gen(function* () {
          if (log.left > 10) return
          log.ahead = Effect.void
          assert.equal((yield* deliveriesTo(world, toOther)).length, 1, "it has been through that one")
          yield* happen(process, other)
        })
        yield* process.relay.tick

        assert.ok(log.left > 0 && log.left <= 10, `${log.left} left`)
      })
    ),

    scenario("a shard whose relaying breaks is left alone for ten seconds, while others are relayed, and then goes on", (world) =>
      Effect.gen(function* () {
        const calm = yield* world.boot()
        const of = yield* world.found()
        const other = yield* elsewhere(world, of)
        const log = { isBroken: false, reads: 0 }
        const reading = Effect.suspend(() => {
          log.reads += 1
          return log.isBroken ? Effect.die(new Error("the read breaks")) : Effect.void
        })
        const process = yield* world.boot(new Ahead("Store.events.readLog", reading))
        const [to, toOther] = [yield* hook(calm, of), yield* hook(calm, other)]
        yield* relayAll(calm) // of what creating endpoints made
        yield* Time.adjust("6 seconds") // nobody holds the shards any more
        const made = (hooks: ReadonlyArray<Hook>) => Effect.forEach(hooks, (one) => Effect.map(deliveriesTo(world, one), ({ length }) => length))

        yield* happen(calm, of)
        log.isBroken = true
        yield* process.relay.tick
        log.isBroken = false
        yield* process.relay.tick
        assert.deepEqual([log.reads, yield* made([to, toOther])], [1, [0, 0]])
        yield* happen(calm, other)
        yield* Time.adjust(9_999)
        yield* process.relay.tick
        assert.deepEqual(yield* made([to, toOther]), [0, 1])
        yield* Time.adjust(1)
        yield* process.relay.tick

        assert.deepEqual(yield* made([to, toOther]), [1, 1])
      })
    ),

    scenario("nothing is sent straight from the log by a process that has held the shard for so long that another may take it", (world) =>
      Effect.gen(function* () {
        const reads: Array<Effect.Effect<unknown, unknown>> = []
        const reading = Effect.suspend(() => Effect.orDie(reads.shift() ?? Effect.void))
        const { process, of, to } = yield* playQuick(world, new Ahead("Store.events.readLog", reading))
        const turn = Effect.fnUntraced(function* (...ahead: typeof reads) {
          const before = postsTo(world, to).length
          yield* happenOften(process, of, 1)
          reads.push(Effect.void, ...ahead)
          yield* process.relay.tick
          return postsTo(world, to).length - before
        })
        yield* turn()

        assert.equal(yield* turn(happenOften(process, of, 1)), 2)
        assert.equal(yield* turn(Effect.andThen(Time.adjust(3_500), happenOften(process, of, 1))), 1)
        yield* settle(process)
        const often = Effect.andThen(Time.adjust(1_000), happenOften(process, of, 1))
        assert.equal(yield* turn(often, often, often, often, often, often), 7, "it holds the shard anew with each commit")

        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("for how long a process holds a shard is told by the store's clock, whatever its own says", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const behind = yield* Effect.provideService(world.boot(), ClockOffset, () => 4_000)
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        const made = Effect.map(deliveriesTo(world, to), ({ length }) => length)
        yield* happen(process, of)
        yield* behind.relay.tick
        yield* happen(process, of)

        yield* Time.adjust(8_999)
        yield* process.relay.tick
        assert.equal(yield* made, 1)
        yield* Time.adjust(1)
        yield* process.relay.tick

        assert.equal(yield* made, 2)
      })
    ),

    scenario("who ends leaves the shards that it holds to the others at once, and whom it has been taken from its shard", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const [first, second, third] = [yield* world.boot(), yield* world.boot(), yield* world.boot()]
        const to = yield* hook(first, of)
        const madeBy = Effect.fnUntraced(function* (process: Process) {
          yield* happen(process, of)
          yield* process.relay.tick
          return (yield* deliveriesTo(world, to)).length
        })
        const alone = [yield* madeBy(first), yield* madeBy(second)]

        yield* first.relay.release
        const left = yield* madeBy(second)
        yield* first.relay.release
        const held = yield* madeBy(third)

        assert.deepEqual([alone, left, held], [[1, 1], 3, 3])
      })
    ),

    scenario("a shard that a clock far ahead has claimed is taken from it, and nothing is sent from there before that", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const before = postsTo(world, to).length
        yield* happenOften(process, of, 1)
        const relay = (yield* world.store.relay.behind).find(({ shard }) => shard === shardOf(of.realm.tenantId))!
        const ahead = { ...relay, holder: freshId<string>(), heldUntil: (yield* Clock.currentTimeMillis) + 3_600_000 }
        yield* world.store.commit([{ _tag: "MoveRelay", relay: ahead, from: relay.position }], [])

        yield* process.relay.tick

        assert.equal(postsTo(world, to).length, before)
        yield* settle(process)
        yield* assertAllOnce(world, { of, to })
      })
    ),

    scenario("each endpoint is told of an event in the version that it was made for", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const [to, toOlder] = [yield* hook(process, of), yield* hook(process, of)]
        const older = yield* endpointOf(world, toOlder)
        const record = { ...older, version: older.version + 1, apiVersion: "2025-06-01" }
        yield* world.store.commit([{ _tag: "Update", kind: "endpoint", record }], [])

        yield* happen(process, of)
        yield* settle(process)

        const told = [to, toOlder].map((one) => postsTo(world, one).map(({ json }) => json.apiVersion))
        assert.deepEqual(told, [[older.apiVersion], ["2025-06-01"]])
      })
    ),

    scenario("a process whose clock goes wrong meanwhile leaves the rest of a shard", (world) =>
      Effect.gen(function* () {
        const { process, log, clock } = yield* playGrowing(world)
        log.left = 10
        log.ahead = Effect.sync(() => {
          if (log.left === 7) clock.offset = clockOffsetMax + 1
        })

        yield* process.relay.tick

        assert.ok(log.left > 4 && log.left <= 7, `${log.left} left`)
      })
    ),

    scenario("a process that stops is not held by a log that grows as fast as it is relayed, and commits what it has begun", (world) =>
      Effect.gen(function* () {
        const { of, process, log, to } = yield* playGrowing(world)
        log.left = 20
        let reads = 0
        const relaying = yield* Effect.forkChild(process.relay.tick)
        log.ahead = Effect.sync(() => {
          reads += 1
          if (reads === 4) relaying.interruptUnsafe()
        })

        yield* Fiber.await(relaying)

        assert.ok(reads >= 4 && reads < 8, `${reads} reads`)
        const begun = (yield* deliveriesTo(world, to)).length
        assert.ok(begun >= 4, `${begun} deliveries`)
        log.left = 0
        yield* relayAll(process)
        assert.equal((yield* deliveriesTo(world, to)).length, (yield* heard(world, of)).length, "each once")
      })
    )
  ]
}
