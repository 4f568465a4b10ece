import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const cli = join(import.meta.dirname, "main.ts")

/** Runs `inspect mime` to its end. */
const inspect = (paths: ReadonlyArray<string>, input: string | Uint8Array = "") => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "inspect", "mime", ...paths], { input, encoding: "utf8", maxBuffer: 1e9 })
  return { status, stderr, lines: stdout.split("\n").slice(0, -1).map((line) => JSON.parse(line)) }
}

const withFiles = (contents: Readonly<Record<string, string>>, use: (path: (name: string) => string) => void): void => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-inspect-"))
  const path = (name: string) => join(folder, name)
  for (const [name, content] of Object.entries(contents)) writeFileSync(path(name), content)
  try {
    use(path)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const message = (subject: string) => `From: Ada <ada@example.com>\nDate: Mon, 7 Apr 2025 09:00:00 +0000\nSubject: ${subject}\n\nbody\n`

describe("inspect mime", () => {
  it("prints what it finds in a message, member by member", () => {
    const [line, ...rest] = inspect([], message("s")).lines

    assert.deepStrictEqual(rest, [])
    assert.deepStrictEqual(line, {
      file: "-",
      subject: "s",
      date: "2025-04-07T09:00:00.000Z",
      from: { address: "ada@example.com", name: "Ada" },
      to: [],
      cc: [],
      messageId: null,
      inReplyTo: null,
      references: [],
      text: "body\n",
      html: null,
      mime: { partId: "1", mediaType: "text/plain", charset: null, disposition: null, contentId: null, filename: null, sizeBytes: 5, parts: [] },
      attachments: [],
      defects: []
    })
  })

  it("prints a line for each file in their order, and takes one from standard input for a hyphen", () => {
    withFiles({ "a.eml": message("a"), "b.mbox": `From ada@example.com Mon Apr  7 09:00:00 2025\n${message("b")}` }, (path) => {
      const { status, stderr, lines } = inspect([path("b.mbox"), "-", path("a.eml")], message("c"))

      assert.deepStrictEqual(lines.map(({ file, subject }) => [file, subject]), [[path("b.mbox"), "b"], ["-", "c"], [path("a.eml"), "a"]])
      assert.deepStrictEqual([status, stderr], [0, ""])
    })
  })

  it("names a file that is not there, prints the others and fails", () => {
    withFiles({ "a.eml": message("a") }, (path) => {
      const { status, stderr, lines } = inspect([path("none.eml"), path(""), path("a.eml")])

      assert.deepStrictEqual(lines.map(({ subject }) => subject), ["a"])
      assert.strictEqual(stderr, `mailroom: ${path("none.eml")}: no such file\nmailroom: ${path("")}: is a folder\n`)
      assert.strictEqual(status, 1)
    })
  })

  it("names a file that is not there without what a terminal obeys", () => {
    withFiles({}, (path) => {
      assert.strictEqual(inspect([path("\u009b31m")]).stderr, `mailroom: ${path(String.raw`\u009b31m`)}: no such file\n`)
    })
  })

  it("reads a large message on a thread, and ends", () => {
    const attachment = `Content-Type: A/B; Method=REQUEST\n\n${"0123456789\n".repeat(100_000)}`

    const { status, lines } = inspect([], attachment)

    assert.strictEqual(status, 0)
    assert.deepStrictEqual(lines[0].attachments, [{
      filename: null,
      mediaType: "a/b; method=REQUEST",
      sizeBytes: 1_100_000,
      sha256: "64df49d76c5d8b00732029ea0e160767a4d0fe016c4a59755872f298720333fd",
      disposition: null,
      contentId: null
    }])
  })
})
