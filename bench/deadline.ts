/**
 * A webhook attempt ends within 5.5 s, whatever the receiver does. Each
 * receiver here passes the verification, then misbehaves in its own way; the
 * product sends all of them one event, and its own record of the attempts is
 * what is judged.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http"
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https"
import { connect, createServer as createTcpServer, type AddressInfo, type Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { Mailroom } from "../client/index.ts"
import * as Certificates from "./Certificates.ts"
import { startWith } from "./Process.ts"

const limitMs = 5_500
const folder = mkdtempSync(join(tmpdir(), "mailroom-deadline-"))
const { ca, trusted, untrusted } = await Certificates.make()
writeFileSync(join(folder, "ca.pem"), ca)

/** True once all endpoints exist. */
let isMisbehaving = false

type Manner = (request: IncomingMessage, response: ServerResponse) => void

const politely = (manner: Manner) => (request: IncomingMessage, response: ServerResponse) => {
  if (isMisbehaving) return manner(request, response)
  void text(request).then((body) => response.end(JSON.stringify({ challenge: JSON.parse(body).data.challenge })))
}

const every = (ms: number, response: ServerResponse, write: () => void) => {
  const timer = setInterval(write, ms)
  response.on("close", () => clearInterval(timer))
}

const manners: Readonly<Record<string, { readonly ends: string; readonly manner: Manner }>> = {
  "never answers": { ends: "timeout", manner: () => {} },
  "one byte of the head a second": {
    ends: "timeout",
    manner: ({ socket }, response) => {
      const head = `HTTP/1.1 200 OK\r\nX-Slow: ${"x".repeat(100)}`
      let sent = 0
      every(1_000, response, () => socket.write(head[sent++]!))
    }
  },
  "one byte of the body a second": {
    ends: "timeout",
    manner: (_, response) => {
      response.writeHead(200)
      every(1_000, response, () => response.write("x"))
    }
  },
  "a body without end, as fast as it goes": {
    ends: "success", // 64 KiB are read, and the status was 200
    manner: (_, response) => {
      response.writeHead(200)
      const chunk = "x".repeat(65_536)
      const pour = () => {
        while (!response.destroyed && response.write(chunk));
        if (!response.destroyed) response.once("drain", pour)
      }
      pour()
    }
  },
  "resets the connection": { ends: "network_error", manner: ({ socket }) => socket.resetAndDestroy() },
  "redirects": { ends: "redirect", manner: (_, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end() }
}

const listening = (server: Server | HttpsServer) =>
  new Promise<number>((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port))) // it listens

const servers: Array<{ readonly close: () => unknown; readonly closeAllConnections?: () => void }> = []
const receivers: Array<{ readonly name: string; readonly ends: string; readonly url: string }> = []
for (const [name, { ends, manner }] of Object.entries(manners)) {
  const server = createHttpServer(politely(manner))
  servers.push(server)
  receivers.push({ name, ends, url: `http://127.0.0.1:${await listening(server)}/` })
}

// TLS: one that stops speaking after the connection, one whose certificate is suddenly nobody's.
const secure = createHttpsServer(trusted, politely(() => {}))
const securePort = await listening(secure)
const stalling = createTcpServer((socket) => {
  socket.on("error", () => {})
  if (!isMisbehaving) socket.pipe(connect(securePort, "127.0.0.1")).pipe(socket)
})
const swapping = createHttpsServer(trusted, politely(() => {}))
servers.push(secure, stalling, swapping)
receivers.push(
  { name: "stalls in the TLS handshake", ends: "timeout", url: `https://localhost:${await listening(stalling)}/` },
  { name: "shows a bad certificate", ends: "network_error", url: `https://localhost:${await listening(swapping)}/` }
)

const product = await startWith({ NODE_EXTRA_CA_CERTS: join(folder, "ca.pem") }, "server.ts", "--jobs")
try {
  const client = new Mailroom({ baseUrl: product.ready["baseUrl"]!, apiKey: product.ready["apiKey"]! })
  const names = new Map<string, (typeof receivers)[number]>()
  for (const receiver of receivers) {
    const { endpoint } = await client.createWebhookEndpoint({ url: receiver.url, eventTypes: ["message.queued"] })
    names.set(endpoint.id, receiver)
  }
  isMisbehaving = true
  swapping.setSecureContext(untrusted)
  for (const server of servers) server.closeAllConnections?.() // those of the verification
  process.stderr.write(`${receivers.length} receivers misbehave; this takes ${limitMs / 1000} s\n`)
  await client.sendMessage({ fromMailboxId: product.ready["mailboxId"]!, to: ["delivered@example.com"], text: "x" })
  await new Promise((resolve) => setTimeout(resolve, limitMs + 1_500))

  const { items } = await client.listWebhookDeliveries({ limit: 100 })
  console.log(`${"the receiver".padEnd(40)}${"the attempt".padEnd(16)}ms`)
  for (const [endpointId, { name, ends }] of names) {
    const attempt = items.find((delivery) => delivery.endpointId === endpointId)?.attempts[0]
    const isRight = attempt !== undefined && attempt.outcome === ends && attempt.durationMs <= limitMs
    if (!isRight) process.exitCode = 1
    console.log(
      `${name.padEnd(40)}${(attempt?.outcome ?? "none").padEnd(16)}${attempt?.durationMs ?? "–"}${isRight ? "" : `   expected ${ends} within ${limitMs} ms`}`
    )
  }
} finally {
  await product.stop()
  for (const server of servers) {
    server.closeAllConnections?.()
    server.close()
  }
  rmSync(folder, { recursive: true, force: true })
}
process.exit()
