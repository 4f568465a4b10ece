import { assert, describe, it } from "@effect/vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Recipient from "./Recipient.ts"
import { settle, suppressed, type Outcome } from "./Settlement.ts"

const [bob, eve] = [Fixtures.address("bob"), Fixtures.address("eve")]
const message = Fixtures.message(Fixtures.realm("production"), { recipients: [bob, eve].map((one) => Recipient.make(one, "to", 0)) })
const submission = { provider: "relay", providerMessageId: "1" }

const accepted = (recipient = bob, at = 5): Outcome => ({ recipient, input: { _tag: "Accepted", at, submission } })
const bounced = (at = 3): Outcome => ({
  recipient: bob,
  reported: { _tag: "Bounced", at, bounce: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" } }
})
const delivered = (at = 2): Outcome => ({ recipient: bob, reported: { _tag: "Delivered", at, smtpResponse: null } })

const play = (...batches: ReadonlyArray<ReadonlyArray<Outcome>>) => {
  const types: Array<string> = []
  let current = message
  for (const batch of batches) {
    const { message: after, drafts } = settle(current, batch, 10)
    types.push(...drafts.map(({ type }) => type))
    current = after
  }
  return { recipient: current.recipients[0]!, status: current.status, types, version: current.version }
}

describe("a settled message", () => {
  const failed = (recipient: typeof bob, code: string): Extract<Outcome, { readonly input: unknown }> => ({
    recipient,
    input: { _tag: "Failed", at: 5, failure: { stage: "submit", code, message: "no" } }
  })

  it("is as of the moment in which it was settled", () => {
    assert.strictEqual(settle(message, [accepted()], 10).message.updatedAt, 10)
  })

  it("tells the failure of the first recipient that failed", () => {
    assert.strictEqual(settle(message, [failed(eve, "second"), failed(bob, "first")], 10).message.failure?.code, "first")
  })

  it("tells no failure of a recipient whose acceptance is not known yet", () => {
    const { message: after } = settle(message, [{ recipient: bob, reported: failed(bob, "early").input }, failed(eve, "late")], 10)

    assert.deepStrictEqual(after.recipients.map(({ status, evidence }) => [status, evidence.failed?.failure.code]), [["queued", "early"], ["failed", "late"]])
    assert.strictEqual(after.failure?.code, "late")
  })

  it("takes what is said of its recipients, however their case is written", () => {
    const [lower, upper] = [Fixtures.address("bob"), Fixtures.address("BOB")]
    const to = (recipient: typeof bob) => ({ ...message, recipients: [Recipient.make(recipient, "to", 0)] })

    for (const [held, said] of [[lower, upper], [upper, lower]] as const) {
      const { recipients } = settle(to(held), [accepted(said)], 10).message
      assert.deepStrictEqual(recipients.map(({ address, status }) => [address, status]), [[held, "sent"]])
    }
  })

  it("names in message.sent the submission that took the last of its recipients", () => {
    const later: Outcome = { recipient: eve, input: { _tag: "Accepted", at: 6, submission: { provider: "relay", providerMessageId: "2" } } }

    const [draft] = settle(settle(message, [accepted()], 9).message, [later], 10).drafts

    assert.isTrue(draft?.type === "message.sent" && draft.fields.providerMessageId === "2")
  })

  it("is one version on, with an event for all that moved, numbered on behind those that it had", () => {
    const held = { ...message, version: 4, eventSequence: 7 }

    const { message: after, drafts } = settle(held, [accepted(), accepted(eve), delivered(6), bounced(7), failed(eve, "no_way")], 10)

    const { internetMessageId } = message
    const said = (recipient: typeof bob) => ({ recipient, messageStatus: after.status })
    assert.deepStrictEqual(drafts, [
      { type: "message.sent", sequence: 8, fields: { internetMessageId, ...submission, recipients: [bob, eve], sentAt: "1970-01-01T00:00:00.010Z" } },
      { type: "message.delivered", sequence: 9, fields: { ...said(bob), smtpResponse: null, deliveredAt: "1970-01-01T00:00:00.006Z" } },
      {
        type: "message.bounced",
        sequence: 10,
        fields: { ...said(bob), bounce: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" } }
      },
      { type: "message.failed", sequence: 11, fields: { ...said(eve), failure: { stage: "submit", code: "no_way", message: "no" } } }
    ])
    assert.deepStrictEqual([after.version, after.eventSequence, after.sentAt], [5, 11, 10])
  })

  it("was sent once nobody waits any more, if anybody was taken", () => {
    const sentTo = (...outcomes: ReadonlyArray<Outcome>) =>
      settle(message, outcomes, 10).drafts.flatMap((draft) => (draft.type === "message.sent" ? [draft.fields.recipients] : []))

    assert.deepStrictEqual(sentTo(accepted()), [])
    assert.deepStrictEqual(sentTo(accepted(), failed(eve, "no_way")), [[bob]])
    assert.deepStrictEqual(sentTo(failed(bob, "no_way"), failed(eve, "no_way")), [])
  })

  it("keeps a complaint beside where the recipient stands, and says nothing of it", () => {
    const { message: after, drafts } = settle(message, [{ recipient: bob, complainedAt: 4 }], 10)

    assert.deepStrictEqual(after.recipients, [{ ...message.recipients[0]!, complainedAt: 4 }, message.recipients[1]!])
    assert.deepStrictEqual([after.version, after.status, drafts], [message.version + 1, "queued", []])
  })

  it("is the very same after what is said of nobody whom it goes to", () => {
    assert.deepStrictEqual(settle(message, [accepted(Fixtures.address("mallory"))], 10), { message, drafts: [] })
    assert.strictEqual(settle(message, [accepted(Fixtures.address("mallory"))], 10).message, message)
  })
})

describe("a report", () => {
  it("of a recipient whose acceptance is not known yet moves nothing, and says nothing", () => {
    const { recipient, status, types } = play([bounced()])

    assert.strictEqual(recipient.status, "queued")
    assert.strictEqual(status, "queued")
    assert.strictEqual(recipient.evidence.bounced?.at, 3)
    assert.deepStrictEqual(types, [])
  })

  it("comes to the same before the acceptance, with it, and behind it", () => {
    const others = accepted(eve)
    const ends = [
      play([bounced(), delivered()], [accepted(), others]),
      play([delivered()], [bounced()], [bounced()], [accepted(), others]),
      play([delivered(), accepted(), others], [bounced()]),
      play([accepted(), others], [delivered(), bounced()]),
      play([accepted(), others, bounced(), delivered()])
    ]
    for (const { recipient, status, types } of ends) {
      assert.deepStrictEqual(recipient, ends[0]!.recipient)
      assert.strictEqual(status, "bounced")
      assert.strictEqual(new Set(types).size, types.length)
      assert.include(types, "message.sent")
      assert.include(types, "message.bounced")
    }
  })

  it("tells of the sending before it tells of the outcome", () => {
    assert.deepStrictEqual(play([bounced()], [accepted(), accepted(eve)]).types, ["message.sent", "message.bounced"])
  })

  it("that says nothing new is no change", () => {
    const once = settle(message, [bounced()], 10).message
    assert.strictEqual(settle(once, [bounced()], 20).message, once)
  })

  it("of a permanent bounce suppresses the address, whether or not the acceptance is known", () => {
    assert.deepStrictEqual(suppressed(message, [bounced()]), [{ address: bob, reason: "bounce" }])
    assert.deepStrictEqual(suppressed({ ...message, environment: "sandbox" }, [bounced()]), [])
    assert.deepStrictEqual(suppressed(message, [delivered()]), [])
  })

  it("of what is told again suppresses nobody, whatever is told beside it", () => {
    const told = [bounced(), { recipient: eve, complainedAt: 4 }]
    const { message: after } = settle(message, [...told, accepted(), accepted(eve)], 10)
    assert.deepStrictEqual(suppressed(after, [...told, delivered()]), [])
    assert.deepStrictEqual(suppressed(after, [{ recipient: bob, complainedAt: 4 }, bounced()]), [{ address: bob, reason: "complaint" }])
  })

  it("of a complaint suppresses the address", () => {
    assert.deepStrictEqual(suppressed(message, [{ recipient: eve, complainedAt: 4 }]), [{ address: eve, reason: "complaint" }])
    assert.deepStrictEqual(suppressed({ ...message, environment: "sandbox" }, [{ recipient: eve, complainedAt: 4 }]), [])
  })
})
