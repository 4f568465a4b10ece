/**
 * The tenant of `dev`: one sandbox application with a key of all scopes, a
 * production application beside it where there is a mail server, and two
 * mailboxes at a verified domain. While the store forgets at exit, they are
 * made anew at each start, with the ids and the keys of the first.
 */
import { Clock, Effect, Redacted, Result } from "effect"
import * as Address from "../../core/model/Address.ts"
import { scopes } from "../../core/model/ApiKey.ts"
import type { Actor } from "../../core/model/Audit.ts"
import type { Environment } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import { Management } from "../../core/operations/Management.ts"
import type { DevFile } from "./DataFolder.ts"

const mailboxes = [
  { local: "hello", displayName: "Hello" },
  { local: "billing", displayName: "Billing" }
]

export type Provisioned = Pick<DevFile, "tenantId" | "applicationId" | "mailboxes" | "apiKey" | "production">

export const provision = Effect.fnUntraced(function* (
  earlier: DevFile | null,
  { domain, withProduction }: { readonly domain: Address.DomainName; readonly withProduction: boolean }
) {
  const management = yield* Management
  const actor: Actor = { type: "operator", id: "dev" }
  for (const plan of Limits.plans) yield* management.putPlan(plan)
  const tenant = yield* management.createTenant(actor, {
    ...(earlier === null ? {} : { id: earlier.tenantId }),
    name: "Development",
    planId: "dev"
  })
  const tenantId = tenant.id
  const found = Effect.fnUntraced(function* (
    environment: Environment,
    name: string,
    before: Pick<DevFile, "applicationId" | "apiKey"> | null
  ) {
    const id = before === null ? {} : { id: before.applicationId }
    const { id: applicationId } = yield* management.createApplication(actor, { ...id, tenantId, environment, name })
    const text = before === null ? {} : { text: Redacted.make(before.apiKey) }
    const issued = yield* management.issueKey(actor, { ...text, tenantId, applicationId, name: "dev", scopes })
    return { applicationId, apiKey: Redacted.value(issued.text) }
  })
  const sandbox = yield* found("sandbox", "First application", earlier)
  const production = withProduction ? yield* found("production", "Production", earlier?.production ?? null) : earlier?.production
  const claimed = yield* management.createDomain(actor, { tenantId, domain })
  const since = yield* Clock.currentTimeMillis
  yield* management.recordChecks(
    tenantId,
    claimed.id,
    (["ownership", "dkim"] as const).map((record) => ({ record, state: "ok", expected: "dev", observed: "dev", since }))
  )
  const made = yield* Effect.forEach(mailboxes, ({ local, displayName }) => {
    const address = Result.getOrThrow(Address.parse(`${local}@${domain}`))
    const known = earlier?.mailboxes.find((mailbox) => mailbox.address === address)
    return management.createMailbox(actor, { ...(known === undefined ? {} : { id: known.id }), tenantId, address, displayName })
  })
  return {
    tenantId,
    mailboxes: made.map(({ id, address }) => ({ id, address })),
    ...sandbox,
    // Kept while there is no mail server, so that the key is the same when there is one again.
    ...(production === undefined ? {} : { production })
  } satisfies Provisioned
})
