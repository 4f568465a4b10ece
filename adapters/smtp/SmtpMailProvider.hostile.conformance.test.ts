import { Effect, Layer, Redacted } from "effect"
import { generate } from "selfsigned"
import { suite } from "../../conformance/MailProviderHostile.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as ScriptedServer from "./ScriptedServer.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as SmtpMailProvider from "./SmtpMailProvider.ts"

const made = await generate([{ name: "commonName", value: "localhost" }], {
  extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }]
})
const certificate = { key: made.private, cert: made.cert }

interface Setting {
  readonly make: (typeof SmtpMailProvider)["make"]
  readonly isPipelining?: boolean
  readonly isSerial?: boolean
  readonly pace?: NonNullable<ScriptedServer.Options["pace"]>
}

const hostile = ({ make, isPipelining = false, ...manners }: Setting) =>
  suite<never>({
    isPipelining,
    against: Effect.fnUntraced(function* (script, { startTls = false, credentials, isImpatient = false } = {}) {
      const server = yield* ScriptedServer.start(script, { certificate: startTls ? certificate : null, ...manners })
      const silence = "750 millis"
      const provider = yield* make({
        host: "127.0.0.1",
        port: server.port,
        tls: startTls ? "starttls" : "none",
        servername: "localhost",
        ca: certificate.cert,
        auth: credentials === undefined ? null : { user: credentials.user, password: Redacted.make(credentials.password) },
        connectionsMax: 1,
        timeouts: isImpatient ? { greeting: silence, socket: silence, end: silence } : {}
      })
      return { provider, server }
    })
  })

const plain = SmtpMailProvider.make
const pipelining = PipeliningSmtpMailProvider.make
const bind = (title: string, setting: Setting) => conforms(title, hostile(setting), Layer.empty)

bind("SmtpMailProvider, pipelining,", { make: plain })
bind("SmtpMailProvider, a command at a time,", { make: plain, isSerial: true })
bind("PipeliningSmtpMailProvider", { make: pipelining, isPipelining: true })
bind("PipeliningSmtpMailProvider, a command at a time,", { make: pipelining, isSerial: true })
bind("PipeliningSmtpMailProvider, replies a byte at a time,", { make: pipelining, isPipelining: true, pace: "byByte" })
bind("PipeliningSmtpMailProvider, replies in one packet,", { make: pipelining, isPipelining: true, pace: "together" })
