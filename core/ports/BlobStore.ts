/**
 * Bytes: attachments and MIME objects, named by tenant and SHA-256 and
 * streamed both ways. Two tenants with equal bytes have two blobs.
 *
 * An adapter
 * - makes a blob visible whole, at `finish`, or never; a writer whose scope
 *   closes before that leaves nothing behind;
 * - takes the age of a blob from its `finish`, not from the begin of its write;
 * - keeps one copy when the same bytes are written twice, and counts the
 *   second write as its age; no write makes a blob older, whatever its clock;
 * - fails a read that does not yield the named bytes with `BlobCorrupt` at its
 *   end, so no consumer mistakes them; one whose blob is removed meanwhile
 *   yields all of it, or fails as well;
 * - removes nothing by itself;
 * - keeps deadlines of its own and can be interrupted, wherever what it waits for
 *   can be called off: a job that waits in vain for minutes takes the store for
 *   unavailable, and is done later;
 * - may leave a small blob to the commit that refers to it (`enclose`), if the
 *   store keeps blobs with the rest.
 */
import { Context, Data, Effect, type Scope, type Stream } from "effect"
import type { BlobRef } from "../model/Blob.ts"
import type { Millis, TenantId } from "../model/Ids.ts"
import type { Change } from "./Store.ts"

/** It cannot be told what is there, or was written. Of a read: at its beginning, or in the middle. */
export class BlobUnavailable extends Data.TaggedError("BlobUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the blob store is unavailable"
}

/** It was waited for in vain. */
export const blobUnanswered = (): Effect.Effect<never, BlobUnavailable> => Effect.fail(new BlobUnavailable({ cause: "no answer in time" }))

/** Nothing is there under this name. */
export class BlobMissing extends Data.TaggedError("BlobMissing")<{ readonly sha256: string }> {
  override readonly message = "the blob is not there"
}

/** The end of a read whose bytes were others than the named ones, or more, or fewer. */
export class BlobCorrupt extends Data.TaggedError("BlobCorrupt")<{ readonly sha256: string }> {
  override readonly message = "the blob's bytes are not those it is named by"
}

export interface BlobWriter {
  /** The bytes may be used again as soon as this is done. */
  readonly append: (bytes: Uint8Array) => Effect.Effect<void, BlobUnavailable>
  /** Makes what was appended visible under its digest. Called once, last. */
  readonly finish: Effect.Effect<BlobRef, BlobUnavailable>
}

/** A blob that a commit is to refer to, and what that commit has to bring for it: nothing, if the blob is there already. */
export interface Enclosed {
  readonly blob: BlobRef
  readonly changes: ReadonlyArray<Extract<Change, { readonly _tag: "PutBlob" }>>
}

/** The bytes that `enclose` takes at most: few, for whoever commits to the same log waits for them. */
export const enclosedMax = 32 * 1024

export class BlobStore extends Context.Service<
  BlobStore,
  {
    /** Takes the bytes of one blob; what is not finished when its scope closes leaves nothing behind. */
    readonly writer: (tenantId: TenantId) => Effect.Effect<BlobWriter, BlobUnavailable, Scope.Scope>
    /**
     * These pieces, up to `enclosedMax` bytes, as one blob of a commit that refers to it: written at once, or with that
     * commit, which then must bring the changes. The pieces may be used again as soon as this is done.
     */
    readonly enclose: (tenantId: TenantId, pieces: ReadonlyArray<Uint8Array>) => Effect.Effect<Enclosed, BlobUnavailable>
    /** Its bytes from the first to the last, in pieces, as often as it is run. A piece is its reader's, who may change it. */
    readonly read: (
      tenantId: TenantId,
      ref: BlobRef
    ) => Stream.Stream<Uint8Array, BlobUnavailable | BlobMissing | BlobCorrupt>
    /**
     * Blobs last written before a time, in a stable order, behind `after`. A page with a `next` may have few, or none. A
     * process may keep a `next`, and go on there days later.
     */
    readonly olderThan: (query: {
      readonly before: Millis
      readonly after: string | null
      readonly limit: number
    }) => Effect.Effect<
      { readonly blobs: ReadonlyArray<{ readonly tenantId: TenantId; readonly sha256: string }>; readonly next: string | null },
      BlobUnavailable
    >
    /** Removes a blob, unless it was written again at or after `before`. */
    readonly remove: (tenantId: TenantId, sha256: string, before: Millis) => Effect.Effect<void, BlobUnavailable>
  }
>()("mailroom/core/ports/BlobStore") {}

/** The `enclose` of an adapter that writes at once, and of who has pieces too large to be left to a commit. */
export const enclosedAtOnce = (writer: BlobStore["Service"]["writer"]): BlobStore["Service"]["enclose"] =>
  Effect.fnUntraced(function* (tenantId, pieces) {
    const blob = yield* writer(tenantId)
    for (const piece of pieces) yield* blob.append(piece)
    return { blob: yield* blob.finish, changes: [] }
  }, Effect.scoped)
