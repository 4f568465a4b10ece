/** Where a server is, and sockets to it. */
import { Redacted } from "effect"
import { connect } from "node:net"
import type { Duplex } from "node:stream"

/** Null when the URL says no address. It is not told, for there may be a password in it. */
export const dialOf = (url: Redacted.Redacted<string>): (() => Duplex) | null => {
  const address = addressOf(Redacted.value(url))
  if (address === null) return null
  const { host, port } = address
  if (host.startsWith("/")) return () => connect({ path: `${host}/.s.PGSQL.${port}` })
  // A server that is gone without a word is found out by TCP, also while nothing is asked of it.
  return () => connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 10_000 })
}

/** Host and port as libpq reads them: parameters win over the authority; a host that begins with a slash is a folder. */
const addressOf = (text: string): { readonly host: string; readonly port: number } | null => {
  const url = URL.parse(text)
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) return null
  const authority = decode(url.hostname.replace(/^\[(.*)\]$/, "$1"))
  const host = url.searchParams.get("host") ?? authority
  const port = Number(url.searchParams.get("port") ?? (url.port === "" ? 5432 : url.port))
  if (host === null || !Number.isInteger(port) || port < 1 || port > 65535) return null
  return { host: host === "" ? "localhost" : host, port }
}

const decode = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}
