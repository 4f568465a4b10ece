import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Database } from "../adapters/postgres/Database.ts"
import * as TestDatabase from "../adapters/postgres/TestDatabase.ts"
import { freshId } from "../conformance/fixtures.ts"
import { BlobStore } from "../core/ports/BlobStore.ts"
import * as Adapters from "./Adapters.ts"
import * as Config from "./Config.ts"

/** The ports of a process with these settings, over a database of its own. */
const opened = Effect.fnUntraced(function* (variables: Config.Variables) {
  const url = Redacted.value(yield* TestDatabase.url())
  const config = yield* Config.load({ MAILROOM_DATABASE_URL: url, MAILROOM_SEALING_KEYS: `1:${Buffer.alloc(32).toString("base64")}`, ...variables }, {}, ["database"])
  return yield* Layer.build(Adapters.layer(config as Config.Deployment, "test")) // the database is needed
})

describe("the adapters of a deployment", () => {
  it.live("hold as many connections to the database as they may, and no more", () =>
    Effect.gen(function* () {
      const { pool, rows } = yield* Effect.provideContext(Database, yield* opened({ MAILROOM_DATABASE_POOL: "3" }))

      yield* Effect.all(Array.from({ length: 12 }, () => rows("select pg_sleep(0.05)")), { concurrency: "unbounded" })

      assert.strictEqual((yield* pool).connections, 3)
    })
  )

  it.live("prepare statements unless they are told not to", () =>
    Effect.gen(function* () {
      const prepared = Effect.fnUntraced(function* (variables: Config.Variables) {
        const { rows } = yield* Effect.provideContext(Database, yield* opened(variables))
        const [row] = yield* rows<{ readonly isPrepared: boolean }>('select count(*) > 0 as "isPrepared" from pg_prepared_statements')
        return row?.isPrepared
      })

      assert.deepStrictEqual([yield* prepared({}), yield* prepared({ MAILROOM_DATABASE_PREPARE: "false" })], [true, false])
    })
  )

  it.live("keep bytes in the database, or in the folder that they are told of", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "mailroom-adapters-"))),
        (made) => Effect.sync(() => rmSync(made, { recursive: true }))
      )
      const kept = Effect.fnUntraced(function* (variables: Config.Variables) {
        const context = yield* opened(variables)
        const { writer } = yield* Effect.provideContext(BlobStore, context)
        const { append, finish } = yield* writer(freshId())
        yield* append(Buffer.from("x"))
        yield* finish
        const { rows } = yield* Effect.provideContext(Database, context)
        const [row] = yield* rows<{ readonly count: number }>("select count(*)::integer as count from mailroom.blob")
        return { inDatabase: row?.count, inFolder: readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length }
      })

      assert.deepStrictEqual(yield* kept({}), { inDatabase: 1, inFolder: 0 })
      assert.deepStrictEqual(yield* kept({ MAILROOM_BLOBS: folder }), { inDatabase: 0, inFolder: 1 })
    })
  )
})
