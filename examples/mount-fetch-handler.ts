/** Mailroom mounted in a server that is there already: a web-standard handler, here beside a route of the server's own. */
import { Redacted } from "effect"
import { EicarScanner } from "mailroom/adapters/eicar"
import { MemoryBlobStore, MemoryJobQueue, MemoryStore } from "mailroom/adapters/memory"
import { NodeCrypto } from "mailroom/adapters/node"
import { RfcMime } from "mailroom/adapters/mime"
import { UndiciWebhookTransport } from "mailroom/adapters/undici"
import { createMailroom } from "mailroom/embedded"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { ReadableStream as WebStream } from "node:stream/web"

const mailroom = await createMailroom({
  store: MemoryStore.layer,
  queue: MemoryJobQueue.layer,
  blobs: MemoryBlobStore.layer,
  crypto: NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(crypto.getRandomValues(new Uint8Array(32))) }] }),
  mime: RfcMime.layer,
  scanner: EicarScanner.layer,
  webhooks: UndiciWebhookTransport.layer,
  provider: null,
  address: "https://api.example.com"
})

// With Bun, Deno or Hono this is one line. Node's own server speaks neither Request nor Response. In Express this goes
// before `express.json()`, and in Fastify behind a parser that reads nothing, for a body that was read is empty here:
const handle = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
  if (incoming.url === "/hello") return outgoing.end("The host's own route\n")
  const hasBody = incoming.method !== "GET" && incoming.method !== "HEAD"
  const request = new Request(`https://api.example.com${incoming.url ?? "/"}`, {
    method: incoming.method ?? "GET",
    headers: Object.entries(incoming.headersDistinct).flatMap(([name, values]) =>
      (values ?? []).map((value): [string, string] => [name, value])
    ),
    // Not `Readable.toWeb`, which keeps what it has read ahead: nobody could read that away.
    ...(hasBody ? { body: WebStream.from(incoming.iterator({ destroyOnReturn: false })) as ReadableStream, duplex: "half" } : {})
  })
  // A body that was refused unread is read away, or who sends all of it before the answer is looked for would be reset.
  outgoing.once("finish", () => incoming.resume())
  // The host knows who called; behind a proxy of yours, it knows whom the proxy names.
  const response = await mailroom.fetch(request, { clientAddress: incoming.socket.remoteAddress ?? "unknown" })
  outgoing.writeHead(response.status, [...response.headers].flat())
  if (response.body === null) return outgoing.end()
  // What an answer holds open is given up with a client who has gone, or, unlike with `pipe`, goes in the middle of it.
  if (outgoing.destroyed) return response.body.cancel()
  return pipeline(Readable.fromWeb(response.body as WebStream), outgoing)
}

const server = createServer((incoming, outgoing) => {
  handle(incoming, outgoing).catch((error: unknown) => outgoing.destroy(error as Error))
})
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
const { port } = server.address() as AddressInfo

for (const path of ["/hello", "/healthz", "/v1/messages"]) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`)
  console.log(response.status, (await response.text()).trim())
}
server.close()
await mailroom.close()
