/** Blobs of one part, written with the commit that refers to them, or by themselves. */
import { randomUUID } from "node:crypto"
import type { BlobRef } from "../../core/model/Blob.ts"
import type { Millis, TenantId } from "../../core/model/Ids.ts"
import { column, inserting, ofRows, type Part } from "./Parts.ts"
import * as Rows from "./Rows.ts"

export interface WholeBlob {
  readonly tenantId: TenantId
  readonly blob: BlobRef
  readonly bytes: Uint8Array
  readonly at: Millis
}

/** What tells it from every other. */
export const nameOf = ({ tenantId, blob }: Pick<WholeBlob, "tenantId" | "blob">): string => `${tenantId} ${blob.sha256}`

/** In the order of their names: two who write the same blobs do not wait for each other crosswise. */
export const blobParts = (blobs: ReadonlyArray<WholeBlob>): readonly [Part, Part] => {
  const created = blobs
    .toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
    .map((whole): Uploaded => ({ uploadId: randomUUID(), whole }))
  return [putBlobs(created), blobBytes(created)]
}

interface Uploaded {
  readonly uploadId: string
  readonly whole: WholeBlob
}

/** The copy that is there already stays, and its readers with it; it grows no older. */
export const putAgain = "(tenant_id, sha256) do update set written_ms = greatest(blob.written_ms, excluded.written_ms)"

const putBlobs = inserting<Uploaded>(
  "put_blob",
  "mailroom.blob",
  [
    column("tenant_id", "uuid", ({ whole }) => whole.tenantId),
    column("sha256", "text", ({ whole }) => whole.blob.sha256),
    column("upload_id", "uuid", ({ uploadId }) => uploadId),
    column("size_bytes", "bigint", ({ whole }) => BigInt(whole.blob.sizeBytes)),
    column("written_ms", "bigint", ({ whole }) => Rows.toBigint(whole.at))
  ],
  { conflict: putAgain, returning: "upload_id" }
)

const bytesColumns = [
  column<Uploaded>("upload_id", "uuid", ({ uploadId }) => uploadId),
  column<Uploaded>("bytes", "bytea", ({ whole }) => whole.bytes)
]

const blobBytes = ofRows<Uploaded>(
  {
    name: "blob_bytes",
    text: (first, behind, form) =>
      `insert into mailroom.blob_part (upload_id, part, bytes)
       select given.upload_id, 0, given.bytes
       from ${Rows.given(bytesColumns, first, form)} join put_blob on put_blob.upload_id = given.upload_id
       where length(given.bytes) > 0 and ${behind} returning 1`
  },
  bytesColumns
)
