/**
 * Postfix as a durable relay: an instance of its own in a temporary folder,
 * which takes mail on a port of loopback, keeps it in its queue on the disk
 * until it is handed on, and relays all of it to one server.
 */
import { execFileSync, spawn } from "node:child_process"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, opendirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../adapters/redis/PrivateRedis.ts"
import { treeCpuMs } from "../Processor.ts"

const services = `
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
`

export interface Postfix {
  readonly port: number
  /** Whether it still has messages. */
  readonly isBusy: () => boolean
  /** Processor time so far, in milliseconds, of its processes and of those that have ended. */
  readonly cpu: () => number
  /** What it wrote of late about mail that it could not hand on, or of anything. */
  readonly lastWords: () => string
  readonly stop: () => void
}

const idOf = (file: string, name: string): number => Number(new RegExp(`^${name}:[^:]*:(\\d+):`, "m").exec(readFileSync(file, "utf8"))![1])

/** `more` goes before what it is set up with. */
export const open = async (relayPort: number, more: Readonly<Record<string, string>> = {}): Promise<Postfix> => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-postfix-"))
  const [etc, spool, data] = ["etc", "spool", "data"].map((name) => join(folder, name)) as [string, string, string]
  for (const path of [etc, spool, data]) mkdirSync(path)
  chmodSync(folder, 0o755)
  chownSync(data, idOf("/etc/passwd", "postfix"), idOf("/etc/group", "postfix"))
  const port = await freePort()
  const settings = {
    compatibility_level: "3.6",
    queue_directory: spool,
    data_directory: data,
    inet_interfaces: "127.0.0.1",
    inet_protocols: "ipv4",
    myhostname: "relay.bench.example",
    mydestination: "",
    mynetworks: "127.0.0.0/8",
    relayhost: `[127.0.0.1]:${relayPort}`,
    alias_maps: "",
    local_recipient_maps: "",
    default_destination_concurrency_limit: "50",
    maillog_file: join(folder, "log"),
    maillog_file_prefixes: folder,
    smtpd_client_connection_count_limit: "0",
    smtpd_client_connection_rate_limit: "0",
    ...more
  }
  writeFileSync(join(etc, "main.cf"), Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`).join(""))
  writeFileSync(join(etc, "master.cf"), `127.0.0.1:${port} inet n - n - - smtpd${services}`)
  execFileSync("postfix", ["-c", etc, "start"], { stdio: "ignore" })
  const stop = () => {
    process.off("exit", stop)
    execFileSync("postfix", ["-c", etc, "stop"], { stdio: "ignore" })
    rmSync(folder, { recursive: true, force: true })
  }
  // Its processes are nobody's children, and would outlive this one.
  process.once("exit", stop)
  /** Looks no further than the first file: to count thousands while it works would take the processor from it. */
  const hasFile = (path: string): boolean => {
    const folder = opendirSync(path)
    try {
      for (let entry = folder.readSync(); entry !== null; entry = folder.readSync()) {
        if (!entry.isDirectory() || hasFile(join(path, entry.name))) return true
      }
      return false
    } finally {
      folder.closeSync()
    }
  }
  return {
    port,
    isBusy: () => ["maildrop", "incoming", "active", "deferred"].some((queue) => hasFile(join(spool, queue))),
    lastWords: () => {
      const lines = readFileSync(settings.maillog_file, "utf8").trimEnd().split("\n")
      return lines.findLast((line) => line.includes("status=deferred")) ?? lines.at(-1)!
    },
    cpu: () => treeCpuMs(Number(readFileSync(join(spool, "pid", "master.pid"), "latin1"))),
    stop
  }
}

/** Submits so many messages over so many connections with Postfix's own load generator; resolves when all are taken. */
export const submit = (port: number, count: number, connections: number, sizeBytes: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const parameters = ["-s", String(connections), "-m", String(count), "-l", String(sizeBytes), "-f", "ada@bench.example", "-t", "reader@example.com"]
    const child = spawn("/usr/sbin/smtp-source", [...parameters, `127.0.0.1:${port}`], { stdio: ["ignore", "ignore", "inherit"] })
    child.once("exit", (code) => (code === 0 ? resolve() : reject(new Error(`smtp-source ended with ${code}`))))
  })
