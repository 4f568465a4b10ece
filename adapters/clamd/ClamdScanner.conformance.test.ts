import { Effect, Layer } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type AddressInfo, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { suite } from "../../conformance/Scanner.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as ClamdScanner from "./ClamdScanner.ts"

const infected = Buffer.from("bytes that the double calls infected")

/** What clamd does with a connection, and strict about it: anything but the documented framing ends in an ERROR. */
const serve = (socket: Socket): void => {
  const scanned: Array<Buffer> = []
  let rest = Buffer.alloc(0)
  let isCommanded = false
  const answer = (text: string) => {
    socket.removeAllListeners("data")
    socket.end(`${text}\0`)
  }
  socket.on("error", () => {})
  socket.on("data", (bytes) => {
    rest = Buffer.concat([rest, bytes])
    if (!isCommanded) {
      if (rest.length < 10) return
      if (rest.toString("latin1", 0, 10) !== "zINSTREAM\0") return answer("UNKNOWN COMMAND")
      isCommanded = true
      rest = rest.subarray(10)
    }
    while (rest.length >= 4) {
      const sizeBytes = rest.readUInt32BE()
      if (sizeBytes > 65_536) return answer("INSTREAM size limit exceeded. ERROR")
      if (sizeBytes === 0) {
        if (rest.length > 4) return answer("more than a stream ERROR")
        return answer(Buffer.concat(scanned).includes(infected) ? "stream: Double-Test-Signature FOUND" : "stream: OK")
      }
      if (rest.length < 4 + sizeBytes) return
      scanned.push(rest.subarray(4, 4 + sizeBytes))
      rest = rest.subarray(4 + sizeBytes)
    }
  })
}

const listening = (place: { readonly host: string; readonly port: number } | { readonly path: string }) =>
  Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const server = createServer(serve).listen(place, () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.close())
  )

const overTcp = Layer.unwrap(
  Effect.map(listening({ host: "127.0.0.1", port: 0 }), (server) =>
    ClamdScanner.layerWith({ address: { host: "127.0.0.1", port: (server.address() as AddressInfo).port } }) // it listens, on a port
  )
)

const overUnixSocket = Layer.unwrap(
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "clamd-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
    )
    const path = join(folder, "clamd.sock")
    yield* listening({ path })
    return ClamdScanner.layerWith({ address: { path } })
  })
)

conforms("ClamdScanner over TCP", suite({ infected }), overTcp)
conforms("ClamdScanner over a Unix socket", suite({ infected }), overUnixSocket)
