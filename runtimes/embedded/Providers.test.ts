/** A provider whose author wrote JavaScript: what its methods return is no Effect, or fails as no port has it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { MailProvider, SubmitRequest } from "../../core/ports/MailProvider.ts"
import { embed, found } from "./harness.ts"

const taken = ({ envelope }: SubmitRequest) => ({
  providerMessageId: "m1",
  replies: envelope.recipients.map((recipient) => ({ recipient, reply: { smtpCode: 250, enhancedCode: null, text: null } })),
  pollAt: Date.now() + 1
})
const delivered = { _tag: "Delivered", at: 2, smtpResponse: null } as const
const polled = { notifications: [{ provider: "mine", providerMessageId: "m1", recipient: null, outcome: delivered }], pollAt: null }

type Submit = Effect.Effect<unknown>

/** As JavaScript gives it. */
const given = (methods: object) => ({ name: "mine", ...methods }) as MailProvider

/** A message that it was given once, behind a tick; and what the log says. */
const sentBy = async (methods: object) => {
  const lines: Array<string> = []
  const mailroom = await embed({ sandbox: given(methods), log: (line) => void lines.push(line) })
  const { apiKey, mailboxId } = await found(mailroom)
  const client = mailroom.client(apiKey)
  const { id } = await client.sendMessage({ fromMailboxId: mailboxId, to: ["bob@example.com"], text: "Hello" })
  await mailroom.tick()
  const told = async () => (await client.getMessage(id)).message
  for (let ticks = 0; ticks < 500 && (await told()).status === "sent"; ticks++) await mailroom.tick()
  return { told: await told(), lines: lines.join("\n") }
}

const portBroken = "said what its port does not allow"

describe("a provider in JavaScript", () => {
  for (const [how, submit, poll] of [
    ["a promise", async (request: SubmitRequest) => taken(request), async () => polled],
    ["its result", taken, () => polled]
  ] as const) {
    it(`is taken at its word, and its operator told, where a method returns ${how} and no Effect`, async () => {
      let calls = 0
      const counted = (request: SubmitRequest) => ((calls += 1), submit(request))

      const { told, lines } = await sentBy({ submit: counted, poll })

      assert.deepStrictEqual([calls, told.status], [1, "delivered"])
      assert.strictEqual(lines.split(portBroken).length - 1, 2, lines)
    })
  }

  for (const [how, handedOn] of [
    ["a promise of an Effect", async (submit: Submit) => submit],
    ["an Effect of an Effect", (submit: Submit) => Effect.sync(() => submit)],
    // @effect-diagnostics-next-line lazyPromiseInEffectSync:off -- this is what JavaScript's authors may write
    ["an Effect of a promise", (submit: Submit) => Effect.sync(() => Effect.runPromise(submit))]
  ] as const) {
    it(`has what it hands the call on to done, where a method returns ${how}`, async () => {
      const mailed: Array<string> = []
      const inner = (request: SubmitRequest) => Effect.sync(() => (mailed.push(...request.envelope.recipients), taken(request)))

      const { told, lines } = await sentBy({ submit: (request: SubmitRequest) => handedOn(inner(request)), poll: () => handedOn(Effect.succeed(polled)) })

      assert.deepStrictEqual([mailed, told.status], [["bob@example.com"], "delivered"])
      assert.include(lines, portBroken)
    })
  }

  for (const [how, submit] of [
    ["a promise that rejects", () => Promise.reject(new Error("api down"))],
    ["nothing, for it throws", () => { throw new Error("api down") }],
    ["an Effect that fails with an error of its own", () => Effect.tryPromise(() => Promise.reject(new Error("api down")))],
    ["an Effect that fails with a text", () => Effect.fail("api down")],
    ["a promise of an Effect that fails with a text", async () => Effect.fail("api down")]
  ] as const) {
    it(`has said nothing of the message where it returns ${how}, and is asked again later`, async () => {
      const { told, lines } = await sentBy({ submit, poll: () => Promise.reject(new Error("not asked")) })

      assert.deepStrictEqual([told.status, told.recipients[0]!.diagnostic], ["queued", "the mail provider is unavailable"])
      assert.isAbove(Date.parse(told.nextAttemptAt!), Date.now())
      assert.include(lines, "api down")
      assert.include(lines, portBroken)
    })
  }
})
