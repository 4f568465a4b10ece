/**
 * The Return-Path of what we send: it names the message, and is signed, so
 * that a bounce to it is about mail of ours and finds it without being read.
 *
 *   b.<the message's id, without dashes>.<16 digits of signature>@<bounce domain>
 */
import type { Address, DomainName } from "./Address.ts"
import type { MessageId } from "./Ids.ts"
import { isEqual } from "./SecretText.ts"

/** What the signature is made for (`Crypto.mac`), over the message's id. */
export const purpose = "return-path"

const digits = 16
const pattern = new RegExp(`^b\\.([0-9a-f]{32})\\.([0-9a-f]{${digits}})$`)

/** The address for a message; `mac` is over its id. */
export const format = (id: MessageId, mac: string, domain: DomainName): Address =>
  `b.${id.replaceAll("-", "")}.${mac.slice(0, digits)}@${domain}` as Address // hex and dots at a checked domain

/** A Return-Path that is yet to be verified. */
export interface Claimed {
  readonly id: MessageId
  readonly signature: string
}

const ownLabel = "bounce."

/** The name at which a mail domain's bounces may come back under its own name. */
export const ownHost = (domain: DomainName): DomainName => `${ownLabel}${domain}` as DomainName // a label before a checked name

/**
 * What such an address claims, at the bounce domain or under a mail domain's own name; null for any other. Its case is
 * folded, for some servers change it.
 */
export const parse = (address: Address, bounceDomain: DomainName): Claimed | null => {
  const folded = address.toLowerCase()
  const host = folded.slice(folded.lastIndexOf("@") + 1)
  if (host !== bounceDomain && !host.startsWith(ownLabel)) return null
  const [, compact, signature] = pattern.exec(folded.slice(0, -host.length - 1)) ?? []
  if (compact === undefined || signature === undefined) return null
  const id = compact.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
  return { id: id as MessageId, signature } // 32 hex digits
}

/** Whether we have signed it. Takes as long for every signature. */
export const isSigned = ({ signature }: Claimed, mac: string): boolean => isEqual(signature, mac.slice(0, digits))
