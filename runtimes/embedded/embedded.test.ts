/** Mailroom inside a program: the Promise facade, the fetch handler, the client without a socket. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { Readable } from "node:stream"
import { onTestFinished, vi } from "vitest"
import * as Memory from "../../adapters/memory/index.ts"
import { MailroomError } from "../../client/index.ts"
import { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import { embed, found, from, get, operator, receiver, rejectionOf } from "./harness.ts"
import { parseAddress, parseDomain, ReceiveRefused, type InboundMail, type Options } from "./index.ts"

describe("an embedded Mailroom", () => {
  it("takes mail in, whole or in pieces, and says what to answer where it does not", async () => {
    const asked: Array<string | null> = []
    const authenticator = Layer.succeed(MailAuthenticator, {
      authenticate: ({ returnPath, bytes }) =>
        Effect.as(Stream.runDrain(bytes), { spf: "pass", dkim: "none", dmarc: "pass", arc: "none", dmarcPolicy: null, author: "example.org" }).pipe(
          Effect.tap(() => Effect.sync(() => asked.push(returnPath)))
        )
    })
    const mailroom = await embed({ authenticator, settings: { inboundEnvironment: "sandbox" } })
    const { apiKey } = await found(mailroom)
    const peer = { remoteAddress: "192.0.2.25", helo: "mx.example.org", protocol: "ESMTPS" } as const
    const mail = { peer, returnPath: "charles@example.org", recipients: ["ada@mail.example"] }
    const bytes = new TextEncoder().encode("From: charles@example.org\r\nSubject: Note G\r\n\r\nThe engine weaves.\r\n")
    const pieces = async function* () {
      yield bytes.subarray(0, 10)
      yield bytes.subarray(10)
    }

    await mailroom.receive.recipient("ada@mail.example")
    await mailroom.receive.accept({ ...mail, bytes })
    await mailroom.receive.accept({ ...mail, bytes: pieces() })
    await mailroom.tick()

    const { items } = await mailroom.client(apiKey).messages.list()
    assert.deepStrictEqual(items.map(({ status, subject, snippet }) => [status, subject, snippet]), [
      ["received", "Note G", "The engine weaves."],
      ["received", "Note G", "The engine weaves."]
    ])
    assert.deepStrictEqual(asked, ["charles@example.org", "charles@example.org"])
    const refused = await rejectionOf(mailroom.receive.recipient("nobody@mail.example"))
    assert.isTrue(refused instanceof ReceiveRefused)
    assert.strictEqual((refused as ReceiveRefused).message, "550 5.1.1 there is no such mailbox")
    const broken = async function* () {
      yield bytes
      throw new Error("the connection is gone")
    }
    assert.match(String(await rejectionOf(mailroom.receive.accept({ ...mail, bytes: broken() }))), /the connection is gone/)
    assert.lengthOf((await mailroom.client(apiKey).messages.list()).items, 2)
  })

  it("says what mail that is handed over wants, before anything is done with it", async () => {
    const mailroom = await embed()
    const peer = { remoteAddress: "192.0.2.25", helo: "mx.example.org", protocol: "ESMTPS" }
    const mail = { peer, returnPath: null, recipients: ["ada@mail.example"], bytes: new Uint8Array(1) }
    const faulty: ReadonlyArray<readonly [mail: unknown, fault: RegExp]> = [
      [undefined, /accept wants peer/],
      [{ ...mail, peer: "192.0.2.25" }, /accept wants peer/],
      [{ ...mail, peer: { address: "192.0.2.25", helo: "x", protocol: "ESMTP" } }, /accept wants peer.*remoteAddress/],
      [{ ...mail, peer: { ...peer, protocol: "smtp" } }, /accept wants peer.*`ESMTPS`/],
      [{ ...mail, returnPath: undefined }, /accept wants returnPath/],
      [{ ...mail, recipients: "ada@mail.example" }, /accept wants recipients/],
      [{ ...mail, recipients: [] }, /accept wants recipients/],
      [{ ...mail, bytes: "From: x" }, /accept wants bytes/]
    ]

    for (const [wrong, fault] of faulty) {
      const accepting = mailroom.receive.accept(wrong as InboundMail) // as JavaScript gives it
      assert.match(String(await rejectionOf(accepting)), new RegExp(`^TypeError: receive.${fault.source}`))
    }
  })

  it("takes no mail of which a piece is no bytes, wherever it comes", async () => {
    const mailroom = await embed({ settings: { inboundEnvironment: "sandbox" } })
    const { apiKey } = await found(mailroom)
    const peer = { remoteAddress: "192.0.2.25", helo: "mx.example.org", protocol: "ESMTPS" } as const
    const head = new TextEncoder().encode("From: ada@example.com\r\n\r\n")
    const giving = async function* (piece: unknown) {
      yield head
      yield piece as Uint8Array // as JavaScript gives it
      yield head
    }
    const texts: AsyncIterable<Uint8Array> = Readable.from([Buffer.from(head)], { objectMode: false }).setEncoding("utf8")

    for (const bytes of [texts, ...["Note G\r\n", new ArrayBuffer(8), [71, 10], new Uint16Array(4), 42, {}, null].map(giving)]) {
      const accepting = mailroom.receive.accept({ peer, returnPath: null, recipients: ["ada@mail.example"], bytes })
      assert.match(String(await rejectionOf(accepting)), /^TypeError: receive.accept wants bytes: a Uint8Array, or an AsyncIterable of nothing else/)
    }
    assert.deepStrictEqual((await mailroom.client(apiKey).messages.list()).items, [])
  })

  it("says of a request that it is none, or that somebody has read its body", async () => {
    const mailroom = await embed()
    const read = new Request("http://mailroom.internal/v1/messages", { method: "POST", body: "{}" })
    await read.text()

    assert.match(String(await rejectionOf(mailroom.fetch(read, from))), /^TypeError: fetch wants a Request whose body nobody has read/)
    const locked = new Request("http://mailroom.internal/v1/messages", { method: "POST", body: "{}" })
    locked.body!.getReader()
    assert.match(String(await rejectionOf(mailroom.fetch(locked, from))), /^TypeError: fetch wants a Request whose body nobody has read/)
    for (const none of ["http://mailroom.internal/healthz", undefined, {}]) {
      assert.match(String(await rejectionOf(mailroom.fetch(none as Request, from))), /^TypeError: fetch wants a Request\./) // as JavaScript gives it
    }
  })

  it("sends by the client without a socket, and delivers in a tick", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId } = await found(mailroom)
    const client = mailroom.client(apiKey)

    const { id } = await client.sendMessage({ fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "It works." })
    assert.strictEqual((await client.getMessage(id)).message.status, "queued")
    assert.isAbove(await mailroom.tick(), 0)

    assert.strictEqual((await client.getMessage(id)).message.status, "delivered")
    assert.strictEqual(await mailroom.tick(), 0)
  })

  it("gives its client also where tests simulate a page: the key goes nowhere", async () => {
    const mailroom = await embed()
    const { apiKey } = await found(mailroom)
    vi.stubGlobal("document", {})
    onTestFinished(() => void vi.unstubAllGlobals())

    assert.lengthOf((await mailroom.client(apiKey).listMailboxes()).items, 1)
  })

  it("forgets what is past its time when it is told to, and not before", async () => {
    const day = 86_400_000
    const mailroom = await embed({ settings: { eventRetention: day } })
    const { tenantId, apiKey } = await found(mailroom)
    await mailroom.client(apiKey).mailboxes.list()
    await mailroom.tick()
    const requests = async () => (await mailroom.management.listRequests(tenantId, { limit: 10 })).items.length
    await mailroom.retain()
    assert.strictEqual(await requests(), 1)

    vi.useFakeTimers({ toFake: ["Date"], now: vi.getRealSystemTime() + 2 * day })
    await mailroom.retain().finally(() => vi.useRealTimers())

    assert.strictEqual(await requests(), 0)
  })

  it("works in the background once it is started, however often it is told to", async () => {
    const { posts, layer } = receiver()
    const mailroom = await embed({ webhooks: layer })
    const { apiKey, mailboxId } = await found(mailroom)
    const client = mailroom.client(apiKey)
    await client.createWebhookEndpoint({ url: "https://hooks.example.com/", eventTypes: ["message.queued"] })
    await Promise.all([mailroom.start(), mailroom.start()])

    await client.sendMessage({ fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "It works." })
    for (let tries = 0; tries < 400 && posts.length < 2; tries++) await new Promise((resolve) => setTimeout(resolve, 10))

    assert.deepStrictEqual(posts.map(({ type }) => type), ["webhook.endpoint_verification", "message.queued"])
  })

  it("serves the same contract by fetch: document, envelope, request ids", async () => {
    const mailroom = await embed({ address: "https://api.example.com/mail" })
    const { apiKey } = await found(mailroom)

    const document = await mailroom.fetch(get("/openapi.yaml"), from)
    const refused = await mailroom.fetch(get("/v1/messages"), from)
    const body = await refused.json()

    assert.strictEqual(document.status, 200)
    assert.include(await document.text(), "url: https://api.example.com/mail\n")
    assert.deepStrictEqual((await mailroom.client(apiKey).messages.list()).items, [])
    assert.deepStrictEqual([refused.status, body.code, body.requestId], [401, "unauthorized", refused.headers.get("x-request-id")])
    assert.strictEqual((await mailroom.fetch(get("/v1/nothing"), from)).status, 404)
    const nowhere = new Request(`http://mailroom.internal/providers/${"n".repeat(20_000)}/notifications`, { method: "POST" })
    assert.strictEqual((await mailroom.fetch(nowhere, from)).status, 404)
    assert.strictEqual((await mailroom.fetch(get("/readyz"), from)).status, 200)
  })

  it("guards by the client's address that the host gives, and believes no header", async () => {
    const mailroom = await embed({ settings: { ipRequestsPerMinute: 2 } })
    const status = async (clientAddress: string) =>
      (await mailroom.fetch(get("/v1/messages", { "x-forwarded-for": "203.0.113.9" }), { clientAddress })).status

    const seen = [await status("192.0.2.1"), await status("192.0.2.1"), await status("192.0.2.1"), await status("192.0.2.2")]

    assert.deepStrictEqual(seen, [401, 401, 429, 401])
  })

  it("rejects a request of which the host does not say whom it is from", async () => {
    const mailroom = await embed()
    for (const missing of [[], [null], [{}], [{ clientAddress: "" }], [{ clientAddress: null }]]) {
      const fetch = mailroom.fetch as (request: Request, ...from: ReadonlyArray<unknown>) => Promise<Response> // as JavaScript calls it
      assert.match(String(await rejectionOf(fetch(get("/v1/messages"), ...missing))), /^TypeError: fetch wants .*clientAddress/)
    }
  })

  it("counts no call of its own client by address, for all of them come from here, and still by key", async () => {
    const mailroom = await embed({ settings: { ipRequestsPerMinute: 2 } })
    const { apiKey } = await found(mailroom)
    const client = mailroom.client(apiKey)

    for (let calls = 0; calls < 120; calls++) await client.listMailboxes({ maxRetries: 0 })

    const refused = (await rejectionOf(client.listMailboxes({ maxRetries: 0 }))) as MailroomError
    assert.deepInclude(refused.details, { scope: "key" })
  })

  it("knows of each request where it came from: the address that the host gives, and its own of its client's", async () => {
    const mailroom = await embed()
    const { tenantId, apiKey } = await found(mailroom)

    await mailroom.client(apiKey).mailboxes.list()
    await mailroom.fetch(get("/v1/messages", { authorization: `Bearer ${apiKey}`, "x-forwarded-for": "203.0.113.9" }), from)
    await mailroom.tick()

    const { items } = await mailroom.management.listRequests(tenantId, { limit: 10 })
    const seen = items.map(({ operation, clientAddress }) => `${operation} ${clientAddress}`).sort()
    assert.deepStrictEqual(seen, ["listMailboxes 127.0.0.1", "listMessages 192.0.2.1"])
  })

  it("streams an upload through fetch, and gives the bytes back", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId } = await found(mailroom)
    const client = mailroom.client(apiKey)
    const bytes = new Uint8Array(300_000).map((_, index) => index)

    const input = { mailboxId, filename: "bytes.bin", mediaType: "application/octet-stream" }
    const contentBase64 = Buffer.from(bytes).toString("base64")
    const { attachment } = await client.uploadAttachment({ ...input, contentBase64 })
    await mailroom.tick()

    assert.strictEqual((await client.downloadAttachment(attachment.id)).contentBase64, contentBase64)
  })

  it("refuses by fetch what the server refuses: a key that may be two, and a body of no media type", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId } = await found(mailroom)
    const body = JSON.stringify({ fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "It works." })
    const post = async (keys: ReadonlyArray<string>, type: string | null) => {
      const headers = new Headers({ authorization: `Bearer ${apiKey}`, ...(type === null ? {} : { "content-type": type }) })
      for (const key of keys) headers.append("idempotency-key", key)
      const stream = new Blob([body]).stream() // of which nobody announces a type or a length
      const init = { method: "POST", headers, body: stream, duplex: "half" }
      const response = await mailroom.fetch(new Request("http://mailroom.internal/v1/messages", init), from)
      return [response.status, ((await response.json()) as { code?: string }).code]
    }

    assert.deepStrictEqual(await post(["the-first-key", "the-first-key"], "application/json"), [400, "invalid_idempotency_key"])
    assert.deepStrictEqual(await post(["the-first-key"], null), [415, "unsupported_media_type"])
    assert.deepStrictEqual(await post(["the-first-key"], "application/json"), [202, undefined])
  })

  it("refuses by fetch a Content-Length that is no number, as the server does, and reads on for none", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId } = await found(mailroom)
    const body = JSON.stringify({ fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "It works." })
    const post = async (length: string) => {
      const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json", "idempotency-key": "the-first-key" }
      const init = { method: "POST", headers: { ...headers, "content-length": length }, body }
      const response = await mailroom.fetch(new Request("http://mailroom.internal/v1/messages", init), from)
      const { code, details } = (await response.json()) as { code?: string; details?: { issues: ReadonlyArray<{ code: string }> } }
      return [response.status, code, details?.issues.map((issue) => issue.code)]
    }

    for (const length of ["many", "5, 5", "-5", "1e2", ""]) {
      assert.deepStrictEqual(await post(length), [400, "invalid_request", ["malformed_http"]], length)
    }
    assert.deepStrictEqual(await post(String(body.length)), [202, undefined, undefined])
  })

  it("takes by fetch a body of chunks for as long as it is, whatever a Content-Length beside them says", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId } = await found(mailroom)
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json", "idempotency-key": "the-first-key" }
    const body = JSON.stringify({ fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "It works." })
    const init = { method: "POST", headers: { ...headers, "transfer-encoding": "chunked", "content-length": "many" }, body }

    assert.strictEqual((await mailroom.fetch(new Request("http://mailroom.internal/v1/messages", init), from)).status, 202)
  })

  it("takes by fetch no body that breaks off for a whole one, even if what came of it is a message, or a file", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId } = await found(mailroom)
    const bodies = {
      messages: { fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "It works." },
      attachments: { mailboxId, filename: "a.txt", mediaType: "text/plain", contentBase64: "aGk=" }
    }
    for (const [path, body] of Object.entries(bodies)) {
      const pieces = [new TextEncoder().encode(JSON.stringify(body))]
      const stream = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          const piece = pieces.shift()
          if (piece === undefined) controller.error(new Error("the caller is gone"))
          else controller.enqueue(piece)
        }
      })
      const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json", "idempotency-key": "the-first-key" }
      const init = { method: "POST", headers, body: stream, duplex: "half" }
      const response = await mailroom.fetch(new Request(`http://mailroom.internal/v1/${path}`, init), from)

      assert.deepStrictEqual([response.status, ((await response.json()) as { code?: string }).code], [400, "invalid_request"], path)
    }
    assert.deepStrictEqual((await mailroom.client(apiKey).listMessages()).items, [])
  })

  it("asks by fetch for no body where an operation takes none, whether there is none or an empty one", async () => {
    const mailroom = await embed()
    const { apiKey } = await found(mailroom)
    const url = "http://mailroom.internal/v1/webhook-deliveries/00000000-0000-4000-8000-000000000000/replay"

    for (const body of [null, ""]) {
      const response = await mailroom.fetch(new Request(url, { method: "POST", headers: { authorization: `Bearer ${apiKey}` }, body }), from)
      assert.strictEqual(((await response.json()) as { code?: string }).code, "not_found", String(body))
    }
  })

  it("rejects with the client's typed error, and with the core's", async () => {
    const mailroom = await embed()
    const { apiKey, mailboxId, tenantId } = await found(mailroom)

    const refused = await rejectionOf(mailroom.client(apiKey).sendMessage({ fromMailboxId: mailboxId, to: [], text: "x" }))
    const unknown = await rejectionOf(mailroom.management.revokeKey(operator, tenantId, mailboxId as never)) // no key's id

    assert.instanceOf(refused, MailroomError)
    assert.deepInclude(refused, { status: 400, code: "invalid_request" })
    assert.deepInclude(unknown, { _tag: "UnknownResource", what: "API key" })
  })

  it("hands production mail to the provider, and closes it at the end", async () => {
    const life: Array<string> = []
    const submitted: Array<string> = []
    const provider: MailProvider = {
      name: "test",
      submit: ({ messageId, envelope, mime }) =>
        Effect.map(Stream.mkUint8Array(mime), (bytes) => {
          submitted.push(`${envelope.recipients.join()} ${bytes.length > 0}`)
          const reply = { smtpCode: 250, enhancedCode: null, text: null }
          return { providerMessageId: messageId, replies: envelope.recipients.map((recipient) => ({ recipient, reply })), pollAt: null }
        }),
      poll: () => Effect.succeed({ notifications: [], pollAt: null })
    }
    const opened = Effect.acquireRelease(
      Effect.sync(() => (life.push("opened"), provider)),
      () => Effect.sync(() => void life.push("closed"))
    )
    const mailroom = await embed({ provider: opened })
    const { apiKey, mailboxId } = await found(mailroom, "production")

    await mailroom.client(apiKey).sendMessage({ fromMailboxId: mailboxId, to: ["charles@example.com"], text: "x" })
    await mailroom.tick()
    assert.deepStrictEqual([submitted, life], [["charles@example.com true"], ["opened"]])
    await Promise.all([mailroom.close(), mailroom.close()])

    assert.deepStrictEqual(life, ["opened", "closed"])
  })

  it("leaves nothing open when an adapter cannot be built", async () => {
    const life: Array<string> = []
    const queue = Layer.unwrap(
      Effect.acquireRelease(
        Effect.sync(() => (life.push("opened"), Memory.MemoryJobQueue.layer)),
        () => Effect.sync(() => void life.push("closed"))
      )
    )
    const broken = Layer.effect(Store, Effect.andThen(Effect.yieldNow, Effect.fail(new StoreUnavailable({ cause: "down" }))))

    const error = await rejectionOf(embed({ queue, store: broken }))

    assert.deepInclude(error, { _tag: "StoreUnavailable" })
    assert.deepStrictEqual(life, ["opened", "closed"])
  })

  it("rejects with an Error also where an adapter fails with something else", async () => {
    for (const end of [Effect.fail, Effect.die]) {
      const error = await rejectionOf(embed({ store: Layer.effect(Store, end("no route")) }))

      assert.strictEqual(String(error), 'Error: an adapter could not be built: "no route"')
      assert.strictEqual((error as Error).cause, "no route")
    }
  })

  it("refuses an Effect that makes no provider, and one that has no name", async () => {
    const nameless = { name: "", submit: () => Effect.never, poll: () => Effect.never }
    for (const made of [undefined, {}, { name: "mine" }, nameless]) {
      const provider = Effect.succeed(made) as Effect.Effect<MailProvider> // as JavaScript gives it
      assert.match(String(await rejectionOf(embed({ provider }))), /^TypeError: provider is an Effect that makes something else; it wants a MailProvider/)
    }
  })

  it("says that it waits for an adapter that does not come up, and goes on when it does", async () => {
    const lines: Array<string> = []
    const up = Promise.withResolvers<void>()
    const queue = Layer.unwrap(Effect.as(Effect.promise(() => up.promise), Memory.MemoryJobQueue.layer))
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })

    const embedding = embed({ queue, log: (line) => lines.push(line) })
    await vi.advanceTimersByTimeAsync(65_000).finally(() => vi.useRealTimers())
    const told = [...lines]
    up.resolve()
    await (await embedding).tick()

    assert.deepStrictEqual(told.map((line) => JSON.parse(line).message), Array(2).fill("an adapter has not come up; createMailroom waits for it"))
    assert.deepStrictEqual(lines, told)
  })

  it("links its pages so that they are found under a prefix, too", async () => {
    const mailroom = await embed()
    const under = (path: string) => new URL(path, "https://host.example/mail/")

    const root = await mailroom.fetch(get("/"), from)
    const docs = await (await mailroom.fetch(get("/docs"), from)).text()
    const links = [...docs.matchAll(/href="([^"#][^"]*)"/g)].map(([, link]) => new URL(link!, under("docs")).href)

    assert.strictEqual(new URL(root.headers.get("location")!, under(".")).href, under("docs").href)
    assert.deepStrictEqual(links, [under("openapi.yaml").href])
  })

  it("takes a setting as its rule reads it, and an option that is undefined as left out", async () => {
    const settings = { hostName: undefined, mxHost: "MX.Example" } as unknown as NonNullable<Options["settings"]> // as JavaScript gives it
    const mailroom = await embed({ settings, address: "https://api.example.com/" })
    const { tenantId } = await found(mailroom)

    const [item] = (await mailroom.management.listDomains(tenantId, {})).items
    const { records } = await mailroom.management.domainRecords(operator, tenantId, item!.domain.id)

    assert.include(JSON.stringify(records), "mx.example")
    assert.include(await (await mailroom.fetch(get("/openapi.yaml"), from)).text(), "url: https://api.example.com\n")
  })

  it("does nothing more when it is closed: requests are turned away, and all else rejects", async () => {
    const mailroom = await embed()
    const { apiKey, tenantId, mailboxId } = await found(mailroom)
    await mailroom.close()

    assert.strictEqual((await mailroom.fetch(get("/v1/messages"), from)).status, 503)
    assert.deepInclude(await rejectionOf(mailroom.client(apiKey).listMailboxes({ maxRetries: 0 })), { status: 503 })
    const peer = { remoteAddress: "192.0.2.25", helo: "mx.example.org", protocol: "ESMTPS" } as const
    const calls = {
      recipient: () => mailroom.receive.recipient("ada@mail.example"),
      accept: () => mailroom.receive.accept({ peer, returnPath: null, recipients: ["ada@mail.example"], bytes: new Uint8Array(1) }),
      management: () => mailroom.management.listPlans(),
      webhookManagement: () => mailroom.webhookManagement.getEndpoint(tenantId, mailboxId as never), // no endpoint's id
      tick: () => mailroom.tick(),
      retain: () => mailroom.retain(),
      start: () => mailroom.start()
    }
    for (const [name, call] of Object.entries(calls)) {
      assert.match(String(await rejectionOf(call())), /^Error: this Mailroom is closed; /, name)
    }
    await mailroom.close()
  })

  it("logs JSON lines, which hold no key, to whom it is told", async () => {
    const lines: Array<string> = []
    const mailroom = await embed({ log: (line) => lines.push(line) })
    const { apiKey } = await found(mailroom)

    await mailroom.client(apiKey).listMailboxes()

    assert.lengthOf(lines, 1)
    assert.deepInclude(JSON.parse(lines[0]!).annotations, { operation: "listMailboxes", status: 200 })
    assert.notInclude(lines.join(), apiKey)
  })

  it("does what it is asked though the log it is told throws, and has its lines on standard error", async () => {
    const errors = vi.spyOn(console, "error").mockImplementation(() => {})
    onTestFinished(() => errors.mockRestore())
    const mailroom = await embed({ log: (line) => assert.fail(line) })
    const { apiKey, mailboxId } = await found(mailroom)
    const client = mailroom.client(apiKey)

    const { status, id } = await client.sendMessage({ fromMailboxId: mailboxId, to: ["delivered@example.com"], text: "x" }, { maxRetries: 0 })
    await mailroom.tick()
    const { message } = await client.getMessage(id)

    assert.deepStrictEqual([status, message.status], ["queued", "delivered"])
    assert.includeMembers(errors.mock.calls.map(([line]) => JSON.parse(String(line)).annotations?.operation), ["sendMessage", "getMessage"])
  })

  for (const text of ["ada", "ada@", "a b@mail.example"]) {
    it(`says why ${JSON.stringify(text)} is no address`, () => {
      assert.throws(() => parseAddress(text), new RegExp(`^${JSON.stringify(text)}: .`))
    })
  }

  it("says of what is no text that it is none", async () => {
    const nothing = undefined as never // as JavaScript gives it
    const { receive } = await embed()

    for (const parse of [parseAddress, parseDomain]) assert.throws(() => parse(nothing), TypeError, /^undefined: it is no text$/)
    assert.match(String(await rejectionOf(receive.recipient(nothing))), /^TypeError: receive\.recipient wants an address/)
  })
})
