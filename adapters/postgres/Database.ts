/**
 * A PostgreSQL database: a pool of connections, and what one must know of it.
 * Each statement ends within its deadline, whatever becomes of the server: one
 * that takes longer is cancelled, and a connection that does not answer to that
 * either is dropped. A lost connection is replaced when the next one is needed.
 * Deadlines and waits are real, whatever clock the caller has.
 */
import { PgConnection, type PgClient } from "@effect/sql-pg"
import { Clock, Context, Duration, Effect, Layer, Result, type Redacted, type Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlError } from "effect/sql/SqlError"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { Pool } from "../../core/Metrics.ts"
import * as Client from "./Client.ts"
import * as Connections from "./Connections.ts"
import * as Hosts from "./Hosts.ts"
import * as Primary from "./Primary.ts"

export { onLiveClock } from "./Client.ts"
export { codeOf, isConnectionLost, isNoneFree, reasonOf, StatementDeadline } from "./Connections.ts"
export { isWithoutPrimary } from "./Primary.ts"

export type Options = Pooling &
  (
    | {
        /** `postgres://user:password@host:port/database`, as libpq reads it: also with several hosts, of which the primary is used. */
        readonly url: Redacted.Redacted<string>
        readonly stream?: never
      }
    | {
        /** Where to connect instead: a server in this process. */
        readonly stream: () => Duplex
      }
  )

export interface Pooling {
  readonly connectionsMax?: number
  /** After so long a connection is replaced, between two statements. Half an hour unless told otherwise. */
  readonly connectionAgeMax?: Duration.Duration
  readonly applicationName?: string
  /** False behind a pooler that lends a connection for a transaction: no prepared statements, no settings of our own. */
  readonly prepare?: boolean
}

export class Database extends Context.Service<
  Database,
  {
    /** For transactions, and what is asked seldom. */
    readonly sql: PgClient.PgClient
    /** One statement by itself, and its rows by the names of the columns: what is asked for with every request. */
    readonly rows: <Row>(text: string, parameters?: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<Row>, SqlError>
    /** Runs something that waits for the database on the live clock. Statements of `sql` are so by themselves. */
    readonly live: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    /** A connection beside the pool, until the scope closes: for who listens. */
    readonly connect: Effect.Effect<PgConnection.PgConnection, SqlError, Scope.Scope>
    /** What the pool does now: `busy` statements and transactions have a connection, `waiting` ones wait for one. */
    readonly pool: Effect.Effect<Pool>
    /** The server's clock minus this process's, in milliseconds, as good as half the round trip. */
    readonly clockOffset: Effect.Effect<number, SqlError>
  }
>()("mailroom/adapters/postgres/Database") {}

export const layer = (options: Options): Layer.Layer<Database, SqlError> =>
  Layer.effect(Database, make(options)).pipe(Layer.provide(Reactivity.layer))

export const make = (options: Options): Effect.Effect<Database["Service"], SqlError, Scope.Scope | Reactivity.Reactivity> =>
  Client.onLiveClock(
    Effect.gen(function* () {
      const config = configOf(options)
      const opening = yield* openingOf(options, config)
      const pooled = yield* sockets
      const connections = yield* Connections.make({
        connectionsMax: options.connectionsMax ?? 10,
        ageMax: options.connectionAgeMax ?? Connections.ageMax,
        open: (onEnd) => opening({ onSocket: pooled.note, onEnd })
      })
      const sql = yield* Client.make(config, connections)
      return {
        sql,
        rows: <Row>(text: string, parameters: ReadonlyArray<unknown> = []) =>
          connections.run((connection) => Effect.map(connection.query(text, parameters), ({ rows }) => rows as ReadonlyArray<Row>)), // as its text has them
        live: Client.onLiveClock,
        connect: Effect.flatMap(sockets, ({ note }) => opening({ onSocket: note, onEnd: () => undefined })),
        pool: Effect.sync(() => ({ connections: pooled.open.size, ...connections.counts() })),
        clockOffset: Client.onLiveClock(
          Effect.gen(function* () {
            const before = yield* Clock.currentTimeMillis
            const [row] = yield* sql<{ ms: string }>`select (extract(epoch from clock_timestamp()) * 1000)::text as ms`
            const after = yield* Clock.currentTimeMillis
            return Math.round(Number(row!.ms) - (before + after) / 2)
          })
        )
      }
    })
  )

/** Sockets that are open. At the end of the scope, behind what says goodbye on them: one that its server does not close, as it stands still, is to keep no process. */
const sockets = Effect.gen(function* () {
  const open = new Set<Duplex>()
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const socket of open) if (socket instanceof Socket) socket.unref().setTimeout(Duration.toMillis(Connections.goodbyeMax), () => socket.destroy())
    })
  )
  const note = (socket: Duplex): void => {
    open.add(socket)
    socket.once("close", () => open.delete(socket))
  }
  return { open, note }
})

/**
 * Every statement has an index for what it looks for. A plan that reads a whole table, made while the table was small, would
 * live on in its connection while the table grows. And the price that is put on such plans calls for no compiler.
 */
export const planning = {
  enable_seqscan: "off",
  // It has no order: all that an index finds would be sorted, where the order of the index ends at the first.
  enable_bitmapscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_material: "off",
  jit: "off",
  // Which plan is best does not depend on what is asked, and planning takes longer than most of these statements.
  plan_cache_mode: "force_generic_plan"
} as const

/** What each connection is to have; behind a pooler, the role. A process that dies or hangs within a transaction holds its locks no longer than that. */
export const sessionSettings = { idle_in_transaction_session_timeout: "15s", default_transaction_isolation: "read committed", ...planning } as const

const openingOf = (options: Options, config: PgConnection.Config): Effect.Effect<Primary.Open, SqlError> => {
  const { stream } = options
  if (stream === undefined) {
    return Result.match(serversOf(options.url), {
      onSuccess: (servers) => Effect.succeed(Primary.make({ config, ...servers })),
      onFailure: (fault) => Effect.fail(Connections.lost(fault))
    })
  }
  return Effect.succeed(({ onEnd, onSocket }) =>
    PgConnection.make({
      ...config,
      stream: () => {
        const socket = stream()
        onSocket(socket)
        return socket.once("close", onEnd)
      }
    })
  )
}

/** The servers of a URL, which sessions with them are used and how long they are waited for; or what is wrong with it, without what it holds. */
export const serversOf = (url: Redacted.Redacted<string>): Result.Result<Pick<Primary.Options, "hosts" | "wants" | "connectTimeout">, string> => {
  const hosts = Hosts.hostsOf(url)
  // The driver's own error would hold the URL, and so its password.
  if (hosts === null) {
    return Result.fail("the URL of the database cannot be read: it is not of the form postgres://user:password@host:port/database, or host1:port1,host2:port2")
  }
  const fault = Hosts.faultOf(url)
  if (fault !== null) return Result.fail(`the URL of the database ${fault}`)
  return Result.succeed({ hosts, wants: Hosts.sessionAttributesOf(url)!, connectTimeout: Hosts.connectTimeoutOf(url)! }) // no fault
}

const configOf = (options: Options): PgConnection.Config => ({
  ...(options.stream !== undefined && { username: "postgres", database: "postgres", ssl: false }),
  ...(options.stream === undefined &&
    options.prepare !== false && {
      startupParameters: sessionSettings
    }),
  applicationName: options.applicationName ?? "mailroom",
  prepare: options.prepare ?? true,
  maxMessageSize: 64 * 1024 * 1024
})
