import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { createHash } from "node:crypto"
import { Sha256 } from "./Sha256.ts"

const expected = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

describe("Sha256", () => {
  it("agrees with Node's at every length around a block", () => {
    for (let length = 0; length <= 200; length++) {
      const bytes = Uint8Array.from({ length }, (_, index) => index * 31 + length)

      assert.strictEqual(new Sha256().update(bytes).digest(), expected(bytes), `${length} bytes`)
    }
  })

  it("agrees with Node's on any bytes in any pieces", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 }), (pieces) => {
        const hash = new Sha256()
        for (const piece of pieces) hash.update(piece)

        assert.strictEqual(hash.digest(), expected(Buffer.concat(pieces)))
      })
    )
  })

  it("hashes 32 MiB in a few seconds", () => {
    const bytes = new Uint8Array(32 * 1024 * 1024).fill(7)
    const start = performance.now()

    assert.strictEqual(new Sha256().update(bytes).digest(), expected(bytes))
    assert.isBelow(performance.now() - start, 5_000)
  })
})
