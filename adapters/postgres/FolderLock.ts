/**
 * A folder that belongs to one process: PGlite takes no lock of its own, and
 * two processes would lose each other's data. The lock names its holder, and
 * is taken over when the holder is gone. A container sees no process of another
 * one, nor of its host, and may have the same numbers: so a holder listens on a
 * socket in the folder, where all who share it can knock, and which the system
 * closes with the process. By that socket threads of one process, and copies of
 * this module, are told apart too; where the system tells nothing of processes
 * (no /proc), they are not, and it is for the program to open a folder once.
 */
import { Data, Effect, type Scope } from "effect"
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs/promises"
import * as net from "node:net"
import * as path from "node:path"
import { kill, pid } from "node:process"

export class FolderInUse extends Data.TaggedError("FolderInUse")<{
  readonly folder: string
  readonly holder: number
  /** It is one of another container, or of the host. */
  readonly isElsewhere: boolean
}> {
  /** It is this process, by another thread or copy of this module, or the same. */
  readonly isOwn = this.holder === pid && !this.isElsewhere
  /** The holder, in words. */
  readonly who = this.isOwn ? "this process already" : `process ${this.holder}${this.isElsewhere ? " of another container, or of the host" : ""}`
  override readonly message = `the database folder ${this.folder} is in use by ${this.who}; ${this.isOwn ? "close it there" : "stop it"}, or choose another folder`
}

export class FolderUnusable extends Data.TaggedError("FolderUnusable")<{ readonly folder: string; readonly cause: unknown }> {
  override readonly message = `the database folder ${this.folder} cannot be used: ${this.cause instanceof Error ? this.cause.message : String(this.cause)}`
}

/** Folders that this thread has, or is about to take, by this copy of the module. */
const held = new Set<string>()

interface Holder {
  readonly pid: number
  /** When it began, as the system tells it; null where it does not. By its number alone it could be another that has the same by now. */
  readonly began: string | null
  /** In which it has that number (pid_namespaces(7)), if a socket of its is in the folder; null where there are none, or no sockets. */
  readonly pidNamespace: string | null
  /** Never the same: who finds that it is gone, while it has just given the folder back, must not take what it has taken again for the same. */
  readonly token: string
}

/** A folder that this process wants, and how it is named there; its namespace also where there are no sockets. */
interface Wanted extends Holder {
  readonly lock: string
  /** Of the folder, by which its sockets have short paths; null where there are no namespaces. */
  readonly descriptor: number | null
}

/** Makes the folder if need be, and has it until the scope closes. */
export const take = (folder: string): Effect.Effect<void, FolderInUse | FolderUnusable, Scope.Scope> =>
  Effect.gen(function* () {
    const io = ioOf(folder)
    yield* io(() => makeFolder(folder))
    const lock = path.join(yield* io(() => fs.realpath(folder)), "lock")
    // At once, and for as long as there is anything of it: whoever else in this process asks for it meanwhile is refused.
    yield* Effect.acquireRelease(
      Effect.suspend(() => (held.has(lock) ? Effect.fail(new FolderInUse({ folder, holder: pid, isElsewhere: false })) : Effect.sync(() => held.add(lock)))),
      () => Effect.sync(() => held.delete(lock))
    )
    const pidNamespace = yield* Effect.promise(ownPidNamespace)
    const opened = yield* Effect.acquireRelease(
      io(async () => (pidNamespace === null ? null : await fs.open(path.dirname(lock)))),
      (opened) => Effect.promise(async () => opened?.close())
    )
    const began = (yield* Effect.promise(() => processOf(pid)))?.began ?? null
    const wanted = { lock, pid, began, pidNamespace, token: drawn(), descriptor: opened?.fd ?? null }
    const server = yield* Effect.acquireRelease(
      Effect.promise(() => listen(wanted)),
      (server) => Effect.promise(() => hangUp(wanted, server))
    )
    const own = server === null ? { ...wanted, pidNamespace: null } : wanted
    yield* Effect.acquireRelease(
      Effect.flatMap(io(() => acquire(wanted, lock, own)), (holder) =>
        holder === null ? Effect.void : Effect.fail(new FolderInUse({ folder, holder: holder.pid, isElsewhere: isElsewhere(wanted, holder) }))
      ),
      () => Effect.promise(() => fs.rm(lock, { force: true })) // nobody takes it from a process that is there
    )
    yield* io(() => tidy(wanted))
  })

const ioOf =
  (folder: string) =>
  <A>(action: () => Promise<A>): Effect.Effect<A, FolderUnusable> =>
    Effect.tryPromise({ try: action, catch: (cause) => new FolderUnusable({ folder, cause }) })

/** As `fs.mkdir` with `recursive`, which never ends where a folder that is there takes no others, as in /proc. */
const makeFolder = async (folder: string): Promise<void> => {
  const isFolder = (at: string) => fs.stat(at).then((found) => found.isDirectory(), () => false)
  try {
    await fs.mkdir(folder, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException // node:fs throws ErrnoException
    if (code === "EEXIST" && (await isFolder(folder))) return
    if (code !== "ENOENT" || (await isFolder(path.dirname(folder)))) throw error
    await makeFolder(path.dirname(folder))
    await makeFolder(folder)
  }
}

/** Others may give a lock back, or replace it, while one looks; nobody meets that so often in a row. */
const turnsMax = 100

/**
 * Puts our name into a file of its own, if nobody has it who is there; else tells who has it, or is about to. Of several who
 * find the name of one that is gone, one may replace it: who has the file that is called by what they all have read.
 */
const acquire = async (wanted: Wanted, file: string, own: Holder): Promise<Holder | null> => {
  for (let turn = 0; turn < turnsMax; turn++) {
    if (await made(wanted, file, own)) return null
    const text = await textIn(file)
    if (text === null) continue // it has just been given back
    const holder = holderIn(text)
    if (holder !== null && (await isThere(wanted, holder))) return holder
    const right = `${wanted.lock}.${createHash("sha256").update(`${file} ${text}`).digest("hex").slice(0, 16)}`
    const other = await acquire(wanted, right, own)
    if (other !== null) return other // it is about to have it
    try {
      if ((await textIn(file)) !== text) continue // another has
      await written(wanted, own, (mine) => fs.rename(mine, file))
      if (holder !== null) await fs.rm(`${wanted.lock}.${nameOf(holder)}.socket`, { force: true })
      return null
    } finally {
      await fs.rm(right, { force: true })
    }
  }
  throw new Error(`${file} can be neither made nor read, as a symbolic link that leads nowhere; remove it`)
}

/** Makes the file, unless it is there. */
const made = async (wanted: Wanted, file: string, own: Holder): Promise<boolean> => {
  try {
    await written(wanted, own, (mine) => fs.link(mine, file))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error // node:fs throws ErrnoException
    return false
  }
}

/** Written aside, so that no file is ever seen without its name; readable by all, for who may not read it could not tell whether it is held. */
const written = async (wanted: Wanted, own: Holder, use: (mine: string) => Promise<void>): Promise<void> => {
  const mine = `${wanted.lock}.${nameOf({ ...wanted, token: drawn() })}` // never the same: who tidies up may be slow
  try {
    await fs.writeFile(mine, textOf(own), { mode: 0o644 })
    await use(mine)
  } finally {
    await fs.rm(mine, { force: true })
  }
}

/** Removes what processes that were killed have left. Who has the lock may, for what they were about to replace is replaced. */
const tidy = async (wanted: Wanted): Promise<void> => {
  const folder = path.dirname(wanted.lock)
  for (const name of await fs.readdir(folder)) {
    if (await isLeft(wanted, path.join(folder, name))) await fs.rm(path.join(folder, name), { force: true }).catch(() => undefined)
  }
}

/** A socket that does not answer may be of one that is about to listen: it is left over only when its process is gone, as far as its number says so. */
const isLeft = async (wanted: Wanted, file: string): Promise<boolean> => {
  const [, number, pidNamespace] = /^lock\.(\d+)\.(\d+)\.(?:\w+\.)?socket$/.exec(path.basename(file)) ?? []
  if (number !== undefined) return pidNamespace === wanted.pidNamespace && !(await runs(Number(number)))
  if (!/^lock\.[\w.]+$/.test(path.basename(file))) return false
  const holder = holderIn((await textIn(file).catch(() => null)) ?? "")
  return holder !== null && !(await isThere(wanted, holder))
}

const drawn = (): string => randomBytes(8).toString("hex")

const textOf = ({ pid, began, pidNamespace, token }: Holder): string => [pid, began ?? "-", pidNamespace ?? "-", token].join(" ")

/** Null if there is none. One that may not be read is somebody's. */
const textIn = (file: string): Promise<string | null> =>
  fs.readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })

/** The process that is named, by its number alone by versions of before; null if none is. */
const holderIn = (text: string): Holder | null => {
  const [, number, began = "-", pidNamespace = "-", token = ""] = /^(\d{1,10})(?: (\S+)(?: (\d+|-)(?: (\w+))?)?)?\s*$/.exec(text) ?? []
  const known = (word: string) => (word === "-" ? null : word)
  return number === undefined || Number(number) === 0 ? null : { pid: Number(number), began: known(began), pidNamespace: known(pidNamespace), token }
}

/** Whether its number says nothing here. */
const isElsewhere = ({ pidNamespace }: Wanted, holder: Holder): boolean =>
  pidNamespace !== null && holder.pidNamespace !== null && holder.pidNamespace !== pidNamespace

/** Whether it runs: a process that has ended has its number until its parent asks how, and others have it after that. */
const isThere = async (wanted: Wanted, holder: Holder): Promise<boolean> => {
  if (isElsewhere(wanted, holder)) return answers(wanted, holder)
  if (holder.pid === pid) {
    // Of an earlier process that had our number; or of this one, by another thread, which may have ended, or another copy.
    return wanted.began !== null && holder.began === wanted.began && (holder.pidNamespace === null || answers(wanted, holder))
  }
  return runs(holder.pid, holder.began)
}

/** Whether there is a process of that number, which began then if that is known. */
const runs = async (number: number, began: string | null = null): Promise<boolean> => {
  const found = await processOf(number)
  if (found === null) return isAlive(number) // no Linux, or none whose processes can be seen
  return !found.hasEnded && (began === null || began === found.began)
}

const nameOf = ({ pid, pidNamespace, token }: Omit<Holder, "began">): string => [pid, pidNamespace, token].filter((word) => word !== null && word !== "").join(".")

/** A socket's path is a hundred characters at most, and the folder's may be longer. */
const socketOf = ({ descriptor }: Wanted, holder: Holder): string => `/proc/self/fd/${descriptor}/lock.${nameOf(holder)}.socket`

/** Null where there are no namespaces, or the folder's file system has no sockets, or none that all may use. */
const listen = async (wanted: Wanted): Promise<net.Server | null> => {
  if (wanted.pidNamespace === null) return null
  const server = net.createServer((caller) => caller.destroy()).unref()
  return new Promise<net.Server | null>((resolve) => {
    server.on("error", () => resolve(null)) // also of a call that cannot be taken later, which changes nothing
    server.listen({ path: socketOf(wanted, wanted), readableAll: true, writableAll: true }, () => resolve(server))
  }).catch(() => null) // its mode cannot be set
}

const hangUp = async (wanted: Wanted, server: net.Server | null): Promise<void> => {
  if (server === null) return
  await new Promise((resolve) => server.close(resolve))
  await fs.rm(socketOf(wanted, wanted), { force: true }).catch(() => undefined)
}

/** Whether somebody listens on its socket, if only the system for it: then the process is there, however busy. */
const answers = (wanted: Wanted, holder: Holder): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = net.connect(socketOf(wanted, holder))
    const end = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once("connect", () => end(true))
    // Whatever else is in the way does not say that it is gone.
    socket.once("error", ({ code }: NodeJS.ErrnoException) => end(code !== "ECONNREFUSED" && code !== "ENOENT"))
  })

const ownPidNamespace = (): Promise<string | null> => fs.readlink("/proc/self/ns/pid").then((link) => /\d+/.exec(link)?.[0] ?? null, () => null)

/**
 * What Linux says of a process (proc(5)): whether it has ended, and when it began, in ticks since this start of the system. Null
 * if nothing. One that is killed is a zombie while others of its threads end, whose last calls may still change a file.
 */
const processOf = async (number: number): Promise<{ readonly hasEnded: boolean; readonly began: string } | null> => {
  const [stat, boot] = await Promise.all(
    [`/proc/${number}/stat`, "/proc/sys/kernel/random/boot_id"].map((file) => fs.readFile(file, "utf8").catch(() => ""))
  )
  const fields = stat!.replace(/^.*\) /s, "").split(" ") // its name, which is before, may have anything in it
  const [state, threads, ticks] = [fields[0], fields[17], fields[19]]
  if (state === undefined || ticks === undefined) return null
  return { hasEnded: state === "X" || (state === "Z" && Number(threads) <= 1), began: `${boot!.trim()}/${ticks}` }
}

const isAlive = (other: number): boolean => {
  try {
    kill(other, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" // node:process throws ErrnoException
  }
}
