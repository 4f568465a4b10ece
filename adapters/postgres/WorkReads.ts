/** What is due, and what waits: asked often, answered from the ends of indexes. */
import { Clock, Effect } from "effect"
import type { Environment, TenantId } from "../../core/model/Ids.ts"
import { jobKinds, leaseMax, type Job, type JobKind } from "../../core/ports/JobQueue.ts"
import type { Store } from "../../core/ports/Store.ts"
import * as Query from "./Query.ts"
import * as Rows from "./Rows.ts"
import type { Row } from "./Rows.ts"

/** Where the jobs are in the same database, what is due and has its job there is passed over. */
export const make = ({ rows }: Query.Query, { jobsOffered }: { readonly jobsOffered: boolean }): Pick<typeof Store.Service, "due" | "backlog"> => ({
  due: (kind, { dueBefore, after, limit }) =>
    Effect.map(
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        rows(jobsOffered ? unheldOf[kind] : dueOf[kind], [
          Query.millis(dueBefore),
          ...placeOf(after),
          Query.count(limit + 1),
          ...(jobsOffered ? [Query.millis(now + leaseMax)] : [])
        ])
      ),
      (found) => {
        const page = found.slice(0, limit).map((row) => ({ job: jobOf(kind, row), isHeld: row["is_held"] === true }))
        const last = page.at(-1)?.job
        return {
          jobs: page.flatMap(({ job, isHeld }) => (isHeld ? [] : [job])),
          next: found.length > limit && last !== undefined ? textOf(last) : null
        }
      }
    ),
  backlog: Effect.map(rows(backlog), ([row]) => ({
    earliestDue: {
      submit: Rows.toMillisOrNull(row!["submit"]),
      poll: Rows.toMillisOrNull(row!["poll"]),
      scan: Rows.toMillisOrNull(row!["scan"]),
      deliver: Rows.toMillisOrNull(row!["deliver"]),
      parse: Rows.toMillisOrNull(row!["parse"])
    },
    unrelayed: Number(row!["unrelayed"]),
    oldestUnrelayedAt: Rows.toMillisOrNull(row!["oldest"])
  }))
})

/** Where the state says when work of a kind is due. */
const places: Readonly<Record<JobKind, { readonly table: string; readonly column: string; readonly group: string }>> = {
  submit: { table: "mailroom.message", column: "next_attempt_ms", group: "tenant_id" },
  poll: { table: "mailroom.message", column: "poll_ms", group: "tenant_id" },
  scan: { table: "mailroom.attachment", column: "next_scan_ms", group: "tenant_id" },
  deliver: { table: "mailroom.delivery", column: "next_attempt_ms", group: "endpoint_id" },
  parse: { table: "mailroom.message", column: "parse_ms", group: "tenant_id" }
}

const dueFrom = (kind: JobKind): string => {
  const { table, column, group } = places[kind]
  return `
    select id, tenant_id, environment, ${group} as "group", ${column} as due_ms from ${table}
    where ${column} <= $1 and (${column}, id) > ($2, $3)
    order by ${column}, id limit $4`
}

/** The same, and whether its job is there: one that comes later, or is leased for longer than may be, does not count. */
const unheldFrom = (kind: JobKind): string => `
  select due.*, exists (
    select from mailroom.job as job where job.kind = '${kind}' and job.subject = due.id::text and job.due_ms <= due.due_ms
      and job.at_ms <= $5
  ) as is_held
  from (${dueFrom(kind)}) as due order by due.due_ms, due.id`

const textsOf = (from: (kind: JobKind) => string): Readonly<Record<JobKind, string>> => ({
  submit: from("submit"),
  poll: from("poll"),
  scan: from("scan"),
  deliver: from("deliver"),
  parse: from("parse")
})

const dueOf = textsOf(dueFrom)
const unheldOf = textsOf(unheldFrom)

/** The columns are UUIDs, a text and an int8. */
const jobOf = (kind: JobKind, row: Row): Job => ({
  kind,
  subject: row["id"] as string,
  realm: { tenantId: row["tenant_id"] as TenantId, environment: row["environment"] as Environment },
  group: row["group"] as string,
  dueAt: Rows.toMillis(row["due_ms"])
})

/** The place behind a job, as the caller keeps it. */
const textOf = ({ dueAt, subject }: Job): string => `${dueAt} ${subject}`

const placeOf = (after: string | null) => {
  if (after === null) return [Query.bigintMin, Query.idAfter(null)]
  const space = after.indexOf(" ")
  return [Query.millis(Number(after.slice(0, space))), Query.id(after.slice(space + 1))]
}

const earliest = (kind: JobKind): string => {
  const { table, column } = places[kind]
  return `(select ${column} from ${table} where ${column} is not null order by ${column} limit 1) as ${kind}`
}

// Positions rise by one, so what a shard has unread is counted by its ends.
const backlog = `
  select ${jobKinds.map(earliest).join(", ")}, news.unrelayed, news.oldest
  from (
    select coalesce(sum(head.position - next.position + 1), 0)::bigint as unrelayed, min(next.occurred_ms) as oldest
    from mailroom.log_head head
    join mailroom.relay relay on relay.shard = head.shard
    cross join lateral (
      select event.position, event.occurred_ms from mailroom.event event
      where event.shard = head.shard and event.position > relay.position
      order by event.position limit 1
    ) next
  ) news`
