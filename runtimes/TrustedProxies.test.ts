import { assert, describe, it } from "@effect/vitest"
import { addressOf, make } from "./TrustedProxies.ts"

describe("TrustedProxies", () => {
  const trusted = make(["10.0.0.0/8", "192.0.2.1", "2001:db8:1::/48", "2001:db8:3::1"])
  const cases: ReadonlyArray<readonly [what: string, peer: string, forwardedFor: string | undefined, address: string]> = [
    ["the peer, without the header", "10.0.0.1", undefined, "10.0.0.1"],
    ["the peer, if it is no proxy of ours, whatever it says", "198.51.100.1", "203.0.113.9", "198.51.100.1"],
    ["what our proxy says", "10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["what our single-address proxy says", "192.0.2.1", "203.0.113.9", "203.0.113.9"],
    ["the peer, beside a single-address proxy", "192.0.2.2", "203.0.113.9", "192.0.2.2"],
    ["what our single-address proxy of IPv6 says", "2001:db8:3::1", "203.0.113.9", "203.0.113.9"],
    ["the peer, beside a single-address proxy of IPv6", "2001:db8:3::2", "203.0.113.9", "2001:db8:3::2"],
    ["the last hop that is not ours", "10.0.0.1", "1.1.1.1, 203.0.113.9, 10.1.2.3", "203.0.113.9"],
    ["the first hop, if all are ours", "10.0.0.1", "10.9.9.9, 10.1.2.3", "10.9.9.9"],
    ["the hop behind what is no address", "10.0.0.1", "203.0.113.9, unknown, 10.1.2.3", "10.1.2.3"],
    ["the peer, if the header is empty", "10.0.0.1", "", "10.0.0.1"],
    ["a hop without its port", "10.0.0.1", "203.0.113.9:4711", "203.0.113.9"],
    ["an IPv6 hop", "2001:db8:1::7", "2001:db8:2::1", "2001:db8:2::1"],
    ["an IPv6 hop in brackets", "2001:db8:1::7", "[2001:db8:2::1]:443", "2001:db8:2::1"],
    ["an IPv6 hop in brackets, without a port", "2001:db8:1::7", "[2001:db8:2::1]", "2001:db8:2::1"],
    ["the peer, if the hop is an address and a port with something before it", "10.0.0.1", "by203.0.113.9:4711", "10.0.0.1"],
    ["the peer, if the hop is an address and a port with something behind it", "10.0.0.1", "203.0.113.9:4711;a", "10.0.0.1"],
    ["the peer, if something stands before the brackets", "10.0.0.1", "by[2001:db8:2::1]", "10.0.0.1"],
    ["the peer, if something stands behind the brackets", "10.0.0.1", "[2001:db8:2::1]a", "10.0.0.1"],
    ["an IPv4 peer that came through an IPv6 socket", "::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["an IPv4 peer of an IPv6 socket as IPv4", "::ffff:198.51.100.1", undefined, "198.51.100.1"],
    ["an IPv4 hop of an IPv6 socket as IPv4, before one of ours", "10.0.0.1", "::ffff:198.51.100.7, ::ffff:10.0.0.2", "198.51.100.7"],
    ["an IPv4 peer as IPv4, written in groups", "::ffff:c633:6401", undefined, "198.51.100.1"],
    ["an IPv4 peer as IPv4, written out", "0:0:0:0:0:FFFF:198.51.100.1", undefined, "198.51.100.1"],
    ["what our proxy says, whose IPv4 address is written in groups", "::ffff:c000:201", "203.0.113.9", "203.0.113.9"],
    ["an IPv4 hop as IPv4, written in groups", "10.0.0.1", "[::FFFF:C633:0607]:443", "198.51.6.7"],
    ["an IPv4 peer written in groups, that is none of ours", "::ffff:c000:202", "203.0.113.9", "192.0.2.2"],
    ["a peer without its zone", "fe80::1%eth0", undefined, "fe80::1"],
    ["a peer that has no address", "unknown", "203.0.113.9", "unknown"]
  ]
  for (const [what, peer, forwardedFor, address] of cases) {
    it(`takes for the client's address ${what}`, () => {
      assert.strictEqual(addressOf(peer, forwardedFor, trusted), address)
    })
  }

  it("leaves out what is no address and no range, and trusts the others", () => {
    const some = make(["", "proxy.internal", "proxy.internal/8", "10.0.0.0/8"])

    assert.strictEqual(addressOf("10.0.0.1", "203.0.113.9", some), "203.0.113.9")
  })

  it("trusts nobody unless told to", () => {
    assert.strictEqual(addressOf("127.0.0.1", "203.0.113.9", make([])), "127.0.0.1")
  })
})
