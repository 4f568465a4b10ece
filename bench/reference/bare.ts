/** The least a server can do: node:http, a body read and parsed, a small JSON answer. Prints its port. */
import * as http from "node:http"

const answer = JSON.stringify({ items: [{ id: "00000000-0000-7000-8000-000000000000", address: "a@b.example", displayName: "A" }] })
const server = http.createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    if (chunks.length > 0) JSON.parse(Buffer.concat(chunks).toString("utf8"))
    response.writeHead(request.method === "POST" ? 202 : 200, { "content-type": "application/json" })
    response.end(answer)
  })
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${address.port}` }))
})
process.once("disconnect", () => process.exit()) // whoever started it has ended
