/** What `dev` says at its start, and why it could not. */
import { Data } from "effect"
import type { HttpServer, HttpServerError } from "effect/http"
import type { Config } from "../Config.ts"
import type { DevFile } from "./DataFolder.ts"

/** The server could not listen; one line. */
export class ListenFault extends Data.TaggedError("ListenFault")<{ readonly message: string }> {}

export const listenFault = ({ host, port }: Config, { cause }: HttpServerError.ServeError): ListenFault => {
  const code = cause instanceof Error && "code" in cause ? cause.code : null
  const why =
    code === "EADDRINUSE"
      ? `port ${port} of ${host} is in use, perhaps by another Mailroom; stop it, or choose another with --port N`
      : code === "EACCES"
        ? `port ${port} of ${host} may not be used by this user; choose one above 1023 with --port N`
        : code === "EADDRNOTAVAIL"
          ? `${host} is no address of this machine; MAILROOM_HOST wants one`
          : `cannot listen on ${host}:${port}: ${cause instanceof Error ? cause.message : String(cause)}`
  return new ListenFault({ message: why })
}

/** The address to call, as seen from this machine. */
export const baseUrl = ({ host }: Config, address: HttpServer.HttpServer["Service"]["address"]): string => {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${"port" in address ? address.port : 0}`
}

/** A first send that works when pasted. */
export const curl = ({ baseUrl, apiKey, mailboxes }: DevFile): string =>
  [
    `curl -sS -w '\\n' ${baseUrl}/v1/messages \\`,
    `  -H 'Authorization: Bearer ${apiKey}' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -H "Idempotency-Key: first-$(date +%s)" \\`,
    `  -d '{"fromMailboxId":"${mailboxes[0]?.id}","to":["delivered@example.com"],"subject":"Hello","text":"It works."}'`
  ].join("\n")

export const text = ({ data, smtpHost, smtpPort }: Config, devFile: DevFile): string =>
  [
    "",
    `  Mailroom listens at  ${devFile.baseUrl}`,
    `  Documentation        ${devFile.docsUrl}`,
    `  API key (sandbox)    ${devFile.apiKey}`,
    ...(smtpHost === null || devFile.production === undefined
      ? []
      : [`  API key (production) ${devFile.production.apiKey}`, `                       sends real mail through ${smtpHost}:${smtpPort}`]),
    ...devFile.mailboxes.map(({ id, address }, index) => `  ${index === 0 ? "Mailboxes" : "         "}            ${id}  ${address}`),
    "",
    `  The key and the mailboxes are kept in ${data}/dev.json. Mail is kept in memory, and is gone when this stops.`,
    "",
    "  Send a first message; it is delivered in the sandbox, and nothing leaves this process:",
    "",
    curl(devFile),
    "",
    "  What happens to it shows here, line by line:",
    ""
  ].join("\n")
