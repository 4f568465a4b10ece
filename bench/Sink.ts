/**
 * Mail servers that take everything and keep nothing: `reference/sink.ts` as a
 * process, which counts and can think for a while, and Postfix's `smtp-sink`,
 * which costs next to nothing.
 */
import { fork, spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { connect } from "node:net"
import { freePort } from "../adapters/redis/PrivateRedis.ts"
import { sleep } from "./Api.ts"
import { scale } from "./Report.ts"

export interface Sink {
  readonly pid: number
  /** Messages since the last time that this was asked. */
  readonly counted: () => Promise<number>
  /** Settings by which the product hands production mail to it. */
  readonly variables: Readonly<Record<string, string>>
  readonly stop: () => void
}

/** `delayMs`: how long it thinks about each message. */
export const start = async (delayMs = 0): Promise<Sink> => {
  const child = fork(`${import.meta.dirname}/reference/sink.ts`, ["--delay-ms", String(delayMs)])
  const said = () => new Promise<unknown>((resolve) => child.once("message", resolve))
  const port = await said()
  return {
    pid: child.pid!, // it spoke
    counted: async () => {
      const answer = said()
      child.send("count")
      return ((await answer) as { readonly messages: number }).messages // what it sends
    },
    variables: variablesFor(Number(port)),
    stop: () => void child.kill()
  }
}

export const variablesFor = (port: number): Readonly<Record<string, string>> => ({
  MAILROOM_SMTP_HOST: "127.0.0.1",
  MAILROOM_SMTP_PORT: String(port),
  MAILROOM_SMTP_TLS: "none"
})

const smtpSink = "/usr/sbin/smtp-sink"

/** Whether somebody is still installing it: its files are there before it can be used. */
const isBeingInstalled = (): boolean => {
  const { status, stdout } = spawnSync("dpkg-query", ["-W", "-f", "${db:Status-Status}", "postfix"], { encoding: "utf8" })
  return status === 0 && /^(half-|unpacked|triggers-)/.test(stdout)
}

/** Whether it is there, or could be installed, as root on a Debian; who comes while another benchmark installs it waits for that. */
const isInstalled = (): boolean => {
  if (existsSync(smtpSink) && !isBeingInstalled()) return true
  if (process.getuid?.() !== 0 || !existsSync("/usr/bin/apt-get")) return false
  process.stderr.write("installing the package postfix, for its smtp-sink\n")
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  const parameters = ["install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "postfix"]
  return spawnSync("apt-get", parameters, { env, stdio: "ignore" }).status === 0
}

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    const told = (is: boolean) => () => {
      socket.destroy()
      resolve(is)
    }
    socket.once("connect", told(true)).once("error", told(false))
  })

/** The cheapest one there is, on its port; in a smoke round one of our own. */
export const cheapest = async (): Promise<{ readonly name: string; readonly port: number; readonly stop: () => void }> => {
  if (scale.isSmoke || !isInstalled()) {
    const { variables, stop } = await start()
    return { name: "a sink of our own", port: Number(variables["MAILROOM_SMTP_PORT"]), stop }
  }
  const port = await freePort()
  const child = spawn(smtpSink, ["-u", "nobody", `127.0.0.1:${port}`, "256"], { stdio: ["ignore", "ignore", "inherit"] })
  process.once("exit", () => child.kill())
  for (let tries = 0; !(await isListening(port)); tries++) {
    if (tries > 200 || child.exitCode !== null) throw new Error("smtp-sink does not listen")
    await sleep(20)
  }
  return { name: "smtp-sink of Postfix", port, stop: () => void child.kill() }
}
