/**
 * What an operator says of the mail server, and what is made of it: one set of
 * options for every provider that submits to one. Nothing that cannot work, or
 * would send a password in the clear, gets past `check`.
 */
import { Duration, Redacted } from "effect"
import type { Address } from "../../core/model/Address.ts"
import type { Envelope } from "../../core/model/Envelope.ts"
import * as Dkim from "./Dkim.ts"

export interface Options {
  /** A host name or an IP address. */
  readonly host: string
  readonly port: number
  /**
   * `implicit`: TLS from the first byte, as on port 465. `starttls`: upgraded before anything is said, as on port
   * 587; a server that does not is not used. `none`: clear text, for a relay on this machine; not with `auth`.
   */
  readonly tls: "implicit" | "starttls" | "none"
  readonly auth?: { readonly user: string; readonly password: Redacted.Redacted<string> } | null
  /** The name that the server's certificate is for; the host, unless said otherwise. */
  readonly servername?: string | null
  /** Certificates in PEM that are trusted beside those that Node trusts. */
  readonly ca?: string | null
  /** What we call ourselves, a host name or an address literal; this machine's name, unless said otherwise. */
  readonly ehloName?: string | null
  /** A message is signed with all keys for the domain of its From field. */
  readonly dkim?: ReadonlyArray<Dkim.DkimKey>
  /** The provider that pipelines may have as many again, while the server has fallen silent on some. */
  readonly connectionsMax?: number
  readonly messagesPerConnectionMax?: number
  readonly timeouts?: Partial<Timeouts>
}

export interface Timeouts {
  /** Until a connection is encrypted and signed in, from looking up the host on. */
  readonly connect: Duration.Input
  /** From the connection to the server's first word. */
  readonly greeting: Duration.Input
  /** Without a word, or a byte taken, from the server. RFC 5321 wants 5 minutes. */
  readonly socket: Duration.Input
  /**
   * The same behind the end of a message, which the server may have taken: who gives it up too soon has it mailed twice.
   * RFC 5321 wants 10 minutes; the time to submit ends it sooner.
   */
  readonly end: Duration.Input
  /** For one message in all, once it has a connection's place. */
  readonly submit: Duration.Input
  /** How long a connection is kept without a message. */
  readonly idle: Duration.Input
}

export const defaults = {
  connectionsMax: 5,
  messagesPerConnectionMax: 100,
  timeouts: { connect: "1 minute", greeting: "30 seconds", socket: "5 minutes", end: "10 minutes", submit: "9 minutes", idle: "30 seconds" }
} as const satisfies Partial<Options>

/** For one connection. */
export interface Settings {
  readonly host: string
  readonly port: number
  readonly tls: "implicit" | "starttls" | "none"
  readonly servername: string | null
  readonly ca: string | null
  readonly ehloName: string | null
  readonly auth: { readonly user: string; readonly password: Redacted.Redacted<string> } | null
  readonly connectTimeout: Duration.Duration
  readonly greetingTimeout: Duration.Duration
  readonly socketTimeout: Duration.Duration
  readonly endTimeout: Duration.Duration
}

/** For all of them. */
export interface Limits {
  readonly connectionsMax: number
  readonly messagesPerConnectionMax: number
  readonly idleTimeout: Duration.Duration
  readonly submitTimeout: Duration.Duration
}

/** What `message.sent` shows, whichever provider did it. */
export const name = "smtp"

/** How much of a reply is taken in before the server is given up. */
export const replySizeMax = 64 * 1024

interface Checked {
  readonly sign: Dkim.Signer
  readonly settings: Settings
  readonly limits: Limits
}

/** Throws on options that cannot work. */
export const check = (options: Options): Checked => {
  const auth = options.auth ?? null
  const ehloName = options.ehloName ?? null
  const { connectionsMax, messagesPerConnectionMax } = { ...defaults, ...options }
  const timeouts = { ...defaults.timeouts, ...options.timeouts }
  if (!/^[\w.:-]{1,253}$/.test(options.host)) throw new Error("the mail server's host is a host name or an IP address")
  if (!Number.isInteger(options.port) || options.port < 1 || options.port > 65_535) {
    throw new Error("the mail server's port is 1 to 65535")
  }
  if (auth !== null && options.tls === "none") {
    throw new Error("credentials are not sent in clear text: use TLS, or no credentials")
  }
  if (ehloName !== null && !/^(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Za-z:.]{2,60}\])$/.test(ehloName)) {
    throw new Error("the EHLO name is a host name or an address literal")
  }
  for (const bound of [connectionsMax, messagesPerConnectionMax]) {
    if (!Number.isInteger(bound) || bound < 1) {
      throw new Error("there is a place for at least one connection, and on it for one message")
    }
  }
  return {
    sign: Dkim.signer(options.dkim ?? []),
    settings: {
      host: options.host,
      port: options.port,
      tls: options.tls,
      servername: options.servername ?? null,
      ca: options.ca ?? null,
      ehloName,
      auth,
      connectTimeout: Duration.fromInputUnsafe(timeouts.connect),
      greetingTimeout: Duration.fromInputUnsafe(timeouts.greeting),
      socketTimeout: Duration.fromInputUnsafe(timeouts.socket),
      endTimeout: Duration.fromInputUnsafe(timeouts.end)
    },
    limits: {
      connectionsMax,
      messagesPerConnectionMax,
      submitTimeout: Duration.fromInputUnsafe(timeouts.submit),
      idleTimeout: Duration.fromInputUnsafe(timeouts.idle)
    }
  }
}

/**
 * The recipients, each once. The core's addresses cannot end a command. That none does is too dear to be taken on
 * trust: throws on one that could.
 */
export const checkEnvelope = ({ returnPath, recipients }: Envelope): ReadonlyArray<Address> => {
  for (const address of returnPath === null ? recipients : [returnPath, ...recipients]) {
    if (!/^[!-;=?-~]{1,64}@[A-Za-z0-9.-]{1,253}$/.test(address)) {
      throw new Error("an address of the envelope is no plain address")
    }
  }
  if (recipients.length === 0) throw new Error("an envelope has a recipient")
  return [...new Set(recipients)]
}

/** What nobody's words are to show. */
export type Secrets = Pick<Settings, "auth">

/** Somebody's words, unless they hold our credentials, in any form in which the server has seen them. */
export const shown = (text: string, { auth }: Secrets): string => {
  if (auth === null) return text
  const base64 = (plain: string) => Buffer.from(plain).toString("base64")
  const password = Redacted.value(auth.password)
  const forms = [password, base64(password), base64(`\0${auth.user}\0${password}`)]
  return forms.some((form) => form !== "" && text.includes(form)) ? "(not shown: the server quotes the credentials)" : text
}
