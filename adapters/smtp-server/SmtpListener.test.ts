import { assert, describe, it, vi } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Result, Scope, Stream } from "effect"
import { linkSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { connect, createServer, Server, type AddressInfo, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Duplex } from "node:stream"
import { connect as connectTls, createSecureContext, type TLSSocket } from "node:tls"
import { generate } from "selfsigned"
import { Receive } from "../../core/operations/Receive.ts"
import * as SmtpListener from "./SmtpListener.ts"
import { client, recorder, type Client, type Recorder } from "./TestPeer.ts"

const loopback = { host: "127.0.0.1", port: 0 }

const listen = ({ layer }: Pick<Recorder, "layer">, over: Partial<SmtpListener.Options> = {}) =>
  Effect.provide(SmtpListener.listen({ protocol: "SMTP", address: loopback, hostname: "mail.ours.test", ...over }), layer)

const begin = Effect.fnUntraced(function* (peer: Client) {
  assert.strictEqual(yield* peer.reply, "220 mail.ours.test ESMTP")
  yield* peer.say("EHLO client.test\r\n")
  yield* peer.reply
})

/** As far as 354. */
const beginMessage = Effect.fnUntraced(function* (peer: Client) {
  yield* begin(peer)
  yield* peer.say("MAIL FROM:<a@client.test>\r\nRCPT TO:<u@ours.test>\r\nDATA\r\n")
  for (const code of ["250", "250", "354"]) assert.strictEqual((yield* peer.reply).slice(0, 3), code)
})

/** Its port, with TLS from the first byte. */
const underTls = Effect.fnUntraced(function* (over: Partial<SmtpListener.Options> = {}) {
  const { private: key, cert } = yield* Effect.promise(() => generate([{ name: "commonName", value: "ours.test" }]))
  const { address } = yield* listen(recorder(), { isImplicitTls: true, secureContext: () => createSecureContext({ key, cert }), ...over })
  return "port" in address ? address.port : 0
})

/** A client of TLS 1.2, and what lies beneath it. */
const encrypted = (port: number) =>
  Effect.callback<{ readonly raw: Socket; readonly secure: TLSSocket }>((resume) => {
    const raw = connect({ host: "127.0.0.1", port })
    // Over a stream that is no socket, TLS leaves the socket to us.
    const through = Duplex.from({ readable: raw, writable: raw })
    const secure = connectTls({ socket: through, rejectUnauthorized: false, maxVersion: "TLSv1.2" }, () => resume(Effect.succeed({ raw, secure })))
    for (const stream of [raw, through, secure]) stream.on("error", () => undefined)
    secure.resume()
  })

const closing = (socket: Socket) => Effect.callback<void>((resume) => void socket.once("close", () => resume(Effect.void)))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "smtp-listener-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

describe("SmtpListener", () => {
  it.live("says 250 when the core has the message, and no sooner", () =>
    Effect.gen(function* () {
      const isTaken = yield* Deferred.make<void>()
      const core = recorder((taking) => Effect.andThen(Deferred.await(isTaken), taking))
      const { address } = yield* listen(core)
      const peer = yield* client(address)
      yield* beginMessage(peer)

      yield* peer.say("x\r\n.\r\n")
      const early = yield* Effect.timeoutOption(peer.reply, "50 millis")
      yield* Deferred.succeed(isTaken, undefined)

      assert.isTrue(early._tag === "None")
      assert.strictEqual(yield* peer.reply, "250 2.0.0 message taken")
      assert.strictEqual(core.taken.length, 1)
    })
  )

  it.live("warns of what is away, without a stack, and has an error only where something of ours broke", () =>
    Effect.gen(function* () {
      const levels: Array<string> = []
      const log = Logger.layer([Logger.make(({ cause, logLevel }) => void levels.push(`${logLevel} ${cause.reasons.length}`))])
      const { address } = yield* Effect.provide(listen(recorder()), log)

      for (const sender of ["down", "blobs", "bug"]) {
        const peer = yield* client(address)
        yield* begin(peer)
        yield* peer.say(`MAIL FROM:<${sender}@client.test>\r\nRCPT TO:<u@ours.test>\r\nDATA\r\n`)
        for (const code of ["250", "250", "354"]) assert.strictEqual((yield* peer.reply).slice(0, 3), code)
        yield* peer.say("x\r\n.\r\n")
        assert.strictEqual((yield* peer.reply).slice(0, 3), "451")
      }

      assert.deepStrictEqual(levels, ["Warn 0", "Warn 0", "Error 1"])
    })
  )

  it.live("goes on when the system has no room for a connection", () =>
    Effect.gen(function* () {
      const listening = vi.spyOn(Server.prototype, "listen")
      yield* Effect.addFinalizer(() => Effect.sync(() => listening.mockRestore()))
      const { address } = yield* listen(recorder())
      const server = listening.mock.contexts[0] as Server // it was just called

      server.emit("error", new Error("accept ENOBUFS"))

      yield* begin(yield* client(address))
    })
  )

  it.live("says nothing in the clear where TLS goes first, and has no certificate", () =>
    Effect.gen(function* () {
      const { address } = yield* listen(recorder(), { isImplicitTls: true })
      const peer = yield* client(address)

      assert.isNull(yield* peer.hear)
    })
  )

  it.live("reads a message no faster than the core takes it", () =>
    Effect.gen(function* () {
      const goesOn = yield* Deferred.make<void>()
      let readBytes = 0
      const slow = Layer.succeed(Receive, {
        recipient: () => Effect.void,
        accept: ({ bytes }) =>
          Stream.runForEach(bytes, (piece) => {
            readBytes += piece.length
            return Deferred.await(goesOn)
          })
      })
      const { address } = yield* listen({ layer: slow }, { sizeBytesMax: 100_000_000 })
      const peer = yield* client(address)
      yield* beginMessage(peer)
      const line = `${"x".repeat(998)}\r\n`

      for (let count = 0; count < 64; count++) yield* peer.say(line.repeat(1_000))
      yield* peer.say(".\r\n")
      yield* Effect.timeoutOption(Effect.never, "300 millis")
      const waiting = peer.socket().writableLength
      const readBytesBefore = readBytes
      yield* Deferred.succeed(goesOn, undefined)

      assert.strictEqual(yield* peer.reply, "250 2.0.0 message taken")
      assert.isAtMost(readBytesBefore, 1_000_000)
      assert.isAtLeast(waiting, 32_000_000)
      assert.strictEqual(readBytes, 64_000_000)
    })
  )

  it.live("takes no mail for others in 1,000 tries, and closes on who goes on trying", () =>
    Effect.gen(function* () {
      const core = recorder()
      const { address } = yield* listen(core)
      let tries = 0
      let closed = 0

      while (tries < 1_000) {
        const peer = yield* client(address)
        yield* begin(peer)
        yield* peer.say("MAIL FROM:<u@ours.test>\r\n")
        yield* peer.reply
        for (let reply = ""; !reply.startsWith("421"); tries++) {
          yield* peer.say(`RCPT TO:<victim${tries}@else${tries % 7}.test>\r\n`)
          reply = yield* peer.reply
          if (!reply.startsWith("421")) assert.strictEqual(reply, "550 5.7.1 no relay")
          if (tries % 50 === 49) reply = yield* peer.reply
        }
        closed += (yield* peer.hear) === null ? 1 : 0
      }

      assert.deepStrictEqual(core.taken, [])
      assert.strictEqual(closed, 20)
    })
  )

  it.live("has so many connections in all, and from one address", () =>
    Effect.gen(function* () {
      const results: Array<string> = []
      const { address } = yield* listen(recorder(), {
        isProxy: () => true,
        limits: { connections: 4, connectionsPerAddress: 2 },
        onConnection: (result) => Effect.sync(() => void results.push(result))
      })
      const from = Effect.fnUntraced(function* (last: number) {
        const peer = yield* client(address)
        yield* peer.say(`PROXY TCP4 192.0.2.${last} 192.0.2.1 5000 25\r\n`)
        return { peer, greeting: yield* peer.reply }
      })

      const one = yield* from(1)
      const two = yield* from(1)
      const three = yield* from(1)
      const other = yield* from(2)
      assert.isNull(yield* three.peer.hear)
      yield* one.peer.say("QUIT\r\n")
      yield* one.peer.reply
      assert.isNull(yield* one.peer.hear)
      const again = yield* from(1)
      yield* from(3)
      const fifth = yield* from(4)

      assert.deepStrictEqual(
        [one, two, three, other, again, fifth].map(({ greeting }) => greeting.slice(0, 9)),
        ["220 mail.", "220 mail.", "421 4.7.0", "220 mail.", "220 mail.", "421 4.3.2"]
      )
      assert.deepStrictEqual(results, ["accepted", "accepted", "refused", "accepted", "accepted", "accepted", "refused"])
    })
  )

  it.live("counts IPv6 addresses of one network as one, for whoever has one has them all", () =>
    Effect.gen(function* () {
      const { address } = yield* listen(recorder(), { isProxy: () => true, limits: { connectionsPerAddress: 2 } })
      const greeting = Effect.fnUntraced(function* (from: string) {
        const peer = yield* client(address)
        yield* peer.say(`PROXY TCP6 ${from} 2001:db8::1 5000 25\r\n`)
        return (yield* peer.reply).slice(0, 9)
      })

      const greetings = yield* Effect.forEach(["2001:db8::7", "2001:db8::8", "2001:db8:0:0:9::1", "2001:db8:0:1::7"], greeting)

      assert.deepStrictEqual(greetings, ["220 mail.", "220 mail.", "421 4.7.0", "220 mail."])
    })
  )

  it.live("is told by a proxy whose message it is, and by nobody else", () =>
    Effect.gen(function* () {
      const core = recorder()
      const { address } = yield* listen(core, { isProxy: (peer) => peer === "127.0.0.1" })
      const peer = yield* client(address)
      yield* peer.say("PROXY TCP6 2001:db8::7 2001:db8::1 5000 25\r\n")
      yield* beginMessage(peer)

      yield* peer.say("x\r\n.\r\n")
      yield* peer.reply

      assert.deepStrictEqual(core.taken.map(({ peer }) => peer), [{ remoteAddress: "2001:db8::7", helo: "client.test", protocol: "ESMTP" }])
    })
  )

  it.live("gives up a message that takes too long, however many bytes come", () =>
    Effect.gen(function* () {
      const outcomes: Array<string> = []
      const { address } = yield* listen(recorder(), { timeouts: { message: "300 millis" }, onMessage: (outcome) => Effect.sync(() => void outcomes.push(outcome)) })
      const peer = yield* client(address)
      yield* beginMessage(peer)

      const trickling = yield* Effect.forkChild(Effect.forever(Effect.andThen(peer.say("x"), Effect.sleep("10 millis"))))
      const reply = yield* peer.reply
      yield* Fiber.interrupt(trickling)

      assert.strictEqual(reply, "421 4.4.2 nothing was said for too long")
      assert.isNull(yield* peer.hear)
      assert.deepStrictEqual(outcomes, ["broken"])
    })
  )

  it.live("gives up a command line that trickles", () =>
    Effect.gen(function* () {
      const { address } = yield* listen(recorder(), { timeouts: { silence: "300 millis" } })
      const peer = yield* client(address)
      yield* begin(peer)

      const trickling = yield* Effect.forkChild(Effect.forever(Effect.andThen(peer.say("N"), Effect.sleep("10 millis"))))
      const reply = yield* peer.reply
      yield* Fiber.interrupt(trickling)

      assert.strictEqual(reply, "421 4.4.2 nothing was said for too long")
      assert.isNull(yield* peer.hear)
    })
  )

  it.live("while half of its places are taken, gives up sooner who is silent, in a message and before", () =>
    Effect.gen(function* () {
      const { address } = yield* listen(recorder(), { limits: { connections: 4 }, timeouts: { crowdedSilence: "300 millis" } })
      const early = yield* client(address)
      yield* begin(early)
      const second = yield* client(address)
      yield* begin(second)
      const [idle, sending] = [yield* client(address), yield* client(address)]
      yield* begin(idle)
      yield* beginMessage(sending)

      for (const peer of [idle, sending]) assert.strictEqual(yield* peer.reply, "421 4.4.2 nothing was said for too long")

      // There is room again, and time.
      yield* early.say("NOOP\r\n")
      assert.match(yield* early.reply, /^250 /)
    })
  )

  it.live("when it stops, finishes the message that is under way, and says 421 to all", () =>
    Effect.gen(function* () {
      const core = recorder()
      const scope = yield* Scope.make()
      const { address } = yield* Scope.provide(listen(core), scope)
      const idle = yield* client(address)
      yield* begin(idle)
      const busy = yield* client(address)
      yield* beginMessage(busy)
      yield* busy.say("one\r\n")

      const stopping = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      assert.strictEqual(yield* idle.reply, "421 4.3.2 the server is stopping, try again")
      assert.isNull(yield* idle.hear)
      yield* busy.say("two\r\n.\r\nNOOP\r\n")

      assert.strictEqual(yield* busy.reply, "250 2.0.0 message taken")
      assert.strictEqual(yield* busy.reply, "421 4.3.2 the server is stopping, try again")
      assert.isNull(yield* busy.hear)
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(core.taken.map(({ text }) => text), ["one\r\ntwo\r\n"])
      const late = yield* client(address)
      assert.isNull(yield* late.hear)
    })
  )

  it.live("waits no longer for a message than it is told to", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { address } = yield* Scope.provide(listen(recorder(), { timeouts: { drain: "100 millis" } }), scope)
      const peer = yield* client(address)
      yield* beginMessage(peer)

      yield* Scope.close(scope, Exit.void)

      assert.isNull(yield* peer.hear)
    })
  )

  it.live("when it stops, waits for nobody who has begun TLS and says no more", () =>
    Effect.gen(function* () {
      const { private: key, cert } = yield* Effect.promise(() => generate([{ name: "commonName", value: "ours.test" }]))
      const secureContext = () => createSecureContext({ key, cert })
      const scope = yield* Scope.make()
      const timeouts = { drain: "30 seconds" } as const
      const { address } = yield* Scope.provide(listen(recorder(), { secureContext, timeouts }), scope)
      const { address: underTls } = yield* Scope.provide(listen(recorder(), { secureContext, timeouts, isImplicitTls: true }), scope)
      const peer = yield* client(address)
      yield* begin(peer)
      yield* peer.say("STARTTLS\r\n")
      assert.strictEqual(yield* peer.reply, "220 2.0.0 ready for TLS")
      const other = yield* client(underTls)
      yield* other.say(Buffer.from("16030100c8010000c40303", "hex")) // of a client's hello, no more than the beginning

      yield* Scope.close(scope, Exit.void)

      assert.deepStrictEqual([yield* peer.hear, yield* other.hear], [null, null])
    })
  )

  it.live("uses a new certificate without a restart", () =>
    Effect.gen(function* () {
      const certificates = yield* Effect.promise(() => Promise.all(["one", "two"].map((value) => generate([{ name: "commonName", value }]))))
      let current = 0
      const { address } = yield* listen(recorder(), {
        secureContext: () => createSecureContext({ key: certificates[current]!.private, cert: certificates[current]!.cert })
      })
      const nameOf = Effect.fnUntraced(function* () {
        const peer = yield* client(address)
        yield* begin(peer)
        yield* peer.say("STARTTLS\r\n")
        yield* peer.reply
        yield* peer.startTls
        return (peer.socket() as TLSSocket).getPeerCertificate().subject.CN // it has just become one
      })

      const first = yield* nameOf()
      current = 1

      assert.deepStrictEqual([first, yield* nameOf()], ["one", "two"])
    })
  )

  it.live("hears at once of TLS that breaks", () =>
    Effect.gen(function* () {
      const { raw } = yield* encrypted(yield* underTls())
      const closed = closing(raw)

      raw.write("this is no record of TLS")

      yield* closed
      assert.isTrue(raw.destroyed)
    })
  )

  it.live("lets nobody agree upon keys again and again", () =>
    Effect.gen(function* () {
      const { raw, secure } = yield* encrypted(yield* underTls())
      const closed = closing(raw)
      const again = Effect.callback<void>((resume) => void secure.renegotiate({ rejectUnauthorized: false }, () => resume(Effect.void)))

      yield* Effect.raceFirst(Effect.repeat(again, { times: 9 }), closed)

      assert.isTrue(raw.destroyed)
    })
  )

  it.live("hears the beginning of TLS that comes in one with a proxy's line", () =>
    Effect.gen(function* () {
      const port = yield* underTls({ isProxy: () => true, timeouts: { silence: "2 seconds" } })
      const raw = connect({ host: "127.0.0.1", port })
      yield* Effect.addFinalizer(() => Effect.sync(() => raw.destroy()))
      let before = "PROXY TCP4 192.0.2.7 192.0.2.1 50000 465\r\n"
      const through = new Duplex({
        read: () => undefined,
        write: (bytes: Buffer, _, done) => {
          raw.write(Buffer.concat([Buffer.from(before), bytes]), done)
          before = ""
        }
      })
      raw.on("data", (bytes) => through.push(bytes))
      const secure = connectTls({ socket: through, rejectUnauthorized: false })
      for (const stream of [raw, through, secure]) stream.on("error", () => undefined)

      const greeting = yield* Effect.callback<string | null>((resume) => {
        secure.once("data", (bytes: Buffer) => resume(Effect.succeed(bytes.toString())))
        raw.once("close", () => resume(Effect.succeed(null)))
      })

      assert.strictEqual(greeting, "220 mail.ours.test ESMTP\r\n")
    })
  )

  it.live("listens by LMTP on a Unix socket, also where a dead process has left one", () =>
    Effect.gen(function* () {
      const core = recorder()
      const path = join(yield* folder, "lmtp.sock")
      const left = createServer()
      yield* Effect.callback<void>((resume) => void left.listen(path, () => resume(Effect.void)))
      yield* Effect.addFinalizer(() => Effect.sync(() => left.close()))
      const whileThere = yield* Effect.result(listen(core, { protocol: "LMTP", address: { path } }))
      assert.isTrue(Result.isFailure(whileThere))
      // Under another name it outlives the server, and nobody listens on it.
      linkSync(path, `${path}.left`)
      yield* Effect.callback<void>((resume) => void left.close(() => resume(Effect.void)))
      renameSync(`${path}.left`, path)

      const { address } = yield* listen(core, { protocol: "LMTP", address: { path } })
      const peer = yield* client(address)
      yield* peer.reply
      yield* peer.say("LHLO relay.test\r\nMAIL FROM:<a@client.test>\r\nRCPT TO:<u@ours.test>\r\nDATA\r\nx\r\n.\r\n")
      for (const code of ["250", "250", "250", "354", "250"]) assert.strictEqual((yield* peer.reply).slice(0, 3), code)

      assert.deepStrictEqual(core.taken.map(({ peer }) => peer), [{ remoteAddress: "127.0.0.1", helo: "relay.test", protocol: "LMTP" }])
    })
  )

  it.live("takes no file for a socket that a dead process has left, and says where there is no folder", () =>
    Effect.gen(function* () {
      const at = yield* folder
      const file = join(at, "sealing-keys")
      writeFileSync(file, "precious")

      const onFile = yield* Effect.flip(listen(recorder(), { protocol: "LMTP", address: { path: file } }))
      const nowhere = yield* Effect.flip(listen(recorder(), { protocol: "LMTP", address: { path: join(at, "none/lmtp.sock") } }))

      assert.match(onFile.message, /^cannot listen on .*sealing-keys: .*EADDRINUSE/)
      assert.strictEqual(readFileSync(file, "utf8"), "precious")
      assert.match(nowhere.message, /^cannot listen on .*lmtp\.sock: its folder is not there$/)
    })
  )

  it.live("says where it cannot listen", () =>
    Effect.gen(function* () {
      const other = createServer()
      yield* Effect.callback<void>((resume) => void other.listen(0, "127.0.0.1", () => resume(Effect.void)))
      yield* Effect.addFinalizer(() => Effect.sync(() => other.close()))
      const { port } = other.address() as AddressInfo // it listens on a port

      const failed = yield* Effect.result(listen(recorder(), { address: { host: "127.0.0.1", port } }))

      assert.match(Result.isFailure(failed) ? failed.failure.message : "", new RegExp(`^cannot listen on 127\\.0\\.0\\.1:${port}: .*EADDRINUSE`))
      const { message } = new SmtpListener.ListenFailed({ address: { host: "2001:db8::25", port: 25 }, cause: "taken" })
      assert.strictEqual(message, "cannot listen on [2001:db8::25]:25: taken")
    })
  )

  it.live("is not broken by connections that go at any moment", () =>
    Effect.gen(function* () {
      const core = recorder()
      const outcomes: Array<string> = []
      const { address } = yield* listen(core, { onMessage: (outcome) => Effect.sync(() => void outcomes.push(outcome)) })
      const dialogue = "EHLO c.test\r\nMAIL FROM:<a@client.test>\r\nRCPT TO:<u@ours.test>\r\nDATA\r\nx\r\n"

      for (let length = 0; length <= dialogue.length; length++) {
        const peer = yield* client(address)
        yield* peer.reply
        yield* peer.say(dialogue.slice(0, length))
        peer.socket().resetAndDestroy()
      }
      const peer = yield* client(address)
      yield* beginMessage(peer)
      yield* peer.say("x\r\n.\r\n")

      assert.strictEqual(yield* peer.reply, "250 2.0.0 message taken")
      assert.strictEqual(core.taken.length, 1)
    })
  )
})
