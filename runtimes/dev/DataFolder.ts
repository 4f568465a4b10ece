/**
 * The folder of `dev`: `dev.json` (what one needs to call it), `keys.json`
 * (the sealing key), `database/` and `blobs/`, and while it runs `lock`. One
 * process owns it at a time.
 */
import { Data, Effect, Redacted, Schema } from "effect"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { ApplicationId, MailboxId, TenantId } from "../../core/model/Ids.ts"

export const DevFile = Schema.Struct({
  baseUrl: Schema.String,
  docsUrl: Schema.String,
  /** Null until mail can come in. */
  smtp: Schema.NullOr(Schema.Struct({ host: Schema.String, port: Schema.Int })),
  tenantId: TenantId,
  applicationId: ApplicationId,
  mailboxes: Schema.Array(Schema.Struct({ id: MailboxId, address: Schema.String })),
  apiKey: Schema.String,
  /** A second application, when a mail server is configured: what its key sends is real mail. */
  production: Schema.optionalKey(Schema.Struct({ applicationId: ApplicationId, apiKey: Schema.String }))
})
export type DevFile = typeof DevFile.Type

const KeysFile = Schema.Struct({ sealingKeys: Schema.Array(Schema.Struct({ version: Schema.Int, key: Schema.String })) })

/** The folder cannot be used; the message says why, in one line. */
export class FolderFault extends Data.TaggedError("FolderFault")<{ readonly message: string }> {}

const io = <A>(what: string, action: () => Promise<A>) =>
  Effect.tryPromise({
    try: action,
    catch: (cause) => new FolderFault({ message: `${what}: ${cause instanceof Error ? cause.message : String(cause)}` })
  })

/** Creates the folder if need be, and owns it until the scope closes. */
export const open = Effect.fnUntraced(function* (folder: string) {
  yield* io(`cannot create the folder ${folder}`, () => fs.mkdir(folder, { recursive: true, mode: 0o700 }))
  const lock = path.join(folder, "lock")
  yield* Effect.acquireRelease(takeLock(folder, lock), () =>
    Effect.promise(async () => {
      if ((await holderOf(lock)) === process.pid) await fs.rm(lock, { force: true })
    })
  )
})

/** The process that a lock names; null if it names none. */
const holderOf = async (lock: string): Promise<number | null> => {
  const holder = Number(await fs.readFile(lock, "utf8").catch(() => ""))
  return Number.isInteger(holder) && holder > 0 ? holder : null
}

/** A lock left by a process that is gone is taken over. */
const takeLock = (folder: string, lock: string): Effect.Effect<void, FolderFault> =>
  io(`cannot lock the folder ${folder}`, async () => {
    // Written aside and linked, so that a lock is never seen without its holder.
    const mine = `${lock}.${process.pid}`
    await fs.writeFile(mine, String(process.pid), { mode: 0o600 })
    try {
      await fs.link(mine, lock)
      return "taken"
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error // node:fs throws ErrnoException
      const holder = await holderOf(lock)
      if (holder !== null && holder !== process.pid && isAlive(holder)) return `held by ${holder}`
      // Taken away under our own name first: of several who find it stale, one gets it, and sees whose it was.
      const stale = `${mine}.stale`
      await fs.rename(lock, stale).catch(() => undefined)
      const moved = await holderOf(stale)
      if (moved !== null && moved !== holder && isAlive(moved)) await fs.link(stale, lock).catch(() => undefined)
      await fs.rm(stale, { force: true })
      return "stale"
    } finally {
      await fs.rm(mine, { force: true })
    }
  }).pipe(
    Effect.flatMap((outcome) => {
      if (outcome === "taken") return Effect.void
      if (outcome === "stale") return takeLock(folder, lock)
      return new FolderFault({
        message: `the folder ${folder} is in use by process ${outcome.slice("held by ".length)}; stop it, or choose another with --data DIR`
      })
    })
  )

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" // node:process throws ErrnoException
  }
}

const read = Effect.fnUntraced(function* <S extends Schema.Constraint & { readonly DecodingServices: never }>(file: string, schema: S) {
  const text = yield* io(`cannot read ${file}`, () =>
    fs.readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null
      throw error
    })
  )
  if (text === null) return null
  return yield* Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(text).pipe(
    Effect.mapError(() => new FolderFault({ message: `${file} is damaged; remove it to start anew` }))
  )
})

/** Written whole or not at all, readable by the owner only. */
const write = (file: string, content: unknown) =>
  io(`cannot write ${file}`, async () => {
    const temporary = `${file}.new`
    await fs.writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flush: true })
    await fs.rename(temporary, file)
  })

/** What an earlier run left, or null. */
export const readDevFile = (folder: string) => read(path.join(folder, "dev.json"), DevFile)

export const writeDevFile = (folder: string, content: DevFile) => write(path.join(folder, "dev.json"), content)

/** The sealing keys of this folder, made at the first start. */
export const sealingKeys = Effect.fnUntraced(function* (folder: string) {
  const file = path.join(folder, "keys.json")
  let keys = yield* read(file, KeysFile)
  if (keys === null) {
    keys = { sealingKeys: [{ version: 1, key: randomBytes(32).toString("base64") }] }
    yield* write(file, keys)
  }
  return keys.sealingKeys.map(({ version, key }) => ({ version, key: Redacted.make(new Uint8Array(Buffer.from(key, "base64"))) }))
})
