/**
 * `mailroom conformance --adapters FILE`: holds an author's adapters to the
 * suites of their ports. The file's default export is a list of proofs, made
 * by `conforms` and `plays` of `mailroom/conformance`.
 */
import { Effect } from "effect"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import { CommandFailed, usage } from "./CommandFailed.ts"
import { print, untilClosed } from "./Streams.ts"

// By name, as the suites themselves: no runtime carries them.
type Suites = typeof import("../../conformance/index.ts")
type Proof = import("../../conformance/index.ts").Proof
type ProofResult = import("../../conformance/index.ts").ProofResult

export interface Options {
  readonly filter: ReadonlyArray<string>
  readonly json: boolean
  /** Seconds for each check. */
  readonly timeout: number
}

export const proveAdapters = Effect.fnUntraced(function* (file: string, { filter, json, timeout }: Options) {
  if (timeout < 1) return yield* usage("--timeout wants a number of seconds, 1 or more")
  const proofs = yield* proofsOf(file)
  const suites: Suites = yield* Effect.promise(() => import("../../conformance/index.ts"))
  const report = yield* suites
    .prove(proofs, {
      filter,
      timeout: timeout * 1_000,
      onResult: (result, number, total) => Effect.sync(() => void process.stderr.write(line(result, number, total)))
    })
    .pipe(Effect.catchTag("NothingToProve", () => Effect.fail(usage("--filter leaves no check"))))
  yield* untilClosed(print(json ? `${JSON.stringify(report, null, 2)}\n` : suites.toText(report)))
  if (report.failed > 0) return yield* new CommandFailed({ exitCode: 1, message: "" })
})

const proofsOf = Effect.fnUntraced(function* (file: string) {
  const loaded: { readonly default?: unknown } = yield* Effect.tryPromise({
    try: () => import(pathToFileURL(path.resolve(file)).href) as Promise<{ readonly default?: unknown }>, // a module
    catch: (error) => usage(`--adapters: ${file} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`)
  })
  const list: unknown = [loaded.default].flat()
  if (isProofs(list) && list.length > 0) return list
  return yield* usage(
    `--adapters: ${file} wants a default export with a list of proofs, such as [conforms("MyQueue", jobQueue, layer)]; see adapters/ADDING.md`
  )
})

const isProofs = (list: unknown): list is ReadonlyArray<Proof> =>
  Array.isArray(list) &&
  list.every((one: unknown) => typeof one === "object" && one !== null && "begin" in one && "titles" in one && Array.isArray(one.titles))

/** Begins the terminal's line anew. */
export const over = "\r\u001b[2K"

/** How a line of progress says what a check came to. */
export const words = { passed: "ok  ", failed: "FAIL", not_applicable: "n/a " } as const

/** A line for each check; on a terminal, what passed makes way for the next. */
const line = ({ adapter, suite, title, outcome, durationMs }: ProofResult, number: number, total: number): string => {
  const text = `${words[outcome]} ${number}/${total} ${adapter}, ${suite}: ${title}`
  if (!process.stderr.isTTY) return `${text} (${durationMs} ms)\n`
  if (outcome === "failed") return `${over}${text}\n`
  return number === total ? over : `${over}${text.slice(0, (process.stderr.columns ?? 80) - 1)}`
}
