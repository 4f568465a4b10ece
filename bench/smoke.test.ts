/** Every benchmark still runs: a round of each, with little to do, and nobody looks at the time. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { join } from "node:path"
import { benchmarks } from "./Benchmarks.ts"

/** What it ended with, and what it said. One that takes too long ends with all that it has started. */
const smoke = (name: string): Promise<{ readonly code: number | null; readonly said: string }> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, `${name}.ts`), "--smoke"], { detached: true })
    let said = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk.toString()))
    const late = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), 100_000) // it was started
    child.once("close", (code) => {
      clearTimeout(late)
      resolve({ code, said })
    })
  })

describe("npm run bench -- --smoke", () => {
  for (const { name } of benchmarks) {
    it(`${name} comes to its end with a result`, { timeout: 120_000 }, async () => {
      const { code, said } = await smoke(name)

      assert.strictEqual(code, 0, said)
      assert.include(said, "not judged")
    })
  }
})
