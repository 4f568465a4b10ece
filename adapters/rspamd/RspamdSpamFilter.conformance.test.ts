import { Effect, Layer } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { suite, type Case } from "../../conformance/SpamFilter.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as RspamdSpamFilter from "./RspamdSpamFilter.ts"

/** What Rspamd does with a request, and strict about it; what it answers stands in the message. */
const serve = (request: IncomingMessage, response: ServerResponse): void => {
  const pieces: Array<Buffer> = []
  request.on("data", (piece: Buffer) => pieces.push(piece))
  request.on("end", () => {
    const { ip, helo, rcpt, from, "content-length": length } = request.headers
    const isWhole = ip === "192.0.2.1" && helo === "mail.client.test" && rcpt !== undefined && from !== undefined && length !== undefined
    if (request.method !== "POST" || request.url !== "/checkv2" || !isWhole) return response.writeHead(400).end("{}")
    const answer = /^Answer: (.*)\r$/m.exec(Buffer.concat(pieces).toString("latin1"))?.[1] ?? "{}"
    if (answer === "500") return response.writeHead(500).end("no")
    if (answer === "hang up") return request.socket.destroy()
    if (answer === "hang") return
    if (answer === "endless") return response.writeHead(200).end("x".repeat(3_000_000))
    response.writeHead(200, { "Content-Type": "application/json" }).end(answer)
  })
}

const fake = Layer.unwrap(
  Effect.gen(function* () {
    const server = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const made = createServer(serve).listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
      }),
      (made) => Effect.sync(() => (made.closeAllConnections(), made.close()))
    )
    const { port } = server.address() as AddressInfo // it listens on a port
    return RspamdSpamFilter.layerWith({ url: `http://127.0.0.1:${port}` })
  })
)

const of = (title: string, answer: string, expected: Case["expected"]): Case => ({
  title,
  message: Buffer.from(`From: ada@client.test\r\nAnswer: ${answer}\r\n\r\nx\r\n`),
  expected
})

const action = (name: string) => JSON.stringify({ is_skipped: false, score: 4.2, required_score: 15, action: name, symbols: {} })

const cases = [
  of("takes `no action` for ham", action("no action"), "ham"),
  of("takes `greylist` for ham", action("greylist"), "ham"),
  of("takes `soft reject` for ham", action("soft reject"), "ham"),
  of("takes `add header` for spam", action("add header"), "spam"),
  of("takes `rewrite subject` for spam", action("rewrite subject"), "spam"),
  of("refuses what Rspamd rejects", action("reject"), "refuse"),
  of("takes `quarantine` for spam", action("quarantine"), "spam"),
  of("takes `discard` for spam, for what is taken is not thrown away", action("discard"), "spam"),
  of("takes an action of the operator's own for spam", action("phishing"), "spam"),
  of("takes it for spam by any name, such as one that each object has", action("toString"), "spam"),
  of("has no verdict from an action without a name", action(""), "unavailable"),
  of("has no verdict from an action that is no text", "{\"action\":[\"reject\"]}", "unavailable"),
  of("has no verdict from an answer without an action", "{}", "unavailable"),
  of("has no verdict from what is no JSON", "no", "unavailable"),
  of("has no verdict from an error", "500", "unavailable"),
  of("has no verdict from a connection that breaks", "hang up", "unavailable"),
  of("has no verdict from an answer without an end", "endless", "unavailable")
]

conforms("RspamdSpamFilter", suite({ cases }), fake)
