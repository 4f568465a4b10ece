/**
 * Production mail by a provider of your choice: a mail server if SMTP_HOST is
 * set, else one of a few lines that prints what it is given. Nothing but the
 * provider differs.
 *
 *   SMTP_HOST=smtp.example.com SMTP_USER=… SMTP_PASSWORD=… npm run --silent example -- swap-provider
 */
import { Effect, Redacted, Stream } from "effect"
import type { MailProvider } from "mailroom"
import { EicarScanner } from "mailroom/adapters/eicar"
import { MemoryBlobStore, MemoryJobQueue, MemoryStore } from "mailroom/adapters/memory"
import { NodeCrypto } from "mailroom/adapters/node"
import { RfcMime } from "mailroom/adapters/mime"
import { UndiciWebhookTransport } from "mailroom/adapters/undici"
import { createMailroom, parseAddress, parseDomain, plans, reveal } from "mailroom/embedded"

/** A whole provider: takes the bytes, and says what became of each recipient. */
const printing: MailProvider = {
  name: "printing",
  submit: ({ messageId, envelope, mime }) =>
    Effect.map(Stream.runFold(Stream.decodeText(mime), () => "", (all, part) => all + part), (text) => {
      console.log(`MAIL FROM:<${envelope.returnPath ?? ""}> RCPT TO:<${envelope.recipients.join(">,<")}>`)
      console.log(text.split("\r\n\r\n")[0])
      const reply = { smtpCode: 250, enhancedCode: "2.0.0", text: "printed" }
      return { providerMessageId: messageId, replies: envelope.recipients.map((recipient) => ({ recipient, reply })), pollAt: null }
    }),
  poll: () => Effect.succeed({ notifications: [], pollAt: null })
}

const { SMTP_HOST: host, SMTP_PORT: port = "587", SMTP_USER: user, SMTP_PASSWORD: password } = process.env

// Loaded only where it is used: it wants `nodemailer`.
const provider =
  host === undefined
    ? printing
    : (await import("mailroom/adapters/smtp")).SmtpMailProvider.make({
        host,
        port: Number(port),
        tls: port === "465" ? "implicit" : user === undefined ? "none" : "starttls",
        auth: user === undefined || password === undefined ? null : { user, password: Redacted.make(password) }
      })

const mailroom = await createMailroom({
  store: MemoryStore.layer,
  queue: MemoryJobQueue.layer,
  blobs: MemoryBlobStore.layer,
  crypto: NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(crypto.getRandomValues(new Uint8Array(32))) }] }),
  mime: RfcMime.layer,
  scanner: EicarScanner.layer,
  webhooks: UndiciWebhookTransport.layer,
  provider
})

const { management } = mailroom
const operator = { type: "operator", id: "example" } as const
for (const plan of plans) await management.putPlan(plan)
const { id: tenantId } = await management.createTenant(operator, { name: "Analytical Engines", planId: "standard" })
const { id: applicationId } = await management.createApplication(operator, { tenantId, environment: "production", name: "Billing" })
const key = await management.issueKey(operator, { tenantId, applicationId, name: "first", scopes: ["messages:send", "messages:read"] })
const domain = await management.createDomain(operator, { tenantId, domain: parseDomain("mail.example") })
const checked = { state: "ok", expected: "yes", observed: "yes", since: Date.now() } as const
await management.recordChecks(tenantId, domain.id, [
  { record: "ownership", ...checked },
  { record: "dkim", ...checked }
])
const address = parseAddress("ada@mail.example")
const mailbox = await management.createMailbox(operator, { tenantId, address, displayName: "Ada" })

const client = mailroom.client(reveal(key.text))
const { id } = await client.sendMessage({
  fromMailboxId: mailbox.id,
  to: [process.argv[2] ?? "charles@example.com"],
  subject: "Note G",
  text: "The engine weaves."
})
await mailroom.tick()
console.log((await client.getMessage(id)).message.status)
await mailroom.close()
