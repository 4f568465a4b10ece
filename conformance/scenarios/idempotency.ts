/** One key, one message: in races, in other processes, over a day, and never across applications. */
import { Deferred, Effect, Exit, Fiber, Result, Scheduler } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import type { Sent } from "../../core/operations/Sending.ts"
import { address, freshId } from "../fixtures.ts"
import { Ahead, Turns } from "./Faults.ts"
import * as Time from "./Time.ts"
import { healthyChecks, letter, logOf, scenario, someKey, typesOf, type Process, type ScenarioSuite, type Tenancy } from "./World.ts"

const listed = (process: Process, of: Tenancy) =>
  Effect.map(process.messages.list(of.principal, { limit: 100, cursor: null, mailboxId: null }), ({ items }) => items)

export const suite: ScenarioSuite = {
  name: "idempotent sending",
  checks: [
    scenario("a repeated request gets the same id, marked as replayed", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]

        const first = yield* process.messages.send(tenancy.principal, key, input)
        const second = yield* process.messages.send(tenancy.principal, key, input)

        assert.deepEqual([first.replayed, second.replayed], [false, true])
        assert.deepEqual(second.message, first.message)
        assert.equal((yield* listed(process, tenancy)).length, 1)
      })
    ),

    scenario("another request under the same key is a conflict, and changes nothing", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const key = someKey()
        yield* process.messages.send(tenancy.principal, key, letter(tenancy, address("ada")))

        const error = yield* Effect.flip(process.messages.send(tenancy.principal, key, letter(tenancy, address("bob"))))

        assert.equal(error._tag, "IdempotencyConflict")
        assert.equal((yield* listed(process, tenancy)).length, 1)
      })
    ),

    scenario("of twins in one process one sends, and the others are told that it is pending, or get its replay", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot(new Turns())
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]

        const results = yield* Effect.all(
          Array.from({ length: 30 }, () => Effect.result(process.messages.send(tenancy.principal, key, input))),
          { concurrency: "unbounded" }
        )

        const sent = results.flatMap((result): ReadonlyArray<Sent> => (Result.isSuccess(result) ? [result.success] : []))
        const refused = results.flatMap((result) => (Result.isFailure(result) ? [result.failure._tag] : []))
        assert.equal(sent.filter(({ replayed }) => !replayed).length, 1)
        assert.equal(new Set(sent.map(({ message }) => message.id)).size, 1)
        assert.ok(refused.length > 0 && refused.every((tag) => tag === "IdempotencyPending"))
        assert.equal((yield* listed(process, tenancy)).length, 1)
      })
    ),

    scenario("repeats that come together behind a send that ended each get its replay, whatever comes with its key among them", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot(new Turns())
        const [key, input, other] = [someKey(), letter(tenancy, address("ada")), letter(tenancy, address("bob"))]
        const { message } = yield* process.messages.send(tenancy.principal, key, input)

        const results = yield* Effect.all(
          Array.from({ length: 30 }, (_, index) => Effect.result(process.messages.send(tenancy.principal, key, index % 3 === 0 ? other : input))),
          { concurrency: "unbounded" }
        )

        results.forEach((result, index) => {
          const told = Result.isSuccess(result) ? result.success : result.failure._tag
          assert.deepEqual(told, index % 3 === 0 ? "IdempotencyConflict" : { message, replayed: true })
        })
        assert.equal((yield* listed(process, tenancy)).length, 1)
      })
    ),

    scenario("a key is free wherever its sender hangs up", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const once = process.messages.send(tenancy.principal, key, input)
        // A fiber stands still after so many steps: here at each of its first ones once.
        for (let steps = 2; steps <= 100; steps++) {
          const leaving = Effect.provideService(once, Scheduler.MaxOpsBeforeYield, steps)
          yield* Fiber.interrupt(yield* Effect.forkChild(leaving, { startImmediately: true }))
        }

        yield* once
        assert.equal((yield* listed(process, tenancy)).length, 1)
      })
    ),

    scenario("a different twin that meets the first one running is a conflict at once", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const key = someKey()

        const results = yield* Effect.all(
          [address("ada"), address("bob")].map((to) => Effect.result(process.messages.send(tenancy.principal, key, letter(tenancy, to)))),
          { concurrency: "unbounded" }
        )

        const tags = results.map((result) => (Result.isFailure(result) ? result.failure._tag : "sent"))
        assert.deepEqual(tags.toSorted(), ["IdempotencyConflict", "sent"])
      })
    ),

    scenario("twins in several processes make one message, and each is told its id", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const processes = yield* Effect.forEach(Array.from({ length: 8 }), () => world.boot())
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]

        const sent = yield* Effect.all(
          processes.map((process) => process.messages.send(tenancy.principal, key, input)),
          { concurrency: "unbounded" }
        )

        assert.equal(new Set(sent.map(({ message }) => message.id)).size, 1)
        assert.equal(sent.filter(({ replayed }) => !replayed).length, 1)
        assert.deepEqual(typesOf(yield* logOf(world, tenancy)), ["message.queued"])
      })
    ),

    scenario("different twins in several processes make one message, and the others are conflicts", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const processes = yield* Effect.forEach(Array.from({ length: 8 }), () => world.boot())
        const key = someKey()

        const results = yield* Effect.all(
          processes.map((process, index) =>
            Effect.result(process.messages.send(tenancy.principal, key, letter(tenancy, address(`ada${index}`))))
          ),
          { concurrency: "unbounded" }
        )

        const tags = results.map((result) => (Result.isFailure(result) ? result.failure._tag : "sent"))
        assert.deepEqual(tags.filter((tag) => tag === "sent").length, 1)
        assert.ok(tags.every((tag) => tag === "sent" || tag === "IdempotencyConflict"))
        assert.equal((yield* listed(processes[0]!, tenancy)).length, 1)
      })
    ),

    scenario("a key is free again after 24 hours and not before, by the clock of the caller's process", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const first = yield* process.messages.send(tenancy.principal, key, input)

        yield* Time.adjust("23 hours")
        yield* Time.adjust("59 minutes")
        yield* process.sweep.retain
        const held = yield* process.messages.send(tenancy.principal, key, input)
        yield* Time.adjust("1 minute")
        const free = yield* process.messages.send(tenancy.principal, key, letter(tenancy, address("bob")))

        assert.equal(held.message.id, first.message.id)
        assert.equal(free.replayed, false)
        assert.notEqual(free.message.id, first.message.id)
      })
    ),

    scenario("a key that expires and is taken again between a commit and its look-up stands for what took it last", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const other = yield* world.boot()
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const taken: Array<Sent> = []
        const take = Effect.gen(function* () {
          taken.push(yield* other.messages.send(tenancy.principal, key, input))
          if (taken.length === 1) yield* Time.adjust("24 hours")
        })
        const process = yield* world.boot(new Ahead("Store.commit", Effect.orDie(take)))

        const sent = yield* process.messages.send(tenancy.principal, key, input)

        assert.deepEqual(taken.map(({ replayed }) => replayed), [false, false])
        assert.deepEqual(sent, { message: taken[1]!.message, replayed: true })
        assert.equal((yield* listed(other, tenancy)).length, 2)
      })
    ),

    scenario("a key that is taken at every commit and held at no look-up is pending, and nothing is sent for it", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const other = yield* world.boot()
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const taken: Array<Sent> = []
        const take = Effect.gen(function* () {
          taken.push(yield* other.messages.send(tenancy.principal, key, input))
          yield* Time.adjust("24 hours")
        })
        const process = yield* world.boot(new Ahead("Store.commit", Effect.orDie(take)))

        const error = yield* Effect.flip(process.messages.send(tenancy.principal, key, input))

        assert.equal(error._tag, "IdempotencyPending")
        const ids = taken.map(({ message }) => message.id)
        assert.deepEqual((yield* listed(other, tenancy)).map(({ id }) => id), ids.toReversed())
      })
    ),

    scenario("equal keys of other tenants, applications and environments do not meet", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const others = [
          yield* world.found("production"),
          yield* world.foundApplication(tenancy, "production"),
          yield* world.foundApplication(tenancy, "sandbox")
        ]
        const process = yield* world.boot()
        const key = someKey()

        const sent = yield* Effect.forEach([tenancy, ...others], (of) =>
          process.messages.send(of.principal, key, letter(of, address("ada")))
        )

        assert.equal(new Set(sent.map(({ message }) => message.id)).size, 4)
        assert.ok(sent.every(({ replayed }) => !replayed))
      })
    ),

    scenario("equal keys of two tenants at once do not meet", (world) =>
      Effect.gen(function* () {
        const [one, other] = [yield* world.found(), yield* world.found()]
        const gate = yield* Deferred.make<void>()
        let isHeld = false
        const hold = Effect.suspend(() => {
          if (isHeld) return Effect.void
          isHeld = true
          return Deferred.await(gate)
        })
        const process = yield* world.boot(new Ahead("Store.commit", hold))
        const key = someKey()
        const first = yield* Effect.forkChild(process.messages.send(one.principal, key, letter(one, address("ada"))))
        yield* Time.until(() => isHeld)

        const sending = process.messages.send(other.principal, key, letter(other, address("ada")))
        const second = yield* Effect.ensuring(sending, Deferred.succeed(gate, undefined))

        assert.deepEqual([(yield* Fiber.join(first)).replayed, second.replayed], [false, false])
      })
    ),

    scenario("a refused request leaves its key free, and leaves nothing else", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const key = someKey()
        const { tenantId } = tenancy.realm
        const refusals: Array<string> = []
        const refused = (input: ReturnType<typeof letter>, principal = tenancy.principal) =>
          Effect.map(Effect.flip(process.messages.send(principal, key, input)), ({ _tag }) => void refusals.push(_tag))

        yield* refused(letter(tenancy, address("ada"), { fromMailboxId: freshId() }))
        yield* refused(letter(tenancy, address("ada"), { attachmentIds: [freshId()] }))
        yield* process.management.updateMailbox(system, tenantId, tenancy.mailbox.id, { status: "suspended" })
        yield* refused(letter(tenancy, address("ada")))
        yield* process.management.updateMailbox(system, tenantId, tenancy.mailbox.id, { status: "active" })
        yield* process.management.setDomainSuspended(system, tenantId, tenancy.mailbox.domainId, true)
        yield* refused(letter(tenancy, address("ada")))
        yield* process.management.setDomainSuspended(system, tenantId, tenancy.mailbox.domainId, false)
        yield* process.management.recordChecks(tenantId, tenancy.mailbox.domainId, healthyChecks)
        const poor = { ...tenancy.principal, plan: { ...tenancy.principal.plan, recipientsPerDay: 1 } }
        yield* refused(letter(tenancy, [address("ada"), address("bob")]), poor)

        assert.deepEqual(refusals, ["NotFound", "NotFound", "MailboxSuspended", "DomainNotSendable", "QuotaExceeded"])
        assert.deepEqual(yield* listed(process, tenancy), [])
        assert.deepEqual(yield* logOf(world, tenancy), [])
        const sent = yield* process.messages.send(poor, key, letter(tenancy, address("ada")))
        assert.equal(sent.replayed, false, "neither the key nor the day's quota was held")
      })
    ),

    scenario("a replay is answered before any check of state", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const first = yield* process.messages.send(tenancy.principal, key, input)

        yield* process.management.updateMailbox(system, tenancy.realm.tenantId, tenancy.mailbox.id, { status: "suspended" })
        const replay = yield* Effect.exit(process.messages.send(tenancy.principal, key, input))

        assert.ok(Exit.isSuccess(replay) && replay.value.message.id === first.message.id)
      })
    )
  ]
}
