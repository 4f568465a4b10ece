/** A provider that does not push is asked what became of a submission: when it is due, ever less often, and not for ever. */
import { Clock, Duration, Effect } from "effect"
import * as assert from "node:assert/strict"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Submission } from "../../core/model/Message.ts"
import type { Notification, Outcome } from "../../core/model/Notification.ts"
import { pollJob } from "../../core/operations/RecordNotification.ts"
import { MailProviderUnavailable, type SubmitResult } from "../../core/ports/MailProvider.ts"
import { address } from "../fixtures.ts"
import * as Time from "./Time.ts"
import { accepted, loggedTo, messageOf, pass, providerName, scenario, send, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** What an operator is told of such an adapter. */
const portBroken = "said what its port does not allow"

const [ada, bob] = [address("ada"), address("bob")]
const minute = 60_000

/** Submissions are to be asked about after so many minutes; the first, the second of a message. */
const toPollAfter = ({ stage }: World, ...minutes: ReadonlyArray<number>) => {
  stage.behave = (request, nth) =>
    Effect.map(Clock.currentTimeMillis, (now) => ({
      ...accepted(request),
      providerMessageId: `${request.messageId} ${nth}`,
      pollAt: now + minutes[nth - 1]! * minute,
      replies: accepted(request).replies.map((one) =>
        one.recipient === bob && nth === 1 ? { ...one, reply: { smtpCode: 450, enhancedCode: "4.2.0", text: "later" } } : one
      )
    }))
}

/** What is asked about from now on, and when; nobody answers. */
const unanswered = ({ stage }: World) => {
  const asked: Array<{ readonly id: string; readonly at: number }> = []
  stage.poll = ({ providerMessageId }) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) => {
      asked.push({ id: providerMessageId, at })
      return Effect.fail(new MailProviderUnavailable({ cause: "away" }))
    })
  return asked
}

const submissionOf = (world: World, of: Tenancy, id: MessageId) =>
  Effect.map(messageOf(world, of, id), ({ submissions }) => submissions[0]!)

/** A submitted message, whose submissions are changed behind everybody's back; the first as it was. */
const submittedWith = Effect.fnUntraced(function* (world: World, process: Process, of: Tenancy, change: (one: Submission) => ReadonlyArray<Submission>) {
  const id = yield* send(process, of, ada)
  yield* settle(process)
  const message = yield* messageOf(world, of, id)
  const record = { ...message, version: message.version + 1, submissions: message.submissions.flatMap(change) }
  yield* world.witness.watch(world.store).commit([{ _tag: "Update", kind: "message", record }], [])
  yield* Time.adjust("1 minute")
  yield* settle(process)
  return { id, submittedAt: message.submissions[0]!.submittedAt }
})

export const suite: ScenarioSuite = {
  name: "polling a provider",
  checks: [
    scenario("a provider that answers no poll is asked again after a minute, then ever less often, until the submission is 48 hours old", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 1)
        const asked = unanswered(world)
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        yield* Time.adjust("1 minute")
        yield* settle(process)
        const { submittedAt, pollAt } = yield* submissionOf(world, tenancy, id)
        assert.deepEqual([asked.length, pollAt], [1, submittedAt + 2 * minute])

        yield* pass(process, "64 hours", "30 minutes")

        const ages = asked.map(({ at }) => at - submittedAt)
        assert.ok(ages.length < 40, `${ages.length} polls`)
        assert.equal(ages.filter((age) => age >= Duration.toMillis("48 hours")).length, 1)
        assert.equal((yield* submissionOf(world, tenancy, id)).pollAt, null)
      })
    ),

    scenario("a poll that gets no answer at all ends after a minute, and is made again", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 1)
        world.stage.poll = () => Effect.never
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        yield* Time.adjust("1 minute")
        const polling = yield* Effect.forkChild(settle(process))
        yield* Time.adjust("59 seconds")
        assert.equal(polling.pollUnsafe(), undefined)
        world.stage.poll = () => Effect.succeed({ notifications: [], pollAt: null })

        yield* Time.adjust("1 second")

        assert.notEqual(polling.pollUnsafe(), undefined)
        assert.equal((yield* submissionOf(world, tenancy, id)).pollAt, null)
      })
    ),

    scenario("a job that comes before its poll is due asks nothing, and the poll is made in its time", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 10)
        const asked = unanswered(world)
        const id = yield* send(process, tenancy, ada)
        yield* settle(process)
        yield* world.queue.offer([pollJob(yield* messageOf(world, tenancy, id), yield* Clock.currentTimeMillis)])
        yield* settle(process)
        assert.equal(asked.length, 0)

        yield* Time.adjust("10 minutes")
        yield* settle(process) // without a sweep

        assert.equal(asked.length, 1)
      })
    ),

    scenario("a submission of which nobody was taken is not kept, and not asked about", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const asked = unanswered(world)
        const reply = { smtpCode: 550, enhancedCode: "5.1.1", text: "no such user" }
        world.stage.behave = (request) =>
          Effect.map(Clock.currentTimeMillis, (now) => ({
            ...accepted(request),
            pollAt: now + minute,
            replies: request.envelope.recipients.map((recipient) => ({ recipient, reply }))
          }))
        const id = yield* send(process, tenancy, [ada, bob])

        yield* pass(process, "5 minutes", "30 seconds")

        const { status, submissions } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, submissions, asked], ["bounced", [], []])
      })
    ),

    scenario("a poll that breaks every worker is given up at its fifth claim, and the message stays as it is", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 1)
        let polls = 0
        world.stage.poll = () =>
          Effect.suspend(() => {
            polls += 1
            return Effect.die(new Error("provider bug"))
          })
        const id = yield* send(process, tenancy, ada)

        yield* pass(process, "15 minutes", "30 seconds")

        const { status, submissions } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([polls, status, submissions[0]!.pollAt], [4, "sent", null])
      })
    ),

    scenario("of a message's submissions those are asked about that are due", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 10, 30)
        const asked = unanswered(world)
        const id = yield* send(process, tenancy, [ada, bob])
        yield* pass(process, "9 minutes", "30 seconds")
        assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        assert.equal(asked.length, 0)

        yield* pass(process, "2 minutes", "30 seconds")

        assert.deepEqual(new Set(asked.map((one) => one.id)), new Set([`${id} 1`]))
      })
    ),

    ...(
      [
        ["another provider's of the same id", () => ({ provider: "another" })],
        ["one of another id", () => ({ providerMessageId: "another" })],
        ["an earlier one of the same id", ({ submittedAt }) => ({ submittedAt: submittedAt - 1 })]
      ] satisfies ReadonlyArray<readonly [string, (one: Submission) => Partial<Submission>]>
    ).map(([other, over]) =>
      scenario(`a poll puts off its own submission, and not ${other}`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found()
          const process = yield* world.boot()
          toPollAfter(world, 1)
          unanswered(world)
          const { id, submittedAt } = yield* submittedWith(world, process, tenancy, (one) => [one, { ...one, recipients: [], pollAt: null, ...over(one) }])

          const after = yield* messageOf(world, tenancy, id)
          assert.deepEqual(after.submissions.map(({ pollAt }) => pollAt), [submittedAt + 2 * minute, null])
        })
      )
    ),

    scenario("what makes no sense in a provider's answer is passed over with a word in the log, and what stands beside it is not", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 1)
        const id = yield* send(process, tenancy, ada)
        const about = (outcome: Outcome): Notification => ({ provider: providerName, providerMessageId: `${id} 1`, recipient: ada, outcome })
        const [delivered, failed] = [{ _tag: "Delivered", smtpResponse: null }, { _tag: "Failed", code: "dropped", message: "dropped" }] as const
        world.stage.poll = () => Effect.succeed({ notifications: [about({ ...failed, at: Number.NaN }), about({ ...delivered, at: 3 })], pollAt: null })
        const lines: Array<string> = []

        yield* Effect.provide(pass(process, "2 minutes", "1 minute"), loggedTo(lines))

        assert.equal(lines.filter((line) => line.includes("makes no sense") && line.includes(id)).length, 1)
        const { status, recipients, submissions } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, recipients[0]!.evidence.failed, submissions[0]!.pollAt], ["delivered", null, null])
      })
    ),

    scenario("what a provider has taken is recorded, and mailed once, though it names no time that can be kept, nor codes that are any", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        let calls = 0
        const said = [{ pollAt: undefined }, { pollAt: Number.NaN }, { providerMessageId: 42 }, { providerMessageId: undefined }, { providerMessageId: "a\0\ud800" }]
        world.stage.behave = (request) => {
          calls += 1
          const replies = [
            { recipient: ada, reply: { smtpCode: "250", enhancedCode: undefined, text: undefined } },
            { recipient: bob, reply: { smtpCode: "550", enhancedCode: "no", text: 7 } }
          ]
          const result: object = { ...accepted(request), replies, ...said[calls - 1] }
          return Effect.succeed(result as SubmitResult) // as JavaScript can say it
        }
        const ids = yield* Effect.forEach(said, () => send(process, tenancy, ada, { to: [ada, bob] }))

        yield* settle(process)
        yield* pass(process, "1 hour", "10 minutes")

        const bounce = { class: "permanent", smtpCode: 550, enhancedCode: null, diagnostic: null } as const
        for (const id of ids) {
          const { recipients, submissions } = yield* messageOf(world, tenancy, id)
          assert.deepEqual(recipients.map(({ status }) => status), ["sent", "bounced"])
          assert.deepEqual(recipients[1]!.evidence.bounced?.bounce, bounce)
          assert.equal(submissions[0]!.pollAt, null)
        }
        assert.equal(calls, said.length)
      })
    ),

    scenario("mail that a provider has taken without a list of replies is sent, and mailed once, and the operator is told once", (world) =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const said = [{ replies: undefined }, { replies: {} }]
        let calls = 0
        world.stage.behave = (request) => Effect.sync(() => ({ ...accepted(request), ...said[calls++] }) as SubmitResult) // as JavaScript can say it
        const ids = yield* Effect.forEach(said, () => send(process, tenancy, ada, { to: [ada, bob] }))

        yield* Effect.provide(Effect.andThen(settle(process), pass(process, "1 hour", "10 minutes")), loggedTo(lines))

        for (const id of ids) {
          const { recipients, submissions } = yield* messageOf(world, tenancy, id)
          assert.deepEqual([recipients.map(({ status }) => status), submissions.map((one) => one.recipients)], [["sent", "sent"], [[ada, bob]]])
        }
        assert.equal(calls, said.length)
        assert.equal(lines.filter((line) => line.includes(portBroken)).length, said.length, lines.join("\n"))
      })
    ),

    ...(
      [
        ["names no time that can be kept", { notifications: [], pollAt: Number.NaN }],
        ["names no time", { notifications: [] }],
        ["has no list of notifications", { pollAt: null }],
        ["is nothing", undefined]
      ] satisfies ReadonlyArray<readonly [string, unknown]>
    ).map(([what, answer]) =>
      scenario(`an answer to a poll that ${what} is the last, which the operator is told once, and the message stays as it is`, (world) =>
        Effect.gen(function* () {
          const lines: Array<string> = []
          const tenancy = yield* world.found()
          const process = yield* world.boot()
          toPollAfter(world, 1)
          let polls = 0
          world.stage.poll = () => Effect.sync(() => (polls++, answer as { notifications: []; pollAt: null })) // as JavaScript can say it
          const id = yield* send(process, tenancy, ada)
          yield* settle(process)

          yield* Effect.provide(pass(process, "15 minutes", "1 minute"), loggedTo(lines))

          const { status, submissions } = yield* messageOf(world, tenancy, id)
          assert.deepEqual([polls, status, submissions[0]!.pollAt], [1, "sent", null])
          assert.equal(lines.filter((line) => line.includes(portBroken)).length, 1, lines.join("\n"))
        })
      )
    ),

    scenario("what polls tell is of the message that they are about, though its provider has two by one name", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.behave = (request) =>
          Effect.map(Clock.currentTimeMillis, (now) => ({ ...accepted(request), providerMessageId: "ok", pollAt: now + minute }))
        let polls = 0
        world.stage.poll = ({ provider, providerMessageId, recipients }) =>
          Effect.sync(() => {
            polls += 1
            const outcome: Outcome = { _tag: "Delivered", at: 0, smtpResponse: null }
            return { notifications: recipients.map((recipient) => ({ provider, providerMessageId, recipient, outcome })), pollAt: null }
          })
        const ids = [yield* send(process, of, ada), yield* send(process, of, bob)]
        yield* settle(process)

        yield* Time.adjust("1 minute")
        yield* settle(process)

        const messages = yield* Effect.forEach(ids, (id) => messageOf(world, of, id))
        assert.deepEqual([messages.map(({ status }) => status), polls], [["delivered", "delivered"], 2])
      })
    ),

    scenario("a submission that another provider took is not asked about here, and looked at again later", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        toPollAfter(world, 1)
        const asked = unanswered(world)
        const { id, submittedAt } = yield* submittedWith(world, process, tenancy, (one) => [{ ...one, provider: "another" }])

        const { pollAt } = yield* submissionOf(world, tenancy, id)
        assert.deepEqual([asked, pollAt], [[], submittedAt + 2 * minute])
      })
    )
  ]
}
