import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as Attachment from "./Attachment.ts"
import * as Delivery from "./Delivery.ts"
import * as Endpoint from "./Endpoint.ts"
import * as Machine from "./Machine.ts"
import * as MailDomain from "./MailDomain.ts"
import * as Recipient from "./Recipient.ts"

const door = {
  open: { Close: { to: "shut", emits: "door.shut" }, Paint: { to: "open" } },
  shut: { Open: { to: "open" }, Wall: { to: "walled" } },
  walled: {}
} as const satisfies Machine.Table<"open" | "shut" | "walled", "Open" | "Close" | "Paint" | "Wall", "door.shut">

const next = Machine.next<"open" | "shut" | "walled", "Open" | "Close" | "Paint" | "Wall", "door.shut">

describe("a table", () => {
  it("answers with the cell it holds", () => {
    assert.deepStrictEqual(next("door", door, "open", "Close"), Result.succeed({ to: "shut", emits: "door.shut" } as const))
  })

  it("refuses what it does not hold, and names it", () => {
    const refused = next("door", door, "walled", "Open")

    assert.isTrue(Result.isFailure(refused))
    if (Result.isFailure(refused)) {
      assert.strictEqual(refused.failure._tag, "IllegalTransition")
      assert.strictEqual(refused.failure.message, "door: walled takes no Open")
    }
  })

  it("holds nothing that it merely inherits", () => {
    const table = door as Machine.Table<string, string, string> // any text may come from outside
    const lookUp = Machine.next<string, string, string>

    for (const inherited of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
      assert.isTrue(Result.isFailure(lookUp("door", table, "open", inherited)), inherited)
    }
  })

  it("draws itself, with ends and events", () => {
    assert.strictEqual(
      Machine.mermaid(door, "shut"),
      [
        "stateDiagram-v2",
        "  [*] --> shut",
        "  open --> shut: Close / door.shut",
        "  open --> open: Paint",
        "  shut --> open: Open",
        "  shut --> walled: Wall",
        "  walled --> [*]"
      ].join("\n")
    )
  })
})

describe("every machine of the house", () => {
  const machines: ReadonlyArray<readonly [name: string, initial: string, table: Machine.Table<string, string, string>]> = [
    ["recipient", "queued", Recipient.transitions],
    ["attachment", "pending", Attachment.transitions],
    ["delivery", "pending", Delivery.transitions],
    ["endpoint", "enabled", Endpoint.transitions],
    ["domain", "pending", MailDomain.transitions]
  ]

  for (const [name, initial, table] of machines) {
    it(`${name}: leads only to states that have a row, and to each of them`, () => {
      const reached = new Set([initial])
      for (const state of reached) for (const cell of Object.values(table[state]!)) reached.add(cell!.to)

      assert.deepStrictEqual([...reached].sort(), Object.keys(table).sort())
    })
  }
})
