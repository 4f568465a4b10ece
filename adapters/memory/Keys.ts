/** The texts under which the memory Store keeps what it is asked for by more than one field. */
import { foldCase, type Address } from "../../core/model/Address.ts"
import type { Reservation } from "../../core/model/IdempotencyKey.ts"
import type { ApplicationId, EndpointId, MailboxId, Realm } from "../../core/model/Ids.ts"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import type { SubmissionRef } from "../../core/model/Recipient.ts"
import type { UniqueName } from "../../core/ports/Store.ts"

const keyOfRealm = (realm: Realm): string => `${realm.tenantId} ${realm.environment}`

export const keyOfList = (realm: Realm, mailboxId: MailboxId | null): string =>
  mailboxId === null ? keyOfRealm(realm) : `${keyOfRealm(realm)} ${mailboxId}`

export const keyOfApplication = (realm: Realm, applicationId: ApplicationId, endpointId: EndpointId | null = null): string =>
  endpointId === null ? `${keyOfRealm(realm)} ${applicationId}` : `${keyOfRealm(realm)} ${applicationId} ${endpointId}`

export const keyOfEndpoint = (realm: Realm, endpointId: EndpointId): string => `${keyOfRealm(realm)} ${endpointId}`

export const keyOfName = ({ kind, value }: Omit<UniqueName, "field">): string => `${kind} ${value}`

export const keyOfSuppression = (realm: Realm, address: Address): string => `${keyOfRealm(realm)} ${foldCase(address)}`

export const keyOfRef = (ref: SubmissionRef): string => JSON.stringify([ref.provider, ref.providerMessageId])

export const keyOfReservation = (of: Pick<Reservation, "applicationId" | "idempotencyKey">): string =>
  `${of.applicationId} ${of.idempotencyKey}`

export const keyOfPayload = (of: Pick<ProviderPayload, "provider" | "id">): string => JSON.stringify([of.provider, of.id])
