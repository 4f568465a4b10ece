/** For tests of what one process waits for, and what it holds meanwhile: processes as the database sees them, and somebody else. */
import { Context, Effect, Layer, type Redacted } from "effect"
import { Store } from "../../core/ports/Store.ts"
import * as Database from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

/** The database that they share. */
export class Url extends Context.Service<Url, Redacted.Redacted<string>>()("Url") {}

export const url = Layer.effect(Url, TestDatabase.url())

export const applicationName = "mailroom-under-test"

/** A process of its own, as the database sees it. */
export const newProcess = Effect.fnUntraced(function* (at?: Redacted.Redacted<string>) {
  const database = Database.layer({ url: at ?? (yield* Url), applicationName })
  const context = yield* Layer.build(Layer.provideMerge(PostgresStore.layer, Layer.provideMerge(JobNews.layerLocal, database)))
  const { sql } = Context.get(context, Database.Database)
  return { sql, store: Context.get(context, Store), news: Context.get(context, JobNews.JobNews) }
})

/** A transaction of somebody else, by hand. */
export const foreign = Effect.gen(function* () {
  const context = yield* Layer.build(Database.layer({ url: yield* Url, applicationName: "somebody else" }))
  const connection = yield* Context.get(context, Database.Database).sql.reserve
  const run = (text: string, parameters: ReadonlyArray<unknown> = []) => connection.executeValues(text, parameters)
  yield* run("begin")
  return { run, commit: run("commit"), rollback: run("rollback") }
})

export const until = <E, R>(holds: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(Effect.tap(holds, () => Effect.sleep("5 millis")), { until: (is) => is })

/** Until a backend of this process waits for a lock; its pid. */
export const blocked = Effect.fnUntraced(function* ({ sql }: Pick<Database.Database["Service"], "sql">) {
  const waiting = sql<{ pid: number }>`select pid from pg_stat_activity
    where application_name = ${applicationName} and datname = current_database() and wait_event_type = 'Lock'`
  yield* until(Effect.map(waiting, (rows) => rows.length > 0))
  return (yield* waiting)[0]!.pid
})
