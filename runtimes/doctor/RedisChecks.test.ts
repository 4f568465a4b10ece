/** What the doctor says of Redis. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import * as PrivateRedis from "../../adapters/redis/PrivateRedis.ts"
import * as RedisClient from "../../adapters/redis/RedisClient.ts"
import { complete, findingsOf, says } from "./harness.ts"

describe("the doctor, on Redis,", () => {
  it.live("tells whether it answers, and what it drops", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open({ settings: ["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"] })
      const variables = { ...complete, MAILROOM_REDIS_URL: Redacted.value(server.url) }

      const counting = says(yield* findingsOf(variables), "redis")
      assert.match(counting[0]!, /^ok Redis \d+\.\S+ answers, and counts requests$/)
      assert.match(counting[1]!, /^warn its maxmemory-policy is allkeys-lru/)
      assert.match(says(yield* findingsOf({ ...variables, MAILROOM_QUEUE: "redis" }), "redis")[1]!, /^fail its maxmemory-policy/)
      yield* server.kill
      assert.match(says(yield* findingsOf(variables), "redis")[0]!, /^fail Redis is unavailable/)
    }).pipe(Effect.scoped)
  )

  for (const [state, setting, reason] of [
    ["is full", ["--maxmemory", "1"], "OOM"],
    ["is a replica", ["--replicaof", "127.0.0.1 1"], "READONLY"]
  ] as const) {
    it.live(`tells that one that ${state} takes no writes`, () =>
      Effect.gen(function* () {
        const server = yield* PrivateRedis.open({ settings: setting })
        const variables = { ...complete, MAILROOM_REDIS_URL: Redacted.value(server.url) }

        const counting = says(yield* findingsOf(variables), "redis")
        const queue = says(yield* findingsOf({ ...variables, MAILROOM_QUEUE: "redis" }), "redis")

        assert.match(counting[1]!, new RegExp(`^warn it takes no writes: ${reason} `))
        assert.match(queue[1]!, new RegExp(`^fail it takes no writes: ${reason} `))
      }).pipe(Effect.scoped)
    )
  }

  it.live("tells that its user may not tell of news, as none may that it is not told of, and where that matters", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open({ isOverTcp: true })
      const operator = yield* PrivateRedis.operator(server)
      const findings = Effect.fnUntraced(function* (queue: string, ...more: ReadonlyArray<string>) {
        yield* Effect.promise(() => operator.call("ACL", "SETUSER", "name", "reset", "on", ">password", "~*", "+@all", ...more))
        const url = Redacted.value(server.url).replace("redis://", "redis://name:password@")
        return says(yield* findingsOf({ ...complete, MAILROOM_REDIS_URL: url, MAILROOM_QUEUE: queue }), "redis")
      })

      assert.match((yield* findings("redis"))[1]!, /^warn its user may not tell of new work/)
      assert.lengthOf(yield* findings("redis", "&{mailroom}:*"), 1)
      for (const command of ["publish", "subscribe"]) {
        assert.match((yield* findings("redis", "&{mailroom}:*", `-${command}`))[1]!, /^warn its user may not tell of new work/)
      }
      assert.lengthOf(yield* findings("postgres"), 1)
    }).pipe(Effect.scoped)
  )

  it.live("says what a user lacks that may run no command, and finds one in order that has what is told of", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.asUser()
      const findings = (url: string) => Effect.map(findingsOf({ ...complete, MAILROOM_REDIS_URL: url, MAILROOM_QUEUE: "redis" }), (found) => found.filter(({ check }) => check === "redis"))
      const url = Redacted.value(server.url)
      yield* Effect.flatMap(PrivateRedis.operator(server), (operator) => Effect.promise(() => operator.call("ACL", "SETUSER", "none", "on", ">password", "~*")))

      assert.deepStrictEqual((yield* findings(url)).map(({ status }) => status), ["ok"])
      const [lacking] = yield* findings(url.replace("mailroom:", "none:"))
      assert.match(lacking!.message, /NOPERM/)
      assert.match(lacking!.advice!, /^Give its user what it lacks: ACL SETUSER .* \+info\.$/)
      const page = readFileSync(new URL("../../docs/deploy.md", import.meta.url), "utf8")
      assert.include(page, PrivateRedis.rights.join(" "), "the page tells of this user")
    }).pipe(Effect.scoped)
  )

  it.live("leaves nothing in one that is in order", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      const client = yield* RedisClient.make({ url: server.url })

      const found = yield* findingsOf({ ...complete, MAILROOM_REDIS_URL: Redacted.value(server.url), MAILROOM_QUEUE: "redis" })

      assert.lengthOf(says(found, "redis"), 1)
      assert.deepStrictEqual([...(yield* client.info("keyspace")).keys()], [])
    }).pipe(Effect.scoped)
  )
})
