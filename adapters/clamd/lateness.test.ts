/** A clamd that is there, and does not get round to answering. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Queue } from "effect"
import { TestClock } from "effect/testing"
import { createServer, type AddressInfo, type Server, type Socket } from "node:net"
import * as ClamdScanner from "./ClamdScanner.ts"
import { probes } from "./Probes.ts"

/** Says what it is, and nothing of what it is sent; and each stream, as it begins. */
const busy = Effect.gen(function* () {
  const streams = yield* Queue.unbounded<void>()
  const sockets: Array<Socket> = []
  const onSocket = (socket: Socket) => {
    sockets.push(socket.on("error", () => {}))
    socket.once("data", (bytes) => {
      if (bytes.toString("latin1").startsWith("zVERSION")) socket.end("ClamAV 1.4.6\0")
      else Queue.offerUnsafe(streams, undefined)
    })
  }
  const server = yield* Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const server = createServer({ allowHalfOpen: true }, onSocket).listen({ host: "127.0.0.1", port: 0 }, () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      })
  )
  const { port } = server.address() as AddressInfo // it listens, on a port
  return { address: { host: "127.0.0.1", port }, streams }
})

describe("ClamdScanner.check", () => {
  it.effect("advises nothing about settings where there is no answer in time", () =>
    Effect.gen(function* () {
      const { address, streams } = yield* busy
      const checking = yield* Effect.forkScoped(ClamdScanner.check({ address, timeout: "1 second" }))
      for (const _ of probes) {
        yield* Queue.take(streams)
        yield* TestClock.adjust("1 second")
      }

      assert.deepStrictEqual(
        (yield* Fiber.join(checking)).faults,
        probes.map(({ what }) => `${what}: clamd has not answered within 1s; see what keeps it busy, and try again`)
      )
    })
  )
})
