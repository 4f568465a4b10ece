/** Where an endpoint stands in its shard's log, as its row says it. */
import type { Positions } from "../../core/model/Endpoint.ts"

/** By their columns. */
export const positions: Readonly<Record<string, keyof Positions>> = { created_after: "createdAfter", disabled_after: "disabledAfter", enabled_after: "enabledAfter" }

export const positionColumns: ReadonlyArray<string> = Object.keys(positions)

/** Where a version of before has left out the others, the last position stands for them. */
export const positionsOf = (row: Readonly<Record<string, unknown>>): Positions => {
  const [createdAfter, disabledAfter, enabledAfter] = positionColumns.map((name) => row[name] as bigint | null)
  return { createdAfter: createdAfter ?? enabledAfter!, disabledAfter: disabledAfter ?? enabledAfter!, enabledAfter: enabledAfter! }
}
