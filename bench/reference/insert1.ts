/**
 * The floor of accepting a message: bare node:http that parses the body and
 * commits one INSERT for each request, over a pool of 16 connections.
 *
 * node insert1.ts DATABASE_URL
 */
import * as http from "node:http"
import { Pool } from "pg"

const pool = new Pool({ connectionString: process.argv[2], max: 16 })
await pool.query("create table if not exists accepted (id uuid primary key default gen_random_uuid(), body text not null)")
const insert = { name: "insert", text: "insert into accepted (body) values ($1) returning id" }

const server = http.createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const body = JSON.parse(Buffer.concat(chunks).toString("utf8"))
    pool.query<{ id: string }>({ ...insert, values: [JSON.stringify(body)] }).then(
      ({ rows }) => {
        const answer = JSON.stringify({ id: rows[0]!.id, status: "queued", subject: body.subject })
        response.writeHead(202, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) })
        response.end(answer)
      },
      (error: unknown) => {
        console.error(error)
        response.writeHead(500).end()
      }
    )
  })
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(JSON.stringify({ baseUrl: `http://127.0.0.1:${address.port}` }))
})
process.once("disconnect", () => process.exit()) // whoever started it has ended
