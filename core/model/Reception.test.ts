import { assert, describe, it } from "@effect/vitest"
import { ofAuthorShown, type Examined } from "./Reception.ts"

const passed: Examined = { spf: "pass", dkim: "none", dmarc: "pass", arc: "none", dmarcPolicy: "reject", author: "bank.test" }

const judged = (address: string | null, over: Partial<Examined> = {}) => {
  const { dmarc, dmarcPolicy, ...others } = ofAuthorShown({ ...passed, ...over }, address === null ? null : { address, name: "Ada" })
  assert.deepStrictEqual(others, { spf: "pass", dkim: "none", arc: "none" })
  return [dmarc, dmarcPolicy]
}

describe("what is found of a message", () => {
  it("holds where the author who is shown is the one who was asked about, however it is spelled", () => {
    const same: ReadonlyArray<readonly [shown: string, asked: string]> = [
      ["ada@bank.test", "bank.test"],
      ["Ada@BANK.Test.", "bank.test"],
      ["\"a@b\"@bank.test", "bank.test"],
      ["ada@b\u00fccher.test", "xn--bcher-kva.test"],
      ["ada@stra\u00dfe.test", "xn--strae-oqa.test"],
      ["ada@b\u3002test", "b.test"],
      ["ada@under_score.test", "under_score.test"],
      ["ada@localhost", "localhost"],
      ["ada@[192.0.2.1]", "[192.0.2.1]"]
    ]
    for (const [shown, author] of same) assert.deepStrictEqual(judged(shown, { author }), ["pass", "reject"], shown)
  })

  it("holds where nobody was asked about, or nobody is shown", () => {
    assert.deepStrictEqual(judged("eve@other.test", { author: null }), ["pass", "reject"])
    assert.deepStrictEqual(judged(null), ["pass", "reject"])
    assert.deepStrictEqual(judged("Ada"), ["pass", "reject"])
  })

  it("is nobody's where another author is shown", () => {
    for (const shown of ["eve@other.test", "eve@bank.test.evil.test", "eve@\uff42ank.test2", "a@bank.test\"eve@other.test\"", "eve\uff20other.test", "eve\ufe6bother.test"]) {
      for (const dmarc of ["pass", "none", "neutral", "fail"]) {
        assert.deepStrictEqual(judged(shown, { dmarc, dmarcPolicy: "none" }), ["permerror", null], `${shown} ${dmarc}`)
      }
    }
    assert.deepStrictEqual(judged("eve@\uff42ank.test", { author: "xn--ank-u53b.test" }), ["permerror", null])
    assert.deepStrictEqual(judged("eve@other.test", { dmarcPolicy: "reject" }), ["permerror", null])
  })

  it("stays refused, or put off, whoever is shown", () => {
    const refused: ReadonlyArray<Partial<Examined>> = [
      { dmarc: "fail", dmarcPolicy: "reject" },
      { dmarc: "fail", dmarcPolicy: "quarantine" },
      { dmarc: "temperror", dmarcPolicy: "reject" },
      { dmarc: "temperror", dmarcPolicy: null }
    ]
    for (const over of refused) assert.deepStrictEqual(judged("eve@other.test", over), [over.dmarc, over.dmarcPolicy])
  })
})
