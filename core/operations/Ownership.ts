/** Ownership, checked again inside each operation: absent and somebody else's are one answer (Spec 5, point 5). */
import { Data, Effect } from "effect"
import type { Attachment } from "../model/Attachment.ts"
import type { AttachmentId, MailboxId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import type { Store, StoreUnavailable } from "../ports/Store.ts"
import type { Principal } from "./Access.ts"

/** 404. `field` names the member of the input that points nowhere; null when the path does. */
export class NotFound extends Data.TaggedError("NotFound")<{
  readonly field: string | null
  /** Which one, where the member is a list. */
  readonly index?: number
  /** What it is, and what to do, where it names something of the caller's that does not belong here. */
  readonly fault?: string
}> {
  override get message(): string {
    const where = this.index === undefined ? this.field : `${this.field}, at index ${this.index},`
    if (this.fault !== undefined) return `${where} ${this.fault}.`
    const what = this.field === null ? "There is no such resource, or it is not yours." : `${where} names nothing of yours.`
    return `${what} Check the id, and that the key is of the right environment, and for webhooks of the right application.`
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

const elsewhere = "is a file of another mailbox. Upload it for the one that sends"

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
  const own = new Set(found.filter((attachment) => attachment.mailboxId === mailboxId).map(({ id }) => id))
  const index = ids.findIndex((id) => !own.has(id))
  if (index < 0) return found
  const isElsewhere = found.some(({ id }) => id === ids[index])
  return yield* new NotFound({ field: "attachmentIds", index, ...(isElsewhere && { fault: elsewhere }) })
})
