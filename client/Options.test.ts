import { assert, describe, it } from "@effect/vitest"
import { apiKey, mail } from "./fixtures/party.ts"
import { Mailroom } from "./index.ts"

const baseUrl = "https://mail.example.com"

/** What it throws or rejects with, and how many requests it made before. */
const told = async (call: (mailroom: Mailroom) => Promise<unknown>): Promise<readonly [error: unknown, requests: number]> => {
  let requests = 0
  const fetch = () => {
    requests += 1
    return Promise.resolve(Response.json({ id: "m", object: "message", status: "queued" }, { status: 202 }))
  }
  const mailroom = new Mailroom({ baseUrl, apiKey, fetch })
  const error: unknown = await call(mailroom).then(
    () => null,
    (fault: unknown) => fault
  )
  return [error, requests]
}

/** As JavaScript gives them. */
const given = (options: unknown) => options as undefined

describe("options under names that there are not", () => {
  const names = "idempotencyKey, signal, timeoutMs, maxRetries"
  for (const [options, message] of [
    [{ idempotencykey: "order-42-shipped" }, `"idempotencykey" is none of the options of sendMessage: ${names}.`],
    [{ headers: { "Idempotency-Key": "order-42-shipped" } }, `"headers" is none of the options of sendMessage: ${names}.`],
    ["order-42-shipped", `the options of sendMessage must be an object: ${names}.`],
    [null, `the options of sendMessage must be an object: ${names}.`],
    [{ idempotencyKey: null }, "idempotencyKey must be of 8 to 255 visible ASCII characters."],
    [{ signal: new AbortController() }, "signal must be an AbortSignal, such as the signal of an AbortController."]
  ] as const) {
    it(`send no message: ${JSON.stringify(options)}`, async () => {
      const [error, requests] = await told((mailroom) => mailroom.sendMessage(mail, given(options)))

      assert.instanceOf(error, TypeError)
      assert.deepStrictEqual([(error as TypeError).message, requests], [message, 0])
    })
  }

  it("are refused by each call, and by the client itself", async () => {
    const [error, requests] = await told((mailroom) => mailroom.listMailboxes(given({ timeout: 5 })))

    assert.deepStrictEqual(
      [String(error), requests],
      ['TypeError: "timeout" is none of the options of listMailboxes: signal, timeoutMs, maxRetries.', 0]
    )
    assert.throws(
      () => new Mailroom({ baseUrl, apiKey, ...({ maxRetry: 0 } as object) }),
      TypeError,
      '"maxRetry" is none of the options of Mailroom: baseUrl, apiKey, fetch, timeoutMs, maxRetries, maxRetryDelayMs, '
    )
  })

  it("that are undefined are left out", async () => {
    const options = { idempotencyKey: undefined, signal: undefined, timeoutMs: undefined, maxRetries: undefined }

    assert.deepStrictEqual(await told((mailroom) => mailroom.sendMessage(mail, options)), [null, 1])
  })
})

describe("an answer of who stands before the service", () => {
  for (const [status, doing] of [
    [502, " Whether the message was queued is not known: send it again with this error's idempotencyKey, and it is sent once."],
    [403, ""]
  ] as const) {
    it(`says of a ${status} what is known`, async () => {
      const fetch = () => Promise.resolve(new Response("<html>", { status }))
      const mailroom = new Mailroom({ baseUrl, apiKey, fetch, maxRetries: 0 })

      const error: unknown = await mailroom.sendMessage(mail).catch((fault: unknown) => fault)

      assert.strictEqual(
        (error as Error).message,
        `sendMessage: answered ${status}, not by the service: a proxy stands between, or baseUrl points elsewhere. Check both.${doing}`
      )
    })
  }
})
