/**
 * MailProvider over SMTP submission: a relay or smarthost that takes this
 * service's mail and delivers it. The bytes arrive as they came, with a
 * DKIM-Signature before them where there is a key for their author, and with
 * every line end as CRLF.
 *
 * What the server says before MAIL FROM, and what it says of the session
 * rather than of the message, makes it unavailable and bounces nobody: it is
 * the operator's to mend. Delivery notices come by mail, so there is nothing
 * to poll; a submission is named after its message, whose id stands in the
 * Message-ID, and in the server's log with it.
 */
import { Duration, Effect, Stream, type Redacted, type Scope } from "effect"
import type { Envelope } from "../../core/model/Envelope.ts"
import { MailProviderUnavailable, SubmissionRefused, type MailProvider } from "../../core/ports/MailProvider.ts"
import * as Dkim from "./Dkim.ts"
import type { SmtpFailed } from "./SmtpAnswer.ts"
import * as SmtpPool from "./SmtpPool.ts"
import { wireLines } from "./WireLines.ts"

export type { DkimKey } from "./Dkim.ts"

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
  /** For one message in all, once it has a connection's place. */
  readonly submit: Duration.Input
  /** How long a connection is kept without a message. */
  readonly idle: Duration.Input
}

export const defaults = {
  connectionsMax: 5,
  messagesPerConnectionMax: 100,
  timeouts: { connect: "1 minute", greeting: "30 seconds", socket: "5 minutes", submit: "9 minutes", idle: "30 seconds" }
} as const satisfies Partial<Options>

/** Connects when there is something to submit; the scope closes what is open. Dies at once on options that cannot work. */
export const make = (options: Options): Effect.Effect<MailProvider, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { settings, limits, sign } = yield* Effect.sync(() => check(options))
    const pool = yield* SmtpPool.make(settings, limits)
    return {
      name,
      submit: Effect.fnUntraced(function* ({ messageId, envelope, sizeBytes, mime }) {
        const recipients = yield* Effect.sync(() => checkEnvelope(envelope))
        const lines = wireLines(mime)
        const signatures = yield* sign(lines)
        const bytes = signatures.length === 0 ? lines : Stream.concat(Stream.make(signatures), lines)
        const answer = yield* pool
          .use((connection) => connection.send({ ...envelope, recipients }, sizeBytes + signatures.length, bytes))
          .pipe(Effect.catchTag("SmtpFailed", (cause: SmtpFailed) => Effect.fail(new MailProviderUnavailable({ cause }))))
        if (answer._tag === "Refused") return yield* new SubmissionRefused({ reply: answer.reply })
        return { providerMessageId: messageId, replies: answer.replies, pollAt: null }
      }),
      poll: () => Effect.succeed({ notifications: [], pollAt: null })
    }
  })

const name = "smtp"

const check = (options: Options) => {
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
      socketTimeout: Duration.fromInputUnsafe(timeouts.socket)
    },
    limits: {
      connectionsMax,
      messagesPerConnectionMax,
      submitTimeout: Duration.fromInputUnsafe(timeouts.submit),
      idleTimeout: Duration.fromInputUnsafe(timeouts.idle)
    }
  }
}

/** The core's addresses cannot end a command. That none does is too dear to be taken on trust. */
const checkEnvelope = ({ returnPath, recipients }: Envelope): Envelope["recipients"] => {
  for (const address of returnPath === null ? recipients : [returnPath, ...recipients]) {
    if (!/^[!-;=?-~]{1,64}@[A-Za-z0-9.-]{1,253}$/.test(address)) {
      throw new Error("an address of the envelope is no plain address")
    }
  }
  if (recipients.length === 0) throw new Error("an envelope has a recipient")
  return [...new Set(recipients)]
}
