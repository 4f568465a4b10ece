import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { createServer, type IncomingMessage } from "node:http"
import { connect, Socket, type AddressInfo } from "node:net"
import { SmallPieces } from "./SmallPieces.ts"

/** Small and large in turn, past what Node takes of a body that nobody reads. */
const pieces = Array.from({ length: 3000 }, (_, index) => Buffer.alloc(index % 100 === 99 ? 5000 : 1 + ((index * 37) % 90), index % 256))
const body = Buffer.concat(pieces)
const chunk = (piece: Uint8Array) => Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")])
const wire = Buffer.concat([...pieces.map(chunk), Buffer.from("0\r\n\r\n")])

const ways: Record<string, (request: IncomingMessage) => Promise<Buffer>> = {
  "as a flow": async (request) => {
    const read: Array<Buffer> = []
    request.on("data", (piece: Buffer) => void read.push(piece))
    await once(request, "end")
    return Buffer.concat(read)
  },
  "when it is told of them": async (request) => {
    const read: Array<Buffer> = []
    request.on("readable", () => {
      for (let piece = request.read() as Buffer | null; piece !== null; piece = request.read() as Buffer | null) read.push(piece)
    })
    await once(request, "end")
    return Buffer.concat(read)
  },
  "one after another": async (request) => {
    const read: Array<Buffer> = []
    for await (const piece of request) read.push(piece as Buffer)
    return Buffer.concat(read)
  }
}

describe("A request in small pieces", () => {
  for (const [way, read] of Object.entries(ways)) {
    for (const written of [1, 7, 4000, wire.length]) {
      it.effect(`is whole for who reads them ${way}, though they came before or come by ${written} bytes`, () =>
        Effect.promise(async () => {
          const server = createServer({ IncomingMessage: SmallPieces }).listen(0, "127.0.0.1")
          await once(server, "listening")
          const client = connect((server.address() as AddressInfo).port, "127.0.0.1")
          client.setNoDelay(true).write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
          const [request] = (await once(server, "request")) as [IncomingMessage]
          const small = wire.subarray(0, 6000)
          for (let from = 0; from < small.length; from += written) client.write(small.subarray(from, from + written))
          client.write(wire.subarray(small.length))
          while (request.readableLength < request.readableHighWaterMark) await new Promise(setImmediate)

          assert.isTrue((await read(request)).equals(body))

          client.destroy()
          server.close()
        })
      )
    }
  }

  it.effect("is held in few pieces, and no further than as many bytes in large ones", () =>
    Effect.promise(async () => {
      const request = new SmallPieces(new Socket())
      const { readableHighWaterMark } = request
      let bytes = 0
      do {
        bytes += 1
        request.read(0) // as a stream does that looks for more
      } while (request.push(Buffer.from("a")) && bytes < 10 * readableHighWaterMark)
      let held = 0
      request.on("data", () => void (held += 1)).push(null)
      await once(request, "end")

      assert.isAtLeast(bytes, readableHighWaterMark)
      assert.isAtMost(bytes, readableHighWaterMark + 5_000)
      assert.isAtMost(held, readableHighWaterMark / 4_000 + 3)
    })
  )

  it.effect("is given to who reads it as far as it came", () =>
    Effect.promise(async () => {
      const server = createServer({ IncomingMessage: SmallPieces }).listen(0, "127.0.0.1")
      await once(server, "listening")
      const client = connect((server.address() as AddressInfo).port, "127.0.0.1")
      const sent = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n"
      client.write(sent)
      const [request] = (await once(server, "request")) as [IncomingMessage]
      do await new Promise(setImmediate)
      while (request.socket.bytesRead < sent.length)

      let read = ""
      for await (const piece of request) {
        if ((read += String(piece)).length === 3) client.write("1\r\nd\r\n") // for who waits
        if (read.length === 4) break
      }

      assert.strictEqual(read, "abcd")
      client.destroy()
      server.close()
    })
  )
})
