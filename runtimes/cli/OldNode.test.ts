import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { nodeWanted, oldNode } from "./OldNode.ts"

const root = join(import.meta.dirname, "../..")

describe("an old Node", () => {
  it("is one before that of the package's engines", () => {
    const manifest: { readonly engines: { readonly node: string } } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

    assert.strictEqual(manifest.engines.node, `>=${nodeWanted}`)
    for (const version of ["20.20.2", "23.99.0", "24.11.1"]) assert.isNotNull(oldNode(version, "/usr/bin/node"), version)
    for (const version of ["24.12.0", "24.21.0", "25.0.0", "26.1.0"]) assert.isNull(oldNode(version, "/usr/bin/node"), version)
  })

  it("is told in one line, with where it is, before anything is loaded that wants more", () => {
    // A program that says it is another version: there is no second Node to run.
    const pretend = "data:text/javascript,Object.defineProperty(process.versions,'node',{value:'20.20.2'})"

    const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", pretend, join(root, "runtimes/cli/bin.ts"), "migrate"], {
      encoding: "utf8"
    })

    assert.strictEqual(stderr, `mailroom: ${oldNode("20.20.2", process.execPath)}\n`)
    assert.strictEqual(stdout, "")
    assert.strictEqual(status, 1)
  })
})
