/** The reads of the log: one tenant's pages, one shard's, and where the relay is behind. */
import { Effect } from "effect"
import type { LoggedEvent, LogPage } from "../../core/model/Event.ts"
import { shardOf } from "../../core/model/Ids.ts"
import type { EventReads, RelayReads } from "../../core/ports/Store.ts"
import * as Query from "./Query.ts"
import * as Rows from "./Rows.ts"

export const make = ({ list, rows }: Query.Query): { readonly events: EventReads; readonly relay: RelayReads } => ({
  events: {
    page: (realm, applicationId, { start, limit }) => {
      // A text that is no identifier has no shard either, and nothing in any.
      const shard = Query.shard(Rows.isId(realm.tenantId) ? shardOf(realm.tenantId) : 0)
      const asked = [...Query.inRealm(realm), Query.id(applicationId), Query.count(limit), shard]
      const found =
        start?._tag === "Since"
          ? rows(pageSince, [...asked, Query.millisFrom(start.at)])
          : rows(pageAfter, [...asked, Query.bigint(start?.position ?? 0n), Query.millis(start?.occurredAt ?? 0)])
      return Effect.map(found, (all) => ({
        events: all.filter((row) => row["position"] !== null).map(Rows.event.decode).sort(byPosition),
        beginning: start === null ? "whole" : (all[0]!["beginning"] as LogPage["beginning"]) // there is a row of an empty page too
      }))
    },
    readLog: (shard, after, limit) => list(Rows.event, log, [Query.shard(shard), Query.bigint(after), Query.count(limit)])
  },
  relay: { behind: list(Rows.relay, behind) }
})

/** What an application sees of its environment, and of the tenant as a whole: two walks in the order of one index each. */
const visible = (walk: (which: string) => string): string =>
  ["environment = $2", "environment = ''"]
    .map((where) => `(${walk(`tenant_id = $1 and ${where} and (audience is null or audience = $3)`)})`)
    .join(" union all ")

const selected = Rows.event.selected()

/** Of what was forgotten an index has entries until the next vacuum: nobody begins before their end. */
const front = "coalesce((select position from mailroom.log_front where shard = $5), 0)"

/**
 * A page with what is known of its beginning, in each row; of an empty one that alone, in a row. The rows come in their order, of
 * which a join promises nothing: to ask for it would have PostgreSQL sort them once more.
 */
const withBeginning = (beginning: string, found: string): string => `
  select log.beginning, page.*
  from (select ${beginning} as beginning) log
  left join (select * from (${found}) page order by position limit $4) page on true`

const byPosition = (one: LoggedEvent, other: LoggedEvent): number => (one.position < other.position ? -1 : 1)

const inOrder = (columns: string, from: string, limit: string) => (which: string): string =>
  `select ${columns} from mailroom.event where ${which} and ${from} order by position limit ${limit}`

/**
 * Whether the event is at its place; null at the end of the shard. Looked up by the place alone: a plan that was made while the
 * table was empty would walk along all that the tenant has.
 */
const standsThere = `(
  select position = $6 and tenant_id = $1 and occurred_ms = $7 from mailroom.event
  where shard = $5 and position >= $6 order by shard, position limit 1
)`

const beginningAfter = `
  case
    when $6 < ${front} then 'cut'
    when $6 = ${front} then 'whole'
    when ${standsThere} then 'whole'
    else 'unknown'
  end`

const pageAfter = withBeginning(beginningAfter, visible(inOrder(selected, `position > greatest($6, ${front})`, "$4")))

const beginningSince = "case when $6 <= (select occurred_ms from mailroom.log_front where shard = $5) then 'cut' else 'whole' end"

// Up to an event nothing occurred later than its latest_ms, so nothing before the first place found occurred in time. The oldest
// event is looked at first: for a time before it, what is forgotten lies in between.
const pageSince = `
  with start as materialized (
    select min(position) as position
    from (${visible(
      (which) => `
        select coalesce(
          (select position from (${inOrder("position, occurred_ms", `position > ${front}`, "1")(which)}) oldest where occurred_ms >= $6),
          (
            select position from mailroom.event where ${which} and latest_ms >= $6 and occurred_ms >= $6
            order by latest_ms, position limit 1
          )
        ) as position`
    )}) found
  )
  ${withBeginning(beginningSince, visible(inOrder(selected, "position >= (select position from start)", "$4")))}`

const log = `select ${selected} from mailroom.event where shard = $1 and position > $2 order by position limit $3`

const behind = `
  select ${Rows.relay.selected()} from mailroom.relay relay
  where position < (select last.position from mailroom.event last where last.shard = relay.shard order by last.position desc limit 1)
  order by shard`
