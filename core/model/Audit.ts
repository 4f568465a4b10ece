/**
 * The audit trail. Writes are recorded in the commit that makes them; every
 * request of a known caller is recorded in a log that is written behind and may
 * lose its last second in a crash (Spec 1, point 7).
 */
import type { ApiKeyId, ApplicationId, Environment, Millis, RequestId, TenantId } from "./Ids.ts"

/** An item of a list that grows at its end. Numbers rise, not always by one, and never change; each list has its own. */
export type Numbered<A> = A & { readonly number: number }

/** Who did it: an API key, an operator at the command line, or the service itself. */
export interface Actor {
  readonly type: "api_key" | "operator" | "system"
  readonly id: string
}

export const system: Actor = { type: "system", id: "mailroom" }
/** The service where it takes in a round of DNS checks, its own or one that it is handed. */
export const domainChecker: Actor = { type: "system", id: "domain-checker" }

export interface AuditEntry {
  readonly id: string
  readonly tenantId: TenantId
  /** Null for what belongs to the tenant as a whole. */
  readonly environment: Environment | null
  readonly at: Millis
  readonly actor: Actor
  /** `message.send`, `api_key.revoke`: resource and verb. */
  readonly action: string
  readonly subject: { readonly type: string; readonly id: string }
  readonly requestId: RequestId | null
  readonly clientAddress: string | null
}

/** The entry of a write that no request asked for. Its subject is of the type that the action is named after. */
export const entryOf = (of: Pick<AuditEntry, "id" | "tenantId" | "environment" | "at" | "actor" | "action">, subjectId: string): AuditEntry => ({
  ...of,
  subject: { type: of.action.slice(0, of.action.indexOf(".")), id: subjectId },
  requestId: null,
  clientAddress: null
})

/** One request as it ended. Its URL's query and its bodies are not part of it. */
export interface RequestEntry {
  readonly requestId: RequestId
  readonly tenantId: TenantId
  readonly environment: Environment
  readonly applicationId: ApplicationId
  readonly apiKeyId: ApiKeyId
  readonly at: Millis
  readonly operation: string
  readonly status: number
  readonly code: string | null
  readonly durationMs: number
  readonly clientAddress: string
}
