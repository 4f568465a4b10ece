/**
 * What leaves the process, and what looks at what comes in, as the settings say: mail providers and what they say later,
 * webhooks, the scanner.
 */
import { Effect, Layer, Redacted, Result, Schema, Stream } from "effect"
import * as ClamdScanner from "../adapters/clamd/ClamdScanner.ts"
import * as EicarScanner from "../adapters/eicar/EicarScanner.ts"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as PostmarkMailProvider from "../adapters/postmark/PostmarkMailProvider.ts"
import * as PostmarkNotificationIntake from "../adapters/postmark/PostmarkNotificationIntake.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import * as SesNotificationIntake from "../adapters/ses/SesNotificationIntake.ts"
import * as Dkim from "../adapters/smtp/Dkim.ts"
import * as PipeliningSmtpMailProvider from "../adapters/smtp/PipeliningSmtpMailProvider.ts"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import { authority } from "../core/model/Authority.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { NotificationIntakes } from "../core/ports/NotificationIntake.ts"
import { Scanner, type Verdict } from "../core/ports/Scanner.ts"
import { ConfigFaults, settings, type Config } from "./Config.ts"
import * as FileFault from "./FileFault.ts"

const DkimFile = Schema.Array(
  Schema.Struct({ domain: Schema.NonEmptyString, selector: Schema.NonEmptyString, privateKey: Schema.NonEmptyString })
)

const read = (name: string, file: string) =>
  Effect.mapError(FileFault.read(name, file), (fault) => new ConfigFaults({ faults: [fault] }))

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
  const redacted = keys.map(({ domain, selector, privateKey }) => ({ domain, selector, privateKey: Redacted.make(privateKey) }))
  // Here, and not first where mail is sent: the doctor looks at no more than this.
  yield* Effect.try({
    try: () => Dkim.signer(redacted),
    catch: (cause) => new ConfigFaults({ faults: [`${settings.dkimFile.name}: ${file}: ${cause instanceof Error ? cause.message : String(cause)}`] })
  })
  return redacted
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

const smtp = Effect.fnUntraced(function* (config: Config) {
  const options = yield* smtpOptions(config)
  if (options === null) return null
  return yield* PipeliningSmtpMailProvider.make(options).pipe(
    // Options that cannot work are settings that cannot.
    Effect.catchDefect((defect) =>
      Effect.fail(new ConfigFaults({ faults: [`${settings.smtpHost.name} and beside: ${defect instanceof Error ? defect.message : String(defect)}`] }))
    )
  )
})

/** Amazon's SDK is large, and optional: it is loaded by who uses it. Fails where it is not installed. */
export const sesAdapter = Effect.tryPromise({
  try: () => import("../adapters/ses/SesMailProvider.ts"),
  catch: () => new ConfigFaults({ faults: [`${settings.provider.name} is ses, which wants: npm install @aws-sdk/client-sesv2`] })
})

const ses = Effect.fnUntraced(function* ({ sesRegion, sesAccessKeyId, sesSecretAccessKey, sesConfigurationSet }: Config) {
  const { make } = yield* sesAdapter
  return yield* make({
    region: sesRegion ?? "",
    credentials: sesAccessKeyId === null || sesSecretAccessKey === null ? null : { accessKeyId: sesAccessKeyId, secretAccessKey: sesSecretAccessKey },
    configurationSet: sesConfigurationSet
  })
})

const production = Effect.fnUntraced(function* (config: Config) {
  const { provider, postmarkToken, postmarkStream } = config
  if (provider === "ses") return yield* ses(config)
  if (provider === "smtp" || postmarkToken === null) return yield* smtp(config)
  return yield* PostmarkMailProvider.make({ serverToken: postmarkToken, messageStream: postmarkStream })
})

/** Where production mail goes, for people; null: nowhere, it waits. */
export const productionPlace = ({ provider, smtpHost, smtpPort, sesRegion }: Config): string | null => {
  if (provider === "postmark") return "Postmark"
  if (provider === "ses") return `Amazon SES in ${sesRegion}`
  return smtpHost === null ? null : authority(smtpHost, smtpPort)
}

/** Those whose settings are there, whoever takes mail now: what another took before is told of for days. */
export const intakes = ({ sesTopics, postmarkWebhookSecret, postmarkServerId }: Config) =>
  Layer.effect(
    NotificationIntakes,
    Effect.gen(function* () {
      return [
        ...(sesTopics.length === 0 ? [] : [yield* SesNotificationIntake.make({ topics: sesTopics })]),
        ...(postmarkWebhookSecret === null
          ? []
          : [PostmarkNotificationIntake.make({ secret: postmarkWebhookSecret, serverId: postmarkServerId })])
      ]
    })
  )

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

/** WebhookTransport and NotificationIntakes: what a process wants that takes requests and does no jobs. */
export const serving = (config: Config) => Layer.provideMerge(intakes(config), webhooks)

/** MailProviders, Scanner, WebhookTransport, Resolver and NotificationIntakes; fails with the settings at fault. */
export const layer = (config: Config) =>
  Layer.mergeAll(
    Layer.effect(
      MailProviders,
      Effect.map(production(config), (provider) => ({ sandbox: SandboxMailProvider.make(), production: provider }))
    ).pipe(Layer.provide(RfcMime.layer)),
    scanner(config),
    serving(config)
  )
