/** How long a shard's log is relayed at a time: to its end, unless somebody waits. */
import { Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { ClockOffset, clockOffsetMax } from "../../core/ClockOffset.ts"
import { shardOf } from "../../core/model/Ids.ts"
import { Ahead } from "./Faults.ts"
import { heard } from "./QuickReceivers.ts"
import { deliveriesTo, happen, hook, relayAll } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { scenario, type ScenarioSuite, type World } from "./World.ts"

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

export const suite: ScenarioSuite = {
  name: "webhook relaying",
  checks: [
    scenario("a shard is relayed to its end while no other waits, and left for a moment when one does", (world) =>
      Effect.gen(function* () {
        const { of, process, log, to } = yield* playGrowing(world)
        let other = yield* world.found()
        while (shardOf(other.realm.tenantId) === shardOf(of.realm.tenantId)) other = yield* world.found()
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
        let other = yield* world.found()
        while (shardOf(other.realm.tenantId) === shardOf(of.realm.tenantId)) other = yield* world.found()
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
