import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { once } from "node:events"
import { createServer, type AddressInfo, type Socket } from "node:net"
import { Connection } from "./Connection.ts"
import * as Dial from "./Dial.ts"

/** A connection to a receiver that says this to each request, so many bytes at a time; and whether an answer comes of it, and which. */
const connected = Effect.fnUntraced(function* (says: string, size = says.length) {
  const say = (socket: Socket, at: number): void => {
    if (at >= says.length || socket.destroyed) return
    socket.write(says.slice(at, at + size))
    setImmediate(say, socket, at + size)
  }
  const server = createServer({ noDelay: true }, (socket) => void socket.on("error", () => {}).on("data", () => say(socket, 0)))
  yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
  const { port } = server.address() as AddressInfo // it listens on a port
  const dialled = yield* Dial.make([])({ addresses: ["127.0.0.1"], port, certified: null }, () => {})
  const connection = new Connection(dialled, { origin: `http://hooks.example:${port}`, idleTimeout: 4_000 })
  yield* Effect.addFinalizer(() => Effect.sync(() => connection.destroy()))
  const ask = Effect.map(Effect.result(connection.post({ path: "/", headers: {}, body: new Uint8Array(2) })), (outcome) =>
    Result.isSuccess(outcome) ? `${outcome.success.status} ${Buffer.from(outcome.success.body).toString("latin1")}` : outcome.failure._tag
  )
  return { connection, dialled, ask }
})

const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
const answer = (body: string) => `HTTP/1.1 200 OK\r\nX: HTTP/1.1 100\r\nContent-Length: ${body.length}\r\n\r\n${body}`

describe("100, unasked,", () => {
  for (const body of [goOn, `\r\n\r\n${goOn}`]) {
    for (const size of [1, 2, 7, undefined]) {
      it.live(`goes before the answer to each request, ${size ?? "all"} bytes at a time, and is left where it is in the answer ${JSON.stringify(body)}`, () =>
        Effect.gen(function* () {
          const early = [goOn, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 100\r\nA: b\r\nC: d\r\n\r\n", "\r\nHTTP/1.1 100\r\n\r\n"]
          const { ask, connection } = yield* connected(early.join("") + answer(body), size)

          for (let request = 0; request < 3; request++) assert.strictEqual(yield* ask, `200 ${body}`)

          assert.isTrue(connection.isOpen)
        })
      )
    }
  }

  for (const size of [1, undefined]) {
    it.live(`is borne sixteen times, as hints are, and not more often: ${size ?? "all"} bytes at a time`, () =>
      Effect.gen(function* () {
        const few = yield* connected(goOn.repeat(16) + answer("fine"), size)
        const many = yield* connected(goOn.repeat(17) + answer("fine"), size)

        assert.deepStrictEqual([yield* few.ask, yield* few.ask, yield* many.ask], ["200 fine", "200 fine", "NoAnswer"])
      })
    )
  }

  it.live("has no more of a header than an answer may have", () =>
    Effect.gen(function* () {
      const long = (size: number) => `HTTP/1.1 100 Continue\r\nX: ${"x".repeat(size)}\r\n\r\n${answer("fine")}`
      const [within, beyond] = [yield* connected(long(16_000)), yield* connected(long(17_000))]

      assert.deepStrictEqual([yield* within.ask, yield* beyond.ask], ["200 fine", "NoAnswer"])
    })
  )

  it.live("is no answer to what was not asked, and makes none of what is none", () =>
    Effect.gen(function* () {
      const late = yield* connected(answer("fine") + goOn)
      assert.strictEqual(yield* late.ask, "200 fine")
      if (!late.dialled.socket.destroyed) yield* Effect.promise(() => once(late.dialled.socket, "close"))

      const broken = ["HTTP/1.1 1000\r\n\r\n", "HTTP/1.1 10\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 100 Continue\n\n", "HTTP/1.1 100 Continue\r\n\n", "x HTTP/1.1 100 Continue\r\n\r\n"]
      for (const early of broken) assert.strictEqual(yield* (yield* connected(early + answer("fine"))).ask, "NoAnswer", early)
    })
  )
})
