import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { Address } from "../model/Address.ts"
import type { MessageId } from "../model/Ids.ts"
import * as Backoff from "../model/Backoff.ts"
import { submissionWindow } from "../model/Limits.ts"
import * as Recipients from "../model/Recipient.ts"
import type { Reply } from "../model/Reply.ts"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider, type SubmitResult } from "../ports/MailProvider.ts"
import { abandoned, attempted, bounceSuppressed, concludedOn, nothingToSend, poison, Postponed, postponed, refused, soundOf, submissionOutcome, type Attempt } from "./SubmissionAttempt.ts"

const [ada, bob, charles, dora] = [Fixtures.address("ada"), Fixtures.address("bob"), Fixtures.address("charles"), Fixtures.address("dora")]
const recipients = [ada, bob, charles, dora].map((address) => Recipients.make(address, "to", 0))
const [taken, later, never]: [Reply, Reply, Reply] = [
  { smtpCode: 250, enhancedCode: "2.0.0", text: "Ok" },
  { smtpCode: 451, enhancedCode: "4.2.1", text: "wait\r\na moment" },
  { smtpCode: 550, enhancedCode: "5.1.1", text: "no\r\nsuch user" }
]
const mime = { blob: { sha256: "00", sizeBytes: 7 }, changes: [] }
const provider: MailProvider = { name: "relay", submit: () => Effect.die("unused"), poll: () => Effect.die("unused") }
const ref = { provider: "relay", providerMessageId: "m1" }

const resultOf = (replies: ReadonlyArray<readonly [Address, Reply]>) => ({
  providerMessageId: "m1",
  replies: replies.map(([recipient, reply]) => ({ recipient, reply })),
  pollAt: 9
})

describe("what a provider has answered", () => {
  it("sends those it has taken, bounces those it refuses for good, and leaves the others for a later try", () => {
    const bounce = { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" } as const

    assert.deepStrictEqual(attempted(provider, recipients, mime, resultOf([[ada, taken], [bob, never], [charles, later]]), 5), {
      outcomes: [
        { recipient: ada, input: { _tag: "Accepted", at: 5, submission: ref } },
        { recipient: bob, input: { _tag: "Bounced", at: 5, bounce } }
      ],
      submission: { ...ref, submittedAt: 5, recipients: [ada], pollAt: 9 },
      mime,
      postponed: { code: "4.2.1", detail: "wait a moment" },
      deferrals: new Map([
        [charles, { smtpCode: 451, enhancedCode: "4.2.1", diagnostic: "wait a moment" }],
        [dora, { smtpCode: null, enhancedCode: null, diagnostic: "the mail provider gave no reply for this recipient" }]
      ])
    })
  })

  it("is a bounce of the class that a report of the same refusal has", () => {
    const said: ReadonlyArray<readonly [smtpCode: number, enhancedCode: string | null, text: string, kind: Recipients.Bounce["class"]]> = [
      [552, "5.2.2", "over", "transient"],
      [550, "5.4.7", "too long", "transient"],
      [552, null, "mailbox is full", "transient"],
      [550, "5.0.0", "user is over quota", "transient"],
      [550, null, "no", "permanent"],
      [550, "5.0.0", "no", "permanent"],
      [550, "5.2.1", "disabled", "permanent"],
      [550, "5.7.1", "temporarily listed", "permanent"],
      [554, null, "temporarily listed", "permanent"]
    ]
    for (const [smtpCode, enhancedCode, text, kind] of said) {
      const { outcomes } = attempted(provider, [recipients[0]!], mime, resultOf([[ada, { smtpCode, enhancedCode, text }]]), 5)
      const bounce = { class: kind, smtpCode, enhancedCode, diagnostic: text }

      assert.deepStrictEqual(outcomes, [{ recipient: ada, input: { _tag: "Bounced", at: 5, bounce } }])
    }
  })

  it("is no submission where it has taken nobody", () => {
    const { submission, postponed } = attempted(provider, [recipients[0]!], mime, resultOf([[ada, never]]), 5)

    assert.deepStrictEqual([submission, postponed], [null, null])
  })

  it("leaves whom it says nothing of, or whom it puts off without a word, for a later try", () => {
    const why = (replies: ReadonlyArray<readonly [Address, Reply]>) => attempted(provider, [recipients[0]!], mime, resultOf(replies), 5).postponed

    assert.deepStrictEqual(why([]), { code: "no_reply", detail: "the mail provider gave no reply for this recipient" })
    for (const text of [null, "", "\r\n"]) assert.deepStrictEqual(why([[ada, { ...later, enhancedCode: null, text }]]), { code: "451", detail: "refused for the moment" })
  })

  it("of the message as a whole ends it, or puts it off, in its words or ours", () => {
    const said = (reply: Reply) => {
      const why = refused(reply)
      return why._tag === "Abandoned" ? why.failure : { code: why.code, detail: why.detail }
    }

    const reply = { smtpCode: 550, enhancedCode: "5.1.1" }
    assert.deepStrictEqual(said(never), { stage: "submit", code: "5.1.1", message: "no such user", reply })
    assert.deepStrictEqual(said(later), { code: "4.2.1", detail: "wait a moment" })
    for (const text of [null, "", " \r\n"]) {
      const refusal = { stage: "submit" as const, code: "550", message: "the provider refused the message", reply: { ...reply, enhancedCode: null } }
      assert.deepStrictEqual(said({ ...never, enhancedCode: null, text }), refusal)
      assert.deepStrictEqual(said({ ...later, enhancedCode: null, text }), { code: "451", detail: "the provider refused the message for the moment" })
    }
  })

  it("is kept as what it means where it says what the port does not allow, so that nobody is mailed again for it", () => {
    const ours = Fixtures.freshId<MessageId>()
    const said = (over: object, reply: object = {}): ReadonlyArray<unknown> => {
      const { outcomes, submission, postponed } = attempted(
        provider,
        [recipients[0]!],
        mime,
        soundOf({ ...resultOf([]), replies: [{ recipient: ada, reply: { ...taken, ...reply } }], ...over } as SubmitResult, ours, [ada]), // as JavaScript can say it
        5
      )
      return [outcomes.map<unknown>((outcome) => ("input" in outcome ? outcome.input : null))[0], submission, postponed?.code]
    }
    const accepted = (id: string, pollAt: number | null) => [
      { _tag: "Accepted", at: 5, submission: { provider: "relay", providerMessageId: id } },
      { provider: "relay", providerMessageId: id, submittedAt: 5, recipients: [ada], pollAt },
      undefined
    ]
    const bounced = (smtpCode: number, enhancedCode: string | null, diagnostic: string | null) => [
      { _tag: "Bounced", at: 5, bounce: { class: "permanent", smtpCode, enhancedCode, diagnostic } },
      null,
      undefined
    ]

    for (const pollAt of [undefined, Number.NaN, Infinity, -Infinity, 9e15, -9e15, "soon"]) assert.deepStrictEqual(said({ pollAt }), accepted("m1", null))
    assert.deepStrictEqual(said({ pollAt: 9.5 }), accepted("m1", 10))
    assert.deepStrictEqual(said({ providerMessageId: 42 }), accepted("42", 9))
    for (const providerMessageId of [undefined, null, "", {}]) assert.deepStrictEqual(said({ providerMessageId }), accepted(ours, 9))
    assert.deepStrictEqual(said({ providerMessageId: "x".repeat(501) }), accepted("x".repeat(500), 9))
    assert.deepStrictEqual(said({ providerMessageId: `${"x".repeat(499)}🏳` }), accepted(`${"x".repeat(499)}\ufffd`, 9))
    assert.deepStrictEqual(said({}, { smtpCode: "250", enhancedCode: "OK", text: undefined }), accepted("m1", 9))
    assert.deepStrictEqual(said({}, { smtpCode: "552", enhancedCode: undefined, text: 7 }), bounced(550, null, null))
    assert.deepStrictEqual(said({}, { smtpCode: 550.5, enhancedCode: "5".repeat(10_000), text: "no" }), bounced(550, null, "no"))
    assert.deepStrictEqual(said({}, { smtpCode: Number.NaN, enhancedCode: null }), [undefined, null, "450"])
    assert.deepStrictEqual(said({ replies: [{ recipient: ada }] }), [undefined, null, "no_reply"])
    for (const none of [null, undefined, "Ok"]) assert.deepStrictEqual(said({ replies: [none] }), [undefined, null, "no_reply"])
    for (const replies of [undefined, null, {}, "Ok", 250]) assert.deepStrictEqual(said({ replies }), accepted("m1", 9))
    for (const nothing of [undefined, null, "Ok"] as ReadonlyArray<unknown>) {
      const sound = soundOf(nothing as SubmitResult, ours, [ada, bob]) // as JavaScript can say it
      assert.deepStrictEqual(attempted(provider, recipients.slice(0, 2), mime, sound, 5).submission, { ...ref, providerMessageId: ours, submittedAt: 5, recipients: [ada, bob], pollAt: null })
    }
    const right = resultOf([[ada, taken], [bob, never], [charles, { ...later, enhancedCode: null, text: null }]])
    assert.strictEqual(soundOf(right, ours, [ada, bob, charles]), right)
  })

  it("counts as what it was for the best off", () => {
    const of = (...replies: ReadonlyArray<Reply>) => submissionOutcome(Exit.succeed(resultOf(replies.map((reply) => [ada, reply]))))
    const failed = (error: SubmissionRefused | MailProviderUnavailable) => submissionOutcome(Exit.fail(error))

    assert.deepStrictEqual([of(never, taken, later), of(never, later), of(never), of()], ["accepted", "transient", "permanent", "transient"])
    assert.deepStrictEqual(
      [failed(new SubmissionRefused({ reply: never })), failed(new SubmissionRefused({ reply: later })), failed(new MailProviderUnavailable({ cause: "away" }))],
      ["permanent", "transient", "unavailable"]
    )
  })
})

describe("who must not be mailed", () => {
  it("bounces for the reason that is known, however the address is written, and nobody else", () => {
    const upper = Recipients.make(Fixtures.address("ADA"), "to", 0)
    const suppressed = new Map([[ada, "bounce"], [bob, "complaint"], [charles, "manual"]] as const)
    const diagnostics = ["the address bounced before", "the address complained before", "the address is on the suppression list"]

    const outcomes = bounceSuppressed([upper, ...recipients.slice(1)], suppressed, 5)

    const bounce = { class: "suppressed", smtpCode: null, enhancedCode: null } as const
    assert.deepStrictEqual(
      outcomes,
      [upper.address, bob, charles].map((recipient, index) => ({ recipient, input: { _tag: "Bounced", at: 5, bounce: { ...bounce, diagnostic: diagnostics[index]! } } }) as const)
    )
  })

  it("bounces with what a report has said of it, where one has come of a try before a crash", () => {
    const bounced = { at: 2, bounce: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "gone" } } as const
    const recipient = { ...recipients[0]!, evidence: { ...recipients[0]!.evidence, bounced } }

    assert.deepStrictEqual(bounceSuppressed([recipient], new Map([[ada, "bounce"]]), 5), [{ recipient: ada, input: { _tag: "Bounced", ...bounced } }])
  })
})

describe("a message that is given up", () => {
  it("because it breaks who submits it says after how many tries", () => {
    assert.deepStrictEqual(poison(4), { stage: "submit", code: "poison", message: "gave up after 4 tries that came to no end" })
  })

  it("fails for all whom the try was for, from then on", () => {
    const failure = poison(4)

    assert.deepStrictEqual(abandoned(recipients.slice(0, 2), failure, 5), {
      ...nothingToSend,
      outcomes: [ada, bob].map((recipient) => ({ recipient, input: { _tag: "Failed", at: 5, failure } }) as const)
    })
  })

  it("because its 48 hours are over fails for those that are still queued, and says what was in the way last", () => {
    const message = Fixtures.message(Fixtures.realm(), { recipients: recipients.slice(0, 2), acceptedAt: 0 })
    const sent = { recipient: ada, input: { _tag: "Accepted", at: 5, submission: ref } } as const
    const end = submissionWindow + 1
    const outcomesOf = (attempt: Attempt) => concludedOn(message, message, { ...attempt, outcomes: [sent] }, end, 0.5)?.outcomes
    const failed = (code: string, why: string, reply: object = {}) =>
      ({ recipient: bob, input: { _tag: "Failed", at: end, failure: { stage: "submit", code, message: `gave up after 48 hours: ${why}`, ...reply } } }) as const

    assert.deepStrictEqual(outcomesOf(postponed([], new Postponed({ code: "4.2.1", detail: "wait" }))), [sent, failed("4.2.1", "wait")])
    const greylisted = new Postponed({ code: "4.7.1", detail: "come again", reply: { smtpCode: 451, enhancedCode: "4.7.1", text: "come again" } })
    assert.deepStrictEqual(outcomesOf(postponed(recipients.slice(1, 2), greylisted)), [
      sent,
      failed("4.7.1", "come again", { reply: { smtpCode: 451, enhancedCode: "4.7.1" } })
    ])
    assert.deepStrictEqual(outcomesOf(nothingToSend), [sent, failed("expired", "not submitted in time")])
  })
})

describe("a message after a try", () => {
  const message = Fixtures.message(Fixtures.realm(), { recipients: recipients.slice(0, 2), acceptedAt: 1_000, attempts: 2, nextAttemptAt: 1_500 })
  const waits = { smtpCode: 451, enhancedCode: "4.2.1", diagnostic: "wait" }
  const later = postponed(message.recipients, new Postponed({ code: "4.2.1", detail: "wait", reply: { smtpCode: 451, enhancedCode: "4.2.1", text: "wait" } }))
  const after = (attempt: Attempt, now = 2_000, current = message) => concludedOn(current, message, attempt, now, 0.5)

  it("is tried again by the schedule, the last time as the 48 hours end", () => {
    const end = 1_000 + submissionWindow
    const wait = Backoff.submission[2]! // after the third try, in the middle of its jitter

    const due = [2_000, end - wait, end - wait + 1, end - 1].map((now) => after(later, now))

    assert.deepStrictEqual(due.map((one) => one?.retryAt), [2_000 + wait, end, end, end])
    assert.deepStrictEqual(due.map((one) => one?.record.nextAttemptAt), [2_000 + wait, end, end, end])
  })

  it("that its operator holds up is tried again in a minute, later in six at most, however often it was tried, and has not been tried once more", () => {
    const tried = { ...message, attempts: 7 }
    const concluded = (code: string, at: number) => concludedOn(tried, tried, postponed(message.recipients, new Postponed({ code, detail: "wait" })), at, 0.999)!
    const [soon, hour] = [2_000, 3_600_000]

    for (const code of ["mailbox_suspended", "domain_not_sendable", "no_provider", "dkim_key_unavailable"]) {
      assert.isAtMost(concluded(code, soon).retryAt! - soon, 1.2 * 60_000, code)
      assert.isAtMost(concluded(code, hour).retryAt! - hour, 6 * 60_000, code)
      assert.isAtLeast(concluded(code, hour).retryAt! - hour, 5 * 60_000, code)
      assert.strictEqual(concluded(code, hour).record.attempts, 7, code)
    }
    assert.isAbove(concluded("provider_unavailable", hour).retryAt! - hour, 4 * 3_600_000)
    assert.strictEqual(concluded("provider_unavailable", hour).record.attempts, 8)
  })

  it("that awaits a scan stays due as it was, and has not been tried once more", () => {
    const { record, retryAt } = after(nothingToSend)!

    assert.deepStrictEqual([record.nextAttemptAt, record.attempts, retryAt], [1_500, 2, null])
  })

  it("that was put off before its object was made, or given up, keeps the object of a former try", () => {
    const object = { sha256: "ab", sizeBytes: 9 }
    const built = { ...message, mime: object, sizeBytes: 9 }

    const records = [later, abandoned(message.recipients, poison(4), 2_000)].map((attempt) => after(attempt, 2_000, built)?.record)

    assert.deepStrictEqual(records.map((record) => [record?.mime, record?.sizeBytes]), [[object, 9], [object, 9]])
    assert.deepStrictEqual(after({ ...later, mime }, 2_000, built)?.record.mime, mime.blob, "or has that of this try, if it was made anew")
  })

  it("says why those wait whom it leaves queued, and what was said of a later try in its place", () => {
    const deferrals = (one: ReturnType<typeof after>) => one?.record.recipients.map(({ deferral, updatedAt }) => [deferral, updatedAt])
    const sent = { recipient: ada, input: { _tag: "Accepted", at: 1_900, submission: ref } } as const

    const first = after({ ...later, outcomes: [sent] })
    const again = after(postponed(first!.record.recipients, new Postponed({ code: "no_provider", detail: "nobody" })), 3_000, { ...first!.record, attempts: 2 })

    assert.deepStrictEqual(deferrals(first), [[undefined, 1_900], [waits, 2_000]])
    assert.deepStrictEqual(deferrals(again), [[undefined, 1_900], [{ smtpCode: null, enhancedCode: null, diagnostic: "nobody" }, 3_000]])
  })

  it("that leaves nobody queued is done", () => {
    const { record, retryAt } = after(abandoned(message.recipients, poison(4), 2_000))!

    assert.deepStrictEqual([record.status, record.version, record.attempts, record.nextAttemptAt, retryAt], ["failed", 2, 3, null, null])
  })

  it("is not this try's to move where another holder of its job has recorded one, and this one has nothing of its own", () => {
    assert.isNull(after(later, 2_000, { ...message, attempts: 3 }))
  })

  it("keeps what another holder has settled, and takes the rest from this try", () => {
    const first = after(abandoned(recipients.slice(0, 1), poison(4), 2_000))!.record

    const { record, outcomes } = after(abandoned(message.recipients, poison(4), 3_000), 3_000, first)!

    assert.deepStrictEqual(outcomes.map(({ recipient }) => recipient), [bob])
    assert.deepStrictEqual(record.recipients[0], first.recipients[0])
  })
})
