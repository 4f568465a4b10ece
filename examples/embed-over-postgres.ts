/**
 * Mailroom in a service of yours that keeps everything in PostgreSQL, and ends when it is told to: what was accepted is
 * there when the next process starts.
 *
 *   DATABASE_URL=postgres://user:password@host/database npm run --silent example -- embed-over-postgres
 *
 * Without a DATABASE_URL it is PGlite, in memory. Mailroom's tables lie in the schema `mailroom`, beside yours.
 */
import { Layer, Redacted } from "effect"
import { EicarScanner } from "mailroom/adapters/eicar"
import { NodeCrypto } from "mailroom/adapters/node"
import { RfcMime } from "mailroom/adapters/mime"
import { Database, JobNews, Migrations, Pglite, PostgresBlobStore, PostgresJobQueue, PostgresRateLimiter, PostgresStore } from "mailroom/adapters/postgres"
import { UndiciWebhookTransport } from "mailroom/adapters/undici"
import { createMailroom, parseAddress, parseDomain, plans, reveal } from "mailroom/embedded"

const { DATABASE_URL = "" } = process.env
const pool = DATABASE_URL === "" ? Pglite.layerMemory : Database.layer({ url: Redacted.make(DATABASE_URL), connectionsMax: 10 })
// Tables first: whoever asks for this database finds them. Where `mailroom migrate` makes them, leave this out.
const database = Layer.provideMerge(Layer.effectDiscard(Migrations.migrate), pool)
// One value in all places is built once: one pool, and one ear for the news of jobs.
const postgres = Layer.provideMerge(JobNews.layer, database)

const mailroom = await createMailroom({
  store: Layer.provide(PostgresStore.layer, postgres),
  queue: Layer.provide(PostgresJobQueue.layer, postgres),
  blobs: Layer.provide(PostgresBlobStore.layerWithStore, postgres),
  limiter: Layer.provide(PostgresRateLimiter.layer, postgres),
  // Yours comes from where you keep secrets, and stays: what it sealed, only it opens.
  crypto: NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(7)) }] }),
  mime: RfcMime.layer,
  scanner: EicarScanner.layer,
  webhooks: UndiciWebhookTransport.layer,
  provider: null
})

const { management } = mailroom
const operator = { type: "operator", id: "example" } as const
for (const plan of plans) await management.putPlan(plan)
const { id: tenantId } = await management.createTenant(operator, { name: "Analytical Engines", planId: "standard" })
const { id: applicationId } = await management.createApplication(operator, { tenantId, environment: "sandbox", name: "Billing" })
const key = await management.issueKey(operator, { tenantId, applicationId, name: "first", scopes: ["messages:send", "messages:read"] })
const name = `d${Date.now()}.example` // a domain is one tenant's, and the database remembers
const domain = await management.createDomain(operator, { tenantId, domain: parseDomain(name) })
const checked = { state: "ok", expected: "yes", observed: "yes", since: Date.now() } as const
await management.recordChecks(tenantId, domain.id, [
  { record: "ownership", ...checked },
  { record: "dkim", ...checked }
])
const mailbox = await management.createMailbox(operator, { tenantId, address: parseAddress(`ada@${name}`), displayName: "Ada" })

await mailroom.start()
const client = mailroom.client(reveal(key.text))
const { id, status } = await client.sendMessage({ fromMailboxId: mailbox.id, to: ["delivered@example.com"], text: "It works." })
console.log(status)

// A service of yours stops taking requests here, too. `close` waits for what is under way, 45 seconds at most.
process.once("SIGTERM", () => void mailroom.close().then(() => console.log("closed")))

for (;;) {
  const { message } = await client.getMessage(id)
  if (message.status === "delivered") {
    console.log(`${message.status} to ${message.recipients[0]?.address}`)
    break
  }
  await new Promise((resolve) => setTimeout(resolve, 20))
}
process.kill(process.pid, "SIGTERM") // as its supervisor does
