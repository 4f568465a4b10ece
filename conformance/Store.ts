/**
 * What every Store promises (core/ports/Store.ts). The laws are grouped as the
 * port is told: one commit, many commits at once, the reads, and time.
 *
 * Run it on a store of its own: the laws of forgetting drop what is older than
 * any time in use, and that of the event log wants to come first.
 */
import type { Store } from "../core/ports/Store.ts"
import { commits } from "./StoreCommits.ts"
import { concurrency } from "./StoreConcurrency.ts"
import { lookups } from "./StoreLookups.ts"
import { reads } from "./StoreReads.ts"
import { firstOfAll, retentions } from "./StoreRetention.ts"
import type { Suite } from "./Suite.ts"

export const suite: Suite<Store> = {
  name: "Store",
  checks: [...firstOfAll, ...commits, ...concurrency, ...reads, ...lookups, ...retentions]
}
