/**
 * All settings, in one table: environment variables with the prefix
 * `MAILROOM_`. They are read once, at start; every fault is named, with the
 * setting and what it wants, before anything runs. `docs/configuration.md` is
 * generated from this table.
 */
import { Data, Effect, Layer, Logger, Redacted, References, Result, Schema } from "effect"
import { isIP } from "node:net"
import { parseDomain, type DomainName } from "../core/model/Address.ts"
import * as Backoff from "../core/model/Backoff.ts"
import * as Limits from "../core/model/Limits.ts"
import { Settings } from "../core/Settings.ts"

interface Setting<A> {
  readonly name: `MAILROOM_${string}`
  /** What a value must be, to follow "wants". */
  readonly wants: string
  readonly about: string
  readonly fallback: string
  readonly parse: (text: string) => Result.Result<A, unknown>
  /** Not repeated in a fault. */
  readonly isSecret?: boolean
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

const ranges = (text: string): Result.Result<ReadonlyArray<string>, unknown> => {
  const given = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
  return given.every(addressOrRange) ? Result.succeed(given) : Result.fail(text)
}

/** An empty text is nothing. */
const optional = <A>(parse: (text: string) => Result.Result<A, unknown>) => (text: string): Result.Result<A | null, unknown> =>
  text === "" ? Result.succeed(null) : parse(text)

const anyText = (text: string): Result.Result<string, unknown> => (text.includes("\0") ? Result.fail(text) : Result.succeed(text))

/** `60,600` in seconds as milliseconds. */
const waits = (text: string): Result.Result<ReadonlyArray<number>, unknown> => {
  const seconds = text.split(",").map((part) => part.trim())
  const isGood = seconds.length < Limits.deliveryAttemptsMax && seconds.every((part) => /^\d{1,6}$/.test(part))
  return isGood ? Result.succeed(seconds.map((part) => Number(part) * 1_000)) : Result.fail(text)
}

/** `host:port`, `[::1]:3310` or the path of a socket. */
const socketAddress = (
  text: string
): Result.Result<{ readonly path: string } | { readonly host: string; readonly port: number }, unknown> => {
  if (text.startsWith("/")) return Result.succeed({ path: text })
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:/\s]+)):(\d{1,5})$/i.exec(text)
  const port = Number(match?.[3])
  return match === null || port < 1 || port > 65_535 ? Result.fail(text) : Result.succeed({ host: (match[1] ?? match[2])!, port })
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
  devDomain: setting({
    name: "MAILROOM_DEV_DOMAIN",
    wants: "a domain name",
    about: "The domain of the mailboxes that `dev` makes. One of your own, if its production mail is to be taken by a real mail server.",
    fallback: "dev.example",
    parse: (text): Result.Result<DomainName, unknown> => parseDomain(text)
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
    parse: ranges
  }),
  bounceDomain: setting({
    name: "MAILROOM_BOUNCE_DOMAIN",
    wants: "a domain name",
    about: "Bounces come back to a signed address there. Without it they go to the sending mailbox.",
    fallback: "",
    parse: optional<DomainName>(parseDomain)
  }),
  eventRetentionDays: setting({
    name: "MAILROOM_EVENT_RETENTION_DAYS",
    wants: "a whole number from 1 to 3650",
    about: "For how many days events can be listed.",
    fallback: String(Limits.eventRetentionDefault / 86_400_000),
    parse: integer(1, 3_650)
  }),
  smtpHost: setting({
    name: "MAILROOM_SMTP_HOST",
    wants: "a host name or an IP address",
    about: "The mail server that takes production mail. Without it production mail waits. Sandbox mail never goes there.",
    fallback: "",
    parse: optional((text) => (isIP(text) !== 0 || /^[A-Za-z0-9.-]{1,253}$/.test(text) ? Result.succeed(text) : Result.fail(text)))
  }),
  smtpPort: setting({
    name: "MAILROOM_SMTP_PORT",
    wants: "a port from 1 to 65535",
    about: "The mail server's port: 587 for `starttls`, 465 for `implicit`.",
    fallback: "587",
    parse: integer(1, 65_535)
  }),
  smtpTls: setting({
    name: "MAILROOM_SMTP_TLS",
    wants: "`starttls`, `implicit` or `none`",
    about: "How the connection is encrypted. A server that does not offer it gets no mail. `none` is for a relay on this machine, or on a network that is yours alone.",
    fallback: "starttls",
    parse: oneOf(["starttls", "implicit", "none"])
  }),
  smtpUser: setting({
    name: "MAILROOM_SMTP_USER",
    wants: "a user name",
    about: "Whom to sign in as. Without it nobody signs in.",
    fallback: "",
    parse: optional(anyText)
  }),
  smtpPassword: setting({
    name: "MAILROOM_SMTP_PASSWORD",
    wants: "a password",
    about: "That user's password.",
    fallback: "",
    isSecret: true,
    parse: optional((text) => Result.map(anyText(text), (password) => Redacted.make(password)))
  }),
  smtpCa: setting({
    name: "MAILROOM_SMTP_CA_FILE",
    wants: "a file",
    about: "Certificates in PEM that are trusted for the mail server, beside those that Node trusts.",
    fallback: "",
    parse: optional(anyText)
  }),
  dkimFile: setting({
    name: "MAILROOM_DKIM_FILE",
    wants: "a file",
    about: "A JSON list of `{domain, selector, privateKey}`, the key in PEM: mail from these domains is signed with DKIM.",
    fallback: "",
    parse: optional(anyText)
  }),
  scanner: setting({
    name: "MAILROOM_SCANNER",
    wants: "`eicar` or `clamd`",
    about: "What looks for malware in attachments. `eicar` finds only the test file, and is for development.",
    fallback: "eicar",
    parse: oneOf(["eicar", "clamd"])
  }),
  clamd: setting({
    name: "MAILROOM_CLAMD",
    wants: "host:port, or the path of a socket",
    about: "Where clamd listens, for the scanner `clamd`.",
    fallback: "127.0.0.1:3310",
    parse: socketAddress
  }),
  webhookAllowHttp: setting({
    name: "MAILROOM_WEBHOOK_ALLOW_HTTP",
    wants: "`true` or `false`",
    about: "Whether webhooks may go to plain http. `dev` says true unless it is set; production refuses it.",
    fallback: "false",
    parse: (text) => Result.map(oneOf(["true", "false"])(text), (word) => word === "true")
  }),
  webhookAllowedAddresses: setting({
    name: "MAILROOM_WEBHOOK_ALLOWED_ADDRESSES",
    wants: "IP addresses or CIDR ranges, separated by commas",
    about: "Addresses that are not public and may get webhooks all the same. `dev` allows loopback unless it is set; production refuses any.",
    fallback: "",
    parse: ranges
  }),
  webhookBackoff: setting({
    name: "MAILROOM_WEBHOOK_BACKOFF",
    wants: "one to four waits in seconds, separated by commas",
    about: "The waits after the first, second, … failed attempt of a delivery; the last one repeats. Each varies by 20 %.",
    fallback: Backoff.delivery.map((wait) => wait / 1_000).join(","),
    parse: waits
  }),
  apiKey: setting({
    name: "MAILROOM_API_KEY",
    wants: "an API key",
    about: "The key that `conformance` calls a deployment with. `--api-key-file` goes before it; nothing else reads it.",
    fallback: "",
    isSecret: true,
    parse: optional((text) => Result.map(anyText(text), (apiKey) => Redacted.make(apiKey)))
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
  const values = Object.entries(settings).map(([key, { name, wants, fallback, parse, isSecret }]) => {
    const text = variables[name] ?? defaults[key as keyof Config] ?? fallback // keys of the literal above
    const parsed: Result.Result<unknown, unknown> = parse(text)
    if (Result.isSuccess(parsed)) return [key, parsed.success] as const
    faults.push(isSecret === true ? `${name} wants ${wants}` : `${name} is ${JSON.stringify(text)}; it wants ${wants}`)
    return [key, null] as const
  })
  if (faults.length > 0) return Effect.fail(new ConfigFaults({ faults }))
  const config = Object.fromEntries(values) as Config // every key was parsed by its own parser
  const clashes = clashesIn(config)
  return clashes.length > 0 ? Effect.fail(new ConfigFaults({ faults: clashes })) : Effect.succeed(config)
}

/** What each setting allows by itself, and not together. */
const clashesIn = (config: Config): ReadonlyArray<string> => {
  const { mode, smtpHost, dkimFile, smtpUser, smtpPassword, smtpTls, webhookAllowHttp, webhookAllowedAddresses } = config
  const rules: ReadonlyArray<readonly [boolean, string]> = [
    [mode === "production" && webhookAllowHttp, `${settings.webhookAllowHttp.name} is true, and production wants https`],
    [
      mode === "production" && webhookAllowedAddresses.length > 0,
      `${settings.webhookAllowedAddresses.name} is set, and production sends webhooks to public addresses only`
    ],
    [
      (smtpUser === null) !== (smtpPassword === null),
      `${settings.smtpUser.name} and ${settings.smtpPassword.name} want each other`
    ],
    [
      smtpUser !== null && smtpTls === "none",
      `${settings.smtpTls.name} is none, which would show the password; it wants starttls or implicit`
    ],
    [smtpHost === null && smtpUser !== null, `${settings.smtpUser.name} is set, and ${settings.smtpHost.name} is not`],
    [smtpHost === null && dkimFile !== null, `${settings.dkimFile.name} is set, and ${settings.smtpHost.name} is not`]
  ]
  return rules.flatMap(([clashes, fault]) => (clashes ? [fault] : []))
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

/** An address alone is a block of one. */
const blockOf = (range: string): string => (range.includes("/") ? range : `${range}/${isIP(range) === 4 ? 32 : 128}`)

/** What the core wants to know of it. */
export const settingsLayer = (config: Config) =>
  Layer.succeed(Settings, {
    ipRequestsPerMinute: config.ipRequestsPerMinute,
    bounceDomain: config.bounceDomain,
    eventRetention: config.eventRetentionDays * 86_400_000,
    webhookTargets: { allowHttp: config.webhookAllowHttp, allowedBlocks: config.webhookAllowedAddresses.map(blockOf) },
    deliveryBackoff: config.webhookBackoff
  })

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
