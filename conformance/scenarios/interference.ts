/**
 * While a worker does a job its record changes, or another worker does the job as well: what either has made is kept, and
 * nothing is done twice. A worker whose lease ran out and who comes back changes nothing that the other has done.
 */
import { Clock, Effect, Fiber, Latch } from "effect"
import * as assert from "node:assert/strict"
import type { DomainName } from "../../core/model/Address.ts"
import type { Attachment } from "../../core/model/Attachment.ts"
import { system } from "../../core/model/Audit.ts"
import type { AttachmentId } from "../../core/model/Ids.ts"
import type { Message } from "../../core/model/Message.ts"
import type { Verdict } from "../../core/ports/Scanner.ts"
import { ScanFailed } from "../../core/ports/Scanner.ts"
import { MailProviderUnavailable, SubmissionRefused, type SubmitRequest, type SubmitResult } from "../../core/ports/MailProvider.ts"
import { jobKinds, jobOf } from "../../core/ports/JobQueue.ts"
import type { Change } from "../../core/ports/Store.ts"
import { address, freshId } from "../fixtures.ts"
import { arrive, dsn } from "./Arrivals.ts"
import { Ahead, once } from "./Faults.ts"
import { broken, deliveryTo, enable, happen, ok, play, respond } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { accepted, logOf, loggedTo, messageOf, pass, providerMessageId, providerName, scenario, send, settle, typesOf, upload, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const [ada, bob] = [address("ada"), address("bob")]
const bounceDomain = "bounces.example" as DomainName // plain enough to be one

/** Where the first holder of a job waits: it is there when `begun` opens, and goes on with `go`. */
const gate = Effect.gen(function* () {
  const [begun, go] = [yield* Latch.make(), yield* Latch.make()]
  return { begun, go, wait: Effect.andThen(begun.open, go.await) }
})

/** The first takes what is due, and its lease runs out; the second does it. How the first comes back, and what it logs. */
const takeOver = Effect.fnUntraced(function* ({ stage }: World, [first, second]: readonly [Process, Process], { begun, go }: Effect.Success<typeof gate>) {
  const lines: Array<string> = []
  const working = yield* Effect.forkChild(Effect.provide(first.worker.tick, loggedTo(lines)))
  yield* begun.await
  stage.queueIsDown = true
  yield* Time.adjust("90 seconds")
  stage.queueIsDown = false
  yield* settle(second)
  return { comeBack: Effect.andThen(go.open, Fiber.join(working)), lines }
})

type Answer = (request: SubmitRequest) => Effect.Effect<SubmitResult, MailProviderUnavailable | SubmissionRefused>

const reply = (smtpCode: number) => ({ smtpCode, enhancedCode: `${Math.floor(smtpCode / 100)}.0.0`, text: "no" })
const taken: Answer = (request) => Effect.succeed(accepted(request))
const away: Answer = () => Effect.fail(new MailProviderUnavailable({ cause: "away" }))
/** Takes Ada, and answers this for Bob. */
const notBob = (smtpCode: number): Answer => (request) => {
  const { replies, ...rest } = accepted(request)
  return Effect.succeed({ ...rest, replies: replies.map((one) => (one.recipient === bob ? { ...one, reply: reply(smtpCode) } : one)) })
}
const refused: Answer = () => Effect.fail(new SubmissionRefused({ reply: reply(550) }))

type Scan = Effect.Effect<Verdict, ScanFailed>
const clean: Scan = Effect.succeed({ _tag: "Clean" })
const infected = (signature: string): Scan => Effect.succeed({ _tag: "Infected", signature })
const failed: Scan = Effect.fail(new ScanFailed({ reason: "away" }))

/** A file that two workers scan: the first scan waits at the gate, and each ends as these do, one after the other. How many there were. */
const scanned = Effect.fnUntraced(function* ({ stage }: World, by: Process, of: Tenancy, { wait }: Effect.Success<typeof gate>, scans: ReadonlyArray<Scan>) {
  let begun = 0
  stage.scan = () =>
    Effect.suspend(() => {
      const scan = scans[begun] ?? Effect.die(new Error("it is scanned too often"))
      begun += 1
      return begun === 1 ? Effect.andThen(wait, scan) : scan
    })
  const { id } = yield* upload(by, of)
  return { id, begun: () => begun }
})

export const suite: ScenarioSuite = {
  name: "interference",
  checks: [
    ...(
      [
        ["both were taken", taken, taken],
        ["the first found its provider away", away, taken],
        ["the first was refused as a whole", refused, taken],
        ["one bounced for the first", notBob(550), taken],
        ["both found their provider away", away, away],
        ["both were told to wait for one", notBob(451), notBob(451)]
      ] as const
    ).map(([what, answerOfFirst, answerOfSecond]) =>
      scenario(`a message that two workers submit is as the one left it that was done first, where ${what}`, (world) =>
        Effect.gen(function* () {
          const of = yield* world.found("production")
          const both = [yield* world.boot(), yield* world.boot()] as const
          const waiting = yield* gate
          world.stage.behave = (request, nth) =>
            nth === 1 ? Effect.andThen(waiting.wait, answerOfFirst(request)) : answerOfSecond(request)
          const id = yield* send(both[0], of, [ada, bob])

          const { comeBack, lines } = yield* takeOver(world, both, waiting)
          const [before, eventsBefore] = [yield* messageOf(world, of, id), yield* logOf(world, of, id)]
          yield* comeBack

          assert.deepEqual(yield* messageOf(world, of, id), before)
          assert.deepEqual(yield* logOf(world, of, id), eventsBefore)
          assert.deepEqual(yield* world.store.suppressions.among(of.realm, [ada, bob]), [])
          assert.ok(!lines.some((line) => line.includes("came to no end")), lines.join("\n"))
          assert.deepEqual([before.attempts, world.stage.submissions.length], [1, 2])
        })
      )
    ),

    scenario("who was taken for a worker that comes back late is sent, and not mailed again, though the other was told to wait", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found("production")
        const both = [yield* world.boot(), yield* world.boot()] as const
        const waiting = yield* gate
        world.stage.behave = (request, nth) => (nth === 1 ? Effect.andThen(waiting.wait, taken(request)) : notBob(451)(request))
        const id = yield* send(both[0], of, [ada, bob])

        const { comeBack } = yield* takeOver(world, both, waiting)
        const before = yield* messageOf(world, of, id)
        yield* comeBack
        yield* pass(both[1], "10 minutes", "1 minute")

        assert.deepEqual(before.recipients.map(({ status }) => status), ["sent", "queued"])
        const { status, recipients } = yield* messageOf(world, of, id)
        assert.deepEqual([status, recipients.map((one) => one.status)], ["sent", ["sent", "sent"]])
        assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.queued", "message.sent"])
        assert.equal(world.stage.submissions.length, 2)
      })
    ),

    ...(
      [
        ["finds malware", infected("Late")],
        ["finds nothing", clean],
        ["fails", failed]
      ] as const
    ).map(([what, late]) =>
      scenario(`a verdict on a file stays, though a scan that took longer than its lease ${what}`, (world) =>
        Effect.gen(function* () {
          const of = yield* world.found()
          const both = [yield* world.boot(), yield* world.boot()] as const
          const waiting = yield* gate
          const { id, begun } = yield* scanned(world, both[0], of, waiting, [late, clean])
          const stored = world.store.attachments.get(of.realm, id)

          const { comeBack, lines } = yield* takeOver(world, both, waiting)
          const before = yield* stored
          yield* comeBack
          yield* pass(both[1], "2 minutes")

          assert.equal(before?.scanState, "clean")
          assert.deepEqual(yield* stored, before)
          assert.ok(!lines.some((line) => line.includes("came to no end")), lines.join("\n"))
          const audited = (yield* world.store.audit.page(of.realm.tenantId, 100)).filter(({ action }) => action.startsWith("attachment.scan"))
          assert.deepEqual([audited.map(({ action }) => action), begun()], [["attachment.scan_clean"], 2])
        })
      )
    ),

    scenario("a scan that comes back when another has put the file off leaves it to its next scan", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const both = [yield* world.boot(), yield* world.boot()] as const
        const waiting = yield* gate
        const { id, begun } = yield* scanned(world, both[0], of, waiting, [clean, failed, infected("Third")])
        const stored = Effect.map(world.store.attachments.get(of.realm, id), (attachment) => attachment!)

        const { comeBack } = yield* takeOver(world, both, waiting)
        const before = yield* stored
        yield* comeBack
        assert.deepEqual(yield* stored, before)
        assert.ok(before.nextScanAt! > (yield* Clock.currentTimeMillis))
        yield* pass(both[1], "2 minutes")

        assert.deepEqual([(yield* stored).scanState, begun()], ["infected", 3])
      })
    ),

    scenario("flags set while a message is read are kept with what was found, and it is read once", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        let readings = 0
        yield* arrive(process, of.mailbox.address)
        const [{ id } = assert.fail("it is there")] = yield* world.store.messages.page(of.realm, { mailboxId: null, before: null, limit: 1 })
        world.stage.parse = () =>
          Effect.suspend(() => {
            readings += 1
            return Effect.orDie(process.messages.update(of.principal, id, { mailboxId: of.mailbox.id, isStarred: true }))
          })

        yield* settle(process)

        const { isStarred, snippet, version } = yield* messageOf(world, of, id)
        assert.deepEqual([isStarred, snippet, version, readings], [true, "The engine weaves.", 3, 1])
        assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.updated", "message.received"])
      })
    ),

    scenario("a message that begins to use a file while it is scanned has it, with its verdict, by one scan", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        let scans = 0
        const { id: fileId } = yield* upload(process, of)
        const sending = send(process, of, ada, { attachmentIds: [fileId] })
        world.stage.scan = () =>
          Effect.suspend(() => {
            scans += 1
            return Effect.as(Effect.orDie(sending), { _tag: "Clean" } as const)
          })

        yield* settle(process)

        const attachment = yield* world.store.attachments.get(of.realm, fileId)
        assert.deepEqual([attachment?.scanState, scans], ["clean", 1])
        assert.equal((yield* messageOf(world, of, attachment!.messageId!)).status, "sent")
      })
    ),

    ...(["a provider's notification", "a poll", "a report"] as const).map((teller) =>
      scenario(`what ${teller} tells of a message is applied to what that has become, where it changes at that moment`, (world) =>
        Effect.gen(function* () {
          const of = yield* world.found()
          const calm = yield* world.boot()
          world.stage.behave = (request) => Effect.map(Clock.currentTimeMillis, (now) => ({ ...accepted(request), pollAt: now + 60_000 }))
          const id = yield* send(calm, of, ada)
          yield* settle(calm)
          const star = Effect.flatMap(messageOf(world, of, id), (message) =>
            world.witness.watch(world.store).commit([{ _tag: "Update", kind: "message", record: { ...message, version: message.version + 1, isStarred: true } }], [])
          )
          const process = yield* world.boot(new Ahead("Store.commit", once(star)), { bounceDomain })
          const bounce = { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: null } as const
          const notification = { provider: providerName, providerMessageId: providerMessageId({ messageId: id }), recipient: ada, outcome: { _tag: "Bounced", at: 0, ...bounce } } as const

          if (teller === "a provider's notification") yield* process.notifications.record([notification])
          if (teller === "a report") {
            const { internetMessageId } = yield* messageOf(world, of, id)
            const mac = yield* world.crypto.mac("return-path", id)
            yield* arrive(process, `b.${id.replaceAll("-", "")}.${mac.slice(0, 16)}@${bounceDomain}`, dsn(internetMessageId, [{ to: ada, action: "failed", status: "5.1.1" }]), null)
          }
          if (teller === "a poll") {
            world.stage.poll = () => Effect.succeed({ notifications: [notification], pollAt: null })
            yield* Time.adjust("1 minute")
            yield* settle(process)
          }

          const { isStarred, status } = yield* messageOf(world, of, id)
          assert.deepEqual([isStarred, status], [true, "bounced"])
          assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.queued", "message.sent", "message.bounced"])
        })
      )
    ),

    scenario("a delivery is sent whose endpoint is enabled at the moment in which it would die of it", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => broken)
        yield* happen(process, of)
        yield* settle(process)
        yield* process.webhookManagement.disableEndpoint(system, of.realm.tenantId, to.endpoint.id)
        const enabling = new Ahead("Store.commit", once(enable(process, to, false)))
        const late = yield* world.boot(enabling)
        respond(world, () => ok)

        yield* Time.setTime((yield* deliveryTo(world, to)).nextAttemptAt!)
        yield* settle(late)

        const { status, lastError, attempts } = yield* deliveryTo(world, to)
        assert.deepEqual([enabling.hasStruck, status, lastError, attempts.map(({ outcome }) => outcome)], [true, "delivered", null, ["http_error", "success"]])
      })
    ),

    scenario("a delivery dies of its endpoint no sooner than that was disabled, by whatever clock", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        respond(world, () => broken)
        yield* happen(process, of)
        yield* settle(process)
        const { nextAttemptAt } = yield* deliveryTo(world, to)
        const disabledAt = nextAttemptAt! + 5_000
        yield* Time.setTime(disabledAt)
        yield* process.webhookManagement.disableEndpoint(system, of.realm.tenantId, to.endpoint.id)

        yield* Time.setTime(nextAttemptAt!)
        yield* settle(process)

        const { status, deadAt } = yield* deliveryTo(world, to)
        assert.deepEqual([status, deadAt], ["dead", disabledAt])
      })
    ),

    scenario("a message that was put off for its file is due with the verdict, though another process changes either at that moment", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const elsewhere = world.witness.watch(world.store)
        const change = (changes: (attachment: Attachment, message: Message) => Change) =>
          Effect.gen(function* () {
            const [attachment, message] = [yield* world.store.attachments.get(of.realm, fileId), yield* messageOf(world, of, id)]
            yield* elsewhere.commit([changes(attachment!, message)], [])
          })
        const updated = (message: Message, over: Partial<Message>): Change =>
          ({ _tag: "Update", kind: "message", record: { ...message, version: message.version + 1, ...over } })
        world.stage.scan = () => Effect.fail(new ScanFailed({ reason: "away" }))
        const { id: fileId } = yield* upload(process, of)
        const id = yield* send(process, of, ada, { attachmentIds: [fileId] })
        yield* settle(process)
        const { nextScanAt } = (yield* world.store.attachments.get(of.realm, fileId))!
        yield* change((_, message) => updated(message, { nextAttemptAt: nextScanAt! + 3_600_000 }))
        world.stage.scan = () => Effect.succeed({ _tag: "Clean" })
        // Ahead of the commit that begins the scan, and of the one that makes the message due, behind the two of the scan.
        let commits = 0
        const play = Effect.suspend(() => {
          commits += 1
          if (commits === 1) return change((file) => ({ _tag: "Update", kind: "attachment", record: { ...file, version: file.version + 1 } }))
          return commits === 4 ? change((_, message) => updated(message, { isStarred: true })) : Effect.void
        })
        const unlucky = yield* world.boot(new Ahead("Store.commit", Effect.orDie(play)))

        yield* Time.setTime(nextScanAt!)
        yield* settle(unlucky)

        const { isStarred, status, sentAt } = yield* messageOf(world, of, id)
        assert.deepEqual([isStarred, status, sentAt], [true, "sent", nextScanAt])
      })
    ),

    scenario("a file that is removed while it is scanned is gone, and its scan says nothing", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const lines: Array<string> = []
        const { id } = yield* upload(process, of)
        const stored = world.store.attachments.get(of.realm, id)
        const removed = Effect.flatMap(stored, (attachment) => world.store.commit([{ _tag: "Remove", kind: "attachment", record: attachment! }], []))
        world.stage.scan = () => Effect.as(Effect.orDie(removed), { _tag: "Clean" })

        yield* Effect.provide(settle(process), loggedTo(lines))

        assert.deepEqual([yield* stored, lines], [null, []])
      })
    ),

    scenario("bytes that are stored again when retention is about to remove them stay", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const calm = yield* world.boot()
        const first = yield* upload(calm, of)
        const uploaded: Array<AttachmentId> = []
        const again = Effect.map(Effect.orDie(upload(calm, of)), ({ id }) => void uploaded.push(id))
        const retaining = new Ahead("BlobStore.remove", again)
        const process = yield* world.boot(retaining)
        yield* Time.adjust("11 days")

        yield* process.sweep.retain
        yield* settle(calm)

        assert.ok(retaining.hasStruck)
        assert.equal(yield* world.store.attachments.get(of.realm, first.id), null)
        const [second] = yield* world.store.attachments.many(of.realm, uploaded)
        assert.equal(second?.scanState, "clean")
      })
    ),

    scenario("a job of what is no longer there ends, and says nothing", (world) =>
      Effect.gen(function* () {
        const { realm } = yield* world.found()
        const process = yield* world.boot()
        const lines: Array<string> = []
        const now = yield* Clock.currentTimeMillis
        yield* world.queue.offer(jobKinds.map((kind) => jobOf(kind, { ...realm, id: freshId() }, now)))

        yield* Effect.provide(settle(process), loggedTo(lines))

        assert.deepEqual(lines, [])
      })
    )
  ]
}
