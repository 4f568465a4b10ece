/** How an inbound message came, and what was found out about it on the way in (Spec 2, Message detail). */
import type { Address } from "./Address.ts"
import type { Millis } from "./Ids.ts"
import type { Defect, Mentioned } from "./ParsedMessage.ts"

/** What the sender's domain says of a message: results in the words of RFC 8601 (`pass`, `fail`, `softfail`, `none`, `temperror` …). */
export interface Authentication {
  readonly spf: string
  readonly dkim: string
  readonly dmarc: string
  /** Of the ARC chain (RFC 8617). */
  readonly arc: string
  /** What the domain of the From field asks for where DMARC fails; null if it publishes none. */
  readonly dmarcPolicy: "none" | "quarantine" | "reject" | null
}

/** Who hands a message over. */
export interface Peer {
  /** IPv4 or IPv6, without a zone. */
  readonly remoteAddress: string
  /** What it calls itself: as given, so anything within one line. */
  readonly helo: string
  readonly protocol: "SMTP" | "ESMTP" | "ESMTPS" | "LMTP" | "LMTPS"
}

export interface Reception {
  readonly peer: Peer
  /** MAIL FROM as given; null for the null sender. */
  readonly returnPath: string | null
  /** The RCPT TO that found the mailbox; with a tag, or another address where the domain has a catch-all. */
  readonly recipient: Address
  readonly receivedAt: Millis
  readonly to: ReadonlyArray<Mentioned>
  readonly cc: ReadonlyArray<Mentioned>
  readonly authentication: Authentication | null
  /** When it is to be parsed; null once it is. */
  readonly nextParseAt: Millis | null
  readonly defects: ReadonlyArray<Defect>
}
