/** Why a file that somebody named cannot be used, in words: the system's are for programmers. */
import { Effect } from "effect"
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

/** The text of a file that a setting names; or what is wrong. */
export const read = (setting: string, file: string): Effect.Effect<string, string> =>
  Effect.try({ try: () => readFileSync(file, "utf8"), catch: unreadable(setting) })
