/** `npm run --silent example -- NAME [ARGUMENTS]` runs one of the examples beside this file. */
import { readdirSync } from "node:fs"

const names = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith(".ts") && name !== "run.ts" && !name.endsWith(".test.ts"))
  .map((name) => name.slice(0, -3))
const name = process.argv[2] ?? ""
if (!names.includes(name)) {
  console.error(`There is no example ${JSON.stringify(name)}. Choose one of: ${names.join(", ")}`)
  process.exit(2)
}
process.argv.splice(1, 2, `${import.meta.dirname}/${name}.ts`)
await import(`./${name}.ts`)
