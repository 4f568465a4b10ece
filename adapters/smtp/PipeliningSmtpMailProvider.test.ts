import { assert, describe, it, vi } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Redacted, References, Stream } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"
import dns from "node:dns"
import { isIPv6 } from "node:net"
import { generate } from "selfsigned"
import { arrivals, endOf, heard, large, mail, once, type Script } from "../../conformance/MailServerScript.ts"
import { BlobMissing } from "../../core/ports/BlobStore.ts"
import type { Sink } from "./PipeliningConnection.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as ScriptedServer from "./ScriptedServer.ts"
import { SmtpReplies } from "./SmtpReplies.ts"

const against = Effect.fnUntraced(function* (over: Partial<PipeliningSmtpMailProvider.Options> = {}, script: Script = () => null) {
  const server = yield* ScriptedServer.start(script)
  const provider = yield* PipeliningSmtpMailProvider.make({ host: "127.0.0.1", port: server.port, tls: "none", ...over })
  return { provider, server }
})

const privateKey = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString()
const dkim = [{ domain: "example.com", selector: "s", privateKey: Redacted.make(privateKey) }]

/** Takes more than is read ahead. */
const long = "x".repeat(70).concat("\r\n").repeat(2_000)

describe("a small message", () => {
  it.effect("is read once, signed or not, before there is a connection for it", () =>
    Effect.gen(function* () {
      for (const keys of [[], dkim]) {
        const { provider, server } = yield* against({ dkim: keys })
        const request = mail()
        let passes = 0
        const mime = Stream.suspend(() => {
          passes += 1
          return request.mime
        })

        assert.strictEqual(yield* endOf(provider, { ...request, mime }), "250")

        assert.strictEqual(passes, 1)
        assert.lengthOf(yield* arrivals(server, request), 1)
      }
    })
  )

  it.effect("that cannot be read takes no place on a connection", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against()
      const request = mail()
      const missing = new BlobMissing({ sha256: "" })

      const error = yield* Effect.flip(provider.submit({ ...request, mime: Stream.concat(request.mime, Stream.fail(missing)) }))

      assert.strictEqual(error, missing)
      assert.lengthOf(yield* server.conversations, 0)
    })
  )

  it.effect("that is larger than it was said to be arrives whole", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against()
      const request = mail(["charles"], long)

      assert.strictEqual(yield* endOf(provider, { ...request, sizeBytes: 1_000 }), "250")

      assert.isTrue((yield* arrivals(server, request))[0]!.endsWith(long))
    })
  )

  it.effect("is submitted to a server of old that knows no EHLO, a command at a time", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against({}, ({ place }) => (place === "EHLO" ? { say: "502 5.5.1 what\r\n" } : null))

      assert.strictEqual(yield* endOf(provider, mail()), "250")

      const [only] = yield* server.conversations
      assert.deepStrictEqual(only!.commands.map((command) => command.split(" ")[0]), ["EHLO", "HELO", "MAIL", "RCPT", "DATA"])
      assert.strictEqual(only!.overruns, 0)
    })
  )
})

describe("a large message", () => {
  it.effect("goes on when there is room again, also if that is before its fiber has another turn", () =>
    Effect.gen(function* () {
      const pieces = 20
      for (const turn of [3, 4, 5, 6, 7]) {
        let written = 0
        let onDrain = () => {}
        const ended = yield* Deferred.make<void>()
        const sink: Sink = {
          takesEightBit: true,
          write: () => {
            written += 1
            queueMicrotask(() => onDrain())
            return false
          },
          onDrain: (then) => (onDrain = then),
          end: () => Deferred.doneUnsafe(ended, Exit.void),
          breakOff: () => {}
        }
        const pouring = yield* PipeliningSmtpMailProvider.pour(Stream.fromIterable(Array(pieces).fill(Buffer.from("x\r\n"))), sink).pipe(
          Effect.provideService(References.MaxOpsBeforeYield, turn),
          Effect.forkChild
        )

        yield* Deferred.await(ended)

        assert.strictEqual(written, pieces)
        yield* Fiber.interrupt(pouring)
      }
    })
  )
})

describe("many messages", () => {
  it.effect("small and large, signed, over few connections, arrive once each and whole", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against({ connectionsMax: 3, messagesPerConnectionMax: 7, dkim })
      const bodies = Array.from({ length: 60 }, (_, index) => (index % 5 === 0 ? `${index}\r\n${long}` : `.${index}\r\n`))
      const requests = bodies.map((body, index) => mail([`r${index}`], body))

      const ends = yield* Effect.forEach(requests, (request) => endOf(provider, request), { concurrency: 32 })

      assert.deepStrictEqual(new Set(ends), new Set(["250"]))
      for (const [index, request] of requests.entries()) {
        const [wire, ...more] = yield* arrivals(server, request)
        assert.lengthOf(more, 0)
        assert.isTrue(wire!.startsWith("DKIM-Signature: ") && wire!.endsWith(`\r\n\r\n${bodies[index]!.replace(/^\./, "..")}`))
      }
      const conversations = yield* server.conversations
      assert.isAtMost(Math.max(...conversations.map(({ messages }) => messages.length)), 7)
      assert.isAtMost(conversations.length, 11)
    })
  )

  it.effect("go out behind one another over TLS too", () =>
    Effect.gen(function* () {
      const names = { extensions: [{ name: "subjectAltName" as const, altNames: [{ type: 2 as const, value: "localhost" }] }] }
      const made = yield* Effect.promise(() => generate([{ name: "commonName", value: "localhost" }], names))
      const server = yield* ScriptedServer.start(() => null, { certificate: { key: made.private, cert: made.cert }, isImplicit: true })
      const provider = yield* PipeliningSmtpMailProvider.make({
        host: "127.0.0.1",
        port: server.port,
        tls: "implicit",
        servername: "localhost",
        ca: made.cert,
        connectionsMax: 1
      })
      const requests = Array.from({ length: 30 }, (_, index) => mail([`r${index}`], index % 5 === 0 ? long : `${index}\r\n`))

      const ends = yield* Effect.forEach(requests, (request) => endOf(provider, request), { concurrency: "unbounded" })

      assert.deepStrictEqual(new Set(ends), new Set(["250"]))
      for (const request of requests) assert.lengthOf(yield* arrivals(server, request), 1)
      assert.isAtLeast((yield* server.conversations)[0]!.overruns, 50)
    })
  )

  it.effect("that wait do so without a bound, and those that have a place end within the time", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against({ connectionsMax: 1 }, once("message", {}))
      const [first, second, third] = yield* Effect.forEach([mail(), mail(), mail()], (request) => Effect.forkScoped(endOf(provider, request)))
      yield* server.until(([only]) => only?.messages.length === 1 && only.pending.endsWith("DATA\r\n"))

      yield* TestClock.adjust("9 minutes")

      assert.strictEqual(yield* Fiber.join(first!), "unavailable")
      assert.include(["unavailable", "250"], yield* Fiber.join(second!))
      assert.strictEqual(yield* Fiber.join(third!), "250")
    })
  )

  it.effect("that wait on a server that says nothing are given back within a second of being wanted no more", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against({ connectionsMax: 1 }, once("message", {}))
      let isWanted = true
      const waiting = [large(mail()), mail(), mail()].map((request) => ({ ...request, isWanted: () => isWanted }))
      const begun = yield* Effect.forEach([mail(), mail()], (request) => Effect.forkScoped(endOf(provider, request)))
      yield* server.until(([only]) => only?.messages.length === 1 && only.pending.endsWith("DATA\r\n"))
      const ends = yield* Effect.forEach(waiting, (request) => Effect.forkScoped(endOf(provider, request)))
      yield* TestClock.adjust("10 seconds")
      assert.isTrue(ends.every((fiber) => fiber.pollUnsafe() === undefined))

      isWanted = false
      yield* TestClock.adjust("1 second")

      assert.deepStrictEqual(yield* Effect.forEach(ends, Fiber.join), ["unavailable", "unavailable", "unavailable"])
      assert.isTrue(begun.every((fiber) => fiber.pollUnsafe() === undefined))
      const said = (yield* server.conversations).map(({ pending }) => pending.match(/^MAIL /gm)?.length)
      assert.deepStrictEqual(said, [1], "behind the message whose reply is outstanding")
    })
  )

  it.effect("that wait are taken back when they are interrupted, and never arrive", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* against({ connectionsMax: 1 }, once("message", { say: "250 2.0.0 queued\r\n", waits: true }))
      const requests = [mail(), mail(), mail(), mail()]
      const [first, second, third, fourth] = yield* Effect.forEach(requests, (request) => Effect.forkScoped(endOf(provider, request)))
      yield* server.until(([only]) => only?.messages.length === 1 && only.pending.endsWith("DATA\r\n"))

      yield* Fiber.interrupt(third!)
      yield* server.goOn

      assert.deepStrictEqual(yield* Effect.forEach([first!, second!, fourth!], Fiber.join), ["250", "250", "250"])
      assert.lengthOf(yield* arrivals(server, requests[2]!), 0)
      assert.strictEqual(heard(yield* server.conversations, "MAIL"), 3)
    })
  )

  it.effect("that wait are unavailable when the scope closes", () =>
    Effect.gen(function* () {
      const ends = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* ScriptedServer.start(once("RCPT", {}))
          const provider = yield* PipeliningSmtpMailProvider.make({ host: "127.0.0.1", port: server.port, tls: "none", connectionsMax: 1 })
          const submitting = yield* Effect.forEach([mail(), large(mail()), mail()], (request) =>
            Effect.forkDetach(Effect.exit(provider.submit(request)))
          )
          yield* server.until((all) => heard(all, "RCPT") > 0)
          return submitting
        })
      )

      for (const exit of yield* Effect.forEach(ends, Fiber.join)) assert.isTrue(Exit.isFailure(exit) && !Exit.hasInterrupts(exit))
    })
  )
})

describe("the words of a server", () => {
  it("are taken apart alike, wherever they are cut", () => {
    const words = "\r\n220 one\r\n250-two\r\n250-more ✓\n250 last\r\n250\r\n250-a\r\n550 b\r\nno code\r\n2500 long\r\n354-x\r\nnone\r\n"
    const expected = [
      [220, "220 one"],
      [250, "250-two\r\n250-more ✓\r\n250 last"],
      [250, "250"],
      [0, "250-a\r\n550 b"],
      [0, "no code"],
      [0, "2500 long"],
      [0, "354-x\r\nnone"]
    ]
    const bytes = Buffer.from(words)
    for (let size = 1; size <= bytes.length; size++) {
      const replies = new SmtpReplies()
      const heardReplies: Array<[number, string]> = []
      for (let from = 0; from < bytes.length; from += size) {
        replies.hear(bytes.subarray(from, from + size))
        for (let said = replies.next(); said !== null; said = replies.next()) heardReplies.push([said.code, said.text])
      }
      assert.deepStrictEqual(heardReplies, expected)
      assert.isFalse(replies.isBegun())
    }
  })
})

/** Has the next names that are looked up be these addresses. */
const finding = (addresses: ReadonlyArray<string>, afterwards: () => void = () => undefined) => {
  const found = (...[, , tell]: ReadonlyArray<unknown>) =>
    void setImmediate(() => {
      const all = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
      ;(tell as (error: null, found: unknown) => void)(null, all) // of a look-up for all addresses
      afterwards()
    })
  return Effect.acquireRelease(
    Effect.sync(() => vi.spyOn(dns, "lookup").mockImplementation(found as unknown as typeof dns.lookup)),
    (spy) => Effect.sync(() => spy.mockRestore())
  )
}

for (const tls of ["none", "implicit"] as const) {
  it.effect(`A server whose first address takes half a second to connect is not given up for the next, with TLS: ${tls}`, () =>
    Effect.gen(function* () {
      const names = { extensions: [{ name: "subjectAltName" as const, altNames: [{ type: 2 as const, value: "mail.example.com" }] }] }
      const { private: key, cert } = yield* Effect.promise(() => generate([{ name: "commonName", value: "mail.example.com" }], names))
      const server = yield* ScriptedServer.start(() => null, { certificate: { key, cert }, isImplicit: tls === "implicit" })
      // The connection is there, and is looked at only then.
      yield* finding(["127.0.0.1", "::1"], () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500))
      const provider = yield* PipeliningSmtpMailProvider.make({ host: "mail.example.com", port: server.port, tls, ca: cert })

      assert.strictEqual(yield* endOf(provider, mail()), "250")
    })
  )
}

it.effect("A server with several addresses, of which none takes a connection, is named with each", () =>
  Effect.gen(function* () {
    const port = yield* Effect.scoped(Effect.map(ScriptedServer.start(() => null), (server) => server.port))
    const addresses = ["127.0.0.2", "127.0.0.3"]
    yield* finding(addresses)
    const provider = yield* PipeliningSmtpMailProvider.make({ host: "mail.example", port, tls: "none" })

    const error = yield* Effect.flip(provider.submit(mail()))

    assert.strictEqual(error._tag, "MailProviderUnavailable")
    for (const address of addresses) assert.include(String(error.cause), `ECONNREFUSED ${address}:${port}`)
  })
)
