/** The doctor over a disk that answers nothing, as one behind a network that is gone. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import builtin from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Database from "../../adapters/postgres/Database.ts"
import * as PostgresStore from "../../adapters/postgres/PostgresStore.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import { attachment, freshId, realm } from "../../conformance/fixtures.ts"
import type { AttachmentId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import { bounded, voice, type Finding } from "./Findings.ts"
import * as DatabaseChecks from "./DatabaseChecks.ts"
import * as Config from "../Config.ts"
import { complete } from "./harness.ts"

/** Of what is below `/hangs`, nothing is ever heard; `asked` opens when somebody asks. */
const hanging = Effect.acquireRelease(
  Effect.sync(() => {
    const { stat: real } = builtin
    const asked = Latch.makeUnsafe(false)
    const stat = (...of: Parameters<typeof real>) => (String(of[0]).startsWith("/hangs/") ? (asked.openUnsafe(), new Promise(() => {})) : real(...of))
    Object.assign(builtin, { stat })
    syncBuiltinESMExports()
    return { asked, real }
  }),
  ({ real }) => Effect.sync(() => (Object.assign(builtin, { stat: real }), syncBuiltinESMExports()))
)

/** A database that refers to a blob. */
const withAttachment = Effect.gen(function* () {
  const url = yield* TestDatabase.url("migrated")
  const blob = { sha256: "a".repeat(64), sizeBytes: 1 }
  const record = attachment(realm(), { id: freshId<AttachmentId>(), blob })
  yield* Store.use((store) => store.commit([{ _tag: "Insert", kind: "attachment", record }], [])).pipe(
    Effect.provide(PostgresStore.layerWithoutJobs.pipe(Layer.provide(Database.layer({ url, connectionsMax: 1 }))))
  )
  return url
})

describe("the doctor", () => {
  it.effect("gives up a folder of blobs that answers nothing, says so, and goes on", () =>
    Effect.gen(function* () {
      const url = yield* withAttachment
      const config = yield* Config.load({ ...complete, MAILROOM_DATABASE_URL: Redacted.value(url), MAILROOM_BLOBS: "/hangs/blobs", MAILROOM_INBOUND_POSTMASTER: "ops@mail.example" })
      const findings: Array<Finding> = []
      const reader = { began: () => Effect.void, found: (finding: Finding) => Effect.sync(() => void findings.push(finding)) }
      const { asked } = yield* hanging

      const looking = yield* Effect.forkChild(bounded(DatabaseChecks.database({ ...config, databaseUrl: url }, reader), voice("database", reader)))
      yield* asked.await
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(looking)

      const [blobs, behind] = findings.slice(-2)
      assert.deepStrictEqual([blobs!.check, blobs!.status, blobs!.message], ["blobs", "fail", "/hangs/blobs does not answer within 10 seconds"])
      assert.strictEqual(behind!.check, "postmaster")
    }).pipe(Effect.scoped), 30_000)

  it.live("ends where a disk answers nothing, though Node waits for what it has asked it", () =>
    Effect.gen(function* () {
      const url = yield* withAttachment
      const folder = mkdtempSync(join(tmpdir(), "mailroom-hanging-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const [pipe, blobs] = [join(folder, "pipe"), join(folder, "hangs")]
      execFileSync("mkfifo", [pipe])
      mkdirSync(blobs)
      // Whoever opens a pipe that nobody writes waits for good, as on such a disk.
      const hook = `import fs from "node:fs/promises"
        import { syncBuiltinESMExports } from "node:module"
        const { stat } = fs
        fs.stat = (path, ...options) => (String(path).startsWith(${JSON.stringify(`${blobs}/`)}) ? fs.open(${JSON.stringify(pipe)}) : stat(path, ...options))
        syncBuiltinESMExports()`
      const child = spawn(process.execPath, [join(import.meta.dirname, "../cli/main.ts"), "doctor", "--json"], {
        env: {
          PATH: process.env["PATH"],
          ...complete,
          MAILROOM_DATABASE_URL: Redacted.value(url),
          MAILROOM_BLOBS: blobs,
          NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}`
        }
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => void child.kill("SIGKILL")))
      let said = ""
      child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()))

      const [, signal] = yield* Effect.promise(() => once(child, "close"))

      assert.strictEqual(signal, "SIGKILL")
      assert.include(said, `${blobs} does not answer within 10 seconds`)
      assert.deepInclude(JSON.parse(said.trim().split("\n").at(-1)!), { check: "scanner" }, "it has come to its end")
    }).pipe(Effect.scoped, Effect.timeout("50 seconds")), 60_000)
})
