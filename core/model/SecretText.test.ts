import { assert, it } from "@effect/vitest"
import { hex, isEqual } from "./SecretText.ts"

it("bytes are written in two lower-case digits each", () => {
  assert.strictEqual(hex(Uint8Array.of(0, 1, 15, 16, 171, 255)), "00010f10abff")
})

it("texts are equal where each character is, and none is left over", () => {
  const shown = ["lovelace", "lovelacf", "Lovelace", "lovelac", "lovelace ", "lovelace\0", ""]

  assert.deepStrictEqual(shown.map((one) => isEqual(one, "lovelace")), [true, false, false, false, false, false, false])
})
