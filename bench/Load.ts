/** Keeps a number of connections busy with one request after the other, and measures what that costs the server. */
import { readFileSync } from "node:fs"
import * as http from "node:http"

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
  /** Processor time of the server process for each request, user and system. */
  readonly cpuMicros: number
}

/** Processor time of a process in milliseconds; Linux counts it in hundredths of a second. */
export const cpuMs = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]!.split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Peak resident memory of a process in MiB. */
export const peakMiB = (pid: number): number =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]) / 1024

const one = (agent: http.Agent, base: URL, request: Request): Promise<number> =>
  new Promise((resolve, reject) => {
    const outgoing = http.request(
      {
        agent,
        host: base.hostname,
        port: base.port,
        method: request.method,
        path: request.path,
        headers: {
          ...request.headers,
          ...(request.body === undefined ? {} : { "content-length": Buffer.byteLength(request.body) })
        }
      },
      (response) => {
        response.on("error", reject)
        response.on("end", () => resolve(response.statusCode ?? 0))
        response.resume()
      }
    )
    outgoing.on("error", reject)
    outgoing.end(request.body)
  })

/** Sends requests for a while over so many connections. Any answer but the expected one voids the run. */
export const run = async (options: {
  readonly base: URL
  readonly pid: number
  readonly connections: number
  readonly durationMs: number
  readonly expected: number
  readonly request: () => Request
}): Promise<Figures> => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: options.connections })
  const latencies: Array<number> = []
  const started = performance.now()
  const cpuBefore = cpuMs(options.pid)
  const connection = async () => {
    while (performance.now() - started < options.durationMs) {
      const begun = performance.now()
      const status = await one(agent, options.base, options.request())
      if (status !== options.expected) throw new Error(`void: answered ${status}, expected ${options.expected}`)
      latencies.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: options.connections }, connection))
  const elapsed = performance.now() - started
  const cpu = cpuMs(options.pid) - cpuBefore
  agent.destroy()
  latencies.sort((left, right) => left - right)
  return {
    requests: latencies.length,
    perSecond: latencies.length / (elapsed / 1000),
    p50Ms: latencies[Math.floor(latencies.length * 0.5)]!,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)]!,
    cpuMicros: (cpu * 1000) / latencies.length
  }
}

export const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)]!

/** `1.23 (1.10–1.40)` */
export const spread = (values: ReadonlyArray<number>, digits = 2): string =>
  `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)})`
