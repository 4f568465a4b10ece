import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { Scanner } from "../../core/ports/Scanner.ts"
import * as MemoryScanner from "./MemoryScanner.ts"

const scan = (text: string) => Scanner.use((scanner) => scanner.scan(Stream.make(Buffer.from(text)), text.length))
const script = MemoryScanner.ScannerScript
const digest = (text: string) => createHash("sha256").update(text).digest("hex")

describe("MemoryScanner", () => {
  it.effect("answers as scripted: by the bytes first, then in turn, then clean", () =>
    Effect.gen(function* () {
      const { answer, next, scanned } = yield* script
      yield* answer(digest("known"), { _tag: "Infected", signature: "Known" })
      yield* next({ _tag: "Fails", reason: "no engine" }, { _tag: "Infected", signature: "Next" })

      assert.deepStrictEqual(yield* scan("known"), { _tag: "Infected", signature: "Known" })
      assert.strictEqual((yield* Effect.flip(scan("other"))).reason, "no engine")
      assert.deepStrictEqual(yield* scan("other"), { _tag: "Infected", signature: "Next" })
      assert.deepStrictEqual(yield* scan("other"), { _tag: "Clean" })
      assert.deepStrictEqual(yield* scan("known"), { _tag: "Infected", signature: "Known" })
      assert.deepStrictEqual(yield* scanned, ["known", "other", "other", "other", "known"].map(digest))
    }).pipe(Effect.provide(MemoryScanner.layer))
  )

  it.effect("hangs and breaks when told to", () =>
    Effect.gen(function* () {
      const { next } = yield* script
      yield* next({ _tag: "Hangs" }, { _tag: "Dies", defect: new Error("engine gone") })
      const hanging = yield* Effect.forkScoped(scan("one"))
      yield* TestClock.adjust("1 hour")

      assert.isUndefined(hanging.pollUnsafe())
      yield* Fiber.interrupt(hanging)
      assert.isTrue(Exit.hasDies(yield* Effect.exit(scan("two"))))
    }).pipe(Effect.provide(MemoryScanner.layer))
  )
})
