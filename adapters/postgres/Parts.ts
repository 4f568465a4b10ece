/**
 * The parts of a statement that writes: common table expressions that change
 * rows, each run behind the one before it. Many rows are one array for each
 * column, so a text depends on which parts there are, on whether all of them
 * have a single row, and on nothing else.
 */
import { PgTypes } from "@effect/sql-pg"
import * as Rows from "./Rows.ts"
import type { Column } from "./Rows.ts"

export interface Shape {
  /** Names it among the parts, for those behind it. */
  readonly name: string
  /** Its text, with parameters from this number on; `behind` is a condition that waits for the part before it. */
  readonly text: (first: number, behind: string, form: Rows.Form) => string
  /** How many rows it must have found, if so: else the statement fails, and nothing of it is done. */
  readonly rowsFound?: (first: number, form: Rows.Form) => string
  /** Whether what it returns is told: as JSON, in a column of its name. */
  readonly isTold?: boolean
}

export interface Part {
  readonly shape: Shape
  /** Whether it has one row, or takes the same in either form. */
  readonly isSingle: boolean
  /** As many in either form. */
  readonly parameters: (form: Rows.Form) => ReadonlyArray<PgTypes.Parameter>
}

/** Makes a part that writes these items. */
export type PartOf<A> = (items: ReadonlyArray<A>) => Part

export interface Statement {
  readonly text: string
  readonly parameters: ReadonlyArray<PgTypes.Parameter>
}

/** By shape, so that a text is made once, and prepared once. */
const texts = new Map<string, string>()

/** What a statement fails with whose parts did not find what they must: a division by zero. */
export const premiseFailed = "22012"

/** One statement of these parts. */
export const statementOf = (parts: readonly [Part, ...ReadonlyArray<Part>]): Statement => {
  const form = parts.every(({ isSingle }) => isSingle) ? "row" : "arrays"
  const given = parts.map(({ parameters }) => parameters(form))
  return { text: textOf(parts, given, form), parameters: given.flat() }
}

const textOf = (
  parts: readonly [Part, ...ReadonlyArray<Part>],
  given: ReadonlyArray<ReadonlyArray<PgTypes.Parameter>>,
  form: Rows.Form
): string => {
  const shape = `${form} ${parts.map((part) => part.shape.name).join()}`
  const known = texts.get(shape)
  if (known !== undefined) return known
  let [first, behind] = [1, "true"]
  const premises: Array<string> = []
  const told = parts.flatMap(({ shape: { name, isTold } }) => (isTold === true ? `(select json_agg(${name})::text from ${name}) as ${name}` : []))
  const steps = parts.map((part, index) => {
    const text = `${part.shape.name} as (${part.shape.text(first, behind, form)})`
    const rowsFound = part.shape.rowsFound?.(first, form)
    if (rowsFound !== undefined) premises.push(`(select count(*) from ${part.shape.name}) = ${rowsFound}`)
    first += given[index]!.length
    behind = `(select count(*) from ${part.shape.name}) >= 0`
    return text
  })
  const held = premises.length === 0 ? [] : [`1 / (case when ${premises.join(" and ")} then 1 else 0 end)`]
  const text = `with ${steps.join(", ")} select ${[...held, ...told].join(", ")}`
  texts.set(shape, text)
  return text
}

export const column = <A>(name: string, type: Rows.SqlType, value: (item: A) => Rows.Value): Column<A> => ({
  name,
  type,
  value,
  fixed: true
})

/** Parts whose text takes rows of these columns in either form. */
export const ofRows =
  <A>(shape: Shape, columns: ReadonlyArray<Column<A>>): PartOf<A> =>
  (items) => ({ shape, isSingle: items.length === 1, parameters: (form) => Rows.parameters(columns, items, form) })

/** A part whose text takes the same parameters in either form. */
export const ofArrays = (shape: Shape, parameters: ReadonlyArray<PgTypes.Parameter>): Part => ({
  shape,
  isSingle: true,
  parameters: () => parameters
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
    text: (first, behind, form) =>
      `insert into ${table} (${Rows.names(columns)}) select * from ${Rows.given(columns, first, form)}
       where ${behind}${otherwise} returning ${returning}`
  }
  return ofRows(shape, columns)
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
    text: (first, behind, form) =>
      `insert into ${table} (${names}) select ${values} from ${Rows.given(given, first, form)}, ${placed.from}
       where ${placed.where} and ${behind} returning 1`
  }
  return ofRows(shape, given)
}

/** An item, and the version of the row that it is to be written over. */
export interface Based<A> {
  readonly item: A
  readonly base: number
}

/** Writes what may change of rows by their id, over their versions, if all of them are there. */
export const updating = <A>(
  name: string,
  table: string,
  columns: ReadonlyArray<Column<A>>,
  placed?: Placed<A>
): PartOf<Based<A>> => {
  const own = [...columns.filter((column) => column.name === "id" || !column.fixed), ...(placed?.by ?? [])]
  const given: ReadonlyArray<Column<Based<A>>> = [
    ...own.map((one) => ({ ...one, value: ({ item }: Based<A>) => one.value(item) })),
    column("base", "integer", ({ base }) => base)
  ]
  const sets = [
    ...columns.filter((column) => !column.fixed).map((column) => `${column.name} = given.${column.name}`),
    ...Object.entries(placed?.columns ?? {}).map(([name, value]) => `${name} = ${value}`)
  ].join(", ")
  const [from, where] = placed === undefined ? ["", ""] : [`, ${placed.from}`, ` and ${placed.where}`]
  const place = given.findIndex((column) => column.name === "id")
  const shape: Shape = {
    name,
    text: (first, behind, form) =>
      `update ${table} as stored set ${sets} from ${Rows.given(given, first, form)}${from}
       where stored.id = given.id and stored.version = given.base${where} and ${behind} returning 1`,
    rowsFound: (first, form) => rowsGiven(first + place, form)
  }
  return ofRows(shape, given)
}

/** How many there are, by the ids that this parameter holds. */
const rowsGiven = (ids: number, form: Rows.Form): string => (form === "row" ? "1" : `cardinality($${ids}::uuid[])`)

interface Versioned {
  readonly id: string
  readonly version: number
}

const versionColumns = [
  column<Versioned>("id", "uuid", ({ id }) => id),
  column<Versioned>("version", "integer", ({ version }) => version)
]

/** Rows at their versions, if all of them are there; `isHeld`: none of them moves until the transaction ends. */
export const atVersions = (name: string, table: string, isHeld: boolean): PartOf<Versioned> => {
  const shape: Shape = {
    name,
    text: (first, behind, form) =>
      `select 1 from ${table} as stored join ${Rows.given(versionColumns, first, form)}
         on stored.id = given.id and stored.version = given.version
       where ${behind}${isHeld ? " order by stored.id for share of stored" : ""}`,
    rowsFound: rowsGiven
  }
  return ofRows(shape, versionColumns)
}

/** Deletes rows by the values of one column. */
export const deleting = (name: string, table: string, by: string, type: Rows.SqlType = "uuid"): PartOf<string> => {
  const shape: Shape = {
    name,
    text: (first, behind) => `delete from ${table} where ${by} = any($${first}::${type}[]) and ${behind} returning 1`
  }
  return (values) => ofArrays(shape, [Rows.array(type, values)])
}
