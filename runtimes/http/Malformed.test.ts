import { assert, it } from "@effect/vitest"
import { Effect, Logger, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { createServer, type ServerOptions, type ServerResponse } from "node:http"
import { connect, type AddressInfo, type Socket } from "node:net"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import type { Crypto } from "../../core/ports/Crypto.ts"
import { wire } from "./harness.ts"
import { refuseMalformed } from "./Malformed.ts"

/** What the network brings about, whatever the clock says. */
const until = (isSo: () => boolean) => Effect.repeat(Effect.promise(() => new Promise(setImmediate)), { until: isSo })

/** A server that leaves each request to the test, and a client of it who does not end when the server does. */
const conversation = Effect.fnUntraced(function* (options: ServerOptions = {}) {
  const context = yield* Effect.context<Crypto>()
  const responses: Array<ServerResponse> = []
  const seen = { faults: 0, heard: "", errors: [] as Array<string> }
  const server = createServer(options, (_, response) => void responses.push(response))
  server.on("checkContinue", (_, response) => void responses.push(response))
  refuseMalformed(server, context)
  server.on("clientError", () => void (seen.faults += 1))
  let ours: Socket | null = null
  server.on("connection", (socket) => void (ours = socket))
  server.listen(0, "127.0.0.1")
  yield* until(() => server.listening)
  const { port } = server.address() as AddressInfo // of a port
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
  client.on("data", (bytes) => (seen.heard += bytes.toString()))
  client.on("error", ({ message }) => seen.errors.push(message))
  yield* Effect.addFinalizer(() => Effect.sync(() => [client.destroy(), server.close(), server.closeAllConnections()]))
  yield* until(() => ours !== null)
  return { seen, responses, client, ours: ours! as Socket } // it is there by now
})

const crypto = NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] })

const post = wire("POST /", ["Transfer-Encoding: chunked"], "1\r\n{\r\n")

const endings: ReadonlyArray<readonly [what: string, request: string, garbage: string, answered: "before" | "after" | "with its refusal", status: number]> = [
  ["headers that are too long", "", `GET / HTTP/1.1\r\nX-A: ${"a".repeat(17_000)}`, "with its refusal", 431],
  ["what is no request", "", "rubbish\r\n\r\n", "with its refusal", 400],
  ["the body of a request that was not answered", post, "zz\r\n", "with its refusal", 400],
  ["the body of a request that was answered", post, "zz\r\n", "before", 200],
  ["what comes behind a request that waits for its answer", wire("GET /"), "rubbish\r\n\r\n", "after", 200]
]
for (const [what, request, garbage, answered, status] of endings) {
  const logged: Array<string> = []
  it.effect(`Who sends more of ${what} has the time to read the one answer before the connection is cut`, () =>
    Effect.gen(function* () {
      const { seen, responses, client, ours } = yield* conversation()
      if (request !== "") client.write(request)
      yield* until(() => responses.length === (request === "" ? 0 : 1))
      if (answered === "before") responses[0]!.end("so it is")
      yield* until(() => answered !== "before" || responses[0]!.writableFinished)

      client.write(garbage)
      yield* until(() => seen.faults === 1)
      if (answered === "after") responses[0]!.end("so it is")
      yield* until(() => client.readableEnded)
      for (let piece = 2; piece <= 4; piece++) {
        client.write("more of it")
        yield* until(() => seen.faults === piece || ours.destroyed)
      }

      yield* TestClock.adjust("499 millis")
      assert.deepStrictEqual([ours.destroyed, seen.errors], [false, []])
      yield* TestClock.adjust("1 millis")
      assert.isTrue(ours.destroyed)
      assert.deepStrictEqual(seen.heard.match(/HTTP\/1\.1 \d+/g), [`HTTP/1.1 ${status}`])
      assert.deepStrictEqual(logged, answered === "with its refusal" ? ["Info"] : [])
    }).pipe(Effect.scoped, Effect.provide([crypto, Logger.layer([Logger.make(({ logLevel }) => void logged.push(logLevel))])]))
  )
}

for (const [what, missing, begun] of [["body", 1, 1], ["headers", 3, 0]] as const) {
  it.effect(`What was answered 408 never becomes whole, nor does what is behind it, though the rest of its ${what} comes before the connection is cut`, () =>
    Effect.gen(function* () {
      const { seen, responses, client, ours } = yield* conversation({ headersTimeout: 50, requestTimeout: 100, connectionsCheckingInterval: 10 })
      const request = wire("POST /", ["Content-Length: 2"], "{}")
      client.write(request.slice(0, -missing))
      yield* until(() => client.readableEnded)

      client.write(request.slice(-missing) + request)
      yield* until(() => ours.bytesRead === 2 * request.length)

      assert.match(seen.heard, /^HTTP\/1\.1 408 /)
      assert.deepStrictEqual(responses.map(({ req }) => req.complete), Array.from({ length: begun }, () => false))
    }).pipe(Effect.scoped, Effect.provide([crypto, Logger.layer([])]))
  )
}

for (const [which, before] of [["first", 0], ["second", 1]] as const) {
  it.effect(`Who ends in the middle of the headers of the ${which} request of a connection is answered`, () =>
    Effect.gen(function* () {
      const { seen, responses, client } = yield* conversation()
      if (before === 1) client.write(wire("GET /"))
      yield* until(() => responses.length === before)
      for (const response of responses) response.end("so it is")
      yield* until(() => responses.every(({ writableFinished }) => writableFinished))

      client.end(wire("GET /").slice(0, -4))
      yield* until(() => client.readableEnded)

      assert.strictEqual(seen.heard.match(/HTTP\/1\.1 \d+/g)!.at(-1), "HTTP/1.1 400")
    }).pipe(Effect.scoped, Effect.provide([crypto, Logger.layer([])]))
  )
}

it.effect("What comes behind a request that asks for leave to send its body is not answered in its place", () =>
  Effect.gen(function* () {
    const { seen, responses, client } = yield* conversation()
    client.write(wire("POST /", ["Expect: 100-continue", "Content-Length: 2"], "{}"))
    yield* until(() => responses.length === 1)

    client.write("rubbish\r\n\r\n")
    yield* until(() => seen.faults === 1)
    responses[0]!.end("so it is")
    yield* until(() => client.readableEnded)

    assert.deepStrictEqual(seen.heard.match(/HTTP\/1\.1 \d+/g), ["HTTP/1.1 200"])
  }).pipe(Effect.scoped, Effect.provide([crypto, Logger.layer([])]))
)
