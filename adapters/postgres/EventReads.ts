/** The reads of the log: one tenant's pages, one shard's, and where the relay is behind. */
import type { EventReads, RelayReads } from "../../core/ports/Store.ts"
import * as Query from "./Query.ts"
import * as Rows from "./Rows.ts"

export const make = ({ list }: Query.Query): { readonly events: EventReads; readonly relay: RelayReads } => ({
  events: {
    page: (realm, applicationId, { start, limit }) => {
      const asked = [...Query.inRealm(realm), Query.id(applicationId), Query.count(limit)]
      return start?._tag === "Since"
        ? list(Rows.event, pageSince, [...asked, Query.millisFrom(start.at)])
        : list(Rows.event, pageAfter, [...asked, Query.bigint(start?.position ?? 0n)])
    },
    readLog: (shard, after, limit) => list(Rows.event, log, [Query.shard(shard), Query.bigint(after), Query.count(limit)])
  },
  relay: { behind: list(Rows.relay, behind) }
})

/** What an application sees of its environment, and of the tenant as a whole: two walks in the order of one index each. */
const visible = (columns: string, and: string, order: string, limit: string): string =>
  ["environment = $2", "environment = ''"]
    .map(
      (where) => `(
        select ${columns} from mailroom.event
        where tenant_id = $1 and ${where} and (audience is null or audience = $3) and ${and}
        order by ${order} limit ${limit}
      )`
    )
    .join(" union all ")

const selected = Rows.event.selected()

const pageAfter = `select * from (${visible(selected, "position > $5", "position", "$4")}) page order by position limit $4`

// Up to an event nothing occurred later than its latest_ms, so nothing before the first place found occurred in time.
const pageSince = `
  with start as materialized (
    select min(position) as position
    from (${visible("position", "latest_ms >= $5 and occurred_ms >= $5", "latest_ms, position", "1")}) found
  )
  select * from (${visible(selected, "position >= (select position from start)", "position", "$4")}) page
  order by position limit $4`

const log = `select ${selected} from mailroom.event where shard = $1 and position > $2 order by position limit $3`

const behind = `
  select ${Rows.relay.selected()} from mailroom.relay relay
  where position < (select last.position from mailroom.event last where last.shard = relay.shard order by last.position desc limit 1)
  order by shard`
