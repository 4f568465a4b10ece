import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Redacted } from "effect"
import { Redis } from "ioredis"
import { createServer, type AddressInfo } from "node:net"
import { vi } from "vitest"
import { realm } from "../../conformance/fixtures.ts"
import { runWithout } from "../../conformance/MissingPackage.ts"
import type { Job } from "../../core/ports/JobQueue.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"

const job = (subject: string): Job => ({ kind: "submit", subject, realm: realm(), group: "g", dueAt: 0 })

describe("RedisClient", () => {
  const named: ReadonlyArray<readonly [url: string, place: object]> = [
    ["redis://host", { host: "host", port: 6379, db: 0 }],
    ["redis://host:7000/12", { host: "host", port: 7000, db: 12 }],
    ["redis://[::1]:7000/", { host: "::1", port: 7000, db: 0 }],
    ["redis://na%2Fme:p%40ss@host", { host: "host", port: 6379, db: 0, username: "na/me", password: "p@ss" }],
    ["redis://:p%40ss@host", { host: "host", port: 6379, db: 0, password: "p@ss" }],
    ["rediss://host", { host: "host", port: 6379, db: 0, tls: {} }],
    ["unix:/run/a%20socket?db=3", { path: "/run/a socket", db: 3 }]
  ]
  for (const [url, place] of named) {
    it.effect(`goes where it is told: ${url}`, () =>
      Effect.gen(function* () {
        const went: Array<object> = []
        const connect = vi.spyOn(Redis.prototype, "connect").mockImplementation(function (this: Redis) {
          const { host, port, path, db, username, password, tls } = this.options
          const parts = { ...(path ? { path } : { host, port }), db, username, password, tls }
          went.push(Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined && part !== null)))
          this.disconnect() // or its end would connect it
          return Promise.resolve()
        })
        yield* Effect.addFinalizer(() => Effect.sync(() => connect.mockRestore()))

        yield* RedisClient.make({ url: Redacted.make(url) })

        assert.deepStrictEqual(went, [place])
      })
    )
  }

  it("wants its driver where there is a Redis, and nowhere else: whoever has none need not install it", () => {
    const program = `
      import { Effect, Redacted } from "effect"
      import { RedisClient } from ${JSON.stringify(import.meta.resolve("./index.ts"))}
      console.log("loaded")
      const client = RedisClient.make({ url: Redacted.make("unix:/nowhere"), timeout: "1 milli" })
      await Effect.runPromise(Effect.scoped(client)).then(() => console.log("begun"), ({ message }) => console.log(message))`

    const stdout = "loaded\nRedis is unavailable: the package ioredis is not installed: npm install ioredis\n"
    assert.deepInclude(runWithout("ioredis", import.meta.dirname, program), { stdout, stderr: "" })
    assert.deepInclude(runWithout(null, import.meta.dirname, program), { stdout: "loaded\nbegun\n", stderr: "" })
  })

  it.effect("goes nowhere by a URL that cannot be read, and repeats nothing of it", () =>
    Effect.gen(function* () {
      const schemes = ["s3cr3t", "http://:s3cr3t@host", "xredis://:s3cr3t@host"]
      const databases = ["redis://:s3cr3t@host/name", "redis://:s3cr3t@host/-1", "redis://:s3cr3t@host/12345", "unix:/s3cr3t?db=name"]
      const places = ["redis:", "redis:///0", "unix:", "unix:/"]
      const asked = ["redis://:s3cr3t@host?tls=true", "rediss://:s3cr3t@host/0?ssl_cert_reqs=required", "redis://:s3cr3t@host?db=1", "unix:/s3cr3t?db=1&tls=true"]
      const octets = ["redis://s3cr3t%ff@host", "redis://:s3cr3t%ff@host", "unix:/s3cr3t%ff"]
      for (const url of [...schemes, ...databases, ...places, ...asked, ...octets]) {
        const made = yield* Effect.result(RedisClient.make({ url: Redacted.make(url) }))

        assert.isTrue(made._tag === "Failure", `${url} is taken for a place`)
        if (made._tag === "Success") return
        assert.include(made.failure.reason, "redis://user:password@host:port/database")
        assert.notInclude(made.failure.reason, "s3cr3t")
      }
    })
  )

  it.effect("tries to come back for as long as it is wanted, twice a second and more", () =>
    Effect.gen(function* () {
      const pauses: Array<unknown> = []
      const connect = vi.spyOn(Redis.prototype, "connect").mockImplementation(function (this: Redis) {
        pauses.push(...[1, 2, 10, 100, 1_000_000].map((times) => this.options.retryStrategy?.(times)))
        this.disconnect() // or its end would connect it
        return Promise.resolve()
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => connect.mockRestore()))

      yield* RedisClient.make({ url: Redacted.make("redis://host") })

      assert.deepStrictEqual(pauses, [50, 100, 500, 500, 500])
    })
  )

  it.live("comes back no more once it is closed, also where its server was away by then", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const redis = yield* RedisClient.make({ url: server.url })
          yield* redis.subscribe("news", () => {})
          yield* Effect.sleep("50 millis")
          yield* server.kill
          yield* Effect.sleep("50 millis")
        })
      )
      const connect = vi.spyOn(Redis.prototype, "connect")
      yield* Effect.addFinalizer(() => Effect.sync(() => connect.mockRestore()))

      yield* Effect.sleep("700 millis")

      assert.strictEqual(connect.mock.calls.length, 0)
    })
  )

  it.live("waits no longer for an answer that never ends, though some of it comes all the time", () =>
    Effect.gen(function* () {
      const drips: Array<NodeJS.Timeout> = []
      const server = createServer((socket) => {
        socket.on("error", () => {})
        socket.on("data", (bytes) => {
          for (const [, command] of bytes.toString().matchAll(/^\*\d+\r\n\$\d+\r\n(\w+)/gm)) {
            const begun = { info: "$9\r\nloading:0\r\n", evalsha: "$1000000\r\n" }[command!.toLowerCase()]
            socket.write(begun ?? "+OK\r\n")
            if (command === "evalsha") drips.push(setInterval(() => socket.write("x"), 10))
          }
        })
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => {
        server.close()
        drips.forEach(clearInterval)
      }))
      yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
      const { port } = server.address() as AddressInfo // it listens on a port
      const { run } = yield* RedisClient.make({ url: Redacted.make(`redis://127.0.0.1:${port}`) })

      yield* Effect.flip(run(RedisClient.script("return 1"), [])) // or it waits for ever

      assert.lengthOf(drips, 1)
    })
  )

  it.live("has its password in no error, however often a server repeats it", () =>
    Effect.gen(function* () {
      const parrot = createServer((socket) => {
        socket.on("error", () => {})
        socket.on("data", (bytes) => socket.write(`-ERR ${bytes.toString().repeat(2).replaceAll("\r\n", " ")}\r\n`))
      })
      yield* Effect.callback<void>((resume) => void parrot.listen(0, "127.0.0.1", () => resume(Effect.void)))
      const { port } = parrot.address() as AddressInfo // it listens on a port
      const { info } = yield* RedisClient.make({ url: Redacted.make(`redis://:s3cr3t@127.0.0.1:${port}`) })

      const { reason } = yield* Effect.flip(info("server"))
      parrot.close()

      assert.match(reason, /<redacted>.*<redacted>/)
      assert.notInclude(reason, "s3cr3t")
    })
  )
})

describe("RedisJobQueue on a connection that comes back", () => {
  it.live("wakes who waits, though the news of work were never cut off", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      const redis = yield* RedisClient.make({ url: server.url })
      const queue = yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, redis)
      const operator = yield* PrivateRedis.operator(server)
      yield* queue.offer([job("a")])
      // Only a connection that is subscribed is left alone.
      yield* Effect.repeat(Effect.promise(() => operator.call("CLIENT", "LIST", "TYPE", "pubsub")), { until: (list) => list !== "" })
      yield* Effect.promise(() => operator.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))

      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.hours(1)))
      yield* Fiber.join(waiting) // or it waits for ever

      assert.strictEqual(redis.connections(), 2)
    })
  )

  it.effect("is judged once a connection, and again where that changed while it was asked", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      const redis = yield* RedisClient.make({ url: server.url })
      const seen = { connections: 1, asked: 0 }
      const info: typeof redis.info = (section) =>
        Effect.tap(redis.info(section), () =>
          Effect.sync(() => {
            seen.asked += 1
            seen.connections = 2
          })
        )
      const service = { ...redis, info, connections: () => seen.connections }
      const queue = yield* Effect.provideService(RedisJobQueue.make, RedisClient.RedisClient, service)

      for (const subject of ["a", "b", "c"]) yield* queue.offer([job(subject)])

      assert.strictEqual(seen.asked, 2)
    })
  )
})
