/**
 * `npm run bench`: all benchmarks in turn, one table of what they found, and
 * docs/benchmarks.md anew. `npm run bench -- NAME…` runs some of them, and
 * `-- --smoke` only shows that they run.
 */
import { spawnSync } from "node:child_process"
import { existsSync, statSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { benchmarks, others } from "./Benchmarks.ts"
import { publish } from "./publish.ts"
import { fileOf, printTable, read, verdictOf, type Kept } from "./Report.ts"

const names = benchmarks.map(({ name }) => name)

const { values, positionals: asked } = parseArgs({ options: { smoke: { type: "boolean", default: false } }, allowPositionals: true })
const unknown = asked.filter((name) => ![...names, ...others].includes(name))
if (unknown.length > 0) {
  const list = benchmarks.map(({ name, about }) => `  ${name.padEnd(12)} ${about}`).join("\n")
  console.error(`There is no benchmark ${unknown.join(", ")}. Choose of:\n${list}\nor, by name only: ${others.join(", ")}`)
  process.exit(2)
}

const chosen = asked.length === 0 ? names : asked
const begun = Date.now()
const minutes = () => ((Date.now() - begun) / 60_000).toFixed(1)
// All of them take long enough; `-- soak` by itself takes its ten minutes.
const variables = asked.length === 0 ? { BENCH_SOAK_MINUTES: "1", ...process.env } : process.env

const found: Array<Kept> = []
const failed: Array<string> = []
for (const [index, name] of chosen.entries()) {
  console.log(`\n# ${name} (${index + 1} of ${chosen.length}, ${minutes()} minutes so far)`)
  const at = Date.now()
  const program = [join(import.meta.dirname, `${name}.ts`), ...(values.smoke ? ["--smoke"] : [])]
  const { status } = spawnSync(process.execPath, program, { stdio: "inherit", env: variables })
  if (status !== 0) failed.push(name)
  else if (existsSync(fileOf(name)) && statSync(fileOf(name)).mtimeMs >= at) found.push(read(name)!)
}

console.log(`\n${chosen.length} benchmarks in ${minutes()} minutes`)
if (found.length > 0) printTable(found.flatMap(({ name, ratios }) => ratios.map((ratio) => ({ ...ratio, path: `${name}: ${ratio.path}` }))))
for (const name of failed) console.log(`  ${name}: no result, it says above why`)
if (failed.length > 0 || found.some(({ ratios }) => ratios.some((ratio) => verdictOf(ratio) === "missed"))) process.exitCode = 1
if (asked.length === 0 && !values.smoke) publish()
