/**
 * Keeps connections busy with one request after the other. The bytes go over
 * plain sockets, and of an answer nothing is read but what tells where it ends:
 * the load shares the machine with what it measures.
 */
import { connect, type Socket } from "node:net"

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Figures {
  readonly requests: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time for each request, user and system, of all that was asked about. */
  readonly cpuMicros: number
}

export interface Options {
  readonly base: URL
  /** Processor time used so far in milliseconds, of whatever does the work. */
  readonly cpu: () => number
  readonly connections: number
  /** Each connection asks once in any case. */
  readonly durationMs: number
  readonly expected: number | ReadonlyArray<number>
  readonly request: () => Request
  /**
   * So many, over all connections; as many as go unless given. Each is due at its time, and is late from then on: whoever
   * waits for one answer before asking again asks little while a server stands still, and hardly sees it.
   */
  readonly perSecond?: number
}

const bytesOf = (host: string, { method, path, headers, body }: Request): string => {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = body === undefined ? "" : `content-length: ${Buffer.byteLength(body)}\r\n`
  return `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${fields.join("")}${length}\r\n${body ?? ""}`
}

/** One connection, over which one request is under way at a time. */
class Connection {
  #held = ""
  #answered: ((status: number) => void) | null = null
  #failed: ((error: Error) => void) | null = null
  /** Why nothing more can be asked over it. */
  #ended: Error | null = null
  readonly #socket: Socket
  readonly #host: string

  constructor(base: URL) {
    this.#host = base.host
    this.#socket = connect({ host: base.hostname, port: Number(base.port), noDelay: true })
    this.#socket.setEncoding("latin1")
    this.#socket.on("data", (text: string) => this.#take(text))
    this.#socket.on("error", (error) => this.#end(error))
    this.#socket.on("close", () => this.#end(new Error("void: the server closed the connection")))
  }

  #end(error: Error): void {
    this.#ended ??= error
    this.#failed?.(this.#ended)
  }

  request(request: Request): Promise<number> {
    return new Promise((resolve, reject) => {
      // What is written to a socket that has gone tells nobody so.
      if (this.#ended !== null) return reject(this.#ended)
      this.#answered = resolve
      this.#failed = reject
      this.#socket.write(bytesOf(this.#host, request))
    })
  }

  close(): void {
    this.#failed = null
    this.#socket.destroy()
  }

  #take(text: string): void {
    this.#held += text
    const end = this.#held.indexOf("\r\n\r\n")
    if (end < 0) return
    const head = this.#held.slice(0, end)
    const length = /^content-length: (\d+)/im.exec(head)?.[1]
    if (length === undefined) {
      const isChunked = /^transfer-encoding: chunked/im.test(head)
      if (!isChunked || !this.#held.endsWith("0\r\n\r\n")) return
    } else if (this.#held.length < end + 4 + Number(length)) return
    const status = Number(head.slice(9, 12))
    this.#held = ""
    this.#answered?.(status)
  }
}

/** Sends requests for a while. Any answer but the expected one voids the run. */
export const run = async (options: Options): Promise<Figures> => {
  const connections = Array.from({ length: options.connections }, () => new Connection(options.base))
  const expected = [options.expected].flat()
  const latencies: Array<number> = []
  const cpuBefore = options.cpu()
  const started = performance.now()
  const pauseMs = 1_000 / (options.perSecond ?? Infinity)
  let places = 0
  const busy = async (connection: Connection) => {
    do {
      const due = started + places++ * pauseMs
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())))
      const begun = pauseMs > 0 ? due : performance.now()
      const status = await connection.request(options.request())
      if (!expected.includes(status)) throw new Error(`void: answered ${status}, expected ${expected.join(" or ")}`)
      latencies.push(performance.now() - begun)
    } while (performance.now() - started < options.durationMs)
  }
  try {
    await Promise.all(connections.map(busy))
  } finally {
    for (const connection of connections) connection.close()
  }
  const elapsed = performance.now() - started
  return {
    requests: latencies.length,
    perSecond: latencies.length / (elapsed / 1000),
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    cpuMicros: ((options.cpu() - cpuBefore) * 1000) / latencies.length
  }
}

const ascending = (values: ReadonlyArray<number>): ReadonlyArray<number> => values.toSorted((left, right) => left - right)

/** The least value that this share of them does not exceed. */
export const quantile = (values: ReadonlyArray<number>, share: number): number =>
  ascending(values)[Math.max(0, Math.ceil(values.length * share) - 1)]!

/** Of an even number of them, the upper one of the two in the middle. */
export const median = (values: ReadonlyArray<number>): number => ascending(values)[values.length >> 1]!

/** `1.23 (1.10–1.40)`; of a single value that alone. */
export const spread = (values: ReadonlyArray<number>, digits = 2): string => {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits))
  return values.length === 1 ? middle! : `${middle} (${least}–${most})`
}
