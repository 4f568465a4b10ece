/** What the doctor says of a user who did not make the tables. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import * as Database from "../../adapters/postgres/Database.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import { complete, findingsOf } from "./harness.ts"

describe("the doctor, of a user who did not make the tables,", () => {
  it.live("says what he lacks, functions too, in statements that give it to him as they stand", () =>
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* TestDatabase.url("migrated")))
      const role = `mail-room_${url.pathname.slice(1)}`
      const { sql } = yield* Database.make({ url: Redacted.make(url.href), connectionsMax: 1 })
      yield* Effect.acquireRelease(sql.unsafe(`create role "${role}" login`), () =>
        Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by "${role}"`), sql.unsafe(`drop role "${role}"`)))
      )
      yield* sql.unsafe("revoke execute on all functions in schema mailroom from public")
      const theirs = new URL(url)
      theirs.username = role
      const looked = Effect.map(findingsOf({ ...complete, MAILROOM_DATABASE_URL: theirs.href }), (findings) => findings.filter(({ check }) => check === "rights"))

      const said: Array<string> = []
      for (let finding = (yield* looked)[0]!; said.push(`${finding.status} ${finding.message}`) < 5 && finding.advice !== null; finding = (yield* looked)[0]!) {
        yield* sql.unsafe(finding.advice)
      }

      assert.strictEqual(said[0], `fail ${role} may not use the schema mailroom`)
      assert.match(said[1]!, /may not read and write .*\bmessage\b/)
      assert.match(said[2]!, /may not call .*\bclaim_jobs\b/)
      assert.notInclude(said[2]!, "end_job_epoch", "a trigger is called by whoever writes")
      assert.deepStrictEqual(said.slice(3), [`ok ${role} may read and write every table`])
    }).pipe(Effect.provide(Reactivity.layer), Effect.scoped), 60_000)
})
