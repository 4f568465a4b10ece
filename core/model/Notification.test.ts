import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import type { Address } from "./Address.ts"
import * as Notification from "./Notification.ts"
import type { Input } from "./Recipient.ts"

const recipient = "ada@example.com" as Address // plain enough to be valid
const notification = (outcome: Notification.Outcome, over: Partial<Notification.Notification> = {}): Notification.Notification => ({
  provider: "smtp",
  providerMessageId: "p1",
  recipient,
  outcome,
  ...over
})

const bounce = { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" } as const

describe("a notification", () => {
  const rows: ReadonlyArray<readonly [outcome: Notification.Outcome, input: Input]> = [
    [{ _tag: "Delivered", at: 1, smtpResponse: "250 ok" }, { _tag: "Delivered", at: 1, smtpResponse: "250 ok" }],
    [{ _tag: "Bounced", at: 2, ...bounce }, { _tag: "Bounced", at: 2, bounce }],
    [
      { _tag: "Failed", at: 3, code: "expired", message: "gave up" },
      { _tag: "Failed", at: 3, failure: { stage: "provider", code: "expired", message: "gave up" } }
    ]
  ]
  for (const [outcome, input] of rows) {
    it(`of ${outcome._tag} is that input of the recipient's machine`, () => {
      assert.deepStrictEqual(Notification.toInput(outcome), Result.succeed(input))
    })
  }

  it("of a complaint is no input, for it moves no state", () => {
    assert.deepStrictEqual(Notification.toInput({ _tag: "Complained", at: 1 }), Result.fail("complaint"))
  })

  it("speaks of a submission", () => {
    assert.deepStrictEqual(Notification.refOf(notification({ _tag: "Complained", at: 1 })), { provider: "smtp", providerMessageId: "p1" })
  })

  it("says the same thing in whatever order its members stand", () => {
    const one = notification({ _tag: "Bounced", at: 2, ...bounce })
    const other: Notification.Notification = {
      outcome: { diagnostic: "no such user", enhancedCode: "5.1.1", smtpCode: 550, class: "permanent", at: 2, _tag: "Bounced" },
      recipient,
      providerMessageId: "p1",
      provider: "smtp"
    }

    assert.strictEqual(Notification.keyOf(one), Notification.keyOf(other))
  })

  it("says another thing when anything in it differs", () => {
    const outcome: Notification.Outcome = { _tag: "Bounced", at: 2, ...bounce }
    const keys = [
      notification(outcome),
      notification({ ...outcome, at: 3 }),
      notification({ ...outcome, class: "transient" }),
      notification({ ...outcome, diagnostic: null }),
      notification({ _tag: "Complained", at: 2 }),
      notification(outcome, { provider: "sandbox" }),
      notification(outcome, { providerMessageId: "p2" }),
      notification(outcome, { recipient: null })
    ].map(Notification.keyOf)

    assert.lengthOf(new Set(keys), keys.length)
  })

  it("is decoded whole or refused", () => {
    const accepts = Schema.is(Notification.Notification)

    assert.isTrue(accepts(notification({ _tag: "Bounced", at: 2, ...bounce })))
    assert.isFalse(accepts({ ...notification({ _tag: "Complained", at: 1 }), outcome: { _tag: "Opened", at: 1 } }))
    assert.isFalse(accepts({ ...notification({ _tag: "Complained", at: 1 }), outcome: { _tag: "Complained", at: Number.NaN } }))
    assert.isFalse(accepts({ ...notification({ _tag: "Complained", at: 1 }), provider: undefined }))
    assert.isTrue(accepts(notification({ _tag: "Complained", at: 1 }, { providerMessageId: "p".repeat(500) })))
    assert.isFalse(accepts(notification({ _tag: "Complained", at: 1 }, { providerMessageId: "p".repeat(501) })))
  })
})
