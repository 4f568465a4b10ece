/** What a caller is shown of all that happens: the data of each event that is emitted, the detail at each end, and how long. */
import { Clock, Effect, Metric } from "effect"
import * as assert from "node:assert/strict"
import * as Metrics from "../../core/Metrics.ts"
import type { Address, DomainName } from "../../core/model/Address.ts"
import { system } from "../../core/model/Audit.ts"
import { shardOf, type MessageId } from "../../core/model/Ids.ts"
import type { Reply } from "../../core/model/Reply.ts"
import { fromMillis } from "../../core/model/Timestamp.ts"
import { cursorAt } from "../../core/operations/Events.ts"
import { MailProviderUnavailable, SubmissionRefused, type SubmitRequest } from "../../core/ports/MailProvider.ts"
import { address, domainName } from "../fixtures.ts"
import { arrive, dsn } from "./Arrivals.ts"
import { happenOften, playQuick } from "./QuickReceivers.ts"
import { broken, deliveriesTo, respond } from "./Receivers.ts"
import * as Time from "./Time.ts"
import {
  accepted,
  healthyChecks,
  logOf,
  messageOf,
  pass,
  providerMessageId,
  providerName,
  scenario,
  send,
  settle,
  typesOf,
  upload,
  type Process,
  type ScenarioSuite,
  type Tenancy,
  type World
} from "./World.ts"

const [ada, bob, eve] = [address("ada"), address("bob"), address("eve")]
const bounceDomain = "bounces.example" as DomainName // plain enough to be one

/** Refuses one recipient for good. */
const refusing = (request: SubmitRequest, refused: Address, reply: Reply) => ({
  ...accepted(request),
  replies: request.envelope.recipients.map((recipient) => ({
    recipient,
    reply: recipient === refused ? reply : { smtpCode: 250, enhancedCode: "2.0.0", text: "Ok" }
  }))
})

const noSuchUser: Reply = { smtpCode: 550, enhancedCode: "5.1.1", text: "no such user" }

const notify = (process: Process, id: MessageId, recipient: Address, outcome: Parameters<Process["notifications"]["record"]>[0][number]["outcome"]) =>
  process.notifications.record([{ provider: providerName, providerMessageId: providerMessageId({ messageId: id }), recipient, outcome }])

const dataOf = (world: World, of: Tenancy, id: string, type: string) =>
  Effect.map(logOf(world, of, id), (events) => events.filter((event) => event.type === type).map(({ data }) => data))

const detailOf = (process: Process, of: Tenancy, id: MessageId) => Effect.map(process.messages.get(of.principal, id), ({ message }) => message)

const countOf = (counter: Metric.Counter<number>) => Effect.map(Metric.value(counter), ({ count }) => count)

export const suite: ScenarioSuite = {
  name: "what is emitted and shown",
  checks: [
    scenario("message.sent names the provider and whom it took, and message.delivered the recipient and what its server said", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request) => Effect.succeed(refusing(request, eve, noSuchUser))
        yield* Time.adjust("1 hour")
        const sentAt = fromMillis(yield* Clock.currentTimeMillis)
        const id = yield* send(process, tenancy, [ada, bob, eve])
        yield* settle(process)
        yield* notify(process, id, ada, { _tag: "Delivered", at: 3_600_001, smtpResponse: "250 2.0.0 kept" })

        const common = { object: "message", id, mailboxId: tenancy.mailbox.id }
        const { internetMessageId, sentAt: shown, status } = yield* detailOf(process, tenancy, id)
        assert.deepEqual(yield* dataOf(world, tenancy, id, "message.sent"), [
          { ...common, sequence: 2, internetMessageId, provider: providerName, providerMessageId: `staged-${id}`, recipients: [ada, bob], sentAt }
        ])
        assert.deepEqual(yield* dataOf(world, tenancy, id, "message.delivered"), [
          { ...common, sequence: 4, recipient: ada, smtpResponse: "250 2.0.0 kept", deliveredAt: fromMillis(3_600_001), messageStatus: "bounced" }
        ])
        assert.deepEqual([shown, status], [sentAt, "bounced"])
      })
    ),

    scenario("message.bounced tells why, at the submission, later and for a suppressed address, and so does the detail", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request) => Effect.succeed(refusing(request, eve, noSuchUser))
        const id = yield* send(process, tenancy, [ada, eve])
        yield* settle(process)
        yield* notify(process, id, ada, { _tag: "Bounced", at: 7, class: "transient", smtpCode: 452, enhancedCode: "4.2.2", diagnostic: "full" })
        const again = yield* send(process, tenancy, eve)
        yield* settle(process)

        const data = [...(yield* dataOf(world, tenancy, id, "message.bounced")), ...(yield* dataOf(world, tenancy, again, "message.bounced"))]
        const bounces = {
          hard: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" },
          soft: { class: "transient", smtpCode: 452, enhancedCode: "4.2.2", diagnostic: "full" },
          suppressed: { class: "suppressed", smtpCode: null, enhancedCode: null, diagnostic: "the address bounced before" }
        }
        const common = { object: "message", mailboxId: tenancy.mailbox.id, messageStatus: "bounced" }
        assert.deepEqual(data, [
          { ...common, id, sequence: 3, recipient: eve, bounce: bounces.hard },
          { ...common, id, sequence: 4, recipient: ada, bounce: bounces.soft },
          { ...common, id: again, sequence: 2, recipient: eve, bounce: bounces.suppressed }
        ])
        const recipients = [...(yield* detailOf(process, tenancy, id)).recipients, ...(yield* detailOf(process, tenancy, again)).recipients]
        assert.deepEqual(
          recipients.map(({ address, status, bounceClass, smtpCode, enhancedCode, diagnostic }) => ({ address, status, bounceClass, smtpCode, enhancedCode, diagnostic })),
          [[ada, bounces.soft] as const, [eve, bounces.hard] as const, [eve, bounces.suppressed] as const].map(([recipient, { class: bounceClass, ...rest }]) => ({
            address: recipient,
            status: "bounced",
            bounceClass,
            ...rest
          }))
        )
      })
    ),

    scenario("who waits for another try is shown with what was said of the last one, and the message with when the next is due", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const greylisted: Reply = { smtpCode: 451, enhancedCode: "4.7.1", text: "greylisted,\r\ncome again" }
        world.stage.behave = (request, nth) =>
          nth === 1
            ? Effect.succeed(refusing(request, bob, greylisted))
            : nth === 2
              ? Effect.fail(new SubmissionRefused({ reply: { smtpCode: 421, enhancedCode: null, text: null } }))
              : nth === 3
                ? Effect.fail(new MailProviderUnavailable({ cause: "reset" }))
                : Effect.succeed(accepted(request))
        const id = yield* send(process, tenancy, [ada, bob])
        const shown = Effect.gen(function* () {
          yield* settle(process)
          const { status, recipients, nextAttemptAt } = yield* detailOf(process, tenancy, id)
          const { nextAttemptAt: dueAt } = yield* messageOf(world, tenancy, id)
          assert.equal(nextAttemptAt, dueAt === null ? null : fromMillis(dueAt))
          const said = recipients.map((one) => [one.status, one.bounceClass, one.smtpCode, one.enhancedCode, one.diagnostic])
          yield* Time.adjust(Math.max(0, (dueAt ?? 0) - (yield* Clock.currentTimeMillis)))
          return [status, ...said]
        })

        const before = yield* detailOf(process, tenancy, id)
        const tries = [yield* shown, yield* shown, yield* shown, yield* shown]

        assert.deepEqual([before.nextAttemptAt, before.recipients.map(({ diagnostic }) => diagnostic)], [null, [null, null]], "it has not been put off yet")
        const sent = ["sent", null, null, null, null]
        assert.deepEqual(tries, [
          ["queued", sent, ["queued", null, 451, "4.7.1", "greylisted, come again"]],
          ["queued", sent, ["queued", null, 421, null, "the provider refused the message for the moment"]],
          ["queued", sent, ["queued", null, null, null, "the mail provider is unavailable"]],
          ["sent", sent, sent]
        ])
      })
    ),

    scenario("message.failed tells the stage, the code and the reason, and so does the detail", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const dropped = yield* send(process, tenancy, ada)
        yield* settle(process)
        yield* notify(process, dropped, ada, { _tag: "Failed", at: 9, code: "dropped", message: "dropped by the provider" })
        world.stage.behave = () => Effect.fail(new SubmissionRefused({ reply: { smtpCode: 554, enhancedCode: "5.7.1", text: "not this one" } }))
        const refused = yield* send(process, tenancy, ada)
        yield* settle(process)

        const ends = [
          [dropped, 3, { stage: "provider", code: "dropped", message: "dropped by the provider" }, [null, null]],
          [refused, 2, { stage: "submit", code: "5.7.1", message: "not this one" }, [554, "5.7.1"]]
        ] as const
        for (const [id, sequence, failure, codes] of ends) {
          assert.deepEqual(yield* dataOf(world, tenancy, id, "message.failed"), [
            { object: "message", id, sequence, mailboxId: tenancy.mailbox.id, recipient: ada, failure, messageStatus: "failed" }
          ])
          const detail = yield* detailOf(process, tenancy, id)
          assert.deepEqual([detail.status, detail.failure, detail.recipients[0]!.diagnostic], ["failed", failure, failure.message])
          assert.deepEqual([detail.recipients[0]!.smtpCode, detail.recipients[0]!.enhancedCode], codes)
        }
      })
    ),

    scenario("the sandbox's two kinds of bounce are told apart on the recipient", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("sandbox")
        const process = yield* world.boot()
        const id = yield* send(process, tenancy, [address("bounced"), address("bounced-soft")])
        yield* pass(process, "5 seconds", "250 millis")

        const { recipients } = yield* detailOf(process, tenancy, id)
        assert.deepEqual(recipients.map(({ bounceClass }) => bounceClass), ["permanent", "transient"])
      })
    ),

    scenario("mailbox events are emitted when one is created, changed and suspended, with the reason", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = tenancy.realm
        const { id, address: of } = tenancy.mailbox
        yield* process.management.updateMailbox(system, tenantId, id, { displayName: "Ada L." })
        yield* process.management.updateMailbox(system, tenantId, id, { status: "suspended", reason: "unpaid" })
        yield* process.management.updateMailbox(system, tenantId, id, { status: "active" })

        const common = { object: "mailbox", id, address: of, status: "active", reason: null }
        const events = yield* logOf(world, tenancy, id)
        assert.deepEqual(
          events.map(({ type, data }) => [type, data]),
          [
            ["mailbox.created", { ...common, sequence: 1, displayName: "Ada" }],
            ["mailbox.updated", { ...common, sequence: 2, displayName: "Ada L." }],
            ["mailbox.suspended", { ...common, sequence: 3, displayName: "Ada L.", status: "suspended", reason: "unpaid" }],
            ["mailbox.updated", { ...common, sequence: 4, displayName: "Ada L." }]
          ]
        )
        assert.ok(events.every(({ resourceType, environment }) => resourceType === "mailbox" && environment === null))
      })
    ),

    scenario("domain.health_changed is emitted with each change of health, its reasons, and not without a change", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = tenancy.realm
        const { id, domain } = yield* process.management.createDomain(system, { tenantId, domain: domainName() })
        yield* process.management.recordChecks(tenantId, id, healthyChecks)
        yield* process.management.recordChecks(tenantId, id, healthyChecks)
        const missing = { record: "dkim", state: "missing", expected: "k=rsa", observed: null } as const
        yield* process.management.recordChecks(tenantId, id, [{ ...missing, since: 0 }])
        yield* Time.adjust("25 hours")
        yield* process.management.recordChecks(tenantId, id, [{ ...missing, since: 0 }])

        const common = { object: "domain", id, domain }
        const events = yield* logOf(world, tenancy, id)
        assert.deepEqual(
          events.map(({ data }) => data),
          [
            { ...common, sequence: 1, verified: true, health: "healthy", previousHealth: "pending", reasons: [] },
            { ...common, sequence: 2, verified: true, health: "degraded", previousHealth: "healthy", reasons: [missing] },
            { ...common, sequence: 3, verified: false, health: "failing", previousHealth: "degraded", reasons: [missing] }
          ]
        )
        assert.ok(events.every(({ type, resourceType, environment }) => type === "domain.health_changed" && resourceType === "domain" && environment === null))
      })
    ),

    scenario("a sender may send while its domain is degraded, and at no other health but healthy", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = tenancy.realm
        const { domainId } = tenancy.mailbox
        const sends = Effect.map(Effect.result(send(process, tenancy, ada)), (result) => (result._tag === "Success" ? "sent" : result.failure._tag))
        const check = (state: "ok" | "missing") =>
          process.management.recordChecks(tenantId, domainId, [
            { record: "ownership", state: "ok", expected: "x", observed: "x", since: 0 },
            { record: "dkim", state, expected: "x", observed: null, since: 0 }
          ])

        assert.equal(yield* sends, "sent")
        yield* check("missing")
        assert.equal(yield* sends, "sent", "degraded")
        yield* Time.adjust("25 hours")
        yield* check("missing")
        assert.equal(yield* sends, "DomainNotSendable", "failing")
        yield* process.management.setDomainSuspended(system, tenantId, domainId, true)
        assert.equal(yield* sends, "DomainNotSendable", "suspended")
        yield* process.management.setDomainSuspended(system, tenantId, domainId, false)
        assert.equal(yield* sends, "DomainNotSendable", "pending")
        yield* check("ok")
        assert.equal(yield* sends, "sent")
      })
    ),

    scenario("events are listed for 30 days and no longer, and an older cursor is told that it is expired", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        yield* send(process, tenancy, ada)
        const list = (cursor: string | null, limit = 100) => process.events.list(tenancy.principal, { limit, cursor })
        const { nextCursor } = yield* list(null, 1)

        yield* Time.adjust("30 days")
        yield* process.sweep.retain
        assert.ok(typesOf((yield* logOf(world, tenancy))).includes("message.queued"))
        assert.equal((yield* list(nextCursor)).items.length, 2)
        yield* Time.adjust(1)
        yield* process.sweep.retain

        assert.deepEqual((yield* list(null)).items, [])
        const error = yield* Effect.flip(list(nextCursor))
        assert.deepEqual([error._tag, error._tag === "InvalidCursor" && error.reason], ["InvalidCursor", "expired"])
      })
    ),

    scenario("a cursor before events that a process of another retention removed is expired, not led past them", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const [process, hasty] = [yield* world.boot(), yield* world.boot(undefined, { eventRetention: 86_400_000 })]
        yield* send(process, tenancy, ada)
        yield* send(process, tenancy, ada)
        const start = yield* Clock.currentTimeMillis
        const list = (cursor: string | null, limit = 1) => process.events.list(tenancy.principal, { limit, cursor })
        const { nextCursor } = yield* list(null)
        assert.equal((yield* list(nextCursor)).items.length, 1)
        yield* Time.adjust("27 hours")
        yield* hasty.sweep.retain

        const cursors = [nextCursor, fromMillis(start)]
        const errors = yield* Effect.forEach(cursors, (cursor) => Effect.flip(list(cursor)))
        assert.deepEqual(
          errors.map((error) => [error._tag, error._tag === "InvalidCursor" && error.reason]),
          cursors.map(() => ["InvalidCursor", "expired"])
        )
        yield* send(process, tenancy, ada)
        assert.deepEqual((yield* list(null)).items.map(({ type }) => type), ["message.queued"])
        assert.equal((yield* list(fromMillis(start + 1))).items.length, 1, "a time behind them")
      })
    ),

    scenario("a reader of a log that was lost goes on by the time of its cursor, and misses nothing of the one there is", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const list = (cursor: string | null, limit = 100) => process.events.list(tenancy.principal, { limit, cursor })
        yield* send(process, tenancy, ada)
        yield* Time.adjust("1 hour")
        yield* send(process, tenancy, bob)
        const last = (yield* logOf(world, tenancy)).at(-1)!
        // What a standby had not got: it is at the places where this log goes on from here.
        const lost = { position: last.position + 2n, occurredAt: last.occurredAt + 5_000 }
        const cursor = yield* cursorAt(world.crypto, tenancy.realm, lost)
        yield* Time.adjust("30 seconds")
        const { items: before } = yield* list(cursor)
        const all = [yield* send(process, tenancy, eve), yield* send(process, tenancy, ada), yield* send(process, tenancy, bob)]

        const shown = (yield* list(cursor)).items.filter(({ type }) => type === "message.queued").map(({ resourceId }) => resourceId)
        assert.deepEqual(shown.slice(-3), all, "behind that place, and before it")
        assert.deepEqual([before.length, shown.length], [1, 4], "with what happened in the minute before")
        const first = yield* list(cursor, 1)
        const rest = yield* list(first.nextCursor)
        assert.deepEqual(rest.items.length, 3, "page by page")
      })
    ),

    scenario("the retention of events can be set", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot(undefined, { eventRetention: 86_400_000 })
        yield* Time.adjust("25 hours")
        yield* process.sweep.retain

        assert.deepEqual((yield* process.events.list(tenancy.principal, { limit: 100, cursor: null })).items, [])
      })
    ),

    scenario("every write of an operator has its entry in the audit trail", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = tenancy.realm
        const operator = { type: "operator", id: "grace" } as const
        yield* process.management.updateMailbox(operator, tenantId, tenancy.mailbox.id, { status: "suspended" })
        yield* process.management.setDomainSuspended(operator, tenantId, tenancy.mailbox.domainId, true)
        yield* process.management.revokeKey(operator, tenantId, tenancy.principal.apiKeyId)
        yield* process.management.setApplicationStatus(operator, tenantId, tenancy.application.id, "suspended")

        const entries = yield* world.store.audit.page(tenantId, 4)
        assert.deepEqual(
          entries.toReversed().map(({ action, actor, subject }) => [action, actor, subject.id]),
          [
            ["mailbox.suspend", operator, tenancy.mailbox.id],
            ["domain.suspend", operator, tenancy.mailbox.domainId],
            ["api_key.revoke", operator, tenancy.principal.apiKeyId],
            ["application.suspend", operator, tenancy.application.id]
          ]
        )
      })
    ),

    scenario("what became of recipients is counted once each, whoever tells of it, and each report as what it is", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot(undefined, { bounceDomain })
        const { delivered, bounced, failed } = Metrics.recipients.production
        const dan = address("dan")
        const counted = Effect.forEach([delivered, bounced, failed, Metrics.reports.bounce, Metrics.reports.none], countOf)
        const before = yield* counted
        const id = yield* send(process, of, [ada, bob, dan, eve])
        yield* settle(process)
        const { internetMessageId } = yield* messageOf(world, of, id)
        const returnPath = String(world.stage.submissions.at(-1)!.request.envelope.returnPath)
        const report = dsn(internetMessageId, [bob, dan].map((to) => ({ to, action: "failed", status: "5.1.1" })))

        for (const _ of [1, 2]) {
          yield* notify(process, id, ada, { _tag: "Delivered", at: 1, smtpResponse: null })
          yield* notify(process, id, eve, { _tag: "Failed", at: 1, code: "dropped", message: "dropped" })
          for (const to of [returnPath, of.mailbox.address]) yield* arrive(process, to, report, null)
        }
        yield* arrive(process, returnPath)
        yield* settle(process)

        assert.deepEqual((yield* counted).map((count, index) => count - before[index]!), [1, 2, 1, 4, 1])
      })
    ),

    scenario("what an operator's counters count has happened, each thing once", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* playQuick(world)
        const counted = Effect.all({
          received: countOf(Metrics.messagesReceived.production),
          relayed: countOf(Metrics.eventsRelayed),
          made: countOf(Metrics.deliveriesMade),
          delivered: countOf(Metrics.deliveriesEnded.delivered),
          dead: countOf(Metrics.deliveriesEnded.dead),
          disabled: countOf(Metrics.endpointsDisabled),
          offered: countOf(Metrics.jobsOffered.submit),
          events: countOf(Metrics.retentionRemoved.events),
          deliveries: countOf(Metrics.retentionRemoved.deliveries),
          attachments: countOf(Metrics.retentionRemoved.attachments),
          blobs: countOf(Metrics.retentionRemoved.blobs)
        })
        const before = yield* counted
        const logged = world.store.events.readLog(shardOf(of.realm.tenantId), 0n, 1_000)
        const earlier = yield* logged

        yield* arrive(process, of.mailbox.address)
        yield* settle(process)
        yield* happenOften(process, of, 3)
        yield* process.relay.tick
        respond(world, () => broken)
        yield* happenOften(process, of, 10)
        yield* settle(process)
        yield* pass(process, "1 hour", "10 minutes")
        world.stage.queueForgets = true
        yield* send(process, of, ada)
        Object.assign(world.stage, { queueForgets: false, queueEpoch: 1 })
        yield* process.sweep.tick
        yield* upload(process, of)
        yield* settle(process)
        const all = yield* logged
        const deliveries = (yield* deliveriesTo(world, to)).length
        yield* Time.adjust("40 days")
        yield* process.sweep.retain

        const after = yield* counted
        const differences = Object.entries(before).map(([name, count]) => [name, after[name as keyof typeof after] - count]) // its own names
        assert.deepEqual(Object.fromEntries(differences), {
          received: 1,
          relayed: all.length - earlier.length,
          made: 13,
          delivered: 3,
          dead: 10,
          disabled: 1,
          offered: 1,
          events: all.length,
          deliveries,
          attachments: 1,
          blobs: 1
        })
      })
    )
  ]
}
