/** `mailroom smtp` as a process, and where it listens. */
import { spawn } from "node:child_process"
import { join } from "node:path"
import { surroundings } from "./Cluster.ts"

export interface Listener {
  readonly pid: number
  readonly port: number
  readonly stop: () => Promise<void>
}

/** Judges nobody, and takes as much of a sender as comes. */
export const start = (variables: Readonly<Record<string, string>>): Promise<Listener> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, "../runtimes/cli/main.ts"), "smtp"], {
      env: { ...surroundings, ...variables, MAILROOM_INBOUND_PORT: "0", MAILROOM_INBOUND_DMARC: "off", MAILROOM_INBOUND_PER_MINUTE: "1000000" },
      stdio: ["ignore", "ignore", "pipe"]
    })
    const ended = new Promise<void>((done) => child.once("exit", () => done()))
    process.once("exit", () => child.kill("SIGKILL")) // it must not outlive this process
    let said = ""
    child.stderr.on("data", (chunk: Buffer) => {
      said += chunk.toString()
      const port = /"address":"127\.0\.0\.1:(\d+)"/.exec(said)?.[1]
      if (port === undefined || !said.includes("smtp: ready")) return
      resolve({ pid: child.pid!, port: Number(port), stop: () => (child.kill("SIGTERM"), ended) }) // it has said something
    })
    void ended.then(() => reject(new Error(`smtp ended before it was ready: ${said}`)))
  })
