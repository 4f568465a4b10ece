import { assert, describe, it, vi } from "@effect/vitest"
import { Redacted } from "effect"
import { SmtpReplies, type Said } from "./SmtpReplies.ts"
import { replySizeMax, shown } from "./SmtpSettings.ts"

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

  it("finds the end of a reply though more has come before it is asked for", () => {
    const replies = new SmtpReplies()
    replies.hear(Buffer.from("250 a\r\n"))
    replies.hear(Buffer.from("250"))

    assert.deepStrictEqual([replies.next(), replies.next()], [{ code: 250, text: "250 a" }, null])
    assert.isTrue(replies.isBegun())
  })

  it("understands no line that is longer than a reply may be, though it has no end yet", () => {
    const replies = new SmtpReplies()
    replies.hear(Buffer.from("2".repeat(replySizeMax)))
    assert.isNull(replies.next())
    assert.isFalse(replies.isTooLong())

    replies.hear(Buffer.from("2"))

    assert.isNull(replies.next())
    assert.isTrue(replies.isTooLong())
  })
})

describe("Somebody's words", () => {
  for (const [what, password, words, hides] of [
    ["that quote a password", "s3cret", "550 no s3cret here", true],
    ["that quote it as it was said", "s3cret", `550 no ${btoa("\0ada\0s3cret")}`, true],
    ["that quote the user alone", "s3cret", "550 no ada here", false],
    ["though the password is empty, which all words hold", "", "550 no ada here", false]
  ] as const) {
    it(`are ${hides ? "hidden" : "shown"} ${what}`, () => {
      assert.strictEqual(shown(words, { auth: { user: "ada", password: Redacted.make(password) } }) !== words, hides)
    })
  }
})
