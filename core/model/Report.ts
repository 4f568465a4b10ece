/**
 * What a report about mail of ours says: a delivery status notification (RFC
 * 3464), what older and stranger servers send in its place, or a complaint
 * (ARF, RFC 5965).
 */
import type { Bounce } from "./Recipient.ts"

/** One recipient that a report speaks of. */
export interface ReportedRecipient {
  /** As our envelope had it, as well as can be told. */
  readonly address: string
  readonly action: "failed" | "delayed" | "delivered" | "relayed" | "expanded" | "complained"
  /** The enhanced status code (RFC 3463). */
  readonly status: string | null
  readonly smtpCode: number | null
  readonly class: Exclude<Bounce["class"], "suppressed">
  readonly diagnostic: string | null
}

export interface Report {
  /** `none`: it is not a report, and nothing is to be concluded from it. */
  readonly kind: "bounce" | "delay" | "delivered" | "complaint" | "none"
  readonly recipients: ReadonlyArray<ReportedRecipient>
  /** The Message-ID of the message it speaks of, with its angle brackets. */
  readonly originalMessageId: string | null
}
