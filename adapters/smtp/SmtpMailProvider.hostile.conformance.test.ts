import { Effect, Layer, Redacted } from "effect"
import { generate } from "selfsigned"
import { suite } from "../../conformance/MailProviderHostile.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as ScriptedServer from "./ScriptedServer.ts"
import * as SmtpMailProvider from "./SmtpMailProvider.ts"

const made = await generate([{ name: "commonName", value: "localhost" }], {
  extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }]
})
const certificate = { key: made.private, cert: made.cert }

const hostile = (isSerial: boolean) =>
  suite<never>({
    against: Effect.fnUntraced(function* (script, { startTls = false, credentials, isImpatient = false } = {}) {
      const server = yield* ScriptedServer.start(script, { certificate: startTls ? certificate : null, isSerial })
      const silence = "300 millis"
      const provider = yield* SmtpMailProvider.make({
        host: "127.0.0.1",
        port: server.port,
        tls: startTls ? "starttls" : "none",
        servername: "localhost",
        ca: certificate.cert,
        auth: credentials === undefined ? null : { user: credentials.user, password: Redacted.make(credentials.password) },
        connectionsMax: 1,
        timeouts: isImpatient ? { greeting: silence, socket: silence } : {}
      })
      return { provider, server }
    })
  })

conforms("SmtpMailProvider, pipelining,", hostile(false), Layer.empty)
conforms("SmtpMailProvider, a command at a time,", hostile(true), Layer.empty)
