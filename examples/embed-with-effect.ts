/** Mailroom inside a program on Effect: its core is a Layer over the ports, its operations are typed Effects. */
import { Effect, Layer, Redacted, Result } from "effect"
import { Address, IdempotencyKey, Limits, Loops, Mailroom, MailProviders, Management, Messages, type Principal } from "mailroom"
import { EicarScanner } from "mailroom/adapters/eicar"
import { MemoryBlobStore, MemoryJobQueue, MemoryRateLimiter, MemoryStore } from "mailroom/adapters/memory"
import { NodeCrypto, NodeResolver } from "mailroom/adapters/node"
import { RfcMime } from "mailroom/adapters/mime"
import { SandboxMailProvider } from "mailroom/adapters/sandbox"
import { UndiciWebhookTransport } from "mailroom/adapters/undici"

const sealingKey = Redacted.make(crypto.getRandomValues(new Uint8Array(32)))

// An adapter for each port; another set is another list.
const ports = Layer.mergeAll(
  MemoryStore.layer,
  MemoryJobQueue.layer,
  MemoryBlobStore.layer,
  MemoryRateLimiter.layer,
  NodeCrypto.layer({ sealingKeys: [{ version: 1, key: sealingKey }] }),
  RfcMime.layer,
  EicarScanner.layer,
  UndiciWebhookTransport.layer.pipe(Layer.provideMerge(NodeResolver.layer)),
  Layer.succeed(MailProviders, { sandbox: SandboxMailProvider.make({ outcomeAfter: 0 }), production: null })
)

const operator = { type: "operator", id: "example" } as const

const provision = Effect.gen(function* () {
  const management = yield* Management
  const plan = Limits.plans[0]!
  yield* management.putPlan(plan)
  const { id: tenantId } = yield* management.createTenant(operator, { name: "Analytical Engines", planId: plan.id })
  const application = yield* management.createApplication(operator, { tenantId, environment: "sandbox", name: "Billing" })
  const { apiKey } = yield* management.issueKey(operator, {
    tenantId,
    applicationId: application.id,
    name: "first",
    scopes: ["messages:send", "messages:read"]
  })
  const name = Result.getOrThrow(Address.parseDomain("mail.example"))
  const domain = yield* management.createDomain(operator, { tenantId, domain: name })
  const checked = { state: "ok", expected: "yes", observed: "yes", since: 0 } as const
  yield* management.recordChecks(tenantId, domain.id, [
    { record: "ownership", ...checked },
    { record: "dkim", ...checked }
  ])
  const address = Result.getOrThrow(Address.parse("ada@mail.example"))
  const mailbox = yield* management.createMailbox(operator, { tenantId, address, displayName: "Ada" })
  // Over HTTP the credential says who calls; here the program does.
  const principal: Principal = {
    realm: { tenantId, environment: "sandbox" },
    applicationId: application.id,
    apiKeyId: apiKey.id,
    scopes: apiKey.scopes,
    plan,
    requestId: crypto.randomUUID(),
    clientAddress: "127.0.0.1"
  }
  return { mailbox, principal }
})

const program = Effect.gen(function* () {
  const messages = yield* Messages
  const { mailbox, principal } = yield* provision

  const { message } = yield* messages.send(principal, IdempotencyKey.IdempotencyKey.make(`example-${Date.now()}`), {
    fromMailboxId: mailbox.id,
    to: [Result.getOrThrow(Address.parse("delivered@example.com"))],
    cc: [],
    bcc: [],
    subject: "Hello",
    text: "It works.",
    html: null,
    attachmentIds: []
  })
  console.log(message.status)

  for (;;) {
    const { message: current } = yield* messages.get(principal, message.id)
    if (current.status === "delivered") return console.log(`${current.status} to ${current.recipients[0]?.address}`)
    yield* Effect.sleep("20 millis")
  }
})

// The loops do what follows from calls: submissions, events, webhooks, retention. `Loops.tick` is for a clock of your own.
const mailroom = Loops.layer.pipe(Layer.provideMerge(Mailroom.layer), Layer.provide(ports))

await Effect.runPromise(Effect.provide(program, mailroom))
