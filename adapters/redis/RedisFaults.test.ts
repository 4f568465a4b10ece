import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Fiber, Logger, Redacted, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { Redis } from "ioredis"
import { createServer, type AddressInfo } from "node:net"
import { inspect } from "node:util"
import { vi } from "vitest"
import { realm } from "../../conformance/fixtures.ts"
import type { Guard } from "../../core/model/RateLimit.ts"
import { JobQueue, type Job, type Lease } from "../../core/ports/JobQueue.ts"
import { RateLimiter } from "../../core/ports/RateLimiter.ts"
import * as PrivateRedis from "./PrivateRedis.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"
import * as RedisRateLimiter from "./RedisRateLimiter.ts"

const of = realm()
const job = (subject: string, dueAt = 0): Job => ({ kind: "submit", subject, realm: of, group: "g", dueAt })
const guard = (limit = 5): Guard => ({ scope: "key", bucket: "b", limit, window: "minute" })

const process = Effect.fnUntraced(function* (options: RedisClient.Options) {
  const redis = yield* RedisClient.make(options)
  const provide = Effect.provideService(RedisClient.RedisClient, redis)
  return { redis, queue: yield* provide(RedisJobQueue.make), limiter: yield* provide(RedisRateLimiter.make) }
})

const begin = (options: PrivateRedis.Options = {}) =>
  Effect.gen(function* () {
    const server = yield* PrivateRedis.open(options)
    return { server, ...(yield* process({ url: server.url })) }
  })

/** What an operator does to the server. */
const order = (server: PrivateRedis.PrivateRedis, ...command: ReadonlyArray<string>): Effect.Effect<unknown, never, Scope.Scope> =>
  Effect.gen(function* () {
    const client = yield* PrivateRedis.operator(server)
    return yield* Effect.promise(() => client.call(command[0]!, ...command.slice(1)))
  })

const claim = ({ claim }: JobQueue["Service"]) =>
  claim({ kinds: ["submit"], limit: 10, visibilityTimeout: Duration.minutes(1), inFlightMax: 10 })

/** Real time, in which the other side does what it does. */
const pass = (duration: Duration.Input) => TestClock.withLive(Effect.sleep(duration))

/** How many milliseconds of real time it took. */
const timed = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const start = performance.now()
    const result = yield* call
    return { result, ms: performance.now() - start }
  })

/** What a call fails with, and when. */
const failure = <A, E>(call: Effect.Effect<A, E>) =>
  Effect.map(Effect.orDie(timed(Effect.flip(call))), ({ result, ms }) => ({ error: result, ms }))

/** When it succeeds. */
const recovered = <A, E>(call: Effect.Effect<A, E>) =>
  Effect.map(timed(Effect.eventually(Effect.onError(call, () => pass("5 millis")))), ({ ms }) => ms)

const assertAway = Effect.fnUntraced(function* (queue: JobQueue["Service"], limiter: RateLimiter["Service"], msMax: number) {
  for (const call of [claim(queue), queue.offer([job("x")]), queue.epoch, queue.throttle("deliver", "e", 1)]) {
    const { ms, error } = yield* failure<unknown, { readonly _tag: string }>(call)
    assert.strictEqual(error._tag, "QueueUnavailable")
    assert.isBelow(ms, msMax)
  }
  const { ms, error } = yield* failure(limiter.take([guard()]))
  assert.strictEqual(error._tag, "RateLimiterUnavailable")
  assert.isBelow(ms, msMax)
})

describe("a Redis that loses what it holds", () => {
  it.effect("shows a new epoch after FLUSHALL, and goes on empty", () =>
    Effect.gen(function* () {
      const { server, queue } = yield* begin()
      const before = yield* queue.epoch
      yield* queue.offer([job("a"), job("b")])
      const [lease] = yield* claim(queue)

      yield* order(server, "FLUSHALL")

      assert.notStrictEqual(yield* queue.epoch, before)
      assert.strictEqual(yield* queue.epoch, yield* queue.epoch)
      assert.deepStrictEqual(yield* claim(queue), [])
      assert.strictEqual((yield* Effect.flip(queue.complete(lease!)))._tag, "LeaseLost")
      yield* queue.offer([job("a")])
      assert.deepStrictEqual((yield* claim(queue)).map(({ claims }) => claims), [1])
    })
  )

  it.effect("shows a new epoch after it was killed and started empty, and is used again within a second", () =>
    Effect.gen(function* () {
      const { server, queue, limiter } = yield* begin()
      const before = yield* queue.epoch
      yield* queue.offer([job("a")])

      yield* server.kill
      yield* assertAway(queue, limiter, 300)
      yield* TestClock.adjust("30 seconds")
      yield* pass("1500 millis")
      yield* assertAway(queue, limiter, 100)
      yield* server.start
      const ms = yield* recovered(queue.offer([job("b")]))

      assert.isBelow(ms, 1_000)
      assert.notStrictEqual(yield* queue.epoch, before)
      assert.deepStrictEqual((yield* claim(queue)).map((lease) => lease.job.subject), ["b"])
      assert.isNull((yield* limiter.take([guard()])).refusedBy)
    })
  )

  it.effect("shows a new epoch after it went back to an older state, and fences the leases since", () =>
    Effect.gen(function* () {
      const { server, queue } = yield* begin()
      const before = yield* queue.epoch
      yield* queue.offer([job("a"), job("b")])
      yield* order(server, "SAVE")
      const leases = yield* claim(queue)
      yield* queue.complete(leases[0]!)

      yield* server.kill
      yield* server.start
      yield* recovered(queue.epoch)

      assert.notStrictEqual(yield* queue.epoch, before)
      assert.strictEqual((yield* Effect.flip(queue.complete(leases[1]!)))._tag, "LeaseLost")
      const again = yield* claim(queue)
      assert.strictEqual(again.length, 2)
      assert.strictEqual(new Set([...leases, ...again].map(({ token }) => token)).size, 4)
    })
  )

  it.effect("goes on with scripts that it has forgotten", () =>
    Effect.gen(function* () {
      const { server, queue, limiter } = yield* begin()
      yield* queue.offer([job("a")])
      yield* claim(queue)
      yield* limiter.take([guard()])

      yield* order(server, "SCRIPT", "FLUSH")

      yield* queue.offer([job("b")])
      assert.strictEqual((yield* claim(queue)).length, 1)
      assert.strictEqual((yield* limiter.take([guard()])).standings[0]?.remaining, 3)
    })
  )
})

describe("a Redis that loses single keys", () => {
  const jobs = ["a", "b", "c", "d"].map((subject) => job(subject))

  const take = ({ claim }: JobQueue["Service"], limit: number) => claim({ kinds: ["submit"], limit, visibilityTimeout: Duration.minutes(1), inFlightMax: 4 })
  const subjects = (leases: ReadonlyArray<Lease>) => leases.map(({ job }) => job.subject).sort()

  /** One job held, three due, one in a while, and a throttle. */
  const fill = Effect.fnUntraced(function* (server: PrivateRedis.PrivateRedis, queue: JobQueue["Service"]) {
    yield* order(server, "FLUSHALL")
    yield* queue.offer([...jobs, { ...job("e", 86_400_000), group: "later" }])
    yield* queue.throttle("submit", "other", 1)
    const [held] = yield* take(queue, 1)
    return held!
  })

  /** With every key in turn; the lease that was held before is completed after it, or runs out. */
  const each = Effect.fnUntraced(function* (lose: (server: PrivateRedis.PrivateRedis, key: string, queue: JobQueue["Service"]) => Effect.Effect<unknown, unknown, Scope.Scope>) {
    const { server, queue } = yield* begin()
    yield* fill(server, queue)
    const keys = (yield* order(server, "KEYS", "*")) as ReadonlyArray<string>
    assert.isAtLeast(keys.length, 12)
    for (const [key, isCompleted] of keys.flatMap((key) => [[key, false], [key, true]] as const)) {
      const held = yield* fill(server, queue)
      yield* order(server, "DEL", key)
      yield* lose(server, key, queue)
      if (isCompleted) yield* Effect.ignore(queue.complete(held))
      yield* queue.offer(jobs)
      yield* TestClock.adjust("2 minutes")
      yield* queue.offer(jobs)

      assert.deepStrictEqual(subjects(yield* take(queue, 10)), ["a", "b", "c", "d"], key)
    }
  })

  it.effect("hands out at once what is offered again", () =>
    each((server, key, queue) =>
      Effect.gen(function* () {
        const first = yield* take(queue, 1)
        yield* order(server, "DEL", key)
        yield* queue.offer(jobs)

        const all = subjects([...first, ...(yield* take(queue, 10))])

        for (const subject of ["b", "c", "d"]) assert.include(all, subject, key)
      })
    )
  )

  it.effect("stands still for nobody, and has all of it again when another program's key is away", () =>
    each((server, key, queue) =>
      Effect.gen(function* () {
        yield* order(server, "RPUSH", key, "of another program")
        yield* Effect.ignore(take(queue, 1))
        yield* Effect.ignore(take(queue, 1))
        yield* order(server, "DEL", key)
        yield* take(queue, 10)
      })
    )
  )
})

describe("a Redis that another program writes to", () => {
  it.effect("fails calls that meet its keys, and says where they are", () =>
    Effect.gen(function* () {
      const { server, queue, limiter } = yield* begin()
      yield* order(server, "SET", "{mailroom}:submit:leased", "of another program")
      yield* order(server, "SET", "{mailroom}:minute:key b", "of another program")

      for (const { error } of [yield* failure<unknown, { readonly cause: unknown }>(claim(queue)), yield* failure(limiter.take([guard()]))]) {
        assert.match(String(error.cause), /WRONGTYPE .*; a key that begins with \{mailroom\}: is of another program/)
      }
    })
  )
})

describe("a Redis whose user may not tell of news, as none may that version 7 is not told of,", () => {
  it.effect("takes jobs and hands them out", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open({ isOverTcp: true })
      yield* order(server, "ACL", "SETUSER", "name", "on", ">password", "~{mailroom}:*", "+@all", "resetchannels")
      const { queue } = yield* process({ url: Redacted.make(Redacted.value(server.url).replace("redis://", "redis://name:password@")) })
      yield* order(server, "HSET", "{mailroom}:waiting", "submit", "1") // somebody waits

      yield* queue.offer([job("a")])

      assert.strictEqual(yield* order(server, "HEXISTS", "{mailroom}:waiting", "submit"), 0) // it was to be told
      assert.deepStrictEqual((yield* claim(queue)).map(({ job }) => job.subject), ["a"])
    })
  )
})

describe("a Redis that is away", () => {
  it.effect("keeps no process from starting, and is used once it comes", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      yield* server.kill

      const { queue, limiter } = yield* process({ url: server.url })
      yield* assertAway(queue, limiter, 300)
      yield* server.start

      assert.isBelow(yield* recovered(queue.offer([job("a")])), 1_000)
      assert.strictEqual((yield* claim(queue)).length, 1)
      assert.isNull((yield* limiter.take([guard()])).refusedBy)
    })
  )

  it.effect("fails every call within about a second when it stands still, and has lost nothing when it goes on", () =>
    Effect.gen(function* () {
      const { server, queue, limiter } = yield* begin()
      const before = yield* queue.epoch
      yield* queue.offer([job("a")])
      const [held] = yield* claim(queue)
      yield* queue.offer([job("b", 60_000)])

      yield* server.freeze
      yield* assertAway(queue, limiter, 1_500)
      yield* assertAway(queue, limiter, 300)
      yield* pass("2 seconds")
      yield* assertAway(queue, limiter, 300)
      yield* server.thaw
      const ms = yield* recovered(queue.complete(held!))

      assert.isBelow(ms, 1_500)
      assert.strictEqual(yield* queue.epoch, before)
      yield* TestClock.adjust("3 minutes")
      assert.include((yield* claim(queue)).map((lease) => lease.job.subject), "b")
    })
  )

  it.effect("makes no one spin who waits for work, and wakes him when it is back", () =>
    Effect.gen(function* () {
      const { server, queue } = yield* begin()
      yield* server.kill
      const asked = vi.spyOn(Redis.prototype, "evalsha")
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.minutes(10)))
      yield* pass("300 millis")
      assert.isUndefined(waiting.pollUnsafe())
      assert.isAtMost(asked.mock.calls.length, 2)

      yield* server.start
      yield* recovered(queue.offer([job("a")]))

      yield* Fiber.join(waiting)
      asked.mockRestore()
    })
  )

  it.live("misses no work while only the news of it are cut off", () =>
    Effect.gen(function* () {
      const { server, queue } = yield* begin()
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.minutes(10)))
      yield* Effect.sleep("100 millis")

      yield* order(server, "CLIENT", "KILL", "TYPE", "pubsub")
      yield* queue.offer([job("a")])

      assert.isBelow((yield* timed(Fiber.join(waiting))).ms, 1_000)
    })
  )

  it.effect("lets him who waits for work go when his time is over", () =>
    Effect.gen(function* () {
      const { server, queue } = yield* begin()
      yield* server.freeze
      const waiting = yield* Effect.forkScoped(queue.awaitWork(["submit"], Duration.seconds(10)))

      yield* TestClock.adjust("10 seconds")

      yield* Fiber.join(waiting)
    })
  )

  it.live("lets a process end at once, and those who wait for an answer with it", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      const begun = Effect.gen(function* () {
        const { queue } = yield* process({ url: server.url })
        yield* server.freeze
        const offering = yield* Effect.forkDetach(Effect.flip(queue.offer([job("a")])))
        yield* Effect.sleep("20 millis")
        return { queue, offering }
      })

      const { result, ms } = yield* timed(Effect.scoped(begun))

      assert.isBelow(ms, 5_000)
      assert.strictEqual((yield* Fiber.join(result.offering))._tag, "QueueUnavailable")
      assert.strictEqual((yield* Effect.flip(result.queue.offer([job("b")])))._tag, "QueueUnavailable")
      yield* server.thaw
    })
  )
})

describe("a Redis that cannot keep a queue", () => {
  it.effect("fails calls while its memory is full, and the queue is whole afterwards", () =>
    Effect.gen(function* () {
      const { server, queue } = yield* begin()
      yield* queue.offer([job("a")])
      const [lease] = yield* claim(queue)

      yield* order(server, "CONFIG", "SET", "maxmemory", "1")
      const { error } = yield* failure(queue.offer([job("b")]))
      assert.strictEqual(error._tag, "QueueUnavailable")
      assert.match(String(error.cause), /OOM/)
      yield* order(server, "CONFIG", "SET", "maxmemory", "0")

      yield* queue.complete(lease!)
      yield* queue.offer([job("c")])
      assert.deepStrictEqual((yield* claim(queue)).map(({ job }) => job.subject), ["c"])
    })
  )

  it.effect("is refused when it may evict what the queue holds, also when that is set later", () =>
    Effect.gen(function* () {
      const { server, queue, limiter } = yield* begin({ settings: ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"] })
      const { error } = yield* failure(queue.offer([job("a")]))
      assert.strictEqual(error._tag, "QueueUnavailable")
      assert.match(String(error.cause), /maxmemory-policy is allkeys-lru/)
      assert.isNull((yield* limiter.take([guard()])).refusedBy)

      yield* order(server, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
      yield* queue.epoch
      yield* queue.offer([job("a")])
      assert.strictEqual((yield* claim(queue)).length, 1)

      yield* order(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
      assert.strictEqual((yield* failure(queue.epoch)).error._tag, "QueueUnavailable")
      assert.strictEqual((yield* failure(queue.offer([job("b")]))).error._tag, "QueueUnavailable")
    })
  )

  it.effect("is taken while it has all the memory that it wants, and judged anew with each connection", () =>
    Effect.gen(function* () {
      const { server, redis, queue } = yield* begin({ settings: ["--maxmemory", "0", "--maxmemory-policy", "allkeys-lru"] })
      yield* queue.offer([job("a")])

      yield* order(server, "CONFIG", "SET", "maxmemory", "64mb")
      yield* order(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      yield* Effect.repeat(pass("10 millis"), { until: () => redis.connections() > 1, times: 500 })

      assert.match(String((yield* failure(queue.offer([job("b")]))).error.cause), /maxmemory-policy is allkeys-lru/)
    })
  )

  it.effect("fails calls while it is a replica, and shows a new epoch after that", () =>
    Effect.gen(function* () {
      const { server, queue, limiter } = yield* begin()
      const before = yield* queue.epoch
      yield* queue.offer([job("a")])

      yield* order(server, "REPLICAOF", "127.0.0.1", "1")
      const { error } = yield* failure(queue.offer([job("b")]))
      assert.match(String(error.cause), /READONLY|no connection/)
      assert.strictEqual((yield* failure(limiter.take([guard()]))).error._tag, "RateLimiterUnavailable")
      yield* order(server, "REPLICAOF", "NO", "ONE")

      yield* recovered(queue.offer([job("b")]))
      assert.notStrictEqual(yield* queue.epoch, before)
    })
  )
})

describe("a password of Redis", () => {
  const secret = "s3cr3t/päss word"
  const urlWith = (server: PrivateRedis.PrivateRedis, password: string) =>
    Redacted.make(Redacted.value(server.url).replace("redis://", `redis://:${encodeURIComponent(password)}@`))

  /** All that an operator could see of an outcome: each error and its causes in depth, and what was printed. */
  const seen = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const printed: Array<string> = []
      const spies = (["log", "warn", "error"] as const).map((name) =>
        vi.spyOn(console, name).mockImplementation((...words: ReadonlyArray<unknown>) => void printed.push(inspect(words, { depth: 20 })))
      )
      const logger = Logger.make(({ message, cause }) => void printed.push(inspect([message, cause], { depth: 20 })))
      const exit = yield* effect.pipe(
        Effect.tapCause((cause) => Effect.logError("refused", cause)),
        Effect.exit,
        Effect.provide(Logger.layer([logger, Logger.consolePretty()])),
        Effect.ensuring(Effect.sync(() => spies.forEach((spy) => spy.mockRestore())))
      )
      const cause = Exit.isFailure(exit) ? [Cause.pretty(exit.cause), inspect(exit.cause, { depth: 20, showHidden: true }), JSON.stringify(exit.cause)] : []
      return { exit, text: [...printed, ...cause].join("\n") }
    })

  it.live("opens the server, and is in no error and no log when it is wrong, or its server is away", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open({ isOverTcp: true, settings: ["--requirepass", secret] })
      const right = yield* process({ url: urlWith(server, secret) })
      yield* right.queue.offer([job("a")])

      const wrong = yield* seen(Effect.flatMap(process({ url: urlWith(server, `${secret}!`) }), ({ queue }) => queue.offer([job("a")])))
      yield* server.kill
      const away = yield* seen(right.queue.offer([job("b")]))

      for (const { exit, text } of [wrong, away]) {
        assert.isTrue(Exit.isFailure(exit))
        assert.notInclude(text, secret)
        assert.notInclude(text, encodeURIComponent(secret))
        assert.include(text, "Redis is unavailable")
        assert.notInclude(text, "Unhandled")
      }
      assert.match(wrong.text, /WRONGPASS/)
      assert.match(away.text, /there is no connection/)
    })
  )

  it.live("is in no error of a server that repeats what it is sent", () =>
    Effect.gen(function* () {
      const parrot = createServer((socket) => {
        socket.on("error", () => {})
        socket.on("data", (bytes) => socket.write(`-ERR unknown command, with args ${bytes.toString().replaceAll("\r\n", " ")}\r\n`))
      })
      yield* Effect.callback<void>((resume) => void parrot.listen(0, "127.0.0.1", () => resume(Effect.void)))
      const { port } = parrot.address() as AddressInfo // it listens on a port
      const url = Redacted.make(`redis://:${encodeURIComponent(secret)}@127.0.0.1:${port}`)

      const { exit, text } = yield* seen(Effect.flatMap(process({ url }), ({ queue }) => queue.offer([job("a")])))
      parrot.close()

      assert.isTrue(Exit.isFailure(exit))
      assert.match(text, /unknown command, with args/)
      assert.notInclude(text, secret)
    })
  )

  it.live("is not in what is said of a URL that cannot be read", () =>
    Effect.gen(function* () {
      for (const url of [`redis://:${secret}@host:99999/0`, `http://:${secret}@host`, `redis://:${secret}@host/name`, `redis://:%ff${secret}@host`, secret]) {
        const { exit, text } = yield* seen(RedisClient.make({ url: Redacted.make(url) }))

        assert.isTrue(Exit.isFailure(exit))
        assert.include(text, "redis://user:password@host:port/database")
        assert.notInclude(text, secret)
      }
    })
  )
})
