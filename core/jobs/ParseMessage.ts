/**
 * From taken to received: reads the stored message, keeps its attachments,
 * and commits what was found with the event `message.received`, once.
 *
 * The bytes of attachments are stored before the commit, or small ones with it;
 * the message's version fences it: a crash anywhere repeats the reading, and
 * nothing else. A message that cannot be read is received all the same, with a
 * defect.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Semaphore, Stream } from "effect"
import { ofMessage } from "../model/Event.ts"
import * as Inbound from "../model/Inbound.ts"
import type { MessageId } from "../model/Ids.ts"
import { claimsMax, largeMessageBytes } from "../model/Limits.ts"
import type { Message } from "../model/Message.ts"
import type { ParsedMessage } from "../model/ParsedMessage.ts"
import { scanJob } from "../operations/Attachments.ts"
import { changeAsRead, commit } from "../operations/Commit.ts"
import { RecordReport } from "../operations/RecordReport.ts"
import { BlobStore, blobUnanswered, enclosedAtOnce, enclosedMax, type BlobUnavailable, type Enclosed } from "../ports/BlobStore.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { Mime } from "../ports/Mime.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"

/** A reading that takes longer is no better than none; far beyond what the port allows itself. */
const parseTimeout = Duration.minutes(2)
/** Blobs of which no piece comes for so long, or that take longer to keep a file, are away: no fault of the message. */
const [pieceTimeout, keepTimeout] = [Duration.minutes(1), Duration.minutes(2)]

/** What a message was found to be, with what its commit has to bring; null: it could not be read. */
type Found = {
  readonly parsed: ParsedMessage
  readonly stored: ReadonlyArray<Inbound.StoredAttachment>
  readonly blobs: Enclosed["changes"]
} | null

export class ParseMessage extends Context.Service<
  ParseMessage,
  {
    /** Parses the job's message, unless that is done. True: its job ended with the commit. Fails only if a store does. */
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

      const handle = Tracing.fn("ParseMessage.handle")(function* (lease: Lease) {
        const message = yield* store.messages.get(lease.job.realm, lease.job.subject as MessageId) // by its kind
        if (message === null || !Inbound.isUnparsed(message)) return false
        return yield* large.withPermits(message.sizeBytes > largeMessageBytes ? 1 : 0)(parse(lease, message))
      })

      /**
       * While a message is read it is held as it came and as it is decoded, with all files that are in it. Only one large one is
       * read at a time, so that a worker's memory does not depend on what comes in at once; small ones go by.
       */
      const large = Semaphore.makeUnsafe(1)
      const parse = Effect.fnUntraced(function* (lease: Lease, message: Message) {
        const found = lease.claims >= claimsMax ? null : yield* read(message)
        if (found === null) yield* Effect.logWarning("a message could not be parsed; it is shown by its head")
        else yield* reports.ofMailbox(message, found.parsed)
        return yield* conclude(lease, message, found)
      })

      /** What it is, its attachments stored. A reader that breaks leaves the job to its lease, and comes to `claimsMax`. */
      const read = Effect.fnUntraced(function* (message: Message): Effect.fn.Return<Found, BlobUnavailable> {
        const parsed = message.mime === null ? Option.none() : yield* parseWithin(message, message.mime)
        if (Option.isNone(parsed)) return null
        const stored: Array<Inbound.StoredAttachment> = []
        const changes: Array<Enclosed["changes"][number]> = []
        let room = enclosedMax
        for (const part of parsed.value.attachments) {
          const isSmall = part.bytes.length <= room
          if (isSmall) room -= part.bytes.length
          const keep = isSmall ? blobs.enclose : keptAtOnce
          const kept = yield* Effect.timeoutOrElse(keep(message.tenantId, [part.bytes]), { duration: keepTimeout, orElse: blobUnanswered })
          changes.push(...kept.changes)
          stored.push({ id: yield* crypto.uuid, blob: kept.blob, part })
        }
        return { parsed: parsed.value, stored, blobs: changes }
      })

      const parseWithin = (message: Message, blob: NonNullable<Message["mime"]>) =>
        mime.parse(answering(blobs.read(message.tenantId, blob))).pipe(
          Effect.timeoutOption(parseTimeout),
          Effect.catchTag(["BlobMissing", "BlobCorrupt"], (error) =>
            Effect.as(Effect.logError("the bytes of a message are not there", error), Option.none<ParsedMessage>())
          )
        )

      const keptAtOnce = enclosedAtOnce(blobs.writer)

      /** Commits what was found, unless another holder of this job has. */
      const concludeOnce = Effect.fnUntraced(function* (lease: Lease, current: Message | null, found: Found) {
        if (current === null || !Inbound.isUnparsed(current)) return false
        const now = yield* Clock.currentTimeMillis
        const { message, changes, attachments } = changesOf(current, found, now)
        const event = ofMessage(
          message,
          message.eventSequence,
          "message.received",
          yield* crypto.uuid,
          now,
          Inbound.receivedFields(message)
        )
        const { leaseEnded } = yield* commit(
          store,
          queue,
          [...(found?.blobs ?? []), ...changes, { _tag: "AppendEvent", event }],
          attachments.map((attachment) => scanJob(attachment, now)),
          lease
        )
        return leaseEnded
      })
      const conclude = (lease: Lease, message: Message, found: Found) =>
        changeAsRead(message, () => store.messages.get(lease.job.realm, message.id), (current) => concludeOnce(lease, current, found))

      return ParseMessage.of({ handle })
    })
  )
}

/** A blob's bytes, for as long as they come. */
const answering = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E | BlobUnavailable> =>
  Stream.transformPull(bytes, (pull) =>
    Effect.succeed(Effect.timeoutOrElse(pull, { duration: pieceTimeout, orElse: blobUnanswered }))
  )

const changesOf = (current: Inbound.InboundMessage, found: Found, at: number) => {
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
