/** Where a server listens, as one would call it; or why it cannot. */
import { Data } from "effect"
import type { HttpServer, HttpServerError } from "effect/http"
import { authority } from "../core/model/Authority.ts"
import { settings, type Config } from "./Config.ts"

/** The server could not listen; one line. */
export class ListenFault extends Data.TaggedError("ListenFault")<{ readonly message: string }> {}

/** `remedy`: how to choose another port. */
export const listenFault = (
  { host }: Pick<Config, "host">,
  port: number | null,
  { cause }: HttpServerError.ServeError,
  remedy: string
): ListenFault => {
  const code = cause instanceof Error && "code" in cause ? cause.code : null
  const why =
    code === "EADDRINUSE"
      ? `port ${port} of ${host} is in use, perhaps by another Mailroom; stop it, or choose another with ${remedy}`
      : code === "EACCES"
        ? `port ${port} of ${host} may not be used by this user; choose one above 1023 with ${remedy}`
        : code === "EADDRNOTAVAIL"
          ? `${host} is no address of this machine; ${settings.host.name} wants one`
          : `cannot listen on ${authority(host, port ?? 0)}: ${cause instanceof Error ? cause.message : String(cause)}`
  return new ListenFault({ message: why })
}

/** The address to call, as seen from this machine. */
export const baseUrl = ({ host }: Pick<Config, "host">, address: HttpServer.HttpServer["Service"]["address"]): string => {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host
  return `http://${authority(reachable, "port" in address ? address.port : 0)}`
}
