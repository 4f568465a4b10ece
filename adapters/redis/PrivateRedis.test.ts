import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import * as PrivateRedis from "./PrivateRedis.ts"

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const until = (holds: () => boolean) =>
  Effect.repeat(Effect.sync(holds), { until: (is) => is, schedule: Schedule.spaced("20 millis"), times: 250 })

const program = `
  import { Effect } from "effect"
  import * as PrivateRedis from "${new URL("./PrivateRedis.ts", import.meta.url).href}"
  Effect.runFork(Effect.scoped(Effect.gen(function* () {
    const server = yield* PrivateRedis.open()
    process.stdout.write(JSON.stringify([server.pid(), server.folder]) + "\\n")
    yield* Effect.never
  })))
  setInterval(() => {}, 1_000)
`

describe("PrivateRedis", () => {
  it.live("ends with its scope, and leaves nothing", () =>
    Effect.gen(function* () {
      const [pid, folder] = yield* Effect.scoped(
        Effect.map(PrivateRedis.open(), (server) => {
          assert.isTrue(isAlive(server.pid()))
          return [server.pid(), server.folder] as const
        })
      )

      assert.isFalse(isAlive(pid))
      assert.isFalse(existsSync(folder))
    })
  )

  it.live("ends with its process, though that is killed and it stands still, and leaves nothing", () =>
    Effect.gen(function* () {
      const child = spawn(process.execPath, ["--input-type=module", "--eval", program], { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] })
      const line = yield* Effect.callback<string>((resume) => void child.stdout.once("data", (text) => resume(Effect.succeed(String(text)))))
      const [pid, folder] = JSON.parse(line) as [number, string] // as the program prints it
      assert.isTrue(isAlive(pid))
      process.kill(pid, "SIGSTOP")

      child.kill("SIGKILL")

      assert.isTrue(yield* until(() => !isAlive(pid)))
      assert.isTrue(yield* until(() => !existsSync(folder)))
    })
  )

  it.live("takes a port that no other listener is given by the system", () =>
    Effect.gen(function* () {
      const ports = yield* Effect.all(Array.from({ length: 20 }, () => Effect.promise(PrivateRedis.freePort)))

      assert.isTrue(ports.every((port) => port >= 16_384 && port < 32_768), String(ports))
    })
  )

  it.live("holds nothing when it is started again, at the same place", () =>
    Effect.gen(function* () {
      const server = yield* PrivateRedis.open()
      const before = server.pid()

      yield* server.kill
      assert.isFalse(isAlive(before))
      yield* server.start

      assert.isTrue(isAlive(server.pid()))
      assert.notStrictEqual(server.pid(), before)
    })
  )

  it.live("says why it does not start", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(Effect.scoped(PrivateRedis.open({ settings: ["--no-such-setting", "1"] })))

      assert.match(String(exit), /the private Redis server does not start: .*no-such-setting|Bad directive/)
    })
  )
})
