import { Context, Effect, Layer, Redacted } from "effect"
import { generateKeyPairSync } from "node:crypto"
import type { AddressInfo } from "node:net"
import { SMTPServer } from "smtp-server"
import { suite, type Received } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { Address } from "../../core/model/Address.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as SmtpMailProvider from "./SmtpMailProvider.ts"

class Relay extends Context.Service<Relay, { readonly provider: MailProvider; readonly received: Array<Received> }>()(
  "test/Relay"
) {}

const relay = ({ make }: Pick<typeof SmtpMailProvider, "make">, dkim: ReadonlyArray<SmtpMailProvider.DkimKey>) =>
  Layer.effect(
    Relay,
    Effect.gen(function* () {
      const received: Array<Received> = []
      const server = new SMTPServer({
        authOptional: true,
        disabledCommands: ["STARTTLS"],
        onData: (stream, { envelope: { mailFrom, rcptTo } }, done) => {
          const chunks: Array<Buffer> = []
          stream.on("data", (chunk: Buffer) => chunks.push(chunk))
          stream.on("end", () => {
            received.push({
              // What was submitted is an address.
              returnPath: mailFrom === false || mailFrom.address === "" ? null : (mailFrom.address as Address),
              recipients: rcptTo.map(({ address }) => address as Address),
              bytes: Buffer.concat(chunks)
            })
            done()
          })
        }
      })
      const { port } = yield* Effect.callback<AddressInfo>((resume) => {
        // It listens on a port.
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server.server.address() as AddressInfo)))
      })
      yield* Effect.addFinalizer(() => Effect.callback<void>((resume) => server.close(() => resume(Effect.void))))
      const provider = yield* make({ host: "127.0.0.1", port, tls: "none", dkim })
      return { provider, received }
    })
  )

const relayed = suite({
  provider: Relay.useSync(({ provider }) => provider),
  received: ({ messageId }) =>
    Relay.useSync(({ received }) => received.filter(({ bytes }) => Buffer.from(bytes).includes(`Message-ID: <${messageId}@`)))
})

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" }
})
const signature = /^DKIM-Signature: (?:.*\r\n[ \t])*.*\r\n/

const signed = suite({
  provider: Relay.useSync(({ provider }) => provider),
  received: ({ messageId }) =>
    Relay.useSync(({ received }) =>
      received.flatMap(({ bytes, ...envelope }) => {
        const text = Buffer.from(bytes).toString("latin1")
        const isSigned = signature.test(text) && text.includes(`Message-ID: <${messageId}@`)
        return isSigned ? [{ ...envelope, bytes: Buffer.from(text.replace(signature, ""), "latin1") }] : []
      })
    )
})

const key = { domain: "example.com", selector: "s", privateKey: Redacted.make(privateKey) }
for (const [title, adapter] of Object.entries({ SmtpMailProvider, PipeliningSmtpMailProvider })) {
  conforms(title, relayed, relay(adapter, []))
  conforms(`${title} with a key`, signed, relay(adapter, [key]))
}
