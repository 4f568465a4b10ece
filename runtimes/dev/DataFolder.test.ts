/** The sealing keys in the folder of `dev`: made once, and never taken for others than they are. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import * as DataFolder from "./DataFolder.ts"

const key = (bytes: number) => Buffer.alloc(bytes, 7).toString("base64")

const folder = () => {
  const made = mkdtempSync(join(tmpdir(), "mailroom-keys-"))
  onTestFinished(() => rmSync(made, { recursive: true }))
  return made
}

describe("the sealing keys of dev", () => {
  it.effect("are made once, and are the same from then on", () =>
    Effect.gen(function* () {
      const at = folder()

      const [made, again] = [yield* DataFolder.sealingKeys(at), yield* DataFolder.sealingKeys(at)]

      assert.deepStrictEqual(made.map(({ version, key }) => [version, Redacted.value(key).length]), [[1, 32]])
      assert.deepStrictEqual(again.map(({ key }) => Redacted.value(key)), made.map(({ key }) => Redacted.value(key)))
    })
  )

  it.effect("are not made anew beside a database, whose secrets they would not open: what is lost is told, and nothing is changed", () =>
    Effect.gen(function* () {
      const at = folder()
      mkdirSync(join(at, "database"))

      const { message } = yield* Effect.flip(DataFolder.sealingKeys(at))

      assert.strictEqual(
        message,
        `${at}/keys.json is missing beside ${at}/database. What its keys have sealed opens with no others: put it back from a copy, or set MAILROOM_SEALING_KEYS again if they were there; or, to start anew, remove the database`
      )
      assert.isFalse(existsSync(join(at, "keys.json")))
    })
  )

  const spoilt: ReadonlyArray<readonly [what: string, text: string]> = [
    ["nothing", ""],
    ["half of it", "{\"sealingKeys\": [{\"version\""],
    ["no key", JSON.stringify({ sealingKeys: [] })],
    ["a key that is too short", JSON.stringify({ sealingKeys: [{ version: 1, key: key(31) }] })],
    ["a key that is too long", JSON.stringify({ sealingKeys: [{ version: 1, key: key(33) }] })],
    ["a key that is no base64", JSON.stringify({ sealingKeys: [{ version: 1, key: key(32).replace("Bw", "B!") }] })],
    ["two in one", JSON.stringify({ sealingKeys: [{ version: 1, key: `${key(32)},2:${key(32)}` }] })],
    ["a version twice", JSON.stringify({ sealingKeys: [1, 1].map((version) => ({ version, key: key(32) })) })],
    ["a version that is none", JSON.stringify({ sealingKeys: [{ version: 0, key: key(32) }] })]
  ]
  for (const [what, text] of spoilt) {
    it.effect(`are not read from a file that holds ${what}: what is lost with them is told, and nothing is changed`, () =>
      Effect.gen(function* () {
        const at = folder()
        const file = join(at, "keys.json")
        writeFileSync(file, text)

        const { message } = yield* Effect.flip(DataFolder.sealingKeys(at))

        assert.strictEqual(
          message,
          `${file} is damaged: it wants sealing keys of 32 bytes in base64. What they have sealed opens with no others: put it back from a copy; or, to start anew, remove it and the database that \`dev\` has used with it`
        )
        assert.strictEqual(readFileSync(file, "utf8"), text)
      })
    )
  }
})
