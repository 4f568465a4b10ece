/** The pictures of docs/benchmarks.md, as SVG for light and dark pages. */
import { median } from "./Load.ts"
import { verdictOf, type Kept, type Ratio, type Series } from "./Report.ts"

const style = `
  text { font: 12px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .grid { stroke: #8b949e; stroke-opacity: .25 }
  .floor { stroke: #8b949e; stroke-width: 2 }
  .mark { stroke: #6e7781; stroke-width: 2 }
  .goal { fill: #1a7f37; stroke: #1a7f37 } .held { fill: #0969da; stroke: #0969da } .missed { fill: #cf222e; stroke: #cf222e }
  .second { stroke: #bc4c00; fill: #bc4c00 }
  .range { stroke-width: 2; fill: none } .round { fill-opacity: .35; stroke: none } .name { stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #9da7b3 } .title { fill: #e6edf3 } .mark { stroke: #adbac7 }
    .goal { fill: #3fb950; stroke: #3fb950 } .held { fill: #58a6ff; stroke: #58a6ff } .missed { fill: #ff7b72; stroke: #ff7b72 }
    .second { stroke: #f0883e; fill: #f0883e }
  }`

const svg = (width: number, height: number, parts: ReadonlyArray<string>): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">\n<style>${style}\n</style>\n${parts.join("\n")}\n</svg>\n`

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

const text = (x: number, y: number, words: string, more = ""): string => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}"${more}>${escape(words)}</text>`

const line = (x1: number, y1: number, x2: number, y2: number, kind: string): string =>
  `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" class="${kind}"/>`

const dot = (x: number, y: number, radius: number, kind: string): string =>
  `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${radius}" class="${kind}"/>`

const kinds = { goal: "goal", floor: "held", missed: "missed" } as const

/** How good a value is: 1 is the floor, and more is better. What is zero or less, as a memory that did not grow, is as good as the picture tells. */
const goodness = ({ better, floor }: Ratio, value: number): number => (better === "higher" ? value / floor : floor / Math.max(value, floor / 32))

/** Every path a row, on a logarithmic axis on which its floor is 1. */
export const overview = (all: ReadonlyArray<Kept>): string => {
  const [left, right, top, rowHeight] = [390, 850, 48, 22]
  const rows = all.flatMap(({ name, ratios }) => [name, ...ratios])
  const ratios = rows.filter((row) => typeof row !== "string")
  const reached = ratios.flatMap((ratio) => [ratio.goal, ...ratio.values].map((value) => goodness(ratio, value)))
  const least = Math.floor(Math.log2(Math.min(0.5, ...reached)))
  const most = Math.ceil(Math.log2(Math.max(2, ...reached)))
  const x = (value: number) => left + ((Math.log2(value) - least) / (most - least)) * (right - left)
  const bottom = top + rows.length * rowHeight
  const parts: Array<string> = []
  for (let power = least; power <= most; power++) {
    const at = x(2 ** power)
    parts.push(line(at, top, at, bottom, power === 0 ? "floor" : "grid"))
    parts.push(text(at, top - 8, power < 0 ? `1/${2 ** -power}` : String(2 ** power), ` text-anchor="middle"`))
  }
  parts.push(text(x(1), top - 26, "floor", ` text-anchor="middle" class="title"`))
  for (const [index, row] of rows.entries()) {
    const y = top + (index + 0.5) * rowHeight
    if (typeof row === "string") {
      parts.push(text(8, y + 4, row, ` class="title"`))
      continue
    }
    const values = row.values.map((value) => goodness(row, value))
    const kind = kinds[verdictOf(row)]
    const goal = x(goodness(row, row.goal))
    parts.push(text(20, y + 4, row.path))
    parts.push(line(goal, y - 7, goal, y + 7, "mark"))
    parts.push(line(x(Math.min(...values)), y, x(Math.max(...values)), y, `range ${kind}`))
    for (const value of values) parts.push(dot(x(value), y, 3, `round ${kind}`))
    parts.push(dot(x(goodness(row, median(row.values))), y, 5, kind))
    parts.push(text(right + 12, y + 4, `${median(row.values).toPrecision(3)}${row.unit === undefined ? "" : ` ${row.unit}`}`))
  }
  return svg(980, bottom + 12, parts)
}

const kindOf = (index: number): string => (index === 0 ? "held" : "second")

/** Series over minutes, from zero up. */
export const overTime = (series: ReadonlyArray<Series>): string => {
  const [left, right, top, bottom] = [60, 700, 20, 240]
  const points = series.flatMap((one) => one.points)
  const seconds = Math.max(...points.map(([at]) => at))
  const most = Math.max(...points.map(([, value]) => value)) * 1.1
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000].find((step) => most / step <= 6) ?? 5_000
  const x = (at: number) => left + (at / seconds) * (right - left)
  const y = (value: number) => bottom - (value / most) * (bottom - top)
  const parts: Array<string> = []
  for (let value = 0; value <= most; value += step) {
    parts.push(line(left, y(value), right, y(value), "grid"))
    parts.push(text(left - 8, y(value) + 4, value === 0 ? "0" : `${value}`, ` text-anchor="end"`))
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(text(x(share * seconds), bottom + 18, `${((share * seconds) / 60).toFixed(1)} min`, ` text-anchor="middle"`))
  }
  for (const [index, { points }] of series.entries()) {
    parts.push(`<polyline points="${points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ")}" class="range ${kindOf(index)}" style="fill: none"/>`)
  }
  // Each name stands where its line ends, or below the name that stands there already.
  let above = -Infinity
  const ends = series.map(({ name, unit, points }, index) => ({ words: `${name}, ${unit}`, at: y(points.at(-1)![1]) + 4, kind: kindOf(index) }))
  for (const { words, at, kind } of ends.toSorted((one, other) => one.at - other.at)) {
    above = Math.max(at, above + 15)
    parts.push(text(right + 8, above, words, ` class="name ${kind}"`))
  }
  return svg(800, bottom + 30, parts)
}
