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
  const failed = (recipient: typeof bob, code: string): Outcome => ({
    recipient,
    input: { _tag: "Failed", at: 5, failure: { stage: "submit", code, message: "no" } }
  })

  it("is as of the moment in which it was settled", () => {
    assert.strictEqual(settle(message, [accepted()], 10).message.updatedAt, 10)
  })

  it("tells the failure of the first recipient that failed", () => {
    assert.strictEqual(settle(message, [failed(eve, "second"), failed(bob, "first")], 10).message.failure?.code, "first")
  })

  it("names in message.sent the submission that took the last of its recipients", () => {
    const later: Outcome = { recipient: eve, input: { _tag: "Accepted", at: 6, submission: { provider: "relay", providerMessageId: "2" } } }

    const [draft] = settle(settle(message, [accepted()], 9).message, [later], 10).drafts

    assert.isTrue(draft?.type === "message.sent" && draft.fields.providerMessageId === "2")
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
    assert.deepStrictEqual(suppressed({ environment: "sandbox" }, [bounced()]), [])
    assert.deepStrictEqual(suppressed(message, [delivered()]), [])
  })
})
