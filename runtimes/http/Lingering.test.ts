import { assert, it, vi } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch, Schedule, Scope, Stream } from "effect"
import type { Server } from "node:http"
import { connect, Server as TcpServer, type Socket } from "node:net"
import type { Store } from "../../core/ports/Store.ts"
import * as Harness from "./harness.ts"
import { upload } from "./parties.ts"
import { pipelinedMax } from "./Pipelining.ts"
import { timeouts } from "./Server.ts"

/** A connection that nobody reads from until it is told to. */
const unread = (port: number) =>
  Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const socket = connect(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
      socket.on("error", () => {})
      socket.pause()
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

/** The id of an attachment of so many bytes, which may be read. */
const stored = Effect.fnUntraced(function* (server: Harness.Harness, sizeBytes: number) {
  const { json } = yield* upload(server, server, { contentBase64: Buffer.alloc(sizeBytes).toString("base64") })
  yield* server.scanned(server, json.attachment.id, "Clean")
  return json.attachment.id as string // as every id
})

/** A server, and Node's own that it listens by. */
const started = Effect.fnUntraced(function* (options: Parameters<typeof Harness.start>[0] = {}) {
  const listening = vi.spyOn(TcpServer.prototype, "listen")
  yield* Effect.addFinalizer(() => Effect.sync(() => listening.mockRestore()))
  const server = yield* Harness.start(options)
  return { server, listener: listening.mock.contexts[0] as Server } // it was just called
})

/** So many requests in one piece, each for a path that there is not. */
const pipelined = (count: number, headers: ReadonlyArray<string> = []) =>
  Array.from({ length: count }, (_, index) => Harness.wire(`GET /n${index}`, index === count - 1 ? [...headers, "Connection: close"] : headers)).join("")

/** How many of them came to whoever answers. */
const heardOf = (server: Harness.Harness) => server.logs.filter((line) => line.includes('"route":"/n')).length

it.live("A connection with more requests under way than may be is closed before anybody hears of what is too much; with as many it has all answers", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()

    const answers = yield* server.raw(pipelined(pipelinedMax))
    assert.strictEqual(answers.match(/HTTP\/1\.1 404/g)!.length, pipelinedMax)
    const cut = yield* server.raw(pipelined(pipelinedMax + 500))

    assert.isAtMost(cut.split("HTTP/1.1 404").length - 1, pipelinedMax)
    assert.strictEqual((yield* server.call("GET", "/healthz")).status, 200)
    assert.isAtMost(heardOf(server), 2 * pipelinedMax)
    assert.lengthOf(server.logs.filter((line) => line.includes("a connection was closed: more than")), 1)
  }).pipe(Effect.scoped)
)

it.live("Requests that ask for leave to send their body count as others do", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()

    yield* server.raw(pipelined(pipelinedMax + 500, ["Expect: 100-continue"]))

    assert.strictEqual((yield* server.call("GET", "/healthz")).status, 200)
    assert.isAtMost(heardOf(server), pipelinedMax)
    assert.lengthOf(server.logs.filter((line) => line.includes("a connection was closed: more than")), 1)
  }).pipe(Effect.scoped)
)

it.live("A connection has any number of requests, one after the answer to another", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const socket = yield* unread(server.port)
    let heard = ""
    socket.on("data", (bytes) => (heard += bytes.toString()))
    socket.resume()

    for (let count = 1; count <= pipelinedMax + 2; count++) {
      socket.write(Harness.wire("GET /healthz"))
      yield* Harness.eventually(() => socket.destroyed || heard.split('{"status":"alive"}').length - 1 === count)
      assert.isFalse(socket.destroyed, `it was closed at the request ${count}`)
    }
  }).pipe(Effect.scoped)
)

it.live("A server with as many connections as it takes closes further ones at once, says so once, and takes others when some have ended", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start({ connectionsMax: 2 })
    const asked = server.raw(Harness.wire("GET /healthz", ["Connection: close"]))
    const statusOf = (answer: string) => answer.split("\r\n")[0]
    const [idle] = yield* Effect.all([unread(server.port), unread(server.port)])

    for (let count = 0; count < 3; count++) assert.strictEqual(yield* asked, "")
    assert.lengthOf(server.logs.filter((line) => line.includes("a connection was closed: there are 2,")), 1)

    idle.destroy()
    const answer = yield* asked.pipe(
      Effect.repeat({ schedule: Schedule.spaced("5 millis"), until: (text) => text !== "" }),
      Effect.timeout("10 seconds")
    )
    assert.strictEqual(statusOf(answer), "HTTP/1.1 200 OK")
  }).pipe(Effect.scoped)
)

const tunnel = Harness.wire("CONNECT mail.example:25")

for (const [behind, what] of [["", ""], [tunnel, ", and wants a tunnel besides,"]] as const) {
  it.live(`A client that takes nothing of its answer any more${what} is given up, with all that was open for it`, () =>
    Effect.gen(function* () {
      let open = 0
      const counted = Effect.acquireRelease(
        Effect.sync(() => void (open += 1)),
        () => Effect.sync(() => void (open -= 1))
      )
      const { server, listener } = yield* started({
        blobs: (real) => ({ ...real, read: (tenantId, blob) => Stream.unwrap(Effect.as(counted, real.read(tenantId, blob))) })
      })
      // More than the system holds for a connection.
      const id = yield* stored(server, 24_000_000)
      assert.strictEqual(listener.timeout, timeouts.silenceTimeout)
      listener.setTimeout(1_000) // of connections that come from here on; the upload has the time it needs

      const socket = yield* unread(server.port)
      socket.write(Harness.wire(`GET /v1/attachments/${id}/download`, [Harness.bearer(server)]) + behind)

      yield* Harness.eventually(() => open === 1)
      yield* Harness.eventually(() => open === 0)
    }).pipe(Effect.scoped)
  )
}

it.live("A client that takes of its answer a little now and then, and so no piece of it in time, is given up as well", () =>
  Effect.gen(function* () {
    let open = 0
    const counted = Effect.acquireRelease(
      Effect.sync(() => void (open += 1)),
      () => Effect.sync(() => void (open -= 1))
    )
    const server = yield* Harness.start({
      timeouts: { silenceTimeout: 2_000 },
      blobs: (real) => ({
        ...real,
        read: (tenantId, blob) => Stream.unwrap(Effect.as(counted, Stream.fromEffect(Stream.mkUint8Array(real.read(tenantId, blob))))) // in one piece
      })
    })
    const id = yield* stored(server, 24_000_000)

    const socket = yield* unread(server.port)
    socket.write(Harness.wire(`GET /v1/attachments/${id}/download`, [Harness.bearer(server)]))
    yield* Harness.eventually(() => open === 1)
    // What the system has room for again, it says in pieces of 64 KiB: so there is no silence.
    const sipping = setInterval(() => void socket.read(), 50)
    yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(sipping)))

    yield* Harness.eventually(() => open === 0)
    assert.isBelow(socket.bytesRead, 24_000_000)
  }).pipe(Effect.scoped)
)

it.live("A tenant that takes none of many downloads is refused more of them, and nothing else; and nobody else is", () =>
  Effect.gen(function* () {
    let reads = 0
    const server = yield* Harness.start({
      planId: "dev",
      ipRequestsPerMinute: 1_000,
      blobs: (real) => ({ ...real, read: (tenantId, blob) => Stream.suspend(() => ((reads += 1), real.read(tenantId, blob))) })
    })
    const other = yield* server.party({ planId: "dev" })
    const path = `/v1/attachments/${yield* stored(server, 9_000_000)}/download`
    const ofOther = (yield* upload(server, other, { contentBase64: Buffer.alloc(2_000_000).toString("base64") })).json.attachment.id
    yield* server.scanned(other, ofOther, "Clean")
    const status = (of: string, key = server.key) => Effect.map(server.call("GET", of, { key }), (reply) => reply.status)

    const sockets = yield* Effect.forEach(Array.from({ length: 70 }), () => unread(server.port))
    for (const socket of sockets) socket.write(Harness.wire(`GET ${path}`, [Harness.bearer(server)]))
    yield* Harness.eventually(() => server.logs.filter((line) => line.includes(`"downloadAttachment"`)).length === 70)

    const refused = yield* server.call("GET", path)
    assert.deepStrictEqual([refused.status, refused.json.code, refused.headers.get("retry-after")], [503, "unavailable", "5"])
    assert.lengthOf(server.logs.filter((line) => line.includes(`"downloadAttachment"`) && line.includes(`"status":200`)), 64)
    assert.strictEqual(reads, 64, "what is refused is not read")
    assert.deepStrictEqual([yield* status("/v1/mailboxes"), yield* status(`/v1/attachments/${ofOther}/download`, other.key)], [200, 200])
    for (const socket of sockets) socket.destroy()
    yield* Effect.repeat(status(path), { until: (found) => found === 200, times: 1_000 })
    assert.strictEqual(yield* status(path), 200)
  }).pipe(Effect.scoped)
)

it.live("A tenant that takes none of many large answers is refused more of them, and nothing else; and nobody else is", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start({ planId: "dev", ipRequestsPerMinute: 1_000 })
    const other = yield* server.party({ planId: "dev" })
    const large = { text: "\u4e2d".repeat(1_000_000), html: "\u4e2d".repeat(2_000_000) } // 9 MB
    const path = `/v1/messages/${(yield* server.send(large)).json.id}`
    const ofOther = `/v1/messages/${(yield* server.send({ ...large, fromMailboxId: other.mailbox.id }, { key: other.key })).json.id}`
    const status = (of: string, key = server.key) => Effect.map(server.call("GET", of, { key }), (reply) => reply.status)
    assert.strictEqual(yield* status(path), 200)

    const sockets = yield* Effect.forEach(Array.from({ length: 12 }), () => unread(server.port))
    for (const socket of sockets) socket.write(Harness.wire(`GET ${path}`, [Harness.bearer(server)]))
    yield* Harness.eventually(() => server.logs.filter((line) => line.includes(`"getMessage"`)).length === 13)

    const refused = yield* server.call("GET", path)
    assert.deepStrictEqual([refused.status, refused.json.code, refused.headers.get("retry-after")], [503, "unavailable", "5"])
    assert.deepStrictEqual([yield* status("/v1/mailboxes"), yield* status(ofOther, other.key)], [200, 200])
    for (const socket of sockets) socket.destroy()
    yield* Effect.repeat(status(path), { until: (found) => found === 200, times: 1_000 })
    assert.strictEqual(yield* status(path), 200)
  }).pipe(Effect.scoped)
)

it.live("A download that somebody wants a tunnel behind comes to its end, and the connection after it", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const id = yield* stored(server, 3_000_000)
    const socket = yield* unread(server.port)
    let [heard, isClosed] = ["", false]
    socket.on("data", (bytes) => (heard += bytes.toString()))
    socket.on("close", () => (isClosed = true))
    socket.write(Harness.wire("GET /healthz") + Harness.wire(`GET /v1/attachments/${id}/download`, [Harness.bearer(server)]) + tunnel)

    socket.resume()

    yield* Harness.eventually(() => isClosed)
    assert.match(heard, /^HTTP\/1\.1 200 .*A"\}/s)
    assert.isAbove(heard.length, 4_000_000)
  }).pipe(Effect.scoped)
)

it.live("A connection that somebody wants a tunnel on costs itself alone when it breaks", () =>
  Effect.gen(function* () {
    const { server, listener } = yield* started()
    const wanted: Array<Socket> = []
    listener.on("connect", (_: unknown, socket: Socket) => wanted.push(socket))
    const id = yield* stored(server, 24_000_000)
    const client = yield* unread(server.port)
    client.write(Harness.wire(`GET /v1/attachments/${id}/download`, [Harness.bearer(server)]) + tunnel)
    yield* Harness.eventually(() => wanted.length === 1)

    wanted[0]!.emit("error", new Error("read ECONNRESET"))

    assert.isTrue(wanted[0]!.destroyed)
    assert.strictEqual((yield* server.call("GET", "/healthz")).status, 200)
  }).pipe(Effect.scoped)
)

it("Silence is borne for longer than a request may take, whose sender is told so", () => {
  assert.isAbove(timeouts.silenceTimeout, timeouts.requestTimeout + timeouts.connectionsCheckingInterval)
})

it.live("Garbage behind a request that is under way leaves nothing at its answer, however often it comes", () =>
  Effect.gen(function* () {
    const warnings: Array<string> = []
    const hear = (warning: Error) => void warnings.push(warning.name)
    yield* Effect.acquireRelease(
      Effect.sync(() => process.on("warning", hear)),
      () => Effect.sync(() => process.off("warning", hear))
    )
    const gate = yield* Latch.make()
    let isAsked = false
    const held = (real: typeof Store.Service): typeof Store.Service["mailboxes"] => ({
      ...real.mailboxes,
      list: (...args) => {
        isAsked = true
        return Effect.andThen(gate.await, real.mailboxes.list(...args))
      }
    })
    const server = yield* Harness.start({ store: (real) => ({ ...real, mailboxes: held(real) }) })
    const socket = yield* unread(server.port)
    let heard = ""
    socket.on("data", (bytes) => (heard += bytes.toString()))
    socket.write(Harness.wire("GET /v1/mailboxes", [Harness.bearer(server)]))
    yield* Harness.eventually(() => isAsked)

    for (let piece = 0; piece < 20; piece++) {
      socket.write("rubbish\r\n\r\n")
      yield* server.call("GET", "/healthz") // so that each comes by itself
    }
    yield* gate.open
    socket.resume()

    yield* Harness.eventually(() => heard.includes('"items"'))
    assert.deepStrictEqual(warnings, [])
  }).pipe(Effect.scoped)
)

it.live("A connection that the system has no room for costs that connection, and not the process", () =>
  Effect.gen(function* () {
    const { server, listener } = yield* started()

    listener.emit("error", new Error("accept ENOBUFS"))

    assert.strictEqual((yield* server.call("GET", "/healthz")).status, 200)
    assert.isTrue(server.logs.some((line) => line.includes("a connection could not be taken")))
  }).pipe(Effect.scoped)
)

it.live("A server that stops answers what comes on a connection that is kept, and behind a moment closes those on which nothing comes", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { closingTimeout } = timeouts
    const server = yield* Harness.start({ timeouts: { closingTimeout } }).pipe(Scope.provide(scope))
    const [used, unused] = yield* Effect.all([kept(server.port), kept(server.port)])

    // Both in one go, before the server reads anything.
    used.write(Harness.wire("GET /v1/domains"))
    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    const [answer, nothing] = yield* Effect.all([used.closed, unused.closed])
    yield* Fiber.join(closing)

    assert.match(answer, /^HTTP\/1\.1 503 [^]*\r\nconnection: close\r\n[^]*"code":"unavailable"/i)
    assert.strictEqual(nothing, "")
  }).pipe(Effect.scoped)
)

for (const [what, rest] of [
  ["becomes what is none", "zz\r\n"],
  ["ends", null]
] as const) {
  it.live(`A request that was answered before its body had come, and whose body ${what}, has that one answer, and its connection ends`, () =>
    Effect.gen(function* () {
      const server = yield* Harness.start()
      const before = server.logs.length
      const socket = connect(server.port, "127.0.0.1").on("error", () => {})
      let heard = ""
      const ended = new Promise((resolve) => socket.on("close", resolve))
      socket.on("data", (bytes) => (heard += bytes.toString()))

      socket.write(Harness.wire("POST /v1/messages", ["Content-Type: application/json", "Transfer-Encoding: chunked"], "1\r\n{\r\n"))
      yield* Harness.eventually(() => heard.includes('"code":"unauthorized"'))
      if (rest === null) socket.end()
      else socket.write(rest)
      yield* Effect.promise(() => ended)

      assert.lengthOf(heard.match(/^HTTP\/1\.1 \d/gm)!, 1)
      assert.lengthOf(server.logs.slice(before).filter((line) => line.includes('"status":')), 1)
    }).pipe(Effect.scoped)
  )
}

/** A connection that has had one answer, and is kept. What comes by it from then on, until it ends. */
const kept = (port: number) =>
  Effect.callback<{ readonly write: (text: string) => void; readonly closed: Effect.Effect<string> }>((resume) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(Harness.wire("GET /healthz")))
    let received = ""
    const ended = new Promise<string>((resolve) => socket.on("close", () => resolve(received)))
    socket.on("error", () => {})
    socket.on("data", (chunk) => {
      received += chunk.toString()
      if (!received.endsWith('{"status":"alive"}')) return
      received = ""
      resume(Effect.succeed({ write: (text) => void socket.write(text), closed: Effect.promise(() => ended) }))
    })
  })

it.live("Who hangs up in the middle of a body that he has asked for leave to send is heard of once", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const before = server.logs.length
    const ended = () => server.logs.slice(before).filter((line) => line.includes('"status":'))
    const socket = connect(server.port, "127.0.0.1").on("error", () => {})
    let heard = ""
    const closed = new Promise((resolve) => socket.on("close", resolve))
    socket.on("data", (bytes) => (heard += bytes.toString()))
    const headers = [Harness.bearer(server), "Content-Type: application/json", "Content-Length: 1000", "Expect: 100-continue"]

    socket.write(Harness.wire("POST /v1/attachments", headers))
    yield* Harness.eventually(() => heard.includes("100 Continue"))
    socket.end('{"mailboxId":')
    yield* Effect.promise(() => closed)
    yield* Harness.eventually(() => ended().length > 0)
    yield* Effect.sleep("50 millis")

    assert.lengthOf(ended(), 1)
    assert.strictEqual(heard, "HTTP/1.1 100 Continue\r\n\r\n")
  }).pipe(Effect.scoped)
)

it.live("Who hangs up in the middle of a body, behind a request whose answer is under way, costs that connection, and not the process", () =>
  Effect.gen(function* () {
    const fatal: Array<Error> = []
    const note = (error: Error) => void fatal.push(error)
    process.on("uncaughtExceptionMonitor", note)
    yield* Effect.addFinalizer(() => Effect.sync(() => process.off("uncaughtExceptionMonitor", note)))
    let isRead = false
    const server = yield* Harness.start({
      blobs: (blobs) => ({ ...blobs, writer: (tenantId) => Effect.tap(blobs.writer(tenantId), () => Effect.sync(() => (isRead = true))) })
    })
    const socket = connect(server.port, "127.0.0.1").on("error", () => {}).pause()
    const headers = [Harness.bearer(server), "Content-Type: application/json", "Content-Length: 1000"]

    socket.write(Harness.wire("GET /openapi.yaml").repeat(25) + Harness.wire("POST /v1/attachments", headers, '{"mailboxId":'))
    yield* Harness.eventually(() => isRead)
    yield* server.call("GET", "/healthz")
    socket.destroy()
    yield* Harness.eventually(() => server.logs.some((line) => line.includes('"status":499')))
    yield* server.call("GET", "/healthz")

    assert.deepStrictEqual(fatal, [])
  }).pipe(Effect.scoped)
)
