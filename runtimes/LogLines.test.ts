import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Logger, Queue, Redacted, References } from "effect"
import { runWithout } from "../conformance/MissingPackage.ts"
import * as LogLines from "./LogLines.ts"

/** What was written, write by write, as lines of JSON. */
const written = <A>(say: Effect.Effect<A>) => {
  const writes: Array<ReadonlyArray<Record<string, unknown>>> = []
  const lines = LogLines.make((text) => void writes.push(text.trimEnd().split("\n").map((line) => JSON.parse(line))))
  return Effect.as(Effect.provide(say, Logger.layer([lines.logger])), { writes, flush: lines.flush })
}

const messages = (writes: ReadonlyArray<ReadonlyArray<Record<string, unknown>>>) => writes.map((lines) => lines.map(({ message }) => message))

describe("LogLines", () => {
  it.effect("writes what nobody waits for together, and a warning at once with all before it", () =>
    Effect.gen(function* () {
      const { writes, flush } = yield* written(
        Effect.gen(function* () {
          yield* Effect.log("one")
          yield* Effect.log("two")
          yield* Effect.logWarning("three")
          yield* Effect.log("four")
        })
      )
      assert.deepStrictEqual(messages(writes), [["one", "two", "three"]])

      flush()
      flush()
      assert.deepStrictEqual(messages(writes), [["one", "two", "three"], ["four"]])
    })
  )

  it.effect("writes a line as Effect's own formatter does, secrets left out", () =>
    Effect.gen(function* () {
      const expected: Array<unknown> = []
      const reference = Logger.map(Logger.formatJson, (line) => void expected.push(JSON.parse(line)))
      const lines: Array<unknown> = []
      const { logger, flush } = LogLines.make((text) => void lines.push(...text.trimEnd().split("\n").map((line) => JSON.parse(line))))
      const said = Effect.gen(function* () {
        yield* Effect.log("plain").pipe(Effect.annotateLogs({ text: "a\nb", number: 1.5, none: null, is: true }))
        yield* Effect.log("several", { deep: [1, 2n] })
        yield* Effect.log("secret", Redacted.make("hunter2")).pipe(Effect.annotateLogs({ key: Redacted.make("hunter2") }))
        yield* Effect.logError("broken", new Error("why"))
        yield* Effect.logError("broken", Cause.fail(new Error("why")))
        yield* Effect.logError("broken", Cause.die("why"))
        yield* Effect.log(Cause.interrupt(1))
      })
      yield* said.pipe(Effect.provide(Logger.layer([reference, logger])), Effect.provideService(References.MinimumLogLevel, "All"))
      flush()

      assert.strictEqual(expected.length, 7)
      assert.deepStrictEqual(lines, expected)
      assert.notInclude(JSON.stringify(lines), "hunter2")
    })
  )

  it.effect("holds no more than it may", () =>
    Effect.gen(function* () {
      const { writes } = yield* written(Effect.forEach(Array.from({ length: 40 }), () => Effect.log("x".repeat(2_000))))

      assert.isAtLeast(writes.length, 1)
      assert.isAtMost(writes[0]!.length, 34)
    })
  )

  it.live("writes what nobody waits for by itself, again and again", () =>
    Effect.gen(function* () {
      const writes = yield* Queue.unbounded<string>()
      const { logger } = LogLines.make((text) => void Queue.offerUnsafe(writes, text))

      for (const word of ["one", "two", "three"]) {
        yield* Effect.provide(Effect.log(word), Logger.layer([logger]))
        assert.strictEqual(JSON.parse(yield* Queue.take(writes)).message, word)
      }
    })
  )

  it("loses nothing that was said before the process ends", () => {
    const program = `
      import { Effect } from "effect"
      import * as LogLines from ${JSON.stringify(import.meta.resolve("./LogLines.ts"))}
      Effect.runSync(Effect.provide(Effect.log("the last word"), LogLines.layer))
      process.exit()`

    const { status, stderr } = runWithout(null, import.meta.dirname, program)

    assert.deepStrictEqual([status, JSON.parse(stderr).message], [0, "the last word"])
  })
})
