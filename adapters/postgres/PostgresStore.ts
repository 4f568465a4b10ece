/**
 * The Store on PostgreSQL, or on PGlite: reads that never wait for a writer,
 * and one write, which concurrent callers share.
 */
import { Effect, Layer, type Scope } from "effect"
import { jobKinds } from "../../core/ports/JobQueue.ts"
import { Store } from "../../core/ports/Store.ts"
import * as CommitBatch from "./CommitBatch.ts"
import { Database } from "./Database.ts"
import * as GroupCommit from "./GroupCommit.ts"
import { JobNews } from "./JobNews.ts"
import * as Reads from "./Reads.ts"

/** Two: while one waits for the server, the other's statement is made. */
const committers = 2

/** Its jobs are written with the changes: for the queue of the same database. */
export const layer: Layer.Layer<Store, never, Database | JobNews> = Layer.effect(
  Store,
  Effect.flatMap(JobNews, (news) => make(true, news))
)

/** Its jobs are offered by the caller, to another queue. */
export const layerWithoutJobs: Layer.Layer<Store, never, Database> = Layer.effect(Store, make(false, null))

function make(
  jobsOffered: boolean,
  news: JobNews["Service"] | null
): Effect.Effect<typeof Store.Service, never, Database | Scope.Scope> {
  return Effect.gen(function* () {
    const database = yield* Database
    const commit = CommitBatch.make(database, { jobsOffered, ...(news !== null && { tellRenewed: news.tell }) })
    const tell = (calls: ReadonlyArray<CommitBatch.Call>) =>
      news === null
        ? Effect.void
        : news.tell(jobKinds.filter((kind) => calls.some(({ jobs }) => jobs.some((job) => job.kind === kind))))
    const gathered = yield* GroupCommit.make({
      commit: (calls) => Effect.tap(commit(calls), () => tell(calls)),
      committers,
      onLiveClock: database.live
    })
    return Store.of({
      ...Reads.make(database, { jobsOffered }),
      commit: (changes, jobs, lease) =>
        lease === undefined || news === null
          ? gathered(changes, jobs)
          : Effect.tap(gathered(changes, jobs, lease), ({ next }) => (next.length === 0 ? news.tellOfPlaces([lease.job.kind]) : Effect.void))
    })
  })
}
