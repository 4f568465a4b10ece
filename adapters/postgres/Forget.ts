/**
 * Drops what is older than a time, oldest first. What somebody else holds is
 * passed over, but for events: they go from the front of the log only, so
 * there one waits for the other. Nothing that is not final is looked at.
 */
import type { PgTypes } from "@effect/sql-pg"
import { shardCount } from "../../core/model/Ids.ts"
import { utcDay } from "../../core/model/Timestamp.ts"
import type { Change, Forgettable } from "../../core/ports/Store.ts"
import type { Statement } from "./Parts.ts"
import * as Query from "./Query.ts"

type Forget = Extract<Change, { readonly _tag: "Forget" }>

/** The statement, which gives back how many rows it dropped. */
export const statement = ({ what, before, limit }: Forget): Statement => ({
  text: `with ${texts[what]} select count(*) from forgotten`,
  parameters: [until(what, before), Query.count(Math.max(0, limit))]
})

const until = (what: Forgettable, before: number): PgTypes.Parameter => {
  if (what === "quotas") return Query.text(utcDay(before))
  return Query.millisFrom(what === "messages" ? before * 1_000 : before) // theirs are microseconds
}

/**
 * Deletes from one table, by age, what was found where it lies: by its key, a plan that was made while the table was known to
 * have hardly any rows compares each of them with each that is old, however many there are by then. So do joins, but for
 * those of arrays, and laterals that lock.
 */
const oldest = (table: string, age: string, returning = "1", only = "true"): string =>
  `old as materialized (
     select ctid as place from mailroom.${table} where ${age} < $1 and ${only} order by ${age} limit $2 for update skip locked
   ),
   forgotten as (delete from mailroom.${table} where ctid = any(array(select place from old)) returning ${returning})`

const texts: Readonly<Record<Forgettable, string>> = {
  // Each shard from its front, up to the first event that is not older; the next one begins there, for the index still has what
  // is gone. As one walks the fronts, always taking the oldest, an event's turn comes by the latest time up to it. Rows that are
  // named by where they lie are locked in that order: two who forget do not choose quite the same, and would else wait for each
  // other crosswise.
  events: `front as materialized (
      select place, shard, position, max(occurred_ms) over (partition by shard order by position) as turn
      from generate_series(0, ${shardCount - 1}) as shard cross join lateral (
        select ctid as place, position, occurred_ms from mailroom.event
        where event.shard = shard.shard
          and position > coalesce((select log_front.position from mailroom.log_front where log_front.shard = shard.shard), 0)
        order by position limit $2
      ) as first
    ),
    forgotten as (
      delete from mailroom.event where ctid = any(array(
        select place from front where turn < $1 order by turn, shard, position limit $2
      )) returning shard, position, occurred_ms
    ),
    moved_fronts as (
      insert into mailroom.log_front (shard, position, occurred_ms)
      select shard, max(position), max(occurred_ms) from forgotten group by shard order by shard
      on conflict (shard) do update set
        position = greatest(log_front.position, excluded.position),
        occurred_ms = greatest(log_front.occurred_ms, excluded.occurred_ms) -- of nothing and a time, the time
      returning 1
    )`,
  reservations: oldest("reservation", "expires_ms"),
  notifications: oldest("notification", "kept_ms"),
  requests: oldest("request", "at_ms"),
  payloads: oldest("payload", "received_ms"),
  quotas: oldest("quota", "day"),
  messages: `${oldest("message", "created_us", "id", "next_attempt_ms is null and poll_ms is null and parse_ms is null")},
    dropped_contents as (
      delete from mailroom.message_content where message_id = any(array(select id from forgotten)) returning 1
    ),
    dropped_submissions as (
      delete from mailroom.submission where message_id = any(array(select id from forgotten)) returning 1
    )`,
  attachments: oldest(
    "attachment",
    "used_ms",
    "1",
    `unused_until_ms is null and (select true from mailroom.queued_attachment where attachment_id = attachment.id limit 1) is null`
  ),
  // A body goes with the last delivery that has it.
  deliveries: `${oldest("delivery", "ended_ms", "coalesce(body_id, id) as body_id")},
    fewer as (
      select body.delivery_id, body.deliveries - gone.deliveries as deliveries
      from (select body_id, count(*) as deliveries from forgotten group by body_id order by body_id) as gone
      cross join lateral (select * from mailroom.delivery_body where delivery_id = gone.body_id for update) as body
    ),
    kept_bodies as (
      update mailroom.delivery_body as body set deliveries = fewer.deliveries from fewer
      where body.delivery_id = fewer.delivery_id and fewer.deliveries > 0
        and body.delivery_id = any(array(select delivery_id from fewer)) returning 1
    ),
    dropped_bodies as (
      delete from mailroom.delivery_body where delivery_id = any(array(select delivery_id from fewer where deliveries <= 0)) returning 1
    )`
}
