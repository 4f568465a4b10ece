/**
 * The floor of taking mail in: npm smtp-server, which collects each message and
 * commits one INSERT for it before it says 250, over a pool.
 *
 * node smtp-insert.ts DATABASE_URL
 */
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { Pool } from "pg"
import { SMTPServer } from "smtp-server"

const pool = new Pool({ connectionString: process.argv[2], max: 16 })
await pool.query("create table if not exists taken (id uuid primary key default gen_random_uuid(), sender text not null, message bytea not null)")
const insert = { name: "insert", text: "insert into taken (sender, message) values ($1, $2)" }

const server = new SMTPServer({
  disabledCommands: ["AUTH", "STARTTLS"],
  disableReverseLookup: true,
  onData: (stream, session, done) => {
    buffer(stream).then(
      async (message) => {
        const { mailFrom } = session.envelope
        await pool.query({ ...insert, values: [mailFrom === false ? "" : mailFrom.address, message] })
        done()
      }
    ).catch((error: unknown) => done(error instanceof Error ? error : new Error(String(error))))
  }
})
server.listen(0, "127.0.0.1", () => {
  const { port } = server.server.address() as AddressInfo // it listens on a port
  console.log(JSON.stringify({ port: String(port) }))
})
process.once("disconnect", () => process.exit()) // whoever started it has ended
