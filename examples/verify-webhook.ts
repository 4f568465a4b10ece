/**
 * A webhook receiver in plain node:http, with node:crypto alone: answers the
 * verification, checks each delivery before it parses it, and takes each event
 * once. Registers itself with the Mailroom in dev.json, and prints what comes.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import { readFile } from "node:fs/promises"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"

const { baseUrl, apiKey } = JSON.parse(await readFile(process.argv[2] ?? ".mailroom/dev.json", "utf8"))
const toleranceSeconds = 300

/** `whsec_…`: shown once, when the endpoint is created. In earnest it is in your store of secrets from then on. */
let secret = ""

/** Whether the raw bytes are what the holder of our secret signed, and not long ago. */
const isAuthentic = ({ headers }: IncomingMessage, body: Buffer): boolean => {
  const id = headers["service-webhook-id"]
  const timestamp = headers["service-webhook-timestamp"]
  const signature = headers["service-webhook-signature"]
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof signature !== "string") return false
  if (!/^\d{1,12}$/.test(timestamp) || !/^v1=[0-9a-f]{64}$/.test(signature)) return false
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > toleranceSeconds) return false
  const expected = createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body).digest()
  return timingSafeEqual(expected, Buffer.from(signature.slice("v1=".length), "hex"))
}

/** In earnest: a unique column of your database, written before the answer. */
const taken = new Set<string>()

const receive = async (request: IncomingMessage, response: ServerResponse) => {
  const body = await buffer(request)
  const answer = (status: number, json?: object) =>
    response.writeHead(status, { "content-type": "application/json" }).end(json === undefined ? "" : JSON.stringify(json))

  // The one request that is not signed, and only while we wait for it.
  if (secret === "") {
    const { type, data } = JSON.parse(body.toString("utf8"))
    return type === "webhook.endpoint_verification" ? answer(200, { challenge: data.challenge }) : answer(401)
  }

  if (!isAuthentic(request, body)) return answer(401)
  const event = JSON.parse(body.toString("utf8")) // only now
  if (!taken.has(event.id)) {
    taken.add(event.id)
    console.log(`${event.type.padEnd(18)} ${event.data.id}`)
  }
  return answer(204)
}

const server = createServer((request, response) => {
  receive(request, response).catch(() => response.writeHead(400).end())
})
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))

const { port } = server.address() as AddressInfo
const created = await fetch(`${baseUrl}/v1/webhook-endpoints`, {
  method: "POST",
  headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
  body: JSON.stringify({ url: `http://127.0.0.1:${port}/`, eventTypes: ["*"] })
})
const result = JSON.parse(await created.text())
if (!created.ok) throw new Error(`${created.status} ${result.code}: ${result.message} (request ${result.requestId})`)
secret = result.secret
console.log(`endpoint ${result.endpoint.id} at ${result.endpoint.url}. Send a message, and see what comes; Ctrl-C stops.`)
