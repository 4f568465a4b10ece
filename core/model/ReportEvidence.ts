/**
 * Whether a message in prose is a report at all. No single sign decides: who
 * sends it, what it is called, how it is built and how it begins are each worth
 * something, and what a person, a list or an absence note would have counts
 * against it. Taking a letter for a bounce is worse than missing a bounce.
 */
import type { Prose } from "./BounceText.ts"
import { absenceSubjects, deliveredStatements, delayStatements, failureStatements, finalStatements, otherStatements, strongSubjects } from "./BouncePhrases.ts"
import { folded } from "./MailText.ts"
import type { ParsedMessage } from "./ParsedMessage.ts"

/** Of the server's own words, so much can say that it is a report. */
const statementLengthMax = 6_000
const openingLength = 1_500

export const scoreMin = 7

export interface Evidence {
  /** 0: anybody; 2: a role, or no Return-Path; 3 and more: a mail system. */
  readonly sender: number
  /** All that speaks for a report, less what speaks against it. */
  readonly score: number
  /** What it says of delivery; null if nothing. */
  readonly says: "failed" | "delayed" | "delivered" | null
  /** It is certain to be something else. */
  readonly isOther: boolean
}

/** The first value of a header field. */
export const headerValue = (message: ParsedMessage, name: string): string | null =>
  message.headers.find((header) => header.name.toLowerCase() === name)?.value ?? null

/** `returnPath`: as the envelope had it, null for the null sender; undefined where only the header can tell. */
export const evidenceOf = (
  message: ParsedMessage,
  prose: Prose,
  found: { readonly recipients: number; readonly codes: number; readonly hasOriginal: boolean },
  returnPath?: string | null
): Evidence => {
  const path = returnPath === undefined ? headerValue(message, "return-path")?.replace(/[<>\s]/g, "") ?? undefined : returnPath ?? ""
  const sender = senderOf(message, path)
  const words = folded(prose.lines.join("\n").slice(0, statementLengthMax))
  const says = sayingOf(words, folded(message.subject))
  const opening = words.slice(0, openingLength)
  const subject = folded(message.subject)
  const isReportShaped = message.structure.mediaType === "multipart/report"
  const pro =
    sender +
    (strongSubjects.some((phrase) => subject.includes(phrase)) ? 3 : 0) +
    (says !== null && sayingOf(opening, "") !== null ? 3 : says !== null ? 2 : 0) +
    (isReportShaped ? 3 : 0) +
    (found.hasOriginal || prose.hasCopy ? 1 : 0) +
    (found.recipients > 0 ? 1 : 0) +
    (found.codes > 0 ? 1 : 0) +
    (/^auto-(generated|replied)/i.test(headerValue(message, "auto-submitted") ?? "") ? 1 : 0)
  return { sender, says, score: pro - against(message, prose, opening, path), isOther: isOther(message, subject, sender) }
}

/** Words on a delay count until it is said that nobody tries any more. */
const sayingOf = (words: string, subject: string): Evidence["says"] => {
  const isFinal = finalStatements.some((phrase) => words.includes(phrase))
  if (!isFinal && delayStatements.some((phrase) => words.includes(phrase) || subject.includes(phrase))) return "delayed"
  if (!isFinal && /\((?:delay|delayed|warning)\)|^(?:delayed|delay|verzögert|retardé|pending)\b|\bdelayed\b|^warning: (?:could not|message)/.test(subject)) return "delayed"
  if (deliveredStatements.some((phrase) => words.includes(phrase))) return "delivered"
  if (/\((?:success|relay|relayed)\)|^(?:delivered|relayed|zugestellt|remis|entregado|successful mail delivery)\b/.test(subject)) return "delivered"
  return isFinal || failureStatements.some((phrase) => words.includes(phrase)) ? "failed" : null
}

const daemonLocals = /^(?:mailer|mail|mailserver|maildelivery)?[._-]?(?:daemon|deamon)\b|^mailerdaemon|^mdaemon$|^maildelivery|^mail[._-]?delivery|^mail[._-]?system|^microsoftexchange|^bounce[ds]?$|^mailbounce|^ndr$|^non-?delivery|^undeliver|^returned-?mail|^mail-?robot|^smtp-?daemon|^delivery-?subsystem|^mta$|^mmdf$|^uucp$|^<>$/
const roleLocals = /^post[._-]?master\b|^postmaster|^post[._-]?office$|^sys[._-]?admin$|^system[._-]?administrator$|^mail[._-]?admin|^mailer$|^mailmaster$|^smtp$|^mail$|^notification$/
const daemonNames = /^["']?(?:(?:internet |e-?mail |the )?mail(?:er)?[ -_]?(?:delivery(?: (?:sub)?system| service| agent)?|er[ -]daemon|daemon|system|subsystem|delivery status)|mail delivery|e-?mail delivery system|mdaemon\b.*|mailer[-_ ]?daemon|delivery (?:sub)?system|microsoft exchange|microsoft outlook|system administrator|systemadministrator|administrateur système|administrador del sistema|administrador do sistema|postmaster|mail administrator|returned mail|mail router|bounce(?:d mail)?|自动退信|系统退信|系统管理员|邮件系统)["']?$/

const senderOf = (message: ParsedMessage, path: string | undefined): number => {
  const raw = headerValue(message, "from") ?? ""
  const address = (message.from?.address || raw.slice(0, 200)).trim().toLowerCase()
  const local = address.includes("@") ? address.slice(0, address.lastIndexOf("@")).replace(/["<]/g, "") : address.replace(/["<>]/g, "")
  const name = (message.from?.name ?? "").trim().toLowerCase()
  const from = daemonLocals.test(local) ? 3 : Math.max(roleLocals.test(local) ? 2 : 0, daemonNames.test(name) ? 2 : 0)
  const failed = headerValue(message, "x-failed-recipients") === null ? 0 : 4
  return from + failed + (path === "" ? 2 : path !== undefined && daemonLocals.test(path.toLowerCase()) ? 1 : 0)
}

const humanMailers = /thunderbird|apple mail|iphone mail|ipad mail|\bmutt\b|neomutt|microsoft outlook(?! express bounce)|outlook express|evolution|kmail|roundcube|the bat!|eudora|claws|sylpheed|postbox|alpine|\bpine\b|squirrelmail|airmail|mailmate|fairemail|k-9|gnus|horde|webmail|zimbra \d.*zimbrawebclient|mailchimp|campaign/i

const against = (message: ParsedMessage, prose: Prose, opening: string, path: string | undefined): number => {
  const mailer = `${headerValue(message, "user-agent") ?? ""} ${headerValue(message, "x-mailer") ?? ""}`.slice(0, 300)
  const from = message.from?.address.toLowerCase() ?? ""
  const answers = message.inReplyTo !== null && !daemonLocals.test(from) && !/postmaster|microsoftexchange/.test(from)
  return (
    (isAnswer(message.subject) ? 4 : 0) +
    (humanMailers.test(mailer) ? 5 : 0) +
    (prose.isConversation ? 4 : 0) +
    (answers ? 2 : 0) +
    (otherStatements.some((phrase) => opening.includes(phrase)) ? 6 : 0) +
    (greets(prose) ? 3 : 0) +
    (closes(prose) ? 2 : 0) +
    (path !== undefined && path !== "" && !daemonLocals.test(path.toLowerCase()) && !/^mailer|bounce|noreply|no-reply/i.test(path) ? 2 : 0)
  )
}

/** `Re:`, `Fwd:` and their kin. */
export const isAnswer = (subject: string): boolean =>
  /^\s*(?:re|aw|fwd?|wg|rv|tr|sv|vs|antw|antwort|odp|pd|rif|r|i|enc|res|ynt|回复|转发|答复|返信|転送)\s?(?:\[\d+\])?\s?[:：]/i.test(subject.slice(0, 40))

const people = /^(?:hi|hello|hey|dear|hallo|liebe[rs]?|bonjour|cher|chère|hola|estimad[oa]|ciao|caro|cara|olá|prezad[oa]|beste|cześć|drogi|moin|servus|guten (?:tag|morgen)|good (?:morning|afternoon|evening))[\s,]+(?!sir|madam|user|customer|sender|client|kunde|nutzer|this|postmaster|mail)(?:[A-ZÀ-Þ][\p{L}'-]+|all|team|everyone|both|zusammen|there|folks)\b/u
const closings = /^(?:(?:best|kind|warm|with kind|many thanks and)?\s?(?:regards|wishes)|cheers|thanks|many thanks|thank you|best|yours|sincerely|mfg|(?:viele|beste|liebe|freundliche|mit freundlichen)\s?grü(?:ße|ßen|sse|ssen)|lg|gruß|cordialement|bien à vous|saludos|un saludo|atenciosamente|abraços|saluti|cordiali saluti|groeten|groetjes|met vriendelijke groet|pozdrawiam|с уважением)[\s,.!]*$/iu

const greets = ({ lines }: Prose): boolean => lines.filter((line) => line !== "").slice(0, 3).some((line) => people.test(line.slice(0, 80)))
const closes = ({ lines }: Prose): boolean => lines.slice(-40).some((line) => line.length < 60 && closings.test(line))

const isOther = (message: ParsedMessage, subject: string, sender: number): boolean => {
  const startsStrong = strongSubjects.some((phrase) => subject.trimStart().startsWith(phrase))
  if (!startsStrong && absenceSubjects.some((phrase) => subject.includes(phrase))) return true
  if (/^(?:postfix smtp server: errors from|cron <|bounce action notification|report domain:|\[?dmarc\]?)/.test(subject)) return true
  const has = (name: string) => headerValue(message, name) !== null
  if (has("x-autoreply") || has("x-autorespond") || has("x-autoresponder") || has("x-vacation") || has("x-cron-env") || has("x-list-administrivia")) return true
  if (/auto[_-]?reply/i.test(headerValue(message, "precedence") ?? "")) return true
  return sender < 3 && (has("list-id") || has("list-unsubscribe") || has("list-post"))
}
