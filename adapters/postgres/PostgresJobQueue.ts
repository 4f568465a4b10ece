/**
 * The job queue in the tables of `0002_jobs`. Completions, extensions and
 * releases of concurrent callers share statements; a lease is fenced by the
 * token that stands in its job's row.
 */
import { PgTypes } from "@effect/sql-pg"
import { Clock, Duration, Effect, Layer } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Millis } from "../../core/model/Ids.ts"
import {
  JobQueue,
  LeaseLost,
  QueueUnavailable,
  jobKinds,
  throttleLifetime,
  type JobKind,
  type Lease
} from "../../core/ports/JobQueue.ts"
import * as Batches from "./Batches.ts"
import { Database } from "./Database.ts"
import * as JobClaims from "./JobClaims.ts"
import { JobNews } from "./JobNews.ts"
import * as Jobs from "./Jobs.ts"
import { array, toBigint, toText, type Row } from "./Rows.ts"

export const layer: Layer.Layer<JobQueue, never, Database | JobNews> = Layer.effect(
  JobQueue,
  Effect.gen(function* () {
    const database = yield* Database
    const news = yield* JobNews
    const rows: JobClaims.Rows = (text, parameters = []) => Effect.mapError(database.rows<Row>(text, parameters), unavailable)
    const tell = (isOf: (kind: JobKind) => boolean) => news.tell(jobKinds.filter(isOf))
    const { claim, awaitWork } = JobClaims.make(rows, news)

    // Who waits for a place below a cap is told of those that become free; all are told of a job that begins anew.
    const complete = yield* forLeases(rows, completeStatement, [nows], (answers) =>
      Effect.andThen(
        tell((kind) => answers.some((one) => one.kind === kind && one.isAgain)),
        news.tellOfPlaces(jobKinds.filter((kind) => answers.some((one) => one.kind === kind)))
      )
    )
    const extend = yield* forLeases(rows, extendStatement, [untils], () => Effect.void)
    const release = yield* forLeases(rows, releaseStatement, [untils, nows], (answers) =>
      tell((kind) => answers.some((one) => one.kind === kind))
    )

    return JobQueue.of({
      offer: Effect.fnUntraced(function* (jobs) {
        yield* Effect.mapError(Jobs.offer(database.rows, jobs, yield* Clock.currentTimeMillis), unavailable)
        yield* tell((kind) => jobs.some((job) => job.kind === kind))
      }),
      claim,
      complete: (lease) => complete(lease, null),
      extend: Effect.fnUntraced(function* (lease, visibilityTimeout) {
        const expiresAt = (yield* Clock.currentTimeMillis) + Duration.toMillis(visibilityTimeout)
        yield* extend(lease, expiresAt)
        return { ...lease, expiresAt }
      }),
      release: Effect.fnUntraced(function* (lease, delay) {
        const now = yield* Clock.currentTimeMillis
        yield* release(lease, Duration.isZero(delay) ? null : now + Duration.toMillis(delay))
      }),
      throttle: Effect.fnUntraced(function* (kind, group, inFlightMax) {
        const now = yield* Clock.currentTimeMillis
        yield* rows(throttleStatement, [
          PgTypes.text(kind),
          PgTypes.text(toText(group)),
          PgTypes.int4(inFlightMax ?? 1),
          PgTypes.int8(toBigint(inFlightMax === null ? now : now + throttleLifetime)),
          PgTypes.int8(toBigint(now))
        ])
        yield* news.tell([kind])
      }),
      epoch: Effect.gen(function* () {
        const known = yield* rows(epochStatement)
        const [row] = known.length > 0 ? known : yield* Effect.andThen(rows(beginEpochStatement), rows(epochStatement))
        return `postgres-${String(row!["id"])}` // there is one by now
      }),
      awaitWork
    })
  })
)

const unavailable = (cause: SqlError) => new QueueUnavailable({ cause })

interface Call {
  readonly lease: Lease
  readonly now: Millis
  /** Until when it is held, or not due; null: due as it was. */
  readonly until: Millis | null
}

interface Answer {
  readonly kind: JobKind
  /** What was offered beside the lease has become the job. */
  readonly isAgain: boolean
}

type Column = (calls: ReadonlyArray<Call>) => PgTypes.Parameter

const nows: Column = (calls) => array("bigint", calls.map(({ now }) => toBigint(now)))
const untils: Column = (calls) => array("bigint", calls.map(({ until }) => (until === null ? null : toBigint(until))))

/** One operation on leases, in batches; of those that were not lost, `ended` is told the answers. */
const forLeases = (
  rows: JobClaims.Rows,
  statement: string,
  columns: ReadonlyArray<Column>,
  ended: (answers: ReadonlyArray<Answer>) => Effect.Effect<void>
) => {
  const run = Effect.fnUntraced(function* (calls: ReadonlyArray<Call>) {
    const answers = yield* rows(statement, [
      array("text", calls.map(({ lease }) => lease.job.kind)),
      array("text", calls.map(({ lease }) => toText(lease.job.subject))),
      array("text", calls.map(({ lease }) => lease.token)),
      ...columns.map((column) => column(calls))
    ])
    const kept = new Map(answers.map((row) => [Number(row["place"]) - 1, row["is_again"] === true])) // counted from 1
    yield* ended([...kept].map(([index, isAgain]) => ({ kind: calls[index]!.lease.job.kind, isAgain })))
    return calls.map((_, index) => kept.has(index))
  })
  return Effect.map(
    Batches.make({ keyOf: ({ lease }: Call) => lease.token, run }),
    (call) => (lease: Lease, until: Millis | null) =>
      Clock.currentTimeMillis.pipe(
        Effect.flatMap((now) => call({ lease, now, until })),
        Effect.filterOrFail((isKept) => isKept, () => new LeaseLost({ token: lease.token })),
        Effect.asVoid
      )
  )
}

const completeStatement = "select place, is_again from mailroom.complete_jobs($1, $2, $3, $4)"
const extendStatement = "select place from mailroom.extend_jobs($1, $2, $3, $4)"
const releaseStatement = "select place from mailroom.release_jobs($1, $2, $3, $4, $5)"
/** Writes over what was; some that have lapsed go by the way. */
const throttleStatement = `
  with lapsed as (
    delete from mailroom.job_throttle where (kind, group_name) in (
      select kind, group_name from mailroom.job_throttle where until_ms <= $5 and (kind, group_name) <> ($1, $2)
      order by until_ms limit 10 for update skip locked
    )
  )
  insert into mailroom.job_throttle (kind, group_name, in_flight_max, until_ms) values ($1, $2, $3, $4)
  on conflict (kind, group_name) do update set in_flight_max = excluded.in_flight_max, until_ms = excluded.until_ms`
const epochStatement = "select id from mailroom.job_epoch"
const beginEpochStatement = "insert into mailroom.job_epoch (is_row) values (true) on conflict do nothing"
