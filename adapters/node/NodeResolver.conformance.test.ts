import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { createSocket, type Socket } from "node:dgram"
import { suite, Zone, type Records, type Said } from "../../conformance/Resolver.ts"
import { conforms } from "../../conformance/vitest.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import * as NodeResolver from "./NodeResolver.ts"

const ipv4Type = 1
const ipv6Type = 28

/** A question: its name, its type, and the bytes that an answer repeats. */
const readQuestion = (query: Buffer) => {
  const labels: Array<string> = []
  let at = 12
  for (; query[at] !== 0; at += query[at]! + 1) labels.push(query.toString("latin1", at + 1, at + 1 + query[at]!)) // ends with a zero
  return { host: labels.join("."), type: query.readUInt16BE(at + 1), bytes: query.subarray(12, at + 5) }
}

const bytesOf = (address: string): Buffer => {
  if (!address.includes(":")) return Buffer.from(address.split(".").map(Number))
  const [head = "", tail = ""] = address.split("::")
  const [left, right] = [head, tail].map((half) => half.split(":").filter((group) => group !== "")) as [Array<string>, Array<string>] // two of two
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right]
  return Buffer.from(groups.map((group) => group.padStart(4, "0")).join(""), "hex")
}

/** Null: no answer at all. Records live for no time. */
const answerTo = (query: Buffer, records: Records): Buffer | null => {
  if (records === "Silence") return null
  const { bytes, type } = readQuestion(query)
  const addresses = typeof records === "string" ? [] : records.map(bytesOf)
  const header = Buffer.alloc(12)
  query.copy(header, 0, 0, 2)
  header.writeUInt16BE(0x8180 + (records === "Failure" ? 2 : records === "NoSuchName" ? 3 : 0), 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(addresses.length, 6)
  const record = (address: Buffer) => Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, address.length]), address])
  return Buffer.concat([header, bytes, ...addresses.map(record)])
}

const bound = Effect.acquireRelease(
  Effect.promise(() => {
    const socket = createSocket("udp4")
    return new Promise<Socket>((resolve) => socket.bind(0, "127.0.0.1", () => resolve(socket)))
  }),
  (socket) => Effect.promise(() => new Promise<void>((resolve) => socket.close(() => resolve())))
)

const makeZone = Effect.map(bound, (socket) => {
  const said = new Map<string, Said>()
  const asked = new Map<string, number>()
  socket.on("message", (query, { address, port }) => {
    const { host, type } = readQuestion(query)
    asked.set(host, (asked.get(host) ?? 0) + 1)
    const { ipv4, ipv6 } = said.get(host) ?? { ipv4: "NoSuchName", ipv6: "NoSuchName" }
    const answer = answerTo(query, type === ipv4Type ? ipv4 : type === ipv6Type ? ipv6 : "Failure")
    if (answer !== null) socket.send(answer, port, address)
  })
  const zone = Zone.of({
    say: (host, what) => Effect.sync(() => void said.set(host, what)),
    questions: (host) => Effect.sync(() => asked.get(host) ?? 0)
  })
  return { zone, server: `127.0.0.1:${socket.address().port}` }
})

const over = (options: NodeResolver.Options): Layer.Layer<Resolver | Zone> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const { zone, server } = yield* makeZone
      const resolver = yield* Layer.build(NodeResolver.layerWith({ servers: [server], ...options }))
      return Context.add(resolver, Zone, zone)
    })
  )

conforms("NodeResolver", suite, over({ retryAfter: 250 }))

describe("NodeResolver", () => {
  it.effect("waits for a family only so long, whatever the other says and however often its servers may be asked", () =>
    Effect.gen(function* () {
      const { questions, say } = yield* Zone
      yield* say("slow.example", { ipv4: ["192.0.2.1"], ipv6: "Silence" })
      const looking = yield* Effect.forkScoped(Resolver.use((resolver) => resolver.addresses("slow.example")))
      while ((yield* questions("slow.example")) < 2) yield* Effect.yieldNow
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(looking.pollUnsafe())

      yield* TestClock.adjust("1 millis")

      assert.deepStrictEqual(yield* Fiber.join(looking), ["192.0.2.1"])
    }).pipe(Effect.provide(over({ retryAfter: 60_000 })))
  )
})
