/**
 * Odd messages, one behaviour each: `fixtures/odd/*.eml`, and beside each what
 * `mailroom inspect mime` prints of it, but for the file's name. Adding a case
 * is adding two files; what is expected follows from the RFCs, not from what
 * the reader says.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Reading from "../../runtimes/cli/InspectMail.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "./RfcMime.ts"

const folder = join(import.meta.dirname, "fixtures", "odd")
const cases = readdirSync(folder).filter((file) => file.endsWith(".eml")).map((file) => file.slice(0, -4))

describe("an odd message", () => {
  for (const name of cases) {
    it.live(`is read: ${name.replaceAll("-", " ")}`, () =>
      Effect.gen(function* () {
        const bytes = readFileSync(join(folder, `${name}.eml`))
        const expected: unknown = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"))

        const parsed = yield* Mime.use((mime) => mime.parse(Stream.make(bytes)))

        assert.deepStrictEqual(JSON.parse(JSON.stringify(Reading.describe(parsed))), expected)
      }).pipe(Effect.provide(RfcMime.layer))
    )
  }

  it("is one of forty at least, each with what is expected of it", () => {
    assert.isAtLeast(cases.length, 40)
    assert.deepStrictEqual(cases, readdirSync(folder).filter((file) => file.endsWith(".json")).map((file) => file.slice(0, -5)))
  })
})
