/** A Mailroom inside a test, on adapters in memory, which closes with the test. */
import { Effect, Layer, Redacted } from "effect"
import { afterEach } from "vitest"
import * as EicarScanner from "../../adapters/eicar/EicarScanner.ts"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import * as SandboxMailProvider from "../../adapters/sandbox/SandboxMailProvider.ts"
import { scopes } from "../../core/model/ApiKey.ts"
import { WebhookTransport, type WebhookRequest } from "../../core/ports/WebhookTransport.ts"
import { createMailroom, parseAddress, parseDomain, plans, reveal, type EmbeddedMailroom, type Options } from "./index.ts"

export const operator = { type: "operator", id: "test" } as const

const open: Array<EmbeddedMailroom> = []
afterEach(() => Promise.all(open.splice(0).map((one) => one.close())))

/** Receivers that echo challenges and take everything. */
export const receiver = () => {
  const posts: Array<{ readonly url: string; readonly type: string }> = []
  const post = ({ target, body }: WebhookRequest) =>
    Effect.sync(() => {
      const { type, data } = JSON.parse(new TextDecoder().decode(body))
      posts.push({ url: target.href, type })
      const answer = JSON.stringify({ challenge: data.challenge })
      return { status: 200, retryAfter: null, body: new TextEncoder().encode(answer), truncated: false }
    })
  return { posts, layer: Layer.succeed(WebhookTransport, { post, get: () => Effect.die("nothing is fetched") }) }
}

export const embed = async (over: Partial<Options> = {}) => {
  const mailroom = await createMailroom({
    store: Memory.MemoryStore.layer,
    queue: Memory.MemoryJobQueue.layer,
    blobs: Memory.MemoryBlobStore.layer,
    crypto: NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
    mime: RfcMime.layer,
    scanner: EicarScanner.layer,
    webhooks: receiver().layer,
    sandbox: SandboxMailProvider.make({ outcomeAfter: 0 }),
    provider: null,
    log: () => {},
    ...over
  })
  open.push(mailroom)
  return mailroom
}

export const found = async ({ management }: EmbeddedMailroom, environment: "sandbox" | "production" = "sandbox") => {
  for (const plan of plans) await management.putPlan(plan)
  const { id: tenantId } = await management.createTenant(operator, { name: "Analytical Engines", planId: "standard" })
  const { id: applicationId } = await management.createApplication(operator, { tenantId, environment, name: "Billing" })
  const { text } = await management.issueKey(operator, { tenantId, applicationId, name: "first", scopes })
  const domain = await management.createDomain(operator, { tenantId, domain: parseDomain("mail.example") })
  const checked = { state: "ok", expected: "yes", observed: "yes", since: 0 } as const
  await management.recordChecks(tenantId, domain.id, [
    { record: "ownership", ...checked },
    { record: "dkim", ...checked }
  ])
  const address = parseAddress("ada@mail.example")
  const mailbox = await management.createMailbox(operator, { tenantId, address, displayName: "Ada" })
  return { tenantId, applicationId, apiKey: reveal(text), mailboxId: mailbox.id }
}

/** The rejection of a promise; fails if it is kept. */
export const rejectionOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => Promise.reject(new Error("it was kept")),
    (error: unknown) => error
  )

export const from = { clientAddress: "192.0.2.1" }
export const get = (path: string, headers: Record<string, string> = {}) => new Request(`http://mailroom.internal${path}`, { headers })
