/** What the host that takes mail shows of itself to those who send it: its name and its certificate. */
import { Data, Effect } from "effect"
import { readFileSync } from "node:fs"
import { hostname } from "node:os"
import { createSecureContext, type SecureContext } from "node:tls"
import { settings, type Config } from "./Config.ts"

/** What we call ourselves. */
export const hostNameOf = ({ inboundHostname }: Config): string => inboundHostname ?? hostname()

class CertificateFault extends Data.TaggedError("CertificateFault")<{ readonly message: string }> {}

/** The certificate as it is in its files now; null if none is set. */
export const certificate = ({ inboundTlsCert, inboundTlsKey }: Config): Effect.Effect<SecureContext | null, CertificateFault> => {
  if (inboundTlsCert === null || inboundTlsKey === null) return Effect.succeed(null)
  return Effect.try({
    try: () => createSecureContext({ cert: readFileSync(inboundTlsCert), key: readFileSync(inboundTlsKey), minVersion: "TLSv1.2" }),
    catch: (cause) =>
      new CertificateFault({
        message: `${settings.inboundTlsCert.name} and ${settings.inboundTlsKey.name}: ${cause instanceof Error ? cause.message : String(cause)}`
      })
  })
}
