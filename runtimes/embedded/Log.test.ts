/** Where the log of a Mailroom inside a program goes. */
import { assert, describe, it } from "@effect/vitest"
import { onTestFinished, vi } from "vitest"
import { embed, found } from "./harness.ts"

describe("the log of an embedded Mailroom", () => {
  it("may be a function that promises: what it does not keep is on standard error, and ends no process", async () => {
    const errors = vi.spyOn(console, "error").mockImplementation(() => {})
    const unhandled: Array<unknown> = []
    const note = (fault: unknown) => void unhandled.push(fault)
    process.on("unhandledRejection", note)
    onTestFinished(() => {
      errors.mockRestore()
      process.off("unhandledRejection", note)
    })
    const log = async (line: string) => assert.fail(line)
    const mailroom = await embed({ log: log as (line: string) => void }) // as who has no linter gives it

    const { apiKey } = await found(mailroom)
    await mailroom.client(apiKey).listMailboxes()
    await new Promise((resolve) => setTimeout(resolve, 10))

    assert.deepStrictEqual(unhandled, [])
    const told = errors.mock.calls.map(([line]) => JSON.parse(String(line)))
    assert.deepStrictEqual(told.map(({ message, annotations }) => [message, annotations.operation]), [["request", "listMailboxes"]])
  })
})
