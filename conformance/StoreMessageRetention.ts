/** Laws of messages and attachments that have a time: what goes with them, and what waits. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Micros, Millis, Realm } from "../core/model/Ids.ts"
import type { Message } from "../core/model/Message.ts"
import * as Fixtures from "./fixtures.ts"
import { forget, insert, insertMessage, land, law, next, ownAge, refusal, remove, submission, submissionRef, times, update } from "./StoreLaw.ts"
import { inbound, reception } from "./StoreReceiving.ts"

const microsOf = (at: Millis): Micros => BigInt(at) * 1000n

/** A message of which nothing is due, and nobody queued. */
export const settledAt = (realm: Realm, at: Millis, over: Partial<Message> = {}): Message => {
  const message = Fixtures.message(realm, { createdAt: microsOf(at), nextAttemptAt: null, ...over })
  return { ...message, recipients: message.recipients.map((recipient) => ({ ...recipient, status: "sent" })) }
}

export const messageRetention = [
  law("forgets a message with its content and its submissions, and nothing of those that stay", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      const [ref, shared, own] = [submissionRef(), submissionRef(), submissionRef()]
      const mime = { sha256: Fixtures.freshId<string>().replaceAll("-", "").repeat(2), sizeBytes: 1 }
      const old = settledAt(realm, age, { submissions: [submission(ref), submission(shared)], mime })
      const kept = settledAt(realm, age + 20, { mailboxId: old.mailboxId, submissions: [submission(shared), submission(own)] })
      yield* land(store, insertMessage(old), insertMessage(kept))

      assert.equal((yield* store.commit([forget("messages", age + 10)], [])).forgotten, 1)

      assert.deepEqual([yield* store.messages.get(realm, old.id), yield* store.messages.content(realm, old.id)], [null, null])
      assert.deepEqual([yield* store.messages.anywhere(old.id), yield* store.messages.outbound(realm, old.id)], [null, null])
      assert.equal(yield* store.messages.bySubmission(ref), null)
      for (const one of [shared, own]) assert.deepEqual(yield* store.messages.bySubmission(one), kept, "a name that was used twice is the last message's")
      assert.deepEqual(yield* store.messages.content(realm, kept.id), Fixtures.content(kept))
      for (const mailboxId of [null, old.mailboxId]) {
        assert.deepEqual(yield* store.messages.page(realm, { mailboxId, before: null, limit: 10 }), [kept])
      }
      assert.deepEqual(yield* store.blobs.referenced(realm.tenantId, [mime.sha256]), [])
      assert.deepEqual(yield* refusal(store, update("message", next(old))), { _tag: "VersionMoved", kind: "message", id: old.id })
    })
  ),
  law("orders what comes behind messages that were forgotten, as if they were there", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      yield* land(store, insertMessage(settledAt(realm, age + 5)))
      yield* land(store, forget("messages", age + 10))
      const late = settledAt(realm, age)

      yield* land(store, insertMessage(late))

      assert.equal((yield* store.messages.get(realm, late.id))?.createdAt, microsOf(age + 5) + 1n)
      yield* land(store, forget("messages", age + 10))
    })
  ),
  law("forgets a message to the microsecond, and none before its time", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      const message = settledAt(realm, age, { createdAt: microsOf(age) + 999n })
      yield* land(store, insertMessage(message))

      yield* land(store, forget("messages", age))
      assert.deepEqual(yield* store.messages.get(realm, message.id), message)
      yield* land(store, forget("messages", age + 1))
      assert.equal(yield* store.messages.get(realm, message.id), null)
    })
  ),
  ...(["submit", "poll", "parse"] as const).map((kind) =>
    law(`keeps a message of whatever age for which a job is due (${kind}), and forgets it with the others once none is`, (store) =>
      Effect.gen(function* () {
        const age = ownAge()
        const realm = Fixtures.realm()
        const settled = kind === "parse" ? inbound(realm, { createdAt: microsOf(age) }) : settledAt(realm, age)
        const waiting: Message =
          kind === "submit"
            ? { ...settled, nextAttemptAt: age + 1 }
            : kind === "poll"
              ? { ...settled, submissions: [submission(submissionRef(), { pollAt: age + 1 })] }
              : { ...settled, reception: reception({ nextParseAt: age + 1 }) }
        const other = settledAt(realm, age + 5)
        yield* land(store, insertMessage(waiting), insertMessage(other))

        yield* land(store, forget("messages", age + 10))

        assert.deepEqual([yield* store.messages.get(realm, waiting.id), yield* store.messages.get(realm, other.id)], [waiting, null])
        yield* land(store, update("message", next(settled)))
        yield* land(store, forget("messages", age + 10))
        assert.equal(yield* store.messages.get(realm, waiting.id), null)
      })
    )
  ),
  law("counts no message that waits, and no attachment that one uses, among those that it forgets at most", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      const used = times(4, () => Fixtures.attachment(realm, { messageId: Fixtures.freshId(), usedAt: age }))
      const waiting = used.slice(1).map(({ id }) => Fixtures.message(realm, { createdAt: microsOf(age), nextAttemptAt: age + 1, attachmentIds: [id] }))
      const settled = settledAt(realm, age + 5)
      yield* land(store, ...used.map((attachment) => insert("attachment", attachment)), ...[...waiting, settled].map((message) => insertMessage(message)))
      const late = next(used[0]!, { usedAt: age + 5 })
      yield* land(store, update("attachment", late))

      for (const what of ["messages", "attachments"] as const) {
        assert.equal((yield* store.commit([forget(what, age + 10, 2)], [])).forgotten, 1, what)
      }
      assert.deepEqual([yield* store.messages.get(realm, settled.id), yield* store.attachments.get(realm, late.id)], [null, null])
    })
  ),
  law("keeps an attachment that no message used, and what a message with a queued recipient uses", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      const sha256 = Fixtures.freshId<string>().replaceAll("-", "").repeat(2)
      const used = Fixtures.attachment(realm, { messageId: Fixtures.freshId(), usedAt: age, blob: { sha256, sizeBytes: 1 } })
      const upload = Fixtures.attachment(realm, { expiresAt: age })
      const message = Fixtures.message(realm, { createdAt: microsOf(age), attachmentIds: [used.id] })
      yield* land(store, insert("attachment", used), insert("attachment", upload), insertMessage(message))
      const left = Effect.map(store.attachments.many(realm, [used.id, upload.id]), (found) => found.map(({ id }) => id))

      yield* land(store, forget("attachments", age + 10))
      assert.deepEqual(yield* left, [used.id, upload.id])
      yield* land(store, update("message", { ...settledAt(realm, age, message), version: 2, nextAttemptAt: null }))
      yield* land(store, forget("attachments", age + 10))

      assert.deepEqual(yield* left, [upload.id])
      assert.deepEqual(yield* store.blobs.referenced(realm.tenantId, [sha256]), [])
      assert.deepEqual(yield* refusal(store, update("attachment", next(used))), { _tag: "VersionMoved", kind: "attachment", id: used.id })
      yield* land(store, remove("attachment", upload), forget("messages", age + 10))
    })
  ),
  law("tells when an attachment was used last, and forgets it by the time of its last use", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const attachment = Fixtures.attachment(Fixtures.realm(), { messageId: Fixtures.freshId(), usedAt: age })
      const again = next(attachment, { usedAt: age + 20 })
      yield* land(store, insert("attachment", attachment), update("attachment", again))

      yield* land(store, forget("attachments", age + 20))
      assert.deepEqual(yield* store.attachments.get(attachment, attachment.id), again)
      yield* land(store, forget("attachments", age + 21))
      assert.equal(yield* store.attachments.get(attachment, attachment.id), null)
    })
  )
]
