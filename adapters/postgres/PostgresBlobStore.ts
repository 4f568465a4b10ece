/**
 * Blobs as rows of up to 256 KiB. A writer stages full parts under an upload,
 * and `finish` makes them the blob's, in one statement. A read takes each part
 * by a statement of its own, one ahead of its reader: a slow download holds no
 * transaction open, and one part in memory beside what its reader has.
 */
import { PgTypes } from "@effect/sql-pg"
import { Clock, Effect, Layer, Stream, type Scope } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { createHash, hash } from "node:crypto"
import type { BlobRef } from "../../core/model/Blob.ts"
import type { Millis, TenantId } from "../../core/model/Ids.ts"
import { BlobCorrupt, BlobMissing, BlobStore, BlobUnavailable, enclosedAtOnce, type Enclosed } from "../../core/ports/BlobStore.ts"
import * as Batches from "./Batches.ts"
import { blobParts, nameOf, putAgain, type WholeBlob } from "./BlobParts.ts"
import { Database } from "./Database.ts"
import { id, idAfter } from "./Query.ts"
import { statementOf } from "./Parts.ts"
import { toBigint, type Row } from "./Rows.ts"

export const partSizeBytes = 256 * 1024

/** An upload to which nothing was added for a day is nobody's: its process has ended. */
export const abandonedAfter: Millis = 86_400_000

/** Beside any Store: what is enclosed is written at once. */
export const layer: Layer.Layer<BlobStore, never, Database> = Layer.effect(BlobStore, make(false))

/** Beside the Store of the same database, and no other: its commits bring what is enclosed. */
export const layerWithStore: Layer.Layer<BlobStore, never, Database> = Layer.effect(BlobStore, make(true))

function make(isWithStore: boolean): Effect.Effect<typeof BlobStore.Service, never, Database | Scope.Scope> {
  return Effect.gen(function* () {
    const database = yield* Database
    const rows: Run = (text, parameters) => Effect.mapError(database.rows<Row>(text, parameters), unavailable)
    const putWhole = yield* Batches.make({ keyOf: nameOf, run: (wholes: ReadonlyArray<WholeBlob>) => putAll(rows, wholes) })
    const writer = makeWriter(rows, putWhole)
    return BlobStore.of({
      writer,
      enclose: isWithStore ? enclosed : enclosedAtOnce(writer),
      read: (tenantId, ref) => read(rows, tenantId, ref),
      olderThan: Effect.fnUntraced(function* ({ before, after, limit }) {
        if (after === null) yield* removeAbandoned(rows)
        const [tenantAfter, sha256After] = after === null ? [null, ""] : after.split(" ")
        const found = yield* rows(olderStatement, [
          int8(before),
          idAfter(tenantAfter ?? null),
          PgTypes.text(sha256After ?? ""),
          PgTypes.int8(BigInt(limit + 1))
        ])
        const looked = found.slice(0, limit).map((row) => ({
          tenantId: row["tenant_id"] as TenantId, // as written
          sha256: row["sha256"] as string,
          isOld: row["is_old"] === true
        }))
        const blobs = looked.flatMap(({ isOld, tenantId, sha256 }) => (isOld ? { tenantId, sha256 } : []))
        const last = looked.at(-1)
        return { blobs, next: found.length > limit && last !== undefined ? `${last.tenantId} ${last.sha256}` : null }
      }),
      remove: (tenantId, sha256, before) =>
        Effect.asVoid(rows(removeStatement, [id(tenantId), PgTypes.text(sha256), int8(before)]))
    })
  })
}

const enclosed = (tenantId: TenantId, pieces: ReadonlyArray<Uint8Array>): Effect.Effect<Enclosed> =>
  Effect.map(Clock.currentTimeMillis, (at) => {
    const bytes = Buffer.concat(pieces)
    const blob: BlobRef = { sha256: hash("sha256", bytes, "hex"), sizeBytes: bytes.length }
    return { blob, changes: [{ _tag: "PutBlob", tenantId, blob, bytes, at }] }
  })

type Run = (text: string, parameters: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<Row>, BlobUnavailable>

const unavailable = (cause: SqlError) => new BlobUnavailable({ cause })

const int8 = (at: Millis) => PgTypes.int8(toBigint(at))

/** Those that are finished at the same time, by a single statement. */
const putAll = (rows: Run, wholes: ReadonlyArray<WholeBlob>) => {
  const { text, parameters } = statementOf(blobParts(wholes))
  return Effect.as(rows(text, parameters), wholes.map(({ blob }) => blob))
}

/** A blob that is being written: what of it is in hand, and what is staged. */
class Writing {
  readonly hash = createHash("sha256")
  sizeBytes = 0
  buffer = new Uint8Array(0)
  filled = 0
  staged: { readonly upload: string; readonly parts: number } | null = null
  state: "open" | "broken" | "closed" = "open"
  readonly tenantId: TenantId

  constructor(tenantId: TenantId) {
    this.tenantId = tenantId
  }

  /** Takes what has room from a place on; how much that was. */
  take(bytes: Uint8Array, offset: number): number {
    if (this.filled === this.buffer.length) {
      // Small blobs are many: their buffers grow as they do.
      const larger = new Uint8Array(Math.min(partSizeBytes, Math.max(4_096, 2 * this.filled, this.filled + bytes.length - offset)))
      larger.set(this.buffer)
      this.buffer = larger
    }
    const piece = bytes.subarray(offset, offset + this.buffer.length - this.filled)
    this.buffer.set(piece, this.filled)
    this.filled += piece.length
    return piece.length
  }

  /** A step that came to no good end leaves a writer that has only its scope to close. */
  whileOpen<A>(step: Effect.Effect<A, BlobUnavailable>): Effect.Effect<A, BlobUnavailable> {
    return Effect.suspend(() => {
      if (this.state === "closed") return Effect.die(new Error("the blob writer is closed"))
      if (this.state === "broken") return unusable("an earlier step of this writer failed")
      this.state = "broken"
      return Effect.tap(step, () =>
        Effect.sync(() => {
          if (this.state === "broken") this.state = "open"
        })
      )
    })
  }
}

const makeWriter = (rows: Run, putWhole: (whole: WholeBlob) => Effect.Effect<BlobRef, BlobUnavailable>) => {
  const stage = Effect.fnUntraced(function* (writing: Writing) {
    const { staged, buffer } = writing
    const now = int8(yield* Clock.currentTimeMillis)
    const [row] =
      staged === null
        ? yield* rows(beginStatement, [now, PgTypes.bytea(buffer)])
        : yield* rows(stageStatement, [PgTypes.uuid(staged.upload), now, PgTypes.int4(staged.parts), PgTypes.bytea(buffer)])
    if (row === undefined) return yield* unusable(removedMeanwhile)
    writing.staged = { upload: row["upload_id"] as string, parts: (staged?.parts ?? 0) + 1 } // a uuid
  })

  const append = Effect.fnUntraced(function* (writing: Writing, bytes: Uint8Array) {
    writing.hash.update(bytes)
    writing.sizeBytes += bytes.length
    for (let offset = 0; offset < bytes.length; ) {
      offset += writing.take(bytes, offset)
      if (writing.filled < partSizeBytes) continue
      yield* stage(writing)
      writing.filled = 0
    }
  })

  const finish = Effect.fnUntraced(function* (writing: Writing) {
    const { tenantId, sizeBytes, staged } = writing
    const ref: BlobRef = { sha256: writing.hash.digest("hex"), sizeBytes }
    const now = yield* Clock.currentTimeMillis
    const rest = writing.buffer.subarray(0, writing.filled)
    if (staged === null) yield* putWhole({ tenantId, blob: ref, at: now, bytes: rest })
    else {
      const named = [id(tenantId), PgTypes.text(ref.sha256), PgTypes.int8(BigInt(sizeBytes)), int8(now), PgTypes.bytea(rest)]
      const done = yield* rows(finishStagedStatement, [...named, PgTypes.uuid(staged.upload), PgTypes.int4(staged.parts)])
      if (done.length === 0) return yield* unusable(removedMeanwhile)
    }
    writing.state = "closed"
    return ref
  })

  return Effect.fnUntraced(function* (tenantId: TenantId) {
    const writing = new Writing(tenantId)
    yield* Effect.addFinalizer(() => {
      const upload = writing.state === "closed" ? null : writing.staged?.upload ?? null
      writing.state = "closed"
      // What is left behind is found by its age.
      return upload === null ? Effect.void : Effect.ignoreCause(rows(abandonStatement, [PgTypes.uuid(upload)]))
    })
    return {
      append: (bytes: Uint8Array) => writing.whileOpen(append(writing, bytes)),
      finish: writing.whileOpen(finish(writing))
    }
  })
}

const unusable = (why: string) => Effect.fail(new BlobUnavailable({ cause: new Error(why) }))
const removedMeanwhile = "the upload was idle for too long, and has been removed"

interface Reading {
  readonly upload: string
  readonly part: number
  readonly partsMax: number
  readonly bytes: Uint8Array | null
}

const read = (
  rows: Run,
  tenantId: TenantId,
  { sha256 }: BlobRef
): Stream.Stream<Uint8Array, BlobUnavailable | BlobMissing | BlobCorrupt> => {
  const named = [id(tenantId), PgTypes.text(sha256)]
  const begin = Effect.map(rows(readStatement, named), ([row]): Reading | null =>
    row === undefined
      ? null
      : {
          upload: row["upload_id"] as string, // a uuid
          part: 0,
          partsMax: Math.ceil(Number(row["size_bytes"]) / partSizeBytes),
          bytes: bytesOf(row)
        }
  )
  const next = ({ upload, part, partsMax }: Reading) =>
    Effect.map(rows(readPartStatement, [PgTypes.uuid(upload), PgTypes.int4(part)]), ([row]): Reading => ({
      upload,
      part,
      partsMax,
      bytes: row === undefined ? null : bytesOf(row)
    }))
  /** A part is not there: somebody has removed the blob meanwhile, or has broken it. */
  const missing = (upload: string) =>
    Effect.flatMap(rows(readStatement, named), ([row]) =>
      Effect.fail(row?.["upload_id"] === upload ? new BlobCorrupt({ sha256 }) : new BlobMissing({ sha256 }))
    )

  return Stream.suspend(() => {
    const hash = createHash("sha256")
    let reading: Reading | null = null
    return Stream.unfold(0, (part: number) =>
      Effect.flatMap(reading === null ? begin : part < reading.partsMax ? next({ ...reading, part }) : Effect.succeed(reading), (found) => {
        reading = found
        if (found === null) return Effect.fail(new BlobMissing({ sha256 }))
        if (part >= found.partsMax) return hash.digest("hex") === sha256 ? Effect.undefined : Effect.fail(new BlobCorrupt({ sha256 }))
        if (found.bytes === null) return missing(found.upload)
        hash.update(found.bytes)
        return Effect.succeed([found.bytes, part + 1] as const)
      })
    ).pipe(Stream.buffer({ capacity: 0 }))
  })
}

/**
 * What the driver has received is written once, so a large part is handed on as it lies there; of a small one all that lies
 * beside it would be kept as long as its reader keeps it.
 */
const bytesOf = ({ bytes }: Row): Uint8Array | null => {
  if (!(bytes instanceof Uint8Array)) return null
  return bytes.length >= partSizeBytes / 2 ? bytes : Uint8Array.from(bytes)
}

/** Few at a time: an upload may have some hundred parts. */
const removeAbandoned = (rows: Run) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    rows(removeAbandonedStatement, [int8(now - abandonedAfter), PgTypes.int8(BigInt(abandonedMax))]).pipe(
      Effect.repeat({ until: (removed) => removed.length < abandonedMax })
    )
  )

const abandonedMax = 10

// Parts are looked up by their upload, also by a plan that was made while there were hardly any: it would join them all.

/** Parts do not wait for the disk: the commit that finishes a blob waits for all that was written before it. */
const unhurried = "(select set_config('synchronous_commit', 'off', true)) as unhurried"
const beginStatement = `
  with upload as (insert into mailroom.blob_upload (id, touched_ms) values (gen_random_uuid(), $1) returning id)
  insert into mailroom.blob_part (upload_id, part, bytes) select id, 0, $2 from upload, ${unhurried} returning upload_id`
const stageStatement = `
  with upload as (update mailroom.blob_upload set touched_ms = $2 where id = $1 returning id)
  insert into mailroom.blob_part (upload_id, part, bytes) select id, $3, $4 from upload, ${unhurried} returning upload_id`
const abandonStatement = `
  with upload as (delete from mailroom.blob_upload where id = $1 returning id)
  delete from mailroom.blob_part where upload_id = any(array(select id from upload))`
const removeAbandonedStatement = `
  with upload as (
    delete from mailroom.blob_upload where id = any(array(
      select id from mailroom.blob_upload where touched_ms < $1 limit $2 for update skip locked
    )) returning id
  ), parts as (delete from mailroom.blob_part where upload_id = any(array(select id from upload)))
  select id from upload`
/** The copy that is there already stays, and its readers with it. */
const putBlob = `
  insert into mailroom.blob (tenant_id, sha256, upload_id, size_bytes, written_ms) select $1, $2, id, $3, $4 from upload
  on conflict ${putAgain} returning upload_id`
const finishStagedStatement = `
  with upload as (delete from mailroom.blob_upload where id = $6 returning id), put as (${putBlob}), rest as (
    insert into mailroom.blob_part (upload_id, part, bytes)
    select id, $7, $5 from upload, put where put.upload_id = upload.id and length($5) > 0
  ), twice as (
    delete from mailroom.blob_part
    where upload_id = any(array(select upload.id from upload, put where put.upload_id <> upload.id))
  )
  select from put`
const readStatement = `
  select blob.upload_id, blob.size_bytes, part.bytes from mailroom.blob
  left join lateral (select bytes from mailroom.blob_part where upload_id = blob.upload_id and part = 0 offset 0) part on true
  where blob.tenant_id = $1 and blob.sha256 = $2`
const readPartStatement = "select bytes from mailroom.blob_part where upload_id = $1 and part = $2"
/** Of so many, which are old: the next old one may lie behind all that are young. */
const olderStatement = `
  select tenant_id, sha256, written_ms < $1 as is_old from mailroom.blob where (tenant_id, sha256) > ($2, $3)
  order by tenant_id, sha256 limit $4`
const removeStatement = `
  with gone as (delete from mailroom.blob where tenant_id = $1 and sha256 = $2 and written_ms < $3 returning upload_id)
  delete from mailroom.blob_part where upload_id = any(array(select upload_id from gone))`
