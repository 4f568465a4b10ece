/** What a look at a message comes to that is not to be tried, or not for all. */
import { Clock, Deferred, Duration, Effect, Layer } from "effect"
import * as assert from "node:assert/strict"
import * as Memory from "../../adapters/memory/index.ts"
import { address } from "../../conformance/fixtures.ts"
import { NoCommits } from "../../conformance/scenarios/Faults.ts"
import * as Time from "../../conformance/scenarios/Time.ts"
import { accepted, loggedTo, messageOf, pass, scenario, send, settle, upload, type Process, type Tenancy, type World } from "../../conformance/scenarios/World.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import { system } from "../model/Audit.ts"
import type { MessageId } from "../model/Ids.ts"
import { submitJob } from "../operations/Sending.ts"
import type { Lease } from "../ports/JobQueue.ts"
import { MailProviderUnavailable, SubmissionRefused } from "../ports/MailProvider.ts"
import { Store } from "../ports/Store.ts"

const memory = Layer.mergeAll(Memory.MemoryStore.layer, Memory.MemoryJobQueue.layer, Memory.MemoryBlobStore.layer, Memory.MemoryRateLimiter.layer)

const [ada, bob] = [address("ada"), address("bob")]

/** Notes the leases that the queue has handed out. */
class Claims extends NoCommits {
  readonly leases: Array<Lease> = []

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const noted = (leases: A) => Effect.sync(() => void this.leases.push(...(leases as ReadonlyArray<Lease>))) // of a claim
    return call === "JobQueue.claim" ? Effect.tap(effect, noted) : effect
  }
}

/** Its job comes, whether or not it is due. */
const comes = (world: World, of: Tenancy, id: MessageId) =>
  Effect.gen(function* () {
    yield* world.queue.offer([submitJob(yield* messageOf(world, of, id), yield* Clock.currentTimeMillis)])
  })

const suppress = (process: Process, { realm }: Tenancy) => process.management.addSuppression(system, realm, ada)

const statusesOf = (world: World, of: Tenancy, id: MessageId) =>
  Effect.map(messageOf(world, of, id), ({ recipients }) => recipients.map(({ status }) => status))

plays("{memory}", {
  name: "looks at messages",
  checks: [
    scenario("a job that comes again for a message that is sent changes nothing of it", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const id = yield* send(process, of, ada)
        yield* settle(process)
        const before = yield* messageOf(world, of, id)

        yield* comes(world, of, id)
        assert.equal(yield* process.worker.tick, 1)

        assert.deepEqual(yield* messageOf(world, of, id), before)
      })
    ),

    scenario("a job that comes before its time submits nothing, and comes again when it is due", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const later = Effect.fail(new SubmissionRefused({ reply: { smtpCode: 451, enhancedCode: "4.2.1", text: "wait" } }))
        world.stage.behave = (request, nth) => (nth === 1 ? later : Effect.succeed(accepted(request)))
        const id = yield* send(process, of, ada)
        yield* settle(process)
        const { nextAttemptAt } = yield* messageOf(world, of, id)

        yield* comes(world, of, id)
        yield* settle(process)
        assert.equal(world.stage.submissions.length, 1)
        yield* Time.setTime(nextAttemptAt!)
        yield* process.worker.tick

        assert.deepEqual([world.stage.submissions.length, yield* statusesOf(world, of, id)], [2, ["sent"]])
        const { attempts, updatedAt, sizeBytes } = yield* messageOf(world, of, id)
        assert.deepEqual([attempts, updatedAt, sizeBytes], [2, nextAttemptAt, world.stage.submissions[1]!.bytes.length])
      })
    ),

    scenario("a job of a message whose attachment is yet to be scanned changes nothing of it", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.scan = () => Effect.never
        const { id: attachmentId } = yield* upload(process, of)
        const id = yield* send(process, of, bob, { attachmentIds: [attachmentId] })
        const before = yield* messageOf(world, of, id)

        const ticking = yield* Effect.forkDetach(process.worker.tick, { startImmediately: true })
        yield* Time.calm

        assert.equal(ticking.pollUnsafe(), undefined, "the scan goes on")
        assert.deepEqual(yield* messageOf(world, of, id), before)
      })
    ),

    scenario("of a message that cannot be submitted who is suppressed bounces, and the others fail, which the operator is told", (world) =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* suppress(process, of)
        world.stage.scan = () => Effect.succeed({ _tag: "Infected", signature: "Eicar" })
        const { id: attachmentId } = yield* upload(process, of)
        const id = yield* send(process, of, [ada, bob], { attachmentIds: [attachmentId] })

        yield* Effect.provide(settle(process), loggedTo(lines))

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced", "failed"])
        assert.deepEqual((yield* messageOf(world, of, id)).failure, { stage: "scan", code: "attachment_infected", message: "malware was found in an attachment" })
        assert.ok(lines.some((line) => line.includes("a message failed") && line.includes("attachment_infected")), lines.join("\n"))
      })
    ),

    scenario("a try that comes to nothing is counted, though the message was flagged meanwhile", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = ({ messageId }) =>
          Effect.andThen(
            Effect.orDie(process.messages.update(of.principal, messageId, { mailboxId: of.mailbox.id, isStarred: true })),
            Effect.fail(new MailProviderUnavailable({ cause: "away" }))
          )

        const id = yield* send(process, of, ada)
        yield* settle(process)

        const { isStarred, attempts, nextAttemptAt } = yield* messageOf(world, of, id)
        assert.deepEqual([isStarred, attempts], [true, 1])
        assert.ok(nextAttemptAt! > (yield* Clock.currentTimeMillis))
      })
    ),

    scenario("who is taken by the try with which the 48 hours end is sent, and the others fail", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const reply = { smtpCode: 451, enhancedCode: "4.2.1", text: "wait" }
        const id = yield* send(process, of, [ada, bob])
        yield* Time.setTime((yield* Clock.currentTimeMillis) + Duration.toMillis("48 hours"))
        world.stage.behave = (request) => {
          const taken = accepted(request)
          return Effect.succeed({ ...taken, replies: taken.replies.map((one) => (one.recipient === bob ? { ...one, reply } : one)) })
        }

        yield* settle(process)

        assert.deepEqual(yield* statusesOf(world, of, id), ["sent", "failed"])
      })
    ),

    scenario("who was told to wait by a try that could not be recorded at once is tried again when that is recorded", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found("production")
        const store = new NoCommits()
        const [calm, process] = [yield* world.boot(), yield* world.boot(store)]
        const reply = { smtpCode: 451, enhancedCode: "4.2.1", text: "wait" }
        world.stage.behave = (request, nth) => {
          const taken = accepted(request)
          return Effect.succeed({ ...taken, replies: taken.replies.map((one) => (nth === 1 && one.recipient === bob ? { ...one, reply } : one)) })
        }
        const id = yield* send(calm, of, [ada, bob])
        Object.assign(store, { isOn: true, left: 1 })

        yield* process.worker.tick // the relay commits as well
        yield* pass(process, "45 seconds")
        assert.deepEqual(yield* statusesOf(world, of, id), ["sent", "queued"])
        yield* pass(process, "5 minutes")

        assert.deepEqual(yield* statusesOf(world, of, id), ["sent", "sent"])
        assert.deepEqual(world.stage.submissions.map(({ request }) => request.envelope.recipients), [[ada, bob], [bob]])
      })
    ),

    scenario("a message whose job comes again while it is being submitted, for the queue has lost the first, is not submitted beside that", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const queue = new Claims()
        const process = yield* world.boot(queue)
        const gate = yield* Deferred.make<void>()
        world.stage.behave = (request) => Effect.as(Deferred.await(gate), accepted(request))
        const id = yield* send(process, of, ada)
        const first = yield* Effect.forkDetach(process.worker.tick)
        yield* Time.calm
        assert.deepEqual([world.stage.submissions.length, queue.leases.length], [1, 1])

        yield* world.queue.complete(queue.leases[0]!) // it knows nothing of it any more
        yield* comes(world, of, id)
        assert.equal(yield* process.worker.tick, 1)
        assert.deepEqual([queue.leases.length, world.stage.submissions.length], [2, 1])
        yield* Deferred.succeed(gate, undefined)
        yield* Time.calm

        assert.notEqual(first.pollUnsafe(), undefined)
        assert.deepEqual([yield* statusesOf(world, of, id), world.stage.submissions.length], [["sent"], 1])
      })
    ),

    scenario("a message that its provider has not answered of when the worker waits no longer is put off, and says so", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = () => Effect.never
        const ids = yield* Effect.all([send(process, of, ada), send(process, of, bob)])
        const ticking = yield* Effect.forkDetach(process.worker.tick)
        yield* Time.calm
        assert.equal(world.stage.submissions.length, 2)

        yield* process.worker.cutOff
        yield* Time.calm

        assert.notEqual(ticking.pollUnsafe(), undefined, "its jobs have ended")
        for (const id of ids) {
          const { attempts, nextAttemptAt, recipients } = yield* messageOf(world, of, id)
          assert.deepEqual([attempts, recipients[0]!.status, recipients[0]!.deferral?.diagnostic], [1, "queued", "the worker was stopped before the mail provider answered"])
          assert.ok(nextAttemptAt! >= (yield* Clock.currentTimeMillis) + 48_000)
        }
      })
    ),

    scenario("a provider is waited for for ten minutes, and then the message is put off", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const [slow, silent] = [yield* send(process, of, ada), yield* send(process, of, bob)]
        const gate = yield* Deferred.make<void>()
        world.stage.behave = (request) => (request.messageId === silent ? Effect.never : Effect.as(Deferred.await(gate), accepted(request)))
        const ticking = yield* Effect.forkDetach(process.worker.tick)

        yield* Time.adjust("599 seconds", Duration.seconds(10))
        yield* Deferred.succeed(gate, undefined)
        yield* Time.calm
        const before = [...(yield* statusesOf(world, of, slow)), (yield* messageOf(world, of, silent)).attempts]
        yield* Time.adjust("1 second")

        assert.deepEqual(before, ["sent", 0])
        const { status, attempts, nextAttemptAt } = yield* messageOf(world, of, silent)
        assert.deepEqual([status, attempts], ["queued", 1])
        assert.ok(nextAttemptAt! > (yield* Clock.currentTimeMillis))
        assert.notEqual(ticking.pollUnsafe(), undefined)
      })
    )
  ]
}, Layer.merge(memory, companions))

/** Whether each commit that moved a message had the lease of its job. */
const ends: Array<boolean> = []

const notingEnds = Layer.effect(
  Store,
  Effect.map(Store, (store): typeof Store.Service => ({
    ...store,
    commit: (changes, jobs, lease) =>
      Effect.suspend(() => {
        if (changes.some((change) => change._tag === "Update" && change.kind === "message")) ends.push(lease !== undefined)
        return store.commit(changes, jobs, lease)
      })
  }))
).pipe(Layer.provide(Memory.MemoryStore.layer))

plays("{memory}", {
  name: "jobs of messages",
  checks: [
    scenario("a try that puts its message off leaves its place to a claim, and the last one ends its job with what it came to", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const later = Effect.fail(new SubmissionRefused({ reply: { smtpCode: 451, enhancedCode: "4.2.1", text: "wait" } }))
        world.stage.behave = (request, nth) => (nth === 1 ? later : Effect.succeed(accepted(request)))
        ends.length = 0
        const id = yield* send(process, of, ada)

        yield* settle(process)
        const { nextAttemptAt } = yield* messageOf(world, of, id)
        yield* Time.setTime(nextAttemptAt!)
        yield* settle(process)

        assert.deepEqual([yield* statusesOf(world, of, id), ends], [["sent"], [false, true]])
      })
    )
  ]
}, Layer.mergeAll(notingEnds, Memory.MemoryJobQueue.layer, Memory.MemoryBlobStore.layer, Memory.MemoryRateLimiter.layer, companions))
