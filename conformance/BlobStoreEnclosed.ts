/** What holds for a blob that comes with the commit that refers to it, whoever writes it, and when. */
import assert from "node:assert/strict"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { TenantId } from "../core/model/Ids.ts"
import { BlobStore, enclosedMax, type Enclosed } from "../core/ports/BlobStore.ts"
import type { Change } from "../core/ports/Store.ts"
import { agesOf } from "./BlobStoreAges.ts"
import { assertMissing, hour, noise, old, read, refOf, sweepTime, tenant, text, write } from "./BlobStoreSteps.ts"
import type { Check } from "./Suite.ts"

/** Lands changes in the Store whose blobs these are. */
export type Commit<R> = (changes: ReadonlyArray<Change>) => Effect.Effect<unknown, unknown, R>

/** Without a `commit` there must be nothing for it to bring. */
export const enclosed = <R = never>(commit: Commit<R> | null): ReadonlyArray<Check<BlobStore | R>> => {
  const enclose = Effect.fnUntraced(function* (of: TenantId, ...pieces: ReadonlyArray<Uint8Array>) {
    const store = yield* BlobStore
    const whole = yield* store.enclose(of, pieces)
    if (commit === null) assert.deepEqual(whole.changes, [])
    return whole
  })
  const land = (changes: ReadonlyArray<Change>) => (commit === null ? Effect.void : commit(changes))
  const put = Effect.fnUntraced(function* (of: TenantId, ...pieces: ReadonlyArray<Uint8Array>) {
    const { blob, changes } = yield* enclose(of, ...pieces)
    yield* land(changes)
    return blob
  })

  return [
    {
      title: "reads back what was enclosed, under its digest and size",
      check: Effect.gen(function* () {
        const of = tenant()
        for (const bytes of [noise(2_000), noise(enclosedMax), new Uint8Array()]) {
          const middle = bytes.length >> 1

          const ref = yield* put(of, bytes.subarray(0, middle), bytes.subarray(middle))

          assert.deepEqual(ref, yield* refOf(bytes))
          assert.deepEqual(yield* read(of, ref), bytes)
        }
        assert.deepEqual(yield* put(of), yield* refOf(new Uint8Array()))
        assert.equal((yield* old([of], yield* sweepTime)).length, 3)
      })
    },
    {
      title: "keeps what was enclosed, though the caller uses its pieces again",
      check: Effect.gen(function* () {
        const of = tenant()
        const bytes = text("as it was")
        const { blob, changes } = yield* enclose(of, bytes)
        bytes.fill(0)

        yield* land(changes)

        assert.deepEqual(yield* read(of, blob), text("as it was"))
      })
    },
    {
      title: "keeps one copy of what is enclosed and written",
      check: Effect.gen(function* () {
        const of = tenant()
        const refs = [yield* write(of, text("same")), yield* put(of, text("same")), yield* put(of, text("sa"), text("me")), yield* write(of, text("same"))]

        assert.deepEqual(new Set(refs.map(({ sha256 }) => sha256)).size, 1)
        assert.deepEqual(yield* old([of], yield* sweepTime), [{ tenantId: of, sha256: refs[0]!.sha256 }])
        assert.deepEqual(yield* read(of, refs[0]!), text("same"))
      })
    },
    {
      title: "lands many that are enclosed at once, the same and others, of several tenants",
      check: Effect.gen(function* () {
        const tenants = [tenant(), tenant()]
        const all = tenants.flatMap((of) => [1, 2, 3, 1].map((seed) => ({ of, bytes: noise(500, seed) })))

        const refs = yield* Effect.forEach(all, ({ of, bytes }) => put(of, bytes), { concurrency: "unbounded" })

        for (const [index, { of, bytes }] of all.entries()) assert.deepEqual(yield* read(of, refs[index]!), bytes)
        assert.equal((yield* old(tenants, yield* sweepTime)).length, 6)
      })
    },
    {
      title: "takes the age of a blob from when it was enclosed, and never makes it older",
      check: Effect.gen(function* () {
        type Changes = ReadonlyArray<Change>
        for (const landed of [
          (early: Changes, late: Changes) => Effect.andThen(land(late), land(early)),
          (early: Changes, late: Changes) => land([...late, ...early]),
          (early: Changes, late: Changes) => land([...early, ...late])
        ]) {
          const of = tenant()
          const early = yield* enclose(of, text("again"))
          yield* TestClock.adjust(hour)
          const late = yield* enclose(of, text("again"))
          const at = yield* Clock.currentTimeMillis

          yield* landed(early.changes, late.changes)

          assert.deepEqual(yield* old([of], at), [])
          assert.equal((yield* old([of], at + 1)).length, 1)
        }
      })
    },
    ...agesOf("enclosed again", put),
    ...(commit === null ? [] : withItsCommit(enclose, commit))
  ]
}

const withItsCommit = <R>(
  enclose: (of: TenantId, piece: Uint8Array) => Effect.Effect<Enclosed, unknown, BlobStore>,
  commit: Commit<R>
): ReadonlyArray<Check<BlobStore | R>> => [
  {
    title: "shows what is enclosed once its commit has landed, and nothing of one that was rejected",
    check: Effect.gen(function* () {
      const of = tenant()
      const { blob, changes } = yield* enclose(of, text("all or nothing"))
      yield* assertMissing(of, blob)

      yield* Effect.flip(commit([...changes, { _tag: "Require", kind: "tenant", id: of, version: 1 }]))
      yield* assertMissing(of, blob)

      yield* commit(changes)
      assert.deepEqual(yield* read(of, blob), text("all or nothing"))
    })
  },
  {
    title: "keeps what one commit brings, though others that bring the same at that time are rejected",
    check: Effect.gen(function* () {
      const of = tenant()
      for (let time = 0; time < 5; time++) {
        const { blob, changes } = yield* enclose(of, noise(100, time))
        const rejected = Effect.flip(commit([...changes, { _tag: "Require", kind: "tenant", id: of, version: 1 }]))

        yield* Effect.all([rejected, commit(changes), rejected, rejected], { concurrency: "unbounded" })

        assert.deepEqual(yield* read(of, blob), noise(100, time))
      }
    })
  }
]
