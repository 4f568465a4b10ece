import { afterAll, assert, beforeAll, beforeEach, describe, it } from "@effect/vitest"
import { inspect } from "node:util"
import { runInNewContext } from "node:vm"
import { apiKey, connect, disconnection, failure, id, mail, refusal, timeoutMs, virtual } from "./fixtures/party.ts"
import * as Server from "./fixtures/ScriptedServer.ts"
import { answer, breakOff, hangUp, hold, holdBody, refuse, whole, type Step } from "./fixtures/ScriptedServer.ts"
import {
  isCode,
  Mailroom,
  type CallOptions,
  type MailroomOptions,
  type Platform
} from "./index.ts"

let server: Server.ScriptedServer
beforeAll(async () => {
  server = await Server.start()
})
afterAll(() => server.close())
beforeEach(() => server.play(answer(200, whole)))

const client = (options: Partial<MailroomOptions> = {}): Mailroom => connect({ baseUrl: server.baseUrl, ...options })

const isWritten = (value: unknown): boolean => {
  try {
    return JSON.stringify(value) !== undefined
  } catch {
    return false
  }
}

describe("Errors", () => {
  it("are known by their code also to another copy of the client, as bundles and reloads make them", async () => {
    const copy: typeof import("./Errors.ts") = await import(new URL("./Errors.ts?copy", import.meta.url).href)
    server.play(refuse(404, "not_found", {}))

    const error: unknown = await refusal(client().listDomains())

    assert.notInstanceOf(error, copy.MailroomError)
    assert.isTrue(copy.isCode(error, "not_found"))
    assert.isFalse(copy.isCode(error, "unauthorized"))
    assert.isFalse(copy.isCode({ name: "MailroomError", code: "not_found" }, "not_found"))
    assert.isFalse(copy.isCode(Object.assign(new Error("of another library"), { code: "not_found" }), "not_found"))
    assert.isFalse(copy.isCode(null, "not_found"))
  })

  it("have details that belong to their code", async () => {
    const details = { scope: "key", limit: 60, windowSeconds: 60, retryAfterSeconds: 90 }
    server.play(refuse(429, "rate_limited", details, { "retry-after": "90" }))

    const error: unknown = await refusal(client().listDomains())

    if (!isCode(error, "rate_limited")) return assert.fail("it is another")
    assert.strictEqual(error.details.limit, 60)
    assert.deepStrictEqual([error.message, error.name, error.retryAfter, error.details], [
      "What to do about rate_limited.",
      "MailroomError",
      90,
      details
    ])
    assert.isFalse(isCode(error, "quota_exceeded"))
    assert.isFalse(isCode(new Error("other"), "rate_limited"))
  })

  it("keep codes that are not known yet", async () => {
    server.play(refuse(418, "short_and_stout"))

    assert.strictEqual((await refusal(client().listDomains())).code, "short_and_stout")
  })

  const strange: ReadonlyArray<readonly [string, unknown]> = [
    ["a page of a proxy", `<h1>Bad Gateway</h1>${apiKey}`],
    ["nothing", ""],
    ["JSON of another service", { error: { message: apiKey } }],
    ["a list", "[]"],
    ["a code that is no text", { code: 7, message: "x" }],
    ["a message that is no text", { code: "some_code", message: { text: apiKey } }]
  ]
  for (const [title, body] of strange) {
    it(`are typed also if the body is ${title}`, async () => {
      server.play(answer(400, body, { "x-request-id": "from-the-header", "retry-after": "soon" }))

      const error = await refusal(client().listDomains())

      assert.deepInclude({ ...error }, {
        status: 400,
        code: "unknown",
        requestId: "from-the-header",
        details: {},
        retryAfter: null
      })
      assert.match(error.message, /^listDomains: answered 400, not by the service: .* Check both\.$/)
      assert.notInclude(inspect(error), apiKey)
    })
  }

  it("have details that are an object, whatever came", async () => {
    for (const details of [null, [1], "x"]) {
      server.play(refuse(400, "some_code", details))
      assert.deepStrictEqual((await refusal(client().listDomains())).details, {})
    }
  })

  it("have a request id that is text, whatever came", async () => {
    for (const requestId of [null, 7, { id: apiKey }, undefined]) {
      server.play(answer(400, { code: "some_code", message: "x", requestId }))
      assert.isNull((await refusal(client().listDomains())).requestId)
    }
  })

  it("are typed though the body is nested too deep to be written again", async () => {
    const depth = 200_000
    const details = `{"a":${"[".repeat(depth)}"${apiKey}"${"]".repeat(depth)}}`
    server.play(answer(400, `{"code":"some_code","message":"x","requestId":"r","details":${details}}`))

    const error = await refusal(client().listDomains())

    assert.strictEqual(error.status, 400)
    // Later versions of Node write it at any depth.
    let deepest: unknown = error.details["a"]
    while (Array.isArray(deepest)) deepest = deepest[0]
    assert.deepStrictEqual([error.code, deepest], isWritten(JSON.parse(details)) ? ["some_code", "svc_…"] : ["unknown", undefined])
  })

  it("do not follow a redirect, neither here nor to anywhere else", async () => {
    const places = ["/v1/elsewhere", "https://a.example/", `${server.baseUrl}/v1/domains`, "//b.example"]
    for (const [index, location] of places.entries()) {
      const status = [301, 302, 307, 308][index]!
      server.play(answer(status, "", { location }))

      const error = await refusal(client().sendMessage(mail))

      assert.deepStrictEqual([error.status, error.code, server.seen.length], [status, "unknown", 1])
      assert.match(error.message, /^sendMessage: a redirect, not followed/)
    }
  })

  it("tell a redirect also where a runtime hides its status", async () => {
    const hidden = { ok: false, status: 0, type: "opaqueredirect", headers: new Headers(), body: null, text: async () => "" }
    const fetch = () => Promise.resolve(hidden as unknown as Response) // as a worker has it

    assert.match((await refusal(client({ fetch }).listDomains())).message, /^listDomains: a redirect, not followed/)
  })

  it("tell a success that is none of the service's", async () => {
    for (const body of ["<h1>Welcome</h1>", "", "null", "7", "[]", "{}", `{"items":"all"}`, `{"items":{"length":0}}`]) {
      server.play(answer(200, body))

      const error = await disconnection(client().listDomains())

      assert.deepStrictEqual([error.reason, error.attempts, server.seen.length, "cause" in error], ["invalid_response", 1, 1, false])
    }
  })

  it("do not read on where an answer is longer than any of the service's", async () => {
    const chunk = new Uint8Array(16 * 1024 * 1024).fill(0x20)
    for (const [status, says] of [[200, { reason: "invalid_response" }], [503, { status: 503, code: "unknown" }]] as const) {
      let chunks = 0
      let isCancelled = false
      const body = () =>
        new ReadableStream<Uint8Array>({
          pull: (controller) => {
            if (++chunks > 20) throw new Error("read on")
            controller.enqueue(chunk)
          },
          cancel: () => {
            isCancelled = true
            throw new Error("it cannot be left")
          }
        })
      const fetch = () => Promise.resolve(new Response(body(), { status }))

      const error = await failure(client({ fetch, maxRetries: 0 }).listDomains())

      assert.deepInclude(error as object, says)
      assert.isTrue(isCancelled)
    }
  })

  it("do not come of a file as large as mail can bring, of letters in pieces, nor of an answer without a stream", async () => {
    const contentBase64 = "QUJD".repeat(1024 * 1024 * 22) // 66 MiB
    const whole = new Response(JSON.stringify({ filename: "größe 🚀", mediaType: "a/b", contentBase64 }))
    const inHalves = new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (const byte of new TextEncoder().encode(`{"items":["ü🚀"]}`)) controller.enqueue(Uint8Array.of(byte))
        controller.close()
      }
    })
    const others = [null, {}].map((body) => ({ ok: true, status: 200, headers: new Headers(), body, text: async () => `{"items":[]}` }))
    const answers = [whole, new Response(inHalves), ...others]
    const mailroom = client({ fetch: () => Promise.resolve(answers.shift() as Response) }) // without streams, or with those of Node, as node-fetch has them

    const file = await mailroom.downloadAttachment(id)

    assert.deepStrictEqual([file.filename, file.contentBase64.length], ["größe 🚀", contentBase64.length])
    assert.deepStrictEqual(await mailroom.listDomains(), { items: ["ü🚀"] } as never) // as it was answered
    for (const _ of others) assert.deepStrictEqual(await mailroom.listDomains(), { items: [] })
  }, 60_000)

  it("say how to send again safely where the answer to a send was cut short, or taken away", async () => {
    for (const [status, body] of [[202, `{"id":"${id}","obj`], [204, ""], [200, `{"status":"maintenance"}`]] as const) {
      server.play(answer(status, body))

      const error = await disconnection(client().sendMessage(mail))

      assert.deepStrictEqual([error.reason, server.seen.length], ["invalid_response", 1])
      assert.strictEqual(error.idempotencyKey, server.seen[0]!.headers["idempotency-key"])
      assert.match(error.message, new RegExp(`^sendMessage: answered ${status}, and not with the service's whole JSON.* with this error's idempotencyKey`))
    }
  })

  it("tell that nobody listens, and why", async () => {
    const gone = await Server.start()
    await gone.close()
    const error = await disconnection(client({ baseUrl: gone.baseUrl }).getMessage(id))

    assert.deepStrictEqual([error.name, error.reason, error.operation, error.attempts], [
      "MailroomConnectionError",
      "network",
      "getMessage",
      3
    ])
    assert.match(error.message, /^getMessage: no connection, or it broke; .*Check baseUrl.*Try again\.$/)
    assert.match(inspect(error.cause), /ECONNREFUSED/)
  })
})

describe("The API key", () => {
  const printed = (value: unknown): string =>
    [
      String(value),
      JSON.stringify(value),
      inspect(value, { depth: Infinity, showHidden: true, getters: true }),
      (value as Error).stack
    ].join("\n")

  it("is not in anything that the client shows", () => {
    assert.notInclude(printed(client()), apiKey)
    assert.notInclude(printed(client().messages), apiKey)
  })

  it("is not in an error that repeats it, however it is written", async () => {
    const message = `\\u0073${apiKey.slice(1)}`
    const details = `{"${apiKey}":["${apiKey}"]}`
    server.play(answer(400, `{"code":"${apiKey}","message":"${message}","requestId":"${apiKey}","details":${details}}`))

    const error = await refusal(client().listDomains())
    server.play(answer(400, "", { "x-request-id": `of ${apiKey}` }))
    const strange = await refusal(client().listDomains())

    assert.notInclude(printed(error) + printed(strange), apiKey)
    assert.deepStrictEqual([error.message, strange.requestId], ["svc_…", "of svc_…"])
  })

  it("is not in an error that fetch throws with the request in it", async () => {
    const fetch = (_: string, init: RequestInit): Promise<Response> => {
      const inner = Object.assign(new Error(`with ${apiKey}`), { request: init, code: `E_${apiKey}` })
      return Promise.reject(
        Object.assign(new TypeError(`failed ${JSON.stringify(init)}`, { cause: inner }), { config: init })
      )
    }

    const error = await disconnection(client({ fetch, maxRetries: 0 }).sendMessage(mail))

    assert.notInclude(printed(error), apiKey)
    assert.match(inspect(error.cause), /TypeError\]?: failed .*svc_….*Error: with svc_…/s)
  })

  it("is not in an error of another realm either, whose cause is told all the same", async () => {
    const thrown: unknown = runInNewContext(`Object.assign(new TypeError("failed " + key), { code: "E_GONE" })`, { key: apiKey })

    const error = await disconnection(client({ fetch: () => Promise.reject(thrown), maxRetries: 0 }).listDomains())

    assert.notInstanceOf(thrown, Error)
    assert.instanceOf(error.cause, Error)
    assert.match(inspect(error.cause), /TypeError.*failed svc_….*E_GONE/s)
    assert.notInclude(printed(error), apiKey)
  })

  const itself = new Error(`with ${apiKey}`)
  itself.cause = itself
  const marked = { [Symbol.toStringTag]: "DOMException", name: `Abort ${apiKey}`, message: `with ${apiKey}` }
  const thrown: ReadonlyArray<readonly [what: string, thrown: unknown, told: RegExp]> = [
    ["a text", `failed with ${apiKey}`, /^'failed with svc_…'$/],
    ["what is no error", { config: { authorization: `Bearer ${apiKey}` } }, /^undefined$/],
    ["an error of which it is the name", Object.assign(new Error("failed"), { name: `With ${apiKey}` }), /With svc_….*failed/s],
    ["an error whose cause is a text", new Error("failed", { cause: `with ${apiKey}` }), /failed.*'with svc_…'/s],
    ["an error whose cause is no error", new Error("failed", { cause: { authorization: apiKey } }), /failed/],
    ["an error that is its own cause", itself, /with svc_…/],
    ["an error that calls itself otherwise", Object.assign(new Error(`with ${apiKey}`), { [Symbol.toStringTag]: "FetchError" }), /with svc_…/], // node-fetch's
    ["what says that it is an error", marked, /Abort svc_….*with svc_…/s]
  ]
  it("costs no more than the causes behind the fifth of an error", async () => {
    const deep = Array.from({ length: 9 }, (_, index) => 8 - index).reduce<unknown>((cause, depth) => new Error(`error ${depth}`, { cause }), undefined)

    const told: Array<string> = []
    let { cause } = await disconnection(client({ fetch: () => Promise.reject(deep), maxRetries: 0 }).listDomains())
    for (; cause instanceof Error; cause = cause.cause) told.push(cause.message)

    assert.deepStrictEqual(told, ["error 0", "error 1", "error 2", "error 3", "error 4", "error 5"])
  })

  for (const [what, fault, told] of thrown) {
    it(`is not in an error where fetch throws ${what}, with the key in it`, async () => {
      const error = await disconnection(client({ fetch: () => Promise.reject(fault), maxRetries: 0 }).listDomains())

      assert.match(inspect(error.cause), told)
      assert.notInclude(printed(error), apiKey)
    })
  }

  it("goes nowhere but into one header, of either kind", async () => {
    for (const key of [apiKey, apiKey.replace("test", "live")]) {
      await client({ apiKey: key }).sendMessage(mail)

      const { headers, url, body } = server.seen.at(-1)!
      assert.deepStrictEqual(
        Object.entries({ ...headers, url, body }).filter(([, text]) => String(text).includes(key)),
        [["authorization", `Bearer ${key}`]]
      )
    }
  })
})

describe("Time", () => {
  const whenSeen = async (count: number) => {
    while (server.seen.length < count) await new Promise((resolve) => setImmediate(resolve))
  }

  for (const [title, step] of [["the answer", hold], ["the rest of the answer", holdBody]] as const) {
    it(`runs out while ${title} does not come; the next try may succeed`, async () => {
      server.play(step, answer(200, { items: [] }))
      const { platform, timeouts, waits } = virtual()
      const pending = client({ platform }).listDomains()
      await whenSeen(1)
      timeouts[0]!()

      assert.deepStrictEqual([await pending, waits.length, timeouts.length], [{ items: [] }, 1, 2])
    })
  }

  it("runs out after a minute unless another is given", async () => {
    for (const [timeoutMs, expected] of [[undefined, 60_000], [5, 5]] as const) {
      const { platform, waits } = virtual()

      const error = await disconnection(client({ platform, timeoutMs, maxRetries: 0, fetch: () => new Promise(() => {}) }).listDomains())

      assert.deepStrictEqual([error.reason, waits], ["timeout", [expected]])
    }
  })

  it("runs out for a fetch that minds no signal", async () => {
    const { platform, timeouts } = virtual()
    const pending = disconnection(
      client({ platform, maxRetries: 0, fetch: () => new Promise(() => {}) }).sendMessage(mail)
    )
    while (timeouts.length === 0) await Promise.resolve()
    timeouts[0]!()

    const error = await pending
    assert.strictEqual(error.reason, "timeout")
    assert.match(
      error.message,
      /^sendMessage: no complete answer within 59999 ms \(timeoutMs\)\. Whether the message was queued is not known/
    )
  })

  it("ends with the caller's signal: before, during a request, and while waiting for the next", async () => {
    const reason = new Error("enough")
    assert.strictEqual(await failure(client().listDomains({ signal: AbortSignal.abort(reason) })), reason)
    assert.lengthOf(server.seen, 0)

    for (const step of [hold, holdBody]) {
      server.play(step)
      const during = new AbortController()
      const pending = failure(client().listDomains({ signal: during.signal }))
      await whenSeen(1)
      during.abort(reason)
      assert.strictEqual(await pending, reason)
    }

    const last = new AbortController()
    let told: unknown
    const fetch = (_: string, { signal }: RequestInit) =>
      new Promise<Response>(() => {
        signal!.addEventListener("abort", () => (told = signal!.reason))
        last.abort(reason)
      })
    assert.strictEqual(await failure(client({ fetch, maxRetries: 0 }).listDomains({ signal: last.signal })), reason)
    assert.strictEqual(told, reason)

    server.play(refuse(503, "unavailable"))
    const waiting = new AbortController()
    const cancelled: Array<number> = []
    const after: Platform["after"] = (milliseconds) => {
      if (milliseconds !== timeoutMs) setImmediate(() => waiting.abort(reason))
      return () => void cancelled.push(milliseconds)
    }
    assert.strictEqual(
      await failure(client({ platform: { after, random: () => 0 } }).listDomains({ signal: waiting.signal })),
      reason
    )
    assert.deepStrictEqual([server.seen.length, cancelled], [1, [timeoutMs, 250]])
  })

  it("does not begin to wait once the caller has ended it", async () => {
    const ended = new AbortController()
    server.play(refuse(503, "unavailable"))
    const { platform, waits } = virtual()
    const random = () => {
      ended.abort("enough")
      return 0
    }

    assert.strictEqual(
      await failure(client({ platform: { ...platform, random } }).listDomains({ signal: ended.signal })),
      "enough"
    )
    assert.deepStrictEqual([server.seen.length, waits], [1, []])
  })

  it("leaves no listener on the caller's signal", async () => {
    const { signal } = new AbortController()
    let listeners = 0
    const counted = new Proxy(signal, {
      get: (target, name) => {
        if (name === "addEventListener") listeners += 1
        if (name === "removeEventListener") listeners -= 1
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === "function" ? value.bind(target) : value
      }
    })
    server.play(refuse(503, "unavailable"), answer(200, whole))

    await client().uploadAttachment({ mailboxId: id, filename: "a.txt", mediaType: "a/b", content: new Blob(["x"]) }, { signal: counted })

    assert.strictEqual(listeners, 0)
  })

  it("is the machine's own unless another is given", async () => {
    const fetch = () => new Promise<Response>(() => {})
    const error = await disconnection(
      new Mailroom({ baseUrl: server.baseUrl, apiKey, fetch, timeoutMs: 1, maxRetries: 1, maxRetryDelayMs: 1 })
        .listDomains()
    )

    assert.deepStrictEqual([error.reason, error.attempts], ["timeout", 2])
  })
})

describe("Retries", () => {
  /** The requests that were made, which is what the error says. */
  const attempts = async (step: Step, options: Partial<MailroomOptions> = {}, call: CallOptions = {}) => {
    server.play(step)
    const error = await failure(client(options).listDomains(call))
    assert.propertyVal(error, "attempts", server.seen.length)
    return server.seen.length
  }

  it("are two, or as many as the client or the call is told", async () => {
    const step = refuse(503, "unavailable")

    assert.strictEqual(await attempts(step), 3)
    assert.strictEqual(await attempts(step, { maxRetries: 0 }), 1)
    assert.strictEqual(await attempts(step, { maxRetries: 5 }), 6)
    assert.strictEqual(await attempts(step, { maxRetries: 5 }, { maxRetries: 1 }), 2)
    assert.instanceOf(await failure(client().listDomains({ maxRetries: -1 })), TypeError)
    assert.instanceOf(await failure(client().listDomains({ timeoutMs: Number.NaN })), TypeError)
  })

  it("come after a connection that broke, also in the middle of an answer", async () => {
    assert.strictEqual(await attempts(hangUp), 3)
    assert.strictEqual(await attempts(breakOff), 3)
  })

  it("wait as the service asks, plus a random moment", async () => {
    const { platform, waits } = virtual(0.5, Date.parse("2026-12-01T09:30:00Z"))
    server.play(
      refuse(429, "rate_limited", {}, { "retry-after": "8" }),
      refuse(503, "unavailable", {}, { "retry-after": "Tue, 01 Dec 2026 09:30:20 GMT" }),
      answer(200, whole)
    )

    await client({ platform }).listDomains()

    assert.deepStrictEqual(waits, [8_000 + 1_000, 20_000 + 2_500])
  })

  it("do not wait for tomorrow: what the service asks for beyond maxRetryDelayMs fails at once", async () => {
    const step = refuse(429, "quota_exceeded", {}, { "retry-after": "30" })

    assert.strictEqual(await attempts(step, { maxRetryDelayMs: 29_999 }), 1)
    assert.strictEqual(await attempts(step, { maxRetryDelayMs: 30_000 }), 3)
    assert.strictEqual((await refusal(client({ maxRetryDelayMs: 0 }).listDomains())).retryAfter, 30)
  })
})
