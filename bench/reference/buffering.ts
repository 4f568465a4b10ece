/**
 * An upload as a server takes it that does not stream: node:http that holds the
 * whole body, parses it, decodes the base64, and knows it by its SHA-256. A GET
 * is answered at once. Prints its port.
 */
import { createHash } from "node:crypto"
import * as http from "node:http"
import type { AddressInfo } from "node:net"

const server = http.createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    if (request.method === "GET") return response.writeHead(200, { "content-type": "application/json" }).end("{}")
    const { filename, contentBase64 } = JSON.parse(Buffer.concat(chunks).toString("utf8"))
    const bytes = Buffer.from(contentBase64, "base64")
    const sha256 = createHash("sha256").update(bytes).digest("hex")
    const answer = JSON.stringify({ filename, sizeBytes: bytes.length, sha256 })
    return response.writeHead(201, { "content-type": "application/json", "content-length": answer.length }).end(answer)
  })
})
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo // it listens
  console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${port}` }))
})
process.once("disconnect", () => process.exit()) // whoever started it has ended
