/** How an inbound message came, and what was found out about it on the way in (Spec 2, Message detail). */
import { Result } from "effect"
import { parseDomain, type Address } from "./Address.ts"
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

/** What an authenticator finds, and about whom. */
export interface Examined extends Authentication {
  /** The domain of the author that DMARC was asked about, in A-labels; null if it could be asked about nobody. */
  readonly author: string | null
}

/**
 * What holds for the author whom the message shows. A field that no standard
 * allows is read by one reader as this and by another as that; so what was
 * found of somebody else is nobody's. Only what it is refused for stays.
 */
export const ofAuthorShown = ({ author, ...found }: Examined, shown: Mentioned | null): Authentication => {
  const domain = shown === null ? null : domainShown(shown)
  if (author === null || domain === null || domain === canonical(author)) return found
  const isAgainst = found.dmarc === "fail" && (found.dmarcPolicy === "reject" || found.dmarcPolicy === "quarantine")
  return isAgainst || found.dmarc === "temperror" ? found : { ...found, dmarc: "permerror", dmarcPolicy: null }
}

/** Null: an address without one names nobody who could be asked. What looks like an `@` shows somebody all the same. */
const domainShown = ({ address }: Mentioned): string | null => {
  const shown = address.includes("@") ? address : address.normalize("NFKC")
  const at = shown.lastIndexOf("@")
  return at < 0 ? null : canonical(shown.slice(at + 1))
}

/** As we would write to it; what we would not is as it is. */
const canonical = (domain: string): string => {
  const name = domain.replace(/\.$/, "")
  return Result.getOrElse(parseDomain(name), () => name.toLowerCase())
}

/** Who hands a message over. */
export interface Peer {
  /** IPv4 or IPv6, without a zone; Receive makes it so (`plainOf`). */
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
