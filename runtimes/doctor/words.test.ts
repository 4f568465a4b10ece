/** What the doctor says, with what strangers have said in it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { createServer } from "node:net"
import { join } from "node:path"
import { complete, listening, portOf } from "./harness.ts"

describe("a finding", () => {
  it.live("is a line, and what to do another, with nothing that a terminal would obey, whatever a server answers", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => {
        const server = createServer((socket) => socket.on("error", () => {}).end("554-5.7.1 not you\r\n554 5.7.1 \u001b]0;mine\u0007\u009b2J nor others\r\n"))
        return { server, port: () => portOf(server.address()) }
      })
      const said = (...flags: ReadonlyArray<string>) =>
        Effect.callback<string>((resume) => {
          const child = spawn(process.execPath, [join(import.meta.dirname, "../cli/main.ts"), "doctor", ...flags], {
            env: { PATH: process.env["PATH"], ...complete, MAILROOM_SMTP_HOST: "127.0.0.1", MAILROOM_SMTP_PORT: String(port), MAILROOM_SMTP_TLS: "none" }
          })
          let text = ""
          child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()))
          child.once("close", () => resume(Effect.succeed(text)))
        })
      const shown = `127.0.0.1:${port}: CONN: 554-5.7.1 not you 554 5.7.1 \\u001b]0;mine\\u0007\\u009b2J nor others`

      const lines = (yield* said()).split("\n")
      const place = lines.findIndex((line) => line.startsWith("FAIL  mail "))
      assert.strictEqual(lines[place], `FAIL  mail         ${shown}`)
      assert.match(lines[place + 1]!, /^ +→ Mend /)

      const json = yield* said("--json")
      assert.notMatch(json, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
      const found = json.trim().split("\n").map((line) => JSON.parse(line)).find(({ check }) => check === "mail")
      assert.include(found.message, "\u009b2J nor others", "for a machine as it is")
    }).pipe(Effect.scoped), 60_000)
})
