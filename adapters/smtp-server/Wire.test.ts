import { assert, describe, it, vi } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { connect, Server, type Socket } from "node:net"
import { createSecureContext } from "node:tls"
import { generate } from "selfsigned"
import * as SmtpListener from "./SmtpListener.ts"
import { client, recorder } from "./TestPeer.ts"

const made = await generate([{ name: "commonName", value: "mail.ours.test" }])
const secureContext = createSecureContext({ key: made.private, cert: made.cert })

/** Its port. */
const listen = Effect.fnUntraced(function* (over: Partial<SmtpListener.Options> = {}) {
  const options = { protocol: "SMTP", address: { host: "127.0.0.1", port: 0 }, hostname: "mail.ours.test", secureContext: () => secureContext, ...over } as const
  const { address } = yield* Effect.provide(SmtpListener.listen(options), recorder().layer)
  return "port" in address ? address.port : 0
})

/** What a client is told that says this and no more, and stays when the server has ended. */
const stay = (port: number, words: string, last: "isOpen" | "isEnded" = "isOpen") =>
  Effect.gen(function* () {
    const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true })
    yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
    socket.on("error", () => undefined)
    socket.write(words)
    if (last === "isEnded") socket.end()
    let heard = ""
    socket.on("data", (bytes) => (heard += bytes.toString()))
    return yield* Effect.callback<string>((resume) => {
      for (const event of ["end", "close"]) socket.once(event, () => resume(Effect.succeed(heard)))
    })
  })

/** So many turns of the loop that moves the bytes of both sides. */
const turns = (count: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const turn = (left: number): unknown => (left === 0 ? resume(Effect.void) : setImmediate(turn, left - 1))
    turn(count)
  })

describe("Wire", () => {
  for (const isImplicitTls of [false, true]) {
    it.effect(`lets a client that sends far too much say it all, and then read why it is refused${isImplicitTls ? ", under TLS" : ""}`, () =>
      Effect.gen(function* () {
        const port = yield* listen({ isImplicitTls, sizeBytesMax: 100_000 })
        for (let round = 0; round < 3; round++) {
          const peer = yield* client({ host: "127.0.0.1", port })
          if (isImplicitTls) assert.isTrue(yield* peer.startTls)
          yield* peer.reply
          yield* peer.say("EHLO c.test\r\nMAIL FROM:<a@client.test>\r\nRCPT TO:<u@ours.test>\r\nDATA\r\n")
          for (const code of ["250", "250", "250", "354"]) assert.strictEqual((yield* peer.reply).slice(0, 3), code)

          // Many look for a reply when they have said all, and for none if they cannot.
          const fault = yield* Effect.callback<Error | null>((resume) => {
            peer.socket().write(Buffer.alloc(8_000_000, "x"), (error) => resume(Effect.succeed(error ?? null)))
          })

          assert.deepStrictEqual([fault, yield* peer.reply, yield* peer.hear], [null, "552 5.3.4 the message is too large", null])
        }
      })
    )
  }

  it.effect("says all that is left to a client that has ended its side", () =>
    Effect.gen(function* () {
      const port = yield* listen({ hostname: "h".repeat(100_000) })

      const heard = yield* stay(port, `${"EHLO c.test\r\n".repeat(200)}QUIT\r\n`, "isEnded")

      assert.isAtLeast(heard.length, 20_000_000)
      assert.strictEqual(heard.slice(-15), "221 2.0.0 bye\r\n")
    })
  )

  it.effect("hears a client out for two seconds, and counts it until then", () =>
    Effect.gen(function* () {
      const port = yield* listen({ limits: { connectionsPerAddress: 1 } })
      const next = Effect.map(stay(port, "QUIT\r\n"), (heard) => heard.slice(0, 3))

      const greetings = [yield* next, yield* next]
      yield* TestClock.adjust(Duration.millis(1_999))
      greetings.push(yield* next)
      yield* TestClock.adjust(Duration.millis(1))
      greetings.push(yield* next)

      assert.deepStrictEqual(greetings, ["220", "421", "421", "220"])
    })
  )

  it.effect("keeps no place for who is refused, and stays", () =>
    Effect.gen(function* () {
      const port = yield* listen({ limits: { connections: 5, connectionsPerAddress: 1 } })
      yield* stay(port, "QUIT\r\n")

      const refusals = yield* Effect.replicateEffect(stay(port, ""), 10)

      assert.deepStrictEqual([...new Set(refusals.map((heard) => heard.slice(0, 9)))], ["421 4.7.0"])
    })
  )

  it.live("has no more than what one read asked for wait for a client that reads nothing, and goes on when it reads", () =>
    Effect.gen(function* () {
      const listening = vi.spyOn(Server.prototype, "listen")
      yield* Effect.addFinalizer(() => Effect.sync(() => listening.mockRestore()))
      const port = yield* listen({ hostname: "h".repeat(20_000), limits: { commands: 10_000 } })
      const server = listening.mock.contexts[0] as Server // it was just called
      const accepted: Array<Socket> = []
      server.on("connection", (socket) => accepted.push(socket))
      const silent = connect({ host: "127.0.0.1", port })
      yield* Effect.addFinalizer(() => Effect.sync(() => silent.destroy()))
      silent.pause()

      silent.write(`${`EHLO ${"c".repeat(500)}\r\n`.repeat(2_000)}QUIT\r\n`)
      let [waiting, before] = [0, 0]
      do {
        before = waiting
        yield* turns(100)
        waiting = accepted[0]?.writableLength ?? 0
      } while (waiting === 0 || waiting !== before)

      // 64 KiB have 130 such commands.
      assert.isAtMost(waiting, 130 * 20_200)
      let heard = ""
      silent.on("data", (bytes) => (heard = heard.slice(-100) + bytes.toString()))
      yield* Effect.callback<void>((resume) => void silent.once("end", () => resume(Effect.void)).resume())
      assert.strictEqual(heard.slice(-15), "221 2.0.0 bye\r\n")
    })
  )
})
