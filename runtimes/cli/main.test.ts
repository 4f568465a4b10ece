/** What `mailroom` says where: a process of its own, for what stands on which stream. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { appendFileSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { onTestFinished } from "vitest"
import * as Database from "../../adapters/postgres/Database.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import * as Config from "../Config.ts"
import type { DevFile } from "../dev/DataFolder.ts"

const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("MAILROOM_") && name !== "DATABASE_URL"))

const mailroom = (line: string, variables: Readonly<Record<string, string>> = {}) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "main.ts"), ...line.split(" ")], {
    env: { ...clean, ...variables },
    encoding: "utf8"
  })
  return { status, stdout, stderr }
}

describe("mailroom", () => {
  it.live("has standard output for what a command prints, and logs to standard error, as the services do", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url()
      // What makes a management command log, wherever it runs: a migration that this version does not know.
      yield* Database.Database.use(({ sql }) => sql`insert into mailroom.migration (name, applied_ms) values (${"9999 later"}, 0)`).pipe(
        Effect.provide(Database.layer({ url, connectionsMax: 1 }))
      )
      const variables = { MAILROOM_DATABASE_URL: Redacted.value(url), MAILROOM_SEALING_KEYS: `1:${Buffer.alloc(32).toString("base64")}` }

      const { status, stdout, stderr } = mailroom("tenant list --json", variables)
      assert.deepStrictEqual([status, stdout], [0, "[]\n"], stderr)
      const line = JSON.parse(stderr)
      assert.deepStrictEqual([line.level, line.message], ["WARN", "the database was migrated by a later version: 9999 later"])

      assert.deepStrictEqual(mailroom("migrate", variables), {
        status: 1,
        stdout: "",
        stderr: "mailroom: the database is newer than this version: it has 9999 later. Run the version that made them, or a later one\n"
      })

      const silent = { status: 0, stdout: "[]\n", stderr: "" }
      assert.deepStrictEqual(mailroom("tenant list --json", { ...variables, MAILROOM_LOG_LEVEL: "Error" }), silent)
      assert.deepStrictEqual(mailroom("tenant list --json --log-level error", variables), silent)
    }), 60_000)

  it("prints help and completions that were asked for, and nothing for a command line that is at fault", () => {
    const [help, completions, fault] = ["tenant --help", "--completions bash", "tenant bogus"].map((line) => mailroom(line))

    assert.deepStrictEqual([help!.status, help!.stderr], [0, ""])
    assert.match(help!.stdout, /^ {2}mailroom tenant <subcommand> \[flags\]$/m)
    assert.match(completions!.stdout, /^complete .*mailroom$/m)
    assert.deepStrictEqual(fault, {
      status: 2,
      stdout: "",
      stderr: "mailroom: Unknown subcommand \"bogus\" for \"mailroom tenant\"\nmailroom: `mailroom tenant --help` shows what there is\n"
    })
  }, 60_000)

  it("takes a value that begins with a hyphen for no cluster of flags, of which one would be help", () => {
    const [value, behind, help] = ["key revoke x -t y --by -hugo", "plan show -t=x -- -hugo", "key revoke x -h"].map((line) => mailroom(line))

    assert.deepStrictEqual(value, {
      status: 2,
      stdout: "",
      stderr: "mailroom: there is no flag -hugo; a value that begins with a hyphen comes with its flag, as in --name=-hugo\n"
    })
    assert.notInclude(behind!.stderr, "there is no flag")
    assert.deepStrictEqual([help!.status, help!.stderr], [0, ""])
  }, 60_000)

  it("ends with 2 at settings that are not what they must be, and names each in a line of its own", () => {
    for (const verb of ["serve", "tenant list", "openapi"]) {
      const { status, stdout, stderr } = mailroom(verb, { MAILROOM_PORT: "http", MAILROOM_LOG_LEVEL: "loud" })

      assert.deepStrictEqual([status, stdout], [2, ""], verb)
      const [port, level, ...more] = stderr.trimEnd().split("\n")
      assert.match(port!, /^mailroom: MAILROOM_PORT is "http"; it wants a port /)
      assert.match(level!, /^mailroom: MAILROOM_LOG_LEVEL is "loud"; it wants /)
      for (const line of more) assert.match(line, /^mailroom: MAILROOM_\w+ /)
    }
  }, 60_000)

  it.live("prints sealing keys one above the other, which together are a file for the setting", () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), "mailroom-ring-"))
      const file = join(folder, "sealing-keys")
      const one = mailroom("sealing generate")
      writeFileSync(file, one.stdout, { mode: 0o600 })

      for (const _ of [2, 3]) appendFileSync(file, mailroom("sealing generate", { MAILROOM_SEALING_KEYS_FILE: file }).stdout)

      const { sealingKeys } = yield* Config.load({ MAILROOM_SEALING_KEYS_FILE: file })
      rmSync(folder, { recursive: true })
      assert.deepStrictEqual([one.status, one.stderr], [0, ""])
      assert.deepStrictEqual(sealingKeys.map(({ version }) => version), [1, 2, 3])
      assert.strictEqual(new Set(sealingKeys.map(({ key }) => Buffer.from(Redacted.value(key)).toString("hex"))).size, 3)
    }), 60_000)

  it.live("ends with 1 where what it has to say of a migration cannot be written", () =>
    Effect.gen(function* () {
      const variables = { MAILROOM_DATABASE_URL: Redacted.value(yield* TestDatabase.url()) }
      const full = openSync("/dev/full", "w")

      const ended = ["migrate", "migrate --json"].map((line) => {
        const { status, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "main.ts"), ...line.split(" ")], {
          env: { ...clean, ...variables },
          encoding: "utf8",
          stdio: ["ignore", full, "pipe"]
        })
        return { status, stderr }
      })

      closeSync(full)
      const fault = { status: 1, stderr: "mailroom: standard output cannot be written: ENOSPC: no space left on device, write\n" }
      assert.deepStrictEqual(ended, [fault, fault])
    }), 60_000)

  it("ends with 1 where help, a version or completions cannot be written, and with 0 where nobody reads them", () => {
    const full = openSync("/dev/full", "w")
    const lines = ["--help", "--version", "key create --help", "--completions bash"]
    const main = join(import.meta.dirname, "main.ts")

    const ended = lines.map((line) => {
      const { status, stderr } = spawnSync(process.execPath, [main, ...line.split(" ")], { env: clean, encoding: "utf8", stdio: ["ignore", full, "pipe"] })
      return { status, stderr }
    })
    const unread = spawnSync("bash", ["-c", `'${process.execPath}' '${main}' --help | true; echo "\${PIPESTATUS[0]}"`], { env: clean, encoding: "utf8" })

    closeSync(full)
    const fault = { status: 1, stderr: "mailroom: standard output cannot be written: ENOSPC: no space left on device, write\n" }
    assert.deepStrictEqual(ended, lines.map(() => fault))
    assert.deepStrictEqual([unread.stdout, unread.stderr], ["0\n", ""])
  }, 60_000)

  it("ends with 1 where a file takes the beginning of what it has to say, and no more", () => {
    const folder = mkdtempSync(join(tmpdir(), "mailroom-short-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const line = `'${process.execPath}' '${join(import.meta.dirname, "main.ts")}' openapi`

    const cut = spawnSync("bash", ["-c", `ulimit -f 64; ${line} > '${join(folder, "cut")}'`], { env: clean, encoding: "utf8" })
    const whole = spawnSync("bash", ["-c", `${line} > '${join(folder, "whole")}'; ${line} >> '${join(folder, "whole")}'`], { env: clean, encoding: "utf8" })

    assert.deepStrictEqual([cut.status, cut.stderr], [1, "mailroom: standard output cannot be written: EFBIG: file too large, write\n"])
    assert.deepStrictEqual([whole.status, whole.stderr], [0, ""])
    assert.strictEqual(readFileSync(join(folder, "whole"), "utf8"), mailroom("openapi").stdout.repeat(2))
  }, 60_000)

  describe("told to stop before the database has answered", () => {
    const unfinished = "mailroom: stopped before its end: what was asked for may be done or not\n"
    const cases: ReadonlyArray<readonly [line: string, signal: NodeJS.Signals, status: number, said: string]> = [
      ["migrate", "SIGINT", 130, unfinished],
      ["doctor --json", "SIGTERM", 130, unfinished],
      ["plan create standard", "SIGTERM", 130, unfinished],
      ["serve", "SIGTERM", 0, ""]
    ]

    for (const [line, signal, status, said] of cases) {
      it(`ends with ${status}: ${line}`, async () => {
        const silent = createServer()
        const connected = new Promise<void>((resolve) => silent.once("connection", () => resolve()))
        await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve))
        const address = silent.address()
        const port = address !== null && typeof address === "object" ? address.port : 0
        const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), ...line.split(" ")], {
          env: {
            ...clean,
            MAILROOM_DATABASE_URL: `postgres://ada:lovelace@127.0.0.1:${port}/mailroom`,
            MAILROOM_SEALING_KEYS: `1:${Buffer.alloc(32).toString("base64")}`,
            MAILROOM_SCANNER: "none"
          }
        })
        let stderr = ""
        child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()))
        child.stdout.resume()
        const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
        await connected

        child.kill(signal)

        assert.deepStrictEqual([await ended, stderr], [status, said])
        silent.close()
      }, 60_000)
    }
  })

  describe("at a Ctrl-C", () => {
    /** A `dev` with a request under way, which it finishes when it is let. */
    const busy = async () => {
      const data = mkdtempSync(join(tmpdir(), "mailroom-signals-"))
      onTestFinished(() => rmSync(data, { recursive: true, force: true }))
      const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), "dev", "--memory", "--data", data, "--port", "0"], { env: clean })
      onTestFinished(() => void child.kill("SIGKILL"))
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
      let said = ""
      await new Promise<void>((resolve) => child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()).includes("line by line") && resolve()))
      const { apiKey, baseUrl }: DevFile = JSON.parse(readFileSync(join(data, "dev.json"), "utf8"))
      const { port, hostname } = new URL(baseUrl)
      const socket = connect(Number(port), hostname)
      socket.on("error", () => {})
      const answer = new Promise<string>((resolve) => {
        socket.once("data", (chunk) => resolve(chunk.toString().split("\r\n")[0]!))
        socket.once("close", () => resolve("no answer"))
      })
      const head = `POST /v1/attachments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${apiKey}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n`
      await new Promise<void>((resolve) => socket.write(head, () => resolve()))
      await fetch(`${baseUrl}/healthz`) // by now it has the bytes before
      return { child, ended, answer, finish: () => socket.write("{}"), refuses: () => fetch(`${baseUrl}/healthz`).then(() => false, () => true) }
    }

    it("finishes what is under way, also where npm passes on what the terminal has sent already", async () => {
      const { answer, child, ended, finish, refuses } = await busy()

      child.kill("SIGINT")
      await delay(50) // or the two could come as one
      child.kill("SIGINT")
      while (!(await refuses())) await delay(5)
      finish()

      assert.deepStrictEqual([await answer, await ended], ["HTTP/1.1 400 Bad Request", 0])
    }, 60_000)

    it("stops at once at another", async () => {
      const { answer, child, ended, refuses } = await busy()

      child.kill("SIGINT")
      while (!(await refuses())) await delay(5) // by now it has had the first
      await delay(600)
      child.kill("SIGINT")

      assert.deepStrictEqual([await answer, await ended], ["no answer", 130])
    }, 60_000)
  })

  describe("repeats no credential, whichever setting it was put into", () => {
    const canary = "CaNaRy/+1"
    const inPlaceOf = (text: string) => Object.fromEntries(Object.values(Config.settings).map(({ name }) => [name, text]))
    const sound = {
      MAILROOM_DATABASE_URL: `postgres://ada:${encodeURIComponent(canary)}@127.0.0.1:1/mailroom`,
      MAILROOM_SEALING_KEYS: `1:${Buffer.alloc(32).toString("base64")}`,
      MAILROOM_SCANNER: "clamd",
      MAILROOM_CLAMD: "127.0.0.1:1"
    }
    const cases: ReadonlyArray<readonly [what: string, Readonly<Record<string, string>>, named: ReadonlyArray<string>]> = [
      ["a URL that cannot be read", inPlaceOf(`ada:${canary}@mail.example`), ["MAILROOM_PUBLIC_URL", "MAILROOM_CLAMD", "MAILROOM_DATABASE_URL"]],
      ["a URL that can be", inPlaceOf(`https://ada:${encodeURIComponent(canary)}@mail.example`), ["MAILROOM_PUBLIC_URL", "MAILROOM_OTLP_ENDPOINT"]],
      ["an address", { ...sound, MAILROOM_CLAMD: `${canary}@127.0.0.1:1`, MAILROOM_INBOUND_LMTP: "CaNaRy@127.0.0.1:1" }, ["MAILROOM_CLAMD", "MAILROOM_INBOUND_LMTP"]],
      ["a password that was cut short", { ...sound, MAILROOM_DATABASE_URL: `postgres://ada:7/${canary}@127.0.0.1:1/mailroom` }, ["MAILROOM_DATABASE_URL"]],
      ["URLs of what is away", { ...sound, MAILROOM_REDIS_URL: `redis://:${encodeURIComponent(canary)}@127.0.0.1:1` }, ["127.0.0.1:1/mailroom"]],
      ["a key in place of its file", { ...sound, MAILROOM_SMTP_HOST: "127.0.0.1", MAILROOM_SMTP_PORT: "1", MAILROOM_DKIM_FILE: canary, MAILROOM_INBOUND_TLS_CERT_FILE: canary, MAILROOM_INBOUND_TLS_KEY_FILE: canary }, []]
    ]
    const said = (verb: string, variables: Readonly<Record<string, string>>) =>
      new Promise<string>((resolve) => {
        const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), verb], { env: { ...clean, ...variables } })
        let text = ""
        for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (text += chunk.toString()))
        child.once("close", (status) => resolve(`${text}\nended with ${status}`))
      })

    for (const [what, variables, named] of cases) {
      it(what, { timeout: 120_000 }, async () => {
        const verbs = ["serve", "worker", "smtp", "migrate", "doctor"]
        const texts = await Promise.all(verbs.map((verb) => said(verb, variables)))

        for (const [index, text] of texts.entries()) {
          assert.notInclude(text, "CaNaRy", verbs[index])
          assert.match(text, /ended with [12]$/, verbs[index])
          for (const name of named) assert.include(text, name, verbs[index])
        }
      })
    }
  })
})
