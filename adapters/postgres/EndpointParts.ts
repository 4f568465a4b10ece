/** Endpoints, written behind the heads of the shards, by which they know where they stand. */
import type { Endpoint, Positions } from "../../core/model/Endpoint.ts"
import { shardOf } from "../../core/model/Ids.ts"
import { positionColumns, positions } from "./EndpointPositions.ts"
import type { Entry } from "./Overlay.ts"
import { column, insertingPlaced, updating, type Part } from "./Parts.ts"
import * as Rows from "./Rows.ts"

interface Placed {
  readonly endpoint: Endpoint
  readonly shard: number
  /** How many events of this commit come behind each of its positions in the shard; null where one stays. */
  readonly back: Positions<number | null>
  /** The version of the row that it is written over, if there is one. */
  readonly base: number
}

const columns = Rows.tables.endpoint.columns.filter(({ name }) => !positionColumns.includes(name))
const backs = Object.entries(positions).map(([name, position]) =>
  column<Placed>(`${name}_back`, "bigint", ({ back }) => (back[position] === null ? null : BigInt(back[position])))
)

const given = {
  by: [column<Placed>("shard", "smallint", ({ shard }) => shard), ...backs],
  from: "head",
  where: "head.shard = given.shard"
}
const placedColumns = columns.map((one) => ({ ...one, value: ({ endpoint }: Placed) => one.value(endpoint) }))
const newEndpoints = insertingPlaced("new_endpoint", "mailroom.endpoint", placedColumns, {
  ...given,
  columns: Object.fromEntries(positionColumns.map((name) => [name, `head.position - given.${name}_back`]))
})
// A version of before inserts none but the last of them, which then stands for the others.
const turnedEndpoints = updating("turned_endpoint", "mailroom.endpoint", placedColumns, {
  ...given,
  columns: {
    created_after: "coalesce(stored.created_after, stored.enabled_after)",
    disabled_after: "coalesce(head.position - given.disabled_after_back, stored.disabled_after, stored.enabled_after)",
    enabled_after: "coalesce(head.position - given.enabled_after_back, stored.enabled_after)"
  }
})
const changedEndpoints = updating("changed_endpoint", "mailroom.endpoint", columns)

/** Those that are new, and those that are written over what is there; `heads` has how many events the commit adds to each shard. */
export const endpointParts = (
  fresh: ReadonlyArray<Entry>,
  changed: ReadonlyArray<Entry>,
  heads: ReadonlyMap<number, number>
): ReadonlyArray<Part> => {
  const placed = ({ record, base, positions: { createdAfter, disabledAfter, enabledAfter } }: Entry): Placed => {
    const endpoint = record as Endpoint // by its kind
    const shard = shardOf(endpoint.tenantId)
    const backTo = (position: number | null) => (position === null ? null : heads.get(shard)! - position)
    const back = { createdAfter: backTo(createdAfter), disabledAfter: backTo(disabledAfter), enabledAfter: backTo(enabledAfter) }
    return { endpoint, shard, back, base: base ?? 0 }
  }
  const turns = changed.filter(hasMoved).map(placed)
  const others = changed.filter((entry) => !hasMoved(entry)).map(placed)
  return [
    ...(fresh.length === 0 ? [] : [newEndpoints(fresh.map(placed))]),
    ...(turns.length === 0 ? [] : [turnedEndpoints(turns.map((item) => ({ item, base: item.base })))]),
    ...(others.length === 0 ? [] : [changedEndpoints(others.map(({ endpoint, base }) => ({ item: endpoint, base })))])
  ]
}

const hasMoved = ({ positions }: Entry): boolean => Object.values(positions).some((position) => position !== null)
