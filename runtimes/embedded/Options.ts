/**
 * What `createMailroom` is given, and the rules for it. Settings that a
 * process reads from its environment have the rules of `ConfigTable.ts` here
 * too. Programs in JavaScript have no types to help them, so every option is
 * looked at, and all faults are told at once, by name.
 */
import { Effect, Layer, Predicate, Result, type Scope } from "effect"
import { inspect } from "node:util"
import * as PublicAddress from "../../core/model/PublicAddress.ts"
import type { TargetPolicy } from "../../core/model/WebhookUrl.ts"
import type { BlobStore } from "../../core/ports/BlobStore.ts"
import type { Crypto } from "../../core/ports/Crypto.ts"
import type { JobQueue } from "../../core/ports/JobQueue.ts"
import type { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import type { Mime } from "../../core/ports/Mime.ts"
import type { NotificationIntake } from "../../core/ports/NotificationIntake.ts"
import type { RateLimiter } from "../../core/ports/RateLimiter.ts"
import type { Resolver } from "../../core/ports/Resolver.ts"
import type { Scanner } from "../../core/ports/Scanner.ts"
import type { SpamFilter } from "../../core/ports/SpamFilter.ts"
import type { Store } from "../../core/ports/Store.ts"
import type { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import { defaults, type SettingsShape } from "../../core/Settings.ts"
import { settings as configured, type Setting } from "../ConfigTable.ts"
import * as Values from "../ConfigValues.ts"

/** An adapter, as its module exports it. */
type Adapter<Port> = Layer.Layer<Port, unknown>

/** An adapter for each port, and what is set about the core. */
export interface Options {
  readonly store: Adapter<Store>
  readonly queue: Adapter<JobQueue>
  readonly blobs: Adapter<BlobStore>
  readonly crypto: Adapter<Crypto>
  readonly mime: Adapter<Mime>
  readonly scanner: Adapter<Scanner>
  readonly webhooks: Layer.Layer<WebhookTransport, unknown, Resolver>
  /** Takes production mail, and may want the `mime` of these options; null: production mail waits until there is one. */
  readonly provider: MailProvider | Effect.Effect<MailProvider, unknown, Scope.Scope | Mime> | null
  /** Takes sandbox mail. Default: the sandbox, which delivers nothing. */
  readonly sandbox?: MailProvider
  /** Take in what providers post to `fetch`, at `/providers/{name}/notifications`. Default: none. */
  readonly intakes?: Effect.Effect<ReadonlyArray<NotificationIntake>, unknown, WebhookTransport>
  /** Default: counts in this process. */
  readonly limiter?: Adapter<RateLimiter>
  /** Looks up where webhooks go. Default: DNS. */
  readonly resolver?: Adapter<Resolver>
  /** Finds out who inbound mail is from. Default: nobody, and its messages show no results. */
  readonly authenticator?: Adapter<MailAuthenticator>
  /** Judges inbound mail. Default: nobody. */
  readonly spamFilter?: Adapter<SpamFilter>
  /** Held to the same bounds as the settings of a process (`docs/configuration.md`). */
  readonly settings?: Partial<SettingsShape>
  /** The address at which clients reach `fetch`, for the published document, with your prefix if there is one. Default `http://mailroom.internal`. */
  readonly address?: string
  /** Takes log lines, JSON each; one that it throws at, or whose promise it breaks, goes to standard error. Default: warnings and errors, to standard error. */
  readonly log?: (line: string) => void
}

/** The settings and the address that options come to. Throws a TypeError that names each option at fault and what it wants. */
export const read = (options: Options): { readonly settings: SettingsShape; readonly address: string } => {
  const given = Object.entries(options ?? {}).filter(([, value]) => value !== undefined) // from JavaScript it may be nothing at all
  const of = new Map<string, unknown>(given)
  const faults = given.flatMap(([name]) => (Object.hasOwn(rules, name) ? [] : [`${name} is no option of createMailroom, which knows ${Object.keys(rules).join(", ")}`]))
  for (const [name, { wants, isMet }] of Object.entries(rules)) {
    // What it is instead is not repeated: an adapter may hold a password.
    if (!isMet(of.get(name))) faults.push(`${name} ${of.has(name) ? "is something else; it" : "is not given; it"} wants ${wants}`)
  }
  const settings = new Map<string, unknown>(Object.entries(defaults))
  for (const [name, value] of Object.entries(options?.settings ?? {})) {
    const rule: Rule<unknown> | undefined = Object.hasOwn(settingRules, name) ? settingRules[name as keyof SettingsShape] : undefined
    if (value === undefined) continue
    if (rule === undefined) faults.push(`settings.${name} is no setting, of which there are ${Object.keys(settingRules).join(", ")}`)
    else {
      const parsed = rule.parse(value)
      if (Result.isSuccess(parsed)) settings.set(name, parsed.success)
      else faults.push(`settings.${name} is ${inspect(value, { depth: 1, breakLength: Infinity })}; it wants ${rule.wants}`)
    }
  }
  if (faults.length > 0) throw new TypeError(faults.join("\n"))
  const address = Result.getOrThrow(addressRule.parse(options.address ?? "http://mailroom.internal"))
  return { settings: Object.fromEntries(settings) as unknown as SettingsShape, address } // the defaults, and what has passed its rule
}

interface Rule<A> {
  /** What a value must be, to follow "wants". */
  readonly wants: string
  readonly parse: (value: unknown) => Values.Parsed<A>
}

/** The rule of a setting whose value is a text, which an empty one is not. */
const text = <A>({ wants, parse }: Setting<A | null>): Rule<A> => ({
  wants,
  parse: (value) => (typeof value === "string" && value !== "" ? (parse(value) as Values.Parsed<A>) : Result.fail(value)) // null stands for the empty text alone
})

/** The rule of a setting whose value is a number. */
const number = ({ wants, parse }: Setting<number>): Rule<number> => ({
  wants,
  parse: (value) => (Predicate.isNumber(value) ? parse(String(value)) : Result.fail(value))
})

const orNull = <A>({ wants, parse }: Rule<A>): Rule<A | null> => ({
  wants: `${wants}, or null`,
  parse: (value) => (value === null ? Result.succeed(null) : parse(value))
})

const oneOf = <const L extends ReadonlyArray<string>>(...words: L): Rule<L[number]> => ({
  wants: words.map((word) => `\`${word}\``).join(" or "),
  parse: Values.oneOf(words) as Rule<L[number]>["parse"] // of whatever it is given
})

const isNumbers = Predicate.compose(Array.isArray, (values: Array<unknown>): values is Array<number> => values.every(Predicate.isNumber))
const isTexts = Predicate.compose(Array.isArray, (values: Array<unknown>): values is Array<string> => values.every(Predicate.isString))

/** A process is given days and seconds: what is begun of one is for its rule. */
const whole = (value: number, unit: number): string => String(Math.floor(value / unit))

const days = ({ wants, parse }: Setting<number> | Setting<number | null>): Rule<number> => ({
  wants: `milliseconds; in days, ${wants}`,
  parse: (value) => (Predicate.isNumber(value) ? Result.map(parse(whole(value, 86_400_000)), () => value) : Result.fail(value))
})

const settingRules: { readonly [K in keyof SettingsShape]: Rule<SettingsShape[K]> } = {
  ipRequestsPerMinute: number(configured.ipRequestsPerMinute),
  inboundPerMinute: number(configured.inboundPerMinute),
  bounceDomain: orNull(text(configured.bounceDomain)),
  spf: {
    wants: "a list of SPF terms, such as `include:spf.example.net`",
    parse: (value) => (isTexts(value) ? configured.spf.parse(value.join(" ")) : Result.fail(value))
  },
  mxHost: orNull(text(configured.mxHost)),
  eventRetention: days(configured.eventRetentionDays),
  messageRetention: orNull(days(configured.messageRetentionDays)),
  webhookTargets: {
    wants: "`allowHttp`, true or false, and `allowedBlocks`, a list of blocks such as 10.0.0.0/8",
    parse: (value) => (isTargets(value) ? Result.succeed(value) : Result.fail(value))
  },
  deliveryBackoff: {
    wants: "one to four waits in milliseconds",
    parse: (value) =>
      isNumbers(value)
        ? Result.map(configured.webhookBackoff.parse(value.map((wait) => whole(wait, 1_000)).join()), () => value)
        : Result.fail(value)
  },
  hostName: text(configured.inboundHostname),
  postmaster: orNull(text(configured.inboundPostmaster)),
  inboundEnvironment: oneOf("sandbox", "production"),
  dmarcReject: oneOf("refuse", "spam")
}

const isTargets = (value: unknown): value is TargetPolicy =>
  Predicate.hasProperty(value, "allowHttp") &&
  Predicate.isBoolean(value.allowHttp) &&
  Predicate.hasProperty(value, "allowedBlocks") &&
  isTexts(value.allowedBlocks) &&
  value.allowedBlocks.every(PublicAddress.isBlock)

const addressRule = text(configured.publicUrl)

interface Want {
  readonly wants: string
  readonly isMet: (value: unknown) => boolean
}

const adapter = (port: string): Want => ({ wants: `an adapter's layer of ${port}`, isMet: Layer.isLayer })

const optional = ({ wants, isMet }: Want): Want => ({ wants: `${wants}, or to be left out`, isMet: (value) => value === undefined || isMet(value) })

export const isProvider = (value: unknown): value is MailProvider =>
  Predicate.hasProperty(value, "name") &&
  Predicate.hasProperty(value, "submit") &&
  Predicate.hasProperty(value, "poll") &&
  Predicate.isString(value.name) &&
  value.name !== "" &&
  Predicate.isFunction(value.submit) &&
  Predicate.isFunction(value.poll)

export const isIntakes = (value: unknown): value is ReadonlyArray<NotificationIntake> =>
  Array.isArray(value) &&
  value.every(
    (one) =>
      Predicate.hasProperty(one, "name") &&
      Predicate.hasProperty(one, "receive") &&
      Predicate.isString(one.name) &&
      one.name !== "" &&
      Predicate.isFunction(one.receive)
  )

const rules: { readonly [K in keyof Required<Options>]: Want } = {
  store: adapter("Store"),
  queue: adapter("JobQueue"),
  blobs: adapter("BlobStore"),
  crypto: adapter("Crypto"),
  mime: adapter("Mime"),
  scanner: adapter("Scanner"),
  webhooks: adapter("WebhookTransport"),
  provider: {
    wants: "a MailProvider, an Effect that makes one, or null: production mail waits",
    isMet: (value) => value === null || Effect.isEffect(value) || isProvider(value)
  },
  sandbox: optional({ wants: "a MailProvider", isMet: isProvider }),
  intakes: optional({ wants: "an Effect that makes a list of intakes", isMet: Effect.isEffect }),
  limiter: optional(adapter("RateLimiter")),
  resolver: optional(adapter("Resolver")),
  authenticator: optional(adapter("MailAuthenticator")),
  spamFilter: optional(adapter("SpamFilter")),
  settings: optional({ wants: "settings by their names", isMet: Predicate.isObject }),
  address: optional({ wants: addressRule.wants, isMet: (value) => Result.isSuccess(addressRule.parse(value)) }),
  log: optional({ wants: "a function that takes a line", isMet: Predicate.isFunction })
}
