/**
 * A queue is empty most of the time, and then PostgreSQL counts its rows. A plan that is made by that count lives on in its
 * connection when a backlog comes: it must look for each job by its key all the same.
 */
import { assert, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import * as JobQueueSteps from "../../conformance/JobQueueSteps.ts"
import { JobQueue, type Lease } from "../../core/ports/JobQueue.ts"
import { Store } from "../../core/ports/Store.ts"
import * as Database from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

const backlog = 2_000

it.live("no statement walks along all jobs, though there were none when it was planned", () =>
  Effect.gen(function* () {
    const url = yield* TestDatabase.url()
    const context = yield* Layer.build(
      Layer.merge(PostgresStore.layer, PostgresJobQueue.layer).pipe(
        Layer.provide(JobNews.layerLocal),
        Layer.provideMerge(Database.layer({ url, connectionsMax: 1 }))
      )
    )
    const [store, queue, { sql }] = [Context.get(context, Store), Context.get(context, JobQueue), Context.get(context, Database.Database)]
    const jobs = Array.from({ length: backlog }, (_, index) => JobQueueSteps.job(0, { kind: "submit", group: `group-${index % 50}` }))
    yield* queue.offer(jobs)
    yield* sql`delete from mailroom.job`
    // Its pages stay, and are known to hold nothing: as after a night without mail.
    yield* sql`vacuum (analyze, truncate false) mailroom.job`
    yield* queue.offer(jobs)

    /** Entries of the indexes of jobs that were read so far. */
    const readSoFar = Effect.gen(function* () {
      yield* sql`select pg_stat_force_next_flush()`
      const [row] = yield* sql<{ read: string }>`select sum(idx_tup_read) as read from pg_stat_user_indexes where relname = 'job'`
      return Number(row!.read)
    })
    const readsFew = Effect.fnUntraced(function* <A, E>(what: string, work: Effect.Effect<A, E>) {
      const before = yield* readSoFar
      const done = yield* work
      assert.isBelow((yield* readSoFar) - before, backlog / 5, what)
      return done
    })
    const each = (leases: ReadonlyArray<Lease>, use: (lease: Lease) => Effect.Effect<unknown, unknown>) =>
      Effect.forEach(leases, use, { concurrency: "unbounded", discard: true })

    const claim = queue.claim({ kinds: ["submit"], limit: 40, visibilityTimeout: Duration.minutes(1), inFlightMax: 1_000 })
    const leases = yield* readsFew("claim", claim)
    assert.lengthOf(leases, 40)
    const [extended, released, completed, committed] = [leases.slice(0, 10), leases.slice(10, 20), leases.slice(20, 30), leases.slice(30)]
    yield* readsFew("extend", each(extended, (lease) => Effect.asVoid(queue.extend(lease, Duration.minutes(2)))))
    yield* readsFew("release", each(released, (lease) => queue.release(lease, Duration.zero)))
    yield* readsFew("complete", each(completed, queue.complete))
    yield* readsFew("offer", queue.offer(jobs.slice(0, 10)))
    const holdNext = { jobsMax: 1, visibilityTimeout: Duration.minutes(1) }
    yield* readsFew("commit", each(committed, (lease) => store.commit([], [lease.job], { ...lease, holdNext })))
  }).pipe(Effect.scoped)
)
