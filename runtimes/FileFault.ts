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

/** The text of a file that a setting names; or what is wrong, with both their names. */
export const read = (setting: string, file: string): Effect.Effect<string, string> =>
  Effect.try({ try: () => readFileSync(file, "utf8"), catch: (cause) => `${setting}: ${file}: ${reasonOf(cause)}` })
