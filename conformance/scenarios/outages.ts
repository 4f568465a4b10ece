/** What breaks for a while, hangs, or breaks whoever touches it, harms nothing else and loses nothing. */
import { Cause, Duration, Effect, Exit, Fiber, Stream } from "effect"
import * as assert from "node:assert/strict"
import { ClockOffset, clockOffsetMax } from "../../core/ClockOffset.ts"
import { scanTimeout } from "../../core/jobs/ScanAttachment.ts"
import { system } from "../../core/model/Audit.ts"
import { shardOf, type TenantId } from "../../core/model/Ids.ts"
import { BlobStore, BlobUnavailable } from "../../core/ports/BlobStore.ts"
import { MailProviderUnavailable } from "../../core/ports/MailProvider.ts"
import { assertMissing, read, text, write } from "../BlobStoreSteps.ts"
import { address, freshId } from "../fixtures.ts"
import { requestEntry } from "../StoreLaw.ts"
import { arrive } from "./Arrivals.ts"
import { Faults, LateCommits, NoCommits } from "./Faults.ts"
import * as Time from "./Time.ts"
import {
  accepted,
  letter,
  logOf,
  loggedTo,
  messageOf,
  pass,
  providerMessageId,
  providerName,
  scenario,
  send,
  settle,
  someKey,
  typesOf,
  upload,
  type Process,
  type ScenarioSuite,
  type Tenancy,
  type World
} from "./World.ts"

const [ada, bob, eve] = [address("ada"), address("bob"), address("eve")]

const received = ({ store }: World, { realm }: Tenancy) => store.messages.page(realm, { mailboxId: null, before: null, limit: 10 })

/** A store that has lost them. */
class NoAttachments extends Faults {
  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return call === "Store.attachments.many" ? Effect.map(effect, () => [] as A) : effect // of this call alone
  }
}

/** A store that has lost what messages were made of. */
class NoContents extends Faults {
  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return call === "Store.messages.outbound" ? Effect.map(effect, (found) => (found === null ? found : { ...found, content: null })) : effect // as above
  }
}

export const suite: ScenarioSuite = {
  name: "outages",
  checks: [
    scenario("a store that is away for an hour fails no message and no poll", (world) =>
      Effect.gen(function* () {
        const [production, sandbox] = [yield* world.found("production"), yield* world.found("sandbox")]
        const process = yield* world.boot()
        const polled = yield* send(process, sandbox, address("bounced"))
        yield* settle(process)
        const waiting = yield* send(process, production, ada)

        world.stage.storeIsDown = true
        yield* pass(process, "1 hour", "20 seconds")
        world.stage.storeIsDown = false
        yield* pass(process, "5 minutes")

        assert.equal((yield* messageOf(world, production, waiting)).status, "sent")
        assert.equal((yield* messageOf(world, sandbox, polled)).status, "bounced")
        assert.equal(world.stage.submissions.length, 1)
      })
    ),

    scenario("what is away is said once a minute, however often it is asked", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const lines: Array<string> = []
        const said = (text: string) => lines.filter((line) => line.includes(text)).length
        process.requestLog.append(requestEntry(tenancy.realm))
        const asked = Effect.gen(function* () {
          for (let second = 0; second < 130; second++) {
            // Of the two limits, one is counted by the process itself, and always answers.
            world.stage.limiterIsDown = second % 2 === 0
            world.stage.storeIsDown = false
            yield* process.access.guardAddress("2001:db8::1")
            yield* send(process, tenancy, ada)
            world.stage.storeIsDown = true
            yield* process.relay.tick
            yield* process.worker.tick
            yield* process.sweep.tick
            yield* process.checkDomains.tick
            yield* process.requestLog.flush
            yield* Time.adjust("1 second")
          }
        })

        world.stage.queueIsDown = true
        yield* Effect.provide(asked, loggedTo(lines))

        assert.equal(said("the relay could not read the store"), 3)
        assert.equal(said("the job queue is away"), 3)
        assert.equal(said("each process limits by itself"), 3)
        assert.equal(said("the sweep could not read the store"), 3)
        assert.equal(said("the domain checker could not read the store"), 3)
        assert.equal(said("the request log could not be written"), 3)
        // Where a store hands out its own work, there is nothing to offer.
        assert.ok([0, 3].includes(said("jobs were not offered")), `${said("jobs were not offered")} lines`)
      })
    ),

    scenario("a message that is committed after the store was given up is taken, so that nobody brings it again", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const store = new LateCommits(Duration.seconds(14))
        const process = yield* world.boot(store)
        const bringing = yield* Effect.forkChild(Effect.exit(arrive(process, of.mailbox.address)), { startImmediately: true })

        yield* Time.until(() => store.hasStruck)
        yield* Time.adjust("20 seconds")

        assert.ok(Exit.isSuccess(yield* Fiber.join(bringing)))
        assert.equal((yield* received(world, of)).length, 1)
      })
    ),

    scenario("a message that a store has not taken is put off within half a minute", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const store = new NoCommits()
        const process = yield* world.boot(store)
        store.isOn = true
        const bringing = yield* Effect.forkChild(Effect.exit(arrive(process, of.mailbox.address)), { startImmediately: true })

        yield* Time.until(() => store.hasStruck)
        yield* Time.adjust("30 seconds")

        const exit = yield* Fiber.join(bringing)
        assert.ok(Exit.isFailure(exit) && exit.cause.reasons.every(Cause.isFailReason))
        assert.deepEqual(yield* received(world, of), [])
      })
    ),

    scenario("an object that was lost is made again, and stored with the try that finds that", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          nth === 1 ? Effect.fail(new MailProviderUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        const { mime } = yield* messageOf(world, tenancy, id)
        yield* world.blobs.remove(tenancy.realm.tenantId, mime!.sha256, Number.MAX_SAFE_INTEGER)

        yield* pass(process, "30 minutes")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        const [first, second] = world.stage.submissions
        assert.ok(Buffer.from(first!.bytes).equals(Buffer.from(second!.bytes)))
        const stored = yield* Stream.mkUint8Array(world.blobs.read(tenancy.realm.tenantId, mime!))
        assert.ok(Buffer.from(stored).equals(Buffer.from(second!.bytes)))
      })
    ),

    scenario("an object is made once: a later try submits those bytes, whatever has become of what they were made of", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const [first, next] = [yield* world.boot(), yield* world.boot(new NoContents(0, "before"))]
        world.stage.behave = (request, nth) =>
          nth === 1 ? Effect.fail(new MailProviderUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))
        const id = yield* send(first, tenancy, ada)
        yield* settle(first)

        yield* pass(next, "2 minutes")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        const [one, other] = world.stage.submissions.map(({ bytes }) => Buffer.from(bytes))
        assert.ok(one!.equals(other!))
      })
    ),

    scenario("an object that cannot be read while it is submitted puts its message off, and is submitted with the next try", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          nth === 1 ? Effect.fail(new BlobUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        const { status, attempts } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, attempts], ["queued", 1])

        yield* pass(process, "2 minutes")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
      })
    ),

    scenario("a process whose clock is far from the store's takes no work, and goes on when it is near again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        let offset = 0
        const process = yield* Effect.provideService(world.boot(), ClockOffset, () => offset)
        const id = yield* send(process, tenancy, ada)
        const shard = shardOf(tenancy.realm.tenantId)
        const isBehind = Effect.map(world.store.relay.behind, (behind) => behind.some((one) => one.shard === shard))

        for (offset of [clockOffsetMax + 1, -clockOffsetMax - 1]) {
          yield* pass(process, "5 minutes")
          yield* process.sweep.retain
          assert.equal((yield* messageOf(world, tenancy, id)).status, "queued")
          assert.ok(yield* isBehind, "nothing is relayed")
        }
        for (offset of [clockOffsetMax, -clockOffsetMax]) yield* pass(process, "1 minute")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        assert.ok(!(yield* isBehind), "all is relayed")
        assert.equal(world.stage.submissions.length, 1)
      })
    ),

    scenario("a message that kills the process fails alone: those claimed with it are sent", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        let faults = new Faults(0, "before")
        const first = yield* world.boot(faults)
        world.stage.behave = (request) =>
          Effect.suspend(() => {
            if (!request.envelope.recipients.includes(eve)) return Effect.succeed(accepted(request))
            faults.kill()
            return Effect.die(new Error("a bug that ends the process"))
          })
        const innocent = [yield* send(first, tenancy, bob), yield* send(first, tenancy, bob)]
        const poison = yield* send(first, tenancy, eve)
        innocent.push(yield* send(first, tenancy, bob), yield* send(first, tenancy, bob))

        let process = first
        for (let restart = 0; restart < 20; restart++) {
          for (let tick = 0; tick < 20; tick++) yield* Effect.exit(process.worker.tick)
          yield* Time.adjust("2 minutes")
          if (faults.crashed === null) continue
          faults = new Faults(0, "before")
          process = yield* world.boot(faults)
        }

        const message = yield* messageOf(world, tenancy, poison)
        assert.deepEqual([message.status, message.failure?.code], ["failed", "poison"])
        for (const id of innocent) {
          assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
          const count = world.stage.submissions.filter(({ request }) => request.messageId === id).length
          // Twice they may be claimed together with it, and end with it before their end is recorded.
          assert.ok(count <= 3, `${count} submissions`)
        }
      })
    ),

    scenario("a provider that never answers holds up nobody else, and its message is tried again", (world) =>
      Effect.gen(function* () {
        const [stuck, other] = [yield* world.found(), yield* world.found()]
        const [process, second] = [yield* world.boot(), yield* world.boot()]
        world.stage.behave = (request, nth) =>
          request.realm.tenantId === stuck.realm.tenantId && nth === 1 ? Effect.never : Effect.succeed(accepted(request))
        const hung = yield* send(process, stuck, ada)
        let stopping = false
        const run = ({ worker }: Process) => Effect.forkChild(worker.run(() => stopping, Duration.seconds(1)))
        const running = [yield* run(process)]
        yield* Time.adjust("1 second")
        running.push(yield* run(second))

        const id = yield* send(process, other, ada)
        yield* Time.adjust("2 seconds")
        assert.equal((yield* messageOf(world, other, id)).status, "sent")
        const tries = () => world.stage.submissions.filter(({ request }) => request.messageId === hung).length
        yield* Time.adjust("5 minutes", "20 seconds")
        assert.equal(tries(), 1, "its lease is held")
        yield* Time.adjust("10 minutes", "20 seconds")
        assert.equal((yield* messageOf(world, stuck, hung)).status, "sent")
        assert.equal(tries(), 2)
        stopping = true
        yield* Time.adjust("2 seconds")
        yield* Fiber.joinAll(running)
      })
    ),

    scenario("a sender who hangs up at any moment leaves its key usable, and one message at most", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        for (let turns = 0; turns < 40; turns++) {
          const [key, input] = [someKey(), letter(tenancy, ada)]
          const fiber = yield* Effect.forkChild(process.messages.send(tenancy.principal, key, input))
          for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
          yield* Fiber.interrupt(fiber)

          const { message } = yield* process.messages.send(tenancy.principal, key, input)
          assert.deepEqual(typesOf(yield* logOf(world, tenancy, message.id)), ["message.queued"], `after ${turns} turns`)
        }
        const { items } = yield* process.messages.list(tenancy.principal, { limit: 100, cursor: null, mailboxId: null })
        assert.equal(items.length, 40)
      })
    ),

    scenario("a hundred writers of one message at once all succeed", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const processes = [yield* world.boot(), yield* world.boot()]
        const id = yield* send(processes[0]!, tenancy, ada)

        yield* Effect.all(
          Array.from({ length: 100 }, (_, index) =>
            processes[index % 2]!.messages.update(tenancy.principal, id, { mailboxId: tenancy.mailbox.id, isStarred: index % 3 === 0 })
          ),
          { concurrency: "unbounded" }
        )

        assert.equal((yield* messageOf(world, tenancy, id)).version, 101)
      })
    ),

    scenario("a notification that makes no sense is passed over, and harms no other", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        const good = {
          provider: providerName,
          providerMessageId: providerMessageId({ messageId: id }),
          recipient: ada,
          outcome: { _tag: "Delivered" as const, at: 5, smtpResponse: null }
        }

        yield* process.notifications.record([{ ...good, outcome: { ...good.outcome, at: 1e17 } }, good])

        assert.equal((yield* messageOf(world, tenancy, id)).recipients[0]!.evidence.delivered?.at, 5)
      })
    ),

    scenario("suppressed recipients bounce at once, also while the others must wait", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const first = yield* send(process, tenancy, eve)
        yield* settle(process)
        yield* process.notifications.record([
          {
            provider: providerName,
            providerMessageId: providerMessageId({ messageId: first }),
            recipient: eve,
            outcome: { _tag: "Bounced", at: 1, class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: null }
          }
        ])
        const both = process.messages.send(tenancy.principal, someKey(), letter(tenancy, [eve, bob]))
        const id = (yield* both).message.id
        yield* process.management.updateMailbox(system, tenancy.realm.tenantId, tenancy.mailbox.id, { status: "suspended" })

        yield* settle(process)

        const { recipients } = yield* messageOf(world, tenancy, id)
        assert.deepEqual(recipients.map(({ status }) => status), ["bounced", "queued"])
      })
    ),

    scenario("suppressed recipients bounce while the others await a scan, and that is no try", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        yield* process.management.addSuppression(system, tenancy.realm, eve)
        world.stage.scan = () => Effect.never
        const attachment = yield* upload(process, tenancy)
        const id = yield* send(process, tenancy, [eve, bob], { attachmentIds: [attachment.id] })

        const ticking = yield* Effect.forkChild(settle(process))
        yield* Time.calm

        const { recipients, attempts, nextAttemptAt, acceptedAt } = yield* messageOf(world, tenancy, id)
        assert.deepEqual(recipients.map(({ status }) => status), ["bounced", "queued"])
        assert.deepEqual([attempts, nextAttemptAt], [0, acceptedAt])
        yield* Time.adjust(scanTimeout)
        yield* Fiber.join(ticking)
      })
    ),

    scenario("a message whose attachment is no longer there fails, and is not sent without it", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const [whole, process] = [yield* world.boot(), yield* world.boot(new NoAttachments(0, "before"))]
        const attachment = yield* upload(whole, tenancy)
        const id = yield* send(whole, tenancy, ada, { attachmentIds: [attachment.id] })

        yield* settle(process)

        const { status, failure } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, failure?.stage, failure?.code], ["failed", "build", "attachment_missing"])
        assert.equal(world.stage.submissions.length, 0)
      })
    ),

    scenario("a refusal for content or by policy suppresses nobody", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const refuse = (enhancedCode: string | null) => {
          world.stage.behave = (request) =>
            Effect.succeed({
              ...accepted(request),
              replies: [{ recipient: ada, reply: { smtpCode: 554, enhancedCode, text: "content rejected" } }]
            })
        }
        for (const code of ["5.7.1", "5.3.4", null]) {
          refuse(code)
          yield* send(process, tenancy, ada)
          yield* settle(process)
        }

        assert.equal(world.stage.submissions.length, 3)
        assert.deepEqual(yield* world.store.suppressions.among(tenancy.realm, [ada]), [])
      })
    ),

    scenario("a first page of events starts at the oldest that may be listed, and its cursor is good", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        for (let count = 0; count < 3; count++) yield* send(process, tenancy, ada)
        yield* Time.adjust("31 days") // and retention has not run yet
        const recent = [yield* send(process, tenancy, ada), yield* send(process, tenancy, ada)]
        const list = (cursor: string | null) => process.events.list(tenancy.principal, { limit: 1, cursor })

        const first = yield* list(null)
        const second = yield* list(first.nextCursor)

        assert.deepEqual([first, second].flatMap(({ items }) => items.map(({ resourceId }) => resourceId)), recent)
        assert.equal(second.nextCursor, null)
      })
    ),

    scenario("bytes that nothing refers to stay for three days, and go then, each tenant's apart; what is referred to stays", (world) =>
      Effect.gen(function* () {
        const [{ realm: { tenantId } }, other] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        const blobs = Effect.provideService(BlobStore, world.blobs)
        const attachment = yield* upload(process, other)
        const id = yield* send(process, other, ada, { attachmentIds: [attachment.id] })
        yield* settle(process)
        const kept = [(yield* world.store.attachments.get(other.realm, attachment.id))!.blob, (yield* messageOf(world, other, id)).mime!]
        const writing = (at: TenantId, bytes: string) => Effect.map(blobs(write(at, text(bytes))), (ref) => ({ at, ref }))
        const loose = [yield* writing(tenantId, "nobody's"), yield* writing(other.realm.tenantId, "nobody's"), yield* writing(tenantId, "the engine weaves")]

        yield* Time.adjust(Duration.toMillis("3 days") - 1_000)
        yield* process.sweep.retain
        assert.deepEqual(yield* blobs(read(tenantId, loose[0]!.ref)), text("nobody's"))
        yield* Time.adjust("2 seconds")
        yield* process.sweep.retain

        for (const { at, ref } of loose) yield* blobs(assertMissing(at, ref))
        for (const one of kept) assert.equal((yield* blobs(read(other.realm.tenantId, one))).length, one.sizeBytes)
      })
    ),

    scenario("bytes of a tenant that the store does not know stay: they are of who shares the blobs", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const blobs = Effect.provideService(BlobStore, world.blobs)
        const elsewhere = freshId<TenantId>()
        const [own, another] = [yield* blobs(write(tenancy.realm.tenantId, text("loose"))), yield* blobs(write(elsewhere, text("loose")))]

        yield* Time.adjust("4 days")
        yield* process.sweep.retain

        yield* blobs(assertMissing(tenancy.realm.tenantId, own))
        assert.deepEqual(yield* blobs(read(elsewhere, another)), text("loose"))
      })
    ),

    scenario("retention goes on until nothing is left that has had its time", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        for (let count = 0; count < 1_201; count++) process.requestLog.append(requestEntry(tenancy.realm))
        yield* process.requestLog.flush
        yield* Time.adjust("31 days")

        yield* process.sweep.retain

        assert.deepEqual(yield* world.store.audit.requests(tenancy.realm.tenantId, 10), [])
      })
    )
  ]
}
