/** The reads of the log: one tenant's pages, one shard's, and where the relay is behind. */
import { Effect } from "effect"
import type { LoggedEvent } from "../../core/model/Event.ts"
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
          : rows(pageAfter, [...asked, Query.bigint(start?.position ?? 0n)])
      return Effect.map(found, (all) => ({
        events: all.filter((row) => row["position"] !== null).map(Rows.event.decode).sort(byPosition),
        isWhole: start === null || all[0]?.["is_cut"] !== true
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
 * A page with whether the log was cut behind its start, in each row; of an empty one that alone, in a row. The rows come in their
 * order, of which a join promises nothing: to ask for it would have PostgreSQL sort them once more.
 */
const page = (isCut: string, found: string): string => `
  select log.is_cut, page.*
  from (select coalesce((select ${isCut} from mailroom.log_front where shard = $5), false) as is_cut) log
  left join (select * from (${found}) page order by position limit $4) page on true`

const byPosition = (one: LoggedEvent, other: LoggedEvent): number => (one.position < other.position ? -1 : 1)

const inOrder = (columns: string, from: string, limit: string) => (which: string): string =>
  `select ${columns} from mailroom.event where ${which} and ${from} order by position limit ${limit}`

const pageAfter = page("$6 < position", visible(inOrder(selected, `position > greatest($6, ${front})`, "$4")))

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
  ${page("$6 <= occurred_ms", visible(inOrder(selected, "position >= (select position from start)", "$4")))}`

const log = `select ${selected} from mailroom.event where shard = $1 and position > $2 order by position limit $3`

const behind = `
  select ${Rows.relay.selected()} from mailroom.relay relay
  where position < (select last.position from mailroom.event last where last.shard = relay.shard order by last.position desc limit 1)
  order by shard`
