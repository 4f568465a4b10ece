/** Listing a tenant's mailboxes, and its domains with their delivery health (Spec 4). */
import { Context, Effect, Layer } from "effect"
import type * as Mailbox from "../model/Mailbox.ts"
import { isVerified, type View as DomainView } from "../model/MailDomain.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"
import type { Principal } from "./Access.ts"

export class Mailboxes extends Context.Service<
  Mailboxes,
  {
    /** The tenant's mailboxes, by address (Spec 4, listMailboxes). */
    readonly list: (
      principal: Principal
    ) => Effect.Effect<{ readonly items: ReadonlyArray<typeof Mailbox.View.Type> }, StoreUnavailable>
    /** The tenant's domains, by name, with their health (Spec 4, listDomains). */
    readonly listDomains: (
      principal: Principal
    ) => Effect.Effect<{ readonly items: ReadonlyArray<typeof DomainView.Type> }, StoreUnavailable>
  }
>()("mailroom/core/operations/Mailboxes") {
  static readonly layer = Layer.effect(
    Mailboxes,
    Effect.gen(function* () {
      const store = yield* Store
      return Mailboxes.of({
        list: Tracing.fn("Mailboxes.list")(function* ({ realm }) {
          const mailboxes = yield* store.mailboxes.list(realm.tenantId)
          return { items: mailboxes.map(({ id, address, displayName }) => ({ id, address, displayName })) }
        }),

        listDomains: Tracing.fn("Mailboxes.listDomains")(function* ({ realm }) {
          const domains = yield* store.domains.list(realm.tenantId)
          return {
            items: domains.map(({ domain: { id, domain, health }, mailboxCount }) => ({
              id,
              domain,
              verified: isVerified(health),
              health,
              mailboxCount
            }))
          }
        })
      })
    })
  )
}
