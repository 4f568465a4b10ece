/**
 * Whether a message in prose is a report at all. No single sign decides: who
 * sends it, what it is called, how it is built and how it begins are each worth
 * something, and what a person, a list or an absence note would have counts
 * against it. Taking a letter for a bounce is worse than missing a bounce.
 */
import type { Prose } from "./BounceText.ts"
import {
  absenceSubjects, deliveredStatements, delayStatements, failureStatements, finalStatements, otherStatements, permanentReasons,
  quotaReasons, scannerSubjects, strongSubjects
} from "./BouncePhrases.ts"
import { folded, matching } from "./MailText.ts"
import type { ParsedMessage } from "./ParsedMessage.ts"

/** Of the server's own words, so much can say that it is a report. */
const statementLengthMax = 6_000
const openingLength = 1_500
const subjectLengthMax = 1_000

/** With this score, and more, prose is a report's. */
export const scoreMin = 7

export interface Evidence {
  /** 0: anybody; 1: the name of a mail system, and no other sign of one; 2: a role, or no Return-Path; 3 and more: a mail system. */
  readonly sender: number
  /** All that speaks for a report, less what speaks against it. */
  readonly score: number
  /** What it says of delivery; null if nothing. */
  readonly says: "failed" | "delayed" | "delivered" | null
  /** It is certain to be something else. */
  readonly isOther: boolean
}

/** What was found in the text and beside it. */
export interface Found {
  readonly recipients: number
  /** Of the recipients, those with a code. */
  readonly codes: number
  /** The message that it speaks of, or its header. */
  readonly hasOriginal: boolean
}

/** The first value of a header field. */
export const headerValue = (message: ParsedMessage, name: string): string | null =>
  message.headers.find((header) => header.name.toLowerCase() === name)?.value ?? null

/** It calls itself a report, whether or not its parts hold together. */
export const isReportShaped = (message: ParsedMessage): boolean =>
  message.structure.mediaType.toLowerCase() === "multipart/report" || /^\s*multipart\/report\b/i.test(headerValue(message, "content-type") ?? "")

/** What can be told of a message without its text. */
export interface Bearing {
  /** Of its Return-Path; undefined: not known. */
  readonly path: string | undefined
  /** What its author's name and address are worth. */
  readonly from: number
  /** The same with what its Return-Path is worth. */
  readonly sender: number
  /** Folded. */
  readonly subject: string
  /** It is called as reports are. */
  readonly isTitled: boolean
  /** Nobody who sends reports sends it, and it is not called one: only its shape could make it one. So is nearly all mail. */
  readonly isStranger: boolean
}

/** `returnPath`: as the envelope had it, null for the null sender; undefined where only the header can tell. */
export const bearingOf = (message: ParsedMessage, returnPath?: string | null): Bearing => {
  const path = returnPath === undefined ? headerValue(message, "return-path")?.replace(/[<>\s]/g, "") ?? undefined : returnPath ?? ""
  const from = fromScore(message, path)
  const sender = from + pathScore(message, path)
  const subject = folded(message.subject.slice(0, subjectLengthMax))
  // Whoever has no name for it must at least call it so at once: tickets quote the titles of bounces.
  const isTitled = from > 0 ? strongSubjects.some((phrase) => subject.includes(phrase)) : beginsAsReport(subject)
  return { path, from, sender, subject, isTitled, isStranger: from === 0 && sender < 4 && !isTitled }
}

/** Whether a subject, folded, begins as that of a report does. */
const beginsAsReport = (subject: string): boolean => {
  const start = subject.trimStart()
  return strongSubjects.some((phrase) => start.startsWith(phrase))
}

/** What a message shows of itself. */
interface Seen {
  readonly message: ParsedMessage
  readonly path: string | undefined
  readonly isTitled: boolean
  readonly prose: Prose
  /** The first of its words, folded. */
  readonly opening: string
  readonly found: Found
  readonly says: Evidence["says"]
}

/** Each sign beside who sends it, and what it is worth: what a server's report has counts for it, what people and lists have against it. */
const signs: ReadonlyArray<readonly [weight: number, shows: (seen: Seen) => boolean]> = [
  [3, ({ isTitled }) => isTitled],
  [3, ({ message }) => isReportShaped(message)],
  [2, ({ says }) => says !== null],
  [1, ({ says, opening }) => says !== null && sayingOf(opening, "") !== null], // and says it at once
  [1, ({ found }) => found.hasOriginal],
  [1, ({ found }) => found.recipients > 0],
  [1, ({ found }) => found.codes > 0],
  [1, ({ message }) => /^auto-(generated|replied)/i.test(headerValue(message, "auto-submitted") ?? "")],

  [-6, ({ opening }) => otherStatements.some((phrase) => opening.includes(phrase))],
  [-5, ({ message }) => humanMailers.test(mailerOf(message))],
  [-4, ({ message }) => isAnswer(message.subject)],
  [-4, ({ prose }) => prose.isConversation],
  [-3, ({ message }) => isOfList(message)],
  [-3, ({ prose }) => greets(prose)],
  [-2, ({ prose }) => closes(prose)],
  [-2, ({ message }) => message.inReplyTo !== null && !/postmaster|microsoftexchange/.test(addressOf(message)) && !isDaemon(message)],
  [-2, ({ message, path }) => path !== undefined && path !== "" && !isServicePath(path.toLowerCase()) && !isDaemon(message)]
]

/** What speaks for a report, and against it. */
export const evidenceOf = (
  message: ParsedMessage,
  { path, from, sender, subject, isTitled, isStranger }: Bearing,
  prose: Prose,
  found: Found
): Evidence => {
  const words = folded(prose.lines.join("\n").slice(0, statementLengthMax))
  const opening = words.slice(0, openingLength)
  const givesReason = () => [...quotaReasons, ...permanentReasons].some((reason) => words.includes(reason))
  const says = sayingOf(words, subject) ?? (from > 0 && isTitled && (namesFailed(message) || givesReason()) ? "failed" : null)
  const seen: Seen = { message, path, isTitled, prose, opening, found, says }
  const score = signs.reduce((sum, [weight, shows]) => (shows(seen) ? sum + weight : sum), sender)
  const isCertainlyOther =
    (isStranger && !isReportShaped(message)) ||
    isOther(message, subject, sender) ||
    (from < 3 && isOfDesk(subject)) ||
    isScanner(message, subject, found)
  return { sender, says, score, isOther: isCertainlyOther }
}

/** Who found a virus tells it to many, and seldom what became of the message; if it was refused, there is a code. */
const isScanner = (message: ParsedMessage, subject: string, found: Found): boolean =>
  found.codes === 0 && !isReportShaped(message) && scannerSubjects.some((word) => subject.includes(word)) &&
  !beginsAsReport(subject)

/** Words on a delay count until it is said that nobody tries any more; under a title of failure, only at the beginning. */
const sayingOf = (words: string, subject: string): Evidence["says"] => {
  const isFinal = finalStatements.some((phrase) => words.includes(phrase))
  const ofDelay = finalSubjects.test(subject) ? words.slice(0, 600) : words
  const isDelay = () =>
    delaySubjects.test(subject) || delayStatements.some((phrase) => ofDelay.includes(phrase) || subject.includes(phrase))
  if (!isFinal && isDelay()) return "delayed"
  if (deliveredSubjects.test(subject) || deliveredStatements.some((phrase) => words.includes(phrase))) return "delivered"
  return isFinal || failureStatements.some((phrase) => words.includes(phrase)) ? "failed" : null
}

const finalSubjects = /\(failure\)|failure notice|returning message|returned to sender|undeliverable|returned mail|permanent|delivery failed|unzustellbar|non remis/
const delaySubjects = /\((?:delay|delayed|warning)\)|^(?:delay|verzögert|retardé|pending)(?!\p{L})|\bdelayed\b|^warning: (?:could not|message)/u
const deliveredSubjects = /\((?:success|relay|relayed)\)|^(?:delivered|relayed|zugestellt|remis|entregado|successful mail delivery)\b/

const daemonLocals = matching("", "", [
  "^(?:mailer|mail|mailserver|maildelivery)[._-]?(?:daemon|deamon)\\b", "^mailerdaemon", "^mdaemon$",
  "^maildelivery", "^mail[._-]?delivery", "^mail[._-]?system", "^microsoftexchange", "^bounce[ds]?$",
  "^mailbounce", "^ndr$", "^non-?delivery", "^undeliver", "^returned-?mail", "^mail-?robot", "^smtp-?daemon",
  "^delivery-?subsystem", "^mta$", "smtp_mail_service", "^mmdf$", "^uucp$"
], "")
const roleLocals = /^post[._-]?master\b|^postmaster|^post[._-]?office$|^sys[._-]?admin$|^system[._-]?administrator$|^mail[._-]?admin|^mailer$|^mailmaster$|^mail-?server$|^smtp$|^mail$|^daemon$/
const daemonNames = matching("", String.raw`^["']?(?:`, [
  "(?:internet |e-?mail |the )?mail(?:er)?[ _-]?(?:deliver(?:y)?(?: (?:sub)?system| service| agent)?|er[ -]daemon|daemon|system|subsystem|delivery status)",
  "mail delivery", "e-?mail delivery system", "mdaemon\\b.*", "mailer[-_ ]?daemon", "delivery (?:sub)?system",
  "microsoft exchange", "microsoft outlook", "system administrator", "systemadministrator",
  "administrateur système", "administrador del sistema", "administrador do sistema", "postmaster",
  "mail administrator", "returned mail", "mail router", "interscan (?:mss|notification)", "bounce(?:d mail)?",
  "自动退信", "系统退信", "系统管理员", "邮件系统"
], String.raw`)["']?$`)

/** A mail system's name is easily taken; whoever has one and a Return-Path of his own at once is somebody else. */
const fromScore = (message: ParsedMessage, path: string | undefined): number => {
  const raw = headerValue(message, "from") ?? ""
  const address = (message.from?.address || raw.slice(0, 200)).trim().toLowerCase()
  const local = address.slice(0, address.includes("@") ? address.lastIndexOf("@") : undefined).replace(/["<>]/g, "")
  const name = (message.from?.name ?? "").trim().toLowerCase()
  if (daemonLocals.test(local)) return 3
  const isOwnPath = path !== undefined && path !== "" && !isServicePath(path.toLowerCase()) && !roleLocals.test(path.toLowerCase().replace(/@.*$/, ""))
  return roleLocals.test(local) ? 2 : !daemonNames.test(name) ? 0 : isOwnPath ? 1 : 2
}

const namesFailed = (message: ParsedMessage): boolean => headerValue(message, "x-failed-recipients") !== null

const pathScore = (message: ParsedMessage, path: string | undefined): number =>
  (namesFailed(message) ? 4 : 0) +
  (path === "" ? 2 : path !== undefined && daemonLocals.test(path.toLowerCase()) ? 1 : 0)

const humanMailers = matching("i", "", [
  "thunderbird", "apple mail", "iphone mail", "ipad mail", "\\bmutt\\b", "neomutt",
  "microsoft outlook(?! express bounce)", "outlook express", "evolution", "kmail", "roundcube", "the bat!",
  "eudora", "claws", "sylpheed", "postbox", "alpine", "\\bpine\\b", "squirrelmail", "airmail", "mailmate",
  "fairemail", "k-9", "gnus", "horde", "webmail", "zimbra \\d.*zimbrawebclient", "mailchimp", "campaign"
], "")

const mailerOf = (message: ParsedMessage): string =>
  `${headerValue(message, "user-agent") ?? ""} ${headerValue(message, "x-mailer") ?? ""}`.slice(0, 300)

const addressOf = (message: ParsedMessage): string => message.from?.address.toLowerCase() ?? ""

const isDaemon = (message: ParsedMessage): boolean => daemonLocals.test(addressOf(message))

const isServicePath = (path: string): boolean => daemonLocals.test(path) || /^mailer|bounce|noreply|no-reply/.test(path)

/** `Re:`, `Fwd:` and their kin. */
export const isAnswer = (subject: string): boolean =>
  /^\s*(?:re|aw|fwd?|wg|rv|tr|sv|vs|antw|antwort|odp|pd|rif|r|i|enc|res|ynt|回复|转发|答复|返信|転送)\s?(?:\[\d+\])?\s?[:：]/i.test(subject.slice(0, 40))

const people = matching("u", "^(?:", [
  "[Hh]i", "[Hh]ello", "[Hh]ey", "[Dd]ear", "Hallo", "Liebe[rs]?", "Bonjour", "Cher", "Chère", "Hola", "Estimad[oa]", "Ciao",
  "Caro", "Cara", "Olá", "Prezad[oa]", "Beste", "Cześć", "Drogi", "Moin", "Servus", "Guten (?:Tag|Morgen)",
  "[Gg]ood (?:morning|afternoon|evening)"
], String.raw`)[\s,]+(?!Sir|Madam|User|Customer|Sender|Client|Kunde|Nutzer|This|Postmaster|Mail)` +
  String.raw`(?:[A-ZÀ-Þ][\p{L}'-]+|all|team|everyone|both|zusammen|there|folks)\b`)
const closings = matching("iu", String.raw`^(?:`, [
  "(?:best|kind|warm|with kind|many thanks and)?\\s?(?:regards|wishes)", "cheers", "thanks", "many thanks",
  "thank you", "best", "yours", "sincerely", "mfg",
  "(?:viele|beste|liebe|freundliche|mit freundlichen)\\s?grü(?:ße|ßen|sse|ssen)", "lg", "gruß", "cordialement",
  "bien à vous", "saludos", "un saludo", "atenciosamente", "abraços", "saluti", "cordiali saluti", "groeten",
  "groetjes", "met vriendelijke groet", "pozdrawiam", "с уважением"
], String.raw`)[\s,.!]*$`)

const greets = ({ lines }: Prose): boolean => lines.filter((line) => line !== "").slice(0, 3).some((line) => people.test(line.slice(0, 80)))
const closes = ({ lines }: Prose): boolean => lines.slice(-40).some((line) => line.length < 60 && closings.test(line))

/** A number that somebody's desk gave, or a report on a time; a bounce of such mail has its own title before it. */
const ticketSubjects = /(?:^|[[(\s])(?:ticket|case|request|incident|issue)[\s:#-]{0,3}\d|\[#\d{1,20}\]|^(?:your |the )?(?:hourly|daily|weekly|monthly)\b/

const isOfDesk = (subject: string): boolean =>
  ticketSubjects.test(subject) && !beginsAsReport(subject)

const isOfList = (message: ParsedMessage): boolean =>
  ["list-id", "list-unsubscribe", "list-post"].some((name) => headerValue(message, name) !== null)

const isOther = (message: ParsedMessage, subject: string, sender: number): boolean => {
  if (!beginsAsReport(subject) && absenceSubjects.some((phrase) => subject.includes(phrase))) return true
  if (/^(?:postfix smtp server: errors from|cron <|bounce action notification|report domain:|\[?dmarc\]?)/.test(subject)) return true
  const has = (name: string) => headerValue(message, name) !== null
  if (["x-autoreply", "x-autorespond", "x-autoresponder", "x-vacation", "x-cron-env", "x-list-administrivia"].some(has)) return true
  if (/vacation/i.test(headerValue(message, "auto-submitted") ?? "") || /auto[_-]?reply/i.test(headerValue(message, "precedence") ?? "")) return true
  return sender < 2 && isOfList(message)
}
