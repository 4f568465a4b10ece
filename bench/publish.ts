/**
 * Makes docs/benchmarks.md and its pictures of what the benchmarks have left in
 * docs/benchmarks. `npm run bench` ends with it; `node bench/publish.ts`
 * is only this. A test holds the page to the results.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { benchmarks } from "./Benchmarks.ts"
import { median, spread } from "./Load.ts"
import * as Plot from "./Plot.ts"
import { read, verdictOf, words, type Figure, type Kept, type Ratio } from "./Report.ts"

export interface Page {
  readonly file: string
  readonly text: string
}

const docs = join(import.meta.dirname, "../docs")
const references = join(import.meta.dirname, "reference")

const row = (cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n")

const ratioRow = (ratio: Ratio): ReadonlyArray<string> => {
  const bound = ratio.better === "higher" ? "≥" : "≤"
  const verdict = words[verdictOf(ratio)]
  return [ratio.path, `${spread(ratio.values)}${ratio.unit === undefined ? "" : ` ${ratio.unit}`}`, `${bound} ${ratio.floor}`, `${bound} ${ratio.goal}`, verdict]
}

const figureRow = ({ name, unit, values }: Figure): ReadonlyArray<string> => {
  const value = median(values)
  return [name, `${spread(values, value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`]
}

const chapter = (kept: Kept): string =>
  [
    `## ${kept.name}`,
    `${kept.about} ${kept.rounds === 1 ? "One run" : `${kept.rounds} rounds`}, ${kept.at}.`,
    table(["path", "median (range)", "floor", "goal", ""], kept.ratios.map(ratioRow)),
    ...(kept.series === undefined ? [] : [`![${kept.name} over time](benchmarks/${kept.name}.svg)`]),
    `<details><summary>Figures</summary>\n\n${table(["", "median (range)"], kept.figures.map(figureRow))}\n\n</details>`
  ].join("\n\n")

/** What a program of the references says at its head, as one paragraph. */
const aboutReference = (file: string): string => {
  const head = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(join(references, file), "utf8"))?.[1] ?? ""
  const [first = ""] = head.replaceAll(/^ ?\* ?/gm, "").trim().split("\n\n")
  return `- [${file}](../bench/reference/${file}): ${first.replaceAll(/\s+/g, " ").trim()}`
}

/** Machines that results were made on, the most frequent one first. */
const machinesOf = (all: ReadonlyArray<Kept>): ReadonlyArray<string> => {
  const counts = new Map<string, Array<string>>()
  for (const { name, machine } of all) {
    const text = `${machine.processor}, ${machine.cores} cores, Node ${machine.node}, PostgreSQL ${/^\d+\.\d+/.exec(machine.postgres)?.[0]}`
    counts.set(text, [...(counts.get(text) ?? []), name])
  }
  const texts = [...counts].toSorted(([, left], [, right]) => right.length - left.length)
  return texts.map(([text, names], index) => (index === 0 ? text : `${text} (${names.join(", ")})`))
}

export const pages = (): ReadonlyArray<Page> => {
  const all = benchmarks.flatMap(({ name }) => read(name) ?? [])
  const days = all.map(({ at }) => at).toSorted()
  const period = days[0] === days.at(-1) ? days[0] : `${days[0]} to ${days.at(-1)}`
  const markdown = [
    "# Benchmarks",
    [
      "What the product does, beside what it could not do faster: the product's own processes over real sockets and a PostgreSQL server whose",
      "commits wait for the disk, with authentication, limits, idempotency, audit and events, in turn with a reference that does the least",
      "that must be done, in the same rounds on the same machine. Servers run warm: before the rounds each side, ours and the reference, works",
      "under the same load for 8 s, and accept for 20,000 requests, which are not counted, except where each round starts processes of its own or asks for memory or an idle",
      "service; where commits are measured, PostgreSQL's log has its files from before. A round with any answer but the expected one is void. Medians, and in brackets the least and the most of the rounds. CPU is that of the processes and of PostgreSQL together unless it says otherwise; on a shared",
      "machine it is steadier than a rate. This page is generated: `npm run bench`."
    ].join("\n"),
    `Made on ${machinesOf(all).join("; ")}; ${period}.`,
    "![All paths](benchmarks/overview.svg)",
    [
      "The dot is the median, the line the range, each small dot a round; the bar at 1 is the floor that must hold, the tick the goal. Right is",
      "better, on every row: where less is better, it is the floor divided by the value. Where a floor or a goal is missed,",
      "[Where the time goes](decisions/0033-where-the-time-goes.md) has the profiles, and what was tried."
    ].join("\n"),
    "## To repeat them",
    [
      "```sh",
      "npm ci",
      "npm run bench               # all, in 12 minutes (18 on a machine that is slow at system calls and at memory); writes this page",
      "npm run bench -- accept     # one, or several, in this page",
      "npm run bench -- soak       # ten minutes; not among all",
      "npm run bench -- --smoke    # whether they run, and nothing else",
      "```"
    ].join("\n"),
    "`BENCH_ROUNDS` is how many rounds are counted (5). PostgreSQL is a package, and the mail server and the receivers are the benchmarks' own; `end-to-end` is beside Postfix, which wants root, and is installed where it can be.",
    ...all.map(chapter),
    "## The references",
    readdirSync(references).filter((file) => file.endsWith(".ts")).toSorted().map(aboutReference).join("\n")
  ]
  return [
    { file: "benchmarks.md", text: `${markdown.join("\n\n")}\n` },
    { file: "benchmarks/overview.svg", text: Plot.overview(all) },
    ...all.flatMap(({ name, series }) => (series === undefined ? [] : [{ file: `benchmarks/${name}.svg`, text: Plot.overTime(series) }]))
  ]
}

export const publish = (): void => {
  for (const { file, text } of pages()) writeFileSync(join(docs, file), text)
  console.log("docs/benchmarks.md is written")
}

if (import.meta.main) publish()
