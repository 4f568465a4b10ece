/**
 * What the checks of a BlobStore are made of. Each check has tenants of its
 * own, and passes over the blobs of others when it asks for old ones.
 */
import assert from "node:assert/strict"
import { Clock, Effect, Result, Stream } from "effect"
import type { BlobRef } from "../core/model/Blob.ts"
import type { Millis, TenantId } from "../core/model/Ids.ts"
import { BlobStore } from "../core/ports/BlobStore.ts"
import { freshId } from "./fixtures.ts"

export const tenant = () => freshId<TenantId>()

export const hour = 60 * 60 * 1000

export const text = (content: string): Uint8Array => new TextEncoder().encode(content)

/** Bytes that differ from place to place, and from seed to seed. */
export const noise = (sizeBytes: number, seed = 1): Uint8Array => {
  let state = seed * 2_654_435_761 + 1
  return Uint8Array.from({ length: sizeBytes }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return state >>> 24
  })
}

export const digest = (bytes: Uint8Array) =>
  Effect.map(
    Effect.promise(() => globalThis.crypto.subtle.digest("SHA-256", Uint8Array.from(bytes))),
    (hash) => Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("")
  )

export const write = (tenantId: TenantId, ...pieces: ReadonlyArray<Uint8Array>) =>
  Effect.gen(function* () {
    const store = yield* BlobStore
    const writer = yield* store.writer(tenantId)
    for (const piece of pieces) yield* writer.append(piece)
    return yield* writer.finish
  }).pipe(Effect.scoped)

export const read = (tenantId: TenantId, ref: BlobRef) =>
  Effect.flatMap(BlobStore, (store) =>
    Effect.map(Stream.runCollect(store.read(tenantId, ref)), (pieces) => {
      const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
      pieces.reduce((offset, piece) => (whole.set(piece, offset), offset + piece.length), 0)
      return whole
    })
  )

export const refOf = (bytes: Uint8Array) => Effect.map(digest(bytes), (sha256): BlobRef => ({ sha256, sizeBytes: bytes.length }))

/** What a read came to, in a word. */
export const foundIn = (outcome: Result.Result<Uint8Array, { readonly _tag: string }>): string =>
  Result.isFailure(outcome) ? outcome.failure._tag : `${outcome.success.length} bytes`

export const assertMissing = Effect.fnUntraced(function* (tenantId: TenantId, ref: BlobRef) {
  assert.equal(foundIn(yield* Effect.result(read(tenantId, ref))), "BlobMissing")
})

type Page = Effect.Success<ReturnType<typeof BlobStore.Service.olderThan>>

/** All blobs of these tenants that were last written before a time, in pages. */
export const old = Effect.fnUntraced(function* (
  tenants: ReadonlyArray<TenantId>,
  before: Millis,
  limit = 100,
  each: (tenantId: TenantId, sha256: string) => Effect.Effect<void, unknown> = () => Effect.void
) {
  const store = yield* BlobStore
  const found: Array<Page["blobs"][number]> = []
  let after: string | null = null
  do {
    const page: Page = yield* store.olderThan({ before, after, limit })
    assert.ok(page.blobs.length <= limit)
    for (const { tenantId, sha256 } of page.blobs) {
      if (!tenants.includes(tenantId)) continue
      found.push({ tenantId, sha256 })
      yield* each(tenantId, sha256)
    }
    after = page.next
  } while (after !== null)
  return found
})

export const sweepTime = Effect.map(Clock.currentTimeMillis, (now) => now + 1)
