/** What every BlobStore does. */
import assert from "node:assert/strict"
import { Effect, Exit, Fiber, Latch, Result, Scope, Stream } from "effect"
import type { BlobRef } from "../core/model/Blob.ts"
import type { TenantId } from "../core/model/Ids.ts"
import { BlobStore } from "../core/ports/BlobStore.ts"
import { ages } from "./BlobStoreAges.ts"
import { enclosed, type Commit } from "./BlobStoreEnclosed.ts"
import { assertMissing, digest, foundIn, noise, old, read, refOf, sweepTime, tenant, text, write } from "./BlobStoreSteps.ts"
import type { Check, Suite } from "./Suite.ts"

const contents: ReadonlyArray<Check<BlobStore>> = [
  {
    title: "reads back what was written, under its digest and size",
    check: Effect.gen(function* () {
      const of = tenant()
      const bytes = noise(1_000)

      const ref = yield* write(of, bytes)

      assert.deepEqual(ref, { sha256: yield* digest(bytes), sizeBytes: 1_000 })
      assert.deepEqual(yield* read(of, ref), bytes)
      assert.deepEqual(yield* read(of, ref), bytes)
    })
  },
  {
    title: "holds nothing as well as something",
    check: Effect.gen(function* () {
      const of = tenant()
      const ref = yield* write(of)

      assert.deepEqual(ref, { sha256: yield* digest(new Uint8Array()), sizeBytes: 0 })
      assert.equal((yield* read(of, ref)).length, 0)
      assert.deepEqual(yield* write(of, new Uint8Array(), new Uint8Array()), ref)
    })
  },
  {
    title: "joins pieces of any size in their order",
    check: Effect.gen(function* () {
      const of = tenant()
      for (const sizeBytes of [1, 65_535, 65_536, 65_537, 200_000]) {
        const bytes = noise(sizeBytes, sizeBytes)
        const pieces: Array<Uint8Array> = []
        for (let offset = 0; offset < sizeBytes; offset += pieces.at(-1)!.length) {
          pieces.push(bytes.subarray(offset, offset + [1, 70_000, 13, 4_096][pieces.length % 4]!))
        }

        const ref = yield* write(of, ...pieces)

        assert.deepEqual(ref, yield* refOf(bytes))
        assert.deepEqual(yield* read(of, ref), bytes)
      }
    })
  },
  {
    title: "keeps what was appended, though the caller uses its buffer again",
    check: Effect.gen(function* () {
      const store = yield* BlobStore
      // A Buffer's `slice` is no copy.
      for (const buffer of [new Uint8Array(4), Buffer.alloc(4)]) {
        const of = tenant()
        const ref = yield* Effect.scoped(
          Effect.gen(function* () {
            const writer = yield* store.writer(of)
            for (const word of ["note", "book"]) {
              buffer.set(text(word))
              yield* writer.append(buffer)
            }
            buffer.fill(0)
            return yield* writer.finish
          })
        )

        assert.deepEqual(ref, yield* refOf(text("notebook")))
        assert.deepEqual(yield* read(of, ref), text("notebook"))
      }
    })
  },
  {
    title: "does not let a reader change the blob",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const ref = yield* write(of, text("as it was"))

      yield* Stream.runForEach(store.read(of, ref), (piece) => Effect.sync(() => piece.fill(0)))

      assert.deepEqual(yield* read(of, ref), text("as it was"))
    })
  },
  {
    title: "gives each reader pieces of its own, to write over and to keep",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      for (const bytes of [noise(10), noise(1_000_000)]) {
        const ref = yield* write(of, bytes)
        const readers = yield* Effect.forEach([1, 2, 3], (mark) =>
          Stream.runCollect(
            Stream.map(store.read(of, ref), (piece) => {
              const came = Uint8Array.from(piece)
              return { mark, came, piece: piece.fill(mark) }
            })
          ), { concurrency: "unbounded" })

        for (const pieces of readers) {
          assert.ok(Buffer.concat(pieces.map(({ came }) => came)).equals(bytes), "a reader sees what another has written over")
          assert.ok(pieces.every(({ mark, piece }) => piece.every((byte) => byte === mark)), "a piece changes that a reader keeps")
        }
        assert.deepEqual(yield* read(of, ref), bytes)
      }
    })
  },
  {
    title: "streams 30 MB both ways, in pieces",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const piece = noise(100_000)
      const ref = yield* Effect.scoped(
        Effect.gen(function* () {
          const writer = yield* store.writer(of)
          for (let count = 0; count < 300; count++) yield* writer.append(piece)
          return yield* writer.finish
        })
      )

      assert.equal(ref.sizeBytes, 30_000_000)
      let offset = 0
      let longest = 0
      yield* Stream.runForEach(store.read(of, ref), (part) =>
        Effect.sync(() => {
          longest = Math.max(longest, part.length)
          for (let index = 0; index < part.length; index += 997) assert.equal(part[index], piece[(offset + index) % 100_000])
          offset += part.length
        })
      )
      assert.equal(offset, 30_000_000)
      assert.ok(longest <= 4 * 1024 * 1024, "no piece is a great part of the whole")
    })
  },
  {
    title: "lets a reader stop early, and others read on",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const bytes = noise(500_000)
      const ref = yield* write(of, bytes)

      for (let time = 0; time < 20; time++) {
        const [first] = yield* Stream.runCollect(Stream.take(store.read(of, ref), 1))
        assert.deepEqual(Uint8Array.from(first!), bytes.slice(0, first!.length))
      }

      const all = yield* Effect.all(Array.from({ length: 4 }, () => read(of, ref)), { concurrency: "unbounded" })
      for (const one of all) assert.deepEqual(one, bytes)
    })
  },
  {
    title: "misses what was never written, and says which blob",
    check: Effect.gen(function* () {
      const ref = yield* refOf(text("nowhere"))

      const outcome = yield* Effect.result(read(tenant(), ref))

      assert.equal(foundIn(outcome), "BlobMissing")
      assert.ok(Result.isFailure(outcome) && outcome.failure._tag === "BlobMissing")
      assert.equal(outcome.failure.sha256, ref.sha256)
    })
  },
  {
    title: "keeps tenants apart, also with equal bytes",
    check: Effect.gen(function* () {
      const [mine, theirs] = [tenant(), tenant()]
      const store = yield* BlobStore
      const ref = yield* write(mine, text("shared words"))
      yield* assertMissing(theirs, ref)

      assert.deepEqual(yield* write(theirs, text("shared words")), ref)
      yield* store.remove(mine, ref.sha256, yield* sweepTime)

      yield* assertMissing(mine, ref)
      assert.deepEqual(yield* read(theirs, ref), text("shared words"))
    })
  }
]

const visibility: ReadonlyArray<Check<BlobStore>> = [
  {
    title: "shows a blob at its finish, not before",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const ref = yield* refOf(text("first second"))
      const writer = yield* store.writer(of)
      for (const piece of ["first ", "second"]) {
        yield* writer.append(text(piece))
        yield* assertMissing(of, ref)
      }
      assert.deepEqual(yield* old([of], yield* sweepTime), [])

      assert.deepEqual(yield* writer.finish, ref)

      assert.deepEqual(yield* read(of, ref), text("first second"))
      assert.deepEqual(yield* old([of], yield* sweepTime), [{ tenantId: of, sha256: ref.sha256 }])
    })
  },
  {
    title: "shows a blob whole or not at all while it is finished, and whole while it is written again",
    check: Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(1_000_000)
      const ref = yield* refOf(bytes)
      for (let time = 0; time < 3; time++) {
        const of = tenant()
        for (const seen of [["BlobMissing", "whole"], ["whole"]]) {
          const writer = yield* store.writer(of)
          yield* writer.append(bytes)
          const finishing = yield* Effect.forkChild(writer.finish)
          do {
            yield* Effect.yieldNow
            const outcome = yield* Effect.result(read(of, ref))
            const found = Result.isFailure(outcome) ? outcome.failure._tag : outcome.success.length === bytes.length ? "whole" : "cut"
            assert.ok(seen.includes(found), found)
          } while (finishing.pollUnsafe() === undefined)
          assert.deepEqual(yield* Fiber.join(finishing), ref)
        }
        assert.deepEqual(yield* read(of, ref), bytes)
      }
    })
  },
  {
    title: "shows a blob whole or not at all when its finish is interrupted, however late",
    check: Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(1_000_000)
      const ref = yield* refOf(bytes)
      for (let yields = 0; yields < 20; yields++) {
        const of = tenant()
        yield* Effect.gen(function* () {
          const writer = yield* store.writer(of)
          yield* writer.append(bytes)
          const finishing = yield* Effect.forkChild(writer.finish)
          for (let count = 0; count < yields; count++) yield* Effect.yieldNow
          yield* Fiber.interrupt(finishing)
        }).pipe(Effect.scoped)

        const outcome = yield* Effect.result(read(of, ref))
        if (Result.isFailure(outcome)) assert.equal(outcome.failure._tag, "BlobMissing")
        else assert.deepEqual(outcome.success, bytes)
        assert.deepEqual(yield* write(of, bytes), ref)
      }
    })
  },
  {
    title: "shows nothing of a writer whose scope closed before its finish",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const ref = yield* refOf(text("abandoned"))
      const abandoned = Effect.andThen(
        Effect.flatMap(store.writer(of), (writer) => writer.append(text("abandoned"))),
        Effect.fail("changed my mind")
      )
      yield* Effect.ignore(Effect.scoped(abandoned))

      yield* assertMissing(of, ref)
      assert.deepEqual(yield* old([of], yield* sweepTime), [])
      assert.deepEqual(yield* write(of, text("abandoned")), ref)
    })
  },
  {
    title: "shows nothing of a writer that was interrupted",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const appended = yield* Latch.make()
      const fiber = yield* Effect.forkChild(
        Effect.scoped(
          Effect.gen(function* () {
            const writer = yield* store.writer(of)
            yield* writer.append(text("interrupted"))
            yield* appended.open
            return yield* Effect.never
          })
        )
      )
      yield* appended.await

      yield* Fiber.interrupt(fiber)

      yield* assertMissing(of, yield* refOf(text("interrupted")))
      assert.deepEqual(yield* old([of], yield* sweepTime), [])
    })
  },
  {
    title: "keeps a finished blob when its writer's scope closes, however it closes",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const scope = yield* Scope.make()
      const writer = yield* Scope.provide(store.writer(of), scope)
      yield* writer.append(text("finished"))
      const ref = yield* writer.finish

      yield* Scope.close(scope, Exit.fail("something else"))

      assert.deepEqual(yield* read(of, ref), text("finished"))
    })
  },
  {
    title: "keeps one copy of what many write at once",
    check: Effect.gen(function* () {
      const of = tenant()
      const pieces = Array.from({ length: 20 }, (_, index) => noise(5_000, index))

      const refs = yield* Effect.all(Array.from({ length: 8 }, () => write(of, ...pieces)), { concurrency: "unbounded" })

      for (const ref of refs) assert.deepEqual(ref, refs[0])
      assert.deepEqual(yield* old([of], yield* sweepTime), [{ tenantId: of, sha256: refs[0]!.sha256 }])
      assert.equal((yield* read(of, refs[0]!)).length, 100_000)
    })
  },
  {
    title: "keeps the bytes of concurrent writers apart",
    check: Effect.gen(function* () {
      const of = tenant()
      const blobs = Array.from({ length: 8 }, (_, index) => noise(100_000, index))
      const inPieces = (bytes: Uint8Array) => Array.from({ length: 10 }, (_, index) => bytes.subarray(index * 10_000, (index + 1) * 10_000))

      const refs = yield* Effect.forEach(blobs, (bytes) => write(of, ...inPieces(bytes)), { concurrency: "unbounded" })

      for (const [index, ref] of refs.entries()) {
        assert.deepEqual(ref, yield* refOf(blobs[index]!))
        assert.deepEqual(yield* read(of, ref), blobs[index])
      }
    })
  },
  {
    title: "keeps the bytes of writers apart that take their pieces by turns",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const words = ["first", "second", "third"]
      const writers = yield* Effect.forEach(words, () => store.writer(of))

      for (const piece of [" begins", ", goes on", " and ends"]) {
        for (const [index, writer] of writers.entries()) yield* writer.append(text(words[index] + piece))
      }
      const refs = yield* Effect.forEach(writers, (writer) => writer.finish)

      for (const [index, word] of words.entries()) {
        const whole = text(`${word} begins${word}, goes on${word} and ends`)
        assert.deepEqual(refs[index], yield* refOf(whole))
        assert.deepEqual(yield* read(of, refs[index]!), whole)
      }
    })
  },
  {
    title: "leaves a finished blob alone when another writer of its bytes gives up",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const ref = yield* Effect.scoped(
        Effect.gen(function* () {
          const other = yield* store.writer(of)
          yield* other.append(text("twice begun"))
          return yield* write(of, text("twice begun"))
        })
      )

      assert.deepEqual(yield* read(of, ref), text("twice begun"))
    })
  }
]

const corruption = <R>(
  corrupt: (tenantId: TenantId, ref: BlobRef, how: "altered" | "cut") => Effect.Effect<void, unknown, R>
): ReadonlyArray<Check<BlobStore | R>> =>
  (["altered", "cut"] as const).flatMap((how) =>
    [10, 300_000].map((sizeBytes) => ({
      title: `fails the read of a blob of ${sizeBytes} bytes that was ${how}, at its end`,
      check: Effect.gen(function* () {
        const of = tenant()
        const ref = yield* write(of, noise(sizeBytes))
        yield* corrupt(of, ref, how)

        const outcome = yield* Effect.result(read(of, ref))

        assert.equal(foundIn(outcome), "BlobCorrupt")
        assert.ok(Result.isFailure(outcome) && outcome.failure._tag === "BlobCorrupt")
        assert.equal(outcome.failure.sha256, ref.sha256)
      })
    }))
  )

/** What nobody can read any more takes no room either. */
const remains = <R>(held: Effect.Effect<number, unknown, R>): ReadonlyArray<Check<BlobStore | R>> => [
  {
    title: "holds no bytes of a writer that gave up, of a second copy, or of what was removed",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const bytes = noise(600_000)
      const before = yield* held

      // As much as what keeps them takes at a time.
      const begun = Effect.flatMap(store.writer(of), (writer) => Effect.repeat(writer.append(bytes), { times: 20 }))
      yield* Effect.ignore(Effect.scoped(Effect.andThen(begun, Effect.fail("changed my mind"))))
      assert.equal(yield* held, before, "a writer that gave up left bytes behind")

      const { sha256 } = yield* write(of, bytes)
      const once = yield* held
      assert.ok(once - before >= bytes.length, `it holds ${once - before} bytes of a blob of ${bytes.length}`)
      yield* write(of, bytes)
      assert.equal(yield* held, once, "a second copy was kept")

      yield* store.remove(of, sha256, yield* sweepTime)
      assert.equal(yield* held, before, "what was removed left bytes behind")
    })
  }
]

/**
 * What every BlobStore does. An adapter's author says how to look behind it:
 *
 * `corrupt` changes (or cuts off) the last byte of a stored blob, behind the store's back; leave it out where nobody can.
 * `held` counts the bytes of all blobs and writers that lie in what keeps them; leave it out where nobody can.
 * `commit` lands changes in the Store that keeps these blobs; leave it out where none does.
 */
export const suite = <R = never>(
  options: {
    readonly corrupt?: (tenantId: TenantId, ref: BlobRef, how: "altered" | "cut") => Effect.Effect<void, unknown, R>
    readonly held?: Effect.Effect<number, unknown, R>
    readonly commit?: Commit<R>
  } = {}
): Suite<BlobStore | R> => ({
  name: "BlobStore",
  checks: [
    ...contents,
    ...visibility,
    ...ages,
    ...enclosed(options.commit ?? null),
    ...(options.corrupt === undefined ? [] : corruption(options.corrupt)),
    ...(options.held === undefined ? [] : remains(options.held))
  ]
})
