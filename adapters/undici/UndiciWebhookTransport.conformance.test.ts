import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import * as tls from "node:tls"
import { generate } from "selfsigned"
import { conforms } from "../../conformance/vitest.ts"
import { withReceivers, withWire, type Certificates } from "../../conformance/WebhookSockets.ts"
import { unverified } from "../../conformance/UntrustedServer.ts"
import { suite } from "../../conformance/WebhookTransport.ts"
import { suite as wireSuite, Wire } from "../../conformance/WebhookTransportWire.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import * as UndiciWebhookTransport from "./UndiciWebhookTransport.ts"

const day = 24 * 60 * 60 * 1000

const makeAuthority = async (name: string) => {
  const { private: key, public: publicKey, cert } = await generate([{ name: "commonName", value: name }], {
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true }
    ]
  })
  // One key for all certificates: making keys takes long.
  return { key, cert, keyPair: { privateKey: key, publicKey } }
}

const makeCertificates = async () => {
  const [authority, unknown] = [await makeAuthority("trusted authority"), await makeAuthority("unknown authority")]
  const leaf = async (
    altName: { type: 2; value: string } | { type: 7; ip: string },
    ca: { key: string; cert: string } | undefined,
    [from, to]: readonly [number, number] = [-1, 1]
  ) => {
    const { private: key, cert } = await generate([{ name: "commonName", value: "receiver" }], {
      keyPair: unknown.keyPair,
      algorithm: "sha256",
      notBeforeDate: new Date(Date.now() + from * day),
      notAfterDate: new Date(Date.now() + to * day),
      extensions: [{ name: "subjectAltName", altNames: [altName] }],
      ...(ca === undefined ? {} : { ca })
    })
    return { key, cert }
  }
  const name = { type: 2, value: "*.hooks.example" } as const
  return {
    ca: authority.cert,
    another: unknown.cert,
    leaves: {
      OfItsName: await leaf(name, authority),
      OfItsAddress: await leaf({ type: 7, ip: "127.0.0.1" }, authority),
      OfAnotherName: await leaf({ type: 2, value: "*.other.example" }, authority),
      Expired: await leaf(name, authority, [-3, -1]),
      NotYetValid: await leaf(name, authority, [1, 3]),
      SelfSigned: await leaf(name, undefined),
      OfUnknownAuthority: await leaf(name, unknown)
    } satisfies Certificates
  }
}

const certificates = await makeCertificates()

const transport = UndiciWebhookTransport.layerWith({ ca: [certificates.ca] })
const wire = withWire(transport, certificates.leaves)

conforms("UndiciWebhookTransport over http", suite, withReceivers(transport))
conforms("UndiciWebhookTransport over https", suite, withReceivers(transport, certificates.leaves.OfItsName))
conforms("UndiciWebhookTransport", wireSuite, wire)

/** Node trusts the authority of the certificates; no more when the scope closes. */
const rooted = Effect.acquireRelease(
  Effect.sync(() => {
    const roots = tls.getCACertificates("default")
    tls.setDefaultCACertificates([...roots, certificates.ca])
    return roots
  }),
  (roots) => Effect.sync(() => tls.setDefaultCACertificates(roots))
)

describe("UndiciWebhookTransport", () => {
  for (const [beside, ca] of [["and those that it is given", [certificates.another]], ["where it is given none", []]] as const) {
    it.effect(`trusts the authorities that Node trusts, ${beside}`, () =>
      Effect.gen(function* () {
        yield* rooted
        const statuses = yield* Effect.gen(function* () {
          const { listen, policy } = yield* Wire
          const { post } = yield* WebhookTransport
          return yield* Effect.forEach(["OfItsName", "OfUnknownAuthority"] as const, (certificate) =>
            Effect.gen(function* () {
              const { url } = yield* listen({ certificate, says: [["HTTP/1.1 204 No Content\r\n\r\n"]] })
              const target = Result.getOrThrow(WebhookUrl.parse(url, policy))
              return yield* Effect.match(post({ target, headers: {}, body: new Uint8Array() }), { onSuccess: ({ status }) => status, onFailure: ({ reason }) => reason })
            })
          )
        }).pipe(Effect.provide(withWire(UndiciWebhookTransport.layerWith({ ca }), certificates.leaves)))

        assert.deepStrictEqual(statuses, [204, ca.length === 0 ? "network_error" : 204])
      })
    )
  }

  it.effect("verifies certificates whatever the environment says", () =>
    Effect.gen(function* () {
      yield* unverified
      const { listen, policy } = yield* Wire
      const { requests, url } = yield* listen({ certificate: "SelfSigned", says: [[]] })
      const target = Result.getOrThrow(WebhookUrl.parse(url, policy))

      const error = yield* Effect.flip(WebhookTransport.use(({ post }) => post({ target, headers: {}, body: new Uint8Array() })))

      assert.strictEqual(error.reason, "network_error")
      assert.deepStrictEqual(yield* requests, [])
    }).pipe(Effect.provide(wire))
  )
})
