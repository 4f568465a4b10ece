/** A program as it runs where a package is not installed that others of ours want. */
import { spawnSync } from "node:child_process"

const hooks = (name: string) => `
  import { registerHooks } from "node:module"
  const missing = Object.assign(new Error("Cannot find package '${name}'"), { code: "ERR_MODULE_NOT_FOUND" })
  registerHooks({ resolve: (asked, context, next) => { if (asked === "${name}") throw missing; return next(asked, context) } })`

/** Runs the text of a module as if it lay in this folder; null: all packages are there. */
export const runWithout = (missing: string | null, folder: string, program: string) => {
  const options = missing === null ? [] : [`--import=data:text/javascript,${encodeURIComponent(hooks(missing))}`]
  return spawnSync(process.execPath, [...options, "--input-type=module", "--eval", program], { cwd: folder, encoding: "utf8", env: {} })
}
