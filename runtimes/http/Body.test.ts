import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { HttpServerRequest } from "effect/http"
import * as fc from "fast-check"
import { Readable } from "node:stream"
import { setImmediate } from "node:timers/promises"
import { read, readBytes } from "./Body.ts"
import { BodyRoom } from "./BodyRoom.ts"
import { DrainState } from "./Drain.ts"

const waiting = { drain: new DrainState(), room: new BodyRoom({ most: 4096, mostOfCaller: 4096, free: 0, patience: null }), caller: "ada" }

/** A request whose body comes in these pieces, each when it is wanted; how many were, and whether it was cancelled. */
const sent = (pieces: ReadonlyArray<Uint8Array>, headers: Readonly<Record<string, string>> = {}) => {
  const state = { wanted: 0, isCancelled: false }
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const piece = pieces[state.wanted++]
        if (piece === undefined) controller.close()
        else controller.enqueue(piece)
      },
      cancel: () => void (state.isCancelled = true)
    },
    { highWaterMark: 0 }
  )
  const init = { method: "POST", headers, body: stream, duplex: "half" }
  return { state, request: HttpServerRequest.fromWeb(new Request("http://mailroom.internal/v1/messages", init)) }
}

/** Whether the host may do with the rest of it as it likes. */
const isLeft = ({ source }: HttpServerRequest.HttpServerRequest): boolean => source instanceof Request && source.body?.locked === false

describe("A body that comes in pieces", () => {
  it("is what came, in no more memory than its limit, or is left at the piece that passes it", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1, maxLength: 40, size: "max" }), { maxLength: 12, size: "max" }), fc.nat(300), async (pieces, limitBytes) => {
        const { state, request } = sent(pieces)
        const whole = Buffer.concat(pieces)

        const result = await Effect.runPromise(Effect.result(readBytes(request, limitBytes, waiting)))

        assert.strictEqual(Result.isSuccess(result), whole.length <= limitBytes)
        if (Result.isSuccess(result)) {
          assert.deepStrictEqual(Buffer.from(result.success), whole)
          assert.isAtMost(result.success.buffer.byteLength, limitBytes)
        } else {
          let sum = 0
          assert.deepInclude(result.failure, { _tag: "PayloadTooLarge", limitBytes })
          assert.strictEqual(state.wanted, pieces.findIndex((piece) => (sum += piece.length) > limitBytes) + 1)
          assert.isTrue(isLeft(request))
          assert.isFalse(state.isCancelled)
        }
      }),
      { numRuns: 500 }
    ))

  it.effect("is left where it passes the length that it took room for", () =>
    Effect.gen(function* () {
      const [first, second, third] = ["{", " ", "}"].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer]
      const asAnnounced = sent([first, third], { "content-length": "2" })
      const longer = sent([first, second, third, third], { "content-length": "2" })

      assert.strictEqual(Buffer.from(yield* readBytes(asAnnounced.request, 300, waiting)).toString(), "{}")
      const refusal = yield* Effect.flip(readBytes(longer.request, 300, waiting))

      assert.deepInclude(refusal, { _tag: "InvalidRequest" })
      assert.match(refusal.message, /Content-Length/)
      assert.deepStrictEqual(longer.state, { wanted: 3, isCancelled: false })
      assert.isTrue(isLeft(longer.request))
    })
  )

  it.live("may be one of Node's that a host hands on, whose process goes on where it is left", () =>
    Effect.gen(function* () {
      // As a socket brings it, more than Node reads ahead: it goes on reading on its own.
      const source = new Readable({ read: () => {} })
      for (let piece = 0; piece < 2_000; piece++) source.push(Buffer.alloc(200, " "))
      const init = { method: "POST", body: Readable.toWeb(source) as ReadableStream, duplex: "half" }

      const refusal = yield* Effect.flip(readBytes(HttpServerRequest.fromWeb(new Request("http://mailroom.internal/v1/messages", init)), 300, waiting))

      assert.deepInclude(refusal, { _tag: "PayloadTooLarge" })
      yield* Effect.promise(() => setImmediate()) // by then it would have thrown, where nobody catches it
      assert.isFalse(source.destroyed)
    })
  )

  it.effect("is told apart from an empty one where a host's parser has read it", () =>
    Effect.gen(function* () {
      const left = { method: "POST", headers: { "content-type": "application/json", "content-length": "105" } }
      const without = HttpServerRequest.fromWeb(new Request("http://mailroom.internal/v1/messages", left))

      for (const request of [without, sent([], left.headers).request]) {
        assert.match((yield* Effect.flip(read(request, 300, waiting))).message, /Mount the service before body parsers/)
      }
      for (const request of [sent([]).request, sent([], { "content-length": "0" }).request]) {
        assert.match((yield* Effect.flip(read(request, 300, waiting))).message, /the body is empty/)
      }
    })
  )
})
