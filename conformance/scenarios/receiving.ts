/** Mail comes in: where it goes, what is kept of it, who is told, and what a crash leaves. */
import { Effect, Exit, Fiber, Latch, Stream } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Message } from "../../core/model/Message.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { answerTo, arrive, peer, plain, refusalOf, withFile, written } from "./Arrivals.ts"
import { atEachCall, Faults, toRest } from "./Faults.ts"
import { hook, postsTo } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { healthyChecks, letter, logOf, pass, scenario, settle, someKey, typesOf, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** All messages of a tenancy's realm, the newest first. */
const messagesOf = ({ store }: World, { realm }: Tenancy): Effect.Effect<ReadonlyArray<Message>, StoreUnavailable> =>
  store.messages.page(realm, { mailboxId: null, before: null, limit: 1_000 })

const theOnly = <A>(found: ReadonlyArray<A>): A => {
  assert.equal(found.length, 1)
  return found[0]!
}

const domainOf = ({ mailbox }: Tenancy): string => mailbox.address.slice(mailbox.address.indexOf("@") + 1)

export const suite: ScenarioSuite = {
  name: "receiving",
  checks: [
    scenario("a message that was taken is listed, shown, announced by one event and one webhook, and its file can be downloaded", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const to = yield* hook(process, of, { eventTypes: ["message.received"] })

        yield* arrive(process, of.mailbox.address, withFile("0123456789"))
        const before = theOnly((yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: of.mailbox.id })).items)
        yield* pass(process, "1 minute")

        assert.deepEqual([before.status, before.folder, before.subject], ["received", "inbox", "Note G"])
        const { message } = yield* process.messages.get(of.principal, before.id)
        assert.deepEqual(
          [message.direction, message.status, message.isRead, message.from, message.snippet, message.hasAttachments],
          ["inbound", "received", false, { address: "charles@sender.example", name: "Charles" }, "See the notes.", true]
        )
        assert.deepEqual(message.to, [{ address: "ada@there.example", name: "Ada" }, { address: "mary@there.example", name: "" }])
        assert.deepEqual(message.cc, [{ address: "luigi@there.example", name: "" }])
        assert.deepEqual([message.bcc, message.recipients, message.defects], [[], [], []])
        assert.deepEqual(message.authentication, { spf: "pass", dkim: "pass", dmarc: "pass" })
        const file = theOnly(message.attachments)
        assert.deepEqual([file.filename, file.scanState, file.messageId, file.expiresAt], ["notes.bin", "clean", message.id, null])
        assert.equal(message.mime.parts[1]?.attachmentId, file.id)
        const download = yield* process.attachments.download(of.principal, file.id)
        assert.equal(Buffer.from(yield* Stream.mkUint8Array(download.bytes)).toString(), "0123456789")

        assert.deepEqual(typesOf(yield* logOf(world, of, message.id)), ["message.received"])
        const { data } = theOnly(postsTo(world, to)).json
        assert.deepEqual(
          [data.id, data.from, data.to, data.folder, data.attachments, data.authentication, data.sequence],
          [message.id, "charles@sender.example", ["ada@there.example", "mary@there.example"], "inbox", [file.id], message.authentication, 1]
        )
      })
    ),

    scenario("the stored bytes are those that came, behind our trace field; those who judge see them without it", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { hostName: "in.example.net" })
        const bytes = plain()

        yield* arrive(process, of.mailbox.address, bytes)
        yield* settle(process)

        const message = theOnly(yield* messagesOf(world, of))
        assert.ok(message.mime !== null)
        assert.equal(message.sizeBytes, message.mime.sizeBytes)
        const content = yield* world.store.messages.content(of.realm, message.id)
        const [trace] = content?.headers ?? []
        assert.equal(trace?.name, "Received")
        assert.match(trace.value, /^from mx\.sender\.example \(\[192\.0\.2\.25\]\)\s+by in\.example\.net \(Mailroom\) with ESMTPS id /)
        assert.ok(trace.value.includes(message.requestId))
        for (const judged of world.stage.judged) assert.deepEqual(Buffer.from(judged), Buffer.from(bytes))
        assert.equal(world.stage.judged.length, 2)
      })
    ),

    scenario("recipients are refused by what they are", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { bounceDomain: "bounces.example" as never }) // plain enough to be one
        const [of, other] = [yield* world.found(), yield* world.found()]
        const { management } = process
        const domain = domainOf(of)
        const suspended = yield* management.createMailbox(system, { tenantId: of.realm.tenantId, address: `sus@${domain}` as never, displayName: "" })
        yield* management.updateMailbox(system, of.realm.tenantId, suspended.id, { status: "suspended" })

        const answers = yield* Effect.forEach(
          [
            of.mailbox.address,
            of.mailbox.address.toUpperCase(),
            `ada+tag@${domain}`,
            `ada+tag+more@${domain}`,
            `nobody@${domain}`,
            `+ada@${domain}`,
            `postmaster@${domain}`,
            suspended.address,
            "ada@elsewhere.example",
            `ada@sub.${domain}`,
            "ada",
            "<>",
            `"ada"@${domain}`,
            `@elsewhere.example:${of.mailbox.address}`,
            "b.0123456789abcdef0123456789abcdef.0123456789abcdef@bounces.example"
          ],
          (address) => answerTo(process, address)
        )
        const [unknown, foreign] = ["550 5.1.1", "550 5.7.1"]
        assert.deepEqual(answers, [
          null, null, null, null, unknown, unknown, unknown, "550 5.2.1", foreign, foreign,
          "553 5.1.3", "553 5.1.3", "553 5.1.3", "553 5.1.3", unknown
        ])

        const { domainId } = of.mailbox
        yield* management.recordChecks(of.realm.tenantId, domainId, healthyChecks.map((check) => ({ ...check, state: "missing" as const, since: -2 * 86_400_000 })))
        assert.equal(yield* answerTo(process, of.mailbox.address), "451 4.3.5", "a domain whose records are gone")
        yield* management.setDomainSuspended(system, of.realm.tenantId, domainId, true)
        assert.equal(yield* answerTo(process, of.mailbox.address), "550 5.2.1", "a domain that is suspended")
        yield* management.setDomainSuspended(system, of.realm.tenantId, domainId, false)
        assert.equal(yield* answerTo(process, of.mailbox.address), foreign, "a domain that is to be checked")
        yield* management.setTenantStatus(system, other.realm.tenantId, "suspended")
        assert.equal(yield* answerTo(process, other.mailbox.address), "550 5.2.1", "a tenant that is suspended")
      })
    ),

    scenario("the catch-all of a domain takes what no mailbox does, for as long as it is set and in use", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = of.realm
        const domain = domainOf(of)
        const all = yield* process.management.createMailbox(system, { tenantId, address: `all@${domain}` as never, displayName: "" })
        yield* process.management.setCatchAll(system, tenantId, of.mailbox.domainId, all.id)

        yield* arrive(process, [`nobody@${domain}`, of.mailbox.address, `postmaster@${domain}`, `ada+x@${domain}`])
        yield* settle(process)

        const found = (yield* messagesOf(world, of)).map(({ mailboxId, reception }) => `${mailboxId} ${reception?.recipient}`)
        assert.deepEqual(found.toSorted(), [`${all.id} nobody@${domain}`, `${of.mailbox.id} ${of.mailbox.address}`].toSorted())
        yield* process.management.updateMailbox(system, tenantId, all.id, { status: "suspended" })
        assert.equal(yield* answerTo(process, `nobody@${domain}`), "550 5.2.1")
        yield* process.management.setCatchAll(system, tenantId, of.mailbox.domainId, null)
        assert.equal(yield* answerTo(process, `nobody@${domain}`), "550 5.1.1")
        const other = yield* world.found()
        const foreign = yield* Effect.exit(process.management.setCatchAll(system, tenantId, of.mailbox.domainId, other.mailbox.id))
        assert.ok(Exit.isFailure(foreign), "a mailbox of somebody else catches nothing")
      })
    ),

    scenario("a message for several mailboxes is one object for each tenant, and one row for each mailbox", (world) =>
      Effect.gen(function* () {
        const [one, two] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        const second = yield* process.management.createMailbox(system, {
          tenantId: one.realm.tenantId,
          address: `second@${domainOf(one)}` as never,
          displayName: ""
        })

        yield* arrive(process, [one.mailbox.address, `ada+again@${domainOf(one)}`, second.address, two.mailbox.address, one.mailbox.address])
        yield* settle(process)

        const [ours, theirs] = [yield* messagesOf(world, one), yield* messagesOf(world, two)]
        assert.deepEqual(ours.map(({ mailboxId }) => mailboxId).toSorted(), [one.mailbox.id, second.id].toSorted())
        assert.deepEqual(theirs.map(({ mailboxId }) => mailboxId), [two.mailbox.id])
        assert.equal(new Set([...ours, ...theirs].map(({ mime }) => mime?.sha256)).size, 1)
        for (const each of [one, two]) {
          assert.deepEqual(new Set(typesOf(yield* logOf(world, each))), new Set(["message.received"]))
          const [message] = yield* messagesOf(world, each)
          assert.deepEqual(yield* world.store.blobs.referenced(each.realm.tenantId, [message!.mime!.sha256]), [message!.mime!.sha256])
        }
        assert.equal((yield* logOf(world, one)).length, 2)
        // Neither sees what is the other's.
        for (const { id } of theirs) assert.ok(Exit.isFailure(yield* Effect.exit(process.messages.get(one.principal, id))))
      })
    ),

    scenario("a recipient who is refused behind the message refuses it to all, but not for good where others are taken", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const [of, other] = [yield* world.found(), yield* world.found()]
        yield* process.management.setTenantStatus(system, other.realm.tenantId, "suspended")
        const refusal = (to: ReadonlyArray<string>) => Effect.map(Effect.exit(arrive(process, to)), refusalOf)

        assert.equal(yield* refusal([other.mailbox.address, of.mailbox.address]), "451 4.3.0")
        assert.equal(yield* refusal([of.mailbox.address, `nobody@${domainOf(of)}`]), "451 4.3.0")
        assert.equal(yield* refusal([other.mailbox.address]), "550 5.2.1")
        for (const one of [of, other]) assert.deepEqual(yield* messagesOf(world, one), [])
      })
    ),

    scenario("mail goes to the spam folder, or is refused, as the sender's domain and the filter say", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const lenient = yield* world.boot(undefined, { dmarcReject: "spam" })
        const { stage } = world
        const pass = { ...stage.authentication, author: "sender.example" } // who is shown
        const fail = { ...pass, dmarc: "fail" }
        const rows = [
          [process, pass, "ham", "inbox"],
          [process, { ...fail, dmarcPolicy: null }, "ham", "inbox"],
          [process, { ...fail, dmarcPolicy: "none" }, "ham", "inbox"],
          [process, { ...fail, dmarcPolicy: "quarantine" }, "ham", "spam"],
          [process, { ...fail, dmarcPolicy: "reject" }, "ham", "550 5.7.1"],
          [process, { ...fail, spf: "temperror", dmarcPolicy: "reject" }, "ham", "451 4.7.0"],
          [process, { ...fail, dkim: "temperror", dmarcPolicy: "reject" }, "ham", "451 4.7.0"],
          [process, { ...fail, dkim: "temperror", dmarcPolicy: "quarantine" }, "ham", "spam"],
          [process, { ...pass, spf: "temperror", dmarcPolicy: "reject" }, "ham", "inbox"],
          [process, { ...pass, dmarc: "temperror", dmarcPolicy: null }, "ham", "spam"],
          [process, { ...pass, dmarc: "temperror", dmarcPolicy: "reject" }, "ham", "451 4.7.0"],
          [lenient, { ...pass, dmarc: "temperror", dmarcPolicy: "reject" }, "ham", "spam"],
          [process, { ...pass, dmarc: "permerror", dmarcPolicy: null }, "ham", "spam"],
          [lenient, { ...fail, dmarcPolicy: "reject" }, "ham", "spam"],
          [process, { ...pass, author: "other.example" }, "ham", "spam"],
          [process, { ...fail, dmarcPolicy: "reject", author: "other.example" }, "ham", "550 5.7.1"],
          [process, pass, "spam", "spam"],
          [process, pass, "refuse", "550 5.7.1"],
          [process, pass, null, "inbox"]
        ] as const
        for (const [at, authentication, spam, expected] of rows) {
          const of = yield* world.found()
          Object.assign(stage, { authentication, spam })
          const exit = yield* Effect.exit(arrive(at, of.mailbox.address))
          const folders = (yield* messagesOf(world, of)).map(({ folder }) => folder)
          assert.equal(Exit.isSuccess(exit) ? theOnly(folders) : refusalOf(exit), expected, JSON.stringify([authentication, spam]))
          if (Exit.isFailure(exit)) assert.deepEqual(folders, [])
        }
      })
    ),

    scenario("mail that goes round in circles is refused", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { hostName: "in.example.net" })
        const hops = (count: number) =>
          new TextEncoder().encode("Received: from a.example by b.example; Thu, 01 Jan 1970 00:00:00 +0000\r\n".repeat(count) + "Subject: x\r\n\r\nx")
        const own = written({ Received: "from x by in.example.net (Mailroom) with ESMTP id 1; Thu, 01 Jan 1970 00:00:00 +0000", Subject: "x" }, "x")

        for (const bytes of [hops(31), own]) {
          assert.equal(refusalOf(yield* Effect.exit(arrive(process, of.mailbox.address, bytes))), "554 5.4.6")
        }
        assert.deepEqual(yield* messagesOf(world, of), [])
        yield* arrive(process, of.mailbox.address, hops(30))
        assert.equal((yield* messagesOf(world, of)).length, 1)
      })
    ),

    scenario("what arrives goes to the environment that the installation says, and to no other", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found("production")
        const sandbox = yield* world.foundApplication(of, "sandbox")
        const process = yield* world.boot(undefined, { inboundEnvironment: "sandbox" })

        yield* arrive(process, of.mailbox.address)
        yield* settle(process)

        assert.deepEqual(yield* messagesOf(world, of), [])
        assert.equal((yield* messagesOf(world, sandbox)).length, 1)
        assert.deepEqual(typesOf(yield* logOf(world, sandbox)), ["message.received"])
      })
    ),

    scenario("an attachment with malware is shown and never handed out", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.scan = () => Effect.succeed({ _tag: "Infected", signature: "test" })

        yield* arrive(process, of.mailbox.address, withFile("malware"))
        yield* settle(process)

        const { message } = yield* process.messages.get(of.principal, theOnly(yield* messagesOf(world, of)).id)
        const file = theOnly(message.attachments)
        assert.equal(file.scanState, "infected")
        assert.ok(Exit.isFailure(yield* Effect.exit(process.attachments.download(of.principal, file.id))))
      })
    ),

    scenario("mail with a null sender, of a machine or of none, triggers no mail", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()

        yield* arrive(process, of.mailbox.address, plain({ "Auto-Submitted": "auto-replied" }), null)
        yield* arrive(process, of.mailbox.address, plain({ Precedence: "bulk", "Disposition-Notification-To": "charles@sender.example" }))
        yield* arrive(process, of.mailbox.address, plain({ "Return-Receipt-To": "charles@sender.example" }), "")
        yield* pass(process, "1 hour", "10 minutes")

        assert.equal((yield* messagesOf(world, of)).length, 3)
        assert.deepEqual(world.stage.submissions, [])
      })
    ),

    scenario("flags set before a message is parsed stay, and it is announced all the same", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* arrive(process, of.mailbox.address)
        const { id } = theOnly(yield* messagesOf(world, of))

        yield* process.messages.update(of.principal, id, { mailboxId: of.mailbox.id, isStarred: true, folder: "archive" })
        yield* settle(process)

        const message = theOnly(yield* messagesOf(world, of))
        assert.deepEqual([message.isStarred, message.folder, message.snippet], [true, "archive", "The engine weaves."])
        assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.updated", "message.received"])
      })
    ),

    scenario("a message whose bytes are gone is received by its head, with a defect", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* arrive(process, of.mailbox.address)
        const message = theOnly(yield* messagesOf(world, of))
        yield* world.blobs.remove(of.realm.tenantId, message.mime!.sha256, Number.MAX_SAFE_INTEGER)

        yield* settle(process)

        const { message: shown } = yield* process.messages.get(of.principal, message.id)
        assert.deepEqual([shown.subject, shown.defects, shown.text], ["Note G", ["unparsed"], null])
        assert.deepEqual(typesOf(yield* logOf(world, of, message.id)), ["message.received"])
      })
    ),

    scenario("an attachment that came in can be sent on", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* arrive(process, of.mailbox.address, withFile("0123456789"))
        yield* settle(process)
        const { attachmentIds } = theOnly(yield* messagesOf(world, of))

        const input = letter(of, "charles@sender.example" as never, { attachmentIds })
        const sent = yield* process.messages.send(of.principal, someKey(), input)
        yield* settle(process)

        assert.equal((yield* world.store.messages.get(of.realm, sent.message.id))?.status, "sent")
        const [file] = yield* world.store.attachments.many(of.realm, attachmentIds)
        assert.notEqual(file?.messageId, sent.message.id, "it stays of the message that it came with")
      })
    ),

    scenario("no acknowledgement without the message, and no message twice, wherever the process crashes", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const [one, two] = [yield* world.found(), yield* world.found()]
            const doomed = yield* world.boot(faults)
            const recipients = [one.mailbox.address, two.mailbox.address]
            const bytes = withFile("0123456789")

            const exit = yield* Effect.exit(arrive(doomed, recipients, bytes))
            const landed = (yield* messagesOf(world, one)).length
            assert.equal((yield* messagesOf(world, two)).length, landed, `${label}: all or none`)
            if (Exit.isSuccess(exit)) {
              assert.equal(landed, 1, `${label}: acknowledged`)
              yield* toRest(doomed)
            }
            const heir = yield* world.boot()
            if (Exit.isFailure(exit)) yield* arrive(heir, recipients, bytes)
            yield* pass(heir, "10 minutes", "1 minute")

            // A copy more where the answer was lost, and only then.
            const expected = Exit.isSuccess(exit) || landed === 0 ? 1 : 2
            for (const each of [one, two]) {
              const messages = yield* messagesOf(world, each)
              assert.equal(messages.length, expected, label)
              for (const { id, attachmentIds, reception } of messages) {
                assert.deepEqual(typesOf(yield* logOf(world, each, id)), ["message.received"], label)
                assert.equal(reception?.nextParseAt, null, label)
                const [file] = yield* world.store.attachments.many(each.realm, attachmentIds)
                assert.deepEqual([attachmentIds.length, file?.scanState], [1, "clean"], label)
              }
            }
          })
        , ["before", "after", "lost answer"])
        assert.ok(crashes >= 30, `${crashes} crashes were played`)
      })
    ),

    scenario("a commit whose answer is lost is read again, and acknowledged", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const unlucky = yield* world.boot(new Faults(1, "lost answer"))

        yield* arrive(unlucky, of.mailbox.address)

        assert.equal((yield* messagesOf(world, of)).length, 1)
      })
    ),

    scenario("what breaks the reader five times is received by its head, and harms no other message", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        let readings = 0
        world.stage.parse = (bytes) => (Buffer.from(bytes).includes("poison") && ++readings > 0 ? Effect.die("the reader broke") : Effect.void)

        yield* arrive(process, of.mailbox.address, plain({ Subject: "bad" }, "poison"))
        yield* arrive(process, of.mailbox.address, plain({ Subject: "good" }))
        yield* pass(process, "10 minutes", "20 seconds")

        const found = (yield* messagesOf(world, of)).map(({ subject, reception }) => [subject, reception?.defects])
        assert.deepEqual([found, readings], [[["good", []], ["bad", ["unparsed"]]], 4])
        assert.deepEqual(typesOf(yield* logOf(world, of)), ["message.received", "message.received"])
      })
    ),

    scenario("a message that two workers have read is announced by one of them", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const [slow, quick] = [yield* world.boot(), yield* world.boot()]
        const [begun, go] = [yield* Latch.make(), yield* Latch.make()]
        world.stage.parse = () => Effect.andThen(begun.open, go.await)
        yield* arrive(slow, of.mailbox.address, withFile("0123456789"))
        const first = yield* Effect.forkChild(slow.worker.tick)
        yield* begun.await
        world.stage.parse = () => Effect.void
        // It cannot hold its lease, and another takes it.
        world.stage.queueIsDown = true
        yield* Time.adjust("90 seconds")
        world.stage.queueIsDown = false
        yield* settle(quick)
        const parsed = theOnly(yield* messagesOf(world, of))

        yield* go.open
        yield* Fiber.join(first)

        assert.deepEqual(theOnly(yield* messagesOf(world, of)).attachmentIds, parsed.attachmentIds)
        assert.deepEqual(typesOf(yield* logOf(world, of)), ["message.received"])
      })
    ),

    scenario("a store or blobs that are away take nothing, and lose nothing of what was taken", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.storeIsDown = true
        assert.ok(Exit.isFailure(yield* Effect.exit(arrive(process, of.mailbox.address))))
        world.stage.storeIsDown = false
        assert.deepEqual(yield* messagesOf(world, of), [])
        yield* arrive(process, of.mailbox.address)
        const { id } = theOnly(yield* messagesOf(world, of))
        world.stage.storeIsDown = true
        yield* settle(process)
        world.stage.storeIsDown = false
        assert.deepEqual(typesOf(yield* logOf(world, of, id)), [])

        yield* pass(process, "2 minutes")

        assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.received"])
      })
    ),

    scenario("a sender who hangs up in the middle leaves nothing that is seen", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const bytes = Stream.concat(Stream.make(plain()), Stream.fail("gone"))

        const exit = yield* Effect.exit(process.receive.accept({ peer, returnPath: null, recipients: [of.mailbox.address], bytes }))

        assert.ok(Exit.isFailure(exit))
        assert.deepEqual(yield* messagesOf(world, of), [])
        assert.deepEqual(yield* logOf(world, of), [])
      })
    ),

    scenario("a queue that forgot it is told again what is to be parsed", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.queueForgets = true
        yield* arrive(process, of.mailbox.address)
        yield* settle(process)
        world.stage.queueForgets = false
        const id: MessageId = theOnly(yield* messagesOf(world, of)).id
        assert.deepEqual(typesOf(yield* logOf(world, of, id)), [])
        assert.equal((yield* world.store.backlog).earliestDue.parse, 0)

        yield* pass(process, "1 minute")

        assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.received"])
        assert.equal((yield* world.store.backlog).earliestDue.parse, null)
      })
    )
  ]
}
