/**
 * A crash at every step there is: each call of a port, before it and after it
 * has taken effect. What was accepted comes to its end, what was not leaves
 * nothing, and nothing is submitted more often than the crash explains.
 */
import { Clock, Duration, Effect, Exit, Fiber, Latch, Redacted, Stream } from "effect"
import * as assert from "node:assert/strict"
import { visibilityTimeout } from "../../core/jobs/Lanes.ts"
import { system } from "../../core/model/Audit.ts"
import * as Endpoint from "../../core/model/Endpoint.ts"
import { commit } from "../../core/operations/Commit.ts"
import { submitJob } from "../../core/operations/Sending.ts"
import { jobKinds, jobOf } from "../../core/ports/JobQueue.ts"
import { MailProviderUnavailable } from "../../core/ports/MailProvider.ts"
import { address, freshId } from "../fixtures.ts"
import { atEachCall, Behind, CommitFaults, Faults, once, toRest } from "./Faults.ts"
import { acquaint, happenOften } from "./QuickReceivers.ts"
import { broken, deliveriesTo, deliveryTo, endpointOf, happen, hook, ok, outcomesOf, postsTo, relayAll, replay, respond } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { accepted, letter, logOf, messageOf, pass, scenario, send, settle, someKey, typesOf, upload, type ScenarioSuite, type World } from "./World.ts"

/** Long enough for leases to run out and every retry of the plays below to come. */
const recovery = "10 minutes"

/** Uploads, sends and works in a process that crashes; then another takes over. */
const sendThroughCrash = (world: World, faults: Faults, environment: "sandbox" | "production") =>
  Effect.gen(function* () {
    const tenancy = yield* world.found(environment)
    const doomed = yield* world.boot(faults)
    const key = someKey()
    const whole = Effect.gen(function* () {
      const attachment = yield* upload(doomed, tenancy)
      const input = letter(tenancy, address("delivered"), { attachmentIds: [attachment.id] })
      const sent = yield* doomed.messages.send(tenancy.principal, key, input)
      return { input, id: sent.message.id }
    })
    const exit = yield* Effect.exit(whole)
    if (Exit.isSuccess(exit)) {
      yield* toRest(doomed)
      yield* Time.adjust("1 second")
      yield* toRest(doomed)
    }
    const heir = yield* world.boot()
    yield* pass(heir, recovery, "2 minutes")
    return { tenancy, heir, key, answer: Exit.isSuccess(exit) ? exit.value : null }
  })

/** Has an event's delivery made in a process that crashes, and taken on by others; `answers` to the 1st, 2nd … attempt. */
const deliverThroughCrash = (world: World, faults: Faults, answers: ReadonlyArray<typeof ok>) =>
  Effect.gen(function* () {
    const calm = yield* world.boot()
    const of = yield* world.found()
    const to = yield* hook(calm, of)
    const backoff = { deliveryBackoff: [50_000] }
    // What a receiver says depends on how far the delivery is, not on how often it was asked.
    respond(world, () =>
      Effect.flatMap(deliveryTo(world, to).pipe(Effect.orDie), ({ attempts }) => answers[Math.min(attempts.length, answers.length - 1)]!)
    )
    yield* happen(calm, of)
    yield* calm.worker.tick // the message is submitted
    yield* calm.relay.tick
    const doomed = yield* world.boot(faults, backoff)
    yield* toRest(doomed)
    const heir = yield* world.boot(undefined, backoff)
    yield* pass(heir, "12 minutes", "1 minute")
    return { to, delivery: yield* deliveryTo(world, to), posts: postsTo(world, to) }
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
        assert.ok(crashes >= 4, `${crashes} crashes were played`)
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

    scenario("a message whose sender hangs up between its commit and the answer goes at once, and waits for no sweep", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const [landed, go] = [yield* Latch.make(), yield* Latch.make()]
        const process = yield* world.boot(new Behind("Store.commit", once(Effect.andThen(landed.open, go.await))))
        const sending = yield* Effect.forkChild(send(process, of, address("bob")))
        yield* landed.await

        const hangingUp = yield* Effect.forkChild(Fiber.interrupt(sending), { startImmediately: true })
        yield* go.open
        yield* Fiber.join(hangingUp)
        yield* settle(process)

        const { items } = yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: null })
        assert.deepEqual(items.map(({ status }) => status), ["sent"])
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
            const { mime } = yield* messageOf(world, tenancy, answer.id)
            const stored = yield* Stream.mkUint8Array(world.blobs.read(tenancy.realm.tenantId, mime!))
            assert.ok(Buffer.from(stored).equals(Buffer.from(submissions[0]!.bytes)), `${label}: what was sent is not what is stored`)
            const count = world.stage.submissions.length
            const heir = yield* world.boot()
            yield* pass(heir, recovery, "2 minutes")
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
            yield* pass(heir, "15 minutes", "2 minutes")
            assert.equal((yield* messageOf(world, tenancy, answer.id)).status, "sent", label)
          })
        , ["after"])
      })
    ),

    scenario("an event is fanned out once to each endpoint, wherever the process that relays it crashes, and another goes on in seconds", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const [calm, doomed, heir] = [yield* world.boot(), yield* world.boot(faults), yield* world.boot()]
            const of = yield* world.found()
            const hooks = [yield* hook(calm, of), yield* hook(calm, of)]
            yield* happen(calm, of)
            yield* happen(calm, of)
            for (let tick = 0; tick < 3; tick++) yield* Effect.exit(doomed.relay.tick)
            yield* Time.adjust("5 seconds")
            yield* heir.relay.tick

            const events = (yield* logOf(world, of)).filter(({ type }) => type === "message.queued").map(({ id }) => id)
            for (const to of hooks) {
              assert.deepEqual((yield* deliveriesTo(world, to)).map(({ eventId }) => eventId).toSorted(), events.toSorted(), label)
            }
            yield* pass(heir, "1 minute")
            for (const to of hooks) {
              assert.deepEqual((yield* deliveriesTo(world, to)).map(({ status }) => status), ["delivered", "delivered"], label)
              assert.equal(postsTo(world, to).length, 2, label)
            }
          })
        , ["before", "after", "lost answer"])
        assert.ok(crashes >= 10, `${crashes} crashes were played`)
      })
    ),

    ...(
      [
        ["delivered at once", [ok], "delivered", ["success"], 0],
        ["delivered after a failure", [broken, ok], "delivered", ["http_error", "success"], 0],
        ["never delivered", [broken], "dead", Array.from({ length: 5 }, () => "http_error"), 5]
      ] as const
    ).map(([what, answers, status, outcomes, failures]) =>
      scenario(`a delivery that is ${what} is asked at most once more for a crash, and each attempt is recorded and counted once`, (world) =>
        Effect.gen(function* () {
          const crashes = yield* atEachCall(({ faults, label }) =>
            Effect.gen(function* () {
              const { to, delivery, posts } = yield* deliverThroughCrash(world, faults, answers)
              assert.equal(delivery.status, status, label)
              assert.deepEqual(outcomesOf(delivery), outcomes, label)
              assert.equal((yield* endpointOf(world, to)).consecutiveFailures, failures, label)
              const allowed = outcomes.length + (faults.crashed === null ? 0 : 1)
              assert.ok(posts.length >= outcomes.length && posts.length <= allowed, `${label}: ${posts.length} requests`)
              assert.equal(new Set(posts.map(({ text }) => text)).size, 1, label)
            })
          , ["before", "after", "lost answer"])
          assert.ok(crashes >= 15, `${crashes} crashes were played`)
        })
      )
    ),

    scenario("a replay is whole or absent, wherever the process crashes, and can be asked for again", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const [heir, doomed] = [yield* world.boot(), yield* world.boot(faults)]
            const of = yield* world.found()
            const to = yield* hook(heir, of)
            yield* Time.adjust("6 seconds")
            yield* acquaint(heir, of)
            yield* happenOften(heir, of, 1)
            yield* heir.relay.tick
            const last = Effect.map(deliveriesTo(world, to), (found) => found.at(-1)!)
            const delivered = yield* last
            assert.equal(yield* world.store.deliveries.body(of.realm, delivered.id), null, label)

            const exit = yield* Effect.exit(replay(doomed, of, delivered))
            const between = yield* last
            if (Exit.isSuccess(exit)) assert.deepEqual([between.status, between.round], ["pending", 2], label)
            else if (between.status === "delivered") yield* replay(heir, of, delivered)
            yield* pass(heir, "1 minute")

            const { status, round, attempts } = yield* last
            assert.deepEqual([status, round, attempts.length], ["delivered", 2, 2], label)
            assert.equal(new Set(postsTo(world, to).slice(1).map(({ text }) => text)).size, 1, label)
          })
        , ["before", "after", "lost answer"])
        assert.ok(crashes >= 10, `${crashes} crashes were played`)
      })
    ),

    scenario("what a crash left of the replays is made up for by asking again, and each batch is audited", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of)
        yield* Effect.forEach(Array.from({ length: 510 }), () => happen(process, of), { discard: true })
        yield* relayAll(process)
        respond(world, () => broken)
        yield* pass(process, "5 minutes", "1 minute")
        const { disabledAt } = yield* endpointOf(world, to)
        const refused = process.webhookManagement.replayDead(system, of.realm.tenantId, to.endpoint.id, 0)
        assert.equal((yield* Effect.flip(refused))._tag, "EndpointDisabled", "nothing goes to who is disabled")
        const replayDead = process.webhookManagement.replayDead(system, of.realm.tenantId, to.endpoint.id, disabledAt!)
        respond(world, () => ok)
        const dying = yield* world.boot(new CommitFaults(2, "before"))

        yield* Effect.exit(dying.webhookManagement.enableEndpoint(system, of.realm.tenantId, to.endpoint.id, { replayDead: true }))
        const left = (yield* deliveriesTo(world, to)).filter(({ status }) => status === "dead").length
        const [replayed, again] = [yield* replayDead, yield* replayDead]
        yield* settle(process)

        assert.deepEqual([left, replayed, again], [10, 10, 0], "the first batch came with the enabling")
        assert.ok((yield* deliveriesTo(world, to)).every(({ status, round }) => status === "delivered" && round === 2))
        const entries = yield* world.store.audit.page(of.realm.tenantId, 1_000)
        assert.equal(entries.filter(({ action }) => action === "webhook_endpoint.replay").length, 2)
      })
    ),

    scenario("an endpoint whose commit lost its answer is created all the same, and its secret told", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(new Faults(1, "lost answer"))
        const input = { url: "https://hooks.example.com/", description: null, eventTypes: ["*"] }

        const { endpoint, secret } = yield* process.webhooks.createEndpoint(of.principal, input)

        const stored = yield* world.store.endpoints.get(of.realm, endpoint.id)
        assert.ok(stored !== null)
        const opened = yield* world.crypto.open(stored.secret, Endpoint.sealContext(stored))
        assert.equal(Redacted.value(opened), Redacted.value(secret))
      })
    ),

    scenario("an endpoint is whole or absent, wherever the process that creates it crashes", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const doomed = yield* world.boot(faults)
            const of = yield* world.found()
            const exit = yield* Effect.exit(hook(doomed, of))

            const heir = yield* world.boot()
            const { items } = yield* heir.webhooks.listEndpoints(of.principal)
            const audited = (yield* world.store.audit.page(of.realm.tenantId, 100)).filter(({ action }) => action === "webhook_endpoint.create")

            assert.deepEqual(items.map(({ id }) => id), audited.map(({ subject }) => subject.id), label)
            if (Exit.isSuccess(exit)) assert.deepEqual(items, [exit.value.endpoint], label)
          })
        , ["before", "after", "lost answer"])
        assert.ok(crashes >= 4, `${crashes} crashes were played`)
      })
    ),

    scenario("a queue that forgot everything is filled again from the store", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const first = yield* world.boot()
        const ids = yield* Effect.forEach([1, 2, 3], () =>
          Effect.map(first.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada"))), ({ message }) => message.id)
        )
        let taken = yield* world.queue.claim({ kinds: jobKinds, limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 100 })
        while (taken.length > 0) {
          yield* Effect.forEach(taken, (lease) => Effect.ignore(world.queue.complete(lease)))
          taken = yield* world.queue.claim({ kinds: jobKinds, limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 100 })
        }

        const heir = yield* world.boot()
        yield* heir.sweep.tick
        yield* settle(heir)

        for (const id of ids) assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
      })
    ),

    scenario("a job that a commit both ends and offers is there behind its end, for the earliest time that it was offered for", (world) =>
      Effect.gen(function* () {
        const { realm } = yield* world.found()
        const now = yield* Clock.currentTimeMillis
        const job = jobOf("poll", { ...realm, id: freshId() }, now)
        const taking = Effect.map(
          world.queue.claim({ kinds: ["poll"], limit: 100, visibilityTimeout: Duration.minutes(1), inFlightMax: 100 }),
          (taken) => taken.filter((lease) => lease.job.subject === job.subject)
        )
        for (const [meanwhile, offered, left] of [[null, 3, 3], [5, 3, 3], [2, 3, 2]] as const) {
          yield* world.queue.offer([job])
          const [lease] = yield* taking
          if (meanwhile !== null) yield* world.queue.offer([{ ...job, dueAt: now + meanwhile }])

          const { leaseEnded } = yield* commit(world.store, world.queue, [], [{ ...job, dueAt: now + offered }], lease!)
          if (!leaseEnded) yield* world.queue.complete(lease!)

          yield* Time.adjust("5 millis")
          const taken = yield* taking
          assert.deepEqual(taken.map((one) => [one.job.dueAt - now, one.claims]), [[left, 1]])
          yield* world.queue.complete(taken[0]!)
        }
      })
    ),

    scenario("what a process took whose clock was a day ahead, and that crashed, is done by another within a minute", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        yield* process.sweep.tick // what follows has nothing to do with an emptied queue
        const { message } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada")))
        const taking = world.queue.claim({ kinds: ["submit"], limit: 1, visibilityTimeout, inFlightMax: 100 })
        const taken = yield* Time.ahead(86_400_000)(taking)
        assert.deepEqual(taken.map(({ job }) => job.subject), [message.id])

        yield* pass(process, "1 minute")

        assert.equal((yield* messageOf(world, tenancy, message.id)).status, "sent")
      })
    ),

    scenario("a clock that jumps a day either way loses nothing", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        yield* Time.setTime(30 * 86_400_000)
        world.stage.behave = (request, nth) =>
          nth < 3 ? Effect.fail(new MailProviderUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))
        const send = Effect.suspend(() =>
          Effect.map(process.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada"))), ({ message }) => message.id)
        )

        const first = yield* send
        yield* settle(process)
        yield* Time.setTime(31 * 86_400_000)
        const second = yield* send
        yield* settle(process)
        yield* Time.setTime(30 * 86_400_000)
        const third = yield* send
        yield* pass(process, "2 days", "10 minutes")

        for (const id of [first, second, third]) assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        const { items } = yield* process.messages.list(tenancy.principal, { limit: 100, cursor: null, mailboxId: null })
        assert.deepEqual(items.map(({ id }) => id), [third, second, first], "listed in the order of their commits")
      })
    ),

    scenario("a job that comes before its message is due, or when it is done, submits nothing and changes nothing", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request, nth) => (nth === 1 ? Effect.fail(new MailProviderUnavailable({ cause: "away" })) : Effect.succeed(accepted(request)))
        const id = yield* send(process, tenancy, address("ada"))
        yield* settle(process)
        const offerNow = Effect.flatMap(messageOf(world, tenancy, id), (message) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => world.queue.offer([submitJob(message, now)]))
        )
        const changedBy = Effect.fnUntraced(function* (effect: Effect.Effect<void, unknown>) {
          const before = yield* messageOf(world, tenancy, id)
          yield* effect
          return (yield* messageOf(world, tenancy, id)).version - before.version
        })

        const early = Effect.andThen(offerNow, settle(process))
        assert.deepEqual([yield* changedBy(early), world.stage.submissions.length], [0, 1])
        const { nextAttemptAt } = yield* messageOf(world, tenancy, id)
        yield* Time.setTime(nextAttemptAt!) // it is tried again
        yield* settle(process)
        assert.deepEqual([(yield* messageOf(world, tenancy, id)).status, world.stage.submissions.length], ["sent", 2], "without a sweep")

        assert.deepEqual([yield* changedBy(early), world.stage.submissions.length], [0, 2])
      })
    )
  ]
}
