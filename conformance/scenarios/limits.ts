/** Limits under races and outages, keys that end, feeds that are complete. */
import { Clock, Effect, Exit, Metric, Option, Redacted, Result } from "effect"
import * as assert from "node:assert/strict"
import * as ApiKeys from "../../core/model/ApiKey.ts"
import { system } from "../../core/model/Audit.ts"
import type { Standing } from "../../core/model/RateLimit.ts"
import type { Operation } from "../../core/operations/Access.ts"
import { requiredScopes } from "../../core/operations/Access.ts"
import * as Metrics from "../../core/Metrics.ts"
import { address } from "../fixtures.ts"
import { arrive } from "./Arrivals.ts"
import { Faults } from "./Faults.ts"
import * as Time from "./Time.ts"
import { letter, scenario, someKey, type Process, type ScenarioSuite, type Tenancy } from "./World.ts"

const admit = (process: Process, of: Tenancy, authorization = `Bearer ${of.apiKeyText}`, operation: Operation = "listMessages") => {
  const told: Array<Standing> = []
  return Effect.map(
    Effect.result(
      process.access.admit(
        { authorization, operation, requestId: "r", clientAddress: "192.0.2.1" },
        (standings) => told.push(...standings),
        () => {}
      )
    ),
    (result) => ({ result, told, tag: Result.isSuccess(result) ? "admitted" : result.failure._tag })
  )
}

export const suite: ScenarioSuite = {
  name: "access and limits",
  checks: [
    scenario("of many sends at once, as many are accepted as the day's quota has room for", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const processes = [yield* world.boot(), yield* world.boot()]
        const principal = { ...tenancy.principal, plan: { ...tenancy.principal.plan, recipientsPerDay: 20 } }
        const pair = letter(tenancy, [address("ada"), address("bob")])

        const results = yield* Effect.all(
          Array.from({ length: 40 }, (_, index) => Effect.result(processes[index % 2]!.messages.send(principal, someKey(), pair))),
          { concurrency: "unbounded" }
        )

        const accepted = results.filter(Result.isSuccess).length
        const refused = results.filter(Result.isFailure).map(({ failure }) => failure)
        assert.equal(accepted, 10)
        for (const error of refused) {
          assert.ok(error._tag === "QuotaExceeded")
          assert.deepEqual([error.limit, error.used, error.requested], [20, 20, 2])
          assert.ok(error.retryAfterSeconds >= 1)
        }
        yield* Time.adjust("24 hours")
        const next = yield* processes[0]!.messages.send(principal, someKey(), pair)
        assert.equal(next.replayed, false, "the next day has its own")
      })
    ),

    scenario("a mailbox takes so many messages a minute, of which none is counted that is not kept, and others go on", (world) =>
      Effect.gen(function* () {
        const [first, second] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot(undefined, { inboundPerMinute: 3 })
        const both = [first.mailbox.address, second.mailbox.address]
        const counted = Effect.forEach([Metrics.rateLimited.mailbox, Metrics.messagesReceived.production], (counter) =>
          Effect.map(Metric.value(counter), ({ count }) => count)
        )
        const before = yield* counted
        const bring = (to: string | ReadonlyArray<string>, bytes?: Uint8Array) =>
          arrive(process, to, bytes).pipe(
            Effect.as("taken"),
            Effect.catchTag("ReceiveRefused", ({ code, enhancedCode }) => Effect.succeed(`${code} ${enhancedCode}`))
          )
        const kept = ({ realm }: Tenancy) =>
          Effect.map(world.store.messages.page(realm, { mailboxId: null, before: null, limit: 100 }), (found) => found.length)

        const answers = [yield* bring(first.mailbox.address), yield* bring(first.mailbox.address)]
        world.stage.spam = "refuse"
        for (let refused = 0; refused < 5; refused++) answers.push(yield* bring(first.mailbox.address))
        world.stage.spam = "ham"
        answers.push(yield* bring(both), yield* bring(first.mailbox.address), yield* bring(both), yield* bring(both.toReversed()))
        answers.push(yield* bring(second.mailbox.address))

        const expected = ["taken", "taken", ...Array<string>(5).fill("550 5.7.1"), "taken", "450 4.2.1", "450 4.2.1", "450 4.2.1", "taken"]
        assert.deepEqual(answers, expected)
        assert.deepEqual([yield* kept(first), yield* kept(second)], [3, 2])
        yield* Time.adjust(59_999)
        assert.equal(yield* bring(both), "450 4.2.1")
        yield* Time.adjust(1)
        assert.equal(yield* bring(both), "taken")
        const differences = (yield* counted).map((count, index) => count - before[index]!)
        assert.deepEqual(differences, [4, (yield* kept(first)) + (yield* kept(second))], "each is counted for the operator")
      })
    ),

    scenario("a spam filter that breaks lets mail through as if there were none", (world) =>
      Effect.gen(function* () {
        const { realm, mailbox } = yield* world.found()
        const process = yield* world.boot()
        const breaks = () => {
          throw new Error("a bug of the filter")
        }
        Object.defineProperty(world.stage, "spam", { get: breaks })

        yield* arrive(process, mailbox.address)

        const [message] = yield* world.store.messages.page(realm, { mailboxId: mailbox.id, before: null, limit: 10 })
        assert.equal(message?.folder, "inbox")
      })
    ),

    scenario("whoever has used up the day's quota is told to wait until midnight UTC", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const principal = { ...tenancy.principal, plan: { ...tenancy.principal.plan, recipientsPerDay: 1 } }
        const sendTwo = process.messages.send(principal, someKey(), letter(tenancy, [address("ada"), address("bob")]))
        const [hour, now] = [3_600_000, yield* Clock.currentTimeMillis]
        yield* Time.setTime(now - (now % (24 * hour)) + 42 * hour)

        const refused = yield* Effect.flip(sendTwo)

        assert.ok(refused._tag === "QuotaExceeded")
        assert.equal(refused.retryAfterSeconds, 6 * 3_600)
      })
    ),

    scenario("in no 60 seconds are more than the key's limit admitted, and whoever waits as told is admitted", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production", "free")
        const process = yield* world.boot()

        for (let request = 0; request < 60; request++) assert.equal((yield* admit(process, tenancy)).tag, "admitted")
        const { result, tag } = yield* admit(process, tenancy)
        assert.equal(tag, "RateLimited")
        assert.ok(Result.isFailure(result) && result.failure._tag === "RateLimited")
        assert.deepEqual([result.failure.scope, result.failure.limit, result.failure.windowSeconds], ["key", 60, 60])
        yield* Time.adjust(result.failure.retryAfterSeconds * 1000)

        assert.equal((yield* admit(process, tenancy)).tag, "admitted")
      })
    ),

    scenario("a limiter that cannot be reached does not stop limiting: the process counts by itself", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production", "free")
        const process = yield* world.boot()
        world.stage.limiterIsDown = true

        for (let request = 0; request < 60; request++) assert.equal((yield* admit(process, tenancy)).tag, "admitted")
        assert.equal((yield* admit(process, tenancy)).tag, "RateLimited")
        const address = Effect.result(process.access.guardAddress("2001:db8::1"))
        for (let request = 0; request < 120; request++) assert.ok(Result.isSuccess(yield* address))
        assert.ok(Result.isFailure(yield* address))
        assert.ok(Result.isFailure(yield* Effect.result(process.access.guardAddress("2001:db8:0:0:ffff::2"))), "the same /64")
        assert.ok(Result.isSuccess(yield* Effect.result(process.access.guardAddress("2001:db8:0:1::1"))), "another /64")
      })
    ),

    scenario("a store that does not answer admits nobody", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const cut = new Faults(1, "before")
        const process = yield* world.boot(cut)
        const exit = yield* Effect.exit(admit(process, tenancy))

        assert.ok(Exit.isFailure(exit))
      })
    ),

    scenario("a verified key is known again without a hash, and a revoked one is not, in any process", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const processes = [yield* world.boot(), yield* world.boot()]
        for (const process of processes) assert.equal((yield* admit(process, tenancy)).tag, "admitted")

        yield* processes[0]!.management.revokeKey(system, tenancy.realm.tenantId, tenancy.principal.apiKeyId)

        for (const process of processes) assert.equal((yield* admit(process, tenancy)).tag, "Unauthorized")
      })
    ),

    scenario("another secret under the public id of a key is refused, before and after the key was seen, and the key is admitted", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { environment, publicId } = Option.getOrThrow(ApiKeys.parse(tenancy.apiKeyText))
        const other = `Bearer ${Redacted.value(ApiKeys.withPublicId(environment, publicId, new Uint8Array(ApiKeys.secretBytes)).text)}`

        for (const _ of ["by a process that never saw the key", "by one that knows it"]) {
          const { result } = yield* admit(process, tenancy, other)
          assert.ok(Result.isFailure(result) && result.failure._tag === "Unauthorized")
          assert.equal(result.failure.reason, "mismatch")
          assert.equal((yield* admit(process, tenancy)).tag, "admitted")
        }
      })
    ),

    scenario("a key ends at the instant it expires, and a suspended application's keys at once", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { tenantId } = tenancy.realm
        const issued = yield* process.management.issueKey(system, {
          tenantId,
          applicationId: tenancy.application.id,
          name: "short",
          scopes: ["messages:read"],
          expiresAt: 60_000 + (yield* Clock.currentTimeMillis)
        })
        const text = `Bearer ${Redacted.value(issued.text)}`

        assert.equal((yield* admit(process, tenancy, text)).tag, "admitted")
        yield* Time.adjust(59_999)
        assert.equal((yield* admit(process, tenancy, text)).tag, "admitted")
        yield* Time.adjust(1)
        assert.equal((yield* admit(process, tenancy, text)).tag, "Unauthorized")

        yield* process.management.setApplicationStatus(system, tenantId, tenancy.application.id, "suspended")
        assert.equal((yield* admit(process, tenancy)).tag, "Unauthorized")
        yield* process.management.setApplicationStatus(system, tenantId, tenancy.application.id, "active")
        assert.equal((yield* admit(process, tenancy)).tag, "admitted")
      })
    ),

    scenario("last-used times and the request log are written behind, by a flush", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        yield* Time.adjust("1 hour")
        yield* admit(process, tenancy)

        yield* process.requestLog.flush

        const stored = yield* world.store.credentials.apiKey(tenancy.realm.tenantId, tenancy.principal.apiKeyId)
        assert.equal(stored?.lastUsedAt, yield* Clock.currentTimeMillis)
        assert.equal(stored?.version, 1, "being used is no new version")
      })
    ),

    scenario("a key does what its scopes say and nothing else", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("production", "scale")
        const process = yield* world.boot()
        for (const scope of new Set(Object.values(requiredScopes))) {
          const { text } = yield* process.management.issueKey(system, {
            tenantId: tenancy.realm.tenantId,
            applicationId: tenancy.application.id,
            name: scope,
            scopes: [scope]
          })
          for (const [operation, needs] of Object.entries(requiredScopes) as ReadonlyArray<[Operation, string]>) {
            const { tag } = yield* admit(process, tenancy, `Bearer ${Redacted.value(text)}`, operation)
            assert.equal(tag, needs === scope ? "admitted" : "InsufficientScope", `${scope}: ${operation}`)
          }
        }
      })
    ),

    scenario("a reader who pages to null has every message and event committed before, whoever wrote meanwhile", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const [writer, reader] = [yield* world.boot(), yield* world.boot()]
        const send = Effect.suspend(() =>
          Effect.map(writer.messages.send(tenancy.principal, someKey(), letter(tenancy, address("ada"))), ({ message }) => message.id)
        )
        const before = yield* Effect.all(Array.from({ length: 30 }, () => send), { concurrency: "unbounded" })

        const [, events, messages] = yield* Effect.all(
          [
            Effect.all(Array.from({ length: 60 }, () => send), { concurrency: 4 }),
            pageEvents(reader, tenancy),
            pageMessages(reader, tenancy)
          ],
          { concurrency: "unbounded" }
        )

        for (const id of before) {
          assert.ok(events.includes(id), "every event")
          assert.ok(messages.includes(id), "every message")
        }
        assert.equal(new Set(messages).size, messages.length, "none twice")
        assert.equal(new Set(events).size, events.length, "none twice")
      })
    )
  ]
}

const pageEvents = (process: Process, { principal }: Tenancy) =>
  Effect.gen(function* () {
    const seen: Array<string> = []
    let cursor: string | null = null
    do {
      const page: { readonly items: ReadonlyArray<{ readonly type: string; readonly resourceId: string }>; readonly nextCursor: string | null } =
        yield* process.events.list(principal, { limit: 7, cursor })
      seen.push(...page.items.filter(({ type }) => type === "message.queued").map(({ resourceId }) => resourceId))
      cursor = page.nextCursor
    } while (cursor !== null)
    return seen
  })

const pageMessages = (process: Process, { principal }: Tenancy) =>
  Effect.gen(function* () {
    const seen: Array<string> = []
    let cursor: string | null = null
    do {
      const page: { readonly items: ReadonlyArray<{ readonly id: string }>; readonly nextCursor: string | null } =
        yield* process.messages.list(principal, { limit: 7, cursor, mailboxId: null })
      seen.push(...page.items.map(({ id }) => id))
      cursor = page.nextCursor
    } while (cursor !== null)
    return seen
  })
