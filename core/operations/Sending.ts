/**
 * Accepting a message (Spec 4, sendMessage). A 202 means that one commit holds
 * the message, its audit entry, its idempotency reservation, its share of the
 * plan and its `message.queued` event; a refusal leaves none of them.
 */
import { Clock, Data, Effect, Schema } from "effect"
import { AddressFromString } from "../model/Address.ts"
import * as Attachments from "../model/Attachment.ts"
import type { Attachment } from "../model/Attachment.ts"
import * as Events from "../model/Event.ts"
import { canonical, type IdempotencyKey, type Reservation } from "../model/IdempotencyKey.ts"
import { AttachmentId, MailboxId, MessageId, type ApplicationId, type Millis } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import { isVerified, type Health, type MailDomain } from "../model/MailDomain.ts"
import * as Message from "../model/Message.ts"
import * as Recipient from "../model/Recipient.ts"
import * as Timestamp from "../model/Timestamp.ts"
import type { Crypto } from "../ports/Crypto.ts"
import { jobOf, type Job, type JobQueue } from "../ports/JobQueue.ts"
import { CommitRejected, type Change, type Rejection, type Store } from "../ports/Store.ts"
import * as Metrics from "../Metrics.ts"
import * as Tracing from "../Tracing.ts"
import { auditEntry, type Principal } from "./Access.ts"
import { commit, dieOnRejection, isRejected, retryOnVersionMoved } from "./Commit.ts"
import * as Ownership from "./Ownership.ts"
import { NotFound } from "./Ownership.ts"
import { Senders } from "./Senders.ts"

const addresses = Schema.Array(AddressFromString).check(
  Schema.isMaxLength(Limits.recipientsPerFieldMax, { expected: `at most ${Limits.recipientsPerFieldMax} addresses` })
)

/** What has no more code units has no more code points: counting them one by one takes longer than all other checks together. */
const isMaxCharacters = (max: number) => {
  const counted = Schema.isMaxCodePoints(max, { expected: `at most ${max} characters` })
  const isShort = Schema.is(Schema.String.check(counted))
  return Schema.makeFilter((text: string) => text.length <= max || isShort(text), counted.annotations)
}

/** Line breaks would end the header, and control characters have no place in one. */
const Subject = Schema.String.check(
  isMaxCharacters(Limits.subjectLengthMax),
  Schema.isPattern(/^[^\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029]*$/, {
    expected: "one line without control characters"
  }),
  Schema.makeFilter((text: string) => text.isWellFormed() || "holds half of a character")
)

const body = (lengthMax: number) =>
  Schema.NullOr(Schema.String.check(isMaxCharacters(lengthMax), Limits.isStorable)).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null)))

/** What `sendMessage` takes (Spec 4, SendMessageInput). */
export const SendMessageInput = Schema.Struct({
  fromMailboxId: MailboxId,
  to: addresses.check(Schema.isMinLength(1, { expected: "at least 1 address" })),
  cc: addresses.pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  bcc: addresses.pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  subject: Subject.pipe(Schema.withDecodingDefaultKey(Effect.succeed(""))),
  text: body(Limits.textLengthMax),
  html: body(Limits.htmlLengthMax),
  attachmentIds: Schema.Array(AttachmentId)
    .check(Schema.isMaxLength(Limits.attachmentsPerMessageMax, { expected: `at most ${Limits.attachmentsPerMessageMax} attachments` }))
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))
}).check(
  Schema.makeFilter((input) =>
    input.text === null && input.html === null ? { path: ["text"], issue: "give at least one of text and html" } : true
  )
)
export type SendMessageInput = typeof SendMessageInput.Type

/** The answer to a send (Spec 2, Queued message; closed). */
export const QueuedMessage = Schema.Struct({
  id: MessageId,
  object: Schema.Literal("message"),
  status: Schema.Literal("queued")
})

/** 409. The idempotency key stands for another request. */
export class IdempotencyConflict extends Data.TaggedError("IdempotencyConflict")<{}> {
  override readonly message =
    "This Idempotency-Key was used for a different request. Repeat that request exactly, or use a new key for a new one."
}

/** 409. The first request with this idempotency key is still running. */
export class IdempotencyPending extends Data.TaggedError("IdempotencyPending")<{}> {
  override readonly message = "The first request with this Idempotency-Key is still running. Repeat this one in a second."
}

/** 409: an attachment's bytes may not be mailed or downloaded, now or ever. A message can have twenty, so it says which. */
export class AttachmentNotClean extends Data.TaggedError("AttachmentNotClean")<{
  readonly attachmentId: AttachmentId
  readonly scanState: Exclude<Attachments.State, "clean">
}> {
  override get message(): string {
    const next = {
      pending: "It is being scanned: try again in some seconds.",
      error: "Its scan failed and is tried again by itself: try later, or upload the file anew.",
      infected: "Malware was found in it. It stays locked: send without it."
    }[this.scanState]
    return `Attachment ${this.attachmentId} is not clean. ${next}`
  }
}

/** 400: an attachment of the message is infected. */
export class AttachmentInfected extends Data.TaggedError("AttachmentInfected")<{ readonly attachmentId: AttachmentId }> {
  override get message(): string {
    return `Malware was found in attachment ${this.attachmentId}. Send without it.`
  }
}

/** 409: the sending mailbox is out of use. */
export class MailboxSuspended extends Data.TaggedError("MailboxSuspended")<{}> {
  override readonly message = "The mailbox is suspended and cannot send. An operator can reinstate it."
}

/** 409: the mailbox's domain is at no health from which mail may be sent. */
export class DomainNotSendable extends Data.TaggedError("DomainNotSendable")<{ readonly health: Health }> {
  override get message(): string {
    return `The mailbox's domain may not send: it is ${this.health}. listDomains shows its health; set its DNS records or ask an operator.`
  }
}

/** 429. The plan's recipients of the day are used up. */
export class QuotaExceeded extends Data.TaggedError("QuotaExceeded")<{
  readonly limit: number
  readonly used: number
  readonly requested: number
  readonly retryAfterSeconds: number
}> {
  override get message(): string {
    return `The plan allows ${this.limit} recipients a day; ${this.used} are used and this message has ${this.requested}. The day ends at 00:00 UTC.`
  }
}

/** What a send came to. */
export interface Sent {
  readonly message: typeof QueuedMessage.Type
  /** True when an earlier request had sent it. */
  readonly replayed: boolean
}

/** Why a message is not accepted; nothing of it is kept. */
export type SendRefusal =
  | IdempotencyConflict
  | IdempotencyPending
  | NotFound
  | MailboxSuspended
  | DomainNotSendable
  | AttachmentInfected
  | AttachmentNotClean
  | QuotaExceeded

/** A send on its way, and the id that its message would have. */
interface Asked {
  readonly principal: Principal
  readonly idempotencyKey: IdempotencyKey
  readonly fingerprint: string
  readonly id: MessageId
  readonly input: SendMessageInput
}

/** Makes `Messages.send`. */
export const make = (store: typeof Store.Service, queue: typeof JobQueue.Service, crypto: typeof Crypto.Service) => {
  const senders = new Senders()
  const running = new Map<string, string>()

  /**
   * Makes a request, unless one with the same key is being made in this process: such a twin gets what stands, and else is
   * refused. Twins in other processes meet the store's unique key.
   */
  const alone = <A, E, R>(
    applicationId: ApplicationId,
    idempotencyKey: IdempotencyKey,
    fingerprint: string,
    use: Effect.Effect<A, E, R>,
    /** The one that is being made may itself be a repeat, of one that ended long ago. */
    whatStands: (otherwise: Effect.Effect<never, IdempotencyConflict | IdempotencyPending>) => Effect.Effect<A, E | IdempotencyConflict | IdempotencyPending, R>
  ): Effect.Effect<A, E | IdempotencyConflict | IdempotencyPending, R> => {
    const name = `${applicationId} ${idempotencyKey}`
    // Looked at, entered and left as one: no twin may come in between, and a caller who hangs up must not leave the key taken.
    return Effect.uninterruptibleMask((restore): Effect.Effect<A, E | IdempotencyConflict | IdempotencyPending, R> => {
      const first = running.get(name)
      if (first !== undefined) {
        return restore(whatStands(Effect.fail(first === fingerprint ? new IdempotencyPending() : new IdempotencyConflict())))
      }
      running.set(name, fingerprint)
      return Effect.ensuring(restore(use), Effect.sync(() => running.delete(name)))
    })
  }

  const answer = (reservation: Reservation, fingerprint: string, ownId: MessageId) =>
    reservation.fingerprint === fingerprint
      ? Effect.succeed<Sent>({
          message: { id: reservation.messageId, object: "message", status: "queued" },
          replayed: reservation.messageId !== ownId
        })
      : Effect.fail(new IdempotencyConflict())

  /** The mailbox's domain, if mail may be sent from it. */
  const checkSender = Effect.fnUntraced(function* (mailbox: Mailbox, domain: MailDomain | null) {
    if (mailbox.status !== "active") return yield* new MailboxSuspended()
    if (domain === null || !isVerified(domain.health)) return yield* new DomainNotSendable({ health: domain?.health ?? "pending" })
    return domain
  })

  const checkScans = Effect.fnUntraced(function* (attachments: ReadonlyArray<Attachment>) {
    const infected = attachments.find(({ scanState }) => scanState === "infected")
    if (infected !== undefined) return yield* new AttachmentInfected({ attachmentId: infected.id })
    const unscanned = attachments.find(({ scanState }) => scanState === "error")
    if (unscanned !== undefined) return yield* new AttachmentNotClean({ attachmentId: unscanned.id, scanState: "error" })
  })

  /** Commits the message of a sender who may send it, if these premises hold. */
  const queued = Effect.fnUntraced(function* (
    { principal, idempotencyKey, fingerprint, id, input }: Asked,
    now: Millis,
    mailbox: Mailbox,
    attachments: ReadonlyArray<Attachment>,
    premises: ReadonlyArray<Change>
  ) {
    const { message, content } = compose(principal, id, mailbox, attachments, input, now)
    const event = Events.ofMessage(message, 1, "message.queued", yield* crypto.uuid, now, {
      from: mailbox.address,
      to: addressesOf(message, "to"),
      cc: addressesOf(message, "cc"),
      subject: message.subject,
      attachmentIds: message.attachmentIds,
      requestId: principal.requestId
    })
    const changes: ReadonlyArray<Change> = [
      ...premises,
      {
        _tag: "Reserve",
        reservation: {
          applicationId: principal.applicationId,
          idempotencyKey,
          fingerprint,
          messageId: id,
          reservedAt: now,
          expiresAt: now + Limits.idempotencyRetention
        }
      },
      { _tag: "InsertMessage", message, content },
      ...attachments
        .map((attachment) => [attachment, Attachments.use(attachment, id, now)] as const)
        .filter(([before, after]) => before !== after)
        .map(([, record]): Change => ({ _tag: "Update", kind: "attachment", record })),
      { _tag: "AppendEvent", event },
      { _tag: "AppendAudit", entry: auditEntry(principal, yield* crypto.uuid, now, "message.send", id) },
      {
        _tag: "TakeQuota",
        tenantId: principal.realm.tenantId,
        day: Timestamp.utcDay(now),
        amount: message.recipients.length,
        limit: principal.plan.recipientsPerDay
      }
    ]
    yield* Effect.catchIf(
      commit(store, queue, changes, [submitJob(message, now)]),
      (error) => error instanceof CommitRejected,
      (error) => {
        const { reason } = error
        senders.wasRejected(mailbox.id, reason, now)
        return Effect.fail(reason._tag === "QuotaExceeded" ? quotaExceeded(reason, message.recipients.length, now) : error)
      }
    )
    return { message: { id, object: "message", status: "queued" }, replayed: false } satisfies Sent
  })

  /** One try at accepting: what is not known is read, and all is decided and committed at once. */
  const accept = Effect.fnUntraced(function* (asked: Asked) {
    const now = yield* Clock.currentTimeMillis
    const { principal, idempotencyKey, fingerprint, id, input } = asked
    const { applicationId, realm: { tenantId } } = principal
    const { fromMailboxId: mailboxId, attachmentIds } = input
    const sender = attachmentIds.length === 0 ? senders.recall(tenantId, mailboxId, now) : null
    if (sender !== null) return yield* queued(asked, now, sender.mailbox, [], sender.premises)

    const { reservation, mailbox, domain } = yield* store.messages.admission({ tenantId, mailboxId, applicationId, idempotencyKey, at: now })
    if (reservation !== null) return yield* answer(reservation, fingerprint, id)
    if (mailbox === null) return yield* new NotFound({ field: "fromMailboxId" })
    const attachments = yield* Ownership.attachments(store, principal, mailbox.id, attachmentIds)
    const sendable = yield* checkSender(mailbox, domain)
    yield* checkScans(attachments)
    senders.remember(mailbox, sendable)
    return yield* queued(asked, now, mailbox, attachments, [])
  })

  const send = Tracing.fn("Messages.send")(function* (
    principal: Principal,
    idempotencyKey: IdempotencyKey,
    input: SendMessageInput
  ) {
    const fingerprint = yield* crypto.digest(canonical(input))
    const id: MessageId = yield* crypto.uuid
    const { applicationId, realm } = principal
    const about = {
      "mailroom.message_id": id,
      "mailroom.tenant_id": realm.tenantId,
      "mailroom.environment": realm.environment,
      "mailroom.request_id": principal.requestId
    }

    const reserved = Effect.flatMap(Clock.currentTimeMillis, (now) =>
      store.reservations.get(applicationId, idempotencyKey, now)
    )
    /** After a commit whose outcome we do not know, or a key that was taken: what stands is the answer. */
    const whatStands = <E, R>(otherwise: Effect.Effect<Sent, E, R>) =>
      Effect.flatMap(
        reserved,
        (reservation): Effect.Effect<Sent, E | IdempotencyConflict, R> =>
          reservation === null ? otherwise : answer(reservation, fingerprint, id)
      )

    const accepting = retryOnVersionMoved(accept({ principal, idempotencyKey, fingerprint, id, input }))
    /** `ifFree`: where the key was taken at the commit, and is free when it is looked up, for it has expired in between. */
    const settled = <E>(ifFree: Effect.Effect<Sent, E>) =>
      Effect.catchTag(accepting, ["CommitRejected", "StoreUnavailable"], (error) =>
        whatStands<E | typeof error, never>(isRejected(error, "KeyTaken") ? ifFree : Effect.fail(error))
      )
    // Whoever took the key in between has it for a day: twice free is a matter of clocks, and the caller may ask again.
    // Built when it is needed: an error takes its stack down, and hardly a send comes here.
    const sending = settled(settled(Effect.suspend(() => Effect.fail(new IdempotencyPending())))).pipe(
      dieOnRejection,
      Tracing.first(id, "message", about, ({ replayed }) => !replayed)
    )
    const sent = yield* alone(applicationId, idempotencyKey, fingerprint, sending, whatStands)
    if (!sent.replayed) yield* Metrics.count(Metrics.messagesAccepted[realm.environment])
    return sent
  })

  return send
}

/** The message that an accepted input becomes. */
const compose = (
  principal: Principal,
  id: MessageId,
  mailbox: Mailbox,
  attachments: ReadonlyArray<Attachment>,
  input: SendMessageInput,
  now: Millis
): { readonly message: Message.Message; readonly content: Message.KeptContent } => {
  const { text, html } = input
  const message: Message.Message = {
    id,
    tenantId: principal.realm.tenantId,
    environment: principal.realm.environment,
    version: 1,
    eventSequence: 1,
    applicationId: principal.applicationId,
    requestId: principal.requestId,
    mailboxId: mailbox.id,
    direction: "outbound",
    createdAt: BigInt(now) * 1000n,
    acceptedAt: now,
    updatedAt: now,
    folder: "sent",
    isRead: true,
    isStarred: false,
    from: { address: mailbox.address, name: mailbox.displayName },
    replyTo: [],
    subject: input.subject,
    snippet: Message.snippet(text, html),
    sizeBytes: Message.sizeOf(text, html, attachments),
    attachmentIds: attachments.map((attachment) => attachment.id),
    internetMessageId: Message.internetMessageId(id, mailbox.address),
    inReplyTo: null,
    references: [],
    recipients: Recipient.unique(input, now),
    status: "queued",
    failure: null,
    sentAt: null,
    attempts: 0,
    nextAttemptAt: now,
    submissions: [],
    mime: null,
    reception: null
  }
  const mime = attachments.length === 0 ? {} : { mime: Message.outboundStructure(text, html, attachments) }
  return { message, content: { text, html, ...mime } }
}

/** The specification's outbound job: a look at the message when it is due. */
export const submitJob = (message: Message.Message, dueAt: Millis): Job => jobOf("submit", message, dueAt)

const addressesOf = (message: Message.Message, role: Recipient.Role) =>
  message.recipients.filter((recipient) => recipient.role === role).map((recipient) => recipient.address)

const quotaExceeded = ({ limit, used }: Extract<Rejection, { readonly _tag: "QuotaExceeded" }>, requested: number, now: Millis) =>
  new QuotaExceeded({ limit, used, requested, retryAfterSeconds: Timestamp.secondsToNextDay(now) })
