import { assert, describe, it } from "@effect/vitest"
import * as DeliveryStatus from "./DeliveryStatus.ts"

const findings = (...lines: ReadonlyArray<string>) => DeliveryStatus.read(lines.join("\n")).findings
const outcomes = (...lines: ReadonlyArray<string>) => findings(...lines).map(({ address, action }) => `${address} ${action}`)
const bob = "Final-Recipient: rfc822; bob@there.example"
const eve = "Final-Recipient: rfc822; eve@there.example"

describe("the fields of a delivery status", () => {
  it("are one recipient's for each group, also where no empty line parts them", () => {
    for (const between of [[], [""]]) {
      const found = findings(bob, "Action: failed", "Status: 5.1.1", ...between, eve, "Action: delayed", "Status: 4.2.2")

      assert.deepStrictEqual(found.map(({ address, action, status }) => [address, action, status]), [
        ["bob@there.example", "failed", "5.1.1"],
        ["eve@there.example", "delayed", "4.2.2"]
      ])
    }
    assert.deepStrictEqual(findings(bob, eve, "Action: failed").map(({ address }) => address), ["bob@there.example", "eve@there.example"])
  })

  const orders = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
    all.length === 0 ? [[]] : all.flatMap((one, at) => orders(all.toSpliced(at, 1)).map((others) => [one, ...others]))
  const lines = {
    "Original-Recipient": ({ to }: { readonly to: string }) => `rfc822;${to}`,
    Action: () => "delayed",
    "Final-Recipient": ({ forwardedTo }: { readonly forwardedTo: string }) => `rfc822;${forwardedTo}`,
    Status: () => "4.0.0",
    "Diagnostic-Code": ({ to }: { readonly to: string }) => `smtp; 451 ${to} must wait`
  }
  const names = Object.keys(lines) as ReadonlyArray<keyof typeof lines>
  const recipients = {
    "others, and forwarded": [{ to: "bob@there.example", forwardedTo: "b@far.example" }, { to: "eve@there.example", forwardedTo: "e@far.example" }],
    others: [{ to: "bob@there.example", forwardedTo: "bob@there.example" }, { to: "eve@there.example", forwardedTo: "eve@there.example" }],
    "the same": [{ to: "bob@there.example", forwardedTo: "bob@there.example" }, { to: "bob@there.example", forwardedTo: "bob@there.example" }]
  }
  for (const [which, pair] of Object.entries(recipients)) {
    for (const [how, afterField, afterGroup] of [
      ["parted by empty lines", [], [""]],
      ["run together", [], []],
      ["torn apart at every line", [""], [""]]
    ] as const) {
      it(`are one recipient's for each group in whatever order they stand: ${which}, ${how}`, () => {
        const expected = pair.map(({ to }) => [to, "delayed", "4.0.0", `451 ${to} must wait`])
        for (const order of orders(names)) {
          const text = pair.flatMap((recipient) => [...order.flatMap((name) => [`${name}: ${lines[name](recipient)}`, ...afterField]), ...afterGroup])

          const found = findings(...text).map(({ address, action, status, diagnostic }) => [address, action, status, diagnostic])

          assert.deepStrictEqual(found, expected, text.join("\n"))
        }
      })
    }
  }

  it("are one recipient's where servers and dates stand among them, in whatever order", () => {
    const group = [
      bob, "Original-Recipient: rfc822;bob@there.example", "Action: delayed", "Status: 4.2.2", "Diagnostic-Code: smtp; 451 later",
      "Remote-MTA: dns; mx.there.example", "Last-Attempt-Date: Thu, 01 Jan 1970 00:00:00 +0000"
    ]
    for (const order of orders(group)) {
      for (const between of [[], [""]]) {
        assert.deepStrictEqual(outcomes(...order, ...between, ...order), ["bob@there.example delayed", "bob@there.example delayed"], order.join("\n"))
      }
    }
  })

  it("are of the group that they lead where another lacks them", () => {
    const plain = ["Action: delayed", bob, "Status: 4.2.2"]
    const forwarded = ["Original-Recipient: rfc822;eve@there.example", "Action: failed", "Final-Recipient: rfc822; e@far.example", "Status: 5.1.1"]
    for (const between of [[], [""]]) {
      assert.deepStrictEqual(outcomes(...plain, ...between, ...forwarded), ["bob@there.example delayed", "eve@there.example failed"])
      assert.deepStrictEqual(outcomes(...forwarded, ...between, ...plain), ["eve@there.example failed", "bob@there.example delayed"])
    }
  })

  it("are of the group that stands between empty lines, though another would lead with them", () => {
    const text = ["Final-Recipient: rfc822; b@far.example", "Action: failed", "Original-Recipient: rfc822;bob@there.example", "", eve, "Action: delayed"]

    assert.deepStrictEqual(outcomes(...text), ["bob@there.example failed", "eve@there.example delayed"])
  })

  it("are of one group where an empty line parts names from what became of them", () => {
    const torn = ["Original-Recipient: rfc822;bob@there.example", "", "Final-Recipient: rfc822; b@far.example", "Action: failed"]
    assert.deepStrictEqual(outcomes(...torn, "", eve, "Action: delayed"), ["bob@there.example failed", "eve@there.example delayed"])
    assert.deepStrictEqual(outcomes("Action: failed", "", bob, "", eve, "Action: delayed"), ["bob@there.example failed", "eve@there.example delayed"])
  })

  it("are of the group whose end they are where the next has its own", () => {
    const text = ["Original-Recipient: rfc822;", "Action: failed", bob, eve, "Action: delayed"]

    assert.deepStrictEqual(outcomes(...text), ["bob@there.example failed", "eve@there.example delayed"])
  })

  it("speak of nobody where they are dates and servers alone", () => {
    assert.deepStrictEqual(findings("Remote-MTA: dns; mx.there.example", "Last-Attempt-Date: Thu, 01 Jan 1970 00:00:00 +0000"), [])
  })

  it("name no more recipients than a message has", () => {
    assert.lengthOf(findings(...Array.from({ length: DeliveryStatus.recipientsMax + 1 }, () => bob)), DeliveryStatus.recipientsMax)
  })

  it("are cut where they are too long for any server's words", () => {
    const [found] = findings(bob, `Diagnostic-Code: smtp; ${"5".repeat(10_000)}`, ...Array.from({ length: 10 }, () => ` ${"6".repeat(3_000)}`))

    assert.isNotNull(found?.diagnostic ?? null)
    assert.isBelow(found!.diagnostic!.length, 10_000)
  })

  it("name the message that they name first", () => {
    assert.strictEqual(DeliveryStatus.read("Original-Message-ID: <1@x>\nX-Original-Message-ID: <2@x>").originalMessageId, "<1@x>")
  })

  for (const [value, address] of [
    ["rfc822; bob@there.example", "bob@there.example"],
    ["utf-8; b\\x{F6}b@there.example", "böb@there.example"],
    ["rfc822; someone@list.example <bob@there.example>", "bob@there.example"],
    ["LOCAL; <bob>", "bob"],
    ["rfc822; not one at all", null]
  ] as const) {
    it(`name ${address ?? "nobody"} by "${value}"`, () => assert.strictEqual(findings(`Final-Recipient: ${value}`)[0]?.address, address))
  }

  it("are read though an escape is of no character", () => {
    assert.strictEqual(findings(bob, "Original-Recipient: utf-8; b\\x{FFFFFF} <bob@there.example>", "Action: failed")[0]?.address, "bob@there.example")
  })

  it("name the recipient by X-Actual-Recipient where no other field does", () => {
    assert.strictEqual(findings("X-Actual-Recipient: rfc822; bob@there.example", "Action: failed")[0]?.address, "bob@there.example")
  })

  for (const [action, status, expected] of [
    ["failed", "4.2.2", "failed"],
    ["queued for retry", "", "delayed"],
    ["", "2.0.0", "delivered"],
    ["", "5.1.1", "failed"],
    ["", "4.2.2", null],
    ["", "", null]
  ] as const) {
    it(`mean ${expected ?? "nothing"} by the action "${action}" with the status "${status}"`, () => {
      assert.strictEqual(findings(bob, `Action: ${action}`, `Status: ${status}`)[0]?.action, expected)
    })
  }

  for (const [value, status] of [["5.1.1 (no such user)", "5.1.1"], ["4. 2. 2", "4.2.2"], ["5.1.1.9", null], ["15.1.1", null], ["3.1.1", null]] as const) {
    it(`have ${status === null ? "no status" : `the status ${status}`} in "${value}"`, () => assert.strictEqual(DeliveryStatus.statusOf(value), status))
  }

  it("are such fields if one is a recipient's and one tells what became of the mail", () => {
    for (const field of ["Action: failed", "Status: 5.1.1", "Diagnostic-Code: smtp; 550 no"]) assert.isTrue(DeliveryStatus.isStatus(`${bob}\n${field}`), field)
    assert.isFalse(DeliveryStatus.isStatus(bob))
    assert.isFalse(DeliveryStatus.isStatus("Action: failed\nStatus: 5.1.1"))
  })
})
