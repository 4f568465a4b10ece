/**
 * What management prints: a table or key and value for people, one JSON
 * document for machines, and notes on standard error. Names come from people
 * and URLs from strangers, so no control character reaches the terminal.
 */
import { Context, Effect } from "effect"
import { CliOutput } from "effect/cli"
import type { Page } from "../../core/operations/Administration.ts"
import { oneLine, visible } from "../TerminalText.ts"
import type { CommandFailed } from "./CommandFailed.ts"
import { type OutputClosed, print } from "./Streams.ts"

/** Where a command's words go. */
export interface Destination {
  readonly out: (text: string) => Effect.Effect<void, OutputClosed | CommandFailed>
  readonly error: (text: string) => Effect.Effect<void>
}

export const Output = Context.Reference<Destination>("mailroom/runtimes/cli/Output", {
  defaultValue: () => ({ out: print, error: (text) => Effect.sync(() => void process.stderr.write(text)) })
})

/** A line beside the output, for people. */
export const note = (line: string): Effect.Effect<void> => Effect.flatMap(Output, ({ error }) => error(`mailroom: ${line}\n`))

export type Shown = Readonly<Record<string, unknown>>

/** A document for machines: as it is. */
export const printJson = (document: unknown): Effect.Effect<void, OutputClosed | CommandFailed> =>
  Effect.flatMap(Output, ({ out }) => out(`${visible(JSON.stringify(document, null, 2))}\n`))

/** One document a line. */
export const printLines = (documents: ReadonlyArray<unknown>): Effect.Effect<void, OutputClosed | CommandFailed> =>
  Effect.flatMap(Output, ({ out }) => out(documents.map((document) => `${visible(JSON.stringify(document))}\n`).join("")))

/** One record: its members, line by line. */
export const printRecord = (json: boolean, record: Shown): Effect.Effect<void, OutputClosed | CommandFailed> => {
  if (json) return printJson(record)
  const rows = Object.entries(record).flatMap(([name, value]) => linesOf(name, value))
  const width = Math.max(0, ...rows.map(([name]) => name.length))
  return Effect.flatMap(Output, ({ out }) => out(rows.map(([name, text]) => `${name.padEnd(width)}  ${text}`.trimEnd() + "\n").join("")))
}

/** A page: a table, or an array, and a note if there is more. `after` says how to go on; null for a list that is whole. */
export const printPage = Effect.fnUntraced(function* <A>(
  json: boolean,
  { items, hasMore }: Page<A>,
  show: (item: A) => Shown,
  columns: ReadonlyArray<string>,
  after: ((item: A) => string) | null
) {
  const shown = items.map(show)
  yield* json ? printJson(shown) : printTable(shown, columns)
  if (!json && items.length === 0) yield* note("there are none")
  if (after !== null) yield* noteMore({ items, hasMore }, after)
})

/** How to go on behind a page, if there is more. */
export const noteMore = <A>({ items, hasMore }: Page<A>, after: (item: A) => string) => {
  const last = items.at(-1)
  return hasMore && last !== undefined ? note(`there is more: go on with --after ${after(last)}`) : Effect.void
}

const printTable = (records: ReadonlyArray<Shown>, columns: ReadonlyArray<string>) => {
  if (records.length === 0) return Effect.void
  const rows = [columns.map(heading), ...records.map((record) => columns.map((column) => textOf(record[column])))]
  const widths = columns.map((_, index) => Math.max(...rows.map((row) => CliOutput.displayWidth(row[index]!))))
  const line = (row: ReadonlyArray<string>) =>
    row.map((cell, index) => cell + " ".repeat(widths[index]! - CliOutput.displayWidth(cell))).join("  ").trimEnd()
  return Effect.flatMap(Output, ({ out }) => out(`${rows.map(line).join("\n")}\n`))
}

/** `lastUsedAt` reads LAST USED AT. */
const heading = (name: string): string => name.replace(/[A-Z]/g, (letter) => ` ${letter}`).toUpperCase()

/** A member that is a record is told with its members behind a dot, and a list of records item by item. */
const linesOf = (name: string, value: unknown): ReadonlyArray<readonly [name: string, text: string]> => {
  if (Array.isArray(value) && value.some(isRecord)) {
    return value.flatMap((item: unknown, index) => linesOf(`${name}.${index}`, item))
  }
  return isRecord(value)
    ? Object.entries(value).flatMap(([member, inner]) => linesOf(`${name}.${member}`, inner))
    : [[name, textOf(value)]]
}

const isRecord = (value: unknown): value is Shown => typeof value === "object" && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string => {
  if (value === null || value === undefined || value === "") return "-"
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.map(textOf).join(", ")
  return typeof value === "string" ? oneLine(value) : visible(JSON.stringify(value))
}
