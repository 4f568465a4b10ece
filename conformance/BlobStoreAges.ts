/** What holds for the age of a blob, for finding old ones and removing them. */
import assert from "node:assert/strict"
import { Clock, Effect, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { BlobRef } from "../core/model/Blob.ts"
import type { TenantId } from "../core/model/Ids.ts"
import { BlobStore } from "../core/ports/BlobStore.ts"
import { assertMissing, hour, noise, old, read, sweepTime, tenant, text, write } from "./BlobStoreSteps.ts"
import type { Check } from "./Suite.ts"

const realNanos = TestClock.withLive(Clock.monotonicTimeNanos)

const until = (nanos: bigint) => Effect.repeat(Effect.andThen(Effect.yieldNow, realNanos), { until: (now) => now >= nanos })

/** Writes these bytes, once more or for the first time. */
type Put<R> = (of: TenantId, bytes: Uint8Array) => Effect.Effect<BlobRef, unknown, R>

/** What holds for a blob that is written again; `again` says in which way. */
export const agesOf = <R>(again: string, put: Put<R>): ReadonlyArray<Check<BlobStore | R>> => [
  {
    title: `counts as the age of a blob that it is ${again}`,
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const ref = yield* write(of, text("again"))
      yield* TestClock.adjust(hour)
      yield* put(of, text("again"))
      const at = yield* Clock.currentTimeMillis

      assert.deepEqual(yield* old([of], at), [])
      yield* store.remove(of, ref.sha256, at)
      assert.deepEqual(yield* read(of, ref), text("again"))
      assert.deepEqual(yield* old([of], at + 1), [{ tenantId: of, sha256: ref.sha256 }])
    })
  },
  {
    title: `loses no blob that is ${again} while it is removed`,
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      for (let time = 0; time < 30; time++) {
        const bytes = noise(100, time)
        const ref = yield* write(of, bytes)
        yield* TestClock.adjust(hour)
        const remove = store.remove(of, ref.sha256, yield* Clock.currentTimeMillis)

        yield* Effect.all([put(of, bytes), remove, put(of, bytes), remove], { concurrency: "unbounded" })

        assert.deepEqual(yield* read(of, ref), bytes)
      }
    })
  }
]

interface Meeting {
  readonly finish: Effect.Effect<unknown, unknown>
  readonly remove: Effect.Effect<unknown, unknown>
}

/** A blob is written again and removed at once: one of the two begins, and the other at some moment of it. */
const meetings = (inOrder: (meeting: Meeting) => readonly [Meeting["finish"], Meeting["remove"]]) =>
  Effect.gen(function* () {
    const of = tenant()
    const store = yield* BlobStore
    let length = 0n
    for (let time = 0; time < 100; time++) {
      const bytes = noise(100, time)
      const ref = yield* write(of, bytes)
      const writer = yield* store.writer(of)
      yield* writer.append(bytes)
      yield* TestClock.adjust("1 second")
      const [first, second] = inOrder({ finish: writer.finish, remove: store.remove(of, ref.sha256, yield* Clock.currentTimeMillis) })
      // Of real time: the moments are parts of how long the first took the last time.
      const begin = yield* realNanos
      const moment = begin + (length * BigInt(time % 20)) / 20n
      const measured = Effect.tap(first, () => Effect.map(realNanos, (end) => (length = end - begin)))

      yield* Effect.all([measured, Effect.andThen(until(moment), second)], { concurrency: "unbounded" })

      assert.deepEqual(yield* read(of, ref), bytes)
    }
  })

export const ages: ReadonlyArray<Check<BlobStore>> = [
  ...agesOf("written again", write),
  {
    title: "loses no blob whose removal begins at any moment of its next finish",
    check: meetings(({ finish, remove }) => [finish, remove])
  },
  {
    title: "loses no blob whose next finish begins at any moment of its removal",
    check: meetings(({ finish, remove }) => [remove, finish])
  },
  {
    title: "finds blobs last written before a time, and no others",
    check: Effect.gen(function* () {
      const of = tenant()
      const first = yield* write(of, text("first"))
      const firstAt = yield* Clock.currentTimeMillis
      yield* TestClock.adjust(hour)
      const second = yield* write(of, text("second"))

      assert.deepEqual(yield* old([of], firstAt), [])
      assert.deepEqual(yield* old([of], firstAt + 1), [{ tenantId: of, sha256: first.sha256 }])
      assert.deepEqual(yield* old([of], firstAt + hour), [{ tenantId: of, sha256: first.sha256 }])
      const both = yield* old([of], firstAt + hour + 1)
      assert.deepEqual(both.map(({ sha256 }) => sha256).toSorted(), [first.sha256, second.sha256].toSorted())
    })
  },
  {
    title: "finds old ones behind as many young ones as fill pages",
    check: Effect.gen(function* () {
      const of = tenant()
      const aged: Array<string> = []
      for (let index = 0; index < 4; index++) aged.push((yield* write(of, noise(10, index))).sha256)
      yield* TestClock.adjust(hour)
      const before = yield* Clock.currentTimeMillis
      for (let index = 4; index < 40; index++) yield* write(of, noise(10, index))

      for (const limit of [1, 3]) {
        assert.deepEqual((yield* old([of], before, limit)).map(({ sha256 }) => sha256).toSorted(), aged.toSorted())
      }
    })
  },
  {
    title: "never makes a blob older that a process writes again whose clock is behind",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const bytes = noise(300_000)
      const ref = yield* write(of, bytes)
      const at = yield* Clock.currentTimeMillis

      yield* TestClock.setTime(at - hour)
      yield* write(of, bytes)
      yield* TestClock.setTime(at)

      assert.deepEqual(yield* old([of], at), [])
      yield* store.remove(of, ref.sha256, at)
      assert.deepEqual(yield* read(of, ref), bytes)
    })
  },
  {
    title: "ends no read as if it were whole whose blob is removed meanwhile",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const pieces = Array.from({ length: 40 }, (_, index) => noise(50_000, index))
      const ref = yield* write(of, ...pieces)
      const before = yield* sweepTime
      let seen = 0

      const outcome = yield* Effect.result(
        Stream.runForEach(store.read(of, ref), (piece) => {
          seen += piece.length
          return seen === piece.length ? store.remove(of, ref.sha256, before) : Effect.void
        })
      )

      if (Result.isSuccess(outcome)) assert.equal(seen, ref.sizeBytes, "it ended as if it were whole")
      yield* assertMissing(of, ref)
    })
  },
  {
    title: "takes the age from the finish of a write, not from its begin",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const writer = yield* store.writer(of)
      yield* writer.append(text("slow"))
      yield* TestClock.adjust(hour / 2)
      yield* writer.finish
      const finished = yield* Clock.currentTimeMillis

      assert.deepEqual(yield* old([of], finished), [])
      assert.equal((yield* old([of], finished + 1)).length, 1)
    })
  },
  {
    title: "pages through blobs of many tenants, each once, in a stable order",
    check: Effect.gen(function* () {
      const tenants = [tenant(), tenant(), tenant()]
      const written: Array<string> = []
      for (const owner of tenants) {
        for (let index = 0; index < 5; index++) written.push(`${owner} ${(yield* write(owner, noise(10, index))).sha256}`)
      }
      const before = yield* sweepTime

      const inThrees = yield* old(tenants, before, 3)
      const atOnce = yield* old(tenants, before, 1_000)
      const oneByOne = yield* old(tenants, before, 1)

      assert.deepEqual(inThrees.map(({ tenantId, sha256 }) => `${tenantId} ${sha256}`).toSorted(), written.toSorted())
      assert.deepEqual(atOnce, inThrees)
      assert.deepEqual(oneByOne, inThrees)
    })
  },
  {
    title: "skips nothing when the blobs of a page are removed before the next",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      for (let index = 0; index < 10; index++) yield* write(of, noise(10, index))
      const before = yield* sweepTime

      const swept = yield* old([of], before, 3, (tenantId, sha256) => store.remove(tenantId, sha256, before))

      assert.equal(swept.length, 10)
      assert.deepEqual(yield* old([of], before), [])
    })
  },
  {
    title: "removes a blob, and nothing else",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const gone = yield* write(of, text("gone"))
      const kept = yield* write(of, text("kept"))
      const before = yield* sweepTime

      yield* store.remove(of, gone.sha256, before)
      yield* store.remove(of, gone.sha256, before)
      yield* store.remove(tenant(), kept.sha256, before)

      yield* assertMissing(of, gone)
      assert.deepEqual(yield* read(of, kept), text("kept"))
      assert.deepEqual(yield* old([of], before), [{ tenantId: of, sha256: kept.sha256 }])
    })
  },
  {
    title: "holds again what is written again after its removal",
    check: Effect.gen(function* () {
      const of = tenant()
      const store = yield* BlobStore
      const ref = yield* write(of, text("back"))
      yield* store.remove(of, ref.sha256, yield* sweepTime)

      assert.deepEqual(yield* write(of, text("back")), ref)

      assert.deepEqual(yield* read(of, ref), text("back"))
    })
  },
  {
    title: "removes nothing by itself",
    check: Effect.gen(function* () {
      const of = tenant()
      const ref = yield* write(of, text("for good"))

      yield* TestClock.adjust("1000 days")
      yield* write(of, text("something else"))

      assert.deepEqual(yield* read(of, ref), text("for good"))
    })
  }
]
