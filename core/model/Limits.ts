/**
 * The numbers that are the same for all, those of the specification's section 8
 * and those that it leaves to us, and the plans, which are data. A limit is
 * stated here once; schemas, guards and the published document read it from
 * here.
 */
import { Schema } from "effect"

/** Requests in any 60 seconds from one address (of IPv6: one /64), unless an installation says otherwise. */
export const ipRequestsPerMinute = 120

/** Messages that a mailbox takes in any 60 seconds, unless an installation says otherwise: ten times what large hosts allow theirs. */
export const inboundPerMinute = 600

/** Items of a page. */
export const pageSizeMax = 100
export const pageSizeDefault = 25
export const eventCursorLengthMax = 512

export const idempotencyKeyLengthMin = 8
export const idempotencyKeyLengthMax = 255
/** Milliseconds for which an idempotency key stays reserved: 24 hours. */
export const idempotencyRetention = 24 * 60 * 60 * 1000

/** `to`, `cc` and `bcc` each hold at most this many addresses. */
export const recipientsPerFieldMax = 50
export const subjectLengthMax = 998
export const textLengthMax = 1_000_000
export const htmlLengthMax = 2_000_000
export const attachmentsPerMessageMax = 20

/** Decoded bytes of one attachment: 25 MiB. */
export const attachmentSizeBytesMax = 26_214_400
export const filenameLengthMax = 255
export const mediaTypeLengthMax = 120
/** Milliseconds after which an upload that no message used is removed: 7 days. */
export const unusedAttachmentRetention = 7 * 24 * 60 * 60 * 1000

export const webhookEventTypesMax = 20
export const webhookDescriptionLengthMax = 255
/** Attempts of one round, the first one included. */
export const deliveryAttemptsMax = 5
/** Attempts that a delivery shows; what many replays made before them is let go. */
export const deliveryAttemptsKept = 100
/** Milliseconds that a receiver has, from the look-up of its name to the last byte of its answer. */
export const webhookDeadline = 5_000
/** Bytes of an answer that are read. */
export const webhookAnswerBytesMax = 64 * 1024
export const webhookUrlLengthMax = 2_048
/** Milliseconds of a receiver's `Retry-After` that are heeded: 1 hour. */
export const webhookRetryAfterMax = 60 * 60 * 1000
/** Enabled endpoints of one application: each has its turn among the deliveries of all tenants. */
export const endpointsPerApplicationMax = 100
/** Handshakes at a time, of one application, and to one host. */
export const handshakesPerApplicationMax = 5
export const handshakesPerHostMax = 1
/** Failed attempts in a row with which an endpoint is disabled. */
export const consecutiveFailuresMax = 10

/** Bytes of an inbound message that are looked at before it is taken: 256 KiB. */
export const inboundHeadBytesMax = 256 * 1024
/** Bytes of a report to a Return-Path that are read, for it waits in memory: 1 MiB. What it says stands before the mail that it returns. */
export const reportBytesMax = 1024 * 1024
/** What of an inbound message's header stands in its row; the header itself is kept whole. */
export const mentionedMax = 100
export const referencesMax = 100
export const mentionedNameLengthMax = 255
export const mentionedAddressLengthMax = 320

/** Bytes beyond which a message is large: whoever holds it whole has but a few of them at a time. 1 MiB. */
export const largeMessageBytes = 1024 * 1024

/** Bytes of an event's `data`, as JSON: what a receiver can count on. */
export const eventDataBytesMax = 20_000
/** Milliseconds for which events, deliveries that have ended and the request log are kept where nothing else is set: 30 days. */
export const eventRetentionDefault = 30 * 24 * 60 * 60 * 1000
/** Milliseconds of age up to which an event is fresh: a delivery that succeeds at once leaves its body to it. 1 hour. */
export const freshEventMax = 60 * 60 * 1000
/** Milliseconds for which an event is kept beyond its retention, longer than any delivery that leaves its body to it: 2 hours. */
export const eventGrace = 2 * 60 * 60 * 1000
/**
 * Milliseconds before its own time from which the reader of a log that was lost is led on: longer than an event takes from its
 * time to its commit, and than clocks that are kept in order are apart. 1 minute.
 */
export const lostLogOverlap = 60 * 1000
/** Milliseconds for which a notification waits for the submission it speaks of: 48 hours. */
export const notificationRetention = 48 * 60 * 60 * 1000
/** Milliseconds after its acceptance for which a message is tried before its recipients fail: 48 hours. */
export const submissionWindow = 48 * 60 * 60 * 1000
/**
 * A job of any kind that is claimed this often without an end is poison, and not tried any more, so that it harms nobody
 * else: a message fails, a delivery dies, a scan ends in an error, and what a parse or a poll was to find stays unknown.
 */
export const claimsMax = 5
/** Milliseconds for which a domain may lack its ownership or DKIM record before it fails: 24 hours. */
export const domainGrace = 24 * 60 * 60 * 1000
/** Milliseconds between checks of a domain's records: of one that waits to be verified, in its first hour and its first day; of any other. */
export const domainCheckIntervals = { fresh: 3 * 60_000, recent: 15 * 60_000, settled: 60 * 60_000 }
/** Milliseconds for which a checker has a domain to itself, and after which records that nobody could look up are looked up again. */
export const domainCheckRetry = 5 * 60_000
/** Milliseconds before an unreferenced blob may be removed: 24 hours. */
export const blobGrace = 24 * 60 * 60 * 1000

/** Bytes of a request body, by route. */
export const sendBodyBytesMax = 16 * 1024 * 1024
export const uploadBodyBytesMax = 36 * 1024 * 1024
export const bodyBytesMax = 64 * 1024

/** What a tenant has paid for. The minute is a sliding window; the day is UTC. */
export interface Plan {
  readonly id: string
  readonly keyRequestsPerMinute: number
  readonly tenantRequestsPerDay: number
  readonly recipientsPerDay: number
}

/** The plans a fresh installation knows. `dev` is for the single-process development runtime. */
export const plans: ReadonlyArray<Plan> = [
  { id: "free", keyRequestsPerMinute: 60, tenantRequestsPerDay: 5_000, recipientsPerDay: 500 },
  { id: "standard", keyRequestsPerMinute: 120, tenantRequestsPerDay: 100_000, recipientsPerDay: 50_000 },
  { id: "scale", keyRequestsPerMinute: 600, tenantRequestsPerDay: 1_000_000, recipientsPerDay: 1_000_000 },
  { id: "dev", keyRequestsPerMinute: 6_000, tenantRequestsPerDay: 1_000_000, recipientsPerDay: 1_000_000 }
]

/** A page size: 1 to 100. */
export const PageSize = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: pageSizeMax }, { expected: `a whole number from 1 to ${pageSizeMax}` })
)

/** Text that every store can hold, and every conversion of characters survives, as it is. */
export const isStorable = Schema.makeFilter(
  (text: string) => (text.isWellFormed() && !text.includes("\0")) || "holds a NUL or half of a character"
)
