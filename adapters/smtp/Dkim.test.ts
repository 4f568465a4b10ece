import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted, Stream } from "effect"
import * as fc from "fast-check"
import { dkimVerify } from "mailauth/lib/dkim/verify.js"
import { simpleParser } from "mailparser"
import { generateKeyPairSync } from "node:crypto"
import PostalMime from "postal-mime"
import { withProcessorTime } from "../../conformance/ProcessorTime.ts"
import { signer, type DkimKey } from "./Dkim.ts"
import { wireLines } from "./WireLines.ts"

const publicKeyEncoding = { type: "spki", format: "pem" } as const
const privateKeyEncoding = { type: "pkcs8", format: "pem" } as const
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048, publicKeyEncoding, privateKeyEncoding })
const ed25519 = generateKeyPairSync("ed25519", { publicKeyEncoding, privateKeyEncoding })

const body = (pem: string): string => pem.replace(/-----[^-]+-----|\s/g, "")
const records: Record<string, string> = {
  rsa: `v=DKIM1; k=rsa; p=${body(rsa.publicKey)}`,
  // The raw 32 bytes behind the 12 of the envelope.
  ed: `v=DKIM1; k=ed25519; p=${Buffer.from(body(ed25519.publicKey), "base64").subarray(12).toString("base64")}`
}
const resolver = (name: string): Promise<Array<Array<string>>> => {
  const [, selector, domain] = /^(\w+)\._domainkey\.(.+)$/.exec(name) ?? []
  const record = domain === "example.com" || domain === "example.org" ? records[selector ?? ""] : undefined
  return record === undefined
    ? Promise.reject(Object.assign(new Error("none"), { code: "ENOTFOUND" }))
    : Promise.resolve([[record]])
}

const key = (domain: string, selector: "rsa" | "ed" = "rsa"): DkimKey => ({
  domain,
  selector,
  privateKey: Redacted.make(selector === "rsa" ? rsa.privateKey : ed25519.privateKey)
})
const both = [key("example.com", "rsa"), key("example.com", "ed")]

const message = (from: string, text = "The engine weaves.\r\n"): string =>
  [
    `From: ${from}`,
    "To: charles@example.org",
    "Subject: Note G",
    "Date: Thu, 01 Jan 1970 00:00:00 +0000",
    "MIME-Version: 1.0",
    "",
    text
  ].join("\r\n")

/** The message as it would be sent, a character for a byte. */
const signed = Effect.fnUntraced(function* (keys: ReadonlyArray<DkimKey>, text: string, size = 1_000, own: DkimKey | null = null) {
  const bytes = Buffer.from(text, "latin1")
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size)
  )
  const fields = yield* signer(keys)(wireLines(Stream.fromIterable(pieces)), own)
  return Buffer.from(fields).toString("latin1") + text.replace(/\r\n|\r|\n/g, "\r\n")
})

const verdicts = (text: string) =>
  Effect.promise(async () => {
    const { results } = await dkimVerify(Buffer.from(text, "latin1"), { resolver })
    return results.map(({ status, signingDomain, selector, algo }) => ({ result: status.result, signingDomain, selector, algo }))
  })

const isSigned = (text: string): boolean => /^DKIM-Signature:/im.test(text)

describe("Dkim", () => {
  it.effect("signs with every key for the author's domain, RSA and Ed25519", () =>
    Effect.gen(function* () {
      const text = yield* signed([...both, key("example.org")], message("Ada <ada@example.com>"))

      assert.deepStrictEqual(yield* verdicts(text), [
        { result: "pass", signingDomain: "example.com", selector: "rsa", algo: "rsa-sha256" },
        { result: "pass", signingDomain: "example.com", selector: "ed", algo: "ed25519-sha256" }
      ])
    })
  )

  it.effect("signs with the key that comes with a message, unless others are configured for its domain", () =>
    Effect.gen(function* () {
      const text = message("Ada <ada@example.com>")
      const own = (domain: string) => key(domain, "rsa")
      const signatures = Effect.fnUntraced(function* (configured: ReadonlyArray<DkimKey>, from: DkimKey | null) {
        return (yield* verdicts(yield* signed(configured, text, 1_000, from))).map(({ result, selector }) => `${result} ${selector}`)
      })

      assert.deepStrictEqual(yield* signatures([], own("example.com")), ["pass rsa"])
      assert.deepStrictEqual(yield* signatures([key("example.org", "ed")], own("example.com")), ["pass rsa"])
      assert.deepStrictEqual(yield* signatures([key("example.com", "ed")], own("example.com")), ["pass ed"])
      assert.isFalse(isSigned(yield* signed([], text, 1_000, own("example.org"))), "not for another domain than the author's")
      assert.isFalse(isSigned(yield* signed([], text)))
      assert.strictEqual(yield* signed([], text, 7, own("example.com")), yield* signed([], text, 1_000, own("example.com")))
    })
  )

  it.effect("reads a key that comes with many messages once, and signs on a thread", () =>
    Effect.gen(function* () {
      const sign = signer([])
      const own = { ...key("example.com"), privateKey: Redacted.make(rsa.privateKey) }
      const one = yield* sign(Stream.make(Buffer.from(message("ada@example.com"))), own)
      Redacted.wipeUnsafe(own.privateKey)

      const signing = yield* Effect.forkChild(sign(Stream.make(Buffer.from(message("ada@example.com"))), own))
      yield* Effect.yieldNow
      assert.isUndefined(signing.pollUnsafe())

      assert.deepStrictEqual(yield* Fiber.join(signing), one)
    })
  )

  it.effect("signs the same message the same way, however it is cut", () =>
    Effect.gen(function* () {
      const text = message("ada@example.com", "a\r\n\r\n\r\n.\r\nb \t \r\n\r\n\r\n")
      const whole = yield* signed(both, text)

      for (const size of [1, 2, 3, 5, 17, 100]) assert.strictEqual(yield* signed(both, text, size), whole)
      assert.deepStrictEqual((yield* verdicts(whole)).map(({ result }) => result), ["pass", "pass"])
    })
  )

  const lineEnds = ["", "\r\n", "\r\n\r\n\r\n", "a", "a\r\n", "a\r\n\r\n", "\r\n\r\na"]
  const others = [" \r\n", "a \r\n\t\r\n", "\r\n.\r\n", `${"\r\n".repeat(9_000)}a`]
  for (const text of [...lineEnds, ...others]) {
    it.effect(`signs the body ${JSON.stringify(text.slice(0, 20))}${text.length > 20 ? "..." : ""}`, () =>
      Effect.gen(function* () {
        const sent = yield* signed(both, message("ada@example.com", text))

        // SMTP ends every message with a line end.
        for (const arrived of [sent, `${sent}\r\n`.replace(/\r\n\r\n$/, "\r\n")]) {
          assert.deepStrictEqual((yield* verdicts(arrived)).map(({ result }) => result), ["pass", "pass"])
        }
      })
    )
  }

  it.effect("signs any header and any body so that it verifies", () =>
    Effect.promise(() => {
      const piece = fc.constantFrom(..."aé \t.=:;ÿ\0\n\r", "\r\n", "\r\n\r\n", "word")
      const value = fc.array(fc.constantFrom("a", "b ", "  ", "\t", "\r\n ", "é", ";", "="), { maxLength: 20, size: "max" })
      const name = fc.constantFrom("Subject", "subject", "To", "Cc", "X-Other", "List-Unsubscribe", "Reply-To", "References")
      return fc.assert(
        fc.asyncProperty(fc.array(fc.tuple(name, value), { maxLength: 8 }), fc.array(piece, { maxLength: 40, size: "max" }), (fields, pieces) =>
          Effect.runPromise(
            Effect.gen(function* () {
              const head = ["From: ada@example.com", ...fields.map(([name, value]) => `${name}: x${value.join("")}x`)].join("\r\n")
              const text = yield* signed(both, `${head}\r\n\r\n${pieces.join("")}`, 7)

              assert.deepStrictEqual((yield* verdicts(text)).map(({ result }) => result), ["pass", "pass"])
            })
          )
        ),
        { numRuns: 150 }
      )
    })
  )

  const alterations: ReadonlyArray<readonly [what: string, alter: (text: string) => string]> = [
    ["a letter of the body", (text) => text.replace("weaves", "weaveS")],
    ["a line more at the end", (text) => `${text}and more\r\n`],
    ["an empty line in the body", (text) => text.replace("weaves.\r\n", "weaves.\r\n\r\nx")],
    ["the subject", (text) => text.replace("Note G", "Note H")],
    ["the author", (text) => text.replace("ada@example.com", "eve@example.com")],
    ["a second subject", (text) => text.replace("Subject:", "Subject: free\r\nSubject:")],
    ["a second author above", (text) => text.replace("From:", "From: eve@example.com\r\nFrom:")],
    ["a second author below", (text) => text.replace("Subject:", "From: eve@example.com\r\nSubject:")],
    ["a place to reply to", (text) => text.replace("Subject:", "Reply-To: eve@example.com\r\nSubject:")],
    ["a second recipient field above", (text) => text.replace("\r\nTo:", "\r\nTo: eve@example.com\r\nTo:")],
    ["a second recipient field below", (text) => text.replace("Subject:", "To: eve@example.com\r\nSubject:")],
    ["a second date", (text) => text.replace("Date:", "Date: Fri, 02 Jan 1970 00:00:00 +0000\r\nDate:")]
  ]
  for (const [what, alter] of alterations) {
    it.effect(`does not verify with ${what}`, () =>
      Effect.gen(function* () {
        const text = alter(yield* signed(both, message("ada@example.com")))

        const found = yield* verdicts(text)
        assert.lengthOf(found, 2)
        for (const { result } of found) assert.notStrictEqual(result, "pass")
      })
    )
  }

  it.effect("writes lines of at most 78 characters, however many fields are signed", () =>
    Effect.gen(function* () {
      const many = "References: <1@example.com>\r\nIn-Reply-To: <1@example.com>\r\n".repeat(100)
      const text = yield* signed(both, `${many}${message("ada@example.com")}`)

      assert.deepStrictEqual((yield* verdicts(text)).map(({ result }) => result), ["pass", "pass"])
      for (const line of text.split("\r\n")) assert.isAtMost(line.length, 78)
    })
  )

  it.effect("does not verify with another way to unsubscribe", () =>
    Effect.gen(function* () {
      const fields = "List-Unsubscribe: <https://example.com/u/1>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
      const text = yield* signed(both, `${fields}${message("ada@example.com")}`)
      const changes = [text.replace("example.com/u/1", "evil.example/u/1"), text.replace("=One-Click", "=Never"), text.replace(fields, "")]

      assert.deepStrictEqual((yield* verdicts(text)).map(({ result }) => result), ["pass", "pass"])
      for (const changed of changes) {
        for (const { result } of yield* verdicts(changed)) assert.notStrictEqual(result, "pass")
      }
    })
  )

  const ours = [
    "ada@example.com",
    "ada@EXAMPLE.com",
    "<ada@example.com>",
    "Ada <ada@example.com>",
    "Ada\r\n Lovelace\r\n\t<ada@example.com>",
    "=?utf-8?Q?Ad=C3=A0?= <ada@example.com>",
    "\"Lovelace, Ada (Countess) <eve@evil.example>\" <ada@example.com>"
  ]
  for (const from of ours) {
    it.effect(`signs for ${JSON.stringify(from)}`, () =>
      Effect.gen(function* () {
        const text = yield* signed([key("Example.COM")], message(from))

        const said = (yield* verdicts(text)).map(({ result, signingDomain }) => `${result} ${signingDomain}`)
        assert.deepStrictEqual(said, ["pass example.com"])
      })
    )
  }

  const strangers: ReadonlyArray<readonly [what: string, text: string]> = [
    ["a domain without a key", message("ada@example.net")],
    ["a subdomain", message("ada@news.example.com")],
    ["a parent domain", message("ada@com")],
    ["a domain that ends like ours", message("ada@notexample.com")],
    ["a domain that begins like ours", message("ada@example.com.evil.example")],
    ["a trailing dot", message("ada@example.com.")],
    ["two addresses", message("ada@example.com, eve@evil.example")],
    ["two addresses, ours last", message("eve@evil.example, ada@example.com")],
    ["an address with two at signs", message("eve@evil.example@example.com")],
    ["an address with two at signs in brackets", message("Ada <eve@evil.example@example.com>")],
    ["a word and an address", message("eve, <ada@example.com>")],
    ["an open comment", message("(eve <ada@example.com>")],
    ["a comment that nothing opens", message("eve) <ada@example.com>")],
    ["a group", message("Engines: ada@example.com;")],
    ["a comment", message("ada@example.com (eve@evil.example)")],
    ["a comment before", message("(ada@example.com) eve@evil.example")],
    ["two brackets", message("<ada@example.com> <eve@evil.example>")],
    ["an address for a name", message("ada@example.com <eve@evil.example>")],
    ["our address for a name", message("eve@evil.example <ada@example.com>")],
    ["our address in quotes", message("\"ada@example.com\" <eve@evil.example>")],
    ["a quotation before an address without brackets", message("\"=?utf-8?Q?=40?=\"ada@example.com")],
    ["a quotation before an address in brackets", message("Ada <\"=?utf-8?Q?=40?=\"ada@example.com>")],
    ["a quoted local part", message("\"ada@example.com\"@evil.example")],
    ["an open quote", message("\"Ada <ada@example.com>")],
    ["a backslash", message("Ada\\ <ada@example.com>")],
    ["an encoded-word in the address", message("=?utf-8?Q?=40?=ada@example.com")],
    ["a route", message("<@example.com:eve@evil.example>")],
    ["an address literal", message("ada@[192.0.2.1]")],
    ["a second From field", `From: eve@evil.example\r\n${message("ada@example.com")}`],
    ["a second From field below", message("ada@example.com").replace("Subject:", "From: eve@evil.example\r\nSubject:")],
    ["a second From field with a space", message("ada@example.com").replace("Subject:", "From : eve@evil.example\r\nSubject:")],
    ["a second From field in capitals", message("ada@example.com").replace("Subject:", "FROM: eve@evil.example\r\nSubject:")],
    ["no From field", "Subject: Note G\r\n\r\nFrom: ada@example.com\r\n"],
    ["a From field in the body of a message without a header", "\r\nFrom: ada@example.com\r\n\r\nx"],
    ["a line that is no field", message("ada@example.com").replace("Subject:", "what is this\r\nSubject:")],
    ["a header that begins folded", ` x\r\n${message("ada@example.com")}`],
    ["a sender of ours", message("eve@evil.example").replace("Subject:", "Sender: ada@example.com\r\nSubject:")],
    ["an empty From field", message("")],
    ["nothing", ""]
  ]
  for (const [what, text] of strangers) {
    it.effect(`does not sign for ${what}`, () =>
      Effect.gen(function* () {
        assert.isFalse(isSigned(yield* signed(both, text)))
      })
    )
  }

  it.effect("signs for nobody whom other readers would not name as the one author", () =>
    Effect.promise(async () => {
      let count = 0
      const words = ["ada@example.com", "eve@evil.example", "\r\n ", "Ada", "example.com", "=?utf-8?Q?=40?="]
      const token = fc.constantFrom(...words, ..."<>\"(),;: \\@.[]\t")
      const quoted = ["\"eve@evil.example\"", "\"a <b@c.example>, (d\"", "\"\\\"\""]
      const harmless = fc.constantFrom("Ada", " ", ...quoted, "=?utf-8?Q?eve=40evil.example?=", "\r\n ", "ö")
      const named = (before: ReadonlyArray<string>, after: ReadonlyArray<string> = []) =>
        `${before.join("")} <ada@example.com>${after.join("")}`
      const from = fc.oneof(
        fc.array(token, { maxLength: 8 }).map((all) => all.join("")),
        fc.array(harmless, { maxLength: 6 }).map((before) => named(before)),
        fc
          .tuple(fc.array(fc.oneof(harmless, token), { maxLength: 5 }), fc.array(token, { maxLength: 1 }))
          .map(([before, after]) => named(before, after))
      )
      await fc.assert(
        fc.asyncProperty(from, async (from) => {
          const text = await Effect.runPromise(signed([key("example.com")], message(from)))
          if (!isSigned(text)) return
          count += 1

          const { headerFrom } = await dkimVerify(text, { resolver })
          const parsed = await simpleParser(text)
          const other = await PostalMime.parse(text)

          assert.lengthOf(headerFrom, 1)
          assert.match(headerFrom[0]!, /@example\.com$/i)
          assert.deepStrictEqual(parsed.from?.value.map(({ address }) => address?.split("@").at(-1)), ["example.com"])
          assert.strictEqual(other.from?.address?.split("@").at(-1), "example.com")
        }),
        { numRuns: 400 }
      )
      assert.isAbove(count, 80)
    })
  )

  it.effect("reads no more than it needs", () =>
    Effect.gen(function* () {
      let chunks = 0
      const body = Stream.forever(Stream.sync(() => Buffer.alloc(65_536, `${chunks++}x`)))
      const endless = (head: string) => Stream.concat(Stream.make(Buffer.from(head)), body)

      assert.lengthOf(yield* signer(both)(endless(message("ada@example.net")), null), 0)
      assert.isAtMost(chunks, 2)
      assert.lengthOf(yield* signer(both)(endless("Subject: no end\r\n"), null), 0)
      assert.isAtMost(chunks, 20)
      assert.lengthOf(yield* signer(both)(endless("From: ada@example.com\r\nSubject: no end "), null), 0)
      assert.lengthOf(yield* signer([])(Stream.die("read"), null), 0)
    })
  )

  it("signs a header of 1 MB in no time", async () => {
    for (const filler of ["\t", "a\r\n ", "\"", "\\", "<", "@", "(", "a@"]) {
      const from = `x${filler.repeat(1_000_000 / filler.length)} <ada@example.com>`
      const { took } = await Effect.runPromise(withProcessorTime(signed(both, message(from).slice(0, 1_040_000))))
      assert.isBelow(took, 1_000)
    }
  })

  const weak = generateKeyPairSync("rsa", { modulusLength: 512, publicKeyEncoding, privateKeyEncoding }).privateKey
  const curve = generateKeyPairSync("ec", { namedCurve: "P-256", publicKeyEncoding, privateKeyEncoding }).privateKey
  const refusals: ReadonlyArray<readonly [what: string, key: DkimKey]> = [
    ["text", { ...key("example.com"), privateKey: Redacted.make("s3cret") }],
    ["a public key", { ...key("example.com"), privateKey: Redacted.make(rsa.publicKey) }],
    ["RSA of 512 bits", { ...key("example.com"), privateKey: Redacted.make(weak) }],
    ["another curve", { ...key("example.com"), privateKey: Redacted.make(curve) }],
    ["a domain that is none", key("example")],
    ["a domain with a tag in it", key("example.com; s=x")],
    ["a selector with a tag in it", { ...key("example.com"), selector: "a; d=evil.example" }]
  ]
  for (const [what, wrong] of refusals) {
    it(`refuses ${what} for a key, and does not quote it`, () => {
      let thrown: unknown
      try {
        signer([wrong])
      } catch (error) {
        thrown = error
      }

      assert.instanceOf(thrown, Error)
      assert.notInclude(String(thrown), "s3cret")
      assert.notInclude(String(thrown), Redacted.value(wrong.privateKey).split("\n")[1] ?? "s3cret")
    })
  }
})
