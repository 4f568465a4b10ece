/** What a provider told us, as it came, for the operator who asks why. No tenant ever sees it. */
import type { Millis } from "./Ids.ts"

/** Milliseconds for which payloads are kept: 30 days. */
export const payloadRetention = 30 * 24 * 60 * 60 * 1000
/** Bytes of a payload that are kept; the rest is cut. */
export const payloadBytesMax = 64 * 1024

export interface ProviderPayload {
  /** What the provider names it by, the same when it sends it again; unique for a provider. */
  readonly id: string
  /** As in `SubmissionRef`. */
  readonly provider: string
  readonly receivedAt: Millis
  /** SHA-256 of the whole as text, 64 lower-case hex digits. */
  readonly digest: string
  /** At most `payloadBytesMax` bytes of it, decoded as UTF-8. */
  readonly text: string
  /** In the provider's words: `Bounce`, `SubscriptionConfirmation`. */
  readonly kind: string
  /** How many notifications were read from it; 0 where it says nothing about a submission. */
  readonly notifications: number
}
