/** Sends a first message in the sandbox, watches it to its end, and prints the events behind it. */
import { readFile } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"

const file = process.argv[2] ?? ".mailroom/dev.json"
const { baseUrl, apiKey, mailboxes } = JSON.parse(await readFile(file, "utf8"))
const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" }

const call = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(`${baseUrl}${path}`, { ...init, headers: { ...headers, ...init.headers } })
  const body = JSON.parse(await response.text())
  if (!response.ok) throw new Error(`${response.status} ${body.code}: ${body.message} (request ${body.requestId})`)
  return { status: response.status, body }
}

const startedAt = new Date().toISOString()

// One key for one message: a retry with the same key and body sends nothing twice.
const idempotencyKey = crypto.randomUUID()
const sent = await call("/v1/messages", {
  method: "POST",
  headers: { "idempotency-key": idempotencyKey },
  body: JSON.stringify({
    fromMailboxId: mailboxes[0].id,
    to: ["delivered@example.com"],
    subject: "Hello",
    text: "It works."
  })
})
console.log(`${sent.status}  ${sent.body.status.padEnd(10)} ${sent.body.id}`)

// Sending is asynchronous: 202 means queued, and the message tells how it went on.
let shown = sent.body.status
for (let tries = 0; tries < 300 && shown !== "delivered"; tries++) {
  const { message } = (await call(`/v1/messages/${sent.body.id}`)).body
  if (message.status !== shown) console.log(`     ${(shown = message.status)}`)
  if (shown === "bounced" || shown === "failed") break
  await sleep(20)
}

console.log("events")
// A timestamp is a cursor too: the first event at that time or later.
const { items } = (await call(`/v1/events?limit=100&cursor=${startedAt}`)).body
for (const { type, resourceId, data } of items) {
  if (resourceId !== sent.body.id) continue
  const about = data.to ? `${data.from} → ${data.to.join(", ")}` : data.provider ? `by ${data.provider}` : data.recipient
  console.log(`  ${type.padEnd(18)} ${about}`)
}
