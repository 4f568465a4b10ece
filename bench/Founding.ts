/** Tenants for a run, founded as an operator would: over the deployment's own database. */
import { Effect, Layer, Redacted, Result } from "effect"
import { randomUUID } from "node:crypto"
import { parse as parseAddress, parseDomain } from "../core/model/Address.ts"
import { scopes } from "../core/model/ApiKey.ts"
import { system } from "../core/model/Audit.ts"
import type { Environment, TenantId } from "../core/model/Ids.ts"
import * as Limits from "../core/model/Limits.ts"
import { Management } from "../core/operations/Management.ts"
import * as Adapters from "../runtimes/Adapters.ts"
import * as Config from "../runtimes/Config.ts"
import type { Caller } from "./Api.ts"

/** A tenant with a sandbox and a production application, as two callers of one canary. */
export const found = async (
  variables: Readonly<Record<string, string>>,
  name: string,
  plan: Limits.Plan = Limits.plans.find(({ id }) => id === "dev")!
): Promise<ReadonlyArray<Caller>> => {
  const config = (await Effect.runPromise(Config.load(variables, {}, ["database"]))) as Config.Deployment // the database is needed
  const canary = `canary-${randomUUID()}`
  const founded = Effect.gen(function* () {
    const management = yield* Management
    for (const known of [...Limits.plans, plan]) yield* management.putPlan(known)
    const { id: tenantId } = yield* management.createTenant(system, { name, planId: plan.id })
    const domain = Result.getOrThrow(parseDomain(name))
    const claimed = yield* management.createDomain(system, { tenantId, domain })
    const checks = (["ownership", "dkim"] as const).map((record) => ({ record, state: "ok", expected: "x", observed: "x", since: 0 }) as const)
    yield* management.recordChecks(tenantId, claimed.id, checks)
    const address = Result.getOrThrow(parseAddress(`ada@${name}`))
    const mailbox = yield* management.createMailbox(system, { tenantId, address, displayName: canary })
    const callerOf = Effect.fnUntraced(function* (environment: Environment) {
      const application = yield* management.createApplication(system, { tenantId, environment, name: environment })
      const { text } = yield* management.issueKey(system, { tenantId, applicationId: application.id, name: "bench", scopes })
      return { name: `${environment} of ${tenantId}`, apiKey: Redacted.value(text), mailboxId: mailbox.id, environment, canary }
    })
    return [yield* callerOf("sandbox"), yield* callerOf("production")]
  })
  const core = Management.layer.pipe(Layer.provide(Adapters.operator(config)))
  return Effect.runPromise(Effect.provide(founded, core))
}

/** Whose caller it is: the name that `found` gives ends with it. */
export const tenantIdOf = ({ name }: Caller): TenantId => name.slice(name.lastIndexOf(" ") + 1) as TenantId
