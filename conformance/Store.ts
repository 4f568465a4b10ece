/**
 * What every Store promises (core/ports/Store.ts). The laws are grouped as the
 * port is told: one commit, removals, many commits at once, the reads, pages of the log, mail that comes in, what an operator sees, webhooks, and time.
 *
 * Run it on a store of its own: the laws of forgetting drop what is older than
 * any time in use, and those of a log that nobody has written to want to come
 * first, the relay's before those that forget; it looks at all shards.
 */
import type { Store } from "../core/ports/Store.ts"
import { commits } from "./StoreCommits.ts"
import { concurrency } from "./StoreConcurrency.ts"
import { firstOfAllPages, logPages } from "./StoreLog.ts"
import { lookups } from "./StoreLookups.ts"
import { operator } from "./StoreOperator.ts"
import { positions } from "./StorePositions.ts"
import { gathered } from "./StoreGathered.ts"
import { reads } from "./StoreReads.ts"
import { receiving } from "./StoreReceiving.ts"
import { removals } from "./StoreRemoval.ts"
import { firstOfAllRelays, relaying } from "./StoreRelay.ts"
import { firstOfAll, retentions } from "./StoreRetention.ts"
import { webhooks } from "./StoreWebhooks.ts"
import type { Suite } from "./Suite.ts"

export const suite: Suite<Store> = {
  name: "Store",
  checks: [
    ...firstOfAllRelays,
    ...firstOfAll,
    ...firstOfAllPages,
    ...commits,
    ...removals,
    ...concurrency,
    ...reads,
    ...logPages,
    ...gathered,
    ...lookups,
    ...receiving,
    ...operator,
    ...webhooks,
    ...positions,
    ...relaying,
    ...retentions
  ]
}
