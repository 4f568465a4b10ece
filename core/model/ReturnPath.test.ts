import { assert, describe, it } from "@effect/vitest"
import type { Address, DomainName } from "./Address.ts"
import type { MessageId } from "./Ids.ts"
import * as ReturnPath from "./ReturnPath.ts"

const id = "0197a3c1-5b2e-7d44-9a01-3c5e7f901234" as MessageId
const domain = "bounces.example.com" as DomainName
const mac = "0123456789abcdef".repeat(4)
const address = ReturnPath.format(id, mac, domain)

describe("a Return-Path", () => {
  it("names its message and holds 16 digits of the signature", () => {
    assert.strictEqual(address, "b.0197a3c15b2e7d449a013c5e7f901234.0123456789abcdef@bounces.example.com")
  })

  it("is read back, whatever a server did to its case", () => {
    for (const given of [address, address.toUpperCase() as Address]) {
      const claimed = ReturnPath.parse(given, domain)
      assert.deepStrictEqual(claimed, { id, signature: "0123456789abcdef" })
      assert.isTrue(ReturnPath.isSigned(claimed!, mac))
    }
  })

  it("is read under a mail domain's own name", () => {
    const own = ReturnPath.format(id, mac, ReturnPath.ownHost("example.com" as DomainName))
    assert.strictEqual(own, "b.0197a3c15b2e7d449a013c5e7f901234.0123456789abcdef@bounce.example.com")
    assert.deepStrictEqual(ReturnPath.parse(own, domain), { id, signature: "0123456789abcdef" })
  })

  it("is none at another domain, of another shape, or with something beside it", () => {
    for (const given of [
      "b.0197a3c15b2e7d449a013c5e7f901234.0123456789abcdef@example.com",
      "b.0197a3c15b2e7d449a013c5e7f901234.0123456789abcdef@x.bounces.example.com",
      "b.0197a3c15b2e7d449a013c5e7f901234.0123456789abcde@bounces.example.com",
      "b.0197a3c15b2e7d449a013c5e7f90123.0123456789abcdef@bounces.example.com",
      "b.0197a3c15b2e7d449a013c5e7f901234.0123456789abcdef0@bounces.example.com",
      "xb.0197a3c15b2e7d449a013c5e7f901234.0123456789abcdef@bounces.example.com",
      "ada@bounces.example.com"
    ]) {
      assert.isNull(ReturnPath.parse(given as Address, domain), given)
    }
  })

  it("is not ours with any one digit of the signature changed", () => {
    for (let index = 0; index < 16; index++) {
      const other = mac[index] === "0" ? "1" : "0"
      assert.isFalse(ReturnPath.isSigned({ id, signature: mac.slice(0, index) + other + mac.slice(index + 1, 16) }, mac))
    }
  })
})
