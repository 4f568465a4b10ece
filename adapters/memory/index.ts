/**
 * Every port but Crypto, Mime and Resolver, in this process's memory: the model that
 * other adapters are compared with. A restart loses all of it.
 *
 * Tests direct the scanner, the mail providers and the webhook receivers
 * through `ScannerScript`, `MailRecord` and `WebhookScript`, which the layer
 * brings along.
 */
import { Layer } from "effect"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"
import * as MemoryMailAuthenticator from "./MemoryMailAuthenticator.ts"
import * as MemoryMailProvider from "./MemoryMailProvider.ts"
import * as MemoryNotificationIntake from "./MemoryNotificationIntake.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"
import * as MemoryScanner from "./MemoryScanner.ts"
import * as MemorySpamFilter from "./MemorySpamFilter.ts"
import * as MemoryStore from "./MemoryStore.ts"
import * as MemoryWebhookTransport from "./MemoryWebhookTransport.ts"

export {
  MemoryBlobStore,
  MemoryJobQueue,
  MemoryMailAuthenticator,
  MemoryMailProvider,
  MemoryNotificationIntake,
  MemoryRateLimiter,
  MemoryScanner,
  MemorySpamFilter,
  MemoryStore,
  MemoryWebhookTransport
}

// Whoever judges inbound mail is optional, so the authenticator and the spam filter are not among these.

export const layer = Layer.mergeAll(
  MemoryStore.layer,
  MemoryJobQueue.layer,
  MemoryRateLimiter.layer,
  MemoryBlobStore.layer,
  MemoryMailProvider.layer,
  MemoryScanner.layer,
  MemoryWebhookTransport.layer
)
