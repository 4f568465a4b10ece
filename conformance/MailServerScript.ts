/** A scripted SMTP server, as the suites see it, and how they speak of what comes of submitting to it. */
import assert from "node:assert/strict"
import { Effect, Result, Stream, type Scope } from "effect"
import type { MailProvider, SubmitRequest } from "../core/ports/MailProvider.ts"
import { address, freshId, realm } from "./fixtures.ts"
import type { Check } from "./Suite.ts"

/** Where in a conversation: before the first command, at a command, at the first bytes after DATA, at the dot. */
export type Place =
  | "greeting"
  | "EHLO"
  | "HELO"
  | "STARTTLS"
  | "AUTH"
  | "MAIL"
  | "RCPT"
  | "DATA"
  | "bytes"
  | "message"
  | "RSET"
  | "QUIT"

export interface Moment {
  readonly place: Place
  /** What stands behind the verb. */
  readonly argument: string
  /** Counted from 1: the connection, and the message that was begun last on it, or will be first. */
  readonly connection: number
  readonly message: number
  readonly isEncrypted: boolean
}

/** What the server does; nothing at all, if there is nothing in it. */
export interface Step {
  /** Written as it is, so with its line ends. */
  readonly say?: string
  /** Says it in one piece, however it cuts its other replies: what is cut need not come together. */
  readonly isWhole?: boolean
  /** Says it again and again, a byte at a time, with a moment between. */
  readonly trickles?: boolean
  /** Goes on as a good server would have said `say`: into the message after DATA, into TLS after STARTTLS. */
  readonly goesOn?: boolean
  /** Does this, and takes up what else has come, when it is told to go on. */
  readonly waits?: boolean
  /** Reads no more. */
  readonly stalls?: boolean
  /** Then it drops the connection. */
  readonly drops?: boolean
}

/** Null for what a good server does. */
export type Script = (moment: Moment) => Step | null

export interface Conversation {
  /** Each line that was no message, in order. */
  readonly commands: ReadonlyArray<string>
  /** What came between DATA and the dot, as it was on the wire, a character for a byte. */
  readonly messages: ReadonlyArray<string>
  /** What has come so far of a message whose end has not. */
  readonly partial: string
  /** What has come and waits to be taken up. */
  readonly pending: string
  /** Commands that came behind another one, before the reply to it. */
  readonly overruns: number
  readonly isClosed: boolean
  readonly isEncrypted: boolean
  readonly saidBytes: number
}

export interface Server {
  readonly conversations: Effect.Effect<ReadonlyArray<Conversation>>
  /** Waits until it is so. */
  readonly until: (holds: (conversations: ReadonlyArray<Conversation>) => boolean) => Effect.Effect<void>
  /** On all open connections, unasked. */
  readonly say: (text: string) => Effect.Effect<void>
  readonly dropAll: Effect.Effect<void>
  /** Whoever waits goes on. */
  readonly goOn: Effect.Effect<void>
}

export interface Circumstances {
  /** The provider insists on STARTTLS, and trusts the server's certificate. */
  readonly startTls?: boolean
  /** The provider signs in. */
  readonly credentials?: { readonly user: string; readonly password: string }
  /** It gives a silent server up within a fraction of a second, in real time. */
  readonly isImpatient?: boolean
}

export interface Options<R> {
  /** A server that follows the script, and a provider that submits to it over one connection at a time. */
  readonly against: (
    script: Script,
    circumstances?: Circumstances
  ) => Effect.Effect<{ readonly provider: MailProvider; readonly server: Server }, unknown, R | Scope.Scope>
  /** The server offers PIPELINING, and the provider makes use of it. */
  readonly isPipelining?: boolean
}

export type Checks<R> = ReadonlyArray<Check<R>>

/** A message that is found by its id. */
export const mail = (recipients: ReadonlyArray<string> = ["charles"], body = "The engine weaves.\r\n"): SubmitRequest => {
  const messageId = freshId<SubmitRequest["messageId"]>()
  const text = `From: ada@example.com\r\nMessage-ID: <${messageId}@example.com>\r\nSubject: Note G\r\n\r\n${body}`
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0))
  return {
    realm: realm("production"),
    messageId,
    envelope: { returnPath: address("bounces"), recipients: recipients.map((local) => address(local)) },
    dkim: null,
    isWanted: () => true,
    sizeBytes: bytes.length,
    mime: Stream.make(bytes.subarray(0, 20), bytes.subarray(20))
  }
}

/** Said to be so large that nobody reads it before the server wants it. */
export const large = (request: SubmitRequest): SubmitRequest => ({ ...request, sizeBytes: 1_000_000 })

/** How a submission ended: `unavailable`, `refused 550`, or a code for each recipient. */
export const endOf = Effect.fnUntraced(function* (provider: MailProvider, request: SubmitRequest) {
  const outcome = yield* Effect.result(provider.submit(request))
  if (Result.isFailure(outcome)) {
    const error = outcome.failure
    if (error._tag === "SubmissionRefused") return `refused ${error.reply.smtpCode}`
    return error._tag === "MailProviderUnavailable" ? "unavailable" : error._tag
  }
  const { replies } = outcome.success
  assert.deepEqual(replies.map(({ recipient }) => recipient), request.envelope.recipients)
  return replies.map(({ reply }) => String(reply.smtpCode)).join(" ")
})

export const arrivals = (server: Server, request: SubmitRequest) =>
  Effect.map(server.conversations, (all) =>
    all.flatMap(({ messages }) => messages).filter((message) => message.includes(request.messageId))
  )

/** How often the verb was heard, over all connections. */
export const heard = (conversations: ReadonlyArray<Conversation>, verb: string): number =>
  conversations.flatMap(({ commands }) => commands).filter((command) => command.toUpperCase().startsWith(verb)).length

/** After whatever happened, the next message is accepted, and arrives once. */
export const assertGoesOn = Effect.fnUntraced(function* (provider: MailProvider, server: Server) {
  const next = mail(["mary"], "next\r\n")
  assert.equal(yield* endOf(provider, next), "250")
  assert.equal((yield* arrivals(server, next)).length, 1)
})

/** At this place of the first message on the first connection, and of no other. */
export const once =
  (place: Place, step: Step): Script =>
  (moment) =>
    moment.connection === 1 && moment.message === 1 && (moment.place === place || (place === "EHLO" && moment.place === "HELO")) ? step : null

export const secret: Circumstances = { startTls: true, credentials: { user: "engine", password: "difference-engine-no-2" } }

/** STARTTLS and AUTH are said by nobody who need not. */
export const circumstancesOf = (place: Place): Circumstances => (place === "STARTTLS" || place === "AUTH" ? secret : {})
