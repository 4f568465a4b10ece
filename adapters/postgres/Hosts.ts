/**
 * The servers that a URL names, as libpq reads it: `host1:5432,host2:5432`, or
 * the same in its parameters `host` and `port`. Node's URL has no place for
 * several, and neither has the driver, which gets a URL for each of them.
 */
import { Duration, Redacted } from "effect"
import * as dns from "node:dns"
import { connect, type LookupFunction, type Socket } from "node:net"
import { authority } from "../../core/model/Authority.ts"

export interface Host {
  /** A name, an address, or the folder of a socket. */
  readonly host: string
  readonly port: number
  /** The URL with this one server in it. */
  readonly url: Redacted.Redacted<string>
}

/** As it may be logged. */
export const nameOf = ({ host, port }: Pick<Host, "host" | "port">): string => authority(host, port)

/** In their order, never none; null when the URL names no server. It is not told, for there may be a password in it. */
export const hostsOf = (url: Redacted.Redacted<string>): ReadonlyArray<Host> | null => {
  const urls = oneEach(Redacted.value(url)).map((text) => URL.parse(text))
  const [first] = urls
  if (first === null || first === undefined || !/^postgres(ql)?:$/.test(first.protocol)) return null
  const parameter = (name: string) => first.searchParams.get(name)?.split(",")
  const hosts = parameter("host") ?? urls.map((each) => (each === null ? null : decode(each.hostname.replace(/^\[(.*)\]$/, "$1"))))
  const ports = parameter("port") ?? urls.map((each) => each?.port ?? null)
  if (ports.length !== 1 && ports.length !== hosts.length) return null
  const named = hosts.map((host, index) => {
    const port = portOf(ports.length === 1 ? ports[0]! : ports[index]!)
    // One that is left out is this machine; among several it is a comma too many.
    if (host === null || port === null || (host === "" && hosts.length > 1)) return null
    return withOnly(first, host === "" ? "localhost" : host, port)
  })
  return named.includes(null) ? null : named.filter((each) => each !== null)
}

const sslModes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

/**
 * What is read of a URL's parameters, by us or by the driver; they mean what they do to libpq. But a `+` is a blank, as it is to
 * whoever puts a URL together by its parameters: who means one writes %2B.
 */
const parametersRead = ["host", "port", "user", "password", "dbname", "application_name", "options", "connect_timeout", "target_session_attrs", "sslmode"]

/**
 * What is wrong with the parameters of a URL that names a server, to be said behind what it is; null if nothing is. As libpq
 * does, it takes none that it does not know: who asks for TLS by another name would go on in clear text, and never hear of it.
 */
export const faultOf = (url: Redacted.Redacted<string>): string | null => {
  const names = [...(URL.parse(oneEach(Redacted.value(url))[0]!)?.searchParams.keys() ?? [])]
  const unread = names.find((name) => !parametersRead.includes(name))
  if (unread !== undefined) {
    // What does not look like a name may be the end of a password that was not encoded.
    const isName = /^\w{1,40}$/.test(unread) && !Redacted.value(url).replace(/^.*\?/s, "").includes("@")
    const isOfTls = /ssl|tls|cert|channel|auth/i.test(unread)
    const instead = isOfTls ? "sslmode=require is how TLS is asked for, and NODE_EXTRA_CA_CERTS names a private authority" : `those that are: ${parametersRead.join(", ")}`
    return `has a parameter${isName ? ` ${unread}` : ""} that is not read; ${instead}`
  }
  const repeated = names.find((name, index) => names.indexOf(name) < index)
  if (repeated !== undefined) return `has ${repeated} more than once`
  const sslMode = parameterOf(url, "sslmode") ?? "disable"
  if (!sslModes.includes(sslMode)) return `has a sslmode that is none of ${sslModes.join(", ")}`
  if (sessionAttributesOf(url) === null) return `has a target_session_attrs that is neither ${sessionAttributes.join(" nor ")}: every session writes`
  if (connectTimeoutOf(url) === null) return "has a connect_timeout that is no whole number of seconds up to 999"
  return null
}

/** Which sessions are used, by libpq's names: `primary`, of a server that is no standby; `read-write`, that are not read only either. */
const sessionAttributes = ["primary", "read-write"] as const
export type SessionAttributes = (typeof sessionAttributes)[number]

/** What the URL asks of them; null when it is nothing that is done here, where every session writes. */
export const sessionAttributesOf = (url: Redacted.Redacted<string>): SessionAttributes | null => {
  const asked = parameterOf(url, "target_session_attrs") ?? "primary"
  return sessionAttributes.find((known) => known === asked) ?? null
}

/**
 * For how long each server is given to let us in: libpq's `connect_timeout`, in whole seconds. Not told, or 0, it is 5 here and
 * not for ever, as a connection that is being opened has a place of the pool. Null when it is no such number.
 */
export const connectTimeoutOf = (url: Redacted.Redacted<string>): Duration.Duration | null => {
  const asked = parameterOf(url, "connect_timeout") ?? "0"
  return /^\d{1,3}$/.test(asked) ? Duration.seconds(Number(asked) || 5) : null
}

const parameterOf = (url: Redacted.Redacted<string>, name: string): string | null | undefined =>
  URL.parse(oneEach(Redacted.value(url))[0]!)?.searchParams.get(name)

/**
 * The same URL for each host of its authority: what is before them, one of them, what is behind. A comma in a password is none
 * between hosts. Of a user or a port without a host (`ada@/db?host=/run/postgresql`) Node makes no URL: it is this machine's.
 */
export const oneEach = (text: string): ReadonlyArray<string> => {
  const [, before, hosts, behind] = /^([^/?#]*\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s.exec(text) ?? []
  if (hosts === undefined) return [text]
  const named = hosts === "" || (hosts.startsWith(":") && !hosts.includes(",")) ? `localhost${hosts}` : hosts
  return named.split(",").map((host) => `${before}${host}${behind}`)
}

const withOnly = (named: URL, host: string, port: number): Host => {
  const url = new URL(named)
  url.searchParams.set("host", host)
  url.searchParams.set("port", String(port))
  return { host, port, url: Redacted.make(url.href) }
}

const portOf = (text: string | null): number | null => {
  const port = text === "" ? 5432 : Number(text)
  return text === null || !Number.isInteger(port) || port < 1 || port > 65535 ? null : port
}

const decode = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** The addresses of a name, best first. */
export type Addresses = (found: ReadonlyArray<dns.LookupAddress>) => ReadonlyArray<dns.LookupAddress>

export type Resolve = (name: string, options: dns.LookupAllOptions, done: (error: Error | null, found: Array<dns.LookupAddress>) => void) => void

/**
 * Milliseconds that an address has before the next is tried; the last has what is left of `connect_timeout`. Node's quarter of a
 * second is over for a connection that is there, where the process was busy meanwhile, as it is when it starts.
 */
const autoSelectFamilyAttemptTimeout = 1_000

/** A socket to it; of a name, to the first of these addresses that answers. */
export const dial = ({ host, port }: Pick<Host, "host" | "port">, addresses: Addresses, resolve: Resolve = dns.lookup): Socket => {
  if (host.startsWith("/")) return connect({ path: `${host}/.s.PGSQL.${port}` })
  const lookup: LookupFunction = (name, options, done) =>
    resolve(name, { ...options, all: true }, (error, found) => done(error, error === null ? [...addresses(found)] : []))
  // A server that is gone without a word is found out by TCP, also while nothing is asked of it.
  return connect({ host, port, lookup, autoSelectFamily: true, autoSelectFamilyAttemptTimeout, noDelay: true, keepAlive: true, keepAliveInitialDelay: 10_000 })
}
