/** Redis, where there is one: what it is for can be lost, but not be evicted piece by piece. */
import { Effect, Option, Result } from "effect"
import * as QueueScripts from "../../adapters/redis/QueueScripts.ts"
import * as RedisClient from "../../adapters/redis/RedisClient.ts"
import { isDistrust, trustAdvice } from "../Adapters.ts"
import { settings, type Config } from "../Config.ts"
import type { Voice } from "./Findings.ts"

/** A write that is refused as any is, where memory is full, it cannot save, or it is a replica; and that changes nothing, for there is no such key. */
const attempt = RedisClient.script("return redis.call('SET', KEYS[1] .. 'nothing', '', 'XX')")

/** `info` of a Redis of version 7 or later, or of one of its kin, says what it does when its memory is full. */
export const redis = Effect.fnUntraced(function* ({ redisUrl, queue }: Config, says: Voice) {
  if (redisUrl === null) return yield* says.ok("none: PostgreSQL does without")
  const client = yield* Effect.result(RedisClient.make({ url: redisUrl, timeout: "5 seconds" }))
  const info = Result.isFailure(client)
    ? Result.fail(client.failure)
    : yield* Effect.result(
        Effect.all([
          client.success.info("server"),
          client.success.info("memory"),
          Effect.result(client.success.run(attempt, [])),
          Effect.option(client.success.run(QueueScripts.mayTell, []))
        ])
      )
  if (Result.isFailure(info)) {
    const { message } = info.failure
    const rights = /NOPERM/.test(message) ? "Give its user what it lacks: ACL SETUSER … ~{mailroom}:* &{mailroom}:* +@all -@dangerous +info." : null
    return yield* says.fail(message, isDistrust(message) ? trustAdvice() : (rights ?? `Start Redis, open the way to it, or mend ${settings.redisUrl.name}.`))
  }
  const [server, memory, written, mayTell] = info.success
  yield* says.ok(`Redis ${server.get("redis_version") ?? "of an unknown version"} answers, and ${queue === "redis" ? "is the queue" : "counts requests"}`)
  if (Result.isFailure(written)) {
    const tell = queue === "redis" ? says.fail : says.warn
    yield* tell(
      `it takes no writes: ${written.failure.reason}`,
      `Give it room (maxmemory), let it save, or have ${settings.redisUrl.name} name the primary: until then it is as if it were away.`
    )
  }
  if (queue === "redis" && Option.contains(mayTell, 0)) {
    yield* says.warn("its user may not tell of new work, or hear of it: work waits until a worker looks by itself", "Allow the user its channel: ACL SETUSER … &{mailroom}:*.")
  }
  const policy = memory.get("maxmemory_policy") ?? "unknown"
  if (policy === "noeviction") return
  const isRefused = queue === "redis" && policy.startsWith("allkeys")
  yield* (isRefused ? says.fail : says.warn)(`its maxmemory-policy is ${policy}: it may drop jobs and counts one by one`, "Set maxmemory-policy noeviction.")
}, Effect.scoped)
