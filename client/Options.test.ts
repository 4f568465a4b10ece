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

/** A client of a service whose lists are empty, and the queries that it was asked with. */
const lists = () => {
  const asked: Array<string> = []
  const fetch = (url: string) => {
    asked.push(new URL(url).search)
    return Promise.resolve(Response.json({ items: [], nextCursor: null }))
  }
  return { mailroom: new Mailroom({ baseUrl, apiKey, fetch }), asked }
}

const errorOf = (call: Promise<unknown>): Promise<string> => call.then(() => "none", String)

describe("a query", () => {
  const ofMessages = "the query parameters of listMessages"
  const ofEvents = "the query parameters of listEvents"
  const ofDeliveries = "the query parameters of listWebhookDeliveries"
  const refused: ReadonlyArray<readonly [title: string, call: (mailroom: Mailroom) => Promise<unknown>, says: string]> = [
    ["a signal", (to) => to.listMessages(given({ signal: AbortSignal.abort() })), `"signal" is none of ${ofMessages}: limit, cursor, mailboxId.`],
    ["a signal that is undefined", (to) => to.messages.list(given({ signal: undefined })), `"signal" is none of ${ofMessages}: limit, cursor, mailboxId.`],
    ["another's name", (to) => to.listEvents(given({ mailboxId: "m" })), `"mailboxId" is none of ${ofEvents}: limit, cursor.`],
    ["a cursor where there are no pages", (to) => to.listWebhookDeliveries(given({ cursor: "c" })), `"cursor" is none of ${ofDeliveries}: limit, endpointId.`],
    ["null", (to) => to.listMessages(given(null)), `${ofMessages} must be an object: limit, cursor, mailboxId.`],
    ["a cursor by itself", (to) => to.listEvents(given("c")), `${ofEvents} must be an object: limit, cursor.`],
    ["pages from a misspelt cursor", (to) => to.events.pages(given({ curser: "c" })).next(), `"curser" is none of ${ofEvents}: limit, cursor.`],
    ["all of a misspelt mailbox", (to) => to.messages.all(given({ mailbox: "m" })).next(), `"mailbox" is none of ${ofMessages}: limit, cursor, mailboxId.`],
    ["pages of null", (to) => to.messages.pages(given(null)).next(), `${ofMessages} must be an object: limit, cursor, mailboxId.`],
    ["pages from a cursor by itself", (to) => to.events.pages(given("c")).next(), `${ofEvents} must be an object: limit, cursor.`],
    ["all of null", (to) => to.events.all(given(null)).next(), `${ofEvents} must be an object: limit, cursor.`]
  ]
  for (const [title, call, says] of refused) {
    it(`reads nothing under names that there are not: ${title}`, async () => {
      const { mailroom, asked } = lists()

      assert.deepStrictEqual([await errorOf(call(mailroom)), asked], [`TypeError: ${says}`, []])
    })
  }

  it("begins at the beginning with a cursor that is null, as before the first page", async () => {
    const { mailroom, asked } = lists()

    await mailroom.listMessages({ cursor: null, limit: 5 })
    await mailroom.messages.list({ cursor: null })
    await mailroom.listEvents({ cursor: null })
    await mailroom.events.pages({ cursor: null }).next()

    assert.deepStrictEqual(asked, ["?limit=5", "", "", ""])
  })

  it("does not take a mailbox that is null for all mailboxes", async () => {
    const { mailroom, asked } = lists()

    await mailroom.listMessages(given({ mailboxId: null }))

    assert.deepStrictEqual(asked, ["?mailboxId=null"]) // which the service refuses
  })
})

describe("what JavaScript leaves out or mistakes", () => {
  const ofClient = "baseUrl, apiKey, fetch, timeoutMs, maxRetries, maxRetryDelayMs, dangerouslyAllowBrowser, platform"
  for (const nothing of [undefined, null, baseUrl]) {
    it(`makes no client of ${nothing}`, () => {
      assert.throws(() => new Mailroom(given(nothing)!), TypeError, `the options of Mailroom must be an object: ${ofClient}.`)
    })
  }

  it("makes no client of a fetch that is no function", () => {
    for (const fetch of [5, {}, "fetch", Promise.resolve(globalThis.fetch)]) {
      assert.throws(() => new Mailroom({ baseUrl, apiKey, fetch: given(fetch) }), TypeError, "fetch must be a function, as the global fetch is.")
    }
  })

  for (const nothing of [undefined, null, "invoice.pdf"]) {
    it(`uploads nothing for ${nothing}`, async () => {
      const { mailroom, asked } = lists()
      const error = await errorOf(mailroom.uploadAttachment(given(nothing)!))

      assert.deepStrictEqual([error, asked], ["TypeError: uploadAttachment wants { mailboxId, filename, mediaType, content }.", []])
    })
  }
})

describe("an input that is none", () => {
  for (const nothing of [undefined, null, "a text", [mail]]) {
    it(`asks nothing for ${JSON.stringify(nothing)}`, async () => {
      const { mailroom, asked } = lists()
      const errors = [
        await errorOf(mailroom.sendMessage(given(nothing)!)),
        await errorOf(mailroom.updateMessage("message", given(nothing)!)),
        await errorOf(mailroom.webhookEndpoints.create(given(nothing)!))
      ]

      const operations = ["sendMessage", "updateMessage", "createWebhookEndpoint"]
      assert.deepStrictEqual([errors, asked], [operations.map((operation) => `TypeError: ${operation} wants an object as its input.`), []])
    })
  }
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
