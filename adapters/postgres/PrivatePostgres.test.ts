import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as PrivatePostgres from "./PrivatePostgres.ts"

const binaries = process.env["TEST_POSTGRES_BIN"]

const until = (holds: () => boolean) => Effect.repeat(Effect.delay(Effect.sync(holds), "5 millis"), { until: (is) => is })

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const serverIn = (folder: string) => Number(fs.readFileSync(path.join(folder, "data", "postmaster.pid"), "utf8").split("\n")[0])

/** A cluster is made in a second, and on a machine that is busy in many. */
const patience = 120_000

describe("a private server", () => {
  it.live("is gone with its folder when it is closed", () =>
    Effect.gen(function* () {
      const { folder, pid } = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* PrivatePostgres.open({ binaries, isDurable: true })
          yield* server.started
          return { folder: server.folder, pid: serverIn(server.folder) }
        })
      )

      assert.isFalse(isAlive(pid))
      assert.isFalse(fs.existsSync(folder))
    }),
    patience
  )

  for (const [signal, at] of [
    ["SIGKILL", "started"],
    ["SIGKILL", "starting"],
    ["SIGINT", "started"]
  ] as const) {
    it.live(`is gone with its folder when its process ends by ${signal}, with the server ${at}`, () =>
      Effect.gen(function* () {
        const program = `
          const { Effect } = await import("effect")
          const { open } = await import(${JSON.stringify(new URL("./PrivatePostgres.ts", import.meta.url).href)})
          await Effect.runPromise(Effect.scoped(Effect.gen(function* () {
            const server = yield* open({ binaries: ${JSON.stringify(binaries)} })
            ${at === "started" ? "yield* server.started" : ""}
            process.stdout.write(server.folder)
            setInterval(() => {}, 1000)
            yield* Effect.never
          })))`
        const child = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "inherit"] })
        const [chunk] = yield* Effect.promise(() => once(child.stdout, "data"))
        const folder = String(chunk)
        const pid = at === "started" ? serverIn(folder) : null
        assert.isTrue(fs.existsSync(folder))

        child.kill(signal)

        yield* until(() => !fs.existsSync(folder) && (pid === null || !isAlive(pid)))
      }),
      patience
    )
  }

  it.live("runs from a folder that only its owner may enter, as a package manager leaves it that runs no scripts", () =>
    Effect.gen(function* () {
      const home = path.dirname(PrivatePostgres.packaged())
      const copy = fs.mkdtempSync(path.join(os.tmpdir(), "mailroom-binaries-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(copy, { recursive: true })))
      fs.cpSync(home, copy, { recursive: true, filter: (source) => !fs.lstatSync(source).isSymbolicLink() })
      for (const name of fs.readdirSync(path.join(copy, "bin"))) fs.chmodSync(path.join(copy, "bin", name), 0o700)

      const server = yield* PrivatePostgres.open({ binaries: path.join(copy, "bin") })

      yield* server.started
    }).pipe(Effect.scoped),
    patience
  )

  it.live("that cannot start says why", () =>
    Effect.gen(function* () {
      const exit = yield* PrivatePostgres.open({ binaries, settings: ["shared_buffers=nonsense"] }).pipe(
        Effect.flatMap(({ started }) => started),
        Effect.scoped,
        Effect.exit
      )

      assert.strictEqual(exit._tag, "Failure")
      assert.include(String(exit), "nonsense")
    }),
    patience
  )
})
