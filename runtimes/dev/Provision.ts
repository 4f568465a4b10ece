/**
 * The tenant of `dev`: one sandbox application with a key of all scopes, a
 * production application beside it where there is a mail server, and two
 * mailboxes at a verified domain. What is there is kept, and what is not is
 * made: with the ids and the keys of `dev.json`, or, where that is gone, beside
 * what the database holds, with a new key.
 */
import { Clock, Data, Effect, Option, Redacted, Result } from "effect"
import * as Address from "../../core/model/Address.ts"
import * as ApiKeys from "../../core/model/ApiKey.ts"
import type { Actor } from "../../core/model/Audit.ts"
import type { ApplicationId, Environment, TenantId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import * as MailDomains from "../../core/model/MailDomain.ts"
import type { Tenant } from "../../core/model/Tenant.ts"
import { Management } from "../../core/operations/Management.ts"
import { WebhookManagement } from "../../core/operations/WebhookManagement.ts"
import { Store } from "../../core/ports/Store.ts"
import { settings } from "../Config.ts"
import type { DevFile } from "./DataFolder.ts"

const mailboxes = [
  { local: "hello", displayName: "Hello" },
  { local: "billing", displayName: "Billing" }
]

const actor: Actor = { type: "operator", id: "dev" }
const tenantName = "Development"
const planId = "dev"

/** Somebody else in this database has the domain; one line. */
export class DomainFault extends Data.TaggedError("DomainFault")<{ readonly message: string }> {}

export type Provisioned = Pick<DevFile, "tenantId" | "applicationId" | "mailboxes" | "apiKey" | "production">

export const provision = Effect.fnUntraced(function* (
  earlier: DevFile | null,
  { domain, withProduction }: { readonly domain: Address.DomainName; readonly withProduction: boolean }
) {
  yield* providePlans
  const { id: tenantId } = yield* provideTenant(earlier?.tenantId ?? null)
  const sandbox = yield* provideApplication(tenantId, "sandbox", "First application", earlier)
  const production = withProduction
    ? yield* provideApplication(tenantId, "production", "Production", earlier?.production ?? null)
    : earlier?.production
  yield* provideDomain(tenantId, domain)
  return {
    tenantId,
    mailboxes: yield* Effect.forEach(mailboxes, (wanted) => provideMailbox(tenantId, domain, wanted, earlier)),
    ...sandbox,
    // Kept while there is no mail server, so that the key is the same when there is one again.
    ...(production === undefined ? {} : { production })
  } satisfies Provisioned
})

/** Takes endpoints into use again that were disabled: whoever starts `dev` is its operator, and has no other way while it runs. */
export const enableEndpoints = Effect.fnUntraced(function* ({ tenantId, applicationId, production }: Provisioned) {
  const [store, webhooks] = [yield* Store, yield* WebhookManagement]
  const realms = [
    [{ tenantId, environment: "sandbox" }, applicationId] as const,
    ...(production === undefined ? [] : [[{ tenantId, environment: "production" }, production.applicationId] as const])
  ]
  for (const [realm, application] of realms) {
    for (const { id, enabled } of yield* store.endpoints.list(realm, application)) {
      if (!enabled) yield* webhooks.enableEndpoint(actor, tenantId, id, { replayDead: false })
    }
  }
})

/** `dev` is ours to set; the others may have been changed since. */
const providePlans = Effect.gen(function* () {
  const [management, store] = [yield* Management, yield* Store]
  const there = new Set((yield* store.credentials.plans).map(({ id }) => id))
  for (const plan of Limits.plans) if (plan.id === planId || !there.has(plan.id)) yield* management.putPlan(plan)
})

/** The one of this id; or one that an earlier `dev` has made in this database. */
const provideTenant = Effect.fnUntraced(function* (id: TenantId | null) {
  const [management, store] = [yield* Management, yield* Store]
  const known = id === null ? null : yield* store.credentials.tenant(id)
  if (known !== null) return known
  const found = yield* findTenant(store)
  return found ?? (yield* management.createTenant(actor, { ...(id === null ? {} : { id }), name: tenantName, planId }))
})

const findTenant = Effect.fnUntraced(function* (store: Store["Service"]) {
  let after: TenantId | null = null
  for (;;) {
    const page: ReadonlyArray<Tenant> = yield* store.credentials.tenants({ after, limit: 500 })
    const found = page.find((tenant) => tenant.name === tenantName && tenant.planId === planId)
    if (found !== undefined || page.length === 0) return found ?? null
    after = page.at(-1)!.id // it is not empty
  }
})

const provideApplication = Effect.fnUntraced(function* (
  tenantId: TenantId,
  environment: Environment,
  name: string,
  before: Pick<DevFile, "applicationId" | "apiKey"> | null
) {
  const [management, store] = [yield* Management, yield* Store]
  const there = (yield* store.credentials.applications(tenantId)).filter((application) => application.environment === environment)
  const kept = there.find(({ id }) => id === before?.applicationId) ?? there.find((application) => application.name === name)
  const { id: applicationId } =
    kept ??
    (yield* management.createApplication(actor, { ...(before === null ? {} : { id: before.applicationId }), tenantId, environment, name }))
  return { applicationId, apiKey: yield* provideKey(tenantId, applicationId, before?.apiKey ?? null) }
})

/** The key that was given out before, if it is good; restored, if the store does not know it; or a new one. */
const provideKey = Effect.fnUntraced(function* (tenantId: TenantId, applicationId: ApplicationId, text: string | null) {
  const [management, store] = [yield* Management, yield* Store]
  const token = text === null ? Option.none() : ApiKeys.parse(text)
  const [known] = Option.isNone(token) ? [] : yield* store.credentials.byPublicId([token.value.publicId])
  const isGood = known !== undefined && known.application.id === applicationId && known.apiKey.revokedAt === null && known.apiKey.expiresAt === null
  if (text !== null && isGood) return text
  const restored = text !== null && Option.isSome(token) && known === undefined ? { text: Redacted.make(text) } : {}
  const issued = yield* management.issueKey(actor, { ...restored, tenantId, applicationId, name: "dev", scopes: ApiKeys.scopes })
  return Redacted.value(issued.text)
})

/** A domain that may send; one that an operator has suspended stays so. */
const provideDomain = Effect.fnUntraced(function* (tenantId: TenantId, domain: Address.DomainName) {
  const [management, store] = [yield* Management, yield* Store]
  const there = (yield* store.domains.list(tenantId)).find((one) => one.domain.domain === domain)?.domain
  const claimed =
    there ??
    (yield* management.createDomain(actor, { tenantId, domain }).pipe(
      Effect.catchTag("NameTaken", () =>
        Effect.fail(
          new DomainFault({ message: `another tenant of this database has the domain ${domain}; choose another with ${settings.devDomain.name}` })
        )
      )
    ))
  if (claimed.health === "suspended" || MailDomains.isVerified(claimed.health)) return
  const since = yield* Clock.currentTimeMillis
  yield* management.recordChecks(
    tenantId,
    claimed.id,
    (["ownership", "dkim"] as const).map((record) => ({ record, state: "ok", expected: "dev", observed: "dev", since }))
  )
})

const provideMailbox = Effect.fnUntraced(function* (
  tenantId: TenantId,
  domain: Address.DomainName,
  { local, displayName }: (typeof mailboxes)[number],
  earlier: DevFile | null
) {
  const [management, store] = [yield* Management, yield* Store]
  const address = Result.getOrThrow(Address.parse(`${local}@${domain}`))
  const there = (yield* store.mailboxes.list(tenantId)).find((mailbox) => mailbox.address === address)
  if (there !== undefined) return { id: there.id, address }
  const known = earlier?.mailboxes.find((mailbox) => mailbox.address === address)
  const { id } = yield* management.createMailbox(actor, { ...(known === undefined ? {} : { id: known.id }), tenantId, address, displayName })
  return { id, address }
})
