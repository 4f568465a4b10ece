/** Why a file that somebody named cannot be used, in words: the system's are for programmers. */
import { Effect, Result } from "effect"
import { readFileSync } from "node:fs"

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "no such file",
  ENOTDIR: "no such file",
  EACCES: "may not be read",
  EPERM: "may not be read",
  EISDIR: "is a folder"
}

/** The system's code of a failure; null: it has none. */
export const codeOf = (cause: unknown): string | null =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : null

/** Of a failure to read it; it goes behind the file's name, or that of the flag or setting which names it. */
export const reasonOf = (cause: unknown): string => {
  const code = codeOf(cause)
  return reasons[code ?? ""] ?? `cannot be read (${code ?? String(cause)})`
}

const folderReasons: Readonly<Record<string, string>> = {
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  EROFS: "nothing can be written there",
  EEXIST: "is no folder",
  ENOTDIR: "is no folder",
  ENOSPC: "there is no room"
}

/** Of a failure to make, or to write into, a folder. */
export const folderReasonOf = (cause: unknown): string => {
  const code = codeOf(cause)
  return folderReasons[code ?? ""] ?? `cannot be made, or written (${code ?? String(cause)})`
}

/** Why the file of a setting cannot be read. What the setting holds is not repeated: by mistake, that may be the secret itself. */
export const unreadable = (setting: string) => (cause: unknown): string =>
  `${setting}: ${reasonOf(cause)}; it wants the path of a file that is there, and that this user may read`

/** What a file that a setting names holds; or what is wrong. */
export const bytesOf = (setting: string, file: string): Result.Result<Uint8Array, string> =>
  Result.try({ try: () => readFileSync(file), catch: unreadable(setting) })

/** The same as text, without the mark that some editors put before UTF-8. */
export const read = (setting: string, file: string): Effect.Effect<string, string> =>
  Effect.suspend(() => Effect.fromResult(Result.map(bytesOf(setting, file), (bytes) => new TextDecoder().decode(bytes))))

/** The text of these bytes, without such a mark; null if they are no UTF-8. */
export const textOf = (bytes: Uint8Array): string | null =>
  Result.getOrNull(Result.try(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes)))
