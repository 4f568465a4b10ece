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

/** What a newcomer meets first: no folder yet, or nobody listening. */
const explain = (error: unknown): string => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && "code" in cause ? cause.code : null
  if (code === "ENOENT" || code === "EISDIR") {
    return "There is no dev.json there. Start `npm run dev` first, or give its path: npm run --silent example -- NAME DIR/dev.json"
  }
  if (code === "ECONNREFUSED") return "Nobody listens at the address in dev.json. Start `npm run dev` first."
  return error instanceof Error ? error.message : String(error)
}

// Who has read enough, such as `head`, is told nothing more.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error
  process.exit(0)
})

try {
  await import(`./${name}.ts`)
} catch (error) {
  console.error(explain(error))
  process.exit(1)
}
