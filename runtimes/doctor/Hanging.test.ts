/** The doctor over a disk that answers nothing, as one behind a network that is gone. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
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

/** Of what is below `/hangs`, nothing is ever heard. */
const hanging = Effect.acquireRelease(
  Effect.sync(() => {
    const real = builtin.stat
    const stat = (...asked: Parameters<typeof real>) => (String(asked[0]).startsWith("/hangs/") ? new Promise(() => {}) : real(...asked))
    Object.assign(builtin, { stat })
    syncBuiltinESMExports()
    return real
  }),
  (stat) => Effect.sync(() => (Object.assign(builtin, { stat }), syncBuiltinESMExports()))
)

describe("the doctor", () => {
  it.live("gives up a folder of blobs that answers nothing, says so, and goes on", () =>
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
      yield* hanging

      yield* bounded(DatabaseChecks.database({ ...config, databaseUrl: url }, reader), voice("database", reader))

      const [blobs, behind] = findings.slice(-2)
      assert.deepStrictEqual([blobs!.check, blobs!.status, blobs!.message], ["blobs", "fail", "/hangs/blobs does not answer within 10 seconds"])
      assert.strictEqual(behind!.check, "postmaster")
    }).pipe(Effect.scoped), 90_000)
})
