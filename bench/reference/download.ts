/**
 * The least a download can cost: node:http with a file in memory, which it puts
 * into JSON as base64 for each request.
 *
 * `download.ts BYTES`
 */
import { randomBytes } from "node:crypto"
import * as http from "node:http"

const file = randomBytes(Number(process.argv[2]))
const server = http.createServer((_, response) => {
  const answer = { filename: "file.bin", mediaType: "application/octet-stream", contentBase64: file.toString("base64") }
  response.writeHead(200, { "content-type": "application/json" })
  response.end(JSON.stringify(answer))
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${address.port}` }))
})
process.once("disconnect", () => process.exit()) // whoever started it has ended
