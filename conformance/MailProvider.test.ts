/** What authors get wrong about messages that are not taken: each flaw is put into a provider that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result, Semaphore } from "effect"
import { counted } from "../adapters/memory/CountedMailProvider.ts"
import * as MemoryMailProvider from "../adapters/memory/MemoryMailProvider.ts"
import type { Address } from "../core/model/Address.ts"
import type { Reply } from "../core/model/Reply.ts"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider, type SubmitResult } from "../core/ports/MailProvider.ts"
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

/** Who takes 50 in a call, and makes as many as a submission needs: right as it stands, but for what `over` puts in. */
const inCalls =
  (over: { readonly fails?: "as a whole"; readonly says?: 250 | 550; readonly asks?: false; readonly stops?: "silently"; readonly retries?: 1 } = {}): Make =>
  ({ submit }) =>
    Effect.fnUntraced(function* (request) {
      const { recipients } = request.envelope
      const replies: Array<SubmitResult["replies"][number]> = []
      let first: SubmitResult | null = null
      for (let index = 0; index < recipients.length; index += 50) {
        const group = recipients.slice(index, index + 50)
        const tell = (smtpCode: number) => void replies.push(...group.map((recipient) => ({ recipient, reply: { smtpCode, enhancedCode: null, text: null } })))
        if (index > 0 && over.asks !== false && !request.isWanted()) {
          if (over.stops === undefined) tell(over.says ?? 451)
          continue
        }
        const made = yield* Effect.result(Effect.retry(submit({ ...request, envelope: { ...request.envelope, recipients: group } }), { times: index === 0 ? 0 : (over.retries ?? 0) }))
        if (Result.isSuccess(made)) {
          first ??= made.success
          replies.push(...made.success.replies)
        } else if (first === null || over.fails !== undefined) return yield* made.failure
        else tell(over.says ?? (made.failure._tag === "SubmissionRefused" ? made.failure.reply.smtpCode : 451))
      }
      return { ...first!, replies }
    })

/** A provider that submits one message at a time. */
const oneByOne =
  (isAsked: boolean): Make =>
  ({ submit }) => {
    const turn = Semaphore.makeUnsafe(1)
    return (request) =>
      turn.withPermit(
        Effect.suspend(() => (isAsked && !request.isWanted() ? Effect.fail(new MailProviderUnavailable({ cause: "wanted no more" })) : submit(request)))
      )
  }

const laterCall = (ending: string) => `tells those who were mailed so, where a later call of the submission ${ending}`
const askedBefore = "asks before each later call of a submission whether it is wanted, and tells those whom that would have mailed to come again"
const askedInTurn = "asks a message that waited whether it is wanted, once its turn has come, and submits none that is not"

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
  ["a later call's refusal that becomes everybody's", laterCall("is refused for good"), inCalls({ fails: "as a whole" })],
  ["a later call's lost answer, by which those are mailed again who were mailed", laterCall("gets no answer"), inCalls({ fails: "as a whole" })],
  ["a later call's lost answer that is taken for a refusal", laterCall("gets no answer"), inCalls({ says: 550 })],
  ["a later call that was refused, and is said to be taken", laterCall("is refused for good"), inCalls({ says: 250 })],
  ["a later call that was deferred, and is said to be taken", laterCall("is deferred"), inCalls({ says: 250 })],
  ["a later call that is made again at once", laterCall("is deferred"), inCalls({ retries: 1 })],
  ["a later call that breaks what is answered for the others", laterCall("gets an answer that cannot be understood"), inCalls({ fails: "as a whole" })],
  ["later calls that nobody asked for", askedBefore, inCalls({ asks: false })],
  ["recipients who are left for another time, and refused", askedBefore, inCalls({ says: 550 })],
  ["recipients who are left for another time, and not told so", askedBefore, inCalls({ stops: "silently" })],
  ["a message that waited, and is not asked whether it is wanted", askedInTurn, oneByOne(false)],
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

const held = (turns: number | null = null) => suite({
  provider: Subject.useSync(({ flawed }) => flawed),
  server: {
    next: (ending) => Subject.use(({ server }) => server.next(ending)),
    ...(turns === null ? {} : { turns }),
    behind: (ending) => Subject.use(({ server }) => server.behind(ending)),
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
        const { checks } = yield* prove([conforms("flawed", held(law === askedInTurn ? 1 : null), subject(make))], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }

  for (const [title, make, turns] of [["makes several calls of a submission", inCalls(), null], ["submits one message at a time", oneByOne(true), 1]] as const) {
    it.live(`passes who ${title}, and is right`, () =>
      Effect.gen(function* () {
        const { checks } = yield* prove([conforms("right", held(turns), subject(make))], { filter: [], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.filter(({ outcome }) => outcome !== "passed").map(({ title, reason }) => [title, reason]), [])
      }))
  }

  it.live("says why a submission ended before it read the bytes, and does not wait for it", () =>
    Effect.gen(function* () {
      const law = "gives up at once when it is interrupted among the bytes, hands nothing over, and submits the next"
      const dying = subject(() => () => Effect.die(new Error("no such method")))

      const { checks } = yield* prove([conforms("flawed", held(), dying)], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

      assert.deepStrictEqual(checks.map(({ outcome }) => outcome), ["failed"])
      assert.match(checks[0]!.reason ?? "", /^it ended before it read the bytes: [^]*no such method/)
    }))
})
