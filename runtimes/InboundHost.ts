/** What the host that takes mail shows of itself to those who send it: its name and its certificate. */
import { Data, Effect } from "effect"
import { hostname } from "node:os"
import { createSecureContext } from "node:tls"
import { settings, type Config } from "./Config.ts"
import * as FileFault from "./FileFault.ts"

/** What we call ourselves. */
export const hostNameOf = ({ inboundHostname }: Config): string => inboundHostname ?? hostname()

class CertificateFault extends Data.TaggedError("CertificateFault")<{ readonly message: string }> {}

/** The certificate as it is in its files now; null if none is set. */
export const certificate = Effect.fnUntraced(function* ({ inboundTlsCert, inboundTlsKey }: Config) {
  if (inboundTlsCert === null || inboundTlsKey === null) return null
  const cert = yield* read(settings.inboundTlsCert.name, inboundTlsCert)
  const key = yield* read(settings.inboundTlsKey.name, inboundTlsKey)
  return yield* Effect.try({
    try: () => createSecureContext({ cert, key, minVersion: "TLSv1.2" }),
    catch: (cause) => {
      const which = `${settings.inboundTlsCert.name} and ${settings.inboundTlsKey.name}`
      const reason = cause instanceof Error ? cause.message : String(cause)
      return new CertificateFault({ message: `${which}: they are not a certificate and its key, both in PEM (${reason})` })
    }
  })
})

const read = (setting: string, file: string) => Effect.mapError(FileFault.read(setting, file), (message) => new CertificateFault({ message }))
