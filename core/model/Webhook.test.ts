import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { createHmac } from "node:crypto"
import vectors from "../../docs/webhook-signatures.json" with { type: "json" }
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Webhook from "./Webhook.ts"

const event = Fixtures.queuedEvent(Fixtures.message(Fixtures.realm()), { occurredAt: 1_796_117_400_123 })
const utf8 = (text: string) => new TextEncoder().encode(text)
const answer = (over: Partial<Webhook.Answer> = {}): Webhook.Answer => ({ status: 200, retryAfter: null, body: utf8(""), truncated: false, ...over })

describe("the envelope of a webhook", () => {
  it("has five members: id, type, apiVersion, occurredAt and data", () => {
    const text = Webhook.bodyOf(event, "2026-12-01")

    assert.strictEqual(
      text,
      JSON.stringify({ id: event.id, type: "message.queued", apiVersion: "2026-12-01", occurredAt: "2026-12-01T09:30:00.123Z", data: event.data })
    )
    assert.deepStrictEqual(Object.keys(JSON.parse(text) as object), ["id", "type", "apiVersion", "occurredAt", "data"])
  })

  it("names the version that the endpoint was created with", () => {
    assert.strictEqual((JSON.parse(Webhook.bodyOf(event, "2031-01-01")) as { apiVersion: string }).apiVersion, "2031-01-01")
    assert.strictEqual(Webhook.apiVersion, "2026-12-01")
  })

  it("of a handshake holds the challenge alone", () => {
    const id = Fixtures.freshId()

    assert.deepStrictEqual(JSON.parse(Webhook.verification(id, "c0ffee", 0)), {
      id,
      type: "webhook.endpoint_verification",
      apiVersion: "2026-12-01",
      occurredAt: "1970-01-01T00:00:00.000Z",
      data: { challenge: "c0ffee" }
    })
  })
})

describe("what is signed", () => {
  it("is the id, the timestamp and the body's bytes, joined by dots", () => {
    assert.deepStrictEqual(Webhook.signedBytes("id", "77", Uint8Array.of(0, 255, 46)), Uint8Array.of(105, 100, 46, 55, 55, 46, 0, 255, 46))
  })

  for (const vector of vectors.accepted) {
    if (vector.bodyBase64 === undefined) continue
    it(`agrees with the published vector: ${vector.title}`, () => {
      const bytes = Webhook.signedBytes(vector.id, vector.timestamp, Buffer.from(vector.bodyBase64, "base64"))
      const mac = createHmac("sha256", Buffer.from(vector.secret, "utf8")).update(bytes).digest("hex")

      assert.strictEqual(Webhook.deliveryHeaders(vector.id, vector.timestamp, mac)["service-webhook-signature"], vector.signature)
    })
  }

  it("has the time in whole seconds, rounded down", () => {
    assert.deepStrictEqual([0, 999, 1_000, 1_796_117_400_999].map(Webhook.timestampOf), ["0", "0", "1", "1796117400"])
  })

  it("goes with the headers of the specification", () => {
    assert.deepStrictEqual(Webhook.deliveryHeaders("i", "7", "ab"), {
      "content-type": "application/json",
      "user-agent": "Service-Webhooks/1.0",
      "service-webhook-id": "i",
      "service-webhook-timestamp": "7",
      "service-webhook-signature": "v1=ab"
    })
    assert.deepStrictEqual(Webhook.commonHeaders, { "content-type": "application/json", "user-agent": "Service-Webhooks/1.0" })
  })

  it("is random where it must be: 256 bits of a secret and of a challenge, in two digits a byte", () => {
    assert.deepStrictEqual([Webhook.secretBytes, Webhook.challengeBytes, Webhook.secretPrefix], [32, 32, "whsec_"])
    assert.strictEqual(Redacted.value(Webhook.secretOf(Uint8Array.of(0, 1, 15, 16, 171, 255))), "whsec_00010f10abff")
  })
})

describe("an answer", () => {
  for (const [status, outcome] of [
    [200, "success"],
    [299, "success"],
    [199, "http_error"],
    [101, "http_error"],
    [300, "redirect"],
    [304, "redirect"],
    [399, "redirect"],
    [400, "http_error"],
    [429, "http_error"],
    [599, "http_error"]
  ] as const) {
    it(`of ${status} is ${outcome}`, () => {
      assert.strictEqual(Webhook.outcomeOf({ status }), outcome)
    })
  }

  const now = 1_796_117_400_000 // Tue, 01 Dec 2026 09:30:00 GMT
  const hour = 3_600_000
  for (const [retryAfter, wait] of [
    [null, 0],
    ["0", 0],
    ["1", 1_000],
    [" 120 ", 120_000],
    ["3600", hour],
    ["3601", hour],
    ["9999999999", hour],
    ["99999999999999999999", 0],
    ["-5", 0],
    ["1.5", 0],
    ["1e3", 0],
    ["0x10", 0],
    ["soon", 0],
    ["", 0],
    ["Tue, 01 Dec 2026 09:40:00 GMT", 600_000],
    ["Tuesday, 01-Dec-26 09:40:00 GMT", 600_000],
    ["Tue, 01 Dec 2026 09:20:00 GMT", 0],
    ["Wed, 02 Dec 2026 09:40:00 GMT", hour],
    ["Tue, 99 Dec 2026 09:40:00 GMT", 0],
    ["Tue, 01 Dec 2026 09:40:00", 0],
    ["Tue Dec  1 09:40:00 2026", 0],
    ["2026-12-01T09:40:00Z", 0]
  ] as const) {
    it(`with Retry-After ${JSON.stringify(retryAfter)} asks for ${wait} ms`, () => {
      assert.strictEqual(Webhook.retryAfterOf({ retryAfter }, now), wait)
    })
  }
})

describe("a handshake's answer", () => {
  const challenge = "c".repeat(64)
  const echo = JSON.stringify({ challenge })
  for (const [what, given, fault] of [
    ["the challenge", { body: utf8(echo) }, null],
    ["the challenge with 204", { status: 204, body: utf8(echo) }, null],
    ["the challenge among other members and white space", { body: utf8(`\n {"ok": true, "challenge": "${challenge}"} `) }, null],
    ["a redirect", { status: 302, body: utf8(echo) }, "redirect"],
    ["404", { status: 404, body: utf8(echo) }, "non_2xx"],
    ["another challenge", { body: utf8(JSON.stringify({ challenge: `${"c".repeat(63)}d` })) }, "challenge_mismatch"],
    ["a shorter one", { body: utf8(JSON.stringify({ challenge: "c".repeat(63) })) }, "challenge_mismatch"],
    ["a longer one", { body: utf8(JSON.stringify({ challenge: "c".repeat(65) })) }, "challenge_mismatch"],
    ["an empty one", { body: utf8("{\"challenge\":\"\"}") }, "challenge_mismatch"],
    ["none", { body: utf8("{}") }, "challenge_mismatch"],
    ["null for it", { body: utf8("{\"challenge\":null}") }, "challenge_mismatch"],
    ["a list of it", { body: utf8(JSON.stringify({ challenge: [challenge] })) }, "challenge_mismatch"],
    ["a prototype that has it", { body: utf8(JSON.stringify({ ["__proto__"]: { challenge } })) }, "challenge_mismatch"],
    ["a list", { body: utf8(`[${echo}]`) }, "invalid_json"],
    ["null", { body: utf8("null") }, "invalid_json"],
    ["the challenge as a text", { body: utf8(`"${challenge}"`) }, "invalid_json"],
    ["no JSON", { body: utf8(challenge) }, "invalid_json"],
    ["nothing", {}, "invalid_json"],
    ["bytes that are no UTF-8", { body: Buffer.from(echo.replace("{", '{"note":"\u00ff",'), "latin1") }, "invalid_json"],
    ["more than was read", { body: utf8(echo), truncated: true }, "invalid_json"]
  ] as const) {
    it(`of ${what} is ${fault ?? "good"}`, () => {
      assert.strictEqual(Webhook.handshakeFault(answer(given), challenge), fault)
    })
  }
})
