import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { BlockList, isIP, isIPv4, isIPv6 } from "node:net"
import * as PublicAddress from "./PublicAddress.ts"

/** The first and the last address of each block, and their neighbours outside; null where another block, or nothing, lies. */
const special: ReadonlyArray<readonly [block: string, first: string, last: string, before: string | null, after: string | null]> = [
  ["0.0.0.0/8", "0.0.0.0", "0.255.255.255", null, "1.0.0.0"],
  ["10.0.0.0/8", "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"],
  ["100.64.0.0/10", "100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"],
  ["127.0.0.0/8", "127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"],
  ["168.63.129.16/32", "168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"],
  ["169.254.0.0/16", "169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"],
  ["172.16.0.0/12", "172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"],
  ["192.0.0.0/24", "192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"],
  ["192.0.2.0/24", "192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"],
  ["192.88.99.0/24", "192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"],
  ["192.168.0.0/16", "192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"],
  ["198.18.0.0/15", "198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"],
  ["198.51.100.0/24", "198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"],
  ["203.0.113.0/24", "203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"],
  ["224.0.0.0/4", "224.0.0.0", "239.255.255.255", "223.255.255.255", null],
  ["240.0.0.0/4", "240.0.0.0", "255.255.255.255", null, null],
  ["2001::/23", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"],
  ["2001:db8::/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"],
  ["2002::/16", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"],
  ["3fff::/20", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"],
  // What follows lies outside 2000::/3, and so do its neighbours.
  ["::/3, but for IPv4-mapped and NAT64", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, "2000::"],
  ["::1/128", "::1", "::1", null, null],
  ["::/96", "::8.8.8.8", "::ffff:ffff", null, null],
  ["64:ff9b:1::/48", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", null, null],
  ["100::/64", "100::", "100::ffff:ffff:ffff:ffff", null, null],
  ["4000::/2", "4000::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null],
  ["5f00::/16", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, null],
  ["fc00::/7", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, null],
  ["fe80::/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, null],
  ["fec0::/10", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, null],
  ["ff00::/8", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, null]
]

const hexOf = (ipv4: string): string => {
  const [a, b, c, d] = ipv4.split(".").map(Number) as [number, number, number, number] // four parts
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
}

/** The IPv6 spellings of an IPv4 address that lead to it. */
const spellings = (ipv4: string): ReadonlyArray<string> => [
  `::ffff:${ipv4}`,
  `::ffff:${hexOf(ipv4)}`,
  `::FFFF:${hexOf(ipv4).toUpperCase()}`,
  `0:0:0:0:0:ffff:${ipv4}`,
  `64:ff9b::${ipv4}`,
  `64:ff9b::${hexOf(ipv4)}`,
  `0064:ff9b:0:0:0:0:${hexOf(ipv4)}`
]

const asSpelled = (address: string): ReadonlyArray<string> => [address, ...(isIPv4(address) ? spellings(address) : [])]

describe("addresses that are not public", () => {
  for (const [block, first, last, before, after] of special) {
    it(`${block} is refused from its first address to its last, and no further`, () => {
      for (const inside of [first, last].flatMap(asSpelled)) assert.isFalse(PublicAddress.isAllowed(inside, []), inside)
      for (const outside of [before, after].flatMap((address) => (address === null ? [] : asSpelled(address)))) {
        assert.isTrue(PublicAddress.isAllowed(outside, []), outside)
      }
    })
  }

  it("are no neighbours of public ones", () => {
    for (const address of ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]) {
      for (const spelled of asSpelled(address)) assert.isTrue(PublicAddress.isAllowed(spelled, []), spelled)
    }
  })

  it("are those that lead to a private IPv4 address by a tunnel, and those that only look like IPv4", () => {
    for (const address of ["2002:7f00:1::", "2002:808:808::1", "2001:0:7f00:1::", "::7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1", "::fffe:808:808"]) {
      assert.isFalse(PublicAddress.isAllowed(address, []), address)
    }
  })
})

describe("allowed blocks", () => {
  const loopback = ["127.0.0.1/32", "::1/128"]

  it("let through what is in them", () => {
    for (const address of ["::1", "0:0:0:0:0:0:0:1", ...asSpelled("127.0.0.1")]) {
      assert.isTrue(PublicAddress.isAllowed(address, loopback), address)
    }
  })

  it("let nothing else through", () => {
    const inside = special.flatMap(([, first, last]) => [first, last]).filter((address) => address !== "::1")
    for (const address of [...inside.flatMap(asSpelled), ...["127.0.0.0", "127.0.0.2", "::2"].flatMap(asSpelled)]) {
      assert.isFalse(PublicAddress.isAllowed(address, loopback), address)
    }
  })

  it("of IPv6 let no IPv4 address through, in whatever spelling, nor the other way round", () => {
    for (const spelled of asSpelled("127.0.0.1")) assert.isFalse(PublicAddress.isAllowed(spelled, ["::/0", "::ffff:127.0.0.1/128"]), spelled)
    assert.isFalse(PublicAddress.isAllowed("::1", ["0.0.0.0/0"]))
  })

  it("end at any bit", () => {
    assert.isTrue(PublicAddress.isAllowed("10.1.127.255", ["10.1.0.0/17"]))
    assert.isFalse(PublicAddress.isAllowed("10.1.128.0", ["10.1.0.0/17"]))
    assert.isTrue(PublicAddress.isAllowed("fd00:0:0:1fff::", ["fd00::/51"]))
    assert.isFalse(PublicAddress.isAllowed("fd00:0:0:2000::", ["fd00::/51"]))
    assert.isTrue(PublicAddress.isAllowed("10.9.9.9", ["0.0.0.0/0"]))
  })

  it("that are none let nothing through", () => {
    for (const text of ["", "127.0.0.1", "127.0.0.1/", "127.0.0.1/33", "127.0.0.1/-1", "127.0.0.1/08", "127.0.0.1/8/8", "127/8", "localhost/8", "::1/129"]) {
      assert.isFalse(PublicAddress.isBlock(text), text)
      assert.isFalse(PublicAddress.isAllowed("127.0.0.1", [text]), text)
      assert.isFalse(PublicAddress.isAllowed("::1", [text]), text)
    }
  })

  it("are told from what is none", () => {
    for (const text of ["127.0.0.0/8", "0.0.0.0/0", "::1/128", "::/0", "10.1.2.3/32"]) assert.isTrue(PublicAddress.isBlock(text), text)
  })
})

describe("text", () => {
  it("that is no address in its plain spelling is not one, and is not allowed", () => {
    const texts = [
      "", "localhost", "example.com", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", "0x7f.0.0.1", "2130706433", "1.2.3.-4", "１.2.3.4",
      ":", ":::", "1::2::3", ":1", "1:", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::8", "12345::", "g::", "::1%lo", "[::1]",
      "::1.2.3", "::1.2.3.256", "1.2.3.4::", "::1.2.3.4:5", "1:2:3:4:5:6:7:1.2.3.4", "fe80::1%25eth0", "::1/128", "-1::"
    ]
    for (const text of texts) {
      assert.isFalse(PublicAddress.isAddress(text), text)
      assert.isFalse(PublicAddress.isAllowed(text, ["0.0.0.0/0", "::/0"]), text)
    }
  })

  it("is an address if Node says so, but for zones", () => {
    const near = fc.oneof(fc.ipV4(), fc.ipV6(), fc.stringMatching(/^[0-9a-f:.]{1,24}$/), fc.stringMatching(/^([0-9]{1,3}\.){3}[0-9]{1,3}$/))
    fc.assert(
      fc.property(near, (text) => {
        assert.strictEqual(PublicAddress.isAddress(text), isIP(text) !== 0, text)
      }),
      { numRuns: 2_000 }
    )
  })

  it("is in a block if Node says so", () => {
    const ipv6 = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }).map((groups) => ["fd", ...groups.slice(1)].map((group) => group.toString(16)).join(":"))
    const ipv4 = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255)).map((parts) => ["10", ...parts].join("."))
    fc.assert(
      fc.property(fc.oneof(fc.tuple(ipv4, ipv4, fc.nat(32)), fc.tuple(ipv6, ipv6, fc.nat(128))), ([address, network, bits]) => {
        const list = new BlockList()
        list.addSubnet(network, bits, isIPv6(network) ? "ipv6" : "ipv4")

        assert.strictEqual(PublicAddress.isAllowed(address, [`${network}/${bits}`]), list.check(address, isIPv6(address) ? "ipv6" : "ipv4"))
      }),
      { numRuns: 2_000 }
    )
  })
})
