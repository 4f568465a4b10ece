/** Secrets that are told once: on standard output, or in a file that only its owner can read. */
import { Effect, Exit, Option, Redacted } from "effect"
import * as fs from "node:fs/promises"
import { dirname } from "node:path"
import * as FileFault from "../FileFault.ts"
import { CommandFailed, usage } from "./CommandFailed.ts"
import { optionalText } from "./Inputs.ts"
import { note, printRecord, type Shown } from "./Output.ts"

/** `--out`, of a command that tells one. */
export const outFlag = (what: string) =>
  optionalText("out", `Writes the ${what} to this new file, which only its owner can read, instead of printing it`)

interface Telling<A> {
  /** What it is called, and the member that holds it. */
  readonly what: string
  readonly secretIn: (made: A) => Redacted.Redacted<string>
  /** What is shown beside it. */
  readonly shown: (made: A) => Shown
  /** To be said before it is said where the secret is. */
  readonly notes?: (made: A) => ReadonlyArray<string>
  /** It was made, and could not be told. */
  readonly lost: (made: A, why: string) => CommandFailed
}

/** Makes a secret, and tells it once: a signal between the two would leave one that is in use, and that nobody has. */
export const tellOnce = Effect.fnUntraced(function* <A, E, R>(
  { out, json }: { readonly out: Option.Option<string>; readonly json: boolean },
  make: Effect.Effect<A, E, R>,
  { what, secretIn, shown, notes, lost }: Telling<A>
) {
  const path = Option.getOrNull(out)
  const made = path === null ? yield* make : yield* intoFile(path, make, secretIn, lost)
  const told = path === null ? { [what]: Redacted.value(secretIn(made)) } : { file: path }
  yield* printRecord(json, { ...shown(made), ...told }).pipe(
    Effect.mapError((error) => (path === null ? lost(made, error instanceof CommandFailed ? error.message : "nobody reads standard output") : error))
  )
  for (const line of notes?.(made) ?? []) yield* note(line)
  yield* note(path === null ? `the ${what} is shown this once; keep it as a secret` : `the ${what} is in ${path}, and nowhere else`)
  return made
}, Effect.uninterruptible)

/** Makes the file, then the secret, so that there is none to lose if there can be no file; and no file is left if there is none. */
const intoFile = <A, E, R>(
  path: string,
  make: Effect.Effect<A, E, R>,
  secretIn: (made: A) => Redacted.Redacted<string>,
  lost: (made: A, why: string) => CommandFailed
) =>
  Effect.acquireUseRelease(
    Effect.tryPromise({ try: () => fs.open(path, "wx", 0o600), catch: (error) => usage(`--out ${path} ${unmade(error)}`) }),
    (file) =>
      Effect.tap(make, (made) =>
        Effect.tryPromise({
          try: () => fill(file, path, `${Redacted.value(secretIn(made))}\n`),
          catch: (error) => lost(made, messageOf(error))
        })
      ),
    // Of a file that is filled nothing is left to do; of another, what stands in its way changes nothing of why.
    (file, exit) =>
      Exit.isSuccess(exit)
        ? Effect.void
        : Effect.promise(() => file.close().catch(() => {}).then(() => fs.rm(path, { force: true })).catch(() => {}))
  )

/** Writes it so that it outlasts a crash: nobody can tell it again. */
const fill = async (file: fs.FileHandle, path: string, text: string): Promise<void> => {
  await file.writeFile(text)
  await file.sync()
  await file.close()
  await syncFolder(dirname(path)).catch(() => {})
}

/** A new name lasts once its folder is synced. One may write in it and not open it, and not every file system can: no reason to give up a secret that is in use. */
const syncFolder = async (path: string): Promise<void> => {
  const folder = await fs.open(path, "r")
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

const unmadeBy: Readonly<Record<string, string>> = {
  EEXIST: "is there already, and nothing is written over: name a new file",
  ENOENT: "lies in a folder that is not there: make it, or name another file",
  ENOTDIR: "lies in a folder that is none: name another file",
  EACCES: "may not be made by this user: name a file in a folder of theirs",
  EROFS: "lies on a disk that is read only: name another file"
}

/** Why there is no file, behind its path. */
const unmade = (error: unknown): string => unmadeBy[FileFault.codeOf(error) ?? ""] ?? `cannot be made: ${messageOf(error)}`

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
