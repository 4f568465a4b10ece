/** What an installation may set about the core itself; the defaults are the specification's, where it has any. */
import { Context } from "effect"
import type { Address, DomainName } from "./model/Address.ts"
import * as Backoff from "./model/Backoff.ts"
import type { Environment, Millis } from "./model/Ids.ts"
import * as Limits from "./model/Limits.ts"
import { publicOnly, type TargetPolicy } from "./model/WebhookUrl.ts"

/** The settings, by name. */
export interface SettingsShape {
  /** The IP guard: requests in any minute from one address (IPv6: one /64). */
  readonly ipRequestsPerMinute: number
  /** Where bounces come back to, at a signed address per message; null: to the sending mailbox. */
  readonly bounceDomain: DomainName | null
  /** SPF terms that cover what our mail leaves from, such as `include:spf.example.net`; none: domains are not asked for SPF. */
  readonly spf: ReadonlyArray<string>
  /** The host that a domain's MX record names, so that its mail comes in here; null: domains are not asked for one. */
  readonly mxHost: DomainName | null
  /** How long events, deliveries that have ended, and the request log are kept; an older cursor is refused. */
  readonly eventRetention: Millis
  /** How long messages are kept, with their content and attachments; null: for good. What waits for something is kept longer. */
  readonly messageRetention: Millis | null
  /** Which webhook targets are allowed beyond public https. */
  readonly webhookTargets: TargetPolicy
  /** The waits after the first, second, … failed attempt of a webhook delivery. */
  readonly deliveryBackoff: ReadonlyArray<Millis>
  /** What we call ourselves to other mail servers, in the trace of what we receive. */
  readonly hostName: string
  /**
   * The mailbox that mail for `postmaster` goes to, which every host that takes mail is to take (RFC 5321, 4.5.1): without
   * a domain, at `hostName` and at `bounceDomain`. Null: it is refused. A tenant's domains have mailboxes of their own.
   */
  readonly postmaster: Address | null
  /** Messages that a mailbox takes in any minute; each process counts by itself. */
  readonly inboundPerMinute: number
  /** The environment that inbound mail is of. */
  readonly inboundEnvironment: Environment
  /** What is done with mail that fails DMARC, where its domain asks to reject it. */
  readonly dmarcReject: "refuse" | "spam"
}

/** What holds where an installation says nothing. */
export const defaults: SettingsShape = {
  ipRequestsPerMinute: Limits.ipRequestsPerMinute,
  bounceDomain: null,
  spf: [],
  mxHost: null,
  eventRetention: Limits.eventRetentionDefault,
  messageRetention: null,
  webhookTargets: publicOnly,
  deliveryBackoff: Backoff.delivery,
  hostName: "localhost",
  postmaster: null,
  inboundPerMinute: Limits.inboundPerMinute,
  inboundEnvironment: "production",
  dmarcReject: "refuse"
}

/** The settings of this process; the defaults, unless it is given others. */
export const Settings = Context.Reference<SettingsShape>("mailroom/core/Settings", { defaultValue: () => defaults })
