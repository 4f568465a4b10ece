/**
 * What this process remembers of those who send: a mailbox that may, and its
 * domain, at the versions at which a look-up told of them. Whoever relies on
 * it has the commit expect these versions. So nothing is accepted on what has
 * changed since; and nothing is refused for what is remembered, for that would
 * be known only by looking.
 *
 * A used idempotency key is then found by the commit, which costs all who
 * share it. One repeat may be the first of many: for a minute the mailbox's
 * sends are looked up again.
 */
import type { MailboxId, Millis, TenantId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import type { MailDomain } from "../model/MailDomain.ts"
import type { Change, Rejection } from "../ports/Store.ts"
import { remember } from "../Remember.ts"

export interface Sender {
  readonly mailbox: Mailbox
  /** That the mailbox and its domain are what they were. */
  readonly premises: ReadonlyArray<Change>
}

/** How long sends are looked up after a repeat, in milliseconds. */
const repeatingMax: Millis = 60_000
const sendersMax = 10_000

export class Senders {
  readonly #known = new Map<MailboxId, Sender>()
  /** Until when a mailbox's sends are looked up, though it is known. */
  readonly #repeating = new Map<MailboxId, Millis>()

  /** What is known of a mailbox that sends; null where it is to be looked up. */
  recall(tenantId: TenantId, mailboxId: MailboxId, now: Millis): Sender | null {
    const sender = this.#known.get(mailboxId)
    if (sender === undefined || sender.mailbox.tenantId !== tenantId) return null
    const until = this.#repeating.get(mailboxId)
    if (until === undefined) return sender
    if (until > now && until - now <= repeatingMax) return null
    this.#repeating.delete(mailboxId)
    return sender
  }

  /** A look-up has shown that mail may be sent from this mailbox, and from its domain. */
  remember(mailbox: Mailbox, domain: MailDomain): void {
    const premises: ReadonlyArray<Change> = [
      { _tag: "Expect", kind: "domain", id: domain.id, version: domain.version },
      { _tag: "Expect", kind: "mailbox", id: mailbox.id, version: mailbox.version }
    ]
    remember(this.#known, mailbox.id, { mailbox, premises }, sendersMax)
  }

  /** A commit of what this mailbox sends was rejected. */
  wasRejected(mailboxId: MailboxId, reason: Rejection, now: Millis): void {
    if (reason._tag === "VersionMoved") this.#known.delete(mailboxId)
    if (reason._tag === "KeyTaken") remember(this.#repeating, mailboxId, now + repeatingMax, sendersMax)
  }
}
