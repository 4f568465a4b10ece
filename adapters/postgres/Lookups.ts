/**
 * Look-ups of one thing each by its keys, of which those that are asked for at
 * about the same time share a statement, and those of the same keys an answer.
 * A look-up never joins a statement that has begun: what it tells is as of now
 * or later.
 */
import { Cause, Effect, Exit } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import type { Database } from "./Database.ts"
import { column } from "./Parts.ts"
import * as Rows from "./Rows.ts"
import type { Row } from "./Rows.ts"

export type KeyType = "uuid" | "text" | "bigint"
export type Key = string | bigint | null

export interface Options<A> {
  /** Of the text's parameters, in order. */
  readonly types: ReadonlyArray<KeyType>
  /** Finds one row at most. */
  readonly text: string
  /** Makes an answer of a row; it is shared, and so never written to. */
  readonly decode: (row: Row) => A
}

export type Lookup<A> = (keys: ReadonlyArray<Key>) => Effect.Effect<A | null, StoreUnavailable>

/** Different keys of one statement. */
const keysMax = 256
/** Statements of one look-up under way. */
const underWayMax = 2

interface Asked<A> {
  readonly keys: ReadonlyArray<Key>
  readonly answers: Set<(answer: Effect.Effect<A | null, StoreUnavailable>) => void>
}

interface Placed<A> {
  readonly asked: Asked<A>
  readonly place: number
}

/** The same for the same keys, and for no others: no text has a NUL in it, and null is none of them. */
const nameOf = (keys: ReadonlyArray<Key>): string => keys.map((key) => (key === null ? "" : `=${key}`)).join("\u0000")

/** The text asked for many keys at once, or for one. Behind the keys it is given their places, which its rows tell, from 1. */
const gathered = (text: string, types: ReadonlyArray<KeyType>, form: Rows.Form): string => {
  const asked = text.replace(/\$(\d+)/g, (_, number: string) => `asked.key_${number}`)
  const keys = types.map((type, index) => ({ name: `key_${index + 1}`, type }))
  return `select asked.place, found.* from ${Rows.given([...keys, { name: "place", type: "integer" }], 1, form, "asked")}
    cross join lateral (${asked}) found`
}

export const make = <A>({ rows }: Pick<Database["Service"], "rows">, { types, text, decode }: Options<A>): Lookup<A> => {
  const statements = { row: gathered(text, types, "row"), arrays: gathered(text, types, "arrays") }
  const columns = [
    ...types.map((type, index) => column<Placed<A>>(`key_${index + 1}`, type, ({ asked }) => asked.keys[index]!)),
    column<Placed<A>>("place", "integer", ({ place }) => place)
  ]
  /** A new one each time that it is taken: what a map leaves behind as it changes is held until the whole heap is collected. */
  let waiting = new Map<string, Asked<A>>()
  let underWay = 0
  let isDue = false

  const take = (): ReadonlyArray<Asked<A>> => {
    const all = [...waiting]
    waiting = new Map(all.slice(keysMax))
    return all.slice(0, keysMax).map(([, asked]) => asked)
  }

  /** A row that cannot be read is a bug, and harms nobody but those who asked for it. */
  const answerOf = (row: Row): Effect.Effect<A> => {
    try {
      return Effect.succeed(decode(row))
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  const tell = (taken: ReadonlyArray<Asked<A>>, exit: Exit.Exit<ReadonlyArray<Row>, SqlError>) => {
    const told: Array<Effect.Effect<A | null, StoreUnavailable>> = taken.map(() =>
      Exit.isSuccess(exit) ? Effect.succeed(null) : Effect.failCause(Cause.map(exit.cause, (cause) => new StoreUnavailable({ cause })))
    )
    for (const row of Exit.isSuccess(exit) ? exit.value : []) {
      told[(row["place"] as number) - 1] = answerOf(row) // counted from 1
    }
    taken.forEach(({ answers }, index) => {
      for (const resume of answers) resume(told[index]!)
    })
  }

  const send = () => {
    isDue = false
    while (waiting.size > 0 && underWay < underWayMax) {
      const taken = take()
      const form = taken.length === 1 ? "row" : "arrays"
      const parameters = Rows.parameters(columns, taken.map((asked, index) => ({ asked, place: index + 1 })), form)
      underWay += 1
      Effect.runFork(rows<Row>(statements[form], parameters)).addObserver((exit) => {
        underWay -= 1
        // On its way before those who are told go on.
        if (waiting.size > 0) send()
        tell(taken, exit)
      })
    }
  }

  return (keys) =>
    Effect.callback((resume) => {
      const name = nameOf(keys)
      const asked = waiting.get(name) ?? { keys, answers: new Set() }
      asked.answers.add(resume)
      waiting.set(name, asked)
      if (!isDue && underWay < underWayMax) {
        isDue = true
        // Behind all that this turn of the loop brings.
        setImmediate(send)
      }
      return Effect.sync(() => {
        asked.answers.delete(resume)
        if (asked.answers.size === 0 && waiting.get(name) === asked) waiting.delete(name)
      })
    })
}
