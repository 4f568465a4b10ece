/**
 * `npm run bench`: all benchmarks in turn but the soak, one table of what they
 * found, and docs/benchmarks.md anew. `npm run bench -- NAME…` does it for some
 * of them, and `-- --smoke` only shows that they run.
 */
import { spawn, type ChildProcess } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { benchmarks, others } from "./Benchmarks.ts"
import { publish } from "./publish.ts"
import { fileOf, printTable, read, verdictOf, type Kept } from "./Report.ts"

const names = benchmarks.map(({ name }) => name)

const usage = `npm run bench -- [--smoke] [NAME…]
${benchmarks.map(({ name, about }) => `  ${name.padEnd(12)} ${about}`).join("\n")}
or, by name only: ${others.join(", ")}`

const refuse = (why: string): never => {
  console.error(`${why}\n${usage}`)
  return process.exit(2)
}

const parsed = () => {
  try {
    return parseArgs({ options: { smoke: { type: "boolean", default: false }, help: { type: "boolean", default: false } }, allowPositionals: true })
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error))
  }
}

const { values, positionals: asked } = parsed()
if (values.help) {
  console.log(usage)
  process.exit()
}
// npm keeps what stands before `--` for itself; the whole would be measured, and what is kept written over.
if (process.env["npm_config_smoke"] !== undefined) refuse("--smoke went to npm: write `npm run bench -- --smoke`")
const unknown = asked.filter((name) => ![...names, ...others].includes(name))
if (unknown.length > 0) refuse(`There is no benchmark ${unknown.join(", ")}.`)

const usual = benchmarks.filter(({ isLong = false }) => values.smoke || !isLong).map(({ name }) => name)
const chosen = asked.length === 0 ? usual : asked
const begun = Date.now()
const minutes = () => ((Date.now() - begun) / 60_000).toFixed(1)
/** Some hundred processes are started, which by this takes half of the time. */
const compiled = mkdtempSync(join(tmpdir(), "mailroom-bench-compiled-"))
process.once("exit", () => rmSync(compiled, { recursive: true, force: true }))
const variables = {
  NODE_COMPILE_CACHE: compiled,
  ...process.env
}

/** What is under way ends too, and tidies up, before this does. */
const children = new Set<ChildProcess>()
let signalled: NodeJS.Signals | null = null
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    signalled = signal
    for (const child of children) child.kill(signal)
  })
}
const goOnUnlessSignalled = () => {
  if (signalled !== null) process.exit(128 + constants.signals[signalled])
}

interface Running {
  readonly name: string
  /** Settles when it has ended, too. */
  readonly prepared: Promise<unknown>
  /** Lets it measure; its exit code. */
  readonly measure: () => Promise<number | null>
}

const run = (name: string): Running => {
  const program = [join(import.meta.dirname, `${name}.ts`), ...(values.smoke ? ["--smoke"] : [])]
  const child = spawn(process.execPath, program, { stdio: ["inherit", "inherit", "inherit", "ipc"], env: variables })
  children.add(child)
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve)).finally(() => children.delete(child))
  const prepared = Promise.race([ended, new Promise((resolve) => child.once("message", resolve))])
  const measure = async () => {
    await prepared
    if (child.connected) child.send("measure")
    return ended
  }
  return { name, prepared, measure }
}

const preparedWith = (asked: string) => benchmarks.find((one) => one.name === asked)?.preparedWith
/** Those that follow one another and are prepared together in one, any other by itself. */
const groups = chosen.reduce<ReadonlyArray<ReadonlyArray<string>>>((groups, name, index) => {
  const isTogether = preparedWith(name) !== undefined && index > 0 && preparedWith(chosen[index - 1]!) === preparedWith(name)
  return isTogether ? [...groups.slice(0, -1), [...groups.at(-1)!, name]] : [...groups, [name]] // there is one before
}, [])

const found: Array<Kept> = []
const failed: Array<string> = []
let place = 0
for (const group of groups) {
  const before = `${place + 1} of ${chosen.length}, ${minutes()} minutes so far`
  console.log(`\n# ${new Intl.ListFormat("en-GB").format(group)} (${before})`)
  const running = group.map(run)
  if (group.length > 1) await Promise.all(running.map(({ prepared }) => prepared))
  for (const { name, measure } of running) {
    if (group.length > 1) console.log(`\n# ${name}`)
    const at = Date.now()
    place += 1
    const code = await measure()
    if (signalled !== null) await Promise.all(running.map(({ measure }) => measure()))
    goOnUnlessSignalled()
    if (code !== 0) failed.push(name)
    else if (existsSync(fileOf(name)) && statSync(fileOf(name)).mtimeMs >= at) found.push(read(name)!)
  }
}

console.log(`\n${chosen.length} benchmarks in ${minutes()} minutes`)
if (found.length > 0) printTable(found.flatMap(({ name, ratios }) => ratios.map((ratio) => ({ ...ratio, path: `${name}: ${ratio.path}` }))))
for (const name of failed) console.log(`  ${name}: no result, it says above why`)
if (failed.length > 0 || found.some(({ ratios }) => ratios.some((ratio) => verdictOf(ratio) === "missed"))) process.exitCode = 1
// What is kept and the page say the same, whichever were asked for.
if (found.length > 0 && !values.smoke) publish()
