import { assert, describe, it } from "@effect/vitest"
import * as Base64 from "./Base64.ts"

describe("Base64", () => {
  it("is Node's, whatever the length, and leads back", () => {
    for (const length of [0, 1, 2, 3, 4, 5, 6, 255, 256, 100_000, 100_001, 100_002]) {
      const bytes = Uint8Array.from({ length }, (_, index) => (index * 167 + (index >> 8)) % 256)
      const text = Buffer.from(bytes).toString("base64")

      assert.strictEqual(Base64.encode(bytes), text, String(length))
      assert.deepStrictEqual(Base64.decode(text), bytes, String(length))
    }
  })

  it("takes a part of a larger buffer", () => {
    assert.strictEqual(Base64.encode(Uint8Array.of(0, 1, 2, 3, 0).subarray(1, 4)), "AQID")
  })
})
