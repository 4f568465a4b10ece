import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import * as fs from "node:fs/promises"
import builtin from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freshId } from "../../conformance/fixtures.ts"
import type { BlobRef } from "../../core/model/Blob.ts"
import type { TenantId } from "../../core/model/Ids.ts"
import { BlobStore } from "../../core/ports/BlobStore.ts"
import * as FileBlobStore from "./FileBlobStore.ts"

const tenant = () => freshId<TenantId>()
const promise = <A>(run: () => Promise<A>) => Effect.promise(run)
const folder = Effect.acquireRelease(
  promise(() => fs.mkdtemp(join(tmpdir(), "mailroom-blobs-"))),
  (path) => promise(() => fs.rm(path, { recursive: true, force: true }))
)
const open = (directory: string) => Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
const hour = 60 * 60 * 1000

type Blobs = typeof BlobStore.Service

const write = (store: Blobs, tenantId: TenantId, text: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const writer = yield* store.writer(tenantId)
      yield* writer.append(Buffer.from(text))
      return yield* writer.finish
    })
  )
const read = (store: Blobs, tenantId: TenantId, ref: BlobRef) =>
  Effect.map(Stream.runCollect(store.read(tenantId, ref)), (pieces) => Buffer.concat(pieces).toString())
const pathOf = (directory: string, tenantId: string, { sha256 }: BlobRef) =>
  join(directory, tenantId, sha256.slice(0, 2), sha256.slice(2, 4), sha256)
const unfinished = (directory: string) => promise(() => fs.readdir(join(directory, "unfinished")))
const allFiles = (directory: string) => promise(() => fs.readdir(directory, { recursive: true }))

describe("FileBlobStore", () => {
  it.effect("keeps files that only its user may read, fanned out below the tenant", () =>
    Effect.gen(function* () {
      const directory = join(yield* folder, "made", "here")
      const store = yield* open(directory)
      const of = tenant()
      const ref = yield* write(store, of, "private")
      const path = pathOf(directory, of, ref)

      const mode = (at: string) => Effect.map(promise(() => fs.stat(at)), (stat) => stat.mode & 0o777)
      assert.strictEqual(yield* mode(path), 0o600)
      for (const at of ["..", "../..", "../../..", "../../../.."]) assert.strictEqual(yield* mode(join(path, at)), 0o700)
      assert.strictEqual(yield* promise(() => fs.readFile(path, "utf8")), "private")
    })
  )

  it.effect("finds its blobs again when it is opened anew, and those of another process", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const [first, second] = [yield* open(directory), yield* open(directory)]
      const of = tenant()
      const ref = yield* write(first, of, "shared")

      assert.strictEqual(yield* read(second, of, ref), "shared")
      assert.strictEqual(yield* read(yield* open(directory), of, ref), "shared")
    })
  )

  it.effect("turns neither a tenant nor a digest into a path before it has checked it", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const outside = join(directory, "outside")
      const store = yield* open(join(directory, "blobs"))
      const of = tenant()
      const ref = yield* write(store, of, "inside")
      yield* promise(() => fs.writeFile(outside, "secret"))
      const before = yield* allFiles(directory)

      for (const name of ["..", "../..", ".", "", of.toUpperCase(), `${of}/..`, `${of}\0`, "unfinished"]) {
        const tenantId = name as TenantId // which it is not
        const exit = yield* Effect.exit(Effect.scoped(store.writer(tenantId)))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), `no writer for ${tenantId}`)
        assert.strictEqual((yield* Effect.flip(read(store, tenantId, ref)))._tag, "BlobMissing")
        yield* store.remove(tenantId, ref.sha256, Number.MAX_SAFE_INTEGER)
      }
      for (const sha256 of ["../../../../outside", "outside", "", ref.sha256.toUpperCase(), `../../${ref.sha256.slice(0, 2)}/${ref.sha256}`, `${ref.sha256}\0`]) {
        assert.strictEqual((yield* Effect.flip(read(store, of, { sha256, sizeBytes: 6 })))._tag, "BlobMissing")
        yield* store.remove(of, sha256, Number.MAX_SAFE_INTEGER)
      }

      assert.deepStrictEqual(yield* allFiles(directory), before)
    })
  )

  it.effect("leaves no unfinished file behind, however the writer ends", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      const of = tenant()
      const begun = Effect.tap(store.writer(of), (writer) => writer.append(Buffer.from("half")))

      yield* Effect.scoped(begun)
      yield* Effect.ignore(Effect.scoped(Effect.andThen(begun, Effect.fail("no"))))
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* begun
          assert.lengthOf(yield* unfinished(directory), 1)
        })
      )
      yield* write(store, of, "whole")
      const ref = yield* write(store, of, "removed")
      yield* store.remove(of, ref.sha256, hour)

      assert.deepStrictEqual(yield* unfinished(directory), [])
    })
  )

  it.effect("clears away, after an hour, what a crashed process left unfinished", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      yield* TestClock.adjust(3 * hour)
      const leave = (age: number) => {
        const name = `${3 * hour - age}_${tenant()}`
        return Effect.as(promise(() => fs.writeFile(join(directory, "unfinished", name), "half")), name)
      }
      yield* leave(2 * hour)
      yield* leave(hour)
      const young = yield* leave(hour - 1)

      yield* open(directory)
      assert.deepStrictEqual(yield* unfinished(directory), [young])

      yield* TestClock.adjust(1)
      yield* write(store, tenant(), "the store that was there before clears up as it goes")
      assert.deepStrictEqual(yield* unfinished(directory), [])
    })
  )

  it.effect("puts back a blob whose removal a crash cut short", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      const of = tenant()
      const [taken, rewritten] = [yield* write(store, of, "taken"), yield* write(store, of, "rewritten")]
      for (const ref of [taken, rewritten]) {
        yield* promise(() => fs.rename(pathOf(directory, of, ref), join(directory, "unfinished", `0_${of}_${ref.sha256}_${tenant()}`)))
      }
      yield* TestClock.adjust(hour / 2)
      yield* write(store, of, "rewritten")
      yield* TestClock.adjust(hour)

      yield* open(directory)

      assert.deepStrictEqual(yield* unfinished(directory), [])
      assert.strictEqual(yield* read(store, of, taken), "taken")
      const { blobs } = yield* store.olderThan({ before: hour / 2, after: null, limit: 10 })
      assert.deepStrictEqual(blobs, [{ tenantId: of, sha256: taken.sha256 }])
    })
  )

  it.effect("removes no blob that another process writes again between the look and the removal", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const [mine, theirs] = [yield* open(directory), yield* open(directory)]
      const of = tenant()
      const ref = yield* write(mine, of, "raced")
      yield* TestClock.adjust(1)
      const context = yield* Effect.context<never>()
      const { rename } = builtin
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          builtin.rename = async (from, to) => {
            if (String(to).includes("unfinished")) await Effect.runPromiseWith(context)(write(theirs, of, "raced"))
            return rename(from, to)
          }
          syncBuiltinESMExports()
        }),
        () =>
          Effect.sync(() => {
            builtin.rename = rename
            syncBuiltinESMExports()
          })
      )

      yield* mine.remove(of, ref.sha256, 1)

      assert.strictEqual(yield* read(mine, of, ref), "raced")
      assert.deepStrictEqual(yield* unfinished(directory), [])
      assert.deepStrictEqual((yield* mine.olderThan({ before: 1, after: null, limit: 10 })).blobs, [])
    })
  )

  it.effect("syncs the file and every directory that leads to it", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      const handle = yield* promise(() => fs.open(directory))
      const prototype = Object.getPrototypeOf(handle) as { sync: () => Promise<void> } // of every file handle
      yield* promise(() => handle.close())
      const { sync } = prototype
      const synced: Array<string> = []
      const of = tenant()
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          prototype.sync = async function (this: fs.FileHandle) {
            synced.push((await this.stat()).isDirectory() ? "directory" : await fs.readlink(`/proc/self/fd/${this.fd}`).catch(() => "file"))
            return sync.call(this)
          }
        }),
        () =>
          Effect.sync(() => {
            prototype.sync = sync
          })
      )

      yield* write(store, of, "durable")

      assert.lengthOf(synced, 5)
      assert.isTrue(synced[0] === "file" || synced[0]!.includes("unfinished"), "the file is synced before it is renamed")
      assert.deepStrictEqual(synced.slice(1), ["directory", "directory", "directory", "directory"])
    })
  )

  it.effect("fails a finish whose file was cut short, and shows nothing of it", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      const of = tenant()
      const writer = yield* store.writer(of)
      yield* writer.append(Buffer.from("all of it"))
      const [name] = yield* unfinished(directory)
      yield* promise(() => fs.truncate(join(directory, "unfinished", name!), 3))

      assert.strictEqual((yield* Effect.flip(writer.finish))._tag, "BlobUnavailable")

      const ref = { sha256: createHash("sha256").update("all of it").digest("hex"), sizeBytes: 9 }
      assert.strictEqual((yield* Effect.flip(read(store, of, ref)))._tag, "BlobMissing")
    })
  )

  it.effect("passes over files that are not its own", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      const of = tenant()
      const ref = yield* write(store, of, "mine")
      const path = pathOf(directory, of, ref)
      yield* promise(() => fs.writeFile(join(directory, "lost+found"), ""))
      yield* promise(() => fs.writeFile(join(directory, of, "notes.txt"), ""))
      yield* promise(() => fs.writeFile(join(directory, of, "ab"), "a file where a directory might be"))
      yield* promise(() => fs.writeFile(`${path}.bak`, ""))
      yield* promise(() => fs.utimes(`${path}.bak`, 0, 0))

      const { blobs, next } = yield* store.olderThan({ before: 1, after: null, limit: 10 })

      assert.deepStrictEqual(blobs, [{ tenantId: of, sha256: ref.sha256 }])
      assert.isNull(next)
    })
  )

  it.effect("says that it is unavailable when the file system fails it", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const file = join(directory, "file")
      yield* promise(() => fs.writeFile(file, ""))
      const closed = yield* Effect.flip(Layer.build(FileBlobStore.layer({ directory: file })))
      assert.strictEqual(closed._tag, "BlobUnavailable")

      const store = yield* open(join(directory, "blobs"))
      const of = tenant()
      const ref = yield* write(store, of, "here")
      yield* promise(() => fs.rm(pathOf(join(directory, "blobs"), of, ref)))
      yield* promise(() => fs.mkdir(pathOf(join(directory, "blobs"), of, ref)))
      assert.strictEqual((yield* Effect.flip(read(store, of, ref)))._tag, "BlobUnavailable")
      yield* promise(() => fs.rm(join(directory, "blobs", "unfinished"), { recursive: true }))
      assert.strictEqual((yield* Effect.flip(Effect.scoped(store.writer(of))))._tag, "BlobUnavailable")
    })
  )

  it.effect("closes its files, also when a reader stops early or a blob is corrupt", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const store = yield* open(directory)
      const of = tenant()
      const ref = yield* write(store, of, "x".repeat(200_000))
      const opened = Effect.map(promise(() => fs.readdir("/proc/self/fd").catch(() => [])), (names) => names.length)
      const before = yield* opened

      for (let time = 0; time < 50; time++) yield* Stream.runDrain(Stream.take(store.read(of, ref), 1))
      yield* promise(() => fs.writeFile(pathOf(directory, of, ref), "corrupt"))
      for (let time = 0; time < 50; time++) yield* Effect.flip(read(store, of, ref))
      for (let time = 0; time < 50; time++) yield* write(store, of, `blob ${time}`)

      assert.isAtMost(yield* opened, before + 5)
    })
  )
})
