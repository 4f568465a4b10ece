import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { pages } from "./publish.ts"

describe("docs/benchmarks.md", () => {
  for (const { file, text } of pages()) {
    it(`${file} is what its results make of it; \`node bench/publish.ts\` writes it anew`, () => {
      assert.strictEqual(readFileSync(join(import.meta.dirname, "../docs", file), "utf8"), text)
    })
  }
})
