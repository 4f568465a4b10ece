import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Time from "./Time.ts"

describe("calm", () => {
  it.effect("comes when all that was asked of a port has been answered, the pieces of a blob too", () =>
    Effect.gen(function* () {
      const calls = new Time.Calls()
      const slowly = <A>(value: A) => TestClock.withLive(Effect.as(Effect.sleep("50 millis"), value))
      const port = calls.watch("BlobStore", {
        get: () => slowly("whole"),
        read: () => Stream.mapEffect(Stream.make("piece", "piece"), slowly)
      })

      const asked = yield* Effect.forkChild(Effect.andThen(port.get(), Stream.runDrain(port.read())), { startImmediately: true })
      yield* Effect.provideService(Time.calm, Time.WorldCalls, calls)

      assert.isDefined(asked.pollUnsafe(), "it goes on")
      yield* Fiber.join(asked)
    })
  )
})
