/** `mailroom conformance --adapters` as a process, where an adapter would keep it from its end. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll } from "vitest"

const root = join(import.meta.dirname, "..", "..")
const folder = mkdtempSync(join(tmpdir(), "mailroom-adapter-proof-"))
afterAll(() => rmSync(folder, { recursive: true }))

describe("a proof of adapters", () => {
  it("ends, and names the scope, where one holds a timer and its release never ends", { timeout: 60_000 }, async () => {
    const file = join(folder, "mine.mjs")
    writeFileSync(
      file,
      `import { Effect, Layer } from ${JSON.stringify(import.meta.resolve("effect"))}
       import { conforms } from ${JSON.stringify(pathToFileURL(join(root, "conformance/Proof.ts")).href)}
       const held = Effect.acquireRelease(Effect.sync(() => setInterval(() => {}, 1000)), () => Effect.never)
       const suite = { name: "One", checks: [{ title: "holds", check: Effect.void }] }
       export default [conforms("mine", suite, Layer.effectDiscard(held))]`
    )

    const child = spawn(process.execPath, [join(root, "runtimes/cli/main.ts"), "conformance", "--adapters", file, "--timeout", "1"])
    const killed = setTimeout(() => child.kill("SIGKILL"), 50_000)
    let out = ""
    child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()))
    const status = await new Promise<number | null>((resolve) => child.once("close", resolve))
    clearTimeout(killed)

    assert.strictEqual(status, 1)
    assert.include(out, "FAILED  mine breaks a law of One:\n        releases what it holds when its scope closes\n          its scope could not be closed: ")
    assert.match(out, /\n1 passed, 1 failed, in /)
  })
})
