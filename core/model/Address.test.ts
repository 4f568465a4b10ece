import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as fc from "fast-check"
import * as Address from "./Address.ts"

const parse = (text: string): string | null => Result.getOrNull(Address.parse(text))
const shown = (text: string) => (text.length > 40 ? `${JSON.stringify(text.slice(0, 30))}… (${text.length})` : JSON.stringify(text))

const label63 = "d".repeat(63)
/** A domain of just this many characters, in labels of at most 63. */
const domainOf = (length: number): string => `${`${label63}.`.repeat(4).slice(0, length - 4)}.com`.replace("..", "e.")

describe("an address", () => {
  const accepted: ReadonlyArray<readonly [given: string, normalised: string]> = [
    ["ada@example.com", "ada@example.com"],
    ["Ada.Lovelace+tag@example.com", "Ada.Lovelace+tag@example.com"],
    ["a@EXAMPLE.Com", "a@example.com"],
    ["!#$%&'*+-/?=^_`{|}~@x.test", "!#$%&'*+-/?=^_`{|}~@x.test"],
    ["user%other.test@x.test", "user%other.test@x.test"], // no routing: the local part is the receiver's own affair
    ["a@sub.deep.x.test", "a@sub.deep.x.test"],
    ["a@1x.2y.test", "a@1x.2y.test"],
    ["a@x--y.test", "a@x--y.test"],
    [`${"l".repeat(64)}@x.test`, `${"l".repeat(64)}@x.test`],
    [`a@${label63}.test`, `a@${label63}.test`],
    [`${"l".repeat(64)}@${domainOf(189)}`, `${"l".repeat(64)}@${domainOf(189)}`],
    ["a@bücher.example", "a@xn--bcher-kva.example"],
    ["a@BÜCHER.example", "a@xn--bcher-kva.example"],
    ["a@bu\u0308cher.example", "a@xn--bcher-kva.example"], // composed first (NFC)
    ["a@xn--bcher-kva.example", "a@xn--bcher-kva.example"],
    ["a@faß.example", "a@xn--fa-hia.example"], // non-transitional: not fass.example
    ["a@βόλος.example", "a@xn--nxasmm1c.example"], // a final sigma stays one
    ["a@日本語.test", "a@xn--wgv71a119e.test"],
    ["a@example。com", "a@example.com"],
    ["a@ＥＸＡＭＰＬＥ.com", "a@example.com"],
    ["a@exa\u00admple.com", "a@example.com"], // a soft hyphen is mapped to nothing
    ["a@x.рф", "a@x.xn--p1ai"]
  ]
  for (const [given, normalised] of accepted) {
    it(`may be ${shown(given)}`, () => assert.strictEqual(parse(given), normalised))
  }

  const refused: ReadonlyArray<readonly [why: string, given: string]> = [
    ["is empty", ""],
    ["has no @", "ada.example.com"],
    ["has no local part", "@x.test"],
    ["has no domain", "ada@"],
    ["has a display name", "Ada <ada@x.test>"],
    ["stands in angle brackets", "<ada@x.test>"],
    ["has white space around it", " ada@x.test"],
    ["has white space behind it", "ada@x.test "],
    ["ends its line", "ada@x.test\r\nBcc: eve@x.test"],
    ["holds a NUL", "ada@x.test\u0000"],
    ["holds a tab that a URL parser would drop", "ada@x.\ttest"],
    ["has a quoted local part", "\"ada\"@x.test"],
    ["has a quoted local part with an @", "\"a@x.test b\"@y.test"],
    ["has nested quotes", "\"a\\\"b@x.test\"@y.test"],
    ["has two @", "a@b@x.test"],
    ["has a comment", "ada(comment)@x.test"],
    ["has a comment in the domain", "ada@x(comment).test"],
    ["is a group", "friends: ada@x.test;"],
    ["is a list", "ada@x.test,bob@x.test"],
    ["is a route", "@relay.test:ada@x.test"],
    ["is an encoded-word", "=?utf-8?q?a=40evil.test?=@x.test"],
    ["hides an encoded-word", "a=?utf-8?b?QA?=b@x.test"],
    ["is an IPv4 literal", "ada@[127.0.0.1]"],
    ["is an IPv6 literal", "ada@[IPv6:::1]"],
    ["is at an IPv4 address", "ada@127.0.0.1"],
    ["is at a short IPv4 address", "ada@127.1"],
    ["is at a hexadecimal IPv4 address", "ada@0x7f.0.0.1"],
    ["is at a full-width IPv4 address", "ada@１２７.0.0.1"],
    ["is at an IPv6 address", "ada@::1"],
    ["has a numeric top-level domain", "ada@example.123"],
    ["has a hexadecimal top-level domain", "ada@example.0x1"],
    ["has a full-width numeric top-level domain", "ada@example.１２３"],
    ["is at a single label", "ada@localhost"],
    ["starts with a dot", ".ada@x.test"],
    ["ends its local part with a dot", "ada.@x.test"],
    ["has two dots in its local part", "a..b@x.test"],
    ["ends its domain with a dot", "ada@x.test."],
    ["starts its domain with a dot", "ada@.x.test"],
    ["has two dots in its domain", "ada@x..test"],
    ["has an underscore in its domain", "ada@x_y.test"],
    ["starts a label with a hyphen", "ada@-x.test"],
    ["ends a label with a hyphen", "ada@x-.test"],
    ["has a percent escape in its domain", "ada@ex%61mple.com"],
    ["names a port", "ada@x.test:25"],
    ["goes on as a URL", "ada@x.test/path?query#fragment"],
    ["turns the slash round", "ada@x.test\\y"],
    ["has a full-width slash", "ada@x.test／y"],
    ["has a full-width @", "ada＠x.test"],
    ["has a character that stands for a/c", "ada@x℀.test"],
    ["has a non-ASCII local part", "adá@x.test"],
    ["has a full-width local part", "ａda@x.test"],
    ["has a direction mark in its local part", "a\u202ed@x.test"],
    ["has a lone surrogate in its local part", "a\ud800@x.test"],
    ["has a lone surrogate in its domain", "a@\ud800.test"],
    ["has a zero-width joiner in its domain", "a@a\u200db.test"],
    ["starts a label with a combining mark", "a@\u0301x.test"],
    ["has an A-label that is none", "a@xn--zzzz--.example"],
    ["has a local part of 65", `${"l".repeat(65)}@x.test`],
    ["has a label of 64", `a@${"d".repeat(64)}.test`],
    ["has 255 characters in all", `${"l".repeat(64)}@${domainOf(190)}`],
    ["has a domain of 254", `a@${domainOf(254)}`],
    ["is too long once in A-label form", `a@${`${"ü".repeat(40)}.`.repeat(6)}test`]
  ]
  for (const [why, given] of refused) {
    it(`is none that ${why}: ${shown(given)}`, () => assert.isNull(parse(given)))
  }

  it("has the lengths that the rows above say", () => {
    assert.lengthOf(`${"l".repeat(64)}@${domainOf(189)}`, 254)
    assert.lengthOf(domainOf(254), 254)
  })

  it("is refused in words that help", () => {
    const said = (text: string) => Result.match(Address.parse(text), { onSuccess: () => "", onFailure: (why) => why })

    assert.strictEqual(said("ada"), "an address is local@domain")
    assert.include(said("\"ada\"@x.test"), "dot-atom")
    assert.include(said(`${"l".repeat(65)}@x.test`), "at most 64 characters")
    assert.include(said("ada@127.0.0.1"), "IP address")
    assert.include(said("ada@localhost"), "two labels")
    assert.strictEqual(said("ada@mail.test."), "leave out the dot at the end of the domain")
    assert.include(said(`${"l".repeat(64)}@${domainOf(190)}`), "at most 254 characters")
  })

  it("is its own normal form", () => {
    const text = fc.tuple(fc.emailAddress(), fc.string({ unit: "grapheme", maxLength: 3 })).map(([address, more]) => address.replace("@", `@${more}`))

    fc.assert(
      fc.property(fc.oneof(text, fc.string({ unit: "binary" }), fc.emailAddress()), (given) => {
        const address = parse(given)
        if (address === null) return

        assert.strictEqual(parse(address), address)
        assert.match(address, /^[\x21-\x7e]+$/)
        assert.isAtMost(address.length, Address.addressLengthMax)
        assert.lengthOf(address.split("@"), 2)
      }),
      { numRuns: 500 }
    )
  })

  for (const [what, text] of [
    ["letters", "a".repeat(1_000_000)],
    ["@", "@".repeat(1_000_000)],
    ["dots", `${"a.".repeat(500_000)}@x.test`],
    ["quotes", `${"\"".repeat(1_000_000)}@x.test`],
    ["labels", `a@${"x.".repeat(500_000)}test`],
    ["umlauts", `a@${"ü".repeat(1_000_000)}.test`],
    ["brackets", "<".repeat(1_000_000)],
    ["addresses", "ada@x.test, ".repeat(80_000)]
  ] as const) {
    it(`of a million characters of ${what} is refused at once`, { timeout: 2_000 }, () => assert.isNull(parse(text)))
  }
})

describe("a domain name", () => {
  const accepts = (text: string) => Result.isSuccess(Address.parseDomain(text))

  it("has at most 253 characters, counted in A-label form", () => {
    assert.isTrue(accepts(domainOf(253)))
    assert.isFalse(accepts(domainOf(254)))
    assert.isFalse(accepts(`${"ü".repeat(40)}.`.repeat(6) + "test"))
  })

  it("is what the host parser of the platform makes of it", () => {
    const piece = fc.constantFrom("a", "x", "xn--", "n", "-", "--", "0", "0x", "1", "7f", "A", "ü", "example")
    const domain = fc.array(fc.string({ unit: piece, maxLength: 5 }), { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."))

    fc.assert(
      fc.property(domain, (given) => {
        const host = URL.parse(`http://${given}/`)?.hostname ?? null
        const parsed = Result.getOrNull(Address.parseDomain(given))

        if (parsed !== null) assert.strictEqual(parsed, host)
        // What was mapped stays as it is.
        if (parsed !== null) assert.strictEqual(Result.getOrNull(Address.parseDomain(parsed)), parsed)
      }),
      { numRuns: 20_000 }
    )
  })

  it("is mapped, once and for all", () => {
    assert.deepStrictEqual(Address.parseDomain("BÜCHER.example"), Result.succeed("xn--bcher-kva.example" as Address.DomainName))
    assert.isFalse(accepts("x.test."))
    assert.isFalse(accepts("user@x.test"))
  })
})

describe("the parts of an address", () => {
  const address = Result.getOrThrow(Address.parse("Ada+x@Example.COM"))

  it("are its local part and its domain", () => {
    assert.strictEqual(Address.localPart(address), "Ada+x")
    assert.strictEqual(Address.domainOf(address), "example.com")
  })

  it("name one recipient, however the case is written", () => {
    assert.strictEqual(Address.foldCase(address), Address.foldCase(Result.getOrThrow(Address.parse("aDA+X@example.com"))))
  })
})

describe("an address in a request", () => {
  const decode = Schema.decodeUnknownResult(Address.AddressFromString)

  it("is decoded to its normal form, and encoded as it is", () => {
    assert.deepStrictEqual(decode("ada@BÜCHER.example"), Result.succeed(Result.getOrThrow(Address.parse("ada@bücher.example"))))
    assert.strictEqual(Schema.encodeSync(Address.AddressFromString)(Result.getOrThrow(Address.parse("a@x.test"))), "a@x.test")
  })

  it("is refused with what is wrong about it", () => {
    const refused = decode("ada@localhost")

    assert.isTrue(Result.isFailure(refused))
    if (Result.isFailure(refused)) assert.include(String(refused.failure), "the domain needs at least two labels")
  })

  it("is refused when it is no text", () => {
    for (const given of [null, 1, {}, ["a@x.test"]]) assert.isTrue(Result.isFailure(decode(given)))
  })
})
