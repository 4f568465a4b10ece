/**
 * What the surrounding product does for a tenant (Spec 1, point 2): create it,
 * its applications, keys, domains, mailboxes and suppressed addresses, show them, change them, and
 * take each out of use. Never reachable with an API key. The command line, a
 * dashboard and a program that embeds the core all use this one service.
 *
 * Every write is audited in its own commit: a tenant's state under the tenant,
 * plans under the `installation`. Removed are suppressions, mailboxes without
 * mail and domains without mailboxes; all else is kept.
 * Two who change one record at a time do not undo each other: each change is
 * made to what there is, and one that was decided on a certain version can be
 * held to it.
 */
import { Context, Effect, Layer } from "effect"
import { make } from "./Administration.ts"
import { makeDomainManagement, type DomainManagement } from "./DomainManagement.ts"
import { makeKeyManagement, type KeyManagement } from "./KeyManagement.ts"
import { makeMailboxManagement, type MailboxManagement } from "./MailboxManagement.ts"
import { makeSuppressionManagement, type SuppressionManagement } from "./SuppressionManagement.ts"
import { makeTenantManagement, type TenantManagement } from "./TenantManagement.ts"

export class Management extends Context.Service<
  Management,
  TenantManagement & KeyManagement & DomainManagement & MailboxManagement & SuppressionManagement
>()("mailroom/core/operations/Management") {
  static readonly layer = Layer.effect(
    Management,
    Effect.gen(function* () {
      const administration = yield* make
      return Management.of({
        ...makeTenantManagement(administration),
        ...makeKeyManagement(administration),
        ...(yield* makeDomainManagement(administration)),
        ...makeMailboxManagement(administration),
        ...makeSuppressionManagement(administration)
      })
    })
  )
}
