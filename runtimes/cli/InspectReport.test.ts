import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../..")
const cli = join(import.meta.dirname, "main.ts")
const folder = "core/model/fixtures/reports"
const names = readdirSync(join(root, folder)).filter((file) => file.endsWith(".eml"))

const expected = (name: string): object => JSON.parse(readFileSync(join(root, folder, name.replace(/eml$/, "json")), "utf8")) as object // an object, as all of them

const inspect = (files: ReadonlyArray<string>, input = "") => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "inspect", "dsn", ...files], { cwd: root, input, encoding: "utf8", maxBuffer: 1e8 })
  return { status, stderr, lines: stdout.split("\n").slice(0, -1).map((line) => JSON.parse(line) as object) } // of JSON objects
}

describe("inspect dsn", () => {
  it("says of each file, in their order, what is expected of it", () => {
    const files = names.map((name) => `${folder}/${name}`)

    const { status, stderr, lines } = inspect(files)

    assert.deepStrictEqual([status, stderr], [0, ""])
    assert.deepStrictEqual(lines, names.map((name, index) => ({ file: files[index], ...expected(name) })))
  }, 60_000)

  it("prints the members in the order in which they are told", () => {
    const [first] = inspect([`${folder}/qmail-user-unknown.eml`]).lines

    assert.strictEqual(Object.keys(first!).join(), "file,isBounce,kind,recipients,originalMessageId")
  }, 60_000)

  it("reads standard input where there is no file", () => {
    const { lines } = inspect([], readFileSync(join(root, folder, "postfix-delay.eml"), "utf8"))

    assert.deepStrictEqual(lines, [{ file: "-", ...expected("postfix-delay.eml") }])
  }, 60_000)

  it("goes on after a file that is not there, and ends with 1", () => {
    const { status, stderr, lines } = inspect(["nowhere.eml", `${folder}/postfix-delay.eml`])

    assert.strictEqual(status, 1)
    assert.match(stderr, /nowhere\.eml/)
    assert.lengthOf(lines, 1)
  }, 60_000)

  it("takes what is no message for no report", () => {
    for (const input of ["", "\n", "\u0000", "no message at all", "--x\n\n--x--\n"]) {
      assert.deepStrictEqual(inspect([], input).lines, [{ file: "-", isBounce: false, kind: "none", recipients: [], originalMessageId: null }])
    }
  }, 60_000)
})
