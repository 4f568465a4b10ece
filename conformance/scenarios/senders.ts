/** What a process remembers of those who send saves look-ups, and changes no answer; and mail waits whose sender is suspended. */
import { Clock, Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import type { AttachmentId } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import type { SubmitRequest, SubmitResult } from "../../core/ports/MailProvider.ts"
import { address, freshId } from "../fixtures.ts"
import { Ahead, CallLog } from "./Faults.ts"
import * as Time from "./Time.ts"
import {
  accepted,
  healthyChecks,
  letter,
  loggedTo,
  logOf,
  messageOf,
  pass,
  scenario,
  send,
  someKey,
  typesOf,
  type Process,
  type ScenarioSuite,
  type Tenancy
} from "./World.ts"

const lookUp = "Store.messages.admission"

/** How often the store is asked for a sender while this is done. */
const lookUps = <A, E, R>(calls: CallLog, self: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const before = calls.made.length
    yield* self
    return calls.made.slice(before).filter((call) => call === lookUp).length
  })

const refusal = (process: Process, of: Tenancy) =>
  Effect.map(Effect.flip(process.messages.send(of.principal, someKey(), letter(of, address("ada")))), ({ _tag }) => _tag)

/** A provider that puts everybody off. */
const later = (request: SubmitRequest): SubmitResult => {
  const { replies, ...taken } = accepted(request)
  return { ...taken, replies: replies.map(({ recipient }) => ({ recipient, reply: { smtpCode: 451, enhancedCode: "4.7.1", text: "Later" } })) }
}

export const suite: ScenarioSuite = {
  name: "known senders",
  checks: [
    scenario("a sender is looked up once", (world) =>
      Effect.gen(function* () {
        const [tenancy, other] = [yield* world.found(), yield* world.found()]
        const calls = new CallLog()
        const process = yield* world.boot(calls)
        const sending = (of: Tenancy) => lookUps(calls, send(process, of, address("ada")))

        const asked = [yield* sending(tenancy), yield* sending(tenancy), yield* sending(other), yield* sending(tenancy), yield* sending(other)]

        assert.deepEqual(asked, [1, 0, 1, 0, 0])
        assert.deepEqual(typesOf(yield* logOf(world, tenancy)), ["message.queued", "message.queued", "message.queued"])
      })
    ),

    scenario("what another process made of a mailbox holds from the next message on", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const [process, elsewhere] = [yield* world.boot(), yield* world.boot()]
        const change = (input: Parameters<typeof elsewhere.management.updateMailbox>[3]) =>
          elsewhere.management.updateMailbox(system, tenancy.realm.tenantId, tenancy.mailbox.id, input)
        yield* send(process, tenancy, address("ada"))

        yield* change({ status: "suspended" })
        const refusals = [yield* refusal(process, tenancy), yield* refusal(process, tenancy)]
        yield* change({ status: "active" })
        yield* send(process, tenancy, address("ada"))
        yield* change({ displayName: "Countess" })
        const id = yield* send(process, tenancy, address("ada"))

        assert.deepEqual(refusals, ["MailboxSuspended", "MailboxSuspended"])
        const { message } = yield* process.messages.get(tenancy.principal, id)
        assert.equal(message.from.name, "Countess")
        assert.equal((yield* logOf(world, tenancy)).length, 3)
      })
    ),

    scenario("what another process made of a domain holds from the next message on", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const [process, elsewhere] = [yield* world.boot(), yield* world.boot()]
        const { realm: { tenantId }, mailbox: { domainId } } = tenancy
        yield* send(process, tenancy, address("ada"))

        yield* elsewhere.management.setDomainSuspended(system, tenantId, domainId, true)
        const refusals = [yield* refusal(process, tenancy), yield* refusal(process, tenancy)]
        yield* elsewhere.management.setDomainSuspended(system, tenantId, domainId, false)
        yield* elsewhere.management.recordChecks(tenantId, domainId, healthyChecks)
        yield* send(process, tenancy, address("ada"))

        assert.deepEqual(refusals, ["DomainNotSendable", "DomainNotSendable"])
        assert.deepEqual(typesOf(yield* logOf(world, tenancy)).filter((type) => type === "message.queued").length, 2)
      })
    ),

    scenario("mail of a suspended mailbox waits, says why, and is put off like new mail when it is taken into use again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production")
        const process = yield* world.boot()
        const { realm: { tenantId }, mailbox, principal } = tenancy
        const change = (status: "suspended" | "active") => process.management.updateMailbox(system, tenantId, mailbox.id, { status })
        const ids = yield* Effect.all(Array.from({ length: 10 }, () => send(process, tenancy, address("ada"))))
        const shown = Effect.map(process.messages.get(principal, ids[0]!), ({ message }) => message)
        const lines: Array<string> = []
        assert.equal((yield* shown).nextAttemptAt, null)

        yield* change("suspended")
        yield* Effect.provide(pass(process, "3 hours", "1 minute"), loggedTo(lines))

        const said = lines.filter((line) => line.includes("could not be submitted")).length
        assert.ok(said >= 2 && said <= 180, `${said} lines in three hours`)
        const { nextAttemptAt, recipients } = yield* shown
        assert.equal(recipients[0]!.diagnostic, "the sending mailbox is suspended")
        assert.ok(nextAttemptAt! >= Timestamp.fromMillis(yield* Clock.currentTimeMillis), `${nextAttemptAt} is over`)

        world.stage.behave = (request, nth) => Effect.succeed(nth === 1 ? later(request) : accepted(request))
        yield* change("active")
        yield* pass(process, "10 minutes", "1 minute")
        for (const id of ids) assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        assert.equal(world.stage.submissions.length, 2 * ids.length)
      })
    ),

    scenario("no tenant sends from a mailbox that another one is known by", (world) =>
      Effect.gen(function* () {
        const [tenancy, other] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        yield* send(process, tenancy, address("ada"))

        const refused = yield* refusal(process, { ...other, mailbox: tenancy.mailbox })

        assert.equal(refused, "NotFound")
        assert.deepEqual(yield* logOf(world, other), [])
      })
    ),

    scenario("a repeat is answered with the first one's id, and for a minute each message is looked up", (world) =>
      Effect.gen(function* () {
        const [tenancy, other] = [yield* world.found(), yield* world.found()]
        const calls = new CallLog()
        const process = yield* world.boot(calls)
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const once = process.messages.send(tenancy.principal, key, input)
        const sending = lookUps(calls, send(process, tenancy, address("ada")))
        const first = yield* once
        yield* send(process, other, address("ada"))

        const repeat = yield* once
        const again = yield* lookUps(calls, once)
        const meanwhile = yield* sending
        yield* Time.adjust("59 seconds")
        const nearly = yield* sending
        const elsewhere = yield* lookUps(calls, send(process, other, address("ada")))
        yield* Time.adjust("1 second")

        assert.deepEqual([first.replayed, repeat.replayed, repeat.message.id], [false, true, first.message.id])
        assert.deepEqual([again, meanwhile, nearly, elsewhere, yield* sending], [1, 1, 1, 0, 0])
      })
    ),

    scenario("a key whose day ends while its repeat is under way is free", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        let isLast = false
        const ending = new Ahead("Store.commit", Effect.suspend(() => (isLast ? TestClock.adjust("1 milli") : Effect.void)))
        const process = yield* world.boot(ending)
        const [key, input] = [someKey(), letter(tenancy, address("ada"))]
        const first = yield* process.messages.send(tenancy.principal, key, input)
        yield* Time.adjust(Duration.subtract(Duration.hours(24), Duration.millis(1)))

        isLast = true
        const second = yield* process.messages.send(tenancy.principal, key, input)

        assert.equal(second.replayed, false)
        assert.notEqual(second.message.id, first.message.id)
      })
    ),

    scenario("attachments are looked at, whoever sends them", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const calls = new CallLog()
        const process = yield* world.boot(calls)
        yield* send(process, tenancy, address("ada"))
        const attachmentIds = [freshId<AttachmentId>()]

        const asked = yield* lookUps(calls, Effect.flip(process.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada"), { attachmentIds }))))

        assert.equal(asked, 1)
      })
    )
  ]
}
