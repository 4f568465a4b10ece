/**
 * The settings of a process: environment variables with the prefix
 * `MAILROOM_`, by the table in `ConfigTable.ts`. They are read once, at start;
 * every fault is named, with the setting and what it wants, before anything
 * runs.
 */
import { Data, Effect, Layer, Option, References, Result, type Redacted } from "effect"
import { GlobalFlag } from "effect/cli"
import { isIP } from "node:net"
import * as Hosts from "../adapters/postgres/Hosts.ts"
import { defaults, Settings, type SettingsShape } from "../core/Settings.ts"
import { settings, type Config, type Setting } from "./ConfigTable.ts"
import * as FileFault from "./FileFault.ts"
import * as LogLines from "./LogLines.ts"

export { settings, type Config } from "./ConfigTable.ts"

/** Settings that hold what they must not; one line for each. */
export class ConfigFaults extends Data.TaggedError("ConfigFaults")<{ readonly faults: ReadonlyArray<string> }> {
  override get message(): string {
    return this.faults.join("\n")
  }
}

/** The environment of this process; the only place that reads it. */
export const environment = (): Variables => process.env

/** An environment. */
export type Variables = Readonly<Record<string, string | undefined>>

/** What a runtime cannot do without, beyond settings that parse. */
export type Need = "database" | "sealing keys" | "scanner" | "database of redis"

/** The settings of a process that shares a database with others. */
export type Deployment = Config & { readonly databaseUrl: Redacted.Redacted<string> }

export interface Reading {
  /** Null if a setting could not be read. */
  readonly config: Config | null
  readonly faults: ReadonlyArray<string>
}

/** Reads every setting from an environment, and notes every fault. `defaults` stand in for settings that are not set. */
export const read = (
  variables: Variables,
  defaults: { readonly [K in keyof Config]?: string } = {},
  needs: ReadonlyArray<Need> = []
): Reading => {
  const all: ReadonlyArray<readonly [string, Setting<unknown>]> = Object.entries(settings)
  const known = new Set(all.flatMap(([, { name, isSecret }]) => (isSecret === true ? [name, fileNameOf(name)] : [name])))
  const links = linksIn(variables, known)
  const faults: Array<string> = strangers(Object.keys(variables).filter((name) => name.startsWith("MAILROOM_") && !known.has(name)), links)
  const values = new Map<string, unknown>()
  for (const [key, setting] of all) {
    const given = textOf(setting, variables)
    if (Result.isFailure(given)) {
      faults.push(given.failure)
      continue
    }
    const fallback = { name: setting.name, text: defaults[key as keyof Config] ?? setting.fallback } // keys of the literal above
    // Where the table has no default, empty is not set, and a runtime may have one all the same.
    const isSet = given.success !== null && (given.success.text !== "" || setting.fallback !== "")
    const { name, text } = isSet ? given.success : fallback
    const parsed = setting.parse(text)
    if (Result.isSuccess(parsed)) values.set(key, parsed.success)
    else if (!links.has(name)) faults.push(`${name} ${isRepeated(setting, text) ? `is ${JSON.stringify(text)}; it ` : ""}wants ${setting.wants}`)
  }
  const config = Object.fromEntries(values) as Config // whole where it is looked at: each rule names what it looks at
  for (const { about, breaks, fault } of [...rules, ...needs.flatMap((need) => requirements[need])]) {
    if (about.every((key) => values.has(key)) && breaks(config)) faults.push(typeof fault === "string" ? fault : fault(config))
  }
  return { config: values.size === all.length ? config : null, faults }
}

/** What Kubernetes gives each container to know a Service `mailroom`, or `mailroom-…`, of its namespace by. */
const serviceLink = /_SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/

/** Those that are here; one of them may have the name of a setting, as `MAILROOM_PORT` has, and is known by its value. */
const linksIn = (variables: Variables, known: ReadonlySet<string>): ReadonlySet<string> =>
  new Set(
    Object.entries(variables).flatMap(([name, value = ""]) => {
      const isOfService = (!known.has(name) && serviceLink.test(name)) || (name.endsWith("_PORT") && /^(?:tcp|udp|sctp):\/\//.test(value))
      return name.startsWith("MAILROOM_") && isOfService ? [name] : []
    })
  )

/** The faults of links, and of other variables that are no settings. */
const strangers = (names: ReadonlyArray<string>, links: ReadonlySet<string>): Array<string> => {
  const [first] = links
  const those = links.size > 1 ? `${first} and ${links.size - 1} more are` : `${first} is`
  return [
    ...(links.size === 0 ? [] : [`${those} what Kubernetes sets for a Service of such a name; the pod wants \`enableServiceLinks: false\``]),
    ...names.filter((name) => !links.has(name)).map((name) => `${name} is no setting of Mailroom; see docs/configuration.md`)
  ]
}

/** Not marked as secret, and yet no fault repeats them: a URL's user info goes here, or what the setting beside is for. */
const mayHoldSecret: ReadonlySet<string> = new Set(
  [
    settings.publicUrl,
    settings.otlpEndpoint,
    settings.inboundRspamd,
    settings.inboundLmtp,
    settings.clamd,
    settings.smtpHost,
    settings.metrics,
    settings.sesAccessKeyId,
    settings.postmarkServerId,
    settings.postmarkStream
  ].map(({ name }) => name)
)

/** Whether a fault says what the setting is. A URL may have a password in it, in whichever setting it was put. */
const isRepeated = ({ name, isSecret }: Setting<unknown>, text: string): boolean =>
  isSecret !== true && !mayHoldSecret.has(name) && !/@|:\/\//.test(text)

/** Reads every setting, or fails with every fault. */
export const load = (
  variables: Variables,
  defaults: { readonly [K in keyof Config]?: string } = {},
  needs: ReadonlyArray<Need> = []
): Effect.Effect<Config, ConfigFaults> =>
  Effect.suspend(() => {
    const { config, faults } = read(variables, defaults, needs)
    return config === null || faults.length > 0 ? Effect.fail(new ConfigFaults({ faults })) : Effect.succeed(config)
  })

/** The settings of this process, for a runtime that works on the shared database. */
export const deployment = (...needs: ReadonlyArray<Exclude<Need, "database">>): Effect.Effect<Deployment, ConfigFaults> =>
  Effect.map(load(environment(), {}, ["database", ...needs]), (config) => config as Deployment) // the database is needed

/** The variable that names a file with the secret. */
export const fileNameOf = (name: string): string => `${name}_FILE`

/** What stands for a setting, and under which name; null if nothing does. A secret may stand in a file. */
export const textOf = (
  { name, isSecret, alias, parse }: Setting<unknown>,
  variables: Variables
): Result.Result<{ readonly name: string; readonly text: string } | null, string> => {
  const flag = flagOf[name]
  const flagged = flag === undefined ? undefined : variables[flag]
  if (flag !== undefined && flagged !== undefined) return Result.succeed({ name: flag, text: flagged })
  const text = variables[name]
  if (isSecret !== true) return Result.succeed(text === undefined ? null : { name, text })
  const inFile = fileNameOf(name)
  const file = variables[inFile] ?? ""
  if (file !== "") {
    if ((text ?? "") !== "") return Result.fail(`${name} and ${inFile} are both set; one of them is too many`)
    return Result.flatMap(FileFault.bytesOf(inFile, file), (bytes) => {
      const held = FileFault.textOf(bytes)
      // It would be a secret with other letters in it: the one who is not let in with it would look for the fault elsewhere.
      if (held === null) return Result.fail(`${inFile}: ${file} is not in UTF-8`)
      // Nothing would be the same as not being set.
      if (held.trim() === "") return Result.fail(`${inFile}: ${file} holds nothing; it wants a file that holds the secret`)
      return Result.succeed({ name: `the file of ${inFile}`, text: held.replace(/\r?\n$/, "") })
    })
  }
  const theirs = alias === undefined ? undefined : variables[alias]
  // A host, or another project's shell, may mean something else by a name that is not ours; but not by such a URL.
  const isOurs = theirs !== undefined && (Result.isSuccess(parse(theirs)) || /^postgres(?:ql)?:/i.test(theirs)) && theirs !== ""
  if (text !== undefined && text !== "") return Result.succeed({ name, text })
  return Result.succeed(isOurs ? { name: alias!, text: theirs } : null) // what has a text has a name
}

interface Rule {
  readonly about: ReadonlyArray<keyof Config>
  readonly breaks: (config: Config) => boolean
  readonly fault: string | ((config: Config) => string)
}

const notWithout = (set: keyof Config, other: keyof Config): Rule => ({
  about: [set, other],
  breaks: (config) => config[set] !== null && config[other] === null,
  fault: `${settings[set].name} is set, and ${settings[other].name} is not`
})

const eachOther = (one: keyof Config, other: keyof Config): Rule => ({
  about: [one, other],
  breaks: (config) => (config[one] === null) !== (config[other] === null),
  fault: `${settings[one].name} and ${settings[other].name} want each other`
})

/** What each setting allows by itself, and not together. */
const rules: ReadonlyArray<Rule> = [
  {
    about: ["mode", "webhookAllowHttp"],
    breaks: ({ mode, webhookAllowHttp }) => mode === "production" && webhookAllowHttp,
    fault: `${settings.webhookAllowHttp.name} is true, and production wants https`
  },
  {
    about: ["mode", "webhookAllowedAddresses"],
    breaks: ({ mode, webhookAllowedAddresses }) => mode === "production" && webhookAllowedAddresses.length > 0,
    fault: `${settings.webhookAllowedAddresses.name} is set, and production sends webhooks to public addresses only`
  },
  eachOther("smtpUser", "smtpPassword"),
  {
    about: ["smtpUser", "smtpTls"],
    breaks: ({ smtpUser, smtpTls }) => smtpUser !== null && smtpTls === "none",
    fault: `${settings.smtpTls.name} is none, which would show the password; it wants starttls or implicit`
  },
  notWithout("smtpUser", "smtpHost"),
  notWithout("dkimFile", "smtpHost"),
  notWithout("smtpCa", "smtpHost"),
  notWithout("otlpHeaders", "otlpEndpoint"),
  notWithout("inboundRspamdPassword", "inboundRspamd"),
  {
    about: ["provider", "sesRegion"],
    breaks: ({ provider, sesRegion }) => provider === "ses" && sesRegion === null,
    fault: `${settings.provider.name} is ses, and ${settings.sesRegion.name} is not set`
  },
  eachOther("sesAccessKeyId", "sesSecretAccessKey"),
  {
    about: ["provider", "postmarkToken"],
    breaks: ({ provider, postmarkToken }) => provider === "postmark" && postmarkToken === null,
    fault: `${settings.provider.name} is postmark, and ${settings.postmarkToken.name} is not set`
  },
  {
    about: ["provider", "dkimFile"],
    breaks: ({ provider, dkimFile }) => provider !== "smtp" && dkimFile !== null,
    fault: `${settings.dkimFile.name} is set, and ${settings.provider.name} is one that signs by itself`
  },
  eachOther("inboundTlsCert", "inboundTlsKey"),
  notWithout("inboundTlsPort", "inboundTlsCert"),
  {
    about: ["queue", "redisUrl"],
    breaks: ({ queue, redisUrl }) => queue === "redis" && redisUrl === null,
    fault: `${settings.queue.name} is redis, and ${settings.redisUrl.name} is not set`
  },
  {
    about: ["databaseUrl"],
    breaks: ({ databaseUrl }) => databaseUrl !== null && Hosts.faultOf(databaseUrl) !== null,
    fault: ({ databaseUrl }) => `${settings.databaseUrl.name} (or ${settings.databaseUrl.alias}) ${Hosts.faultOf(databaseUrl!)}` // it breaks the rule
  }
]

const requirements: Record<Need, Rule> = {
  database: {
    about: ["databaseUrl"],
    breaks: ({ databaseUrl }) => databaseUrl === null,
    fault: `${settings.databaseUrl.name} (or ${settings.databaseUrl.alias}) is not set; it wants ${settings.databaseUrl.wants}`
  },
  // Who shares a database has one. A process that has all to itself needs no Redis, and would leave it alone.
  "database of redis": {
    about: ["redisUrl", "databaseUrl"],
    breaks: ({ redisUrl, databaseUrl }) => redisUrl !== null && databaseUrl === null,
    fault: `${settings.redisUrl.name} is set, and ${settings.databaseUrl.name} (or ${settings.databaseUrl.alias}) is not`
  },
  "sealing keys": {
    about: ["sealingKeys"],
    breaks: ({ sealingKeys }) => sealingKeys.length === 0,
    fault: `${settings.sealingKeys.name} is not set; \`mailroom sealing generate\` prints a key to begin with; a database that has secrets wants the keys that it had`
  },
  scanner: {
    about: ["mode", "scanner"],
    breaks: ({ mode, scanner }) => mode === "production" && scanner === null,
    fault: `${settings.scanner.name} is not set; production wants clamd, or none to pass attachments unscanned`
  }
}

/** Flags of the command line that go before a setting, by its name. */
const flagOf: Readonly<Record<string, string>> = { [settings.data.name]: "--data", [settings.port.name]: "--port" }

/** An environment in which flags stand over its settings, under their own names: a fault is told under the name that it was given by. */
export const withFlags = (
  variables: Variables,
  flags: { readonly data: string | null; readonly port: number | null }
): Variables => ({
  ...variables,
  ...(flags.data === null ? {} : { [flagOf[settings.data.name]!]: flags.data }),
  ...(flags.port === null ? {} : { [flagOf[settings.port.name]!]: String(flags.port) })
})

/** An address alone is a block of one. */
const blockOf = (range: string): string => (range.includes("/") ? range : `${range}/${isIP(range) === 4 ? 32 : 128}`)

/** What the core wants to know of it, and what a runtime says beside. */
export const settingsLayer = (config: Config, over: Partial<SettingsShape> = {}) =>
  Layer.succeed(Settings, {
    ...defaults,
    ipRequestsPerMinute: config.ipRequestsPerMinute,
    bounceDomain: config.bounceDomain,
    spf: config.spf,
    mxHost: config.mxHost,
    eventRetention: config.eventRetentionDays * 86_400_000,
    messageRetention: config.messageRetentionDays === null ? null : config.messageRetentionDays * 86_400_000,
    inboundPerMinute: config.inboundPerMinute,
    webhookTargets: { allowHttp: config.webhookAllowHttp, allowedBlocks: config.webhookAllowedAddresses.map(blockOf) },
    deliveryBackoff: config.webhookBackoff,
    ...over
  })

/** The log, from the configured level up, or from that of `--log-level`. */
export const logLayer = ({ logLevel }: Config) =>
  Layer.merge(
    LogLines.layer,
    Layer.effect(
      References.MinimumLogLevel,
      Effect.map(Effect.serviceOption(GlobalFlag.LogLevel), (flag) => Option.getOrElse(Option.flatten(flag), () => logLevel))
    )
  )

/** `docs/configuration.md`. */
export const configurationMarkdown = (): string =>
  [
    "# Configuration",
    "",
    "Settings are environment variables. They are read once, at start; a fault stops the start and names the setting and what it wants.",
    "One that is empty is as good as not set where there is no default, and a fault where there is one. This page is generated: `npm run docs`.",
    "",
    "A setting marked \u{1F512} is secret: it is printed nowhere, and may stand in a file instead, named by the setting's name with `_FILE`",
    "behind it (`MAILROOM_DATABASE_URL_FILE=/run/secrets/database`). It is UTF-8, and the end of its last line is cut off. Such a file is for its owner only.",
    "",
    "| setting | default | wants | about |",
    "|---|---|---|---|",
    ...Object.values(settings).map(
      ({ name, fallback, wants, about, isSecret, alias }) =>
        `| \`${name}\`${isSecret === true ? " \u{1F512}" : ""}${alias === undefined ? "" : `, or \`${alias}\``} | ${fallback === "" ? "–" : `\`${fallback}\``} | ${wants} | ${about} |`
    ),
    ""
  ].join("\n")
