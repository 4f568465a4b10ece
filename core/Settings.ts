/** What an installation may set about the core itself; the defaults are the specification's. */
import { Context } from "effect"
import type { DomainName } from "./model/Address.ts"
import type { Millis } from "./model/Ids.ts"
import * as Limits from "./model/Limits.ts"

export interface SettingsShape {
  /** The IP guard: requests in any minute from one address (IPv6: one /64). */
  readonly ipRequestsPerMinute: number
  /** Where bounces come back to, at a signed address per message; null: to the sending mailbox. */
  readonly bounceDomain: DomainName | null
  /** How long events are kept; an older cursor is refused. */
  readonly eventRetention: Millis
}

export const defaults: SettingsShape = {
  ipRequestsPerMinute: Limits.ipRequestsPerMinute,
  bounceDomain: null,
  eventRetention: Limits.eventRetentionDefault
}

export const Settings = Context.Reference<SettingsShape>("mailroom/core/Settings", { defaultValue: () => defaults })
