import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import * as Cursor from "./Cursor.ts"

const places = fc.record({
  position: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
  occurredAt: fc.integer({ min: 0, max: 36 ** 9 - 1 }) // until the year 5188
})
const macs = fc.stringMatching(/^[0-9a-f]{64}$/)

/** What a text says, or why it is refused. */
const read = (text: string) =>
  Result.match(Cursor.parseEvents(text), { onSuccess: (parsed) => parsed, onFailure: ({ reason }) => reason })

describe("an events cursor", () => {
  it("is read back as it was written, under its mask", () => {
    fc.assert(
      fc.property(places, macs, macs, (place, mac, mask) => {
        const tag = Cursor.tagOf(mac)
        const claimed = read(Cursor.formatEvents(place, tag, mask))

        if (typeof claimed === "string" || claimed._tag !== "Claimed") return assert.fail(String(claimed))
        assert.strictEqual(claimed.tag, tag)
        assert.deepStrictEqual(Cursor.unmask(claimed, mask), place)
      })
    )
  })

  it("is another place under another mask", () => {
    fc.assert(
      fc.property(places, macs, macs, (place, mac, mask) => {
        fc.pre(!mac.startsWith(mask.slice(0, 28)))
        const claimed = read(Cursor.formatEvents(place, Cursor.tagOf(mac), mask)) as Cursor.ClaimedPlace

        assert.notDeepEqual(Cursor.unmask(claimed, mac), place)
      })
    )
  })

  it("keeps to the characters of a query string, and is as long for each place", () => {
    fc.assert(
      fc.property(places, macs, macs, (place, mac, mask) => {
        assert.match(Cursor.formatEvents(place, Cursor.tagOf(mac), mask), /^e2\.[0-9a-f]{60}$/)
      })
    )
  })

  it("may be one of before: the first event at its time or later, whatever its position", () => {
    assert.deepStrictEqual(read("e1.7.rs"), { _tag: "Since", at: 1_000 })
    assert.deepStrictEqual(read("e1.0.0"), { _tag: "Since", at: 0 })
    assert.deepStrictEqual(read(`e1.${"z".repeat(13)}.${"z".repeat(9)}`), { _tag: "Since", at: 36 ** 9 - 1 })
  })

  it("may be an ISO 8601 timestamp: the first event at that time or later", () => {
    assert.deepStrictEqual(read("1970-01-01T00:00:01Z"), { _tag: "Since", at: 1_000 })
    assert.deepStrictEqual(read("1970-01-01T00:00:01.0001Z"), { _tag: "Since", at: 1_001 })
    assert.deepStrictEqual(read("1970-01-01T02:00:01+02:00"), { _tag: "Since", at: 1_000 })
    assert.deepStrictEqual(read("9999-12-31T23:59:59Z"), { _tag: "Since", at: 253_402_300_799_000 })
  })

  const malformed = [
    `e2.${"0".repeat(59)}`, `e2.${"0".repeat(61)}`, `e2.${"A".repeat(60)}`, `e2.${"g".repeat(60)}`, `e2.${"0".repeat(28)}.${"0".repeat(32)}`,
    ` e2.${"0".repeat(60)}`, `e2.${"0".repeat(60)}\n`, `e3.${"0".repeat(60)}`,
    "", "e1", "e1.", "e1.1", "e1.1.", "e1..1", "e1.1.1.1", "e2.1.1", "E1.1.1", "e1.A.1", "e1.-1.1", "e1. 1.1", "e1.1.1\n", "1", "null",
    `e1.${"z".repeat(14)}.1`, `e1.1.${"z".repeat(10)}`, "' or 1=1 --", "e1.1.1;drop table event", "a".repeat(512),
    "a".repeat(513), "e1.１.1", "2026-02-30T00:00:00Z", "2026-01-01"
  ]
  for (const text of malformed) {
    it(`is none: ${JSON.stringify(text.slice(0, 30))} (${text.length})`, () => assert.strictEqual(read(text), "malformed"))
  }

  it("is a date-time of as many digits as a cursor may have, and of none more", () => {
    const dateTime = (length: number) => `${"1970-01-01T00:00:01.".padEnd(length - 1, "0")}Z`
    assert.deepStrictEqual(read(dateTime(512)), { _tag: "Since", at: 1_000 })
    assert.strictEqual(read(dateTime(513)), "malformed")
  })

  it("says what to do when it is refused", () => {
    assert.include(new Cursor.InvalidCursor({ reason: "malformed" }).message, "Pass nextCursor back as it came")
    assert.include(new Cursor.InvalidCursor({ reason: "expired" }).message, "older than events are kept")
  })
})

describe("a messages cursor", () => {
  it("is read back to the microsecond", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 253_402_300_799_999_999n }), (createdAt) => {
        assert.deepStrictEqual(Cursor.parseMessages(Cursor.formatMessages(createdAt)), Result.succeed(createdAt))
      })
    )
  })

  it("is a date-time, and nothing else", () => {
    for (const text of ["", "e1.1.1", "yesterday", "2026-01-01", "2026-01-01T00:00:00"]) {
      const refused = Cursor.parseMessages(text)

      assert.isTrue(Result.isFailure(refused) && refused.failure.reason === "malformed", text)
    }
  })
})
