/**
 * Which failures are worth another try, and after how long. Pure: chance comes
 * in, milliseconds come out.
 */
import type { Operation } from "./Contract.ts"
import { type MailroomConnectionError, MailroomError } from "./Errors.ts"
import { timerMillisMax } from "./Platform.ts"

/**
 * Whether an operation may be repeated when nobody knows if it was done. The
 * Idempotency-Key makes a send safe. An update sets what it set before. A
 * second upload is a file that nobody uses, and goes by itself. But a second
 * endpoint would receive everything twice, with a secret that nobody saw, and
 * a second replay could deliver once more.
 */
export const isRepeatable: Readonly<Record<Operation, boolean>> = {
  listMailboxes: true,
  listDomains: true,
  listMessages: true,
  sendMessage: true,
  getMessage: true,
  updateMessage: true,
  uploadAttachment: true,
  downloadAttachment: true,
  listEvents: true,
  listWebhookEndpoints: true,
  createWebhookEndpoint: false,
  listWebhookDeliveries: true,
  replayWebhookDelivery: false
}

const firstDelayMs = 500

export interface Circumstances {
  readonly operation: Operation
  /** Retries made so far. */
  readonly retries: number
  readonly maxRetries: number
  readonly maxRetryDelayMs: number
  /** From 0 to 1. */
  readonly random: number
}

/** Milliseconds until the next try; null if there is none. */
export const delayMs = (
  failure: MailroomError | MailroomConnectionError,
  { operation, retries, maxRetries, maxRetryDelayMs, random }: Circumstances
): number | null => {
  if (retries >= maxRetries || !isTransient(failure, isRepeatable[operation])) return null
  const asked = failure instanceof MailroomError && failure.retryAfter !== null ? failure.retryAfter * 1000 : null
  if (asked === null) return Math.min(maxRetryDelayMs, firstDelayMs * 2 ** retries) * (0.5 + random / 2)
  return asked > maxRetryDelayMs ? null : Math.min(timerMillisMax, asked + Math.max(1000, asked / 4) * random)
}

const isTransient = (failure: MailroomError | MailroomConnectionError, repeatable: boolean): boolean => {
  if (!(failure instanceof MailroomError)) return repeatable && failure.reason !== "invalid_response"
  switch (failure.status) {
    case 408: // it did not arrive
    case 429: // it was not let in
      return true
    case 409:
      return failure.code === "idempotency_pending"
    case 501: // it will not be there the next time
    case 505:
      return false
    default:
      return repeatable && failure.status >= 500 && failure.status < 600 // what stands between has numbers of its own, as 521
  }
}

/** `Retry-After` in seconds: it is given as that, or as a date in one of three forms (RFC 9110). Null if it is neither. */
export const parseRetryAfter = (header: string | null, nowMs: number): number | null => {
  if (header === null) return null
  const text = header.trim()
  if (/^[0-9]+$/.test(text)) return Number(text)
  if (!date.test(text)) return null // `Date.parse` finds a month of 2001 in "retry 10", and no time to wait
  const moment = Date.parse(/ \d{4}$/.test(text) ? `${text} GMT` : text) // the form that ends with the year names no zone
  return Number.isNaN(moment) ? null : Math.max(0, Math.ceil((moment - nowMs) / 1000))
}

const date = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? .*\d\d:\d\d:\d\d/i
