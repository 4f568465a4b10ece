import { assert, describe, it } from "@effect/vitest"
import type { Peer } from "./Reception.ts"
import * as Trace from "./Trace.ts"

const peer: Peer = { remoteAddress: "192.0.2.7", helo: "mx.example.org", protocol: "ESMTPS" }
const field = (over: Partial<Peer> = {}) => new TextDecoder().decode(Trace.received({ ...peer, ...over }, "in.example.com", "r-1", 0))
const valueOf = (text: string) => text.slice("Received: ".length).replace(/\r\n/g, "").trim()

describe("our trace field", () => {
  it("says from whom, to whom, how, under which name and when", () => {
    assert.strictEqual(
      field(),
      "Received: from mx.example.org ([192.0.2.7])\r\n\tby in.example.com (Mailroom) with ESMTPS id r-1;\r\n\tThu, 01 Jan 1970 00:00:00 +0000\r\n"
    )
    assert.include(field({ remoteAddress: "2001:db8::7" }), "([IPv6:2001:db8::7])")
  })

  it("is one field, whatever a client calls itself", () => {
    for (const helo of ["a\r\nBcc: x@example.com", "a (b) by c; d", "\u0000\u2028ü", " ", "x".repeat(5_000)]) {
      const text = field({ helo })
      assert.match(text, /^Received: from [A-Za-z0-9.:_[\]-]{1,255} \(\[192\.0\.2\.7\]\)\r\n\tby in\.example\.com \(Mailroom\) with/)
      assert.lengthOf(text.split("\r\n"), 4)
    }
  })
})

describe("mail that goes round in circles", () => {
  const hop = { name: "Received", value: "from a.example by b.example with ESMTP id 1; Thu, 01 Jan 1970 00:00:00 +0000" }
  const hops = (count: number) => Array.from({ length: count }, () => hop)

  it("has more than 30 hops", () => {
    assert.isFalse(Trace.isLoop(hops(30), "in.example.com"))
    assert.isTrue(Trace.isLoop(hops(31), "in.example.com"))
    assert.isTrue(Trace.isLoop(hops(31).map(({ value }) => ({ name: "RECEIVED", value })), "in.example.com"))
    assert.isFalse(Trace.isLoop(hops(31).map(({ value }) => ({ name: "X-Received", value })), "in.example.com"))
  })

  it("has been here before, and not at another server of our kind, or in somebody's words", () => {
    const own = { name: "Received", value: valueOf(field()) }
    assert.isTrue(Trace.isLoop([hop, own], "in.example.com"))
    assert.isTrue(Trace.isLoop([{ ...own, value: own.value.replace("by ", "by\r\n\t") }], "IN.example.com"))
    assert.isFalse(Trace.isLoop([own], "other.example.com"))
    assert.isFalse(Trace.isLoop([{ name: "Subject", value: own.value }], "in.example.com"))
  })
})
