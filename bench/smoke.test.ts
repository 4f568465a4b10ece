/** Every benchmark still runs: a round of each, with little to do, and nobody looks at the time. */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { benchmarks } from "./Benchmarks.ts"

/** Some dozens of processes load the same files one after the other. */
const cache = mkdtempSync(join(tmpdir(), "mailroom-smoke-"))
afterAll(() => rmSync(cache, { recursive: true, force: true }))
const env = { ...process.env, NODE_COMPILE_CACHE: cache }

/** What it ended with, and what it said. */
const smoke = (name: string): Promise<{ readonly code: number; readonly said: string }> =>
  new Promise((resolve) => {
    const child = execFile(process.execPath, [join(import.meta.dirname, `${name}.ts`), "--smoke"], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? 1, said: stdout + stderr })
    )
  })

describe("npm run bench -- --smoke", () => {
  for (const { name } of benchmarks) {
    const isThere = existsSync(join(import.meta.dirname, `${name}.ts`))
    it.skipIf(!isThere)(`${name} comes to its end with a result`, { timeout: 120_000 }, async () => {
      const { code, said } = await smoke(name)

      assert.strictEqual(code, 0, said)
      assert.include(said, "not judged")
    })
  }
})
