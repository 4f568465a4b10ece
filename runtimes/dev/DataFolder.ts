/**
 * The folder of `dev`: `dev.json` (what one needs to call it), `keys.json`
 * (the sealing key), `database/` and `blobs/`, and while it runs `lock`. One
 * process owns it at a time.
 */
import { Data, Effect, Layer, Result, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { existsSync } from "node:fs"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import * as FileBlobStore from "../../adapters/node/FileBlobStore.ts"
import * as FolderLock from "../../adapters/postgres/FolderLock.ts"
import { ApplicationId, MailboxId, TenantId } from "../../core/model/Ids.ts"
import { keyRing } from "../ConfigValues.ts"
import { folderReasonOf } from "../FileFault.ts"

export const DevFile = Schema.Struct({
  baseUrl: Schema.String,
  docsUrl: Schema.String,
  /** Where mail comes in; null in the file of an earlier version. */
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
export const open = (folder: string) =>
  FolderLock.take(folder).pipe(
    Effect.mapError((error) =>
      error._tag === "FolderInUse"
        ? new FolderFault({ message: `the folder ${folder} is in use by ${error.who}; stop it, or choose another with --data DIR` })
        : new FolderFault({ message: `cannot use the folder ${folder}: ${error.cause instanceof Error ? error.cause.message : String(error.cause)}` })
    )
  )

const read = Effect.fnUntraced(function* <S extends Schema.Constraint & { readonly DecodingServices: never }>(file: string, schema: S, damaged: FolderFault) {
  const text = yield* io(`cannot read ${file}`, () =>
    fs.readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null
      throw error
    })
  )
  if (text === null) return null
  return yield* Effect.mapError(Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(text), () => damaged)
})

/** Written whole or not at all, readable by the owner only. */
const write = (file: string, content: unknown) =>
  io(`cannot write ${file}`, async () => {
    const temporary = `${file}.new`
    await fs.writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flush: true })
    await fs.rename(temporary, file)
  })

/** What an earlier run left, or null. Without it all is found again, but for the key. */
export const readDevFile = (folder: string) => {
  const file = path.join(folder, "dev.json")
  return read(file, DevFile, new FolderFault({ message: `${file} is damaged; remove it to start anew` }))
}

export const writeDevFile = (folder: string, content: DevFile) => write(path.join(folder, "dev.json"), content)

/** The blobs of this folder. */
export const blobsIn = (folder: string) => {
  const directory = path.join(folder, "blobs")
  return FileBlobStore.layer({ directory }).pipe(
    Layer.catchTag("BlobUnavailable", ({ cause }) =>
      Layer.effectContext(Effect.fail(new FolderFault({ message: `cannot use the folder ${directory}: ${folderReasonOf(cause)}` })))
    )
  )
}

/** Where the database of this folder is. */
export const databaseIn = (folder: string): string => path.join(folder, "database")

/** The sealing keys of this folder, made at the first start. Beside a database they are none but those it was sealed with. */
export const sealingKeys = Effect.fnUntraced(function* (folder: string) {
  const [file, database] = [path.join(folder, "keys.json"), databaseIn(folder)]
  const damaged = new FolderFault({
    message: `${file} is damaged: it wants sealing keys of 32 bytes in base64. What they have sealed opens with no others: put it back from a copy; or, to start anew, remove it and the database that \`dev\` has used with it`
  })
  let keys = yield* read(file, KeysFile, damaged)
  if (keys === null) {
    if (existsSync(database)) {
      return yield* new FolderFault({
        message: `${file} is missing beside ${database}. What its keys have sealed opens with no others: put it back from a copy, or set MAILROOM_SEALING_KEYS again if they were there; or, to start anew, remove the database`
      })
    }
    keys = { sealingKeys: [{ version: 1, key: randomBytes(32).toString("base64") }] }
    yield* write(file, keys)
  }
  const ring = Result.getOrElse(keyRing(keys.sealingKeys.map(({ version, key }) => `${version}:${key}`).join(",")), () => [])
  return ring.length > 0 && ring.length === keys.sealingKeys.length ? ring : yield* damaged
})

/** What is wrong where the keys do not open what the database has sealed. */
export const othersKeys = (folder: string, areSet: boolean): FolderFault => {
  const file = path.join(folder, "keys.json")
  return new FolderFault({
    message: `the keys in ${areSet ? "MAILROOM_SEALING_KEYS" : file} do not open what the database has sealed: it was used with others. Give those back (as ${file}, or as MAILROOM_SEALING_KEYS); or, to start anew, name another database or remove what is in this one`
  })
}
