import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber } from "effect"
import { SqlError, UnknownError } from "effect/sql/SqlError"
import { setImmediate } from "node:timers/promises"
import * as Lookups from "./Lookups.ts"
import type { Row } from "./Rows.ts"

/** A server that answers when it is told to, each key with itself but for those that begin with "no". */
const held = () => {
  const statements: Array<{ readonly keys: ReadonlyArray<string>; readonly answer: Deferred.Deferred<void, SqlError> }> = []
  const rows = <A>(_text: string, parameters: ReadonlyArray<unknown> = []) =>
    Effect.gen(function* () {
      const answer = Deferred.makeUnsafe<void, SqlError>()
      const { value } = parameters[0] as { readonly value: string | ReadonlyArray<{ readonly value: string }> } // of one key, or of many
      const keys = [value].flat().map((one) => (typeof one === "string" ? one : one.value))
      statements.push({ keys, answer })
      yield* Deferred.await(answer)
      return keys.flatMap((key, index): ReadonlyArray<Row> => (key.startsWith("no") ? [] : [{ place: index + 1, found: key }])) as unknown as ReadonlyArray<A>
    })
  const lookup = Lookups.make({ rows }, { types: ["text"], text: "select $1 as found", decode: read })
  return { statements, ask: (key: string) => Effect.forkChild(lookup([key]), { startImmediately: true }) }
}

const read = (row: Row): string => {
  if (row["found"] === "broken") throw new Error("a row that nobody has written")
  return row["found"] as string
}

const turn = Effect.promise(() => setImmediate())

describe("Lookups", () => {
  it.live("asks for all that one turn brings in one statement, and for the same once", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const asks = yield* Effect.forEach(["a", "none", "b", "a"], ask)
      yield* turn

      assert.deepStrictEqual(statements.map(({ keys }) => keys), [["a", "none", "b"]])
      Deferred.doneUnsafe(statements[0]!.answer, Effect.void)
      assert.deepStrictEqual(yield* Effect.forEach(asks, (fiber) => Fiber.join(fiber)), ["a", null, "b", "a"])
    })
  )

  it.live("shares an answer among those whose keys are all the same; null is no text, not even the empty one", () =>
    Effect.gen(function* () {
      const rows = <A>(_text: string, [first]: ReadonlyArray<unknown> = []) => {
        const { value } = first as { readonly value: ReadonlyArray<unknown> } // of many keys
        return Effect.succeed(value.map((_, index): Row => ({ place: index + 1, found: `answer ${index}` })) as unknown as ReadonlyArray<A>)
      }
      const lookup = Lookups.make({ rows }, { types: ["text", "text"], text: "select $1 || $2 as found", decode: read })
      const keys = [["a", "b"], ["ab", ""], ["", "ab"], ["", null], [null, ""], [null, null], ["a", "b"], [null, ""], ["null", ""], [null, "null"]]

      const answers = yield* Effect.forEach(keys, lookup, { concurrency: "unbounded" })

      assert.deepStrictEqual(answers, [0, 1, 2, 3, 4, 5, 0, 4, 6, 7].map((index) => `answer ${index}`))
    })
  )

  it.live("lets nobody share a statement that had begun before", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      yield* ask("a")
      yield* turn
      yield* ask("a")
      yield* turn

      assert.deepStrictEqual(statements.map(({ keys }) => keys), [["a"], ["a"]])
    })
  )

  it.live("has the next statement on its way before those who are told go on", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const begun: Array<number> = []
      for (const key of ["a", "b", "c"]) {
        const asked = yield* ask(key)
        asked.addObserver(() => begun.push(statements.length))
        yield* turn
      }

      Deferred.doneUnsafe(statements[0]!.answer, Effect.void)
      yield* turn

      assert.deepStrictEqual(begun, [3])
    })
  )

  it.live("has two statements under way, and what comes meanwhile in the next", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const asks: Array<Fiber.Fiber<unknown, unknown>> = []
      for (const key of ["a", "b", "c", "d"]) {
        asks.push(yield* ask(key))
        yield* turn
      }
      assert.deepStrictEqual(statements.map(({ keys }) => keys), [["a"], ["b"]])

      Deferred.doneUnsafe(statements[0]!.answer, Effect.void)
      yield* turn
      assert.deepStrictEqual(statements.map(({ keys }) => keys), [["a"], ["b"], ["c", "d"]])
      for (const { answer } of statements) Deferred.doneUnsafe(answer, Effect.void)
      assert.deepStrictEqual(yield* Effect.forEach(asks, (fiber) => Fiber.join(fiber)), ["a", "b", "c", "d"])
    })
  )

  it.live("asks for at most 256 in one statement, and for the others in those behind it", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const keys = Array.from({ length: 600 }, (_, index) => `key ${index}`)
      const asks = yield* Effect.forEach(keys, ask)
      yield* turn
      assert.deepStrictEqual(statements.map((one) => one.keys.length), [256, 256])
      Deferred.doneUnsafe(statements[0]!.answer, Effect.void)
      yield* turn
      assert.deepStrictEqual(statements.map((one) => one.keys.length), [256, 256, 88])

      for (const { answer } of statements) Deferred.doneUnsafe(answer, Effect.void)
      assert.deepStrictEqual(yield* Effect.forEach(asks, (fiber) => Fiber.join(fiber)), keys)
    })
  )

  it.live("asks nothing for who has gone, and fails those whose statement failed, and nobody else", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const [gone, kept, beside] = [yield* ask("gone"), yield* ask("kept"), yield* ask("kept")]
      yield* Fiber.interruptAll([gone, beside])
      yield* turn
      const after = yield* ask("after")
      yield* turn

      assert.deepStrictEqual(statements.map(({ keys }) => keys), [["kept"], ["after"]])
      const failure = new SqlError({ reason: new UnknownError({ cause: new Error("away"), message: "away", operation: "query" }) })
      Deferred.doneUnsafe(statements[0]!.answer, Effect.fail(failure))
      Deferred.doneUnsafe(statements[1]!.answer, Effect.void)
      const { _tag, cause } = yield* Effect.flip(Fiber.join(kept))
      assert.deepStrictEqual([_tag, cause], ["StoreUnavailable", failure])
      assert.strictEqual(yield* Fiber.join(after), "after")
    })
  )

  it.live("asks for who waits, though somebody has gone whose statement for the same is under way", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const [gone] = [yield* ask("a"), yield* turn]
      const kept = yield* ask("a")
      yield* Fiber.interrupt(gone)
      yield* turn

      assert.deepStrictEqual(statements.map(({ keys }) => keys), [["a"], ["a"]])
      Deferred.doneUnsafe(statements[1]!.answer, Effect.void)
      assert.strictEqual(yield* Fiber.join(kept), "a")
    })
  )

  it.live("dies for those whose row cannot be read, and answers the others", () =>
    Effect.gen(function* () {
      const { statements, ask } = held()
      const [broken, whole] = [yield* ask("broken"), yield* ask("whole")]
      yield* turn
      Deferred.doneUnsafe(statements[0]!.answer, Effect.void)

      assert.strictEqual(yield* Fiber.join(whole), "whole")
      const exit = yield* Fiber.await(broken)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    })
  )
})
