import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import * as WebhookUrl from "./WebhookUrl.ts"
import type { TargetPolicy, UrlFault } from "./WebhookUrl.ts"

const development: TargetPolicy = { allowHttp: true, allowedBlocks: ["127.0.0.0/8", "::1/128"] }

const verdict = (text: string, policy = WebhookUrl.publicOnly): string =>
  Result.match(WebhookUrl.parse(text, policy), { onSuccess: ({ href }) => href, onFailure: (fault) => fault })

const target = (text: string, policy = WebhookUrl.publicOnly) => Result.getOrThrow(WebhookUrl.parse(text, policy))

describe("in production a URL", () => {
  const otherServices = [
    1025, 1080, 1109, 1110, 1433, 1434, 1521, 1719, 1720, 1723, 1883, 2049, 2181, 2375, 2376, 2377,
    2379, 2380, 2525, 3050, 3128, 3260, 3306, 3389, 3535, 4045, 4190, 4222, 4243, 5060, 5061, 5432,
    5433, 5671, 5672, 5800, 5900, 5901, 5938, 5984, 5985, 5986, 6000, 6001, 6379, 6380, 6432, 6566,
    6665, 6666, 6667, 6668, 6669, 6679, 6697, 7474, 7687, 8086, 8300, 8301, 8302, 8500, 8883, 9042,
    9092, 9093, 9160, 9200, 9300, 10080, 10250, 10255, 11211, 26379, 27017, 27018, 27019, 28015, 33060, 50000,
    61613, 61616
  ]
  it("has no port of another service, of all from 1024 up", () => {
    const ports = Array.from({ length: 65_536 - 1_024 }, (_, index) => 1_024 + index)

    assert.deepStrictEqual(ports.filter((port) => verdict(`https://example.com:${port}/`) === "port"), otherServices)
  })

  const accepted: ReadonlyArray<readonly [text: string, href: string]> = [
    ["https://example.com", "https://example.com/"],
    ["https://example.com/hooks?a=1&b=%20", "https://example.com/hooks?a=1&b=%20"],
    ["HTTPS://Example.COM/Hooks", "https://example.com/Hooks"],
    ["https://example.com:443/", "https://example.com/"],
    ["https://example.com:/", "https://example.com/"],
    ["https://example.com:0443/", "https://example.com/"],
    ["https://example.com:1024/", "https://example.com:1024/"],
    ["https://example.com:8443/x", "https://example.com:8443/x"],
    ["https://example.com:65535/", "https://example.com:65535/"],
    ["https://example.com/a@b:c/d@e?f@g", "https://example.com/a@b:c/d@e?f@g"],
    ["https://example.com?x=/@", "https://example.com/?x=/@"],
    ["https://example.com/a/../b/./c", "https://example.com/b/c"],
    ["https://example.com/é?ü", "https://example.com/%C3%A9?%C3%BC"],
    ["https://example.com//x//", "https://example.com//x//"],
    ["https://bücher.example/", "https://xn--bcher-kva.example/"],
    ["https://faß.example/", "https://xn--fa-hia.example/"],
    ["https://a。b．c｡example/", "https://a.b.c.example/"],
    ["https://ex%61mple.com/", "https://example.com/"],
    ["https://example.com./x", "https://example.com/x"],
    ["https://in_house-7.example/", "https://in_house-7.example/"],
    ["https://intranet/", "https://intranet/"],
    ["https://notlocalhost/", "https://notlocalhost/"],
    ["https://localhost.example/", "https://localhost.example/"],
    ["https://93.184.215.14/", "https://93.184.215.14/"],
    ["https://134744072/", "https://8.8.8.8/"],
    ["https://[2606:4700:4700:0::1111]/", "https://[2606:4700:4700::1111]/"],
    ["https://[::ffff:8.8.8.8]:8443/", "https://[::ffff:808:808]:8443/"],
    [`https://example.com/${"a".repeat(2_028)}`, `https://example.com/${"a".repeat(2_028)}`]
  ]
  for (const [text, href] of accepted) {
    it(`${text.slice(0, 60)} may be called`, () => {
      assert.strictEqual(verdict(text), href)
    })
  }

  const refused: { readonly [F in UrlFault]: ReadonlyArray<string> } = {
    too_long: [`https://example.com/${"a".repeat(2_029)}`, `https://example.com/${"é".repeat(500)}`, "é".repeat(100_000)],
    malformed: [
      "", "example.com", "/hooks", "//example.com", "https", "https:example.com", "https:/example.com", "https:?x",
      " https://example.com/", "https://example.com/ ", "\nhttps://example.com/", "https://exam\tple.com/", "https://example.com/a b",
      "https://example.com/\r\nhost: x", "https://example.com/\u0000", "https://example.com/\u007f", "https://example.com/\u0085",
      "https://example.com/\u00a0", "https://example.com/\u2028", "https://example.com/\ufeff", "https://example.com\\@127.0.0.1/",
      "https:\\\\example.com/", "https://example.com/\\", "https://example.com/\ud800", "https://example.com/\udc00x", "https://\ud800.example/",
      "https://[::1", "https://[::1%25lo]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://example.com:65536/",
      "https://example.com:x/", "https://example.com:-1/", "https://example.com:80:80/", "https://256.1.1.1/", "https://1.2.3.4.5/",
      "https://4294967296/", "https://example.com%00/", "https://example.com%0a/", "https://a%2fb.example/", "https://a<b>.example/", "https://:443/"
    ],
    scheme: ["http://example.com/", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "data:,x", "wss://example.com/", "httpss://example.com/", "view-source:https://example.com/", "example.com:443/hooks"],
    credentials: ["https://user@example.com/", "https://user:secret@example.com/", "https://:@example.com/", "https://@example.com/", "https://example.com@127.0.0.1/", "https://a@b@example.com/", "https://@/"],
    fragment: ["https://example.com/#", "https://example.com/#x", "https://example.com#", "https://example.com/?#", "https://example.com#@127.0.0.1/"],
    host: [
      "https://", "https:///", "https:///example.com/", "https://?x", "https://./", "https://.example/", "https://a..b/", "https://example.com../",
      "https://-a.example/", "https://a-.example/", "https://*.example/", "https://a;b.example/", "https://a'b.example/", "https://a,b/",
      `https://${"a".repeat(64)}.example/`, `https://${"a.".repeat(124)}example/`, "https://127.0.0.1../", "https://expyuzz4wqqyqhjn.onion/", "https://onion/", "https://a.onion./"
    ],
    port: [0, 1, 22, 25, 80, 442, 444, 465, 587, 1023, 2049, 2375, 2525, 3306, 5432, 5672, 6379, 9200, 11211, 27017].map((port) => `https://example.com:${port}/`),
    address: [
      "https://127.0.0.1/", "https://127.0.0.1./", "https://127.1/", "https://127.0.1/", "https://2130706433/", "https://0x7f000001/",
      "https://0x7f.0.0.1/", "https://0X7F.1/", "https://0177.0.0.1/", "https://017700000001/", "https://0177.0x0.1/", "https://000177.0.0.1/",
      "https://127.0.0.1%2e/", "https://127%2e0%2e0%2e1/", "https://%31%32%37.0.0.1/", "https://１２７.０.０.１/", "https://①②⑦.0.0.1/",
      "https://127。0。0。1/", "https://127．0．0．1/", "https://127｡0｡0｡1/", "https://0/", "https://0x/", "https://0.0.0.0/", "https://0xffffffff/",
      "https://10.1.2.3/", "https://169.254.169.254/latest/meta-data/", "https://0xa9fea9fe/", "https://192.168.0.1/", "https://100.100.100.200/",
      "https://[::]/", "https://[::1]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/",
      "https://[64:ff9b::10.0.0.1]/", "https://[64:ff9b:1::1]/", "https://[2002:7f00:1::]/", "https://[2001::1]/", "https://[fd00:ec2::254]/", "https://[fe80::1]/",
      "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://loc%61lhost/", "https://ｌocalhost/", "https://loc\u00adalhost/",
      "https://a.localhost/", "https://a.b.localhost./", "https://localhost:8443/"
    ]
  }
  for (const [fault, texts] of Object.entries(refused)) {
    it(`is refused for ${fault}`, () => {
      for (const text of texts) assert.strictEqual(verdict(text), fault, JSON.stringify(text.slice(0, 80)))
    })
  }
})

describe("in development a URL", () => {
  const verdicts: ReadonlyArray<readonly [text: string, verdict: string]> = [
    ["http://localhost:3000/hooks", "http://localhost:3000/hooks"],
    ["http://a.localhost./", "http://a.localhost/"],
    ["http://127.1:8080/", "http://127.0.0.1:8080/"],
    ["http://[::1]:8080/", "http://[::1]:8080/"],
    ["http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"],
    ["https://localhost:8443/", "https://localhost:8443/"],
    ["http://example.com/", "http://example.com/"],
    ["https://example.com:80/", "https://example.com:80/"],
    ["http://example.com:443/", "http://example.com:443/"],
    ["http://localhost:5432/", "http://localhost:5432/"],
    ["http://localhost:25/", "port"],
    ["http://localhost:0/", "port"],
    ["http://127.0.0.1:1023/", "port"],
    ["http://10.0.0.1/", "address"],
    ["http://0.0.0.0:3000/", "address"],
    ["http://[::]:3000/", "address"],
    ["http://169.254.169.254/", "address"],
    ["http://[fe80::1]/", "address"],
    ["http://user@localhost:3000/", "credentials"],
    ["http://localhost:3000/#", "fragment"],
    ["ftp://localhost/", "scheme"]
  ]
  for (const [text, expected] of verdicts) {
    it(`${text} comes to ${expected}`, () => {
      assert.strictEqual(verdict(text, development), expected)
    })
  }

  it("of this machine needs all its addresses allowed, and http its own permission", () => {
    assert.strictEqual(verdict("https://localhost/", { allowHttp: false, allowedBlocks: ["127.0.0.0/8"] }), "address")
    assert.strictEqual(verdict("https://localhost/", { allowHttp: false, allowedBlocks: ["::1/128"] }), "address")
    assert.strictEqual(verdict("https://localhost/", { ...development, allowHttp: false }), "https://localhost/")
    assert.strictEqual(verdict("http://localhost/", { ...development, allowHttp: false }), "scheme")
    assert.strictEqual(verdict("http://localhost/", { allowHttp: true, allowedBlocks: [] }), "address")
  })
})

describe("a target", () => {
  it("says where to connect, and what to ask for", () => {
    const of = (text: string) => {
      const { isSecure, host, port, isAddress, ...rest } = target(text, development)
      return [isSecure, host, port, isAddress, WebhookUrl.pathOf({ isSecure, host, port, isAddress, ...rest })]
    }

    assert.deepStrictEqual(of("https://Example.com"), [true, "example.com", 443, false, "/"])
    assert.deepStrictEqual(of("https://example.com.:8443/a?b=/c"), [true, "example.com", 8443, false, "/a?b=/c"])
    assert.deepStrictEqual(of("http://x?y"), [false, "x", 80, false, "/?y"])
    assert.deepStrictEqual(of("http://127.1/"), [false, "127.0.0.1", 80, true, "/"])
    assert.deepStrictEqual(of("https://[::0001]:8443//a"), [true, "::1", 8443, true, "//a"])
  })

  it("keeps the policy it was judged by", () => {
    assert.strictEqual(target("https://example.com/", development).policy, development)
  })

  it("is named by its own href, whatever the text was", () => {
    const piece = fc.constantFrom(
      "https", "http", "HTTPS", ":", "/", "//", "@", "#", "?", ".", "..", "%2e", "%40", "127", "0x7f", "1", "localhost", "example", "com", "é", "ß",
      "。", "１", "[", "]", "::1", "::ffff:", "443", "8443", "80", "xn--", "-", "_", "\\", " ", "\t", "'", "\"", "|", "^", "`", "{", "<", "\u00ad", "\u200d", "😀"
    )
    const text = fc.tuple(fc.constantFrom("https://", "http://", ""), fc.array(piece, { maxLength: 12, size: "max" })).map(([start, pieces]) => start + pieces.join(""))
    let accepted = 0
    fc.assert(
      fc.property(fc.oneof(text, fc.webUrl({ withQueryParameters: true, validSchemes: ["https", "http"] })), (text) => {
        const first = WebhookUrl.parse(text, development)
        if (Result.isFailure(first)) return
        accepted += 1

        assert.deepStrictEqual(target(first.success.href, development), first.success)
        assert.strictEqual(new URL(first.success.href).origin + WebhookUrl.pathOf(first.success), first.success.href)
      }),
      { numRuns: 2_000 }
    )
    assert.isAbove(accepted, 200)
  })
})
