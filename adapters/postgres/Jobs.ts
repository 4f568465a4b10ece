/**
 * What is written of jobs outside of the queue's functions: offers, which the
 * queue's own `offer` runs as a statement and a commit as a part of its own; and
 * what a commit alone does, ending leases and taking the next jobs in their
 * places. An offer that runs twice changes nothing the second time.
 */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Effect, Result } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Environment, Millis, TenantId } from "../../core/model/Ids.ts"
import { leaseMax, type Job, type JobKind } from "../../core/ports/JobQueue.ts"
import type { Ending, Next } from "../../core/ports/Store.ts"
import { positionColumns } from "./EndpointPositions.ts"
import { column, ofArrays, ofRows, type Part, type Shape } from "./Parts.ts"
import { array, given, isId, toBigint, toBigintOrNull, toText, type Row } from "./Rows.ts"
import { outgoing, outgoingOf } from "./WebhookReads.ts"

/** That rows are of the same job. Not as two equations: a plan that was made while there were no jobs would read all (0024_jobs_by_key). */
const isSameJob = (job: string, other: string): string => `${job}.kind = any(array[${other}.kind]) and ${job}.subject = ${other}.subject`

/** The order in which every statement locks jobs, by the key that is looked for: by the one that is found, all would be read. */
const lockOrder = (other: string): string => `${other}.kind collate "C", ${other}.subject collate "C"`

type Run = (text: string, parameters: ReadonlyArray<unknown>) => Effect.Effect<unknown, SqlError>

/** Behind leases that are too long, which it ends. `now`, of the caller's clock: what is due by then is ready at once. */
export const offer = (run: Run, jobs: ReadonlyArray<Job>, now: Millis): Effect.Effect<void, SqlError> => {
  if (jobs.length === 0) return Effect.void
  const { shape, parameters } = offering(jobs, now)
  const runOut = run(runOutStatement, [
    array("text", jobs.map(({ kind }) => kind)),
    array("text", jobs.map(({ subject }) => toText(subject))),
    PgTypes.int8(toBigint(now)),
    PgTypes.int8(toBigint(now + leaseMax))
  ])
  return Effect.andThen(runOut, Effect.asVoid(run(shape.text(1, "true", "arrays"), parameters("arrays"))))
}

/** Leases that a clock has written which was far ahead. A commit's offers leave them alone: the sweep comes by. */
const runOutStatement = `
  update mailroom.job job set ready = true, at_ms = $3
  from (
    select held.kind, held.subject from unnest($1, $2) offered(kind, subject)
    join mailroom.job held on ${isSameJob("held", "offered")}
    where held.token is not null and held.at_ms > $4
    order by ${lockOrder("offered")} for update of held
  ) too_long
  where ${isSameJob("job", "too_long")}`

/** An offer, as a part of a statement; `isHeldLeft`: it leaves those alone whose leases the statement ends (`held_job`). */
const offering = (jobs: ReadonlyArray<Job>, now: Millis, isHeldLeft = false): Part =>
  (isHeldLeft ? otherJobs : offeredJobs)(inOrderOfKey(jobs).map((job) => ({ ...job, isReady: job.dueAt <= now })))

interface Offered extends Job {
  readonly isReady: boolean
}

const offered = [
  column<Offered>("kind", "text", ({ kind }) => kind),
  column<Offered>("subject", "text", ({ subject }) => toText(subject)),
  column<Offered>("tenant_id", "uuid", ({ realm }) => realm.tenantId),
  column<Offered>("environment", "text", ({ realm }) => realm.environment),
  column<Offered>("group_name", "text", ({ group }) => toText(group)),
  column<Offered>("due_ms", "bigint", ({ dueAt }) => toBigint(dueAt)),
  column<Offered>("ready", "boolean", ({ isReady }) => isReady)
]

const shapeOf = (name: string, isOffered: string): Shape => ({
  name,
  text: (first, behind, form) => `
  insert into mailroom.job as held (kind, subject, tenant_id, environment, group_name, due_ms, at_ms, ready, claims)
  select kind, subject, tenant_id, environment, group_name, due_ms, due_ms, ready, 0
  from ${given(offered, first, form, "offered")}
  where ${isOffered}${behind}
  on conflict (kind, subject) do update set
    beside_ms = case when held.token is not null then excluded.due_ms end,
    due_ms = case when held.token is null then excluded.due_ms else held.due_ms end,
    at_ms = case when held.token is null then excluded.due_ms else held.at_ms end,
    ready = held.ready or (held.token is null and excluded.ready)
  where excluded.due_ms < case when held.token is null then held.due_ms else coalesce(held.beside_ms, 9223372036854775807) end
  returning 1`
})

const shape = shapeOf("offered_job", "")
const offeredJobs = ofRows(shape, offered)
const otherJobs = ofRows(
  shapeOf("other_job", "not exists (select from held_job where held_job.kind = offered.kind and held_job.subject = offered.subject) and "),
  offered
)

/**
 * What a commit does to jobs, as parts of its statement: ends those under these leases, and offers these; and last, for it
 * waits for nobody, takes the next jobs in the places of those that ended, if that is told to whom it concerns.
 */
export const parts = (jobs: ReadonlyArray<Job>, endings: ReadonlyArray<Ending>, now: Millis, takesNext: boolean): ReadonlyArray<Part> => {
  const ended = new Set(endings.map(({ job }) => keyOf(job)))
  const again = jobs.filter((job) => ended.has(keyOf(job)))
  return [
    ...(endings.length === 0 ? [] : ending(endings, again, now)),
    ...(jobs.length === 0 ? [] : [offering(jobs, now, again.length > 0)]),
    ...(takesNext && endings.some(({ holdNext }) => holdNext !== undefined) ? takingNext(now, expiryOf(endings, now)) : [])
  ]
}

/** Those who wait for the next jobs hold them as long as each other. */
const expiryOf = (endings: ReadonlyArray<Ending>, now: Millis): Millis =>
  now + Math.max(...endings.map(({ holdNext }) => (holdNext === undefined ? 0 : Duration.toMillis(holdNext.visibilityTimeout))))

/**
 * As `complete_jobs` does it. What is offered of the same jobs is beside the leases: a statement writes a row once, so no
 * later part could offer it.
 */
const ending = (leases: ReadonlyArray<Ending>, again: ReadonlyArray<Job>, now: Millis): ReadonlyArray<Part> => {
  const dueAgain = new Map(inOrderOfKey(again).map((job) => [keyOf(job), job.dueAt]))
  return [
    heldJobs(
      leases.map((lease) => ({
        ...lease,
        nextMax: lease.holdNext?.jobsMax ?? 0,
        dueAgain: dueAgain.get(keyOf(lease.job)) ?? null
      }))
    ),
    ofArrays(endedShape, []),
    ofArrays(renewedShape, [PgTypes.int8(toBigint(now))])
  ]
}

interface Leased extends Ending {
  /** How many are wanted in its place. */
  readonly nextMax: number
  /** When the job is due that the commit offers beside it; null: it offers none. */
  readonly dueAgain: Millis | null
}

const leased = [
  column<Leased>("kind", "text", ({ job }) => job.kind),
  column<Leased>("subject", "text", ({ job }) => toText(job.subject)),
  column<Leased>("token", "uuid", ({ token }) => (isId(token) ? token : null)),
  column<Leased>("next_max", "integer", ({ nextMax }) => nextMax),
  column<Leased>("again_ms", "bigint", ({ dueAgain }) => toBigintOrNull(dueAgain))
]

const heldShape: Shape = {
  name: "held_job",
  text: (first, behind, form) =>
    `select job.kind, job.subject, least(job.beside_ms, lease.again_ms) as beside_ms, job.group_name, job.due_ms, job.at_ms, lease.next_max
     from ${given(leased, first, form, "lease")}
     join mailroom.job as job on ${isSameJob("job", "lease")} and job.token = lease.token
     where ${behind} order by ${lockOrder("lease")} for update of job`
}

const heldJobs = ofRows(heldShape, leased)

const endedShape: Shape = {
  name: "ended_job",
  text: () =>
    `delete from mailroom.job as job using held_job as held
     where ${isSameJob("job", "held")} and held.beside_ms is null returning 1`
}

/** What was offered beside the lease becomes the job. */
const renewedShape: Shape = {
  name: "renewed_job",
  text: (first) =>
    `update mailroom.job as job
     set due_ms = held.beside_ms, at_ms = held.beside_ms, ready = held.beside_ms <= $${first}, token = null, claims = 0, beside_ms = null
     from held_job as held
     where ${isSameJob("job", "held")} and held.beside_ms is not null returning job.kind`,
  isTold: true
}

const takingNext = (now: Millis, expiresAt: Millis): ReadonlyArray<Part> => [
  ofArrays(nextShape, [PgTypes.int8(toBigint(now))]),
  ofArrays(takenShape, [PgTypes.int8(toBigint(expiresAt))]),
  ofArrays(outgoingShape, [])
]

/**
 * As many of a group as are wanted for the leases of it that end and had not run out: these were counted, so its cap needs no
 * look. It looks no further back than the jobs that end: jobs are taken in the order of their time, so before these there
 * are mostly dead rows, and a job that is there all the same is found by a claim.
 */
const nextShape: Shape = {
  name: "next_job",
  text: (first, behind) =>
    `select next.kind, next.subject, next.tenant_id, next.environment, next.due_ms
     from (
       select kind, group_name, sum(next_max) as places, min(due_ms) as from_ms from held_job
       where next_max > 0 and at_ms > $${first} group by kind, group_name
     ) as freed
     cross join lateral (
       select job.* from mailroom.job as job
       where job.ready and job.claims = 0 and job.kind = freed.kind and job.group_name = freed.group_name
         and job.at_ms between freed.from_ms and $${first}
       order by job.at_ms limit freed.places for update skip locked
     ) as next
     where not exists (
       select from mailroom.job_throttle as throttle
       where throttle.kind = freed.kind and throttle.group_name = freed.group_name and throttle.until_ms > $${first}
     ) and ${behind}`
}

/** By their key: `ready` as it is would let a plan look for them among all that are ready. */
const takenShape: Shape = {
  name: "taken_job",
  text: (first) =>
    `update mailroom.job as job
     set ready = false, at_ms = $${first}, token = gen_random_uuid(), claims = job.claims + 1, beside_ms = null
     from next_job as next where ${isSameJob("job", "next")} and job.ready::int = 1
     returning job.kind, job.subject, job.tenant_id, job.environment, job.group_name, job.due_ms, job.token, job.claims, job.at_ms`,
  isTold: true
}

/**
 * What is asked of the deliveries among them, so that they need no look. The statement sees what there was when it began,
 * and takes a job as it is when it locks it: one that was offered anew in between has another time, and is looked at.
 */
const outgoingShape: Shape = {
  name: "taken_outgoing",
  text: () => {
    const keys: Readonly<Record<string, string>> = { $1: "next.subject::uuid", $2: "next.tenant_id", $3: "next.environment" }
    const found = outgoing.replaceAll(/\$\d/g, (parameter) => keys[parameter]!) // it has these three
    return `select next.subject, found.* from next_job as next cross join lateral (${found}) as found
      where next.kind = 'deliver' and found.next_attempt_ms = next.due_ms`
  },
  isTold: true
}

/** The kinds in which a job began anew when its lease ended, of the one row of the statement that `parts` belong to. */
export const renewedOf = (row: Row | undefined): ReadonlyArray<JobKind> => {
  const told = row?.["renewed_job"]
  return typeof told === "string" ? (JSON.parse(told) as ReadonlyArray<{ readonly kind: JobKind }>).map(({ kind }) => kind) : [] // as the statement has it
}

/** The leases that took others' places, of the same row. */
export const nextOf = (row: Row | undefined): ReadonlyArray<Next> => {
  if (typeof row?.["taken_job"] !== "string") return []
  const taken = JSON.parse(row["taken_job"]) as ReadonlyArray<Taken> // as the statement has it
  const told = row["taken_outgoing"]
  const found = typeof told === "string" ? (JSON.parse(told) as ReadonlyArray<Row>) : [] // as the statement has it
  const outgoings = new Map(found.map((one) => [one["subject"], one]))
  const outgoingTo = (subject: string) => {
    const one = outgoings.get(subject)
    if (one === undefined) return null
    const told = logColumns.map((name) => one[name]) as ReadonlyArray<number | null> // int8, which in JSON is a number
    if (told.some((position) => position !== null && !Number.isSafeInteger(position))) return null // it is read
    const read = Object.fromEntries(logColumns.map((name, index) => [name, told[index] === null ? null : BigInt(told[index]!)]))
    // All of this has landed. What cannot be read harms nobody but who works on it, and is told that when it is read.
    return Result.getOrNull(Result.try(() => outgoingOf({ ...one, ...read })))
  }
  return taken.map((job) => ({
    job: {
      kind: job.kind,
      subject: job.subject,
      realm: { tenantId: job.tenant_id, environment: job.environment },
      group: job.group_name,
      dueAt: job.due_ms
    },
    token: job.token,
    claims: job.claims,
    expiresAt: job.at_ms,
    outgoing: job.kind === "deliver" ? outgoingTo(job.subject) : null
  }))
}

/** The columns of `outgoing` that are positions in a log. */
const logColumns = [...positionColumns, "event_position"]

interface Taken {
  readonly kind: JobKind
  readonly subject: string
  readonly tenant_id: TenantId
  readonly environment: Environment
  readonly group_name: string
  readonly due_ms: Millis
  readonly token: string
  readonly claims: number
  readonly at_ms: Millis
}

const keyOf = ({ kind, subject }: Job): string => `${kind} ${subject}`

/** Each (kind, subject) once, for its earliest time; all transactions lock the rows in the same order. */
const inOrderOfKey = (jobs: ReadonlyArray<Job>): ReadonlyArray<Job> => {
  const rows = new Map<string, Job>()
  for (const job of jobs) {
    const key = keyOf(job)
    const known = rows.get(key)
    if (known === undefined || job.dueAt < known.dueAt) rows.set(key, job)
  }
  return [...rows].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, job]) => job)
}
