/** Blobs in this process's memory; a restart loses them. */
import { Clock, Effect, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import type { Millis, TenantId } from "../../core/model/Ids.ts"
import { BlobMissing, BlobStore, enclosedAtOnce } from "../../core/ports/BlobStore.ts"

/** Bytes of one piece of a read. */
const pieceSizeBytes = 64 * 1024

interface Blob {
  readonly tenantId: TenantId
  readonly sha256: string
  readonly bytes: Uint8Array
  readonly writtenAt: Millis
}

export const layer: Layer.Layer<BlobStore> = Layer.sync(BlobStore, () => {
  const blobs = new Map<string, Blob>()

  const writer = Effect.fnUntraced(function* (tenantId: TenantId) {
    const pieces: Array<Uint8Array> = []
    const hash = createHash("sha256")
    let isOpen = true
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isOpen = false
      })
    )
    const whileOpen = <A>(step: Effect.Effect<A>): Effect.Effect<A> =>
      Effect.suspend(() => (isOpen ? step : Effect.die(new Error("the blob writer is closed"))))

    return {
      append: (bytes: Uint8Array) =>
        whileOpen(
          Effect.sync(() => {
            hash.update(bytes)
            pieces.push(new Uint8Array(bytes)) // a copy
          })
        ),
      finish: whileOpen(
        Effect.map(Clock.currentTimeMillis, (now) => {
          isOpen = false
          const bytes = join(pieces)
          const sha256 = hash.digest("hex")
          const name = nameOf(tenantId, sha256)
          blobs.set(name, { tenantId, sha256, bytes, writtenAt: Math.max(now, blobs.get(name)?.writtenAt ?? now) })
          return { sha256, sizeBytes: bytes.length }
        })
      )
    }
  })

  return BlobStore.of({
    writer,
    enclose: enclosedAtOnce(writer),
    read: (tenantId, { sha256 }) =>
      Stream.suspend(() => {
        const blob = blobs.get(nameOf(tenantId, sha256))
        if (blob === undefined) return Stream.fail(new BlobMissing({ sha256 }))
        return Stream.unfold(0, (offset) =>
          Effect.sync(() =>
            offset < blob.bytes.length ? ([blob.bytes.slice(offset, offset + pieceSizeBytes), offset + pieceSizeBytes] as const) : undefined
          )
        )
      }),
    olderThan: ({ before, after, limit }) =>
      Effect.sync(() => {
        const names = [...blobs.keys()].filter((name) => after === null || name > after).toSorted()
        const old = names.filter((name) => blobs.get(name)!.writtenAt < before) // names are the keys
        const page = old.slice(0, limit)
        return {
          blobs: page.map((name) => blobs.get(name)!).map(({ tenantId, sha256 }) => ({ tenantId, sha256 })),
          next: old.length > limit ? page.at(-1) ?? null : null
        }
      }),
    remove: (tenantId, sha256, before) =>
      Effect.sync(() => {
        const blob = blobs.get(nameOf(tenantId, sha256))
        if (blob !== undefined && blob.writtenAt < before) blobs.delete(nameOf(tenantId, sha256))
      })
  })
})

const nameOf = (tenantId: TenantId, sha256: string): string => `${tenantId} ${sha256}`

const join = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let offset = 0
  for (const piece of pieces) {
    whole.set(piece, offset)
    offset += piece.length
  }
  return whole
}
