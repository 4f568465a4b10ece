import { assert, describe, it, vi } from "@effect/vitest"
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
  it("looks through a long line no more often for its coming byte by byte", () => {
    const long = `250 ${"x".repeat(60_000)}`
    const looked = vi.spyOn(String.prototype, "indexOf")

    const said = byByte(`250-a\r\n${long}\r\n250 b\n`)

    const looks = looked.mock.calls.length
    looked.mockRestore()
    assert.deepStrictEqual(said, [{ code: 250, text: `250-a\r\n${long}` }, { code: 250, text: "250 b" }])
    assert.isAtMost(looks, 100)
  })
})
