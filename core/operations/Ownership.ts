/** Ownership, checked again inside each operation: absent and somebody else's are one answer (Spec 5, point 5). */
import { Data, Effect } from "effect"
import type { Attachment } from "../model/Attachment.ts"
import type { AttachmentId, MailboxId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import type { Store, StoreUnavailable } from "../ports/Store.ts"
import type { Principal } from "./Access.ts"

/** 404. `field` names the member of the input that points nowhere; null when the path does. */
export class NotFound extends Data.TaggedError("NotFound")<{ readonly field: string | null }> {
  override get message(): string {
    return this.field === null
      ? "There is no such resource, or it is not yours. Check the id, and that the key is of the right environment."
      : `${this.field} names nothing of yours. Check the id, and that the key is of the right environment.`
  }
}

/** A mailbox of the caller's tenant. */
export const mailbox = Effect.fnUntraced(function* (
  store: typeof Store.Service,
  principal: Principal,
  id: MailboxId,
  field: string
): Effect.fn.Return<Mailbox, NotFound | StoreUnavailable> {
  const found = yield* store.mailboxes.get(principal.realm.tenantId, id)
  return found ?? (yield* new NotFound({ field }))
})

/** Attachments of the caller's realm and of one mailbox, each once, in the order asked for. */
export const attachments = Effect.fnUntraced(function* (
  store: typeof Store.Service,
  principal: Principal,
  mailboxId: MailboxId,
  ids: ReadonlyArray<AttachmentId>
): Effect.fn.Return<ReadonlyArray<Attachment>, NotFound | StoreUnavailable> {
  const wanted = [...new Set(ids)]
  if (wanted.length === 0) return []
  const found = yield* store.attachments.many(principal.realm, wanted)
  if (found.length < wanted.length || found.some((attachment) => attachment.mailboxId !== mailboxId)) {
    return yield* new NotFound({ field: "attachmentIds" })
  }
  return found
})
