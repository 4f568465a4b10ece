import { assert, describe, it } from "@effect/vitest"
import { bucketOf, plainOf } from "./ClientAddress.ts"

describe("an address", () => {
  it("is an IPv4 address where it is one in IPv6's form", () => {
    for (const form of ["192.0.2.7", "::ffff:192.0.2.7", "::FFFF:192.0.2.7", "::ffff:c000:207", "::FFFF:C000:0207", "0:0:0:0:0:ffff:192.0.2.7", "0000::ffff:c000:207", "::ffff:192.0.2.7%eth0"]) {
      assert.strictEqual(plainOf(form), "192.0.2.7", form)
    }
  })

  it("is without a zone, and else as it came", () => {
    for (const [form, plain] of [["fe80::1%eth0", "fe80::1"], ["2001:DB8::7", "2001:DB8::7"], ["::192.0.2.7", "::192.0.2.7"], ["::ff07:192.0.2.7", "::ff07:192.0.2.7"], ["64:ff9b::c000:207", "64:ff9b::c000:207"]] as const) {
      assert.strictEqual(plainOf(form), plain)
    }
    for (const text of ["", "unknown", "100%", "::ffff:c000", "::ffff:192.0.2.007", "::ffff:192.0.2.7:25"]) assert.strictEqual(plainOf(text), text)
  })
})

describe("the IP guard", () => {
  it("counts an IPv4 address whole, in whatever form it comes", () => {
    for (const form of ["192.0.2.7", "::ffff:192.0.2.7", "::FFFF:192.0.2.7", "::ffff:c000:207", "::FFFF:C000:0207", "0:0:0:0:0:ffff:c000:207", "0000::ffff:192.0.2.7"]) {
      assert.strictEqual(bucketOf(form), "192.0.2.7", form)
    }
  })

  it("counts IPv6 addresses by their /64, in whatever form they come", () => {
    for (const form of ["2001:db8:0:1::", "2001:db8:0:1::7", "2001:0DB8:0000:0001:ffff:ffff:ffff:ffff", "2001:db8:0:1:0:0:192.0.2.7", "2001:db8:0:1::192.0.2.7", "2001:db8::1:2:3:4:5%eth0"]) {
      assert.strictEqual(bucketOf(form), "2001:db8:0:1::/64", form)
    }
    for (const form of ["::1", "fe80::1%eth0", "1::2:3:4:5:192.0.2.7"]) {
      assert.strictEqual(bucketOf(form), { "::1": "0:0:0:0::/64", "fe80::1%eth0": "fe80:0:0:0::/64", "1::2:3:4:5:192.0.2.7": "1:0:2:3::/64" }[form])
    }
  })

  it("counts each of those alone who are no address", () => {
    for (const text of ["unknown", "", "1.2.3", "mail.example:25", "::1::2", "1:2:3:4:5:6:7:8:9"]) assert.strictEqual(bucketOf(text), text)
  })
})
