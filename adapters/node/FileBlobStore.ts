/**
 * Blobs as files: `<tenant>/<ab>/<cd>/<digest>` below one directory. A blob is
 * written beside them, given its age, synced and renamed into place, so that it
 * is there whole or not at all, and still there after a power failure.
 *
 * Its age is the file's mtime, set from Effect's Clock. Several processes may
 * share the directory; what a crashed one left unfinished goes after an hour.
 *
 * Unlike the port's other adapters it has no deadlines: a call that the file system has begun cannot be called off, and a
 * disk that hangs, as one behind a network may, holds who waits for it, and Node's few threads for files.
 */
import { Clock, Effect, Layer, Stream, type Scope } from "effect"
import { createHash, randomUUID } from "node:crypto"
import * as fs from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { BlobRef } from "../../core/model/Blob.ts"
import type { Millis, TenantId } from "../../core/model/Ids.ts"
import { BlobCorrupt, BlobMissing, BlobStore, BlobUnavailable, enclosedAtOnce, type BlobWriter } from "../../core/ports/BlobStore.ts"

export interface Options {
  /** Made if it is not there. Nothing else lives in it. */
  readonly directory: string
}

export const layer = (options: Options): Layer.Layer<BlobStore, BlobUnavailable> => Layer.effect(BlobStore, make(options))

/** Bytes of one piece of a read. */
const pieceSizeBytes = 64 * 1024
/** How old an unfinished file is when whoever made it must be gone. */
const abandonedAfter: Millis = 60 * 60 * 1000

const make = Effect.fnUntraced(function* (options: Options) {
  const directory = resolve(options.directory)
  const unfinished = join(directory, "unfinished")
  const pathOf = (tenantId: string, sha256: string) => pathIn(directory, tenantId, sha256)
  let cleanedAt = -Infinity

  /** A name for an unfinished file: when it was begun, and what it is to become or was. */
  const begin = Effect.fnUntraced(function* (...about: ReadonlyArray<string>) {
    const now = yield* Clock.currentTimeMillis
    if (now - cleanedAt >= abandonedAfter) yield* clean(now)
    return join(unfinished, [now, ...about, randomUUID()].join("_"))
  })

  const clean = Effect.fnUntraced(function* (now: Millis) {
    cleanedAt = now
    for (const name of yield* io(() => fs.readdir(unfinished))) {
      const [begunAt, tenantId = "", sha256 = ""] = name.split("_")
      if (Number(begunAt) > now - abandonedAfter) continue
      const path = join(unfinished, name)
      // Another process may be cleaning too.
      yield* Effect.ignore(isTenantId(tenantId) && isDigest(sha256) ? putBack(path, pathOf(tenantId, sha256)) : unlink(path))
    }
  })

  const writer = Effect.fnUntraced(function* (
    tenantId: TenantId
  ): Effect.fn.Return<BlobWriter, BlobUnavailable, Scope.Scope> {
    if (!isTenantId(tenantId)) return yield* Effect.die(new Error("the tenant id is no directory name"))
    const path = yield* begin()
    const handle = yield* Effect.acquireRelease(
      io(() => fs.open(path, "wx", 0o600)),
      (opened) => Effect.andThen(Effect.ignore(io(() => opened.close())), Effect.ignore(unlink(path)))
    )
    const hash = createHash("sha256")
    let sizeBytes = 0
    return {
      append: (bytes) =>
        io(async () => {
          await handle.writeFile(bytes)
          hash.update(bytes)
          sizeBytes += bytes.length
        }),
      finish: Effect.flatMap(Clock.currentTimeMillis, (now) =>
        io(async () => {
          if ((await handle.stat()).size !== sizeBytes) throw new Error("a write was cut short")
          const sha256 = hash.digest("hex")
          const target = pathOf(tenantId, sha256)
          await fs.mkdir(dirname(target), { recursive: true, mode: 0o700 })
          // A clock that is behind makes no blob older.
          const writtenLast = Math.max(now, (await fs.stat(target).catch(() => null))?.mtimeMs ?? now)
          await handle.utimes(writtenLast / 1000, writtenLast / 1000)
          await handle.sync()
          await fs.rename(path, target)
          await syncUpwards(dirname(target), directory)
          return { sha256, sizeBytes }
        })
      )
    }
  })

  const openToRead = Effect.fnUntraced(function* (tenantId: TenantId, sha256: string) {
    if (!isTenantId(tenantId) || !isDigest(sha256)) return yield* new BlobMissing({ sha256 })
    return yield* Effect.acquireRelease(
      Effect.catchIf(io(() => fs.open(pathOf(tenantId, sha256), "r")), isAbsent, () => Effect.fail(new BlobMissing({ sha256 }))),
      (opened) => Effect.ignore(io(() => opened.close()))
    )
  })

  const read = (tenantId: TenantId, { sha256 }: BlobRef) =>
    Stream.unwrap(
      Effect.map(openToRead(tenantId, sha256), (handle) => {
        const hash = createHash("sha256")
        return Stream.unfold(null, () =>
          Effect.flatMap(io(() => handle.read(new Uint8Array(pieceSizeBytes), 0, pieceSizeBytes, null)), ({ buffer, bytesRead }) => {
            const piece = buffer.subarray(0, bytesRead)
            hash.update(piece)
            if (bytesRead > 0) return Effect.succeed([piece, null] as const)
            return hash.digest("hex") === sha256 ? Effect.undefined : Effect.fail(new BlobCorrupt({ sha256 }))
          })
        )
      })
    )

  /** The names in a directory that are of a kind, sorted; none if it is not there. */
  const list = (path: string, isOne: (name: string) => boolean) =>
    io(() => fs.readdir(path)).pipe(
      Effect.map((names) => names.filter(isOne).toSorted()),
      Effect.catchIf(isAbsent, () => Effect.succeed([]))
    )

  const olderThan = Effect.fnUntraced(function* (query: {
    readonly before: Millis
    readonly after: string | null
    readonly limit: number
  }) {
    const { before, limit } = query
    const after = query.after ?? ""
    /** Whether names that begin like this can lie behind `after`. */
    const isAhead = (prefix: string) => prefix >= after.slice(0, prefix.length)
    const blobs: Array<{ readonly tenantId: TenantId; readonly sha256: string }> = []
    let last: string | null = null
    for (const tenantId of yield* list(directory, isTenantId)) {
      if (!isAhead(tenantId)) continue
      for (const outer of yield* list(join(directory, tenantId), isFan)) {
        if (!isAhead(`${tenantId}/${outer}`)) continue
        for (const inner of yield* list(join(directory, tenantId, outer), isFan)) {
          if (!isAhead(`${tenantId}/${outer}${inner}`)) continue
          for (const sha256 of yield* list(join(directory, tenantId, outer, inner), isDigest)) {
            const name = `${tenantId}/${sha256}`
            if (name <= after || !((yield* writtenAt(pathOf(tenantId, sha256))) < before)) continue
            if (blobs.length >= limit) return { blobs, next: last }
            blobs.push({ tenantId: tenantId as TenantId, sha256 }) // its form is checked
            last = name
          }
        }
      }
    }
    return { blobs, next: null }
  })

  const remove = Effect.fnUntraced(function* (tenantId: TenantId, sha256: string, before: Millis) {
    if (!isTenantId(tenantId) || !isDigest(sha256)) return
    const path = pathOf(tenantId, sha256)
    if (!((yield* writtenAt(path)) < before)) return
    // Out of the way first, and then judged: a blob written again since the look above must not go.
    const taken = yield* begin(tenantId, sha256)
    yield* Effect.catchIf(io(() => fs.rename(path, taken)), isAbsent, () => Effect.void)
    yield* (yield* writtenAt(taken)) >= before ? putBack(taken, path) : unlink(taken)
  }, Effect.uninterruptible)

  yield* io(() => fs.mkdir(unfinished, { recursive: true, mode: 0o700 }))
  yield* clean(yield* Clock.currentTimeMillis)
  return BlobStore.of({ writer, enclose: enclosedAtOnce(writer), read, olderThan, remove })
})

/** Whether a blob is in a folder. The folder is not made. Who asks may give it up, for a look leaves nothing half done. */
export const holds = ({ directory }: Options, tenantId: string, sha256: string): Effect.Effect<boolean, BlobUnavailable> =>
  isTenantId(tenantId) && isDigest(sha256)
    ? tried(() => fs.stat(pathIn(resolve(directory), tenantId, sha256))).pipe(
        Effect.as(true),
        Effect.catchIf(isAbsent, () => Effect.succeed(false))
      )
    : Effect.succeed(false)

const pathIn = (directory: string, tenantId: string, sha256: string): string =>
  join(directory, tenantId, sha256.slice(0, 2), sha256.slice(2, 4), sha256)

// Both are checked before they become part of a path.
const isTenantId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)
const isDigest = (text: string): boolean => /^[0-9a-f]{64}$/.test(text)
const isFan = (text: string): boolean => /^[0-9a-f]{2}$/.test(text)

/** Not interruptible: what the file system has begun it finishes, and nothing else may begin before. */
const io = <A>(run: () => Promise<A>): Effect.Effect<A, BlobUnavailable> => Effect.uninterruptible(tried(run))

const tried = <A>(run: () => Promise<A>): Effect.Effect<A, BlobUnavailable> =>
  Effect.tryPromise({ try: run, catch: (cause) => new BlobUnavailable({ cause }) })

const codeOf = ({ cause }: BlobUnavailable): unknown =>
  typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined
const isAbsent = (error: BlobUnavailable): boolean => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR"

const unlink = (path: string) => Effect.catchIf(io(() => fs.unlink(path)), isAbsent, () => Effect.void)

/** NaN if it is gone, which is neither older nor younger than anything. */
const writtenAt = (path: string) =>
  io(() => fs.stat(path)).pipe(
    Effect.map(({ mtimeMs }) => Math.round(mtimeMs)),
    Effect.catchIf(isAbsent, () => Effect.succeed(Number.NaN))
  )

/** Back where it was, unless it has been written there again. */
const putBack = (taken: string, path: string) =>
  io(() => fs.link(taken, path)).pipe(
    Effect.catchIf((error) => codeOf(error) === "EEXIST", () => Effect.void),
    Effect.andThen(unlink(taken))
  )

/** A new name lasts once its directory is synced, and a new directory once its parent is. */
const syncUpwards = async (from: string, to: string): Promise<void> => {
  for (let path = from; ; path = dirname(path)) {
    const handle = await fs.open(path, "r")
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
    if (path === to || path === dirname(path)) return
  }
}
