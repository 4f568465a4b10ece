import { assert, describe, it } from "@effect/vitest"
import { createHmac } from "node:crypto"
import { runInNewContext } from "node:vm"
import vectors from "../docs/webhook-signatures.json" with { type: "json" }
import {
  verifyWebhook,
  webhookChallenge,
  WebhookVerificationError,
  type WebhookHeaders,
  type WebhookPayload,
  type WebhookRequest
} from "./index.ts"

interface Body {
  readonly bodyBase64?: string
  readonly bodyRepeated?: { readonly base64: string; readonly count: number }
}

const bytesOf = ({ bodyBase64, bodyRepeated }: Body): Buffer =>
  bodyRepeated === undefined
    ? Buffer.from(bodyBase64!, "base64")
    : Buffer.concat(Array.from({ length: bodyRepeated.count }, () => Buffer.from(bodyRepeated.base64, "base64")))

const hmac = (secret: string, id: string, timestamp: string, body: Uint8Array): string =>
  `v1=${createHmac("sha256", Buffer.from(secret, "utf8")).update(`${id}.${timestamp}.`).update(body).digest("hex")}`

const at = (seconds: string | number): Date => new Date(Number(seconds) * 1000)

/** Why it is refused; `accepted` if it is not. */
const verdict = (request: WebhookRequest): Promise<string> =>
  verifyWebhook(request).then(
    () => "accepted",
    (error: unknown) => (error instanceof WebhookVerificationError ? error.reason : String(error))
  )

const secret = "whsec_0123456789abcdef"
const id = "0199d6a0-7c4e-7b1a-9f3d-0000000000d4"
const now = at(1_796_117_400)
const event = {
  id,
  type: "message.bounced",
  apiVersion: "2026-12-01",
  occurredAt: "2026-12-01T09:30:00.000Z",
  data: { object: "message", recipient: "a@b.example" }
}

/** A request as the service makes it, signed now. */
const request = (overrides: Partial<WebhookRequest> & { readonly json?: unknown } = {}): WebhookRequest => {
  const { json = event, ...rest } = overrides
  const body = Buffer.from(JSON.stringify(json))
  const signature = hmac(secret, id, "1796117400", body)
  const headers = {
    "service-webhook-id": id,
    "service-webhook-timestamp": "1796117400",
    "service-webhook-signature": signature
  }
  return { secret, headers, body, now, ...rest }
}

/** A list of headers in each form in which receivers have them. */
const forms = (
  headers: ReadonlyArray<ReadonlyArray<string>>
): ReadonlyArray<readonly [form: string, WebhookHeaders]> => {
  const valuesOf = (name: string) => headers.filter(([key]) => key === name).map(([, value]) => value!)
  const names = [...new Set(headers.map(([name]) => name!))]
  return [
    ["Headers", new Headers(headers.map(([name, value]) => [name!, value!] as const) as Array<[string, string]>)], // pairs
    [
      "request.headers of Node",
      Object.fromEntries(names.map((name) => [name.toLowerCase(), valuesOf(name).join(", ")]))
    ],
    ["request.headersDistinct of Node", Object.fromEntries(names.map((name) => [name.toLowerCase(), valuesOf(name)]))],
    ["a record in upper case", Object.fromEntries(names.map((name) => [name.toUpperCase(), valuesOf(name)]))]
  ]
}

describe("The published signature vectors", () => {
  it("are many, and cover every reason but that of the body", () => {
    assert.isAtLeast(vectors.accepted.length, 10)
    assert.deepStrictEqual([...new Set(vectors.refused.map(({ reason }) => reason))].sort(), [
      "malformed_signature",
      "malformed_timestamp",
      "missing_header",
      "repeated_header",
      "signature_mismatch",
      "timestamp_out_of_tolerance"
    ])
  })

  for (const vector of vectors.accepted) {
    const { title, secret, id, timestamp, signature } = vector
    const body = bytesOf(vector)

    it(`are what node:crypto computes: ${title}`, () => {
      assert.strictEqual(hmac(secret, id, timestamp, body), signature)
    })

    it(`are accepted: ${title}`, async () => {
      const headers = [["Service-Webhook-Id", id], ["Service-Webhook-Timestamp", timestamp], [
        "Service-Webhook-Signature",
        signature
      ]]
      const isEvent = body.toString("utf8").trimStart().startsWith("{") || body[0] === 0xef
      for (const [form, given] of forms(headers)) {
        const said = await verdict({ secret, headers: given, body, now: at(vector.now ?? timestamp) })
        assert.strictEqual(said, isEvent ? "accepted" : "invalid_body", form) // the body is looked at once the signature fits
      }
    })
  }

  for (const vector of vectors.refused) {
    it(`are refused: ${vector.title}`, async () => {
      for (const [form, headers] of forms(vector.headers)) {
        const said = await verdict({ secret: vector.secret, headers, body: bytesOf(vector), now: at(vector.now) })
        assert.strictEqual(said, vector.reason, form)
      }
    })
  }
})

describe("verifyWebhook", () => {
  it("resolves with the event", async () => {
    const found: WebhookPayload = await verifyWebhook(request())

    assert.deepStrictEqual(found as unknown, event)
  })

  it("takes the body as bytes, as a part of a larger buffer, as an ArrayBuffer, and as text", async () => {
    const { body } = request()
    const bytes = body as Buffer // as made above
    const larger = Buffer.concat([Buffer.from("before"), bytes, Buffer.from("after")])

    const elsewhere = runInNewContext("Uint8Array.from(bytes)", { bytes }) as Uint8Array<ArrayBuffer> // it is

    const given = [
      elsewhere,
      elsewhere.buffer,
      bytes,
      larger.subarray(6, 6 + bytes.length),
      Uint8Array.from(bytes).buffer,
      bytes.toString("utf8")
    ]

    for (const one of given) assert.strictEqual(await verdict({ ...request(), body: one }), "accepted")
  })

  it("lets unknown types and members pass", async () => {
    const json = { ...event, type: "mailbox.renamed", added: true, data: { anything: [1] } }

    assert.deepStrictEqual((await verifyWebhook(request({ json }))) as unknown, json)
  })

  it("accepts either secret of two, and none of others", async () => {
    assert.strictEqual(await verdict(request({ secret: ["whsec_old", secret] })), "accepted")
    assert.strictEqual(await verdict(request({ secret: [secret, "whsec_old"] })), "accepted")
    assert.strictEqual(await verdict(request({ secret: ["whsec_old", "whsec_older"] })), "signature_mismatch")
  })

  it("measures the tolerance to the millisecond, either way, and takes another one", async () => {
    const later = (milliseconds: number) => new Date(now.getTime() + milliseconds)

    assert.strictEqual(await verdict(request({ now: later(300_000) })), "accepted")
    assert.strictEqual(await verdict(request({ now: later(300_001) })), "timestamp_out_of_tolerance")
    assert.strictEqual(await verdict(request({ now: later(-300_000) })), "accepted")
    assert.strictEqual(await verdict(request({ now: later(-300_001) })), "timestamp_out_of_tolerance")
    assert.strictEqual(
      await verdict(request({ now: later(10_000), toleranceSeconds: 9 })),
      "timestamp_out_of_tolerance"
    )
    assert.strictEqual(await verdict(request({ now: later(900_000), toleranceSeconds: 900 })), "accepted")
    assert.strictEqual(await verdict(request({ toleranceSeconds: 0 })), "accepted")
    assert.strictEqual(await verdict(request({ now: later(1), toleranceSeconds: 0 })), "timestamp_out_of_tolerance")
    assert.strictEqual(await verdict(request({ now: new Date(Number.NaN) })), "timestamp_out_of_tolerance")
  })

  it("goes by the machine's clock if it is given none", async () => {
    const body = Buffer.from(JSON.stringify(event))
    const signedAt = (seconds: number) => {
      const timestamp = String(Math.floor(Date.now() / 1000) + seconds)
      return {
        "service-webhook-id": id,
        "service-webhook-timestamp": timestamp,
        "service-webhook-signature": hmac(secret, id, timestamp, body)
      }
    }

    assert.strictEqual(await verdict({ secret, headers: signedAt(0), body }), "accepted")
    assert.strictEqual(await verdict({ secret, headers: signedAt(-302), body }), "timestamp_out_of_tolerance")
  })

  it("minds no other header, whatever its name", async () => {
    const others = Object.fromEntries(["then", "get", "constructor", "__proto__"].map((name) => [name, "x"]))
    const more = { ...others, ...(request().headers as Record<string, string>) } // as made above

    assert.strictEqual(await verdict({ ...request(), headers: more }), "accepted")
  })

  it("finds a header missing whose value is undefined", async () => {
    const headers = { ...request().headers, "service-webhook-id": undefined }

    assert.strictEqual(await verdict({ ...request(), headers }), "missing_header")
  })

  it("finds one header under two spellings repeated", async () => {
    const { headers } = request()
    const twice = { ...(headers as Record<string, string>), "Service-Webhook-Id": id } // as made above

    assert.strictEqual(await verdict({ ...request(), headers: twice }), "repeated_header")
  })

  for (
    const json of [[], null, 1, {}, { ...event, data: [] }, { ...event, data: null }, { ...event, id: 7 }, {
      ...event,
      type: undefined
    }, { ...event, apiVersion: 1 }, { ...event, occurredAt: null }]
  ) {
    it(`refuses a signed body that is no event: ${JSON.stringify(json)}`, async () => {
      assert.strictEqual(await verdict(request({ json })), "invalid_body")
    })
  }

  it("refuses a signed body that is not UTF-8", async () => {
    const body = Buffer.from(JSON.stringify({ ...event, added: "\u00ff" }), "latin1")
    const signature = hmac(secret, id, "1796117400", body)
    const headers = { ...(request().headers as Record<string, string>), "service-webhook-signature": signature } // as made above

    assert.strictEqual(await verdict({ ...request(), headers, body }), "invalid_body")
  })

  it("finds a signature malformed with anything before or behind it", async () => {
    const { headers } = request() as { readonly headers: Readonly<Record<string, string>> } // as made above
    const signature = headers["service-webhook-signature"]!

    for (const other of [`x${signature}`, `v0=0 ${signature}`, `${signature}0`, `${signature} v2=0`]) {
      const verified = await verdict({ ...request(), headers: { ...headers, "service-webhook-signature": other } })
      assert.strictEqual(verified, "malformed_signature", other)
    }
  })

  it("does not look at the body before the signature", async () => {
    assert.strictEqual(await verdict({ ...request(), body: "{" }), "signature_mismatch")
  })

  it("returns what was verified, whatever becomes of the bytes meanwhile", async () => {
    const given = request()
    const pending = verifyWebhook(given)
    ;(given.body as Buffer).fill(0x20) // as made above

    assert.strictEqual((await pending).id, id)
  })

  const misuses: ReadonlyArray<readonly [string, Readonly<Record<string, unknown>>, RegExp]> = [
    ["a parsed body", { body: event }, /body must be as it came/],
    ["no body", { body: undefined }, /body must be as it came/],
    ["no secret", { secret: undefined }, /secret must be the whsec_/],
    ["an empty secret", { secret: "" }, /secret must be the whsec_/],
    ["a prefix without a secret", { secret: "whsec_" }, /secret must be the whsec_/],
    ["an empty list of secrets", { secret: [] }, /secret must be the whsec_/],
    ["a list with an empty secret", { secret: [secret, ""] }, /secret must be the whsec_/],
    ["a secret with the end of its file's line", { secret: `${secret}\n` }, /secret must be the whsec_.*without white space/],
    ["a secret with a blank before it", { secret: ` ${secret}` }, /secret must be the whsec_.*without white space/],
    ["a secret with a blank behind it", { secret: `${secret} ` }, /secret must be the whsec_.*without white space/],
    ["a list of secrets in a list", { secret: [[secret]] }, /secret must be the whsec_/],
    ["no headers", { headers: undefined }, /headers must be the request's/],
    ["headers that are still awaited", { headers: Promise.resolve(new Headers()) }, /headers must be the request's.*await/],
    ["headers as pairs", { headers: Object.entries(request().headers) }, /headers must be the request's.*Headers object or a record/],
    ["headers as Node's rawHeaders", { headers: Object.entries(request().headers).flat() }, /headers must be the request's/],
    ["headers as what iterates over them", { headers: new Headers().entries() }, /headers must be the request's/],
    ["a header that is a number", { headers: { ...request().headers, "service-webhook-timestamp": 1_796_117_400 } }, /headers must be the request's.*values are texts/],
    ["headers whose get gives a list", { headers: { get: () => ["1796117400"] } }, /headers must be the request's.*values are texts/],
    ["an API key as the secret", { secret: "svc_test_abc" }, /secret must be the whsec_/],
    ["a tolerance that is no number", { toleranceSeconds: Number.NaN }, /toleranceSeconds/],
    ["a now that is a number", { now: now.getTime() }, /now must be a Date/],
    ["a tolerance that is null", { toleranceSeconds: null }, /toleranceSeconds/],
    ["a negative tolerance", { toleranceSeconds: -0.001 }, /toleranceSeconds/],
    ["a tolerance under another name", { tolerance: 5 }, /"tolerance" is none of the options of verifyWebhook: secret, headers, body, now, toleranceSeconds\./],
    ["another name that is undefined", { secrets: undefined }, /"secrets" is none of the options of verifyWebhook/]
  ]
  for (const [title, overrides, says] of misuses) {
    it(`tells misuse from refusal: ${title}`, async () => {
      const error: unknown = await verifyWebhook({ ...request(), ...overrides } as WebhookRequest).catch((
        thrown: unknown
      ) => thrown)

      assert.instanceOf(error, TypeError)
      assert.match((error as Error).message, says)
      assert.notInclude(String(error), "svc_test_abc")
    })
  }

  it("tells misuse from refusal: nothing at all", async () => {
    for (const nothing of [undefined, null, "whsec_"]) {
      const error: unknown = await verifyWebhook(nothing as unknown as WebhookRequest).catch((thrown: unknown) => thrown)

      assert.strictEqual(String(error), "TypeError: verifyWebhook wants { secret, headers, body }.")
    }
  })

  it("names the reason and the remedy, and keeps the secret to itself", async () => {
    const error: unknown = await verifyWebhook({ ...request(), body: "other" }).catch((thrown: unknown) => thrown)

    assert.instanceOf(error, WebhookVerificationError)
    assert.strictEqual((error as Error).name, "WebhookVerificationError")
    assert.match((error as Error).message, /endpoint's secret.*byte for byte/)
    assert.notInclude(JSON.stringify(error) + String((error as Error).stack), secret)
  })
})

describe("webhookChallenge", () => {
  const verification = {
    id,
    type: "webhook.endpoint_verification",
    apiVersion: "2026-12-01",
    occurredAt: "2026-12-01T09:30:00.000Z",
    data: { challenge: "c0ffee" }
  }

  it("answers the verification request", () => {
    assert.deepStrictEqual(webhookChallenge(JSON.stringify(verification)), { challenge: "c0ffee" })
    assert.deepStrictEqual(webhookChallenge(Buffer.from(JSON.stringify(verification))), { challenge: "c0ffee" })
  })

  for (
    const body of [
      "",
      "{",
      "null",
      "[]",
      JSON.stringify(event),
    JSON.stringify({ ...event, data: { challenge: "c0ffee" } }),
      JSON.stringify({ ...verification, data: null }),
      JSON.stringify({ ...verification, data: { challenge: 1 } })
    ]
  ) {
    it(`has no answer to ${JSON.stringify(body).slice(0, 60)}`, () => {
      assert.isNull(webhookChallenge(body))
    })
  }
})
