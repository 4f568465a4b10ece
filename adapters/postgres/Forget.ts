/**
 * Drops what is older than a time, oldest first. What somebody else holds is
 * passed over, but for events: they go from the front of the log only, so
 * there one waits for the other. Nothing that is not final is looked at.
 */
import type { PgTypes } from "@effect/sql-pg"
import { shardCount } from "../../core/model/Ids.ts"
import { utcDay } from "../../core/model/Timestamp.ts"
import type { Change, Log } from "../../core/ports/Store.ts"
import type { Statement } from "./Parts.ts"
import * as Query from "./Query.ts"

type Forget = Extract<Change, { readonly _tag: "Forget" }>

/** The statement, which gives back how many rows it dropped. */
export const statement = ({ log, before, limit }: Forget): Statement => ({
  text: `with ${texts[log]} select count(*) from forgotten`,
  parameters: [until(log, before), Query.count(Math.max(0, limit))]
})

const until = (log: Log, before: number): PgTypes.Parameter =>
  log === "quotas" ? Query.text(utcDay(before)) : Query.millisFrom(before)

/** Deletes from one table, by its key and its age. */
const oldest = (table: string, key: string, age: string, returning = "1"): string =>
  `old as materialized (
     select ${key} from mailroom.${table} where ${age} < $1 order by ${age} limit $2 for update skip locked
   ),
   forgotten as (delete from mailroom.${table} where (${key}) in (select ${key} from old) returning ${returning})`

const texts: Readonly<Record<Log, string>> = {
  // Each shard from its front, up to the first event that is not older. As one walks the fronts, always taking the oldest,
  // an event's turn comes by the latest time up to it.
  events: `front as materialized (
      select shard, position, max(occurred_ms) over (partition by shard order by position) as turn
      from generate_series(0, ${shardCount - 1}) as shard cross join lateral (
        select position, occurred_ms from mailroom.event where event.shard = shard.shard order by position limit $2
      ) as first
    ),
    forgotten as (
      delete from mailroom.event where (shard, position) in (
        select shard, position from front where turn < $1 order by turn, shard, position limit $2
      ) returning 1
    )`,
  reservations: oldest("reservation", "application_id, idempotency_key", "expires_ms"),
  notifications: oldest("notification", "hash", "kept_ms"),
  requests: oldest("request", "tenant_id, number", "at_ms"),
  payloads: oldest("payload", "provider, id", "received_ms"),
  quotas: oldest("quota", "tenant_id, day", "day"),
  // A body goes with the last delivery that has it.
  deliveries: `${oldest("delivery", "id", "ended_ms", "coalesce(body_id, id) as body_id")},
    fewer as (
      select body.delivery_id, body.deliveries - gone.deliveries as deliveries
      from (select body_id, count(*) as deliveries from forgotten group by body_id) as gone
      join mailroom.delivery_body as body on body.delivery_id = gone.body_id order by body.delivery_id for update of body
    ),
    kept_bodies as (
      update mailroom.delivery_body as body set deliveries = fewer.deliveries
      from fewer where body.delivery_id = fewer.delivery_id and fewer.deliveries > 0 returning 1
    ),
    dropped_bodies as (
      delete from mailroom.delivery_body as body using fewer
      where body.delivery_id = fewer.delivery_id and fewer.deliveries <= 0 returning 1
    )`
}
