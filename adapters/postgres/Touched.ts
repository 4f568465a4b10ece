/**
 * What changes touch: the rows that they may find, and the keys that they
 * need. Locked in one order by everybody, so that no two wait for each other.
 */
import { foldCase } from "../../core/model/Address.ts"
import type { Reservation } from "../../core/model/IdempotencyKey.ts"
import type { Realm, TenantId } from "../../core/model/Ids.ts"
import type { Suppression } from "../../core/model/Suppression.ts"
import { uniqueNameOf, type Change, type Kind, type UniqueName } from "../../core/ports/Store.ts"
import * as Rows from "./Rows.ts"

/** In the order of their tables, in which everybody locks them. */
export const kinds = Object.keys(Rows.tables) as ReadonlyArray<Kind> // a table for each

export type NamedKind = UniqueName["kind"]

export interface Touched {
  /** Ids of rows that are changed, by kind; those of them that are only required. */
  readonly written: ReadonlyMap<Kind, ReadonlySet<string>>
  readonly required: ReadonlyMap<Kind, ReadonlySet<string>>
  readonly names: ReadonlyMap<NamedKind, ReadonlySet<string>>
  readonly reservations: ReadonlyMap<string, Reservation>
  readonly quotas: ReadonlyMap<string, { readonly tenantId: TenantId; readonly day: string }>
  readonly relays: ReadonlySet<number>
}

/** Whether a change is only about what must be there. */
export const isPremise = (change: Change): change is Extract<Change, { readonly _tag: "Require" | "Expect" }> =>
  change._tag === "Require" || change._tag === "Expect"

/** Whether a change needs to know what is there. The others need only what they bring to be new, or do not mind. */
export const mustLook = (change: Change): boolean => {
  const tag = change._tag
  return tag === "Update" || isPremise(change) || tag === "MoveRelay" || tag === "Remove"
}

/** Whether a change gives up a name, which others here may want, or may have been refused before it. */
export const freesName = (change: Change): boolean => change._tag === "Remove" && uniqueNameOf(change.kind, change.record) !== null

/** What these changes touch; what they take for new only if `everything` is to be looked up. */
export const touchedBy = (lists: ReadonlyArray<ReadonlyArray<Change>>, everything: boolean): Touched => {
  const touched = {
    written: new Map<Kind, Set<string>>(),
    required: new Map<Kind, Set<string>>(),
    names: new Map<NamedKind, Set<string>>(),
    reservations: new Map<string, Reservation>(),
    quotas: new Map<string, { readonly tenantId: TenantId; readonly day: string }>(),
    relays: new Set<number>()
  }
  for (const change of lists.flat()) {
    if (change._tag === "Update") add(touched.written, change.kind, change.record.id)
    if (change._tag === "Remove") add(touched.written, change.kind, change.record.id)
    // Where it is looked at before all is written, what is expected is held as well.
    if (isPremise(change)) add(touched.required, change.kind, change.id)
    if (change._tag === "TouchApiKeys") for (const { id } of change.used) add(touched.written, "apiKey", id)
    if (change._tag === "MoveRelay") touched.relays.add(change.relay.shard)
    if (!everything) continue
    if (change._tag === "Insert") add(touched.written, change.kind, change.record.id)
    const unique = change._tag === "Insert" ? uniqueNameOf(change.kind, change.record) : null
    if (unique !== null) add(touched.names, unique.kind, unique.value)
    if (change._tag === "InsertMessage") add(touched.written, "message", change.message.id)
    if (change._tag === "InsertDelivery") add(touched.written, "delivery", change.delivery.id)
    if (change._tag === "Reserve") touched.reservations.set(keyOfReservation(change.reservation), change.reservation)
    if (change._tag === "TakeQuota") touched.quotas.set(keyOfQuota(change.tenantId, change.day), change)
  }
  // Locked once, in the stronger way; and of one kind all in one way, so that they are locked in one order.
  for (const [kind, ids] of touched.required) {
    if (touched.written.has(kind)) for (const id of ids) add(touched.written, kind, id)
  }
  for (const kind of touched.written.keys()) touched.required.delete(kind)
  return touched
}

const add = <K, V>(sets: Map<K, Set<V>>, key: K, value: V): void => {
  const held = sets.get(key)
  if (held === undefined) sets.set(key, new Set([value]))
  else held.add(value)
}

export const keyOfRow = (kind: Kind, id: string): string => `${kind} ${id}`

export const keyInRealm = (id: string, { tenantId, environment }: Realm): string => `${id} ${tenantId} ${environment}`

export const keyOfName = ({ kind, value }: UniqueName): string => `${kind} ${value}`

export const keyOfReservation = (of: Pick<Reservation, "applicationId" | "idempotencyKey">): string =>
  `${of.applicationId} ${Rows.toText(of.idempotencyKey)}`

export const keyOfQuota = (tenantId: TenantId, day: string): string => `${tenantId} ${day}`

export const keyOfSuppression = (of: Pick<Suppression, "tenantId" | "environment" | "address">): string =>
  `${of.tenantId} ${of.environment} ${foldCase(of.address)}`
