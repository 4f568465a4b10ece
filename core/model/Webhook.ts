/**
 * What goes over the wire to a webhook endpoint, and how its answer is taken
 * (Spec 6): the body, the signed bytes, the headers, and the handshake
 * that goes before an endpoint exists.
 */
import { DateTime, Option, Redacted } from "effect"
import type { Outcome } from "./Delivery.ts"
import { verificationType, type Event } from "./Event.ts"
import type { Millis } from "./Ids.ts"
import { webhookRetryAfterMax } from "./Limits.ts"
import { hex, isEqual } from "./SecretText.ts"
import * as Timestamp from "./Timestamp.ts"

/** Constant for all of v1; each endpoint keeps the one it was created with. */
export const apiVersion = "2026-12-01"

/** What a secret begins with; the whole text, prefix included, is the HMAC key. */
export const secretPrefix = "whsec_"
/** Random bytes of a signing secret. */
export const secretBytes = 32
/** A signing secret of random bytes. */
export const secretOf = (bytes: Uint8Array): Redacted.Redacted<string> => Redacted.make(`${secretPrefix}${hex(bytes)}`)
/** Random bytes of a challenge. */
export const challengeBytes = 32

export interface Answer {
  readonly status: number
  /** The `Retry-After` header, as it came. */
  readonly retryAfter: string | null
  /** At most `webhookAnswerBytesMax` bytes of the body. */
  readonly body: Uint8Array
  /** True when there was more. */
  readonly truncated: boolean
}

/** The body of a delivery: metadata only, and the same bytes at each attempt. */
export const bodyOf = (event: Pick<Event, "id" | "type" | "occurredAt" | "data">, version: string): string =>
  JSON.stringify({
    id: event.id,
    type: event.type,
    apiVersion: version,
    occurredAt: Timestamp.fromMillis(event.occurredAt),
    data: event.data
  })

/** The body of a handshake. It comes from no event, and belongs to no log. */
export const verification = (id: string, challenge: string, at: Millis): string =>
  JSON.stringify({ id, type: verificationType, apiVersion, occurredAt: Timestamp.fromMillis(at), data: { challenge } })

/** What every request to an endpoint says. */
export const commonHeaders = {
  "content-type": "application/json",
  "user-agent": "Service-Webhooks/1.0"
} as const

/** Unix seconds of an attempt, as the header and the signed bytes hold them. */
export const timestampOf = (at: Millis): string => String(Math.floor(at / 1000))

const utf8 = new TextEncoder()

/** `<id>.<timestamp>.<raw body>` (Spec 6, Signature). */
export const signedBytes = (id: string, timestamp: string, body: Uint8Array): Uint8Array => {
  const head = utf8.encode(`${id}.${timestamp}.`)
  const bytes = new Uint8Array(head.length + body.length)
  bytes.set(head)
  bytes.set(body, head.length)
  return bytes
}

/** The same of a body that is text, which is encoded once; and its own bytes, the end of those. */
export const signedBytesOf = (id: string, timestamp: string, body: string): { readonly signed: Uint8Array; readonly bytes: Uint8Array } => {
  const head = `${id}.${timestamp}.` // a UUID and digits: as many bytes as characters
  const signed = utf8.encode(head + body)
  return { signed, bytes: signed.subarray(head.length) }
}

/** The headers of a delivery; `mac` is HMAC-SHA256 of the signed bytes, in 64 lower-case hex digits. */
export const deliveryHeaders = (id: string, timestamp: string, mac: string) => ({
  ...commonHeaders,
  "service-webhook-id": id,
  "service-webhook-timestamp": timestamp,
  "service-webhook-signature": `v1=${mac}`
})

/** How an attempt that was answered ended. */
export const outcomeOf = ({ status }: Pick<Answer, "status">): Outcome =>
  status >= 200 && status < 300 ? "success" : status >= 300 && status < 400 ? "redirect" : "http_error"

/** How long a receiver asks to be left alone, bounded; 0 if it does not. */
export const retryAfterOf = ({ retryAfter }: Pick<Answer, "retryAfter">, now: Millis): Millis => {
  if (retryAfter === null) return 0
  const text = retryAfter.trim()
  const wait = /^\d{1,10}$/.test(text)
    ? Number(text) * 1000
    : /^[A-Za-z]{3,9}, .* GMT$/.test(text) // without a zone it would be read in this machine's
      ? Option.match(DateTime.make(text), { onNone: () => 0, onSome: (at) => DateTime.toEpochMillis(at) - now })
      : 0
  return Math.min(Math.max(wait, 0), webhookRetryAfterMax)
}

/** Why an endpoint is not created. */
export const handshakeFaults = [
  "timeout",
  "non_2xx",
  "redirect",
  "invalid_json",
  "challenge_mismatch",
  "unsafe_url",
  "network_error"
] as const
export type HandshakeFault = (typeof handshakeFaults)[number]

/** What is wrong with the answer to a handshake; null if nothing is. */
export const handshakeFault = (answer: Answer, challenge: string): HandshakeFault | null => {
  const outcome = outcomeOf(answer)
  if (outcome !== "success") return outcome === "redirect" ? "redirect" : "non_2xx"
  const echoed = challengeIn(answer)
  if (echoed === undefined) return "invalid_json"
  return typeof echoed === "string" && isEqual(echoed, challenge) ? null : "challenge_mismatch"
}

/** The member `challenge` of a JSON object; undefined if the body is none, null if it lacks it. */
const challengeIn = ({ body, truncated }: Answer): unknown => {
  if (truncated) return undefined
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body))
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
    return Object.hasOwn(value, "challenge") ? (value as { readonly challenge: unknown }).challenge : null // it has it
  } catch {
    return undefined
  }
}
