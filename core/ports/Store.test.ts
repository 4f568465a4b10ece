/** What a rejected commit says of itself, where nobody takes its reason apart. */
import { assert, describe, it } from "@effect/vitest"
import type { IdempotencyKey } from "../model/IdempotencyKey.ts"
import { CommitRejected, type Rejection } from "./Store.ts"

const said = (reason: Rejection) => new CommitRejected({ reason }).message

describe("a commit that is rejected", () => {
  it("names the record that was in its way", () => {
    assert.strictEqual(said({ _tag: "Duplicate", kind: "mailbox", field: "address" }), "commit rejected: Duplicate (mailbox address)")
    assert.strictEqual(said({ _tag: "VersionMoved", kind: "relay", id: "12" }), "commit rejected: VersionMoved (relay 12)")
  })

  it("repeats nothing that a caller chose", () => {
    const idempotencyKey = "order of ada" as IdempotencyKey // as a caller might choose it

    assert.strictEqual(said({ _tag: "KeyTaken", idempotencyKey }), "commit rejected: KeyTaken")
  })
})
