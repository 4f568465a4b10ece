/**
 * The client of a pool, as `PgClient.make` has it, and beyond that: each
 * statement and each wait for a connection has a deadline, on the live clock;
 * a connection that missed one is not used again; and a transaction whose
 * connection is lost fails, where the driver's dies of its failing ROLLBACK.
 */
import { PgClient, type PgConnection, type PgPool } from "@effect/sql-pg"
import { Clock, Context, Duration, Effect } from "effect"
import type { Reactivity } from "effect/reactivity"
import { SqlClient, Statement, type SqlConnection } from "effect/sql"
import { ConnectionError, SqlError, UnknownError } from "effect/sql/SqlError"

/** For how long a statement may run. Work that is known to be long, as a migration, provides its own. */
export const StatementDeadline = Context.Reference<Duration.Duration>("mailroom/adapters/postgres/StatementDeadline", {
  defaultValue: () => Duration.seconds(10)
})

/** True when the connection is gone, or was never there: what the statement did is unknown. */
export const isConnectionLost = (error: SqlError): boolean => {
  if (error.reason._tag === "ConnectionError" || error.reason._tag === "AuthenticationError") return true
  // The server's own words on its way out: shutdown (57P01 to 57P05), and no room for us (53300).
  const { cause } = error.reason
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined
  return typeof code === "string" && (code.startsWith("57P") || code === "53300")
}

/** Runs something on the live clock, whatever clock its caller has. */
export const onLiveClock = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(self, Clock.Clock, liveClock)

const liveClock = Clock.Clock.defaultValue()

export const lost = (message: string): SqlError =>
  new SqlError({ reason: new ConnectionError({ cause: new Error(message), message, operation: "query" }) })

export interface Counts {
  /** Statements and transactions that have a connection. */
  busy: number
  /** Those that wait for one. */
  waiting: number
}

export const make = Effect.fnUntraced(function* (
  config: PgPool.Config,
  pool: PgPool.PgPool,
  counts: Counts
): Effect.fn.Return<PgClient.PgClient, never, Reactivity.Reactivity> {
  const leased = (get: PgPool.PgPool["get"]): SqlConnection.Acquirer =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        counts.waiting++
        const connection = yield* restore(bounded("no connection to the database was free", get)).pipe(
          Effect.ensuring(Effect.sync(() => void counts.waiting--))
        )
        counts.busy++
        yield* Effect.addFinalizer(() => Effect.sync(() => void counts.busy--))
        return leaseOf(connection, pool.invalidate(connection))
      })
    )
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: leased(pool.get),
    transactionAcquirer: leased(pool.reserve),
    prepareTransactionControls: true,
    commit,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    compiler: PgClient.makeCompiler(),
    spanAttributes: [["db.system.name", "postgresql"]]
  })
  return Object.assign(client, {
    [PgClient.TypeId]: PgClient.TypeId,
    config,
    json: (value: unknown) => Statement.fragment([Statement.custom<PgClient.PgCustom>("PgJson")(value)]),
    listen: (channel: string) => onLiveClock(Effect.flatMap(pool.reserve, (connection) => connection.listen(channel))),
    notify: (channel: string, payload: string) => Effect.asVoid(client`select pg_notify(${channel}, ${payload})`)
  })
})

/** Whether the server did it after all is unknown, as when the connection is lost. */
const bounded = <A, R>(what: string, effect: Effect.Effect<A, SqlError, R>): Effect.Effect<A, SqlError, R> =>
  Effect.flatMap(StatementDeadline, (duration) =>
    onLiveClock(
      Effect.timeoutOrElse(effect, {
        duration,
        orElse: () => Effect.fail(lost(`${what} within ${Duration.format(duration)}`))
      })
    )
  )

/** An error as it may be logged: in these fields the server quotes rows, which are the tenants'. */
const withoutContents = (error: SqlError): SqlError => {
  const { cause } = error.reason
  if (cause instanceof Error) for (const field of ["detail", "where", "internalQuery"]) Reflect.deleteProperty(cause, field)
  return error
}

type RowTransform = (<A extends object>(rows: ReadonlyArray<A>) => ReadonlyArray<A>) | undefined

/** The driver's connection while it is lent, as `effect/sql` sees it. */
const leaseOf = (connection: PgConnection.PgConnection, invalidate: Effect.Effect<void>): SqlConnection.Connection => {
  let end: SqlError | null = null
  const ended = (error: SqlError) =>
    Effect.suspend(() => {
      end = error
      return Effect.andThen(invalidate, Effect.fail(error))
    })
  const once = <A>(statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => {
      if (end !== null) return Effect.fail(end)
      const answered = Effect.mapError(bounded("the database did not answer", statement), withoutContents)
      return Effect.catchIf(answered, isConnectionLost, ended)
    })
  const query = (sql: string, params: ReadonlyArray<unknown>, transform: RowTransform, prepare?: boolean) => {
    const rows = Effect.map(connection.query(sql, params, prepare), (result) => (transform === undefined ? result.rows : transform(result.rows)))
    // Without its connection a transaction is undone by itself: no COMMIT can follow.
    return isUndoing(sql) ? once(rows).pipe(Effect.catch(ended), Effect.catch(() => Effect.succeed([]))) : once(rows)
  }
  return {
    execute: (sql, params, transform) => query(sql, params, transform),
    executeUnprepared: (sql, params, transform) => query(sql, params, transform, false),
    executeRaw: (sql, params) => once(connection.query(sql, params)),
    executeValues: (sql, params) => once(connection.queryValues(sql, params)),
    executeValuesUnprepared: (sql, params) => once(connection.queryValues(sql, params, false)),
    executeStream: (sql, params) => connection.stream(sql, params)
  }
}

const isUndoing = (sql: string): boolean => sql.startsWith("ROLLBACK") || sql.startsWith("RELEASE SAVEPOINT")

/** An aborted transaction answers COMMIT with ROLLBACK. */
const commit = (connection: SqlConnection.Connection): Effect.Effect<void, SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    (result as PgConnection.Result).command === "ROLLBACK" // what this driver answers is its Result
      ? Effect.fail(
          new SqlError({
            reason: new UnknownError({
              cause: new Error("COMMIT rolled back an aborted transaction"),
              message: "the transaction was aborted, and rolled back by its COMMIT",
              operation: "commit"
            })
          })
        )
      : Effect.void
  )
