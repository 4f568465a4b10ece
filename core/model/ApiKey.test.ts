import { assert, describe, it } from "@effect/vitest"
import { Option, Redacted } from "effect"
import * as fc from "fast-check"
import { crc32 } from "node:zlib"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as ApiKey from "./ApiKey.ts"
import type { Environment } from "./Ids.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const environments: ReadonlyArray<Environment> = ["sandbox", "production"]

/** A number in base 62. */
const value = (text: string) => [...text].reduce((sum, digit) => sum * 62n + BigInt(alphabet.indexOf(digit)), 0n)
const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
const aKey = (environment: Environment = "sandbox") =>
  ApiKey.format(environment, Uint8Array.from({ length: 8 }, (_, index) => index * 31), Uint8Array.from({ length: 24 }, (_, index) => 255 - index))

describe("the text of a key", () => {
  it("is read back as it was written", () => {
    fc.assert(
      fc.property(fc.constantFrom(...environments), bytes(8), bytes(24), (environment, publicBytes, privateBytes) => {
        const { text, token } = ApiKey.format(environment, publicBytes, privateBytes)

        const read = Option.getOrThrow(ApiKey.parse(Redacted.value(text)))

        assert.deepStrictEqual(
          { ...read, secret: Redacted.value(read.secret) },
          { ...token, secret: Redacted.value(token.secret) }
        )
        assert.strictEqual(read.environment, environment)
      })
    )
  })

  it("names its environment, and can be found by a regular expression", () => {
    assert.match(Redacted.value(aKey("sandbox").text), /^svc_test_[0-9A-Za-z]{50}$/)
    assert.match(Redacted.value(aKey("production").text), /^svc_live_[0-9A-Za-z]{50}$/)
  })

  it("has a fixed form, so that keys outlive releases", () => {
    assert.strictEqual(Redacted.value(aKey().text), "svc_test_00eHEVGflDV2lEzyhqivoRqsm4DRmprZIsa9e9xRI23c1TjMsL")
  })

  it("ends with the CRC-32 of what stands before it", () => {
    fc.assert(
      fc.property(fc.constantFrom(...environments), bytes(8), bytes(24), (environment, publicBytes, privateBytes) => {
        const text = Redacted.value(ApiKey.format(environment, publicBytes, privateBytes).text)

        assert.strictEqual(value(text.slice(-6)), BigInt(crc32(text.slice(0, -6))))
      })
    )
  })

  it("keeps all 64 bits of the public id and all 192 of the secret", () => {
    const partsOf = (publicBytes: Uint8Array, privateBytes: Uint8Array) => {
      const { publicId, secret } = ApiKey.format("sandbox", publicBytes, privateBytes).token
      return [publicId, Redacted.value(secret)]
    }
    const zeros = partsOf(new Uint8Array(8), new Uint8Array(24))
    const ones = partsOf(new Uint8Array(8).fill(255), new Uint8Array(24).fill(255))

    assert.strictEqual(ApiKey.publicIdBytes, 8)
    assert.isAtLeast(ApiKey.secretBytes * 8, 192)
    assert.deepStrictEqual(zeros.map(value), [0n, 0n])
    assert.deepStrictEqual(ones.map(value), [2n ** 64n - 1n, 2n ** 192n - 1n])
    assert.deepStrictEqual(ones.map((part) => part.length), zeros.map((part) => part.length))
  })

  it("shows no secret when it is printed", () => {
    const { text, token } = aKey()
    const printed = `${text} ${JSON.stringify({ text, token })} ${String(token.secret)}`

    assert.notInclude(printed, Redacted.value(token.secret))
  })
})

describe("a text that is no key", () => {
  const text = Redacted.value(aKey().text)

  it("is refused for any one character mistyped", () => {
    const passed: Array<string> = []
    for (let index = 0; index < text.length; index++) {
      for (const character of `${alphabet}_-`) {
        const mistyped = text.slice(0, index) + character + text.slice(index + 1)
        if (mistyped !== text && Option.isSome(ApiKey.parse(mistyped))) passed.push(mistyped)
      }
    }

    assert.deepStrictEqual(passed, [])
  })

  it("is refused for any two neighbours swapped, and any one character lost or doubled", () => {
    const passed: Array<string> = []
    for (let index = 0; index < text.length; index++) {
      const [before, one, next, after] = [text.slice(0, index), text[index]!, text[index + 1] ?? "", text.slice(index + 2)]
      for (const mistyped of [before + next + one + after, before + next + after, before + one + one + next + after]) {
        if (mistyped !== text && Option.isSome(ApiKey.parse(mistyped))) passed.push(mistyped)
      }
    }

    assert.deepStrictEqual(passed, [])
  })

  it("is refused when it is drawn at random, in the right shape, 100,000 times", () => {
    const random = new Uint8Array(50 * 1_000)
    let passed = 0
    for (let round = 0; round < 100; round++) {
      globalThis.crypto.getRandomValues(random)
      for (let index = 0; index < 1_000; index++) {
        const body = Array.from(random.subarray(index * 50, index * 50 + 50), (byte) => alphabet[byte % 62]!).join("")
        if (Option.isSome(ApiKey.parse(`svc_${index % 2 === 0 ? "test" : "live"}_${body}`))) passed += 1
      }
    }

    assert.isAtMost(passed, 1) // a checksum of 32 bits lets one in four thousand million through
  })

  it("is refused with the other environment's prefix", () => {
    assert.isTrue(Option.isNone(ApiKey.parse(text.replace("svc_test_", "svc_live_"))))
  })

  const refused = ["", "svc_test_", text.slice(0, -1), `${text}0`, `${text}\n`, ` ${text}`, text.toUpperCase(), text.replace("svc_", "sk_"), `Bearer ${text}`, text.repeat(1_000)]
  for (const given of refused) {
    it(`is refused: ${JSON.stringify(given.slice(0, 24))} (${given.length})`, () => assert.isTrue(Option.isNone(ApiKey.parse(given))))
  }
})

describe("a key whose secret is right", () => {
  const realm = Fixtures.realm("sandbox")
  const application = Fixtures.application(realm)
  const key = Fixtures.apiKey(application)
  const tenant = Fixtures.tenant({ id: realm.tenantId })
  const { token } = aKey("sandbox")
  const now = 1_000

  const rows: ReadonlyArray<readonly [title: string, given: Parameters<typeof ApiKey.refusal>, refusal: ReturnType<typeof ApiKey.refusal>]> = [
    ["is accepted", [key, application, tenant, token, now], null],
    ["is accepted a millisecond before it expires", [{ ...key, expiresAt: now + 1 }, application, tenant, token, now], null],
    ["is refused from the millisecond at which it expires", [{ ...key, expiresAt: now }, application, tenant, token, now], "expired"],
    ["is refused once revoked", [{ ...key, revokedAt: 1 }, application, tenant, token, now], "revoked"],
    ["is refused once revoked, though its revocation lies ahead of this clock", [{ ...key, revokedAt: now + 9 }, application, tenant, token, now], "revoked"],
    ["is refused for a suspended application", [key, { ...application, status: "suspended" }, tenant, token, now], "application"],
    ["is refused for a suspended tenant", [key, application, { ...tenant, status: "suspended" }, token, now], "tenant"],
    ["is refused with a prefix that is not its own", [key, application, tenant, aKey("production").token, now], "environment"],
    ["is refused when it is not of its application's environment", [key, { ...application, environment: "production" }, tenant, token, now], "environment"],
    [
      "is refused when its row says another environment than its text and its application",
      [{ ...key, environment: "production" }, application, tenant, token, now],
      "environment"
    ]
  ]
  for (const [title, given, refusal] of rows) {
    it(title, () => assert.strictEqual(ApiKey.refusal(...given), refusal))
  }
})

describe("the scopes", () => {
  it("are those of the specification", () => {
    assert.deepStrictEqual([...ApiKey.scopes].sort(), [
      "attachments:read",
      "attachments:write",
      "mailboxes:read",
      "messages:read",
      "messages:send",
      "messages:write",
      "webhooks:read",
      "webhooks:write"
    ])
  })
})
