import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { AddressInfo } from "node:net"
import { generate } from "selfsigned"
import { SMTPServer } from "smtp-server"
import { vi } from "vitest"
import { endOf, heard, mail } from "../../conformance/MailServerScript.ts"
import { unverified } from "../../conformance/UntrustedServer.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as ScriptedServer from "./ScriptedServer.ts"
import * as SmtpMailProvider from "./SmtpMailProvider.ts"

const certificateFor = async (name: string, over: { readonly notBeforeDate?: Date; readonly notAfterDate?: Date } = {}) => {
  const made = await generate([{ name: "commonName", value: name }], {
    ...over,
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: name }] }]
  })
  return { key: made.private, cert: made.cert }
}

const certificate = await certificateFor("mail.example.com")
const expired = await certificateFor("mail.example.com", { notBeforeDate: new Date(0), notAfterDate: new Date(86_400_000) })
const password = "difference-engine-no-2"
const auth = { user: "engine", password: Redacted.make(password) }

for (const [name, { make }] of Object.entries({ SmtpMailProvider, PipeliningSmtpMailProvider })) {
  const against = Effect.fnUntraced(function* (
    tls: "implicit" | "starttls",
    over: Partial<SmtpMailProvider.Options> = {},
    shown = certificate
  ) {
    const server = yield* ScriptedServer.start(() => null, { certificate: shown, isImplicit: tls === "implicit" })
    const provider = yield* make({
      host: "127.0.0.1",
      port: server.port,
      tls,
      auth,
      servername: "mail.example.com",
      ca: certificate.cert,
      ...over
    })
    return { provider, server }
  })

  for (const tls of ["implicit", "starttls"] as const) {
    describe(`${name} over ${tls} TLS`, () => {
      it.effect("submits to a server whose certificate it trusts", () =>
        Effect.gen(function* () {
          const { provider, server } = yield* against(tls)

          assert.strictEqual(yield* endOf(provider, mail()), "250")
          assert.strictEqual(yield* endOf(provider, mail()), "250")

          const [only, ...more] = yield* server.conversations
          assert.lengthOf(more, 0)
          assert.isTrue(only!.isEncrypted)
          assert.lengthOf(only!.messages, 2)
        })
      )

      type Over = Partial<SmtpMailProvider.Options>
      const distrusted: ReadonlyArray<readonly [what: string, over: Over, shown: ScriptedServer.Certificate, why: RegExp]> = [
        ["that nobody vouches for", { ca: null }, certificate, /self-signed|SELF_SIGNED/],
        ["for another name", { servername: "mail.example.org" }, certificate, /altnames/],
        ["for a name, where it is called by its address", { servername: null }, certificate, /altnames/],
        ["that is no longer valid", { ca: expired.cert }, expired, /expired|EXPIRED/]
      ]
      for (const [what, over, shown, why] of distrusted) {
        it.effect(`says nothing, and no credentials, to a server with a certificate ${what}`, () =>
          Effect.gen(function* () {
            const { provider, server } = yield* against(tls, over, shown)

            const error = yield* Effect.flip(provider.submit(mail()))

            assert.isTrue(error._tag === "MailProviderUnavailable")
            assert.match(String(error._tag === "MailProviderUnavailable" && error.cause), why)
            yield* server.until((all) => all.every(({ isClosed }) => isClosed))
            const conversations = yield* server.conversations
            assert.strictEqual(heard(conversations, "AUTH") + heard(conversations, "MAIL"), 0)
          })
        )
      }

      it.effect("verifies certificates whatever the environment says", () =>
        Effect.gen(function* () {
          yield* unverified
          const { provider, server } = yield* against(tls, { ca: null })

          assert.strictEqual(yield* endOf(provider, mail()), "unavailable")

          assert.strictEqual(heard(yield* server.conversations, "AUTH"), 0)
        })
      )

      it.effect("gives up a server that never comes to encrypt, within the time to connect", () =>
        Effect.gen(function* () {
          const silent = yield* ScriptedServer.start(({ place }) => {
            if (place === "greeting" && tls === "implicit") return {}
            if (place === "EHLO") return { say: "250-mail.example\r\n250 STARTTLS\r\n" }
            return place === "STARTTLS" ? { say: "220 2.0.0 go ahead\r\n" } : null
          })
          const provider = yield* make({ host: "127.0.0.1", port: silent.port, tls, auth })
          const submitting = yield* Effect.forkScoped(endOf(provider, mail()))
          yield* silent.until((all) => all.length > 0 && (tls === "implicit" || heard(all, "STARTTLS") > 0))

          yield* TestClock.adjust("1 minute")

          assert.strictEqual(yield* Fiber.join(submitting), "unavailable")
          yield* silent.until((all) => all.every(({ isClosed }) => isClosed))
        })
      )
    })
  }

  describe(`${name} without TLS`, () => {
    it.effect("submits in clear text, also to a server that could encrypt", () =>
      Effect.gen(function* () {
        const server = yield* ScriptedServer.start(() => null, { certificate })
        const provider = yield* make({ host: "127.0.0.1", port: server.port, tls: "none" })

        assert.strictEqual(yield* endOf(provider, mail()), "250")

        assert.strictEqual(heard(yield* server.conversations, "STARTTLS"), 0)
      })
    )
  })

  describe(`${name}, signing in,`, () => {
    const relay = (methods: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        const signedIn: Array<string> = []
        const server = new SMTPServer({
          ...certificate,
          authMethods: [...methods],
          onAuth: ({ method, username, password: given, validatePassword }, _, done) => {
            const isProof = method === ("CRAM-MD5" as string) // which the types leave out
            if (username !== auth.user || (isProof ? !validatePassword(password) : given !== password)) return done(new Error("no such credentials"))
            signedIn.push(method)
            done(null, { user: username })
          },
          onData: (stream, _, done) => {
            stream.resume()
            stream.on("end", () => done())
          }
        })
        server.on("error", () => undefined)
        yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
        yield* Effect.addFinalizer(() => Effect.callback<void>((resume) => server.close(() => resume(Effect.void))))
        const { port } = server.server.address() as AddressInfo // it listens on a port
        return { port, signedIn }
      })

    for (const method of ["PLAIN", "LOGIN", "CRAM-MD5"]) {
      it.effect(`knows ${method}`, () =>
        Effect.gen(function* () {
          const { port, signedIn } = yield* relay([method])
          const trust = { servername: "mail.example.com", ca: certificate.cert }
          const to = { host: "127.0.0.1", port, tls: "starttls", ...trust } as const
          const right = yield* make({ ...to, auth })
          const wrong = yield* make({ ...to, auth: { ...auth, password: Redacted.make("analytical-engine") } })
          const nobody = yield* make(to)

          assert.strictEqual(yield* endOf(right, mail()), "250")
          assert.strictEqual(yield* endOf(wrong, mail()), "unavailable")
          assert.strictEqual(yield* endOf(nobody, mail()), "unavailable")
          assert.deepStrictEqual(signedIn, [method])
        })
      )
    }

    it.effect("prints nothing", () =>
      Effect.gen(function* () {
        const printers = (["log", "info", "warn", "error", "debug"] as const).map((name) => vi.spyOn(console, name))
        const written = [vi.spyOn(process.stdout, "write"), vi.spyOn(process.stderr, "write"), ...printers]
        yield* Effect.addFinalizer(() => Effect.sync(() => written.forEach((spy) => spy.mockRestore())))
        const { provider } = yield* against("starttls")
        const { provider: refused } = yield* against("starttls", { ca: null })

        yield* endOf(provider, mail())
        yield* endOf(refused, mail())

        assert.deepStrictEqual(written.flatMap((spy) => spy.mock.calls), [])
      })
    )
  })
}
