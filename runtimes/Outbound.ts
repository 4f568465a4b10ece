/** What leaves the process, and what looks at what comes in, as the settings say: mail providers, webhooks, the scanner. */
import { Effect, Layer, Redacted, Schema } from "effect"
import { readFileSync } from "node:fs"
import * as ClamdScanner from "../adapters/clamd/ClamdScanner.ts"
import * as EicarScanner from "../adapters/eicar/EicarScanner.ts"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import * as SmtpMailProvider from "../adapters/smtp/SmtpMailProvider.ts"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { ConfigFaults, settings, type Config } from "./Config.ts"

const DkimFile = Schema.Array(
  Schema.Struct({ domain: Schema.NonEmptyString, selector: Schema.NonEmptyString, privateKey: Schema.NonEmptyString })
)

const read = (name: string, file: string) =>
  Effect.try({
    try: () => readFileSync(file, "utf8"),
    catch: (cause) => new ConfigFaults({ faults: [`${name}: ${cause instanceof Error ? cause.message : String(cause)}`] })
  })

const certificates = Effect.fnUntraced(function* (file: string) {
  const text = yield* read(settings.smtpCa.name, file)
  if (text.includes("-----BEGIN CERTIFICATE-----")) return text
  return yield* new ConfigFaults({ faults: [`${settings.smtpCa.name}: ${file} holds no certificate in PEM`] })
})

const dkimKeys = Effect.fnUntraced(function* (file: string) {
  const text = yield* read(settings.dkimFile.name, file)
  // The file's content is secret, and no part of the fault.
  const keys = yield* Schema.decodeUnknownEffect(Schema.fromJsonString(DkimFile))(text).pipe(
    Effect.mapError(
      () => new ConfigFaults({ faults: [`${settings.dkimFile.name}: ${file} wants a JSON list of {domain, selector, privateKey}`] })
    )
  )
  return keys.map(({ domain, selector, privateKey }) => ({ domain, selector, privateKey: Redacted.make(privateKey) }))
})

const production = Effect.fnUntraced(function* (config: Config) {
  if (config.smtpHost === null) return null
  return yield* SmtpMailProvider.make({
    host: config.smtpHost,
    port: config.smtpPort,
    tls: config.smtpTls,
    auth:
      config.smtpUser === null || config.smtpPassword === null
        ? null
        : { user: config.smtpUser, password: config.smtpPassword },
    ca: config.smtpCa === null ? null : yield* certificates(config.smtpCa),
    dkim: config.dkimFile === null ? [] : yield* dkimKeys(config.dkimFile)
  }).pipe(
    // Options that cannot work are settings that cannot.
    Effect.catchDefect((defect) =>
      Effect.fail(new ConfigFaults({ faults: [`${settings.smtpHost.name} and beside: ${defect instanceof Error ? defect.message : String(defect)}`] }))
    )
  )
})

/** MailProviders, Scanner and WebhookTransport; fails with the settings at fault. */
export const layer = (config: Config) =>
  Layer.mergeAll(
    Layer.effect(
      MailProviders,
      Effect.map(production(config), (provider) => ({ sandbox: SandboxMailProvider.make(), production: provider }))
    ),
    config.scanner === "clamd" ? ClamdScanner.layerWith({ address: config.clamd }) : EicarScanner.layer,
    UndiciWebhookTransport.layer.pipe(Layer.provide(NodeResolver.layer))
  )
