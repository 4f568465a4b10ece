/**
 * A pooler for tests, before the run's private server: it lends connections
 * as PgBouncer does, and refuses what PgBouncer refuses, in its words. It
 * keeps no prepared statements.
 */
import { Effect, Redacted, type Scope } from "effect"
import * as net from "node:net"
import { inject } from "vitest"
import * as TestDatabase from "./TestDatabase.ts"

export interface Options {
  readonly mode: "session" | "transaction" | "statement"
  /** Whether it ignores parameters of the startup that it does not know (`ignore_startup_parameters`). */
  readonly ignoresParameters?: boolean
  /** Whether all its places are taken: it lets clients in, and what they ask waits. */
  readonly isFull?: boolean
}

/** The URL of a new database with all tables, by way of a pooler. */
export const url = (options: Options): Effect.Effect<Redacted.Redacted<string>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const behind = new URL(Redacted.value(yield* TestDatabase.url()))
    const port = yield* listen(options, behind.pathname.slice(1))
    return Redacted.make(`postgres://postgres@127.0.0.1:${port}${behind.pathname}`)
  })

const listen = (options: Options, database: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const sockets = new Set<net.Socket>()
        const free: Array<Lent> = []
        const server = net.createServer((client) => {
          sockets.add(client)
          serve(client, options, () => free.pop() ?? dial(database, sockets), free)
        })
        await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
        return { server, sockets }
      }),
      ({ server, sockets }) =>
        Effect.sync(() => {
          server.close()
          for (const socket of sockets) socket.destroy()
        })
    ),
    ({ server }) => (server.address() as net.AddressInfo).port // it listens on a port
  )

/** A connection to the server; what comes before it is ready is the pooler's. */
interface Lent {
  readonly ask: (bytes: Buffer) => void
  hear: (message: Buffer) => void
  readonly end: () => void
}

const dial = (database: string, sockets: Set<net.Socket>): Lent => {
  const socket = net.connect(`${inject("postgresFolder")}/.s.PGSQL.5432`)
  sockets.add(socket)
  socket.on("error", () => {})
  const early: Array<Buffer> = []
  let isReady = false
  const lent: Lent = {
    ask: (bytes) => void (isReady ? socket.write(bytes) : early.push(bytes)),
    hear: () => {},
    end: () => void socket.destroy()
  }
  const parameters = Buffer.from(`\0\x03\0\0user\0postgres\0database\0${database}\0\0`, "latin1")
  socket.write(Buffer.concat([int32(parameters.length + 4), parameters]))
  socket.on(
    "data",
    messages((message) => {
      if (isReady) return lent.hear(message)
      if (message[0] !== ready) return
      isReady = true
      for (const bytes of early) socket.write(bytes)
    })
  )
  return lent
}

const serve = (client: net.Socket, { ignoresParameters, isFull, mode }: Options, borrow: () => Lent, free: Array<Lent>) => {
  let lent: Lent | null = null
  const refuse = (words: string) =>
    client.end(said("E", Buffer.from(`SFATAL\0VFATAL\0C08P01\0M${words}\0\0`)))
  const hear = (message: Buffer) => {
    client.write(message)
    if (message[0] !== ready || lent === null || mode === "session") return
    const isInTransaction = message[5] !== idle
    if (!isInTransaction) free.push(lent)
    else if (mode === "statement") {
      lent.end()
      refuse("transaction blocks not allowed in statement pooling mode")
    } else return
    lent = null
  }
  client.on("error", () => {})
  client.on("close", () => lent?.end())
  const start = (startup: Buffer) => {
    if (startup.readInt32BE(4) === sslRequest) return void client.once("data", start).write("N")
    const names = startup.subarray(8).toString().split("\0").filter((_, index) => index % 2 === 0)
    const unknown = names.find((name) => name !== "" && !["user", "database", "application_name", "client_encoding"].includes(name))
    if (unknown !== undefined && ignoresParameters !== true) return refuse(`unsupported startup parameter: ${unknown}`)
    // Numbers that are no process of the server's, as PgBouncer's are.
    client.write(Buffer.concat([said("R", int32(0)), said("K", int32(1, 1)), said("Z", Buffer.from("I"))]))
    client.on("data", (bytes: Buffer) => {
      if (isFull === true) return
      lent ??= borrow()
      lent.hear = hear
      lent.ask(bytes)
    })
  }
  client.once("data", start)
}

const sslRequest = 80_877_103
const ready = 0x5a // Z
const idle = 0x49 // I

const int32 = (...numbers: ReadonlyArray<number>) => {
  const bytes = Buffer.alloc(4 * numbers.length)
  numbers.forEach((number, index) => bytes.writeInt32BE(number, 4 * index))
  return bytes
}

const said = (type: string, body: Buffer) => Buffer.concat([Buffer.from(type), int32(body.length + 4), body])

/** Each message of the server's by itself. */
const messages = (hear: (message: Buffer) => void) => {
  let rest = Buffer.alloc(0)
  return (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const end = 1 + rest.readInt32BE(1)
      const message = rest.subarray(0, end)
      rest = rest.subarray(end)
      hear(message)
    }
  }
}
