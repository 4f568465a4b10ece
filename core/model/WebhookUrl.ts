/**
 * Where webhooks may go (docs/decisions/0018): the syntax of the URL, and
 * which addresses its name may lead to. A URL is parsed once, by the WHATWG
 * rules, and what came of it is what is connected to.
 */
import { Result } from "effect"
import { webhookUrlLengthMax } from "./Limits.ts"
import * as PublicAddress from "./PublicAddress.ts"

/** What an installation allows beyond the rules. Production allows nothing. */
export interface TargetPolicy {
  /** Plain http, for receivers on the developer's own machine. */
  readonly allowHttp: boolean
  /** Blocks that are not public and may be called all the same: `127.0.0.0/8`. */
  readonly allowedBlocks: ReadonlyArray<string>
}

/** What production allows. */
export const publicOnly: TargetPolicy = { allowHttp: false, allowedBlocks: [] }

/** A URL that may be called, if its host leads to allowed addresses only. */
export interface WebhookTarget {
  /** As the WHATWG parser serialises it, without a final dot of the host. */
  readonly href: string
  readonly isSecure: boolean
  /** Lower-case, in A-label form, without a final dot; of an IPv6 address without the brackets. */
  readonly host: string
  readonly port: number
  /** True if the host is an address itself; it has been judged. */
  readonly isAddress: boolean
  readonly policy: TargetPolicy
}

/** Why a URL is refused; for people. */
export type UrlFault = "too_long" | "malformed" | "scheme" | "credentials" | "fragment" | "host" | "port" | "address"

/** The target that a text names, or why it is none. A target's `href` names the same target. */
export const parse = (text: string, policy: TargetPolicy): Result.Result<WebhookTarget, UrlFault> => {
  if (text.length > webhookUrlLengthMax) return Result.fail("too_long")
  if (notInUrl.test(text) || !text.isWellFormed()) return Result.fail("malformed")
  const [, scheme, rest] = /^([a-z][a-z0-9+.-]*):(.*)$/i.exec(text) ?? []
  if (scheme === undefined || rest === undefined) return Result.fail("malformed")
  const isSecure = scheme.toLowerCase() === "https"
  if (!isSecure && !(policy.allowHttp && scheme.toLowerCase() === "http")) return Result.fail("scheme")
  if (rest.includes("#")) return Result.fail("fragment")
  if (!rest.startsWith("//")) return Result.fail("malformed")
  const authority = /^\/\/([^/?]*)/.exec(rest)?.[1] ?? ""
  if (authority === "") return Result.fail("host")
  if (authority.includes("@")) return Result.fail("credentials")

  const url = URL.parse(text)
  if (url === null) return Result.fail("malformed")
  // A name with and without the final dot is one receiver; certificates know it without.
  const host = url.hostname.replace(/^\[|\]$|\.$/g, "")
  const isAddress = PublicAddress.isAddress(host)
  if (!isAddress && !isHostName(host)) return Result.fail("host")
  if (url.hostname.endsWith(".")) url.hostname = host
  if (url.href.length > webhookUrlLengthMax) return Result.fail("too_long")
  const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port)
  if (!isPort(port, policy)) return Result.fail("port")
  const known = isAddress ? [host] : isLoopbackName(host) ? loopback : []
  if (!known.every((address) => PublicAddress.isAllowed(address, policy.allowedBlocks))) return Result.fail("address")
  return Result.succeed({ href: url.href, isSecure, host, port, isAddress, policy })
}

/** Path and query, as they go into the request. */
export const pathOf = ({ href }: WebhookTarget): string => href.slice(href.indexOf("/", href.indexOf("//") + 2))

/** Whether a name means this very machine, whatever DNS says (RFC 6761). */
export const isLoopbackName = (host: string): boolean => host === "localhost" || host.endsWith(".localhost")

/** Where such a name leads. */
export const loopback: ReadonlyArray<string> = ["127.0.0.1", "::1"]

/** What the WHATWG parser would strip, or take for something else, without a word. */
const notInUrl = /[\u0000-\u0020\u007f-\u009f\s\\]/

/**
 * Host names, with underscores, which some networks use. Whether a name is of
 * the public DNS is left to the addresses it leads to; but .onion names are
 * never to be looked up (RFC 7686).
 */
const isHostName = (host: string): boolean =>
  host.length <= 253 &&
  host.split(".").every((label) => label.length <= 63 && /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/.test(label)) &&
  !/(^|\.)onion$/.test(host)

/** On a developer's own machine every port is a receiver's. */
const isPort = (port: number, { allowHttp }: TargetPolicy): boolean =>
  port === 443 || (port >= 1024 && (allowHttp || !otherServices.has(port))) || (allowHttp && port === 80)

/** Ports from 1024 up where something other than a webhook receiver listens. */
const otherServices: ReadonlySet<number> = new Set(
  [
    [1080, 3128], // proxies
    [1433, 1434, 1521, 3050, 3306, 5432, 5433, 5984, 6432, 9042, 9160], // databases
    [27017, 27018, 27019, 28015, 33060, 50000], // more of them
    [6379, 6380, 11211, 26379], // caches
    [1883, 4222, 5671, 5672, 8883, 9092, 9093, 61613, 61616], // message brokers
    [7474, 7687, 8086, 9200, 9300], // search, graphs, time series
    [2181, 2375, 2376, 2377, 2379, 2380, 4243, 8300, 8301, 8302, 8500, 10250, 10255], // containers and clusters
    [1025, 1109, 1110, 2525, 3535, 4190], // mail
    [1723, 3389, 5800, 5900, 5901, 5938, 5985, 5986, 6000, 6001], // remote desktops and tunnels
    [2049, 3260, 4045], // file servers
    [1719, 1720, 5060, 5061, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080] // what browsers refuse as well
  ].flat()
)
