import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Fiber, Formatter, Redacted, Result } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { inspect } from "node:util"
import { vi } from "vitest"
import { Database, isConnectionLost, layer as databaseLayer, onLiveClock, planning, StatementDeadline } from "./Database.ts"
import * as TestDatabase from "./TestDatabase.ts"

const until = <E, R>(holds: Effect.Effect<boolean, E, R>) =>
  onLiveClock(Effect.repeat(Effect.tap(holds, () => Effect.sleep("5 millis")), { until: (is) => is }))

const within = (duration: Duration.Input) => Effect.provideService(StatementDeadline, Duration.fromInputUnsafe(duration))

layer(TestDatabase.layer({ connectionsMax: 2 }))("a database", (it) => {
  it.effect("works whatever clock its caller has", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database

      const rows = yield* sql.withTransaction(sql<{ one: number }>`select 1 as one`)

      assert.deepStrictEqual(rows, [{ one: 1 }])
    })
  )

  it.effect("tells nothing of the contents of a row with its errors", () =>
    Effect.gen(function* () {
      const { rows } = yield* Database

      const error = yield* Effect.flip(rows("select $1::text::json", [`{"subject": "confidential}`]))

      assert.include(error.message + String(error.reason.cause), "json")
      assert.notInclude(inspect(error, { depth: null, showHidden: true }), "confidential")
      // A statement that a function puts together, of what is in a row.
      const inner = yield* Effect.flip(rows("do $$ begin execute 'selec ' || reverse('laitnedifnoc'); end $$"))
      assert.include(inner.message + String(inner.reason.cause), "syntax error")
      assert.notInclude(inspect(inner, { depth: null, showHidden: true }), "confidential")
    })
  )

  it.effect("counts its connections, and who has one, and who waits for one", () =>
    Effect.gen(function* () {
      const { sql, pool } = yield* Database
      const go = yield* Deferred.make<void>()
      const work = sql.withTransaction(Effect.andThen(sql`select 1`, Deferred.await(go)))

      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(work))
      yield* until(Effect.map(pool, ({ busy, waiting }) => busy === 2 && waiting === 1))
      assert.deepStrictEqual(yield* pool, { connections: 2, busy: 2, waiting: 1 })

      yield* Fiber.interrupt(fibers[2]!)
      assert.deepStrictEqual(yield* pool, { connections: 2, busy: 2, waiting: 0 })

      yield* Deferred.succeed(go, undefined)
      yield* Effect.forEach([fibers[0]!, fibers[1]!], Fiber.join)
      assert.deepStrictEqual(yield* pool, { connections: 2, busy: 0, waiting: 0 })
    })
  )

  it.effect("says how far its clock is off ours, whatever clock the caller has", () =>
    Effect.gen(function* () {
      const { clockOffset } = yield* Database

      assert.isBelow(Math.abs(yield* clockOffset), 1_000)
      const now = Date.now
      const late = vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000)
      const ahead = yield* Effect.ensuring(clockOffset, Effect.sync(() => late.mockRestore()))
      assert.isBelow(Math.abs(ahead - 3_600_000), 1_000)
    })
  )

  it.effect("ends a statement at its deadline, as if the connection were lost, and works on", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database

      const error = yield* Effect.flip(sql`select pg_sleep(60)`.pipe(within("50 millis")))

      assert.isTrue(isConnectionLost(error))
      assert.strictEqual(error.message, "the database did not answer within 50ms")
      yield* until(
        Effect.map(sql`select from pg_stat_activity where query like 'select pg_sleep(60)%' and state = 'active'`, (rows) => rows.length === 0)
      )
    })
  )

  it.effect("keeps nothing of a transaction with a late statement", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`create table late (id integer)`

      const exit = yield* Effect.exit(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`insert into late values (1)`
            yield* Effect.ignore(sql`select pg_sleep(60)`.pipe(within("50 millis")))
            const next = yield* Effect.flip(sql`insert into late values (2)`)
            assert.strictEqual(next.message, "the database did not answer within 50ms")
          })
        )
      )

      assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every(Cause.isFailReason))
      assert.deepStrictEqual(yield* sql`select id from late`, [])
    })
  )

  it.effect("ends a statement that is interrupted, and keeps nothing of its transaction", () =>
    Effect.gen(function* () {
      const { rows: outside, sql } = yield* Database
      yield* sql`create table interrupted (id integer)`
      const begun = Effect.map(outside("select from pg_stat_activity where query = 'select pg_sleep(61)' and state = 'active'"), (rows) => rows.length === 1)

      const exit = yield* Effect.exit(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`insert into interrupted values (1)`
            const left = yield* Effect.forkChild(sql`select pg_sleep(61)`)
            yield* until(begun)
            yield* Fiber.interrupt(left)
            yield* sql`insert into interrupted values (2)`
          })
        )
      )

      assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every(Cause.isFailReason))
      yield* until(Effect.map(begun, (is) => !is))
      assert.deepStrictEqual(yield* sql`select id from interrupted`, [])
    })
  )

  it.effect("ends the wait for a connection at its deadline", () =>
    Effect.gen(function* () {
      const { sql, pool } = yield* Database
      const go = yield* Deferred.make<void>()
      const fibers = yield* Effect.forEach([1, 2], () =>
        Effect.forkChild(sql.withTransaction(Effect.andThen(sql`select 1`, Deferred.await(go))))
      )
      yield* until(Effect.map(pool, ({ busy }) => busy === 2))

      const error = yield* Effect.flip(sql`select 1`.pipe(within("50 millis")))

      assert.isTrue(isConnectionLost(error))
      assert.strictEqual(error.message, "no connection to the database was free within 50ms")
      yield* Deferred.succeed(go, undefined)
      yield* Effect.forEach(fibers, Fiber.join)
    })
  )

  it.effect("fails without a word of what stands in the rows", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const insert = sql`insert into mailroom.plan (id, record) values ('canary-of-a-tenant', '{}')`
      yield* insert

      const error = yield* Effect.flip(insert)

      assert.strictEqual(error.reason._tag, "UniqueViolation")
      const told = [error.message, Cause.pretty(Cause.fail(error)), Formatter.format(error), JSON.stringify(error)].join("\n")
      assert.notInclude(told, "canary")
      assert.include(told, "plan_pkey")
    })
  )

  it.effect("fails a COMMIT that was a rollback", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database

      const error = yield* Effect.flip(sql.withTransaction(Effect.ignore(sql`select 1 / 0`)))

      assert.isFalse(isConnectionLost(error))
      assert.strictEqual(error.message, "the transaction was aborted, and rolled back by its COMMIT")
    })
  )

  it.effect("undoes an inner transaction that failed, and commits the outer one", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`create table nested (id integer)`

      yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`insert into nested values (1)`
          yield* Effect.ignore(sql.withTransaction(Effect.andThen(sql`insert into nested values (2)`, sql`select 1 / 0`)))
        })
      )

      assert.deepStrictEqual(yield* sql`select id from nested`, [{ id: 1 }])
    })
  )

  it.effect("goes on with no transaction that could not be undone to where its inner one began", () =>
    Effect.gen(function* () {
      const { rows, sql } = yield* Database
      yield* sql`create table undone (id integer)`
      const pids: Array<number> = []

      const error = yield* Effect.flip(
        sql.withTransaction(
          Effect.gen(function* () {
            pids.push(...(yield* sql<{ pid: number }>`select pg_backend_pid() as pid`).map(({ pid }) => pid))
            yield* Effect.ignore(sql.withTransaction(Effect.andThen(sql`rollback`, sql`select 1 / 0`)))
            yield* sql`insert into undone values (1)`
          })
        )
      )

      assert.include(String(error.reason.cause), "SAVEPOINT can only be used in transaction blocks")
      assert.deepStrictEqual(yield* sql`select id from undone`, [])
      yield* until(Effect.map(rows(`select from pg_stat_activity where pid = ${pids[0]}`), (found) => found.length === 0))
    })
  )

  it.effect("fails an inner transaction with a late statement, and the outer one, without a defect", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database

      const exit = yield* Effect.exit(sql.withTransaction(sql.withTransaction(sql`select pg_sleep(60)`.pipe(within("50 millis")))))

      assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every(Cause.isFailReason))
    })
  )

  it.effect("asks the same connection again while it is young", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const process = Effect.map(sql<{ pid: number }>`select pg_backend_pid() as pid`, ([row]) => row!.pid)
      assert.strictEqual(yield* process, yield* process)
    })
  )

  it.effect("lets no process hold locks for long that does nothing", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const rows = yield* sql`select current_setting('idle_in_transaction_session_timeout') as idle, current_setting('application_name') as name`
      assert.deepStrictEqual(rows, [{ idle: "15s", name: "mailroom" }])
    })
  )
})

layer(TestDatabase.layer({ connectionsMax: 1, connectionAgeMax: Duration.zero }))("a database whose connections are of age at once", (it) => {
  it.effect("has a new one for each statement and each transaction, and keeps none", () =>
    Effect.gen(function* () {
      const { pool, sql } = yield* Database
      const process = Effect.map(sql<{ pid: number }>`select pg_backend_pid() as pid`, ([row]) => row!.pid)

      const single = yield* Effect.all([process, process, process], { concurrency: "unbounded" })
      const together = yield* sql.withTransaction(Effect.all([process, process]))

      assert.strictEqual(new Set([...single, ...together]).size, 4)
      assert.strictEqual(together[0], together[1])
      yield* until(Effect.map(pool, ({ busy, connections, waiting }) => busy + connections + waiting === 0))
    })
  )
})

layer(TestDatabase.layer({ connectionsMax: 1, connectionAgeMax: Duration.millis(300) }))("a database whose connections are of age soon", (it) => {
  it.effect("keeps none beyond that which nobody needs", () =>
    Effect.gen(function* () {
      const { pool, sql } = yield* Database
      yield* sql`select 1`

      yield* until(Effect.map(pool, ({ connections }) => connections === 0))
    })
  )
})

layer(TestDatabase.layer({ prepare: false, applicationName: "behind a pooler" }))("a database behind a pooler", (it) => {
  it.effect("has no prepared statements and none of our settings", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* Effect.forEach([1, 2, 3], (n) => sql`select ${n}::integer`)

      const rows = yield* sql`select
        (select count(*)::integer from pg_prepared_statements) as prepared,
        current_setting('idle_in_transaction_session_timeout') as idle`

      assert.deepStrictEqual(rows, [{ prepared: 0, idle: "0" }])
    })
  )
})

describe("a role behind a pooler", () => {
  it("is to be given the settings that connections have elsewhere", () => {
    const page = readFileSync(join(import.meta.dirname, "../../docs/deploy.md"), "utf8")
    const told = [...page.matchAll(/^alter role mailroom set (\w+) = '?(\w[\w ]*)'?;$/gm)].map(([, name, value]) => [name, value] as const)

    assert.deepStrictEqual(Object.fromEntries(told), { idle_in_transaction_session_timeout: "15s", default_transaction_isolation: "read committed", ...planning })
    const ignored = /^ignore_startup_parameters = (.*)$/m.exec(page)?.[1]?.split(",")
    assert.deepStrictEqual(ignored, ["idle_in_transaction_session_timeout", "default_transaction_isolation", ...Object.keys(planning)])
  })
})

describe("a database's URL", () => {
  const tries = (url: string) =>
    Effect.result(Effect.provide(Effect.flatMap(Database, ({ sql }) => sql`select 1`), databaseLayer({ url: Redacted.make(url) })))

  for (const url of ["secret", "postgres://user:secret@host:99999/db", "http://user:secret@localhost/db", "postgres://user:secret@:port/db"]) {
    it.effect(`${url} is refused without being told`, () =>
      Effect.gen(function* () {
        const result = yield* tries(url)

        assert.isTrue(Result.isFailure(result))
        if (Result.isSuccess(result)) return
        assert.include(result.failure.message, "the URL of the database cannot be read")
        assert.notInclude(`${JSON.stringify(result.failure)}${Cause.pretty(Cause.fail(result.failure))}`, "secret")
      })
    )
  }

  for (const url of [
    "postgres://user@localhost:1/db",
    "postgres://user@[::1]:1/db",
    "postgres://user@localhost/db?host=127.0.0.1&port=1",
    "postgres://user@localhost/db?host=/nowhere"
  ]) {
    it.effect(`${url} is read, and nobody is there`, () =>
      Effect.gen(function* () {
        const result = yield* tries(url)

        assert.isTrue(Result.isFailure(result) && isConnectionLost(result.failure))
        assert.isTrue(Result.isFailure(result) && result.failure.message === "PgConnection: Failed to connect")
      })
    )
  }
})
