/** What leaves the process, and what looks at what comes in, as the settings say: mail providers, webhooks, the scanner. */
import { Effect, Layer, Redacted, Result, Schema, Stream } from "effect"
import { readFileSync } from "node:fs"
import * as ClamdScanner from "../adapters/clamd/ClamdScanner.ts"
import * as EicarScanner from "../adapters/eicar/EicarScanner.ts"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import * as PipeliningSmtpMailProvider from "../adapters/smtp/PipeliningSmtpMailProvider.ts"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { Scanner, type Verdict } from "../core/ports/Scanner.ts"
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

/** What the mail server is spoken to with; null if there is none. Fails with every file at fault. */
export const smtpOptions = Effect.fnUntraced(function* (config: Config) {
  const { smtpHost, smtpPort, smtpTls, smtpUser, smtpPassword, smtpCa, dkimFile } = config
  if (smtpHost === null) return null
  const ca = yield* Effect.result(smtpCa === null ? Effect.succeed(null) : certificates(smtpCa))
  const dkim = yield* Effect.result(dkimFile === null ? Effect.succeed([]) : dkimKeys(dkimFile))
  if (Result.isFailure(ca) || Result.isFailure(dkim)) {
    const faultsOf = (read: Result.Result<unknown, ConfigFaults>) => (Result.isFailure(read) ? read.failure.faults : [])
    return yield* new ConfigFaults({ faults: [...faultsOf(ca), ...faultsOf(dkim)] })
  }
  const auth = smtpUser === null || smtpPassword === null ? null : { user: smtpUser, password: smtpPassword }
  return { host: smtpHost, port: smtpPort, tls: smtpTls, auth, ca: ca.success, dkim: dkim.success }
})

const production = Effect.fnUntraced(function* (config: Config) {
  const options = yield* smtpOptions(config)
  if (options === null) return null
  return yield* PipeliningSmtpMailProvider.make(options).pipe(
    // Options that cannot work are settings that cannot.
    Effect.catchDefect((defect) =>
      Effect.fail(new ConfigFaults({ faults: [`${settings.smtpHost.name} and beside: ${defect instanceof Error ? defect.message : String(defect)}`] }))
    )
  )
})

/** Passes everything that is all there. */
const unscanned = Layer.succeed(Scanner, { scan: (bytes) => Effect.as(Stream.runDrain(bytes), { _tag: "Clean" } as Verdict) })

/** What looks at attachments; one that is no protection says so at every start, where it matters. */
const scanner = ({ mode, scanner, clamd }: Config) => {
  if (scanner === "clamd") return ClamdScanner.layerWith({ address: clamd })
  const warning =
    scanner === "none"
      ? `attachments are passed unscanned: ${settings.scanner.name} is none`
      : `attachments are passed all but unscanned: ${settings.scanner.name} is eicar, which finds a test file`
  return Layer.merge(
    scanner === "none" ? unscanned : EicarScanner.layer,
    Layer.effectDiscard(scanner === "none" || mode === "production" ? Effect.logWarning(warning) : Effect.void)
  )
}

/** Looks where webhooks go, and posts them; and looks up the records of mail domains. */
export const webhooks = UndiciWebhookTransport.layer.pipe(Layer.provideMerge(NodeResolver.layer))

/** MailProviders, Scanner, WebhookTransport and Resolver; fails with the settings at fault. */
export const layer = (config: Config) =>
  Layer.mergeAll(
    Layer.effect(
      MailProviders,
      Effect.map(production(config), (provider) => ({ sandbox: SandboxMailProvider.make(), production: provider }))
    ),
    scanner(config),
    webhooks
  )
