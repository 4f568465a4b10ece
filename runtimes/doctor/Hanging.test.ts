/** The doctor over a disk that answers nothing, as one behind a network that is gone. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import builtin from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
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

describe("the doctor", () => {
  it.effect("gives up a folder of blobs that answers nothing, says so, and goes on", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url("migrated")
      const blob = { sha256: "a".repeat(64), sizeBytes: 1 }
      const record = attachment(realm(), { id: freshId<AttachmentId>(), blob })
      yield* Store.use((store) => store.commit([{ _tag: "Insert", kind: "attachment", record }], [])).pipe(
        Effect.provide(PostgresStore.layerWithoutJobs.pipe(Layer.provide(Database.layer({ url, connectionsMax: 1 }))))
      )
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
})
