import { assert, layer } from "@effect/vitest"
import { Cause, Clock, Context, Duration, Effect, Fiber, Latch, Layer, Redacted } from "effect"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import * as Database from "./Database.ts"
import * as PrivatePostgres from "./PrivatePostgres.ts"

const until = <E, R>(holds: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(Effect.tap(holds, () => Effect.sleep("5 millis")), { until: (is) => is })

const elapsed = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const before = yield* Clock.currentTimeMillis
    const value = yield* self
    return { value, ms: (yield* Clock.currentTimeMillis) - before }
  })

/** A server that these tests may break, and a database on it with four connections. */
class Server extends Context.Service<Server, PrivatePostgres.PrivatePostgres>()("Server") {}
const server = Layer.effect(
  Server,
  Effect.tap(PrivatePostgres.open({ binaries: process.env["TEST_POSTGRES_BIN"] }), ({ started }) => started)
)
const database = Layer.unwrap(Effect.map(Server, ({ url }) => Database.layer({ url: url("postgres"), connectionsMax: 4 })))

/** Four at once, so that each connection is in use. */
const four = <A, E, R>(one: Effect.Effect<A, E, R>) => Effect.forEach([1, 2, 3, 4], () => one, { concurrency: 4 })

/** On each of the four connections: none ends before all have begun. */
const onEach = <A, E>(statement: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const { sql } = yield* Database.Database
    const all = yield* Latch.make(false)
    let begun = 0
    yield* four(sql.withTransaction(Effect.andThen(statement, Effect.suspend(() => (++begun === 4 ? all.open : all.await)))))
  })

layer(Layer.provideMerge(database, server), { excludeTestServices: true })("a database whose server is lost", (it) => {
  it.effect("replaces connections that were terminated while idle", () =>
    Effect.gen(function* () {
      const { sql, pool } = yield* Database.Database
      yield* four(sql`select pg_sleep(0.05)`)
      assert.strictEqual((yield* pool).connections, 4)

      yield* sql`select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`
      yield* until(Effect.map(pool, ({ connections }) => connections === 1))

      yield* four(sql`select pg_sleep(0.05)`)
      assert.deepStrictEqual(yield* pool, { connections: 4, busy: 0, waiting: 0 })
    })
  )

  it.effect("fails a transaction whose connection is terminated, without a defect, and keeps nothing of it", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database.Database
      yield* sql`create table victim (id integer)`
      const work = yield* Effect.forkChild(
        Effect.exit(sql.withTransaction(Effect.andThen(sql`insert into victim values (1)`, sql`select pg_sleep(60)`)))
      )

      yield* until(
        Effect.map(
          sql`select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'`,
          (rows) => rows.length === 1
        )
      )

      const exit = yield* Fiber.join(work)
      const [reason] = exit._tag === "Failure" ? exit.cause.reasons : []
      assert.isTrue(reason !== undefined && Cause.isFailReason(reason) && Database.isConnectionLost(reason.error))
      assert.deepStrictEqual(yield* sql`select id from victim`, [])
    })
  )

  it.effect("leaves connections whose server takes no writes any more, as one that was replaced, with the first that is refused", () =>
    Effect.gen(function* () {
      const { sql, rows } = yield* Database.Database
      yield* sql`create table replaced (id integer)`
      yield* onEach(sql`set session characteristics as transaction read only`)
      const insert = "insert into replaced values (1)"

      const refused = yield* Effect.forEach(
        [1, 2, 3, 4],
        (one) => Effect.flip(one % 2 === 0 ? rows(insert) : sql.withTransaction(sql.unsafe(insert))),
        { concurrency: 4 }
      )
      yield* four(sql.withTransaction(sql.unsafe(insert)))

      assert.isTrue(refused.every(({ reason }) => reason.cause instanceof Error && reason.cause.message.includes("read-only transaction")))
      assert.deepStrictEqual(yield* sql`select count(*)::integer from replaced`, [{ count: 4 }])
    })
  )

  it.effect("leaves all idle connections with one whose server takes no writes, so that the next statement has another server", () =>
    Effect.gen(function* () {
      const { sql, rows } = yield* Database.Database
      yield* sql`create table failed_over (id integer)`
      yield* onEach(sql`set session characteristics as transaction read only`)

      yield* Effect.flip(rows("insert into failed_over values (1)"))

      yield* rows("insert into failed_over values (1)")
      assert.deepStrictEqual(yield* sql`select count(*)::integer from failed_over`, [{ count: 1 }])
    })
  )

  it.effect("leaves all idle connections of a standby with the first statement about a table that is not there, as no standby has the queue", () =>
    Effect.gen(function* () {
      const server = yield* Server
      // A connection of ours to a standby is none; a pooler may lend one of its own.
      const stream = () => net.connect({ path: path.join(server.folder, ".s.PGSQL.5432") })
      const { sql, rows } = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ stream, connectionsMax: 4 }))), Database.Database)
      yield* sql`create unlogged table not_there (id integer)`
      const pids = Effect.map(four(sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.05)`), (found) => found.map(([row]) => row!.pid))
      yield* server.stop("fast")
      fs.writeFileSync(path.join(server.folder, "data", "standby.signal"), "")
      yield* server.start
      const before = yield* pids

      const refused = yield* Effect.flip(rows("update not_there set id = 2"))
      const after = yield* pids

      yield* sql`select pg_promote()`
      assert.include(String(refused.reason.cause), "during recovery")
      assert.deepStrictEqual(after.filter((pid) => before.includes(pid)), [])
    })
  )

  it.effect("waits for the connections that it has while the server has room for no more", () =>
    Effect.gen(function* () {
      const { url } = yield* Server
      const { sql } = yield* Database.Database
      yield* sql`create role crowded login connection limit 2`
      const crowded = Redacted.make(Redacted.value(url("postgres")).replace("//postgres@", "//crowded@"))

      yield* Effect.gen(function* () {
        const { rows, sql, pool } = yield* Database.Database
        yield* Effect.forEach([1, 2], () => sql`select pg_sleep(0.05)`, { concurrency: 2 })
        const work = [rows("select pg_sleep(0.02)"), sql.withTransaction(sql`select pg_sleep(0.02)`)]
        yield* Effect.forEach(Array.from({ length: 20 }, (_, number) => work[number % 2]!), (one) => one, { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* pool, { connections: 2, busy: 0, waiting: 0 })

        yield* Effect.scoped(Effect.gen(function* () {
          yield* Effect.all([sql.reserve, sql.reserve])
          const { value, ms } = yield* elapsed(Effect.flip(rows("select 1")))
          assert.isTrue(Database.isConnectionLost(value))
          assert.isAtLeast(ms, 400)
        })).pipe(Effect.provideService(Database.StatementDeadline, Duration.millis(400)))
      }).pipe(Effect.provide(Database.layer({ url: crowded, connectionsMax: 4 })))
    })
  )

  it.effect("fails at once while the server is down, and works again within a second of its return", () =>
    Effect.gen(function* () {
      const server = yield* Server
      const { sql, pool } = yield* Database.Database
      yield* four(sql`select pg_sleep(0.05)`)

      yield* server.stop("immediate")
      const down = yield* elapsed(Effect.forEach(Array(20).keys(), () => Effect.flip(sql`select 1`), { concurrency: "unbounded" }))
      assert.isTrue(down.value.every(Database.isConnectionLost))
      assert.isBelow(down.ms, 1_000)

      yield* server.start
      const up = yield* elapsed(four(sql.withTransaction(sql`select 1`)))
      assert.isBelow(up.ms, 1_000)
      assert.deepStrictEqual({ ...(yield* pool), connections: 0 }, { connections: 0, busy: 0, waiting: 0 })
    })
  )

  it.effect("fails in time while the server stands still, and works again within a second of its return", () =>
    Effect.gen(function* () {
      const server = yield* Server
      const { sql, pool } = yield* Database.Database
      yield* four(sql`select pg_sleep(0.05)`)

      yield* server.freeze
      const work = [sql`select 1`, sql.withTransaction(sql`select 1`)]
      const still = yield* elapsed(
        Effect.forEach(
          Array.from({ length: 20 }, (_, number) => work[number % 2]!),
          (one) => Effect.exit(one),
          { concurrency: "unbounded" }
        )
      )
      // A connection that does not answer to its cancellation either is dropped after five seconds.
      assert.isBelow(still.ms, 500 + 5_000 + 1_500)
      assert.isTrue(still.value.every((exit) => exit._tag === "Failure" && !Cause.hasDies(exit.cause)))

      yield* server.thaw
      const back = yield* elapsed(four(sql.withTransaction(sql`select 1`)))
      assert.isBelow(back.ms, 1_000)
      assert.strictEqual((yield* pool).busy, 0)
    }).pipe(Effect.provideService(Database.StatementDeadline, Duration.millis(500)))
  )
})

layer(server, { excludeTestServices: true })("a database that is closed", (it) => {
  it.effect("leaves no connection open, though its server stands still and closes none", () =>
    Effect.gen(function* () {
      const { folder } = yield* Server
      let isStill = false
      const stands = net.createServer({ allowHalfOpen: true }, (socket) => {
        const upstream = net.connect(path.join(folder, ".s.PGSQL.5432"))
        upstream.on("data", (bytes) => void socket.write(bytes))
        socket.on("data", (bytes) => void (isStill || upstream.write(bytes)))
        socket.on("error", () => {}).on("close", () => upstream.destroy())
      })
      yield* Effect.acquireRelease(Effect.callback<void>((resume) => void stands.listen(0, "127.0.0.1", () => resume(Effect.void))), () => Effect.sync(() => stands.close()))
      const { port } = stands.address() as net.AddressInfo // it listens
      const sockets: Array<net.Socket> = []
      const stream = () => {
        const socket = net.connect(port, "127.0.0.1")
        sockets.push(socket)
        return socket
      }

      yield* Effect.gen(function* () {
        const { connect, sql } = yield* Database.Database
        yield* connect // of who listens
        yield* sql`select 1`
        isStill = true
      }).pipe(Effect.scoped, Effect.provide(Database.layer({ stream })))

      assert.deepStrictEqual(sockets.map((socket) => (socket as unknown as { _handle: { hasRef: () => boolean } | null })._handle?.hasRef() ?? false), [false, false], "the process may end")
      yield* Effect.repeat(Effect.sleep(5), { until: () => sockets.every(({ destroyed }) => destroyed) })
    }).pipe(Effect.timeout("5 seconds"))
  )
})
