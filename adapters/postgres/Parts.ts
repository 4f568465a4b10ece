/**
 * The parts of a statement that writes: common table expressions that change
 * rows, each run behind the one before it. Many rows are one array for each
 * column, so a text depends on which parts there are, and on nothing else.
 */
import { PgTypes } from "@effect/sql-pg"
import * as Rows from "./Rows.ts"
import type { Column } from "./Rows.ts"

export interface Shape {
  /** Names it among the parts, for those behind it. */
  readonly name: string
  /** Its text, with parameters from this number on; `behind` is a condition that waits for the part before it. */
  readonly text: (first: number, behind: string) => string
}

export interface Part {
  readonly shape: Shape
  readonly parameters: ReadonlyArray<PgTypes.Parameter>
}

/** Makes a part that writes these items. */
export type PartOf<A> = (items: ReadonlyArray<A>) => Part

export interface Statement {
  readonly text: string
  readonly parameters: ReadonlyArray<PgTypes.Parameter>
}

/** By shape, so that a text is made once, and prepared once. */
const texts = new Map<string, string>()

/** One statement of these parts. */
export const statementOf = (parts: readonly [Part, ...ReadonlyArray<Part>]): Statement => ({
  text: textOf(parts),
  parameters: parts.flatMap(({ parameters }) => parameters)
})

const textOf = (parts: readonly [Part, ...ReadonlyArray<Part>]): string => {
  const shape = parts.map((part) => part.shape.name).join()
  const known = texts.get(shape)
  if (known !== undefined) return known
  let [first, behind] = [1, "true"]
  const steps = parts.map((part) => {
    const text = `${part.shape.name} as (${part.shape.text(first, behind)})`
    first += part.parameters.length
    behind = `(select count(*) from ${part.shape.name}) >= 0`
    return text
  })
  const text = `with ${steps.join(", ")} select count(*) from ${(parts.at(-1) ?? parts[0]).shape.name}`
  texts.set(shape, text)
  return text
}

export const column = <A>(name: string, type: Rows.SqlType, value: (item: A) => Rows.Value): Column<A> => ({
  name,
  type,
  value,
  fixed: true
})

interface Conflict {
  /** What to do where a row is there already: `do nothing`, `do update …`. Without it the statement fails. */
  readonly conflict?: string
  readonly returning?: string
}

/** Inserts rows as they are given. */
export const inserting = <A>(
  name: string,
  table: string,
  columns: ReadonlyArray<Column<A>>,
  { conflict, returning = "1" }: Conflict = {}
): PartOf<A> => {
  const otherwise = conflict === undefined ? "" : ` on conflict ${conflict}`
  const shape: Shape = {
    name,
    text: (first, behind) =>
      `insert into ${table} (${Rows.names(columns)}) select * from ${Rows.unnest(columns, first)}
       where ${behind}${otherwise} returning ${returning}`
  }
  return (items) => ({ shape, parameters: Rows.parameters(columns, items) })
}

/** Columns whose values follow from what parts before this one have returned. */
interface Placed<A> {
  /** What is given for it beside the row. */
  readonly by: ReadonlyArray<Column<A>>
  /** Expressions, by column. */
  readonly columns: Readonly<Record<string, string>>
  readonly from: string
  readonly where: string
}

/** Inserts rows that have such columns. */
export const insertingPlaced = <A>(
  name: string,
  table: string,
  columns: ReadonlyArray<Column<A>>,
  placed: Placed<A>
): PartOf<A> => {
  const given = [...columns, ...placed.by]
  const names = [...columns.map((column) => column.name), ...Object.keys(placed.columns)].join(", ")
  const values = [...columns.map((column) => `given.${column.name}`), ...Object.values(placed.columns)].join(", ")
  const shape: Shape = {
    name,
    text: (first, behind) =>
      `insert into ${table} (${names}) select ${values} from ${Rows.unnest(given, first)}, ${placed.from}
       where ${placed.where} and ${behind} returning 1`
  }
  return (items) => ({ shape, parameters: Rows.parameters(given, items) })
}

/** Writes what may change of rows by their id. They are locked. */
export const updating = <A>(name: string, table: string, columns: ReadonlyArray<Column<A>>, placed?: Placed<A>): PartOf<A> => {
  const given = [...columns.filter((column) => column.name === "id" || !column.fixed), ...(placed?.by ?? [])]
  const sets = [
    ...columns.filter((column) => !column.fixed).map((column) => `${column.name} = given.${column.name}`),
    ...Object.entries(placed?.columns ?? {}).map(([name, value]) => `${name} = ${value}`)
  ].join(", ")
  const [from, where] = placed === undefined ? ["", ""] : [`, ${placed.from}`, ` and ${placed.where}`]
  const shape: Shape = {
    name,
    text: (first, behind) =>
      `update ${table} as stored set ${sets} from ${Rows.unnest(given, first)}${from}
       where stored.id = given.id${where} and ${behind} returning 1`
  }
  return (items) => ({ shape, parameters: Rows.parameters(given, items) })
}

/** Deletes rows by the values of one column. */
export const deleting = (name: string, table: string, by: string, type: Rows.SqlType = "uuid"): PartOf<string> => {
  const shape: Shape = {
    name,
    text: (first, behind) => `delete from ${table} where ${by} = any($${first}::${type}[]) and ${behind} returning 1`
  }
  return (values) => ({ shape, parameters: [Rows.array(type, values)] })
}
