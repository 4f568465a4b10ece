/**
 * A Redis server for tests: of the machine's `redis-server`, in a temporary
 * folder, reached by a socket in it, and holding nothing when it starts. It ends
 * with this process, by whatever end: a shell that watches a pipe kills it.
 */
import { Effect, Redacted, type Scope } from "effect"
import { Redis } from "ioredis"
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import { randomInt } from "node:crypto"
import * as fs from "node:fs"
import { createServer } from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { setTimeout as pass } from "node:timers/promises"

export interface PrivateRedis {
  readonly url: Redacted.Redacted<string>
  readonly folder: string
  readonly pid: () => number
  /** At once, as by a power cut. It holds nothing when it is started again, unless it was told to save. */
  readonly kill: Effect.Effect<void>
  readonly start: Effect.Effect<void>
  /** It stands still, with its connections open. */
  readonly freeze: Effect.Effect<void>
  readonly thaw: Effect.Effect<void>
}

export interface Options {
  /** Reached over TCP, at a free port of 127.0.0.1. */
  readonly isOverTcp?: boolean
  /** In the words of redis.conf, such as `--requirepass`. */
  readonly settings?: ReadonlyArray<string>
}

/** What docs/deploy.md gives a user, and nothing more. */
export const rights = ["~{mailroom}:*", "&{mailroom}:*", "+@all", "-@dangerous", "+info"]

/** Its URL is of a user who has these rights. */
export const asUser = (options: Options = {}): Effect.Effect<PrivateRedis, never, Scope.Scope> => {
  const opened = open({ ...options, isOverTcp: true, settings: [...(options.settings ?? []), "--user", "mailroom", "on", ">password", ...rights] })
  return Effect.map(opened, (server) => ({ ...server, url: Redacted.make(Redacted.value(server.url).replace("redis://", "redis://mailroom:password@")) }))
}

/** A connection of somebody who looks into it, or breaks it, by hand. */
export const operator = ({ folder }: PrivateRedis): Effect.Effect<Redis, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => new Redis(`${folder}/socket`).on("error", () => {})),
    (client) => Effect.sync(() => client.disconnect())
  )

/** Dies, with one line that says why, where there is no server to be had. */
export const open = (options: Options = {}): Effect.Effect<PrivateRedis, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* Effect.promise(provideServer)
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "mailroom-redis-"))),
      (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
    )
    const socket = path.join(folder, "socket")
    const port = options.isOverTcp === true ? yield* Effect.promise(freePort) : 0
    const place = ["--port", String(port), "--bind", "127.0.0.1", "--unixsocket", socket, "--dir", folder]
    const settings = [...place, "--save", "", ...(options.settings ?? [])]
    let server: Server | null = null
    const start = Effect.promise(() => launch(folder, settings).then((launched) => (server = launched)))
    const kill = Effect.promise(() => {
      const ended = server?.kill() ?? Promise.resolve()
      server = null
      return ended
    })
    const signal = (name: "SIGSTOP" | "SIGCONT") => Effect.sync(() => void (server !== null && process.kill(server.pid, name)))
    yield* Effect.acquireRelease(start, () => kill)
    return {
      url: Redacted.make(port === 0 ? `unix:${socket}` : `redis://127.0.0.1:${port}`),
      folder,
      pid: () => server?.pid ?? 0,
      kill,
      start: Effect.asVoid(start),
      freeze: signal("SIGSTOP"),
      thaw: signal("SIGCONT")
    }
  })

interface Server {
  readonly pid: number
  readonly kill: () => Promise<void>
}

/** Ends the server when the pipe ends, and removes its folder unless it is told not to. */
const watch = `
folder=$1
shift
redis-server "$@" </dev/null 2>&1 &
echo "pid $!"
if read -r _; then kill -9 $! 2>/dev/null; else kill -9 $! 2>/dev/null; rm -rf "$folder"; fi
wait $! 2>/dev/null
exit 0
`

const launch = (folder: string, settings: ReadonlyArray<string>): Promise<Server> =>
  new Promise((resolve, reject) => {
    // A session of its own, or what interrupts this process would end the watch before it has done its duty.
    const shell = spawn("sh", ["-c", watch, "sh", folder, ...settings], { detached: true, stdio: ["pipe", "pipe", "ignore"] })
    const ended = new Promise<void>((resolve) => shell.once("close", () => resolve()))
    const kill = () => {
      shell.ref()
      shell.stdin.end("kill\n")
      return ended
    }
    let said = ""
    const hear = (chunk: Buffer) => {
      said += chunk.toString()
      if (/ready to accept connections/i.test(said)) {
        shell.stdout.off("data", hear).resume()
        unreference(shell)
        resolve({ pid: Number(/^pid (\d+)$/m.exec(said)?.[1]), kill })
      } else if (/fatal|exiting|aborting/i.test(said)) {
        const hasSaidAll = pass(100)
        const words = () => `the private Redis server does not start: ${said.trim().split("\n").at(-1)}`
        void hasSaidAll.then(kill).then(() => reject(new Error(words())))
      }
    }
    shell.stdout.on("data", hear)
    shell.stdin.on("error", () => {})
    shell.once("error", reject)
  })

/** It keeps no process running: it ends with the one that it was started by. */
const unreference = (shell: ChildProcess): void => {
  shell.unref()
  for (const pipe of [shell.stdin, shell.stdout]) (pipe as { unref?: () => void } | null)?.unref?.() // pipes are sockets
}

/**
 * A port of 127.0.0.1 for a server that is started a moment later, and perhaps again. None that a system hands out by
 * itself (Linux from 32768, others from 49152), or whoever asks it for any port could be given it in between.
 */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = randomInt(16_384, 32_768)
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer().once("error", () => resolve(false))
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
    })
    if (isFree) return port
  }
}

const isThere = (): boolean => spawnSync("redis-server", ["--version"]).status === 0

const advice = "install Redis (Debian and Ubuntu: apt-get install redis-server; macOS: brew install redis)"

const provideServer = async (): Promise<void> => {
  if (isThere()) return
  const mayInstall = process.getuid?.() === 0 && fs.existsSync("/etc/debian_version")
  if (!mayInstall) throw new Error(`there is no redis-server on PATH: ${advice}`)
  const { status, words } = await installed()
  if (status !== 0 || !isThere()) throw new Error(`redis-server could not be installed (${words}): ${advice}`)
}

/** One process at a time. The package's own service is not started, or stopped where that is not heeded. */
const install = `
exec 9>"$1"
flock 9
command -v redis-server >/dev/null && exit 0
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
fi
apt-get -qq update
apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 install redis-server || exit 1
if [ -d /run/systemd/system ]; then systemctl disable --now redis-server; else service redis-server stop; fi
exit 0
`

const installed = (): Promise<{ readonly status: number | null; readonly words: string }> =>
  new Promise((resolve) => {
    const lock = path.join(os.tmpdir(), "mailroom-redis-install.lock")
    const shell = spawn("sh", ["-c", install, "sh", lock], { stdio: ["ignore", "ignore", "pipe"] })
    let words = ""
    shell.stderr.on("data", (chunk: Buffer) => (words += chunk.toString()))
    shell.once("error", (error) => resolve({ status: 1, words: error.message }))
    shell.once("close", (status) => resolve({ status, words: words.trim().split("\n").at(-1) ?? "" }))
  })
