/** The end is a function of the set: every order, repetition and batching of a set of notifications comes to the same. */
import { Clock, Effect } from "effect"
import * as assert from "node:assert/strict"
import type { Address } from "../../core/model/Address.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Notification, Outcome } from "../../core/model/Notification.ts"
import type { SubmitRequest, SubmitResult } from "../../core/ports/MailProvider.ts"
import { address } from "../fixtures.ts"
import { NoCommits } from "./Faults.ts"
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
  type ScenarioSuite,
  type Tenancy,
  type World
} from "./World.ts"

const [ada, bob] = [address("ada"), address("bob")]

const bounce = (at: number, kind: "permanent" | "transient" | "undetermined", diagnostic: string): Outcome => ({
  _tag: "Bounced",
  at,
  class: kind,
  smtpCode: kind === "permanent" ? 550 : 452,
  enhancedCode: kind === "permanent" ? "5.1.1" : "4.2.2",
  diagnostic
})

const outcomes = {
  delivered: { _tag: "Delivered", at: 10, smtpResponse: "250 Ok" },
  deliveredLater: { _tag: "Delivered", at: 20, smtpResponse: "250 Ok again" },
  soft: bounce(30, "transient", "mailbox full"),
  softLater: bounce(35, "transient", "mailbox still full"),
  hard: bounce(40, "permanent", "no such user"),
  unclear: bounce(5, "undetermined", "?"),
  failed: { _tag: "Failed", at: 50, code: "dropped", message: "dropped by the provider" },
  complained: { _tag: "Complained", at: 60 }
} as const satisfies Record<string, Outcome>

const sets: ReadonlyArray<{ readonly of: ReadonlyArray<keyof typeof outcomes>; readonly ends: string }> = [
  { of: ["delivered", "deliveredLater"], ends: "delivered" },
  { of: ["delivered", "hard"], ends: "bounced" },
  { of: ["softLater", "soft"], ends: "bounced" },
  { of: ["soft", "hard", "unclear"], ends: "bounced" },
  { of: ["delivered", "soft", "failed"], ends: "failed" },
  { of: ["delivered", "complained"], ends: "delivered" },
  { of: ["delivered", "soft", "hard", "failed"], ends: "failed" }
]

const permutations = <A>(items: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  items.length < 2
    ? [items]
    : items.flatMap((item, index) => permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest]))

const about = (id: MessageId, recipient: Address | null, outcome: Outcome): Notification => ({
  provider: providerName,
  providerMessageId: providerMessageId({ messageId: id }),
  recipient,
  outcome
})

/** What must not depend on order: everything of the recipients but when the provider took them. */
const ending = (world: World, of: Tenancy, id: MessageId) =>
  Effect.map(messageOf(world, of, id), ({ status, failure, recipients }) => ({
    status,
    failure,
    recipients: recipients.map(({ address, status, evidence, complainedAt, updatedAt }) => ({
      address,
      status,
      evidence,
      complainedAt,
      updatedAt: status === "sent" ? null : updatedAt
    }))
  }))

export const suite: ScenarioSuite = {
  name: "provider notifications",
  checks: [
    ...sets.map(({ of, ends }) =>
      scenario(`{${of.join(", ")}} ends ${ends} in every order, batching and repetition, also before sent commits`, (world) =>
        Effect.gen(function* () {
          const process = yield* world.boot()
          const endings = new Set<string>()

          for (const order of permutations(of)) {
            for (const manner of ["one by one", "one batch", "twice", "before sent"] as const) {
              // A suppressed address would bounce before it is submitted, so each try has a tenant to itself.
              const tenancy = yield* world.found()
              const { message } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada, { cc: [bob] }))
              const heard = order.map((name) => about(message.id, ada, outcomes[name]))
              if (manner === "before sent") yield* process.notifications.record(heard)
              yield* settle(process)
              if (manner === "one batch") yield* process.notifications.record(heard)
              if (manner === "one by one" || manner === "twice") {
                for (const notification of heard) yield* process.notifications.record([notification])
              }
              if (manner === "twice") for (const notification of heard.toReversed()) yield* process.notifications.record([notification])
              const end = yield* ending(world, tenancy, message.id)
              assert.equal(end.recipients[0]!.status, ends, `${order.join(" ")}, ${manner}`)
              assert.equal(end.recipients[1]!.status, "sent")
              endings.add(JSON.stringify(end))
              const events = typesOf(yield* logOf(world, tenancy, message.id))
              assert.equal(new Set(events).size, events.length, "at most one event for each outcome")
              const suppressed = yield* world.store.suppressions.among(tenancy.realm, [ada])
              assert.equal(suppressed.length, of.some((name) => name === "hard" || name === "complained") ? 1 : 0)
            }
          }
          assertSame(endings)
        })
      )
    ),

    scenario("what is known of each outcome is kept: the earliest delivery, the most certain bounce", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { message } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada))
        yield* settle(process)

        for (const name of ["deliveredLater", "delivered", "soft", "hard"] as const) {
          yield* process.notifications.record([about(message.id, ada, outcomes[name])])
        }

        const { evidence } = (yield* messageOf(world, tenancy, message.id)).recipients[0]!
        assert.deepEqual([evidence.delivered?.at, evidence.bounced?.at, evidence.failed], [10, 40, null])
      })
    ),

    scenario("a notification without a recipient speaks of all that its submission took", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { message } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, [ada, bob]))
        yield* settle(process)

        yield* process.notifications.record([about(message.id, null, outcomes.delivered)])

        assert.equal((yield* messageOf(world, tenancy, message.id)).status, "delivered")
      })
    ),

    scenario("unknown submissions, other providers' and other recipients' notifications change nothing", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { message } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada))
        yield* settle(process)
        const before = yield* messageOf(world, tenancy, message.id)
        const good = about(message.id, ada, outcomes.hard)

        yield* process.notifications.record([
          { ...good, provider: "another" },
          { ...good, providerMessageId: "staged-of-somebody-else" },
          { ...good, recipient: bob }
        ])

        assert.deepEqual(yield* messageOf(world, tenancy, message.id), before)
        assert.deepEqual(yield* world.store.suppressions.among(tenancy.realm, [ada, bob]), [])
      })
    ),

    scenario("of a message that two providers took under one id, each speaks of whom it took", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { message: { id } } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, [ada, bob]))
        yield* settle(process)
        const message = yield* messageOf(world, tenancy, id)
        const [submission] = message.submissions
        const submissions = [{ ...submission!, recipients: [ada] }, { ...submission!, provider: "another", recipients: [bob] }]
        const recipients = message.recipients.map((recipient, index) => {
          const { provider, providerMessageId } = submissions[index]!
          return { ...recipient, submission: { provider, providerMessageId } }
        })
        const record = { ...message, version: message.version + 1, submissions, recipients }
        yield* world.witness.watch(world.store).commit([{ _tag: "Update", kind: "message", record }], [])

        yield* process.notifications.record([about(id, null, outcomes.hard)])

        assert.deepEqual((yield* messageOf(world, tenancy, id)).recipients.map(({ status }) => status), ["bounced", "sent"])
      })
    ),

    scenario("of a message that one provider took in two parts, a notification speaks of those of its own", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request, nth) =>
          Effect.succeed({
            ...accepted(request),
            providerMessageId: nth === 1 ? providerMessageId(request) : `another of ${request.messageId}`,
            replies: accepted(request).replies.map((one) =>
              one.recipient === bob && nth === 1 ? { ...one, reply: { smtpCode: 450, enhancedCode: "4.2.0", text: "later" } } : one
            )
          })
        const id = yield* send(process, tenancy, [ada, bob])
        yield* pass(process, "10 minutes", "1 minute")

        yield* process.notifications.record([about(id, null, outcomes.hard)])

        assert.deepEqual((yield* messageOf(world, tenancy, id)).recipients.map(({ status }) => status), ["bounced", "sent"])
      })
    ),

    ...(["by name", "with all others"] as const).map((how) =>
      scenario(`whom a provider takes later under the same name has what was told ${how} before that was committed`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found()
          const process = yield* world.boot()
          const notBob = (request: SubmitRequest): SubmitResult => ({
            ...accepted(request),
            replies: accepted(request).replies.map((one) =>
              one.recipient === bob ? { ...one, reply: { smtpCode: 450, enhancedCode: "4.2.0", text: "later" } } : one
            )
          })
          let told: Effect.Effect<unknown> = Effect.void
          world.stage.behave = (request, nth) => (nth === 1 ? Effect.succeed(notBob(request)) : Effect.as(told, accepted(request)))
          const id = yield* send(process, tenancy, [ada, bob])
          yield* settle(process)
          const early = about(id, how === "by name" ? bob : null, outcomes.delivered)
          told = Effect.orDie(Effect.andThen(process.notifications.record([early]), process.sweep.tick))

          yield* pass(process, "10 minutes", "1 minute")

          assert.deepEqual((yield* messageOf(world, tenancy, id)).recipients.map(({ status }) => status), [how === "by name" ? "sent" : "delivered", "delivered"])
          assert.deepEqual(yield* world.store.notifications.kept({ provider: early.provider, providerMessageId: early.providerMessageId }), [])
        })
      )
    ),

    scenario("each notification of a batch finds its submission: whoever else has one of that id, and whatever comes before it", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const ids = [yield* send(process, tenancy, ada), yield* send(process, tenancy, bob)]
        yield* settle(process)
        const told = ids.map((id) => about(id, null, outcomes.delivered))

        yield* process.notifications.record(told.flatMap((one) => [{ ...one, provider: "another" }, one]))

        assert.deepEqual(yield* Effect.forEach(ids, (id) => Effect.map(messageOf(world, tenancy, id), ({ status }) => status)), ["delivered", "delivered"])
      })
    ),

    scenario("a notification that makes no sense is passed over, and those beside it are not", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)

        const delivered = about(id, ada, outcomes.delivered)
        // Far longer than a submission's, and nothing that can be compressed.
        const providerMessageId = String.fromCharCode(...Array.from({ length: 5_000 }, (_, place) => 0x4e00 + ((place * 7_919) % 20_000)))

        yield* process.notifications.record([about(id, ada, { ...outcomes.hard, at: Number.NaN }), { ...delivered, providerMessageId }, delivered])

        const { status, recipients } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, recipients[0]!.evidence.bounced], ["delivered", null])
      })
    ),

    scenario("a complaint is of the time that it tells, and its address is on the list from when we heard of it", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        yield* Time.adjust("1 hour")

        yield* process.notifications.record([about(id, ada, outcomes.complained)])

        const [suppression] = yield* world.store.suppressions.among(tenancy.realm, [ada])
        assert.deepEqual([suppression?.reason, suppression?.messageId, suppression?.createdAt], ["complaint", id, yield* Clock.currentTimeMillis])
        assert.equal((yield* messageOf(world, tenancy, id)).recipients[0]!.complainedAt, 60)
      })
    ),

    scenario("a recipient is meant in whatever case the provider writes the address", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { message: { id } } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada))
        yield* settle(process)

        yield* process.notifications.record([about(id, address("ADA", "Example.COM"), outcomes.delivered)])

        assert.equal((yield* messageOf(world, tenancy, id)).status, "delivered")
      })
    ),

    scenario("a notification kept for a submission is dropped once it is applied", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { message: { id } } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada))
        const early = about(id, ada, outcomes.delivered)
        const kept = world.store.notifications.kept({ provider: early.provider, providerMessageId: early.providerMessageId })
        yield* process.notifications.record([early])
        assert.equal((yield* kept).length, 1)

        yield* settle(process)

        assert.equal((yield* messageOf(world, tenancy, id)).status, "delivered")
        assert.deepEqual(yield* kept, [])
      })
    ),

    scenario("kept notifications that break whoever applies them hold up no others", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const store = new NoCommits()
        const [calm, process] = [yield* world.boot(), yield* world.boot(store)]
        const ids = [yield* send(calm, tenancy, ada), yield* send(calm, tenancy, ada)]
        yield* settle(calm)
        const changes = ids.map((id) => ({ _tag: "KeepNotification", notification: about(id, ada, outcomes.delivered), at: 0 }) as const)
        yield* world.witness.watch(world.store).commit(changes, [])
        const statuses = Effect.map(Effect.forEach(ids, (id) => messageOf(world, tenancy, id)), (all) => all.map(({ status }) => status).sort())

        store.isOn = true
        store.isBroken = true
        store.left = 1
        yield* process.sweep.tick
        assert.deepEqual(yield* statuses, ["delivered", "sent"])
        yield* process.sweep.tick

        assert.deepEqual(yield* statuses, ["delivered", "delivered"])
      })
    ),

    scenario("a notification kept for a submission is forgotten after 48 hours", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const early = about("never-submitted" as MessageId, ada, outcomes.delivered) // no message has this id
        yield* process.notifications.record([early])
        const ref = { provider: early.provider, providerMessageId: early.providerMessageId }

        yield* Time.adjust("47 hours")
        yield* process.sweep.retain
        assert.equal((yield* world.store.notifications.kept(ref)).length, 1)
        yield* Time.adjust("2 hours")
        yield* process.sweep.retain

        assert.equal((yield* world.store.notifications.kept(ref)).length, 0)
      })
    ),

    scenario("a notification recorded while its submission commits is never lost", (world) =>
      Effect.gen(function* () {
        for (let round = 0; round < 20; round++) {
          const tenancy = yield* world.found()
          const process = yield* world.boot()
          const { message } = yield* process.messages.send(tenancy.principal, someKey(), letter(tenancy, ada))
          const at = yield* Clock.currentTimeMillis
          const delayed = Effect.gen(function* () {
            for (let turn = 0; turn < round; turn++) yield* Effect.yieldNow
            yield* process.notifications.record([about(message.id, ada, { ...outcomes.delivered, at })])
          })

          yield* Effect.all([settle(process), delayed], { concurrency: "unbounded" })

          assert.equal((yield* messageOf(world, tenancy, message.id)).status, "delivered", `round ${round}`)
        }
      })
    )
  ]
}

const assertSame = (endings: ReadonlySet<string>) =>
  assert.equal(endings.size, 1, `the order decided: ${[...endings].join("\n")}`)
