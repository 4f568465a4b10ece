/**
 * Where mail to an address goes: a mailbox of a domain that receives, or the
 * message whose bounces come back to that address. All else is refused, for no
 * mail is ever passed on to others.
 *
 * Whoever brings mail asks at each RCPT, and what is told then is remembered
 * for a minute, in which most messages are there: their commit expects that
 * nothing of it has moved.
 */
import { Data, Duration, Effect, Result } from "effect"
import * as Addresses from "../model/Address.ts"
import type { Address, DomainName } from "../model/Address.ts"
import type { MessageId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import { receives } from "../model/MailDomain.ts"
import * as ReturnPath from "../model/ReturnPath.ts"
import type { Crypto } from "../ports/Crypto.ts"
import type { Change, Store, StoreUnavailable } from "../ports/Store.ts"
import { remember } from "../Remember.ts"
import type { SettingsShape } from "../Settings.ts"

/** A refusal, as it is said on the wire: code, enhanced status code and text; 4xx where trying again may help. */
export class ReceiveRefused extends Data.TaggedError("ReceiveRefused")<{
  readonly code: number
  readonly enhancedCode: string
  readonly text: string
}> {
  override get message(): string {
    return `${this.code} ${this.enhancedCode} ${this.text}`
  }
}

export const refused = (code: number, enhancedCode: string, text: string) => new ReceiveRefused({ code, enhancedCode, text })

/** A mailbox, and the address that found it. */
export interface Box {
  readonly _tag: "Box"
  readonly mailbox: Mailbox
  readonly address: Address
  /** That all is as it was looked up: for a commit that comes later. */
  readonly premises: ReadonlyArray<Change>
}

export type Destination = Box | { readonly _tag: "ReturnPath"; readonly id: MessageId }

export type Route = (address: string) => Effect.Effect<Destination, ReceiveRefused | StoreUnavailable>

/** What is looked at to find a mailbox. */
type Looked = Pick<typeof Store.Service, "mailboxes">

/** The mailbox that takes mail to an address: its own, that of what stands before its tag, or the catch-all; refused as `Receive.recipient` says. */
export const toMailbox = (store: Looked, bounceDomain: DomainName | null) =>
  Effect.fnUntraced(function* (address: Address): Effect.fn.Return<Box, ReceiveRefused | StoreUnavailable> {
    const name = Addresses.domainOf(address)
    const { domain, tenant, ...found } = yield* store.mailboxes.addressee({ address, untagged: untaggedOf(address), domain: name })
    if (domain === null) return yield* name === bounceDomain ? unknown : foreign
    const fault = domainFaults[receives(domain)]
    if (fault !== null) return yield* fault
    const mailbox = [found.mailbox, found.untagged].find((one) => one?.domainId === domain.id) ?? found.catchAll
    if (mailbox === null) return yield* unknown
    if (mailbox.status !== "active" || tenant?.status !== "active") return yield* suspended
    const premises: ReadonlyArray<Change> = [
      { _tag: "Expect", kind: "tenant", id: tenant.id, version: tenant.version },
      { _tag: "Expect", kind: "domain", id: domain.id, version: domain.version },
      { _tag: "Expect", kind: "mailbox", id: mailbox.id, version: mailbox.version }
    ]
    return { _tag: "Box", mailbox, address, premises }
  })

export const make = (
  store: Looked,
  crypto: typeof Crypto.Service,
  { bounceDomain, hostName, postmaster }: Pick<SettingsShape, "bounceDomain" | "hostName" | "postmaster">
): Route => {
  const boxOf = toMailbox(store, bounceDomain)

  /** The message whose signed Return-Path this is. */
  const signedMessage = Effect.fnUntraced(function* (address: Address) {
    const claimed = bounceDomain === null ? null : ReturnPath.parse(address, bounceDomain)
    if (claimed === null) return null
    return ReturnPath.isSigned(claimed, yield* crypto.mac(ReturnPath.purpose, claimed.id)) ? claimed.id : null
  })

  const find: Route = Effect.fnUntraced(function* (text: string) {
    const parsed = Addresses.parse(text)
    if (Result.isFailure(parsed)) return yield* refused(553, "5.1.3", parsed.failure)
    const id = yield* signedMessage(parsed.success)
    return id === null ? yield* boxOf(parsed.success) : ({ _tag: "ReturnPath", id } satisfies Destination)
  })

  /** The postmaster of this host, with its names and without. */
  const names = [hostName, ...(bounceDomain === null ? [] : [bounceDomain])]
  const ours = ["postmaster", ...names.map((name) => `postmaster@${name.toLowerCase()}`)]

  return (text) => {
    if (postmaster !== null && ours.includes(text.toLowerCase())) return boxOf(postmaster)
    return text.toLowerCase() === "postmaster" ? Effect.fail(unknown) : find(text)
  }
}

const unknown = refused(550, "5.1.1", "there is no such mailbox")
const foreign = refused(550, "5.7.1", "mail for this domain is not taken here")
const suspended = refused(550, "5.2.1", "the mailbox is suspended")

/** What a domain that does not receive says; one that was never shown to be its tenant's is nobody's. */
const domainFaults = {
  now: null,
  later: refused(451, "4.3.5", "the DNS records of this domain are out of order"),
  suspended: refused(550, "5.2.1", "the domain is suspended"),
  never: foreign
} as const satisfies { readonly [K in ReturnType<typeof receives>]: ReceiveRefused | null }

/** `user+tag@domain` without its tag; null: it has none. */
const untaggedOf = (address: Address): Address | null => {
  const plus = Addresses.localPart(address).indexOf("+")
  if (plus < 1) return null
  return `${address.slice(0, plus)}@${Addresses.domainOf(address)}` as Address // a dot-atom's part may end in a dot, and then names nobody
}

/** Mailboxes that mail was taken for a moment ago, by the address that was given. Times are those of a clock that never jumps. */
export class KnownBoxes {
  readonly #known = new Map<string, { readonly box: Box; readonly since: bigint }>()

  recall(address: string, now: bigint): Box | null {
    const known = this.#known.get(address)
    return known === undefined || now - known.since >= knownFor ? null : known.box
  }

  remember(address: string, box: Box, now: bigint): void {
    this.#known.delete(address)
    remember(this.#known, address, { box, since: now }, knownMax)
  }

  forget(addresses: ReadonlyArray<string>): void {
    for (const address of addresses) this.#known.delete(address)
  }
}

/** No version tells of a mailbox that was made since, where the catch-all took its mail before; so not for longer than most messages take. */
const knownFor = Duration.toNanosUnsafe(Duration.minutes(1))
/** More than there are conversations, each with as many recipients as one has. */
const knownMax = 10_000
