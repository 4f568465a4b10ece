/**
 * `mailroom/client`: the TypeScript client of the API, and the receiver's side
 * of webhooks. It imports nothing, and runs wherever there are `fetch` and
 * WebCrypto: Node, Deno, Bun, workers.
 */
export * from "./Client.ts"
export type * from "./Contract.ts"
export * from "./Errors.ts"
export type { Platform } from "./Platform.ts"
export type { Fetch } from "./Transport.ts"
export * from "./Webhook.ts"
