/**
 * From taken to received: reads the stored message, keeps its attachments,
 * and commits what was found with the event `message.received`, once.
 *
 * The bytes of attachments are stored before the commit, which the message's
 * version fences: a crash anywhere repeats the reading, and nothing else. A
 * message that cannot be read is received all the same, with a defect.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Stream } from "effect"
import { ofMessage } from "../model/Event.ts"
import * as Inbound from "../model/Inbound.ts"
import type { AttachmentId, EventId, MessageId, TenantId } from "../model/Ids.ts"
import type { Message } from "../model/Message.ts"
import type { ParsedAttachment, ParsedMessage } from "../model/ParsedMessage.ts"
import { scanJob } from "../operations/Attachments.ts"
import { changing, commit, dieOnRejection, offer } from "../operations/Commit.ts"
import { parseJob } from "../operations/Receive.ts"
import { BlobStore, blobUnanswered, type BlobUnavailable } from "../ports/BlobStore.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { Mime } from "../ports/Mime.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { RecordReport } from "./RecordReport.ts"
import { claimsMax } from "./SubmitMessage.ts"

/** A reading that takes longer is no better than none; far beyond what the port allows itself. */
const parseTimeout = Duration.minutes(2)
/** Blobs of which no piece comes for so long, or that take longer to keep a file, are away: no fault of the message. */
const [pieceTimeout, keepTimeout] = [Duration.minutes(1), Duration.minutes(2)]

/** What a message was found to be; null: it could not be read. */
type Found = { readonly parsed: ParsedMessage; readonly stored: ReadonlyArray<Inbound.StoredAttachment> } | null

export class ParseMessage extends Context.Service<
  ParseMessage,
  {
    /** Parses the job's message, if it is due. True: its job ended with the commit. Fails only if a store does. */
    readonly handle: (lease: Lease) => Effect.Effect<boolean, StoreUnavailable | BlobUnavailable>
  }
>()("mailroom/core/jobs/ParseMessage") {
  static readonly layer = Layer.effect(
    ParseMessage,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const blobs = yield* BlobStore
      const mime = yield* Mime
      const crypto = yield* Crypto
      const reports = yield* RecordReport

      const handle = Effect.fn("ParseMessage.handle")(function* (lease: Lease) {
        const message = yield* store.messages.get(lease.job.realm, lease.job.subject as MessageId) // by its kind
        if (message === null || !Inbound.isUnparsed(message)) return false
        const now = yield* Clock.currentTimeMillis
        const dueAt = message.reception.nextParseAt ?? now
        if (dueAt > now) return yield* Effect.as(offer(queue, [parseJob(message, dueAt)]), false)
        const found = lease.claims >= claimsMax ? null : yield* read(message)
        if (found === null) yield* Effect.logWarning("a message could not be parsed; it is shown by its head")
        else yield* reports.ofMailbox(message, found.parsed)
        return yield* conclude(lease, message, found)
      })

      /** What it is, its attachments stored. A reader that breaks leaves the job to its lease, and comes to `claimsMax`. */
      const read = Effect.fnUntraced(function* (message: Message): Effect.fn.Return<Found, BlobUnavailable> {
        const parsed = message.mime === null ? Option.none() : yield* parseWithin(message, message.mime)
        if (Option.isNone(parsed)) return null
        const stored = yield* Effect.forEach(parsed.value.attachments, (part) =>
          Effect.timeoutOrElse(keep(message.tenantId, part), { duration: keepTimeout, orElse: blobUnanswered })
        )
        return { parsed: parsed.value, stored }
      })

      const parseWithin = (message: Message, blob: NonNullable<Message["mime"]>) =>
        mime.parse(answering(blobs.read(message.tenantId, blob))).pipe(
          Effect.timeoutOption(parseTimeout),
          Effect.catchTag(["BlobMissing", "BlobCorrupt"], (error) =>
            Effect.as(Effect.logError("the bytes of a message are not there", error), Option.none<ParsedMessage>())
          )
        )

      const keep = Effect.fnUntraced(function* (tenantId: TenantId, part: ParsedAttachment) {
        const writer = yield* blobs.writer(tenantId)
        yield* writer.append(part.bytes)
        const id = (yield* crypto.uuid) as AttachmentId // a UUID is any of them
        return { id, blob: yield* writer.finish, part } satisfies Inbound.StoredAttachment
      }, Effect.scoped)

      /** Commits what was found, unless another holder of this job has. */
      const concludeOnce = Effect.fnUntraced(function* (lease: Lease, id: MessageId, found: Found) {
        const current = yield* store.messages.get(lease.job.realm, id)
        if (current === null || !Inbound.isUnparsed(current)) return false
        const now = yield* Clock.currentTimeMillis
        const { message, changes, attachments } = changesOf(current, found, now)
        const event = ofMessage(
          message,
          message.eventSequence,
          "message.received",
          (yield* crypto.uuid) as EventId, // the same
          now,
          Inbound.receivedFields({ ...message, reception: message.reception ?? current.reception })
        )
        const { leaseEnded } = yield* commit(
          store,
          queue,
          [...changes, { _tag: "AppendEvent", event }],
          attachments.map((attachment) => scanJob(attachment, now)),
          lease
        )
        return leaseEnded
      })
      const conclude = (lease: Lease, { id }: Message, found: Found) => changing(id, concludeOnce(lease, id, found)).pipe(dieOnRejection)

      return ParseMessage.of({ handle })
    })
  )
}

/** A blob's bytes, for as long as they come. */
const answering = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E | BlobUnavailable> =>
  Stream.transformPull(bytes, (pull) =>
    Effect.succeed(Effect.timeoutOrElse(pull, { duration: pieceTimeout, orElse: blobUnanswered }))
  )

const changesOf = (current: Parameters<typeof Inbound.park>[0], found: Found, at: number) => {
  if (found === null) {
    const message = Inbound.park(current, at)
    const changes: ReadonlyArray<Change> = [{ _tag: "Update", kind: "message", record: message }]
    return { message, attachments: [], changes }
  }
  const { message, content, attachments } = Inbound.parse(current, found.parsed, found.stored, at)
  const { tenantId, environment, id } = message
  const changes: ReadonlyArray<Change> = [
    { _tag: "Update", kind: "message", record: message },
    { _tag: "PutContent", realm: { tenantId, environment }, messageId: id, content },
    ...attachments.map((record) => ({ _tag: "Insert", kind: "attachment", record }) as const)
  ]
  return { message, attachments, changes }
}
