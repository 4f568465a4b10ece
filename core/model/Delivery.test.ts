import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import * as Delivery from "./Delivery.ts"
import { deliveryAttemptsMax } from "./Limits.ts"
import type { Table } from "./Machine.ts"

type Tag = Delivery.Input["_tag"]

const inputs: { readonly [T in Tag]: Extract<Delivery.Input, { readonly _tag: T }> } = {
  Succeeded: { _tag: "Succeeded", at: 10 },
  Retried: { _tag: "Retried", at: 10, nextAttemptAt: 70 },
  Exhausted: { _tag: "Exhausted", at: 10 },
  EndpointDisabled: { _tag: "EndpointDisabled", at: 10 },
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
          assert.strictEqual(take(progress({ status: state }), inputs[tag]).status, cell.to)
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
      "delivered + Succeeded -> delivered",
      "delivered + Replayed -> pending",
      "dead + Succeeded -> delivered",
      "dead + Replayed -> pending"
    ])
  })

  const outcomes: ReadonlyArray<readonly [Tag, Partial<Delivery.Progress>]> = [
    ["Succeeded", { status: "delivered", attemptCount: 3, nextAttemptAt: null, deliveredAt: 10 }],
    ["Retried", { attemptCount: 3, nextAttemptAt: 70 }],
    ["Exhausted", { status: "dead", attemptCount: 3, nextAttemptAt: null, deadAt: 10 }],
    ["EndpointDisabled", { status: "dead", attemptCount: 2, nextAttemptAt: null, deadAt: 10 }]
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
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
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
