import { assert, it, vi } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { EventEmitter } from "node:events"
import type { Server } from "node:http"
import { boundSlowness } from "./LeastRate.ts"

/** A connection, and what its server sees of it: bytes that were given to it, and of these what was not taken yet. */
const connected = Effect.gen(function* () {
  const server = new EventEmitter()
  yield* boundSlowness(server as unknown as Server, 1_000) // as much of one as is asked for
  const socket = Object.assign(new EventEmitter(), { bytesWritten: 0, writableLength: 0, destroy: vi.fn() })
  server.emit("connection", socket)
  return { socket, cuts: () => socket.destroy.mock.calls.length }
})

it.effect("A connection by which pieces of an answer are taken is left alone, and closed when the next is not in time", () =>
  Effect.gen(function* () {
    const { socket, cuts } = yield* connected
    for (let piece = 1; piece <= 10; piece++) {
      Object.assign(socket, { bytesWritten: piece * 350, writableLength: 350 })
      yield* TestClock.adjust(1_000)
    }
    yield* TestClock.adjust(999)
    assert.strictEqual(cuts(), 0)

    yield* TestClock.adjust(1)

    assert.strictEqual(cuts(), 1)
  })
)

it.effect("A piece of an answer has the whole time, whenever it came; and where nothing waits, there is none", () =>
  Effect.gen(function* () {
    const { socket, cuts } = yield* connected
    yield* TestClock.adjust(5_000)
    Object.assign(socket, { bytesWritten: 350, writableLength: 350 })
    yield* TestClock.adjust(1_000)
    Object.assign(socket, { writableLength: 0 })
    yield* TestClock.adjust(1_999)
    Object.assign(socket, { bytesWritten: 700, writableLength: 350 })
    yield* TestClock.adjust(1_000)
    assert.strictEqual(cuts(), 0)

    yield* TestClock.adjust(1)

    assert.strictEqual(cuts(), 1)
  })
)

it.effect("A connection that has ended is looked at no more", () =>
  Effect.gen(function* () {
    const { socket, cuts } = yield* connected
    Object.assign(socket, { bytesWritten: 350, writableLength: 350 })
    yield* TestClock.adjust(1_000)

    socket.emit("close")

    yield* TestClock.adjust(10_000)
    assert.strictEqual(cuts(), 0)
  })
)
