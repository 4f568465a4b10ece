/**
 * The process that keeps a private PostgreSQL server: it makes a fresh cluster
 * in a folder, starts the server, and stops and restarts it when told. When its
 * parent is gone, by whatever end, it stops the server and removes the folder.
 *
 * node PostgresKeeper.ts '<Order as JSON>', forked with a channel.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

export interface Order {
  readonly folder: string
  /** Where `initdb` and `postgres` are. */
  readonly binaries: string
  readonly settings: ReadonlyArray<string>
  /** The folder of a server that is stopped, whose standby it becomes. */
  readonly standbyOf: string | null
}

/** `freeze`: the server and all its processes stand still, with their connections open. */
export type Command = { readonly do: "start" | "freeze" | "thaw" } | { readonly do: "stop"; readonly mode: "fast" | "immediate" }

export type Report =
  | { readonly is: "started"; readonly pid: number }
  | { readonly is: "stopped" | "frozen" | "thawed" }
  | { readonly is: "failed"; readonly why: string }

const stopSignals = { fast: "SIGINT", immediate: "SIGQUIT" } as const

/** PostgreSQL refuses to run as root. */
const nobody = (): { readonly uid?: number; readonly gid?: number } => {
  if (process.getuid?.() !== 0) return {}
  const line = fs.readFileSync("/etc/passwd", "utf8").match(/^nobody:[^:]*:(\d+):(\d+):/m)
  return line === null ? { uid: 65534, gid: 65534 } : { uid: Number(line[1]), gid: Number(line[2]) }
}

/** The package's libraries come without their short names, which its install script would make: it need not be run. */
const linkedLibraries = (home: string, links: string): Readonly<Record<string, string>> => {
  const list = path.join(home, "pg-symlinks.json")
  if (!fs.existsSync(list)) return {}
  fs.rmSync(links, { recursive: true, force: true })
  fs.mkdirSync(links)
  const named = JSON.parse(fs.readFileSync(list, "utf8")) as ReadonlyArray<{ readonly source: string; readonly target: string }> // as packed
  for (const { source, target } of named) {
    fs.symlinkSync(path.join(home, path.relative("native", source)), path.join(links, path.basename(target)))
  }
  const searched = [links, path.join(home, "lib")].join(path.delimiter)
  return { LD_LIBRARY_PATH: searched, DYLD_LIBRARY_PATH: searched }
}

const childrenOf = (parent: number): ReadonlyArray<number> =>
  spawnSync("ps", ["-A", "-o", "ppid=,pid="], { encoding: "utf8" })
    .stdout.split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([ppid, pid]) => (ppid === parent && pid !== undefined ? [pid] : []))

const keep = (order: Order): void => {
  const { folder } = order
  const identity = nobody()
  if (identity.uid !== undefined && identity.gid !== undefined) fs.chownSync(folder, identity.uid, identity.gid)
  const links = path.join(folder, "links")
  const env: Record<string, string> = { LC_ALL: "C", TZ: "UTC" }
  const options = { ...identity, cwd: folder, env }
  const data = path.join(folder, "data")
  const log = path.join(folder, "log")
  let server: ChildProcess | null = null

  const report = (content: Report) => {
    if (process.connected) process.send?.(content, undefined, undefined, () => undefined)
  }
  const signalAll = (signal: "SIGSTOP" | "SIGCONT") => {
    if (server?.pid === undefined) return
    for (const pid of [server.pid, ...childrenOf(server.pid)]) {
      try {
        process.kill(pid, signal)
      } catch {
        // It has ended since it was listed.
      }
    }
  }
  const finish = () => {
    // What it spawned ends with it; nothing in the folder is worth a clean end.
    signalAll("SIGCONT")
    server?.kill("SIGQUIT")
    const gone = () => {
      fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
      process.exit(0)
    }
    if (server === null || server.exitCode !== null) gone()
    else server.once("exit", gone)
  }
  const fail = (why: string) => {
    report({ is: "failed", why })
    finish()
  }

  /** Where the binaries can be run from: of a folder that only root may enter, a copy. */
  const reachable = (): string => {
    const home = path.dirname(order.binaries)
    Object.assign(env, linkedLibraries(home, links))
    if (spawnSync(path.join(order.binaries, "initdb"), ["--version"], options).status === 0) return order.binaries
    const copy = path.join(folder, "server")
    fs.cpSync(home, copy, { recursive: true, verbatimSymlinks: true })
    // Which rights a copy has differs between versions of Node.
    spawnSync("chmod", ["-R", "a+rX", copy])
    Object.assign(env, linkedLibraries(copy, links))
    return path.join(copy, path.basename(order.binaries))
  }

  const start = (binaries: string) => {
    const listening = ["-D", data, "-k", folder, "-c", "listen_addresses="]
    const child = spawn(path.join(binaries, "postgres"), [...listening, ...order.settings.flatMap((setting) => ["-c", setting])], {
      ...options,
      stdio: ["ignore", "ignore", "pipe"]
    })
    server = child
    let said = ""
    child.stderr.on("data", (chunk: Buffer) => {
      fs.appendFileSync(log, chunk)
      if (said === "started") return
      said += chunk.toString()
      if (!/database system is ready to accept (read-only )?connections/.test(said)) return
      said = "started"
      report({ is: "started", pid: child.pid ?? 0 })
    })
    child.once("error", (error) => fail(error.message))
    child.once("exit", () => {
      server = null
      if (said !== "started") fail(said)
      else report({ is: "stopped" })
    })
  }

  process.on("disconnect", finish)
  process.on("uncaughtException", (error) => fail(error.message))
  process.on("SIGTERM", finish)
  const binaries = reachable()
  const made =
    order.standbyOf === null
      ? spawnSync(
          path.join(binaries, "initdb"),
          ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"],
          { ...options, encoding: "utf8" }
        )
      : spawnSync("cp", ["-R", path.join(order.standbyOf, "data"), data], { ...options, encoding: "utf8" })
  if (made.status !== 0) return fail(made.error?.message ?? made.stderr)
  if (order.standbyOf !== null) fs.writeFileSync(path.join(data, "standby.signal"), "")
  process.on("message", (command: Command) => {
    switch (command.do) {
      case "start":
        return start(binaries)
      case "stop":
        return void server?.kill(stopSignals[command.mode])
      case "freeze":
        signalAll("SIGSTOP")
        return report({ is: "frozen" })
      case "thaw":
        signalAll("SIGCONT")
        return report({ is: "thawed" })
    }
  })
  start(binaries)
}

keep(JSON.parse(process.argv[2] ?? "") as Order) // PrivatePostgres wrote it
