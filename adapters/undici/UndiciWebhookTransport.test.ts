import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber, Layer, Result, Scope } from "effect"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import * as http from "node:http"
import { connect, type AddressInfo, type Socket } from "node:net"
import { setTimeout } from "node:timers/promises"
import { Worker } from "node:worker_threads"
import { onTestFinished, vi } from "vitest"
import { requestsMax } from "../../core/jobs/WebhookAttempts.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import * as NodeResolver from "../node/NodeResolver.ts"
import { Connection, NoAnswer } from "./Connection.ts"
import * as Dial from "./Dial.ts"
import { Origins } from "./Origins.ts"
import * as UndiciWebhookTransport from "./UndiciWebhookTransport.ts"

const policy = { allowHttp: true, allowedBlocks: ["127.0.0.0/24"] }
const body = new TextEncoder().encode("{}")

/** A receiver at all addresses of this machine, and what has connected to it. */
const receiver = (listener: http.RequestListener, { port = 0, host = "0.0.0.0" } = {}) =>
  Effect.acquireRelease(
    Effect.promise(() => {
      const server = http.createServer(listener)
      server.keepAliveTimeout = 0 // it neither closes connections nor says when it would
      const sockets = new Set<Socket>()
      server.on("connection", (socket) => void sockets.add(socket.on("close", () => sockets.delete(socket))))
      const made = () => ({ server, sockets, port: (server.address() as AddressInfo).port }) // it listens on a port
      return new Promise<ReturnType<typeof made>>((resolve) => server.listen(port, host, () => resolve(made())))
    }),
    ({ server }) =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  )

const answers: http.RequestListener = (request, response) => void request.resume().on("end", () => response.end("fine"))
const hangs: http.RequestListener = () => {}

/** A transport whose connections can be looked at, where all names lead to these addresses. */
const transport = (bounds: Partial<ConstructorParameters<typeof Origins>[0]> = {}, addresses: ReadonlyArray<string> = ["127.0.0.1"], idleTimeout?: number) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => new Origins({ connectionsPerHost: 32, idleConnectionsMax: 256, ...bounds })),
      (origins) => Effect.sync(() => origins.close())
    ),
    (origins) => {
      const { post } = UndiciWebhookTransport.make({ addresses: () => Effect.succeed(addresses) }, origins, idleTimeout === undefined ? {} : { idleTimeout })
      return {
        origins,
        post: (port: number, host = "hooks.example") =>
          post({ target: Result.getOrThrow(WebhookUrl.parse(`http://${host}:${port}/`, policy)), headers: {}, body })
      }
    }
  )

const until = (holds: () => boolean) => Effect.repeat(Effect.yieldNow, { until: holds })

describe("addresses in turn", () => {
  /** Attempts that end as told, after so many milliseconds; and when they began and were interrupted. */
  const script = (...attempts: ReadonlyArray<readonly [after: number, ending: "reaches" | "fails"] | "hangs">) => {
    const log: Array<string> = []
    const effects = attempts.map((attempt, index) =>
      Effect.gen(function* () {
        log.push(`${index} begins`)
        if (attempt === "hangs") return yield* Effect.never
        yield* Effect.sleep(attempt[0])
        return attempt[1] === "fails" ? yield* Effect.fail(`${index} failed`) : index
      }).pipe(Effect.onInterrupt(() => Effect.sync(() => void log.push(`${index} is interrupted`))))
    )
    const [first, ...others] = effects
    return { log, race: Effect.forkScoped(Dial.inTurn([first!, ...others], 250)) } // there is one
  }

  it.effect("are tried one by one while they fail", () =>
    Effect.gen(function* () {
      const { log, race } = script([0, "fails"], [0, "fails"], [10, "reaches"], [0, "reaches"])
      const fiber = yield* race
      yield* TestClock.adjust(20)

      assert.strictEqual(yield* Fiber.join(fiber), 2)
      assert.deepStrictEqual(log, ["0 begins", "1 begins", "2 begins"])
    })
  )

  it.effect("are tried beside one that takes long, and the first that is reached wins", () =>
    Effect.gen(function* () {
      const { log, race } = script("hangs", [300, "reaches"], [500, "reaches"], "hangs")
      const fiber = yield* race
      yield* TestClock.adjust(249)
      assert.deepStrictEqual(log, ["0 begins"])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(log, ["0 begins", "1 begins"])
      yield* TestClock.adjust(300)

      assert.strictEqual(yield* Fiber.join(fiber), 1)
      assert.sameMembers(log, ["0 begins", "1 begins", "2 begins", "0 is interrupted", "2 is interrupted"])
    })
  )

  it.effect("wait for the slow ones when the others have failed", () =>
    Effect.gen(function* () {
      const { race } = script([2_000, "reaches"], [10, "fails"], [10, "fails"])
      const fiber = yield* race
      yield* TestClock.adjust("2 seconds")

      assert.strictEqual(yield* Fiber.join(fiber), 0)
    })
  )

  it.effect("fail when all have failed, and are all let go when nobody waits any longer", () =>
    Effect.gen(function* () {
      const failing = script([0, "fails"], [10, "fails"])
      const fiber = yield* failing.race
      yield* TestClock.adjust("1 second")
      assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))

      const hanging = script("hangs", "hangs")
      const waiting = yield* hanging.race
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(waiting)
      assert.sameMembers(hanging.log, ["0 begins", "1 begins", "0 is interrupted", "1 is interrupted"])
    })
  )

  it("are of either family by turns, IPv4 first, and no more than four", () => {
    assert.deepStrictEqual(Dial.alternating(["::1"]), ["::1"])
    assert.deepStrictEqual(Dial.alternating(["::1", "::2", "1.1.1.1"]), ["1.1.1.1", "::1", "::2"])
    assert.deepStrictEqual(Dial.alternating(["1.1.1.1", "1.1.1.2", "1.1.1.3", "::1", "::2", "::3"]), ["1.1.1.1", "::1", "1.1.1.2", "::2"])
    assert.deepStrictEqual(Dial.alternating(["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5"]), ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"])
  })

  /** An address where connections are neither taken nor refused: nobody accepts those that wait, and no more may. */
  const deadAddress = Effect.acquireRelease(
    Effect.promise(async () => {
      const worker = new Worker(
        `const { createServer } = require("node:net")
         const { parentPort } = require("node:worker_threads")
         const server = createServer().listen({ port: 0, host: "127.0.0.9", backlog: 1 }, () => {
           parentPort.postMessage(server.address().port)
           Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
         })`,
        { eval: true }
      )
      const port = await new Promise<number>((resolve) => worker.once("message", resolve))
      const sockets: Array<Socket> = []
      for (let isTaken = true; isTaken; ) {
        const socket = connect({ host: "127.0.0.9", port }).on("error", () => {})
        sockets.push(socket)
        isTaken = await Promise.race([once(socket, "connect").then(() => true), setTimeout(100, false)])
      }
      return { worker, port, sockets }
    }),
    ({ worker, sockets }) =>
      Effect.promise(() => {
        for (const socket of sockets) socket.destroy()
        return worker.terminate()
      })
  )

  it.live("cost little where the first is dead", () =>
    Effect.gen(function* () {
      const { port } = yield* deadAddress
      const { post } = yield* transport({}, ["127.0.0.9", "127.0.0.1"])
      const { sockets } = yield* receiver(answers, { port, host: "127.0.0.1" })
      const connecting = () => process.getActiveResourcesInfo().filter((resource) => resource.includes("Connect")).length
      const before = connecting()

      const [took, { status }] = yield* Effect.timed(post(port))

      assert.strictEqual(status, 200)
      assert.isBelow(Duration.toMillis(took), 3_000)
      assert.strictEqual(sockets.size, 1)
      yield* until(() => connecting() === before)
    })
  )
})

describe("connections", () => {
  it.effect("to one receiver are bounded, and whoever waits for one gets it", () =>
    Effect.gen(function* () {
      const { post } = yield* transport({ connectionsPerHost: 3 })
      const waiting: Array<http.ServerResponse> = []
      const { port, sockets } = yield* receiver((_, response) => waiting.push(response))
      const posts = yield* Effect.forEach(Array.from({ length: 10 }), () => Effect.forkScoped(post(port)))
      for (let answered = 0; answered < 10; ) {
        yield* until(() => waiting.length === Math.min(3, 10 - answered))
        for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
        assert.isAtMost(waiting.length, 3)
        assert.isAtMost(sockets.size, 3)
        answered += 1
        waiting.shift()?.end()
      }

      yield* Fiber.joinAll(posts)
    })
  )

  it.effect("to one receiver are as many as a worker has requests in flight, claimed and new ones", () =>
    Effect.gen(function* () {
      const { port, sockets } = yield* receiver(hangs)
      const { post } = yield* WebhookTransport
      const target = Result.getOrThrow(WebhookUrl.parse(`http://127.0.0.1:${port}/`, policy))
      const all = 2 * requestsMax
      yield* Effect.forEach(Array.from({ length: all }), () => Effect.forkScoped(post({ target, headers: {}, body })))

      yield* until(() => sockets.size === all)
    }).pipe(Effect.provide(Layer.provide(UndiciWebhookTransport.layerWith({ connectionsPerHost: undefined } as object), NodeResolver.layer))) // as JavaScript leaves it out
  )

  it.effect("to all receivers that wait are bounded, and the one that has waited longest goes", () =>
    Effect.gen(function* () {
      const { origins, post } = yield* transport({ idleConnectionsMax: 3 })
      const { port, sockets } = yield* receiver(answers)
      for (let host = 0; host < 20; host++) yield* post(port, `h${host}.example`)

      assert.deepStrictEqual(origins.size, { receivers: 3, idle: 3 })
      yield* until(() => sockets.size === 3)
      const before = [...sockets]
      yield* post(port, "h17.example")
      assert.deepStrictEqual([...sockets], before)
      yield* post(port, "h16.example")
      assert.notDeepEqual([...sockets], before)
      yield* post(port, "h17.example")
      assert.deepStrictEqual(origins.size, { receivers: 3, idle: 3 })
    })
  )

  it.live("that nobody uses are closed in time, and nothing is left of their receivers", () =>
    Effect.gen(function* () {
      const { origins, post } = yield* transport({}, ["127.0.0.1"], 50)
      const promises = { "keep-alive": "timeout=60" }
      for (const headers of [{}, promises]) {
        const { port, sockets } = yield* receiver((request, response) => {
          response.writeHead(200, headers)
          answers(request, response)
        })
        for (let host = 0; host < 20; host++) yield* post(port, `h${host}.example`)

        const [took] = yield* Effect.timed(until(() => sockets.size === 0 && origins.size.idle === 0))

        assert.isBelow(Duration.toMillis(took), 3_000)
        assert.deepStrictEqual(origins.size, { receivers: 0, idle: 0 })
      }
    })
  )

  it.effect("that nobody uses are closed after four seconds unless told otherwise", () =>
    Effect.gen(function* () {
      const { origins, post } = yield* transport()
      const { port, sockets } = yield* receiver(answers)
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
      onTestFinished(() => void vi.useRealTimers())
      yield* post(port)
      yield* until(() => vi.getTimerCount() === 1)

      vi.advanceTimersByTime(3_999)
      for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
      assert.deepStrictEqual(origins.size, { receivers: 1, idle: 1 })
      vi.advanceTimersByTime(1)

      yield* until(() => sockets.size === 0 && origins.size.idle === 0)
    })
  )

  it.effect("bring back Retry-After, and the first of several", () =>
    Effect.gen(function* () {
      const { post } = yield* transport()
      for (const [values, retryAfter] of [[[], null], [["7"], "7"], [["7", "9"], "7"]] as const) {
        const { port } = yield* receiver((request, response) => {
          for (const value of values) response.appendHeader("Retry-After", value)
          answers(request, response)
        })

        assert.strictEqual((yield* post(port)).retryAfter, retryAfter)
      }
    })
  )

  it.effect("are closed with the transport", () =>
    Effect.gen(function* () {
      const { port, sockets } = yield* receiver(answers)
      const scope = yield* Scope.make()
      const { post } = yield* Scope.provide(transport({}, ["127.0.0.1"], 60_000), scope)
      yield* Effect.forEach(Array.from({ length: 20 }), () => post(port), { concurrency: "unbounded" })
      assert.isAbove(sockets.size, 0)

      yield* Scope.close(scope, Exit.void)

      yield* until(() => sockets.size === 0)
    })
  )

  it.effect("are closed after the transport, if their request was under way", () =>
    Effect.gen(function* () {
      const waiting: Array<http.ServerResponse> = []
      const { port, sockets } = yield* receiver((_, response) => waiting.push(response))
      const scope = yield* Scope.make()
      const { origins, post } = yield* Scope.provide(transport({}, ["127.0.0.1"], 60_000), scope)
      const posting = yield* Effect.forkScoped(post(port))
      yield* until(() => waiting.length === 1)

      yield* Scope.close(scope, Exit.void)
      waiting[0]?.end()

      assert.strictEqual((yield* Fiber.join(posting)).status, 200)
      yield* until(() => sockets.size === 0)
      assert.deepStrictEqual(origins.size, { receivers: 0, idle: 0 })
    })
  )

  it.effect("are closed with the layer", () =>
    Effect.gen(function* () {
      const { port, sockets } = yield* receiver(answers)
      const target = Result.getOrThrow(WebhookUrl.parse(`http://127.0.0.1:${port}/`, policy))
      const unasked = () => Effect.die("an address is not looked up")
      const resolver = Layer.succeed(Resolver, { addresses: unasked, txt: unasked, mx: unasked, cname: unasked })

      yield* WebhookTransport.use(({ post }) => post({ target, headers: {}, body })).pipe(
        Effect.provide(Layer.provide(UndiciWebhookTransport.layerWith({ idleTimeout: 60_000 }), resolver))
      )

      yield* until(() => sockets.size === 0)
    })
  )

  const double = (over: Partial<Connection>): Connection =>
    ({ address: "127.0.0.1", isOpen: true, whenClosed: () => {}, destroy: () => {}, ...over }) as Connection // all that is seen of one

  it.effect("that are closed do not wait", () =>
    Effect.gen(function* () {
      const { origins } = yield* transport()
      let isDestroyed = false
      const closed = double({
        isOpen: false,
        destroy: () => {
          isDestroyed = true
        }
      })

      yield* origins.within("http://hooks.example:80", Effect.sync(() => origins.keep("http://hooks.example:80", closed)))

      assert.isTrue(isDestroyed)
      assert.deepStrictEqual(origins.size, { receivers: 0, idle: 0 })
    })
  )

  for (const { isSent, title } of [
    { isSent: false, title: "that are gone before a byte is sent cost no attempt" },
    { isSent: true, title: "that are gone once something is sent do, and nothing is sent again" }
  ]) {
    it.effect(title, () =>
      Effect.gen(function* () {
        const { origins, post } = yield* transport()
        let requests = 0
        let isDestroyed = false
        const { port } = yield* receiver((request, response) => {
          requests += 1
          answers(request, response)
        })
        const origin = `http://hooks.example:${port}`
        const gone = double({
          destroy: () => {
            isDestroyed = true
          },
          post: () => Effect.fail(new NoAnswer({ isSent, isHeard: false, cause: new Error("gone") }))
        })
        yield* origins.within(origin, Effect.sync(() => origins.keep(origin, gone)))

        const ending = yield* Effect.result(post(port))

        assert.strictEqual(Result.isSuccess(ending), !isSent)
        assert.strictEqual(requests, isSent ? 0 : 1)
        assert.isTrue(isDestroyed)
        assert.deepStrictEqual(origins.size, isSent ? { receivers: 0, idle: 0 } : { receivers: 1, idle: 1 })
      })
    )
  }

  it.effect("say whether they were gone before a byte was sent", () =>
    Effect.gen(function* () {
      let isLeaving = false
      const { port } = yield* receiver((request, response) => {
        if (isLeaving) request.socket.destroy()
        else answers(request, response)
      })
      const opened = Effect.promise(async () => {
        const socket = connect({ host: "127.0.0.1", port }).on("error", () => {})
        await once(socket, "connect")
        const options = { origin: `http://hooks.example:${port}`, idleTimeout: 4_000 }
        return { socket, connection: new Connection({ address: "127.0.0.1", socket }, options) }
      })
      const request = { path: "/", headers: {}, body }
      const { connection, socket } = yield* opened
      assert.strictEqual((yield* connection.post(request)).status, 200)
      assert.isTrue(connection.isOpen)
      socket.destroy()
      assert.isFalse(connection.isOpen)
      assert.isFalse((yield* Effect.flip(connection.post(request))).isSent)

      isLeaving = true
      assert.isTrue((yield* Effect.flip((yield* opened).connection.post(request))).isSent)
    })
  )

  for (const certified of [null, "hooks.example"]) {
    for (const noticed of ["end", "close"]) {
      it.live(`that a receiver leaves before anything is said end at once: ${certified === null ? "in the clear" : "with TLS"}, its leave known by ${noticed}`, () =>
        Effect.gen(function* () {
          const { server, port } = yield* receiver(answers)
          server.on("connection", (socket) => socket.end())
          /** As a process that is busy sees it: connected, and left by now. */
          const late = (socket: Socket) => {
            const emit = socket.emit.bind(socket) as (name: string, ...args: ReadonlyArray<unknown>) => boolean
            const whenLeft = () => {
              socket.once(noticed, () => emit("connect"))
              return true
            }
            socket.emit = (name: string, ...args: ReadonlyArray<unknown>) => (name === "connect" ? whenLeft() : emit(name, ...args))
          }

          const dialled = yield* Effect.result(Dial.make([])({ addresses: ["127.0.0.1"], port, certified }, late))
          const told = Result.isFailure(dialled)
            ? dialled.failure
            : yield* Effect.flip(new Connection(dialled.success, { origin: `http://hooks.example:${port}`, idleTimeout: 4_000 }).post({ path: "/", headers: {}, body }))

          assert.strictEqual(told._tag, certified === null ? "NoAnswer" : "DialFailed")
        }).pipe(Effect.timeout("4 seconds"))
      )
    }
  }

  it.live("are given up where hints come and no answer, and not where it comes behind some", () =>
    Effect.gen(function* () {
      const hints = (count: number): http.RequestListener => ({ socket }) =>
        void socket.write(`${"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(count)}${count > 16 ? "" : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}`)
      const few = yield* receiver(hints(16))
      const many = yield* receiver(hints(17))
      const { post } = yield* transport()

      assert.strictEqual((yield* post(few.port)).status, 200)
      assert.strictEqual((yield* Effect.flip(post(many.port))).reason, "network_error")
    })
  )

  it.live("leave nothing behind, wherever a hundred requests are interrupted", () =>
    Effect.gen(function* () {
      const { origins, post } = yield* transport({}, ["127.0.0.1", "127.0.0.2"])
      const { port, sockets } = yield* receiver(hangs)
      const open = () => process.getActiveResourcesInfo().filter((resource) => /TCP|TLS|Timeout|Connect/.test(resource)).length
      const before = open()
      for (let turns = 0; turns < 100; turns++) {
        const fiber = yield* Effect.forkScoped(post(port))
        for (let turn = 0; turn < turns % 20; turn++) yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
      }

      yield* until(() => sockets.size === 0 && open() <= before)

      assert.deepStrictEqual(origins.size, { receivers: 0, idle: 0 })
    })
  )
})

describe("options that are none", () => {
  for (const options of [{ connectionsPerHost: 0 }, { connectionsPerHost: Number.NaN }, { idleConnectionsMax: -1 }, { idleTimeout: Infinity }, { idleTimeout: "4000" }]) {
    it.effect(`are refused: ${JSON.stringify(options)}`, () =>
      Effect.gen(function* () {
        const transport = UndiciWebhookTransport.layerWith(options as UndiciWebhookTransport.Options) // as JavaScript can give them

        const built = yield* Effect.exit(Effect.scoped(Layer.build(Layer.provide(transport, Layer.succeed(Resolver, {} as never)))))

        assert.include(String(Exit.isFailure(built) && Cause.squash(built.cause)), `TypeError: ${Object.keys(options)[0]} wants a whole number from `)
      }))
  }
})
