/** What `mailroom` says where: a process of its own, for what stands on which stream. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import * as Database from "../../adapters/postgres/Database.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"

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
})
