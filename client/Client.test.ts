import { afterAll, assert, beforeAll, beforeEach, describe, it } from "@effect/vitest"
import { inspect } from "node:util"
import { runInNewContext } from "node:vm"
import manifest from "../package.json" with { type: "json" }
import { apiKey, connect, disconnection, failure, id, mail, refusal } from "./fixtures/party.ts"
import * as Server from "./fixtures/ScriptedServer.ts"
import { answer, hangUp, refuse, requestId, whole } from "./fixtures/ScriptedServer.ts"
import { Mailroom, version, type MailroomOptions } from "./index.ts"

let server: Server.ScriptedServer
beforeAll(async () => {
  server = await Server.start()
})
afterAll(() => server.close())
beforeEach(() => server.play(answer(200, whole)))

const client = (options: Partial<MailroomOptions> = {}): Mailroom => connect({ baseUrl: server.baseUrl, ...options })

const queued = { id, object: "message", status: "queued" }

type Row = readonly [
  name: string,
  byName: (mailroom: Mailroom) => Promise<unknown>,
  byResource: (mailroom: Mailroom) => Promise<unknown>,
  line: string,
  body?: unknown
]
const endpoint = { url: "https://a.example/hook", eventTypes: ["*"] } as const
const upload = { mailboxId: id, filename: "a.txt", mediaType: "text/plain", contentBase64: "QQ==" }
const update = { mailboxId: id, isRead: true }
const rows: ReadonlyArray<Row> = [
  ["listMailboxes", (to) => to.listMailboxes(), (to) => to.mailboxes.list(), "GET /v1/mailboxes"],
  ["listDomains", (to) => to.listDomains(), (to) => to.domains.list(), "GET /v1/domains"],
  [
    "listMessages",
    (to) => to.listMessages({ limit: 2, mailboxId: id }),
    (to) => to.messages.list({ limit: 2, mailboxId: id }),
    `GET /v1/messages?limit=2&mailboxId=${id}`
  ],
  ["sendMessage", (to) => to.sendMessage(mail), (to) => to.messages.send(mail), "POST /v1/messages", mail],
  ["getMessage", (to) => to.getMessage(id), (to) => to.messages.retrieve(id), `GET /v1/messages/${id}`],
  [
    "updateMessage",
    (to) => to.updateMessage(id, update),
    (to) => to.messages.update(id, update),
    `PATCH /v1/messages/${id}`,
    update
  ],
  [
    "uploadAttachment",
    (to) => to.uploadAttachment(upload),
    (to) => to.attachments.upload(upload),
    "POST /v1/attachments",
    upload
  ],
  [
    "downloadAttachment",
    (to) => to.downloadAttachment(id),
    (to) => to.attachments.download(id),
    `GET /v1/attachments/${id}/download`
  ],
  [
    "listEvents",
    (to) => to.listEvents({ cursor: "a b&c" }),
    (to) => to.events.list({ cursor: "a b&c" }),
    "GET /v1/events?cursor=a+b%26c"
  ],
  [
    "listWebhookEndpoints",
    (to) => to.listWebhookEndpoints(),
    (to) => to.webhookEndpoints.list(),
    "GET /v1/webhook-endpoints"
  ],
  [
    "createWebhookEndpoint",
    (to) => to.createWebhookEndpoint(endpoint),
    (to) => to.webhookEndpoints.create(endpoint),
    "POST /v1/webhook-endpoints",
    endpoint
  ],
  [
    "listWebhookDeliveries",
    (to) => to.listWebhookDeliveries({ endpointId: id }),
    (to) => to.webhookDeliveries.list({ endpointId: id }),
    `GET /v1/webhook-deliveries?endpointId=${id}`
  ],
  [
    "replayWebhookDelivery",
    (to) => to.replayWebhookDelivery(id),
    (to) => to.webhookDeliveries.replay(id),
    `POST /v1/webhook-deliveries/${id}/replay`
  ]
]

const lookFirst = ["createWebhookEndpoint", "replayWebhookDelivery"]

describe("Each operation", () => {
  for (const [name, byName, byResource, line, body] of rows) {
    it(`is one request, under its name and by resource: ${name}`, async () => {
      server.play(answer(200, { ...whole, from: "the service" }))

      for (const output of [await byName(client()), await byResource(client())]) {
        assert.deepInclude(output as object, { from: "the service" }) // as it was answered
      }
      assert.lengthOf(server.seen, 2)
      for (const request of server.seen) {
        assert.strictEqual(`${request.method} ${request.url}`, line)
        assert.deepStrictEqual(request.body === "" ? undefined : JSON.parse(request.body), body)
        assert.strictEqual(request.headers["content-type"], body === undefined ? undefined : "application/json")
        assert.strictEqual(request.headers["idempotency-key"] !== undefined, name === "sendMessage")
        assert.deepInclude(request.headers, {
          accept: "application/json",
          authorization: `Bearer ${apiKey}`,
          "user-agent": `mailroom-client/${version}`
        })
      }
    })

    it(`does not succeed with another service's answer: ${name}`, async () => {
      for (const other of [{}, { status: "maintenance" }, Object.fromEntries(Object.keys(whole).map((member) => [member, null]))]) {
        server.play(answer(200, other))

        const error = await disconnection(byName(client()))

        assert.deepStrictEqual([error.reason, error.operation, server.seen.length], ["invalid_response", name, 1])
        assert.match(error.message, name === "sendMessage" ? /with this error's idempotencyKey/ : lookFirst.includes(name) ? /: look before you repeat it\.$/ : / Try again\.$/)
      }
    })

    it(`fails with the service's error: ${name}`, async () => {
      server.play(refuse(403, "insufficient_scope", { required: ["a"], missing: ["a"] }))

      const error = await refusal(byName(client()))

      assert.deepInclude({ ...error }, {
        status: 403,
        code: "insufficient_scope",
        requestId,
        operation: name,
        attempts: 1,
        retryAfter: null
      })
    })
  }

  it("names the version of the package", () => assert.strictEqual(version, manifest.version))

  it("keeps ids within their place in the path", async () => {
    await client().getMessage("../mailboxes?x=1#y")
    assert.strictEqual(server.seen[0]!.url, "/v1/messages/..%2Fmailboxes%3Fx%3D1%23y")
    for (const wrong of ["", ".", "..", "half of a character: \ud83d", undefined, 7]) {
      const error = await failure(client().getMessage(wrong as string)) // as from JavaScript
      assert.instanceOf(error, TypeError)
      assert.match((error as Error).message, /messageId must be an id/)
    }
    assert.lengthOf(server.seen, 1)
  })
})

describe("The client's settings", () => {
  it("keep the path of baseUrl, and mind no slash at its end", async () => {
    const { baseUrl } = server
    for (const given of [baseUrl, `${baseUrl}/`, `${baseUrl}/mail/eu//`, new URL(`${baseUrl}/mail/eu`)]) {
      await client({ baseUrl: given }).listDomains()
    }
    assert.deepStrictEqual(server.seen.map(({ url }) => url), [
      "/v1/domains",
      "/v1/domains",
      "/mail/eu/v1/domains",
      "/mail/eu/v1/domains"
    ])
  })

  const wrong: ReadonlyArray<readonly [Readonly<Record<string, unknown>>, RegExp]> = [
    [{ baseUrl: undefined }, /baseUrl is not a URL/],
    [{ baseUrl: "mail.example.com" }, /baseUrl is not a URL/],
    [{ baseUrl: "ftp://a.example" }, /baseUrl is neither https nor http/],
    [{ baseUrl: `https://user:${apiKey}@a.example` }, /baseUrl holds credentials/],
    [{ baseUrl: `https://${apiKey}@a.example` }, /baseUrl holds credentials/],
    [{ baseUrl: `https://:${apiKey}@a.example` }, /baseUrl holds credentials/],
    [{ baseUrl: "https://a.example?key=1" }, /baseUrl has a query/],
    [{ baseUrl: "https://a.example#x" }, /baseUrl has a query or a fragment/],
    [{ baseUrl: "https://a.example/v1" }, /baseUrl ends with \/v1, which the client adds/],
    [{ baseUrl: "https://a.example/mail/v1//" }, /baseUrl ends with \/v1, which the client adds/],
    [{ apiKey: undefined }, /apiKey is none/],
    [{ apiKey: "" }, /apiKey is none/],
    [{ apiKey: `${apiKey}\n` }, /apiKey is none/],
    [{ apiKey: `Bearer ${apiKey}` }, /apiKey is none/],
    [{ apiKey: "whsec_0123" }, /apiKey is none/],
    [{ apiKey: "svc_0123" }, /apiKey is none/],
    [{ apiKey: "svc_prod_0123" }, /apiKey is none/],
    [{ apiKey: "svc_live_" }, /apiKey is none/],
    [{ timeoutMs: 0 }, /timeoutMs/],
    [{ timeoutMs: 2 ** 31 }, /timeoutMs/],
    [{ maxRetries: -1 }, /maxRetries/],
    [{ maxRetries: 1.5 }, /maxRetries/],
    [{ maxRetryDelayMs: -1 }, /maxRetryDelayMs/],
    [{ maxRetryDelayMs: Number.NaN }, /maxRetryDelayMs/]
  ]
  for (const [options, says] of wrong) {
    it(`are refused at once: ${inspect(options).replaceAll(apiKey, "KEY")}`, () => {
      const error = (() => {
        try {
          return client(options as Partial<MailroomOptions>) // as from JavaScript
        } catch (thrown) {
          return thrown
        }
      })()

      assert.instanceOf(error, TypeError)
      assert.match((error as Error).message, says)
      assert.notInclude(String(error), apiKey)
    })
  }

  it("are refused at a call as well", async () => {
    for (const [options, says] of [[{ timeoutMs: 0 }, /^timeoutMs/], [{ maxRetries: -1 }, /^maxRetries/]] as const) {
      const error = await failure(client().listDomains(options))

      assert.instanceOf(error, TypeError)
      assert.match((error as Error).message, says)
    }
    assert.lengthOf(server.seen, 0)
  })

  it("refuse a web page, unless told that it is none", () => {
    Object.assign(globalThis, { document: {} })
    try {
      assert.throws(() => client(), /does not belong in a web page/)
      assert.instanceOf(client({ dangerouslyAllowBrowser: true }), Mailroom)
    } finally {
      Reflect.deleteProperty(globalThis, "document")
    }
  })

  it("take another fetch, and otherwise the global one of the moment", async () => {
    const urls: Array<string> = []
    const fetch = (url: string) => Promise.resolve(urls.push(url)).then(() => Response.json({ items: [] }))
    const late = client()
    const original = globalThis.fetch
    try {
      globalThis.fetch = fetch as typeof globalThis.fetch // it is called with a URL in a string
      await late.listDomains()
    } finally {
      globalThis.fetch = original
    }
    await client({ fetch }).listDomains()

    const url = `${server.baseUrl}/v1/domains`
    assert.deepStrictEqual([urls, server.seen], [[url, url], []])
  })
})

describe("sendMessage", () => {
  it("keeps one Idempotency-Key over its own retries, and takes another for the next message", async () => {
    server.play(hangUp, refuse(503, "unavailable"), answer(202, queued))
    const mailroom = client()

    assert.deepStrictEqual(await mailroom.sendMessage(mail), { ...queued, replayed: false })
    await mailroom.sendMessage(mail)

    const keys = server.seen.map(({ headers }) => headers["idempotency-key"])
    assert.match(keys[0]!.toString(), /^[0-9a-f-]{36}$/)
    assert.deepStrictEqual([keys[1], keys[2], keys[3] === keys[0]], [keys[0], keys[0], false])
    assert.strictEqual(new Set(server.seen.map(({ body }) => body)).size, 1)
  })

  it("takes the caller's key, and tells a replay", async () => {
    server.play(answer(202, queued, { "idempotent-replayed": "true" }))
    const keys = ["order-42-shipped", "~".repeat(8), "!".repeat(255)]

    for (const idempotencyKey of keys) assert.isTrue((await client().sendMessage(mail, { idempotencyKey })).replayed)
    assert.deepStrictEqual(server.seen.map(({ headers }) => headers["idempotency-key"]), keys)
  })

  it("refuses a key that no header can carry", async () => {
    for (const idempotencyKey of ["short", "x".repeat(7), "x".repeat(256), "with space", "schlüssel-1", "line\nbreak", ""]) {
      const error = await failure(client().sendMessage(mail, { idempotencyKey }))
      assert.instanceOf(error, TypeError)
    }
    assert.lengthOf(server.seen, 0)
  })

  it("leaves its key in the error, for another try", async () => {
    server.play(hangUp)
    const broken = await disconnection(client().sendMessage(mail))
    const brokenKey = server.seen[0]!.headers["idempotency-key"]
    server.play(refuse(500, "internal_error"))
    const refused = await refusal(client().sendMessage(mail, { idempotencyKey: "order-42-shipped" }))

    assert.strictEqual(broken.idempotencyKey, brokenKey)
    assert.match(broken.message, /with this error's idempotencyKey/)
    assert.strictEqual(refused.idempotencyKey, "order-42-shipped")
    assert.isNull((await refusal(client().listDomains())).idempotencyKey)
  })
})

describe("Files", () => {
  const bytes = Uint8Array.from({ length: 100_001 }, (_, index) => index * 7)
  const larger = Uint8Array.from([1, 2, ...bytes, 3])
  const shared = new SharedArrayBuffer(bytes.length)
  new Uint8Array(shared).set(bytes)
  const contents: ReadonlyArray<readonly [title: string, content: Uint8Array | ArrayBuffer | Blob, expected?: Uint8Array]> = [
    ["a Uint8Array", bytes],
    ["a part of one", larger.subarray(2, -1)],
    ["a Buffer", Buffer.from(bytes)],
    ["an ArrayBuffer", bytes.buffer],
    ["a SharedArrayBuffer", shared as never], // as from JavaScript
    ["a Blob", new Blob([bytes])],
    ["what reads like a Blob", { arrayBuffer: () => Promise.resolve(bytes.buffer) } as Blob],
    ["a DataView", new DataView(larger.buffer, 2, bytes.length) as never], // as from JavaScript
    ["wider numbers", new Uint16Array(Uint8Array.from([...bytes, 0]).buffer) as never, Uint8Array.from([...bytes, 0])],
    ["an ArrayBuffer of another realm", runInNewContext("Uint8Array.from(bytes).buffer", { bytes }) as ArrayBuffer], // it is
    ["a Uint8Array of another realm", runInNewContext("Uint8Array.from(bytes)", { bytes }) as Uint8Array] // it is
  ]
  for (const [title, content, expected = bytes] of contents) {
    it(`are uploaded from ${title}`, async () => {
      await client().uploadAttachment({ mailboxId: id, filename: "a.bin", mediaType: "a/b", content })
      await client().uploadAttachment({ mailboxId: id, filename: "b", mediaType: "a/b", contentBase64: "QQ==", content: undefined as never }) // which types allow, mostly

      assert.strictEqual(JSON.parse(server.seen[1]!.body).contentBase64, "QQ==")
      assert.deepStrictEqual(JSON.parse(server.seen[0]!.body), {
        mailboxId: id,
        filename: "a.bin",
        mediaType: "a/b",
        contentBase64: Buffer.from(expected).toString("base64")
      })
    })
  }

  it("are not mistaken for their Base64", async () => {
    const file = { mailboxId: id, filename: "a.bin", mediaType: "a/b", content: "QUJD" as never } // as from JavaScript

    const error = await failure(client().uploadAttachment(file))

    assert.instanceOf(error, TypeError)
    assert.match((error as Error).message, /Base64 goes into contentBase64/)
  })

  const noBytes: ReadonlyArray<readonly [string, unknown]> = [
    ["a promise of bytes", Promise.resolve(bytes)],
    ["a stream", new Blob([bytes]).stream()],
    ["a Buffer that went through JSON", JSON.parse(JSON.stringify(Buffer.from("a")))],
    ["what reads like a Blob, and has none", { arrayBuffer: () => Promise.resolve("QUJD") }],
    ["what has the name of a Blob's method, and not the method", { arrayBuffer: bytes }],
    ["null", null],
    ["nothing", undefined]
  ]
  for (const [title, content] of noBytes) {
    it(`are not mistaken for empty ones: ${title}`, async () => {
      const file = { mailboxId: id, filename: "a.bin", mediaType: "a/b", content: content as never } // as from JavaScript

      const error = await failure(client().uploadAttachment(file))

      assert.instanceOf(error, TypeError)
      assert.match((error as Error).message, /^content must be bytes or a Blob/)
      assert.deepStrictEqual(server.seen, [])
    })
  }

  it("are waited for no longer than the caller's signal says, and not begun with once it is aborted", async () => {
    const ended = new AbortController()
    let begun = 0
    const arrayBuffer = () => {
      queueMicrotask(() => ended.abort(++begun))
      return new Promise(() => {})
    }
    const upload = { mailboxId: id, filename: "a.bin", mediaType: "a/b", content: { arrayBuffer } as Blob } // as of a disk that is away

    for (let calls = 0; calls < 2; calls++) {
      assert.strictEqual(await failure(client().uploadAttachment(upload, { signal: ended.signal })), 1)
    }
    assert.deepStrictEqual([begun, server.seen], [1, []])
  })

  it("that cannot be read are not uploaded, and tell their own fault", async () => {
    const fault = new Error("the file has changed")
    const content = { arrayBuffer: () => Promise.reject(fault) } as Blob // as of a file

    assert.strictEqual(await failure(client().uploadAttachment({ mailboxId: id, filename: "a.bin", mediaType: "a/b", content })), fault)
    assert.deepStrictEqual(server.seen, [])
  })

  it("come back as bytes", async () => {
    server.play(
      answer(200, { filename: "a.bin", mediaType: "a/b", contentBase64: Buffer.from(bytes).toString("base64") })
    )

    const file = await client().downloadAttachment(id)

    assert.deepStrictEqual([file.filename, file.bytes()], ["a.bin", bytes])
  })
})

describe("Pages", () => {
  const pageOf = (items: ReadonlyArray<number>, nextCursor: string | null) =>
    answer(200, { items: items.map((number) => ({ id: String(number) })), nextCursor })

  it("are read one after another, until there is no cursor", async () => {
    server.play(pageOf([1, 2], "a"), pageOf([], "b"), pageOf([3], null))
    const found: Array<string> = []

    for await (const message of client().messages.all({ limit: 2, mailboxId: id, cursor: "0" })) found.push(message.id)
    const messages = server.seen.map(({ url }) => url)
    server.play(pageOf([4], "c"), pageOf([5], null))
    for await (const event of client().events.all({ limit: 1, cursor: "d" })) found.push(event.id)

    assert.deepStrictEqual(found, ["1", "2", "3", "4", "5"])
    assert.deepStrictEqual(messages, ["0", "a", "b"].map((cursor) => `/v1/messages?limit=2&mailboxId=${id}&cursor=${cursor}`))
    assert.deepStrictEqual(server.seen.map(({ url }) => url), ["d", "c"].map((cursor) => `/v1/events?limit=1&cursor=${cursor}`))
  })

  it("tell where to resume once they are processed: after the last one, at the last cursor there was", async () => {
    server.play(pageOf([1], "b"), pageOf([2], "c"), pageOf([3], null), pageOf([], null))
    const mailroom = client()
    const cursors: Array<string | null> = []

    for await (const page of mailroom.events.pages({ cursor: "a" })) cursors.push(page.resumeCursor)
    for await (const page of mailroom.events.pages()) cursors.push(page.resumeCursor)

    assert.deepStrictEqual(cursors, ["b", "c", "c", null])
    assert.deepStrictEqual(server.seen.map(({ url }) => url), [
      "/v1/events?cursor=a",
      "/v1/events?cursor=b",
      "/v1/events?cursor=c",
      "/v1/events"
    ])
  })

  it("are asked for only when they are wanted", async () => {
    server.play(pageOf([1, 2], "a"), pageOf([3], null))

    for await (const event of client().events.all()) if (event.id === "2") break

    assert.lengthOf(server.seen, 1)
  })

  it("do not begin anew where something between has taken the null away that ends them", async () => {
    server.play(pageOf([1], "b"), answer(200, { items: [{ id: "2" }] }), pageOf([1], "b"))
    const cursors: Array<readonly [next: string | null, resume: string | null]> = []

    for await (const page of client().events.pages()) {
      cursors.push([page.nextCursor, page.resumeCursor])
      if (cursors.length === 3) break
    }

    assert.deepStrictEqual(cursors, [["b", "b"], [null, "b"]])
  })

  it("do not go in a circle where something between drops the query, or answers from a cache", async () => {
    server.play(pageOf([1], "a"))
    const found: Array<string> = []
    const read = async () => {
      for await (const event of client().events.all()) {
        if (found.push(event.id) > 9) return
      }
    }

    const error = await disconnection(read())

    assert.deepStrictEqual([found, server.seen.length], [["1"], 2])
    assert.deepStrictEqual([error.reason, error.operation], ["invalid_response", "listEvents"])
    assert.match(error.message, /^listEvents: the page at a cursor leads to itself/)
  })

  it("end with the caller's signal, also between two of them", async () => {
    for (const list of ["messages", "events"] as const) {
      server.play(pageOf([1], "a"))
      const ended = new AbortController()
      const found: Array<string> = []
      const read = async () => {
        for await (const { id } of client()[list].all({}, { signal: ended.signal })) {
          found.push(id)
          ended.abort("enough")
        }
      }

      assert.strictEqual(await failure(read()), "enough")
      assert.deepStrictEqual([found, server.seen.length], [["1"], 1])
    }
  })

  it("fail where the list fails, and go on from a stored cursor", async () => {
    server.play(pageOf([1], "a"), refuse(403, "insufficient_scope"), pageOf([2], null))
    const found: Array<string> = []
    let cursor: string | null = null
    const read = async () => {
      for await (const page of client().events.pages({ cursor })) {
        found.push(...page.items.map((event) => event.id))
        cursor = page.resumeCursor
      }
    }

    await refusal(read())
    await read()

    assert.deepStrictEqual(found, ["1", "2"])
    assert.strictEqual(server.seen[2]!.url, "/v1/events?cursor=a")
  })
})
