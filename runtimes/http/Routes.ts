/**
 * The paths that exist, and their methods. A path is matched as it was sent:
 * no case is folded, no slash added or dropped, nothing decoded.
 */
import { HttpApi } from "effect/http-api"
import { Api } from "./Api.ts"
import { path as metrics } from "./Metrics.ts"
import { paths as probes } from "./Probes.ts"
import { path as intake } from "./Providers.ts"

/** Paths beside the contract's and the probes', all of them GET. */
export const pages = { root: "/", document: "/openapi.yaml", docs: "/docs" } as const

const fixed = new Map<string, Array<string>>()
const templates: Array<{ readonly template: string; readonly pattern: RegExp; readonly methods: Array<string> }> = []

/** The methods of a path; none if there is nothing at it. */
export const allowedAt = (path: string): ReadonlyArray<string> =>
  fixed.get(path) ?? templates.find(({ pattern }) => pattern.test(path))?.methods ?? []

/** The path as the contract has it, with the names of its parameters; null if there is nothing at it. */
export const templateAt = (path: string): string | null =>
  fixed.has(path) ? path : (templates.find(({ pattern }) => pattern.test(path))?.template ?? null)

const methodsOf = (path: string): Array<string> => {
  const known = fixed.get(path) ?? templates.find(({ template }) => template === path)?.methods
  if (known !== undefined) return known
  const methods: Array<string> = []
  if (path.includes(":")) {
    templates.push({ template: path, pattern: new RegExp(`^${path.replace(/:[^/]+/g, "[^/;#]+")}$`), methods })
  } else fixed.set(path, methods)
  return methods
}

for (const path of [...probes, metrics, ...Object.values(pages)]) methodsOf(path).push("GET", "HEAD")
methodsOf(intake).push("POST")
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { method, path } }) => methodsOf(path).push(...(method === "GET" ? ["GET", "HEAD"] : [method]))
})
