/** Reports come in: whose word about our mail is taken, for which recipients, and that neither order nor number decides. */
import { Effect, Result, Stream } from "effect"
import * as assert from "node:assert/strict"
import type { Address, DomainName } from "../../core/model/Address.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Outcome } from "../../core/model/Notification.ts"
import { address, freshId } from "../fixtures.ts"
import { arrive, dsn, peer, plain, type Told } from "./Arrivals.ts"
import { atEachCall, Faults } from "./Faults.ts"
import * as Time from "./Time.ts"
import {
  accepted,
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
  type Process,
  type ScenarioSuite,
  type Tenancy,
  type World
} from "./World.ts"

const bounceDomain = "bounces.example" as DomainName // plain enough to be one

const [bob, eve] = [address("bob", "there.example"), address("eve", "there.example")]

const failed = (to: string = bob): Told => ({ to, action: "failed", status: "5.1.1", diagnostic: "550 5.1.1 no such user" })

/** Sends a message, and says where its reports go. */
const sendOut = (world: World, process: Process, of: Tenancy, to: ReadonlyArray<Address> = [bob]) =>
  Effect.gen(function* () {
    const id = yield* send(process, of, to)
    yield* settle(process)
    const { request } = world.stage.submissions.findLast(({ request }) => request.messageId === id)!
    return { id, returnPath: String(request.envelope.returnPath), messageId: (yield* messageOf(world, of, id)).internetMessageId }
  })

const statusesOf = (world: World, of: Tenancy, id: MessageId) =>
  Effect.map(messageOf(world, of, id), ({ recipients }) => recipients.map(({ status }) => status))

const suppressedOf = ({ store }: World, { realm }: Tenancy) =>
  Effect.map(store.suppressions.among(realm, [bob, eve]), (found) => found.map(({ address, reason }) => `${address} ${reason}`))

const permutations = <A>(items: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  items.length < 2
    ? [items]
    : items.flatMap((item, index) => permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest]))

export const suite: ScenarioSuite = {
  name: "reports about our mail",
  checks: [
    scenario("a report that goes round in circles is refused, and changes nothing", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain, hostName: "in.example.net" })
        const { id, returnPath, messageId } = yield* sendOut(world, process, of)
        const hop = "Received: from a.example by b.example; Thu, 01 Jan 1970 00:00:00 +0000\r\n"
        const own = "Received: from x by in.example.net (Mailroom) with ESMTP id 1; Thu, 01 Jan 1970 00:00:00 +0000\r\n"
        const behind = (trace: string) => new TextEncoder().encode(trace + new TextDecoder().decode(dsn(messageId, [failed()])))

        for (const trace of [hop.repeat(31), own]) {
          const refused = yield* Effect.flip(arrive(process, returnPath, behind(trace), null))
          assert.ok(refused._tag === "ReceiveRefused" && refused.enhancedCode === "5.4.6")
        }
        assert.deepEqual(yield* statusesOf(world, of, id), ["sent"])
        yield* arrive(process, returnPath, behind(hop.repeat(30)), null)

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"])
      })
    ),

    scenario("a report to the signed Return-Path bounces the recipient and suppresses the address, and is no message", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain })
        const { id, returnPath, messageId } = yield* sendOut(world, process, of, [bob, eve])

        yield* process.receive.recipient(returnPath)
        yield* arrive(process, returnPath, dsn(messageId, [failed()]), null)

        const { recipients, status } = yield* messageOf(world, of, id)
        assert.deepEqual([status, ...recipients.map((one) => one.status)], ["bounced", "bounced", "sent"])
        const { bounce } = recipients[0]!.evidence.bounced!
        assert.deepEqual([bounce.class, bounce.enhancedCode], ["permanent", "5.1.1"])
        assert.match(bounce.diagnostic ?? "", /no such user/)
        assert.deepEqual(yield* suppressedOf(world, of), [`${bob} bounce`])
        assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.queued", "message.sent", "message.bounced"])
        assert.equal((yield* world.store.messages.page(of.realm, { mailboxId: null, before: null, limit: 10 })).length, 1)
        assert.equal((yield* logOf(world, of)).filter(({ type }) => type === "message.received").length, 0)
      })
    ),

    scenario("a report may return a large message: it is read to its end, and no more of it is kept than its beginning", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const read: Array<number> = []
        world.stage.parse = (bytes) => Effect.sync(() => void read.push(bytes.length))
        const process = yield* world.boot(undefined, { bounceDomain })
        const { id, returnPath, messageId } = yield* sendOut(world, process, of)
        const report = dsn(messageId, [failed()])
        let taken = 0
        const piece = new TextEncoder().encode("The engine weaves algebraic patterns.\r\n".repeat(1_000))
        const pieces = [report, ...Array.from({ length: 100 }, () => piece)]

        yield* process.receive.accept({
          peer,
          returnPath: null,
          recipients: [returnPath],
          bytes: Stream.tap(Stream.fromIterable(pieces), ({ length }) => Effect.sync(() => (taken += length)))
        })

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"])
        assert.equal(taken, report.length + 100 * piece.length)
        assert.deepEqual(read, [1024 * 1024])
      })
    ),

    scenario("delivered, relayed and expanded count as delivered, and delayed changes nothing", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { bounceDomain })
        for (const [action, status, expected] of [
          ["delivered", "2.0.0", "delivered"],
          ["relayed", "2.0.0", "delivered"],
          ["expanded", "2.0.0", "delivered"],
          ["delayed", "4.4.1", "sent"]
        ] as const) {
          const of = yield* world.found()
          const { id, returnPath, messageId } = yield* sendOut(world, process, of)
          const before = yield* messageOf(world, of, id)

          yield* arrive(process, returnPath, dsn(messageId, [{ to: bob, action, status }]), null)

          const after = yield* messageOf(world, of, id)
          assert.equal(after.status, expected, action)
          if (action === "delayed") assert.deepEqual(after, before)
        }
      })
    ),

    scenario("a forged, altered or foreign Return-Path is refused, and changes nothing", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain })
        const one = yield* sendOut(world, process, of)
        const other = yield* sendOut(world, process, of)
        const [, compact, signature] = /^b\.(\w+)\.(\w+)@/.exec(one.returnPath)!
        const [, , otherSignature] = /^b\.(\w+)\.(\w+)@/.exec(other.returnPath)!
        const before = [yield* messageOf(world, of, one.id), yield* messageOf(world, of, other.id)]

        for (const forged of [
          `b.${compact}.${otherSignature}@${bounceDomain}`,
          `b.${compact}.${signature!.replace(/.$/, (last) => (last === "0" ? "1" : "0"))}@${bounceDomain}`,
          `b.${compact}.${signature}@elsewhere.example`,
          `b.${freshId().replaceAll("-", "")}.${signature}@${bounceDomain}`
        ]) {
          const taken = yield* Effect.result(process.receive.recipient(forged))
          assert.ok(Result.isFailure(taken), forged)
          assert.ok(Result.isFailure(yield* Effect.result(arrive(process, forged, dsn(one.messageId, [failed()]), null))), forged)
        }
        yield* process.receive.recipient(one.returnPath.toUpperCase())

        assert.deepEqual([yield* messageOf(world, of, one.id), yield* messageOf(world, of, other.id)], before)
        assert.deepEqual(yield* suppressedOf(world, of), [])
      })
    ),

    scenario("what is no report, or speaks of others, changes nothing, though it comes to a Return-Path", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain })
        const { id, returnPath, messageId } = yield* sendOut(world, process, of, [bob, eve])
        const before = yield* messageOf(world, of, id)

        yield* arrive(process, returnPath, plain({ Subject: "Out of office" }, "I am away, and bob@there.example is, too.\n"), null)
        yield* arrive(process, returnPath, dsn(messageId, [failed("mallory@there.example")]), null)

        assert.deepEqual(yield* messageOf(world, of, id), before)
        assert.deepEqual(yield* suppressedOf(world, of), [])
        assert.equal(world.stage.submissions.length, 1)
      })
    ),

    scenario("a report that names nobody whom we mailed is about the only recipient", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain })
        const { id, returnPath, messageId } = yield* sendOut(world, process, of)

        yield* arrive(process, returnPath, dsn(messageId, [failed("bob.behind@forwarded.example")]), null)

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"])
        assert.deepEqual(yield* suppressedOf(world, of), [`${bob} bounce`])
      })
    ),

    scenario("reports in every order and number come to the same, also before sent is committed, and with the provider's word", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { bounceDomain })
        const at = (second: number) => `Thu, 01 Jan 1970 00:00:0${second} +0000`
        const told = [
          { report: [{ to: bob, action: "delivered", status: "2.0.0" } as Told], date: at(1) },
          { report: [failed()], date: at(2) },
          { report: [{ to: bob, action: "failed", status: "4.2.2", diagnostic: "452 full" } as Told], date: at(3) }
        ]
        const endings = new Set<string>()
        for (const order of permutations(told)) {
          for (const manner of ["after", "twice", "before sent", "around sent"] as const) {
            const of = yield* world.found()
            const { message } = yield* process.messages.send(of.principal, someKey(), letter(of, bob))
            const { internetMessageId } = yield* messageOf(world, of, message.id)
            const hear = (some: typeof told) =>
              Effect.forEach(
                some,
                Effect.fnUntraced(function* ({ report, date }) {
                  yield* arrive(process, yield* returnPathOf(world, message.id), dsn(internetMessageId, report, date), null)
                }),
                { discard: true }
              )
            const during = manner === "before sent" ? order : manner === "around sent" ? order.slice(0, 1) : []
            world.stage.behave = (request) => Effect.as(Effect.orDie(hear([...during])), accepted(request))
            yield* settle(process)
            yield* hear(order.slice(during.length))
            if (manner === "twice") yield* hear(order.toReversed())
            // A provider that says the same is one more witness.
            const provided: Outcome = { _tag: "Delivered", at: 1_000, smtpResponse: null }
            const ref = { provider: providerName, providerMessageId: providerMessageId({ messageId: message.id }) }
            yield* process.notifications.record([{ ...ref, recipient: bob, outcome: provided }])

            const [recipient] = (yield* messageOf(world, of, message.id)).recipients
            assert.equal(recipient?.status, "bounced", manner)
            endings.add(JSON.stringify([recipient.evidence, recipient.submission === null]))
            const events = typesOf(yield* logOf(world, of, message.id))
            assert.equal(new Set(events).size, events.length, `${manner}: ${events.join(" ")}`)
            assert.deepEqual(yield* suppressedOf(world, of), [`${bob} bounce`], manner)
          }
        }
        assert.equal(endings.size, 1, [...endings].join("\n"))
      })
    ),

    scenario("who is said to be gone is suppressed, whatever else was refused before or behind that", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { bounceDomain })
        const told = [
          { report: [{ to: bob, action: "failed", status: "5.7.1", diagnostic: "550 5.7.1 policy" } as Told], date: "Thu, 01 Jan 1970 00:00:01 +0000" },
          { report: [failed()], date: "Thu, 01 Jan 1970 00:00:02 +0000" }
        ]
        for (const order of permutations(told)) {
          const of = yield* world.found()
          const { id, returnPath, messageId } = yield* sendOut(world, process, of)
          yield* pass(process, "1 minute")

          for (const { report, date } of order) yield* arrive(process, returnPath, dsn(messageId, report, date), null)

          assert.deepEqual(yield* suppressedOf(world, of), [`${bob} bounce`])
          const { recipients } = yield* messageOf(world, of, id)
          assert.equal(recipients[0]?.evidence.bounced?.bounce.enhancedCode, "5.1.1")
        }
      })
    ),

    scenario("a report of what was submitted before a crash bounces it, and it is not submitted again", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const faults = new Faults(0, "before")
        const doomed = yield* world.boot(faults, { bounceDomain })
        const id = yield* send(doomed, of, bob)
        world.stage.behave = (request) => Effect.sync(() => (faults.kill(), accepted(request)))
        yield* Effect.exit(doomed.worker.tick)
        const heir = yield* world.boot(undefined, { bounceDomain })

        yield* arrive(heir, yield* returnPathOf(world, id), dsn((yield* messageOf(world, of, id)).internetMessageId, [failed()]), null)
        const between = yield* messageOf(world, of, id)
        yield* pass(heir, "10 minutes", "30 seconds")

        const [recipient] = (yield* messageOf(world, of, id)).recipients
        assert.deepEqual([between.status, recipient?.status, recipient?.evidence.bounced?.bounce.class], ["queued", "bounced", "permanent"])
        assert.equal(world.stage.submissions.length, 1)
      })
    ),

    scenario("a report to the sending mailbox finds its message by the Message-ID, and stays a message", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const { id, returnPath, messageId } = yield* sendOut(world, process, of)
        assert.equal(returnPath, of.mailbox.address)

        yield* arrive(process, returnPath, dsn(messageId, [failed()]), null)
        yield* settle(process)

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"])
        assert.deepEqual(yield* suppressedOf(world, of), [`${bob} bounce`])
        const received = (yield* logOf(world, of)).filter(({ type }) => type === "message.received")
        assert.equal(received.length, 1)
      })
    ),

    scenario("a report to a mailbox is not believed if it is spam, or not from whom it says; one to a Return-Path is", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain })
        const { id, returnPath, messageId } = yield* sendOut(world, process, of)
        const before = yield* messageOf(world, of, id)
        const { authentication } = world.stage

        for (const [dmarc, spam] of [["fail", "ham"], ["permerror", "ham"], ["temperror", "ham"], ["pass", "spam"]] as const) {
          Object.assign(world.stage, { authentication: { ...authentication, dmarc, dmarcPolicy: null }, spam })
          yield* arrive(process, of.mailbox.address, dsn(messageId, [failed()]), null)
          // Who takes it out of the spam folder before it is read does not say whom it is from.
          const [report] = yield* world.store.messages.page(of.realm, { mailboxId: of.mailbox.id, before: null, limit: 1 })
          if (dmarc !== "pass") yield* process.messages.update(of.principal, report!.id, { mailboxId: of.mailbox.id, folder: "inbox" })
          yield* settle(process)
          assert.deepEqual(yield* messageOf(world, of, id), before, dmarc)
        }
        assert.deepEqual(yield* suppressedOf(world, of), [])
        yield* arrive(process, returnPath, dsn(messageId, [failed()]), null)

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"])
      })
    ),

    scenario("a report to a mailbox about mail of another tenant, environment, domain or nobody changes nothing", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        const { id, messageId } = yield* sendOut(world, process, of)
        const before = yield* messageOf(world, of, id)

        yield* arrive(process, other.mailbox.address, dsn(messageId, [failed()]), null)
        yield* arrive(process, of.mailbox.address, dsn(messageId.replace(/@.*>/, "@elsewhere.example>"), [failed()]), null)
        yield* arrive(process, of.mailbox.address, dsn(`<${freshId()}@there.example>`, [failed()]), null)
        yield* arrive(process, of.mailbox.address, dsn("<>", [failed()]), null)
        const sandbox = yield* world.boot(undefined, { inboundEnvironment: "sandbox" })
        yield* arrive(sandbox, of.mailbox.address, dsn(messageId, [failed()]), null)
        yield* settle(process)

        assert.deepEqual(yield* messageOf(world, of, id), before)
        for (const tenancy of [of, other]) assert.deepEqual(yield* suppressedOf(world, tenancy), [])
      })
    ),

    scenario("a report counts as of its date, where that is neither before its message nor in the future", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { bounceDomain })
        yield* Time.adjust("10 minutes")
        for (const [date, minutes] of [
          ["Thu, 01 Jan 1970 00:15:00 +0000", 15],
          ["Thu, 01 Jan 1970 00:01:00 +0000", 10],
          ["Fri, 01 Jan 1971 00:00:00 +0000", 20],
          ["yesterday", 20]
        ] as const) {
          for (const way of ["Return-Path", "mailbox"] as const) {
            yield* Time.setTime(10 * 60_000)
            const of = yield* world.found()
            const { id, returnPath, messageId } = yield* sendOut(world, process, of)
            yield* Time.adjust("10 minutes")

            yield* arrive(process, way === "mailbox" ? of.mailbox.address : returnPath, dsn(messageId, [failed()], date), null)
            yield* settle(process)

            const [recipient] = (yield* messageOf(world, of, id)).recipients
            assert.equal((recipient?.evidence.bounced?.at ?? 0) / 60_000, minutes, `${date}, ${way}`)
          }
        }
      })
    ),

    scenario("a report to a mailbox finds its message in whatever case the Message-ID is written", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const { id, messageId } = yield* sendOut(world, process, of)

        yield* arrive(process, of.mailbox.address, dsn(messageId.toUpperCase(), [failed()]), null)
        yield* settle(process)

        assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"])
      })
    ),

    scenario("a report in prose is one if it comes from the null sender, and none from anybody's own Return-Path", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot(undefined, { bounceDomain })
        for (const way of ["Return-Path", "mailbox"] as const) {
          for (const [sender, expected] of [["charles@sender.example", "sent"], [null, "bounced"]] as const) {
            const of = yield* world.found()
            const { id, returnPath, messageId } = yield* sendOut(world, process, of)
            const text = `Your message could not be delivered to the following recipient:\n\n<${bob}>: 550 5.1.1 no such user\n\nMessage-ID: ${messageId}\n`
            const prose = plain({ From: "mx@there.example", Subject: "Undelivered Mail Returned to Sender", "Auto-Submitted": "auto-replied" }, text)

            yield* arrive(process, way === "mailbox" ? of.mailbox.address : returnPath, prose, sender)
            yield* settle(process)

            assert.deepEqual(yield* statusesOf(world, of, id), [expected], `${way}, ${sender}`)
          }
        }
      })
    ),

    scenario("a report is acknowledged when it has been applied, wherever the process crashes", (world) =>
      Effect.gen(function* () {
        const calm = yield* world.boot(undefined, { bounceDomain })
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const of = yield* world.found()
            const { id, returnPath, messageId } = yield* sendOut(world, calm, of)
            const doomed = yield* world.boot(faults, { bounceDomain })
            const report = dsn(messageId, [failed()])
            // To a mailbox as well: that is parsed, and says the same again.
            const recipients = [returnPath, of.mailbox.address]

            const first = yield* Effect.result(Effect.catchCause(arrive(doomed, recipients, report, null), () => Effect.fail("crashed")))
            if (Result.isSuccess(first)) assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"], label)
            else yield* arrive(calm, recipients, report, null)
            yield* pass(calm, "10 minutes", "1 minute")

            assert.deepEqual(yield* statusesOf(world, of, id), ["bounced"], label)
            assert.deepEqual(typesOf(yield* logOf(world, of, id)), ["message.queued", "message.sent", "message.bounced"], label)
          })
        , ["before", "after", "lost answer"])
        assert.ok(crashes >= 12, `${crashes} crashes were played`)
      })
    )
  ]
}

/** As it is made for a message that is yet to be submitted. */
const returnPathOf = ({ crypto }: World, id: MessageId) =>
  Effect.map(crypto.mac("return-path", id), (mac) => `b.${id.replaceAll("-", "")}.${mac.slice(0, 16)}@${bounceDomain}`)
