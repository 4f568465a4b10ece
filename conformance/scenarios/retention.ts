/** Messages that have a time: what goes with them when it is over, what waits, and what comes late for those that are gone. */
import { Clock, Effect, Stream } from "effect"
import * as assert from "node:assert/strict"
import type { DomainName } from "../../core/model/Address.ts"
import type { BlobRef } from "../../core/model/Blob.ts"
import type { AttachmentId, MessageId } from "../../core/model/Ids.ts"
import { MailProviderUnavailable } from "../../core/ports/MailProvider.ts"
import { address } from "../fixtures.ts"
import { arrive, dsn, withFile } from "./Arrivals.ts"
import { Ahead, once } from "./Faults.ts"
import * as Time from "./Time.ts"
import { logOf, messageOf, pass, providerMessageId, providerName, scenario, send, settle, typesOf, upload, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const [ada, bob] = [address("ada"), address("bob")]
const bounceDomain = "bounces.example" as DomainName // plain enough to be one
const [hour, day] = [3_600_000, 86_400_000]
const week = { messageRetention: 7 * day }

/** Takes a file up, has it scanned, and sends it. */
const sendFile = Effect.fnUntraced(function* (process: Process, of: Tenancy) {
  const { id } = yield* upload(process, of)
  yield* settle(process)
  return { file: id, message: yield* sendWith(process, of, id) }
})

const sendWith = (process: Process, of: Tenancy, file: AttachmentId) =>
  Effect.tap(send(process, of, ada, { attachmentIds: [file] }), () => settle(process))

/** Whether the API shows them. */
const shows = ({ messages, attachments }: Process, { principal }: Tenancy) => ({
  message: (id: MessageId) => Effect.isSuccess(messages.get(principal, id)),
  file: (id: AttachmentId) => Effect.isSuccess(Effect.scoped(attachments.download(principal, id)))
})

const isKept = ({ blobs }: World, { realm }: Tenancy, ref: BlobRef) => Effect.isSuccess(Stream.runDrain(blobs.read(realm.tenantId, ref)))

export const suite: ScenarioSuite = {
  name: "messages that have a time",
  checks: [
    scenario("messages are kept for good with their files, unless an operator says how long", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const { file, message } = yield* sendFile(process, of)

        yield* Time.adjust("3650 days")
        yield* process.sweep.retain

        const shown = shows(process, of)
        assert.deepEqual([yield* shown.message(message), yield* shown.file(file)], [true, true])
      })
    ),

    scenario("a message goes when it is so old, with its bodies, its file and what was built of it; its events have a time of their own", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        const { file, message } = yield* sendFile(process, of)
        const { mime } = yield* messageOf(world, of, message)
        const { blob } = (yield* world.store.attachments.get(of.realm, file))!
        const shown = shows(process, of)
        const held = Effect.all([shown.message(message), shown.file(file), isKept(world, of, mime!), isKept(world, of, blob)])
        const told = yield* logOf(world, of, message)

        yield* Time.adjust("7 days")
        yield* process.sweep.retain
        assert.deepEqual(yield* held, [true, true, true, true])
        yield* Time.adjust(1)
        yield* process.sweep.retain
        assert.deepEqual(yield* held, [false, true, false, true])
        assert.deepEqual((yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: null })).items, [])
        yield* Time.adjust("1 hour")
        yield* process.sweep.retain

        assert.deepEqual(yield* held, [false, false, false, false])
        assert.equal(yield* world.store.messages.content(of.realm, message), null)
        assert.deepEqual(yield* logOf(world, of, message), told)
      })
    ),

    scenario("a message that came in goes in the same way", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        yield* arrive(process, of.mailbox.address, withFile("the engine weaves"))
        yield* settle(process)
        const [listed] = (yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: null })).items
        const { mime, attachmentIds: [file] } = yield* messageOf(world, of, listed!.id)
        const shown = shows(process, of)
        const held = Effect.all([shown.message(listed!.id), shown.file(file!), isKept(world, of, mime!)])
        assert.deepEqual(yield* held, [true, true, true])

        yield* Time.adjust(7 * day + hour + 1)
        yield* process.sweep.retain

        assert.deepEqual(yield* held, [false, false, false])
      })
    ),

    scenario("a file that came in goes with its message, however late that was read", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        yield* arrive(process, of.mailbox.address, withFile("the engine weaves"))
        yield* Time.adjust("3 days")
        yield* settle(process)
        const [listed] = (yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: null })).items
        const { attachmentIds: [file] } = yield* messageOf(world, of, listed!.id)
        const shown = shows(process, of)
        const held = Effect.all([shown.message(listed!.id), shown.file(file!)])

        yield* Time.adjust(4 * day + hour)
        yield* process.sweep.retain
        assert.deepEqual(yield* held, [false, true])
        yield* Time.adjust(1)
        yield* process.sweep.retain

        assert.deepEqual(yield* held, [false, false])
      })
    ),

    scenario("a file that is removed while its download begins is not found", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        const { file } = yield* sendFile(process, of)
        const { bytes } = yield* process.attachments.download(of.principal, file)

        yield* Time.adjust(7 * day + hour + 1)
        yield* process.sweep.retain

        assert.equal((yield* Effect.flip(Stream.runDrain(bytes)))._tag, "NotFound")
      })
    ),

    scenario("what is not sent yet is kept, however old, and so is its file", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { messageRetention: day })
        world.stage.behave = () => Effect.fail(new MailProviderUnavailable({ cause: "away" }))
        const { file, message } = yield* sendFile(process, of)
        const shown = shows(process, of)
        const held = Effect.all([shown.message(message), shown.file(file)])

        yield* pass(process, "30 hours", "1 hour")
        yield* process.sweep.retain
        assert.equal((yield* messageOf(world, of, message)).status, "queued")
        assert.deepEqual(yield* held, [true, true])
        yield* pass(process, "20 hours", "1 hour")
        assert.equal((yield* messageOf(world, of, message)).status, "failed")
        yield* process.sweep.retain

        assert.deepEqual(yield* held, [false, false])
        assert.ok(typesOf(yield* logOf(world, of, message)).includes("message.failed"))
      })
    ),

    scenario("an upload waits a week for its first message, however short the time of messages", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { messageRetention: day })
        const { id } = yield* upload(process, of)
        yield* settle(process)

        yield* Time.adjust(7 * day - 1)
        yield* process.sweep.retain

        const message = yield* sendWith(process, of, id)
        assert.deepEqual((yield* process.messages.get(of.principal, message)).message.attachments.map((file) => file.id), [id])
      })
    ),

    scenario("a file is kept for as long as the last message that used it", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        const { file, message: first } = yield* sendFile(process, of)
        yield* Time.adjust("30 minutes")
        const soon = yield* sendWith(process, of, file)
        yield* Time.adjust("5 days")
        const late = yield* sendWith(process, of, file)
        const shown = shows(process, of)
        const held = Effect.all([...[first, soon, late].map(shown.message), shown.file(file)])

        yield* Time.adjust("3 days")
        yield* process.sweep.retain
        assert.deepEqual(yield* held, [false, false, true, true])
        const { attachments } = (yield* process.messages.get(of.principal, late)).message
        assert.deepEqual(attachments.map(({ id }) => id), [file])
        yield* Time.adjust(4 * day + hour + 1)
        yield* process.sweep.retain

        assert.deepEqual(yield* held, [false, false, false, false])
        const error = yield* Effect.flip(sendWith(process, of, file))
        assert.deepEqual([error._tag, "field" in error && error.field], ["NotFound", "attachmentIds"])
      })
    ),

    scenario("many messages at once use a file whose last use is long ago, and each is accepted", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        const { file } = yield* sendFile(process, of)
        const stored = Effect.map(world.store.attachments.get(of.realm, file), (attachment) => attachment!)
        const { version } = yield* stored
        yield* Time.adjust("2 hours")

        const ids = yield* Effect.all(Array.from({ length: 30 }, () => send(process, of, ada, { attachmentIds: [file] })), { concurrency: "unbounded" })

        assert.equal(new Set(ids).size, 30)
        const after = yield* stored
        assert.deepEqual([after.version, after.usedAt], [version + 1, yield* Clock.currentTimeMillis])
      })
    ),

    scenario("a file is there for a message whose acceptance comes before its end, and refused to one that comes behind", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const calm = yield* world.boot(undefined, week)
        const files = [(yield* sendFile(calm, of)).file, (yield* sendFile(calm, of)).file] as const
        yield* Time.adjust("8 days")

        const retaining = yield* world.boot(new Ahead("Store.commit", once(sendWith(calm, of, files[0]))), week)
        yield* retaining.sweep.retain
        assert.equal(yield* shows(calm, of).file(files[0]), true, "it is used anew")
        const fresh = yield* sendFile(calm, of)
        yield* Time.adjust("8 days")
        const sending = yield* world.boot(new Ahead("Store.commit", once(calm.sweep.retain)), week)
        const error = yield* Effect.flip(sendWith(sending, of, fresh.file))

        assert.deepEqual([error._tag, "field" in error && error.field], ["NotFound", "attachmentIds"])
        assert.deepEqual((yield* calm.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: null })).items, [])
      })
    ),

    scenario("what comes late about a message that is gone changes nothing, and holds nobody up", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { ...week, bounceDomain })
        const id = yield* send(process, of, bob)
        yield* settle(process)
        const { internetMessageId } = yield* messageOf(world, of, id)
        const { returnPath } = world.stage.submissions.at(-1)!.request.envelope
        yield* Time.adjust("8 days")
        yield* process.sweep.retain
        const told = yield* logOf(world, of)
        const report = dsn(internetMessageId, [{ to: bob, action: "failed", status: "5.1.1" }])

        const outcome = { _tag: "Bounced", at: yield* Clock.currentTimeMillis, class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: null } as const
        yield* process.notifications.record([{ provider: providerName, providerMessageId: providerMessageId({ messageId: id }), recipient: bob, outcome }])
        yield* arrive(process, String(returnPath), report, null)
        yield* settle(process)
        yield* process.sweep.tick

        assert.deepEqual(yield* logOf(world, of), told)
        assert.deepEqual(yield* world.store.suppressions.among(of.realm, [bob]), [])
        const error = yield* Effect.flip(process.messages.update(of.principal, id, { mailboxId: of.mailbox.id, isRead: false }))
        assert.equal(error._tag, "NotFound")
      })
    ),

    scenario("retention that is stopped at any of its commits goes on with the next", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, week)
        const { file, message } = yield* sendFile(process, of)
        yield* Time.adjust("8 days")
        const shown = shows(process, of)
        world.stage.storeIsDown = true
        yield* process.sweep.retain
        world.stage.storeIsDown = false
        assert.deepEqual([yield* shown.message(message), yield* shown.file(file)], [true, true])

        yield* process.sweep.retain

        assert.deepEqual([yield* shown.message(message), yield* shown.file(file)], [false, false])
      })
    )
  ]
}
