/** Where an endpoint stands in its shard's log, as its row says it. */
import type { Places } from "../../core/model/Endpoint.ts"

/** By their columns. */
export const places: Readonly<Record<string, keyof Places>> = { created_after: "createdAfter", disabled_after: "disabledAfter", enabled_after: "enabledAfter" }

export const placeColumns: ReadonlyArray<string> = Object.keys(places)

/** Where a version of before has left out the others, the last place stands for them. */
export const placesOf = (row: Readonly<Record<string, unknown>>): Places => {
  const [createdAfter, disabledAfter, enabledAfter] = placeColumns.map((name) => row[name] as bigint | null)
  return { createdAfter: createdAfter ?? enabledAfter!, disabledAfter: disabledAfter ?? enabledAfter!, enabledAfter: enabledAfter! }
}
