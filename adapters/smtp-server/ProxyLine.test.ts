import { assert, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import * as SmtpListener from "./SmtpListener.ts"
import { client, recorder } from "./TestPeer.ts"

const signatureOfVersion2 = "\r\n\r\n\0\r\nQUIT\n"

for (const [what, said, times] of [
  ["by version 2 of the protocol, and again", [signatureOfVersion2, signatureOfVersion2], 1],
  ["by no PROXY line at all", ["EHLO client.test\r\n"], 1],
  ["by silence, as whoever waits for a greeting", [""], 1],
  ["by a PROXY line", ["PROXY TCP4 192.0.2.7 192.0.2.1 5000 25\r\nQUIT\r\n"], 0]
] as const) {
  it.live(`A proxy that begins ${what}, is told of ${times === 0 ? "not at all" : "once"}`, () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logged = Logger.layer([Logger.map(Logger.formatJson, (line) => void lines.push(line))])
      const { address } = yield* SmtpListener.listen({
        protocol: "SMTP",
        address: { host: "127.0.0.1", port: 0 },
        hostname: "mail.ours.test",
        isProxy: () => true,
        timeouts: { silence: said[0] === "" ? "100 millis" : "1 minute" }
      }).pipe(Effect.provide([recorder().layer, logged]))

      yield* Effect.forEach(said, (words) =>
        Effect.gen(function* () {
          const peer = yield* client(address)
          yield* peer.say(words)
          while ((yield* peer.hear) !== null) continue
        })
      )

      assert.lengthOf(lines.filter((line) => line.includes("did not begin with a PROXY line, version 1")), times)
      assert.lengthOf(lines, times)
    })
  )
}
