import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Incoming from "./Incoming.ts"
import * as Reply from "./Reply.ts"
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

  it.effect("keeps to the first of its faults, and ends the connection at twice its size", () =>
    Effect.gen(function* () {
      const message = yield* Incoming.make(byByte("\nlonger\r\n.\r\n"), { ...limits, sizeBytesMax: 5 })
      const longFirst = yield* Incoming.make(byByte("longer\r\n\n\r\n.\r\n"), { ...limits, sizeBytesMax: 6 })
      const endless = yield* Incoming.make({ chunk: () => Effect.succeed(Buffer.from("x")), giveBack: () => undefined }, { ...limits, sizeBytesMax: 5 })

      const failures = [yield* Effect.flip(Stream.runDrain(message.bytes)), yield* Effect.flip(message.rest)]
      const tooLarge = yield* Effect.flip(Stream.runDrain(endless.bytes))

      assert.deepStrictEqual(failures.map((failure) => failure._tag === "NotAMessage" && failure.reply), [Reply.bareInMessage, Reply.bareInMessage])
      assert.deepInclude(yield* Effect.flip(longFirst.rest), { _tag: "NotAMessage", reply: Reply.tooLarge })
      assert.deepInclude(tooLarge, { _tag: "NotAMessage", reply: Reply.tooLarge })
      assert.deepInclude(yield* Effect.flip(endless.rest), { _tag: "WireEnded", reason: "endless" })
    })
  )

  it.effect("is given up when its time is over, however much of it is there to be read", () =>
    Effect.gen(function* () {
      const waits: Array<number> = []
      const chunk = (within: Duration.Duration) => {
        waits.push(Duration.toSeconds(within))
        return waits.length > 100 ? Effect.succeed(null) : Effect.as(TestClock.adjust("40 seconds"), Buffer.from("a line\r\n"))
      }
      const { bytes } = yield* Incoming.make({ chunk, giveBack: () => undefined }, limits)

      assert.deepInclude(yield* Effect.flip(Stream.runDrain(bytes)), { _tag: "WireEnded", reason: "silent" })
      assert.deepStrictEqual(waits, [...Array.from({ length: 14 }, () => 60), 40]) // and no longer than what is left
    })
  )

  it.effect("gives back what came behind it", () =>
    Effect.gen(function* () {
      const given: Array<string> = []
      const giveBack = (rest: Uint8Array) => void given.push(Buffer.from(rest).toString())
      const { bytes } = yield* Incoming.make({ chunk: () => Effect.succeed(Buffer.from("x\r\n.\r\nQUIT\r\n")), giveBack }, limits)

      yield* Stream.runDrain(bytes)

      assert.deepStrictEqual(given, ["QUIT\r\n"])
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
