import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as fc from "fast-check"
import { createHash } from "node:crypto"
import { Scanner } from "../../core/ports/Scanner.ts"
import * as EicarScanner from "./EicarScanner.ts"

const scan = (pieces: ReadonlyArray<Uint8Array>, options: EicarScanner.Options = {}) =>
  Scanner.use((scanner) =>
    scanner.scan(
      Stream.fromIterable(pieces),
      pieces.reduce((sum, piece) => sum + piece.length, 0)
    )
  ).pipe(Effect.provide(EicarScanner.layerWith(options)))

const cut = (bytes: Uint8Array, cuts: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const edges = [0, ...cuts.map((place) => place % (bytes.length + 1)).toSorted((left, right) => left - right), bytes.length]
  return edges.slice(1).map((end, index) => bytes.subarray(edges[index], end))
}

/** Bytes that often begin to look like the test file. */
const near = fc.array(
  fc.oneof(
    fc.uint8Array({ maxLength: 100, size: "max" }),
    fc.nat(67).map((length) => EicarScanner.testFile.subarray(0, length)),
    fc.constant(Buffer.from("XX"))
  ),
  { maxLength: 10 }
)

describe("EicarScanner", () => {
  it("knows the test file of the European Institute for Computer Antivirus Research", () => {
    assert.lengthOf(EicarScanner.testFile, 68)
    assert.strictEqual(
      createHash("sha256").update(EicarScanner.testFile).digest("hex"),
      "275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f"
    )
  })

  it.effect("finds it wherever it lies, and only where it lies, in whatever pieces", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(near, fc.boolean(), near, fc.array(fc.nat(2_000), { maxLength: 12, size: "max" }), async (before, isInfected, after, cuts) => {
          const bytes = Buffer.concat([...before, ...(isInfected ? [EicarScanner.testFile] : []), ...after])

          const { _tag } = await Effect.runPromise(scan(cut(bytes, cuts)))

          assert.strictEqual(_tag, bytes.includes(Buffer.from(EicarScanner.testFile)) ? "Infected" : "Clean")
        }),
        { numRuns: 500 }
      )
    )
  )

  it.effect("finds it in three pieces, wherever they are cut", () =>
    Effect.gen(function* () {
      const { length } = EicarScanner.testFile
      for (let first = 0; first <= length; first++) {
        for (let second = first; second <= length; second++) {
          const { _tag } = yield* scan(cut(EicarScanner.testFile, [first, second]))

          assert.strictEqual(_tag, "Infected", `${first}, ${second}`)
        }
      }
    })
  )

  it.effect("gives no verdict on more than it may look at", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* scan([new Uint8Array(100)], { sizeBytesMax: 100 }))._tag, "Clean")

      const error = yield* Effect.flip(scan([new Uint8Array(101)], { sizeBytesMax: 100 }))

      assert.strictEqual(error._tag, "ScanFailed")
      assert.include(error.message, "over 100 bytes")
    })
  )
})
