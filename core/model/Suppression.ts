/** An address we will not mail again for a tenant's production environment: it bounced for good, or complained. */
import type { Address } from "./Address.ts"
import type { Environment, MessageId, Millis, TenantId } from "./Ids.ts"

export interface Suppression {
  readonly tenantId: TenantId
  readonly environment: Environment
  readonly address: Address
  readonly reason: "bounce" | "complaint"
  readonly messageId: MessageId
  readonly createdAt: Millis
}
