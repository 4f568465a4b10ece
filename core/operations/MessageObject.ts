/**
 * The bytes of a message, as it was built or came in, taken as they come: those
 * of a small one are held, to be brought by its commit, those of a large one go
 * to the store (0037). Each tenant has them to itself.
 */
import { Effect, type Scope, Stream } from "effect"
import type { BlobRef } from "../model/Blob.ts"
import type { TenantId } from "../model/Ids.ts"
import { BlobUnavailable, enclosedMax, type BlobStore, type BlobWriter, type Enclosed } from "../ports/BlobStore.ts"

type Blobs = (typeof BlobStore)["Service"]

/** A message's bytes. */
export interface MessageObject {
  /** They can be read more than once. */
  readonly bytes: Stream.Stream<Uint8Array, BlobUnavailable>
  /** As this tenant has it, with what its commit has to bring. */
  readonly objectOf: (tenantId: TenantId) => Effect.Effect<Enclosed, BlobUnavailable>
}

/** All of them have come, and nothing is kept yet. */
export interface TakenIn {
  /** The first of them, as many as were to stay at hand, and no fewer than all of a small one. */
  readonly begins: Uint8Array
  /** Makes an object of them. Where it is not called, nothing is left behind when the scope closes. */
  readonly keep: Effect.Effect<MessageObject, BlobUnavailable>
}

/** Takes in these bytes behind `prefix`, for their first owner; so many of them stay at hand, and all that are enclosed. */
export const takeIn = Effect.fnUntraced(function* <E>(
  blobs: Blobs,
  owner: TenantId,
  bytes: Stream.Stream<Uint8Array, E>,
  atHandMax: number,
  prefix?: Uint8Array
): Effect.fn.Return<TakenIn, E | BlobUnavailable, Scope.Scope> {
  const start = new Start(Math.max(atHandMax, enclosedMax))
  if (prefix !== undefined) start.add(prefix)
  let opened: BlobWriter | null = null
  const open = Effect.tap(blobs.writer(owner), (writer) => {
    opened = writer
    return writer.append(start.bytes())
  })
  yield* Stream.runForEach(bytes, (chunk) => {
    if (opened === null && start.sizeBytes + chunk.length <= enclosedMax) return Effect.sync(() => start.add(chunk))
    return Effect.flatMap(opened === null ? open : Effect.succeed(opened), (writer) => {
      start.add(chunk)
      return writer.append(chunk)
    })
  })
  const begins = start.bytes()
  const writer = opened as BlobWriter | null // the compiler does not see that it was opened
  return {
    begins,
    keep: writer === null ? Effect.succeed(small(blobs, owner, begins)) : Effect.map(writer.finish, (blob) => large(blobs, owner, blob, begins))
  }
})

const small = (blobs: Blobs, owner: TenantId, whole: Uint8Array): MessageObject => {
  const bytes = Stream.succeed(whole)
  return { bytes, objectOf: (tenantId) => (tenantId === owner ? blobs.enclose(owner, [whole]) : copy(blobs, bytes, tenantId)) }
}

/** Of most of them, what is at hand is the whole, and nothing need be fetched to look at it. */
const large = (blobs: Blobs, owner: TenantId, blob: BlobRef, begins: Uint8Array): MessageObject => {
  const bytes = begins.length === blob.sizeBytes ? Stream.succeed(begins) : readBack(blobs, owner, blob)
  return { bytes, objectOf: (tenantId) => (tenantId === owner ? Effect.succeed({ blob, changes: [] }) : copy(blobs, bytes, tenantId)) }
}

/** What has just been stored: if it is not there, or not whole, the store is at fault, and the sender may try again. */
const readBack = (blobs: Blobs, tenantId: TenantId, blob: BlobRef): Stream.Stream<Uint8Array, BlobUnavailable> =>
  Stream.mapError(blobs.read(tenantId, blob), (error) => (error._tag === "BlobUnavailable" ? error : new BlobUnavailable({ cause: error })))

/** Written by itself: many tenants' would make a large commit, for whose bytes everybody waits. */
const copy = (blobs: Blobs, bytes: Stream.Stream<Uint8Array, BlobUnavailable>, tenantId: TenantId): Effect.Effect<Enclosed, BlobUnavailable> =>
  blobs.writer(tenantId).pipe(
    Effect.flatMap((writer) => Effect.andThen(Stream.runForEach(bytes, writer.append), writer.finish)),
    Effect.map((blob) => ({ blob, changes: [] })),
    Effect.scoped
  )

/** The first bytes of a stream, at most so many. */
class Start {
  private readonly chunks: Array<Uint8Array> = []
  private readonly sizeBytesMax: number
  sizeBytes = 0

  constructor(sizeBytesMax: number) {
    this.sizeBytesMax = sizeBytesMax
  }

  add(chunk: Uint8Array): void {
    if (this.sizeBytes === this.sizeBytesMax) return
    const taken = new Uint8Array(chunk.subarray(0, this.sizeBytesMax - this.sizeBytes)) // a copy, for a chunk may be used again by who made it
    this.sizeBytes += taken.length
    this.chunks.push(taken)
  }

  bytes(): Uint8Array {
    if (this.chunks.length === 1) return this.chunks[0]! // as most that are built
    const whole = new Uint8Array(this.sizeBytes)
    let at = 0
    for (const chunk of this.chunks) {
      whole.set(chunk, at)
      at += chunk.length
    }
    return whole
  }
}
