import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schedule, Scope, Stream } from "effect"
import { connect } from "node:net"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import * as Harness from "./harness.ts"

const live = { excludeTestServices: true }
const host = "Host: mail.example"
const chunked = "Transfer-Encoding: chunked"

const sending = (server: Harness.Harness) => [
  Harness.bearer(server),
  "Content-Type: application/json",
  "Idempotency-Key: 12345678"
]

/** The status, and the code if the body is our envelope. */
const outcome = (answer: string): string => {
  const [head, body = ""] = answer.split("\r\n\r\n")
  const status = /^HTTP\/1\.1 (\d{3})/.exec(head!)?.[1] ?? "none"
  if (status === "none") return status
  const id = /\r\nx-request-id: ([0-9a-f-]{36})/i.exec(head!)?.[1]
  const envelope = JSON.parse(body) as { readonly code: string; readonly requestId: string }
  assert.strictEqual(envelope.requestId, id)
  assert.match(head!, /\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/i)
  const said = ["connection: close", "content-type: application/json", "cache-control: no-store", "x-content-type-options: nosniff"]
  for (const line of [...said, `content-length: ${Buffer.byteLength(body)}`]) assert.include(`${head!.toLowerCase()}\r\n`, `\r\n${line}\r\n`)
  return `${status} ${envelope.code}`
}

const timeouts = { headersTimeout: 300, requestTimeout: 600, connectionsCheckingInterval: 50 }

layer(Harness.layer({ timeouts }), live)("Malformed HTTP", (it) => {
  const get = (...headers: ReadonlyArray<string>) => Harness.wire("GET /v1/messages", headers)
  const post = (headers: ReadonlyArray<string>, body = "") => Harness.wire("POST /v1/messages", headers, body)
  const smuggled = `0\r\n\r\n${Harness.wire("GET /docs")}`
  const requests: ReadonlyArray<readonly [what: string, text: string, expected: string]> = [
    ["Content-Length and Transfer-Encoding", post(["Content-Length: 4", "Transfer-Encoding: chunked"], smuggled), "400 invalid_request"],
    ["two Content-Lengths", post(["Content-Length: 1", "Content-Length: 2"], "{}"), "400 invalid_request"],
    ["a Content-Length that is a list", post(["Content-Length: 2, 2"], "{}"), "400 invalid_request"],
    ["a negative Content-Length", post(["Content-Length: -1"]), "400 invalid_request"],
    ["chunked that is not the last coding", post(["Transfer-Encoding: chunked, gzip"]), "400 invalid_request"],
    ["chunked in HTTP/1.0", post(["Connection: keep-alive", chunked], smuggled).replace("HTTP/1.1", "HTTP/1.0"), "400 invalid_request"],
    ["chunked in HTTP/0.9", post(["Connection: keep-alive", chunked], smuggled).replace("HTTP/1.1", "HTTP/0.9"), "400 invalid_request"],
    ["a folded header", get("X-A: b\r\n c"), "400 invalid_request"],
    ["a header that ends in LF alone", get("X-A: b").replaceAll("\r\n", "\n"), "400 invalid_request"],
    ["CR alone in a header", get("X-A: b\rX-B: c"), "400 invalid_request"],
    ["NUL in a header", get("X-A: \u0000"), "400 invalid_request"],
    ["a space before the colon", get("X-A : b"), "400 invalid_request"],
    ["no HTTP at all", "EHLO mail.example\r\n\r\n", "400 invalid_request"],
    ["TLS", "\u0016\u0003\u0001\u0002\u0000\u0001", "400 invalid_request"],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 invalid_request"],
    ["a tunnel that is wanted", Harness.wire("CONNECT mail.example:25", [], "EHLO mail.example\r\n"), "404 not_found"],
    ["a header section of more than 16 KiB", get(`X-A: ${"a".repeat(17_000)}`), "431 headers_too_large"],
    ["a path of more than 16 KiB", Harness.wire(`GET /${"a".repeat(17_000)}`), "431 headers_too_large"],
    ["headers that never end", get("X-A: ").slice(0, -4), "408 request_timeout"]
  ]
  for (const [what, text, expected] of requests) {
    it.effect(`is answered with ${expected}: ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const answer = yield* server.raw(text)

        assert.strictEqual(outcome(answer), expected)
        assert.strictEqual((yield* server.call("GET", "/healthz")).status, 200)
      })
    )
  }

  it.effect("is answered with 400 when a body's chunks break off in garbage, and with 408 when they stop coming", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const head = Harness.wire("POST /v1/messages", [...sending(server), chunked])

      const garbage = yield* server.raw([head, "1\r\n{\r\n", "xyz\r\n"])
      const silence = yield* server.raw([head, "1\r\n{\r\n"])

      assert.strictEqual(outcome(garbage), "400 invalid_request")
      assert.strictEqual(outcome(silence), "408 request_timeout")
      assert.isFalse(server.logs.some((line) => line.includes("defect")))
    })
  )

  it.effect("is answered with 400 when the Host is missing, and when there are two", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const missing = yield* server.raw("GET /v1/messages HTTP/1.1\r\nConnection: close\r\n\r\n")
      const two = yield* server.raw(get("Host: other.example", Harness.bearer(server), "Connection: close"))

      assert.deepStrictEqual([missing, two].map(outcome), ["400 invalid_request", "400 invalid_request"])
    })
  )

  it.effect("ends its connection where it is chunked before HTTP/1.1, also if something else is the matter, and at a probe", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const asked = (line: string, headers: ReadonlyArray<string> = []) =>
        server.raw(Harness.wire(line, ["Connection: keep-alive", chunked, ...headers], smuggled).replace("HTTP/1.1", "HTTP/1.0"))

      const answers = yield* Effect.all([asked("GET /healthz"), asked("POST /v1/messages", ["Host: other.example"])])

      assert.deepStrictEqual(answers.map((answer) => answer.match(/HTTP\/1\.1 \d{3}/g)), [["HTTP/1.1 200"], ["HTTP/1.1 400"]])
      for (const answer of answers) assert.match(answer, /\r\nconnection: close/i)
    })
  )

  it.effect("behind a good request does not spoil the answer to that", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const answer = yield* server.raw(Harness.wire("GET /v1/mailboxes", [Harness.bearer(server)], "rubbish\r\n\r\n"))

      assert.match(answer, /^HTTP\/1\.1 200 [^]*"items"/)
      assert.strictEqual(answer.match(/HTTP\/1\.1/g)!.length, 1)
    })
  )
})

layer(Harness.layer(), live)("The HTTP runtime", (it) => {
  it.effect("answers 413 without reading the body that was announced, and closes the connection", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const caps = [
        ["POST", "/v1/messages", 16 * 1024 * 1024, "payload_too_large"],
        ["POST", "/v1/attachments", 36 * 1024 * 1024, "attachment_too_large"],
        ["PATCH", `/v1/messages/${crypto.randomUUID()}`, 64 * 1024, "payload_too_large"],
        ["GET", "/v1/messages", 64 * 1024, "payload_too_large"]
      ] as const
      for (const [method, path, cap, code] of caps) {
        const over = yield* server.raw(Harness.wire(`${method} ${path}`, [`Content-Length: ${cap + 1}`]))
        const at = yield* server.raw(Harness.wire(`${method} ${path}`, [`Content-Length: ${cap}`, "Expect: 100-continue"]))

        assert.strictEqual(outcome(over), `413 ${code}`)
        assert.include(over, code === "payload_too_large" ? `"details":{"limitBytes":${cap}}` : `"details":{"limitBytes":`)
        assert.strictEqual(outcome(at), "401 unauthorized")
      }
    })
  )

  it.effect("answers 413 to a chunked body at the byte that is too many", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const path = `/v1/messages/${crypto.randomUUID()}`
      const body = (size: number) => [
        Harness.wire(`PATCH ${path}`, [...sending(server), chunked]),
        `${size.toString(16)}\r\n${" ".repeat(size)}\r\n`
      ]

      const over = yield* server.raw(body(64 * 1024 + 1))
      const at = yield* server.raw([...body(64 * 1024), "0\r\n\r\n"])

      assert.strictEqual(outcome(over), "413 payload_too_large")
      assert.match(at, /^HTTP\/1\.1 400 [^]*empty_body/)
    })
  )

  it.effect("serves a request that wants an upgrade or has another expectation as it is", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const h2c = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"]
      for (const extra of [h2c, ["Connection: Upgrade", "Upgrade: websocket"], ["Expect: miracles"]]) {
        const answer = yield* server.raw(Harness.wire("GET /v1/mailboxes", [Harness.bearer(server), ...extra]))
        assert.match(answer, /^HTTP\/1\.1 200 [^]*"items"/)
      }
      const headers = [...sending(server), ...h2c, chunked]
      const sent = yield* server.raw(Harness.wire("POST /v1/messages", headers, "2\r\n{}\r\n0\r\n\r\n"))
      assert.match(sent, /^HTTP\/1\.1 400 [^]*"invalid_request"/)
    })
  )

  it.effect("takes no line of a header for the whole, where there must be one and are two", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const [key, type, idempotencyKey] = sending(server)
      const other = `Authorization: Bearer ${(yield* server.party()).key}`
      const post = (...headers: ReadonlyArray<string>) =>
        Effect.map(server.raw(Harness.wire("POST /v1/messages", [...headers, "Connection: close", "Content-Length: 2"], "{}")), outcome)

      assert.strictEqual(yield* post(key!, other, type!, idempotencyKey!), "401 unauthorized")
      assert.strictEqual(yield* post(other, key!, type!, idempotencyKey!), "401 unauthorized")
      assert.strictEqual(yield* post(key!, type!, "Content-Type: text/plain", idempotencyKey!), "415 unsupported_media_type")
      assert.strictEqual(yield* post(key!, type!, idempotencyKey!, idempotencyKey!), "400 invalid_idempotency_key")
      assert.strictEqual(yield* post(key!, type!, idempotencyKey!), "400 invalid_request")
    })
  )

  it.effect("answers HEAD as GET, without the body", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const get = yield* server.call("GET", "/v1/mailboxes")
      const head = yield* server.call("HEAD", "/v1/mailboxes")
      const refused = yield* server.call("HEAD", "/v1/mailboxes", { key: null })

      assert.deepStrictEqual([head.status, head.text], [200, ""])
      assert.strictEqual(head.headers.get("content-length"), get.headers.get("content-length"))
      assert.deepStrictEqual([refused.status, refused.text], [401, ""])
    })
  )

  it.effect("names the methods of a path that has others", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const expected = [
        ["DELETE", "/v1/messages", "GET, HEAD, POST"],
        ["OPTIONS", `/v1/messages/${crypto.randomUUID()}`, "GET, HEAD, PATCH"],
        ["POST", "/healthz", "GET, HEAD"],
        ["POST", "/docs", "GET, HEAD"],
        ["GET", "/v1/attachments", "POST"]
      ] as const
      for (const [method, path, allow] of expected) {
        const reply = yield* server.call(method, path)

        assert.deepStrictEqual([reply.status, reply.json.code, reply.headers.get("allow")], [405, "method_not_allowed", allow])
      }
    })
  )
})

const listing = (server: Harness.Harness) => Harness.wire("GET /v1/mailboxes", [Harness.bearer(server)])

const unreadable = [
  ["bytes that are no request", () => "rubbish\r\n\r\n", "400 invalid_request"],
  [
    "a body that breaks off in garbage",
    (server: Harness.Harness) => Harness.wire("POST /v1/messages", [...sending(server), chunked], "1\r\n{\r\nxyz\r\n"),
    "400 invalid_request"
  ],
  ["a tunnel that is wanted", () => Harness.wire("CONNECT mail.example:25"), "404 not_found"]
] as const
for (const [what, behind, expected] of unreadable) {
  it.live(`Malformed HTTP behind a request that waits for its answer is not answered, and ends the connection after that: ${what}`, () =>
    Effect.gen(function* () {
      const { server, mayGoOn } = yield* hesitant
      const client = yield* dialled(server.port)

      client.write(listing(server) + behind(server))
      yield* isRead(server)
      yield* mayGoOn
      const answer = yield* client.closed

      assert.match(answer, /^HTTP\/1\.1 200 [^]*"items"/)
      assert.strictEqual(answer.match(/HTTP\/1\.1/g)!.length, 1)
    }).pipe(Effect.scoped)
  )

  it.live(`Malformed HTTP behind an answer is answered: ${what}`, () =>
    Effect.gen(function* () {
      const { server } = yield* hesitant
      const client = yield* dialled(server.port)
      client.write(Harness.wire("GET /healthz"))
      yield* Harness.eventually(() => client.received().endsWith("}"))
      const before = client.received().length

      client.write(behind(server))
      const answers = yield* client.closed

      assert.strictEqual(outcome(answers.slice(before)), expected)
    }).pipe(Effect.scoped)
  )
}

it.live("Malformed HTTP in a body is answered once an answer is over that was under way when the body began", () =>
  Effect.gen(function* () {
    const { server, mayGoOn } = yield* hesitant
    const client = yield* dialled(server.port)
    client.write(listing(server) + Harness.wire("POST /v1/messages", [...sending(server), chunked], "1\r\n{\r\n"))
    yield* isRead(server)
    yield* mayGoOn
    yield* Harness.eventually(() => client.received().endsWith("}"))
    const before = client.received().length

    client.write("xyz\r\n")
    const answers = yield* client.closed

    assert.strictEqual(outcome(answers.slice(before)), "400 invalid_request")
  }).pipe(Effect.scoped)
)

it.live("Malformed HTTP in a body that nobody waits for is not answered in the middle of the answer to its request", () =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const server = yield* Harness.start({
      blobs: (blobs) => ({
        ...blobs,
        read: (...of) => Stream.concat(blobs.read(...of), Stream.drain(Stream.fromEffect(Deferred.await(gate))))
      })
    })
    const input = { mailboxId: server.mailbox.id, filename: "note.txt", mediaType: "text/plain", contentBase64: "Tm90ZSBH" }
    const { id } = (yield* server.call("POST", "/v1/attachments", { body: input })).json.attachment
    yield* server.scanned(server, id, "Clean")
    const client = yield* dialled(server.port)

    client.write(Harness.wire(`GET /v1/attachments/${id}/download`, [Harness.bearer(server), chunked], "1\r\n{\r\n"))
    yield* Harness.eventually(() => client.received().endsWith("Tm90ZSBH"))
    client.write("xyz\r\n")
    yield* isRead(server)
    yield* Deferred.succeed(gate, undefined)
    const answer = yield* client.closed

    assert.match(answer, /^HTTP\/1\.1 200 [^]*"contentBase64":"Tm90ZSBH"\}$/)
  }).pipe(Effect.scoped)
)

it.live("A body that ends before its announced length is nobody's message, even if what came of it is one", () =>
  Effect.gen(function* () {
    const { server, mayGoOn } = yield* hesitant
    const client = yield* dialled(server.port)
    const message = JSON.stringify({ fromMailboxId: server.mailbox.id, to: ["charles@mail.example"], text: "The engine weaves" })

    client.write(Harness.wire("POST /v1/messages", [...sending(server), `Content-Length: ${message.length + 1}`], message))
    yield* isRead(server)
    yield* mayGoOn
    const { json } = yield* server.call("GET", "/v1/messages") // by then the other has asked for its body
    client.end()
    const answer = yield* client.closed
    yield* Harness.eventually(() => server.logs.some((line) => line.includes("sendMessage")))
    const after = yield* server.call("GET", "/v1/messages")

    assert.deepStrictEqual([answer, json.items, after.json.items], ["", [], []])
  }).pipe(Effect.scoped)
)

it.live("A body that came in several pieces before anybody asked for it is read whole", () =>
  Effect.gen(function* () {
    const { server, mayGoOn } = yield* hesitant
    const client = yield* dialled(server.port)
    const message = JSON.stringify({ fromMailboxId: server.mailbox.id, to: ["charles@mail.example"], text: "The engine weaves" })

    client.write(Harness.wire("POST /v1/messages", [...sending(server), `Content-Length: ${message.length}`], message.slice(0, 20)))
    yield* isRead(server)
    client.write(message.slice(20))
    yield* isRead(server)
    yield* mayGoOn
    yield* Harness.eventually(() => client.received().endsWith("}"))

    assert.match(client.received(), /^HTTP\/1\.1 202 /)
  }).pipe(Effect.scoped)
)

it.live("A server that stops turns new requests away and lets those in flight finish", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const isReached = yield* Deferred.make<void>()
    const mayGoOn = yield* Deferred.make<void>()
    let isSlow = false
    const server = yield* Harness.start({
      store: (store) => ({
        ...store,
        credentials: {
          ...store.credentials,
          tenant: (id) => Effect.suspend(() => (isSlow ? Effect.fail(new StoreUnavailable({ cause: "away" })) : store.credentials.tenant(id)))
        },
        mailboxes: {
          ...store.mailboxes,
          list: (tenantId) =>
            Effect.suspend(() =>
              isSlow
                ? Deferred.succeed(isReached, undefined).pipe(
                    Effect.andThen(Deferred.await(mayGoOn)),
                    Effect.andThen(store.mailboxes.list(tenantId))
                  )
                : store.mailboxes.list(tenantId)
            )
        }
      })
    }).pipe(Scope.provide(scope))
    isSlow = true
    const slow = yield* Effect.forkChild(server.call("GET", "/v1/mailboxes"))
    yield* Deferred.await(isReached)
    // Two connections that the server sees as busy: their first bytes are there.
    const late = yield* halfSent(server.port, "GET /v1/domains HTTP/1.1\r\n")
    const probe = yield* halfSent(server.port, "GET /readyz HTTP/1.1\r\n")
    const alive = yield* halfSent(server.port, "GET /healthz HTTP/1.1\r\n")

    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    yield* Effect.retry(refusesConnections(server.port), Schedule.spaced("5 millis"))
    const [turnedAway, notReady, stillAlive] = yield* Effect.all([late.finish, probe.finish, alive.finish])
    yield* Deferred.succeed(mayGoOn, undefined)
    const served = yield* Fiber.join(slow)
    yield* Fiber.join(closing)

    assert.strictEqual(outcome(turnedAway), "503 unavailable")
    assert.match(turnedAway, /\r\nretry-after: 1\r\n/)
    const requestId = /x-request-id: (\S+)/.exec(turnedAway)?.[1] ?? "none"
    assert.lengthOf(server.logs.filter((line) => line.includes(requestId)), 1, "that it stops is no fault of ours to tell of each time")
    assert.strictEqual(outcome(notReady), "503 unavailable")
    assert.match(notReady, /\r\nretry-after: 1\r\n/) // and not what a store that is away is worth
    assert.match(stillAlive, /^HTTP\/1\.1 200 [^]*connection: close/i)
    assert.deepStrictEqual([served.status, served.headers.get("connection")], [200, "close"])
  }).pipe(Effect.scoped)
)

it.live("A server that stops cuts what does not end in time", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const server = yield* Harness.start({ grace: "50 millis" }).pipe(Scope.provide(scope))
    const stuck = yield* halfSent(server.port, "GET /v1/domains HTTP/1.1\r\n")

    yield* Scope.close(scope, Exit.void)

    assert.strictEqual(yield* stuck.finish, "")
  }).pipe(Effect.scoped)
)

it.live("A server that stops tells whoever is still sending a body, in the envelope, before it cuts", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const server = yield* Harness.start({ grace: "1300 millis" }).pipe(Scope.provide(scope))
    const upload = [
      "POST /v1/attachments HTTP/1.1",
      Harness.bearer(server),
      "Content-Type: application/json",
      "Content-Length: 100000\r\n"
    ].join("\r\n")
    const stalled = yield* halfSent(server.port, upload)
    const answer = yield* Effect.forkChild(stalled.finish) // its body never comes
    yield* server.call("GET", "/v1/mailboxes") // by its answer the upload has been read, too

    yield* Scope.close(scope, Exit.void)

    const text = yield* Fiber.join(answer)
    assert.strictEqual(outcome(text), "503 unavailable")
    assert.match(text, /\r\nretry-after: 1\r\n/i)
    assert.match(text, /\r\nconnection: close\r\n/i)
    assert.match(text, /\r\nx-request-id: /i)
  }).pipe(Effect.scoped)
)

/** A server that has verified a key, and whose store hesitates from then on to say whose it is. */
const hesitant = Effect.gen(function* () {
  let gate = Effect.void
  const server = yield* Harness.start({
    store: (store) => ({
      ...store,
      credentials: { ...store.credentials, byPublicId: (ids) => Effect.andThen(Effect.suspend(() => gate), store.credentials.byPublicId(ids)) }
    })
  })
  yield* server.call("GET", "/v1/mailboxes")
  const mayGoOn = yield* Deferred.make<void>()
  gate = Deferred.await(mayGoOn)
  return { server, mayGoOn: Deferred.succeed(mayGoOn, undefined) }
})

/** By the answer to a later request a server has read what was written to others of its connections before. */
const isRead = (server: Harness.Harness) => server.call("GET", "/healthz")

const dialled = (port: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const socket = connect(port, "127.0.0.1")
      let received = ""
      socket.on("data", (chunk) => void (received += chunk.toString()))
      socket.on("error", () => {})
      const closed = new Promise<string>((resolve) => socket.on("close", () => resolve(received)))
      return {
        write: (text: string) => void socket.write(text),
        end: () => void socket.end(),
        received: () => received,
        /** What was received by the time the server had closed it. */
        closed: Effect.promise(() => closed),
        destroy: () => void socket.destroy()
      }
    }),
    ({ destroy }) => Effect.sync(destroy)
  )

/**
 * A connection on which a request has begun, as the server knows: it has
 * answered one that came in the same packet. `finish` sends the rest and reads the answer.
 */
const halfSent = (port: number, begin: string) =>
  Effect.callback<{ readonly finish: Effect.Effect<string> }>((resume) => {
    const socket = connect(port, "127.0.0.1")
    let received = ""
    const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()))
    const earlier = Harness.wire("GET /healthz")
    socket.on("data", (chunk) => {
      received += chunk.toString()
      if (!received.endsWith("{\"status\":\"alive\"}") || !received.includes("keep-alive")) return
      received = ""
      resume(Effect.succeed({ finish }))
    })
    socket.on("error", () => {})
    const finish = Effect.promise(async () => {
      if (socket.writable) socket.write(`${host}\r\n\r\n`)
      await closed
      return received
    })
    socket.on("connect", () => socket.write(earlier + begin))
  })

const refusesConnections = (port: number) =>
  Effect.callback<void, string>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.on("connect", () => {
      socket.destroy()
      resume(Effect.fail("it still listens"))
    })
    socket.on("error", () => resume(Effect.void))
  })
