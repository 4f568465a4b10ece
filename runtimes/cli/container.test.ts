/** The image of the documentation: what it installs, starts and sets is there. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { settings } from "../Config.ts"
import { oldNode } from "./OldNode.ts"

const root = join(import.meta.dirname, "../..")
const read = (file: string) => readFileSync(join(root, file), "utf8")
const manifest = JSON.parse(read("package.json")) as {
  readonly bin: { readonly mailroom: string }
  readonly peerDependencies: Readonly<Record<string, string>>
}

/** Its instructions in order, each as one line. */
const instructions = read("docs/container/Dockerfile")
  .replace(/^#.*\n/gm, "")
  .replace(/\\\n\s*/g, "")
  .trimEnd()
  .split("\n")
const valueOf = (name: string): string => {
  const [line, ...more] = instructions.filter((line) => line.startsWith(`${name} `))
  assert.deepStrictEqual(more, [])
  return line!.slice(name.length + 1)
}

describe("the image", () => {
  it("has a Node that the command wants", () => {
    const [, version] = /^node:(\d+)-slim$/.exec(valueOf("FROM"))!

    assert.isNull(oldNode(`${version}.99.0`, "node"))
  })

  it("installs the package, and all that goes with it but the database of dev", () => {
    const [, names] = /^npm install --no-audit --no-fund \.\/mailroom-\*\.tgz (.+?) &&/.exec(valueOf("RUN"))!

    assert.deepStrictEqual(
      names!.split(" ").toSorted(),
      Object.keys(manifest.peerDependencies).filter((name) => name !== "@electric-sql/pglite").toSorted()
    )
    assert.strictEqual(valueOf("COPY"), "mailroom-*.tgz ./")
  })

  it("starts the command, as somebody who may do nothing else, and serves unless it is told otherwise", () => {
    assert.deepStrictEqual(JSON.parse(valueOf("ENTRYPOINT")), ["node", join("node_modules/mailroom", manifest.bin.mailroom)])
    assert.deepStrictEqual(JSON.parse(valueOf("CMD")), ["serve"])
    assert.strictEqual(valueOf("USER"), "node")
    assert.isBelow(instructions.indexOf("USER node"), instructions.findIndex((line) => line.startsWith("ENTRYPOINT ")))
  })

  it("sets settings that there are, and gives Node what the units give it", () => {
    const { NODE_OPTIONS, ...others } = Object.fromEntries(valueOf("ENV").split(" ").map((pair) => pair.split(/=(.*)/s)))
    const names = Object.values(settings).map(({ name }) => name)

    assert.deepStrictEqual(others, { MAILROOM_HOST: "0.0.0.0", MAILROOM_INBOUND_HOST: "0.0.0.0" })
    assert.includeMembers(names, Object.keys(others))
    assert.include(read("docs/systemd/mailroom-serve.service"), `Environment=NODE_OPTIONS=${NODE_OPTIONS}\n`)
  })
})
