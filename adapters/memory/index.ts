/**
 * Every port but Crypto and Mime, in this process's memory: the model that
 * other adapters are compared with. A restart loses all of it.
 *
 * Tests direct the scanner and the mail providers through `ScannerScript` and
 * `MailRecord`, which the layer brings along.
 */
import { Layer } from "effect"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"
import * as MemoryMailProvider from "./MemoryMailProvider.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"
import * as MemoryScanner from "./MemoryScanner.ts"
import * as MemoryStore from "./MemoryStore.ts"

export { MemoryBlobStore, MemoryJobQueue, MemoryMailProvider, MemoryRateLimiter, MemoryScanner, MemoryStore }

export const layer = Layer.mergeAll(
  MemoryStore.layer,
  MemoryJobQueue.layer,
  MemoryRateLimiter.layer,
  MemoryBlobStore.layer,
  MemoryMailProvider.layer,
  MemoryScanner.layer
)
