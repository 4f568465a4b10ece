import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Queue, Result, Stream, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { createServer, type AddressInfo, type Server, type Socket } from "node:net"
import { Scanner, type ScanFailed, type Verdict } from "../../core/ports/Scanner.ts"
import * as ClamdScanner from "./ClamdScanner.ts"

/** One connection to a double of clamd, which says what the test has it say. */
interface Call {
  readonly socket: Socket
  /** The bytes as they came. */
  readonly heard: () => Buffer
  /** Settled once some of the stream is here, all of it is, or the caller has hung up. */
  readonly begun: Promise<void>
  readonly ended: Promise<void>
  readonly closed: Promise<void>
}

const pick = (socket: Socket): Call => {
  const [begun, ended, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const pieces: Array<Buffer> = []
  let rest = Buffer.alloc(0)
  let isCommanded = false
  socket.on("error", () => {})
  socket.on("close", () => closed.resolve())
  // Whoever has closed the connection takes no more, which breaks it here too; whoever has only ended their side would.
  socket.on("end", () => {
    const insist = () => void (socket.writable && socket.write("?", () => setImmediate(insist)))
    insist()
  })
  socket.on("data", (bytes) => {
    pieces.push(bytes)
    rest = Buffer.concat([rest, bytes])
    const command = isCommanded ? -1 : rest.indexOf(0)
    if (command >= 0) {
      isCommanded = true
      if (!rest.subarray(0, command).equals(Buffer.from("zINSTREAM"))) ended.resolve()
      rest = rest.subarray(command + 1)
    }
    if (!isCommanded) return
    while (rest.length >= 4) {
      const sizeBytes = rest.readUInt32BE()
      if (sizeBytes === 0) ended.resolve()
      if (rest.length < 4 + sizeBytes) return
      rest = rest.subarray(4 + sizeBytes)
      begun.resolve()
    }
  })
  return { socket, heard: () => Buffer.concat(pieces), begun: begun.promise, ended: ended.promise, closed: closed.promise }
}

/** A double that does this with each call; and the calls, as they come. */
const clamd = (behave: (call: Call, index: number) => Promise<void> | void) =>
  Effect.gen(function* () {
    const calls = yield* Queue.unbounded<Call>()
    const taken: Array<Call> = []
    const server = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const server = createServer({ allowHalfOpen: true }, (socket) => {
          const call = pick(socket)
          Queue.offerUnsafe(calls, call)
          void behave(call, taken.push(call) - 1)
        }).listen({ host: "127.0.0.1", port: 0 }, () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.sync(() => {
          server.close()
          for (const { socket } of taken) socket.destroy()
        })
    )
    const { port } = server.address() as AddressInfo // it listens, on a port
    return { address: { host: "127.0.0.1", port }, calls, open: () => taken.filter(({ socket }) => !socket.destroyed).length }
  })

const answering = (answer: string | ReadonlyArray<string>) => async ({ socket, ended }: Call, index: number) => {
  await ended
  socket.end(Buffer.from(typeof answer === "string" ? answer : answer[index]!, "latin1"))
}

type Address = ClamdScanner.Options["address"]

const scan = <E>(address: Address, bytes: Stream.Stream<Uint8Array, E>, sizeBytes: number, options: Partial<ClamdScanner.Options> = {}) =>
  Scanner.use((scanner) => scanner.scan(bytes, sizeBytes)).pipe(Effect.provide(ClamdScanner.layerWith({ address, ...options })))

const text = Buffer.from("The engine weaves algebraic patterns")
const scanText = (address: Address) => scan(address, Stream.make(text), text.length)
const unending = Stream.concat(Stream.make(text), Stream.never)
const clean: Verdict = { _tag: "Clean" }

/** Any number of event loop's rounds: what was written before has been read after. */
const rounds = (count: number) =>
  Effect.promise(async () => {
    for (let round = 0; round < count; round++) await new Promise((resolve) => setImmediate(resolve))
  })

const assertFails = <E>(scanned: Effect.Effect<Verdict, E | ScanFailed, Scope.Scope>, reason: RegExp) =>
  Effect.map(Effect.result(scanned), (outcome) => {
    assert.isTrue(Result.isFailure(outcome), `it gave a verdict: ${JSON.stringify(outcome)}`)
    if (Result.isFailure(outcome)) assert.match(String(outcome.failure), reason)
  })

describe("what ClamdScanner sends", () => {
  it.live("is each piece behind its length, none empty and none over 64 KiB, and an end", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(answering("stream: OK\0"))
      const large = Buffer.alloc(150_000, "large")
      const pieces = [Buffer.from("a"), Buffer.alloc(0), Buffer.alloc(65_536, "b"), large.subarray(0, 70_001), Buffer.alloc(0)]

      const verdict = yield* scan(address, Stream.fromIterable(pieces), 1 + 65_536 + 70_001)

      assert.deepStrictEqual(verdict, clean)
      const { heard } = yield* Queue.take(calls)
      const expected = ["00000001", "a", "00010000", "b".repeat(65_536), "00010000", large.subarray(0, 65_536), "00001171", large.subarray(65_536, 70_001), "00000000"]
      assert.isTrue(
        heard().equals(
          Buffer.concat([
            Buffer.from("zINSTREAM\0"),
            ...expected.map((part, index) => (index % 2 === 0 ? Buffer.from(String(part), "hex") : Buffer.from(part)))
          ])
        )
      )
    })
  )

  it.live("waits for a clamd that does not read", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(async (call) => {
        call.socket.pause()
        await answering("stream: OK\0")(call, 0)
      })
      const pieces = 1_000
      let pulled = 0
      const bytes = Stream.unfold(0, (index) =>
        Effect.sync(() => (index === pieces ? undefined : ([Buffer.alloc(65_536, ++pulled), index + 1] as const)))
      )

      const scanning = yield* Effect.forkScoped(scan(address, bytes, pieces * 65_536))
      const { socket } = yield* Queue.take(calls)
      let seen = -1
      while (seen < pulled) {
        seen = pulled
        yield* rounds(500)
      }

      assert.isBelow(pulled, pieces / 2)
      socket.resume()
      assert.deepStrictEqual(yield* Fiber.join(scanning), clean)
      assert.strictEqual(pulled, pieces)
    })
  )

  it.live("has no end when the bytes fail, or are not those announced", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(answering("stream: OK\0"))
      const failing: ReadonlyArray<readonly [Stream.Stream<Uint8Array, string>, number, RegExp]> = [
        [Stream.concat(Stream.make(text), Stream.fail("a page is missing")), text.length, /^a page is missing$/],
        [Stream.make(text), text.length + 1, /fewer bytes/],
        [Stream.make(text, text), text.length, /more bytes/]
      ]
      for (const [bytes, sizeBytes, reason] of failing) {
        yield* assertFails(scan(address, bytes, sizeBytes), reason)

        const { heard, closed } = yield* Queue.take(calls)
        yield* Effect.promise(() => closed)
        assert.isTrue(Buffer.from(`zINSTREAM\0\0\0\0${String.fromCharCode(text.length)}${text.toString()}`).equals(heard()))
      }
    })
  )
})

describe("what ClamdScanner makes of an answer", () => {
  const answers: ReadonlyArray<readonly [answer: string, outcome: Verdict | RegExp]> = [
    ["stream: OK\0", clean],
    ["stream: Win.Test.EICAR_HDB-1 FOUND\0", { _tag: "Infected", signature: "Win.Test.EICAR_HDB-1" }],
    ["stream: Eicar(44d88612fea8a8f36de82e1278abb02f:68) FOUND\0", { _tag: "Infected", signature: "Eicar(44d88612fea8a8f36de82e1278abb02f:68)" }],
    ["stream: PUA.Win.Packer.Upx-1 FOUND\0", { _tag: "Infected", signature: "PUA.Win.Packer.Upx-1" }],
    ["stream: Heuristics.Phishing.Email.SpoofedDomain FOUND\0", { _tag: "Infected", signature: "Heuristics.Phishing.Email.SpoofedDomain" }],
    ["stream: Win.Heuristics.Encrypted-1 FOUND\0", { _tag: "Infected", signature: "Win.Heuristics.Encrypted-1" }],
    ["stream: A Name Of Words.UNOFFICIAL FOUND\0", { _tag: "Infected", signature: "A Name Of Words.UNOFFICIAL" }],
    ["stream: Heuristics.Limits.Exceeded FOUND\0", /not seen all: Heuristics\.Limits\.Exceeded$/],
    ["stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND\0", /not seen all/],
    ["stream: Heuristics.Limits.Exceeded.MaxRecursion(44d88612fea8a8f36de82e1278abb02f:68) FOUND\0", /not seen all/],
    ["stream: Heuristics.Encrypted.Zip FOUND\0", /not seen all: Heuristics\.Encrypted\.Zip/],
    ["stream: Heuristics.Encrypted.PDF FOUND\0", /not seen all/],
    ["INSTREAM size limit exceeded. ERROR\0", /clamd says "INSTREAM size limit exceeded\. ERROR"$/],
    ["stream: Can't allocate memory ERROR\0", /clamd says/],
    ["UNKNOWN COMMAND\0", /clamd says/],
    ["PONG\0", /clamd says/],
    ["", /hung up without an answer/],
    ["\0", /clamd says ""/],
    ["stream: OK", /cut off: "stream: OK"/],
    ["stream: OK\n", /cut off/],
    ["stream: Win.Test.EICAR_HDB-1 FOU", /cut off/],
    ["stream: OK\n\0", /not one line/],
    ["stream: OK\0\0", /not one line/],
    ["stream: OK\0stream: OK\0", /not one line/],
    ["stream: OK\0stream: Win.Test.EICAR_HDB-1 FOUND\0", /not one line/],
    ["stream: Win.Test.EICAR_HDB-1 FOUND\0stream: OK\0", /not one line/],
    ["stream: \u001b[31m FOUND\0", /not one line of text: "stream: \?\[31m FOUND"/],
    ["stream: caf\u00e9 FOUND\0", /not one line/],
    ["OK\0", /clamd says/],
    ["STREAM: OK\0", /clamd says/],
    [" stream: OK\0", /clamd says/],
    ["stream: OK \0", /clamd says/],
    ["stream: OK OK\0", /clamd says/],
    ["1: stream: OK\0", /clamd says/],
    ["1: stream: Win.Test.EICAR_HDB-1 FOUND\0", /clamd says/],
    ["stream: Win.Test.EICAR_HDB-1 FOUND or not\0", /clamd says/],
    ["stream:  FOUND\0", /clamd says/],
    [`stream: ${"A".repeat(1_100)} FOUND\0`, /more than an answer/],
    ["A".repeat(1_000_000), /more than an answer/]
  ]
  for (const [answer, outcome] of answers) {
    it.live(`${JSON.stringify(answer.slice(0, 80))} is ${outcome instanceof RegExp ? "no verdict" : outcome._tag}`, () =>
      Effect.gen(function* () {
        const { address } = yield* clamd(answering(answer))

        if (outcome instanceof RegExp) yield* assertFails(scanText(address), outcome)
        else assert.deepStrictEqual(yield* scanText(address), outcome)
      })
    )
  }

  it.live("is the same when it comes byte by byte", () =>
    Effect.gen(function* () {
      const { address } = yield* clamd(async ({ socket, ended }) => {
        await ended
        for (const byte of "stream: OK\0") await new Promise((resolve) => socket.write(byte, () => setImmediate(resolve)))
        socket.end()
      })

      assert.deepStrictEqual(yield* scanText(address), clean)
    })
  )

  it.live("is no verdict when the connection breaks, before it or behind it", () =>
    Effect.gen(function* () {
      for (const [answer, reason] of [["", /broke: ECONNRESET$/], ["stream: OK\0", /broke: ECONNRESET/]] as const) {
        const { address } = yield* clamd(async ({ socket, ended }) => {
          await ended
          await new Promise((resolve) => (answer === "" ? resolve(null) : socket.write(answer, resolve)))
          socket.resetAndDestroy()
        })

        yield* assertFails(scanText(address), reason)
      }
    })
  )

  it.live("is no verdict when nobody is there", () =>
    Effect.gen(function* () {
      const { address } = yield* Effect.scoped(clamd(() => {}))

      yield* assertFails(scanText(address), /broke: ECONNREFUSED/)
      yield* assertFails(scanText({ path: "/nowhere/clamd.sock" }), /broke: ENOENT/)
    })
  )
})

describe("an answer before the end of the bytes", () => {
  const early = (answer: string) => async ({ socket, begun }: Call) => {
    await begun
    socket.write(answer)
  }

  it.live("is believed when it is a find, and the rest is not read", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(early("stream: Win.Test.EICAR_HDB-1 FOUND\0"))

      assert.deepStrictEqual(yield* scan(address, unending, 1_000), { _tag: "Infected", signature: "Win.Test.EICAR_HDB-1" })

      const { closed } = yield* Queue.take(calls)
      yield* Effect.promise(() => closed)
    })
  )

  it.live("is believed when it is a find, also of a clamd that reads no more", () =>
    Effect.gen(function* () {
      const { address } = yield* clamd(async (call) => {
        await call.begun
        call.socket.pause()
        call.socket.write("stream: Win.Test.EICAR_HDB-1 FOUND\0")
      })
      const endless = Stream.forever(Stream.make(Buffer.alloc(65_536, "x")))

      assert.strictEqual((yield* scan(address, endless, Infinity))._tag, "Infected")
    })
  )

  it.live("is no verdict otherwise", () =>
    Effect.gen(function* () {
      for (const answer of ["stream: OK\0", "INSTREAM size limit exceeded. ERROR\0", "stream: Heuristics.Limits.Exceeded FOUND\0"]) {
        const { address } = yield* clamd(early(answer))

        yield* assertFails(scan(address, unending, 1_000), /before it has all|not seen all/)
      }
    })
  )

  it.live("is no verdict when it is an OK that was there before their end was said, though nobody had looked", () =>
    Effect.gen(function* () {
      const said = yield* Queue.unbounded<void>()
      const { address } = yield* clamd(({ socket }) => void socket.pause().end("stream: OK\0", () => Queue.offerUnsafe(said, undefined)))

      yield* assertFails(scan(address, Stream.fromEffect(Effect.as(Queue.take(said), text)), text.length), /says "stream: OK" before it has all/)
    })
  )

  it.live("is no verdict when it is an OK that ends after them", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(async ({ socket, begun, ended }) => {
        await begun
        socket.write("stream: O")
        await ended
        socket.end("K\0")
      })
      const go = yield* Deferred.make<void>()
      const bytes = Stream.concat(Stream.make(text), Stream.fromEffect(Effect.as(Deferred.await(go), text)))

      const scanning = yield* Effect.forkScoped(scan(address, bytes, 2 * text.length))
      const { begun } = yield* Queue.take(calls)
      yield* Effect.promise(() => begun)
      yield* rounds(10)
      yield* Deferred.succeed(go, undefined)

      yield* assertFails(Fiber.join(scanning), /says "stream: OK" before it has all/)
    })
  )

  it.live("is no verdict when clamd hangs up, with a word or without", () =>
    Effect.gen(function* () {
      const endless = Stream.forever(Stream.make(Buffer.alloc(65_536, "x")))
      for (const hangUp of [(socket: Socket) => socket.destroy(), (socket: Socket) => socket.end("stream: O"), (socket: Socket) => socket.resetAndDestroy()]) {
        const { address } = yield* clamd(async ({ socket, begun }) => {
          await begun
          hangUp(socket)
        })

        yield* assertFails(scan(address, endless, Infinity), /broke|hung up|cut off/)
      }
    })
  )
})

describe("ClamdScanner's patience", () => {
  const stalls: ReadonlyArray<readonly [whom: string, (call: Call) => Promise<void> | void, Stream.Stream<Uint8Array>, sizeBytes: number]> = [
    ["a clamd that says nothing", () => {}, Stream.make(text), text.length],
    ["a clamd that does not hang up", ({ socket, ended }) => ended.then(() => void socket.write("stream: OK\0")), Stream.make(text), text.length],
    ["a clamd that does not read", ({ socket }) => void socket.pause(), Stream.forever(Stream.make(Buffer.alloc(65_536))), Infinity],
    ["bytes that do not come", () => {}, unending, Infinity]
  ]
  for (const [whom, behave, bytes, sizeBytes] of stalls) {
    it.effect(`ends with ${whom}, and the connection with it`, () =>
      Effect.gen(function* () {
        const { address, calls } = yield* clamd(behave)
        const scanning = yield* Effect.forkScoped(scan(address, bytes, sizeBytes, { timeout: "30 seconds" }))
        const { socket, closed } = yield* Queue.take(calls)
        yield* rounds(20)

        yield* TestClock.adjust("29 seconds")
        assert.isUndefined(scanning.pollUnsafe())
        yield* TestClock.adjust("1 second")

        yield* assertFails(Fiber.join(scanning), /clamd has not answered within 30s/)
        socket.resume()
        yield* Effect.promise(() => closed)
      })
    )
  }

  it.effect("lasts 90 seconds unless it is told otherwise, and begins with the connection", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(() => {})
      yield* Effect.gen(function* () {
        const scanner = yield* Scanner
        const [first, second] = yield* Effect.forEach([1, 2], () => Effect.forkScoped(scanner.scan(Stream.make(text), text.length)))
        const { socket, ended } = yield* Queue.take(calls)
        yield* Effect.promise(() => ended)
        yield* TestClock.adjust("89 seconds")
        socket.end("stream: OK\0")
        assert.deepStrictEqual(yield* Fiber.join(first!), clean)

        yield* Queue.take(calls)
        yield* TestClock.adjust("89 seconds")
        assert.isUndefined(second!.pollUnsafe())
        yield* TestClock.adjust("1 second")
        yield* assertFails(Fiber.join(second!), /has not answered within 1m 30s/)
      }).pipe(Effect.provide(ClamdScanner.layerWith({ address, connectionsMax: 1 })))
    })
  )
})

describe("ClamdScanner's connections", () => {
  it.live("are so many at once and no more; who waits is served in order; who ends early frees a place", () =>
    Effect.gen(function* () {
      const { address, calls, open } = yield* clamd(() => {})
      yield* Effect.gen(function* () {
        const scanner = yield* Scanner
        const scanned = (name: string) => Effect.forkScoped(scanner.scan(Stream.make(Buffer.from(name)), name.length))
        const nextCall = Effect.gen(function* () {
          const call = yield* Queue.take(calls)
          yield* Effect.promise(() => call.ended)
          return { ...call, name: call.heard().toString("latin1", 14, 15) }
        })
        const [a, b, c, d, e] = yield* Effect.forEach([..."abcde"], scanned)
        const [first, second] = [yield* nextCall, yield* nextCall]
        yield* rounds(20)
        assert.deepStrictEqual([first.name, second.name, open()], ["a", "b", 2])

        yield* Fiber.interrupt(c!)
        second.socket.end("stream: Two FOUND\0")
        assert.deepStrictEqual(yield* Fiber.join(b!), { _tag: "Infected", signature: "Two" })
        const third = yield* nextCall
        assert.strictEqual(third.name, "d")

        yield* Fiber.interrupt(a!)
        yield* Effect.promise(() => first.closed)
        const fourth = yield* nextCall
        assert.deepStrictEqual([fourth.name, open()], ["e", 2])

        fourth.socket.end("nonsense\0")
        third.socket.end("stream: OK\0")
        yield* assertFails(Fiber.join(e!), /nonsense/)
        assert.deepStrictEqual(yield* Fiber.join(d!), clean)
        const again = yield* Effect.forEach([..."fg"], scanned)
        for (const _ of again) (yield* nextCall).socket.end("stream: OK\0")
        assert.deepStrictEqual(yield* Effect.forEach(again, Fiber.join), [clean, clean])
      }).pipe(Effect.provide(ClamdScanner.layerWith({ address, connectionsMax: 2 })))
    })
  )

  it.live("are four unless told otherwise", () =>
    Effect.gen(function* () {
      const { address, calls, open } = yield* clamd(() => {})
      yield* Effect.gen(function* () {
        const scanner = yield* Scanner
        for (const _ of "abcdef") yield* Effect.forkScoped(scanner.scan(Stream.make(text), text.length))
        for (const _ of "abcd") yield* Queue.take(calls)
        yield* rounds(20)

        assert.deepStrictEqual([open(), yield* Queue.size(calls)], [4, 0])
      }).pipe(Effect.provide(ClamdScanner.layerWith({ address })))
    })
  )
})

describe("ClamdScanner.check", () => {
  const version = "ClamAV 1.4.6/27000/Thu Jan  1 00:00:00 1970\0"
  const [ok, found] = ["stream: OK\0", "stream: Win.Test.EICAR_HDB-1 FOUND\0"]
  const [overLimit, encrypted] = ["stream: Heuristics.Limits.Exceeded.MaxScanSize FOUND\0", "stream: Heuristics.Encrypted.Zip FOUND\0"]
  const fit = [version, ok, found, found, overLimit, overLimit, encrypted, encrypted]
  const faultsOf = (answers: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const { address } = yield* clamd(answering(answers))
      return (yield* ClamdScanner.check({ address })).faults.map((fault) => /^(?:an? |the )?(.*?):/.exec(fault)![1])
    })

  it.live("finds nothing wrong with a clamd that looks at everything, and says what it is", () =>
    Effect.gen(function* () {
      const { address, calls } = yield* clamd(answering(fit))

      assert.deepStrictEqual(yield* ClamdScanner.check({ address }), { version: version.slice(0, -1), faults: [] })
      assert.strictEqual((yield* Queue.take(calls)).heard().toString(), "zVERSION\0")
    })
  )

  it.live("names all that a clamd calls OK without looking", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* faultsOf(fit.map((answer, index) => (index === 0 ? answer : ok))), [
        "EICAR test file",
        "EICAR test file at the end of 26214400 bytes",
        "archive nested deeper than it looks",
        "2 GB in a zip of 2 MB",
        "encrypted zip",
        "encrypted PDF"
      ])
    })
  )

  it.live("takes neither a limit for a find, nor a find for a limit, nor an error for either", () =>
    Effect.gen(function* () {
      assert.lengthOf(yield* faultsOf([version, found, overLimit, encrypted, found, ok, found, overLimit]), 7)
      assert.lengthOf(yield* faultsOf([version, ...fit.slice(1).map(() => "INSTREAM size limit exceeded. ERROR\0")]), 7)
      assert.lengthOf(yield* faultsOf([version, ...fit.slice(1).map(() => "")]), 7)
    })
  )

  it.effect("fails when there is no clamd, or a mute one", () =>
    Effect.gen(function* () {
      const { address } = yield* Effect.scoped(clamd(() => {}))
      assert.match((yield* Effect.flip(ClamdScanner.check({ address }))).reason, /ECONNREFUSED/)

      const mute = yield* clamd(() => {})
      const checking = yield* Effect.forkScoped(ClamdScanner.check({ address: mute.address, timeout: "1 second" }))
      yield* Queue.take(mute.calls)
      yield* TestClock.adjust("1 second")
      assert.match((yield* Effect.flip(Fiber.join(checking))).reason, /within 1s/)
    })
  )
})
