/** Receivers that have answered a process at once, so that it sends to them straight from the log. */
import { Effect } from "effect"
import * as assert from "node:assert/strict"
import type { SettingsShape } from "../../core/Settings.ts"
import type { Faults } from "./Faults.ts"
import { deliveriesTo, happen, hook, outcomesOf, postsTo, type Hook } from "./Receivers.ts"
import { logOf, settle, type Process, type Tenancy, type World } from "./World.ts"

/** A process that holds the shard of a tenant, whose endpoint has answered it at once. */
export const playQuick = (world: World, faults?: Faults, settings?: Partial<SettingsShape>) =>
  Effect.gen(function* () {
    const process = yield* world.boot(faults, settings)
    const of = yield* world.found()
    const to = yield* hook(process, of)
    yield* acquaint(process, of)
    return { process, of, to }
  })

/** Has its endpoints answer this process. */
export const acquaint = (process: Process, of: Tenancy) => Effect.andThen(happen(process, of), settle(process))

/** Events whose message is submitted already, so that a relay's turn is all that is due. */
export const happenOften = (process: Process, of: Tenancy, count: number) =>
  Effect.andThen(Effect.forEach(Array.from({ length: count }), () => happen(process, of), { concurrency: "unbounded" }), process.worker.tick)

/** Its endpoints are quick for long enough to be trusted with many. */
export const warm = (process: Process, of: Tenancy) =>
  Effect.repeat(Effect.andThen(happenOften(process, of, 30), settle(process)), { times: 3 })

/** The events of a tenant that its endpoints hear of. */
export const heard = (world: World, of: Tenancy) =>
  Effect.map(logOf(world, of), (log) => log.filter(({ type }) => type === "message.queued").map(({ id }) => id).toSorted())

/** Each event has one delivery, with one attempt, and was posted once; `repeats`: as often as that it may have been posted again. */
export const assertAllOnce = (world: World, { of, to }: { readonly of: Tenancy; readonly to: Hook }, repeats = 0, label = "") =>
  Effect.gen(function* () {
    const found = yield* deliveriesTo(world, to)
    const events = yield* heard(world, of)
    assert.deepEqual(found.map(({ eventId }) => eventId).toSorted(), events, label)
    for (const one of found) assert.deepEqual([one.status, outcomesOf(one)], ["delivered", ["success"]], label)
    const posts = postsTo(world, to)
    assert.deepEqual([...new Set(posts.map(({ json }) => json.id as string))].toSorted(), events, label)
    assert.ok(posts.length <= events.length + repeats, `${label}: ${posts.length} requests for ${events.length} events`)
  })
