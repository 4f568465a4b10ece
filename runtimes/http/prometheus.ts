/**
 * A strict reader of Prometheus' text format 0.0.4, for tests: throws at
 * whatever the format does not allow, or a scraper would misread.
 */

export interface Family {
  readonly type: string
  readonly help: string | null
  /** Values by the whole name of the series, labels in order of their names: `http_requests_total{code="200",method="GET"}`. */
  readonly samples: ReadonlyMap<string, number>
}

const name = "[a-zA-Z_:][a-zA-Z0-9_:]*"
const label = "[a-zA-Z_][a-zA-Z0-9_]*"
const labels = `(?:${label}="(?:[^"\\\\\\n]|\\\\["\\\\n])*",?)*`
const number = "-?[0-9.]+(?:e[+-]?[0-9]+)?|[+-]Inf|NaN"
const sampleLine = new RegExp(`^(${name})(?:\\{(${labels})\\})? (${number})$`)
const labelPair = new RegExp(`(${label})="((?:[^"\\\\]|\\\\.)*)"(,|$)`, "g")
const suffixes: Readonly<Record<string, ReadonlyArray<string>>> = {
  counter: [""],
  gauge: [""],
  untyped: [""],
  histogram: ["_bucket", "_sum", "_count"],
  summary: ["", "_sum", "_count"]
}

const fail = (line: string, why: string): never => {
  throw new Error(`${why}: ${line}`)
}

const valueOf = (text: string): number => (text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text))

const labelsOf = (text: string, line: string): ReadonlyArray<readonly [string, string]> => {
  const pairs = [...text.matchAll(labelPair)]
  if (pairs.map(([whole]) => whole).join("") !== text) fail(line, "labels do not add up")
  const names = pairs.map(([, key]) => key!)
  if (new Set(names).size !== names.length) fail(line, "a label is there twice")
  if (names.some((key) => key.startsWith("__"))) fail(line, "a label's name is reserved")
  return pairs.map(([, key, value]) => [key!, value!] as const)
}

const render = (series: string, labels: ReadonlyArray<readonly [string, string]>): string =>
  labels.length === 0 ? series : `${series}{${inOrder(labels.map(([key, value]) => `${key}="${value}"`)).join(",")}}`

const inOrder = (texts: ReadonlyArray<string>) => texts.toSorted((left, right) => (left < right ? -1 : 1))

/** The families of a text, each whole: its HELP, its TYPE, then its samples. */
export const read = (text: string): ReadonlyMap<string, Family> => {
  if (!text.endsWith("\n")) fail(text.slice(-40), "does not end with a line feed")
  const families = new Map<string, { type: string; help: string | null; samples: Map<string, number> }>()
  let current = ""
  let help: { readonly of: string; readonly text: string } | null = null
  for (const line of text.slice(0, -1).split("\n")) {
    const helped = new RegExp(`^# HELP (${name}) (.*)$`).exec(line)
    const typed = new RegExp(`^# TYPE (${name}) (\\w+)$`).exec(line)
    if (helped !== null) {
      if (families.has(helped[1]!) || help !== null) fail(line, "HELP comes twice, or late")
      if (helped[2]!.replaceAll(/\\[\\n]/g, "").includes("\\")) fail(line, "an escape that HELP has not")
      help = { of: helped[1]!, text: helped[2]! }
    } else if (typed !== null) {
      const [, family, type] = typed
      if (families.has(family!)) fail(line, "TYPE comes twice")
      if (suffixes[type!] === undefined) fail(line, "no such type")
      if (help !== null && help.of !== family) fail(line, "HELP of another")
      families.set(family!, { type: type!, help: help?.text ?? null, samples: new Map() })
      current = family!
      help = null
    } else {
      const sample = sampleLine.exec(line)
      if (sample === null) return fail(line, "no sample")
      const [, series, labels = "", value] = sample
      const family = families.get(current)
      const isOf = (family: { readonly type: string }) => suffixes[family.type]!.some((suffix) => `${current}${suffix}` === series)
      if (family === undefined || !isOf(family)) return fail(line, `not of ${current}`)
      const key = render(series!, labelsOf(labels, line))
      if (family.samples.has(key)) fail(line, "a series is there twice")
      family.samples.set(key, valueOf(value!))
    }
  }
  for (const [family, { type, samples }] of families) {
    if (samples.size === 0) fail(family, "has no samples")
    if (type === "counter") for (const [key, value] of samples) if (!(value >= 0)) fail(key, "counts below 0")
    if (type === "histogram") checkHistogram(family, samples)
  }
  return families
}

/** Buckets rise to `+Inf`, which is the count. */
const checkHistogram = (family: string, samples: ReadonlyMap<string, number>): void => {
  const series = new Map<string, Array<readonly [number, number]>>()
  for (const [key, value] of samples) {
    if (!key.startsWith(`${family}_bucket{`)) continue
    const bound = /(?:^|[{,])le="([^"]*)"/.exec(key)?.[1] ?? fail(key, "a bucket without a bound")
    const rest = key.replace(/le="[^"]*",?/, "").replace(/,}$/, "}").replace("{}", "").replace("_bucket", "_count")
    series.set(rest, [...(series.get(rest) ?? []), [valueOf(bound), value]])
  }
  for (const [count, buckets] of series) {
    const sum = samples.get(count.replace("_count", "_sum"))
    if (sum === undefined) fail(count, "has no sum")
    if (buckets.at(-1)?.[0] !== Infinity || buckets.at(-1)?.[1] !== samples.get(count)) fail(count, "is not its last bucket")
    for (const [index, [bound, value]] of buckets.entries()) {
      const before = buckets[index - 1]
      if (before !== undefined && !(before[0] < bound && before[1] <= value)) fail(count, "has buckets that do not rise")
    }
  }
}
