/** Mail that a provider has taken while the store takes nothing: it is recorded in the end, and nobody is mailed twice. */
import { Deferred, Duration, Effect, Fiber, Latch, Semaphore } from "effect"
import * as assert from "node:assert/strict"
import type { MessageId } from "../../core/model/Ids.ts"
import { MailProviderUnavailable } from "../../core/ports/MailProvider.ts"
import { address } from "../fixtures.ts"
import { NoCommits, Silence } from "./Faults.ts"
import * as Time from "./Time.ts"
import { accepted, messageOf, pass, scenario, send, type Process, type ScenarioSuite, type World } from "./World.ts"

const [ada, bob] = [address("ada"), address("bob")]

/** A process that hands mail over and cannot record it, and another that can; both have seen the queue, and the store is well again. */
const handedOver = (world: World, store = new NoCommits()) =>
  Effect.gen(function* () {
    const tenancy = yield* world.found("production")
    const [one, other] = [yield* world.boot(store), yield* world.boot()]
    yield* Effect.andThen(one.sweep.tick, other.sweep.tick)
    const id = yield* send(other, tenancy, ada)
    store.isOn = true
    yield* one.worker.tick
    assert.deepEqual([world.stage.submissions.length, (yield* messageOf(world, tenancy, id)).status], [1, "queued"])
    store.isOn = false
    return { one, other, status: Effect.map(messageOf(world, tenancy, id), ({ status }) => status) }
  })

/** A provider in whose line all wait for their turn, each for one that is opened; and what became of each at its turn. */
const turns = (world: World) =>
  Effect.gen(function* () {
    const line = yield* Semaphore.make(0)
    const atTurn: Array<"mailed" | "given back"> = []
    world.stage.behave = (request) =>
      Effect.andThen(
        line.take(1),
        Effect.suspend(() => {
          const isWanted = request.isWanted()
          atTurn.push(isWanted ? "mailed" : "given back")
          return isWanted ? Effect.succeed(accepted(request)) : Effect.fail(new MailProviderUnavailable({ cause: "wanted no more" }))
        })
      )
    return { atTurn, open: (places: number) => line.release(places) }
  })

/** A store that answers no commit until it is well again. */
class Unanswered extends NoCommits {
  readonly #answers = Latch.makeUnsafe(false)

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => (call === "Store.commit" && this.isOn ? Effect.andThen(this.#answers.await, effect) : effect))
  }

  override end(): void {
    super.end()
    this.#answers.openUnsafe()
  }
}

/** A store that plays something behind a look at mail that is due, once it takes commits again. */
class Meanwhile extends NoCommits {
  play: Effect.Effect<unknown> = Effect.void

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const done = super.around(call, effect)
    return call === "Store.messages.outbound" ? Effect.tap(done, () => (this.isOn ? Effect.void : this.play)) : done
  }
}

/** As long as it takes for its job to come again, to whoever comes first. */
const passApart = (one: Process, other: Process) =>
  Effect.gen(function* () {
    for (let second = 0; second < 40; second++) {
      yield* Effect.andThen(other.sweep.tick, other.worker.tick)
      yield* Time.leap("1 second")
      yield* one.worker.recordTaken
    }
  })

export const suite: ScenarioSuite = {
  name: "mail that was handed over",
  checks: [
    scenario("a store that takes no commits, and can be read, has nobody mailed twice, and few mailed at all", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const store = new NoCommits()
        const [calm, process] = [yield* world.boot(), yield* world.boot(store)]
        const sendSome = Effect.all(Array.from({ length: 20 }, () => send(calm, tenancy, ada)))
        const early = yield* sendSome

        store.isOn = true
        yield* pass(process, "10 minutes")
        const taken = world.stage.submissions.length
        assert.ok(taken >= 10, `${taken} were submitted before too many results waited`)
        const late = yield* sendSome
        yield* pass(process, "10 minutes")
        assert.equal(world.stage.submissions.length, taken, "what comes when too many results wait is not submitted")

        store.isOn = false
        yield* pass(process, "5 minutes")
        for (const id of [...early, ...late]) {
          assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
          assert.equal(world.stage.submissions.filter(({ request }) => request.messageId === id).length, 1)
        }
      })
    ),

    scenario("a result that breaks whoever records it holds up no other message, and is not submitted again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const store = new NoCommits()
        const [calm, process] = [yield* world.boot(), yield* world.boot(store)]
        store.isBroken = true
        const statuses = (ids: ReadonlyArray<MessageId>) =>
          Effect.forEach(ids, (id) => Effect.map(messageOf(world, tenancy, id), ({ status }) => status))
        const first = [yield* send(calm, tenancy, ada), yield* send(calm, tenancy, ada)]
        store.isOn = true
        yield* process.worker.tick
        store.left = 1
        yield* process.worker.recordTaken // which breaks one of them
        assert.deepEqual((yield* statuses(first)).toSorted(), ["queued", "sent"])
        const other = yield* send(calm, tenancy, bob)
        yield* process.worker.tick

        assert.deepEqual(yield* statuses([other]), ["sent"])
        yield* pass(process, "5 minutes")
        assert.deepEqual(yield* statuses(first), ["sent", "sent"])
        assert.equal(world.stage.submissions.length, 3)
      })
    ),

    ...(
      [
        ["is recorded as sent at its fifth claim, if it can be by then", 4, "sent"],
        ["fails where its record breaks whoever writes it at the fifth claim, too", 5, "failed"]
      ] as const
    ).map(([what, breaks, end]) =>
      scenario(`mail that was handed over, and whose job came to no end four times, ${what}, and is not mailed again`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found("production")
          const store = new NoCommits()
          const process = yield* world.boot(store)
          const id = yield* send(process, tenancy, ada)
          Object.assign(store, { isOn: true, isBroken: true, left: breaks })

          for (let claims = 1; claims <= 5; claims++) {
            assert.equal((yield* messageOf(world, tenancy, id)).status, "queued")
            assert.equal(yield* process.worker.tick, 1)
            yield* Time.leap("2 minutes")
          }

          assert.equal((yield* messageOf(world, tenancy, id)).status, end)
          yield* pass(process, "5 minutes")
          assert.deepEqual([world.stage.submissions.length, (yield* messageOf(world, tenancy, id)).status], [1, end])
        })
      )
    ),

    scenario("mail whose turn at its provider comes while the worker stops is given back, and mailed at once by another", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const [stopping, other] = [yield* world.boot(), yield* world.boot()]
        const turn = yield* Deferred.make<void>()
        let handedOver = 0
        world.stage.behave = (request) =>
          Effect.andThen(
            Deferred.await(turn),
            Effect.suspend(() => {
              if (!request.isWanted()) return Effect.fail(new MailProviderUnavailable({ cause: "wanted no more" }))
              handedOver += 1
              return Effect.succeed(accepted(request))
            })
          )
        const id = yield* send(stopping, tenancy, ada)
        const before = yield* messageOf(world, tenancy, id)
        let isStopping = false
        const worker = yield* Effect.forkDetach(stopping.worker.run(() => isStopping, Duration.seconds(1)))
        while (world.stage.submissions.length === 0) yield* Time.calm

        isStopping = true
        yield* Deferred.succeed(turn, undefined)
        while (worker.pollUnsafe() === undefined) yield* Time.adjust("1 second")
        yield* Fiber.join(worker)

        assert.deepEqual([handedOver, yield* messageOf(world, tenancy, id)], [0, before])
        yield* other.worker.tick
        assert.deepEqual([handedOver, (yield* messageOf(world, tenancy, id)).status], [1, "sent"])
      })
    ),

    scenario("mail whose turn at its provider comes when another worker has had it is not mailed again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const [paused, other] = [yield* world.boot(new Silence("JobQueue.extend")), yield* world.boot()]
        const { atTurn, open } = yield* turns(world)
        const id = yield* send(other, tenancy, ada)
        const ticking = yield* Effect.forkDetach(paused.worker.tick)
        while (world.stage.submissions.length === 0) yield* Time.calm

        yield* Time.leap("2 minutes") // in which it stands still, and its lease runs out
        yield* open(2)
        yield* other.worker.tick
        assert.deepEqual([atTurn, (yield* messageOf(world, tenancy, id)).status], [["given back", "mailed"], "sent"])
        yield* Time.calm

        assert.notEqual(ticking.pollUnsafe(), undefined)
        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
      })
    ),

    ...(
      [
        ["takes no commits", () => new NoCommits()],
        ["answers no commit", () => new Unanswered()]
      ] as const
    ).map(([what, made]) =>
      scenario(`of mail that waits for its turn at its provider while the store ${what} little is mailed, and the rest by another worker`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found("production")
          const store = made()
          const [cut, other] = [yield* world.boot(store), yield* world.boot()]
          const { atTurn, open } = yield* turns(world)
          const ids = yield* Effect.all(Array.from({ length: 40 }, () => send(other, tenancy, ada)))
          const ticking = yield* Effect.forkDetach(cut.worker.tick)
          while (world.stage.submissions.length < ids.length) yield* Time.calm

          store.isOn = true
          for (let turn = 0; turn < ids.length; turn++) yield* Effect.andThen(open(1), Time.adjust("1 second"))
          const mailed = () => atTurn.filter((one) => one === "mailed").length
          assert.ok(mailed() >= 16 && mailed() <= 19, `${mailed()} were mailed`)
          assert.equal(atTurn.length, ids.length)
          store.end()
          yield* Effect.andThen(Time.calm, cut.worker.recordTaken)
          assert.notEqual(ticking.pollUnsafe(), undefined)
          yield* open(ids.length)
          yield* pass(other, "5 minutes")
          for (const id of ids) assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
          assert.equal(mailed(), ids.length)
        })
      )
    ),

    scenario("mail that was handed over while the store was away is recorded by who did it, before another process mails it again", (world) =>
      Effect.gen(function* () {
        const { one, other, status } = yield* handedOver(world)

        yield* passApart(one, other)

        assert.deepEqual([world.stage.submissions.length, yield* status], [1, "sent"])
      })
    ),

    scenario("mail that is recorded while its own process looks at it once more is not mailed again", (world) =>
      Effect.gen(function* () {
        const store = new Meanwhile()
        const { one, status } = yield* handedOver(world, store)
        store.play = one.worker.recordTaken
        yield* Time.leap("2 minutes")

        yield* one.worker.tick

        assert.deepEqual([world.stage.submissions.length, yield* status], [1, "sent"])
      })
    ),

    scenario("an emptied queue leaves who has handed mail over the time to record it", (world) =>
      Effect.gen(function* () {
        const { one, other, status } = yield* handedOver(world)
        world.stage.queueEpoch += 1

        yield* passApart(one, other)

        assert.deepEqual([world.stage.submissions.length, yield* status], [1, "sent"])
      })
    ),

    scenario("mail whose process has ended before it was recorded is mailed again by another, from an emptied queue too", (world) =>
      Effect.gen(function* () {
        const { other, status } = yield* handedOver(world)
        world.stage.queueEpoch += 1

        yield* pass(other, "40 seconds", "1 second")

        assert.deepEqual([world.stage.submissions.length, yield* status], [2, "sent"])
      })
    )
  ]
}
