/**
 * All settings, in one table: environment variables with the prefix
 * `MAILROOM_`. They are read once, at start; every fault is named, with the
 * setting and what it wants, before anything runs. `docs/configuration.md` is
 * generated from this table.
 */
import { Data, Effect, Layer, Logger, References, Result, Schema } from "effect"
import { isIP } from "node:net"
import { parseDomain, type DomainName } from "../core/model/Address.ts"
import * as Limits from "../core/model/Limits.ts"
import { Settings } from "../core/Settings.ts"

interface Setting<A> {
  readonly name: `MAILROOM_${string}`
  /** What a value must be, to follow "wants". */
  readonly wants: string
  readonly about: string
  readonly fallback: string
  readonly parse: (text: string) => Result.Result<A, unknown>
}

const integer = (minimum: number, maximum: number) => (text: string): Result.Result<number, unknown> => {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  return value >= minimum && value <= maximum ? Result.succeed(value) : Result.fail(text)
}

const oneOf = <const L extends ReadonlyArray<string>>(literals: L) => Schema.decodeUnknownResult(Schema.Literals(literals))

const setting = <A>(options: Setting<A>): Setting<A> => options

const addressOrRange = (text: string): boolean => {
  const [address, bits, ...rest] = text.split("/")
  const family = isIP(address!)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

export const settings = {
  mode: setting({
    name: "MAILROOM_MODE",
    wants: "`production` or `development`",
    about: "`dev` sets development, and does not start in production.",
    fallback: "production",
    parse: oneOf(["production", "development"])
  }),
  host: setting({
    name: "MAILROOM_HOST",
    wants: "an IP address to listen on",
    about: "Where the HTTP server listens.",
    fallback: "127.0.0.1",
    parse: (text) => (isIP(text) === 0 ? Result.fail(text) : Result.succeed(text))
  }),
  port: setting({
    name: "MAILROOM_PORT",
    wants: "a port from 0 to 65535 (0: any free one)",
    about: "The HTTP server's port. `--port` of `dev` goes before it.",
    fallback: "3025",
    parse: integer(0, 65_535)
  }),
  data: setting({
    name: "MAILROOM_DATA",
    wants: "a folder",
    about: "Where `dev` keeps what it keeps. `--data` goes before it.",
    fallback: ".mailroom",
    parse: (text) => (text === "" || text.includes("\0") ? Result.fail(text) : Result.succeed(text))
  }),
  logLevel: setting({
    name: "MAILROOM_LOG_LEVEL",
    wants: "`Debug`, `Info`, `Warn` or `Error`",
    about: "The least level that is logged. Logs are JSON lines on standard error. On a terminal `dev` uses Warn unless it is set.",
    fallback: "Info",
    parse: oneOf(["Debug", "Info", "Warn", "Error"])
  }),
  ipRequestsPerMinute: setting({
    name: "MAILROOM_IP_REQUESTS_PER_MINUTE",
    wants: "a whole number from 1 to 1000000",
    about: "The IP guard: requests in any 60 seconds from one address, or one IPv6 /64. `dev` uses 6000 unless it is set.",
    fallback: String(Limits.ipRequestsPerMinute),
    parse: integer(1, 1_000_000)
  }),
  trustedProxies: setting({
    name: "MAILROOM_TRUSTED_PROXIES",
    wants: "IP addresses or CIDR ranges, separated by commas",
    about: "Peers whose `X-Forwarded-For` names the client. Without it, forwarding headers mean nothing.",
    fallback: "",
    parse: (text): Result.Result<ReadonlyArray<string>, unknown> => {
      const ranges = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
      return ranges.every(addressOrRange) ? Result.succeed(ranges) : Result.fail(text)
    }
  }),
  bounceDomain: setting({
    name: "MAILROOM_BOUNCE_DOMAIN",
    wants: "a domain name",
    about: "Bounces come back to a signed address there. Without it they go to the sending mailbox.",
    fallback: "",
    parse: (text): Result.Result<DomainName | null, unknown> => (text === "" ? Result.succeed(null) : parseDomain(text))
  }),
  eventRetentionDays: setting({
    name: "MAILROOM_EVENT_RETENTION_DAYS",
    wants: "a whole number from 1 to 3650",
    about: "For how many days events can be listed.",
    fallback: String(Limits.eventRetentionDefault / 86_400_000),
    parse: integer(1, 3_650)
  })
}

export type Config = {
  readonly [K in keyof typeof settings]: (typeof settings)[K] extends Setting<infer A> ? A : never
}

/** Settings that hold what they must not; one line for each. */
export class ConfigFaults extends Data.TaggedError("ConfigFaults")<{ readonly faults: ReadonlyArray<string> }> {
  override get message(): string {
    return this.faults.join("\n")
  }
}

/** The environment of this process; the only place that reads it. */
export const environment = (): Readonly<Record<string, string | undefined>> => process.env

/** Reads every setting from an environment, or names every fault. `defaults` stand in for settings that are not set. */
export const load = (
  variables: Readonly<Record<string, string | undefined>>,
  defaults: { readonly [K in keyof Config]?: string } = {}
): Effect.Effect<Config, ConfigFaults> => {
  const faults: Array<string> = []
  const known = new Set<string>(Object.values(settings).map(({ name }) => name))
  for (const name of Object.keys(variables)) {
    if (name.startsWith("MAILROOM_") && !known.has(name)) faults.push(`${name} is no setting of Mailroom; see docs/configuration.md`)
  }
  const values = Object.entries(settings).map(([key, { name, wants, fallback, parse }]) => {
    const text = variables[name] ?? defaults[key as keyof Config] ?? fallback // keys of the literal above
    const parsed: Result.Result<unknown, unknown> = parse(text)
    if (Result.isSuccess(parsed)) return [key, parsed.success] as const
    faults.push(`${name} is ${JSON.stringify(text)}; it wants ${wants}`)
    return [key, null] as const
  })
  // Every key was parsed by its own parser, or there are faults.
  return faults.length > 0 ? Effect.fail(new ConfigFaults({ faults })) : Effect.succeed(Object.fromEntries(values) as Config)
}

/** An environment in which flags of the command line stand over its settings. */
export const withFlags = (
  variables: Readonly<Record<string, string | undefined>>,
  flags: { readonly data: string | null; readonly port: number | null }
): Readonly<Record<string, string | undefined>> => ({
  ...variables,
  ...(flags.data === null ? {} : { [settings.data.name]: flags.data }),
  ...(flags.port === null ? {} : { [settings.port.name]: String(flags.port) })
})

/** What the core wants to know of it. */
export const settingsLayer = ({ ipRequestsPerMinute, bounceDomain, eventRetentionDays }: Config) =>
  Layer.succeed(Settings, { ipRequestsPerMinute, bounceDomain, eventRetention: eventRetentionDays * 86_400_000 })

/** JSON lines on standard error, from the configured level up. */
export const logLayer = ({ logLevel }: Config) =>
  Layer.merge(Logger.layer([Logger.withConsoleError(Logger.formatJson)]), Layer.succeed(References.MinimumLogLevel, logLevel))

/** `docs/configuration.md`. */
export const configurationMarkdown = (): string =>
  [
    "# Configuration",
    "",
    "Settings are environment variables. They are read once, at start; a fault stops the start and names the setting and what it wants.",
    "This page is generated: `npm run docs`.",
    "",
    "| setting | default | wants | about |",
    "|---|---|---|---|",
    ...Object.values(settings).map(
      ({ name, fallback, wants, about }) => `| \`${name}\` | ${fallback === "" ? "–" : `\`${fallback}\``} | ${wants} | ${about} |`
    ),
    ""
  ].join("\n")
