import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { connect } from "node:net"
import { realm } from "../../conformance/fixtures.ts"
import { arrivals, endOf, heard, large, mail, type Conversation, type Place, type Script } from "../../conformance/MailServerScript.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as ScriptedServer from "./ScriptedServer.ts"

const against = Effect.fnUntraced(function* (connectionsMax: number, script: Script) {
  const server = yield* ScriptedServer.start(script)
  const provider = yield* PipeliningSmtpMailProvider.make({ host: "127.0.0.1", port: server.port, tls: "none", connectionsMax })
  const submit = (request = mail()) => Effect.forkScoped(endOf(provider, request))
  /** Whatever connected before has been noticed by then. */
  const knock = Effect.gen(function* () {
    const before = (yield* server.conversations).length
    yield* Effect.acquireRelease(Effect.sync(() => connect(server.port, "127.0.0.1")), (socket) => Effect.sync(() => socket.destroy()))
    yield* server.until((all) => all.length > before)
    return (yield* server.conversations).length - 1
  })
  return { provider, server, submit, knock }
})

/** The end of each message on the first so many connections is answered when the server is told to go on. */
const pausing = (connections: number): Script => ({ place, connection }) =>
  place === "message" && connection <= connections ? { say: "250 2.0.0 queued\r\n", goesOn: true, waits: true } : null

/** A message whose dot is unanswered, and the envelope of another. */
const isFull = ({ messages, pending }: Conversation) => messages.length === 1 && pending.endsWith("DATA\r\n")

const isPending = (fiber: Fiber.Fiber<string>) => fiber.pollUnsafe() === undefined

const verbs = ({ commands }: Conversation) => commands.map((command) => command.split(" ")[0])

describe("a server that falls silent", () => {
  for (const place of ["greeting", "EHLO", "MAIL", "DATA", "bytes", "message"] as const) {
    const isAt = ({ commands, partial, messages }: Conversation) =>
      place === "greeting" || (place === "message" ? messages.length > 0 : place === "bytes" ? partial !== "" : commands.some((line) => line.startsWith(place)))
    const silent = (at: Place): Script => ({ place, connection }) => (place === at && connection <= 2 ? { stalls: at === "bytes" } : null)

    it.effect(`at ${place} on all connections does not hold up what comes later`, () =>
      Effect.gen(function* () {
        const { provider, server, submit } = yield* against(2, silent(place))
        // More than the sockets take, in one piece.
        const endless = { ...large(mail()), mime: Stream.concat(Stream.make(new Uint8Array(24 * 1024 * 1024).fill(0x78)), Stream.never) }
        const begun = [yield* submit(place === "bytes" ? endless : mail()), yield* submit(place === "bytes" ? endless : mail())]
        yield* server.until((all) => all.length === 2 && all.every(isAt))
        yield* TestClock.adjust("16 seconds")
        const before = yield* server.conversations

        const later = mail()
        assert.strictEqual(yield* endOf(provider, later), "250")

        assert.lengthOf(yield* arrivals(server, later), 1)
        assert.isTrue(begun.every(isPending))
        const after = yield* server.conversations
        assert.lengthOf(after, 3)
        assert.deepStrictEqual(after.slice(0, 2).map(verbs), before.map(verbs))
      })
    )
  }

  it.effect("is waited for, and what waits and was not said to it goes elsewhere", () =>
    Effect.gen(function* () {
      const { server, submit, knock } = yield* against(1, pausing(1))
      const requests = [mail(), mail(), mail()] as const
      const [first, second, third] = [yield* submit(requests[0]), yield* submit(requests[1]), yield* submit(requests[2])]
      yield* server.until(([only]) => only !== undefined && isFull(only))

      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(yield* knock, 1)
      assert.isTrue(isPending(third))

      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(third), "250")

      yield* TestClock.adjust("8 minutes")
      assert.isTrue(isPending(first) && isPending(second))
      yield* server.goOn
      assert.strictEqual(yield* Fiber.join(first), "250")
      yield* server.until(([silent]) => silent?.messages.length === 2)
      yield* server.goOn
      assert.strictEqual(yield* Fiber.join(second), "250")
      for (const request of requests) assert.lengthOf(yield* arrivals(server, request), 1)
    })
  )

  it.effect("is used again when it speaks", () =>
    Effect.gen(function* () {
      const { server, submit } = yield* against(1, pausing(1))
      const first = yield* submit()
      yield* server.until(([only]) => only?.messages.length === 1)
      yield* TestClock.adjust("1 minute")
      yield* server.goOn
      assert.strictEqual(yield* Fiber.join(first), "250")

      const second = yield* submit()
      yield* server.until(([only]) => only?.messages.length === 2)
      yield* server.goOn

      assert.strictEqual(yield* Fiber.join(second), "250")
      assert.lengthOf(yield* server.conversations, 1)
    })
  )

  it.effect("loses the connections that are too many when it speaks again", () =>
    Effect.gen(function* () {
      const { server, submit } = yield* against(2, pausing(2))
      const begun = [yield* submit(), yield* submit()]
      yield* server.until((all) => all.length === 2 && all.every(({ messages }) => messages.length === 1))
      yield* TestClock.adjust("16 seconds")
      assert.strictEqual(yield* Fiber.join(yield* submit()), "250")

      yield* server.goOn

      assert.deepStrictEqual(yield* Effect.forEach(begun, Fiber.join), ["250", "250"])
      yield* server.until((all) => heard(all, "QUIT") > 0)
      assert.strictEqual(heard(yield* server.conversations, "QUIT"), 1)
      assert.lengthOf(yield* server.conversations, 3)
    })
  )

  it.effect("gets nothing more on those that are too many, however much waits", () =>
    Effect.gen(function* () {
      const { server, submit } = yield* against(1, (moment) => (moment.message === 1 ? pausing(2)(moment) : null))
      const tenant = realm("production")
      const first = yield* submit({ ...mail(), realm: tenant })
      yield* server.until(([only]) => only?.messages.length === 1)
      yield* TestClock.adjust("16 seconds")
      const ends = yield* Effect.forEach(Array(20).fill(null), () => submit({ ...mail(), realm: tenant }))
      yield* server.until((all) => all.length === 2 && isFull(all[1]!))

      yield* server.goOn

      assert.deepStrictEqual(new Set(yield* Effect.forEach([first, ...ends], Fiber.join)), new Set(["250"]))
      const [silent, replacement, ...more] = yield* server.conversations
      assert.lengthOf(more, 0)
      assert.strictEqual(silent!.messages.length, 1)
      assert.strictEqual(replacement!.messages.length, 20)
    })
  )

  it.effect("has nothing put behind a dot while there are too many", () =>
    Effect.gen(function* () {
      const { server, submit, knock } = yield* against(1, (moment) =>
        moment.connection === 2 && moment.place === "message" ? {} : pausing(1)(moment)
      )
      const first = yield* submit()
      const second = yield* submit()
      yield* server.until(([only]) => only !== undefined && isFull(only))
      yield* TestClock.adjust("16 seconds")
      yield* submit()
      yield* server.until((all) => all[1]?.messages.length === 1)
      yield* server.goOn
      assert.strictEqual(yield* Fiber.join(first), "250")
      yield* server.until(([silent]) => silent?.messages.length === 2)

      yield* submit()

      assert.strictEqual(yield* knock, 2)
      assert.deepStrictEqual((yield* server.conversations).map(({ pending }) => pending), ["", "", ""])
      yield* server.goOn
      assert.strictEqual(yield* Fiber.join(second), "250")
      yield* server.until(([silent, replacement]) => verbs(silent!).includes("QUIT") && isFull(replacement!))
    })
  )

  it.effect("on new connections too has never more than twice as many", () =>
    Effect.gen(function* () {
      const { server, submit, knock } = yield* against(2, pausing(Infinity))
      const tenants = [realm("production"), realm("production")] as const
      const ends = yield* Effect.forEach(Array.from({ length: 12 }), (_, index) => submit({ ...mail(), realm: tenants[index < 6 ? 0 : 1] }))
      yield* server.until((all) => all.length === 2 && all.every(isFull))
      yield* TestClock.adjust("17 seconds")
      yield* server.until((all) => all.length === 4 && all.every(isFull))

      for (const _ of Array(10)) yield* TestClock.adjust("17 seconds")

      assert.strictEqual(yield* knock, 4)
      assert.isTrue(ends.every(isPending))
    })
  )

  it.effect("and takes no more connections is asked for one at a time, and fails no message by that", () =>
    Effect.gen(function* () {
      const refusing: Script = (moment) =>
        moment.place === "greeting" && moment.connection === 2 ? { say: "421 4.7.0 too many connections\r\n", drops: true } : pausing(1)(moment)
      const { server, submit, knock } = yield* against(1, refusing)
      const begun = [yield* submit(), yield* submit()]
      yield* server.until(([only]) => only !== undefined && isFull(only))
      const request = mail()
      const waiting = yield* submit(request)
      yield* TestClock.adjust("17 seconds")
      yield* server.until((all) => all[1]?.isClosed === true)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* knock, 2)
      assert.isTrue(isPending(waiting))

      yield* TestClock.adjust("10 seconds")

      assert.strictEqual(yield* Fiber.join(waiting), "250")
      assert.lengthOf(yield* arrivals(server, request), 1)
      assert.isTrue(begun.every(isPending))
    })
  )
})
