import { assert, describe, it } from "@effect/vitest"
import { SmtpReplies, type Said } from "./SmtpReplies.ts"

const byByte = (text: string): ReadonlyArray<Said> => {
  const replies = new SmtpReplies()
  const said: Array<Said> = []
  for (const character of text) {
    replies.hear(Buffer.from(character))
    for (let next = replies.next(); next !== null; next = replies.next()) said.push(next)
  }
  return said
}

describe("SmtpReplies", () => {
  it("takes no longer over a long line for its coming byte by byte", () => {
    const long = `250 ${"x".repeat(60_000)}`
    const before = process.cpuUsage()

    const said = byByte(`250-a\r\n${long}\r\n250 b\n`)

    const { user, system } = process.cpuUsage(before)
    assert.deepStrictEqual(said, [{ code: 250, text: `250-a\r\n${long}` }, { code: 250, text: "250 b" }])
    assert.isAtMost((user + system) / 1_000, 200)
  })
})
