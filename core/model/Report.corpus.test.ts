/**
 * The corpus of reports, and of mail that is none: each message of the folder
 * with what `mailroom inspect dsn` says of it. Adding a case is adding two files.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { RfcMime } from "../../adapters/mime/index.ts"
import { Mime } from "../ports/Mime.ts"
import * as Report from "./Report.ts"

const folder = join(import.meta.dirname, "fixtures/reports")
const names = readdirSync(folder).filter((file) => file.endsWith(".eml")).map((file) => file.slice(0, -".eml".length))

type Expected = Report.Report & { readonly isBounce: boolean }

const expected = (name: string): Expected =>
  JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Expected // written beside the message

const found = Effect.fnUntraced(function* (name: string) {
  const mime = yield* Mime
  const parsed = yield* mime.parse(Stream.make(new Uint8Array(readFileSync(join(folder, `${name}.eml`)))))
  const report = Report.read(parsed)
  const result: Expected = { isBounce: report.kind === "bounce", ...report }
  return result
}, Effect.provide(RfcMime.layer))

const addresses = ({ recipients }: Expected) => recipients.map(({ address }) => address).sort()
const classes = ({ recipients }: Expected) => recipients.map((recipient) => `${recipient.address} ${recipient.class}`).sort()
const same = (one: ReadonlyArray<string>, other: ReadonlyArray<string>) => one.join("\n") === other.join("\n")

describe("the corpus of reports", () => {
  for (const name of names) {
    it.effect(`reads ${name}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* found(name), expected(name))
      }))
  }

  it.effect("is read without a false bounce", () =>
    Effect.gen(function* () {
      const all = yield* Effect.forEach(names, (name) => Effect.map(found(name), (got) => ({ got, want: expected(name) })))
      const bounces = all.filter(({ want }) => want.isBounce)
      const others = all.filter(({ want }) => !want.isBounce)
      const figures = {
        recognised: bounces.filter(({ got }) => got.isBounce).length,
        addressRight: bounces.filter(({ got, want }) => same(addresses(got), addresses(want))).length,
        classRight: bounces.filter(({ got, want }) => same(classes(got), classes(want))).length,
        falseBounces: others.filter(({ got }) => got.isBounce).length
      }
      yield* Effect.log(`${bounces.length} bounces, ${others.length} others`, figures)

      assert.deepStrictEqual(figures, { recognised: bounces.length, addressRight: bounces.length, classRight: bounces.length, falseBounces: 0 })
    }))
})
