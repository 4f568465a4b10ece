/**
 * Takes mail in: what an SMTP or LMTP listener asks of the core. Nothing is
 * acknowledged before its commit, and no mail is ever relayed.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Stream } from "effect"
import * as Metrics from "../Metrics.ts"
import type { BlobRef } from "../model/Blob.ts"
import { plainOf } from "../model/ClientAddress.ts"
import type { MessageId, Millis, RequestId, TenantId } from "../model/Ids.ts"
import * as Inbound from "../model/Inbound.ts"
import * as Limits from "../model/Limits.ts"
import { LocalLimiter } from "../model/LocalLimiter.ts"
import type { Message } from "../model/Message.ts"
import type { Head } from "../model/ParsedMessage.ts"
import { ofAuthorShown, type Authentication, type Peer } from "../model/Reception.ts"
import * as Trace from "../model/Trace.ts"
import { BlobStore, type BlobUnavailable } from "../ports/BlobStore.ts"
import { Crypto } from "../ports/Crypto.ts"
import { jobOf, JobQueue, type Job } from "../ports/JobQueue.ts"
import { MailAuthenticator } from "../ports/MailAuthenticator.ts"
import { Mime } from "../ports/Mime.ts"
import { SpamFilter } from "../ports/SpamFilter.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { Settings } from "../Settings.ts"
import * as Tracing from "../Tracing.ts"
import { commit, dieOnRejection, retryOnVersionMoved, unchanged } from "./Commit.ts"
import { takeIn, type MessageObject } from "./MessageObject.ts"
import * as Pieces from "./Pieces.ts"
import { RecordReport } from "./RecordReport.ts"
import * as Routing from "./Routing.ts"
import { refused, type Box, type ReceiveRefused } from "./Routing.ts"

export { ReceiveRefused } from "./Routing.ts"

/** A message whose commit had no answer is looked for during this time, with these pauses. */
const lookMax = Duration.seconds(20)
const lookPause = Duration.seconds(1)

/** A message as a listener gets it. */
export interface Arriving<E> {
  readonly peer: Peer
  readonly returnPath: string | null
  /** Each as given in RCPT TO; at least one. */
  readonly recipients: ReadonlyArray<string>
  /** The message with CRLF line ends, transparency undone; read once. */
  readonly bytes: Stream.Stream<Uint8Array, E>
}

export class Receive extends Context.Service<
  Receive,
  {
    /**
     * Whether mail to this RCPT TO is taken: a mailbox of a domain that receives, with or without a `+tag`; the domain's
     * catch-all; this host's postmaster; or the signed Return-Path of a message of ours. Else refused: 550 5.1.1 unknown
     * mailbox, 550 5.7.1 a domain that is not ours (no relay), 550 5.2.1 suspended, 553 5.1.3 not an address that we read;
     * and 451 4.3.5 while the records of a domain that was verified are out of order.
     */
    readonly recipient: (address: string) => Effect.Effect<void, ReceiveRefused | StoreUnavailable>
    /**
     * Takes a message: stores the bytes of a large one as they come, authenticates its sender, and commits a row for each
     * mailbox (one, where several recipients lead to one mailbox), with the bytes of a small one. When it succeeds, every
     * recipient has its message; when it fails, nobody has. Refused: 550 5.7.1 by the sender's DMARC policy or as spam, and
     * 451 4.7.0 where that policy is to refuse and it cannot be told now whom the mail is from; 554 5.4.6 a loop, and what
     * `recipient` refuses; 451 4.3.0 where it refuses only some by now, for whoever comes again is told which; and 450 4.2.1
     * if one of the mailboxes has had as many messages within a minute as it takes (`inboundPerMinute`).
     */
    readonly accept: <E>(
      message: Arriving<E>
    ) => Effect.Effect<void, E | ReceiveRefused | StoreUnavailable | BlobUnavailable>
  }
>()("mailroom/core/operations/Receive") {
  static readonly layer = Layer.effect(
    Receive,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const blobs = yield* BlobStore
      const mime = yield* Mime
      const crypto = yield* Crypto
      const reports = yield* RecordReport
      const settings = yield* Settings
      const authenticator = Option.getOrNull(yield* Effect.serviceOption(MailAuthenticator))
      const spamFilter = Option.getOrNull(yield* Effect.serviceOption(SpamFilter))
      const route = Routing.make(store, crypto, settings)
      const known = new Routing.KnownBoxes()

      const recipient = Tracing.fn("Receive.recipient")(function* (address: string) {
        const destination = yield* route(address)
        if (destination._tag === "Box") known.remember(address, destination, yield* Clock.monotonicTimeNanos)
      })

      /** Where a message goes that is there: as it was told at RCPT, if it was a moment ago. */
      const destinationOf = (address: string): ReturnType<typeof route> =>
        Clock.clockWith((clock) => {
          const box = known.recall(address, clock.monotonicTimeNanosUnsafe())
          return box === null ? route(address) : Effect.succeed(box)
        })

      /** Where it goes for each recipient; refused for all of them at once, so never for good while some of them are taken. */
      const routed = Effect.fnUntraced(function* (recipients: ReadonlyArray<string>) {
        const outcomes = yield* Effect.forEach(
          new Set(recipients),
          (recipient) => Effect.catchTag(destinationOf(recipient), "ReceiveRefused", (refusal) => Effect.succeed(refusal)),
          { concurrency: 16 }
        )
        const destinations: Array<Routing.Destination> = []
        for (const outcome of outcomes) if (outcome._tag !== "ReceiveRefused") destinations.push(outcome)
        const refusal = outcomes.find((outcome) => outcome._tag === "ReceiveRefused")
        if (refusal === undefined) return destinations
        return yield* destinations.length === 0 ? refusal : refused(451, "4.3.0", "a recipient is not taken any more, try again")
      })

      const accept = Tracing.fn("Receive.accept")(function* <E>(given: Arriving<E>) {
        const peer = { ...given.peer, remoteAddress: plainOf(given.peer.remoteAddress) }
        const arriving = { ...given, peer, bytes: Pieces.ofStream(given.bytes) }
        const destinations = yield* routed(arriving.recipients)
        const returnPaths = new Set(destinations.flatMap((one) => (one._tag === "ReturnPath" ? [one.id] : [])))
        const [first, ...others] = eachMailboxOnce(destinations)
        if (first === undefined) return yield* report(returnPaths, arriving)

        const stored = yield* storeFirst(arriving, first.mailbox.tenantId)
        const again = { ...arriving, bytes: behind(stored.traceSize, stored.bytes) }
        const { authentication, folder } = yield* judge(again, stored.head.from)
        // What may be said twice comes first: a sender who gets no answer says all of it again.
        if (returnPaths.size > 0) yield* report(returnPaths, again)
        yield* guardMailboxes([first, ...others])
        const about = { peer: arriving.peer, returnPath: arriving.returnPath, authentication, folder } as const
        // What has moved since RCPT is looked at again, and so may refuse.
        let boxes: ReadonlyArray<Box> = [first, ...others]
        const taking = Effect.suspend(() => take(boxes, stored, about)).pipe(
          Effect.tapErrorTag("CommitRejected", () => {
            known.forget(arriving.recipients)
            return Effect.map(routed(arriving.recipients), (destinations) => (boxes = eachMailboxOnce(destinations)))
          })
        )
        yield* dieOnRejection(retryOnVersionMoved(taking))
      })

      /** What comes to Return-Paths of ours is read for what it reports, and not kept. */
      const report = Effect.fnUntraced(function* <E>(ids: ReadonlySet<MessageId>, { returnPath, bytes }: Arriving<E>) {
        const parsed = yield* mime.parse(beginning(bytes, Limits.reportBytesMax))
        if (Trace.isLoop(parsed.headers, settings.hostName)) return yield* looping
        yield* Effect.forEach(ids, (id) => reports.ofReturnPath(id, returnPath, parsed), { discard: true })
      })

      /** Takes the message in, behind our trace, if it does not go round in circles. */
      const storeFirst = Effect.fnUntraced(function* <E>({ peer, bytes }: Arriving<E>, tenantId: TenantId) {
        const requestId = yield* crypto.uuid
        const receivedAt = yield* Clock.currentTimeMillis
        const trace = Trace.received(peer, settings.hostName, requestId, receivedAt)
        const taken = yield* takeIn(blobs, tenantId, bytes, trace.length + Limits.inboundHeadBytesMax, trace)
        const head = yield* mime.readHead(taken.begins.subarray(trace.length))
        if (Trace.isLoop(head.headers, settings.hostName)) return yield* looping
        return { ...(yield* taken.keep), requestId, receivedAt, head, traceSize: trace.length } satisfies Stored
      }, Effect.scoped)

      /** Who it is from, and the folder that it belongs in. */
      const judge = Effect.fnUntraced(function* <E>({ peer, returnPath, recipients, bytes }: Arriving<E>, shown: Head["from"]) {
        const examined =
          authenticator === null ? null : yield* inTime("MailAuthenticator", authenticator.authenticate({ peer, returnPath, bytes }))
        const authentication = examined === null ? null : ofAuthorShown(examined, shown)
        const dmarc = authentication?.dmarc
        const policy = dmarc === "fail" || dmarc === "temperror" ? (authentication?.dmarcPolicy ?? null) : null
        if (policy === "reject" && settings.dmarcReject === "refuse") {
          const isTold = ![dmarc, authentication?.spf, authentication?.dkim].includes("temperror")
          return yield* isTold
            ? refused(550, "5.7.1", "the DMARC policy of the sender's domain asks to refuse this message")
            : refused(451, "4.7.0", "it cannot be told now whether the sender's domain, whose DMARC policy is to refuse, has sent this message")
        }
        const verdict =
          spamFilter === null
            ? null
            : yield* inTime("SpamFilter", spamFilter.judge({ peer, returnPath, recipients, bytes })).pipe(
                Effect.catchTag("SpamFilterUnavailable", (error) =>
                  Effect.as(Effect.logWarning("the spam filter is away; mail is taken as if there were none", error), null)
                )
              )
        if (verdict === "refuse") return yield* refused(550, "5.7.1", "the message is taken for spam")
        // Who cannot be asked about may be anybody: several authors, one that is written so as not to be understood, or one whose
        // domain's name servers do not answer, which a sender can choose.
        const isNobodys = dmarc === "permerror" || dmarc === "temperror"
        const isSpam = verdict === "spam" || policy === "quarantine" || policy === "reject" || isNobodys
        return { authentication, folder: isSpam ? "spam" : "inbox" } as const
      })

      const limiter = new LocalLimiter<"mailbox">()

      /** Who floods a mailbox is to come again: for all, or counted for none. Mail that is refused for what it is does not count. */
      const guardMailboxes = (boxes: ReadonlyArray<Box>) =>
        Clock.clockWith((clock) => {
          const limit = settings.inboundPerMinute
          const guards = boxes.map(({ mailbox }) => ({ scope: "mailbox", bucket: mailbox.id, limit, window: "minute" }) as const)
          const { refusedBy } = limiter.take(guards, clock.monotonicTimeNanosUnsafe(), clock.currentTimeMillisUnsafe())
          return refusedBy === null ? Effect.void : Effect.andThen(Metrics.count(Metrics.rateLimited.mailbox), flooded)
        })

      /** Commits a row for each mailbox, all at once. */
      const take = Effect.fnUntraced(function* (boxes: ReadonlyArray<Box>, stored: Stored, about: About) {
        const { requestId, receivedAt, head } = stored
        const blobOf = new Map<TenantId, BlobRef>()
        const messages: Array<Message> = []
        const changes: Array<Change> = boxes.flatMap(({ premises }) => premises)
        for (const { mailbox, address } of boxes) {
          const { tenantId } = mailbox
          let blob = blobOf.get(tenantId)
          if (blob === undefined) {
            const held = yield* stored.objectOf(tenantId)
            changes.push(...held.changes)
            blobOf.set(tenantId, (blob = held.blob))
          }
          const id: MessageId = yield* crypto.uuid
          const { message, content } = Inbound.take({
            ...about,
            requestId,
            receivedAt,
            head,
            blob,
            id,
            environment: settings.inboundEnvironment,
            mailbox,
            recipient: address
          })
          messages.push(message)
          changes.push({ _tag: "InsertMessage", message, content })
        }
        const [first] = messages
        if (first === undefined) return
        yield* commit(store, queue, changes, messages.map((message) => parseJob(message, stored.receivedAt))).pipe(
          // The answer may be lost, and not the commit: what stands tells.
          Effect.catchTag("StoreUnavailable", (error) =>
            Effect.flatMap(landed(first), (found) => (Option.isNone(found) ? Effect.fail(error) : Effect.void))
          ),
          Tracing.first(first.id, "message", {
            "mailroom.message_id": first.id,
            "mailroom.tenant_id": first.tenantId,
            "mailroom.environment": first.environment,
            "mailroom.request_id": first.requestId
          })
        )
        yield* Metrics.add(Metrics.messagesReceived[settings.inboundEnvironment], messages.length)
      })

      /**
       * Whether the commit has landed, which may be under way still though it was given up: the sender, who waits for minutes,
       * would bring the message again. What is read may have been called off before a standby had it, and be there all the
       * same: a commit behind it tells that it stands.
       */
      const landed = (message: Message) =>
        Effect.gen(function* () {
          for (;;) {
            const found = yield* Effect.catch(store.messages.get(message, message.id), () => Effect.succeed(null))
            if (found !== null && (yield* Effect.isSuccess(store.commit([unchanged("message", found)], [])))) return
            yield* Effect.sleep(lookPause)
          }
        }).pipe(Effect.timeoutOption(lookMax))

      return Receive.of({ recipient, accept })
    })
  )
}

/** A message that was taken in: our trace, and then what came. */
interface Stored extends MessageObject {
  readonly requestId: RequestId
  readonly receivedAt: Millis
  readonly head: Head
  /** Bytes of the trace. */
  readonly traceSize: number
}

interface About {
  readonly peer: Peer
  readonly returnPath: string | null
  readonly authentication: Authentication | null
  readonly folder: "inbox" | "spam"
}

const flooded = refused(450, "4.2.1", "the mailbox has had as many messages as it takes in a minute, try again later")
const looping = refused(554, "5.4.6", "the message goes round in circles")

/** Mailboxes, each by the first address that led to it. */
const eachMailboxOnce = (destinations: ReadonlyArray<Routing.Destination>): ReadonlyArray<Box> => {
  const boxes = new Map<string, Box>()
  for (const one of destinations) if (one._tag === "Box" && !boxes.has(one.mailbox.id)) boxes.set(one.mailbox.id, one)
  return [...boxes.values()]
}

/** A stream's first bytes; the others are read, and not kept. */
const beginning = <E>(bytes: Stream.Stream<Uint8Array, E>, count: number): Stream.Stream<Uint8Array, E> =>
  Stream.suspend(() => {
    let left = count
    return Stream.filter(
      Stream.map(bytes, (chunk) => {
        const kept = chunk.subarray(0, left)
        left -= kept.length
        return kept
      }),
      ({ length }) => length > 0
    )
  })

/** A stream without its first bytes. */
const behind = <E>(count: number, bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  Stream.suspend(() => {
    let left = count
    return Stream.filter(
      Stream.map(bytes, (chunk) => {
        const skipped = Math.min(left, chunk.length)
        left -= skipped
        return skipped === 0 ? chunk : chunk.subarray(skipped)
      }),
      ({ length }) => length > 0
    )
  })

/** How long we wait for somebody's opinion: three times as long as its port allows it. */
const opinionTimeout = Duration.seconds(30)

/** What somebody finds out, or null if it does not answer, or breaks. */
const inTime = <A, E>(who: string, self: Effect.Effect<A, E>): Effect.Effect<A | null, E> =>
  self.pipe(
    Effect.timeoutOption(opinionTimeout),
    Effect.map(Option.getOrNull),
    Effect.catchDefect((defect) => Effect.as(Effect.logError(`${who} broke`, defect), null))
  )

/** A look at an inbound message that is to be parsed when it is due. */
export const parseJob = (message: Message, dueAt: Millis): Job => jobOf("parse", message, dueAt)
