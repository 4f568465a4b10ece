import type { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Exit, Fiber, Layer, Queue, Scope, type Redacted } from "effect"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { TestClock } from "effect/testing"
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
  const both = { ours: Context.get(ours, JobNews), theirs: Context.get(theirs, JobNews) }
  // Who has heard the other has also told its own that there may be anything, which comes a moment after it listens.
  for (const [teller, hearer] of [[both.ours, both.theirs], [both.theirs, both.ours]] as const) {
    const heard = yield* listening(hearer, ["parse"])
    yield* teller.tell(["parse"])
    yield* Fiber.join(heard)
  }
  return { url, database, ...both }
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

  local(
    "of places that became free are heard where somebody waits for one of that kind, and are told from those of jobs",
    Effect.gen(function* () {
      const news = yield* JobNews
      news.whoWaitsForPlaces((kind) => kind === "submit")
      const [submissions, polls] = [yield* listening(news, ["submit"]), yield* listening(news, ["poll"])]

      yield* news.tellOfPlaces(["submit", "poll"])
      assert.isTrue(yield* Fiber.join(submissions))
      assert.isFalse(yield* isHeard(polls))
      yield* news.tell(["poll"])
      assert.isFalse(yield* Fiber.join(polls))
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

/** A process whose connections are up to the test: what becomes of each, and of each NOTIFY, which reaches those who listen if it ends well. */
const wired = Effect.fnUntraced(function* (
  number: number,
  listeners: Map<number, Queue.Queue<PgConnection.Notification, SqlError>>,
  {
    connecting = Effect.void,
    sending = Effect.void,
    leaving = Effect.void
  }: { readonly connecting?: Effect.Effect<void, SqlError>; readonly sending?: Effect.Effect<void, SqlError>; readonly leaving?: Effect.Effect<void> } = {}
) {
  const query = (text: string, [channel, payload]: ReadonlyArray<string>) =>
    text.includes("pg_backend_pid")
      ? Effect.succeed({ rows: [{ own: number }] })
      : Effect.map(sending, () => {
          for (const heard of listeners.values()) Queue.offerUnsafe(heard, { processId: number, channel: channel!, payload: payload! })
          return { rows: [] }
        })
  const listen = () =>
    Effect.map(Effect.acquireRelease(Queue.unbounded<PgConnection.Notification, SqlError>(), () => leaving), (heard) => {
      listeners.set(number, heard)
      return heard
    })
  const connect = Effect.as(connecting, { pin: Effect.succeed({ query, listen }) })
  const database = { connect, live: <A>(self: A) => self, sql: { config: {} } } as unknown as Database.Database["Service"] // as much as is asked
  return Context.get(yield* Layer.build(Layer.provide(Layer.fresh(layer), Layer.succeed(Database.Database, database))), JobNews)
})

const away = new SqlError({ reason: new ConnectionError({ cause: new Error("away"), message: "away", operation: "query" }) })

describe("news of jobs over a connection", () => {
  it.effect("say what is new, each once, and nothing when there is none", () =>
    Effect.gen(function* () {
      const heard = yield* Queue.unbounded<PgConnection.Notification, SqlError>()
      const ours = yield* wired(1, new Map([[2, heard]]))

      for (const kinds of [["submit"], [], ["scan", "poll"], ["scan"]] as const) {
        yield* ours.tell(kinds)
        yield* TestClock.adjust("1 second")
      }

      assert.deepStrictEqual((yield* Queue.clear(heard)).map(({ payload }) => payload), ["submit", "scan poll", "scan"])
    }).pipe(Effect.scoped)
  )

  it.effect("are cut off without one, which is tried for five times a second", () =>
    Effect.gen(function* () {
      let tries = 0
      yield* wired(1, new Map(), { connecting: Effect.andThen(Effect.sync(() => void (tries += 1)), Effect.fail(away)) })

      yield* TestClock.adjust("1 second")

      assert.strictEqual(tries, 1 + 5)
    }).pipe(Effect.scoped)
  )

  it.effect("go over a new one each half hour, and all are told: behind the name may be another server by now", () =>
    Effect.gen(function* () {
      let opened = 0
      const ours = yield* wired(1, new Map(), { connecting: Effect.sync(() => void (opened += 1)) })
      yield* TestClock.adjust("29 minutes")
      const anything = yield* listening(ours, ["poll"])
      assert.deepStrictEqual([opened, yield* isHeard(anything)], [1, false])

      yield* TestClock.adjust("2 minutes")

      assert.deepStrictEqual([opened, yield* isHeard(anything)], [2, true])
    }).pipe(Effect.scoped)
  )
})

describe("a driver that breaks", () => {
  it.effect("is asked for another connection, as where it is lost", () =>
    Effect.gen(function* () {
      let opened = 0
      yield* wired(1, new Map(), { connecting: Effect.suspend(() => (++opened === 1 ? Effect.die(new Error("a bug")) : Effect.void)) })

      yield* TestClock.adjust("1 second")

      assert.strictEqual(opened, 2)
    })
  )
})

describe("a server that stands still, and answers to no UNLISTEN", () => {
  it.effect("holds up neither the next connection nor the end of the process", () =>
    Effect.gen(function* () {
      let opened = 0
      const scope = yield* Scope.make()
      yield* Scope.provide(wired(1, new Map(), { connecting: Effect.sync(() => void (opened += 1)), leaving: Effect.never }), scope)

      yield* TestClock.adjust("31 minutes")
      assert.strictEqual(opened, 2)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 second")

      assert.isDefined(closing.pollUnsafe())
    })
  )
})

describe("news of jobs that could not be sent", () => {
  type Listeners = Map<number, Queue.Queue<PgConnection.Notification, SqlError>>
  const firstly = <A, E>(first: Effect.Effect<A, E>) => {
    let isFirst = true
    return Effect.suspend(() => (isFirst ? ((isFirst = false), Effect.asVoid(first)) : Effect.void))
  }
  const troubles: Readonly<Record<string, (listeners: Listeners) => Parameters<typeof wired>[2]>> = {
    "the connection is lost as they are sent": () => ({ sending: firstly(Effect.fail(away)) }),
    "the connection is lost before their answer is there": (listeners) => ({
      sending: firstly(Effect.andThen(Effect.suspend(() => Queue.fail(listeners.get(1)!, away)), Effect.never))
    }),
    "nobody answers": () => ({ sending: firstly(Effect.never) }),
    "there is no connection yet": () => ({ connecting: firstly(Effect.fail(away)) })
  }
  for (const [what, trouble] of Object.entries(troubles)) {
    for (const more of [[], ["scan"]] as const) it.effect(`reach others whose connections are whole${more.length === 0 ? "" : ", with those that come meanwhile"}: ${what}`, () =>
      Effect.gen(function* () {
        const listeners: Listeners = new Map()
        const [ours, theirs] = [yield* wired(1, listeners, trouble(listeners)), yield* wired(2, listeners)]
        yield* TestClock.adjust("1 millis")
        const [submissions, scans, others] = [yield* listening(theirs, ["submit"]), yield* listening(theirs, ["scan"]), yield* listening(theirs, ["poll", "deliver", "parse"])]

        yield* ours.tell(["submit"])
        yield* TestClock.adjust("1 millis")
        yield* ours.tell(more)
        yield* TestClock.adjust("11 seconds")

        assert.deepStrictEqual(yield* Effect.forEach([submissions, scans, others], isHeard), [true, more.length > 0, false])
      }).pipe(Effect.scoped)
    )
  }
})
