/** Mailroom inside a program of yours, with Promises and no server: a tenant, a key, a send, what became of it, and mail that comes in. */
import { Redacted } from "effect"
import { EicarScanner } from "mailroom/adapters/eicar"
import { MemoryBlobStore, MemoryJobQueue, MemoryStore } from "mailroom/adapters/memory"
import { NodeCrypto } from "mailroom/adapters/node"
import { RfcMime } from "mailroom/adapters/mime"
import { UndiciWebhookTransport } from "mailroom/adapters/undici"
import { createMailroom, parseAddress, parseDomain, plans, reveal } from "mailroom/embedded"

const mailroom = await createMailroom({
  store: MemoryStore.layer,
  queue: MemoryJobQueue.layer,
  blobs: MemoryBlobStore.layer,
  // Keep this key: what it sealed, only it opens.
  crypto: NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(crypto.getRandomValues(new Uint8Array(32))) }] }),
  mime: RfcMime.layer,
  scanner: EicarScanner.layer,
  webhooks: UndiciWebhookTransport.layer,
  provider: null, // production mail waits; the sandbox needs nobody
  settings: { inboundEnvironment: "sandbox" } // where the key below can read it
})

// What your own administration does, once per tenant.
const { management } = mailroom
const operator = { type: "operator", id: "example" } as const
for (const plan of plans) await management.putPlan(plan)
const { id: tenantId } = await management.createTenant(operator, { name: "Analytical Engines", planId: "standard" })
const { id: applicationId } = await management.createApplication(operator, { tenantId, environment: "sandbox", name: "Billing" })
const { text } = await management.issueKey(operator, {
  tenantId,
  applicationId,
  name: "first",
  scopes: ["messages:send", "messages:read"]
})
const domain = await management.createDomain(operator, { tenantId, domain: parseDomain("mail.example") })
await management.recordChecks(tenantId, domain.id, [
  { record: "ownership", state: "ok", expected: "yes", observed: "yes", since: Date.now() },
  { record: "dkim", state: "ok", expected: "yes", observed: "yes", since: Date.now() }
])
const mailbox = await management.createMailbox(operator, {
  tenantId,
  address: parseAddress("ada@mail.example"),
  displayName: "Ada"
})

// What an application does: the TypeScript client, without a socket.
const client = mailroom.client(reveal(text))
const sent = await client.sendMessage({ fromMailboxId: mailbox.id, to: ["delivered@example.com"], text: "It works." })
console.log(sent.status)

await mailroom.start() // works in the background; `mailroom.tick()` does what is due now, for programs that schedule
for (let tries = 0; tries < 200; tries++) {
  const { message } = await client.getMessage(sent.id)
  if (message.status === "delivered") {
    console.log(`${message.status} to ${message.recipients[0]?.address}`)
    break
  }
  await new Promise((resolve) => setTimeout(resolve, 20))
}

// What a mail server of yours does: asks at RCPT TO, hands over at the end of DATA, and answers what a `ReceiveRefused` says.
await mailroom.receive.recipient("ada@mail.example")
await mailroom.receive.accept({
  peer: { remoteAddress: "192.0.2.25", helo: "mx.example.org", protocol: "ESMTPS" },
  returnPath: "charles@example.org",
  recipients: ["ada@mail.example"],
  bytes: new TextEncoder().encode("From: charles@example.org\r\nSubject: Note G\r\n\r\nThe engine weaves.\r\n")
})
const { items } = await client.messages.list()
console.log(`${items[0]?.status}: ${items[0]?.subject}`)
await mailroom.close()
