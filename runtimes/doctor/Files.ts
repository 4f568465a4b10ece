/** Files that hold secrets, and the folder of blobs. Looks, and writes nothing. */
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { fileNameOf, settings, type Config, type Variables } from "../Config.ts"
import type { Voice } from "./Findings.ts"

/** Files with secrets that settings name. */
const secretFiles = ({ dkimFile }: Config, variables: Variables): ReadonlyArray<readonly [name: string, file: string]> => [
  ...Object.values(settings).flatMap(({ name, isSecret }) => {
    const file = isSecret === true ? variables[fileNameOf(name)] : undefined
    return file === undefined || file === "" ? [] : [[fileNameOf(name), file] as const]
  }),
  ...(dkimFile === null ? [] : [[settings.dkimFile.name, dkimFile] as const])
]

export const secrets = Effect.fnUntraced(function* (config: Config, variables: Variables, says: Voice) {
  for (const [name, file] of secretFiles(config, variables)) {
    const stat = yield* Effect.option(Effect.tryPromise(() => fs.stat(file)))
    if (stat._tag === "None") yield* says.fail(`${name}: ${file} cannot be read`, "Name a file that is there, and that this user may read.")
    else if ((stat.value.mode & 0o007) !== 0) yield* says.warn(`${name}: ${file} is open to every user of this machine`, `chmod o-rwx ${file}`)
    else yield* says.ok(`${name}: ${file} is closed to others`)
  }
})

/** The folder, or the one that it will be made in. */
export const blobs = Effect.fnUntraced(function* ({ blobs }: Config, says: Voice) {
  if (blobs === "postgres") return yield* says.ok("in the database")
  const folder = resolve(blobs.directory)
  const problem = yield* Effect.promise(() => unwritable(folder))
  yield* problem === null
    ? says.ok(`${folder} can be written`)
    : says.fail(problem, `Make it a folder that this user may write, on a disk that all processes share: ${settings.blobs.name}.`)
})

const unwritable = async (folder: string): Promise<string | null> => {
  const stat = await fs.stat(folder).catch(() => null)
  if (stat === null) {
    const above = dirname(folder)
    return above === folder ? `${folder} is not there` : await unwritable(above)
  }
  if (!stat.isDirectory()) return `${folder} is no folder`
  return await fs.access(folder, fs.constants.W_OK | fs.constants.X_OK).then(() => null, () => `${folder} cannot be written by this user`)
}
