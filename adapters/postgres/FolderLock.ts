/**
 * A folder that belongs to one process: PGlite takes no lock of its own, and
 * two processes would lose each other's data. The lock names its holder, and
 * is taken over when the holder is gone.
 */
import { Data, Effect, type Scope } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { kill, pid } from "node:process"

export class FolderInUse extends Data.TaggedError("FolderInUse")<{ readonly folder: string; readonly holder: number }> {
  override readonly message = `the database folder ${this.folder} is in use by process ${this.holder}; stop it, or choose another folder`
}

export class FolderUnusable extends Data.TaggedError("FolderUnusable")<{ readonly folder: string; readonly cause: unknown }> {
  override readonly message = `the database folder ${this.folder} cannot be used: ${this.cause instanceof Error ? this.cause.message : String(this.cause)}`
}

/** Locks of this process: a lock with its number and not here is of an earlier process that had the same. */
const held = new Set<string>()

interface Holder {
  readonly pid: number
  /** When it began, as the system tells it; null where it does not. By its number alone it could be another that has the same by now. */
  readonly began: string | null
}

/** Makes the folder if need be, and has it until the scope closes. */
export const take = (folder: string): Effect.Effect<void, FolderInUse | FolderUnusable, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const io = ioOf(folder)
      yield* io(() => makeFolder(folder))
      const lock = path.join(yield* io(() => fs.realpath(folder)), "lock")
      for (;;) {
        const outcome = yield* io(() => tryTake(lock))
        if (outcome === "taken") return lock
        if (outcome !== "stale") return yield* new FolderInUse({ folder, holder: outcome.holder })
      }
    }),
    (lock) =>
      Effect.promise(async () => {
        if ((await holderOf(lock))?.pid === pid) await fs.rm(lock, { force: true })
        held.delete(lock)
      })
  )

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

type Outcome = "taken" | "stale" | { readonly holder: number }

const tryTake = async (lock: string): Promise<Outcome> => {
  if (held.has(lock)) return { holder: pid }
  // Written aside and linked, so that a lock is never seen without its holder.
  const mine = `${lock}.${pid}`
  await fs.writeFile(mine, `${pid} ${(await processOf(pid))?.began ?? ""}`, { mode: 0o600 })
  try {
    await fs.link(mine, lock)
    held.add(lock)
    return "taken"
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error // node:fs throws ErrnoException
    const holder = await holderOf(lock)
    if (holder !== null && holder.pid !== pid && (await isThere(holder))) return { holder: holder.pid }
    // Taken away under our own name first: of several who find it stale, one gets it, and sees whose it was.
    const stale = `${mine}.stale`
    await fs.rename(lock, stale).catch(() => undefined)
    const moved = await holderOf(stale)
    const isOther = moved !== null && (moved.pid !== holder?.pid || moved.began !== holder.began)
    if (isOther && (await isThere(moved))) await fs.link(stale, lock).catch(() => undefined)
    await fs.rm(stale, { force: true })
    return "stale"
  } finally {
    await fs.rm(mine, { force: true })
  }
}

/** The process that a lock names; null if it names none. */
const holderOf = async (lock: string): Promise<Holder | null> => {
  const [, number, began] = /^(\d{1,10})(?: (\S+))?\s*$/.exec(await fs.readFile(lock, "utf8").catch(() => "")) ?? []
  return number === undefined || Number(number) === 0 ? null : { pid: Number(number), began: began ?? null }
}

/** Whether it runs: a process that has ended has its number until its parent asks how, and others have it after that. */
const isThere = async (holder: Holder): Promise<boolean> => {
  const found = await processOf(holder.pid)
  if (found === null) return isAlive(holder.pid) // no Linux, or none whose processes can be seen
  return !/[ZX]/.test(found.state) && (holder.began === null || holder.began === found.began)
}

/** What Linux says of a process (proc(5)): its state, and its time in ticks since this start of the system. Null if nothing. */
const processOf = async (number: number): Promise<{ readonly state: string; readonly began: string } | null> => {
  const [stat, boot] = await Promise.all(
    [`/proc/${number}/stat`, "/proc/sys/kernel/random/boot_id"].map((file) => fs.readFile(file, "utf8").catch(() => ""))
  )
  const fields = stat!.replace(/^.*\) /s, "").split(" ") // its name, which is before, may have anything in it
  const [state, ticks] = [fields[0], fields[19]]
  return state === undefined || ticks === undefined ? null : { state, began: `${boot!.trim()}/${ticks}` }
}

const isAlive = (other: number): boolean => {
  try {
    kill(other, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" // node:process throws ErrnoException
  }
}
