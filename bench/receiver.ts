/**
 * Receivers of webhooks in a process of its own: as many ports of node:http as
 * asked for, each reading the body and answering 204 after a while, or not at all.
 */
import { fork } from "node:child_process"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export interface Behaviour {
  /** Milliseconds before an answer. */
  readonly delayMs: number
  /** The first so many of them never answer. */
  readonly hanging: number
  /** The first so many are not counted; none, unless said otherwise. */
  readonly uncounted?: number
}

export interface Received {
  /** Requests to those that are counted, since the last change of behaviour. */
  readonly answered: number
  /** Milliseconds from that change to the last of them; 0: there was none. */
  readonly lastMs: number
  /** The last body. */
  readonly sample: string
}

export interface Receivers {
  readonly urls: ReadonlyArray<string>
  /** Begins to count anew. */
  readonly behave: (behaviour: Behaviour) => Promise<void>
  readonly received: () => Promise<Received>
  readonly stop: () => void
}

export const startReceivers = async (count: number): Promise<Receivers> => {
  const child = fork(import.meta.filename, ["receivers", String(count)])
  const answer = () => new Promise<unknown>((resolve) => child.once("message", resolve))
  const ask = (question: Behaviour | "received") => {
    const answered = answer()
    child.send(question)
    return answered
  }
  const ports = (await answer()) as ReadonlyArray<number> // what it sends first
  return {
    urls: ports.map((port) => `http://127.0.0.1:${port}/`),
    behave: async (behaviour) => void (await ask(behaviour)),
    received: async () => (await ask("received")) as Received, // what it answers
    stop: () => void child.kill()
  }
}

if (process.argv[2] === "receivers") await serve(Number(process.argv[3]))

async function serve(count: number): Promise<void> {
  let behaviour: Behaviour = { delayMs: 0, hanging: 0 }
  let [begun, answered, lastAt, sample] = [performance.now(), 0, 0, ""]
  let hung: Array<ServerResponse> = []

  const take = (index: number, body: string, response: ServerResponse) => {
    if (body.includes('"webhook.endpoint_verification"')) return response.end(JSON.stringify({ challenge: JSON.parse(body).data.challenge }))
    if (index >= (behaviour.uncounted ?? 0)) {
      answered += 1
      lastAt = performance.now()
      sample = body
    }
    if (index < behaviour.hanging) return void hung.push(response)
    const answer = () => void response.writeHead(204).end()
    if (behaviour.delayMs === 0) answer()
    else setTimeout(answer, behaviour.delayMs)
  }

  const listen = (index: number) =>
    new Promise<number>((resolve) => {
      const server = createServer((request, response) => {
        let body = ""
        request.setEncoding("utf8")
        request.on("data", (piece: string) => (body += piece))
        request.on("end", () => take(index, body, response))
      })
      server.keepAliveTimeout = 60_000
      server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)) // it listens
    })

  const ports = await Promise.all(Array.from({ length: count }, (_, index) => listen(index)))
  process.on("message", (question: Behaviour | "received") => {
    if (question === "received") {
      const received: Received = { answered, lastMs: answered === 0 ? 0 : lastAt - begun, sample }
      process.send!(received) // forked
    } else {
      behaviour = question
      // Whoever waits for what hung is answered now.
      for (const response of hung) response.writeHead(204).end()
      hung = []
      ;[begun, answered] = [performance.now(), 0]
      process.send!({})
    }
  })
  process.on("disconnect", () => process.exit())
  process.send!(ports)
}
