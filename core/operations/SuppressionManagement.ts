/**
 * The suppression list of a tenant: addresses that are not mailed, because
 * they bounced for good, complained, or were put there by hand. `Management`
 * is made of this and its neighbours.
 *
 * A submission asks the list when it begins. What was on its way then goes on;
 * a message that waits, or is tried again, finds the list as it is by then.
 * Who is taken off it is mailed again, and comes back with the next bounce.
 */
import { Clock, Effect } from "effect"
import { foldCase, type Address } from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import type { Realm } from "../model/Ids.ts"
import type { Suppression } from "../model/Suppression.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import { cutTo, InvalidInput, limitOf, UnknownResource, type Administration, type Page, type Written } from "./Administration.ts"
import { dieOnRejection } from "./Commit.ts"

export interface SuppressionManagement {
  /** By address, in folded case. `after`: those behind this address, whether or not it is on the list. */
  readonly listSuppressions: (
    realm: Realm,
    query: { readonly after?: Address; readonly limit?: number }
  ) => Effect.Effect<Page<Suppression>, UnknownResource | InvalidInput | StoreUnavailable>
  /** Puts an address on the list by hand. One that is there stays as it is. */
  readonly addSuppression: (actor: Actor, realm: Realm, address: Address) => Written<Suppression>
  /** Takes an address off the list; what it was there for. */
  readonly removeSuppression: (actor: Actor, realm: Realm, address: Address) => Written<Suppression>
}

export const makeSuppressionManagement = ({ store, write, tenant }: Administration): SuppressionManagement => {
  const find = (realm: Realm, address: Address) =>
    Effect.map(store.suppressions.among(realm, [address]), ([found]) => found ?? null)

  return {
    listSuppressions: Effect.fn("Management.listSuppressions")(function* (realm, query) {
      yield* tenant(realm.tenantId)
      const limit = yield* limitOf(query)
      return cutTo(limit, yield* store.suppressions.page(realm, { after: query.after ?? null, limit: limit + 1 }))
    }),

    addSuppression: Effect.fn("Management.addSuppression")(function* (actor, { tenantId, environment }, address) {
      yield* tenant(tenantId)
      if (environment === "sandbox") {
        return yield* new InvalidInput({ field: "environment", fault: "wants production: in the sandbox nobody is suppressed" })
      }
      const realm = { tenantId, environment }
      const suppression: Suppression = {
        ...realm,
        address,
        reason: "manual",
        messageId: null,
        createdAt: yield* Clock.currentTimeMillis
      }
      const there = yield* find(realm, address)
      if (there !== null) return there
      const act = { action: "suppression.add", id: foldCase(address), environment }
      yield* write(actor, tenantId, [act], [{ _tag: "Suppress", suppression }]).pipe(dieOnRejection)
      return suppression
    }),

    removeSuppression: Effect.fn("Management.removeSuppression")(function* (actor, realm, address) {
      yield* tenant(realm.tenantId)
      const there = yield* find(realm, address)
      if (there === null) return yield* new UnknownResource({ what: "suppression", id: address })
      const act = { action: "suppression.remove", id: foldCase(address), environment: realm.environment }
      yield* write(actor, realm.tenantId, [act], [{ _tag: "Unsuppress", realm, address }]).pipe(dieOnRejection)
      return there
    })
  }
}
