import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Endpoint from "./Endpoint.ts"
import type { LoggedEvent } from "./Event.ts"
import type { ApplicationId, EndpointId, TenantId } from "./Ids.ts"
import { consecutiveFailuresMax } from "./Limits.ts"
import type { Table } from "./Machine.ts"

type Tag = Endpoint.Input["_tag"]

const tags: ReadonlyArray<Tag> = ["Succeeded", "Failed", "FailedOften", "Disabled", "Enabled"]
const table: Table<Endpoint.State, Tag> = Endpoint.transitions
const states = Object.keys(table) as ReadonlyArray<Endpoint.State> // a machine has a row for each state

const breaker = (over: Partial<Endpoint.Breaker> = {}): Endpoint.Breaker => ({ ...Endpoint.closed, ...over })
const inState = (state: Endpoint.State) =>
  breaker(state === "enabled" ? { consecutiveFailures: 4 } : { enabled: false, consecutiveFailures: 12, disabledAt: 3 })

const take = (held: Endpoint.Breaker, input: Endpoint.Input) => Endpoint.apply(held, Result.getOrThrow(Endpoint.decide(held, input)))
const fail = (held: Endpoint.Breaker, at: number) => take(held, Endpoint.afterFailure(held, at))

describe("endpoint", () => {
  for (const state of states) {
    for (const tag of tags) {
      const cell = table[state][tag]
      if (cell === undefined) {
        it(`${state} + ${tag} -> illegal, and changes nothing`, () => {
          const before = inState(state)
          const copy = structuredClone(before)

          assert.isTrue(Result.isFailure(Endpoint.decide(before, { _tag: tag, at: 9 })))
          assert.deepStrictEqual(before, copy)
        })
      } else {
        it(`${state} + ${tag} -> ${cell.to}`, () => {
          const decision = Result.getOrThrow(Endpoint.decide(inState(state), { _tag: tag, at: 9 }))

          assert.deepStrictEqual(decision, { from: state, to: cell.to, input: { _tag: tag, at: 9 } })
          assert.strictEqual(Endpoint.state(Endpoint.apply(inState(state), decision)), cell.to)
        })
      }
    }
  }

  it("moves as the specification says, and in no other way", () => {
    const moves = states.flatMap((state) => tags.flatMap((tag) => (table[state][tag] ? [`${state} + ${tag} -> ${table[state][tag].to}`] : [])))

    assert.deepStrictEqual(moves, [
      "enabled + Succeeded -> enabled",
      "enabled + Failed -> enabled",
      "enabled + FailedOften -> disabled",
      "enabled + Disabled -> disabled",
      "disabled + Succeeded -> disabled",
      "disabled + Failed -> disabled",
      "disabled + Enabled -> enabled"
    ])
  })

  it(`is disabled by the failure that makes ${consecutiveFailuresMax} in a row, at that time`, () => {
    const nine = Array.from({ length: 9 }, (_, index) => index).reduce(fail, breaker())

    const ten = fail(nine, 77)

    assert.deepStrictEqual(nine, breaker({ consecutiveFailures: 9 }))
    assert.deepStrictEqual(ten, { enabled: false, consecutiveFailures: 10, disabledAt: 77 })
  })

  it("starts to count anew after a success", () => {
    const nine = Array.from({ length: 9 }, (_, index) => index).reduce(fail, breaker())

    const after = fail(take(nine, { _tag: "Succeeded", at: 1 }), 2)

    assert.deepStrictEqual(after, breaker({ consecutiveFailures: 1 }))
  })

  it("stays disabled when an attempt in flight succeeds, with its counter at 0", () => {
    assert.deepStrictEqual(take(inState("disabled"), { _tag: "Succeeded", at: 9 }), {
      enabled: false,
      consecutiveFailures: 0,
      disabledAt: 3
    })
  })

  it("keeps its count when an operator disables it", () => {
    assert.deepStrictEqual(take(inState("enabled"), { _tag: "Disabled", at: 9 }), { enabled: false, consecutiveFailures: 4, disabledAt: 9 })
  })

  it("is as new when an operator enables it", () => {
    assert.deepStrictEqual(take(inState("disabled"), { _tag: "Enabled", at: 9 }), Endpoint.closed)
  })

  it("counts the failures since the last success, and is disabled once they were ten", () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 60, size: "max" }), (successes) => {
        const end = successes.reduce<Endpoint.Breaker>((held, success, at) => (success ? take(held, { _tag: "Succeeded", at }) : fail(held, at)), breaker())

        const since = successes.length - 1 - successes.lastIndexOf(true)
        const tenth = successes.findIndex((_, at) => at >= 9 && successes.slice(at - 9, at + 1).every((success) => !success))

        assert.deepStrictEqual(end, { enabled: tenth < 0, consecutiveFailures: since, disabledAt: tenth < 0 ? null : tenth })
      }),
      { examples: [[Array.from({ length: 12 }, () => false)]] }
    )
  })
})

const realm = Fixtures.realm("production")
const endpoint = (over: Partial<Endpoint.Endpoint> = {}): Endpoint.Endpoint => ({
  ...Endpoint.closed,
  ...realm,
  id: Fixtures.freshId<EndpointId>(),
  applicationId: Fixtures.freshId<ApplicationId>(),
  version: 1,
  url: "https://hooks.example/",
  description: null,
  eventTypes: ["message.queued"],
  apiVersion: "2026-12-01",
  secret: { version: 1, iv: "i", ciphertext: "c", tag: "t" },
  nextSecret: null,
  isSlow: false,
  positions: { createdAfter: 7n, disabledAfter: 7n, enabledAfter: 7n },
  createdAt: 0,
  ...over
})
const sealed = (tag: string, version = 1) => ({ version, iv: "i", ciphertext: "c", tag })

describe("an endpoint's secret", () => {
  const old = endpoint({ secret: sealed("old") })
  const tagAt = (of: Endpoint.Endpoint, at: number) => Endpoint.signingSecret(of, at).tag

  it("signs until another begins to", () => {
    const rotated = Endpoint.rotated(old, sealed("new"), 100, 150)

    assert.deepStrictEqual([149, 150, 151].map((at) => tagAt(rotated, at)), ["old", "new", "new"])
    assert.deepStrictEqual({ ...rotated, version: 1, nextSecret: null }, old)
    assert.strictEqual(rotated.version, 2)
  })

  it("is replaced by one that begins at once", () => {
    assert.deepStrictEqual(Endpoint.rotated(old, sealed("new"), 100, 100), { ...old, version: 2, secret: sealed("new") })
  })

  it("is the one that signs then, when another is to come: what had not begun to is given up, what had stays", () => {
    const rotated = Endpoint.rotated(old, sealed("new"), 100, 150)

    assert.strictEqual(tagAt(Endpoint.rotated(rotated, sealed("newer"), 149, 200), 199), "old")
    assert.strictEqual(tagAt(Endpoint.rotated(rotated, sealed("newer"), 150, 200), 199), "new")
    assert.strictEqual(tagAt(Endpoint.rotated(rotated, sealed("newer"), 149, 200), 200), "newer")
  })

  it("needs the oldest of the keys that sealed it and what is to come", () => {
    const versions = ([first, second]: readonly [number, number]) =>
      Endpoint.sealVersion({ secret: sealed("old", first), nextSecret: { secret: sealed("new", second), from: 1 } })

    assert.deepStrictEqual(([[1, 2], [3, 2], [2, 2]] as const).map(versions), [1, 2, 2])
    assert.strictEqual(Endpoint.sealVersion(old), 1)
  })
})

const event = (over: Partial<LoggedEvent> = {}): LoggedEvent => ({ ...Fixtures.queuedEvent(Fixtures.message(realm)), shard: 0, position: 8n, ...over })

describe("an endpoint subscribes to", () => {
  const mine = endpoint()
  const paused = { createdAfter: 7n, disabledAfter: 11n, enabledAfter: 20n }
  const cases: ReadonlyArray<readonly [what: string, is: boolean, of: Partial<Endpoint.Endpoint>, to: Partial<LoggedEvent>]> = [
    ["an event of its type, tenant and environment", true, {}, {}],
    ["any type, with *", true, { eventTypes: ["*"] }, { type: "mailbox.created" }],
    ["one of several types", true, { eventTypes: ["message.sent", "message.queued"] }, {}],
    ["another type: no", false, { eventTypes: ["message.sent"] }, {}],
    ["anything while it is disabled: no", false, { enabled: false, disabledAt: 1 }, {}],
    ["another tenant's event: no", false, {}, { tenantId: Fixtures.freshId<TenantId>() }],
    ["the other environment's event: no", false, {}, { environment: "sandbox" }],
    ["an event of the tenant as a whole", true, {}, { environment: null }],
    ["an event of another tenant as a whole: no", false, {}, { environment: null, tenantId: Fixtures.freshId<TenantId>() }],
    ["an event for its application", true, {}, { audience: mine.applicationId }],
    ["an event for another application: no", false, {}, { audience: Fixtures.freshId<ApplicationId>() }],
    ["the last event before it was created: no", false, {}, { position: 7n }],
    ["the first event after it was created", true, { positions: Endpoint.unsetPositions }, { position: 1n }],
    ["the last event before it was created, though it was disabled since: no", false, { positions: paused }, { position: 7n }],
    ["the first event after it was created, though it was disabled since", true, { positions: paused }, { position: 8n }],
    ["the last event before it was disabled", true, { positions: paused }, { position: 11n }],
    ["the first event after it was disabled: no", false, { positions: paused }, { position: 12n }],
    ["the last event before it was enabled again: no", false, { positions: paused }, { position: 20n }],
    ["the first event after it was enabled again", true, { positions: paused }, { position: 21n }],
    ["an event of before it was disabled, while it is: no", false, { positions: paused, enabled: false, disabledAt: 1 }, { position: 11n }]
  ]
  for (const [what, is, of, to] of cases) {
    it(what, () => {
      assert.strictEqual(Endpoint.subscribes({ ...mine, ...of }, event(to)), is)
    })
  }
})

describe("an endpoint as it is shown", () => {
  it("has nine members, and no secret", () => {
    const held = endpoint({ description: "Billing", enabled: false, consecutiveFailures: 10, disabledAt: 1_000 })

    assert.deepStrictEqual(Endpoint.view(held), {
      id: held.id,
      appId: held.applicationId,
      url: "https://hooks.example/",
      description: "Billing",
      eventTypes: ["message.queued"],
      enabled: false,
      consecutiveFailures: 10,
      disabledAt: "1970-01-01T00:00:01.000Z",
      createdAt: "1970-01-01T00:00:00.000Z"
    })
    assert.isNull(Endpoint.view(endpoint()).disabledAt)
  })

  it("seals its secret to its tenant and its own id", () => {
    const [first, second] = [endpoint(), endpoint()]

    assert.include(Endpoint.sealContext(first), first.id)
    assert.include(Endpoint.sealContext(first), realm.tenantId)
    assert.notStrictEqual(Endpoint.sealContext(first), Endpoint.sealContext(second))
  })
})
