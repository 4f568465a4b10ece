/**
 * Offers of jobs, as one statement: what the queue's own `offer` runs, and the
 * store's commit within its transaction. Running it twice changes nothing the
 * second time.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Millis } from "../../core/model/Ids.ts"
import type { Job, Lease } from "../../core/ports/JobQueue.ts"
import type { Part, Shape } from "./Parts.ts"
import { array, isId, toBigint, toText, unnest } from "./Rows.ts"

type Run = (text: string, parameters: ReadonlyArray<unknown>) => Effect.Effect<unknown, SqlError>

/** `now`, of the caller's clock: what is due by then is ready at once. */
export const offer = (run: Run, jobs: ReadonlyArray<Job>, now: Millis): Effect.Effect<void, SqlError> => {
  if (jobs.length === 0) return Effect.void
  const { shape, parameters } = offering(jobs, now)
  return Effect.asVoid(run(shape.text(1, "true"), parameters))
}

/** The same as a part of a statement that writes more. */
export const offering = (jobs: ReadonlyArray<Job>, now: Millis): Part => {
  const rows = inOrderOfKey(jobs)
  return {
    shape,
    parameters: [
      array("text", rows.map(({ kind }) => kind)),
      array("text", rows.map(({ subject }) => toText(subject))),
      array("uuid", rows.map(({ realm }) => realm.tenantId)),
      array("text", rows.map(({ realm }) => realm.environment)),
      array("text", rows.map(({ group }) => toText(group))),
      array("bigint", rows.map(({ dueAt }) => toBigint(dueAt))),
      array("boolean", rows.map(({ dueAt }) => dueAt <= now))
    ]
  }
}

const offered = [
  { name: "kind", type: "text" },
  { name: "subject", type: "text" },
  { name: "tenant_id", type: "uuid" },
  { name: "environment", type: "text" },
  { name: "group_name", type: "text" },
  { name: "due_ms", type: "bigint" },
  { name: "ready", type: "boolean" }
] as const

const shape: Shape = {
  name: "offered_job",
  text: (first, behind) => `
  insert into mailroom.job as held (kind, subject, tenant_id, environment, group_name, due_ms, at_ms, ready, claims)
  select kind, subject, tenant_id, environment, group_name, due_ms, due_ms, ready, 0
  from ${unnest(offered, first, "offered")}
  where ${behind}
  on conflict (kind, subject) do update set
    beside_ms = case when held.token is not null then excluded.due_ms end,
    due_ms = case when held.token is null then excluded.due_ms else held.due_ms end,
    at_ms = case when held.token is null then excluded.due_ms else held.at_ms end,
    ready = held.ready or (held.token is null and excluded.ready)
  where excluded.due_ms < case when held.token is null then held.due_ms else coalesce(held.beside_ms, 9223372036854775807) end
  returning 1`
}

/** What a commit does to jobs, as parts of its statement: ends those under these leases, and offers these. */
export const parts = (jobs: ReadonlyArray<Job>, leases: ReadonlyArray<Lease>, now: Millis): ReadonlyArray<Part> => [
  ...(leases.length === 0 ? [] : ending(leases, now)),
  ...(jobs.length === 0 ? [] : [offering(jobs, now)])
]

/** As `complete_jobs` does it. */
const ending = (leases: ReadonlyArray<Lease>, now: Millis): ReadonlyArray<Part> => [
  {
    shape: heldShape,
    parameters: [
      array("text", leases.map(({ job }) => job.kind)),
      array("text", leases.map(({ job }) => toText(job.subject))),
      array("uuid", leases.map(({ token }) => (isId(token) ? token : null)))
    ]
  },
  { shape: endedShape, parameters: [] },
  { shape: renewedShape, parameters: [PgTypes.int8(toBigint(now))] }
]

const leased = [
  { name: "kind", type: "text" },
  { name: "subject", type: "text" },
  { name: "token", type: "uuid" }
] as const

const heldShape: Shape = {
  name: "held_job",
  text: (first, behind) =>
    `select job.kind, job.subject, job.beside_ms
     from ${unnest(leased, first, "lease")}
     join mailroom.job as job on job.kind = lease.kind and job.subject = lease.subject and job.token = lease.token
     where ${behind} order by job.kind, job.subject for update of job`
}

const endedShape: Shape = {
  name: "ended_job",
  text: () =>
    `delete from mailroom.job as job using held_job as held
     where job.kind = held.kind and job.subject = held.subject and held.beside_ms is null returning 1`
}

/** What was offered beside the lease becomes the job. */
const renewedShape: Shape = {
  name: "renewed_job",
  text: (first) =>
    `update mailroom.job as job
     set due_ms = held.beside_ms, at_ms = held.beside_ms, ready = held.beside_ms <= $${first}, token = null, claims = 0, beside_ms = null
     from held_job as held
     where job.kind = held.kind and job.subject = held.subject and held.beside_ms is not null returning 1`
}

/** Each (kind, subject) once, for its earliest time; all transactions lock the rows in the same order. */
const inOrderOfKey = (jobs: ReadonlyArray<Job>): ReadonlyArray<Job> => {
  const rows = new Map<string, Job>()
  for (const job of jobs) {
    const key = `${job.kind} ${job.subject}`
    const known = rows.get(key)
    if (known === undefined || job.dueAt < known.dueAt) rows.set(key, job)
  }
  return [...rows].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, job]) => job)
}
