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

/** A file that holds adapters to a suite of one check. */
const fileOf = (name: string, check: string, layer: string): string => {
  const file = join(folder, name)
  writeFileSync(
    file,
    `import { Effect, Layer } from ${JSON.stringify(import.meta.resolve("effect"))}
     import { conforms } from ${JSON.stringify(pathToFileURL(join(root, "conformance/Proof.ts")).href)}
     const suite = { name: "One", checks: [{ title: "holds", check: ${check} }] }
     export default [conforms("mine", suite, ${layer})]`
  )
  return file
}

/** How it ends, and what it said until then; one that does not end is killed. */
const proved = async (file: string, isRead = true) => {
  const child = spawn(process.execPath, [join(root, "runtimes/cli/main.ts"), "conformance", "--adapters", file, "--timeout", "1"])
  const killed = setTimeout(() => child.kill("SIGKILL"), 50_000)
  const said = { out: "", errors: "" }
  if (isRead) child.stdout.on("data", (chunk: Buffer) => (said.out += chunk.toString()))
  else child.stdout.destroy()
  child.stderr.on("data", (chunk: Buffer) => (said.errors += chunk.toString()))
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve))
  clearTimeout(killed)
  return { ...said, status }
}

describe("a proof of adapters", { timeout: 60_000 }, () => {
  it("ends, and names the scope, where one holds a timer and its release never ends", async () => {
    const held = "Layer.effectDiscard(Effect.acquireRelease(Effect.sync(() => setInterval(() => {}, 1000)), () => Effect.never))"

    const { status, out } = await proved(fileOf("held.mjs", "Effect.void", held))

    assert.strictEqual(status, 1)
    assert.include(out, "FAILED  mine breaks a law of One:\n        releases what it holds when its scope closes\n          its scope could not be closed: ")
    assert.match(out, /\n1 passed, 1 failed, in /)
  })

  it("ends, and names what is open, where an adapter's module holds a timer", async () => {
    const { status, errors } = await proved(fileOf("open.mjs", "Effect.void", "(setInterval(() => {}, 1000), Layer.empty)"))

    assert.strictEqual(status, 0)
    assert.include(errors, "\nmailroom: all is done; what is still open is left behind: Timeout\n")
  })

  it("says no more than how the checks went, and ends as they did, where nobody reads the report", async () => {
    for (const [check, ended] of [["Effect.void", 0], ["Effect.fail('broken')", 1]] as const) {
      const { status, errors } = await proved(fileOf(`unread-${ended}.mjs`, check, "Layer.empty"), false)

      assert.strictEqual(status, ended)
      assert.match(errors, /^(?:ok  |FAIL) 1\/1 mine, One: holds \(\d+ ms\)\n$/)
    }
  })
})
