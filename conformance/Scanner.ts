import assert from "node:assert/strict"
import { Data, Deferred, Effect, Exit, Fiber, Result, Stream } from "effect"
import * as Limits from "../core/model/Limits.ts"
import { Scanner } from "../core/ports/Scanner.ts"
import type { Suite } from "./Suite.ts"

class Broken extends Data.TaggedError("Broken")<{}> {}

const clean = (sizeBytes: number): Uint8Array => Uint8Array.from({ length: sizeBytes }, (_, index) => (index * 31) % 251)

const inPieces = (bytes: Uint8Array, sizeBytes: number): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / sizeBytes) }, (_, index) => bytes.slice(index * sizeBytes, (index + 1) * sizeBytes))

const scan = <E>(pieces: Stream.Stream<Uint8Array, E>, sizeBytes: number) =>
  Scanner.use((scanner) => scanner.scan(pieces, sizeBytes))

const scanBytes = (bytes: Uint8Array, pieceSizeBytes = 65_536) =>
  scan(Stream.fromIterable(inPieces(bytes, pieceSizeBytes)), bytes.length)

const assertNoVerdict = Effect.fnUntraced(function* <E>(pieces: Stream.Stream<Uint8Array, E>, sizeBytes: number) {
  const outcome = yield* Effect.result(scan(pieces, sizeBytes))
  assert.ok(Result.isFailure(outcome))
  assert.ok(typeof outcome.failure === "object" && outcome.failure !== null && "_tag" in outcome.failure)
  assert.equal(outcome.failure._tag, "ScanFailed")
})

/** A stream that tells whether it was let go of. */
const watched = <E>(pieces: Stream.Stream<Uint8Array, E>) => {
  const watch = { isReleased: false }
  return { watch, pieces: Stream.ensuring(pieces, Effect.sync(() => (watch.isReleased = true))) }
}

/** Gives the pieces, then waits for leave to end; `isWaiting` once it does. */
const halting = (...given: ReadonlyArray<Uint8Array>) =>
  Effect.gen(function* () {
    const isWaiting = yield* Deferred.make<void>()
    const leave = yield* Deferred.make<void>()
    const wait = Effect.andThen(Deferred.succeed(isWaiting, undefined), Deferred.await(leave))
    return { isWaiting, leave, pieces: Stream.concat(Stream.fromIterable(given), Stream.drain(Stream.fromEffect(wait))) }
  })

/** What every Scanner does. `infected` are bytes that the adapter's engine calls infected, such as the EICAR test file. */
export const suite = (options: { readonly infected: Uint8Array }): Suite<Scanner> => {
  const { infected } = options
  const assertInfected = Effect.fnUntraced(function* (pieceSizeBytes: number) {
    const verdict = yield* scanBytes(infected, pieceSizeBytes)
    assert.ok(verdict._tag === "Infected")
    assert.notEqual(verdict.signature, "")
  })
  return {
    name: "Scanner",
    checks: [
      {
        title: "calls harmless bytes clean, however many, in pieces of any size",
        check: Effect.gen(function* () {
          for (const [sizeBytes, pieceSizeBytes] of [[1, 1], [1_000, 1], [65_537, 65_536], [5_000_000, 100_000]] as const) {
            assert.deepEqual(yield* scanBytes(clean(sizeBytes), pieceSizeBytes), { _tag: "Clean" })
          }
        })
      },
      {
        title: "calls nothing at all clean, and empty pieces too",
        check: Effect.gen(function* () {
          assert.deepEqual(yield* scan(Stream.empty, 0), { _tag: "Clean" })
          assert.deepEqual(yield* scan(Stream.make(new Uint8Array(), clean(3), new Uint8Array()), 3), { _tag: "Clean" })
        })
      },
      {
        title: "calls infected bytes infected, and says what it found",
        check: assertInfected(65_536)
      },
      {
        title: "finds what lies across the pieces",
        check: Effect.gen(function* () {
          for (const pieceSizeBytes of [1, 2, 7, 33]) yield* assertInfected(pieceSizeBytes)
        })
      },
      {
        title: "gives each scan its own verdict, also at the same time",
        check: Effect.gen(function* () {
          const samples = Array.from({ length: 12 }, (_, index) => (index % 3 === 0 ? infected : clean(10_000 + index)))

          const verdicts = yield* Effect.forEach(samples, (bytes) => scanBytes(bytes, 1_000), { concurrency: "unbounded" })

          assert.deepEqual(
            verdicts.map(({ _tag }) => _tag),
            samples.map((bytes) => (bytes === infected ? "Infected" : "Clean"))
          )
        })
      },
      {
        title: "says the same of the same bytes again",
        check: Effect.gen(function* () {
          for (let time = 0; time < 3; time++) {
            yield* assertInfected(65_536)
            assert.deepEqual(yield* scanBytes(clean(100)), { _tag: "Clean" })
          }
        })
      },
      {
        title: "gives no verdict on fewer bytes than were announced",
        check: Effect.gen(function* () {
          yield* assertNoVerdict(Stream.make(clean(99)), 100)
          yield* assertNoVerdict(Stream.empty, 1)
        })
      },
      {
        title: "gives no verdict on more bytes than were announced, and does not read them all",
        check: Effect.gen(function* () {
          yield* assertNoVerdict(Stream.make(clean(101)), 100)
          yield* assertNoVerdict(Stream.make(clean(100), clean(1)), 100)
          yield* assertNoVerdict(Stream.make(clean(1)), 0)
          yield* assertNoVerdict(Stream.forever(Stream.make(clean(1_000))), 100_000)
        })
      },
      {
        title: "calls nothing clean that is more or less than was announced, and infected besides",
        check: Effect.gen(function* () {
          for (const sizeBytes of [0, infected.length - 1, infected.length + 1]) {
            const outcome = yield* Effect.result(scan(Stream.make(infected), sizeBytes))
            assert.ok(Result.isFailure(outcome) || outcome.success._tag === "Infected")
          }
        })
      },
      {
        title: "reads no more of a piece than is the piece's, and leaves it as it was",
        check: Effect.gen(function* () {
          const around = Uint8Array.from([...clean(50), ...infected, ...clean(50)])
          const before = around.slice()

          assert.deepEqual(yield* scan(Stream.make(around.subarray(0, 50)), 50), { _tag: "Clean" })
          assert.deepEqual(yield* scan(Stream.make(around.subarray(50 + infected.length)), 50), { _tag: "Clean" })
          const verdict = yield* scan(Stream.make(around.subarray(50, 50 + infected.length)), infected.length)

          assert.equal(verdict._tag, "Infected")
          assert.deepEqual(around, before)
        })
      },
      {
        title: "reads the largest attachment, whose pieces are made as it reads",
        check: Effect.gen(function* () {
          const piece = clean(65_536)
          let read = 0
          const pieces = Stream.unfold(0, (from) =>
            Effect.sync(() => {
              if (from === Limits.attachmentSizeBytesMax) return undefined
              const made = piece.slice(0, Limits.attachmentSizeBytesMax - from)
              read += made.length
              return [made, from + made.length] as const
            })
          )

          assert.deepEqual(yield* scan(pieces, Limits.attachmentSizeBytesMax), { _tag: "Clean" })

          assert.equal(read, Limits.attachmentSizeBytesMax)
        })
      },
      {
        title: "waits for bytes that are slow to come, and holds up no other scan meanwhile",
        check: Effect.gen(function* () {
          const { isWaiting, leave, pieces } = yield* halting(infected)
          const slow = yield* Effect.forkChild(scan(pieces, infected.length))
          yield* Deferred.await(isWaiting)

          assert.deepEqual(yield* scanBytes(clean(100)), { _tag: "Clean" })
          assert.equal(slow.pollUnsafe(), undefined)
          yield* Deferred.succeed(leave, undefined)

          assert.equal((yield* Fiber.join(slow))._tag, "Infected")
        })
      },
      {
        title: "has let go of the bytes when it ends, whatever the end",
        check: Effect.gen(function* () {
          const ends: ReadonlyArray<readonly [Stream.Stream<Uint8Array, Broken>, number]> = [
            [Stream.make(clean(100)), 100],
            [Stream.make(infected), infected.length],
            [Stream.make(clean(99)), 100],
            [Stream.forever(Stream.make(clean(100))), 100],
            [Stream.concat(Stream.make(clean(100)), Stream.fail(new Broken())), 100],
            [Stream.die(new Broken()), 100]
          ]
          for (const [bytes, sizeBytes] of ends) {
            const { watch, pieces } = watched(bytes)
            yield* Effect.exit(scan(pieces, sizeBytes))
            assert.equal(watch.isReleased, true)
          }
        })
      },
      {
        title: "ends when it is interrupted, lets go of the bytes, and scans on",
        check: Effect.gen(function* () {
          for (let time = 0; time < 10; time++) {
            const { isWaiting, pieces: waiting } = yield* halting(clean(100))
            const { watch, pieces } = watched(waiting)
            const fiber = yield* Effect.forkChild(scan(pieces, 100))
            yield* Deferred.await(isWaiting)

            yield* Fiber.interrupt(fiber)

            assert.equal(watch.isReleased, true)
          }
          assert.deepEqual(yield* scanBytes(clean(100)), { _tag: "Clean" })
        })
      },
      {
        title: "breaks as the stream breaks",
        check: Effect.gen(function* () {
          const defect = new Error("a page is missing")

          const exit = yield* Effect.exit(scan(Stream.concat(Stream.make(infected), Stream.die(defect)), infected.length))

          assert.ok(Exit.isFailure(exit))
          assert.deepEqual(exit.cause.reasons.map((reason) => (reason._tag === "Die" ? reason.defect : reason._tag)), [defect])
        })
      },
      {
        title: "fails with the stream's own failure, and without a verdict, when the bytes cannot be read",
        check: Effect.gen(function* () {
          for (const pieces of [[], [clean(100)], [infected], [infected, clean(100)]]) {
            const broken = Stream.concat(Stream.fromIterable(pieces), Stream.fail(new Broken()))
            const sizeBytes = pieces.reduce((sum, piece) => sum + piece.length, 0)

            const outcome = yield* Effect.result(scan(broken, sizeBytes))

            assert.ok(Result.isFailure(outcome))
            assert.equal(outcome.failure._tag, "Broken")
          }
        })
      },
      {
        title: "reads the bytes once",
        check: Effect.gen(function* () {
          let reads = 0
          const counted = Stream.suspend(() => {
            reads += 1
            return Stream.make(clean(100))
          })

          assert.deepEqual(yield* scan(counted, 100), { _tag: "Clean" })

          assert.equal(reads, 1)
        })
      }
    ]
  }
}
