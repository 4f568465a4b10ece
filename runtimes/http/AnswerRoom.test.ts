import { assert, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { HttpServerResponse } from "effect/http"
import * as Fixtures from "../../conformance/fixtures.ts"
import { AnswerRoom } from "./AnswerRoom.ts"

const answer = (bytes: number) => HttpServerResponse.uint8Array(new Uint8Array(bytes))

it.effect("The room for answers is full to the last byte before one is refused, and is given back", () =>
  Effect.gen(function* () {
    const room = new AnswerRoom({ most: 10, mostOfCaller: 6, free: 2 })
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
