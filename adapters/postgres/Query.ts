/**
 * How a read asks: a text that never changes, and parameters whose types are
 * told, so that it is prepared once for each connection whatever is asked.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import type { Millis, Realm } from "../../core/model/Ids.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import type { Database } from "./Database.ts"
import * as Lookups from "./Lookups.ts"
import * as Rows from "./Rows.ts"
import type { Row } from "./Rows.ts"

type Parameter = PgTypes.Parameter
type Read<A> = Effect.Effect<A, StoreUnavailable>

/** Makes a record of a row. */
interface Decoder<A> {
  readonly decode: (row: Row) => A
}

export interface Query {
  readonly rows: (text: string, parameters?: ReadonlyArray<Parameter>) => Read<ReadonlyArray<Row>>
  readonly list: <A>(of: Decoder<A>, text: string, parameters?: ReadonlyArray<Parameter>) => Read<ReadonlyArray<A>>
  /** The one row that there can be; null if there is none. */
  readonly one: <A>(of: Decoder<A>, text: string, parameters: ReadonlyArray<Parameter>) => Read<A | null>
  /** The same by these keys, for what is asked with every request. */
  readonly lookup: <A>(of: Decoder<A>, text: string, types: ReadonlyArray<Lookups.KeyType>) => Lookups.Lookup<A>
}

export const make = (database: Database["Service"]): Query => {
  const rows: Query["rows"] = (text, parameters) =>
    Effect.mapError(database.rows<Row>(text, parameters), (cause) => new StoreUnavailable({ cause }))
  return {
    rows,
    list: ({ decode }, text, parameters) => Effect.map(rows(text, parameters), (found) => found.map(decode)),
    one: ({ decode }, text, parameters) =>
      Effect.map(rows(text, parameters), ([row]) => (row === undefined ? null : decode(row))),
    lookup: ({ decode }, text, types) => Lookups.make(database, { types, text, decode })
  }
}

/** A text that is no identifier names nothing, as null does. */
export const id = (value: string): Parameter => PgTypes.uuid(Rows.isId(value) ? value : null)

/** The same as a key of a look-up. */
export const idKey = (value: string): Lookups.Key => (Rows.isId(value) ? value : null)
export const textKey = (value: string): Lookups.Key => Rows.toText(value)
export const millisKey = (value: Millis): Lookups.Key => Rows.toBigint(value)
export const realmKeys = ({ tenantId, environment }: Realm): readonly [Lookups.Key, Lookups.Key] => [idKey(tenantId), environment]

/** Identifiers, each once. */
export const ids = (values: ReadonlyArray<string>): Parameter => Rows.array("uuid", [...new Set(values)].filter(Rows.isId))

/** The place behind an identifier; null: before all of them. */
export const idAfter = (value: string | null): Parameter => id(value ?? "00000000-0000-0000-0000-000000000000")

export const text = (value: string): Parameter => PgTypes.text(Rows.toText(value))

/** Texts, each once. */
export const texts = (values: ReadonlyArray<string>): Parameter => Rows.array("text", [...new Set(values)].map(Rows.toText))

/** A time up to which is asked. */
export const millis = (value: Millis): Parameter => PgTypes.int8(Rows.toBigint(value))

/** A time from which on is asked. */
export const millisFrom = (value: Millis): Parameter => PgTypes.int8(Rows.toBigint(Math.ceil(value)))

export const bigint = (value: bigint): Parameter => PgTypes.int8(value)

export const count = (value: number): Parameter => PgTypes.int8(Rows.toBigint(value))

export const shard = (value: number): Parameter => PgTypes.int2(value)

/** Before all times, and behind them. */
export const bigintMin = PgTypes.int8(-Rows.bigintMax)
export const bigintMax = PgTypes.int8(Rows.bigintMax)

/** The first two parameters of what lies in a realm. */
export const inRealm = (realm: Realm): readonly [Parameter, Parameter] => [id(realm.tenantId), text(realm.environment)]

/** The types of the keys that what lies in a realm is looked up by: its id, tenant and environment. */
export const inRealmTypes = ["uuid", "uuid", "text"] as const

export type Selectable = Pick<Rows.Table<never>, "name" | "selected">

/**
 * Looked up by its id, and then looked at: a plan that is made while a table is small, or of a table where most tenants have a
 * row or two, must not take another index for it, and walk along all that a large tenant has.
 */
export const byId = (name: string, alias: string, id = "$1"): string => `(select * from ${name} where id = ${id} offset 0) ${alias}`

export const ofTenant = ({ name, selected }: Selectable): string => `select ${selected()} from ${byId(name, "held")} where tenant_id = $2`

export const ofRealm = ({ name, selected }: Selectable): string =>
  `select ${selected()} from ${byId(name, "held")} where tenant_id = $2 and environment = $3`

/** By id, behind `$2`, those sealed by a lower version than `$1`. The versions in use are few, so each is walked in its own part of the index. */
export const sealedBelow = ({ name, selected }: Selectable): string => `
  with recursive version (used) as (
    select min(seal_version) from ${name} where seal_version < $1
    union all
    select (select min(seal_version) from ${name} where seal_version > version.used and seal_version < $1)
    from version where version.used is not null
  )
  select found.* from version
  cross join lateral (
    select id, ${selected()} from ${name}
    where seal_version = version.used and id > $2
    order by id limit $3
  ) found
  order by found.id limit $3`
