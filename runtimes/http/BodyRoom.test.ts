import { assert, it, layer } from "@effect/vitest"
import { Duration, Effect, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { connect, type Socket } from "node:net"
import { collect } from "../../conformance/Garbage.ts"
import { BodyRoom } from "./BodyRoom.ts"
import * as Harness from "./harness.ts"
import { RequestTimeout } from "./Refusals.ts"

const live = { excludeTestServices: true }
const sizeBytes = 16 * 1024 * 1024
const body = Buffer.from(`{"text":"${"a".repeat(sizeBytes - 11)}"}`)

/** A send of the largest size, whose last byte is kept back; its length is announced, or the body comes as one chunk. */
const slowSend = (port: number, key: string, framing: "length" | "chunk" = "length") => {
  const socket = connect(port, "127.0.0.1")
  const length = framing === "length" ? `Content-Length: ${sizeBytes}` : "Transfer-Encoding: chunked"
  const heads = [`Authorization: Bearer ${key}`, "Content-Type: application/json", "Idempotency-Key: 12345678", length]
  let isRead = false
  let answer = ""
  socket.on("error", () => {})
  socket.on("data", (chunk) => (answer += chunk.toString()))
  socket.write(Harness.wire("POST /v1/messages", heads))
  if (framing === "chunk") socket.write(`${sizeBytes.toString(16)}\r\n`)
  // More than the system holds for a connection in which nobody reads.
  socket.write(body.subarray(0, -1), () => (isRead = true))
  return {
    isRead: () => isRead,
    answer: () => answer,
    finish: () => {
      socket.write(body.subarray(-1))
      if (framing === "chunk") socket.write("\r\n0\r\n\r\n")
    },
    leave: () => void socket.destroy()
  }
}

it.effect("The room for bodies is given back by whoever leaves while he waits for it, or while he is read", () =>
  Effect.gen(function* () {
    const room = new BodyRoom({ most: 2048, mostOfCaller: 1024, free: 0, patience: null })
    const hold = (caller: string) => Effect.forkChild(room.within(caller, 1024, Effect.never), { startImmediately: true })
    const read = yield* hold("ada")
    const waiting = yield* hold("ada")

    yield* Fiber.interrupt(waiting)
    yield* Fiber.interrupt(read)

    assert.strictEqual(yield* room.within("ada", 1024, Effect.succeed("read")), "read")
  })
)

it.effect("A body that takes no room waits behind none, and one of a byte more does", () =>
  Effect.gen(function* () {
    const room = new BodyRoom({ most: 2048, mostOfCaller: 1024, free: 100, patience: null })
    yield* Effect.forkChild(room.within("ada", 1024, Effect.never), { startImmediately: true })

    const small = yield* Effect.forkChild(room.within("ada", 100, Effect.succeed("read")), { startImmediately: true })
    const larger = yield* Effect.forkChild(room.within("ada", 101, Effect.succeed("read")), { startImmediately: true })

    assert.strictEqual(yield* Fiber.join(small), "read")
    assert.isUndefined(larger.pollUnsafe())
  })
)

it.effect("A body that takes too long makes room for those behind it, and to wait for room is none of the time that it may take", () =>
  Effect.gen(function* () {
    const room = new BodyRoom({ most: 2048, mostOfCaller: 2048, free: 0, patience: Duration.seconds(10) })
    const read = (caller: string, duration: Duration.Input) =>
      Effect.forkChild(Effect.result(room.within(caller, 2048, Effect.as(Effect.sleep(duration), "read"))), { startImmediately: true })
    const endless = yield* read("ada", Duration.infinity)
    const waiting = yield* read("charles", "9 seconds")

    yield* TestClock.adjust("9999 millis")
    assert.isUndefined(endless.pollUnsafe())
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(yield* Fiber.join(endless), Result.fail(new RequestTimeout()))
    yield* TestClock.adjust("9 seconds")
    assert.deepStrictEqual(yield* Fiber.join(waiting), Result.succeed("read"))
  })
)

it.effect("Who waits for himself holds nothing of what others wait for, and there is no more for all than there is", () =>
  Effect.gen(function* () {
    const room = new BodyRoom({ most: 2048, mostOfCaller: 1024, free: 0, patience: null })
    const hold = (caller: string) => Effect.forkChild(room.within(caller, 1024, Effect.never), { startImmediately: true })
    yield* hold("ada")
    yield* hold("ada")

    assert.strictEqual(yield* room.within("charles", 1024, Effect.succeed("read")), "read")
    const second = yield* hold("charles")
    const third = yield* Effect.forkChild(room.within("mary", 1024, Effect.succeed("read")), { startImmediately: true })
    assert.isUndefined(third.pollUnsafe())
    yield* Fiber.interrupt(second)
    assert.strictEqual(yield* Fiber.join(third), "read")
  })
)

it.effect("A caller has no more room because one of his bodies has ended, and is forgotten with the last of them", () =>
  Effect.gen(function* () {
    const room = new BodyRoom({ most: 4096, mostOfCaller: 1024, free: 0, patience: null })
    const hold = Effect.forkChild(room.within("ada", 1024, Effect.never), { startImmediately: true })
    const read = yield* hold
    yield* Fiber.interrupt(yield* hold)
    const next = yield* Effect.forkChild(room.within("ada", 1024, Effect.succeed("read")), { startImmediately: true })

    assert.isUndefined(next.pollUnsafe())
    yield* Fiber.interrupt(read)
    assert.strictEqual(yield* Fiber.join(next), "read")
    const before = heap()
    for (let caller = 0; caller < 20_000; caller++) yield* room.within(`of ${caller}`, 1, Effect.void)
    assert.isBelow(heap() - before, 1_000_000)
    assert.strictEqual(yield* room.within("ada", 1024, Effect.succeed("read")), "read") // so that the room is there until now
  })
)

layer(Harness.layer({}), live)("Bodies on their way", (it) => {
  it.effect("are read two of the largest at a time for a tenant, whose others wait, and nobody else's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const [slow, other] = [yield* server.party(), yield* server.party()]
      const sends = [1, 2].map(() => slowSend(server.port, slow.key))
      yield* Harness.eventually(() => sends.every(({ isRead }) => isRead()))

      const [third, fourth] = [slowSend(server.port, slow.key, "chunk"), slowSend(server.port, slow.key)]
      const others = [1, 2].map(() => slowSend(server.port, other.key))
      yield* Harness.eventually(() => others.every(({ isRead }) => isRead()))
      assert.isFalse(third.isRead() || fourth.isRead())
      const small = { fromMailboxId: slow.mailbox.id }
      assert.strictEqual((yield* server.send(small, { key: slow.key })).status, 202)

      sends[0]!.finish()
      sends[1]!.leave()
      yield* Harness.eventually(() => third.isRead() && fourth.isRead())
      third.finish()
      for (const one of [sends[0]!, third]) yield* Harness.eventually(() => one.answer().startsWith("HTTP/1.1 400 "))
      for (const one of [fourth, ...others]) one.leave()
    })
  )

  it.effect("take the room of their bytes, in however small pieces they come", () =>
    Effect.gen(function* () {
      const { port, key } = yield* Harness.Running

      assert.isBelow(yield* heapOfPieces(port, key, 200_000), 40 * 200_000)
    })
  )

  it.effect("take no more than that while they wait to be read", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { key } = yield* server.party()
      const sends = [1, 2].map(() => slowSend(server.port, key))
      yield* Harness.eventually(() => sends.every(({ isRead }) => isRead()))

      // As many as Node takes of a body that nobody reads.
      assert.isBelow(yield* heapOfPieces(server.port, key, 60_000), 40 * 60_000)
      for (const one of sends) one.leave()
    })
  )
})

const heap = () => {
  collect()
  return process.memoryUsage().heapUsed
}

/** What a body holds that comes by a byte at a time and has not ended, once so many have come. */
const heapOfPieces = Effect.fnUntraced(function* (port: number, key: string, count: number) {
  const sockets: Array<Socket> = []
  const met = (message: unknown) => void sockets.push((message as { readonly socket: Socket }).socket) // as Node documents it
  subscribe("http.server.request.start", met)
  const heads = [`Authorization: Bearer ${key}`, "Content-Type: application/json", "Idempotency-Key: 12345678", "Transfer-Encoding: chunked"]
  const head = Harness.wire("POST /v1/messages", heads)
  const pieces = Buffer.from("1\r\n \r\n".repeat(count))
  const client = connect(port, "127.0.0.1")
  client.on("error", () => {})
  client.write(head)
  yield* Harness.eventually(() => sockets.length === 1)
  const before = heap()

  client.write(pieces)
  yield* Harness.eventually(() => sockets[0]!.bytesRead === head.length + pieces.length)
  const after = heap()

  client.destroy()
  unsubscribe("http.server.request.start", met)
  return after - before
})
