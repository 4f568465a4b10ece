/** Sending, reading and flagging messages (Spec 4). */
import { Clock, Context, Effect, Layer, Schema } from "effect"
import * as Cursor from "../model/Cursor.ts"
import * as Events from "../model/Event.ts"
import type { IdempotencyKey } from "../model/IdempotencyKey.ts"
import { MailboxId, type EventId, type MessageId } from "../model/Ids.ts"
import * as Message from "../model/Message.ts"
import * as MessageView from "../model/MessageView.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"
import { actorOf, auditEntry, type Principal } from "./Access.ts"
import { changeRecord, commit } from "./Commit.ts"
import * as Ownership from "./Ownership.ts"
import { NotFound } from "./Ownership.ts"
import * as Sending from "./Sending.ts"

/** What `updateMessage` takes (Spec 4, UpdateMessageInput). */
export const UpdateMessageInput = Schema.Struct({
  mailboxId: MailboxId,
  isRead: Schema.optionalKey(Schema.Boolean),
  isStarred: Schema.optionalKey(Schema.Boolean),
  folder: Schema.optionalKey(Message.Folder)
}).check(
  Schema.makeFilter((input) =>
    input.isRead === undefined && input.isStarred === undefined && input.folder === undefined
      ? "give at least one of isRead, isStarred and folder"
      : true
  )
)
export type UpdateMessageInput = typeof UpdateMessageInput.Type

/** A page of summaries, newest first (Spec 2, Message page). */
export const MessagePage = Schema.Struct({
  items: Schema.Array(MessageView.Summary),
  nextCursor: Schema.NullOr(Schema.String.annotate({ format: "date-time" }))
})

export class Messages extends Context.Service<
  Messages,
  {
    /**
     * Queues a message (Spec 4, sendMessage): one commit, or a refusal that leaves nothing. A repeat with the same key and
     * an equal input is answered with the first one's id. `StoreUnavailable`: nobody knows; repeat it with the same key.
     */
    readonly send: (
      principal: Principal,
      idempotencyKey: IdempotencyKey,
      input: Sending.SendMessageInput
    ) => Effect.Effect<Sending.Sent, Sending.SendRefusal | StoreUnavailable>
    /** A page, newest first, behind `cursor`; of one mailbox, if it is given (Spec 4, listMessages). */
    readonly list: (
      principal: Principal,
      query: { readonly limit: number; readonly cursor: string | null; readonly mailboxId: MailboxId | null }
    ) => Effect.Effect<typeof MessagePage.Type, Cursor.InvalidCursor | NotFound | StoreUnavailable>
    /** The whole message (Spec 4, getMessage); `NotFound` outside the caller's realm. */
    readonly get: (
      principal: Principal,
      id: MessageId
    ) => Effect.Effect<{ readonly message: typeof MessageView.Detail.Type }, NotFound | StoreUnavailable>
    /** Sets flags and folder, and says so in `message.updated` (Spec 4, updateMessage). */
    readonly update: (
      principal: Principal,
      id: MessageId,
      input: UpdateMessageInput
    ) => Effect.Effect<{ readonly id: MessageId; readonly updated: true }, NotFound | StoreUnavailable>
  }
>()("mailroom/core/operations/Messages") {
  static readonly layer = Layer.effect(
    Messages,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const send = Sending.make(store, queue, crypto)

      const list = Tracing.fn("Messages.list")(function* (
        principal: Principal,
        query: { readonly limit: number; readonly cursor: string | null; readonly mailboxId: MailboxId | null }
      ) {
        const before = query.cursor === null ? null : yield* Effect.fromResult(Cursor.parseMessages(query.cursor))
        if (query.mailboxId !== null) yield* Ownership.mailbox(store, principal, query.mailboxId, "mailboxId")
        const { limit, mailboxId } = query
        const found = yield* store.messages.page(principal.realm, { mailboxId, before, limit: limit + 1 })
        const shown = found.slice(0, limit)
        return {
          items: shown.map(MessageView.summary),
          nextCursor: found.length > limit ? Cursor.formatMessages(shown[limit - 1]!.createdAt) : null
        }
      })

      const get = Tracing.fn("Messages.get")(function* (principal: Principal, id: MessageId) {
        const message = yield* store.messages.get(principal.realm, id)
        const content = message === null ? null : yield* store.messages.content(principal.realm, id)
        if (message === null || content === null) return yield* new NotFound({ field: null })
        const attachments =
          message.attachmentIds.length === 0 ? [] : yield* store.attachments.many(principal.realm, message.attachmentIds)
        return { message: MessageView.detail(message, Message.contentOf(message, content), attachments) }
      })

      const updateOnce = Effect.fnUntraced(function* (principal: Principal, id: MessageId, input: UpdateMessageInput) {
        const mailbox = yield* Ownership.mailbox(store, principal, input.mailboxId, "mailboxId")
        const message = yield* store.messages.get(principal.realm, id)
        if (message === null) return yield* new NotFound({ field: null })
        if (message.mailboxId !== mailbox.id) {
          const fault = "is not the mailbox that the message is in. Give the one that the message names"
          return yield* new NotFound({ field: "mailboxId", fault })
        }
        const now = yield* Clock.currentTimeMillis
        const { changed, updated } = Message.flag(message, input, now)
        const eventId: EventId = yield* crypto.uuid
        const event = Events.ofMessage(updated, updated.eventSequence, "message.updated", eventId, now, {
          isRead: updated.isRead,
          isStarred: updated.isStarred,
          folder: updated.folder,
          changed,
          actor: actorOf(principal)
        })
        yield* commit(
          store,
          queue,
          [
            { _tag: "Update", kind: "message", record: updated },
            { _tag: "AppendEvent", event },
            { _tag: "AppendAudit", entry: auditEntry(principal, yield* crypto.uuid, now, "message.update", id) }
          ],
          []
        )
        return { id, updated: true } as const
      })

      const update = Tracing.fn("Messages.update")(function* (principal: Principal, id: MessageId, input: UpdateMessageInput) {
        return yield* changeRecord(id, updateOnce(principal, id, input))
      })

      return Messages.of({ send, list, get, update })
    })
  )
}
