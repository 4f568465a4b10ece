import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { noise, read, tenant, text, write } from "../../conformance/BlobStoreSteps.ts"
import { BlobStore } from "../../core/ports/BlobStore.ts"
import { blobParts } from "./BlobParts.ts"
import { Database } from "./Database.ts"
import * as PostgresBlobStore from "./PostgresBlobStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

const ofItsOwn = Layer.fresh(PostgresBlobStore.layer.pipe(Layer.provideMerge(TestDatabase.layer({ connectionsMax: 3 }))))

const check = <A, E>(title: string, body: Effect.Effect<A, E, BlobStore | Database | Scope.Scope>) =>
  it.effect(title, () => Effect.provide(Effect.scoped(body), ofItsOwn))

/** Rows of blobs, of uploads that are none, and of parts. */
const kept = Database.use(({ sql }) =>
  Effect.map(
    sql<{ counts: string }>`select concat_ws(' ', (select count(*) from mailroom.blob),
      (select count(*) from mailroom.blob_upload), (select count(*) from mailroom.blob_part)) as counts`,
    ([row]) => row!.counts
  )
)

const { partSizeBytes } = PostgresBlobStore

/** One of each. */
const few = [
  "insert into mailroom.blob (tenant_id, sha256, upload_id, size_bytes, written_ms) select gen_random_uuid(), 'a', gen_random_uuid(), 1, 1",
  "insert into mailroom.blob_part (upload_id, part, bytes) select gen_random_uuid(), 0, ''",
  "insert into mailroom.blob_upload (id, touched_ms) select gen_random_uuid(), 1"
]

/** A part that is looked for without its upload. Uploads that are none yet are few, and looked at for their age. */
const isPass = (line: string, next = "") => /Index.* Scan/.test(line) && !/Index Cond: .*(\bid\b|upload_id|sha256)/.test(next)

describe("blobs in rows", () => {
  check(
    "are kept in parts, once, and leave nothing when they are removed",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const of = tenant()
      const bytes = noise(2 * partSizeBytes + 1)
      yield* write(of)
      yield* write(of, text("small"))
      yield* write(of, noise(partSizeBytes))
      const ref = yield* write(of, bytes.subarray(0, 100_000), bytes.subarray(100_000))
      assert.strictEqual(yield* kept, "4 0 5")

      yield* write(of, bytes)
      yield* write(of, text("small"))
      assert.strictEqual(yield* kept, "4 0 5")

      yield* store.remove(of, ref.sha256, 1)
      assert.strictEqual(yield* kept, "3 0 2")
    })
  )

  it("are written in one order by everybody, so that no two wait for each other", () => {
    const blobs = ["b", "a", "c"].map((sha256) => ({ tenantId: tenant(), blob: { sha256, sizeBytes: 1 }, bytes: text(sha256), at: 0 }))
    const [tenants, digests] = [0, 1].map((column) => (of: typeof blobs) => blobParts(of)[0].parameters("arrays")[column])

    assert.deepStrictEqual(digests!(blobs.toReversed()), digests!(blobs))
    assert.deepStrictEqual(tenants!(blobs.toReversed()), tenants!(blobs))
  })

  check(
    "leave nothing of a writer that gave up",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const scope = yield* Scope.make()
      const writer = yield* Scope.provide(store.writer(tenant()), scope)
      yield* writer.append(noise(2 * partSizeBytes + 1))
      assert.strictEqual(yield* kept, "0 1 2")

      yield* Scope.close(scope, Exit.void)

      assert.strictEqual(yield* kept, "0 0 0")
    })
  )

  check(
    "leave nothing, a day later, of a process that died while it wrote, and let none write on after that",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const [dead, slow, late, whole] = [
        yield* Scope.provide(store.writer(tenant()), yield* Scope.make()),
        yield* store.writer(tenant()),
        yield* store.writer(tenant()),
        yield* store.writer(tenant())
      ]
      for (const writer of [dead, slow, late, whole]) yield* writer.append(noise(partSizeBytes))
      yield* TestClock.adjust(PostgresBlobStore.abandonedAfter / 2)
      yield* slow.append(noise(partSizeBytes))
      yield* TestClock.adjust(PostgresBlobStore.abandonedAfter / 2 + 1)
      yield* store.olderThan({ before: 0, after: null, limit: 10 })

      assert.strictEqual(yield* kept, "0 1 2")
      assert.strictEqual((yield* Effect.flip(late.append(noise(partSizeBytes))))._tag, "BlobUnavailable")
      assert.strictEqual((yield* Effect.flip(late.finish))._tag, "BlobUnavailable")
      assert.strictEqual((yield* Effect.flip(whole.finish))._tag, "BlobUnavailable")
      yield* slow.append(noise(partSizeBytes))
      const ref = yield* slow.finish
      assert.strictEqual(ref.sizeBytes, 3 * partSizeBytes)
      assert.strictEqual(yield* kept, "1 0 3")
    })
  )

  check(
    "are looked at so many at a time for those that are old, also where none is",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const of = tenant()
      for (let seed = 0; seed < 3; seed++) yield* write(of, noise(10, seed))

      const page = yield* store.olderThan({ before: -1, after: null, limit: 2 })

      assert.deepStrictEqual(page.blobs, [])
      assert.isNotNull(page.next)
    })
  )

  check(
    "are missing to a reader under whom they are removed, and whole to one who has read them",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const of = tenant()
      const ref = yield* write(of, noise(12 * partSizeBytes))
      let parts = 0

      const slow = Stream.runForEach(store.read(of, ref), () =>
        Effect.suspend(() => {
          parts++
          return parts === 1 ? store.remove(of, ref.sha256, 1) : Effect.void
        })
      )

      assert.strictEqual((yield* Effect.flip(slow))._tag, "BlobMissing")
      assert.isBelow(parts, 6)
    })
  )

  check(
    "keep nothing in memory beside a small one that is kept",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const of = tenant()
      const ref = yield* write(of, text("small"))

      const [piece] = yield* Stream.runCollect(store.read(of, ref))

      assert.strictEqual(piece?.buffer.byteLength, 5)
    })
  )

  check(
    "are corrupt when one of their parts is lost",
    Effect.gen(function* () {
      const of = tenant()
      const ref = yield* write(of, noise(3 * partSizeBytes))
      yield* Database.use(({ sql }) => sql`delete from mailroom.blob_part where part = 1`)

      assert.strictEqual((yield* Effect.flip(read(of, ref)))._tag, "BlobCorrupt")
    })
  )

  check(
    "hold no connection while a download waits",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const { pool } = yield* Database
      const of = tenant()
      const ref = yield* write(of, noise(12 * partSizeBytes))

      const downloads = yield* Effect.forEach(Array(8).keys(), () =>
        Effect.forkChild(Stream.runForEach(store.read(of, ref), () => Effect.never), { startImmediately: true })
      )
      yield* Effect.andThen(Effect.sleep(20), pool).pipe(
        Effect.repeat({ until: ({ busy, waiting }) => busy + waiting === 0 }),
        TestClock.withLive
      )

      assert.strictEqual((yield* write(of, text("meanwhile"))).sizeBytes, 9)
      yield* Effect.forEach(downloads, Fiber.interrupt)
    })
  )

  check(
    "are read one part ahead of a reader that waits, and no further",
    Effect.gen(function* () {
      const database = yield* Database
      const of = tenant()
      const ref = yield* write(of, noise(5 * partSizeBytes))
      let asked = 0
      const rows: typeof database.rows = (...query) => Effect.suspend(() => ((asked += 1), database.rows(...query)))
      const counted = PostgresBlobStore.layer.pipe(Layer.provide(Layer.succeed(Database, { ...database, rows })), Layer.fresh)
      const store = yield* Effect.provide(BlobStore, counted)

      const download = yield* Effect.forkChild(Stream.runForEach(store.read(of, ref), () => Effect.never), { startImmediately: true })
      yield* Effect.andThen(Effect.sleep(20), database.pool).pipe(
        Effect.repeat({ until: ({ busy, waiting }) => asked > 1 && busy + waiting === 0 }),
        TestClock.withLive
      )

      assert.strictEqual(asked, 2)
      yield* Fiber.interrupt(download)
    })
  )

  check(
    "fail a writer whose connection is ended, for good, and serve the next",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const { sql } = yield* Database
      const of = tenant()
      const connection = yield* sql.reserve
      yield* connection.execute("begin", [], undefined)
      yield* connection.execute("lock table mailroom.blob_upload", [], undefined)
      const writer = yield* store.writer(of)
      const appended = yield* Effect.forkChild(Effect.flip(writer.append(noise(partSizeBytes))))
      yield* TestClock.withLive(
        Effect.repeat(Effect.andThen(Effect.sleep(5), sql`select pg_terminate_backend(pid) from pg_stat_activity
            where wait_event_type = 'Lock' and datname = current_database()`), {
          until: (ended) => ended.length === 1
        })
      )
      yield* connection.execute("rollback", [], undefined)

      assert.strictEqual((yield* Fiber.join(appended))._tag, "BlobUnavailable")
      assert.strictEqual((yield* Effect.flip(writer.append(text("more"))))._tag, "BlobUnavailable")
      assert.strictEqual((yield* Effect.flip(writer.finish))._tag, "BlobUnavailable")
      const ref = yield* write(of, noise(partSizeBytes))
      assert.deepStrictEqual(yield* read(of, ref), noise(partSizeBytes))
    })
  )

  it.effect("are looked up by what names them, though it was planned while there were hardly any, and so many were known", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const asked = new Map<string, ReadonlyArray<unknown>>()
      const rows = <Row>(text: string, parameters: ReadonlyArray<unknown> = []) =>
        Effect.andThen(Effect.sync(() => asked.set(text, parameters)), database.rows<Row>(text, parameters))
      const blobs = PostgresBlobStore.layer.pipe(Layer.provide(Layer.succeed(Database, { ...database, rows })))
      yield* Effect.gen(function* () {
        const store = yield* BlobStore
        const of = tenant()
        const bytes = noise(2 * partSizeBytes + 1)
        const ref = yield* write(of, bytes)
        yield* read(of, ref)
        yield* store.olderThan({ before: 1, after: null, limit: 1 })
        yield* store.remove(of, ref.sha256, 1)
        yield* Effect.scoped(Effect.flatMap(store.writer(of), ({ append }) => append(bytes)))
      }).pipe(Effect.provide(blobs))
      const { sql } = database

      const passed: Array<string> = []
      for (const count of [0, 1]) {
        for (const statement of few) yield* sql.unsafe(`${statement} from generate_series(1, ${count})`)
        yield* sql`analyze`
        for (const [text, parameters] of asked) {
          const lines = yield* TestDatabase.genericPlan(text, parameters as ReadonlyArray<{ readonly oid: number }>) // the store tells their types
          passed.push(...lines.filter((line, at) => isPass(line, lines[at + 1])).map((line) => `of ${count}: ${line.trim()}`))
        }
      }

      assert.isAtLeast(asked.size, 8)
      assert.deepStrictEqual(passed, [])
    }).pipe(Effect.provide(TestDatabase.layer({ connectionsMax: 1 })))
  )
})
