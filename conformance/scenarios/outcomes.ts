/** From accepted to every end there is: the sandbox's outcomes, refusals, retries, suppression, scans. */
import { Clock, Duration, Effect, Fiber, Result, Stream } from "effect"
import * as assert from "node:assert/strict"
import type { Address, DomainName } from "../../core/model/Address.ts"
import { scanTimeout } from "../../core/jobs/ScanAttachment.ts"
import { system } from "../../core/model/Audit.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Status } from "../../core/model/Message.ts"
import type { Reply } from "../../core/model/Reply.ts"
import { MailProviderUnavailable, SubmissionRefused, type SubmitRequest } from "../../core/ports/MailProvider.ts"
import { ScanFailed } from "../../core/ports/Scanner.ts"
import { address } from "../fixtures.ts"
import { NoCommits } from "./Faults.ts"
import * as Time from "./Time.ts"
import {
  accepted,
  healthyChecks,
  letter,
  logOf,
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
  type ScenarioSuite,
  type Tenancy,
  type World
} from "./World.ts"

const sandboxOutcomes: ReadonlyArray<{ readonly to: string; readonly ends: Status; readonly events: ReadonlyArray<string> }> = [
  { to: "delivered", ends: "delivered", events: ["message.delivered"] },
  { to: "anybody", ends: "delivered", events: ["message.delivered"] },
  { to: "bounced", ends: "bounced", events: ["message.bounced"] },
  { to: "bounced+tag", ends: "bounced", events: ["message.bounced"] },
  { to: "bounced-soft", ends: "bounced", events: ["message.bounced"] },
  { to: "failed", ends: "failed", events: ["message.failed"] },
  { to: "delayed", ends: "delivered", events: ["message.delivered"] },
  { to: "late-bounce", ends: "bounced", events: ["message.delivered", "message.bounced"] },
  { to: "duplicate", ends: "delivered", events: ["message.delivered"] }
]

const reply = (smtpCode: number, enhancedCode: string, text = "no"): Reply => ({ smtpCode, enhancedCode, text })

/** Answers each recipient by a table; who is not in it is taken. */
const answers = (request: SubmitRequest, table: Readonly<Record<string, Reply>>) => ({
  ...accepted(request),
  replies: request.envelope.recipients.map((recipient) => ({
    recipient,
    reply: table[recipient] ?? reply(250, "2.0.0", "Ok")
  }))
})

const recipientStates = (world: World, of: Tenancy, id: MessageId) =>
  Effect.map(messageOf(world, of, id), ({ recipients }) =>
    Object.fromEntries(recipients.map(({ address, status }) => [address, status]))
  )

const deliver = (id: MessageId, recipient: Address, at: number) => ({
  provider: providerName,
  providerMessageId: providerMessageId({ messageId: id }),
  recipient,
  outcome: { _tag: "Delivered" as const, at, smtpResponse: "250 Ok" }
})

const [ada, bob, eve] = [address("ada"), address("bob"), address("eve")]

export const suite: ScenarioSuite = {
  name: "send to every outcome",
  checks: [
    ...sandboxOutcomes.map(({ to, ends, events }) =>
      scenario(`the sandbox takes mail to ${to}@ to ${ends}`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found("sandbox")
          const process = yield* world.boot()

          const id = yield* send(process, tenancy, address(to))
          assert.equal((yield* messageOf(world, tenancy, id)).status, "queued")
          yield* settle(process)
          assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
          yield* pass(process, "20 seconds", "250 millis")
          yield* pass(process, "100 seconds")

          assert.equal((yield* messageOf(world, tenancy, id)).status, ends)
          assert.deepEqual(typesOf(yield* logOf(world, tenancy, id)), ["message.queued", "message.sent", ...events])
          assert.equal(world.stage.submissions.length, 0, "nothing reached the production provider")
        })
      )
    ),

    scenario("a later outcome of the sandbox survives a restart", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("sandbox")
        const first = yield* world.boot()
        const id = yield* send(first, tenancy, address("late-bounce"))
        yield* settle(first)

        const second = yield* world.boot()
        yield* pass(second, "1 minute", "1 second")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "bounced")
      })
    ),

    scenario("sandbox bounces suppress nobody", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("sandbox")
        const process = yield* world.boot()
        yield* send(process, tenancy, address("bounced"))
        yield* pass(process, "10 seconds", "250 millis")

        const again = yield* send(process, tenancy, address("bounced"))
        yield* settle(process)

        assert.equal((yield* messageOf(world, tenancy, again)).status, "sent")
        assert.deepEqual(yield* world.store.suppressions.among(tenancy.realm, [address("bounced")]), [])
      })
    ),

    scenario("the status is a fold over the recipients, and message.sent comes once, when none is queued", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          Effect.succeed(answers(request, nth === 1 ? { [bob]: reply(451, "4.7.1"), [eve]: reply(550, "5.1.1") } : {}))

        const id = yield* send(process, tenancy, [ada, bob, eve])
        yield* settle(process)
        assert.deepEqual(yield* recipientStates(world, tenancy, id), { [ada]: "sent", [bob]: "queued", [eve]: "bounced" })
        assert.equal((yield* messageOf(world, tenancy, id)).status, "queued")
        yield* pass(process, "2 minutes")

        assert.deepEqual(yield* recipientStates(world, tenancy, id), { [ada]: "sent", [bob]: "sent", [eve]: "bounced" })
        const { status, submissions } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, submissions.map(({ recipients }) => recipients)], ["bounced", [[ada], [bob]]])
        assert.deepEqual(typesOf(yield* logOf(world, tenancy, id)), ["message.queued", "message.bounced", "message.sent"])
        assert.deepEqual(
          world.stage.submissions.map(({ request }) => request.envelope.recipients),
          [[ada, bob, eve], [bob]],
          "the second submission is for the recipient still queued"
        )
      })
    ),

    scenario("all submissions of a message carry the same bytes, and those are stored, whatever its size", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          nth < 3 ? Effect.fail(new MailProviderUnavailable({ cause: "reset" })) : Effect.succeed(accepted(request))

        for (const length of [1, 1_000, 3_000, 15_000]) {
          world.stage.submissions.length = 0
          const id = yield* send(process, tenancy, ada, { text: "The engine weaves.\n".repeat(length), html: "<p>The engine weaves</p>" })
          yield* pass(process, "10 minutes")

          const all = world.stage.submissions.map(({ bytes }) => Buffer.from(bytes))
          assert.equal(all.length, 3)
          const { mime } = yield* messageOf(world, tenancy, id)
          const stored = yield* Stream.mkUint8Array(world.blobs.read(tenancy.realm.tenantId, mime!))
          assert.ok(all.every((bytes) => bytes.equals(stored)), `${length} lines`)
        }
      })
    ),

    scenario("transient refusals are tried again after 1 m, 5 m, 15 m, 1 h, then every 4 h, and fail after 48 h", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request) => Effect.succeed(answers(request, { [ada]: reply(421, "4.3.2", "try later") }))

        const started = yield* Clock.currentTimeMillis
        const id = yield* send(process, tenancy, ada)
        yield* pass(process, "2 hours", "1 minute")
        yield* pass(process, "58 hours", "10 minutes")

        const times = world.stage.submissions.map(({ at }) => at - started)
        const steps = times.slice(1).map((at, index) => at - times[index]!)
        const expected = [1, 5, 15, 60, ...steps.slice(4, -1).map(() => 240)].map((minutes) => minutes * 60_000)
        expected.forEach((step, index) => {
          const slack = step * 0.2 + (index < 4 ? 60_000 : 600_000) // jitter, and the step in which time passes
          assert.ok(Math.abs(steps[index]! - step) <= slack, `try ${index + 2} came ${steps[index]} ms after the one before`)
        })
        assert.ok(times.length >= 14, `${times.length} tries`)
        assert.ok(times[times.length - 1]! <= Duration.toMillis("48 hours") + 600_000)
        const message = yield* messageOf(world, tenancy, id)
        assert.equal(message.status, "failed")
        assert.deepEqual([message.failure?.stage, message.failure?.code], ["submit", "4.3.2"])
        assert.deepEqual(typesOf(yield* logOf(world, tenancy, id)), ["message.queued", "message.failed"])
      })
    ),

    scenario("a submission refused as a whole fails every recipient", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = () => Effect.fail(new SubmissionRefused({ reply: reply(554, "5.7.1", "we do not like it\r\nat all") }))

        const id = yield* send(process, tenancy, [ada, bob])
        yield* pass(process, "3 days", "6 hours")

        assert.equal(world.stage.submissions.length, 1, "a refusal for good is not tried again")
        assert.deepEqual(typesOf(yield* logOf(world, tenancy, id)), ["message.queued", "message.failed", "message.failed"])
        assert.deepEqual((yield* messageOf(world, tenancy, id)).failure, {
          stage: "submit",
          code: "5.7.1",
          message: "we do not like it at all"
        })
      })
    ),

    scenario("a submission refused as a whole for the moment is tried again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          nth === 1 ? Effect.fail(new SubmissionRefused({ reply: reply(421, "4.4.5", "busy") })) : Effect.succeed(accepted(request))

        const id = yield* send(process, tenancy, ada)
        yield* pass(process, "2 minutes")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
      })
    ),

    scenario("an address that bounced for good is not mailed again by its tenant, and by others it is", (world) =>
      Effect.gen(function* () {
        const [tenancy, other] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          Effect.succeed(answers(request, nth === 1 && world.stage.submissions.length === 1 ? { [eve]: reply(550, "5.1.1") } : {}))
        yield* send(process, tenancy, eve)
        yield* settle(process)

        const shouted = "EVE@example.com" as Address // the same recipient in other case
        const [again, foreign] = [yield* send(process, tenancy, [shouted, bob]), yield* send(process, other, eve)]
        yield* settle(process)

        const { recipients } = yield* messageOf(world, tenancy, again)
        assert.deepEqual(recipients.map(({ status }) => status), ["bounced", "sent"])
        assert.equal(recipients[0]!.evidence.bounced?.bounce.class, "suppressed")
        const resubmitted = world.stage.submissions.filter(({ request }) => request.messageId === again)
        assert.deepEqual(resubmitted.map(({ request }) => request.envelope.recipients), [[bob]])
        assert.equal((yield* messageOf(world, other, foreign)).status, "sent")
      })
    ),

    scenario("a message to suppressed addresses alone bounces without being submitted or sent", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request) => Effect.succeed(answers(request, { [eve]: reply(550, "5.1.1") }))
        yield* send(process, tenancy, eve)
        yield* settle(process)

        const id = yield* send(process, tenancy, eve)
        yield* settle(process)

        assert.equal(world.stage.submissions.length, 1)
        assert.deepEqual(typesOf(yield* logOf(world, tenancy, id)), ["message.queued", "message.bounced"])
      })
    ),

    scenario("a complaint is kept on the recipient and suppresses the address, without an event", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const id = yield* send(process, tenancy, eve)
        yield* settle(process)
        const at = yield* Clock.currentTimeMillis
        const notification = { ...deliver(id, eve, at), outcome: { _tag: "Complained" as const, at } }

        yield* process.notifications.record([notification, notification])
        const later = yield* send(process, tenancy, eve)
        yield* settle(process)

        assert.equal((yield* messageOf(world, tenancy, id)).recipients[0]!.complainedAt, at)
        assert.deepEqual(typesOf(yield* logOf(world, tenancy, id)), ["message.queued", "message.sent"])
        assert.equal((yield* messageOf(world, tenancy, later)).status, "bounced")
      })
    ),

    scenario("duplicate recipients are mailed once, in the strongest role, and bcc stays out of the bytes", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const hidden = address("hidden")
        const shouted = "Bob@example.com" as Address // bob in other case

        const id = yield* send(process, tenancy, [ada, ada], { cc: [ada, bob], bcc: [shouted, hidden] })
        yield* settle(process)

        const { recipients } = yield* messageOf(world, tenancy, id)
        assert.deepEqual(recipients.map(({ address, role }) => [address, role]), [[ada, "to"], [bob, "cc"], [hidden, "bcc"]])
        assert.deepEqual(world.stage.submissions[0]!.request.envelope.recipients, [ada, bob, hidden])
        assert.ok(!Buffer.from(world.stage.submissions[0]!.bytes).toString("latin1").includes("hidden"))
      })
    ),

    scenario("bounces come back to a signed address of the message at the bounce domain, else to the mailbox", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const plain = yield* world.boot()
        yield* send(plain, tenancy, ada)
        yield* settle(plain)
        const bounceDomain = "bounces.example" as DomainName // a host name
        const signing = yield* world.boot(undefined, { bounceDomain })
        const ids = [yield* send(signing, tenancy, ada), yield* send(signing, tenancy, ada)]
        yield* settle(signing)

        const paths = world.stage.submissions.map(({ request }) => request.envelope.returnPath)
        assert.equal(paths[0], tenancy.mailbox.address)
        const signed = paths.slice(1).map((path) => /^b\.([0-9a-f]{32})\.([0-9a-f]{16})@bounces\.example$/.exec(path ?? ""))
        // They are submitted at once, in whatever order.
        assert.deepEqual(new Set(signed.map((match) => match?.[1])), new Set(ids.map((id) => id.replaceAll("-", ""))))
        assert.notEqual(signed[0]?.[2], signed[1]?.[2])
      })
    ),

    scenario("a message waits while its sender may not send, and goes when it may again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = tenancy.realm
        const domainId = tenancy.mailbox.domainId
        const id = yield* send(process, tenancy, ada)

        yield* process.management.updateMailbox(system, tenantId, tenancy.mailbox.id, { status: "suspended" })
        yield* pass(process, "3 minutes")
        assert.equal(world.stage.submissions.length, 0)
        yield* process.management.updateMailbox(system, tenantId, tenancy.mailbox.id, { status: "active" })
        yield* process.management.setDomainSuspended(system, tenantId, domainId, true)
        yield* pass(process, "10 minutes", "1 minute")
        assert.equal(world.stage.submissions.length, 0)
        yield* process.management.setDomainSuspended(system, tenantId, domainId, false)
        yield* process.management.recordChecks(tenantId, domainId, healthyChecks)
        yield* pass(process, "1 hour", "1 minute")

        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
      })
    ),

    scenario("a message waits for its attachment's scan and goes when it is clean", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const attachment = yield* upload(process, tenancy)
        assert.equal(attachment.scanState, "pending")

        const id = yield* send(process, tenancy, ada, { attachmentIds: [attachment.id] })
        yield* settle(process)

        const stored = yield* world.store.attachments.get(tenancy.realm, attachment.id)
        assert.deepEqual([stored?.scanState, stored?.messageId, stored?.expiresAt], ["clean", id, null])
        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        assert.ok(Buffer.from(world.stage.submissions[0]!.bytes).toString("latin1").includes("notes.txt"))
      })
    ),

    scenario("malware found after acceptance fails the message at stage scan, and nothing is submitted", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.scan = () => Effect.succeed({ _tag: "Infected", signature: "Test" })
        const attachment = yield* upload(process, tenancy)

        const id = yield* send(process, tenancy, ada, { attachmentIds: [attachment.id] })
        yield* pass(process, "1 hour", "5 minutes")

        const message = yield* messageOf(world, tenancy, id)
        assert.deepEqual([message.status, message.failure?.stage], ["failed", "scan"])
        assert.equal(world.stage.submissions.length, 0)
        const again = yield* Effect.flip(process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada, { attachmentIds: [attachment.id] })))
        assert.equal(again._tag, "AttachmentInfected")
        assert.equal((yield* Effect.flip(process.attachments.download(tenancy.principal, attachment.id)))._tag, "AttachmentNotClean")
      })
    ),

    ...(
      [
        ["fails", () => Effect.fail(new ScanFailed({ reason: "limits exceeded" })), "40 seconds"],
        ["breaks", () => Effect.die(new Error("scanner bug")), "40 seconds"],
        ["never answers", () => Effect.never, Duration.sum(scanTimeout, Duration.seconds(30))]
      ] as const
    ).map(([how, scan, between]) =>
      scenario(`a scanner that ${how} ends in error, never in clean, and the next scan decides`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found()
          const process = yield* world.boot()
          world.stage.scan = scan
          const attachment = yield* upload(process, tenancy)
          const id = yield* send(process, tenancy, ada, { attachmentIds: [attachment.id] })

          const ticking = yield* Effect.forkChild(settle(process))
          yield* Time.adjust(between) // the scan has ended and the next one is not due, but the message is, since half a minute
          yield* Fiber.join(ticking)
          yield* process.sweep.tick
          yield* settle(process)
          const stored = yield* world.store.attachments.get(tenancy.realm, attachment.id)
          assert.equal(stored?.scanState, "error")
          assert.ok((yield* messageOf(world, tenancy, id)).attempts > 0, "it was looked at in that state")
          assert.equal(world.stage.submissions.length, 0)
          const refused = yield* Effect.flip(process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada, { attachmentIds: [attachment.id] })))
          assert.equal(refused._tag, "AttachmentNotClean")
          world.stage.scan = () => Effect.succeed({ _tag: "Clean" })
          yield* Time.adjust("1 minute")
          yield* pass(process, "30 minutes", "30 seconds")

          assert.equal((yield* world.store.attachments.get(tenancy.realm, attachment.id))?.scanState, "clean")
          assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        })
      )
    ),

    scenario("a job that kills every worker that takes it is parked as failed at its fifth claim, and others go on", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request) =>
          request.envelope.recipients.includes(eve) ? Effect.die(new Error("provider bug")) : Effect.succeed(accepted(request))

        const poison = yield* send(process, tenancy, eve)
        yield* pass(process, "10 minutes", "30 seconds")
        const other = yield* send(process, tenancy, bob)
        yield* settle(process)

        const message = yield* messageOf(world, tenancy, poison)
        assert.deepEqual([message.status, message.failure?.code], ["failed", "poison"])
        assert.equal(world.stage.submissions.filter(({ request }) => request.messageId === poison).length, 4)
        assert.equal((yield* messageOf(world, tenancy, other)).status, "sent")
      })
    ),

    scenario("a result that breaks four who record it is not submitted again, though the store is away when it is given up", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const store = new NoCommits()
        const [calm, process] = [yield* world.boot(), yield* world.boot(store)]
        const id = yield* send(calm, tenancy, ada)
        Object.assign(store, { isOn: true, isBroken: true })
        yield* Effect.forEach([1, 2, 3, 4], () => Effect.andThen(process.worker.tick, Time.adjust("2 minutes")))

        store.isBroken = false
        yield* process.worker.tick
        store.isOn = false
        yield* pass(process, "5 minutes")

        assert.deepEqual([(yield* messageOf(world, tenancy, id)).status, world.stage.submissions.length], ["sent", 1])
      })
    ),

    scenario("flags set while a submission is under way and its result are both kept", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const id = yield* send(process, tenancy, ada)
        world.stage.behave = (request) =>
          Effect.as(
            Effect.orDie(process.messages.update(tenancy.principal, id, { mailboxId: tenancy.mailbox.id, isStarred: true })),
            accepted(request)
          )

        yield* settle(process)

        const message = yield* messageOf(world, tenancy, id)
        assert.deepEqual([message.status, message.isStarred, message.version], ["sent", true, 3])
      })
    ),

    scenario("an upload that no message used goes after 7 days, and its bytes with it; a used one stays", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const used = yield* upload(process, tenancy)
        const unused = yield* upload(process, tenancy, "other.txt", "other bytes")
        yield* settle(process)
        yield* send(process, tenancy, ada, { attachmentIds: [used.id] })
        yield* settle(process)

        yield* Time.adjust("6 days")
        yield* process.sweep.retain
        const kept = yield* world.store.attachments.get(tenancy.realm, unused.id)
        const bytes = Effect.result(Stream.runDrain(world.blobs.read(tenancy.realm.tenantId, kept!.blob)))
        assert.ok(Result.isSuccess(yield* bytes))
        yield* Time.adjust("2 days")
        yield* process.sweep.retain

        assert.equal(yield* world.store.attachments.get(tenancy.realm, unused.id), null)
        assert.ok(Result.isFailure(yield* bytes))
        const download = yield* process.attachments.download(tenancy.principal, used.id)
        assert.equal(Result.isSuccess(yield* Effect.result(Stream.runDrain(download.bytes))), true)
      })
    )
  ]
}
