/**
 * What an SMTP server's words come to: the reply of each recipient, the refusal
 * of a message, or no answer at all. Pure; judges nothing that the core judges.
 */
import { Data, Result } from "effect"
import type { NodemailerError } from "nodemailer/lib/errors"
import type { Address } from "../../core/model/Address.ts"
import { classify, replyTextMax, type Reply } from "../../core/model/Reply.ts"
import type { SubmitResult } from "../../core/ports/MailProvider.ts"
import { shown, type Secrets } from "./SmtpSettings.ts"

/** The outcome is unknown, or nothing was tried. Says nothing of the message, and no secret. */
export class SmtpFailed extends Data.TaggedError("SmtpFailed")<{
  /** What was waited for: `CONN`, `AUTH PLAIN`, `MAIL FROM`, `DATA`. */
  readonly command: string
  readonly detail: string
  /** Only an idle connection was lost: the server has nothing of the message, and another connection may be tried. */
  readonly isStale: boolean
}> {
  override get message() {
    return `${this.command}: ${this.detail}`
  }
}

export const failed = (command: string, detail: string, isStale = false): SmtpFailed =>
  new SmtpFailed({ command, detail: detail.slice(0, 500).toWellFormed(), isStale })

/** It waited, and its process would not hear what became of it (`SubmitRequest.isWanted`). */
export const wantedNoMore = (): SmtpFailed => failed("CONN", "it was wanted no more while it waited")

export type Answer =
  | { readonly _tag: "Replied"; readonly replies: SubmitResult["replies"] }
  | { readonly _tag: "Refused"; readonly reply: Reply }

/** How the sending of a message ended, in nodemailer's words. */
export interface Ending {
  readonly recipients: ReadonlyArray<Address>
  /** The server's last word on the message, or why there is none. */
  readonly result: Result.Result<string, NodemailerError>
  /** What the sender was refused with; null: it was not, or nothing was said of it. */
  readonly senderRefusal: NodemailerError | null
  /** What recipients were refused with. */
  readonly refusals: ReadonlyArray<NodemailerError>
  /** Whether the connection carried another message before. */
  readonly isReused: boolean
  /** Whether a byte of the message was asked for, and whether all of it, with the dot at its end, was written. */
  readonly hasBegun: boolean
  readonly isWritten: boolean
  readonly secrets: Secrets
}

export const conclude = (ending: Ending): Result.Result<Answer, SmtpFailed> =>
  Result.match(ending.result, { onSuccess: (said) => taken(ending, said), onFailure: (error) => refused(ending, error) })

const taken = (ending: Ending, said: string): Result.Result<Answer, SmtpFailed> => {
  const { recipients, isWritten, secrets } = ending
  const reply = parse(said, secrets)
  if (!isWritten) return Result.fail(failed("DATA", "the server answered before the end of the message"))
  if (reply === null) return Result.fail(failed("DATA", `not understood: ${shown(said, secrets)}`))
  return Result.succeed(replied(recipients, own(ending), reply))
}

const refused = (ending: Ending, lost: NodemailerError): Result.Result<Answer, SmtpFailed> => {
  const error = isDefinite(lost) ? lost : (refusedBefore(ending) ?? lost)
  const command = error.command ?? "CONN"
  const isUntouched = ending.isReused && !ending.hasBegun
  const unknown = (isStale: boolean) => Result.fail(failed(command, describe(error, ending.secrets), isStale))

  if (error.code === "EMESSAGE" && error.response === undefined) return Result.succeed(tooLarge(error))
  if (!isDefinite(error) || (error.responseCode === 421 && isUntouched)) return unknown(isUntouched)

  const answer = judge(ending.recipients, command, own(ending), parse(error.response ?? "", ending.secrets))
  return answer === null ? unknown(false) : Result.succeed(answer)
}

/**
 * What a refusal comes to that was the reply to this command: of the sender, of everybody, or of the message. Null:
 * it is about us, or no refusal, and says nothing of the message.
 */
export const judge = (
  recipients: ReadonlyArray<Address>,
  command: string,
  refusals: ReadonlyMap<string, Reply>,
  last: Reply | null
): Answer | null => {
  // After a refused sender, each recipient is refused for want of one.
  const replies = command === "MAIL FROM" ? new Map<string, Reply>() : refusals
  const everybody = replies.size === new Set(recipients).size
  const reply = everybody ? replies.values().next().value! : last // there is somebody
  if (reply === null || reply.smtpCode < 400) return null
  const isOperators = command === "MAIL FROM" ? isAboutUs : isAboutSession
  if (everybody ? [...replies.values()].every(isAboutUs) : isOperators(reply)) return null
  // What was refused for good need not be asked again; a message refused for good is refused for all.
  return everybody || (replies.size > 0 && classify(reply) === "transient")
    ? replied(recipients, replies, reply)
    : { _tag: "Refused", reply }
}

/** What nobody is left to be mailed after, and nodemailer keeps to itself when the connection ends before its reply to DATA. */
const refusedBefore = (ending: Ending): NodemailerError | null => {
  const { hasBegun, recipients, refusals, senderRefusal } = ending
  if (hasBegun) return null
  return senderRefusal ?? (own(ending).size === new Set(recipients).size ? (refusals.at(-1) ?? null) : null)
}

/** A whole reply to a command, rather than what was left of one when the connection ended. */
const isDefinite = ({ code, responseCode }: NodemailerError): boolean =>
  code === "EENVELOPE" || code === "EMESSAGE" || responseCode === 421

/** The server said how much it takes (RFC 1870), and was not asked. */
export const tooLarge = ({ message }: { readonly message: string }): Answer => ({
  _tag: "Refused",
  reply: { smtpCode: 552, enhancedCode: "5.3.4", text: message }
})

/** The server does not take 8BITMIME, and the message cannot do without (RFC 6152, 3). */
export const needsEightBit: Answer = {
  _tag: "Refused",
  reply: { smtpCode: 554, enhancedCode: "5.6.3", text: "the message has 8-bit lines, and the server does not offer 8BITMIME" }
}

const own = ({ refusals, secrets }: Ending): ReadonlyMap<string, Reply> =>
  new Map(refusals.map(({ recipient, response }) => [recipient ?? "", parseOrDefer(response ?? "", secrets)]))

export const replied = (recipients: ReadonlyArray<Address>, own: ReadonlyMap<string, Reply>, otherwise: Reply): Answer => ({
  _tag: "Replied",
  replies: recipients.map((recipient) => ({ recipient, reply: own.get(recipient) ?? otherwise }))
})

/** nodemailer's words, and the server's. */
export const describe = (error: NodemailerError, secrets: Secrets): string =>
  `${error.originalCode ?? error.code ?? "error"} ${shown(error.message, secrets)}`

/** From all lines of a reply, with their codes. Null if it is none that ends a command: 2yz, 4yz or 5yz. */
export const parse = (said: string, secrets: Secrets): Reply | null => {
  const lines = said.slice(0, 4 * replyTextMax).split(/\r?\n/)
  const [, code] = /^([245]\d\d)(?:[ -]|$)/.exec(lines[0]!) ?? [] // a text has a first line
  if (code === undefined) return null
  const [, enhanced] = /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})(?= |$)/.exec(lines[0]!) ?? []
  const text = lines
    .map((line) => line.replace(/^\d{3}(?:[ -]|$)/, "").replace(/^[245]\.\d{1,3}\.\d{1,3}(?: |$)/, ""))
    .join(" ")
    .trim()
  return {
    smtpCode: Number(code),
    // It refines the code, and cannot turn a yes into a no.
    enhancedCode: enhanced !== undefined && (code[0] === "2") === (enhanced[0] === "2") ? enhanced : null,
    text: text === "" ? null : shown(text, secrets).slice(0, replyTextMax).toWellFormed()
  }
}

/** For one recipient among others, of words that were no yes: who got no sensible answer is asked for again. */
export const parseOrDefer = (said: string, secrets: Secrets): Reply => {
  const reply = parse(said, secrets)
  // Of lines of several codes the first may be a yes.
  return reply !== null && reply.smtpCode >= 400
    ? reply
    : {
        smtpCode: 451,
        enhancedCode: "4.5.0",
        text: `not understood: ${shown(said, secrets)}`.slice(0, replyTextMax).toWellFormed()
      }
}

/**
 * Codes that answer our session, whatever the command was: 503 (out of
 * sequence), and what RFC 3207 and RFC 4954 say to a client that has not
 * encrypted or signed in. They are the operator's to mend, and no reason to
 * give a message up.
 */
const sessionCodes: ReadonlySet<number> = new Set([503, 530, 534, 535, 538])

const isAboutSession = ({ smtpCode }: Reply): boolean => sessionCodes.has(smtpCode)

/**
 * A relay that refuses a sender, or every recipient alike, for who we are: by policy (5.7.z:
 * our address or name is not on its list), or because of the sender (5.1.7,
 * 5.1.8). It is said at RCPT by servers that put off what they think of their
 * client, and is the operator's to mend too.
 */
const isAboutUs = (reply: Reply): boolean =>
  isAboutSession(reply) || /^5\.(7\.\d+|1\.[78])$/.test(reply.enhancedCode ?? "") || saysRelay.test(reply.text ?? "")

/** How servers without enhanced codes say it. */
const saysRelay = /\b(relay(ing)?\b.*\b(denied|not permitted|prohibited)|unable to relay|not permitted to relay|rcpthosts)/i
