/** A mailbox: an address of a tenant that sends and receives (Spec 2, Mailbox). Seen from both environments. */
import { Schema } from "effect"
import { AddressFromString, type Address } from "./Address.ts"
import { MailboxId, type DomainId, type Millis, type TenantId } from "./Ids.ts"

export interface Mailbox {
  readonly id: MailboxId
  readonly tenantId: TenantId
  readonly version: number
  readonly eventSequence: number
  readonly domainId: DomainId
  readonly address: Address
  readonly displayName: string
  readonly status: "active" | "suspended"
  readonly createdAt: Millis
}

/** The Mailbox resource (Spec 2; closed). */
export const View = Schema.Struct({ id: MailboxId, address: AddressFromString, displayName: Schema.String })
