/**
 * `npm run faults`: real faults on real processes, and what must hold after
 * them. `-- --short` is the round that the tests run; `-- --kills N` changes
 * how often processes are killed. Exit code 1 if anything did not hold.
 */
import { parseArgs } from "node:util"
import { full, short } from "./faults/Plans.ts"
import { runDev } from "./faults/Dev.ts"
import { run, type Outcome } from "./faults/Run.ts"

const usage = `npm run faults -- [--short] [--kills N]
  --short    a round of a few minutes; without it, half an hour
  --kills N  how often processes are killed`

const misused = (why: string): never => {
  console.error(`${why}\n${usage}`)
  return process.exit(2)
}

const parsed = () => {
  try {
    return parseArgs({ options: { short: { type: "boolean", default: false }, kills: { type: "string" }, help: { type: "boolean", default: false } } })
  } catch (error) {
    return misused(error instanceof Error ? error.message : String(error))
  }
}
const { values } = parsed()
if (values.help) {
  console.log(usage)
  process.exit()
}
if (values.kills !== undefined && !/^\d+$/.test(values.kills)) misused(`--kills is "${values.kills}"; it wants a whole number`)
const plans = values.short ? short : full
const kills = values.kills === undefined ? null : Number(values.kills)

const since = performance.now()
const tell = (line: string) => console.log(`${((performance.now() - since) / 1_000).toFixed(1).padStart(6)} s  ${line}`)

/** Median and range. */
const spreadOf = (times: ReadonlyArray<number>) => {
  const sorted = times.toSorted((left, right) => left - right)
  return `${sorted[sorted.length >> 1]} ms (${sorted[0]}–${sorted.at(-1)})`
}

let isBroken = false

const report = (name: string, { counts, returns, violations }: Outcome) => {
  isBroken ||= violations.length > 0
  console.log(`\n${name}: ${Object.entries(counts).map(([what, count]) => `${count} ${what}`).join(", ")}`)
  for (const [fault, all] of Map.groupBy(returns, (one) => one.fault)) {
    console.log(`  ${String(all.length).padStart(4)} × ${fault}: back after ${spreadOf(all.map(({ ms }) => ms))}, every process after ${spreadOf(all.map(({ allMs }) => allMs))}`)
  }
  console.log(violations.length === 0 ? "  all rules hold" : `  BROKEN ${violations.length} times:\n    ${violations.slice(0, 20).join("\n    ")}`)
}

for (const plan of plans.clusters) {
  console.log(`\n# serve and worker, queue in ${plan.queue}`)
  report(`queue in ${plan.queue}`, await run({ ...plan, kills: kills ?? plan.kills }, tell))
}
console.log("\n# dev")
report("dev", await runDev({ ...plans.dev, kills: kills ?? plans.dev.kills }, tell))
process.exit(isBroken ? 1 : 0)
