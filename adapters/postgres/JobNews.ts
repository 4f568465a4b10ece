/**
 * News that there is work: within the process at once, to the others by
 * NOTIFY over one connection beside the pool, a few at a time. News may get
 * lost with a connection, so it only shortens a wait: who was cut off sends
 * again what may not have arrived, and is told that there may be anything.
 */
import type { PgConnection } from "@effect/sql-pg"
import { Cause, Context, Effect, Fiber, Latch, Layer, Queue, Scope } from "effect"
import { jobKinds, type JobKind } from "../../core/ports/JobQueue.ts"
import * as SeldomLog from "../../core/SeldomLog.ts"
import * as Connections from "./Connections.ts"
import { Database } from "./Database.ts"

export class JobNews extends Context.Service<
  JobNews,
  {
    /** Tells everybody: this process at once, the others within some milliseconds. Never fails, never waits. */
    readonly tell: (kinds: ReadonlyArray<JobKind>) => Effect.Effect<void>
    /** Tells this process alone of jobs that have ended, and so of places below caps, if anybody in it waits for one. */
    readonly tellOfPlaces: (kinds: ReadonlyArray<JobKind>) => Effect.Effect<void>
    /** Sets who does. */
    readonly whoWaitsForPlaces: (waits: (kind: JobKind) => boolean) => void
    /** Registers now; the inner effect ends at the next news of one of these kinds since. True: it was of a place. */
    readonly listen: (kinds: ReadonlyArray<JobKind>) => Effect.Effect<Effect.Effect<boolean>>
  }
>()("mailroom/adapters/postgres/JobNews") {}

export const channel = "mailroom_jobs"

/** Between two NOTIFYs of a process, in milliseconds: they take a lock that all of the database's processes share. */
const pause = 25

/** As `Effect.scoped`, but the end of the scope, at which the server is told that nobody listens any more, is waited for no longer than goodbyes are. */
const scopedForAMoment = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Scope.Scope>> =>
  Effect.acquireUseRelease(
    Scope.make(),
    (scope) => Scope.provide(self, scope),
    (scope, exit) => Effect.flatMap(Effect.forkDetach(Scope.close(scope, exit)), (closing) => Effect.timeoutOption(Fiber.await(closing), Connections.goodbyeMax))
  )

/** One process: nobody else to tell. */
export const layerLocal: Layer.Layer<JobNews> = Layer.sync(JobNews, () => makeBoard().news)

/** All processes on the database. Where a pooler lends connections (`prepare: false`) there is no listening: as `layerLocal`. */
export const layer: Layer.Layer<JobNews, never, Database> = Layer.effect(
  JobNews,
  Effect.gen(function* () {
    const { connect, live, sql } = yield* Database
    const { news, post } = makeBoard()
    if (sql.config.prepare === false) return news

    const seldom = SeldomLog.make()
    const untold = new Set<JobKind>()
    const hasUntold = yield* Latch.make(false)
    const send = (connection: PgConnection.PgConnection) =>
      Effect.gen(function* () {
        yield* hasUntold.await
        yield* hasUntold.close
        yield* Effect.uninterruptibleMask((restore) =>
          Effect.suspend(() => {
            const kinds = [...untold]
            untold.clear()
            const sent = Effect.timeout(connection.query("select pg_notify($1, $2)", [channel, kinds.join(" ")]), "10 seconds")
            // Whose connection is whole knows nothing of this one, and may not have heard.
            return Effect.onError(restore(sent), () => Effect.sync(() => kinds.forEach((kind) => untold.add(kind))))
          })
        )
        yield* Effect.sleep(pause)
      })
    const receive = (heard: Queue.Dequeue<PgConnection.Notification, unknown>, own: number) =>
      Effect.map(Queue.take(heard), ({ payload, processId }) => {
        if (processId !== own) post(jobKinds.filter((kind) => payload.split(" ").includes(kind)))
      })
    const session = Effect.scoped(
      Effect.gen(function* () {
        const connection = yield* Effect.flatMap(connect, ({ pin }) => pin)
        // What a pooler says of itself when it connects is no process of the server's.
        const { rows } = yield* connection.query("select pg_backend_pid() as own", [])
        const own = Number(rows[0]?.["own"])
        const listening = Effect.gen(function* () {
          const heard = yield* connection.listen(channel)
          post(jobKinds)
          if (untold.size > 0) yield* hasUntold.open
          const both = Effect.raceFirst(Effect.forever(send(connection)), Effect.forever(receive(heard, own)))
          yield* Effect.timeoutOption(both, Connections.ageMax) // the others tell of jobs where they are by now
        })
        yield* scopedForAMoment(listening)
      })
    )
    yield* session.pipe(
      Effect.catchCause((cause) =>
        Cause.hasFails(cause)
          ? Effect.logDebug("news of jobs is cut off from other processes", cause)
          : seldom(Effect.logError("the news of jobs broke; another connection is made", cause))
      ),
      Effect.andThen(Effect.sleep("200 millis")),
      Effect.forever,
      live,
      Effect.forkScoped
    )
    return {
      ...news,
      tell: (kinds) =>
        Effect.suspend(() => {
          for (const kind of kinds) untold.add(kind)
          return Effect.andThen(news.tell(kinds), kinds.length === 0 ? Effect.void : hasUntold.open)
        })
    }
  })
)

/** Who listens in this process. */
const makeBoard = () => {
  const counts: Record<JobKind, number> = { submit: 0, poll: 0, scan: 0, deliver: 0, parse: 0 }
  const places: Record<JobKind, number> = { ...counts }
  const looks = new Set<() => void>()
  const post = (kinds: ReadonlyArray<JobKind>, to = counts) => {
    for (const kind of kinds) to[kind]++
    for (const look of looks) look()
  }
  let waits = (_: JobKind) => false
  const news: JobNews["Service"] = {
    tell: (kinds) => Effect.sync(() => post(kinds)),
    tellOfPlaces: (kinds) => Effect.sync(() => post(kinds.filter(waits), places)),
    whoWaitsForPlaces: (given) => {
      waits = given
    },
    listen: (kinds) =>
      Effect.sync(() => {
        const sum = (of: Record<JobKind, number>) => kinds.reduce((total, kind) => total + of[kind], 0)
        const before = [sum(counts), sum(places)] as const
        return Effect.callback<boolean>((resume) => {
          const look = () => {
            const isOfPlace = sum(places) !== before[1]
            if (!isOfPlace && sum(counts) === before[0]) return
            looks.delete(look)
            resume(Effect.succeed(isOfPlace))
          }
          looks.add(look)
          look()
          return Effect.sync(() => looks.delete(look))
        })
      })
  }
  return { news, post }
}
