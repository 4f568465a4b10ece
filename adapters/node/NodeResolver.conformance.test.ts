import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { createSocket, type Socket } from "node:dgram"
import { createServer, type Server } from "node:net"
import { suite, Zone, type Records, type Said, type SaidBeside } from "../../conformance/Resolver.ts"
import { conforms } from "../../conformance/vitest.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import * as NodeResolver from "./NodeResolver.ts"

const [ipv4Type, cnameType, mxType, txtType, ipv6Type] = [1, 5, 15, 16, 28]

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

const nameBytes = (name: string): Buffer =>
  Buffer.concat([...name.split(".").filter((label) => label !== "").map(shortText), Buffer.alloc(1)])

/** A text of at most 255 bytes behind its length. */
const shortText = (text: string): Buffer => Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)])

const preferenceBytes = (preference: number): Buffer => Buffer.from([preference >> 8, preference & 255])

/** The records' data, or why there are none. */
type RecordData = ReadonlyArray<Buffer> | Exclude<Records, ReadonlyArray<string>>

const dataOf = <A>(records: ReadonlyArray<A> | Exclude<RecordData, ReadonlyArray<Buffer>> | undefined, encode: (record: A) => Buffer): RecordData =>
  records === undefined ? [] : typeof records === "string" ? records : records.map(encode)

/** Null: no answer at all. Records live for no time. */
const answerTo = (query: Buffer, records: RecordData): Buffer | null => {
  if (records === "Silence") return null
  const { bytes, type } = readQuestion(query)
  const data = typeof records === "string" ? [] : records
  const header = Buffer.alloc(12)
  query.copy(header, 0, 0, 2)
  header.writeUInt16BE(0x8180 + (records === "Failure" ? 2 : records === "NoSuchName" ? 3 : 0), 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(data.length, 6)
  const record = (one: Buffer) =>
    Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, one.length >> 8, one.length & 255]), one])
  return Buffer.concat([header, bytes, ...data.map(record)])
}

/** The same answer where it does not fit: without its records, marked as cut off. */
const cut = (answer: Buffer, query: Buffer): Buffer => {
  if (answer.length <= 1_232) return answer
  const { bytes } = readQuestion(query)
  const head = Buffer.concat([answer.subarray(0, 12), bytes])
  head.writeUInt16BE(head.readUInt16BE(2) | 0x0200, 2)
  head.writeUInt16BE(0, 6)
  return head
}

const bound = Effect.acquireRelease(
  Effect.promise(() => {
    const socket = createSocket("udp4")
    return new Promise<Socket>((resolve) => socket.bind(0, "127.0.0.1", () => resolve(socket)))
  }),
  (socket) => Effect.promise(() => new Promise<void>((resolve) => socket.close(() => resolve())))
)

/** For answers that do not fit a datagram, at the same port. */
const listening = (port: number, answerOf: (query: Buffer) => Buffer | null) =>
  Effect.acquireRelease(
    Effect.tryPromise(() => {
      const server = createServer((socket) => {
        let held: Buffer = Buffer.alloc(0)
        socket.on("error", () => {})
        socket.on("data", (bytes) => {
          held = Buffer.concat([held, bytes])
          while (held.length >= 2 && held.length >= 2 + held.readUInt16BE(0)) {
            const query = held.subarray(2, 2 + held.readUInt16BE(0))
            held = held.subarray(2 + query.length)
            const answer = answerOf(query)
            if (answer !== null) socket.write(Buffer.concat([preferenceBytes(answer.length), answer]))
          }
        })
      })
      return new Promise<Server>((resolve, reject) => server.on("error", reject).listen(port, "127.0.0.1", () => resolve(server)))
    }),
    (server) => Effect.promise(() => new Promise<void>((resolve) => server.close(() => resolve())))
  )

/** One port for both; another one, if somebody has it for TCP. */
const pair = (answerOf: (query: Buffer) => Buffer | null) =>
  Effect.tap(bound, (socket) => listening(socket.address().port, answerOf)).pipe(Effect.retry({ times: 20 }), Effect.orDie)

const makeZone = Effect.gen(function* () {
  const said = new Map<string, Said>()
  const beside = new Map<string, SaidBeside>()
  const asked = new Map<string, number>()
  const answerOf = (query: Buffer): Buffer | null => {
    const { host, type } = readQuestion(query)
    const { ipv4, ipv6 } = said.get(host) ?? { ipv4: "NoSuchName", ipv6: "NoSuchName" }
    const other = beside.get(host)
    switch (type) {
      case ipv4Type:
        return answerTo(query, dataOf(ipv4, bytesOf))
      case ipv6Type:
        return answerTo(query, dataOf(ipv6, bytesOf))
      case txtType:
        return answerTo(query, dataOf(other?.txt, (strings) => Buffer.concat(strings.map(shortText))))
      case mxType:
        return answerTo(query, dataOf(other?.mx, ([preference, name]) => Buffer.concat([preferenceBytes(preference), nameBytes(name)])))
      case cnameType:
        return answerTo(query, dataOf(other?.cname, nameBytes))
      default:
        return answerTo(query, "Failure")
    }
  }
  const socket = yield* pair(answerOf)
  socket.on("message", (query, { address, port }) => {
    const { host } = readQuestion(query)
    asked.set(host, (asked.get(host) ?? 0) + 1)
    const answer = answerOf(query)
    if (answer !== null) socket.send(cut(answer, query), port, address)
  })
  const { port } = socket.address()
  const zone = Zone.of({
    say: (host, what) => Effect.sync(() => void said.set(host, what)),
    sayBeside: (name, what) => Effect.sync(() => void beside.set(name, what)),
    questions: (host) => Effect.sync(() => asked.get(host) ?? 0)
  })
  return { zone, server: `127.0.0.1:${port}` }
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
