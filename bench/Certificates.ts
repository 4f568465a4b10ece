/** A certification authority, and certificates of its own and of nobody's, for `localhost`. */
import { generate } from "selfsigned"

export interface Certificate {
  readonly key: string
  readonly cert: string
}

const named = (name: string) => [{ name: "commonName", value: name }]
const options = { keySize: 2048, algorithm: "sha256" } as const
const extensions = [{ name: "subjectAltName" as const, altNames: [{ type: 2 as const, value: "localhost" }] }]

export const make = async (): Promise<{
  readonly ca: string
  readonly trusted: Certificate
  readonly untrusted: Certificate
}> => {
  const ca = await generate(named("Benchmark CA"), {
    ...options,
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true }
    ]
  })
  const trusted = await generate(named("localhost"), { ...options, extensions, ca: { key: ca.private, cert: ca.cert } })
  const untrusted = await generate(named("localhost"), { ...options, extensions })
  return {
    ca: ca.cert,
    trusted: { key: trusted.private, cert: trusted.cert },
    untrusted: { key: untrusted.private, cert: untrusted.cert }
  }
}
