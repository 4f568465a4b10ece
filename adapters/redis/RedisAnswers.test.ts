import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Redacted } from "effect"
import { Redis } from "ioredis"
import { createServer, type AddressInfo, type Socket } from "node:net"
import { vi } from "vitest"
import { realm } from "../../conformance/fixtures.ts"
import * as RedisClient from "./RedisClient.ts"
import * as RedisJobQueue from "./RedisJobQueue.ts"
import * as RedisRateLimiter from "./RedisRateLimiter.ts"

const text = (content: string) => `$${content.length}\r\n${content}\r\n`
const list = (...parts: ReadonlyArray<string>) => `*${parts.length}\r\n${parts.join("")}`

/** As a Redis answers what needs no script, in the words of RESP. */
const usual: Readonly<Record<string, string>> = {
  info: text("run_id:1\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n"),
  time: list(text("0"), text("0"))
}

/** A queue and a limiter on something that speaks Redis's protocol; `answers`: by the command, and what scripts are answered with. */
const begin = Effect.fnUntraced(function* (answers: Record<string, string>) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => {})
    socket.on("data", (bytes) => {
      for (const [, command] of bytes.toString().matchAll(/^\*\d+\r\n\$\d+\r\n(\w+)/gm)) {
        const name = command!.toLowerCase()
        socket.write({ ...usual, ...answers }[name] ?? "+OK\r\n")
      }
    })
  })
  yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      server.close()
      for (const socket of sockets) socket.destroy()
    })
  )
  const { port } = server.address() as AddressInfo // it listens on a port
  const redis = yield* RedisClient.make({ url: Redacted.make(`redis://127.0.0.1:${port}`) })
  const provide = Effect.provideService(RedisClient.RedisClient, redis)
  const [queue, limiter] = [yield* provide(RedisJobQueue.make), yield* provide(RedisRateLimiter.make)]
  return {
    redis,
    epoch: queue.epoch,
    offer: queue.offer([{ kind: "submit", subject: "a", realm: realm(), group: "g", dueAt: 0 }]),
    claim: queue.claim({ kinds: ["submit"], limit: 5, visibilityTimeout: Duration.minutes(1), inFlightMax: 5 }),
    wait: queue.awaitWork(["submit"], Duration.hours(1)),
    take: limiter.take([{ scope: "key", bucket: "b", limit: 5, window: "minute" }])
  }
})

const assertStrange = <A>(call: Effect.Effect<A, { readonly _tag: string; readonly cause: unknown }>, tag: string, what: string) =>
  Effect.gen(function* () {
    const ended = yield* Effect.result(call)
    assert.isTrue(ended._tag === "Failure", `${what} is taken for an answer`)
    if (ended._tag === "Success") return
    assert.strictEqual(ended.failure._tag, tag)
    assert.match(String(ended.failure.cause), /what answers there is no Redis/, what)
  })

describe("what answers in the place of a Redis", () => {
  const strange: Readonly<Record<string, string>> = {
    "a number": ":1\r\n",
    nothing: "$-1\r\n",
    "no list": "*-1\r\n",
    "an empty list": list(),
    "a word": "+OK\r\n",
    "a long text": text("x".repeat(1_000)),
    "numbers beyond the asked": list(...Array.from({ length: 9 }, () => ":1\r\n")),
    "a list in a list": list(list(":1\r\n"), ":1\r\n", "$-1\r\n"),
    "texts beyond the asked": list(...Array.from({ length: 9 }, () => text("lost"))),
    "another text in a list": list(text("done")),
    "half a lease": list(text(""), text("1"), text("submit"), text("a"))
  }
  for (const [what, answer] of Object.entries(strange)) {
    it.live(`takes no job, has none, and counts nothing: ${what}`, () =>
      Effect.gen(function* () {
        const { offer, claim, take } = yield* begin({ evalsha: answer })

        yield* assertStrange(offer, "QueueUnavailable", what)
        yield* assertStrange(claim, "QueueUnavailable", what)
        yield* assertStrange(take, "RateLimiterUnavailable", what)
      })
    )
  }

  it.live("refuses by no guard that it was not asked about, and lets nothing pass with less than nothing", () =>
    Effect.gen(function* () {
      const answers = { evalsha: "" }
      const { take } = yield* begin(answers)

      for (const figures of [[2, 4, 60_000], [-1, 4, 60_000], [0, -1, 60_000], [0, 4, -1]]) {
        answers.evalsha = list(...figures.map((figure) => `:${figure}\r\n`))
        yield* assertStrange(take, "RateLimiterUnavailable", String(figures))
      }
    })
  )

  it.live("takes no job by an answer that says nothing of what is new, or something else than whether there is more", () =>
    Effect.gen(function* () {
      const answers = { evalsha: "" }
      const { claim } = yield* begin(answers)

      for (const parts of [[""], ["done", "1"]]) {
        answers.evalsha = list(...parts.map(text))
        yield* assertStrange(claim, "QueueUnavailable", String(parts))
      }
    })
  )

  for (const [when, next] of [["at no time that can be read", text("soon")], ["at a time that is no text", ":1\r\n"], ["never", text("")]] as const) {
    it.live(`makes no one spin who waits for work that falls due ${when}`, () =>
      Effect.gen(function* () {
        const { claim, wait } = yield* begin({ evalsha: next })
        const asked = vi.spyOn(Redis.prototype, "evalsha")
        yield* Effect.addFinalizer(() => Effect.sync(() => asked.mockRestore()))

        const waiting = yield* Effect.forkScoped(wait)
        // Behind each of these answers, whoever spins has had one of its own. Who waits looks anew for each connection that is there.
        for (let asks = 0; asks < 10; asks++) yield* Effect.flip(claim)

        assert.isUndefined(waiting.pollUnsafe())
        assert.isAtMost(asked.mock.calls.length, 10 + 4)
      })
    )
  }

  it.live("has no lease that cannot be read", () =>
    Effect.gen(function* () {
      const whole = ["submit", "a", "g", JSON.stringify(["t", "sandbox"]), "0", "token", "1"]
      const realms = ["", "[1,2]", '["t"]', '["t","sandbox","a"]', "{"].map((part) => [3, part] as const)
      const broken = [[0, "scan"], ...realms, [4, "soon"], [4, "Infinity"], [6, "often"], [6, "Infinity"]] as const
      const leased = (parts: ReadonlyArray<string>) => list(...["", "1", ...parts].map(text))
      const answers = { evalsha: leased(whole) }
      const { claim } = yield* begin(answers)

      assert.deepStrictEqual((yield* claim).map(({ job }) => job.subject), ["a"])
      for (const [at, part] of broken) {
        answers.evalsha = leased(whole.with(at, part))
        yield* assertStrange(claim, "QueueUnavailable", part)
      }
    })
  )

  it.live("is told where its key of another program lies, also in the words of Redis 6", () =>
    Effect.gen(function* () {
      const { claim } = yield* begin({ evalsha: "-ERR Error running script (call to f_1): @user_script:12: @user_script: 12: WRONGTYPE Operation against a key\r\n" })

      const { cause } = yield* Effect.flip(claim)

      assert.match(String(cause), /WRONGTYPE .*; a key that begins with \{mailroom\}: is of another program/)
    })
  )

  for (const [words, refusal] of [
    ["Redis 6", "ERR Error running script (call to f_1): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica."],
    ["Redis 7", "READONLY You can't write against a read only replica. script: 1, on @user_script:12."],
    ["a replica that has lost its primary", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."]
  ] as const) {
    it.live(`is looked for anew when it writes nothing any more, for another may be the primary by now: in the words of ${words}`, () =>
      Effect.gen(function* () {
        const { redis, offer } = yield* begin({ evalsha: `-${refusal}\r\n` })

        const isBack = yield* Deferred.make<void>()
        yield* redis.subscribe("any", () => redis.connections() > 1 && Deferred.doneUnsafe(isBack, Exit.void))

        const { cause } = yield* Effect.flip(offer)
        yield* Deferred.await(isBack) // or it waits for ever

        assert.match(String(cause), /READONLY|MASTERDOWN|no connection/)
      })
    )
  }

  it.live("keeps no process from starting while it loads what it holds, and says so", () =>
    Effect.gen(function* () {
      const { offer } = yield* begin({ info: text("loading:1\r\nloading_eta_seconds:3600\r\n") }) // or it starts for ever

      const { cause } = yield* Effect.flip(offer)

      assert.match(String(cause), /there is no connection: it has yet to load its data/)
    })
  )

  it.live("blocks nothing: calls go on when a Redis answers again", () =>
    Effect.gen(function* () {
      const answers = { evalsha: "$-1\r\n" }
      const { offer, claim, take } = yield* begin(answers)
      yield* Effect.ignore(offer)

      answers.evalsha = list(text(""))
      yield* offer
      answers.evalsha = list(text(""), text(""))
      assert.deepStrictEqual(yield* claim, [])
      answers.evalsha = list(":0\r\n", ":4\r\n", ":60000\r\n")
      assert.isNull((yield* take).refusedBy)
    })
  )

  it.live("shows a new epoch when it was started again, though all else is as it was", () =>
    Effect.gen(function* () {
      const answers = { evalsha: text("content"), info: text("run_id:1\r\nmaster_replid:a\r\nloading:0\r\n") }
      const { epoch } = yield* begin(answers)
      const before = yield* epoch

      answers.info = text("run_id:2\r\nmaster_replid:a\r\nloading:0\r\n")

      assert.notStrictEqual(yield* epoch, before)
    })
  )

  it.live("is no queue if it does not say what it is, and counts nothing if it has no time", () =>
    Effect.gen(function* () {
      const nameless = yield* begin({ info: ":1\r\n", evalsha: list(text("")) })
      const timeless = yield* begin({ time: list(text("noon"), text("0")), evalsha: list(":0\r\n", ":4\r\n", ":60000\r\n") })

      yield* assertStrange(nameless.offer, "QueueUnavailable", "no information")
      yield* assertStrange(timeless.take, "RateLimiterUnavailable", "no time")
    })
  )
})
