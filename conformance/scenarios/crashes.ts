/**
 * A crash at every step there is: each call of a port, before it and after it
 * has taken effect. What was accepted comes to its end, what was not leaves
 * nothing, and nothing is submitted more often than the crash explains.
 */
import { Duration, Effect, Exit, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as assert from "node:assert/strict"
import { MailProviderUnavailable } from "../../core/ports/MailProvider.ts"
import { address } from "../fixtures.ts"
import { Faults } from "./Faults.ts"
import { accepted, letter, logOf, messageOf, pass, scenario, settle, someKey, typesOf, type ScenarioSuite, type World } from "./World.ts"

const callsMax = 200

/** Plays a crash at the 1st, 2nd, 3rd … call, until the play comes to its end without one; how many there were. */
const atEachCall = (
  play: (crash: { readonly faults: Faults; readonly label: string }) => Effect.Effect<void, unknown>,
  moments: ReadonlyArray<"before" | "after"> = ["before", "after"]
) =>
  Effect.gen(function* () {
    let crashes = 0
    for (const moment of moments) {
      for (let call = 1; ; call++) {
        assert.ok(call < callsMax, "the play makes calls without end")
        const faults = new Faults(call, moment)
        yield* play({ faults, label: `${moment} call ${call}` })
        if (faults.crashed === null) break
        crashes += 1
      }
    }
    return crashes
  })

/** Long enough for leases to run out and every retry of the plays below to come. */
const recovery = "10 minutes"

const attachmentBytes = Stream.make(new TextEncoder().encode("the engine weaves"))

/** Uploads, sends and works in a process that crashes; then another takes over. */
const sendThroughCrash = (world: World, faults: Faults, environment: "sandbox" | "production") =>
  Effect.gen(function* () {
    const tenancy = yield* world.found(environment)
    const doomed = yield* world.boot(faults)
    const key = someKey()
    const whole = Effect.gen(function* () {
      const attachment = yield* doomed.attachments.upload(
        tenancy.principal,
        { mailboxId: tenancy.mailbox.id, filename: "notes.txt", mediaType: "text/plain" },
        attachmentBytes
      )
      const input = letter(tenancy, address("delivered"), { attachmentIds: [attachment.id] })
      const sent = yield* doomed.messages.send(tenancy.principal, key, input)
      return { input, id: sent.message.id }
    })
    const exit = yield* Effect.exit(whole)
    if (Exit.isSuccess(exit)) {
      for (let tick = 0; tick < 10; tick++) yield* Effect.exit(doomed.worker.tick)
      yield* TestClock.adjust("1 second")
      for (let tick = 0; tick < 5; tick++) yield* Effect.exit(doomed.worker.tick)
    }
    const heir = yield* world.boot()
    yield* pass(heir, recovery, "30 seconds")
    return { tenancy, heir, key, answer: Exit.isSuccess(exit) ? exit.value : null }
  })

export const suite: ScenarioSuite = {
  name: "crash and resume",
  checks: [
    scenario("what was acknowledged is delivered, wherever the process crashes", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const { tenancy, answer } = yield* sendThroughCrash(world, faults, "sandbox")
            if (answer === null) return
            const message = yield* messageOf(world, tenancy, answer.id)
            assert.equal(message.status, "delivered", label)
            assert.deepEqual(
              typesOf(yield* logOf(world, tenancy, answer.id)),
              ["message.queued", "message.sent", "message.delivered"],
              label
            )
          })
        )
        assert.ok(crashes >= 30, `${crashes} crashes were played`)
      })
    ),

    scenario("what was not acknowledged is whole or absent, and the same key then makes one message", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const tenancy = yield* world.found()
            const doomed = yield* world.boot(faults)
            const key = someKey()
            const input = letter(tenancy, address("ada"))
            const exit = yield* Effect.exit(doomed.messages.send(tenancy.principal, key, input))

            const heir = yield* world.boot()
            const before = yield* heir.messages.list(tenancy.principal, { limit: 100, cursor: null, mailboxId: null })
            const again = yield* heir.messages.send(tenancy.principal, key, input)
            const after = yield* heir.messages.list(tenancy.principal, { limit: 100, cursor: null, mailboxId: null })

            assert.equal(after.items.length, 1, label)
            assert.equal(again.replayed, before.items.length === 1, label)
            if (Exit.isSuccess(exit)) assert.equal(again.message.id, exit.value.message.id, label)
            assert.deepEqual(typesOf(yield* logOf(world, tenancy)), ["message.queued"], label)
          })
        )
        assert.ok(crashes >= 8, `${crashes} crashes were played`)
      })
    ),

    scenario("a commit whose answer is lost is read again: the sender gets its 202, and there is one message", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const unlucky = yield* world.boot(new Faults(1, "lost answer"))
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]

        const first = yield* unlucky.messages.send(tenancy.principal, key, input)
        const again = yield* unlucky.messages.send(tenancy.principal, key, input)
        yield* pass(unlucky, "1 minute")

        assert.deepEqual([first.replayed, again.replayed], [false, true])
        assert.equal(again.message.id, first.message.id)
        assert.equal((yield* messageOf(world, tenancy, first.message.id)).status, "sent")
      })
    ),

    scenario("a message is submitted at most once more for a crash, with the same bytes, and never after its end", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            world.stage.submissions.length = 0
            const { tenancy, answer } = yield* sendThroughCrash(world, faults, "production")
            if (answer === null) return assert.equal(world.stage.submissions.length <= 1, true, label)
            const submissions = world.stage.submissions.filter(({ request }) => request.messageId === answer.id)
            const bytes = new Set(submissions.map((one) => Buffer.from(one.bytes).toString("base64")))
            const allowed = faults.crashed === null ? 1 : 2
            assert.ok(submissions.length >= 1 && submissions.length <= allowed, `${label}: ${submissions.length} submissions`)
            assert.equal(bytes.size, 1, label)
            const count = world.stage.submissions.length
            const heir = yield* world.boot()
            yield* pass(heir, recovery, "1 minute")
            assert.equal(world.stage.submissions.length, count, `${label}: submitted after its end`)
            assert.equal((yield* messageOf(world, tenancy, answer.id)).status, "sent", label)
          })
        )
        assert.ok(crashes >= 20, `${crashes} crashes were played`)
      })
    ),

    scenario("a crash between retries loses no retry", (world) =>
      Effect.gen(function* () {
        world.stage.behave = (request, nth) =>
          nth < 3 ? Effect.fail(new MailProviderUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))
        yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const { tenancy, answer } = yield* sendThroughCrash(world, faults, "production")
            if (answer === null) return
            const heir = yield* world.boot()
            yield* pass(heir, "30 minutes", "1 minute")
            assert.equal((yield* messageOf(world, tenancy, answer.id)).status, "sent", label)
          })
        , ["after"])
      })
    ),

    scenario("a queue that forgot everything is filled again from the store", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const first = yield* world.boot()
        const ids = yield* Effect.forEach([1, 2, 3], () =>
          Effect.map(first.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada"))), ({ message }) => message.id)
        )
        let taken = yield* world.queue.claim({ limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 100 })
        while (taken.length > 0) {
          yield* Effect.forEach(taken, (lease) => Effect.ignore(world.queue.complete(lease)))
          taken = yield* world.queue.claim({ limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 100 })
        }

        const heir = yield* world.boot()
        yield* heir.sweep.tick
        yield* settle(heir)

        for (const id of ids) assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
      })
    ),

    scenario("a clock that jumps a day either way loses nothing", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        yield* TestClock.setTime(30 * 86_400_000)
        world.stage.behave = (request, nth) =>
          nth < 3 ? Effect.fail(new MailProviderUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))
        const send = Effect.suspend(() =>
          Effect.map(process.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada"))), ({ message }) => message.id)
        )

        const first = yield* send
        yield* settle(process)
        yield* TestClock.setTime(31 * 86_400_000)
        const second = yield* send
        yield* settle(process)
        yield* TestClock.setTime(30 * 86_400_000)
        const third = yield* send
        yield* pass(process, "2 days", "10 minutes")

        for (const id of [first, second, third]) assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        const { items } = yield* process.messages.list(tenancy.principal, { limit: 100, cursor: null, mailboxId: null })
        assert.deepEqual(items.map(({ id }) => id), [third, second, first], "listed in the order of their commits")
      })
    )
  ]
}
