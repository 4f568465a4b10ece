import { assert, it } from "@effect/vitest"
import { Effect, Exit, Scope, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import * as fc from "fast-check"
import * as Fixtures from "../../conformance/fixtures.ts"
import { AnswerRoom, forTenants } from "./AnswerRoom.ts"

const answer = (bytes: number) => HttpServerResponse.uint8Array(new Uint8Array(bytes))

it.effect("The room for answers is full to the last byte before one is refused, and is given back", () =>
  Effect.gen(function* () {
    const room = new AnswerRoom({ most: 10, mostOfCaller: 6, free: 2, streamed: 3 })
    const [ada, charles] = [Fixtures.realm().tenantId, Fixtures.realm().tenantId]
    const held = yield* Scope.make()
    const isHeld = (caller: typeof ada, bytes: number) => Effect.map(Effect.exit(Scope.provide(room.hold(caller, answer(bytes)), held)), Exit.isSuccess)

    assert.isTrue(yield* isHeld(ada, 4))
    assert.isFalse(yield* isHeld(ada, 3), "more than one caller may have")
    assert.isTrue(yield* isHeld(ada, 2), "as much as one caller may have")
    assert.isFalse(yield* isHeld(charles, 5), "more than there is in all")
    assert.isTrue(yield* isHeld(charles, 4), "as much as there is in all")
    assert.isTrue(yield* isHeld(charles, 1), "what is not counted")

    yield* Scope.close(held, Exit.void)
    const alone = yield* Effect.scoped(Effect.exit(room.hold(ada, answer(11))))
    assert.isTrue(Exit.isSuccess(alone), "one that is alone may be larger")
  })
)

it("The room for answers holds for each caller and for all no more than it may, whoever leaves in whatever order", () => {
  const [most, mostOfCaller, free] = [20, 8, 2]
  const callers = [0, 1, 2].map(() => Fixtures.realm().tenantId)
  const asks = fc.record({ caller: fc.nat(2), bytes: fc.nat(12) })
  const steps = fc.array(fc.oneof(asks, fc.record({ leaves: fc.nat(9) })), { maxLength: 30, size: "max" })
  fc.assert(
    fc.property(steps, (steps) => {
      const room = new AnswerRoom({ most, mostOfCaller, free, streamed: 3 })
      let held: ReadonlyArray<{ readonly caller: number; readonly bytes: number; readonly scope: Scope.Closeable }> = []
      const sum = (of: typeof held) => of.reduce((sum, { bytes }) => sum + bytes, 0)
      for (const step of steps) {
        if ("leaves" in step) {
          const [leaver] = held.slice(step.leaves)
          held = held.filter((one) => one !== leaver)
          if (leaver !== undefined) Effect.runSync(Scope.close(leaver.scope, Exit.void))
          continue
        }
        const { caller, bytes } = step
        const scope = Scope.makeUnsafe()
        const isHeld = Exit.isSuccess(Effect.runSyncExit(Scope.provide(room.hold(callers[caller]!, answer(bytes)), scope)))

        const own = sum(held.filter((one) => one.caller === caller))
        const isRoom = (own === 0 || own + bytes <= mostOfCaller) && (held.length === 0 || sum(held) + bytes <= most)
        assert.strictEqual(isHeld, bytes < free || isRoom)
        if (isHeld && bytes >= free) held = [...held, { caller, bytes, scope }]
      }
    }),
    { numRuns: 1_000 }
  )
})

it.effect("An answer that is written as it is read takes no room, however long it is", () =>
  Effect.gen(function* () {
    const room = new AnswerRoom({ most: 10, mostOfCaller: 6, free: 2, streamed: 3 })
    const { tenantId } = Fixtures.realm()
    const streamed = HttpServerResponse.stream(Stream.empty, { contentLength: 1000 })

    yield* room.hold(tenantId, streamed)

    assert.isTrue(Exit.isSuccess(yield* Effect.exit(room.hold(tenantId, answer(7)))))
  })
)

it.effect("To read an answer takes room for what is held of it, however long it is, and until it has been taken", () =>
  Effect.gen(function* () {
    const room = new AnswerRoom({ most: 10, mostOfCaller: 6, free: 2, streamed: 3 })
    const [ada, charles] = [Fixtures.realm().tenantId, Fixtures.realm().tenantId]
    const taken = yield* Scope.make()
    const mayRead = (caller: typeof ada, sizeBytes: number) => Effect.map(Effect.exit(room.begin(caller, sizeBytes)), Exit.isSuccess)

    assert.isTrue(yield* Scope.provide(mayRead(ada, 1000), taken))
    assert.isTrue(yield* mayRead(ada, 3), "as much as one caller may have")
    assert.isFalse(yield* mayRead(ada, 1000), "more than one caller may have")
    assert.isFalse(Exit.isSuccess(yield* Effect.exit(room.hold(ada, answer(2)))))
    assert.isTrue(yield* mayRead(ada, 1), "what is not counted")
    assert.isTrue(yield* mayRead(charles, 1000), "another caller's")

    yield* Scope.close(taken, Exit.void)
    assert.isTrue(yield* mayRead(ada, 1000))
  })
)

it.effect("An answer that is held is written in pieces that make it up, of which the last is no small one", () =>
  Effect.gen(function* () {
    const room = new AnswerRoom(forTenants)
    const { tenantId } = Fixtures.realm()
    const mebibyte = 1024 * 1024
    for (const size of [mebibyte, mebibyte + 1, 1.5 * mebibyte - 1, 1.5 * mebibyte, 9_000_001]) {
      const bytes = Buffer.alloc(size, "abcdefg")
      const { body, headers } = yield* room.hold(tenantId, HttpServerResponse.uint8Array(bytes, { contentType: "text/x" }))

      assert.ok(body._tag === "Stream")
      assert.deepStrictEqual([body.contentLength, headers["content-type"], headers["content-length"]], [size, "text/x", String(size)])
      const pieces: Array<Uint8Array> = []
      yield* Stream.runForEachArray(body.stream, (array) => Effect.sync(() => void pieces.push(Buffer.concat(array))))
      assert.isTrue(Buffer.concat(pieces).equals(bytes))
      for (const piece of pieces) assert.isTrue(piece.length >= mebibyte / 2 && piece.length < mebibyte, String(piece.length))
    }
  })
)
