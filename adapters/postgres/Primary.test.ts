/** A primary and its standby, as an operator replicates them. */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Redacted, Result } from "effect"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import * as net from "node:net"
import * as path from "node:path"
import type { Duplex } from "node:stream"
import * as tls from "node:tls"
import { generate } from "selfsigned"
import * as Database from "./Database.ts"
import * as Hosts from "./Hosts.ts"
import * as Primary from "./Primary.ts"
import * as PrivatePostgres from "./PrivatePostgres.ts"

const binaries = process.env["TEST_POSTGRES_BIN"]

class Cluster extends Context.Service<Cluster, { readonly primary: PrivatePostgres.PrivatePostgres; readonly standby: PrivatePostgres.PrivatePostgres }>()(
  "Cluster"
) {}

const cluster = Layer.effect(
  Cluster,
  Effect.gen(function* () {
    const primary = yield* PrivatePostgres.open({ binaries })
    yield* primary.started
    yield* primary.stop("fast")
    const standby = yield* PrivatePostgres.open({ binaries, standbyOf: primary.folder })
    yield* standby.started
    yield* primary.start
    return { primary, standby }
  })
)

/** The port of a server's socket on an address of this machine. */
const relay = Effect.fnUntraced(function* (to: PrivatePostgres.PrivatePostgres, address = "127.0.0.1", port = 0) {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((near) => {
    const far = net.connect({ path: path.join(to.folder, ".s.PGSQL.5432") })
    for (const [one, other] of [[near, far], [far, near]] as const) {
      sockets.add(one)
      one.on("error", () => other.destroy()).on("close", () => other.destroy()).pipe(other)
    }
  })
  server.listen(port, address)
  yield* Effect.promise(() => once(server, "listening"))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      server.close()
      for (const socket of sockets) socket.destroy()
    })
  )
  return (server.address() as net.AddressInfo).port // it listens
})

const opened = (url: string, connectionsMax = 2) =>
  Effect.map(Layer.build(Layer.fresh(Database.layer({ url: Redacted.make(url), connectionsMax }))), Context.get(Database.Database))

const folders = (...servers: ReadonlyArray<PrivatePostgres.PrivatePostgres>) =>
  `postgres:///postgres?host=${servers.map(({ folder }) => folder).join(",")}&user=postgres&password=secret`

const where = "select pg_is_in_recovery() as standby"

layer(cluster, { excludeTestServices: true, timeout: 120_000 })("several hosts", (it) => {
  it.effect("lead to the primary, also where the standby is named first", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Cluster
      const url = `postgres://postgres@127.0.0.1:${yield* relay(standby)},127.0.0.1:${yield* relay(primary)}/postgres?target_session_attrs=read-write`

      const { connect, pool, rows } = yield* opened(url)
      const beside = yield* connect

      assert.deepStrictEqual(yield* rows(where), [{ standby: false }])
      assert.deepStrictEqual((yield* beside.query(where)).rows, [{ standby: false }])
      // What led to the standby is closed, and what is beside the pool is not counted.
      assert.strictEqual((yield* pool).connections, 1)
    })
  )

  it.effect("keep no connection to a server that was passed over", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Cluster
      const sockets: Array<Duplex> = []
      const servers = Database.serversOf(Redacted.make(folders(standby, primary)))
      const open = Primary.make({ config: {}, ...Result.getOrThrow(servers) })({ onEnd: () => undefined, onSocket: (socket) => void sockets.push(socket) })

      const connection = yield* open

      assert.deepStrictEqual((yield* connection.query(where)).rows, [{ standby: false }])
      yield* Effect.repeat(Effect.sleep(1), { until: () => sockets[0]!.destroyed }) // its server closes it
      assert.deepStrictEqual(sockets.map(({ destroyed }) => destroyed), [true, false])
    }).pipe(Effect.timeout("5 seconds"))
  )

  it.effect("that are all standbys are an error that names them, and no secret", () =>
    Effect.gen(function* () {
      const { standby } = yield* Cluster
      const port = yield* relay(standby)

      for (const url of [folders(standby, standby), folders(standby), `postgres://postgres:secret@127.0.0.1:${port},127.0.0.1:1/postgres`]) {
        const error = yield* Effect.flip((yield* opened(url)).rows(where))
        assert.isTrue(Primary.isWithoutPrimary(error) && Database.isConnectionLost(error))
        assert.include(Database.reasonOf(error), "is a standby, which takes no writes")
        assert.include(Database.reasonOf(error), url.includes("127.0.0.1") ? `127.0.0.1:${port}` : standby.folder)
        assert.notInclude(JSON.stringify(error) + String(error) + Database.reasonOf(error), "secret")
      }
    })
  )

  it.effect("of which none answers are an error that says of each why", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip((yield* opened("postgres://postgres@127.0.0.1:1,127.0.0.1:2/postgres")).rows(where))

      assert.strictEqual(Database.reasonOf(error), "127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1; 127.0.0.1:2: connect ECONNREFUSED 127.0.0.1:2")
      assert.isFalse(Primary.isWithoutPrimary(error))
    })
  )

  it.effect("that all refuse for one reason are an error with its code, and with none where they differ", () =>
    Effect.gen(function* () {
      const refusing = Effect.fnUntraced(function* (code: string) {
        const fields = ["SFATAL", "VFATAL", `C${code}`, `Mrefused by ${code}`, ""].map((field) => `${field}\0`).join("")
        const head = Buffer.from("E\0\0\0\0")
        head.writeInt32BE(4 + fields.length, 1)
        const server = net.createServer((socket) => {
          socket.on("error", () => undefined).once("data", () => socket.end(Buffer.concat([head, Buffer.from(fields)])))
        })
        server.listen(0, "127.0.0.1")
        yield* Effect.promise(() => once(server, "listening"))
        yield* Effect.addFinalizer(() => Effect.sync(() => void server.close()))
        return `127.0.0.1:${(server.address() as net.AddressInfo).port}` // it listens
      })
      const [one, other, third] = [yield* refusing("28P01"), yield* refusing("28P01"), yield* refusing("3D000")]
      const codeFrom = (hosts: string) => Effect.map(Effect.flip(Effect.flatMap(opened(`postgres://ada@${hosts}/db`), ({ rows }) => rows(where))), Database.codeOf)

      assert.deepStrictEqual([yield* codeFrom(`${one},${other}`), yield* codeFrom(`${one},${third}`)], ["28P01", ""])
    })
  )

  it.effect("wait for the connections that there are while the primary has room for no more", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Cluster
      const { rows } = yield* opened(folders(primary))
      yield* rows("create role single login connection limit 1")
      const { pool, sql } = yield* opened(folders(standby, primary).replace("user=postgres", "user=single"), 3)
      yield* sql`select 1` // of several that come at once, before there is any, PostgreSQL may refuse each for the others

      yield* Effect.forEach([1, 2, 3], () => sql`select pg_sleep(0.02)`, { concurrency: 3 })

      assert.strictEqual((yield* pool).connections, 1)
    })
  )

  it.effect("are passed over where sessions are read only, if read-write ones are asked for, and not where the primary is", () =>
    Effect.gen(function* () {
      const { primary } = yield* Cluster
      const { rows } = yield* opened(folders(primary))
      yield* rows("create role reader login")
      yield* rows("alter role reader set default_transaction_read_only = on")
      const asked = (attributes: string) => opened(`${folders(primary).replace("user=postgres", "user=reader")}&target_session_attrs=${attributes}`)

      const refused = yield* Effect.flip((yield* asked("read-write")).rows(where))
      const taken = yield* (yield* asked("primary")).rows(where)

      assert.include(Database.reasonOf(refused), "is set to read only")
      assert.deepStrictEqual(taken, [{ standby: false }])
    })
  )

  it.effect("are refused with a wish that no session of ours has", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.scoped(opened("postgres://postgres:secret@one.example,two.example/db?target_session_attrs=any")))

      assert.include(error.message, "the URL of the database has a target_session_attrs that is neither primary nor read-write")
      assert.notInclude(JSON.stringify(error) + error.message, "secret")
    })
  )

  // Where 127.0.0.2 is not there of itself, as on macOS: ifconfig lo0 alias 127.0.0.2.
  it.effect("at one name are tried by their addresses, and a cancellation goes where its connection is", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Cluster
      const port = yield* relay(standby)
      yield* relay(primary, "127.0.0.2", port)
      let lookups = 0
      const resolve: Hosts.Resolve = (_name, _options, done) => {
        lookups += 1
        done(null, [{ address: "127.0.0.1", family: 4 }, { address: "127.0.0.2", family: 4 }])
      }
      const hosts = Hosts.hostsOf(Redacted.make(`postgres://postgres@cluster.example:${port}/postgres`))!
      const open = Primary.make({ config: {}, hosts, wants: "primary", connectTimeout: Duration.seconds(5), resolve })({ onEnd: () => undefined, onSocket: () => undefined })

      const [first, second] = [yield* open, yield* open]

      assert.deepStrictEqual((yield* first.query(where)).rows, [{ standby: false }])
      // The second one went to the address that had led to the primary.
      assert.strictEqual(lookups, 3)
      const sleeping = yield* Effect.forkChild(second.query("select pg_sleep(60)"))
      yield* Effect.repeat(first.query("select from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'"), {
        until: ({ rows }) => rows.length === 1
      })
      yield* Fiber.interrupt(sleeping)
      assert.deepStrictEqual((yield* second.query(where)).rows, [{ standby: false }])
    })
  )

  it.effect("have their certificates verified each for its own name", () =>
    Effect.gen(function* () {
      const { cert, private: key } = yield* Effect.promise(() => generate([{ name: "commonName", value: "two.example" }]))
      const names: Array<string> = []
      const server = net.createServer((socket) => {
        socket.on("error", () => undefined).once("data", () => {
          socket.write("S")
          new tls.TLSSocket(socket, {
            isServer: true,
            cert,
            key,
            SNICallback: (name, done) => {
              names.push(name)
              done(null)
            }
          }).on("error", () => undefined)
        })
      })
      server.listen(0, "127.0.0.1")
      yield* Effect.promise(() => once(server, "listening"))
      yield* Effect.addFinalizer(() => Effect.sync(() => void server.close()))
      const { port } = server.address() as net.AddressInfo // it listens
      const hosts = Hosts.hostsOf(Redacted.make(`postgres://postgres@one.example:${port},two.example:${port}/postgres?sslmode=verify-full`))!
      const resolve: Hosts.Resolve = (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }])

      const error = yield* Effect.flip(Primary.make({ config: {}, hosts, wants: "primary", connectTimeout: Duration.seconds(5), resolve })({ onEnd: () => undefined, onSocket: () => undefined }))

      assert.deepStrictEqual(names, ["one.example", "two.example"])
      assert.match(Database.reasonOf(error), /^one\.example:\d+: .*certificate.*; two\.example:\d+: .*certificate/)
    })
  )

  it.effect("are tried from the one that was the primary last on, and each is given its time", () =>
    Effect.gen(function* () {
      const { primary } = yield* Cluster
      // As one whose processes are stopped: the system takes the connection, and nobody says a word.
      const silent = net.createServer().listen(0, "127.0.0.1")
      yield* Effect.promise(() => once(silent, "listening"))
      let asked = 0
      silent.on("connection", () => {
        asked += 1
      })
      const { port } = silent.address() as net.AddressInfo // it listens
      yield* Effect.addFinalizer(() => Effect.sync(() => void silent.close()))
      const servers = Database.serversOf(Redacted.make(`postgres://postgres@127.0.0.1:${port},127.0.0.1:${yield* relay(primary)}/postgres?connect_timeout=30`))
      const open = Primary.make({ config: {}, ...Result.getOrThrow(servers) })({ onEnd: () => undefined, onSocket: () => undefined })

      const opening = yield* Effect.forkChild(open)
      yield* Effect.promise(() => once(silent, "connection"))
      yield* TestClock.adjust("29 seconds")
      assert.isUndefined(opening.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const first = yield* Fiber.join(opening)
      const second = yield* open

      assert.deepStrictEqual([(yield* first.query(where)).rows, (yield* second.query(where)).rows], [[{ standby: false }], [{ standby: false }]])
      assert.strictEqual(asked, 1)
    }).pipe(Effect.provide(TestClock.layer()))
  )

  it.effect("are followed to the standby that takes the primary's place", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Cluster
      const { rows, sql } = yield* opened(folders(primary, standby), 3)
      yield* rows("create table kept (id integer)")
      yield* rows("alter system set synchronous_standby_names = '*'")
      yield* rows("select pg_reload_conf()")
      yield* Effect.repeat(rows("select from pg_stat_replication where sync_state = 'sync'"), { until: (found) => found.length === 1 })
      yield* rows("insert into kept values (1)")

      yield* primary.stop("immediate")
      // A statement may still go to a connection of before, and end with it.
      yield* Effect.repeat(Effect.flip(rows(where)), { until: (error) => Database.reasonOf(error).includes("is a standby") })
      const promoting = yield* opened(folders(standby))
      yield* Effect.provide(
        Effect.flatMap(Database.Database, ({ rows }) => rows("select pg_promote()")),
        Layer.fresh(Database.layer({ stream: () => net.connect({ path: path.join(standby.folder, ".s.PGSQL.5432") }) }))
      )
      yield* promoting.rows("alter system reset synchronous_standby_names")
      yield* promoting.rows("select pg_reload_conf()")

      yield* Effect.forEach([2, 3, 4], (id) => sql.withTransaction(sql`insert into kept values (${id})`), { concurrency: 3 })
      assert.deepStrictEqual(yield* rows("select id from kept order by id"), [{ id: 1 }, { id: 2 }, { id: 3 }, { id: 4 }])
    })
  )
})
