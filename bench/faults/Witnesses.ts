/**
 * The other ends: webhook receivers that verify and remember what they get,
 * and a mail server that remembers what it was handed. What they saw cannot be
 * unseen by a crash.
 */
import { createHash } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { SMTPServer } from "smtp-server"
import { verifyWebhook } from "../../client/index.ts"
import { chance } from "../Api.ts"

export interface Posted {
  readonly webhookId: string
  readonly eventId: string
  readonly body: string
  readonly at: number
  readonly isSigned: boolean
  readonly answered: number
}

/** Answers 200, or now and then 500. */
export class Receiver {
  readonly posts: Array<Posted> = []
  secret: string | null = null
  /** Takes requests and never answers. */
  hangs = false
  readonly #server: Server
  readonly #failing: number

  constructor(failing: number) {
    this.#failing = failing
    this.#server = createServer((request, response) => void this.#receive(request, response))
  }

  listen(): Promise<void> {
    return new Promise((resolve) => this.#server.listen(0, "127.0.0.1", () => resolve()))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request).catch(() => null)
    if (body === null) return
    const json = JSON.parse(body)
    if (json.type === "webhook.endpoint_verification") return void response.end(JSON.stringify({ challenge: json.data.challenge }))
    if (this.hangs) return
    const answered = chance() < this.#failing ? 500 : 200
    const header = (name: string) => String(request.headers[name] ?? "")
    const isSigned = this.secret !== null && (await this.#verifies(body, request))
    this.posts.push({ webhookId: header("service-webhook-id"), eventId: json.id, body, at: Date.now(), isSigned, answered })
    response.writeHead(answered).end()
  }

  async #verifies(body: string, request: IncomingMessage): Promise<boolean> {
    try {
      await verifyWebhook({ secret: this.secret!, body, headers: request.headers as Record<string, string> }) // single values
      return true
    } catch {
      return false
    }
  }
}

export interface Handed {
  readonly messageId: string
  readonly sha256: string
  readonly recipients: ReadonlyArray<string>
  readonly at: number
}

/** Takes every message. */
export class MailServer {
  readonly handed: Array<Handed> = []
  readonly #server = new SMTPServer({
    disabledCommands: ["STARTTLS", "AUTH"],
    logger: false,
    onData: (stream, { envelope }, callback) => {
      const chunks: Array<Buffer> = []
      stream.on("data", (chunk: Buffer) => chunks.push(chunk))
      stream.on("end", () => {
        const bytes = Buffer.concat(chunks)
        const messageId = /^message-id:\s*(<[^>]+>)/im.exec(bytes.toString("latin1"))?.[1] ?? ""
        const sha256 = createHash("sha256").update(bytes).digest("hex")
        this.handed.push({ messageId, sha256, recipients: envelope.rcptTo.map(({ address }) => address), at: Date.now() })
        callback()
      })
    }
  })

  constructor() {
    this.#server.on("error", () => {}) // a client that was killed
  }

  listen(): Promise<number> {
    return new Promise((resolve) => {
      const server = this.#server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port))
    })
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }
}
