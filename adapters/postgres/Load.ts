/**
 * Loads and locks what changes touch, in one statement: the rows of each table
 * by id, then relays, quotas and reservations. All lock in this order, and
 * whoever only requires a row shares its lock. Log heads are none of it.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { SqlError } from "effect/sql/SqlError"
import type { Kind } from "../../core/ports/Store.ts"
import { nothingLoaded, type Loaded } from "./Overlay.ts"
import * as Rows from "./Rows.ts"
import { keyOfRow, kinds, type NamedKind, type Touched } from "./Touched.ts"

type Parameter = ReturnType<typeof Rows.array>

/** One look-up: rows of (source, name, number, flag). `shape` and `source` name it. */
interface Look {
  readonly shape: string
  readonly text: (first: number) => string
  readonly parameters: ReadonlyArray<Parameter>
}

/** Reads what is touched, and holds it until the transaction ends. */
export const load = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  touched: Touched,
  isComplete: boolean
): Effect.fn.Return<Loaded, SqlError> {
  const looks = looksAt(touched)
  if (looks.length === 0) return { ...nothingLoaded, isComplete }
  const found = yield* sql.unsafe(textOf(looks), looks.flatMap(({ parameters }) => parameters)).values
  const loaded = {
    isComplete,
    isAssumed: false,
    rows: new Map<string, { readonly version: number; readonly enabled: boolean }>(),
    required: new Set<string>(),
    names: new Set<string>(),
    reservations: new Map<string, number>(),
    quotas: new Map<string, number>(),
    relays: new Map<number, bigint>()
  }
  // Text, text, int8 and bool, as each look has them.
  for (const [source, name, number, flag] of found as ReadonlyArray<readonly [string, string, bigint, boolean]>) {
    if (source === "reservation") loaded.reservations.set(name, Number(number))
    else if (source === "quota") loaded.quotas.set(name, Number(number))
    else if (source === "relay") loaded.relays.set(Number(name), number)
    else if (source.startsWith(named)) loaded.names.add(`${source.slice(named.length)} ${name}`)
    else loaded.rows.set(keyOfRow(source as Kind, name), { version: Number(number), enabled: flag }) // or else it is a kind
  }
  return loaded
})

const named = "name of "

/** By shape, so that a text is made once, and prepared once. */
const texts = new Map<string, string>()

const textOf = (looks: ReadonlyArray<Look>): string => {
  const shape = looks.map((look) => look.shape).join()
  const known = texts.get(shape)
  if (known !== undefined) return known
  let first = 1
  const text = looks
    .map((look) => {
      const own = look.text(first)
      first += look.parameters.length
      return own
    })
    .join(" union all ")
  texts.set(shape, text)
  return text
}

const looksAt = (touched: Touched): ReadonlyArray<Look> => [
  // Of a kind it is one or the other.
  ...kinds.flatMap((kind) => [
    ...lookAtRows(kind, touched.written.get(kind), "update"),
    ...lookAtRows(kind, touched.required.get(kind), "share")
  ]),
  ...namedKinds.flatMap((kind) => lookAtNames(kind, touched.names.get(kind))),
  ...lookAtRelays(touched),
  ...lookAtQuotas(touched),
  ...lookAtReservations(touched)
]

const lookAtRows = (kind: Kind, ids: ReadonlySet<string> | undefined, lock: "update" | "share"): ReadonlyArray<Look> => {
  const known = [...(ids ?? [])].filter(Rows.isId)
  if (known.length === 0) return []
  const enabled = kind === "endpoint" ? "enabled" : "false"
  return [
    {
      shape: `${kind} for ${lock}`,
      text: (first) =>
        `select '${kind}' as source, id::text as name, version::bigint as number, flag from (
           select id, version, ${enabled} as flag from ${Rows.tables[kind].name}
           where id = any($${first}::uuid[]) order by id for ${lock}
         ) as ${kind}`,
      parameters: [Rows.array("uuid", known)]
    }
  ]
}

const nameColumns: { readonly [K in NamedKind]: string } = { apiKey: "public_id", domain: "domain", mailbox: "folded_address" }
const namedKinds = Object.keys(nameColumns) as ReadonlyArray<NamedKind> // a column for each

/** Without a lock: one that is taken in between fails the statement, and one that is given up in between was taken until then. */
const lookAtNames = (kind: NamedKind, names: ReadonlySet<string> | undefined): ReadonlyArray<Look> => {
  if (names === undefined) return []
  const column = nameColumns[kind]
  return [
    {
      shape: `${named}${kind}`,
      text: (first) =>
        `select '${named}${kind}', ${column}, 0::bigint, false from ${Rows.tables[kind].name}
         where ${column} = any($${first}::text[])`,
      parameters: [Rows.array("text", [...names])]
    }
  ]
}

/** Held in the way in which they are written over, for which a look-up that locks them too (`Reads`) need not wait. */
const lookAtReservations = ({ reservations }: Touched): ReadonlyArray<Look> => {
  if (reservations.size === 0) return []
  const columns = Rows.reservation.columns.slice(0, 2)
  const known = [...reservations.values()].filter(({ applicationId }) => Rows.isId(applicationId))
  return [
    {
      shape: "reservation",
      text: (first) =>
        `select 'reservation', name, number, false from (
           select application_id::text || ' ' || idempotency_key as name, expires_ms as number from mailroom.reservation
           where (application_id, idempotency_key) in (
             select application_id, idempotency_key from ${Rows.given(columns, first)}
           )
           order by application_id, idempotency_key for no key update
         ) as reservation`,
      parameters: Rows.parameters(columns, known)
    }
  ]
}

const lookAtQuotas = ({ quotas }: Touched): ReadonlyArray<Look> => {
  if (quotas.size === 0) return []
  const known = [...quotas.values()].filter(({ tenantId }) => Rows.isId(tenantId))
  return [
    {
      shape: "quota",
      text: (first) =>
        `select 'quota', name, number, false from (
           select tenant_id::text || ' ' || day as name, used as number from mailroom.quota
           where (tenant_id, day) in (
             select tenant_id, day from unnest($${first}::uuid[], $${first + 1}::text[]) as given(tenant_id, day)
           )
           order by tenant_id, day for update
         ) as quota`,
      parameters: [
        Rows.array("uuid", known.map(({ tenantId }) => tenantId)),
        Rows.array("text", known.map(({ day }) => day))
      ]
    }
  ]
}

const lookAtRelays = ({ relays }: Touched): ReadonlyArray<Look> => {
  if (relays.size === 0) return []
  return [
    {
      shape: "relay",
      text: (first) =>
        `select 'relay', name, number, false from (
           select shard::text as name, position as number from mailroom.relay
           where shard = any($${first}::smallint[]) order by shard for update
         ) as relay`,
      parameters: [Rows.array("smallint", [...relays])]
    }
  ]
}
