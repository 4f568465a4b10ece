/** An address we will not mail for a tenant's production environment: it bounced for good, complained, or was put there by hand. */
import type { Address } from "./Address.ts"
import type { Environment, MessageId, Millis, TenantId } from "./Ids.ts"

export interface Suppression {
  readonly tenantId: TenantId
  readonly environment: Environment
  readonly address: Address
  readonly reason: "bounce" | "complaint" | "manual"
  /** What bounced, or was complained of; null for one that was put there by hand. */
  readonly messageId: MessageId | null
  readonly createdAt: Millis
}
