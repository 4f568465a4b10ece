import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { domainGrace } from "./Limits.ts"
import type { Table } from "./Machine.ts"
import * as MailDomain from "./MailDomain.ts"

const inputs: ReadonlyArray<MailDomain.Input> = ["Verified", "Drifted", "Lost", "Suspended", "Reinstated"]
const table: Table<MailDomain.Health, MailDomain.Input, string> = MailDomain.transitions
const states = MailDomain.Health.literals

const domain = (health: MailDomain.Health) => Fixtures.mailDomain(Fixtures.realm().tenantId, { health })

describe("domain", () => {
  for (const state of states) {
    for (const input of inputs) {
      const cell = table[state][input]
      if (cell === undefined) {
        it(`${state} + ${input} -> illegal, and changes nothing`, () => {
          const before = domain(state)
          const copy = structuredClone(before)

          assert.isTrue(Result.isFailure(MailDomain.decide(before, input)))
          assert.deepStrictEqual(before, copy)
        })
      } else {
        it(`${state} + ${input} -> ${cell.to}, and says so`, () => {
          const before = domain(state)

          const after = MailDomain.apply(before, Result.getOrThrow(MailDomain.decide(before, input)))

          assert.deepStrictEqual(after, { ...before, version: before.version + 1, health: cell.to })
          assert.strictEqual(cell.emits, "domain.health_changed")
        })
      }
    }
  }

  it("moves as decided, and in no other way", () => {
    const moves = states.map((state) => `${state}: ${inputs.flatMap((input) => (table[state][input] ? [`${input} -> ${table[state][input].to}`] : [])).join(", ")}`)

    assert.deepStrictEqual(moves, [
      "pending: Verified -> healthy, Drifted -> degraded, Suspended -> suspended",
      "healthy: Drifted -> degraded, Lost -> failing, Suspended -> suspended",
      "degraded: Verified -> healthy, Lost -> failing, Suspended -> suspended",
      "failing: Verified -> healthy, Drifted -> degraded, Suspended -> suspended",
      "suspended: Reinstated -> pending"
    ])
  })

  it("sends mail while healthy or degraded, and at no other time", () => {
    assert.deepStrictEqual(states.filter(MailDomain.isVerified), ["healthy", "degraded"])
  })
})

describe("what a round of DNS checks amounts to", () => {
  const since = 1_000
  const inTime = since + domainGrace
  const tooLate = inTime + 1
  const records = ["ownership", "dkim", "spf", "dmarc", "return_path", "mx"] as const
  const checks = (states: Partial<Record<(typeof records)[number], MailDomain.RecordCheck["state"]>>): ReadonlyArray<MailDomain.RecordCheck> =>
    records.map((record) => ({ record, state: states[record] ?? "ok", expected: "x", observed: null, since }))

  const rows: ReadonlyArray<readonly [health: MailDomain.Health, broken: Parameters<typeof checks>[0], now: number, input: MailDomain.Input | null]> = [
    ["pending", {}, inTime, "Verified"],
    ["pending", { spf: "missing" }, inTime, "Drifted"],
    ["pending", { ownership: "missing" }, tooLate, null],
    ["pending", { dkim: "mismatch", spf: "unknown" }, tooLate, null],
    ["healthy", {}, inTime, "Verified"],
    ["healthy", { dmarc: "mismatch" }, tooLate, "Drifted"],
    ["healthy", { mx: "missing" }, tooLate, "Drifted"],
    ["healthy", { dkim: "missing" }, inTime, "Drifted"],
    ["healthy", { dkim: "missing" }, tooLate, "Lost"],
    ["healthy", { ownership: "mismatch" }, tooLate, "Lost"],
    ["degraded", { ownership: "missing" }, inTime, "Drifted"],
    ["degraded", { ownership: "missing" }, tooLate, "Lost"],
    ["degraded", { ownership: "missing", spf: "unknown" }, tooLate, "Lost"],
    ["degraded", { spf: "unknown" }, tooLate, null],
    ["degraded", { spf: "unknown", mx: "missing" }, tooLate, null],
    ["degraded", { ownership: "unknown" }, tooLate, null],
    ["failing", {}, tooLate, "Verified"],
    ["failing", { return_path: "missing" }, tooLate, "Drifted"],
    ["failing", { dkim: "missing" }, tooLate, null],
    ["pending", { dmarc: "unknown" }, inTime, "Drifted"],
    ["pending", { dmarc: "unknown", spf: "missing" }, inTime, "Drifted"],
    ["pending", { dkim: "unknown" }, inTime, null],
    ["failing", { dmarc: "unknown" }, tooLate, "Drifted"],
    ["failing", { ownership: "unknown" }, tooLate, null],
    ["healthy", { dmarc: "unknown" }, tooLate, null]
  ]
  for (const [health, broken, now, input] of rows) {
    const found = Object.entries(broken).map(([record, state]) => `${record} ${state}`).join(", ")
    it(`${health}, ${found === "" ? "all in order" : found}, ${now === inTime ? "24 h" : "over 24 h"}: ${input ?? "nothing"}`, () => {
      assert.strictEqual(MailDomain.assess(domain(health), checks(broken), now), input)
    })
  }

  it("takes a record that cannot be looked up as it was seen last, where the domain is to send again", () => {
    for (const [seen, input] of [["ok", "Verified"], ["missing", "Drifted"], ["unknown", "Drifted"]] as const) {
      for (const health of ["pending", "failing"] as const) {
        const before = { ...domain(health), checks: checks({ dmarc: seen, dkim: "missing" }) }

        assert.strictEqual(MailDomain.assess(before, checks({ dmarc: "unknown" }), inTime), input, `${health}, ${seen}`)
      }
    }
  })

  it("is lost over one record that is gone too long, though another is gone only now", () => {
    const gone = [["ownership", since], ["dkim", tooLate]] as const
    const found = (order: ReadonlyArray<(typeof gone)[number]>) =>
      order.map(([record, since]) => ({ record, state: "missing" as const, expected: "x", observed: null, since }))

    for (const order of [gone, gone.toReversed()]) assert.strictEqual(MailDomain.assess(domain("healthy"), found(order), tooLate), "Lost")
  })

  it("verifies nothing that was not looked up: ownership and DKIM must both have been seen", () => {
    for (const found of [[], ["spf"], ["ownership"], ["dkim", "spf"]] as const) {
      const seen = found.map((record) => ({ record, state: "ok" as const, expected: "", observed: "", since: 0 }))
      assert.isNull(MailDomain.assess(domain("pending"), seen, 0), found.join(" "))
    }
  })

  it("never lifts a suspension", () => {
    for (const broken of [{}, { spf: "missing" }, { dkim: "missing" }] as const) {
      const input = MailDomain.assess(domain("suspended"), checks(broken), tooLate)

      assert.isTrue(input === null || Result.isFailure(MailDomain.decide(domain("suspended"), input)))
    }
  })

  it("receives where it may send, later where its records are gone, and not at all where it never was verified", () => {
    assert.deepStrictEqual(
      states.map((state) => `${state}: ${MailDomain.receives({ ...domain(state), dkim: null })}`),
      ["pending: never", "healthy: now", "degraded: now", "failing: later", "suspended: suspended"]
    )
    for (const state of states) assert.strictEqual(MailDomain.receives(domain(state)) === "now", MailDomain.isVerified(state))
  })

  it("receives later where it is reinstated and its key was seen before, for a refusal would be for good", () => {
    const dkim = { selector: "s", publicKey: "", privateKey: { version: 1, iv: "", ciphertext: "", tag: "" } }

    assert.strictEqual(MailDomain.receives({ ...domain("pending"), dkim }), "later")
  })
})
