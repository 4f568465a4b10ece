import { assert, describe, it } from "@effect/vitest"
import * as Reply from "./Reply.ts"

describe("a reply", () => {
  const rows: ReadonlyArray<readonly [smtpCode: number, enhancedCode: string | null, verdict: ReturnType<typeof Reply.classify>]> = [
    [250, "2.1.5", "accepted"],
    [250, null, "accepted"],
    [251, null, "accepted"],
    [451, "4.3.0", "transient"],
    [421, null, "transient"],
    [354, null, "transient"],
    [550, "5.1.1", "permanent"],
    [554, null, "permanent"],
    [550, "4.2.1", "transient"], // the enhanced code decides
    [450, "5.7.1", "permanent"],
    [250, "5.1.1", "permanent"],
    [550, "banana", "permanent"], // a code that is none does not
    [550, "4.2", "permanent"],
    [550, "3.1.1", "permanent"],
    [450, "5.1.1 user unknown", "transient"],
    [450, "5.1111.1", "transient"],
    [0, null, "transient"],
    [999, null, "transient"]
  ]
  for (const [smtpCode, enhancedCode, verdict] of rows) {
    it(`${smtpCode} ${enhancedCode ?? ""} -> ${verdict}`, () => {
      assert.strictEqual(Reply.classify({ smtpCode, enhancedCode, text: null }), verdict)
    })
  }

  it("is never judged by its text", () => {
    for (const text of ["550 5.1.1 no such user", "250 2.0.0 ok", "permanent failure"]) {
      assert.strictEqual(Reply.classify({ smtpCode: 451, enhancedCode: null, text }), "transient")
    }
  })

  it("is shown as one line of 500 characters at most, and not at all where it says nothing", () => {
    const shown = ["no\r\nsuch\u2028user ", "x".repeat(501), null, "", " \r\n"].map(Reply.cleanReply)

    assert.deepStrictEqual(shown, ["no such user", "x".repeat(500), null, null, null])
  })

  it("is passed on as one line of 1,000 characters at most, and of whole ones", () => {
    assert.strictEqual(Reply.oneLine(" no\r\n  such\tuser "), "no such user")
    assert.strictEqual(Reply.oneLine("x".repeat(1_001)), "x".repeat(1_000))
    assert.isTrue(Reply.oneLine(`${"x".repeat(999)}😀`)?.isWellFormed())
    assert.deepStrictEqual(["", " \r\n", null, undefined].map(Reply.oneLine), [null, null, null, null])
  })

  it("is shown in whole characters, also where it is cut", () => {
    for (const text of [`${"x".repeat(499)}😀`, "no such user \ud83d"]) assert.isTrue(Reply.cleanReply(text)?.isWellFormed(), JSON.stringify(text.slice(-20)))
  })
})
