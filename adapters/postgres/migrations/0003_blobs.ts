/**
 * Bytes in rows. A blob is the parts of one upload; an upload that is not (yet) a blob's has a row of its own, so that
 * what was abandoned is found. Parts are up to 256 KiB, kept as they are: what is sent by mail is mostly compressed.
 */
export const statements: ReadonlyArray<string> = [
  `create table mailroom.blob (
    tenant_id uuid not null, sha256 text collate "C" not null, upload_id uuid not null, size_bytes bigint not null,
    written_ms bigint not null, primary key (tenant_id, sha256)
  )`,
  // touched_ms: when its last part came.
  `create table mailroom.blob_upload (id uuid primary key, touched_ms bigint not null) with (fillfactor = 50)`,
  `create table mailroom.blob_part (
    upload_id uuid not null, part integer not null, bytes bytea not null, primary key (upload_id, part)
  )`,
  `alter table mailroom.blob_part alter column bytes set storage external`
]
