/**
 * For authors of adapters: a suite per port and the scenarios, as data. Run
 * them under any test runner: each check is an Effect over the port it tests,
 * on a virtual clock.
 */
export { NotApplicable, type Check, type Suite } from "./Suite.ts"
export {
  conforms,
  NothingToProve,
  plays,
  prove,
  scenarios,
  toText,
  type Proof,
  type ProofOptions,
  type ProofReport,
  type ProofResult
} from "./Proof.ts"
export { suite as blobStore } from "./BlobStore.ts"
export { suite as crypto } from "./Crypto.ts"
export { suite as cryptoKeyRing, type RingKey as CryptoRingKey } from "./CryptoKeyRing.ts"
export { suite as jobQueue } from "./JobQueue.ts"
export { suite as jobQueueReopened } from "./JobQueueReopened.ts"
export { suite as mailAuthenticator, type Case as MailAuthenticatorCase } from "./MailAuthenticator.ts"
export { suite as mailProvider } from "./MailProvider.ts"
export type { Ending as MailProviderEnding, Server as MailProviderServer } from "./MailProviderEndings.ts"
export { suite as mailProviderAgainstHostileServer } from "./MailProviderHostile.ts"
export type * as MailServerScript from "./MailServerScript.ts"
export { suite as mime } from "./Mime.ts"
export { suite as notificationIntake } from "./NotificationIntake.ts"
export { suite as rateLimiter } from "./RateLimiter.ts"
export {
  suite as resolver,
  Zone as ResolverZone,
  type Records as ResolverRecords,
  type Said as ResolverSaid,
  type SaidBeside as ResolverSaidBeside
} from "./Resolver.ts"
export { suite as scanner } from "./Scanner.ts"
export { suite as spamFilter, type Case as SpamFilterCase } from "./SpamFilter.ts"
export { suite as store } from "./Store.ts"
export { agreement as storeAgreement } from "./StoreModel.ts"
export {
  Receivers as WebhookReceivers,
  suite as webhookTransport,
  type Arrived as WebhookArrived,
  type Behaviour as WebhookBehaviour,
  type Receiver as WebhookReceiver
} from "./WebhookTransport.ts"
export {
  suite as webhookTransportWire,
  Wire as WebhookWire,
  type Certificate as WebhookCertificate,
  type Listener as WebhookListener,
  type Listening as WebhookListening,
  type Said as WebhookSaid
} from "./WebhookTransportWire.ts"
export { suite as sendToEveryOutcome } from "./scenarios/outcomes.ts"
export { suite as crashAndResume } from "./scenarios/crashes.ts"
export { suite as idempotentSending } from "./scenarios/idempotency.ts"
export { suite as knownSenders } from "./scenarios/senders.ts"
export { suite as providerNotifications } from "./scenarios/notifications.ts"
export { suite as isolation } from "./scenarios/isolation.ts"
export { suite as whatIsShown } from "./scenarios/shown.ts"
export { suite as outages } from "./scenarios/outages.ts"
export { suite as mailHandedOver } from "./scenarios/handedOver.ts"
export { suite as silentBlobs } from "./scenarios/silentBlobs.ts"
export { suite as accessAndLimits } from "./scenarios/limits.ts"
export { suite as attachmentScans } from "./scenarios/scans.ts"
export { suite as removals } from "./scenarios/removals.ts"
export { suite as messageRetention } from "./scenarios/retention.ts"
export { suite as interference } from "./scenarios/interference.ts"
export { suite as providerPolls } from "./scenarios/polls.ts"
export { suite as suppressionList } from "./scenarios/suppressions.ts"
export { suite as mailDomains } from "./scenarios/domains.ts"
export { suite as webhookHandshakes } from "./scenarios/handshakes.ts"
export { suite as webhookDeliveries } from "./scenarios/deliveries.ts"
export { suite as webhookBreaker } from "./scenarios/breaker.ts"
export { suite as webhookSecrets } from "./scenarios/secrets.ts"
export { suite as webhookSlowReceivers } from "./scenarios/slowReceivers.ts"
export { suite as webhookOutages } from "./scenarios/webhookOutages.ts"
export { suite as webhookFanOut } from "./scenarios/fanout.ts"
export { suite as webhookRelaying } from "./scenarios/relaying.ts"
export { suite as webhookFirstAttemptFaults } from "./scenarios/firstAttemptFaults.ts"
export { suite as webhookFirstAttempts } from "./scenarios/firstAttempts.ts"
export { suite as receivingMail } from "./scenarios/receiving.ts"
export { suite as knownRecipients } from "./scenarios/recipients.ts"
export { suite as reportsAboutOurMail } from "./scenarios/reports.ts"
export { Sandbox, type AdapterSet } from "./scenarios/World.ts"
