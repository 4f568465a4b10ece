/**
 * A client over our connections, as `PgClient.make` has it over the driver's,
 * for transactions, migrations and what is not asked often. A transaction whose
 * connection is lost fails, where the driver's dies of its failing ROLLBACK.
 */
import { PgClient, type PgConnection } from "@effect/sql-pg"
import { Clock, Effect } from "effect"
import type { Reactivity } from "effect/reactivity"
import { SqlClient, Statement, type SqlConnection } from "effect/sql"
import { SqlError, UnknownError } from "effect/sql/SqlError"
import * as Connections from "./Connections.ts"
import { isConnectionLost } from "./Connections.ts"

/** Runs something on the live clock, whatever clock its caller has. */
export const onLiveClock = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(self, Clock.Clock, liveClock)

const liveClock = Clock.Clock.defaultValue()

export const make = Effect.fnUntraced(function* (
  config: PgClient.PgClient["config"],
  connections: Connections.Connections
): Effect.fn.Return<PgClient.PgClient, never, Reactivity.Reactivity> {
  const leased: SqlConnection.Acquirer = Effect.map(connections.hold, (held) => leaseOf(connections, held))
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: leased,
    transactionAcquirer: leased,
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
    listen: (channel: string) => onLiveClock(Effect.flatMap(connections.hold, ({ connection }) => connection.listen(channel))),
    notify: (channel: string, payload: string) => Effect.asVoid(client`select pg_notify(${channel}, ${payload})`)
  })
})

type RowTransform = (<A extends object>(rows: ReadonlyArray<A>) => ReadonlyArray<A>) | undefined

/** The driver's connection while it is held, as `effect/sql` sees it. */
const leaseOf = (connections: Connections.Connections, held: Connections.Held): SqlConnection.Connection => {
  const { connection } = held
  let end: SqlError | null = null
  const ended = (error: SqlError) => {
    end = error
    held.giveUp()
    return Effect.fail(error)
  }
  const once = <A>(statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => {
      if (end !== null) return Effect.fail(end)
      return Effect.catchIf(connections.bounded(held, statement), isConnectionLost, ended)
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
