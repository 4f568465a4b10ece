/**
 * A Database without a server: PGlite, PostgreSQL in this process, on a folder
 * or in memory. One connection has it, so transactions take turns; a statement
 * holds up the process while it runs. What was committed outlives the process,
 * however it ends, but not a power cut: PGlite leaves writing to the disk to
 * the operating system.
 */
import type { PGlite } from "@electric-sql/pglite"
import { Data, Effect, Layer, type Scope } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { statfsSync } from "node:fs"
import { mkdir, rename, rm, stat } from "node:fs/promises"
import * as path from "node:path"
import { Duplex } from "node:stream"
import * as Database from "./Database.ts"
import * as FolderLock from "./FolderLock.ts"

export { FolderInUse } from "./FolderLock.ts"

export interface Options {
  /** Made when it is not there. It belongs to one process at a time. */
  readonly directory: string
  /** Bytes that are free on its disk; by default as the system says. */
  readonly freeBytes?: () => number
}

/**
 * Bytes of the disk below which nothing is asked of PGlite: PostgreSQL gives up where its log cannot go on, a file of 16 MiB
 * at a time, and in this process that is a loop without an end, which no signal ends. What is committed is safe by then.
 */
const roomMin = 32 * 1024 * 1024

/** Bytes of a cluster that has just been made, rounded up. */
const clusterBytes = 40 * 1024 * 1024

/** PGlite cannot run: it is not installed, cannot read what is in the folder, or has no room on its disk. */
export class PgliteUnavailable extends Data.TaggedError("PgliteUnavailable")<{ readonly message: string; readonly cause: unknown }> {}

export const layer = (
  options: Options
): Layer.Layer<Database.Database, PgliteUnavailable | FolderLock.FolderInUse | FolderLock.FolderUnusable | SqlError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directory, freeBytes = () => freeBytesIn(directory) } = options
      yield* FolderLock.take(directory)
      const cluster = path.join(directory, "cluster")
      if (!(yield* exists(cluster))) yield* makeCluster(cluster, hasRoom(directory, freeBytes, clusterBytes + roomMin))
      // Without it PGlite would make a new one over what is left.
      const versionFile = path.join(cluster, "PG_VERSION")
      if (!(yield* exists(versionFile, (reason) => unopened(cluster, reason)))) {
        return yield* new PgliteUnavailable({ message: unopened(cluster, "it has no PG_VERSION"), cause: null })
      }
      yield* hasRoom(directory, freeBytes, roomMin)
      const pglite = yield* opened(cluster, (reason) => unopened(cluster, reason))
      return overPglite(pglite, () =>
        freeBytes() < roomMin ? new Error(`ENOSPC, the disk of ${directory} has less than ${inMiB(roomMin)} MiB free, which PostgreSQL may need`) : null
      )
    })
  )

/** Before PGlite is opened, for it writes at once: on a disk that is too full by then, it would be asked nothing anyway. */
const hasRoom = Effect.fnUntraced(function* (directory: string, freeBytes: () => number, wanted: number) {
  const free = freeBytes()
  if (free >= wanted) return
  const message = `the disk of the database folder ${directory} has ${inMiB(free)} MiB free, and PostgreSQL may need ${inMiB(wanted)} MiB: make room, and start again`
  return yield* new PgliteUnavailable({ message, cause: null })
})

const inMiB = (bytes: number): number => Math.floor(bytes / 1024 / 1024)

/** No bound where nobody can tell: of a file system that does not say how large it is, or a folder that is gone. */
export const freeBytesIn = (directory: string): number => {
  try {
    const { blocks, bavail, bsize } = statfsSync(directory)
    return blocks === 0 ? Infinity : bavail * bsize
  } catch {
    return Infinity
  }
}

/** Gone with its layer. */
export const layerMemory: Layer.Layer<Database.Database, PgliteUnavailable | SqlError> = Layer.unwrap(
  Effect.map(opened("memory://", (reason) => `PGlite cannot be opened: ${reason}`), (pglite) => overPglite(pglite, () => null))
)

/** A process that ends on the way leaves nothing that would be taken for a cluster. */
const makeCluster = Effect.fnUntraced(function* (cluster: string, room: Effect.Effect<void, PgliteUnavailable>) {
  const making = `${cluster}.new`
  yield* io(() => rm(making, { recursive: true, force: true }))
  yield* room
  yield* io(() => mkdir(making, { mode: 0o700 }))
  yield* Effect.scoped(opened(making, (reason) => `no database can be made in ${making}: ${reason}`)).pipe(
    Effect.onError(() => Effect.ignore(io(() => rm(making, { recursive: true, force: true })))) // it may have filled the disk
  )
  yield* io(() => rename(making, cluster))
})

const unopened = (cluster: string, reason: string): string => `the database in ${cluster} cannot be opened: ${reason}. ${remedyOf(reason)}`

/** What to do where the file system is the reason, by the code that it names: the database is whole. */
const remedies: Readonly<Record<string, string>> = {
  EACCES: "Let the user of this process read and write all that is in it",
  EPERM: "Let the user of this process read and write all that is in it",
  EROFS: "Let its disk be written",
  ENOSPC: "Make room, and start again"
}

/** Else it may be whole all the same, and nobody is told to remove it. */
const remedyOf = (reason: string): string =>
  remedies[/\bE[A-Z]+\b/.exec(reason)?.[0] ?? ""] ??
  "It may be of another version of PGlite, or another user's; if it is damaged, put it back from a copy. To begin anew, move that folder away"

const exists = (file: string, failing?: (reason: string) => string) =>
  io(
    () =>
      stat(file).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (error.code === "ENOENT") return false
          throw error
        }
      ),
    failing
  )

const io = <A>(action: () => Promise<A>, failing = (reason: string) => `no database can be made: ${reason}`): Effect.Effect<A, PgliteUnavailable> =>
  Effect.tryPromise({ try: action, catch: (cause) => new PgliteUnavailable({ message: failing(reasonOf(cause)), cause }) })

/** Its file system fails with numbers of WASI, and without a word. */
const reasons: Readonly<Record<number, string>> = {
  2: "EACCES, permission denied",
  44: "ENOENT, no such file or folder",
  51: "ENOSPC, no space left on the disk",
  63: "EPERM, operation not permitted",
  69: "EROFS, the disk is read only"
}

/** Why PGlite failed, of what it failed with. */
export const reasonOf = (cause: unknown): string => {
  if (typeof cause !== "object" || cause === null || cause instanceof Error || !("errno" in cause)) return String(cause)
  return reasons[Number(cause.errno)] ?? `error ${Number(cause.errno)} of its file system`
}

function opened(where: string, failing: (reason: string) => string): Effect.Effect<PGlite, PgliteUnavailable, Scope.Scope> {
  return Effect.acquireRelease(
    Effect.flatMap(
      Effect.tryPromise({
        try: () => import("@electric-sql/pglite"),
        catch: (cause) => new PgliteUnavailable({ message: "the package @electric-sql/pglite is not installed: npm install @electric-sql/pglite", cause })
      }),
      ({ PGlite }) => io(() => PGlite.create(where), failing)
    ),
    (pglite) => Effect.promise(() => pglite.close())
  )
}

function overPglite(pglite: PGlite, fullDisk: () => Error | null) {
  return Database.layer({ stream: connector(pglite, fullDisk), connectionsMax: 1 })
}

const frameOf = (statement: string): Uint8Array => {
  const text = Buffer.from(`${statement}\0`)
  const header = Buffer.from([0x51, 0, 0, 0, 0])
  header.writeInt32BE(text.length + 4, 1)
  return new Uint8Array(Buffer.concat([header, text]))
}

/** What a connection may leave behind for the next one, for there is one session for all; and what each begins with. */
const leftovers = [
  frameOf("ROLLBACK"),
  frameOf("DISCARD ALL"),
  frameOf(Object.entries(Database.planning).map(([name, value]) => `SET ${name} = ${value}`).join("; "))
]

const isTerminate = (frame: Uint8Array) => frame[0] === 0x58
/** There is nobody who could listen to it while a statement runs. */
const isCancelRequest = (frame: Uint8Array) => frame[0] === 0 && frame[4] === 0x04 && frame[5] === 0xd2 && frame[6] === 0x16 && frame[7] === 0x2e

/** Connections to it, one after another, for a driver that writes whole units: a startup message, or a statement up to its Sync. */
const connector = (pglite: PGlite, fullDisk: () => Error | null) => {
  let line: Promise<unknown> = Promise.resolve()
  const inTurn = <A>(work: () => Promise<A>): Promise<A> => {
    const mine = line.then(work)
    line = mine.catch(() => undefined)
    return mine
  }
  return (): Duplex => {
    let used = false
    const connection: Duplex = new Duplex({
      read: () => undefined,
      write: (frame: Uint8Array, _encoding, done) => {
        if (isTerminate(frame) || isCancelRequest(frame)) {
          done()
          return void connection.destroy()
        }
        const fault = fullDisk()
        if (fault !== null) return done(fault)
        used = true
        inTurn(() => pglite.execProtocolRaw(new Uint8Array(frame))).then(
          (answer) => {
            // A copy: PGlite writes the next answer over this one.
            if (!connection.destroyed) connection.push(answer.slice())
            done()
          },
          (cause: Error) => done(cause)
        )
      },
      final: (done) => {
        done()
        connection.destroy()
      },
      destroy: (error, done) => {
        if (used && !pglite.closed) {
          for (const frame of leftovers) void inTurn(() => pglite.execProtocolRaw(frame)).catch(() => undefined)
        }
        done(error)
      }
    })
    return connection
  }
}
