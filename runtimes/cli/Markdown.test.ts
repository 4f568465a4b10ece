import { assert, describe, it } from "@effect/vitest"
import { commands, managementCommands } from "./Commands.ts"
import { cliMarkdown } from "./Markdown.ts"

describe("docs/cli.md", () => {
  const page = cliMarkdown(commands, managementCommands)
  const chapter = (command: string) => page.split("\n## ").find((text) => text.startsWith(`mailroom ${command}\n`))!
  const required = (command: string) => [...chapter(command).matchAll(/^\| `--([a-z-]+)`.* \(required\) \|$/gm)].map(([, name]) => name)

  it("marks the flags that a command cannot do without, and no others", () => {
    assert.deepStrictEqual(required("key create"), ["tenant", "app", "name", "scope"])
    assert.deepStrictEqual(required("app create"), ["tenant", "name", "environment"])
    assert.deepStrictEqual(required("conformance"), [])
    assert.deepStrictEqual(required("openapi"), [])
  })

  it("says what a key's flags are when they are left out", () => {
    assert.include(chapter("key create"), "or never (default: never) |")
  })
})
