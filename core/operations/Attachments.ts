/**
 * Uploading and downloading attachments (Spec 4). Bytes are streamed to the
 * blob store as they arrive; the record is committed only when all of them and
 * the fields beside them are good, and an upload that ends badly leaves nothing,
 * or bytes that nothing refers to, which are swept.
 */
import { Clock, Context, Data, Effect, Layer, Schema, Stream, type Scope } from "effect"
import * as Attachment from "../model/Attachment.ts"
import { AttachmentId, MailboxId, type Millis } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import * as MessageView from "../model/MessageView.ts"
import type { BlobCorrupt, BlobMissing, BlobUnavailable, BlobWriter } from "../ports/BlobStore.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { Crypto } from "../ports/Crypto.ts"
import { jobOf, JobQueue, type Job } from "../ports/JobQueue.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"
import { auditEntry, type Principal } from "./Access.ts"
import { commit, dieOnRejection } from "./Commit.ts"
import { AttachmentNotClean } from "./Sending.ts"
import * as Ownership from "./Ownership.ts"
import { NotFound } from "./Ownership.ts"
import { Pieces } from "./Pieces.ts"

/** What comes beside the bytes (Spec 4, UploadAttachmentInput). */
export const UploadFields = Schema.Struct({
  mailboxId: MailboxId,
  filename: Attachment.Filename,
  mediaType: Attachment.MediaType
})
export type UploadFields = typeof UploadFields.Type

/** 413: more than 25 MB when decoded (Spec 7). */
export class AttachmentTooLarge extends Data.TaggedError("AttachmentTooLarge")<{ readonly limitBytes: number }> {
  override get message(): string {
    return `An attachment has at most ${this.limitBytes} bytes (25 MB) when decoded. Send a smaller file, or a link.`
  }
}

/** An upload under way. Nothing is kept unless `finish` succeeds. */
export interface Upload {
  readonly append: (bytes: Uint8Array) => Effect.Effect<void, AttachmentTooLarge | BlobUnavailable>
  readonly finish: (
    fields: UploadFields
  ) => Effect.Effect<typeof Attachment.View.Type, NotFound | BlobUnavailable | StoreUnavailable>
}

/** A clean attachment, its bytes yet to be read. */
export interface Download {
  readonly filename: string
  readonly mediaType: string
  readonly sizeBytes: number
  /** Fails at its end if the bytes are not those that were scanned; `NotFound`: it was removed meanwhile. */
  readonly bytes: Stream.Stream<Uint8Array, NotFound | StoreUnavailable | BlobUnavailable | BlobMissing | BlobCorrupt>
}

export class Attachments extends Context.Service<
  Attachments,
  {
    /** Opens an upload; closing the scope before `finish` discards it. */
    readonly begin: (principal: Principal) => Effect.Effect<Upload, BlobUnavailable, Scope.Scope>
    /** A whole upload (Spec 4, uploadAttachment). */
    readonly upload: <E>(
      principal: Principal,
      fields: UploadFields,
      bytes: Stream.Stream<Uint8Array, E>
    ) => Effect.Effect<typeof Attachment.View.Type, E | AttachmentTooLarge | NotFound | BlobUnavailable | StoreUnavailable>
    /** Only when the scan is clean (Spec 4, downloadAttachment). */
    readonly download: (
      principal: Principal,
      id: AttachmentId
    ) => Effect.Effect<Download, NotFound | AttachmentNotClean | StoreUnavailable>
  }
>()("mailroom/core/operations/Attachments") {
  static readonly layer = Layer.effect(
    Attachments,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const blobs = yield* BlobStore
      const crypto = yield* Crypto

      const finish = Effect.fn("Attachments.finish")(function* (principal: Principal, writer: BlobWriter, fields: UploadFields) {
        const mailbox = yield* Ownership.mailbox(store, principal, fields.mailboxId, "mailboxId")
        const blob = yield* writer.finish
        const now = yield* Clock.currentTimeMillis
        const attachment: Attachment.Attachment = {
          id: yield* crypto.uuid,
          tenantId: principal.realm.tenantId,
          environment: principal.realm.environment,
          version: 1,
          mailboxId: mailbox.id,
          messageId: null,
          filename: fields.filename,
          mediaType: fields.mediaType,
          blob,
          disposition: "attachment",
          contentId: null,
          scanState: "pending",
          scanErrors: 0,
          nextScanAt: now,
          scannedAt: null,
          createdAt: now,
          expiresAt: now + Limits.unusedAttachmentRetention,
          usedAt: null
        }
        yield* commit(
          store,
          queue,
          [
            { _tag: "Insert", kind: "attachment", record: attachment },
            {
              _tag: "AppendAudit",
              entry: auditEntry(principal, yield* crypto.uuid, now, "attachment.upload", attachment.id)
            }
          ],
          [scanJob(attachment, now)]
        ).pipe(
          dieOnRejection,
          Tracing.first(attachment.id, "attachment", {
            "mailroom.attachment_id": attachment.id,
            "mailroom.tenant_id": attachment.tenantId,
            "mailroom.environment": attachment.environment,
            "mailroom.request_id": principal.requestId
          })
        )
        return MessageView.attachment(attachment)
      })

      const begin = Effect.fn("Attachments.begin")(function* (principal: Principal) {
        const writer = yield* blobs.writer(principal.realm.tenantId)
        const pieces = new Pieces()
        let received = 0

        const write = (ready: ReadonlyArray<Uint8Array>) => Effect.forEach(ready, writer.append, { discard: true })
        const append = (bytes: Uint8Array): Effect.Effect<void, AttachmentTooLarge | BlobUnavailable> => {
          received += bytes.length
          return received > Limits.attachmentSizeBytesMax
            ? Effect.fail(new AttachmentTooLarge({ limitBytes: Limits.attachmentSizeBytesMax }))
            : write(pieces.add(bytes))
        }

        return {
          append,
          finish: (fields: UploadFields) => Effect.andThen(write(pieces.rest()), finish(principal, writer, fields))
        }
      })

      return Attachments.of({
        begin,

        upload: Effect.fnUntraced(function* (principal, fields, bytes) {
          const upload = yield* begin(principal)
          yield* Stream.runForEach(bytes, upload.append)
          return yield* upload.finish(fields)
        }, Effect.scoped),

        download: Effect.fn("Attachments.download")(function* (principal, id) {
          const attachment = yield* store.attachments.get(principal.realm, id)
          if (attachment === null) return yield* new NotFound({ field: null })
          const { scanState, filename, mediaType, blob } = attachment
          if (scanState !== "clean") return yield* new AttachmentNotClean({ attachmentId: id, scanState })
          const missing = (error: BlobMissing) =>
            Effect.flatMap(store.attachments.get(principal.realm, id), (kept) => Effect.fail(kept === null ? new NotFound({ field: null }) : error))
          const bytes = Stream.catchTag(blobs.read(principal.realm.tenantId, blob), "BlobMissing", (error) => Stream.fromEffect(missing(error)))
          return { filename, mediaType, sizeBytes: blob.sizeBytes, bytes }
        })
      })
    })
  )
}

/** A look at an attachment's scan when it is due. */
export const scanJob = (attachment: Attachment.Attachment, dueAt: Millis): Job => jobOf("scan", attachment, dueAt)
