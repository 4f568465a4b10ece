/**
 * A mail server that takes everything and keeps nothing: Postfix's `smtp-sink`,
 * which costs next to nothing; in a smoke round, or where it cannot be had, one
 * of our own.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import { existsSync } from "node:fs"
import { connect } from "node:net"
import { freePort } from "./Cluster.ts"
import { scale } from "./Report.ts"
import { start } from "./Process.ts"

export interface Sink {
  readonly name: string
  readonly port: number
  readonly stop: () => Promise<void>
}

const smtpSink = "/usr/sbin/smtp-sink"

/** Whether it is there, or could be installed, as root on a Debian. */
const isInstalled = (): boolean => {
  if (existsSync(smtpSink)) return true
  if (process.getuid?.() !== 0 || !existsSync("/usr/bin/apt-get")) return false
  process.stderr.write("installing the package postfix, for its smtp-sink\n")
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  return spawnSync("apt-get", ["install", "-y", "--no-install-recommends", "postfix"], { env, stdio: "ignore" }).status === 0
}

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => resolve(true))
    socket.once("error", () => resolve(false))
    socket.once("close", () => socket.destroy())
    socket.once("connect", () => socket.destroy())
  })

/** `delayMs`: how long it takes to answer the end of a message; only our own can wait. */
export const open = async ({ delayMs = 0 }: { readonly delayMs?: number } = {}): Promise<Sink> => {
  if (scale.isSmoke || delayMs > 0 || !isInstalled()) {
    const own = await start("reference/sink.ts", ...(delayMs === 0 ? [] : ["--delay-ms", String(delayMs)]))
    return { name: "a sink of our own", port: Number(own.ready["port"]), stop: own.stop }
  }
  const port = await freePort()
  const child: ChildProcess = spawn(smtpSink, ["-u", "nobody", `127.0.0.1:${port}`, "256"], { stdio: ["ignore", "ignore", "inherit"] })
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()))
  for (let tries = 0; !(await isListening(port)); tries++) {
    if (tries > 200 || child.exitCode !== null) throw new Error("smtp-sink does not listen")
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return {
    name: "smtp-sink of Postfix",
    port,
    stop: async () => {
      child.kill()
      await ended
    }
  }
}
