/** Receivers that close connections which wait for a next request, at any moment: as a proxy does that is reloaded. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Result } from "effect"
import { once } from "node:events"
import { createServer, type AddressInfo, type Socket } from "node:net"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import { postAnew, WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import * as UndiciWebhookTransport from "./UndiciWebhookTransport.ts"

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

/** A receiver that does this with the nth request of a connection, from 1. */
const receiver = Effect.fnUntraced(function* (does: (socket: Socket, nth: number) => void) {
  const seen = { connections: 0, requests: 0 }
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (socket) => {
    let nth = 0
    seen.connections += 1
    sockets.add(socket)
    socket.on("error", () => {}).on("close", () => sockets.delete(socket))
    socket.on("data", () => {
      seen.requests += 1
      does(socket, ++nth)
    })
  })
  yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
  )
  const { port } = server.address() as AddressInfo // it listens on a port
  const policy = { allowHttp: true, allowedBlocks: ["127.0.0.0/8"] }
  const target = Result.getOrThrow(WebhookUrl.parse(`http://127.0.0.1:${port}/`, policy))
  return { seen, sockets, request: { target, headers: {}, body: new TextEncoder().encode("{}") } }
})

const asked = Layer.succeed(Resolver, {} as typeof Resolver.Service) // an address is not looked up
const layer = Layer.provide(UndiciWebhookTransport.layer, asked)

const answersOnce = (socket: Socket, nth: number) => void (nth === 1 ? socket.write(fine) : socket.destroy())

const together = <A, E, R>(count: number, self: Effect.Effect<A, E, R>) =>
  Effect.all(Array.from({ length: count }, () => self), { concurrency: "unbounded" })

describe("a connection that its receiver closes while a request is on its way", () => {
  it.live("is called stale if it had been used before, and nothing of an answer came", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookTransport
      const leaving = yield* receiver(answersOnce)
      const ending = yield* receiver((socket, nth) => void (nth === 1 ? socket.write(fine) : socket.end()))
      const resetting = yield* receiver((socket, nth) => void (nth === 1 ? socket.write(fine) : socket.resetAndDestroy()))
      const halfway = yield* receiver((socket, nth) => void (nth === 1 ? socket.write(fine) : socket.end(fine.slice(0, 7))))
      const early = yield* receiver((socket, nth) => void (nth === 1 ? socket.write(fine) : socket.end("HTTP/1.1 103 Early Hints\r\n\r\n")))
      const never = yield* receiver((socket) => void socket.destroy())

      for (const [one, isStale] of [[leaving, true], [ending, true], [resetting, true], [halfway, false], [early, false]] as const) {
        yield* post(one.request)
        const error = yield* Effect.flip(post(one.request))
        assert.deepStrictEqual([error.reason, error.isStale, one.seen], ["network_error", isStale, { connections: 1, requests: 2 }])
      }
      assert.isUndefined((yield* Effect.flip(post(never.request))).isStale)
      assert.deepStrictEqual(never.seen, { connections: 1, requests: 1 })
    }).pipe(Effect.provide(layer))
  )

  it.live("takes those with it that wait beside it", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookTransport
      const { request, seen, sockets } = yield* receiver(answersOnce)
      yield* together(5, post(request))
      assert.strictEqual(seen.connections, 5)

      assert.isTrue((yield* Effect.flip(post(request))).isStale)

      yield* Effect.repeat(Effect.sleep(1), { until: () => sockets.size === 0 })
      assert.strictEqual((yield* post(request)).status, 200)
      assert.strictEqual(seen.connections, 6)
    }).pipe(Effect.provide(layer), Effect.timeout("4 seconds"))
  )

  it.live("costs no request its answer, though all that are in use are closed at once, if it is made once more", () =>
    Effect.gen(function* () {
      const transport = yield* WebhookTransport
      const { request, seen } = yield* receiver(answersOnce)
      yield* together(40, transport.post(request))

      const answers = yield* together(40, postAnew(transport, request))

      assert.deepStrictEqual(answers.map(({ status }) => status), Array.from({ length: 40 }, () => 200))
      assert.deepStrictEqual(seen, { connections: 80, requests: 120 })
    }).pipe(Effect.provide(layer))
  )
})
