/**
 * The product's own processes on real servers: as many `serve` and `worker` as
 * asked for over a private Postgres and Redis, each started again when it ends,
 * as a supervisor would.
 */
import { spawn, type ChildProcess } from "node:child_process"
import { appendFileSync, existsSync, mkdtempSync, openSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../adapters/redis/PrivateRedis.ts"
import { sleep } from "./Api.ts"

const main = join(import.meta.dirname, "../runtimes/cli/main.ts")

/** What they get of our own environment, and no setting of the shell that started us. */
const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
export const surroundings = { PATH, HOME, NODE_COMPILE_CACHE }

/** Those that must not outlive this process, by whatever end. */
const supervised = new Set<Supervised>()
process.on("exit", () => {
  for (const one of supervised) one.signal("SIGKILL")
})
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => process.exit(1)) // a second one does not cut that short

/** What the systemd unit of a process, if it has one, gives to Node, and what a benchmark gives beside. */
const nodeOptionsOf = (verb: string | undefined, more = ""): { readonly NODE_OPTIONS: string } => {
  const unit = join(import.meta.dirname, `../docs/systemd/mailroom-${verb}.service`)
  const options = existsSync(unit) ? /^Environment=NODE_OPTIONS=(.*)$/m.exec(readFileSync(unit, "utf8"))?.[1] : undefined
  return { NODE_OPTIONS: [options ?? "", more].join(" ").trim() }
}

/** Those that ended though nobody had ended them, and what they said last: being started again would hide it. */
export const endedByThemselves: Array<string> = []

/** A process that a supervisor keeps running. */
export class Supervised {
  readonly name: string
  readonly log: string
  #child: ChildProcess | null = null
  #isKilled = false
  #wanted = true
  readonly #parameters: ReadonlyArray<string>
  readonly #variables: Readonly<Record<string, string>>

  constructor(name: string, parameters: ReadonlyArray<string>, variables: Readonly<Record<string, string>>, folder: string) {
    this.name = name
    this.log = join(folder, `${name}.log`)
    this.#parameters = parameters
    this.#variables = variables
  }

  start(): void {
    const log = openSync(this.log, "a")
    const child = spawn(process.execPath, [main, ...this.#parameters], {
      env: { ...surroundings, ...this.#variables, ...nodeOptionsOf(this.#parameters[0], this.#variables["NODE_OPTIONS"]) },
      stdio: ["ignore", log, log]
    })
    this.#child = child
    this.#isKilled = false
    supervised.add(this)
    child.once("exit", (code, signal) => {
      if (this.#child !== child) return
      this.#child = null
      supervised.delete(this)
      if (!this.#wanted) return
      if (!this.#isKilled) {
        endedByThemselves.push(`${this.name} ended by itself, with ${code ?? signal}:\n${this.tail(5)}`)
        appendFileSync(this.log, `ended by itself: ${code ?? signal}\n`)
      }
      setTimeout(() => this.#wanted && this.start(), this.#isKilled ? 0 : 250)
    })
  }

  /** Null while it is not running. */
  get pid(): number | null {
    return this.#child?.pid ?? null
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name)
  }

  /** An end that is meant, without a word unless it is asked for by another signal; it is started again. */
  kill(name: NodeJS.Signals = "SIGKILL"): void {
    this.#isKilled = true
    this.signal(name)
  }

  async stop(): Promise<void> {
    this.#wanted = false
    this.signal("SIGCONT")
    this.signal("SIGTERM")
    for (let waited = 0; this.#child !== null && waited < 20_000; waited += 20) await sleep(20)
    this.signal("SIGKILL")
  }

  /** The last lines that it wrote. */
  tail(lines: number): string {
    return readFileSync(this.log, "utf8").trimEnd().split("\n").slice(-lines).join("\n")
  }
}

/** A verb that ends by itself; throws with what it said if it failed. */
export const run = (parameters: ReadonlyArray<string>, variables: Readonly<Record<string, string>>): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...parameters], {
      env: { ...surroundings, ...variables },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let [output, errors] = ["", ""]
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()))
    child.once("exit", (code) =>
      code === 0 ? resolve(output) : reject(new Error(`mailroom ${parameters.join(" ")} ended with ${code}: ${errors}${output}`))
    )
  })

export interface Cluster {
  readonly serves: ReadonlyArray<Supervised>
  readonly workers: ReadonlyArray<Supervised>
  readonly baseUrls: ReadonlyArray<string>
  readonly variables: Readonly<Record<string, string>>
  readonly folder: string
  /** Of those that are running. */
  readonly pids: () => ReadonlyArray<number>
  readonly stop: () => Promise<void>
}

/** Starts on a database that is migrated, and waits until every `serve` is ready. */
export const start = async (
  counts: { readonly serves: number; readonly workers: number },
  variables: Readonly<Record<string, string>>
): Promise<Cluster> => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-cluster-"))
  const ports = await Promise.all(Array.from({ length: counts.serves }, freePort))
  const serves = ports.map((port, index) => new Supervised(`serve-${index + 1}`, ["serve"], { ...variables, MAILROOM_PORT: String(port) }, folder))
  const workers = Array.from({ length: counts.workers }, (_, index) => new Supervised(`worker-${index + 1}`, ["worker"], variables, folder))
  const baseUrls = ports.map((port) => `http://127.0.0.1:${port}`)
  for (const one of [...serves, ...workers]) one.start()
  for (const [index, baseUrl] of baseUrls.entries()) await ready(baseUrl, serves[index]!)
  return {
    serves,
    workers,
    baseUrls,
    variables,
    folder,
    pids: () => [...serves, ...workers].flatMap(({ pid }) => pid ?? []),
    stop: async () => void (await Promise.all([...serves, ...workers].map((one) => one.stop())))
  }
}

/** Milliseconds until it is ready. */
export const ready = async (baseUrl: string, supervised: Supervised, atMostMs = 120_000): Promise<number> => {
  const begin = performance.now()
  for (;;) {
    const response = await fetch(`${baseUrl}/readyz`, { signal: AbortSignal.timeout(2_000) }).catch(() => null)
    if (response?.status === 200) return performance.now() - begin
    if (performance.now() - begin > atMostMs) throw new Error(`${supervised.name} is not ready after ${atMostMs} ms:\n${supervised.tail(20)}`)
    await sleep(20)
  }
}
