/** Where mail comes in, and who judges it, as the settings say. */
import { Effect, Layer } from "effect"
import type { SecureContext } from "node:tls"
import * as MailauthAuthenticator from "../adapters/mailauth/MailauthAuthenticator.ts"
import * as RspamdSpamFilter from "../adapters/rspamd/RspamdSpamFilter.ts"
import * as SmtpListener from "../adapters/smtp-server/SmtpListener.ts"
import * as Loops from "../core/Loops.ts"
import * as Metrics from "../core/Metrics.ts"
import { authority } from "../core/model/Authority.ts"
import { Receive } from "../core/operations/Receive.ts"
import { RecordReport } from "../core/operations/RecordReport.ts"
import type { MailAuthenticator } from "../core/ports/MailAuthenticator.ts"
import type { SpamFilter } from "../core/ports/SpamFilter.ts"
import type { SettingsShape } from "../core/Settings.ts"
import { ConfigFaults, settings, type Config } from "./Config.ts"
import { certificate, hostNameOf } from "./InboundHost.ts"
import { ListenFault } from "./Listening.ts"
import * as TrustedProxies from "./TrustedProxies.ts"

/** What the core is told of it. */
export const coreSettings = (config: Config): Partial<SettingsShape> => ({
  hostName: hostNameOf(config),
  postmaster: config.inboundPostmaster,
  ...(config.inboundDmarc === "off" ? {} : { dmarcReject: config.inboundDmarc })
})

const authenticator = (config: Config): Layer.Layer<MailAuthenticator> | Layer.Layer<never> =>
  config.inboundDmarc === "off" ? Layer.empty : MailauthAuthenticator.layerWith({ hostname: hostNameOf(config) })

const spamFilter = ({ inboundRspamd, inboundRspamdPassword }: Config): Layer.Layer<SpamFilter> | Layer.Layer<never> =>
  inboundRspamd === null ? Layer.empty : RspamdSpamFilter.layerWith({ url: inboundRspamd, password: inboundRspamdPassword })

/** Those who judge what comes in; each may be missing. */
export const judges = (config: Config) => Layer.merge(authenticator(config), spamFilter(config))

/** The core's part, over every port. */
export const core = (config: Config) => Receive.layer.pipe(Layer.provide(RecordReport.layer), Layer.provide(judges(config)))

/** Kept up to date; one that cannot be read is not taken, and the one before stays. */
const certificates = Effect.fnUntraced(function* (config: Config) {
  let current = yield* Effect.mapError(certificate(config), ({ message }) => new ConfigFaults({ faults: [message] }))
  if (current !== null) {
    const renew = Effect.matchEffect(certificate(config), {
      onSuccess: (context) => Effect.sync(() => void (current = context)),
      onFailure: ({ message }) => Effect.logWarning(`the certificate stays as it was: ${message}`)
    })
    yield* Loops.every("1 minute", "the certificate", renew)
  }
  return () => current
})

type Place = Pick<SmtpListener.Options, "protocol" | "address" | "isImplicitTls"> & { readonly remedy: string }

/** Listens at a place. */
const listenAt = ({ remedy, ...place }: Place, config: Config, secureContext: () => SecureContext | null) =>
  SmtpListener.listen({
    ...place,
    hostname: hostNameOf(config),
    secureContext,
    sizeBytesMax: config.inboundSizeMax,
    isProxy: TrustedProxies.make(config.inboundProxies).isTrusted,
    onConnection: (result) => Metrics.add(Metrics.inboundConnections[result], 1),
    onMessage: (outcome) => Metrics.add(Metrics.inboundMessages[outcome], 1)
  }).pipe(Effect.mapError(({ message }) => new ListenFault({ message: `${message}; choose another with ${remedy}` })))

const placeOf = (address: SmtpListener.Address): string =>
  "path" in address ? address.path : authority(address.host, address.port)

/** All places of the settings; whoever asks how it is learns where. */
export const listen = Effect.fnUntraced(function* (config: Config) {
  const secureContext = yield* certificates(config)
  const { inboundHost: host, inboundPort, inboundTlsPort, inboundLmtp } = config
  const places: ReadonlyArray<Place> = [
    { protocol: "SMTP", address: { host, port: inboundPort }, remedy: settings.inboundPort.name },
    ...(inboundTlsPort === null
      ? []
      : [{ protocol: "SMTP", address: { host, port: inboundTlsPort }, isImplicitTls: true, remedy: settings.inboundTlsPort.name } as const]),
    ...(inboundLmtp === null ? [] : [{ protocol: "LMTP", address: inboundLmtp, remedy: settings.inboundLmtp.name } as const])
  ]
  return yield* Effect.forEach(places, (place) =>
    Effect.map(listenAt(place, config, secureContext), ({ address }) => ({
      protocol: place.isImplicitTls === true ? "SMTP under TLS" : place.protocol,
      address: placeOf(address)
    }))
  )
})

/** For development: where mail came in the last time, or at 2525, or anywhere, unless a port is set. */
export const listenForDev = Effect.fnUntraced(function* (config: Config, earlier: number | null) {
  const secureContext = yield* certificates(config)
  const { inboundHost: host, inboundPort } = config
  const listenTo = (port: number) =>
    listenAt({ protocol: "SMTP", address: { host, port }, remedy: settings.inboundPort.name }, config, secureContext)
  const listening = inboundPort === 0 ? Effect.catch(listenTo(earlier ?? 2525), () => listenTo(0)) : listenTo(inboundPort)
  const { address } = yield* listening
  if (!("port" in address)) return yield* Effect.die(address) // it was given a port
  return { host: host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host, port: address.port }
})
