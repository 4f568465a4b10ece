import { assert, describe, it } from "@effect/vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { Address } from "./Address.ts"
import * as Recipient from "./Recipient.ts"
import { outcomesOf } from "./ReportOutcomes.ts"
import type { Report, ReportedRecipient } from "./Report.ts"

const [bob, eve] = [Fixtures.address("Bob"), Fixtures.address("eve")]
const to = (...addresses: ReadonlyArray<Address>) => ({ recipients: addresses.map((one) => Recipient.make(one, "to", 0)) })

const told = (over: Partial<ReportedRecipient> = {}): ReportedRecipient => ({
  address: "bob@EXAMPLE.com",
  action: "failed",
  status: "5.1.1",
  smtpCode: 550,
  class: "permanent",
  diagnostic: "550 no\r\nsuch user",
  ...over
})
const report = (...recipients: ReadonlyArray<ReportedRecipient>): Report => ({ kind: "bounce", recipients, originalMessageId: null })

describe("what a report comes to", () => {
  it("is a bounce of whom it names, in whatever case, with one line of diagnostic", () => {
    assert.deepStrictEqual(outcomesOf(to(bob, eve), report(told()), 7), [
      {
        recipient: bob,
        reported: {
          _tag: "Bounced",
          at: 7,
          bounce: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "550 no such user" }
        }
      }
    ])
  })

  it("is a bounce of whom it names with a domain in letters of its own, as we have it in A-labels", () => {
    const reader = "ada@xn--bcher-kva.example" as Address // a dot-atom at A-labels

    const found = outcomesOf(to(bob, reader), report(told({ address: "Ada@Bücher.example" })), 7)

    assert.deepStrictEqual(found.map((outcome) => outcome.recipient), [reader])
  })

  it("is what the report is, where it names nobody and the message went to one", () => {
    const outcomes = (kind: Report["kind"]) => outcomesOf(to(bob), { ...report(), kind }, 7)

    assert.deepStrictEqual(outcomes("delivered"), [{ recipient: bob, reported: { _tag: "Delivered", at: 7, smtpResponse: null } }])
    assert.deepStrictEqual(outcomes("complaint"), [{ recipient: bob, complainedAt: 7 }])
    for (const kind of ["delay", "none"] as const) assert.deepStrictEqual(outcomes(kind), [])
  })

  it("is a delivery, a complaint, or nothing, by its action", () => {
    for (const action of ["delivered", "relayed", "expanded"] as const) {
      assert.deepStrictEqual(outcomesOf(to(bob), report(told({ action, diagnostic: null })), 7), [
        { recipient: bob, reported: { _tag: "Delivered", at: 7, smtpResponse: null } }
      ])
    }
    assert.deepStrictEqual(outcomesOf(to(bob), report(told({ action: "complained" })), 7), [{ recipient: bob, complainedAt: 7 }])
    assert.deepStrictEqual(outcomesOf(to(bob), report(told({ action: "delayed" })), 7), [])
  })

  it("leaves out whom we did not mail, and is about the only recipient if it names none of ours", () => {
    const stranger = told({ address: "bob@forwarded.example" })
    assert.deepStrictEqual(outcomesOf(to(bob, eve), report(stranger), 7), [])
    assert.deepStrictEqual(outcomesOf(to(bob, eve), report(stranger, told()), 7).map(({ recipient }) => recipient), [bob])
    assert.deepStrictEqual(outcomesOf(to(bob), report(stranger), 7).map(({ recipient }) => recipient), [bob])
    assert.deepStrictEqual(outcomesOf(to(bob), report(stranger, told()), 7).length, 1)
  })

  it("is by its kind, where it names nobody", () => {
    const [bounce] = outcomesOf(to(bob), report(), 7)
    assert.isTrue(bounce !== undefined && "reported" in bounce && bounce.reported._tag === "Bounced" && bounce.reported.bounce.class === "undetermined")
    assert.deepStrictEqual(outcomesOf(to(bob, eve), report(), 7), [])
    assert.deepStrictEqual(outcomesOf(to(bob), { ...report(), kind: "delay" }, 7), [])
    assert.deepStrictEqual(outcomesOf(to(bob), { ...report(), kind: "complaint" }, 7), [{ recipient: bob, complainedAt: 7 }])
  })
})
