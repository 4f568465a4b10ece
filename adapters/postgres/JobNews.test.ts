import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Fiber, Layer, Queue, type Redacted } from "effect"
import type { JobKind } from "../../core/ports/JobQueue.ts"
import * as Database from "./Database.ts"
import { JobNews, layer, layerLocal } from "./JobNews.ts"
import * as TestDatabase from "./TestDatabase.ts"
import * as TestPooler from "./TestPooler.ts"

const until = <E, R>(holds: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(Effect.tap(holds, () => Effect.sleep("5 millis")), { until: (is) => is })

const listeners = (database: Database.Database["Service"]) =>
  database.sql<{ pid: number }>`select pid from pg_stat_activity
    where datname = current_database() and (query = 'LISTEN "mailroom_jobs"' or query like 'select pg_notify%')`

/** Two processes on one database, as it were, that listen to each other. */
const two = Effect.gen(function* () {
  return yield* twoAt(yield* TestDatabase.url("empty"))
})

const twoAt = Effect.fnUntraced(function* (url: Redacted.Redacted<string>) {
  const one = Layer.build(Layer.fresh(layer.pipe(Layer.provideMerge(Database.layer({ url, connectionsMax: 1 })))))
  const [ours, theirs] = [yield* one, yield* one]
  const database = Context.get(ours, Database.Database)
  yield* until(Effect.map(listeners(database), (rows) => rows.length === 2))
  return { url, database, ours: Context.get(ours, JobNews), theirs: Context.get(theirs, JobNews) }
})

const isHeard = (news: Fiber.Fiber<unknown>) => Effect.sync(() => news.pollUnsafe() !== undefined)

const listening = (news: JobNews["Service"], kinds: ReadonlyArray<JobKind>) =>
  Effect.flatMap(news.listen(kinds), (heard) => Effect.forkChild(heard, { startImmediately: true }))

describe("news of jobs", () => {
  const local = <A, E>(title: string, check: Effect.Effect<A, E, JobNews>) => it.effect(title, () => Effect.provide(check, layerLocal))

  local(
    "are heard by who listens to one of their kinds, and by nobody else",
    Effect.gen(function* () {
      const news = yield* JobNews
      const submissions = yield* listening(news, ["submit"])
      const several = yield* listening(news, ["poll", "deliver"])
      const scans = yield* listening(news, ["scan"])

      yield* news.tell(["submit", "deliver"])
      yield* Fiber.join(submissions)
      yield* Fiber.join(several)
      assert.isFalse(yield* isHeard(scans))
    })
  )

  local(
    "are heard from when one begins to listen, not only while one waits",
    Effect.gen(function* () {
      const news = yield* JobNews
      yield* news.tell(["submit"])
      const heard = yield* news.listen(["submit"])
      const early = yield* Effect.forkChild(heard, { startImmediately: true })
      assert.isFalse(yield* isHeard(early))
      yield* Fiber.interrupt(early)

      yield* news.tell(["submit"])

      yield* heard
    })
  )
})

describe("news of jobs over a database", () => {
  it.live("reach another process, of their kinds and no other", () =>
    Effect.gen(function* () {
      const { ours, theirs } = yield* two
      const submissions = yield* listening(theirs, ["submit"])
      const others = yield* listening(theirs, ["poll", "scan", "deliver"])

      yield* ours.tell(["submit"])

      yield* Fiber.join(submissions)
      assert.isFalse(yield* isHeard(others))
    }).pipe(Effect.scoped)
  )

  for (const [where, url] of Object.entries({
    "the database": TestDatabase.url("empty"),
    "the database behind a pooler of sessions": TestPooler.url({ mode: "session", ignoresParameters: true })
  })) {
    it.live(`reach this process once, not again by way of ${where}`, () =>
      Effect.gen(function* () {
        const { ours, theirs } = yield* Effect.flatMap(url, twoAt)
        const there = yield* listening(theirs, ["submit"])
        yield* ours.tell(["submit"])
        const again = yield* listening(ours, ["submit"])

        yield* Fiber.join(there)
        const later = yield* listening(ours, ["scan"])
        yield* theirs.tell(["scan"])
        yield* Fiber.join(later)

        assert.isFalse(yield* isHeard(again))
      }).pipe(Effect.scoped)
    )
  }

  it.live("are few, however often one tells", () =>
    Effect.gen(function* () {
      const { url, ours, theirs } = yield* two
      const { sql } = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ url }))), Database.Database)
      const heard = yield* sql.listen("mailroom_jobs")
      const before = yield* Clock.currentTimeMillis

      yield* Effect.forEach(Array(300).keys(), () => Effect.delay(ours.tell(["submit"]), "1 millis"))
      const last = yield* listening(theirs, ["scan"])
      yield* ours.tell(["scan"])
      yield* Fiber.join(last)

      const sent = (yield* Queue.clear(heard)).length
      const span = (yield* Clock.currentTimeMillis) - before
      assert.isAtMost(sent, span / 10 + 2)
    }).pipe(Effect.scoped)
  )

  it.live("may have been missed when the connection is lost: all are told, and hear again", () =>
    Effect.gen(function* () {
      const { database, ours, theirs } = yield* two
      const anything = yield* listening(theirs, ["poll"])

      yield* database.sql`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()`

      yield* Fiber.join(anything)
      yield* until(Effect.map(listeners(database), (rows) => rows.length === 2))
      const submissions = yield* listening(theirs, ["submit"])
      yield* ours.tell(["submit"])
      yield* Fiber.join(submissions)
    }).pipe(Effect.scoped)
  )

  it.live("cost no connection of the pool", () =>
    Effect.gen(function* () {
      const { database, ours, theirs } = yield* two
      const go = yield* Deferred.make<void>()
      const busy = yield* Effect.forkChild(database.sql.withTransaction(Deferred.await(go)))
      yield* until(Effect.map(database.pool, (figures) => figures.busy === 1))

      const heard = yield* listening(theirs, ["deliver"])
      yield* ours.tell(["deliver"])
      yield* Fiber.join(heard)

      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(busy)
    }).pipe(Effect.scoped)
  )
})
