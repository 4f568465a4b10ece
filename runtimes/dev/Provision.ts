/**
 * The tenant of `dev`: one sandbox application with a key of all scopes, and
 * two mailboxes at a verified domain. While the store forgets at exit, they
 * are made anew at each start, with the ids and the key of the first.
 */
import { Clock, Effect, Redacted, Result } from "effect"
import * as Address from "../../core/model/Address.ts"
import { scopes } from "../../core/model/ApiKey.ts"
import type { Actor } from "../../core/model/Audit.ts"
import * as Limits from "../../core/model/Limits.ts"
import { Management } from "../../core/operations/Management.ts"
import type { DevFile } from "./DataFolder.ts"

const domain = Result.getOrThrow(Address.parseDomain("dev.example"))
const mailboxes = [
  { local: "hello", displayName: "Hello" },
  { local: "billing", displayName: "Billing" }
]

export type Provisioned = Pick<DevFile, "tenantId" | "applicationId" | "mailboxes" | "apiKey">

export const provision = Effect.fnUntraced(function* (earlier: DevFile | null) {
  const management = yield* Management
  const actor: Actor = { type: "operator", id: "dev" }
  for (const plan of Limits.plans) yield* management.putPlan(plan)
  const tenant = yield* management.createTenant(actor, {
    ...(earlier === null ? {} : { id: earlier.tenantId }),
    name: "Development",
    planId: "dev"
  })
  const tenantId = tenant.id
  const application = yield* management.createApplication(actor, {
    ...(earlier === null ? {} : { id: earlier.applicationId }),
    tenantId,
    environment: "sandbox",
    name: "First application"
  })
  const { text } = yield* management.issueKey(actor, {
    tenantId,
    applicationId: application.id,
    name: "dev",
    scopes,
    ...(earlier === null ? {} : { text: Redacted.make(earlier.apiKey) })
  })
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
    applicationId: application.id,
    mailboxes: made.map(({ id, address }) => ({ id, address })),
    apiKey: Redacted.value(text)
  } satisfies Provisioned
})
