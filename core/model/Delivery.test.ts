import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import * as Delivery from "./Delivery.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { ApplicationId, DeliveryId, EndpointId, EventId } from "./Ids.ts"
import { deliveryAttemptsKept, deliveryAttemptsMax } from "./Limits.ts"
import type { Table } from "./Machine.ts"

type Tag = Delivery.Input["_tag"]

const inputs: { readonly [T in Tag]: Extract<Delivery.Input, { readonly _tag: T }> } = {
  Succeeded: { _tag: "Succeeded", at: 10 },
  Retried: { _tag: "Retried", at: 10, nextAttemptAt: 70 },
  Exhausted: { _tag: "Exhausted", at: 10 },
  EndpointDisabled: { _tag: "EndpointDisabled", at: 10 },
  Abandoned: { _tag: "Abandoned", at: 10 },
  Replayed: { _tag: "Replayed", at: 10 }
}
const tags = Object.keys(inputs) as ReadonlyArray<Tag> // the keys of the literal above
const table: Table<Delivery.State, Tag> = Delivery.transitions
const states = Object.keys(table) as ReadonlyArray<Delivery.State> // a machine has a row for each state

const progress = (over: Partial<Delivery.Progress> = {}): Delivery.Progress => ({
  status: "pending",
  round: 1,
  attemptCount: 2,
  nextAttemptAt: 5,
  deliveredAt: null,
  deadAt: null,
  ...over
})

const take = (held: Delivery.Progress, input: Delivery.Input) => Delivery.apply(held, Result.getOrThrow(Delivery.decide(held, input)))

describe("delivery", () => {
  for (const state of states) {
    for (const tag of tags) {
      const cell = table[state][tag]
      if (cell === undefined) {
        it(`${state} + ${tag} -> illegal, and changes nothing`, () => {
          const before = progress({ status: state })
          const copy = structuredClone(before)

          assert.isTrue(Result.isFailure(Delivery.decide(before, inputs[tag])))
          assert.deepStrictEqual(before, copy)
        })
      } else {
        it(`${state} + ${tag} -> ${cell.to}`, () => {
          const before = progress({ status: state })

          const decision = Result.getOrThrow(Delivery.decide(before, inputs[tag]))

          assert.deepStrictEqual(decision, { from: state, to: cell.to, input: inputs[tag] })
          assert.strictEqual(Delivery.apply(before, decision).status, cell.to)
        })
      }
    }
  }

  it("moves as the specification says, and in no other way", () => {
    const moves = states.flatMap((state) => tags.flatMap((tag) => (table[state][tag] ? [`${state} + ${tag} -> ${table[state][tag].to}`] : [])))

    assert.deepStrictEqual(moves, [
      "pending + Succeeded -> delivered",
      "pending + Retried -> pending",
      "pending + Exhausted -> dead",
      "pending + EndpointDisabled -> dead",
      "pending + Abandoned -> dead",
      "delivered + Replayed -> pending",
      "dead + Replayed -> pending"
    ])
  })

  const outcomes: ReadonlyArray<readonly [Tag, Partial<Delivery.Progress>]> = [
    ["Succeeded", { status: "delivered", attemptCount: 3, nextAttemptAt: null, deliveredAt: 10 }],
    ["Retried", { attemptCount: 3, nextAttemptAt: 70 }],
    ["Exhausted", { status: "dead", attemptCount: 3, nextAttemptAt: null, deadAt: 10 }],
    ["EndpointDisabled", { status: "dead", attemptCount: 2, nextAttemptAt: null, deadAt: 10 }],
    ["Abandoned", { status: "dead", attemptCount: 2, nextAttemptAt: null, deadAt: 10 }]
  ]
  for (const [tag, change] of outcomes) {
    it(`records of ${tag}: ${JSON.stringify(change)}`, () => {
      assert.deepStrictEqual(take(progress(), inputs[tag]), { ...progress(), ...change })
    })
  }

  for (const status of ["delivered", "dead"] as const) {
    it(`starts a new round when it is replayed while ${status}, due at once`, () => {
      const before = progress({ status, round: 3, attemptCount: 5, nextAttemptAt: null, deliveredAt: 8, deadAt: 9 })

      assert.deepStrictEqual(take(before, inputs.Replayed), progress({ round: 4, attemptCount: 0, nextAttemptAt: 10 }))
    })
  }

  it(`is given up with the failed attempt that makes ${deliveryAttemptsMax}`, () => {
    const fail = (held: Delivery.Progress, at: number) => take(held, Delivery.afterFailure(held, at, at + 60))

    const seen = [1, 2, 3, 4, 5].reduce((trail, at) => [...trail, fail(trail.at(-1)!, at)], [progress({ attemptCount: 0 })])

    assert.deepStrictEqual(seen.map(({ status }) => status), ["pending", "pending", "pending", "pending", "pending", "dead"])
    assert.deepStrictEqual(seen.map(({ attemptCount }) => attemptCount), [0, 1, 2, 3, 4, 5])
    assert.deepStrictEqual(seen.map(({ nextAttemptAt }) => nextAttemptAt), [5, 61, 62, 63, 64, null])
  })

  it("makes at most five attempts between entries into pending, and is due exactly while pending", () => {
    const event = fc.constantFrom<"success" | "failure" | "disabled" | "replay">("success", "failure", "failure", "failure", "disabled", "replay")

    fc.assert(
      fc.property(fc.array(event, { maxLength: 40, size: "max" }), (events) => {
        let held = progress({ attemptCount: 0 })
        for (const one of events) {
          const input =
            one === "failure" ? Delivery.afterFailure(held, 1, 2) : inputs[one === "success" ? "Succeeded" : one === "disabled" ? "EndpointDisabled" : "Replayed"]
          const decided = Delivery.decide(held, input)
          if (Result.isSuccess(decided)) held = Delivery.apply(held, decided.success)

          assert.isAtMost(held.attemptCount, deliveryAttemptsMax)
          assert.strictEqual(held.nextAttemptAt !== null, held.status === "pending")
          assert.strictEqual(held.deliveredAt !== null, held.status === "delivered")
          assert.strictEqual(held.deadAt !== null, held.status === "dead")
        }
      })
    )
  })
})

const delivery = (over: Partial<Delivery.Delivery> = {}): Delivery.Delivery => ({
  ...Fixtures.realm(),
  ...progress(),
  id: Fixtures.freshId<DeliveryId>(),
  applicationId: Fixtures.freshId<ApplicationId>(),
  endpointId: Fixtures.freshId<EndpointId>(),
  eventId: Fixtures.freshId<EventId>(),
  eventPosition: 7n,
  eventType: "message.queued",
  resourceId: "00000000-0000-4000-8000-00000000000a",
  version: 3,
  trigger: "event",
  demo: false,
  lastError: "timeout",
  attempts: [attempt(1), attempt(2)],
  createdAt: 0,
  ...over
})
const attempt = (number: number, over: Partial<Delivery.Attempt> = {}): Delivery.Attempt => ({
  number,
  round: 1,
  startedAt: number * 1_000,
  durationMs: 5,
  outcome: "http_error",
  responseStatus: 500,
  ...over
})

describe("a replay", () => {
  for (const status of ["delivered", "dead"] as const) {
    it(`makes what is ${status} pending, one version and one round on, with its attempts`, () => {
      const before = delivery({ status, nextAttemptAt: null, ...(status === "dead" ? { deadAt: 9 } : { deliveredAt: 9 }) })

      assert.deepStrictEqual(Delivery.replay(before, 10), {
        ...before,
        status: "pending",
        version: 4,
        round: 2,
        attemptCount: 0,
        trigger: "replay",
        nextAttemptAt: 10,
        deliveredAt: null,
        deadAt: null
      })
    })
  }

  it("is nothing to what is pending", () => {
    assert.isNull(Delivery.replay(delivery(), 10))
  })
})

describe("the attempts of a delivery", () => {
  it("are kept in their order, a new one last", () => {
    const before = delivery()

    assert.deepStrictEqual(Delivery.withAttempt(before, attempt(3)), { ...before, attempts: [attempt(1), attempt(2), attempt(3)] })
  })

  it("are at most a hundred: of more, the oldest go", () => {
    const full = delivery({ attempts: Array.from({ length: deliveryAttemptsKept }, (_, index) => attempt(index)) })

    const { attempts } = Delivery.withAttempt(full, attempt(deliveryAttemptsKept))

    assert.strictEqual(deliveryAttemptsKept, 100)
    assert.lengthOf(attempts, 100)
    assert.deepStrictEqual([attempts[0]!.number, attempts.at(-1)!.number], [1, 100])
  })
})

describe("a delivery as it is shown", () => {
  it("has the members of the webhook delivery record, its times as texts", () => {
    const held = delivery({ attempts: [attempt(1, { outcome: "timeout", responseStatus: null }), attempt(2)] })

    assert.deepStrictEqual(Delivery.view(held), {
      id: held.id,
      object: "webhook_delivery",
      endpointId: held.endpointId,
      eventId: held.eventId,
      eventType: "message.queued",
      status: "pending",
      trigger: "event",
      demo: false,
      attemptCount: 2,
      maxAttempts: 5,
      nextAttemptAt: "1970-01-01T00:00:00.005Z",
      lastAttemptAt: "1970-01-01T00:00:02.000Z",
      lastResponseStatus: 500,
      lastError: "timeout",
      createdAt: "1970-01-01T00:00:00.000Z",
      deliveredAt: null,
      deadAt: null,
      attempts: [
        { number: 1, round: 1, startedAt: "1970-01-01T00:00:01.000Z", durationMs: 5, outcome: "timeout", responseStatus: null },
        { number: 2, round: 1, startedAt: "1970-01-01T00:00:02.000Z", durationMs: 5, outcome: "http_error", responseStatus: 500 }
      ]
    })
  })

  it("has nulls for what has not happened", () => {
    const { lastAttemptAt, lastResponseStatus, nextAttemptAt } = Delivery.view(delivery({ status: "dead", nextAttemptAt: null, attempts: [] }))

    assert.deepStrictEqual([lastAttemptAt, lastResponseStatus, nextAttemptAt], [null, null, null])
  })

  it("says when it was delivered, and when it died", () => {
    const times = [delivery({ status: "delivered", deliveredAt: 8 }), delivery({ status: "dead", deadAt: 9 })].map(Delivery.view)

    assert.deepStrictEqual(
      times.map(({ deliveredAt, deadAt }) => [deliveredAt, deadAt]),
      [["1970-01-01T00:00:00.008Z", null], [null, "1970-01-01T00:00:00.009Z"]]
    )
  })
})
