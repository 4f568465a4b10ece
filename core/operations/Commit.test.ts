import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { CommitRejected, StoreUnavailable } from "../ports/Store.ts"
import { retryOnVersionMoved } from "./Commit.ts"

const moved = new CommitRejected({ reason: { _tag: "VersionMoved", kind: "message", id: "1" } })

/** A decision whose version moves so many times, and how often it was made. */
const deciding = (moves: number) => {
  let made = 0
  const decision = Effect.suspend(() => (made++ < moves ? Effect.fail(moved) : Effect.succeed("decided")))
  return Effect.map(Effect.result(retryOnVersionMoved(decision)), (result) => ({ result, made }))
}

describe("a decision whose version moves", () => {
  it.effect("is made anew 50 times, and then the store is said to be unavailable", () =>
    Effect.gen(function* () {
      const [last, late] = [yield* deciding(50), yield* deciding(51)]

      assert.deepStrictEqual([last.result._tag, last.made], ["Success", 51])
      assert.ok(late.result._tag === "Failure" && late.result.failure instanceof StoreUnavailable)
      assert.deepStrictEqual([late.result.failure.cause, late.made], [moved, 51])
    })
  )
})
