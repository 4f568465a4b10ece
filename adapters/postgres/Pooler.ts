/**
 * What a pooler between us and the server takes away that a Database needs:
 * transactions, and statements that stay prepared on a connection.
 */
import { Duration, Effect } from "effect"
import type { SqlConnection } from "effect/sql"
import type { SqlError } from "effect/sql/SqlError"
import { codeOf, isConnectionLost, reasonOf, StatementDeadline } from "./Connections.ts"
import { Database } from "./Database.ts"

export type Fault = "allows no transactions" | "forgets prepared statements"

/**
 * Null if none is seen; a server that does not answer has none. On a busy pooler it may stay unseen that statements are
 * forgotten: each try wants our second connection to be lent what the first one had.
 */
export const fault: Effect.Effect<Fault | null, never, Database> = Effect.gen(function* () {
  let found = yield* seen
  // A connection that is lost once may have been lost by chance.
  for (let tries = 1; tries < 3 && found === "allows no transactions"; tries++) found = yield* seen
  return found
}).pipe(Effect.provideService(StatementDeadline, Duration.seconds(5)))

/** The setting of a connection that a pooler does not know and so refuses; null where that is not what went wrong. */
export const refusedParameter = (error: SqlError): string | null =>
  /(?:^|: )unsupported startup parameter(?: in options)?: (\w+)/.exec(reasonOf(error))?.[1] ?? null

const seen = Effect.scoped(
  Effect.gen(function* () {
    const { sql } = yield* Database
    const [first, second] = [yield* sql.reserve, yield* sql.reserve]
    const probe = first.execute("select 'prepared'", [], undefined)
    yield* probe
    // Who lends a connection for a statement closes it at this one, before its words can be read.
    if (yield* isLostBy(begun(second))) return "allows no transactions" as const
    yield* begun(first)
    // Within a transaction the driver does not prepare it anew by itself.
    return yield* Effect.as(probe, null)
  })
).pipe(Effect.catch((error) => Effect.succeed(codeOf(error) === "26000" ? ("forgets prepared statements" as const) : null)))

/** Its transaction lasts as long as the scope. */
const begun = (connection: SqlConnection.Connection) =>
  Effect.gen(function* () {
    yield* connection.executeUnprepared("begin", [], undefined)
    yield* Effect.addFinalizer(() => Effect.ignore(connection.executeUnprepared("rollback", [], undefined)))
    yield* connection.executeUnprepared("select 'begun'", [], undefined)
  })

const isLostBy = <R>(statements: Effect.Effect<void, SqlError, R>) =>
  Effect.catchIf(Effect.as(statements, false), isConnectionLost, () => Effect.succeed(true))
