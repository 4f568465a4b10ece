/** The systemd units of the documentation: systemd takes them, and what they name is there. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { fileNameOf, settings } from "../Config.ts"
import { noPretenuring, oneHeap, workerHeap } from "./Runtimes.ts"

const root = join(import.meta.dirname, "../..")
const folder = join(root, "docs/systemd")
const units = readdirSync(folder)
const linesOf = (unit: string) => readFileSync(join(folder, unit), "utf8").split("\n")
const valuesOf = (unit: string, key: string) => linesOf(unit).flatMap((line) => (line.startsWith(`${key}=`) ? [line.slice(key.length + 1)] : []))

describe("the systemd units", () => {
  it("are one for each process, and the migration", () => {
    assert.deepStrictEqual(units.toSorted(), ["mailroom-migrate.service", "mailroom-serve.service", "mailroom-smtp.service", "mailroom-worker.service"])
  })

  for (const unit of units) {
    it(`${unit} runs a verb that there is`, () => {
      const [started, ...more] = valuesOf(unit, "ExecStart")
      assert.deepStrictEqual(more, [])
      const verb = /^\/usr\/bin\/env mailroom (\w+)$/.exec(started!)![1]!
      assert.strictEqual(unit, `mailroom-${verb}.service`)

      const { status, stdout } = spawnSync(process.execPath, [join(root, "runtimes/cli/main.ts"), verb, "--help"], { encoding: "utf8" })

      assert.strictEqual(status, 0)
      assert.include(stdout, `mailroom ${verb}`)
    })

    it(`${unit} sets settings that there are, from credentials that it loads`, () => {
      const names = new Set(Object.values(settings).flatMap(({ name, isSecret }) => (isSecret === true ? [name, fileNameOf(name)] : [name])))
      const credentials = linesOf(unit).flatMap((line) => /^#?LoadCredential=([\w-]+):/.exec(line)?.[1] ?? [])
      const variables = linesOf(unit).flatMap((line) => {
        const match = /^#?Environment=(\w+)=(.*)$/.exec(line)
        return match === null || match[1] === "NODE_OPTIONS" ? [] : [[match[1]!, match[2]!] as const]
      })

      assert.isAtLeast(variables.length, 1)
      assert.deepStrictEqual(variables.map(([name]) => name).filter((name) => !names.has(name)), [])
      assert.deepStrictEqual(variables.map(([, value]) => value), credentials.map((name) => `%d/${name}`))
    })
  }

  it("have a place for the mail server's password each, for they read the same settings, which want it beside the user", () => {
    for (const unit of units) assert.include(linesOf(unit), "#Environment=MAILROOM_SMTP_PASSWORD_FILE=%d/smtp-password", unit)
  })

  it("give Node options that it takes", () => {
    const told = "require('node:v8').getHeapStatistics().heap_size_limit"
    const limit = (options: string) => Number(execFileSync(process.execPath, ["-p", told], { env: { NODE_OPTIONS: options }, encoding: "utf8" }))
    const other = limit("--max-semi-space-size=16")

    for (const unit of ["mailroom-serve.service", "mailroom-worker.service"]) {
      const [given] = valuesOf(unit, "Environment").filter((value) => value.startsWith("NODE_OPTIONS="))
      const megabytes = Number(/^NODE_OPTIONS=--max-semi-space-size=(\d+)$/.exec(given!)![1])

      // The limit counts three of them.
      assert.strictEqual(limit(given!.replace("NODE_OPTIONS=", "")) - other, (megabytes - 16) * 3 * 2 ** 20)
      assert.notStrictEqual(megabytes, 16)
    }
  })

  it("run processes with options that V8 has", () => {
    const [name, value] = workerHeap.split("=")
    const options = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" })

    assert.include(options, `${name} (`)
    assert.match(value!, /^\d+$/)
    assert.include(options, `--${noPretenuring.slice("--no-".length)} (`)
    assert.include(options, `${oneHeap} (`)
  })

  it("let processes finish: a stopped one is killed later than it stops by itself", () => {
    const seconds = (unit: string) => Number(valuesOf(unit, "TimeoutStopSec")[0])

    assert.isAbove(seconds("mailroom-serve.service"), 20)
    assert.isAbove(seconds("mailroom-smtp.service"), 20)
    assert.isAbove(seconds("mailroom-worker.service"), 10)
  })

  it("are understood by systemd, where it is installed", () => {
    const copies = mkdtempSync(join(tmpdir(), "mailroom-units-"))
    onTestFinished(() => rmSync(copies, { recursive: true }))
    const files = units.map((unit) => {
      writeFileSync(join(copies, unit), readFileSync(join(folder, unit)))
      return join(copies, unit)
    })

    const { error, status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", ...files], { encoding: "utf8" })

    // Without systemd, what is wrong with them is for the other tests to say.
    if (error === undefined) assert.deepStrictEqual([status, stderr.trim()], [0, ""])
    else assert.strictEqual("code" in error ? error.code : "", "ENOENT")
  })
})
