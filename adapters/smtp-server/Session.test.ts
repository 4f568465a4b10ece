import { assert, it, vi } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { Server, Socket } from "node:net"
import * as SmtpListener from "./SmtpListener.ts"
import { client, recorder } from "./TestPeer.ts"

it.live("A conversation whose message the core is interrupted at ends without a word, and is told of nowhere: nobody knows what became of it", () =>
  Effect.gen(function* () {
    const logged: Array<unknown> = []
    const { layer } = recorder(() => Effect.interrupt)
    const listening = SmtpListener.listen({ protocol: "SMTP", address: { host: "127.0.0.1", port: 0 }, hostname: "mail.ours.test" })
    const log = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
    const { address } = yield* Effect.provide(listening, Layer.merge(layer, log))
    const peer = yield* client(address)
    yield* peer.say("EHLO client.test\r\nMAIL FROM:<a@client.test>\r\nRCPT TO:<u@ours.test>\r\nDATA\r\n")
    for (const code of ["220", "250", "250", "250", "354"]) assert.strictEqual((yield* peer.reply).slice(0, 3), code)

    yield* peer.say("x\r\n.\r\nNOOP\r\n")

    assert.strictEqual(yield* peer.reply, "closed")
    assert.deepStrictEqual(logged, [])
  })
)

it.live("A client that is gone before its address is known begins no conversation: through a port, who has no address is not this machine", () =>
  Effect.gen(function* () {
    const counted: Array<string> = []
    const listening = vi.spyOn(Server.prototype, "listen")
    yield* Effect.addFinalizer(() => Effect.sync(() => listening.mockRestore()))
    const onConnection = (result: string) => Effect.sync(() => void counted.push(result))
    const options = { protocol: "SMTP", address: { host: "127.0.0.1", port: 0 }, hostname: "mail.ours.test", onConnection } as const
    yield* Effect.provide(SmtpListener.listen(options), recorder().layer)
    const server = listening.mock.contexts[0] as Server // it was just called
    const gone = new Socket()

    server.emit("connection", gone)

    assert.isTrue(gone.destroyed)
    assert.deepStrictEqual(counted, [])
  })
)
