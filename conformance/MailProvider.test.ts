/** What authors get wrong about messages that are not taken: each flaw is put into a provider that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { counted } from "../adapters/memory/CountedMailProvider.ts"
import * as MemoryMailProvider from "../adapters/memory/MemoryMailProvider.ts"
import type { Address } from "../core/model/Address.ts"
import type { Reply } from "../core/model/Reply.ts"
import { SubmissionRefused, type MailProvider, type SubmitResult } from "../core/ports/MailProvider.ts"
import { suite } from "./MailProvider.ts"
import { conforms, prove } from "./Proof.ts"

const refusedWith = (smtpCode: number) => new SubmissionRefused({ reply: { smtpCode, enhancedCode: null, text: null } })

/** What is said of a submission, changed. */
const saying =
  (change: (result: SubmitResult) => object) =>
  ({ submit }: MailProvider): MailProvider["submit"] =>
  (request) =>
    Effect.map(submit(request), (result) => ({ ...result, ...change(result) }))

/** A reply, changed, for each recipient. */
const replying = (change: (recipient: Address, reply: Reply) => object) =>
  saying(({ replies }) => ({ replies: replies.map(({ recipient, reply }) => ({ recipient, reply, ...change(recipient, reply) })) }))

const perRecipient = "replies for each recipient of the envelope, and for nobody whom the headers name"
const asWritten = "mails an address as it is written, with its capitals, its tag and its signs, and replies for it so"
const refusedBeside = "reports a recipient who is refused for good beside others who are taken, each as it is"

type Make = (provider: MailProvider, recording: MemoryMailProvider.Recording) => MailProvider["submit"]

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: Make]> = [
  [
    "a refusal that is taken for a deferral",
    "reports a message that is refused for good as permanent, after one call",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "SubmissionRefused", () => Effect.fail(refusedWith(450)))
  ],
  [
    "a 451 that is taken for a refusal",
    "reports a message that is deferred as transient, after one call",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "SubmissionRefused", () => Effect.fail(refusedWith(551)))
  ],
  [
    "a lost answer that is taken for a refusal",
    "does not know what became of a message that gets no answer, and does not submit it again",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "MailProviderUnavailable", () => Effect.fail(refusedWith(550)))
  ],
  [
    "a provider that tries again by itself",
    "does not know what became of a message that gets no answer, and does not submit it again",
    ({ submit }) => (request) => Effect.retry(submit(request), { times: 1 })
  ],
  ["an answer in lower case", asWritten, replying((recipient) => ({ recipient: recipient.toLowerCase() }))],
  [
    "a tag that is left out on the way",
    asWritten,
    ({ submit }) => (request) => {
      const recipients = request.envelope.recipients.map((recipient) => recipient.replace(/\+[^@]*/, "") as Address) // it stays one
      return Effect.map(submit({ ...request, envelope: { ...request.envelope, recipients } }), (result) => ({
        ...result,
        replies: result.replies.map(({ reply }, index) => ({ recipient: request.envelope.recipients[index]!, reply }))
      }))
    }
  ],
  ["an answer for all that is taken for one for each", refusedBeside, replying(() => ({ reply: { smtpCode: 250, enhancedCode: null, text: null } }))],
  ["a recipient who was refused, and is left out", refusedBeside, saying(({ replies }) => ({ replies: replies.filter(({ reply }) => reply.smtpCode < 300) }))],
  [
    "an answer that breaks its reader",
    "does not know what became of a message whose answer it cannot understand, and does not submit it again",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "MailProviderUnavailable", () => Effect.die(new SyntaxError("Unexpected token")))
  ],
  [
    "a call without a deadline",
    "gives up by a deadline of its own, on Effect's clock and before the core's ten minutes, and hangs up",
    ({ submit }) => (request) => Effect.catchTag(submit(request), "MailProviderUnavailable", () => Effect.never)
  ],
  ["a code that is a text", perRecipient, replying((_, reply) => ({ reply: { ...reply, smtpCode: "250" } }))],
  ["an enhanced code that is none", perRecipient, replying((_, reply) => ({ reply: { ...reply, enhancedCode: "OK" } }))],
  ["a text that is left out", perRecipient, replying((_, reply) => ({ reply: { ...reply, text: undefined } }))],
  ["a time to poll that is left out", perRecipient, saying(() => ({ pollAt: undefined }))],
  ["a time to poll that is no whole number", perRecipient, saying(() => ({ pollAt: 1e12 + 0.5 }))],
  ["a time to poll that never comes", perRecipient, saying(() => ({ pollAt: Infinity }))],
  ["a time to poll that is long past", "wants to be polled at a time to come, or never", saying(() => ({ pollAt: 60_000 }))],
  ["a time to poll that is a wait of a day", "wants to be polled at a time to come, or never", saying(() => ({ pollAt: 24 * 60 * 60_000 }))],
  ["a name that is a number", perRecipient, saying(() => ({ providerMessageId: 42 }))],
  ["a name with a NUL in it", perRecipient, saying(({ providerMessageId }) => ({ providerMessageId: `${providerMessageId}\0` }))],
  [
    "a message to the first 50 that is said to be one to all",
    "mails each of as many recipients as a message may have, or tells those to come again whom it has not mailed",
    ({ submit }) => (request) =>
      Effect.map(
        submit({ ...request, envelope: { ...request.envelope, recipients: request.envelope.recipients.slice(0, 50) } }),
        (result) => ({ ...result, replies: request.envelope.recipients.map((recipient) => ({ recipient, reply: result.replies[0]!.reply })) })
      )
  ],
  [
    "news of a submission that nobody is to poll for",
    "says all it knows as often as it is asked, of this submission alone, until nothing more can come",
    ({ submit, name }, { notify }) => (request) =>
      Effect.tap(submit(request), ({ providerMessageId }) =>
        notify({ provider: name, providerMessageId, recipient: null, outcome: { _tag: "Delivered", at: 0, smtpResponse: null } })
      )
  ],
  [
    "a call that goes on when nobody waits for it",
    "ends at once when it is interrupted while it waits for an answer, and hangs up",
    ({ submit }) => (request) => Effect.flatMap(Effect.promise(() => Effect.runPromise(Effect.result(submit(request)))), Effect.fromResult)
  ]
]

class Subject extends Context.Service<Subject, ReturnType<typeof counted> & { readonly flawed: MailProvider }>()("test/Subject") {}

const subject = (make: Make) =>
  Layer.sync(Subject, () => {
    const right = counted(MemoryMailProvider.make("memory"))
    return { ...right, flawed: { ...right.provider, submit: make(right.provider, right.recording) } }
  })

const held = suite({
  provider: Subject.useSync(({ flawed }) => flawed),
  server: {
    next: (ending) => Subject.use(({ server }) => server.next(ending)),
    refuse: (recipient) => Subject.use(({ server }) => server.refuse(recipient)),
    calls: Subject.use(({ server }) => server.calls),
    waiting: Subject.use(({ server }) => server.waiting)
  },
  received: ({ messageId }) =>
    Subject.use(({ recording }) =>
      Effect.map(recording.submissions, (all) =>
        all.filter((one) => one.messageId === messageId).map(({ envelope, bytes }) => ({ ...envelope, bytes }))
      )
    )
})

describe("the suite of MailProvider", () => {
  for (const [flaw, law, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const { checks } = yield* prove([conforms("flawed", held, subject(make))], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }

  it.live("says why a submission ended before it read the bytes, and does not wait for it", () =>
    Effect.gen(function* () {
      const law = "gives up at once when it is interrupted among the bytes, hands nothing over, and submits the next"
      const dying = subject(() => () => Effect.die(new Error("no such method")))

      const { checks } = yield* prove([conforms("flawed", held, dying)], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

      assert.deepStrictEqual(checks.map(({ outcome }) => outcome), ["failed"])
      assert.match(checks[0]!.reason ?? "", /^it ended before it read the bytes: [^]*no such method/)
    }))
})
