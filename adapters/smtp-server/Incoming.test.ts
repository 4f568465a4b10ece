import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Stream } from "effect"
import * as Incoming from "./Incoming.ts"
import { WireEnded } from "./Wire.ts"

const limits = { sizeBytesMax: 1_000_000, silence: () => Duration.minutes(1), total: Duration.minutes(10) }

/** A client whose bytes come one by one. */
const byByte = (text: string) => {
  const bytes = Buffer.from(text, "latin1")
  let at = 0
  return {
    chunk: () => Effect.sync(() => (at < bytes.length ? bytes.subarray(at, ++at) : null)),
    giveBack: (rest: Uint8Array) => void (at -= rest.length)
  }
}

describe("Incoming", () => {
  it.effect("is what comes byte by byte, up to its end", () =>
    Effect.gen(function* () {
      const body = "a line of the message\r\n".repeat(2_000)
      const { bytes, isOver } = yield* Incoming.make(byByte(`${body}.\r\nQUIT\r\n`), limits)

      const pieces = yield* Stream.runCollect(bytes)

      assert.isTrue(isOver())
      assert.strictEqual(Buffer.concat(pieces).toString("latin1"), body)
    })
  )

  it.effect("fails where the fault comes, whatever came before it", () =>
    Effect.gen(function* () {
      const { bytes } = yield* Incoming.make(byByte("a line\r\na bare\nline\r\n.\r\n"), limits)

      const failure = yield* Effect.flip(Stream.runDrain(bytes))

      assert.strictEqual(failure._tag, "NotAMessage")
    })
  )

  it.effect("is not waited for again once it has fallen silent", () =>
    Effect.gen(function* () {
      let waits = 0
      const chunk = () => Effect.andThen(Effect.sync(() => (waits += 1)), new WireEnded({ reason: "silent" }))
      const { bytes, rest } = yield* Incoming.make({ chunk, giveBack: () => undefined }, limits)

      const failure = yield* Effect.flip(Stream.runDrain(bytes))

      assert.strictEqual(yield* Effect.flip(rest), failure)
      assert.strictEqual(waits, 1)
    })
  )
})
