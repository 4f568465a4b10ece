/**
 * The paths that exist, and their methods. A path is matched as it was sent:
 * no case is folded, no slash added or dropped.
 */
import { path as metrics } from "./Metrics.ts"
import { operations, type Served } from "./Operations.ts"
import { paths as probes } from "./Probes.ts"
import { path as intake } from "./Providers.ts"

/** Paths beside the contract's and the probes', all of them GET. */
export const pages = { root: "/", document: "/openapi.yaml", docs: "/docs" } as const

/** What there is at a path. */
export interface Route {
  /** The path as the contract has it, with the names of its parameters. */
  readonly template: string
  /** In the order in which they are told. */
  readonly methods: Array<string>
  /** By method; what is no operation is for the router. */
  readonly operations: Map<string, Served>
}

export interface Match {
  readonly route: Route
  /** The values of its parameters, as they would be without percent-encoding. */
  readonly params: Readonly<Record<string, string>>
}

const fixed = new Map<string, Match>()
const templates: Array<{ readonly route: Route; readonly names: ReadonlyArray<string>; readonly pattern: RegExp }> = []

/** What there is at a path; null if there is nothing. */
export const routeAt = (path: string): Match | null => {
  const found = fixed.get(path)
  if (found !== undefined) return found
  for (const { route, names, pattern } of templates) {
    const match = pattern.exec(path)
    if (match !== null) return { route, params: Object.fromEntries(names.map((name, index) => [name, decoded(match[index + 1]!)])) }
  }
  return null
}

/** What is no percent-encoded UTF-8 stands for itself. */
const decoded = (segment: string): string => {
  if (!segment.includes("%")) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

const routeOf = (template: string): Route => {
  const known = fixed.get(template)?.route ?? templates.find(({ route }) => route.template === template)?.route
  if (known !== undefined) return known
  const route: Route = { template, methods: [], operations: new Map() }
  const names = [...template.matchAll(/:([^/]+)/g)].map(([, name]) => name!)
  if (names.length === 0) fixed.set(template, { route, params: {} })
  else templates.push({ route, names, pattern: new RegExp(`^${template.replace(/:[^/]+/g, "([^/;#]+)")}$`) })
  return route
}

for (const path of [...probes, metrics, ...Object.values(pages)]) routeOf(path).methods.push("GET", "HEAD")
routeOf(intake).methods.push("POST")
for (const operation of operations) {
  const { methods, operations } = routeOf(operation.path)
  for (const method of operation.method === "GET" ? ["GET", "HEAD"] : [operation.method]) {
    methods.push(method)
    operations.set(method, operation)
  }
}
