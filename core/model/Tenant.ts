/** A customer organization, and its developer applications (Spec 1). */
import type { ApplicationId, Environment, Millis, TenantId } from "./Ids.ts"

export interface Tenant {
  readonly id: TenantId
  readonly version: number
  readonly name: string
  readonly planId: string
  readonly status: "active" | "suspended"
  readonly createdAt: Millis
}

/** Each key belongs to one application; the application fixes its environment. */
export interface Application {
  readonly id: ApplicationId
  readonly tenantId: TenantId
  readonly version: number
  readonly environment: Environment
  readonly name: string
  readonly status: "active" | "suspended"
  readonly createdAt: Millis
}
