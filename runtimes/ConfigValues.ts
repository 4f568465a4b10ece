/** What the text of a setting may be, kind by kind. Each parser takes a text whole or refuses it, and never says why: `wants` does. */
import { Redacted, Result, Schema } from "effect"
import { isIP } from "node:net"
import { isAbsolute } from "node:path"
import type { SealingKey } from "../adapters/node/NodeCrypto.ts"
import * as Hosts from "../adapters/postgres/Hosts.ts"
import * as Limits from "../core/model/Limits.ts"

export type Parsed<A> = Result.Result<A, unknown>

export const integer = (minimum: number, maximum: number) => (text: string): Parsed<number> => {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  return value >= minimum && value <= maximum ? Result.succeed(value) : Result.fail(text)
}

export const oneOf = <const L extends ReadonlyArray<string>>(literals: L) => Schema.decodeUnknownResult(Schema.Literals(literals))

export const boolean = (text: string): Parsed<boolean> => Result.map(oneOf(["true", "false"])(text), (word) => word === "true")

/** An empty text is nothing. */
export const optional = <A>(parse: (text: string) => Parsed<A>) => (text: string): Parsed<A | null> =>
  text === "" ? Result.succeed(null) : parse(text)

export const anyText = (text: string): Parsed<string> => (text.includes("\0") ? Result.fail(text) : Result.succeed(text))

/** What is shown to a server as it stands. The end of a line is none of it, which `echo` puts behind a value that is encoded for a Secret. */
export const line = (text: string): Parsed<string> => (/[\0\r\n]/.test(text) ? Result.fail(text) : Result.succeed(text))

/** A text of this form. */
export const matching = (form: RegExp) => (text: string): Parsed<string> => (form.test(text) ? Result.succeed(text) : Result.fail(text))

/** ARNs of SNS topics. */
export const topics = (text: string): Parsed<ReadonlyArray<string>> => {
  const given = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
  const isTopic = (part: string) => /^arn:aws(-[a-z-]+)?:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]{1,256}$/.test(part)
  return given.every(isTopic) ? Result.succeed(given) : Result.fail(text)
}

export const secret = (parse: (text: string) => Parsed<string>) => (text: string): Parsed<Redacted.Redacted<string>> =>
  Result.map(parse(text), (value) => Redacted.make(value))

const addressOrRange = (text: string): boolean => {
  const [address, bits, ...rest] = text.split("/")
  const family = isIP(address!)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

export const ranges = (text: string): Parsed<ReadonlyArray<string>> => {
  const given = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
  return given.every(addressOrRange) ? Result.succeed(given) : Result.fail(text)
}

/** Mechanisms of SPF that pass, without their qualifier (RFC 7208 5). */
export const spfTerms = (text: string): Parsed<ReadonlyArray<string>> => {
  const terms = text.split(/[ ,]+/).filter((term) => term !== "")
  const isTerm = (term: string) => /^(?:(?:include|exists|ip4|ip6):[a-z0-9._:%{}-]+(?:\/\d{1,3})?|(?:a|mx):[a-z0-9._-]+)$/i.test(term)
  return terms.every(isTerm) ? Result.succeed(terms.map((term) => term.toLowerCase())) : Result.fail(text)
}

/** `60,600` in seconds as milliseconds. */
export const waits = (text: string): Parsed<ReadonlyArray<number>> => {
  const seconds = text.split(",").map((part) => part.trim())
  const isGood = seconds.length < Limits.deliveryAttemptsMax && seconds.every((part) => /^\d{1,6}$/.test(part))
  return isGood ? Result.succeed(seconds.map((part) => Number(part) * 1_000)) : Result.fail(text)
}

/** `host:port`, `[::1]:3310` or the path of a socket. */
export const socketAddress = (
  text: string
): Parsed<{ readonly path: string } | { readonly host: string; readonly port: number }> => {
  if (text.startsWith("/")) return Result.succeed({ path: text })
  const match = /^(?:\[([0-9a-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(text)
  const port = Number(match?.[3])
  return match === null || port < 1 || port > 65_535 ? Result.fail(text) : Result.succeed({ host: (match[1] ?? match[2])!, port })
}

/**
 * A URL of one of these schemes, such as `redis:`. What has an `@` behind its host, and no user before it, was cut short by a
 * `/`, `?` or `#` in a password: its beginning passes for the port, and the user for the host.
 */
export const url = (...schemes: ReadonlyArray<string>) => (text: string): Parsed<string> => {
  const parsed = URL.parse(text)
  if (parsed === null || !schemes.includes(parsed.protocol)) return Result.fail(text)
  const { username, host, pathname, search, hash } = parsed
  return host !== "" && username === "" && `${pathname}${search}${hash}`.includes("@") ? Result.fail(text) : Result.succeed(text)
}

/** A Redis, whose TLS is in the scheme; of parameters it has none but the number of the database behind a socket. */
export const redisUrl = (text: string): Parsed<string> =>
  Result.flatMap(url("redis:", "rediss:", "unix:")(text), () => {
    const { protocol, search } = new URL(text)
    return search === "" || (protocol === "unix:" && /^\?db=\d{1,4}$/.test(search)) ? Result.succeed(text) : Result.fail(text)
  })

/** What is called by HTTP, at paths of its own; credentials have their own settings. */
export const webUrl = (text: string): Parsed<string> =>
  Result.flatMap(url("http:", "https:")(text), () => {
    const { username, password, search, hash } = new URL(text)
    return `${username}${password}${search}${hash}` === "" ? Result.succeed(text) : Result.fail(text)
  })

/** A PostgreSQL URL of parts that can be decoded, with one host or several. */
export const postgresUrl = (text: string): Parsed<string> => {
  const isGood = Hosts.hostsOf(Redacted.make(text)) !== null && Hosts.oneEach(text).every(isPostgresUrl)
  return isGood ? Result.succeed(text) : Result.fail(text)
}

const isPostgresUrl = (text: string): boolean => {
  if (Result.isFailure(url("postgres:", "postgresql:")(text))) return false
  const { username, password, pathname } = new URL(text)
  return Result.isSuccess(Result.try(() => [username, password, pathname].map(decodeURIComponent)))
}

/** `name=value`, separated by commas, as OTEL_EXPORTER_OTLP_HEADERS has them: percent-encoded. */
export const headers = (text: string): Parsed<string> => (headersIn(text) === null ? Result.fail(text) : Result.succeed(text))

/** Null if it is no list of headers. */
export const headersIn = (text: string): Readonly<Record<string, string>> | null => {
  const pairs = text.split(",").map((pair) => /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(.*?)\s*$/.exec(pair))
  const decoded = pairs.map((pair) => (pair === null ? null : headerValue(pair[2]!)))
  if (decoded.includes(null)) return null
  return Object.fromEntries(pairs.map((pair, index) => [pair![1]!.toLowerCase(), decoded[index]!])) // none of them is null
}

const headerValue = (text: string): string | null => {
  const value = Result.getOrNull(Result.try(() => decodeURIComponent(text)))
  return value !== null && /^[\t\x20-\x7e]*$/.test(value) ? value : null
}

/** An address at which clients reach us, as it is written down, but for a slash at its end; with a path of plain segments, if with any. */
export const base = (text: string): Parsed<string> => {
  if (Result.isFailure(url("http:", "https:")(text))) return Result.fail(text)
  const { origin, pathname } = new URL(text)
  const whole = `${origin}${pathname.replace(/\/$/, "")}`
  return [whole, `${whole}/`].includes(text) && /^(?:\/[\w.~-]+)*\/?$/.test(pathname) ? Result.succeed(whole) : Result.fail(text)
}

/** `postgres`, or the path of a folder. A bare name is neither: it would depend on where one stands. */
export const blobPlace = (text: string): Parsed<{ readonly directory: string } | "postgres"> => {
  if (text === "postgres") return Result.succeed("postgres")
  const isPath = (isAbsolute(text) || /^\.{1,2}\//.test(text)) && !text.includes("\0")
  return isPath ? Result.succeed({ directory: text }) : Result.fail(text)
}

/** `1:base64,2:base64`, of 32 bytes each. */
export const keyRing = (text: string): Parsed<ReadonlyArray<SealingKey>> => {
  // A key ends with `=`: the next may stand right behind it, where a file had no line end and one was added.
  const parts = text.split(/[,\s]+|(?<==)(?=\d+:)/).filter((part) => part !== "")
  const keys = parts.flatMap((part): ReadonlyArray<SealingKey> => {
    const [, version, base64] = /^([1-9]\d{0,8}):([A-Za-z0-9+/]{43}=)$/.exec(part) ?? []
    if (version === undefined || base64 === undefined) return []
    return [{ version: Number(version), key: Redacted.make(new Uint8Array(Buffer.from(base64, "base64"))) }]
  })
  const isWhole = keys.length === parts.length && new Set(keys.map((key) => key.version)).size === keys.length
  return isWhole ? Result.succeed(keys) : Result.fail(text)
}
